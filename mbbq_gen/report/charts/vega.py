"""Vega-Lite specifications: their parts, the theme, and rendering by vl-convert.

    spec = dots(panels, rows, series)      a specification that includes its data
    svg(spec, "name", "Title", "Text.")    SVG for a page; for a file with `is_file`
    png(text), pdf(text)                   the same from the SVG of a file

Text and lines are `currentColor`, so that charts follow the dark theme of a page.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.text import visible_text, whole_percent
from mbbq_gen.report.tables import DASH, LINK, Interval, escaped, number

K = TypeVar("K")

Spec = dict[str, Any]
INK = "currentColor"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C7A00")
"""Okabe and Ito's colours without black, with a darker yellow that is visible on white."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
OUTCOME_COLOURS = ["#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#8C7A00", "#7F7F7F", "#B0B0B0", "#5A5A5A"]
"""Colours of the outcomes, in their order; parsed ones are blue."""
_DARK_COLOURS = {OUTCOME_COLOURS[place] for place in (0, 3, 5, 8)}
DIVERGING = ("#542788", "#8073ac", "#d8daeb", "#f7f7f7", "#fee0b6", "#e08214", "#b35806")
"""ColorBrewer's PuOr, reversed: suitable for every colour vision deficiency."""
NAME_LIMIT = 30
"""Characters of a name in a chart; the table has the full name."""
LETTER_WIDTH = 6.4
"""Approximate width of a letter in pixels, for sizes that are needed before the layout."""
_MAX_WIDTH = 1150
"""Width in pixels of the panels beside each other."""
FONT = "'Liberation Sans', Arial, Helvetica, 'DejaVu Sans Condensed', sans-serif"
"""Fonts of similar widths, because a browser may show another one than the layout used."""
_SIGNED, _PLAIN = "datum.value == 0 ? '0' : format(datum.value, '+.3~g')", "format(datum.value, '.3~g')"
CONFIG: Spec = {
    "aria": False,
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "concat": {"spacing": 24},
    "padding": {"left": 10, "right": 10, "top": 4, "bottom": 4},
    "title": {"anchor": "start", "frame": "group", "color": INK, "fontSize": 12, "offset": 8},
    "header": {"title": None, "labelColor": INK, "labelFontSize": 12, "labelFontWeight": "bold"},
    "axis": {
        **dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), INK),
        **{"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridOpacity": 0.18},
        **{"labelLimit": 400, "labelOverlap": False, "labelFlush": False, "title": None, "tickSize": 4},
    },
    "legend": {
        **{"orient": "bottom", "title": None, "labelColor": INK, "titleColor": INK, "labelFontSize": 12},
        **{"titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 600, "titleLimit": 600, "offset": 12},
        **{"columnPadding": 24, "gradientThickness": 12},
    },
    "text": {"color": INK, "fontSize": 12},
    "rule": {"color": INK},
    "point": {"filled": True, "opacity": 1, "size": 45},
}


def short_names(keys: Iterable[K], text: Callable[[K], str] = str, limit: int = NAME_LIMIT) -> dict[K, str]:
    """Key → its name in a chart: distinct names, shortened in the middle."""
    found: dict[K, str] = {}
    head = limit * 2 // 3 - 1
    for key in dict.fromkeys(keys):
        line = " ".join(visible_text(text(key)).split())
        short = name = line if len(line) <= limit else f"{line[:head]}…{line[head + 1 - limit :]}"
        copy = 2
        while name in found.values():
            name, copy = f"{short} ({copy})", copy + 1
        found[key] = name
    return found


# --- parts of specifications -----------------------------------------------------------------------------------------


def quantitative(field: str, **more: Any) -> Spec:
    """A quantitative channel."""
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, names: Sequence[str], **more: Any) -> Spec:
    """A nominal channel with the names in this order."""
    return {"field": field, "type": "nominal", "scale": {"domain": names}, **more}


