"""Reads a user's file of instances; a field map in TOML maps the names of its fields to ours.

    [fields]                        # our field = theirs; dots for nested fields and lists: "info.id", "tags.0"
    instance_id = "id"
    gold_index = "label"            # position of the right option

    [options]
    texts   = ["ans0", "ans1", "ans2"]
    groups  = ["tag0", "tag1", "tag2"]   # optional
    unknown = "unknown_place"            # position of the unknown option; a number is the position in every row
    target  = "target_place"             # position of the stereotyped person; empty in a row without a single one
    counted_from = 0                     # first position, also of gold_index: 0 or 1

    [constants]                     # the same in every row
    language  = "nl"

    [values.condition]              # theirs = ours
    ambig    = "ambiguous"

    [metadata]                      # our key = theirs; stored in the instance's metadata
    source = "url"

An unmapped field with the name of one of ours is used unchanged; other unmapped fields are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from mbbq_gen.benchmarks.instance_builder import option_role
from mbbq_gen.benchmarks.rows import RowLocation, json_row, note_file
from mbbq_gen.core.errors import UsageError, describe_fault
from mbbq_gen.core.records import Instance
from mbbq_gen.core.tables import UnreadableError, is_table, json_value, lines_of, table_rows
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack

FIELDS: Final = frozenset(Instance.model_fields)
NO_TARGET: Final = "no single target: the data names none"
_JSON_FIELDS: Final = ("options", "metadata", "data_issues")
_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}
Get = Callable[[str, str], Any]
"""(key of the field map, name of their field) → value, which may be empty; raises DataError for a missing field."""


class OptionFields(Pack):
    """The fields of the three options in a row."""

    texts: tuple[Text, ...] = Field(min_length=3, max_length=3)
    groups: tuple[Text, ...] | None = Field(default=None, min_length=3, max_length=3)
    unknown: int | Text
    target: int | Text
    counted_from: Literal[0, 1] = 0


class FieldMap(Pack):
    """The mapping of a user's fields to ours."""

    fields: dict[str, Text] = Field(default_factory=dict)
    options: OptionFields | None = None
    """None if their rows have our field `options`."""
    constants: dict[str, JsonValue] = Field(default_factory=dict)
    values: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Our field → their value as text → our value."""
    metadata: dict[str, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        known = FIELDS - {"options", "metadata"}
        for table, names in (("fields", self.fields), ("constants", self.constants), ("values", self.values)):
            if unknown := sorted(set(names) - known):
                raise ValueError(
                    f"{table}.{unknown[0]}: no such field; known: {', '.join(sorted(known))}"
                    " (options and metadata have tables of their own)"
                )
        if twice := sorted(set(self.fields) & set(self.constants)):
            raise ValueError(f"constants.{twice[0]}: is also in [fields]; take it out of one")
        return self


def _our_fields(row: Mapping[str, Any], field_map: FieldMap, path: Path, location: RowLocation) -> dict[str, Any]:
    """Maps a row to our fields, without empty ones; raises DataError for an invalid one."""

    def get(key: str, theirs: str) -> Any:
        found, value = look_up(row, theirs)
        if not found:
            raise location.error(
                f"no such field, but {path} has {key} = {theirs!r}; the row has: {', '.join(row)}", theirs
            )
        return value

    found = {name: value for name, value in row.items() if name in FIELDS}
    found |= {ours: get(f"fields.{ours}", theirs) for ours, theirs in field_map.fields.items()} | field_map.constants
    for ours, known in field_map.values.items():
        value = found.get(ours)
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        if is_empty(value):
            continue
        if text not in known:
            problem = f"{text!r} is not among {', '.join(known)}; add it to [values.{ours}] of {path}"
            raise location.error(problem, field_map.fields.get(ours, ours))
        found[ours] = known[text]
    if extra := {ours: get(f"metadata.{ours}", theirs) for ours, theirs in field_map.metadata.items()}:
        found["metadata"] = _with_metadata(found.get("metadata"), extra, location)
    if (options := field_map.options) is not None:
        found["options"] = _our_options(options, get, location)
        if all(option["role"] != "target" for option in found["options"]):
            found["has_single_target"] = False
            found.setdefault("no_target_reason", NO_TARGET)
        if not is_empty(gold := found.get("gold_index")):
            theirs = field_map.fields.get("gold_index", "gold_index")
            found["gold_index"] = _option_index(gold, options.counted_from, theirs, location)
    return {name: value for name, value in found.items() if not is_empty(value)}


def _our_options(options: OptionFields, get: Get, location: RowLocation) -> list[dict[str, Any]]:
    indexes: list[int | None] = []
    for key, given in (("options.unknown", options.unknown), ("options.target", options.target)):
        value, theirs = (given, key) if isinstance(given, int) else (get(key, given), given)
        indexes.append(None if is_empty(value) else _option_index(value, options.counted_from, theirs, location))
    unknown, target = indexes
    if unknown is None:
        raise location.error(
            "the position of the unknown option is missing; every question needs one", str(options.unknown)
        )
    if target == unknown:
        raise location.error("target and unknown option have the same position", str(options.target))
    texts = [get(f"options.texts[{index}]", theirs) for index, theirs in enumerate(options.texts)]
    groups = [get(f"options.groups[{index}]", theirs) or None for index, theirs in enumerate(options.groups or ())]
    return [
        {"role": option_role(index, unknown, target), "text": text, "group": group}
        for index, (text, group) in enumerate(zip(texts, groups or [None] * len(texts), strict=True))
    ]


def _option_index(value: Any, first: int, theirs: str, location: RowLocation) -> int:
    """Converts a user's option position, which counts from `first`, to an index from 0."""
    text = str(value).strip().removesuffix(".0")
    if not text.isdecimal() or not 0 <= int(text) - first <= 2:
        raise location.error(f"{value!r} is not the position of an option; possible: {first} to {first + 2}", theirs)
    return int(text) - first


