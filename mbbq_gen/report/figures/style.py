"""How all charts look: colours that the colour-blind tell apart, fonts that are there, names that fit.

Ink is black, which becomes `currentColor` in a page (`files.svg`); backgrounds are transparent there. Nothing here
touches pyplot; settings of matplotlib hold only inside `drawing()`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.report.plain_text import visible

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#000000"
ON_LIGHT, ON_DARK = "#111111", "#ffffff"
"""Ink upon a coloured cell, in whatever page."""
FAINT = 0.18
"""Opacity of grid lines, so that they are faint on white and on black."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C7A00")
"""Okabe and Ito's colours without black; a darker yellow, for theirs can't be seen on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FONT = "DejaVu Sans"
"""Comes with matplotlib, so that it is there on every machine."""
FONT_SIZE = 8.0
LABEL_LIMIT = 30
"""Characters of a name in a drawing; its whole is in the table."""

_SETTINGS: dict[str, object] = {
    "font.family": FONT,
    "font.size": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "axes.titleweight": "bold",
    "axes.labelsize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE,
    "ytick.labelsize": FONT_SIZE,
    "legend.fontsize": FONT_SIZE,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "mbbq-gen",  # the same ids whenever it is drawn
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a dollar in a model's name is a dollar
    "path.simplify": False,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Within, matplotlib has our settings, whatever the user's own are; they come back afterwards."""
    from matplotlib import style

    with style.context(["default", _SETTINGS]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; what is put in makes room for its labels."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    room = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.04, wspace=0.02, hspace=0.03)
    return Figure(figsize=(width, height), layout=room)


def laid_out(figure: Figure) -> Figure:
    """The figure with its layout done, once for all formats that it is written in; nothing is drawn for that."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    with drawing():  # what `None` means is a setting
        figure.set_layout_engine(None)  # with an engine, even an idle one, each file would be drawn twice
    return figure


def colour(place: int) -> str:
    """The colour of a series."""
    return PALETTE[place % len(PALETTE)]


def marker(place: int) -> str:
    """The marker of a series: colours that come again have another one."""
    return MARKERS[(place + place // len(PALETTE)) % len(MARKERS)]


# --- names -----------------------------------------------------------------------------------------------------------


@cache
def _glyphs() -> frozenset[int]:
    """The characters that the font has."""
    import matplotlib
    from matplotlib.ft2font import FT2Font

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return frozenset(FT2Font(str(path)).get_charmap())


_SHAPED = ((0x0590, 0x08FF), (0x0900, 0x0DFF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFC))
"""Scripts that need shaping or run from right to left: some have letters in the font, none stands right without."""


def _pieces(text: str) -> list[str]:
    """Each character, in one line, as it is drawn: those that the font has not by their number, as `⟨U+4E2D⟩`."""
    line = " ".join(visible(text).split())
    return [sign if _stands(ord(sign)) else f"⟨U+{ord(sign):04X}⟩" for sign in line]


def _stands(code: int) -> bool:
    return code in _glyphs() and not any(first <= code <= last for first, last in _SHAPED)


def short_names(names: Sequence[str], limit: int = LABEL_LIMIT) -> list[str]:
    """The names as they are drawn: the middle of long ones left out, no two of them alike."""
    found: list[str] = []
    for name in names:
        short = text = _shortened(_pieces(name), limit)
        again = 2
        while text in found:
            text, again = f"{short} ({again})", again + 1
        found.append(text)
    return found


def _shortened(pieces: Sequence[str], limit: int) -> str:
    """Head and tail of a name, cut between its characters."""
    whole = "".join(pieces)
    if len(whole) <= limit:
        return whole
    head = "".join(_fitting(pieces, limit * 2 // 3 - 1))
    tail = _fitting(pieces[::-1], limit - len(head) - 1)
    return f"{head}…{''.join(tail[::-1])}"


def _fitting(pieces: Sequence[str], limit: int) -> list[str]:
    """As many pieces from the first on as fit."""
    found: list[str] = []
    for piece in pieces:
        limit -= len(piece)
        if limit < 0:
            break
        found.append(piece)
    return found


def text_width(texts: Sequence[str], size: float = FONT_SIZE) -> float:
    """Inches that the widest of the texts needs."""
    return max((_width(text) for text in texts if text.strip()), default=0.0) * size / 72


@lru_cache(maxsize=10_000)
def _width(text: str) -> float:
    """How wide a text is, in its own size."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=FONT, size=100)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 100


# --- axes ------------------------------------------------------------------------------------------------------------


def half_range(values: Sequence[float | None], least: float = 0.1) -> float:
    """A round number not below any size of the values: what an axis about 0 reaches to."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    for step in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        if step >= max(largest, least) - 1e-9:
            return step
    return largest


def signed(value: float, _place: object = None) -> str:
    """A tick of an axis about 0, with a true minus sign."""
    return "0" if abs(value) < 1e-9 else f"{value:+.3g}".replace("-", "−")


def grid(axes: Axes, axis: str = "x") -> None:
    """Faint lines behind the data."""
    axes.set_axisbelow(True)
    if axis in ("x", "both"):
        axes.xaxis.grid(visible=True, color=INK, alpha=FAINT, linewidth=0.5)
    if axis in ("y", "both"):
        axes.yaxis.grid(visible=True, color=INK, alpha=FAINT, linewidth=0.5)


def legend_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """A legend under the figure in as many columns as fit its width."""
    columns = _legend_columns(labels, float(figure.get_size_inches()[0]))
    figure.legend(list(handles), list(labels), loc="outside lower center", ncols=columns, handletextpad=0.4)


def legend_height(labels: Sequence[str], width: float) -> float:
    """Inches that such a legend needs under a figure of that width."""
    return 0.12 + 0.19 * math.ceil(len(labels) / _legend_columns(labels, width))


def _legend_columns(labels: Sequence[str], width: float) -> int:
    return max(1, min(len(labels), int((width - 0.2) / (text_width(labels) + 0.55))))