def layer(mark: str | Spec, *, where: str = "", **encoding: Any) -> Spec:
    """A layer of marks with its channels; `where`: filter of the rows."""
    chosen: Spec = {"transform": [{"filter": where}]} if where else {}
    return {**chosen, "mark": mark, "encoding": encoding}


def are_valid(*fields: str) -> str:
    """The filter of rows in which none of these fields is missing."""
    return " && ".join(f"isValid(datum.{name})" for name in fields)


def datum(row: str, series: str, found: Interval, **more: Any) -> Spec:
    """A row of data: a number with its interval."""
    return {"row": row, "series": series, "value": found.value, "low": found.ci_low, "high": found.ci_high, **more}


def half_range(values: Iterable[float | None]) -> float:
    """The end of an axis about 0 that includes all values: a round number."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    steps = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    return next((step for step in steps if step >= max(largest, 0.1) - 1e-9), largest)


def reach_of(values: Iterable[Spec]) -> float:
    """The end of an axis about 0 that includes the values and intervals of rows by `datum`."""
    return half_range(one[name] for one in values for name in ("value", "low", "high"))


def scale_of(reach: float | None, **axis: Any) -> Spec:
    """Scale and axis of a bias from -reach to reach; with `reach` None, of a share from 0 to 1."""
    low, high, label = (0.0, 1.0, _PLAIN) if reach is None else (-reach, reach, _SIGNED)
    steps = [low + (high - low) * place / 4 for place in range(5)]
    return {
        "scale": {"domain": [low, high], "clamp": True},
        "axis": {"values": steps, "labelExpr": label, "grid": False, **axis},
    }


def series_of(names: Sequence[str], width: float, **legend: Any) -> Spec:
    """Colour and shape channels of some series, with a legend if there are several."""
    columns = max(1, min(len(names), int(width / (max(map(len, names), default=0) * LETTER_WIDTH + 48))))
    shown = {"columns": columns, "symbolSize": 60, **legend} if len(names) > 1 or legend else None
    count = len(PALETTE)
    colours = [PALETTE[place % count] for place in range(len(names))]
    shapes = [SHAPES[(place + place // count) % len(SHAPES)] for place in range(len(names))]
    return {
        channel: {"field": "series", "type": "nominal", "scale": {"domain": names, "range": looks}, "legend": shown}
        for channel, looks in (("color", colours), ("shape", shapes))
    }


def points(size: int = 45, **encoding: Any) -> list[Spec]:
    """Two layers of points: filled ones, and hollow ones for rows with `hollow`."""
    ring = {"type": "point", "size": size, "filled": False, "fill": "transparent", "strokeWidth": 1.5}
    return [
        layer({"type": "point", "size": size}, where="!datum.hollow", **encoding),
        layer(ring, where="datum.hollow", **{**encoding, "color": {"value": INK}}),
    ]


def interval(axis: Literal["x", "y"], low: str = "low", high: str = "high", width: float = 1.5, **more: Any) -> Spec:
    """A layer of lines from one field to another along an axis."""
    ends = {axis: quantitative(low, **more.pop("scale", {})), f"{axis}2": {"field": high}}
    return layer({"type": "rule", "strokeWidth": width}, where=are_valid(low, high), **ends, **more)


ONE_ROW: Spec = {"data": {"values": [{}]}}
"""Data of a layer that has one mark only."""
_SHARED_LEGEND: Spec = {"resolve": {"scale": {"color": "shared", "shape": "shared"}}}


def line_at(axis: Literal["x", "y"], value: float, *, is_dashed: bool = False) -> Spec:
    """A line across the panel at a value of an axis."""
    dash = {"strokeDash": [4, 3]} if is_dashed else {}
    return {**ONE_ROW, "mark": {"type": "rule", **dash}, "encoding": {axis: {"datum": value}}}


# --- dots, bars and stacks -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One metric over all rows and series."""

    title: str
    values: Sequence[Spec]
    """Rows of data, by `datum`; optional: `diamond`, a second rate on a bar."""
    reach: float | None = None
    """End of a bias's axis about 0; None: a rate from 0 to 1."""
    line: float | None = None
    """Value of a dashed reference line, such as chance."""

    def lines(self, axis: Literal["x", "y"]) -> list[Spec]:
        """The reference lines: 0 for a bias, and `line`."""
        zero = [line_at(axis, 0)] if self.reach is not None else []
        return zero + ([line_at(axis, self.line, is_dashed=True)] if self.line is not None else [])