def _with_metadata(metadata: Any, extra: Mapping[str, Any], location: RowLocation) -> dict[str, Any]:
    """A row's metadata with the non-empty values of `extra` added; raises DataError if it is not a table."""
    if not is_empty(metadata) and not isinstance(metadata, Mapping):
        raise location.error("is not an object of names and values", "metadata")
    return {**(metadata or {}), **{name: value for name, value in extra.items() if not is_empty(value)}}


def is_empty(value: Any) -> bool:
    """Whether a value is None or the empty string."""
    return value is None or value == ""


def look_up(row: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a row has a value at a dotted path, and the value; a field of exactly that name comes first."""
    if path in row:
        return True, row[path]
    value: Any = row
    for key in path.split("."):
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return False, None
    return True, value


def read_instances(path: Path, field_map: Path | None = None) -> Iterator[Instance]:
    """Yields the instances of a file in order: CSV, TSV or Parquet by its suffix, else JSON Lines.

    Args:
        field_map: a TOML file that maps the file's fields to ours; None if they have our names.

    Raises:
        UsageError, PackError: on the call, if a file is missing or the field map is invalid.
        DataError: during iteration, at the first invalid row or repeated key.
    """
    if not path.is_file():
        formats = "JSON Lines as `mbbq-gen data show --json` writes it, CSV or Parquet"
        raise UsageError(f"no file {path}; give a file of instances: {formats}")
    if field_map is None:
        return _unique(_instances(path, None, path))
    if not field_map.is_file():
        raise UsageError(f"--instances-field-map {field_map}: no such file; the guide on benchmarks shows one")
    return _unique(_instances(path, validate_pack(FieldMap, read_toml(field_map), field_map), field_map))


def _unique(rows: Iterable[tuple[RowLocation, Instance]]) -> Iterator[Instance]:
    """Yields the instances; raises DataError for a repeated key."""
    seen: dict[str, int] = {}
    for location, instance in rows:
        first = seen.setdefault(instance.key, location.row)
        if first != location.row:
            raise location.error(f"{instance.key!r} is already in row {first}; ids are unique", "instance_id")
        yield instance


def _instances(path: Path, field_map: FieldMap | None, map_path: Path) -> Iterator[tuple[RowLocation, Instance]]:
    """Yields the instances of a file; errors name our field and theirs."""
    of_table = is_table(path)
    names = field_map.fields if field_map else {}
    for number, given in table_rows(note_file(path)) if of_table else lines_of(note_file(path)):
        location = RowLocation(path, number)
        row = json_row(given, location) if isinstance(given, bytes) else given
        fields = _nested(row, location) if of_table else dict(row)
        if field_map is not None:
            fields = _typed(_our_fields({**row, **fields}, field_map, map_path, location), location)
        whole = {name: int(value) for name, value in fields.items() if isinstance(value, float) and value.is_integer()}
        try:
            yield location, Instance.model_validate(fields | whole)
        except ValidationError as error:
            path_in_row = error.errors(include_url=False, include_input=False, include_context=False)[0]["loc"]
            ours = str(path_in_row[0]) if path_in_row else ""
            theirs = names.get(ours, ours)
            other = f" (their field {theirs!r})" if theirs != ours else ""
            raise location.error(describe_fault(error, {}) + other) from error


def _nested(row: Mapping[str, Any], location: RowLocation) -> dict[str, Any]:
    """The typed, non-empty fields of a row of cells, with `options.0.text` and `metadata.x` nested."""
    fields: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    for name, value in _typed({name: value for name, value in row.items() if not is_empty(value)}, location).items():
        table, _, inner = name.partition(".")
        if table == "options" and inner:
            number, _, key = inner.partition(".")
            options.setdefault(number, {"role": None})[key] = value
        elif table == "metadata" and inner:
            metadata[inner] = value
        else:
            fields[name] = value
    if options:
        fields["options"] = [options[number] for number in sorted(options)]
    if isinstance(fields.get("metadata"), dict):  # a Parquet struct has the keys of all rows; missing ones are null
        fields["metadata"] = {name: value for name, value in fields["metadata"].items() if value is not None}
    if metadata:
        fields["metadata"] = _with_metadata(fields.get("metadata"), metadata, location)
    return fields


def _typed(fields: Mapping[str, Any], location: RowLocation) -> dict[str, Any]:
    """The fields, with JSON, option positions and booleans parsed from text."""
    typed = dict(fields)
    for name, text in fields.items():
        if not isinstance(text, str):
            continue
        if name in _JSON_FIELDS:
            try:
                typed[name] = json_value(text)
            except UnreadableError as error:
                raise location.error(str(error), name) from error
        elif name == "gold_index" and text.strip().isdecimal():
            typed[name] = int(text)
        elif name == "has_single_target":
            typed[name] = _TRUTHS.get(text.strip().casefold(), text)
    return typed
