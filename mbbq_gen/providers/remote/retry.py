"""When to try again: as long as the service asked, else longer and longer, with chance in it, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random, wait_random_exponential

from mbbq_gen.providers.remote.faults import PassingError
from mbbq_gen.waits import seconds_of

LONGEST_PAUSE: Final = 900.0
"""Seconds. Who asks for more has closed for the day: the run stops and goes on another time."""
MOST_REFUSALS: Final = 60
"""Times that one request is told to wait (429) before it counts as failed."""
_CONNECT_TRIES: Final = 3
"""Tries to reach a service that has never answered."""
_BACKOFF: Final = wait_random_exponential(multiplier=0.5, max=30.0)
_SPREAD: Final = wait_random(0.0, 0.1)
"""Part of a pause that is added to it, so that those who were told to wait together don't come back together."""


def pause_of(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that a reply asks to wait (Retry-After, retry-after-ms), or None."""
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None and (seconds := seconds_of(milliseconds)) is not None:
        return seconds / 1000
    text = headers.get("retry-after")
    return None if text is None else seconds_of(text, now)


class Tries:
    """Counts the failures of one request and says when it has had enough of them."""

    def __init__(self, most: int, reached: Callable[[], bool]) -> None:
        """`reached` tells whether the service has ever answered."""
        self._most = most
        self._reached = reached
        self.failures = 0
        self.refusals = 0

    def stop(self, state: RetryCallState) -> bool:
        """Whether the last failure was one too many (for tenacity)."""
        fault = _fault(state)
        if fault.kind == "rate":
            self.refusals += 1
            return self.refusals >= MOST_REFUSALS or (fault.pause or 0.0) > LONGEST_PAUSE
        self.failures += 1
        if fault.kind == "connect" and not self._reached():
            return self.failures >= min(self._most, _CONNECT_TRIES)
        return self.failures >= self._most

    def wait(self, state: RetryCallState) -> float:
        """Seconds until the next try (for tenacity)."""
        pause = _fault(state).pause
        return _BACKOFF(state) if pause is None else pause * (1 + _SPREAD(state)) + 0.01


def _fault(state: RetryCallState) -> PassingError:
    fault = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(fault, PassingError)
    return fault


def retrying(tries: Tries, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> AsyncRetrying:
    """Tries again on PassingError, as `tries` says; what can't be mended comes out as the last PassingError."""
    return AsyncRetrying(
        stop=tries.stop, wait=tries.wait, retry=retry_if_exception_type(PassingError), sleep=sleep, reraise=True
    )