def dots(panels: Sequence[Panel], rows: Sequence[str], series: Sequence[str]) -> Spec:
    """Dots with intervals: panels side by side, a row for each name, a colour for each series."""
    is_several = len(series) > 1
    width = max(150, min(240, int((_MAX_WIDTH - max(map(len, rows)) * LETTER_WIDTH) / len(panels) - 36)))
    looks = series_of(series, width * len(panels))
    offset = {"yOffset": nominal("series", series)} if is_several else {}
    parts: list[Spec] = []
    for panel in panels:
        x = scale_of(panel.reach, grid=True)
        axis = {"ticks": False, "tickBand": "extent", "grid": is_several, "offset": 6}
        axis |= {"labelExpr": "''"} if parts else {}
        numbers = [
            interval("x", scale=x, color=looks["color"]),
            *points(x=quantitative("value", **x), color=looks["color"], shape=looks["shape"]),
        ]
        y = nominal("row", rows, axis=axis)
        data = {"data": {"values": panel.values}, "encoding": {"y": y, **offset}, "layer": numbers}
        height: Spec = {"step": 14, "for": "offset"} if is_several else {"step": 26}
        parts.append({"title": panel.title, "width": width, "height": height, "layer": [*panel.lines("x"), data]})
    return {"hconcat": parts, **_SHARED_LEGEND}


