"""Reads the rows of published files; every error begins with `file:row: field:`, rows counted from 1."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ValidationError

from mbbq_gen.core.errors import DataError, describe_fault
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import Instance
from mbbq_gen.core.tables import UnreadableError, json_object, lines_of, row_error, table_rows

RowT = TypeVar("RowT")
SchemaT = TypeVar("SchemaT", bound=BaseModel)

ItemT = TypeVar("ItemT")
_opened: Final[ContextVar[set[Path] | None]] = ContextVar("opened", default=None)
"""The set that collects the data files being opened; None: they are not collected."""


def with_files(items: Iterable[ItemT], files: set[Path]) -> Iterator[ItemT]:
    """The same items; every data file that is opened to make them is added to `files`."""
    iterator = iter(items)
    while True:
        token = _opened.set(files)
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            _opened.reset(token)
        yield item


def note_file(path: Path) -> Path:
    """The path of a data file that is about to be read: every reader passes it here, so that its digest is kept."""
    files = _opened.get()
    if files is not None:
        files.add(path)
    return path


class LazyInstance(NamedTuple):
    """An instance that is built when it is needed: most questions of a benchmark are not part of a sample."""

    unit: SamplingUnit
    unknown_text: str
    """Text of the unknown option."""
    build: Callable[[], Instance]

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """The lazy form of an instance that exists."""
        return cls(SamplingUnit.of(instance), instance.options[instance.unknown_index].text, lambda: instance)


@dataclass(frozen=True, slots=True)
class RowLocation:
    """Where a row stands."""

    path: Path
    row: int

    def error(self, message: str, field: str = "") -> DataError:
        """The error that names this row, and the field where there is one."""
        return row_error(self.path, self.row, message, field)

    def source_row(self, category: str, example_id: int | str) -> dict[str, object]:
        """Where an instance comes from, for `metadata["source_row"]`."""
        return {"file": self.path.name, "row": self.row, "category": category, "example_id": example_id}

    def choice_index(self, text: str, choices: Sequence[str], field: str) -> int:
        """The index of a text among the choices; raises DataError where it is none of them."""
        if text not in choices:
            raise self.error(f"{text!r} is none of the choices {', '.join(choices)}", field)
        return choices.index(text)


def read_json_lines(path: Path, schema: type[SchemaT]) -> Iterator[tuple[RowLocation, SchemaT]]:
    """The rows of a JSON Lines file, each checked against a schema; raises DataError at the first one that is wrong."""
    for number, line in lines_of(note_file(path)):
        place = RowLocation(path, number)
        yield place, _json_record(line, schema, place)


def _json_record(line: bytes, schema: type[SchemaT], place: RowLocation, *, is_repaired: bool = False) -> SchemaT:
    try:
        return schema.model_validate_json(line)
    except ValidationError as error:
        is_json = error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid"
        if is_json or is_repaired:
            raise place.error(describe_fault(error, {})) from error
    repaired = json.dumps(json_row(line, place)).encode()  # half of a surrogate pair; raises where it is no JSON
    return _json_record(repaired, schema, place, is_repaired=True)


def json_row(line: bytes, place: RowLocation) -> dict[str, Any]:
    """The object that a line of JSON holds; raises DataError where there is none."""
    try:
        return json_object(line)
    except UnreadableError as error:
        raise place.error(str(error)) from error


def read_table(path: Path, schema: type[SchemaT], *, delimiter: str = ",") -> Iterator[tuple[RowLocation, SchemaT]]:
    """The rows of a table with a header, each checked against a schema; cells are text.

    A place's row is the line that the row begins on. Raises DataError where a column is missing, or a row is wrong.
    """
    required = [field.alias or name for name, field in schema.model_fields.items() if field.is_required()]
    for row, cells in table_rows(note_file(path), delimiter=delimiter, required=required):
        place = RowLocation(path, row)
        yield place, checked(cells, schema, place)


def with_ids(
    rows: Iterable[tuple[RowLocation, RowT]], field: str, *, increasing: bool = False
) -> Iterator[tuple[RowLocation, RowT]]:
    """The rows; raises DataError where an id comes twice or, if they increase, after a greater one."""
    seen: set[object] = set()
    last: Any = None
    for place, row in rows:
        found = getattr(row, field)
        if increasing and seen and found <= last:
            raise place.error(f"{found} comes after {last}; published ids increase", field)
        if found in seen:
            raise place.error(f"{found!r} is listed twice; ids are unique", field)
        seen.add(last := found)
        yield place, row


def in_groups(
    rows: Iterable[tuple[RowLocation, RowT]], values: Mapping[str, Sequence[object]], same: Mapping[str, str]
) -> Iterator[list[tuple[RowLocation, RowT]]]:
    """The rows in groups, as a data set has them that asks several questions about each context.

    Args:
        values: field → what it holds in each row of a group, in order.
        same: field that all rows of a group have in common → what a row has that differs: "another context".

    Raises:
        DataError: where a row is not the one that comes next, or the last group is not whole.
    """
    size = len(next(iter(values.values())))
    group: list[tuple[RowLocation, RowT]] = []
    for place, row in rows:
        for field, expected in values.items():
            found, wanted = getattr(row, field), expected[len(group)]
            if found != wanted:
                raise place.error(f"{found!r} where {wanted!r} comes next; a row is missing", field)
        for field, other in same.items():
            if group and getattr(row, field) != getattr(group[0][1], field):
                raise place.error(f"{other} than in the rows before; a row is missing", field)
        group.append((place, row))
        if len(group) == size:
            yield group
            group = []
    if group:
        raise group[-1][0].error(f"the file ends after {len(group)} of {size} rows of a group; get the file again")


def checked(fields: dict[str, object] | dict[str, str], schema: type[SchemaT], place: RowLocation) -> SchemaT:
    """The fields checked against a schema; the first fault is a DataError with file, row and field."""
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        raise place.error(describe_fault(error, {})) from error


def python_literal(value: Any) -> Any:
    """What a cell holds as Python writes it (a list, a dictionary), for a schema; other values as they are."""
    return _python_literal(value) if isinstance(value, str) else value


@lru_cache(maxsize=4096)
def _python_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("not written as Python writes a list or dictionary") from error
