"""Reads the rows of published files; every error begins with `file:row: field:`, rows counted from 1."""

from __future__ import annotations

import ast
import csv
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from mbbq_gen.core.errors import DataError, UsageError, describe_fault

RowT = TypeVar("RowT", bound=BaseModel)

_log = logging.getLogger(__name__)

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(rb'"([A-Za-z_][A-Za-z_0-9.]*)"\s*:')


_opened: Final[ContextVar[set[Path] | None]] = ContextVar("opened", default=None)
"""The set that collects the data files being opened; None: they are not collected."""
ItemT = TypeVar("ItemT")


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


@dataclass(frozen=True)
class RowLocation:
    """Where a row stands."""

    path: Path
    row: int
    """Counted from 1."""

    def error(self, message: str, field: str = "") -> DataError:
        """The error that names this row, and the field where there is one."""
        return DataError(f"{self.path}:{self.row}: {f'{field}: ' if field else ''}{message}")

    def source_row(self, category: str, example_id: int | str) -> dict[str, object]:
        """Where an instance comes from, for `metadata["source_row"]`."""
        return {"file": self.path.name, "row": self.row, "category": category, "example_id": example_id}

    def choice_index(self, text: str, choices: Sequence[str], field: str) -> int:
        """The index of a text among the choices; raises DataError where it is none of them."""
        if text not in choices:
            raise self.error(f"{text!r} is none of the choices {', '.join(choices)}", field)
        return choices.index(text)


def find_files(
    folder: Path, names: Iterable[str], benchmark: str, *, inside: Iterable[str] = ("",), partial: bool = False
) -> list[Path]:
    """The files with those names, from the first of the folder's subfolders `inside` that has one of them.

    Args:
        names: names of the files, each with `/` if it stands in a folder of its own.
        inside: where in the folder they may stand, the likeliest first; the empty string is the folder itself.
        partial: whether a file may be missing (but not all); a warning tells which.

    Raises:
        UsageError: where the folder or a file is missing; it names what was looked for.
    """
    wanted = list(names)
    if not folder.is_dir():
        raise UsageError(f"{benchmark}: no folder {folder}; give the benchmark's folder with --data-dir DIR")
    roots = [folder / step for step in inside]
    root = next((root for root in roots if any((root / name).is_file() for name in wanted)), None)
    if root is None:
        places = " or ".join(str(root) for root in roots)
        raise UsageError(
            f"{benchmark}: no {_listed(wanted)} in {places}; give the folder of the published release with"
            " --data-dir DIR"
        )
    missing = [name for name in wanted if not (root / name).is_file()]
    if missing and not partial:
        raise UsageError(f"{benchmark}: {root} lacks {_listed(missing)}; the copy is incomplete, get it again")
    if missing:
        _log.warning("%s: %s lacks %s; going on with what is there", benchmark, root, ", ".join(missing))
    return [root / name for name in wanted if name not in missing]


def _listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read_json_lines(path: Path, schema: type[RowT]) -> Iterator[tuple[RowLocation, RowT]]:
    """The rows of a JSON Lines file, each checked against a schema; blank lines are passed over.

    Raises:
        DataError: at the first row that is not UTF-8, not JSON (cut off, a byte order mark) or not of the schema.
    """
    with note_file(path).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                place = RowLocation(path, number)
                yield place, parse_json_row(line, schema, place)


def parse_json_row(line: bytes, schema: type[RowT], place: RowLocation) -> RowT:
    """The row that a line of JSON holds; raises as `read_json_lines` does."""
    if line.startswith(_BOM):
        raise place.error("starts with a byte order mark; save the file as UTF-8 without one")
    try:
        return schema.model_validate_json(line.rstrip())
    except ValidationError as error:
        raise _row_error(line, error, place) from error


