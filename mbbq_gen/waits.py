"""Times to wait, as services tell them in headers: seconds, durations, and moments."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


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
    moment = moment_of(text)
    return None if moment is None else max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def moment_of(text: str) -> datetime | None:
    """The moment that an HTTP date or an ISO date names; None where it is none."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
