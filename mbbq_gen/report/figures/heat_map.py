"""Heat maps of cells that hold their own numbers: rows × columns, several panels on one scale.

Cells are drawn as shapes, not as an image, so that a page's policy lets them pass and print stays sharp.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mbbq_gen.report.figures.drawing import MARGIN, TITLE, Drawing, Plane, box, columns_height, plain
from mbbq_gen.report.figures.style import FONT_SIZE, INK, ON_DARK, ON_LIGHT, half_range, signed, text_width
from mbbq_gen.report.tables import DASH

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
    fitting = max(1, int((_WIDEST - left) / (wide + _GAP)))
    abreast = min(across or len(panels), fitting, len(panels))
    below, is_turned = columns_height(columns, wide / len(columns))
    tall, lines = _CELL_HEIGHT * len(rows), math.ceil(len(panels) / abreast)
    scales: list[Scale] = list(dict.fromkeys(panel.scale for panel in panels))
    said = {"bias": words, "rate": "share of answers"}
    width = max(left + abreast * (wide + _GAP), text_width(list(said.values())) * 72 + 2 * MARGIN)
    each = TITLE + tall + below + 6
    drawing = Drawing(width, MARGIN + each * lines + _SCALE * len(scales))
    reach = half_range([value for one in panels if one.scale == "bias" for row in one.values for value in row])
    for place, panel in enumerate(panels):
        corner = left + (wide + _GAP) * (place % abreast), MARGIN + each * (place // abreast) + TITLE
        plane = Plane(drawing, *corner, wide, tall, (-0.5, len(columns) - 0.5), (-0.5, len(rows) - 0.5))
        _draw_map(plane, panel, reach)
        plane.columns(columns, is_turned=is_turned)
        if place % abreast == 0:
            plane.rows(rows)
    for place, scale in enumerate(scales):
        _draw_scale(drawing, drawing.height - _SCALE * (len(scales) - place), scale, reach, said[scale])
    return drawing


_GAP, _SCALE = 14.0, 42.0
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
