"""Reads lines, JSON and tables that anybody may have written; every fault is one line.

    JSON Lines      UTF-8, with or without a byte order mark, or UTF-16 with one
    .csv .tsv       the same encodings; cells are separated by commas, semicolons or tabs, as the heading shows
    .parquet        through polars
    .xlsx           the first sheet, where openpyxl is installed

Whole numbers stay numbers, NaN is None, half of a surrogate pair becomes U+FFFD. Depth and digits of JSON are bounded.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from mbbq_gen.core.errors import DataError, MissingExtraError, UsageError
from mbbq_gen.core.text import storable_text

MEGABYTE: Final = 1 << 20
MOST_LINE: Final = 64 * MEGABYTE
"""The longest line or cell that is read."""
MOST_DEPTH: Final = 100
"""Levels of nesting that are read."""

_PARQUET: Final = ".parquet"
_WORKBOOK: Final = ".xlsx"
_DELIMITERS: Final[Mapping[str, str]] = {".csv": ",;\t", ".tsv": "\t"}
"""File name's end → what may stand between two cells."""
_BATCH: Final = 10_000
"""Rows of a Parquet file that are held at once."""
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_FILES: Final = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"PAR1": "Parquet", b"\x28\xb5\x2f\xfd": "Zstandard"}
"""First bytes → what a file is that is no text."""
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_KEY: Final = re.compile(rb'"([A-Za-z_][A-Za-z_0-9.]*)"\s*:')


class UnreadableError(Exception):
    """One row or member can't be read; the others may be."""


def row_error(path: Path | str, row: int, message: str, field: str = "") -> DataError:
    """The error that names a row of a file, and the field where there is one."""
    return DataError(f"{path}:{row}: {f'{field}: ' if field else ''}{message}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def json_value(text: bytes | str) -> Any:
    """What a piece of JSON holds.

    Raises:
        UnreadableError: where it is not UTF-8, cut off, nested too deeply or otherwise no JSON; says so in a few words.
    """
    try:
        if isinstance(text, bytes):
            is_wide = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            text = text.decode("utf-16" if is_wide else "utf-8", "surrogatepass")
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=_constant)
        if text.count("[") + text.count("{") > MOST_DEPTH:
            _check_depth(value)
        return _repaired(value) if _HALF.search(text) else value
    except UnicodeDecodeError as error:
        raise UnreadableError(_last_key(error.object[: error.start]) + _not_utf8(error)) from error
    except json.JSONDecodeError as error:
        cut = "; the line is cut off" if error.pos >= len(error.doc.rstrip()) or "Unterminated" in error.msg else ""
        field = _last_key(error.doc[: error.pos].encode("utf-8", "replace"))
        raise UnreadableError(f"{field}not JSON: {error.msg} at character {error.pos + 1}{cut}") from error
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error
    except ValueError as error:
        raise UnreadableError("not JSON: a number with too many digits") from error


def json_object(text: bytes | str) -> dict[str, Any]:
    """The object that a piece of JSON holds; raises as `json_value`, and where it is something else."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise UnreadableError(f"a JSON object is needed, found {type(value).__name__}")
    return value


def _constant(name: str) -> float | None:
    """What `NaN`, `Infinity` and `-Infinity` stand for."""
    return None if name == "NaN" else float(name)


def _check_depth(value: Any) -> None:
    """Raises UnreadableError where a value is nested more deeply than MOST_DEPTH."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [entry for entry in level if isinstance(entry, dict | list)]
        if not level:
            return
        level = [inner for entry in level for inner in (entry.values() if isinstance(entry, dict) else entry)]
    raise UnreadableError("nested too deeply")


