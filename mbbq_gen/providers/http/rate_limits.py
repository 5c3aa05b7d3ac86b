"""The requests and tokens that a minute may have: the user's limits, and the service's own as its headers tell them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from mbbq_gen.core.text import duration, moment_of, seconds_of
from mbbq_gen.providers.base import SharedRateLimits
from mbbq_gen.providers.http.concurrency import WORTH_SAYING, AdaptiveConcurrency, Clock, ServiceGate

_HELD: Final = 60.5
"""Seconds for which units count: a minute, and what a request may need to reach the service."""
_BIN: Final = 0.1
_KNOWN: Final = 0.995
"""Part of the tokens that is used: those of requests under way are estimates."""
_CHECK_AGAIN: Final = 0.25
"""Seconds after which a limit is checked again: answers that arrived meanwhile may have given tokens back."""
_LONGEST_SHUT: Final = 60.0
_LOW: Final = 0.2
"""Share of a service's budget below which we go no faster than it fills up."""
_SAFELY: Final = 0.95
"""Part of that speed that is used."""


class MinuteWindow:
    """So many units in any 60 seconds, spread evenly; taken by an estimate, corrected by the answer."""

    def __init__(self, limit: float, clock: Clock = time.monotonic) -> None:
        self._limit = limit
        self._rate = limit / 57
        self._level = self._burst = limit / 100
        """Units that may be sent at once, at first and whenever there are that many."""
        self._most = limit / 20
        """Units that may gather while a request waits, and from what others gave back."""
        self._clock, self._at, self._sum = clock, clock(), 0.0
        self._bins: deque[list[float]] = deque()
        """Units taken in each tenth of a second: [its time, units]."""

    def take(self, units: float) -> float:
        """Takes units, and returns 0; where they are not there yet, takes nothing and returns the seconds to wait."""
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        while self._bins and self._bins[0][0] <= now - _HELD:
            self._sum -= self._bins.popleft()[1]
        if self._bins and self._sum + units > self._limit:
            return max(0.01, self._bins[0][0] + _HELD - now)
        if self._level < min(units, self._burst):
            return max(0.001, (min(units, self._burst) - self._level) / self._rate)
        self._level -= units
        self._sum += units
        if self._bins and self._bins[-1][0] >= now:
            self._bins[-1][1] += units
        else:
            self._bins.append([now + _BIN, units])
        return 0.0

    def correct(self, units: float, age: float) -> None:
        """Gives back units that were taken `age` seconds ago and not used; negative where too few were taken."""
        self._level = min(self._most, self._level + units)
        taken_at = self._clock() - age
        for entry in self._bins:
            if entry[0] >= taken_at:
                entry[1] -= units
                self._sum -= units
                return


class HeaderRateLimit:
    """The service's own limit, by its headers; holds nothing back while there is plenty."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._rate = self._level = self._at = 0.0
        self._tight = False

    def update(self, limit: float, remaining: float, reset: float, under_way: float) -> None:
        """Takes units of a full budget, units left, seconds until it is full, and units that are not counted yet.

        The limit may be a minute's or a day's: the slower reading of how fast it fills up is the safe one.
        """
        self._tight = remaining < limit * _LOW and reset > 0 and limit > 0
        if self._tight:
            self._rate = _SAFELY * min((limit - remaining) / reset, limit / 60)
        self._level, self._at = remaining - under_way, self._clock()

    def reserve(self, units: float) -> float:
        """Takes units and says how many seconds to wait."""
        if not self._tight:
            return 0.0
        now = self._clock()
        self._level += (now - self._at) * self._rate - units
        self._at = now
        return min(_LONGEST_SHUT, max(0.0, -self._level / self._rate))


class RateLimits:
    """The user's limits: requests and tokens a minute, either or none."""

    def __init__(self, rpm: int | None, tpm: int | None, clock: Clock = time.monotonic) -> None:
        self._requests = MinuteWindow(rpm, clock) if rpm else None
        self._tokens = MinuteWindow(tpm * _KNOWN, clock) if tpm else None

    def take(self, tokens: float) -> float:
        """Takes a request of so many tokens and returns 0, or takes nothing and returns the seconds to wait."""
        if self._tokens is not None and (wait := self._tokens.take(tokens)) > 0:
            return wait
        wait = 0.0 if self._requests is None else self._requests.take(1)
        if wait > 0 and self._tokens is not None:
            self._tokens.correct(tokens, 0.0)
        return wait

    def correct(self, tokens: float, age: float) -> None:
        """Gives back tokens taken `age` seconds ago and not used; negative where too few were taken."""
        if self._tokens is not None:
            self._tokens.correct(tokens, age)


