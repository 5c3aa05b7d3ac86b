"""Reads the first sheet of a workbook as rows of text, one language at a time.

Columns of several languages end in the language's code: `names_es`, `names_ca`. One language is read, without the
ending; the others are left out. Cells lose the blanks at their edges; a whole number is written without a fraction.
openpyxl is imported when a workbook is opened; it reads the twelve workbooks of EsBBQ in 1.5 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from mbbq_gen.datasets.rows import Place, checked
from mbbq_gen.errors import DataError, MissingExtraError, UnknownNameError

RowT = TypeVar("RowT", bound=BaseModel)

_ENDING: Final = re.compile(r"(.+)_([a-z]{2})")


def workbook_languages(path: Path, column: str) -> list[str]:
    """The languages that a workbook has a column in: `["ca", "es"]` for `names_ca` and `names_es`; sorted.

    Raises:
        MissingExtraError: where openpyxl is not installed.
        DataError: where the file is no workbook.
    """
    with_language = (_ENDING.fullmatch(name) for name in _header(path))
    return sorted(match[2] for match in with_language if match and match[1] == column)


def read_workbook(path: Path, schema: type[RowT], language: str, marker: str) -> Iterator[tuple[Place, RowT]]:
    """The rows of the first sheet that are not blank, in one language, each checked against a schema.

    Args:
        path: the workbook.
        schema: its fields are named as the columns, without a language's ending.
        language: code of the language to read.
        marker: a column that every language has; it tells which endings are languages.

    Raises:
        MissingExtraError: where openpyxl is not installed.
        UnknownNameError: where the workbook is not written in that language.
        DataError: where the file is no workbook, lacks a column, or at the first row that is not of the schema.
    """
    header, *rows = _rows(path) or [[]]
    languages = {match[2] for name in header if (match := _ENDING.fullmatch(name)) and match[1] == marker}
    if not languages:
        raise Place(path, 1).error(f"no column {marker}_xx with a language's code; columns: {', '.join(header)}")
    if language not in languages:
        raise UnknownNameError("language", language, languages, f"({path})")
    columns = [name if name in schema.model_fields else _in_language(name, language, languages) for name in header]
    _check_columns(columns, schema, Place(path, 1), language)
    for number, cells in enumerate(rows, start=2):
        if any(cells):
            fields = {name: cell for name, cell in zip(columns, cells, strict=False) if name}
            yield (place := Place(path, number)), checked(fields, schema, place)


def _in_language(name: str, language: str, languages: set[str]) -> str:
    """The name of a column without the language's ending; empty for a column of another language."""
    match = _ENDING.fullmatch(name)
    if match is None or match[2] not in languages:
        return name
    return match[1] if match[2] == language else ""


def _check_columns(columns: Sequence[str], schema: type[BaseModel], place: Place, language: str) -> None:
    """Refuses a sheet that lacks a column, or has one twice."""
    for name, field in schema.model_fields.items():
        if columns.count(name) > 1:
            raise place.error(f"stands twice; keep one column {name} or {name}_{language}", name)
        if field.is_required() and name not in columns:
            raise place.error(f"the column is missing; add {name}_{language} or {name}", name)


def _header(path: Path) -> list[str]:
    """The first row of the first sheet; empty where there is none."""
    rows = _rows(path, last=1)
    return rows[0] if rows else []


def _rows(path: Path, last: int | None = None) -> list[list[str]]:
    """The rows of the first sheet, blank ones too, up to the `last` one."""
    with closing(_open(path)) as book:
        sheet = book.worksheets[0]
        return [[_text(cell) for cell in cells] for cells in sheet.iter_rows(max_row=last, values_only=True)]


def _open(path: Path) -> Any:
    """A workbook, as openpyxl gives it."""
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: reading workbooks needs openpyxl; pip install 'mbbq-gen[templates]'"
        ) from error
    from zipfile import BadZipFile

    from openpyxl.utils.exceptions import InvalidFileException

    try:
        return openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (BadZipFile, InvalidFileException, KeyError) as error:
        raise DataError(f"{path}: not a workbook ({error}); save it as .xlsx") from error


def _text(cell: Any) -> str:
    """What a cell says."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
