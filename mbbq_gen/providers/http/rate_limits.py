"""How much at a time and a minute: budgets of requests and tokens, and a number of slots that follows the service.

Three things hold requests back, and a request passes them in this order:

    slots     at most so many at a time; fewer while the service refuses many, more again when it no longer does
    gate      shut for a while where the service refuses nearly everything and says how long
    budgets   requests and tokens a minute: the user's, and the service's own as its x-ratelimit headers tell

Whoever was told to wait does it without a slot. A few refusals among many answers are no reason to slow down: only the
refused ones wait.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from mbbq_gen.core.text import moment_of, seconds_of
from mbbq_gen.providers.http.errors import TransientError

Clock = Callable[[], float]

_TOLERATED: Final = 0.1
"""Share of refused requests that leaves the number of slots as it is."""
_SHUT: Final = 0.5
"""Share of refused requests that shuts the gate for as long as the service asks."""
_LONGEST_SHUT: Final = 60.0
_LOW: Final = 0.2
"""Share of a service's budget below which we go no faster than it fills up."""
_SAFELY: Final = 0.95
"""Part of that speed that is used."""


class TokenBucket:
    """So many units a minute, never more in any minute: a bucket that fills evenly, with a small burst."""

    def __init__(self, per_minute: float, clock: Clock = time.monotonic) -> None:
        self._burst = max(1.0, per_minute / 100)
        self._rate = max(per_minute - self._burst, per_minute / 2) / 60
        self._level = self._burst
        self._clock = clock
        self._at = clock()

    def reserve(self, units: float) -> float:
        """Takes units and says how many seconds to wait before they may be used."""
        self._fill()
        self._level -= units
        return max(0.0, -self._level / self._rate)

    def give_back(self, units: float) -> None:
        """Corrects what was taken by an estimate; negative where it was too little."""
        self._level = min(self._burst, self._level + units)

    def _fill(self) -> None:
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now


class HeaderRateLimit:
    """What a service says is left, and how fast it fills up; holds nothing back while there is plenty."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._rate = 0.0
        self._level = 0.0
        self._at = 0.0
        self._tight = False

    def update(self, limit: float, remaining: float, reset: float, under_way: float) -> None:
        """Takes over what a reply says.

        The limit may be a minute's or a day's, and the bucket smaller than the limit: the slower of both readings of
        how fast it fills up is the safe one.

        Args:
            limit: units of a full budget.
            remaining: units left.
            reset: seconds until it is full again.
            under_way: units that the service may not have counted yet.
        """
        self._tight = remaining < limit * _LOW and reset > 0 and limit > 0
        if self._tight:
            self._rate = _SAFELY * min((limit - remaining) / reset, limit / 60)
        self._level = remaining - under_way
        self._at = self._clock()

    def reserve(self, units: float) -> float:
        """Takes units and says how many seconds to wait."""
        if not self._tight:
            return 0.0
        now = self._clock()
        self._level += (now - self._at) * self._rate - units
        self._at = now
        return min(_LONGEST_SHUT, max(0.0, -self._level / self._rate))


class AdaptiveConcurrency:
    """At most so many requests at a time, fewer while many are refused."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.opened = False
        """Whether the first answer has come: until then there is one slot, to see whether the service answers."""
        self._limit = 1.0
        self._in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._finished = 0
        self._refused = 0
        self.lowest = most
        """The fewest slots that there were since it was opened."""

    @property
    def limit(self) -> int:
        """How many requests may be under way now."""
        return max(1, int(self._limit))

    @property
    def in_use(self) -> int:
        """How many requests are under way."""
        return self._in_use

    def open_all(self) -> None:
        """Lets as many in as were asked for, the first time that it is called."""
        if not self.opened:
            self.opened = True
            self._limit = float(self.most)
            self._wake()

    async def acquire(self) -> None:
        """Waits for a slot."""
        if self._in_use < self.limit and not self._waiting:
            self._in_use += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Gives a slot back."""
        self._in_use -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._in_use < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)

    def record(self, refused: bool) -> float:
        """Counts how a request ended and adapts; says the share that was refused where a window ended, else 0."""
        self._finished += 1
        self._refused += refused
        if self._finished < max(20, min(self.limit, 200)):
            return 0.0
        share = self._refused / self._finished
        self._finished = self._refused = 0
        if share > _TOLERATED:
            self._limit = max(1.0, self._limit * max(0.5, 1 - share))
            self.lowest = min(self.lowest, self.limit)
        elif self._limit < self.most:
            self._limit = min(float(self.most), self._limit * 1.1 + 1)
            self._wake()
        return share


class SharedRateLimits(Protocol):
    """The user's budgets where several processes ask one service."""

    async def reserve(self, tokens: float) -> float:
        """Takes a request of about so many tokens and says how many seconds to wait before it may be sent."""

    def correct(self, tokens: float) -> None:
        """Gives back tokens that were taken and not used; negative where too few were taken."""


