"""Reads answers out of a table or JSON Lines of any shape: a small TOML file says what stands where.

    [fields]                        # ours = theirs; a dot goes into a nested field or a list: "reply.text", "choices.0"
    response = "model_output"       # needed: the model's words
    id = "row"                      # theirs, kept with the answer; none: the row's number
    context = "story"               # the question by its texts…
    question = "asked"
    options = ["first", "second", "third"]      # the options as shown; or one field that holds a list
    labels = ["label1", "label2", "label3"]     # the labels as shown, likewise
    prompt = "prompt"               # …and/or by what was sent
    instance = "key"                # …or by our own key or id of the instance
    model = "model"
    variant = "prompt_id"           # the prompt variant
    error = "error"                 # why there is no response, in rows that have none
    refusal = "refusal"             # a refusal that the service keeps apart from the response
    reasoning = "thinking"          # the reasoning, likewise
    finish_reason = "stop_reason"
    repeat = "sample"               # which of several answers to the same question

    [constants]                     # the same in every row
    model = "gpt-4o-mini"
    labels = ["A", "B", "C"]

    [values.finish_reason]          # theirs = ours
    max_tokens = "length"

Without `labels`, options that a prompt shows have the labels they have there, others A, B and C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, get_args

from pydantic import Field, JsonValue, model_validator

from mbbq_gen.benchmarks.own_file import is_empty, look_up
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.records import ImportSource
from mbbq_gen.core.tables import UnreadableError, cell_text, is_table, json_object, json_value, lines_of, table_rows
from mbbq_gen.interchange.importers import base as fields
from mbbq_gen.interchange.importers.base import (
    ImportedAnswer,
    ImportedResponse,
    SkippedRow,
    Source,
    read_json,
    require_file,
)
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack

_TEXT_FIELDS: Final = frozenset(
    {
        *("response", "error", "refusal", "reasoning", "finish_reason", "model"),
        *("id", "instance", "context", "question", "prompt", "variant"),
    }
)
_KEY: Final = "__key__"
"""Field of a row's key in a JSON file that is one object."""
_LIST_FIELDS: Final = frozenset({"options", "labels"})
_FIELDS: Final = _TEXT_FIELDS | _LIST_FIELDS | {"repeat"}
_FINISH: Final[dict[str, fields.FinishReason]] = {name: name for name in get_args(fields.FinishReason)}


class ColumnMap(Pack):
    """Which of a table's fields holds what."""

    fields: dict[str, Text | tuple[Text, ...]] = Field(default_factory=dict)
    """Ours → theirs."""
    constants: dict[str, JsonValue] = Field(default_factory=dict)
    """Ours → its value in every row."""
    values: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)
    """Ours → their value, as text → ours; others stay as they are."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for table, names in (("fields", self.fields), ("constants", self.constants), ("values", self.values)):
            unknown = sorted(set(names) - _FIELDS)
            if unknown:
                raise ValueError(f"{table}.{unknown[0]}: no such field; known: {', '.join(sorted(_FIELDS))}")
        lists = [name for name, theirs in self.fields.items() if isinstance(theirs, tuple) and name not in _LIST_FIELDS]
        if lists:
            raise ValueError(f"fields.{lists[0]}: one field holds it, not a list of them")
        if "response" not in self.fields:
            raise ValueError("fields.response: missing; name the field that has the response")
        given = {*self.fields, *self.constants}
        if not given & {"prompt", "instance"} and not {"context", "question"} <= given:
            raise ValueError("fields: give context and question, prompt, or instance, to identify the question")
        return self


def open_table(path: Path, field_map: Path | None) -> Source:
    """The rows of a CSV, TSV, Parquet, .xlsx or JSON Lines file.

    Raises:
        UsageError: where the file or the map is missing.
        PackError: where the map is wrong; file, key and value.
    """
    require_file(path, "a CSV, TSV, Parquet, .xlsx or JSON Lines file")
    if field_map is None:
        raise UsageError("--from csv needs --columns TOML, a file that maps columns to the fields of mbbq-gen")
    require_file(field_map, "the TOML file that maps the columns")
    answer_map = validate_pack(ColumnMap, read_toml(field_map), field_map)
    return Source(tool="csv", path=path, rows=_answers(path, _Row(answer_map, field_map)), files=(path, field_map))


def _answers(path: Path, reader: _Row) -> Iterator[ImportedAnswer | SkippedRow]:
    for place, number, row in _rows(path):
        try:
            if isinstance(row, UnreadableError):
                raise row
            yield reader.answer(row, path, number, place)
        except UnreadableError as error:
            yield SkippedRow("parse_error", place, str(error))


def _rows(path: Path) -> Iterator[tuple[str, int, Mapping[str, Any] | UnreadableError]]:
    """Place, number and fields of every row; a line of JSON that can't be read keeps its place."""
    if is_table(path):
        for number, cells in table_rows(path):
            yield f"{path.name}:{number}", number, cells
        return
    whole = _whole(path) if path.suffix.lower() == ".json" else None
    if whole is not None:
        for number, (key, row) in enumerate(whole, start=1):
            is_row = isinstance(row, Mapping)
            yield f"{path.name}:{key}", number, {_KEY: key, **row} if is_row else UnreadableError("no JSON object")
        return
    for number, line in lines_of(path):
        try:
            yield f"{path.name}:{number}", number, json_object(line)
        except UnreadableError as error:
            yield f"{path.name}:{number}", number, error


