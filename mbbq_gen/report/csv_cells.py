"""Tables as CSV that a spreadsheet can open: no cell is taken for a formula, nothing in it is invisible.

Numbers stay numbers. Lists stand as JSON in their cell. Whoever needs every character as it was takes Parquet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mbbq_gen.report.plain_text import harmless

if TYPE_CHECKING:
    import polars

UTF8_MARK = "\ufeff"
"""At the beginning of a file, tells spreadsheets that it is UTF-8."""


def csv_cells(frame: polars.DataFrame) -> polars.DataFrame:
    """The same table with cells that CSV can hold and a spreadsheet does not obey."""

    return frame.with_columns(
        _texts(series) for series in frame.get_columns() if series.dtype.is_nested() or _is_text(series.dtype)
    ).rename({name: harmless(name) for name in frame.columns if harmless(name) != name})


def _is_text(kind: polars.DataType) -> bool:
    import polars as pl

    return isinstance(kind, pl.String | pl.Categorical | pl.Enum)


def _texts(series: polars.Series) -> polars.Series:
    """A column's cells as harmless text; each different one is looked at once."""
    import polars as pl

    if series.dtype.is_nested():
        cells = [None if cell is None else _json(cell) for cell in series.to_list()]
    else:
        cells = series.cast(pl.String).to_list()
    seen = {cell: harmless(cell) for cell in set(cells) if cell is not None}
    return pl.Series(series.name, [None if cell is None else seen[cell] for cell in cells], pl.String)


def _json(cell: object) -> str:
    return json.dumps(cell, ensure_ascii=False)
