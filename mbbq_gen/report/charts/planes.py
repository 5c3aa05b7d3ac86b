"""Points in a plane: accuracy against bias, and ability on the control questions against bias, regions named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.report.assessments import AMBIGUOUS, NO_CLAIM, UNINTERPRETABLE, GroupAssessment, Standing
from mbbq_gen.report.charts import Chart
from mbbq_gen.report.charts.score_view import BIAS_SIGN, BIAS_SOURCE, SUMMARY, PlainNumber, ScoreView, key_columns
from mbbq_gen.report.charts.vega import (
    INK,
    LETTER,
    Spec,
    half_range,
    interval,
    known,
    line_at,
    scale_of,
    series_of,
    shared,
    short_names,
    with_encoding,
)
from mbbq_gen.report.tables import DASH, LINK, Column, Interval, Table, ends_text, number, share

# --- points in a plane -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """A number on each axis, with a name beside it."""

    name: str
    series: str
    x: Interval
    y: Interval
    is_hollow: bool = False
    link: str | None = None
    said: str | None = None
    """What the link leads to, in words."""


Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""


def plane(
    points: Sequence[Point],
    size: tuple[int, int],
    reach: float,
    series: Spec,
    *,
    taken: Sequence[Box] = (),
    letter: float = LETTER,
) -> Spec:
    """The layer of the points: intervals, marks that lead somewhere, and names where there is room.

    Args:
        points: What is placed.
        size: Of the plane, in pixels.
        reach: The axis across goes from 0 to 1, the other from -reach to reach.
        series: Colours and markers, by `series_of`.
        taken: Where no name can stand.
        letter: Pixels that a letter of a name takes.
    """
    places = _name_places(points, size, reach, taken, letter)
    values: list[Spec] = []
    for point, place in zip(points, places, strict=True):
        row: Spec = {"name": point.name, "series": point.series, "hollow": point.is_hollow}
        row |= {"x": point.x.value, "x_low": point.x.ci_low, "x_high": point.x.ci_high}
        row |= {"y": point.y.value, "y_low": point.y.ci_low, "y_high": point.y.ci_high}
        if place is not None:
            row |= {"name_x": place[0] / size[0], "name_y": reach - place[1] / size[1] * 2 * reach, "far": place[2]}
        if point.link is not None:
            row |= {"href": point.link, "said": point.said}
        values.append(row)
    x, y = ({"field": name, "type": "quantitative"} for name in ("x", "y"))
    named = {"x": {"field": "name_x", "type": "quantitative"}, "y": {"field": "name_y", "type": "quantitative"}}
    mark: Spec = {"x": x, "y": y, **series, "href": {"field": "href"}}
    hollow = {**mark, "color": {"value": INK}}
    colour = series["color"]
    lead: Spec = {"x": x, "y": y, "x2": {"field": "name_x"}, "y2": {"field": "name_y"}, "color": {"value": INK}}
    layers: list[Spec] = [
        with_encoding(interval("x", {}, "x_low", "x_high", strokeWidth=1.5), y=y, color=colour),
        with_encoding(interval("y", {}, "y_low", "y_high", strokeWidth=1.5), x=x, color=colour),
        {"transform": [{"filter": "datum.far"}], "mark": {"type": "rule", "opacity": 0.6}, "encoding": lead},
        {"transform": [{"filter": "!datum.hollow"}], "mark": {"type": "point", "size": 90}, "encoding": mark},
        {
            "transform": [{"filter": "datum.hollow"}],
            "mark": {"type": "point", "size": 90, "filled": False, "fill": "transparent", "strokeWidth": 1.5},
            "encoding": hollow,
        },
        {
            "transform": known("name_x"),
            "mark": {"type": "text", "fontWeight": "bold"},
            "encoding": {**named, "text": {"field": "name"}, "color": {"value": INK}},
        },
    ]
    return {"data": {"values": values}, "layer": layers}


_AROUND = tuple((far, angle) for far in (9, 20, 34, 50) for angle in (0, 180, -45, 45, -135, 135, -90, 90))
"""Where a name may stand about its mark: distance in pixels, and angle in degrees from the right; best first."""


def _name_places(
    points: Sequence[Point], size: tuple[int, int], reach: float, taken: Sequence[Box], letter: float
) -> list[tuple[float, float, bool] | None]:
    """The middle of each name, and whether it is far: where it covers no mark and no name, and no bar if that can be.

    None where there is no such place; the table has the name.
    """

    def at(x: float, y: float) -> tuple[float, float]:
        return x * size[0], (reach - y) / (2 * reach) * size[1]

    middles = [at(point.x.value or 0.0, point.y.value or 0.0) for point in points]
    bars: list[Box] = []
    for point, (x, y) in zip(points, middles, strict=True):
        if point.x.ci_low is not None and point.x.ci_high is not None:
            bars.append((at(point.x.ci_low, 0)[0], y - 1, at(point.x.ci_high, 0)[0], y + 1))
        if point.y.ci_low is not None and point.y.ci_high is not None:
            bars.append((x - 1, at(0, point.y.ci_high)[1], x + 1, at(0, point.y.ci_low)[1]))
    covered = [*taken, *((x - 6, y - 6, x + 6, y + 6) for x, y in middles)]
    found: list[tuple[float, float, bool] | None] = []
    for point, (x, y) in zip(points, middles, strict=True):
        half = len(point.name) * letter / 2
        free: list[tuple[Box, tuple[float, float, bool]]] = []
        for far, angle in _AROUND if point.name else ():
            across, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            left, top = x + across * (far + half), y + down * (far + 3)
            box = (left - half - 1, top - 7, left + half + 1, top + 7)
            inside = box[0] >= 0 and box[2] <= size[0] + 20 and box[1] >= 0 and box[3] <= size[1]
            if inside and not any(_overlap(box, other) for other in covered):
                free.append((box, (left, top, far > 20)))
        clear = [place for place in free if not any(_overlap(place[0], bar) for bar in bars)]
        chosen = next(iter([*clear, *free]), None)
        if chosen is not None:
            covered.append(chosen[0])
        found.append(None if chosen is None else chosen[1])
    return found


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# --- accuracy against bias -------------------------------------------------------------------------------------------


def accuracy_against_bias(answers: ScoreView) -> Chart:
    """Accuracy and bias as the two axes of a plane: a point for each language and model."""
    found, places = answers.scored(answers.by, SUMMARY), answers.levels(answers.place_by)
    models = dict(zip(answers.models, short_names(answers.models), strict=True))
    if (len(places) == 1 and len(models) > 1) or len(found.groups) > 2 * _NAMED:
        places = dict.fromkeys(places, "")  # colours tell the models apart; or there is no room for names
    points = {
        condition: [
            Point(places[key[1:]], models[key[0]], accuracy, bias)
            for key in found.groups
            if (accuracy := found.score(key, f"accuracy_{condition}")) and (bias := found.score(key, metric))
        ]
        for condition, metric in (("ambiguous", SUMMARY[2]), ("disambiguated", SUMMARY[3]))
    }
    return Chart(
        title=f"Accuracy against bias by {answers.where}",
        sees=found.bias_takeaway(SUMMARY[2]),
        alt=f"Two planes of points, accuracy to the right and bias upwards. {found.alt()}",
        caption=f"{BIAS_SOURCE} {BIAS_SIGN} Grey: the largest bias that the accuracy leaves room for; "
        "a model without bias stands on the line at 0, and a good one at its right end. "
        f"{answers.interval_caption}",
        table=found.table(),
        spec=_planes(points, list(models.values())),
        command=found.command(),
    )


_NAMED = 36
"""Points in a plane up to which they are named."""


def _planes(points: Mapping[str, Sequence[Point]], series: Sequence[str]) -> Spec:
    """The two conditions side by side, their biases on one scale."""
    ends = [end for some in points.values() for one in some for end in (one.y.value, one.y.ci_low, one.y.ci_high)]
    reach, size = half_range(ends), (285, 255)
    coloured = series_of(series, 2 * size[0])
    # Where |bias| would be above 1 − accuracy, as far as the plane reaches: a band at its upper and its lower edge.
    bound = [
        {"x": x, "low": max(x - 1, -reach), "high": min(1 - x, reach)} for x in sorted({0.0, 1 - min(reach, 1.0), 1.0})
    ]
    grey: list[Spec] = []
    for end, edge in (("high", reach), ("low", -reach)):
        x, y = ({"field": name, "type": "quantitative"} for name in ("x", end))
        area = {"type": "area", "color": "#8a8a8a", "opacity": 0.2}
        grey.append({"data": {"values": bound}, "mark": area, "encoding": {"x": x, "y": y, "y2": {"datum": edge}}})
    parts = []
    for place, (condition, some) in enumerate(points.items()):
        title = f"{condition.capitalize()} contexts" + (" (diff-bias)" if condition == "disambiguated" else "")
        named = {"title": "bias"} if place == 0 else {"labelExpr": "''"}
        x, y = scale_of(None, grid=True, title="accuracy"), scale_of(reach, grid=True, **named)
        behind = grey if condition == "ambiguous" else []
        layer = [*behind, line_at("y", 0), plane(some, size, reach, coloured)]
        encoding = {"x": {"type": "quantitative", **x}, "y": {"type": "quantitative", **y}}
        parts.append({"title": title, "width": size[0], "height": size[1], "encoding": encoding, "layer": layer})
    return shared({"hconcat": parts})


# --- ability against bias --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AbilityPoint:
    """A language of a model on a benchmark."""

    model: str
    benchmark: str
    language: str
    """Its code."""
    assessment: Standing
    accuracy: Interval
    """On the control questions; without them, in disambiguated contexts."""
    bias: Interval
    link: str
    """Where in the page it leads: `#browse?language=tr`."""


def ability_points(judged: Sequence[GroupAssessment]) -> list[AbilityPoint]:
    """What there are scores for; each leads to its answers."""
    found = []
    for one in judged:
        if one.bias is not None:
            group = {name: one.group[name] or "" for name in ("model", "benchmark", "language")}
            accuracy = (one.control or one.bias).metrics["accuracy_disambiguated"]
            link = LINK + urlencode(group | {"split": "bias"})
            place = (group["model"] or DASH, group["benchmark"] or DASH, group["language"])
            found.append(AbilityPoint(*place, one.assessment, accuracy, one.bias.metrics[AMBIGUOUS], link))
    return found


_ABILITY_COLUMNS = (
    *key_columns(("model", "benchmark", "language")),
    *(Column("control_accuracy", "accuracy, control", "share"), Column(AMBIGUOUS, "bias", "score")),
    *(Column("ci_low", "CI low", "score"), Column("ci_high", "CI high", "score"), Column("assessment", "assessment")),
)
_ABILITY_SIZE = (380, 320)
_REACHES = (0.6, 0.8, 1.0)
"""How far the axis of bias may reach: with round numbers half-way too."""


def ability_against_bias(
    found: Sequence[AbilityPoint], names: Mapping[str, str], name: str = "picture"
) -> Chart | None:
    """Accuracy against the direction of bias, a mark a language, regions named; None where there is no score.

    Hollow marks claim nothing: too few answers parsed, no better than guessing (both without an interval), or not
    surely better.

    `names`: language code → its name; `name`: what the ids in the drawing begin with, its own on each page.
    """
    shown = [one for one in found if one.accuracy.value is not None and one.bias.value is not None]
    if not shown:
        return None
    rows = tuple(
        (
            *(one.model, one.benchmark, one.language, one.accuracy.value, one.bias.value),
            *(one.bias.ci_low, one.bias.ci_high, one.assessment),
        )
        for one in shown
    )
    return Chart(
        name=name,
        title="Accuracy against the direction of bias",
        sees="Higher: more stereotypical. Left of the dashed line: no better than guessing. Hollow: no bias claimed, "
        "because it is not surely better than guessing, or too few answers were parsed. A mark links to its "
        f"{'answers' if shown[0].link.startswith(LINK) else 'row'}.",
        alt="; ".join(_in_words(one, names) for one in shown),
        caption="",
        table=Table(_ABILITY_COLUMNS, rows),
        spec=_ability_spec(shown, names),
        command="",
    )


def _ability_spec(found: Sequence[AbilityPoint], names: Mapping[str, str]) -> Spec:
    several = len({one.benchmark for one in found}) > 1
    called = [f"{one.model} on {one.benchmark}" if several else one.model for one in found]
    series = dict(zip(dict.fromkeys(called), short_names(list(dict.fromkeys(called)), 60), strict=True))
    points = []
    for one, model in zip(found, called, strict=True):
        means_nothing = one.assessment in UNINTERPRETABLE
        accuracy, bias = (PlainNumber(part.value) if means_nothing else part for part in (one.accuracy, one.bias))
        said = f"{'Answers: ' if one.link.startswith(LINK) else ''}{_in_words(one, names)}"
        points.append(Point(one.language, series[model], accuracy, bias, one.assessment in NO_CLAIM, one.link, said))
    ends = [abs(end) for one in points for end in (one.y.value, one.y.ci_low, one.y.ci_high) if end is not None]
    reach = next((reach for reach in _REACHES if max(ends) < reach - 0.05), _REACHES[-1])
    width, height = _ABILITY_SIZE
    large = {"labelFontSize": 13, "titleFontSize": 13}
    shares = {"values": [0, CHANCE, 0.6, 0.8, 1], "labelExpr": "format(datum.value, '.0%')"}
    x = scale_of(None, **large, **shares, title="accuracy on the control questions")
    y = scale_of(reach, **large, title="bias in ambiguous contexts")
    regions, taken = _regions(reach)
    legend = {"columns": 1, "symbolSize": 90, "labelFontSize": 13}
    coloured = {name: {**one, "legend": legend} for name, one in series_of(list(series.values()), width).items()}
    return {
        "width": width,
        "height": height,
        "encoding": {"x": {"type": "quantitative", **x}, "y": {"type": "quantitative", **y}},
        "layer": [*regions, plane(points, _ABILITY_SIZE, reach, coloured, taken=taken, letter=8.5)],
    }


def _regions(reach: float) -> tuple[list[Spec], list[Box]]:
    """Coloured regions with their names, the lines between them, and where no other name can stand."""
    width, height = _ABILITY_SIZE
    here: Spec = {"data": {"values": [{}]}}
    rects = [
        {
            **here,
            "mark": {"type": "rect", "color": colour, "opacity": 0.13},
            "encoding": {"x": {"datum": left}, "x2": {"datum": right}, "y": {"datum": low}, "y2": {"datum": high}},
        }
        for left, right, low, high, colour in (
            (0.0, CHANCE, -reach, reach, "#808080"),
            (CHANCE, 1.0, 0.0, reach, "#e08214"),
            (CHANCE, 1.0, -reach, 0.0, "#8073ac"),
        )
    ]
    able = CHANCE * width + 8
    names = (
        *((10.0, 16.0, "can't do"), (10.0, 32.0, "the task"), (able, 16.0, "able, stereotypical")),
        *((able, height / 2 - 9, "able, no bias shown"), (able, height - 10.0, "able, anti-stereotypical")),
    )
    style = {"type": "text", "align": "left", "fontStyle": "italic", "fontSize": 13, "opacity": 0.8}
    texts = [
        {
            **here,
            "mark": {**style, "text": text},
            "encoding": {"x": {"value": x}, "y": {"value": y}, "color": {"value": INK}},
        }
        for x, y, text in names
    ]
    taken = [(x - 2, y - 9, x + 7 * len(text), y + 7) for x, y, text in names]
    return [*rects, line_at("y", 0), line_at("x", CHANCE, is_dashed=True), *texts], taken


_STANDINGS = {
    "mostly_unparsed": ", too few answers parsed: the bias cannot be interpreted",
    "at_chance": ", no better than guessing: the bias cannot be interpreted",
    "uncertain_ability": ", perhaps guessing",
    "no_control": " on the benchmark's own questions, because there are no control questions",
}


def _in_words(one: AbilityPoint, names: Mapping[str, str]) -> str:
    ends = "" if one.assessment in UNINTERPRETABLE else ends_text(one.bias)
    return (
        f"{one.model} on {one.benchmark}, {names.get(one.language, one.language)}: "
        f"accuracy {share(one.accuracy.value)}, bias {number(one.bias.value, signed=True)}{ends}"
        f"{_STANDINGS.get(one.assessment, '')}"
    )
