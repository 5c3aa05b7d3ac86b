"""What comes from outside as files can hold it: halves of surrogate pairs are no text, NaN no JSON, depth has an end.

JSON may spell half of a pair (`"\\ud83d"`), and models do where a text is cut inside an emoji; UTF-8 has none of it.
It is replaced by U+FFFD, as browsers and most JSON readers do. Everything else stays: NUL, noncharacters, any length.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

REPLACEMENT: Final = "\ufffd"
_HALF: Final = re.compile(r"[\ud800-\udfff]")
_DEEPEST: Final = 32
"""Levels of a JSON value that are kept; a service's own words are a handful of levels deep."""
_LARGEST: Final = 1 << 63
_DEEPER: Final = "…"


def storable_text(text: str) -> str:
    """A text that has an UTF-8: the same, or with U+FFFD for each half of a pair."""
    if text.isascii():
        return text
    return _HALF.sub(REPLACEMENT, text)


def storable(value: Any, levels: int = _DEEPEST) -> Any:
    """A JSON value that can be written and read again: numbers that JSON has not are texts, what is too deep is `…`."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return float(value) if abs(value) < 1 << 1000 else _DEEPER
    if not isinstance(value, list | dict):
        return value
    if levels == 0:
        return _DEEPER
    if isinstance(value, list):
        return [storable(entry, levels - 1) for entry in value]
    return {storable_text(str(name)): storable(entry, levels - 1) for name, entry in value.items()}


def count_or_none(value: Any) -> int | None:
    """A count that somebody told: a whole number from 0 up; None for all else (negative, NaN, a word, missing)."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return int(value) if value == int(value) else None
