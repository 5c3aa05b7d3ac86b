"""What a chart is: a drawing, its words, and the table of everything that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ColumnKind = Literal["text", "count", "share", "score", "p_value"]
"""How a column's numbers are written: as counts, as rates from 0 to 1, as scores with their sign, as p values."""
Section = Literal["scores", "categories", "control", "robustness", "position", "outcomes", "papers"]
"""What a chart is about."""


class Marked(NamedTuple):
    """A number with a mark behind it."""

    value: float | None
    mark: str
    """`*` or the like; empty for none. The chart's caption says what it means."""


Cell = str | int | float | Marked | None
"""None: there is no number, or it is undefined."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    """Key, as in the heading of a CSV file."""
    title: str
    """Heading for a person."""
    kind: ColumnKind = "text"
    over: str | None = None
    """Heading that it shares with its neighbours; None: none."""


@dataclass(frozen=True)
class DataTable:
    """Everything that a chart draws. Texts are as in the data: who shows them escapes them."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.columns), (row, self.columns)

    def texts(self) -> list[list[str]]:
        """The rows as a person reads them; a dash where there is no number."""
        from mbbq_gen.report.figures.table_text import cell_text

        return [
            [cell_text(cell, column.kind) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows
        ]

    def csv(self) -> str:
        """As CSV: full numbers, marks in columns of their own, nothing that a spreadsheet takes for a formula."""
        from mbbq_gen.report.figures.table_text import csv_text

        return csv_text(self)

    def markdown(self) -> str:
        """As a Markdown table."""
        from mbbq_gen.report.figures.table_text import markdown_text

        return markdown_text(self)

    def latex(self, caption: str, label: str) -> str:
        """As a LaTeX table (booktabs)."""
        from mbbq_gen.report.figures.table_text import latex_text

        return latex_text(self, caption, label)


@dataclass(frozen=True)
class Chart:
    """A chart with its words."""

    name: str
    """File name, and the beginning of the ids in its SVG."""
    section: Section
    title: str
    """One line."""
    alt: str
    """What is to be seen, with numbers, for who does not see it."""
    caption: str
    """How to read it, what its marks mean, whose figure it is shaped after."""
    table: DataTable
    figure: Figure | None
    """None: a table only."""
    command: str
    """Recomputes its numbers; RUN stands for the runs."""


@dataclass(frozen=True)
class LeftOut:
    """A chart that the data do not allow."""

    name: str
    title: str
    reason: str


@dataclass(frozen=True)
class ChartSet:
    """What could be made of some answers, and what could not."""

    charts: tuple[Chart, ...]
    left_out: tuple[LeftOut, ...]


class NotDrawableError(Exception):
    """The data do not allow a chart; the text says why. Stays within this package: it becomes a `LeftOut`."""
