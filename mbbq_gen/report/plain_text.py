"""Makes text that a model wrote safe to show: nothing in it can move the cursor, hide, or turn the line around."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\u200c\u200d")
"""Line ends, and the joiners that Indic and Persian spelling needs."""
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
"""Control character → its picture, which is as wide as a letter."""
_FORMULA_STARTS = tuple("=+-@\t\r\n|%＝＋－＠")


def visible(text: str) -> str:
    """The text with every control, direction or otherwise invisible character shown for what it is.

    Letters, marks and line ends stay. `\\x1b` becomes `␛`, a tab four blanks, a right-to-left override `⟨U+202E⟩`, half
    a surrogate pair `⟨U+D800⟩`.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(sign if sign in _KEPT or sign.isprintable() else _shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if sign == "\t":
        return "    "
    if unicodedata.category(sign) == "Zs":
        return " "
    return _PICTURES.get(ord(sign)) or f"⟨U+{ord(sign):04X}⟩"


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula, and that holds nothing invisible."""
    shown = visible(cell)
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA_STARTS) else shown


def shortened(text: str, limit: int) -> str:
    """The text in one line of at most `limit` characters, its end left out if need be."""
    line = " ".join(visible(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