def _repaired(value: Any) -> Any:
    """The same value; half of a surrogate pair is U+FFFD, NaN is None."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, list):
        return [_repaired(entry) for entry in value]
    if isinstance(value, dict):
        return {storable_text(name) if isinstance(name, str) else name: _repaired(one) for name, one in value.items()}
    return value


def _last_key(text: bytes) -> str:
    """The last key that a piece of JSON names, which a fault at its end is in, and a colon."""
    keys = _KEY.findall(text)
    return f"{keys[-1].decode()}: " if keys else ""


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"not UTF-8 (byte 0x{error.object[error.start]:02x} at byte {error.start + 1}); save the file as UTF-8"


# --- lines -----------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file, open for reading.

    Raises:
        UsageError: where it can't be opened or read.
    """
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def read_lines(path: Path, stream: IO[bytes] | None = None) -> Iterator[bytes]:
    """The lines of a text file in UTF-8, without a byte order mark, blank ones too.

    Args:
        path: the file.
        stream: what to read in its place, such as stdin; `path` then only names it.

    Raises:
        UsageError: where it can't be opened.
        DataError: where it is no text, its encoding is not read, or a line is too long.
    """
    if stream is None:
        with opened(path) as file:
            yield from read_lines(path, file)
        return
    head = stream.read(4)
    encoding = _encoding(head, path)
    rest = io.BufferedReader(_Joined(head.removeprefix(codecs.BOM_UTF8), stream), MEGABYTE)
    if encoding.startswith("utf-8"):
        number = 0
        while line := rest.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise row_error(path, number, f"a line of more than {MOST_LINE // MEGABYTE} MB")
            yield line
        return
    text = io.TextIOWrapper(rest, encoding, "surrogatepass", newline="\n")
    number = 1
    try:
        while words := text.readline(MOST_LINE + 1):
            if len(words) > MOST_LINE:
                raise row_error(path, number, f"a line of more than {MOST_LINE // MEGABYTE} MB")
            yield storable_text(words).encode()
            number += 1
    except UnicodeDecodeError as error:
        raise row_error(path, number, f"not UTF-16 ({error.reason}); save the file as UTF-8") from error


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, each with its number counted from 1; raises as `read_lines`."""
    return ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())


class _Joined(io.RawIOBase):
    """A stream with some bytes before it."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._read = getattr(rest, "read1", rest.read)  # of a pipe, what has come so far

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer; 0 at the end."""
        data = self._head[: len(buffer)] or self._read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _encoding(head: bytes, path: Path) -> str:
    """The encoding of a text by its first four bytes.

    Raises:
        DataError: where it is none that is read, or the file is no text.
    """
    other = next((name for start, name in _OTHER_FILES.items() if head.startswith(start)), None)
    if other is not None:
        raise DataError(f"{path}: a {other} file, not text; unpack it, or correct its extension")
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")
    if encoding == "utf-32" or (encoding == "utf-8" and b"\0" in head):
        kind = "UTF-32" if encoding == "utf-32" else "UTF-16 without a byte order mark"
        raise DataError(f"{path}: {kind}, or no text; save the file as UTF-8")
    return encoding


# --- tables ----------------------------------------------------------------------------------------------------------


def is_table(path: Path) -> bool:
    """Whether a file has cells rather than JSON, by its name."""
    return path.suffix.lower() in (*_DELIMITERS, _PARQUET, _WORKBOOK)


def table_rows(
    path: Path, *, delimiter: str | None = None, required: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table by column, each with the line that it begins on.

    Cells of CSV, TSV and workbooks are text; those of Parquet are what they are there.

    Args:
        path: the file; its name tells the kind, and all other names are CSV.
        delimiter: what stands between two cells of a text; None: the heading shows it.
        required: columns that must be there.

    Raises:
        UsageError: where it can't be opened.
        DataError: where a column is missing or is listed twice, or at the first row that can't be read.
    """
    kind = path.suffix.lower()
    if kind == _PARQUET:
        yield from _parquet_rows(path)
        return
    cells = _workbook_cells(path) if kind == _WORKBOOK else _text_cells(path, delimiter)
    header: list[str] = []
    for row, values in cells:
        if not header:
            header = values
            _check_header(header, required, path, row)
        elif len(values) != len(header):
            raise row_error(
                path,
                row,
                f"{len(values)} cells where the header has {len(header)}; the row is cut off or a quote is wrong",
            )
        else:
            yield row, dict(zip(header, values, strict=True))


