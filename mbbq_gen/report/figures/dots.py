"""Dots with intervals: a row for each level, a panel for each score, a colour for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mbbq_gen.report.figures.drawing import (
    MARGIN,
    SHARES,
    TICK,
    TITLE,
    Drawing,
    Key,
    Line,
    Plane,
    about_zero,
    legend_height,
    legend_width,
    plain,
)
from mbbq_gen.report.figures.style import colour, half_range, marker, signed, text_width


class Interval(Protocol):
    """A number with an interval."""

    @property
    def value(self) -> float | None:
        """None where it is undefined."""

    @property
    def low(self) -> float | None:
        """None where there is no interval."""

    @property
    def high(self) -> float | None:
        """None where there is no interval."""


@dataclass(frozen=True)
class PlainNumber:
    """A number without an interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class DotPanel:
    """One score over all rows and series."""

    title: str
    is_signed: bool
    """A bias, drawn about 0; else a rate from 0 to 1."""
    dots: Mapping[tuple[int, int], Interval]
    """(row, series) → what is drawn; no entry: nothing."""
    line: float | None = None
    """Where else a line is drawn: chance, say."""


def draw_dots(panels: Sequence[DotPanel], rows: Sequence[str], series: Sequence[str]) -> Drawing:
    """All panels side by side; a legend where there are several series."""
    keys = [Key(name, colour(place), marker(place)) for place, name in enumerate(series)] if len(series) > 1 else []
    left = MARGIN + text_width(rows) * 72 + 8
    step = max(_PANEL, *(text_width([panel.title]) * 72 * 1.12 + _GAP for panel in panels))
    width = max(left + step * len(panels), legend_width(keys))
    tall = max(30.0, (10 + 9.4 * len(series)) * len(rows))
    drawing = Drawing(width, MARGIN + TITLE + tall + TICK + MARGIN + legend_height(keys, width))
    for place, panel in enumerate(panels):
        ends = [end for dot in panel.dots.values() for end in (dot.value, dot.low, dot.high)]
        reach = half_range(ends)
        across = (-reach * 1.04, reach * 1.04) if panel.is_signed else (-0.02, 1.02)
        down = (-0.55, len(rows) - 0.45)
        plane = Plane(drawing, left + step * place, MARGIN + TITLE, step - _GAP, tall, across, down)
        _draw_panel(plane, panel, len(rows), len(series), reach)
        if place == 0:
            plane.rows(rows)
    drawing.legend(keys)
    return drawing


_PANEL, _GAP = 160.0, 18.0
"""Width of a panel and of the room behind it."""


def _draw_panel(plane: Plane, panel: DotPanel, n_rows: int, n_series: int, reach: float) -> None:
    if panel.is_signed:
        plane.x_scale(about_zero(reach), signed)
        plane.upright(0)
    else:
        plane.x_scale(SHARES, plain)
    if panel.line is not None:
        plane.upright(panel.line, is_dashed=True)
    if n_series > 1:
        for edge in range(1, n_rows):
            ends = plane.at(plane.x[0], edge - 0.5), plane.at(plane.x[1], edge - 0.5)
            plane.drawing.add(Line(*ends, width=0.5, opacity=0.12))
    step = 0.8 / max(n_series, 1)
    for (row, place), dot in panel.dots.items():
        if dot.value is None:
            continue
        height = row - 0.4 + step * (place + 0.5)
        if dot.low is not None and dot.high is not None:
            plane.line((dot.low, height), (dot.high, height), colour(place), 1.0)
        plane.mark((dot.value, height), place, colour(place))
    plane.title(panel.title)
    plane.edges()
