"""Vega-Lite specifications of charts with their data, their theme, and rendering by vl-convert.

Text and lines are `currentColor`, so that charts follow the dark theme of a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import compress
from types import ModuleType
from typing import Any, Literal

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.text import visible_text
from mbbq_gen.report.tables import OUTCOME_TITLES, Column, ColumnKind, Interval, Table, escaped, number
from mbbq_gen.scoring.metrics import METRICS

Spec = dict[str, Any]
Row = dict[str, Any]
"""Field → value. A score `bias` has its interval in `bias_low` and `bias_high`."""
INK = "currentColor"
_PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C7A00"]
"""Okabe and Ito's colours without black, with a darker yellow that is visible on white."""
_OUTCOME_COLOURS = ["#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#8C7A00", "#7F7F7F", "#B0B0B0", "#5A5A5A"]
"""Colours of the outcomes, in their order; parsed ones are blue."""
_FONT = "Liberation Sans, Arial, Helvetica, DejaVu Sans Condensed, sans-serif"
"""Fonts of similar widths, because a browser may show another one than the layout used."""
_TEXT = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelColor": INK, "titleColor": INK}
CONFIG: Spec = {
    "aria": False,
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "concat": {"spacing": 24},
    "padding": {"left": 10, "right": 10, "top": 4, "bottom": 4},
    "range": {"category": _PALETTE, "symbol": ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"]},
    "title": {"anchor": "start", "frame": "group", "color": INK, "fontSize": 12},
    "header": {**_TEXT, "title": None, "labelFontWeight": "bold", "labelLimit": 600, "labelOrient": "top"}
    | {"labelAnchor": "start", "labelAngle": 0},
    "axis": {**_TEXT, **dict.fromkeys(("domainColor", "tickColor", "gridColor"), INK), "title": None, "grid": False}
    | {"gridOpacity": 0.18, "labelLimit": 400, "labelOverlap": False, "labelFlush": False},
    "legend": {**_TEXT, "orient": "bottom", "title": None, "columns": 4, "columnPadding": 24, "symbolSize": 60}
    | {"labelLimit": 600, "titleLimit": 600, "gradientLength": 320},
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
    "point": {"filled": True, "opacity": 1, "size": 45},
}
SIGNED: Spec = {
    "tickCount": 4,
    "labelOverlap": "greedy",
    "labelExpr": "datum.value == 0 ? '0' : format(datum.value, '+.2~f')",
}
"""The axis of a bias."""


# --- rows of data, which are both the table and the marks of a chart -------------------------------------------------

CHANGE = "change_of_"
"""Prefix of a metric's name in the field of a difference of two scores."""
_SIGNED = ("preference", CHANGE, *(name for name, metric in METRICS.items() if metric.low < 0))


def is_signed(field: str) -> bool:
    """Whether a field is a score around 0, such as a bias, or an end of its interval; other scores are shares."""
    return field.startswith(_SIGNED)


def fields_of(name: str, score: Interval) -> Row:
    """The fields of a score."""
    return {name: score.value, f"{name}_low": score.ci_low, f"{name}_high": score.ci_high}


def title_of(field: str) -> str:
    """The title of a score above a panel or in a sentence: `Bias, ambiguous`."""
    name = field.removeprefix(CHANGE)
    title = METRICS[name].title if name in METRICS else name
    return title[:1].upper() + title[1:]


def number_text(field: str, value: float | None) -> str:
    """A score in a text, with a true minus sign; a dash if it is undefined."""
    return number(value, signed=is_signed(field)).replace("-", "−")


def row_names(rows: Sequence[Row], fields: Sequence[str]) -> list[str]:
    """The name of each row: its values of the fields that differ between rows, `gpt, tr`; if none does, of the last."""
    keys = [[str(row[field]) for field in fields] for row in rows]
    differ = [len(set(values)) > 1 for values in zip(*keys, strict=True)]
    return [", ".join(filter(None, compress(key, differ))) or key[-1] for key in keys]


def table_of(rows: Sequence[Row]) -> Table:
    """The rows as a table, with a column for each field."""
    columns = [_column(field, [row[field] for row in rows]) for field in rows[0]]
    return Table(*columns, rows=[tuple(row.values()) for row in rows])


def _column(field: str, values: Sequence[object]) -> Column:
    """The column of a field; its kind follows from its name and its values."""
    kind: ColumnKind = "score" if is_signed(field) else "share"
    if any(isinstance(value, str) for value in values):
        kind = "text"
    elif all(isinstance(value, int) for value in values):
        kind = "number"
    elif field.endswith("p_adjusted"):
        kind = "p_value"
    for end, title in (("_low", "low"), ("_high", "high"), ("p_adjusted", "p (adjusted)")):
        if field.endswith(end):
            return Column(field, title, kind)
    title = METRICS[field].title if field in METRICS else field.removeprefix("n_").replace("_", " ")
    return Column(field, title, kind)


# --- parts of specifications -----------------------------------------------------------------------------------------


def nominal(field: str, **more: Any) -> Spec:
    """A channel of names, in the order of the data."""
    return {"field": field, "type": "nominal", "sort": None, **more}


def quantitative(field: str, **more: Any) -> Spec:
    """A channel of numbers."""
    return {"field": field, "type": "quantitative", **more}


def once(mark: Spec, **encoding: Any) -> Spec:
    """A layer with a single mark, whatever the data."""
    return {"data": {"values": [{}]}, "mark": mark, "encoding": encoding}


def intervals(axis: Literal["x", "y"], field: str, **encoding: Any) -> Spec:
    """A layer of lines along an axis, the intervals of a score."""
    ends = {axis: quantitative(f"{field}_low"), f"{axis}2": {"field": f"{field}_high"}}
    return {"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": {**ends, **encoding}}


# --- kinds of charts -------------------------------------------------------------------------------------------------


def dots(rows: Sequence[Row], scores: Sequence[str], lines: Sequence[str], series: str) -> Spec:
    """Dots with intervals: a panel for each score, a line for each group, a colour and a shape for each series.

    Args:
        rows: Data with the scores. Shares have a dashed line at guessing.
        scores: Fields of scores.
        lines: Fields that make a group.
        series: Field of the series.
    """
    names = list(dict.fromkeys(row[series] for row in rows))
    is_several = len(names) > 1
    looks = nominal(series, scale={"domain": names}) if is_several else {"value": _PALETTE[0]}
    panels: list[Spec] = []
    for field in scores:
        x: Spec = {"scale": {"domain": {"unionWith": [-0.1, 0.1]}, "nice": True}, "axis": {"grid": True, **SIGNED}}
        reference = once({"type": "rule"}, x={"datum": 0})
        if not is_signed(field):
            x = {"scale": {"domain": [0, 1]}, "axis": {"grid": True, "tickCount": 5, "format": ".2~f"}}
            reference = once({"type": "rule", "strokeDash": [4, 3]}, x={"datum": CHANCE})
        y_axis = {"ticks": False, "tickBand": "extent", "grid": is_several, "offset": 6}
        y = nominal("group", axis=y_axis | ({"labelExpr": "''"} if panels else {}))
        point = {"x": quantitative(field), "color": looks, **({"shape": looks} if is_several else {})}
        marks = {
            "encoding": {"x": x, "y": y, **({"yOffset": nominal(series)} if is_several else {})},
            "layer": [intervals("x", field, color=looks), {"mark": "point", "encoding": point}],
        }
        height: Spec = {"step": 14, "for": "offset"} if is_several else {"step": 26}
        size = {"width": min(340, 680 // len(scores)), "height": height}
        panels.append({"title": title_of(field), **size, "layer": [reference, marks]})
    values = [row | {"group": name} for row, name in zip(rows, row_names(rows, lines), strict=True)]
    return {"data": {"values": values}, "hconcat": panels}


def stacked_shares(rows: Sequence[Row], lines: Sequence[str]) -> Spec:
    """A stacked horizontal bar for each row: the shares of outcomes, the larger ones also as text.

    Args:
        rows: Data with `n_answers` and the count of each outcome.
        lines: Fields that name a row.
    """
    colours = dict(zip(OUTCOME_TITLES, _OUTCOME_COLOURS, strict=True))
    used = {name: colour for name, colour in colours.items() if any(row[name] for row in rows)}
    light = [name for name, colour in used.items() if colour in {"#56B4E9", "#CC79A7", "#E69F00", "#7F7F7F", "#B0B0B0"}]
    length = quantitative("count", stack="normalize", axis={"format": ".0%"})
    legend = {"labelExpr": "replace(datum.label, '_', ' ')"}
    share = {"test": "datum.share >= 0.07", **quantitative("share", format=".0%")}
    text = {
        "x": length | {"bandPosition": 0.5},
        "detail": nominal("outcome"),
        "text": {"condition": share, "value": ""},
        "color": {"condition": {"test": {"field": "outcome", "oneOf": light}, "value": "#111111"}, "value": "#ffffff"},
    }
    bar = {"x": length, "color": nominal("outcome", scale={"range": list(used.values())}, legend=legend)}
    return {
        "data": {"values": [row | {"line": name} for row, name in zip(rows, row_names(rows, lines), strict=True)]},
        "transform": [
            {"fold": list(used), "as": ["outcome", "count"]},
            {"calculate": f"indexof({list(used)}, datum.outcome)", "as": "place"},
            {"calculate": "datum.count / datum.n_answers", "as": "share"},
        ],
        "width": 480,
        "height": {"step": 24},
        "encoding": {"y": nominal("line", axis={"ticks": False}), "order": quantitative("place")},
        "layer": [{"mark": "bar", "encoding": bar}, {"mark": {"type": "text", "fontSize": 11}, "encoding": text}],
    }


def heat_maps(rows: Sequence[Row], columns: Sequence[str], maps: Sequence[str]) -> Spec:
    """Heat maps of a bias on a shared colour scale: orange is stereotypical, purple anti-stereotypical.

    Args:
        rows: Cells with `category`, `value`, `text`, `href`, `label`, and `has_few`: no colour because of too few
            templates. Those with different `metric` are in maps beside each other.
        columns: Fields that make a column.
        maps: Fields that make a row of maps.
    """
    limit = max((abs(row["value"]) for row in rows if row["value"] is not None), default=0.0) or 0.1
    places = zip(rows, row_names(rows, columns), row_names(rows, maps), strict=True)
    values = [row | {"column": column, "map": name} for row, column, name in places]
    names = {row["column"] for row in values}
    x_axis = {"labelAngle": 0 if max(map(len, names)) < 8 else -90, "ticks": False, "domain": False}
    scale = {"scheme": "purpleorange", "domain": [-limit, limit]}
    legend = {"title": "against the stereotype ← bias → to the stereotype", **SIGNED}
    colour = quantitative("value", scale=scale, legend=legend)
    inks = [
        {"test": "datum.has_few || !isValid(datum.value)", "value": INK},
        {"test": f"datum.value > {0.72 * limit} || datum.value < {-0.6 * limit}", "value": "#ffffff"},
    ]
    cell: Spec = {"color": {"condition": {"test": "datum.has_few", "value": "transparent"}, **colour}}
    cell |= {"href": {"field": "href"}, "description": {"field": "label"}}
    text = {"text": nominal("text"), "color": {"condition": inks, "value": "#111111"}}
    return {
        "data": {"values": values},
        "facet": {"row": nominal("map"), "column": nominal("metric")},
        "spec": {
            "width": max(56 * len(names), 170),
            "height": {"step": 27},
            "encoding": {
                "x": nominal("column", axis=x_axis),
                "y": nominal("category", axis={"ticks": False, "domain": False}),
            },
            "layer": [
                {"mark": {"type": "rect", "aria": True}, "encoding": cell},
                {"mark": {"type": "text", "fontSize": 11}, "encoding": text},
            ],
        },
    }


# --- rendering -------------------------------------------------------------------------------------------------------


def require_vl_convert() -> ModuleType:
    """The vl-convert module.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        import vl_convert as found
    except ImportError as error:
        message = "charts need vl-convert-python, not installed here; run: pip install 'mbbq-gen[report]'"
        raise MissingExtraError(message) from error
    return found


_LINK = re.compile(r'<a xlink:href="[^"#]*(#[^"]*)"><path aria-label="([^"]*)"')
"""A link and its description in vl-convert's SVG, which has an address of vl-convert's own before the fragment."""
_UNUSED = re.compile(
    r' (?:pointer-events|aria-hidden|aria-roledescription|class|role)="[^"]*"'
    rf'| (?:opacity|stroke-width)="1"| font-family="{_FONT}"'
)


def svg(spec: Spec, name: str, title: str, alt: str, *, is_file: bool = False) -> str:
    """A chart as SVG that includes its title and alternative text.

    Args:
        spec: Its specification.
        name: Prefix of its ids.
        title: Its title.
        alt: Its alternative text.
        is_file: Black on white and without links, for a file.

    Raises:
        MissingExtraError: if vl-convert is not installed.
    """
    text = _UNUSED.sub("", require_vl_convert().vegalite_to_svg(_visible({"config": CONFIG, **spec})))
    text = re.sub(r"\bgradient_\d+\b", f"{name}-gradient", text)  # vl-convert numbers them per process
    text = _LINK.sub(r'<a class="to-items" href="\1" aria-label="\2"><title>\2</title><path', text)
    text = text.replace("<path aria-label", '<path role="img" aria-label')  # described, without a link
    opening, inside = text.split(">", 1)
    width, height = (re.findall(rf'{side}="([\d.]+)"', opening)[0] for side in ("width", "height"))
    role = "group" if "aria-label" in inside else "img"  # the role img hides what is inside from assistive technology
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'class="chart" role="{role}" aria-labelledby="{name}-title {name}-desc" font-family="{_FONT}">'
        f'<title id="{name}-title">{escaped(title)}</title><desc id="{name}-desc">{escaped(alt)}</desc>'
    )
    if not is_file:
        return drawing + inside
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return re.sub("<a [^>]*><title>[^<]*</title>|</a>", "", f"{drawing}{background}{inside}").replace(INK, "#000000")


def _visible(part: Any) -> Any:
    """A part of a specification with visible texts: invisible characters of names can crash vl-convert."""
    if isinstance(part, dict):
        return {key: _visible(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_visible(value) for value in part]
    return visible_text(part) if isinstance(part, str) else part


def spec_json(spec: Spec, alt: str) -> str:
    """A specification as JSON for other tools, with theme and data, without links; black on white."""
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    found = _visible({"$schema": schema, "description": alt, "config": CONFIG | {"background": "#ffffff"}, **spec})
    found = json.loads(json.dumps(found), object_hook=lambda one: {key: one[key] for key in one if key != "href"})
    return json.dumps(found, ensure_ascii=False, indent=1).replace(f'"{INK}"', '"#000000"') + "\n"
