"""How all charts look: colours that the colour-blind tell apart, letters that are there, names that fit.

Ink is black, which becomes `currentColor` in a page (`files.svg`); backgrounds are transparent there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from mbbq_gen.report.plain_text import visible

INK = "#000000"
ON_LIGHT, ON_DARK = "#111111", "#ffffff"
"""Ink upon a coloured cell, in whatever page."""
FAINT = 0.18
"""Opacity of grid lines, so that they are faint on white and on black."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C7A00")
"""Okabe and Ito's colours without black; a darker yellow, for theirs can't be seen on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
FONT = "DejaVu Sans"
"""Of figures as PNG and PDF: comes with matplotlib, so that it is there on every machine."""
FONT_SIZE = 8.0
LABEL_LIMIT = 30
"""Characters of a name in a drawing; its whole is in the table."""


def colour(place: int) -> str:
    """The colour of a series."""
    return PALETTE[place % len(PALETTE)]


def marker(place: int) -> str:
    """The marker of a series: colours that come again have another one."""
    return MARKERS[(place + place // len(PALETTE)) % len(MARKERS)]


# --- names -----------------------------------------------------------------------------------------------------------


_LETTERS = (
    *((0x20, 0x7E), (0xA0, 0x2E9), (0x300, 0x34F), (0x370, 0x377), (0x37A, 0x37E), (0x384, 0x3A1), (0x3A3, 0x525)),
    *((0x531, 0x556), (0x559, 0x55F), (0x561, 0x587), (0x10D0, 0x10FC), (0x1E00, 0x1EFB), (0x1F00, 0x1FFE)),
    *((0x2010, 0x2027), (0x2030, 0x205E), (0x20A0, 0x20B5), (0x2190, 0x2311), (0x2500, 0x269C), (0x27E6, 0x27EB)),
)
"""Characters that the font has, in scripts that stand right letter by letter."""


def _pieces(text: str) -> list[str]:
    """Each character, in one line, as it is drawn: those that the font has not by their number, as `⟨U+4E2D⟩`."""
    line = " ".join(visible(text).split())
    return [sign if _stands(ord(sign)) else f"⟨U+{ord(sign):04X}⟩" for sign in line]


def _stands(code: int) -> bool:
    return any(first <= code <= last for first, last in _LETTERS)


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


_WIDTHS = (
    *(32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34),
    *(84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79, 60, 79, 69, 63, 61, 73, 68, 99),
    *(69, 61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52),
    *(39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84),
)
"""Of the font's letters from the space on, in hundredths of their size."""
_OTHER_WIDTHS = {"·": 32, "…": 100, "−": 84, "–": 50, "⟨": 39, "⟩": 39}


@lru_cache(maxsize=10_000)
def _width(text: str) -> float:
    """How wide a text is, in its own size; letters that have marks are taken for wide ones."""
    return (
        sum(_WIDTHS[code - 32] if 32 <= (code := ord(sign)) < 127 else _OTHER_WIDTHS.get(sign, 70) for sign in text)
        / 100
    )


# --- axes ------------------------------------------------------------------------------------------------------------


def half_range(values: Sequence[float | None]) -> float:
    """A round number not below any size of the values: what an axis about 0 reaches to."""
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)
    for step in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        if step >= max(largest, 0.1) - 1e-9:
            return step
    return largest


def signed(value: float, _place: object = None) -> str:
    """A tick of an axis about 0, with a true minus sign."""
    return "0" if abs(value) < 1e-9 else f"{value:+.3g}".replace("-", "−")
