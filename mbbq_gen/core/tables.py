"""Reads lines, JSON and tables from any source; every error is one line.

    JSON Lines      UTF-8, with or without a byte order mark
    .csv .tsv       the same encoding; the delimiter (comma, semicolon or tab) is inferred from the header
    .parquet        through polars

Whole numbers stay numbers, NaN is None, a lone surrogate becomes U+FFFD. Depth and digits of JSON are bounded.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, Final

from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.text import storable_text

MEGABYTE: Final = 1 << 20
MOST_LINE: Final = 64 * MEGABYTE
"""Maximum bytes of a line or cell."""
MOST_DEPTH: Final = 100
"""Maximum levels of nesting."""

_PARQUET: Final = ".parquet"
_DELIMITERS: Final[Mapping[str, str]] = {".csv": ",;\t", ".tsv": "\t"}
"""Extension → possible delimiters."""
_BATCH: Final = 10_000
"""Rows of a Parquet file that are read at once."""
_OTHER_FILES: Final = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"PAR1": "Parquet", b"\x28\xb5\x2f\xfd": "Zstandard"}
"""First bytes → kind of a file that is not text."""
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONSTANTS: Final = {"NaN": None, "Infinity": math.inf, "-Infinity": -math.inf}
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class UnreadableError(Exception):
    """A single row or member can't be read."""


def row_error(path: Path | str, row: int, message: str, field: str = "") -> DataError:
    """An error with file, row and, if given, field."""
    return DataError(f"{path}:{row}: {f'{field}: ' if field else ''}{message}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def json_value(text: bytes | str) -> Any:
    """The value of a JSON text; UnreadableError if it can't be read."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogatepass")
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=_CONSTANTS.__getitem__)
        is_deep = text.count("[") + text.count("{") > MOST_DEPTH
        return _repaired(value) if is_deep or _SURROGATE.search(text) else value
    except UnicodeDecodeError as error:
        raise UnreadableError(_encoding_problem(error)) from error
    except json.JSONDecodeError as error:
        cut = "; the line is cut off" if error.pos >= len(error.doc.rstrip()) or "Unterminated" in error.msg else ""
        raise UnreadableError(f"not JSON: {error.msg} at character {error.pos + 1}{cut}") from error
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error
    except ValueError as error:
        raise UnreadableError("not JSON: a number with too many digits") from error


def json_object(text: bytes | str) -> dict[str, Any]:
    """The object of a JSON text; UnreadableError if it can't be read or is no object."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise UnreadableError(f"a JSON object is needed, found {type(value).__name__}")
    return value


def _repaired(value: Any, levels: int = MOST_DEPTH) -> Any:
    """The value with U+FFFD for lone surrogates and None for NaN; UnreadableError beyond `levels`."""
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


def _encoding_problem(error: UnicodeDecodeError) -> str:
    return f"not UTF-8 (byte 0x{error.object[error.start]:02x} at byte {error.start + 1}); save the file as UTF-8"


# --- lines -----------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file, open for reading; UsageError if it can't be opened."""
    try:
        with path.open("rb", buffering=1 << 16) as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def read_lines(path: Path, stream: IO[bytes] | None = None) -> Iterator[bytes]:
    """The lines of a UTF-8 file without its byte order mark, including blank lines.

    `stream`, such as stdin, is read instead of the file. UsageError if the file can't be opened; DataError if it is no
    text, has another encoding, or a line is too long.
    """
    with opened(path) if stream is None else nullcontext(stream) as file:
        number = 0
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise row_error(path, number, f"a line of more than {MOST_LINE // MEGABYTE} MB")
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
                kind = next((name for start, name in _OTHER_FILES.items() if line.startswith(start)), None)
                if kind is not None:
                    raise DataError(f"{path}: a {kind} file, not text; unpack it, or correct its extension")
                if line.startswith(_UTF_16) or b"\0" in line[:4]:
                    raise DataError(f"{path}: UTF-16, UTF-32 or no text; save the file as UTF-8")
            yield line


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1; raises as `read_lines`."""
    return ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())


# --- tables ----------------------------------------------------------------------------------------------------------


def is_table(path: Path) -> bool:
    """True if a file is a table rather than JSON, by its extension."""
    return path.suffix.lower() in (*_DELIMITERS, _PARQUET)


def table_rows(
    path: Path, *, delimiter: str | None = None, required: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table by column, each with the number of its first line.

    Cells of CSV and TSV are text; those of Parquet keep their types. Files with other extensions are read as CSV.
    UsageError if the file can't be opened; DataError for a missing or duplicate column, or a wrong row.

    Args:
        delimiter: Of CSV and TSV; None: inferred from the header.
        required: Columns that must exist.
    """
    if path.suffix.lower() == _PARQUET:
        yield from _parquet_rows(path)
        return
    cells = _text_cells(path, delimiter)
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
    """The rows of CSV or TSV that are not blank."""
    lines = decoded_lines(path)
    first, begin = next(lines, ""), 1
    if directive := re.fullmatch(r"sep=(.)\r?\n?", first):  # Excel's own first line
        delimiter, first, begin = directive[1], next(lines, ""), 2
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
    """The lines of a text file, also split at single carriage returns; raises as `read_lines`."""
    for number, line in enumerate(read_lines(path, stream), start=1):
        try:
            text = line.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise row_error(path, number, _encoding_problem(error)) from error
        yield from io.StringIO(storable_text(text), newline="") if "\r" in text[:-2] else (storable_text(text),)


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet file, numbered from 1 and read in batches."""
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
