"""Reads answers out of a table or JSON Lines of any shape: a small TOML file says what stands where.

    [fields]                        # ours = theirs; a dot goes into a nested field or a list: "reply.text", "choices.0"
    response = "model_output"       # needed: the model's words
    context = "story"               # the question: by context and question, by what was sent (`prompt`), or by our
    question = "question"           # own key or id (`instance`)
    options = ["first", "second", "third"]      # as shown, likewise `labels`; or one field that holds a list

    [constants]                     # the same in every row
    model = "gpt-4o-mini"

    [values.finish_reason]          # theirs = ours
    max_tokens = "length"

Without `labels`, options that a prompt shows have the labels they have there, others A, B and C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self, get_args

from pydantic import Field, JsonValue, model_validator

from mbbq_gen.benchmarks.own_file import is_empty, look_up
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.tables import UnreadableError, cell_text, is_table, json_value, lines_of, table_rows
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
"""Field of a row's key in a JSON file that is one object."""
_LIST_FIELDS: Final = frozenset({"options", "labels"})
_FIELDS: Final = _TEXT_FIELDS | _LIST_FIELDS | {"repeat"}
_FINISH: Final[dict[str, log.FinishReason]] = {name: name for name in get_args(log.FinishReason)}


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
    """The rows of a table or JSON Lines; raises UsageError without file or map, PackError where the map is wrong."""
    log.require_file(path, "a CSV, TSV, Parquet, .xlsx or JSON Lines file")
    if field_map is None:
        raise UsageError("--from csv needs --columns TOML, a file that maps columns to the fields of mbbq-gen")
    log.require_file(field_map, "the TOML file that maps the columns")
    reader = _Reader(validate_pack(ColumnMap, read_toml(field_map), field_map), field_map.name)
    rows = log.read_rows(path.name, _records(path), reader.read)
    return Source(tool="csv", path=path, rows=rows, files=(path, field_map))


def _records(path: Path) -> Iterable[tuple[int | str, Any]]:
    """The rows of a file with their numbers; those of a JSON file that is one object have their keys."""
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
    """Reads rows by a map."""

    def __init__(self, answer_map: ColumnMap, map_name: str) -> None:
        self._map, self._map_name = answer_map, map_name
        self._met: Counter[tuple[str, str]] = Counter()

    def read(self, row: Mapping[str, Any], number: str) -> Iterator[Row]:
        """The answer that a row holds."""
        found = {name: self._text(row, name) for name in _TEXT_FIELDS - {"prompt"}}
        said, error, finish = self._text(row, "response", keep_empty=True), found["error"], found["finish_reason"]
        if error is not None and not said:
            response = log.response(error=log.failure(error), model=found["model"])
        elif said is None and found["refusal"] is None and finish != "content_filter":
            yield SkippedRow("unparsed", "neither a response nor an error")
            return
        else:
            response = log.response(
                text="" if said is None and found["refusal"] is not None else said,
                finish_reason=log.finish(finish, _FINISH),
                provider_finish_reason=finish,
                **{name: found[name] for name in ("model", "refusal", "reasoning")},
            )
        identity = found["id"] or row.get(_KEY) or number
        variant, repeat = found["variant"] or "imported", self._value(row, "repeat")
        self._met[identity, variant] += 1
        yield ImportedAnswer(
            id=identity,
            # a row is an answer of its own even where its id stands in another row too
            repeat=int(repeat) if str(repeat).isdecimal() else self._met[identity, variant],
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
        """A field as text; None where it is empty."""
        value = self._value(row, name)
        value = cell_text(value) if isinstance(value, int | float) else value
        found = log.text({(named := str(self._map.fields.get(name, name))): value}, named)
        return found if found or keep_empty else None

    def _list(self, row: Mapping[str, Any], name: str) -> tuple[str, ...]:
        """A field that holds several texts: in fields of their own, in one list, or in one cell as JSON."""
        theirs = self._map.fields.get(name)
        if isinstance(theirs, tuple):
            return log.texts({name: [self._get(row, step) for step in theirs]}, name)
        value = self._value(row, name)
        if isinstance(value, str):
            value = json_value(value) if value.strip() else None
        return log.texts({name: value}, name)

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        """What a row has under one of our names; None where the map does not name it."""
        theirs = self._map.fields.get(name)
        value = self._get(row, theirs) if isinstance(theirs, str) else self._map.constants.get(name)
        return self._map.values.get(name, {}).get(str(value), value)

    def _get(self, row: Mapping[str, Any], theirs: str) -> Any:
        found, value = look_up(row, theirs)
        if not found:
            names = ", ".join(list(row)[:12])
            raise UnreadableError(f"no field {theirs!r}, which {self._map_name} names; the row has: {names}")
        return value
