"""Times to wait, as services tell them: seconds, durations, and moments by the service's own clock."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def pause_of(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that a reply asks to wait (Retry-After, retry-after-ms), or None.

    A moment is read by the clock of the service, which its `Date` tells; `now` stands in where it has none.
    """
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None and (seconds := seconds_of(milliseconds)) is not None:
        return seconds / 1000
    text = headers.get("retry-after")
    return None if text is None else seconds_of(text, service_time(headers) or now)


def service_time(headers: Mapping[str, str]) -> datetime | None:
    """The moment at which a reply was sent, by the service's clock; None where it does not tell."""
    return _moment(headers.get("date") or "")


def seconds_of(text: str, now: datetime | None = None) -> float | None:
    """A time to wait, in seconds, from `1.5`, `6m0s`, `120ms`, an HTTP date or an ISO date; None where it is none."""
    text = text.strip()
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if math.isfinite(seconds) else None
    parts = list(_DURATION.finditer(text))
    if parts and "".join(part.group() for part in parts) == text:
        return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)
    moment = _moment(text)
    return None if moment is None else max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _moment(text: str) -> datetime | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