def _whole(path: Path) -> list[tuple[str, Any]] | None:
    """The rows of a JSON file that is one list, or one object of key → row; None of JSON Lines."""
    try:
        value = read_json(path)
    except DataError:
        return None
    if isinstance(value, list):
        return [(str(number), row) for number, row in enumerate(value, start=1)]
    if isinstance(value, dict) and value and all(isinstance(row, dict) for row in value.values()):
        return list(value.items())
    return None


class _Row:
    """Takes rows apart by a map."""

    def __init__(self, answer_map: ColumnMap, path: Path) -> None:
        self._map = answer_map
        self._path = path
        self._met: Counter[tuple[str, str]] = Counter()

    def answer(self, row: Mapping[str, Any], path: Path, number: int, place: str) -> ImportedAnswer | SkippedRow:
        """The answer that a row holds."""
        words = self._words(row)
        if words is None:
            return SkippedRow("unparsed", place, "neither a response nor an error")
        prompt, identity = self._value(row, "prompt"), self._text(row, "id") or row.get(_KEY) or str(number)
        variant = self._text(row, "variant") or "imported"
        self._met[identity, variant] += 1
        repeat = self._value(row, "repeat")
        return ImportedAnswer(
            origin=ImportSource(
                tool="table",
                file=path.name,
                id=identity,
                # A row is an answer of its own even where its id stands in another row too.
                repeat=int(repeat) if str(repeat).isdecimal() else self._met[identity, variant],
            ),
            place=place,
            words=words,
            messages=fields.sent(prompt, "prompt"),
            context=self._text(row, "context"),
            question=self._text(row, "question"),
            options=self._list(row, "options"),
            labels=self._list(row, "labels"),
            hints=fields.hints({name: value for name, value in row.items() if not is_empty(value)}),
            instance=self._text(row, "instance"),
            variant=variant,
        )

    def _words(self, row: Mapping[str, Any]) -> ImportedResponse | None:
        response, error = self._text(row, "response", keep_empty=True), self._text(row, "error")
        model, finish = self._text(row, "model"), self._text(row, "finish_reason")
        if error is not None and not response:
            return ImportedResponse(error=fields.first_line(error) or "failed", model=model)
        refusal = self._text(row, "refusal")
        if response is None and refusal is None and finish != "content_filter":
            return None
        return ImportedResponse(
            text=response if response is not None or refusal is None else "",
            model=model,
            finish_reason=fields.finish(finish, _FINISH),
            provider_finish_reason=finish,
            refusal=refusal,
            reasoning=self._text(row, "reasoning"),
        )

    def _text(self, row: Mapping[str, Any], name: str, *, keep_empty: bool = False) -> str | None:
        """A field as text; None where it is empty."""
        value = self._value(row, name)
        if value is None or (value == "" and not keep_empty):
            return None
        if isinstance(value, int | float):
            value = cell_text(value)
        return fields.text(value, str(self._map.fields.get(name, name)))

    def _list(self, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
        """A field that holds several texts: in fields of their own, in one list, or in one cell as JSON."""
        theirs = self._map.fields.get(name)
        if isinstance(theirs, tuple):
            return tuple(fields.text(self._get(row, step), step) or "" for step in theirs)
        value = self._value(row, name)
        if isinstance(value, str):
            value = json_value(value) if value.strip() else None
        return fields.texts(value, str(theirs or name))

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        """What a row has under one of our names; None where the map does not name it."""
        theirs = self._map.fields.get(name)
        value = self._get(row, theirs) if isinstance(theirs, str) else self._map.constants.get(name)
        known = self._map.values.get(name, {})
        return known.get(str(value), value)

    def _get(self, row: Mapping[str, Any], theirs: str) -> Any:
        found, value = look_up(row, theirs)
        if not found:
            names = ", ".join(list(row)[:12])
            raise UnreadableError(f"no field {theirs!r}, which {self._path.name} names; the row has: {names}")
        return value
