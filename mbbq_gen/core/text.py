"""Text that can be stored and shown safely, lists of names, and durations.

JSON may contain a lone surrogate (`"\\ud83d"`), for example from a model whose text ends inside an emoji; UTF-8 can't
encode it. It is replaced by U+FFFD, as in browsers. Everything else stays: NUL, noncharacters, any length.
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

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_MOST_DEPTH: Final = 32
"""Levels of a JSON value that are kept."""
_LARGEST: Final = 1 << 63


def storable_text(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, so that UTF-8 can encode it."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def storable(value: Any, levels: int = _MOST_DEPTH) -> Any:
    """A JSON value that can be stored: NaN as text, `…` beyond the maximum depth."""
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
    """A whole number of at least 0; None for all other values."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return int(value) if value == int(value) else None


_KEPT = frozenset("\n\u200c\u200d")
"""Line ends, and the joiners of Indic and Persian spelling."""
_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡", 9: "    "}
"""Control character → its symbol, one letter wide; a tab is four blanks."""
_FORMULA_STARTS = tuple("=+-@\t\r\n|%＝＋－＠")


def visible_text(text: str) -> str:
    """The text with control, direction and other invisible characters made visible.

    Letters, marks and line ends stay. `\\x1b` becomes `␛`, a tab four blanks, a right-to-left override `⟨U+202E⟩`, a
    lone surrogate `⟨U+D800⟩`.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char in _KEPT or char.isprintable() else _visible(char) for char in text)


def _visible(char: str) -> str:
    blank = " " if unicodedata.category(char) == "Zs" else ""
    return blank or _CONTROL_PICTURES.get(ord(char)) or f"⟨U+{ord(char):04X}⟩"


def spreadsheet_safe(cell: str) -> str:
    """A cell that is never read as a formula, with invisible characters made visible."""
    shown = visible_text(cell)
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA_STARTS) else shown


def whole_percent(share: float) -> str:
    """A share in per cent, rounded; 0% only for exactly 0, 100% only for exactly 1."""
    rounded = round(100 * share)
    return f"{min(max(rounded, 1), 99) if 0 < share < 1 else rounded}%"


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 model`, `1,200 models`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shortened(text: str, limit: int) -> str:
    """The text on one line, cut to `limit` characters."""
    line = " ".join(visible_text(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


T = TypeVar("T")
Names = str | Sequence[str]
"""Names as one comma-separated text, or as a sequence."""


def words(names: Names) -> list[str]:
    """The names in order, stripped and without duplicates."""
    entries = names.split(",") if isinstance(names, str) else names
    return list(dict.fromkeys(stripped for entry in entries if (stripped := str(entry).strip())))


def one_of(kind: str, name: str, known: Iterable[T]) -> T:
    """The known value with this name; UnknownNameError if there is none."""
    names = {str(candidate): candidate for candidate in known}
    if name not in names:
        raise UnknownNameError(kind, name, names)
    return names[name]


def all_of(kind: str, names: Names, known: Sequence[T]) -> list[T]:
    """The known values of several names; raises as `one_of`, and UsageError for an empty list."""
    found = [one_of(kind, word, known) for word in words(names)]
    if not found:
        raise UsageError(f"name at least one {kind}; known: {', '.join(map(str, known))}")
    return found


_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_seconds(text: str, now: datetime | None = None) -> float | None:
    """Seconds to wait, from `1.5`, `6m0s`, `120ms` or a date; None for other text."""
    text = text.strip()
    with suppress(ValueError):
        return max(0.0, float(text)) if math.isfinite(float(text)) else None
    parts = list(_DURATION.finditer(text))
    if parts and "".join(part.group() for part in parts) == text:
        return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)
    date = parse_date(text)
    return None if date is None else max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def parse_date(text: str) -> datetime | None:
    """The time of an HTTP date or an ISO date; None for other text."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = parse(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None


def duration(seconds: float) -> str:
    """A duration in words: `45 s`, `10 minutes`, `3 min 20 s`, `2.5 hours`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} hours"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} minutes"
