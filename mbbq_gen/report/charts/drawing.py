"""A drawing: lines, areas, discs and letters, in points from the upper left corner, in the order in which they lie.

    Drawing ─► files.svg      for the middle of a page, and for a paper
            └► files.figure   matplotlib's, for PNG and PDF

What is put where is decided here and by those who draw; letters are as wide as `style.text_width` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from mbbq_gen.core.text import visible_text

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


def _stands(code: int) -> bool:
    return any(first <= code <= last for first, last in _LETTERS)


def short_names(names: Sequence[str], limit: int = LABEL_LIMIT) -> list[str]:
    """The names as they are drawn: the middle of long ones left out, no two of them alike."""
    found: list[str] = []
    for name in names:
        line = " ".join(visible_text(name).split())
        short = text = _shortened([sign if _stands(ord(sign)) else f"⟨U+{ord(sign):04X}⟩" for sign in line], limit)
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


Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]
TITLE, TICK = 16.0, 15.0
"""Heights of a title above a plane and of the numbers below it."""
MARGIN = 6.0
_LEGEND_LINE = 13.5
_TICK_LENGTH, _TICK_GAP = 3.0, 3.0
_CAP_HEIGHT = 0.36
"""Of the size of letters: how far their foot is below their middle."""


@dataclass(frozen=True)
class Line:
    """A straight line."""

    start: Point
    end: Point
    colour: str = INK
    width: float = 0.8
    opacity: float = 1.0
    is_dashed: bool = False


@dataclass(frozen=True)
class Area:
    """A polygon without an outline."""

    corners: tuple[Point, ...]
    colour: str
    opacity: float = 1.0
    link: str | None = None
    """The part of a page's address that it leads to, where there is a page."""


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    middle: Point
    radius: float
    colour: str


@dataclass(frozen=True)
class Letters:
    """One line of text, on its foot."""

    foot: Point
    text: str
    anchor: Anchor = "start"
    size: float = FONT_SIZE
    colour: str = INK
    is_bold: bool = False
    is_turned: bool = False
    """Read from below."""
    link: str | None = None


Shape = Line | Area | Disc | Letters


class Key(NamedTuple):
    """What a legend says of a colour."""

    name: str
    colour: str
    marker: str | None = None
    """None: a swatch."""


