"""Reads the rows of published files; every error begins with `file:row: field:`, rows counted from 1."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
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
"""The data files opened so far; None: they are not recorded."""


def with_files(items: Iterable[ItemT], files: set[Path]) -> Iterator[ItemT]:
    """Yields the items; records in `files` every data file that is opened to make them."""
    context, iterator, end = copy_context(), iter(items), object()
    context.run(_opened.set, files)
    while (item := context.run(next, iterator, end)) is not end:
        yield item  # type: ignore[misc]


def note_file(path: Path) -> Path:
    """Records a data file before it is read, so that its digest is stored; returns its path."""
    files = _opened.get()
    if files is not None:
        files.add(path)
    return path


class LazyInstance(NamedTuple):
    """An instance that is built on demand, since most questions of a benchmark are not sampled."""

    unit: SamplingUnit
    unknown_text: str
    """Text of the unknown option."""
    build: Callable[[], Instance]

    @classmethod
    def of(cls, instance: Instance) -> Self:
        """Wraps an instance."""
        return cls(SamplingUnit.of(instance), instance.options[instance.unknown_index].text, lambda: instance)


@dataclass(frozen=True, slots=True)
class RowLocation:
    """The file and number of a row."""

    path: Path
    row: int

    def error(self, message: str, field: str = "") -> DataError:
        """An error that names this row, and the field if given."""
        return row_error(self.path, self.row, message, field)

    def source_row(self, category: str, example_id: int | str) -> dict[str, object]:
        """The value of `metadata["source_row"]`."""
        return {"file": self.path.name, "row": self.row, "category": category, "example_id": example_id}

    def choice_index(self, text: str, choices: Sequence[str], field: str) -> int:
        """The index of a text among the choices; raises DataError if it is not one of them."""
        if text not in choices:
            raise self.error(f"{text!r} is none of the choices {', '.join(choices)}", field)
        return choices.index(text)


def read_json_lines(path: Path, schema: type[SchemaT]) -> Iterator[tuple[RowLocation, SchemaT]]:
    """Yields the validated rows of a JSON Lines file; raises DataError at the first invalid row."""
    for number, line in lines_of(note_file(path)):
        location = RowLocation(path, number)
        yield location, checked(json_row(line, location), schema, location)


def json_row(line: bytes, location: RowLocation) -> dict[str, Any]:
    """Parses a JSON object; raises DataError for anything else."""
    try:
        return json_object(line)
    except UnreadableError as error:
        raise location.error(str(error)) from error


def read_table(path: Path, schema: type[SchemaT], *, delimiter: str = ",") -> Iterator[tuple[RowLocation, SchemaT]]:
    """Yields the validated rows of a table with a header; cells are text.

    A location's row is the first line of the row. Raises DataError for a missing column or an invalid row.
    """
    required = [field.alias or name for name, field in schema.model_fields.items() if field.is_required()]
    for row, cells in table_rows(note_file(path), delimiter=delimiter, required=required):
        location = RowLocation(path, row)
        yield location, checked(cells, schema, location)


def with_ids(
    rows: Iterable[tuple[RowLocation, RowT]], field: str, *, increasing: bool = False
) -> Iterator[tuple[RowLocation, RowT]]:
    """Yields the rows; raises DataError for a repeated id or, with `increasing`, for one that does not increase."""
    seen: set[object] = set()
    last: Any = None
    for location, row in rows:
        found = getattr(row, field)
        if increasing and seen and found <= last:
            raise location.error(f"{found} comes after {last}; published ids increase", field)
        if found in seen:
            raise location.error(f"{found!r} is listed twice; ids are unique", field)
        seen.add(last := found)
        yield location, row


def in_groups(
    rows: Iterable[tuple[RowLocation, RowT]], values: Mapping[str, Sequence[object]], same: Mapping[str, str]
) -> Iterator[list[tuple[RowLocation, RowT]]]:
    """Yields groups of consecutive rows, such as the questions about one context.

    Args:
        values: field → its expected values in the rows of a group, in order.
        same: field with the same value in all rows of a group → message for another value: "another context".

    Raises:
        DataError: for an unexpected row, or an incomplete last group.
    """
    expected = list(zip(*values.values(), strict=True))
    values_of, same_of = _fields_of(values), _fields_of(same)
    group: list[tuple[RowLocation, RowT]] = []
    for location, row in rows:
        if (found := values_of(row)) != (wanted := expected[len(group)]):
            field, value, other = next(each for each in zip(values, found, wanted, strict=True) if each[1] != each[2])
            raise location.error(f"{value!r} where {other!r} comes next; a row is missing", field)
        if group and (found := same_of(row)) != (wanted := same_of(group[0][1])):
            field = next(name for name, one, other in zip(same, found, wanted, strict=True) if one != other)
            raise location.error(f"{same[field]} than in the rows before; a row is missing", field)
        group.append((location, row))
        if len(group) == len(expected):
            yield group
            group = []
    if group:
        found_rows = f"{len(group)} of {len(expected)} rows"
        raise group[-1][0].error(f"the file ends after {found_rows} of a group; get the file again")


def _fields_of(names: Iterable[str]) -> Callable[[object], tuple[object, ...]]:
    """A function that returns these fields of a row."""
    first, *others = names
    get = attrgetter(first, *others)
    return get if others else lambda row: (get(row),)


def checked(fields: dict[str, object] | dict[str, str], schema: type[SchemaT], location: RowLocation) -> SchemaT:
    """Validates fields with a schema; raises DataError with file, row and field of the first error."""
    try:
        return schema.model_validate(fields)
    except ValidationError as error:
        raise location.error(describe_fault(error, {})) from error


def python_literal(value: Any) -> Any:
    """Parses a cell that holds a Python literal (a list, a dictionary); returns other values unchanged."""
    return _python_literal(value) if isinstance(value, str) else value


@lru_cache(maxsize=4096)
def _python_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("not written as Python writes a list or dictionary") from error