class RateLimits:
    """What the user lets a service take a minute: requests, tokens, either or none."""

    def __init__(self, rpm: int | None, tpm: int | None, clock: Clock = time.monotonic) -> None:
        self._requests = TokenBucket(rpm, clock) if rpm else None
        self._tokens = TokenBucket(tpm, clock) if tpm else None

    def reserve(self, tokens: float) -> float:
        """Takes a request of about so many tokens and says how many seconds to wait."""
        wait = 0.0 if self._requests is None else self._requests.reserve(1)
        return wait if self._tokens is None else max(wait, self._tokens.reserve(tokens))

    def correct(self, tokens: float) -> None:
        """Gives back tokens that were not used."""
        if self._tokens is not None:
            self._tokens.give_back(tokens)


class RateLimiter:
    """Slots, gate and budgets of one service, shared by all that is asked of it."""

    def __init__(
        self,
        concurrency: int,
        rpm: int | None = None,
        tpm: int | None = None,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        shared: SharedRateLimits | None = None,
    ) -> None:
        """`shared`: the budgets that are kept elsewhere for several processes; `rpm` and `tpm` are not used then."""
        self.slots = AdaptiveConcurrency(concurrency)
        self._clock = clock
        self._sleep = sleep
        self._own = RateLimits(rpm, tpm, clock)
        self._shared = shared
        self._service = {"requests": HeaderRateLimit(clock), "tokens": HeaderRateLimit(clock)}
        self._shut_until = 0.0

    async def enter(self, tokens: float) -> None:
        """Waits until a request of about so many tokens may be sent; `leave` must follow."""
        await self.slots.acquire()
        try:
            while (wait := self._shut_until - self._clock()) > 0:
                await self._sleep(wait)
            if (wait := await self._reserve(tokens)) > 0:
                await self._sleep(wait)
        except asyncio.CancelledError:
            self.slots.release()
            raise

    async def _reserve(self, tokens: float) -> float:
        waits = [self._service["requests"].reserve(1), self._service["tokens"].reserve(tokens)]
        return max(*waits, self._own.reserve(tokens) if self._shared is None else await self._shared.reserve(tokens))

    def leave(self) -> None:
        """A request is no longer under way."""
        self.slots.release()

    def correct(self, expected: float, used: float) -> None:
        """Says how many tokens a request really took."""
        (self._shared or self._own).correct(expected - used)

    def heard(self, headers: Mapping[str, str], fault: TransientError | None) -> None:
        """Takes note of a reply: its rate-limit headers, and whether it was a refusal with a time to wait."""
        refused = fault is not None and fault.kind == "rate"
        share = self.slots.record(refused)
        if fault is not None and refused and share > _SHUT and fault.pause is not None:
            self._shut_until = max(self._shut_until, self._clock() + min(fault.pause, _LONGEST_SHUT))
        for unit, budget in self._service.items():
            left = rate_limit(headers, unit)
            if left is not None:
                budget.update(*left, self.slots.in_use if unit == "requests" else 0.0)


def rate_limit(headers: Mapping[str, str], unit: str) -> tuple[float, float, float] | None:
    """Limit, remaining units and seconds until the reset, as the headers of OpenAI or Anthropic tell; None: untold."""
    for limit, remaining, reset in (
        (f"x-ratelimit-limit-{unit}", f"x-ratelimit-remaining-{unit}", f"x-ratelimit-reset-{unit}"),
        (
            f"anthropic-ratelimit-{unit}-limit",
            f"anthropic-ratelimit-{unit}-remaining",
            f"anthropic-ratelimit-{unit}-reset",
        ),
    ):
        texts = (headers.get(limit), headers.get(remaining), headers.get(reset))
        if texts[0] is not None and texts[1] is not None and texts[2] is not None:
            try:
                numbers = float(texts[0]), float(texts[1])
            except ValueError:
                return None
            seconds = seconds_of(texts[2], moment_of(headers.get("date") or ""))
            return None if seconds is None else (*numbers, seconds)
    return None