def _check_header(header: Sequence[str], required: Sequence[str], path: Path, row: int) -> None:
    """Refuses a heading that lacks a column, or has two of one name."""
    twice = next((name for number, name in enumerate(header) if name and name in header[:number]), None)
    if twice is not None:
        raise row_error(path, row, "two columns have this name; rename or remove one", twice)
    missing = next((name for name in required if name not in header), None)
    if missing is not None:
        raise row_error(path, row, f"the column is missing; columns: {', '.join(header)}", missing)


def _text_cells(path: Path, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV or TSV that hold something."""
    lines = decoded_lines(path)
    first = next(lines, "")
    begin = 1
    named = re.fullmatch(r"sep=(.)\r?\n?", first)
    if named:  # Excel's own first line
        delimiter, first, begin = named[1], next(lines, ""), 2
    if delimiter is None:
        possible = _DELIMITERS.get(path.suffix.lower(), _DELIMITERS[".csv"])
        delimiter = max(possible, key=_QUOTED.sub("", first).count)
    reader = csv.reader(itertools.chain([first] if first else [], lines), delimiter=delimiter, strict=True)
    row, limit = begin, csv.field_size_limit(MOST_LINE)
    try:
        for values in reader:
            start, row = row, reader.line_num + begin
            if values:
                yield start, values
    except csv.Error as error:
        raise row_error(path, row, f"not a table: {error}; the file is cut off or a quote is not closed") from error
    finally:
        csv.field_size_limit(limit)


def decoded_lines(path: Path, stream: IO[bytes] | None = None) -> Iterator[str]:
    """The lines of a text file as `read_lines` gives them, those that end with a carriage return alone too.

    Raises:
        DataError: where a line is not UTF-8 too.
    """
    for number, line in enumerate(read_lines(path, stream), start=1):
        try:
            text = line.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise row_error(path, number, _not_utf8(error)) from error
        yield from io.StringIO(storable_text(text), newline="") if "\r" in text[:-2] else (storable_text(text),)


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file, counted from 1; a part of them is held at once."""
    import polars
    from polars.exceptions import PolarsError

    start = 0
    while True:
        try:
            rows = polars.scan_parquet(path).slice(start, _BATCH).collect().to_dicts()
        except (PolarsError, OSError) as error:
            raise DataError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from error
        yield from ((number, _repaired(row)) for number, row in enumerate(rows, start=start + 1))
        if len(rows) < _BATCH:
            return
        start += _BATCH


def _workbook_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a workbook's first sheet that hold something, as text."""
    with closing(open_workbook(path)) as book:
        width = 0
        for number, values in enumerate(book.worksheets[0].iter_rows(values_only=True), start=1):
            cells = [cell_text(value) for value in values]
            while len(cells) > width and not cells[-1]:
                cells.pop()
            if any(cells):
                width = width or len(cells)
                yield number, cells + [""] * (width - len(cells))


def open_workbook(path: Path) -> Any:
    """A workbook, as openpyxl gives it.

    Raises:
        MissingExtraError: where openpyxl is not installed.
        UsageError: where there is no such file.
        DataError: where it is no workbook.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: save it as CSV, or install what reads workbooks: pip install 'mbbq-gen[templates]'"
        ) from error
    from zipfile import BadZipFile

    from openpyxl.utils.exceptions import InvalidFileException

    try:
        return openpyxl.load_workbook(path, read_only=True, data_only=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (
        *(BadZipFile, InvalidFileException, zlib.error, EOFError, SyntaxError),  # SyntaxError: of its XML
        *(KeyError, ValueError, TypeError),
    ) as error:
        raise DataError(f"{path}: not a workbook ({error}); save it as .xlsx") from error


def cell_text(cell: object) -> str:
    """What a cell says: whole numbers without a fraction, true and false in small letters, nothing as empty."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return "" if math.isnan(cell) else str(int(cell)) if cell.is_integer() else str(cell)
    return str(cell)
