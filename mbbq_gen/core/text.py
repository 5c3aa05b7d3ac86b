"""What comes from outside as files can hold it: halves of surrogate pairs are no text, NaN no JSON, depth has an end.

JSON may spell half of a pair (`"\\ud83d"`), and models do where a text is cut inside an emoji; UTF-8 has none of it.
It is replaced by U+FFFD, as browsers and most JSON readers do. Everything else stays: NUL, noncharacters, any length.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

from mbbq_gen.core.errors import UnknownNameError, UsageError

_HALF: Final = re.compile(r"[\ud800-\udfff]")
_DEEPEST: Final = 32
"""Levels of a JSON value that are kept; a service's own words are a handful of levels deep."""
_LARGEST: Final = 1 << 63


def storable_text(text: str) -> str:
    """A text that has an UTF-8: the same, or with U+FFFD for each half of a pair."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def storable(value: Any, levels: int = _DEEPEST) -> Any:
    """A JSON value that can be written and read again: numbers that JSON has not are texts, what is too deep is `…`."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return float(value) if abs(value) < 1 << 1000 else "…"
    if not isinstance(value, list | dict):
        return value
    if levels == 0:
        return "…"
    if isinstance(value, list):
        return [storable(entry, levels - 1) for entry in value]
    return {storable_text(str(name)): storable(entry, levels - 1) for name, entry in value.items()}


def count_or_none(value: Any) -> int | None:
    """A count that was reported: a whole number from 0 up; None for all else (negative, NaN, a word, missing)."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return int(value) if value == int(value) else None


_KEPT = frozenset("\n\u200c\u200d")
"""Line ends, and the joiners that Indic and Persian spelling needs."""
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡", 9: "    "}
"""Control character → its picture, which is as wide as a letter; a tab is four blanks."""
_FORMULA_STARTS = tuple("=+-@\t\r\n|%＝＋－＠")


def visible_text(text: str) -> str:
    """The text with every control, direction or otherwise invisible character shown for what it is.

    Letters, marks and line ends stay. `\\x1b` becomes `␛`, a tab four blanks, a right-to-left override `⟨U+202E⟩`, half
    a surrogate pair `⟨U+D800⟩`.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(sign if sign in _KEPT or sign.isprintable() else _shown(sign) for sign in text)


def _shown(sign: str) -> str:
    blank = " " if unicodedata.category(sign) == "Zs" else ""
    return blank or _PICTURES.get(ord(sign)) or f"⟨U+{ord(sign):04X}⟩"


def spreadsheet_safe(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula, and that holds nothing invisible."""
    shown = visible_text(cell)
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA_STARTS) else shown


def whole_percent(share: float) -> str:
    """A share in whole per cent, rounded; 0% only for none and 100% only for all."""
    rounded = round(100 * share)
    return f"{min(max(rounded, 1), 99) if 0 < share < 1 else rounded}%"


def counted(count: int, noun: str) -> str:
    """`1 model`, `1,200 models`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shortened(text: str, limit: int) -> str:
    """The text in one line of at most `limit` characters, its end left out if need be."""
    line = " ".join(visible_text(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


T = TypeVar("T")
Names = str | Sequence[str]
"""A comma-separated list, as a text or taken apart already."""


def words(names: Names) -> list[str]:
    """The entries of a list, each once, in order."""
    entries = names.split(",") if isinstance(names, str) else names
    return list(dict.fromkeys(stripped for entry in entries if (stripped := str(entry).strip())))


def one_of(kind: str, name: str, known: Iterable[T]) -> T:
    """The known name; UnknownNameError, with the nearest ones, where there is none."""
    names = {str(candidate): candidate for candidate in known}
    if name not in names:
        raise UnknownNameError(kind, name, names)
    return names[name]


def all_of(kind: str, names: Names, known: Sequence[T]) -> list[T]:
    """Every name of a list; raises as `one_of`, and where the list is empty."""
    found = [one_of(kind, word, known) for word in words(names)]
    if not found:
        raise UsageError(f"name at least one {kind}; known: {', '.join(map(str, known))}")
    return found


_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_seconds(text: str, now: datetime | None = None) -> float | None:
    """A time to wait, in seconds, from `1.5`, `6m0s`, `120ms`, an HTTP date or an ISO date; None where it is none."""
    text = text.strip()
    with suppress(ValueError):
        return max(0.0, float(text)) if math.isfinite(float(text)) else None
    parts = list(_DURATION.finditer(text))
    if parts and "".join(part.group() for part in parts) == text:
        return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)
    moment = parse_date(text)
    return None if moment is None else max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def parse_date(text: str) -> datetime | None:
    """The moment that an HTTP date or an ISO date names; None where it is none."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def duration(seconds: float) -> str:
    """A span of time in words: `45 s`, `10 minutes`, `3 min 20 s`, `2.5 hours`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} hours"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} minutes"
