"""Times to wait, as services tell them in headers."""

from __future__ import annotations

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
        return max(0.0, float(text)) if text.lower() not in {"nan", "inf", "infinity"} else None
    except ValueError:
        pass
    parts = list(_DURATION.finditer(text))
    if parts and "".join(part.group() for part in parts) == text:
        return sum(float(part["number"]) * _SECONDS[part["unit"]] for part in parts)
    return _seconds_until(text, now or datetime.now(UTC))


def _seconds_until(text: str, now: datetime) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError):
            continue
        return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())
    return None
