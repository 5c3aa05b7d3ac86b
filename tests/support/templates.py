"""Small template folders of our own, written where a test wants them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import openpyxl

from tests.support.cases import known, read_data

Cell = str | float | bool | None
Row = Mapping[str, Cell]


def write_workbook(path: Path, rows: Sequence[Row]) -> Path:
    """A workbook with the rows; its columns are the keys of all of them, in the order in which they come up."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    book = openpyxl.Workbook()
    sheet = known(book.active)
    sheet.append(columns)
    for row in rows:
        sheet.append([row.get(column) for column in columns])
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)
    return path


SUPPER: Row = read_data("engines/esbbq")["supper"]
"""A template of EsBBQ's form."""
