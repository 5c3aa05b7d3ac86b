"""Points in the plane of accuracy and bias, named where names find room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbbq_gen.report.charts.drawing import (
    FONT_SIZE,
    MARGIN,
    SHARES,
    TICK,
    TITLE,
    Drawing,
    Key,
    Plane,
    about_zero,
    colour,
    half_range,
    legend_height,
    legend_width,
    marker,
    plain,
    signed,
    text_width,
)
from mbbq_gen.report.charts.marks import Interval

NAMED = 36
"""Points in a panel up to which they are named."""
_LEFT, _ACROSS, _DOWN, _GAP = 50.0, 190.0, 170.0, 16.0
"""Room for the numbers beside the first panel, width and height of each, and the room between them."""


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


def draw_scatter(panels: Sequence[ScatterPanel], series: Sequence[str]) -> Drawing:
    """The panels side by side, their biases on one scale."""
    keys = [Key(name, colour(place), marker(place)) for place, name in enumerate(series)] if len(series) > 1 else []
    step = _ACROSS + _GAP
    width = max(_LEFT + step * len(panels), legend_width(keys))
    drawing = Drawing(width, MARGIN + TITLE + _DOWN + 2 * TICK + 2 + legend_height(keys, width))
    ends = [
        end
        for panel in panels
        for point in panel.points
        for end in (point.bias.value, point.bias.ci_low, point.bias.ci_high)
    ]
    reach = half_range(ends)
    for place, panel in enumerate(panels):
        scales = (-0.02, 1.02), (reach * 1.04, -reach * 1.04)
        plane = Plane(drawing, _LEFT + step * place, MARGIN + TITLE, _ACROSS, _DOWN, *scales)
        is_first = place == 0
        if panel.has_bound:
            for side in (1, -1):
                plane.area(_without_room(side, plane.y[0]), "#8a8a8a", 0.16)
        plane.x_scale(SHARES, plain)
        plane.y_scale(about_zero(reach), signed, is_named=is_first)
        plane.level(0)
        for point in panel.points:
            x, y = point.accuracy, point.bias
            assert x.value is not None
            assert y.value is not None
            shade = colour(point.series)
            if x.ci_low is not None and x.ci_high is not None:
                plane.line((x.ci_low, y.value), (x.ci_high, y.value), shade, 0.9)
            if y.ci_low is not None and y.ci_high is not None:
                plane.line((x.value, y.ci_low), (x.value, y.ci_high), shade, 0.9)
            plane.mark((x.value, y.value), point.series, shade, 4.5)
        plane.title(panel.title)
        plane.edges()
        plane.drawing.text(plane.left + plane.width / 2, plane.bottom + 1.5 * TICK, "accuracy", "middle")
        if is_first:
            plane.drawing.turned_text(MARGIN + FONT_SIZE / 2, plane.top + plane.height / 2, "bias")
        if len(panel.points) <= NAMED:
            _name_points(plane, panel.points, reach)
    drawing.legend(keys)
    return drawing


def _without_room(side: int, edge: float) -> list[tuple[float, float]]:
    """Where |bias| would be above 1 − accuracy, as far as the plane reaches: above the line at 0 or (-1) below it."""
    if edge < 1:
        return [(1 - edge, side * edge), (1, 0), (1, side * edge)]
    return [(0, side), (1, 0), (1, side * edge), (0, side * edge)]


# --- names beside points ---------------------------------------------------------------------------------------------

_Box = tuple[float, float, float, float]


def _name_points(plane: Plane, points: Sequence[Point], reach: float) -> None:
    """A name at the first place round each point where it covers no other name or point, and no bar if that can be.

    A point without such a place stays unnamed; the table has it.
    """
    per_inch = 1.04 / _ACROSS * 72, 2.08 * reach / _DOWN * 72
    taken: list[_Box] = [_box(point, (0.0, 0.0), (0.09, 0.09), per_inch) for point in points]
    bars = [bar for point in points for bar in _bars(point)]
    for point in points:
        if not point.name:
            continue
        width, height = text_width([point.name], FONT_SIZE - 1) + 0.02, 0.11
        boxes = [_box(point, offset, (width, height), per_inch) for offset in _places_round(width, height)]
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
            plane.drawing.text(*plane.at(x, y), point.name, "middle", size=FONT_SIZE - 1)


def _bars(point: Point) -> list[_Box]:
    """What the bars of a point's intervals cover."""
    assert point.accuracy.value is not None
    assert point.bias.value is not None
    found = []
    if point.accuracy.ci_low is not None and point.accuracy.ci_high is not None:
        found.append((point.accuracy.ci_low, point.bias.value, point.accuracy.ci_high, point.bias.value))
    if point.bias.ci_low is not None and point.bias.ci_high is not None:
        found.append((point.accuracy.value, point.bias.ci_low, point.accuracy.value, point.bias.ci_high))
    return found


def _places_round(width: float, height: float) -> list[tuple[float, float]]:
    """Where a name's middle may stand, in inches from the point: near places first."""
    found = []
    for away in (0.07, 0.15):
        right, up = away + width / 2, away + height / 2
        found += [(right, up * 0.8), (-right, up * 0.8), (right, -up * 0.8), (-right, -up * 0.8), (0.0, up), (0.0, -up)]
    return found


def _box(point: Point, offset: tuple[float, float], size: tuple[float, float], per_inch: tuple[float, float]) -> _Box:
    """A box round a point in the plane's own numbers; offsets and sizes are in inches."""
    assert point.accuracy.value is not None
    assert point.bias.value is not None
    (scale_x, scale_y), (width, height) = per_inch, size
    x, y = point.accuracy.value + offset[0] * scale_x, point.bias.value + offset[1] * scale_y
    return x - width / 2 * scale_x, y - height / 2 * scale_y, x + width / 2 * scale_x, y + height / 2 * scale_y


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