@dataclass
class Drawing:
    """Shapes on a ground of this size."""

    width: float
    height: float
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Draws over what is there."""
        self.shapes.extend(shapes)

    def text(
        self,
        x: float,
        middle: float,
        text: str,
        anchor: Anchor = "start",
        *,
        size: float = FONT_SIZE,
        colour: str = INK,
        is_bold: bool = False,
        link: str | None = None,
    ) -> None:
        """A line of text at this height of its middle."""
        foot = (x, middle + _CAP_HEIGHT * size)
        self.add(Letters(foot, text, anchor, size, colour, is_bold=is_bold, link=link))

    def turned_text(self, middle: float, y: float, text: str, anchor: Anchor = "middle") -> None:
        """A line of text that is read from below, at this place of its middle."""
        self.add(Letters((middle + _CAP_HEIGHT * FONT_SIZE, y), text, anchor, is_turned=True))

    def mark(self, at: Point, shape: str, colour: str, size: float = 4.0) -> None:
        """A marker about a point."""
        self.add(_marker(at, shape, colour, size))

    def legend(self, keys: Sequence[Key]) -> None:
        """The keys along the lower edge, in as many columns as fit, in the middle."""
        columns, step = _columns(keys, self.width), _key_width(keys)
        left, top = (self.width - step * columns) / 2, self.height - legend_height(keys, self.width)
        for place, key in enumerate(keys):
            x, y = left + step * (place % columns), top + _LEGEND_LINE * (place // columns + 0.5)
            if key.marker is None:
                self.add(box((x + 2, y - 3.5), (16, 7), key.colour))
            else:
                self.mark((x + 10, y), key.marker, key.colour)
            self.text(x + 22, y, key.name)


def _key_width(keys: Sequence[Key]) -> float:
    """The room for the longest of them."""
    return text_width([key.name for key in keys]) * 72 + 36


def _columns(keys: Sequence[Key], width: float) -> int:
    return max(1, min(len(keys), int((width - 2 * MARGIN) / _key_width(keys))))


def legend_height(keys: Sequence[Key], width: float) -> float:
    """What a legend needs under a drawing of that width; nothing without keys."""
    return 0.0 if not keys else _LEGEND_LINE * math.ceil(len(keys) / _columns(keys, width)) + 4


def legend_width(keys: Sequence[Key]) -> float:
    """The width below which not even one column of a legend fits."""
    return _key_width(keys) + 2 * MARGIN if keys else 0.0


def box(corner: Point, size: tuple[float, float], colour: str, opacity: float = 1.0, link: str | None = None) -> Area:
    """A rectangle from its upper left corner."""
    left, top = corner
    right, bottom = left + size[0], top + size[1]
    return Area(((left, top), (right, top), (right, bottom), (left, bottom)), colour, opacity, link)


_CORNERS: dict[str, tuple[Point, ...]] = {
    "s": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "D": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "^": ((0, -1.15), (1.15, 1), (-1.15, 1)),
    "v": ((0, 1.15), (1.15, -1), (-1.15, -1)),
    "P": tuple(
        (x, y)
        for x, y in (
            *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
            *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
        )
    ),
    "X": (
        *((0.0, -0.55), (0.6, -1.15), (1.15, -0.6), (0.55, 0.0), (1.15, 0.6), (0.6, 1.15)),
        *((0.0, 0.55), (-0.6, 1.15), (-1.15, 0.6), (-0.55, 0.0), (-1.15, -0.6), (-0.6, -1.15)),
    ),
}
"""Markers about 0, of half a size 1; `o` is a disc."""


def _marker(at: Point, shape: str, colour: str, size: float) -> Shape:
    if shape == "o":
        return Disc(at, size / 2, colour)
    half = size / 2
    return Area(tuple((at[0] + half * x, at[1] + half * y) for x, y in _CORNERS[shape]), colour)


@dataclass(frozen=True)
class Plane:
    """A rectangle of a drawing with a scale along each side."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    """What stands at the left and the right edge."""
    y: tuple[float, float]
    """What stands at the upper and the lower edge."""

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.top + self.height

    def at(self, x: float, y: float) -> Point:
        """Where two numbers stand."""
        across = self.left + (x - self.x[0]) / (self.x[1] - self.x[0]) * self.width
        return across, self.top + (y - self.y[0]) / (self.y[1] - self.y[0]) * self.height

    def line(self, start: Point, end: Point, colour: str = INK, width: float = 0.8, *, is_dashed: bool = False) -> None:
        """A line between two pairs of numbers."""
        self.drawing.add(Line(self.at(*start), self.at(*end), colour, width, is_dashed=is_dashed))

    def upright(self, x: float, *, is_dashed: bool = False) -> None:
        """A line over the whole height."""
        self.line((x, self.y[0]), (x, self.y[1]), is_dashed=is_dashed)

    def level(self, y: float, *, is_dashed: bool = False) -> None:
        """A line over the whole width."""
        self.line((self.x[0], y), (self.x[1], y), is_dashed=is_dashed)

    def area(self, corners: Sequence[Point], colour: str, opacity: float = 1.0) -> None:
        """A polygon with its corners at these pairs of numbers."""
        self.drawing.add(Area(tuple(self.at(*corner) for corner in corners), colour, opacity))

    def bar(self, x: tuple[float, float], y: tuple[float, float], colour: str) -> None:
        """A rectangle between two numbers on each scale."""
        self.area([(x[0], y[0]), (x[1], y[0]), (x[1], y[1]), (x[0], y[1])], colour)

    def mark(self, at: Point, series: int, colour: str, size: float = 4.0) -> None:
        """The marker of a series at a pair of numbers."""
        self.drawing.mark(self.at(*at), marker(series), colour, size)

    def title(self, text: str) -> None:
        """A title above."""
        self.drawing.text(self.left, self.top - TITLE / 2 - 1, text, is_bold=True)

    def edges(self) -> None:
        """The left and the lower edge."""
        corner = (self.left, self.bottom)
        self.drawing.add(
            Line((self.left, self.top), corner, width=0.6), Line(corner, (self.right, self.bottom), width=0.6)
        )

    def x_scale(self, values: Sequence[float], said: Callable[[float], str], *, has_grid: bool = True) -> None:
        """Numbers along the lower edge."""
        for value in values:
            x = self.at(value, self.y[0])[0]
            if has_grid:
                self.drawing.add(Line((x, self.top), (x, self.bottom), width=0.5, opacity=FAINT))
            self.drawing.add(Line((x, self.bottom), (x, self.bottom + _TICK_LENGTH), width=0.6))
            self.drawing.text(x, self.bottom + _TICK_LENGTH + _TICK_GAP + FONT_SIZE / 2, said(value), "middle")

    def y_scale(self, values: Sequence[float], said: Callable[[float], str], *, is_named: bool = True) -> None:
        """Numbers along the left edge with lines from them; `is_named`: else its neighbour to the left says them."""
        for value in values:
            y = self.at(self.x[0], value)[1]
            self.drawing.add(Line((self.left, y), (self.right, y), width=0.5, opacity=FAINT))
            self.drawing.add(Line((self.left - _TICK_LENGTH, y), (self.left, y), width=0.6))
            if is_named:
                self.drawing.text(self.left - _TICK_LENGTH - _TICK_GAP, y, said(value), "end")

    def rows(self, names: Sequence[str]) -> None:
        """Names along the left edge, at 0, 1, 2 …"""
        for place, name in enumerate(names):
            self.drawing.text(self.left - _TICK_GAP - 2, self.at(self.x[0], place)[1], name, "end")

    def columns(self, names: Sequence[str], *, is_turned: bool) -> None:
        """Names along the lower edge, at 0, 1, 2 …; `is_turned`: read from below."""
        for place, name in enumerate(names):
            x = self.at(place, self.y[0])[0]
            if is_turned:
                self.drawing.turned_text(x, self.bottom + _TICK_GAP + 2, name, "end")
            else:
                self.drawing.text(x, self.bottom + _TICK_GAP + 2 + FONT_SIZE / 2, name, "middle")


def columns_height(names: Sequence[str], step: float) -> tuple[float, bool]:
    """What names below columns of this width need, and whether they must be turned."""
    wide = text_width(names) * 72
    is_turned = wide > step - 4
    return (wide + 8, True) if is_turned else (TICK, False)


SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def about_zero(reach: float) -> tuple[float, ...]:
    """The numbers of a scale about 0."""
    return (-reach, -reach / 2, 0.0, reach / 2, reach)


def plain(value: float) -> str:
    """A share on a scale."""
    return f"{value:g}"


def percent(value: float) -> str:
    """A share on a scale, of a hundred."""
    return f"{value:.0%}"
