"""Points in the plane of accuracy and bias, named where names find room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.report.figures.dots import Interval
from mbbq_gen.report.figures.style import (
    FONT_SIZE,
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

NAMED = 36
"""Points in a panel up to which they are named."""
_WIDTH, _HEIGHT = 3.1, 2.9
_PER_X, _PER_Y = 2.6, 2.3
"""Inches, about, that the axes span in a panel."""


@dataclass(frozen=True)
class Point:
    """One language of one model."""

    name: str
    series: int
    accuracy: Interval
    bias: Interval


@dataclass(frozen=True)
class ScatterPanel:
    """One condition."""

    title: str
    points: Sequence[Point]
    has_bound: bool
    """Whether |bias| ≤ 1 − accuracy holds, and is drawn."""


def draw_scatter(panels: Sequence[ScatterPanel], series: Sequence[str]) -> Figure:
    """The panels side by side, their biases on one scale."""
    from matplotlib.lines import Line2D

    width = _WIDTH * len(panels) + 0.4
    figure = new_figure(width, _HEIGHT + 0.3 + (legend_height(series, width) if len(series) > 1 else 0.0))
    ends = [
        end for panel in panels for point in panel.points for end in (point.bias.value, point.bias.low, point.bias.high)
    ]
    reach = half_range(ends)
    for panel, axes in zip(panels, figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], strict=True):
        _draw_panel(axes, panel, reach)
    if len(series) > 1:
        handles = [
            Line2D([], [], color=colour(n), marker=marker(n), linestyle="", markersize=4) for n in range(len(series))
        ]
        legend_below(figure, handles, series)
    return laid_out(figure)


def _draw_panel(axes: Axes, panel: ScatterPanel, reach: float) -> None:
    if panel.has_bound:
        axes.fill_between([0, 1], [1, 0], [1.2, 1.2], color="#8a8a8a", alpha=0.16, linewidth=0)
        axes.fill_between([0, 1], [-1, 0], [-1.2, -1.2], color="#8a8a8a", alpha=0.16, linewidth=0)
    axes.axhline(0, color=INK, linewidth=0.8)
    for point in panel.points:
        assert point.accuracy.value is not None
        assert point.bias.value is not None
        shade = colour(point.series)
        for interval, is_across in ((point.accuracy, True), (point.bias, False)):
            if interval.low is None or interval.high is None:
                continue
            span, still = (
                [interval.low, interval.high],
                [point.bias.value] * 2 if is_across else [point.accuracy.value] * 2,
            )
            xs, ys = (span, still) if is_across else (still, span)
            axes.plot(xs, ys, color=shade, linewidth=0.9, alpha=0.85, solid_capstyle="butt")
        at = ([point.accuracy.value], [point.bias.value])
        axes.plot(*at, color=shade, marker=marker(point.series), markersize=4.5, linestyle="")
    axes.set_title(panel.title, loc="left")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-reach * 1.04, reach * 1.04)
    axes.set_yticks([-reach, -reach / 2, 0, reach / 2, reach])
    axes.yaxis.set_major_formatter(signed)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("accuracy")
    axes.set_ylabel("bias")
    axes.label_outer()
    grid(axes, "both")
    if len(panel.points) <= NAMED:
        _name_points(axes, panel.points, reach)


# --- names beside points ---------------------------------------------------------------------------------------------

_Box = tuple[float, float, float, float]


def _name_points(axes: Axes, points: Sequence[Point], reach: float) -> None:
    """A name at the first place round each point where it covers no other name or point, and no bar if that can be.

    A point without such a place stays unnamed; the table has it.
    """
    scale_y = 2 * reach / _PER_Y
    taken: list[_Box] = [_box(point, (0.0, 0.0), (0.09, 0.09), scale_y) for point in points]
    bars = [bar for point in points for bar in _bars(point)]
    for point in points:
        if not point.name:
            continue
        width, height = text_width([point.name], FONT_SIZE - 1) + 0.02, 0.11
        boxes = [_box(point, offset, (width, height), scale_y) for offset in _places_round(width, height)]
        free = [
            box
            for box in boxes
            if box[0] >= 0
            and box[2] <= 1.02
            and max(-box[1], box[3]) <= reach
            and not any(_overlap(box, other) for other in taken)
        ]
        clear = [box for box in free if not any(_overlap(box, bar) for bar in bars)]
        if free:
            box = (clear or free)[0]
            taken.append(box)
            x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            axes.text(x, y, point.name, ha="center", va="center", fontsize=FONT_SIZE - 1)


def _bars(point: Point) -> list[_Box]:
    """What the bars of a point's intervals cover."""
    assert point.accuracy.value is not None
    assert point.bias.value is not None
    found = []
    if point.accuracy.low is not None and point.accuracy.high is not None:
        found.append((point.accuracy.low, point.bias.value, point.accuracy.high, point.bias.value))
    if point.bias.low is not None and point.bias.high is not None:
        found.append((point.accuracy.value, point.bias.low, point.accuracy.value, point.bias.high))
    return found


def _places_round(width: float, height: float) -> list[tuple[float, float]]:
    """Where a name's middle may stand, in inches from the point: near places first."""
    found = []
    for away in (0.07, 0.15):
        right, up = away + width / 2, away + height / 2
        found += [(right, up * 0.8), (-right, up * 0.8), (right, -up * 0.8), (-right, -up * 0.8), (0.0, up), (0.0, -up)]
    return found


def _box(point: Point, offset: tuple[float, float], size: tuple[float, float], scale_y: float) -> _Box:
    """A box round a point in the plane's own numbers; offsets and sizes are in inches."""
    assert point.accuracy.value is not None
    assert point.bias.value is not None
    scale_x, (width, height) = 1.04 / _PER_X, size
    x, y = point.accuracy.value + offset[0] * scale_x, point.bias.value + offset[1] * scale_y
    return x - width / 2 * scale_x, y - height / 2 * scale_y, x + width / 2 * scale_x, y + height / 2 * scale_y


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
