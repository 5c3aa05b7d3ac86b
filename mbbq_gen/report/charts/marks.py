"""Dots with intervals: a row for each level, a panel for each score, a colour for each series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mbbq_gen.analysis.scores import GroupScore
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts.drawing import (
    FONT_SIZE,
    INK,
    MARGIN,
    ON_DARK,
    ON_LIGHT,
    SHARES,
    TICK,
    TITLE,
    Drawing,
    Key,
    Line,
    Plane,
    about_zero,
    box,
    colour,
    columns_height,
    half_range,
    legend_height,
    legend_width,
    marker,
    percent,
    plain,
    signed,
    text_width,
)
from mbbq_gen.report.conclusions import Interval, directions, listing
from mbbq_gen.report.score_tables import DASH
from mbbq_gen.report.view_model import METRIC_TITLES, ScoreView, range_text, spoken, value_of
from mbbq_gen.report.view_model import Key as ScoreKey


@dataclass(frozen=True)
class PlainNumber:
    """A number without an interval."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None


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
        ends = [end for dot in panel.dots.values() for end in (dot.value, dot.ci_low, dot.ci_high)]
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
        if dot.ci_low is not None and dot.ci_high is not None:
            plane.line((dot.ci_low, height), (dot.ci_high, height), colour(place), 1.0)
        plane.mark((dot.value, height), place, colour(place))
    plane.title(panel.title)
    plane.edges()


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
        _draw_bar_panel(plane, panel, len(series), reach)
        if place == len(panels) - 1:
            plane.columns(groups, is_turned=is_turned)
    drawing.legend(keys)
    return drawing


_NUMBERS, _BARS = 40.0, 88.0
"""Width of the numbers beside a panel, and its height."""


def _reach(panel: BarPanel) -> float:
    known = [one for row in panel.values for one in row if one is not None]
    return half_range([end for one in known for end in (one.value, one.ci_low, one.ci_high)])


def _draw_bar_panel(plane: Plane, panel: BarPanel, n_series: int, reach: float) -> None:
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
            if found.ci_low is not None and found.ci_high is not None:
                plane.line((at, found.ci_low), (at, found.ci_high))
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
        # One row; shares that have room for it are written on it.
        start = 0.0
        for place, share in enumerate(row_shares):
            if share:
                plane.bar((start, start + share), (at - 0.42, at + 0.42), STACK[place])
            if share >= 0.07:
                x, y = plane.at(start + share / 2, at)
                ink = ON_DARK if place in _DARK else ON_LIGHT
                plane.drawing.text(x, y, whole_percent(share), "middle", size=FONT_SIZE - 1.5, colour=ink)
            start += share
        drawing.text(left - 5, plane.at(0, at)[1], rows[row], "end")
        at += 1
    plane.x_scale((0, 0.2, 0.4, 0.6, 0.8, 1), percent, has_grid=False)
    plane.edges()
    drawing.legend(keys)
    return drawing


STACK = ("#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#8C7A00", "#7F7F7F", "#B0B0B0", "#5A5A5A")
"""Colours of the outcomes, in their order: the blue ones were read."""
_DARK = frozenset({0, 3, 5, 8})


Scale = Literal["bias", "rate"]
"""`bias`: two colours about 0, orange to the stereotype and purple against it; `rate`: one colour from 0 to 1."""
_CELL_WIDTH, _CELL_HEIGHT = 37.5, 18.0
_WIDEST = 936.0
"""Width from which panels stand below each other."""
_DIVERGING = ("#542788", "#8073ac", "#d8daeb", "#f7f7f7", "#fee0b6", "#e08214", "#b35806")
"""ColorBrewer's PuOr, turned round: told apart by all the colour-blind."""
_RISING = ("#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78", "#9b9476", "#bcae6c", "#dec958", "#fee838")
"""Points of cividis, which is made for the colour-blind."""


@dataclass(frozen=True)
class HeatPanel:
    """One map."""

    title: str
    values: Sequence[Sequence[float | None]]
    """Rows × columns; None: undefined, an empty cell with a dash."""
    marks: Sequence[Sequence[str]]
    scale: Scale = "bias"
    bare: Sequence[Sequence[bool]] | None = None
    """Cells that show their number without a colour, for they stand on too little; None: none of them."""
    links: Sequence[Sequence[str]] | None = None
    """What the cells lead to on a page; None: nowhere."""


