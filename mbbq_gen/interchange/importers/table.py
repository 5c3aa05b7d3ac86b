"""Reads answers from a table or JSON Lines, with a TOML file that maps the fields.

    [fields]                        # our field = field of the table; nested: "reply.text", "choices.0"
    response = "model_output"       # required
    context = "story"               # the question: context and question, or the prompt as sent (`prompt`), or our own
    question = "question"           # key or id (`instance`)
    options = ["first", "second", "third"]      # in the order shown, as `labels`; or one field with a list

    [constants]                     # values for all rows
    model = "gpt-4o-mini"

    [values.finish_reason]          # value in the table = our value
    max_tokens = "length"

Without `labels`, options have the labels in the prompt, or else A, B and C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, get_args

from pydantic import Field, JsonValue, model_validator

from mbbq_gen.benchmarks.own_file import is_empty, look_up
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.tables import UnreadableError, is_table, json_value, lines_of, table_rows
from mbbq_gen.interchange.importers import base as log
from mbbq_gen.interchange.importers.base import ImportedAnswer, Row, SkippedRow, Source
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack

_TEXT_FIELDS: Final = frozenset(
    {
        *("response", "error", "refusal", "reasoning", "finish_reason", "model"),
        *("id", "instance", "context", "question", "prompt", "variant"),
    }
)
_KEY: Final = "__key__"
"""Field with the key of a row in a JSON file that is one object."""
_LIST_FIELDS: Final = frozenset({"options", "labels"})
_FIELDS: Final = _TEXT_FIELDS | _LIST_FIELDS | {"repeat"}
_FINISH: Final[dict[str, log.FinishReason]] = {name: name for name in get_args(log.FinishReason)}


class ColumnMap(Pack):
    """The map from our fields to those of a table."""

    fields: dict[str, Text | tuple[Text, ...]] = Field(default_factory=dict)
    """Our field → field of the table."""
    constants: dict[str, JsonValue] = Field(default_factory=dict)
    """Our field → its value in all rows."""
    values: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Our field → value in the table, as text → our value; other values are kept."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for table, names in (("fields", self.fields), ("constants", self.constants), ("values", self.values)):
            unknown = sorted(set(names) - _FIELDS)
            if unknown:
                raise ValueError(f"{table}.{unknown[0]}: no such field; known: {', '.join(sorted(_FIELDS))}")
        lists = [name for name, value in self.fields.items() if isinstance(value, tuple) and name not in _LIST_FIELDS]
        if lists:
            raise ValueError(f"fields.{lists[0]}: one field holds it, not a list of them")
        if "response" not in self.fields:
            raise ValueError("fields.response: missing; name the field that has the response")
        given = {*self.fields, *self.constants}
        if not given & {"prompt", "instance"} and not {"context", "question"} <= given:
            raise ValueError("fields: give context and question, prompt, or instance, to identify the question")
        return self


def open_table(path: Path, field_map: Path | None) -> Source:
    """The rows of a table or JSON Lines; UsageError for a missing file, PackError for a wrong map."""
    log.require_file(path, "a CSV, TSV, Parquet or JSON Lines file")
    if field_map is None:
        raise UsageError("--from csv needs --columns TOML, a file that maps columns to the fields of mbbq-gen")
    log.require_file(field_map, "the TOML file that maps the columns")
    reader = _Reader(validate_pack(ColumnMap, read_toml(field_map), field_map), field_map.name)
    rows = log.read_rows(path.name, _records(path), reader.read)
    return Source(tool="csv", path=path, rows=rows, files=(path, field_map))


def _records(path: Path) -> Iterable[tuple[int | str, Any]]:
    """The rows of a file with their numbers, or the keys of a JSON object."""
    if is_table(path):
        return table_rows(path)
    try:
        value = log.read_json(path) if path.suffix.lower() == ".json" else None
    except DataError:  # JSON Lines
        value = None
    if isinstance(value, list):
        return enumerate(value, start=1)
    if isinstance(value, dict) and value and all(isinstance(row, dict) for row in value.values()):
        return ((key, {_KEY: key, **row}) for key, row in value.items())
    return lines_of(path)


class _Reader:
    """Converts rows by a map."""

    def __init__(self, answer_map: ColumnMap, map_name: str) -> None:
        self._map, self._map_name = answer_map, map_name
        self._counts: Counter[tuple[str, str]] = Counter()

    def read(self, row: Mapping[str, Any], number: str) -> Iterator[Row]:
        """The answer of a row."""
        found = {name: self._text(row, name) for name in _TEXT_FIELDS - {"prompt"}}
        text, error, finish = self._text(row, "response", keep_empty=True), found["error"], found["finish_reason"]
        if error is not None and not text:
            response = log.response(error=log.failure(error), model=found["model"])
        elif text is None and found["refusal"] is None and finish != "content_filter":
            yield SkippedRow("unparsed", "neither a response nor an error")
            return
        else:
            response = log.response(
                text="" if text is None and found["refusal"] is not None else text,
                finish_reason=log.finish(finish, _FINISH),
                provider_finish_reason=finish,
                **{name: found[name] for name in ("model", "refusal", "reasoning")},
            )
        identity = found["id"] or row.get(_KEY) or number
        variant, repeat = found["variant"] or "imported", self._value(row, "repeat")
        self._counts[identity, variant] += 1
        yield ImportedAnswer(
            id=identity,
            # rows with the same id are different answers
            repeat=int(repeat) if str(repeat).isdecimal() else self._counts[identity, variant],
            response=response,
            messages=log.sent({"prompt": self._value(row, "prompt")}, "prompt"),
            options=self._list(row, "options"),
            labels=self._list(row, "labels"),
            hints=log.hints({name: value for name, value in row.items() if not is_empty(value)}),
            context=found["context"],
            question=found["question"],
            instance=found["instance"],
            variant=variant,
        )

    def _text(self, row: Mapping[str, Any], name: str, *, keep_empty: bool = False) -> str | None:
        """A field as text; None if it is empty."""
        value = self._value(row, name)
        value = str(value).lower().removesuffix(".0") if isinstance(value, int | float) else value
        found = log.text({(named := str(self._map.fields.get(name, name))): value}, named)
        return found if found or keep_empty else None

    def _list(self, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
        """A field with several texts: in several fields, in one list, or in one cell as JSON."""
        columns = self._map.fields.get(name)
        if isinstance(columns, tuple):
            return log.texts({name: [self._get(row, column) for column in columns]}, name)
        value = self._value(row, name)
        if isinstance(value, str):
            value = json_value(value) if value.strip() else None
        return log.texts({name: value}, name)

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        """The value of one of our fields in a row; None without an entry in the map."""
        columns = self._map.fields.get(name)
        value = self._get(row, columns) if isinstance(columns, str) else self._map.constants.get(name)
        return self._map.values.get(name, {}).get(str(value), value)

    def _get(self, row: Mapping[str, Any], column: str) -> Any:
        found, value = look_up(row, column)
        if not found:
            names = ", ".join(list(row)[:12])
            raise UnreadableError(f"no field {column!r}, which {self._map_name} names; the row has: {names}")
        return value