def _row_error(line: bytes, error: ValidationError, place: RowLocation) -> DataError:
    """The error of a line, as near to its cause as possible."""
    fault = _utf8_fault(line, place, is_json=True)
    if fault is not None:
        return fault
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", first["msg"]))
        cut = "" if line.rstrip().endswith(b"}") else "; the line is cut off, get the file again"
        return place.error(f"not JSON: {reason}{cut}", _last_key(line))
    return place.error(describe_fault(error, {}))


def _last_key(text: bytes) -> str:
    """The last key that a piece of JSON names: the field that a fault at its end is in."""
    keys = _KEY.findall(text)
    return keys[-1].decode() if keys else ""


def read_table(path: Path, schema: type[RowT], *, delimiter: str = ",") -> Iterator[tuple[RowLocation, RowT]]:
    """The rows of a table with a header, each checked against a schema; cells are text, a byte order mark is no harm.

    A place's row is the line that the row begins on. Columns that the schema does not name are left to the schema.

    Raises:
        DataError: where a column is missing, or at the first row that is not UTF-8, is cut off or not of the schema.
    """
    with note_file(path).open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        header: list[str] = []
        line = 1
        try:
            for cells in reader:
                place, line = RowLocation(path, line), reader.line_num + 1
                if not header:
                    header = cells
                    _check_columns(header, schema, place)
                elif cells:
                    if len(cells) != len(header):
                        raise place.error(
                            f"{len(cells)} cells where the header has {len(header)}; the row is cut off or a quote is"
                            " wrong"
                        )
                    yield place, checked(dict(zip(header, cells, strict=True)), schema, place)
        except UnicodeDecodeError as error:
            raise _not_utf8(path) from error
        except csv.Error as error:
            raise RowLocation(path, line).error(
                f"not a table: {error}; the file is cut off or a quote is not closed"
            ) from error


def in_pairs(
    rows: Iterable[tuple[RowLocation, RowT]], check: Callable[[RowLocation, RowT, RowT | None], None]
) -> Iterator[list[tuple[RowLocation, RowT]]]:
    """The rows two by two, as a data set has them that asks two questions about each context.

    Args:
        check: raises where a row is not the one that comes next; it gets the first row of the pair, or None for that.

    Raises:
        DataError: where the last row has no partner.
    """
    first: tuple[RowLocation, RowT] | None = None
    for place, row in rows:
        check(place, row, None if first is None else first[1])
        if first is None:
            first = place, row
        else:
            yield [first, (place, row)]
            first = None
    if first is not None:
        raise first[0].error("the file ends after the first row of a pair; get the file again")


def _check_columns(header: Sequence[str], schema: type[BaseModel], place: RowLocation) -> None:
    """Refuses a table that lacks a column that the schema needs, or has two of one name."""
    twice = next((name for number, name in enumerate(header) if name and name in header[:number]), None)
    if twice is not None:
        raise place.error("two columns have this name; rename or remove one", twice)
    for name, field in schema.model_fields.items():
        column = field.alias or name
        if field.is_required() and column not in header:
            raise place.error(f"the column is missing; columns: {', '.join(header)}", column)


def checked(fields: dict[str, object] | dict[str, str], schema: type[RowT], place: RowLocation) -> RowT:
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
    """The same for text; the same cells come again and again."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise ValueError("not written as Python writes a list or dictionary") from error


def _not_utf8(path: Path) -> DataError:
    """The first line of a file that is not UTF-8."""
    with path.open("rb") as stream:
        faults = (_utf8_fault(line, RowLocation(path, number)) for number, line in enumerate(stream, start=1))
        fault = next((fault for fault in faults if fault is not None), None)
    return fault or DataError(f"{path}: not UTF-8; save the file as UTF-8")


def _utf8_fault(line: bytes, place: RowLocation, *, is_json: bool = False) -> DataError | None:
    """The error of a line that is not UTF-8, of JSON with the field; None for any other line."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as fault:
        wrong = f"not UTF-8 (byte 0x{line[fault.start]:02x} at byte {fault.start + 1}); save the file as UTF-8"
        return place.error(wrong, _last_key(line[: fault.start]) if is_json else "")
    return None
