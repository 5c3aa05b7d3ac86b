"""The plane of ability against bias: accuracy on the control questions to the right, bias upwards, named regions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.report.charts import Chart, vega
from mbbq_gen.report.charts.score_view import PlainNumber, key_table
from mbbq_gen.report.charts.vega import Spec
from mbbq_gen.report.conclusions import AMBIGUOUS, NO_CLAIM, UNINTERPRETABLE, Assessment, GroupAssessment
from mbbq_gen.report.tables import DASH, LINK, Interval, interval_text, number, share

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""
_WIDTH, _HEIGHT = 380, 320
_NAME_POSITIONS = tuple(product((9, 20), (0, 180, -45, 45, -135, 135, -90, 90)))
"""Positions of a name around its mark: distance in pixels, angle in degrees from the right; the best first."""


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
    link: str | None = None
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
        "claimed, because it is not surely better than guessing, or too few answers were parsed."
        + (" A mark links to its answers." if shown[0].link else ""),
        alt="; ".join(one.sentence(names) for one in shown),
        caption="",
        table=table,
        spec=_ability_spec(shown),
        links={one.link: one.sentence(names) for one in shown if one.link},
    )


def _ability_spec(found: Sequence[AbilityPoint]) -> Spec:
    is_several = len({one.benchmark for one in found}) > 1
    full_names = [f"{one.model} on {one.benchmark}" if is_several else one.model for one in found]
    series = vega.short_names(full_names, limit=60)
    rows: list[Spec] = []
    for one, full_name in zip(found, full_names, strict=True):
        row = {"name": one.language, "series": series[full_name], "hollow": one.assessment in NO_CLAIM}
        for axis, part in (("x", one.accuracy), ("y", one.bias)):
            shown = PlainNumber(part.value) if one.assessment in UNINTERPRETABLE else part
            row |= {axis: shown.value, f"{axis}_low": shown.ci_low, f"{axis}_high": shown.ci_high}
        rows.append(row | {"href": one.link})
    reach = max(0.6, vega.half_range(row[end] for row in rows for end in ("y", "y_low", "y_high")))
    large = {"labelFontSize": 13, "titleFontSize": 13}
    shares = {"values": [0, CHANCE, 0.6, 0.8, 1], "labelExpr": "format(datum.value, '.0%')"}
    x = vega.scale_of(None, **large, **shares, title="accuracy on the control questions")
    y = vega.scale_of(reach, **large, title="bias in ambiguous contexts")
    regions, taken = _regions(reach)
    looks = vega.series_of(list(series.values()), _WIDTH, columns=1, symbolSize=90, labelFontSize=13)
    at, colour = {"x": vega.quantitative("x"), "y": vega.quantitative("y")}, {"color": looks["color"]}
    name_at = {"x": vega.quantitative("name_x"), "y": vega.quantitative("name_y"), "text": {"field": "name"}}
    name_at["color"] = {"value": vega.INK}
    marks = [
        vega.interval("x", "x_low", "x_high", y=at["y"], **colour),
        vega.interval("y", "y_low", "y_high", x=at["x"], **colour),
        *vega.points(90, **at, **looks, href={"field": "href"}),
        vega.layer({"type": "text", "fontWeight": "bold"}, where=vega.are_valid("name_x"), **name_at),
    ]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "encoding": {"x": {"type": "quantitative", **x}, "y": {"type": "quantitative", **y}},
        "layer": [*regions, {"data": {"values": _named(rows, reach, taken)}, "layer": marks}],
    }


def _named(rows: Sequence[Spec], reach: float, taken: Sequence[Box]) -> list[Spec]:
    """The rows with the positions of those names that cover nothing else; `taken`: areas without names."""
    centres = [(row["x"] * _WIDTH, (reach - row["y"]) / (2 * reach) * _HEIGHT) for row in rows]
    covered = [*taken, *((x - 6, y - 6, x + 6, y + 6) for x, y in centres)]
    values = list(rows)
    for place, (row, (x, y)) in enumerate(zip(rows, centres, strict=True)):
        half_width = len(row["name"]) * vega.LETTER_WIDTH / 2
        for distance, angle in _NAME_POSITIONS if row["name"] else ():
            name_x = x + math.cos(math.radians(angle)) * (distance + half_width)
            name_y = y + math.sin(math.radians(angle)) * (distance + 3)
            left, top, right, bottom = name_x - half_width - 1, name_y - 7, name_x + half_width + 1, name_y + 7
            is_inside = left >= 0 and right <= _WIDTH + 20 and top >= 0 and bottom <= _HEIGHT
            if is_inside and not any(left < b[2] and b[0] < right and top < b[3] and b[1] < bottom for b in covered):
                covered.append((left, top, right, bottom))
                values[place] = row | {"name_x": name_x / _WIDTH, "name_y": reach - name_y / _HEIGHT * 2 * reach}
                break
    return values


def _regions(reach: float) -> tuple[list[Spec], list[Box]]:
    """Coloured regions with their names and the lines between them; the areas that their names cover."""
    found: list[Spec] = []
    for left, right, low, high, colour in (
        (0.0, CHANCE, -reach, reach, "#808080"),
        (CHANCE, 1.0, 0.0, reach, "#e08214"),
        (CHANCE, 1.0, -reach, 0.0, "#8073ac"),
    ):
        ends = {"x": {"datum": left}, "x2": {"datum": right}, "y": {"datum": low}, "y2": {"datum": high}}
        rect = {"type": "rect", "color": colour, "opacity": 0.13}
        found.append({**vega.ONE_ROW, "mark": rect, "encoding": ends})
    found += [vega.line_at("y", 0), vega.line_at("x", CHANCE, is_dashed=True)]
    able, taken = CHANCE * _WIDTH + 8, []
    style = {"type": "text", "align": "left", "fontStyle": "italic", "fontSize": 13, "opacity": 0.8, "color": vega.INK}
    for x, y, text in (
        *((10.0, 16.0, "can't do"), (10.0, 32.0, "the task"), (able, 16.0, "able, stereotypical")),
        *((able, _HEIGHT / 2 - 9, "able, no bias shown"), (able, _HEIGHT - 10.0, "able, anti-stereotypical")),
    ):
        found.append({**vega.ONE_ROW, **vega.layer({**style, "text": text}, x={"value": x}, y={"value": y})})
        taken.append((x - 2, y - 9, x + 7 * len(text), y + 7))
    return found, taken