def bars(panel: Panel, groups: Sequence[str], series: Sequence[str]) -> Spec:
    """Bars of each series, side by side in each group."""
    width = max(280, (max(16, 36 // len(series)) * len(series) + 16) * len(groups))
    angle = -90 if max(map(len, groups)) * LETTER_WIDTH > width / len(groups) else 0
    y, axis = scale_of(panel.reach, grid=True), {"labels": True, "ticks": False, "labelAngle": angle}
    group = {"field": "row", "type": "nominal", "scale": {"domain": groups, "paddingInner": 0.2}, "axis": axis}
    diamond = {"type": "point", "shape": "diamond", "color": INK}
    numbers = {
        "data": {"values": panel.values},
        "encoding": {"x": group, "xOffset": nominal("series", series)},
        "layer": [
            layer("bar", y=quantitative("value", **y), color=series_of(series, width)["color"]),
            interval("y", width=1, scale=y),
            layer(diamond, where=are_valid("diamond"), y=quantitative("diamond")),
        ],
    }
    part = {"title": panel.title, "width": width, "height": 132, "layer": [numbers, *panel.lines("y")]}
    return {"vconcat": [part], **_SHARED_LEGEND}


_TEXT_COLOUR: Spec = {
    "condition": [{"test": f"datum.ink == '{ink}'", "value": ink} for ink in ("#ffffff", "#111111")],
    "value": INK,
}
"""The colour of a text on a coloured background, by the field `ink`."""


def stacks(rows: Mapping[str, Mapping[str, float]]) -> Spec:
    """Stacked horizontal bars of shares that add up to one, with the larger shares as text.

    `rows`: row → part → share; the parts have the same order in each row.
    """
    values = []
    for name, shares in rows.items():
        start = 0.0
        for (part, share), colour in zip(shares.items(), OUTCOME_COLOURS, strict=True):
            if share:
                text = whole_percent(share) if share >= 0.07 else ""
                ink = "#ffffff" if colour in _DARK_COLOURS else "#111111"
                place = {"start": start, "end": start + share, "middle": start + share / 2}
                values.append({"row": name, "part": part, **place, "text": text, "ink": ink})
            start += share
    colours = dict(zip(next(iter(rows.values())), OUTCOME_COLOURS, strict=True))
    used = {part: colour for part, colour in colours.items() if any(shares[part] for shares in rows.values())}
    scale = {"domain": list(used), "range": list(used.values())}
    shares_axis = {"scale": {"domain": [0, 1]}, "axis": {"format": ".0%", "values": [0, 0.2, 0.4, 0.6, 0.8, 1]}}
    texts: Spec = {"type": "text", "fontSize": 11}
    colour_channel = {"field": "part", "type": "nominal", "scale": scale}
    return {
        "width": 480,
        "height": {"step": 24},
        "data": {"values": values},
        "encoding": {"y": nominal("row", list(rows), axis={"ticks": False})},
        "layer": [
            layer("bar", x=quantitative("start", **shares_axis), x2={"field": "end"}, color=colour_channel),
            layer(texts, x=quantitative("middle"), text={"field": "text"}, color=_TEXT_COLOUR),
        ],
    }


# --- heat maps -------------------------------------------------------------------------------------------------------


def heat_maps(
    maps: Mapping[str, Sequence[Spec]], rows: Sequence[str], columns: Sequence[str], side_by_side: int
) -> Spec:
    """Heat maps of a bias on a shared colour scale: orange is stereotypical, purple anti-stereotypical.

    Args:
        maps: Title → cells with `row`, `column`, `value` (None: a dash), `mark` (shown behind it), `bare` (without a
            colour because of too few templates) and, for a link to answers, `href`.
        rows: Names in their order.
        columns: Names in their order.
        side_by_side: Number of maps beside each other, if they fit.
    """
    reach = half_range(cell["value"] for cells in maps.values() for cell in cells)
    width = max(56 * len(columns), *(int(len(title) * LETTER_WIDTH) for title in maps))
    fitting = max(1, int((_MAX_WIDTH - max(map(len, rows)) * LETTER_WIDTH) / (width + 24)))
    n_columns = min(side_by_side, fitting, len(maps))
    angle = -90 if max(map(len, columns)) * LETTER_WIDTH > width / len(columns) else 0
    x = nominal("column", columns, axis={"labelAngle": angle, "ticks": False, "domain": False})
    parts: list[Spec] = []
    for place, (title, cells) in enumerate(maps.items()):
        y = nominal("row", rows, axis={"labels": place % n_columns == 0, "ticks": False, "domain": False})
        shape = {"width": width, "height": {"step": 27}, "encoding": {"x": x, "y": y}}
        parts.append({"title": title, **shape, **_heat_map(cells, reach)})
    return {"concat": parts, "columns": n_columns, "resolve": {"scale": {"color": "shared"}}}


def _heat_map(cells: Sequence[Spec], reach: float) -> Spec:
    """The layers of a map: coloured cells, and their texts in black or white by contrast."""
    values = []
    for cell in cells:
        value, text, ink = cell["value"], DASH, INK
        if value is not None:
            text = number(value, signed=True).replace("-", "−") + cell["mark"]
            place = (value + reach) / (2 * reach)
            ink = INK if cell["bare"] else "#ffffff" if place < 0.14 or place > 0.985 else "#111111"
        values.append(cell | {"text": text, "ink": ink})
    legend = {"title": "against the stereotype ← bias → to the stereotype", "gradientLength": 320}
    legend |= {"values": [-reach, 0.0, reach], "labelExpr": _SIGNED}
    steps = [-reach + 2 * reach * place / (len(DIVERGING) - 1) for place in range(len(DIVERGING))]
    scaled = quantitative("value", scale={"domain": steps, "range": DIVERGING}, legend=legend)
    colour = {"condition": {"test": "datum.bare", "value": "transparent"}, **scaled}
    link = {"href": {"field": "href"}} if any("href" in cell for cell in values) else {}
    bold = {"condition": {"test": "datum.mark", "value": "bold"}, "value": "normal"}
    texts: Spec = {"type": "text", "fontSize": 11}
    return {
        "data": {"values": values},
        "layer": [
            layer({"type": "rect", "stroke": None}, where=are_valid("value"), color=colour, **link),
            layer(texts, text={"field": "text"}, color=_TEXT_COLOUR, fontWeight=bold),
        ],
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


_LINK = re.compile(r'<a xlink:href="[^"#]*(#[^"]*)">')
"""A link in vl-convert's SVG, which has an address of vl-convert's own before the fragment."""
_GRADIENT = re.compile(r"\bgradient_\d+\b")
_NUMBER = re.compile(r"\d+\.\d{3,}")
_TAG = re.compile(r"<[^>]*>")
_REDUNDANT = re.compile(
    r' (?:pointer-events|aria-hidden|aria-roledescription|class|role)="[^"]*"| (?:opacity|stroke-width)="1"'
    rf'| font-family="{re.escape(FONT.replace(chr(39), "&apos;"))}"| font-family="{re.escape(FONT)}"'
)


def svg(
    spec: Spec, name: str, title: str, alt: str, *, links: Mapping[str, str] | None = None, is_file: bool = False
) -> str:
    """A chart as SVG that includes its title and alternative text.

    Args:
        spec: Its specification.
        name: Prefix of its ids.
        title: Its title.
        alt: Its alternative text.
        links: Targets of marks → labels, in place of "Answers of …"; None removes all links.
        is_file: Black on white, for a file.

    Raises:
        MissingExtraError: if vl-convert is not installed.
    """

    def link(found: re.Match[str]) -> str:
        target = found[1].replace("&amp;", "&")
        group = ", ".join(value for _, value in parse_qsl(target.removeprefix(LINK)))
        label = escaped((links or {}).get(target, f"Answers of {group}"))
        return f'<a class="to-items" href="{escaped(target)}" aria-label="{label}"><title>{label}</title>'

    text: str = require_vl_convert().vegalite_to_svg({"config": CONFIG, **spec})
    text = _TAG.sub(lambda tag: _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", tag[0]), text)
    text = _REDUNDANT.sub("", text)
    for place, gradient in enumerate(dict.fromkeys(_GRADIENT.findall(text))):  # vl-convert numbers them per process
        text = re.sub(rf"\b{gradient}\b", f"{name}-gradient-{place}", text)
    text = re.sub("</?a[^>]*>", "", text) if links is None else _LINK.sub(link, text)
    opening, inside = text.split(">", 1)
    width, height = (float(re.findall(rf'{side}="([\d.]+)"', opening)[0]) for side in ("width", "height"))
    role = "group" if "<a " in inside else "img"  # the role img hides links from assistive technology
    background = '<rect width="100%" height="100%" fill="#ffffff"/>' if is_file else ""
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" class="chart" role="{role}" aria-labelledby="{name}-title {name}-desc" '
        f'font-family="{escaped(FONT)}"><title id="{name}-title">{escaped(title)}</title>'
        f'<desc id="{name}-desc">{escaped(alt)}</desc>{background}{inside}'
    )
    return drawing.replace(INK, "#000000") if is_file else drawing


def spec_json(spec: Spec, alt: str) -> str:
    """A specification as JSON for other tools, with theme and data, without links; black on white."""
    schema = "https://vega.github.io/schema/vega-lite/v6.json"
    plain = json.loads(json.dumps(spec), object_hook=lambda one: {key: one[key] for key in one if key != "href"})
    found = {"$schema": schema, "description": alt, "config": CONFIG, **plain}
    text = json.dumps(found, ensure_ascii=False, indent=1)
    return text.replace(f'"{INK}"', '"#000000"').replace('"background": null', '"background": "#ffffff"') + "\n"


def png(text: str) -> bytes:
    """A chart of `svg` as PNG at twice its size."""
    return bytes(require_vl_convert().svg_to_png(text, scale=2))


def pdf(text: str) -> bytes:
    """A chart of `svg` as PDF, with text of 8 points."""
    smaller = re.sub(
        r' (width|height)="([\d.]+)"', lambda side: f' {side[1]}="{float(side[2]) * 2 / 3:g}"', text, count=2
    )
    return bytes(require_vl_convert().svg_to_pdf(smaller))
