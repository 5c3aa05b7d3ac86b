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
from contextlib import closing, contextmanager, nullcontext
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
_OTHER_FILES: Final = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"PAR1": "Parquet", b"\x28\xb5\x2f\xfd": "Zstandard"}
"""First bytes → what a file is that is no text."""
_KEY: Final = re.compile(rb'"([A-Za-z_][A-Za-z_0-9.]*)"\s*:')
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_CONSTANTS: Final = {"NaN": None, "Infinity": math.inf, "-Infinity": -math.inf}
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class UnreadableError(Exception):
    """One row or member can't be read; the others may be."""


def row_error(path: Path | str, row: int, message: str, field: str = "") -> DataError:
    """The error that names a row of a file, and the field where there is one."""
    return DataError(f"{path}:{row}: {f'{field}: ' if field else ''}{message}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def json_value(text: bytes | str) -> Any:
    """What a piece of JSON holds; UnreadableError, in a few words, where it can't be read."""
    try:
        if isinstance(text, bytes):
            is_wide = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            text = text.decode("utf-16" if is_wide else "utf-8", "surrogatepass")
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=_CONSTANTS.get)
        is_deep = text.count("[") + text.count("{") > MOST_DEPTH
        return _repaired(value) if is_deep or _HALF.search(text) else value
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


def _repaired(value: Any, levels: int = MOST_DEPTH) -> Any:
    """The same value; half of a surrogate pair is U+FFFD, NaN is None. UnreadableError where it has more levels."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if not isinstance(value, list | dict):
        return value
    if levels == 0:
        raise UnreadableError("nested too deeply")
    if isinstance(value, list):
        return [_repaired(entry, levels - 1) for entry in value]
    return {storable_text(str(name)): _repaired(entry, levels - 1) for name, entry in value.items()}


def _last_key(text: bytes) -> str:
    """The last key that a piece of JSON names, which a fault at its end is in, and a colon."""
    keys = _KEY.findall(text)
    return f"{keys[-1].decode()}: " if keys else ""


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"not UTF-8 (byte 0x{error.object[error.start]:02x} at byte {error.start + 1}); save the file as UTF-8"


# --- lines -----------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file, open for reading; UsageError where it can't be."""
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def read_lines(path: Path, stream: IO[bytes] | None = None) -> Iterator[bytes]:
    """The lines of a text file in UTF-8, without a byte order mark, blank ones too.

    `stream` is read in place of the file, such as stdin. UsageError where the file can't be opened; DataError where it
    is no text, its encoding is not read, or a line is too long.
    """
    with opened(path) if stream is None else nullcontext(stream) as given:
        file = given if isinstance(given, io.BufferedReader) else io.BufferedReader(given)  # type: ignore[type-var]
        encoding, number = _encoding(file.peek(4)[:4], path), 0
        text = io.TextIOWrapper(file, encoding, "surrogatepass", newline="\n") if encoding == "utf-16" else None
        try:
            while line := file.readline(MOST_LINE + 1) if text is None else _utf8(text.readline(MOST_LINE + 1)):
                number += 1
                if len(line) > MOST_LINE:
                    raise row_error(path, number, f"a line of more than {MOST_LINE // MEGABYTE} MB")
                yield line if number > 1 else line.removeprefix(codecs.BOM_UTF8)
        except UnicodeDecodeError as error:
            raise row_error(path, number + 1, f"not UTF-16 ({error.reason}); save the file as UTF-8") from error


def _utf8(text: str) -> bytes:
    return storable_text(text).encode()


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, each with its number counted from 1; raises as `read_lines`."""
    return ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())


def _encoding(head: bytes, path: Path) -> str:
    """UTF-8 or UTF-16, by the first four bytes of a text; DataError where it is neither."""
    other = next((name for start, name in _OTHER_FILES.items() if head.startswith(start)), None)
    if other is not None:
        raise DataError(f"{path}: a {other} file, not text; unpack it, or correct its extension")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and head[2:] != b"\0\0":
        return "utf-16"
    if b"\0" in head:
        raise DataError(f"{path}: UTF-32, UTF-16 without a byte order mark, or no text; save the file as UTF-8")
    return "utf-8"


# --- tables ----------------------------------------------------------------------------------------------------------


def is_table(path: Path) -> bool:
    """Whether a file has cells rather than JSON, by its name."""
    return path.suffix.lower() in (*_DELIMITERS, _PARQUET, _WORKBOOK)


def table_rows(
    path: Path, *, delimiter: str | None = None, required: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table by column, each with the line that it begins on.

    Cells of CSV, TSV and workbooks are text; those of Parquet are what they are there. All names that are none of these
    are CSV. UsageError where the file can't be opened; DataError for a missing or doubled column, or a wrong row.

    Args:
        delimiter: what stands between two cells of a text; None: the heading shows it.
        required: columns that must be there.
    """
    kind = path.suffix.lower()
    if kind == _PARQUET:
        yield from _parquet_rows(path)
        return
    cells = _workbook_cells(path) if kind == _WORKBOOK else _text_cells(path, delimiter)
    row, header = next(cells, (1, []))
    if twice := [name for number, name in enumerate(header) if name and name in header[:number]]:
        raise row_error(path, row, "two columns have this name; rename or remove one", twice[0])
    if header and (missing := [name for name in required if name not in header]):
        raise row_error(path, row, f"the column is missing; columns: {', '.join(header)}", missing[0])
    for row, values in cells:
        if len(values) != len(header):
            problem = f"{len(values)} cells where the header has {len(header)}; the row is cut off or a quote is wrong"
            raise row_error(path, row, problem)
        yield row, dict(zip(header, values, strict=True))


def _text_cells(path: Path, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV or TSV that hold something."""
    lines = decoded_lines(path)
    first = next(lines, "")
    if delimiter is None:
        possible = _DELIMITERS.get(path.suffix.lower(), _DELIMITERS[".csv"])
        delimiter = max(possible, key=_QUOTED.sub("", first).count)
    reader = csv.reader(itertools.chain([first] if first else [], lines), delimiter=delimiter, strict=True)
    row, limit = 1, csv.field_size_limit(MOST_LINE)
    try:
        for values in reader:
            start, row = row, reader.line_num + 1
            if values:
                yield start, values
    except csv.Error as error:
        raise row_error(path, row, f"not a table: {error}; the file is cut off or a quote is not closed") from error
    finally:
        csv.field_size_limit(limit)


def decoded_lines(path: Path, stream: IO[bytes] | None = None) -> Iterator[str]:
    """The lines of a text file, those that end with a carriage return alone too; raises as `read_lines`."""
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
    """A workbook, as openpyxl gives it; UsageError where there is none, DataError where it can't be read."""
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
