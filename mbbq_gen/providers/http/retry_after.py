"""How long a service asks to wait before the next request: by headers, fields of the body, or its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from mbbq_gen.core.text import moment_of, seconds_of

_RESET_HEADER: Final = re.compile(r"(?:x-)?ratelimit-reset(?:-[a-z-]+)?|anthropic-ratelimit-[a-z-]+-reset")
_WAIT_FIELDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("retryDelay", "retry_after", "retryAfter", "retry_after_seconds", "resets_in_seconds"), 1.0),
    **dict.fromkeys(("reset_at", "resets_at", "reset_time", "estimated_time", "X-RateLimit-Reset"), 1.0),
    **dict.fromkeys(("retry_after_ms", "retryAfterMs"), 0.001),
}
"""Fields of a body that say when to come back, and the seconds of their unit."""
_WAIT_TEXT: Final = re.compile(
    r"(?:try again|retry(?:ing)?|resets?|available(?: again)?|wait)(?: after| in| for| at)?:? "
    r"(?:(?P<moment>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|(?P<compact>(?:\d+(?:\.\d+)?(?:ms|[smhd])){1,4})\b"
    r"|(?P<number>\d+(?:\.\d+)?) ?(?P<unit>milliseconds?|seconds?|secs?|minutes?|mins?|hours?|days?)\b)",
    re.IGNORECASE,
)
_UNITS: Final = {"mi": 60.0, "ms": 0.001, "s": 1.0, "h": 3600.0, "d": 86400.0}


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that a reply asks to wait (Retry-After, retry-after-ms), or None.

    A date is read by the clock of the service, which its `Date` header tells; `now` stands in where it has none.
    """
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None and (seconds := seconds_of(milliseconds)) is not None:
        return seconds / 1000
    text = headers.get("retry-after")
    return None if text is None else seconds_of(text, moment_of(headers.get("date") or "") or now)


def pause_of(status: int, headers: Mapping[str, str], payload: Any, message: str) -> float | None:
    """The seconds that a refusal asks to wait: Retry-After, fields of the body, its text, then reset headers."""
    seconds = retry_after(headers)
    if seconds is not None or (status != 429 and status < 500):
        return seconds
    now = moment_of(headers.get("date") or "") or datetime.now(UTC)
    found = [pause for pause in _waits_in(payload, now) if pause is not None]
    if found:
        return max(found)
    if words := _WAIT_TEXT.search(message):
        if words["number"]:
            unit = words["unit"].lower()
            scale = 0.001 if unit.startswith("mil") else _UNITS["mi" if unit.startswith("mi") else unit[0]]
            return float(words["number"]) * scale
        return _seconds_until(words["moment"] or words["compact"], now)
    resets = []
    for name, value in headers.items():
        remaining = seconds_of(headers.get(name.replace("reset", "remaining"), "0"))
        if _RESET_HEADER.fullmatch(name) and remaining is not None and remaining <= 0:
            resets.append(_seconds_until(value, now))
    return max((pause for pause in resets if pause is not None), default=None)


def _waits_in(value: Any, now: datetime, levels: int = 6) -> Iterator[float | None]:
    """The seconds to wait that fields of a body name, at any depth; headers that a router passes on are there too."""
    if levels and isinstance(value, list):
        for entry in value:
            yield from _waits_in(entry, now, levels - 1)
    elif levels and isinstance(value, Mapping):
        for name, entry in value.items():
            scale = _WAIT_FIELDS.get(name)
            if scale is not None and isinstance(entry, str | int | float) and not isinstance(entry, bool):
                seconds = _seconds_until(str(entry), now)
                yield None if seconds is None else seconds * scale
            else:
                yield from _waits_in(entry, now, levels - 1)


def _seconds_until(text: str, now: datetime) -> float | None:
    """Seconds from a duration, a date, or a moment in seconds or milliseconds since 1970."""
    seconds = seconds_of(text, now)
    if seconds is None or seconds < 1e9:
        return seconds
    moment = seconds / 1000 if seconds > 1e11 else seconds
    return max(0.0, moment - now.timestamp()) if moment < 1e11 else None
