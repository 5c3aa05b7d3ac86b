"""Scatter plots: accuracy against bias, and accuracy on the control questions against bias, with named regions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.report.charts import Chart
from mbbq_gen.report.charts.score_view import SUMMARY, PlainNumber, ScoreSet, key_names, key_table
from mbbq_gen.report.charts.vega import (
    INK,
    LETTER_WIDTH,
    ONE_ROW,
    Spec,
    are_valid,
    half_range,
    interval,
    layer,
    line_at,
    points,
    quantitative,
    scale_of,
    series_of,
    shared,
    short_names,
)
from mbbq_gen.report.conclusions import AMBIGUOUS, NO_CLAIM, UNINTERPRETABLE, Assessment, GroupAssessment
from mbbq_gen.report.tables import DASH, LINK, Interval, interval_text, number, share

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""


def point_row(name: str, series: str, x: Interval, y: Interval, **more: Any) -> Spec:
    """A row of data: a point with its intervals and its name; `more`: `hollow`, and `href`, the target of its link."""
    row = {"name": name, "series": series, "hollow": False, "x": x.value, "x_low": x.ci_low, "x_high": x.ci_high}
    return row | {"y": y.value, "y_low": y.ci_low, "y_high": y.ci_high} | more


def vertical_reach(rows: Iterable[Spec]) -> float:
    """The end of a vertical axis about 0 that includes all values and intervals."""
    return half_range(row[end] for row in rows for end in ("y", "y_low", "y_high"))


_NAME_POSITIONS = tuple(product((9, 20), (0, 180, -45, 45, -135, 135, -90, 90)))
"""Positions of a name around its mark: distance in pixels, angle in degrees from the right; the best first."""


def scatter(rows: Sequence[Spec], size: tuple[int, int], reach: float, series: Spec, taken: Sequence[Box] = ()) -> Spec:
    """The layer of the points: intervals, marks with links, and those names that cover nothing else.

    Args:
        rows: Points, by `point_row`.
        size: Width and height of the plot, in pixels.
        reach: The horizontal axis goes from 0 to 1, the vertical one from -reach to reach.
        series: Colours and markers, by `series_of`.
        taken: Areas without names.
    """
    centres = [(row["x"] * size[0], (reach - row["y"]) / (2 * reach) * size[1]) for row in rows]
    covered = [*taken, *((x - 6, y - 6, x + 6, y + 6) for x, y in centres)]
    values: list[Spec] = []
    for row, (x, y) in zip(rows, centres, strict=True):
        half_width = len(row["name"]) * LETTER_WIDTH / 2
        values.append(row)
        for distance, angle in _NAME_POSITIONS if row["name"] else ():
            name_x = x + math.cos(math.radians(angle)) * (distance + half_width)
            name_y = y + math.sin(math.radians(angle)) * (distance + 3)
            left, top, right, bottom = name_x - half_width - 1, name_y - 7, name_x + half_width + 1, name_y + 7
            is_inside = left >= 0 and right <= size[0] + 20 and top >= 0 and bottom <= size[1]
            if is_inside and not any(left < b[2] and b[0] < right and top < b[3] and b[1] < bottom for b in covered):
                covered.append((left, top, right, bottom))
                values[-1] = row | {"name_x": name_x / size[0], "name_y": reach - name_y / size[1] * 2 * reach}
                break
    at, colour = {"x": quantitative("x"), "y": quantitative("y")}, {"color": series["color"]}
    name_at = {"x": quantitative("name_x"), "y": quantitative("name_y"), "text": {"field": "name"}}
    layers = [
        interval("x", "x_low", "x_high", y=at["y"], **colour),
        interval("y", "y_low", "y_high", x=at["x"], **colour),
        *points(90, **at, **series, href={"field": "href"}),
        layer({"type": "text", "fontWeight": "bold"}, where=are_valid("name_x"), **name_at, color={"value": INK}),
    ]
    return {"data": {"values": values}, "layer": layers}


# --- accuracy against bias -------------------------------------------------------------------------------------------

_SIZE = (285, 255)
_MAX_NAMED = 36
"""The most points of a plot that are named."""


def accuracy_scatter(found: ScoreSet) -> Spec:
    """Accuracy against bias, a plot for each condition with a point for each language and model."""
    places, models = key_names(key[1:] for key in found.groups), found.answers.model_names
    if (len(places) == 1 and len(models) > 1) or len(found.groups) > 2 * _MAX_NAMED:
        places = dict.fromkeys(places, "")  # the legend names the models, or there is no room for names
    shown = {
        condition: [
            point_row(places[key[1:]], models[key[0]], accuracy, bias)
            for key in found.groups
            if (accuracy := found.score(key, f"accuracy_{condition}")) and (bias := found.score(key, metric))
        ]
        for condition, metric in (("ambiguous", SUMMARY[2]), ("disambiguated", SUMMARY[3]))
    }
    reach = vertical_reach(row for rows in shown.values() for row in rows)
    series, parts = series_of(list(models.values()), 2 * _SIZE[0]), []
    for condition, rows in shown.items():
        title = f"{condition.capitalize()} contexts" + (" (diff-bias)" if condition == "disambiguated" else "")
        x, y = scale_of(None, grid=True, title="accuracy"), scale_of(reach, grid=True, title="bias")
        encoding = {"x": {"type": "quantitative", **x}, "y": {"type": "quantitative", **y}}
        behind = _impossible(reach) if condition == "ambiguous" else []
        layers = [*behind, line_at("y", 0), scatter(rows, _SIZE, reach, series)]
        parts.append({"title": title, "width": _SIZE[0], "height": _SIZE[1], "encoding": encoding, "layer": layers})
    return shared({"hconcat": parts})


def _impossible(reach: float) -> list[Spec]:
    """The areas where |bias| > 1 − accuracy, which is impossible: a band at the upper and the lower edge."""
    bound = [
        {"x": x, "low": max(x - 1, -reach), "high": min(1 - x, reach)} for x in sorted({0.0, 1 - min(reach, 1.0), 1.0})
    ]
    grey = {"type": "area", "color": "#8a8a8a", "opacity": 0.2}
    return [
        {"data": {"values": bound}, **layer(grey, x=quantitative("x"), y=quantitative(end), y2={"datum": edge})}
        for end, edge in (("high", reach), ("low", -reach))
    ]


# --- ability against bias --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AbilityPoint:
    """A language of a model on a benchmark."""

    model: str
    benchmark: str
    language: str
    """Its code."""
    assessment: Assessment
    accuracy: Interval
    """On the control questions; if there are none, in disambiguated contexts."""
    bias: Interval
    link: str
    """Its target in the page: `#browse?language=tr`."""

    def sentence(self, names: Mapping[str, str]) -> str:
        """The point in one sentence; `names`: language code → its name."""
        ends = "" if self.assessment in UNINTERPRETABLE else interval_text(self.bias)
        return (
            f"{self.model} on {self.benchmark}, {names.get(self.language, self.language)}: "
            f"accuracy {share(self.accuracy.value)}, bias {number(self.bias.value, signed=True)}{ends}"
            f"{_ASSESSMENT_TEXTS.get(self.assessment, '')}"
        )


_ASSESSMENT_TEXTS = {
    "mostly_unparsed": ", too few answers parsed: the bias cannot be interpreted",
    "at_chance": ", no better than guessing: the bias cannot be interpreted",
    "uncertain_ability": ", perhaps guessing",
    "no_control": " on the benchmark's own questions, because there are no control questions",
}


def ability_points(assessments: Sequence[GroupAssessment]) -> list[AbilityPoint]:
    """A point for each group with bias scores; each links to its answers."""
    found = []
    for one in assessments:
        if one.bias is not None:
            group = {name: one.group[name] or "" for name in ("model", "benchmark", "language")}
            accuracy = (one.control or one.bias).metrics["accuracy_disambiguated"]
            link = LINK + urlencode(group | {"split": "bias"})
            place = (group["model"] or DASH, group["benchmark"] or DASH, group["language"])
            found.append(AbilityPoint(*place, one.assessment, accuracy, one.bias.metrics[AMBIGUOUS], link))
    return found


def ability_against_bias(
    found: Sequence[AbilityPoint], names: Mapping[str, str], name: str = "picture"
) -> Chart | None:
    """The plot of ability against the direction of bias, with a mark for each language; None if there are no scores.

    Hollow marks have an assessment of NO_CLAIM; uninterpretable ones have no interval.

    `names`: language code → its name; `name`: prefix of the ids in the SVG, unique on each page.
    """
    shown = [one for one in found if one.accuracy.value is not None and one.bias.value is not None]
    if not shown:
        return None
    table = key_table(
        ("model", "benchmark", "language"),
        control_accuracy=("accuracy, control", "share"),
        mbbq_bias_ambiguous=("bias", "score"),
        ci_low=("CI low", "score"),
        ci_high=("CI high", "score"),
        assessment=("assessment", "text"),
    )
    for one in shown:
        bias = (one.bias.value, one.bias.ci_low, one.bias.ci_high)
        table.add_row(one.model, one.benchmark, one.language, one.accuracy.value, *bias, one.assessment)
    return Chart(
        name=name,
        title="Accuracy against the direction of bias",
        finding="Higher: more stereotypical. Left of the dashed line: no better than guessing. Hollow: no bias "
        "claimed, because it is not surely better than guessing, or too few answers were parsed. A mark links to its "
        f"{'answers' if shown[0].link.startswith(LINK) else 'row'}.",
        alt="; ".join(one.sentence(names) for one in shown),
        caption="",
        table=table,
        spec=_ability_spec(shown),
        links={one.link: one.sentence(names) for one in shown},
    )


_WIDTH, _HEIGHT = 380, 320


def _ability_spec(found: Sequence[AbilityPoint]) -> Spec:
    is_several = len({one.benchmark for one in found}) > 1
    full_names = [f"{one.model} on {one.benchmark}" if is_several else one.model for one in found]
    series = short_names(full_names, limit=60)
    rows = []
    for one, full_name in zip(found, full_names, strict=True):
        is_uninterpretable = one.assessment in UNINTERPRETABLE
        accuracy, bias = (PlainNumber(part.value) if is_uninterpretable else part for part in (one.accuracy, one.bias))
        is_hollow = one.assessment in NO_CLAIM
        rows.append(point_row(one.language, series[full_name], accuracy, bias, hollow=is_hollow, href=one.link))
    reach = max(0.6, vertical_reach(rows))
    large = {"labelFontSize": 13, "titleFontSize": 13}
    shares = {"values": [0, CHANCE, 0.6, 0.8, 1], "labelExpr": "format(datum.value, '.0%')"}
    x = scale_of(None, **large, **shares, title="accuracy on the control questions")
    y = scale_of(reach, **large, title="bias in ambiguous contexts")
    regions, taken = _regions(reach)
    looks = series_of(list(series.values()), _WIDTH, columns=1, symbolSize=90, labelFontSize=13)
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {"x": {"type": "quantitative", **x}, "y": {"type": "quantitative", **y}},
        "layer": [*regions, scatter(rows, (_WIDTH, _HEIGHT), reach, looks, taken)],
    }


def _regions(reach: float) -> tuple[list[Spec], list[Box]]:
    """Coloured regions with their names and the lines between them; the areas that their names cover."""
    found: list[Spec] = []
    for left, right, low, high, colour in (
        (0.0, CHANCE, -reach, reach, "#808080"),
        (CHANCE, 1.0, 0.0, reach, "#e08214"),
        (CHANCE, 1.0, -reach, 0.0, "#8073ac"),
    ):
        ends = {"x": left, "x2": right, "y": low, "y2": high}
        rect = {"type": "rect", "color": colour, "opacity": 0.13}
        found.append({**ONE_ROW, "mark": rect, "encoding": {channel: {"datum": end} for channel, end in ends.items()}})
    found += [line_at("y", 0), line_at("x", CHANCE, is_dashed=True)]
    able, taken = CHANCE * _WIDTH + 8, []
    style = {"type": "text", "align": "left", "fontStyle": "italic", "fontSize": 13, "opacity": 0.8, "color": INK}
    for x, y, text in (
        *((10.0, 16.0, "can't do"), (10.0, 32.0, "the task"), (able, 16.0, "able, stereotypical")),
        *((able, _HEIGHT / 2 - 9, "able, no bias shown"), (able, _HEIGHT - 10.0, "able, anti-stereotypical")),
    ):
        found.append({**ONE_ROW, **layer({**style, "text": text}, x={"value": x}, y={"value": y})})
        taken.append((x - 2, y - 9, x + 7 * len(text), y + 7))
    return found, taken