class Ticket(NamedTuple):
    """A request that was let through, until it is settled."""

    tokens: float
    sent_in: int
    """The round of the concurrency."""
    sent_at: float


class RateLimiter:
    """Concurrency, gate and limits of one service, shared by all its requests."""

    def __init__(self, slots: AdaptiveConcurrency, gate: ServiceGate, limits: RateLimits | SharedRateLimits) -> None:
        self.slots, self.gate, self._limits = slots, gate, limits
        self._service = {"requests": HeaderRateLimit(), "tokens": HeaderRateLimit()}
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        """When the limits let the next request through."""

    async def enter(self, tokens: float) -> Ticket:
        """Waits until a request of so many tokens may be sent, or raises OutageError; `slots.release` must follow."""
        await self.slots.acquire()
        try:
            async with self._turn:
                if self.gate.is_closed:
                    await self.gate.enter()
                wait = max(self._service["requests"].reserve(1), self._service["tokens"].reserve(tokens))
                if wait > 0:
                    self._free_at = time.monotonic() + wait
                    await asyncio.sleep(wait)
                while True:
                    taken = self._limits.take(tokens)
                    wait = taken if isinstance(taken, float) else await taken
                    if wait <= 0:
                        break
                    self._free_at = time.monotonic() + wait
                    await asyncio.sleep(min(wait, _CHECK_AGAIN))
        except BaseException:
            self.slots.release()
            raise
        return Ticket(tokens, self.slots.round, time.monotonic())

    def note_answer(self, ticket: Ticket, seconds: float, tokens: float) -> None:
        """Takes note of an answer: how long it took, and how many tokens."""
        self._limits.correct(ticket.tokens - tokens, time.monotonic() - ticket.sent_at)
        if self.gate.answered(ticket.sent_at):
            self.slots.restart()
        self.slots.open()
        self.slots.record(ticket.sent_in, seconds)

    def note_limits(self, headers: Mapping[str, str]) -> None:
        """Takes note of what the headers of a reply say about the service's own limits."""
        for unit, budget in self._service.items():
            if (left := rate_limit(headers, unit)) is not None:
                budget.update(*left, self.slots.in_use if unit == "requests" else 0.0)

    def status(self) -> str:
        """How many requests are under way, or why none is sent and for how long, in a few words."""
        pause = self.gate.pause()
        if pause is not None and pause[1] + 1 >= WORTH_SAYING:
            return f"{pause[0]}: next try in {duration(pause[1])}"
        limited = self._free_at - time.monotonic()
        if limited >= WORTH_SAYING:
            return f"rate limit: next request in {duration(limited)}"
        return f"{self.slots.in_use} at a time"


def rate_limit(headers: Mapping[str, str], unit: str) -> tuple[float, float, float] | None:
    """Limit, remaining units and seconds until the reset, from the headers of OpenAI or Anthropic; None: not given."""
    for before, after in (("x-ratelimit-", f"-{unit}"), (f"anthropic-ratelimit-{unit}-", "")):
        limit = headers.get(f"{before}limit{after}")
        if limit is None:
            continue
        remaining, reset = headers.get(f"{before}remaining{after}"), headers.get(f"{before}reset{after}")
        if remaining is None or reset is None:
            continue
        seconds = seconds_of(reset, moment_of(headers.get("date") or ""))
        with suppress(ValueError):
            return None if seconds is None else (float(limit), float(remaining), seconds)
    return None