def draw_heat_maps(
    panels: Sequence[HeatPanel],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    across: int | None = None,
    words: str = "against the stereotype ← bias → to the stereotype",
) -> Drawing:
    """The maps, all of one scale on one range of colours.

    `across`: how many stand side by side, if they fit; `words`: what the colours of the scale `bias` mean.
    """
    titles = text_width([panel.title for panel in panels]) * 72 * 1.12
    wide = max(_CELL_WIDTH * len(columns), titles)
    left = MARGIN + text_width(rows) * 72 + 8
    fitting = max(1, int((_WIDEST - left) / (wide + _HEAT_MAP_GAP)))
    abreast = min(across or len(panels), fitting, len(panels))
    below, is_turned = columns_height(columns, wide / len(columns))
    tall, lines = _CELL_HEIGHT * len(rows), math.ceil(len(panels) / abreast)
    scales: list[Scale] = list(dict.fromkeys(panel.scale for panel in panels))
    said = {"bias": words, "rate": "share of answers"}
    width = max(left + abreast * (wide + _HEAT_MAP_GAP), text_width(list(said.values())) * 72 + 2 * MARGIN)
    each = TITLE + tall + below + 6
    drawing = Drawing(width, MARGIN + each * lines + _SCALE * len(scales))
    reach = half_range([value for one in panels if one.scale == "bias" for row in one.values for value in row])
    for place, panel in enumerate(panels):
        corner = left + (wide + _HEAT_MAP_GAP) * (place % abreast), MARGIN + each * (place // abreast) + TITLE
        plane = Plane(drawing, *corner, wide, tall, (-0.5, len(columns) - 0.5), (-0.5, len(rows) - 0.5))
        _draw_map(plane, panel, reach)
        plane.columns(columns, is_turned=is_turned)
        if place % abreast == 0:
            plane.rows(rows)
    for place, scale in enumerate(scales):
        _draw_scale(drawing, drawing.height - _SCALE * (len(scales) - place), scale, reach, said[scale])
    return drawing


_HEAT_MAP_GAP, _SCALE = 14.0, 42.0
"""Room between maps, and the height of a scale of colours."""


def _draw_map(plane: Plane, panel: HeatPanel, reach: float) -> None:
    for row, values in enumerate(panel.values):
        for column, value in enumerate(values):
            x, y = plane.at(column, row)
            if value is None:
                plane.drawing.text(x, y, DASH, "middle")
                continue
            is_bare = panel.bare is not None and panel.bare[row][column]
            shade = _shade(value, panel.scale, reach)
            link = None if panel.links is None else panel.links[row][column]
            if link is not None or not is_bare:  # without a colour it is there to be pointed at
                width, height = plane.width / len(values), plane.height / len(panel.values)
                corner = (x - width / 2 + 0.3, y - height / 2 + 0.3)
                plane.drawing.add(box(corner, (width - 0.6, height - 0.6), shade, 0.0 if is_bare else 1.0, link))
            text = f"{value:+.2f}".replace("-0.00", "+0.00") if panel.scale == "bias" else f"{value:.2f}"
            mark = panel.marks[row][column]
            plane.drawing.text(
                x,
                y,
                text.replace("-", "−") + mark,
                "middle",
                size=FONT_SIZE - 1,
                colour=INK if is_bare else _ink_upon(shade),
                is_bold=bool(mark),
                link=link,
            )
    plane.title(panel.title)


def _shade(value: float, scale: Scale, reach: float) -> str:
    """The colour of a value: between the two of the scale that it lies between."""
    colours = _DIVERGING if scale == "bias" else _RISING
    share = (value + reach) / (2 * reach) if scale == "bias" else value
    at = min(1.0, max(0.0, share)) * (len(colours) - 1)
    low = min(int(at), len(colours) - 2)
    parts = zip(_parts(colours[low]), _parts(colours[low + 1]), strict=True)
    return "#" + "".join(f"{round(one + (other - one) * (at - low)):02x}" for one, other in parts)


def _parts(shade: str) -> tuple[int, int, int]:
    """Red, green and blue, up to 255."""
    return int(shade[1:3], 16), int(shade[3:5], 16), int(shade[5:7], 16)


def _ink_upon(shade: str) -> str:
    """Black or white, whichever is read better (WCAG's relative luminance)."""
    shares = [part / 255 for part in _parts(shade)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return ON_LIGHT if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else ON_DARK


def _draw_scale(drawing: Drawing, top: float, scale: Scale, reach: float, words: str) -> None:
    """What the colours mean, as a row of cells under the maps."""
    low, high = (-reach, reach) if scale == "bias" else (0.0, 1.0)
    wide, cells = min(216.0, drawing.width - 60), 21
    plane = Plane(drawing, (drawing.width - wide) / 2, top + 4, wide, 9, (low, high), (0, 1))
    for place in range(cells):
        value = low + (high - low) * (place + 0.5) / cells
        corner = (plane.left + wide / cells * place, plane.top)
        drawing.add(box(corner, (wide / cells + 0.2, 9), _shade(value, scale, reach)))
    plane.x_scale((low, (low + high) / 2, high), signed if scale == "bias" else plain, has_grid=False)
    drawing.text(drawing.width / 2, plane.bottom + 21, words, "middle")


_NAMED = 4
"""So many models are named; of more, only how many they are."""


def bias_takeaway(answers: ScoreView, by: Sequence[str], scores: Mapping[ScoreKey, GroupScore], metric: str) -> str:
    """Where a bias is off 0 after Holm's adjustment: `Bias, ambiguous: off 0 in 2 of 4, above in en and nl.`"""
    known = {key: group.metrics[metric] for key, group in scores.items() if group.metrics[metric].value is not None}
    title = METRIC_TITLES[metric].capitalize()
    if not known:
        return f"{title}: nothing to count."
    off = directions(known, answers.sampling.confidence)
    sides = {
        side: [key for key, found in off.items() if found == side] for side in ("stereotypical", "anti_stereotypical")
    }
    n_off = sum(map(len, sides.values()))
    if not n_off:
        return f"{title}: none is off 0 for sure, which does not show that there is no lean."

    words = {"stereotypical": "above (to the stereotype)", "anti_stereotypical": "below (against it)"}
    named = [f"{words[side]} {_where(answers, by, keys)}".rstrip() for side, keys in sides.items() if keys]
    return f"{title}: off 0 in {n_off} of {len(known)}, {'; '.join(named)}."


def _where(answers: ScoreView, by: Sequence[str], keys: Sequence[ScoreKey]) -> str:
    """`for a (en, tr) and b (nl)`: the groups by model; of many models, how many groups they are."""
    models: dict[str, list[str]] = {}
    for key in keys:
        models.setdefault(answers.spoken_key(by[:1], key[:1]), []).append(answers.spoken_key(by[1:], key[1:]))
    if len(models) > _NAMED:
        return f"for {len(models)} models"
    if list(models) == [""]:
        places = [place for place in models[""] if place]
        return f"in {listing(places)}" if places else ""
    named = [
        f"{model} ({', '.join(found)})" if (found := [p for p in its if p]) else model for model, its in models.items()
    ]
    return f"for {listing(named)}"


def marked_cells(
    answers: ScoreView,
    by: Sequence[str],
    scores: Mapping[ScoreKey, GroupScore],
    metric: str,
    marked: Sequence[ScoreKey],
) -> str:
    """How many cells of a map differ from 0, and the farthest of them."""
    known = {key: value for key, group in scores.items() if (value := value_of(group, metric)) is not None}
    title = METRIC_TITLES[metric].capitalize()
    if not known:
        return f"{title}: nothing to count."
    if not marked:
        return f"{title}: of {len(known)} cells none differs from 0 for sure."
    farthest = max(marked, key=lambda key: abs(known[key]))
    where = answers.spoken_key(by, farthest)
    verb = "differs" if len(marked) == 1 else "differ"
    return (
        f"{title}: {len(marked)} of {len(known)} cells {verb} from 0 (starred), farthest {where} "
        f"({spoken(metric, known[farthest])})."
    )


def extremes(answers: ScoreView, by: Sequence[str], values: Mapping[ScoreKey, float | None], metric: str) -> str:
    """`Accuracy, ambiguous from 0.21 (tr) to 0.93 (en).`"""
    text = range_text(metric, [(answers.spoken_key(by, key), value) for key, value in values.items()])
    return f"{text[:1].upper()}{text[1:]}."
