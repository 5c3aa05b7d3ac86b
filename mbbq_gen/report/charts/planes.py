"""The plane of ability against bias: accuracy on the control questions to the right, bias upwards, named regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.report.charts import Chart, vega
from mbbq_gen.report.charts.vega import Row, Spec, intervals, nominal, once, quantitative
from mbbq_gen.report.conclusions import AMBIGUOUS, NO_CLAIM, UNINTERPRETABLE, Assessment, GroupAssessment
from mbbq_gen.report.tables import DASH, LINK, Interval, interval_text, number, share

_WIDTH, _HEIGHT = 380, 320
_ACCURACIES = {
    frozenset({False}): "accuracy on the control questions",
    frozenset({True}): "accuracy in disambiguated contexts (no control questions)",
    frozenset({False, True}): "accuracy on control, or without it disambiguated, questions",
}
"""Whether points have no control questions → the title of the horizontal axis."""


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
            f", {self.assessment.replace('_', ' ')}"
        )


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


def ability_against_bias(found: Sequence[AbilityPoint], names: Mapping[str, str]) -> Chart | None:
    """The plot of ability against the direction of bias, with a mark for each language; None if there are no scores.

    Hollow marks have an assessment of NO_CLAIM; uninterpretable ones have no interval.

    `names`: language code → its name.
    """
    points = [one for one in found if one.accuracy.value is not None and one.bias.value is not None]
    if not points:
        return None
    rows: list[Row] = []
    for one in points:
        row = {"model": one.model, "benchmark": one.benchmark, "language": one.language, "assessment": one.assessment}
        rows.append(row | vega.fields_of("accuracy", one.accuracy) | vega.fields_of(AMBIGUOUS, one.bias))
    links = [{"href": one.link, "label": one.sentence(names)} for one in points]
    return Chart(
        name="picture",
        title="Accuracy against the direction of bias",
        finding="Higher: more stereotypical. Left of the dashed line: no better than guessing. Hollow: no bias "
        "claimed, because it is not surely better than guessing, or too few answers were parsed."
        + (" A mark links to its answers." if points[0].link else ""),
        caption="",
        table=vega.table_of(rows),
        spec=_plane([row | link for row, link in zip(rows, links, strict=True)]),
    )


def _plane(rows: Sequence[Row]) -> Spec:
    """The marks of `rows` with their intervals and, beside them, their languages, on named regions."""
    largest = max(abs(row[f"{AMBIGUOUS}{end}"] or 0.0) for row in rows for end in ("", "_low", "_high"))
    limit = 1.25 * max(0.5, largest)  # with room for the names of regions above and below
    shares = {"values": [0, CHANCE, 0.6, 0.8, 1], "labelExpr": "format(datum.value, '.0%')"}
    title = _ACCURACIES[frozenset(row["assessment"] == "no_control" for row in rows)]
    axes = {
        "x": {"scale": {"domain": [0, 1]}, "axis": {"title": title, **shares}},
        "y": {"scale": {"domain": [-limit, limit]}, "axis": {"title": "bias in ambiguous contexts", **vega.SIGNED}},
    }
    at = {"x": quantitative("accuracy"), "y": quantitative(AMBIGUOUS)}
    series = vega.row_names(rows, ("benchmark", "model"))
    legend = {"columns": 1, "symbolSize": 90}
    looks = nominal("series", scale={"domain": list(dict.fromkeys(series))}, legend=legend)
    hollow = {"test": {"field": "assessment", "oneOf": sorted(NO_CLAIM)}}
    channels = {**at, "color": looks, "shape": looks, "description": {"field": "label"}}
    channels |= {"href": {"field": "href"}} if rows[0]["href"] else {}
    channels["fillOpacity"] = {"condition": {**hollow, "value": 0}, "value": 1}
    channels["stroke"] = {"condition": {**hollow, "value": vega.INK}, "value": None}
    lines = [intervals("x", "accuracy", y=at["y"], color=looks), intervals("y", AMBIGUOUS, x=at["x"], color=looks)]
    interpretable = {"filter": {"not": {"field": "assessment", "oneOf": sorted(UNINTERPRETABLE)}}}
    text: Spec = {"type": "text", "fontWeight": "bold", "dx": {"expr": "datum.dx"}, "dy": {"expr": "datum.dy"}}
    marks = [
        {"transform": [interpretable], "layer": lines},
        {"mark": {"type": "point", "size": 90, "aria": True}, "encoding": channels},
        {"transform": [{"filter": "isValid(datum.dx)"}], "mark": text, "encoding": at | {"text": nominal("language")}},
    ]
    places = zip(rows, series, _places_of_names(rows, limit), strict=True)
    data = {"data": {"values": [row | {"series": name, **place} for row, name, place in places]}}
    layers = [*_regions(limit), {**data, "layer": marks}]
    return {"width": _WIDTH, "height": _HEIGHT, "encoding": axes, "layer": layers}


def _places_of_names(rows: Sequence[Row], limit: float) -> list[Row]:
    """The distance in pixels of each row's name from its mark, such that no name covers a mark or another name.

    Empty for a name without room. Every mark and name takes the room of the longest name.
    """
    width = 8 * max(len(row["language"]) for row in rows)
    marks = [(row["accuracy"] * _WIDTH, -row[AMBIGUOUS] / (2 * limit) * _HEIGHT) for row in rows]
    taken, found = list(marks), list[Row]()
    sides = [(side * (9 + width / 2), dy) for dy in (0, -12, 12, -20, 20) for side in (1, -1)]
    for x, y in marks:
        free = [
            (dx, dy)
            for dx, dy in (*sides, (0, -16), (0, 16))
            if all(abs(x + dx - a) >= width or abs(y + dy - b) >= 12 for a, b in taken)
        ]
        taken += [(x + dx, y + dy) for dx, dy in free[:1]]
        found.append({"dx": free[0][0], "dy": free[0][1]} if free else {})
    return found


def _regions(limit: float) -> list[Spec]:
    """Coloured regions with their names, and the lines between them."""
    fields = ("name", "left", "right", "low", "high", "name_at", "colour")
    rows = (
        ("can't do the task", 0, CHANCE, -limit, limit, 0.92 * limit, "#808080"),
        ("able, stereotypical", CHANCE, 1, 0, limit, 0.92 * limit, "#e08214"),
        ("able, anti-stereotypical", CHANCE, 1, -limit, 0, -0.92 * limit, "#8073ac"),
    )
    area = {"x": quantitative("left"), "x2": {"field": "right"}, "y": quantitative("low"), "y2": {"field": "high"}}
    area["fill"] = {"field": "colour", "scale": None}
    name = {"x": quantitative("left"), "y": quantitative("name_at"), "text": nominal("name")}
    style = {"type": "text", "align": "left", "dx": 6, "fontStyle": "italic", "fontSize": 13, "opacity": 0.8}
    layers = [{"mark": {"type": "rect", "opacity": 0.13}, "encoding": area}, {"mark": style, "encoding": name}]
    return [
        {"data": {"values": [dict(zip(fields, row, strict=True)) for row in rows]}, "layer": layers},
        once({"type": "rule"}, y={"datum": 0}),
        once({"type": "rule", "strokeDash": [4, 3]}, x={"datum": CHANCE}),
    ]
