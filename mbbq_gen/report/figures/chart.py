"""What a chart is: a drawing, its words, and the table (`table_text`) of everything that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mbbq_gen.report.figures.drawing import Drawing
from mbbq_gen.report.figures.table_text import DataTable

Section = Literal["scores", "categories", "control", "robustness", "position", "outcomes", "papers"]
"""What a chart is about."""


@dataclass(frozen=True)
class Chart:
    """A chart with its words."""

    name: str
    """File name, and the beginning of the ids in its SVG."""
    section: Section
    title: str
    """One line."""
    sees: str
    """What to see in it, in one line with its own numbers; stands above it."""
    alt: str
    """What is to be seen, with numbers, for who does not see it."""
    caption: str
    """How to read it, what its marks mean, whose figure it is shaped after."""
    table: DataTable
    drawing: Drawing | None
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
