"""How long a reply asks to wait, by the service's own clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mbbq_gen.waits import moment_of, seconds_of


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
    return moment_of(headers.get("date") or "")
