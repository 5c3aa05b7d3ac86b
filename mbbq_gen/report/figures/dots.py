"""Dots with intervals: a row for each level, a panel for each score, a colour for each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mbbq_gen.report.figures.style import (
    INK,
    colour,
    grid,
    half_range,
    laid_out,
    legend_below,
    legend_height,
    marker,
    new_figure,
    signed,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def draw_dots(panels: Sequence[DotPanel], rows: Sequence[str], series: Sequence[str]) -> Figure:
    """All panels side by side; a legend where there are several series."""
    from matplotlib.lines import Line2D

    height_of_row = 0.14 + 0.13 * len(series)
    label_width = text_width(rows)
    width = label_width + 0.3 + 2.3 * len(panels)
    below = legend_height(series, width) if len(series) > 1 else 0.0
    figure = new_figure(width, max(1.1, 0.7 + height_of_row * len(rows)) + below)
    grid_of_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, axes in zip(panels, grid_of_axes, strict=True):
        _draw_panel(axes, panel, rows, len(series))
    if len(series) > 1:
        handles = [
            Line2D([], [], color=colour(n), marker=marker(n), linestyle="", markersize=4) for n in range(len(series))
        ]
        legend_below(figure, handles, series)
    return laid_out(figure)


def _draw_panel(axes: Axes, panel: DotPanel, rows: Sequence[str], n_series: int) -> None:
    step = 0.8 / max(n_series, 1)
    for (row, place), dot in panel.dots.items():
        if dot.value is None:
            continue
        height = row - 0.4 + step * (place + 0.5)
        if dot.low is not None and dot.high is not None:
            axes.plot([dot.low, dot.high], [height, height], color=colour(place), linewidth=1.0, solid_capstyle="butt")
        axes.plot([dot.value], [height], color=colour(place), marker=marker(place), markersize=4, linestyle="")
    axes.set_title(panel.title, loc="left")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    for edge in range(1, len(rows)):
        if n_series > 1:
            axes.axhline(edge - 0.5, color=INK, alpha=0.12, linewidth=0.5)
    _scale(axes, panel)
    grid(axes, "x")


def _scale(axes: Axes, panel: DotPanel) -> None:
    """Biases about 0, rates from 0 to 1."""
    if panel.is_signed:
        ends = [end for dot in panel.dots.values() for end in (dot.value, dot.low, dot.high)]
        reach = half_range(ends)
        axes.set_xlim(-reach * 1.04, reach * 1.04)
        axes.set_xticks([-reach, -reach / 2, 0, reach / 2, reach])
        axes.xaxis.set_major_formatter(signed)
        axes.axvline(0, color=INK, linewidth=0.8)
    else:
        axes.set_xlim(-0.02, 1.02)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.line is not None:
        axes.axvline(panel.line, color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
