"""Bars: groups of them with intervals, and stacks that add up to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.report.figures.dots import Interval
from mbbq_gen.report.figures.style import (
    FONT_SIZE,
    INK,
    ON_DARK,
    ON_LIGHT,
    colour,
    grid,
    half_range,
    laid_out,
    legend_below,
    legend_height,
    new_figure,
    signed,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BarPanel:
    """One score: a bar for each series in each group."""

    title: str
    values: Sequence[Sequence[Interval | None]]
    """Series × groups."""
    is_signed: bool
    """About 0; else from 0 to 1."""
    dots: Sequence[Sequence[float | None]] | None = None
    """Series × groups: rates that are drawn as diamonds upon the bars; None: none."""
    line: float | None = None
    """Where else a line is drawn: chance, say."""


def draw_bars(panels: Sequence[BarPanel], groups: Sequence[str], series: Sequence[str], *, dots: str = "") -> Figure:
    """The panels below each other over the same groups. `dots`: what diamonds are, for the legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    width_of_group = max(0.34, 0.14 * len(series) + 0.14)
    width = max(3.4, 0.8 + width_of_group * len(groups))
    is_turned = text_width(groups) > (width - 0.8) / len(groups) - 0.08
    below = text_width(groups) + 0.1 if is_turned else 0.25
    names = [*series, dots] if dots else list(series)
    figure = new_figure(width, 1.55 * len(panels) + below + 0.15 + legend_height(names, width))
    for axes, panel in zip(figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0], panels, strict=True):
        _draw_panel(axes, panel, len(groups), len(series))
    axes.set_xticks(range(len(groups)), groups, rotation=90 if is_turned else 0)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    handles: list[Artist] = [Patch(facecolor=colour(place)) for place in range(len(series))]
    if dots:
        handles.append(Line2D([], [], color=INK, marker="D", linestyle="", markersize=3.5))
    if len(names) > 1:
        legend_below(figure, handles, names)
    return laid_out(figure)


def _draw_panel(axes: Axes, panel: BarPanel, n_groups: int, n_series: int) -> None:
    width = 0.8 / n_series
    for place, values in enumerate(panel.values):
        for group, found in enumerate(values):
            if found is None or found.value is None:
                continue
            at = group - 0.4 + width * (place + 0.5)
            axes.bar([at], [found.value], width=width * 0.92, color=colour(place), linewidth=0)
            if found.low is not None and found.high is not None:
                axes.plot([at, at], [found.low, found.high], color=INK, linewidth=0.8, solid_capstyle="butt")
            _diamond(axes, panel, place, group, at)
    axes.set_title(panel.title, loc="left")
    axes.tick_params(axis="x", length=0)
    if panel.is_signed:
        known = [one for row in panel.values for one in row if one is not None]
        reach = half_range([end for one in known for end in (one.value, one.low, one.high)])
        axes.set_ylim(-reach * 1.04, reach * 1.04)
        axes.set_yticks([-reach, -reach / 2, 0, reach / 2, reach])
        axes.yaxis.set_major_formatter(signed)
        axes.axhline(0, color=INK, linewidth=0.8)
    else:
        axes.set_ylim(0, 1.06)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.line is not None:
        axes.axhline(panel.line, color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
    grid(axes, "y")


def _diamond(axes: Axes, panel: BarPanel, place: int, group: int, at: float) -> None:
    rate = None if panel.dots is None else panel.dots[place][group]
    if rate is not None:
        axes.plot([at], [rate], color=INK, marker="D", markersize=3.5, linestyle="")


def draw_stacks(
    shares: Sequence[Sequence[float]],
    rows: Sequence[str],
    parts: Sequence[str],
    *,
    gaps: Sequence[int],
    used: Sequence[int],
) -> Figure:
    """A bar a row, lying, cut into parts that add up to one.

    `gaps`: rows before which a little room is left; `used`: the parts that occur, which the legend names.
    """
    from matplotlib.patches import Patch

    label_width = text_width(rows)
    height = 0.22 * len(rows) + 0.08 * len(gaps)
    names = [parts[place] for place in used]
    width = label_width + 4.8
    figure = new_figure(width, height + 0.4 + legend_height(names, width))
    axes = figure.subplots()
    heights, at = [], 0.0
    for row, row_shares in enumerate(shares):
        at += 0.4 if row in gaps else 0.0
        start = 0.0
        for place, share in enumerate(row_shares):
            axes.barh([at], [share], left=[start], height=0.84, color=STACK[place], linewidth=0)
            if share >= 0.07:
                ink = ON_DARK if place in _DARK else ON_LIGHT
                middle = start + share / 2
                axes.text(middle, at, f"{share:.0%}", ha="center", va="center", color=ink, fontsize=FONT_SIZE - 1.5)
            start += share
        heights.append(at)
        at += 1
    axes.set_yticks(heights, rows)
    axes.set_ylim(at - 0.45, -0.55)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.tick_params(axis="y", length=0)
    legend_below(figure, [Patch(facecolor=STACK[place]) for place in used], names)
    return laid_out(figure)


STACK = ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#8C7A00", "#7F7F7F", "#B0B0B0", "#5A5A5A")
"""Colours of the outcomes, in their order: the blue ones were read."""
_DARK = frozenset({0, 3, 5, 8})
