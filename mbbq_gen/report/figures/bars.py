"""Bars: groups of them with intervals, and stacks that add up to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbbq_gen.report.figures.dots import Interval
from mbbq_gen.report.figures.drawing import (
    MARGIN,
    SHARES,
    TICK,
    TITLE,
    Drawing,
    Key,
    Plane,
    about_zero,
    columns_height,
    legend_height,
    legend_width,
    percent,
    plain,
)
from mbbq_gen.report.figures.style import FONT_SIZE, INK, ON_DARK, ON_LIGHT, colour, half_range, signed, text_width


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


def draw_bars(panels: Sequence[BarPanel], groups: Sequence[str], series: Sequence[str], *, dots: str = "") -> Drawing:
    """The panels below each other over the same groups. `dots`: what diamonds are, for the legend."""
    keys = [Key(name, colour(place)) for place, name in enumerate(series)] + ([Key(dots, INK, "D")] if dots else [])
    keys = keys if len(keys) > 1 else []
    step = max(24.5, 10.0 * len(series) + 10)
    titles = text_width([panel.title for panel in panels]) * 72 * 1.12
    wide = max(190.0, step * len(groups), titles)
    width = max(_NUMBERS + wide + MARGIN, legend_width(keys))
    below, is_turned = columns_height(groups, wide / len(groups))
    each = TITLE + _BARS + 8
    drawing = Drawing(width, MARGIN + each * len(panels) + below + legend_height(keys, width))
    for place, panel in enumerate(panels):
        reach = _reach(panel)
        y = (reach * 1.04, -reach * 1.04) if panel.is_signed else (1.06, 0.0)
        top = MARGIN + each * place + TITLE
        plane = Plane(drawing, _NUMBERS, top, wide, _BARS, (-0.6, len(groups) - 0.4), y)
        _draw_panel(plane, panel, len(series), reach)
        if place == len(panels) - 1:
            plane.columns(groups, is_turned=is_turned)
    drawing.legend(keys)
    return drawing


_NUMBERS, _BARS = 40.0, 88.0
"""Width of the numbers beside a panel, and its height."""


def _reach(panel: BarPanel) -> float:
    known = [one for row in panel.values for one in row if one is not None]
    return half_range([end for one in known for end in (one.value, one.low, one.high)])


def _draw_panel(plane: Plane, panel: BarPanel, n_series: int, reach: float) -> None:
    if panel.is_signed:
        plane.y_scale(about_zero(reach), signed)
    else:
        plane.y_scale(SHARES, plain)
    width = 0.8 / n_series
    for place, values in enumerate(panel.values):
        for group, found in enumerate(values):
            if found is None or found.value is None:
                continue
            at = group - 0.4 + width * (place + 0.5)
            plane.bar((at - width * 0.46, at + width * 0.46), (found.value, 0.0), colour(place))
            if found.low is not None and found.high is not None:
                plane.line((at, found.low), (at, found.high))
            rate = None if panel.dots is None else panel.dots[place][group]
            if rate is not None:
                plane.drawing.mark(plane.at(at, rate), "D", INK, 3.5)
    if panel.is_signed:
        plane.level(0)
    if panel.line is not None:
        plane.level(panel.line, is_dashed=True)
    plane.title(panel.title)
    plane.edges()


def draw_stacks(
    shares: Sequence[Sequence[float]],
    rows: Sequence[str],
    parts: Sequence[str],
    *,
    gaps: Sequence[int],
    used: Sequence[int],
) -> Drawing:
    """A bar a row, lying, cut into parts that add up to one.

    `gaps`: rows before which a little room is left; `used`: the parts that occur, which the legend names.
    """
    keys = [Key(parts[place], STACK[place]) for place in used]
    left = MARGIN + text_width(rows) * 72 + 8
    width = max(left + 300 + 3 * MARGIN, legend_width(keys))
    units = len(rows) + 0.4 * len(gaps)
    drawing = Drawing(width, MARGIN + 17 * units + TICK + MARGIN + legend_height(keys, width))
    plane = Plane(drawing, left, MARGIN, width - left - 3 * MARGIN, 17 * units, (0, 1), (-0.5, units - 0.5))
    at = 0.0
    for row, row_shares in enumerate(shares):
        at += 0.4 if row in gaps else 0.0
        _draw_stack(plane, at, row_shares)
        drawing.text(left - 5, plane.at(0, at)[1], rows[row], "end")
        at += 1
    plane.x_scale((0, 0.2, 0.4, 0.6, 0.8, 1), percent, has_grid=False)
    plane.edges()
    drawing.legend(keys)
    return drawing


def _draw_stack(plane: Plane, at: float, shares: Sequence[float]) -> None:
    """One row; shares that have room for it are written on it."""
    start = 0.0
    for place, share in enumerate(shares):
        if share:
            plane.bar((start, start + share), (at - 0.42, at + 0.42), STACK[place])
        if share >= 0.07:
            x, y = plane.at(start + share / 2, at)
            ink = ON_DARK if place in _DARK else ON_LIGHT
            plane.drawing.text(x, y, f"{share:.0%}", "middle", size=FONT_SIZE - 1.5, colour=ink)
        start += share


STACK = ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#8C7A00", "#7F7F7F", "#B0B0B0", "#5A5A5A")
"""Colours of the outcomes, in their order: the blue ones were read."""
_DARK = frozenset({0, 3, 5, 8})
