"""Reads a user's own field names: a small TOML file says which of their fields is which of ours.

    [fields]                        # our field = theirs; a dot goes into a nested field or a list: "info.id", "tags.0"
    instance_id = "id"
    gold_index = "label"            # place of the right option

    [options]
    texts   = ["ans0", "ans1", "ans2"]
    groups  = ["tag0", "tag1", "tag2"]   # may be left out
    unknown = "unknown_place"            # place of the unknown option; a number is the place in every row
    target  = "target_place"             # place of the stereotyped person; empty in a row that has no single one
    counted_from = 0                     # whether places, and gold_index, are counted from 0 or 1

    [constants]                     # the same in every row
    language  = "nl"

    [values.condition]              # theirs = ours
    ambig    = "ambiguous"

    [metadata]                      # carried along under our name
    source = "url"

A field of theirs that has our name and is not mentioned is taken as it is; their other fields are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from mbbq_gen.benchmarks.instance_builder import option_role
from mbbq_gen.benchmarks.rows import RowLocation, json_row, note_file, read_json_lines
from mbbq_gen.core.errors import UsageError, describe_fault
from mbbq_gen.core.records import Instance
from mbbq_gen.core.tables import UnreadableError, is_table, json_value, lines_of, table_rows
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack

FIELDS: Final = frozenset(Instance.model_fields)
NO_TARGET: Final = "no single target: the data names none"
_JSON_FIELDS: Final = ("options", "metadata", "data_issues")
_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}


class OptionFields(Pack):
    """Where the three options stand in a row."""

    texts: tuple[Text, ...] = Field(min_length=3, max_length=3)
    groups: tuple[Text, ...] | None = Field(default=None, min_length=3, max_length=3)
    unknown: int | Text
    target: int | Text
    counted_from: Literal[0, 1] = 0


class FieldMap(Pack):
    """Which of a user's fields is which of ours."""

    fields: dict[str, Text] = Field(default_factory=dict)
    options: OptionFields | None = None
    """None where their rows have our `options`."""
    constants: dict[str, JsonValue] = Field(default_factory=dict)
    values: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Our field → their value, as text → ours."""
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


Get = Callable[[str, str], Any]
"""Key of the field map, name of their field → its value, which may be empty; raises DataError without such a field."""


def _our_fields(row: Mapping[str, Any], field_map: FieldMap, path: Path, place: RowLocation) -> dict[str, Any]:
    """Our fields of a row, without empty ones, by the field map of a file; raises DataError where one is wrong."""

    def get(key: str, theirs: str) -> Any:
        found, value = look_up(row, theirs)
        if not found:
            raise place.error(
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
            raise place.error(problem, field_map.fields.get(ours, ours))
        found[ours] = known[text]
    extra = {ours: get(f"metadata.{ours}", theirs) for ours, theirs in field_map.metadata.items()}
    if extra:
        found["metadata"] = _with_metadata(found.get("metadata"), extra, place)
    if (options := field_map.options) is not None:
        found["options"] = _our_options(options, get, place)
        if all(option["role"] != "target" for option in found["options"]):
            found["has_single_target"] = False
            found.setdefault("no_target_reason", NO_TARGET)
        if not is_empty(gold := found.get("gold_index")):
            theirs = field_map.fields.get("gold_index", "gold_index")
            found["gold_index"] = _option_index(gold, options.counted_from, theirs, place)
    return {name: value for name, value in found.items() if not is_empty(value)}


def _our_options(options: OptionFields, get: Get, place: RowLocation) -> list[dict[str, Any]]:
    places: list[int | None] = []
    for key, named in (("options.unknown", options.unknown), ("options.target", options.target)):
        value, theirs = (named, key) if isinstance(named, int) else (get(key, named), named)
        places.append(None if is_empty(value) else _option_index(value, options.counted_from, theirs, place))
    unknown, target = places
    if unknown is None:
        raise place.error(
            "the position of the unknown option is missing; every question needs one", str(options.unknown)
        )
    if target == unknown:
        raise place.error("target and unknown option have the same position", str(options.target))
    texts = [get(f"options.texts[{index}]", theirs) for index, theirs in enumerate(options.texts)]
    groups = [get(f"options.groups[{index}]", theirs) or None for index, theirs in enumerate(options.groups or ())]
    return [
        {"role": option_role(index, unknown, target), "text": text, "group": group}
        for index, (text, group) in enumerate(zip(texts, groups or [None] * len(texts), strict=True))
    ]


def _option_index(value: Any, first: int, theirs: str, place: RowLocation) -> int:
    """The index of an option, counted from 0, for a user's value, which counts from `first`."""
    text = str(value).strip().removesuffix(".0")
    if not text.isdecimal() or not 0 <= int(text) - first <= 2:
        raise place.error(f"{value!r} is not the position of an option; possible: {first} to {first + 2}", theirs)
    return int(text) - first


def _with_metadata(metadata: Any, extra: Mapping[str, Any], place: RowLocation) -> dict[str, Any]:
    """A row's metadata, which must be a table if there is any, and more of it that is not empty."""
    if not is_empty(metadata) and not isinstance(metadata, Mapping):
        raise place.error("is not an object of names and values", "metadata")
    return {**(metadata or {}), **{name: value for name, value in extra.items() if not is_empty(value)}}


def is_empty(value: Any) -> bool:
    """Whether a field holds nothing: no value, or a text without a character."""
    return value is None or value == ""


def look_up(row: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a row has something at a path with dots between its steps, and what; a field of that very name first."""
    if path in row:
        return True, row[path]
    here: Any = row
    for step in path.split("."):
        if isinstance(here, Mapping) and step in here:
            here = here[step]
        elif isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            return False, None
    return True, here


def read_instances(path: Path, field_map: Path | None = None) -> Iterator[Instance]:
    """The instances of a file, in file order: CSV, TSV, Parquet or .xlsx by its name, else JSON Lines.

    Args:
        field_map: a TOML file that maps the file's fields to ours; None where they have our names.

    Raises:
        UsageError, PackError: at once, where there is no such file, or the field map is wrong.
        DataError: while reading, at the first row that is not an instance or has the key of an earlier one.
    """
    if not path.is_file():
        formats = "JSON Lines as `mbbq-gen data show --json` writes it, CSV or Parquet"
        raise UsageError(f"no file {path}; give a file of instances: {formats}")
    if field_map is None:
        return _unique(read_json_lines(path, Instance) if not is_table(path) else _mapped_rows(path, None, path))
    if not field_map.is_file():
        raise UsageError(f"--instances-field-map {field_map}: no such file; the guide on benchmarks shows one")
    return _unique(_mapped_rows(path, validate_pack(FieldMap, read_toml(field_map), field_map), field_map))


def _unique(rows: Iterable[tuple[RowLocation, Instance]]) -> Iterator[Instance]:
    """The instances; raises DataError where a key is repeated."""
    seen: dict[str, int] = {}
    for place, instance in rows:
        first = seen.setdefault(instance.key, place.row)
        if first != place.row:
            raise place.error(f"{instance.key!r} is already in row {first}; ids are unique", "instance_id")
        yield instance


def _mapped_rows(path: Path, field_map: FieldMap | None, map_path: Path) -> Iterator[tuple[RowLocation, Instance]]:
    """The instances of a table, or of any file with a field map; a fault names our field and theirs."""
    of_table = is_table(path)
    names = field_map.fields if field_map else {}
    for number, given in table_rows(note_file(path)) if of_table else lines_of(note_file(path)):
        place = RowLocation(path, number)
        row = json_row(given, place) if isinstance(given, bytes) else given
        fields = _nested(row, place) if of_table else dict(row)
        if field_map is not None:
            fields = _typed(_our_fields({**row, **fields}, field_map, map_path, place), place)
        whole = {name: int(value) for name, value in fields.items() if isinstance(value, float) and value.is_integer()}
        try:
            yield place, Instance.model_validate(fields | whole)
        except ValidationError as error:
            location = error.errors(include_url=False, include_input=False, include_context=False)[0]["loc"]
            ours = str(location[0]) if location else ""
            theirs = names.get(ours, ours)
            other = f" (their field {theirs!r})" if theirs != ours else ""
            raise place.error(describe_fault(error, {}) + other) from error


def _nested(row: Mapping[str, Any], place: RowLocation) -> dict[str, Any]:
    """The fields of a row of cells: `options.0.text` put into its list, typed, without the empty ones."""
    fields: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    for name, value in _typed({name: value for name, value in row.items() if not is_empty(value)}, place).items():
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
    if isinstance(fields.get("metadata"), dict):  # a column of Parquet has every row's names: null is not there
        fields["metadata"] = {name: value for name, value in fields["metadata"].items() if value is not None}
    if metadata:
        fields["metadata"] = _with_metadata(fields.get("metadata"), metadata, place)
    return fields


def _typed(fields: Mapping[str, Any], place: RowLocation) -> dict[str, Any]:
    """The fields with the types that text alone does not tell: lists and tables, places, true and false."""
    typed = dict(fields)
    for name, text in fields.items():
        if not isinstance(text, str):
            continue
        if name in _JSON_FIELDS:
            try:
                typed[name] = json_value(text)
            except UnreadableError as error:
                raise place.error(str(error), name) from error
        elif name == "gold_index" and text.strip().isdecimal():
            typed[name] = int(text)
        elif name == "has_single_target":
            typed[name] = _TRUTHS.get(text.strip().casefold(), text)
    return typed
