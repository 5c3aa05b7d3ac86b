"""Limits on requests to a service: concurrency, requests and tokens per minute, outages.

    AdaptiveConcurrency   starts low, grows with the throughput, halves on failures (AIMD)
    ServiceGate           a circuit breaker: closed by an outage, opened by a successful probe
    RateLimits            the user's limits of requests and tokens per minute
    HeaderRateLimit       the service's own limit, from the headers of its replies
    RateLimiter           all of them for one service

No package on PyPI had the first two for asyncio: docs/decisions/0029-outages-and-concurrency.md.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mbbq_gen.core.text import duration, parse_date, parse_seconds
from mbbq_gen.providers.base import SharedRateLimits
from mbbq_gen.providers.http.errors import TransientError

Clock = Callable[[], float]

_TOLERATED: Final = 0.1
"""Share of failed requests, beyond the first two, that does not lower the concurrency."""
_GAIN: Final = 0.08
"""Growth of the throughput, relative to that of the concurrency, that justifies the latter; at least 10 %."""
_FAST: Final = 8.0
_SLOW: Final = 1.5
"""Growth factors of the concurrency before and after it was first too high."""
_HOLD: Final = 4
"""Rounds without growth after a growth that did not raise the throughput."""


def initial_concurrency(url: str) -> int:
    """Initial concurrency: lower at a server on this machine, which often answers one request at a time."""
    host = urlsplit(url).hostname or ""
    return 4 if host in ("localhost", "::1") or host.startswith("127.") else 16


class AdaptiveConcurrency:
    """Limits concurrent requests, and adapts the limit to the service's throughput.

    A round ends when as many of its requests as the limit are answered. Its throughput is limit / mean latency
    (Little's law). A higher limit is kept if the throughput grew with it. The limit stays so low that answers take at
    most half of the timeout if the throughput does not grow.
    """

    def __init__(self, most: int, start: int | None = None, timeout: float = math.inf) -> None:
        self.most = most
        self._start = float(min(most, start or most))
        self._timeout = timeout
        self.is_open = False
        """Whether the first answer has arrived; until then the limit is 1."""
        self._limit = 1.0
        self.in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.round = 0
        """Number of the round; each request belongs to the round in which it was sent."""
        self._base = 1.0, 0.0  # the last limit that raised the throughput, and its throughput
        self._factor, self._hold = _FAST, 0
        self._too_many = math.inf
        """The limit at which too many requests failed; growth is fast up to half of it, then slow."""
        self._is_new = True
        """Whether an answer has arrived since then; all failures of an outage count as one."""
        self._begin_round(1.0)

    @property
    def limit(self) -> int:
        """Maximum requests in flight now."""
        return max(1, int(self._limit))

    def open(self) -> None:
        """Allows concurrent requests; later calls do nothing."""
        if not self.is_open:
            self.is_open = True
            self.restart()

    def restart(self) -> None:
        """Starts again with the initial concurrency."""
        first = min(self._start, self._too_many / 2)
        self._base, self._factor, self._hold = (first, 0.0), _FAST, 0 if math.isinf(self._too_many) else _HOLD
        self._begin_round(first)

    async def acquire(self) -> None:
        """Waits for a slot."""
        if self.in_use < self.limit and not self._waiting:
            self._use()
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
        """Releases a slot."""
        self.in_use -= 1
        self._wake()

    def record(self, sent_in: int, seconds: float, fault: TransientError | None = None) -> None:
        """Adapts the limit to an answer or a transient failure of a round, after so many seconds."""
        if fault is not None and fault.kind == "timeout" and self.is_open:
            self._limit = max(1.0, self._limit - 1)  # the server may still process it
        if sent_in != self.round or not self.is_open:
            return
        if fault is None:
            self._answered += 1
            self._is_new = True
            self._seconds += seconds
            if self._answered >= self.limit:
                self._adapt(self._seconds / self._answered)
            return
        self._failed += 1
        # requests in flight count too: refusals arrive at once, answers later
        if self._failed > 2 + _TOLERATED * (self._failed + self._answered + self.in_use):
            self._too_many = self._limit if self._is_new else self._too_many
            self._is_new, self._hold = False, _HOLD
            self._base = self._limit / 2, 0.0
            self._begin_round(self._limit / 2)

    def _adapt(self, latency: float) -> None:
        """Ends a round with this mean latency in seconds, and sets the limit of the next one."""
        limit, (base, base_throughput) = self._limit, self._base
        throughput = limit / max(latency, 1e-6)
        if latency > self._timeout / 2:
            self._factor, self._base, limit = _SLOW, (limit * 0.7, 0.0), limit * 0.7
        elif self._full and limit > base and throughput < base_throughput * max(1.1, 1 + _GAIN * (limit / base - 1)):
            self._factor, self._hold, limit = _SLOW, _HOLD, base
        elif self._full:
            self._base, self._hold = (limit, throughput), max(0, self._hold - 1)
            room, half = self._timeout / max(latency, 1e-6), self._too_many / 2
            factor = min(self._factor, max(room / 4, min(_SLOW, room / 2)))
            if limit < half and factor > 1.2:
                limit = min(limit * factor, half)
            elif factor > 1.2 and not self._hold:
                limit, self._hold = max(limit + 1, limit * min(factor, _SLOW)), _HOLD if limit > half else 0
        self._begin_round(limit)

    def _begin_round(self, limit: float) -> None:
        self._limit = min(float(self.most), max(1.0, limit))
        self.round += 1
        self._answered = self._failed = 0
        self._seconds = 0.0
        self._full = self.in_use >= self.limit
        self._wake()

    def _use(self) -> None:
        self.in_use += 1
        self._full = self._full or self.in_use >= self.limit

    def _wake(self) -> None:
        while self._waiting and self.in_use < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._use()
                turn.set_result(None)


_FIRST_INTERVAL: Final = 0.25
_LONGEST_INTERVAL: Final = 30.0
"""Seconds between two probes: at first, and at most."""
_SLOW_ANSWER: Final = 1.0
"""Seconds after the start of an outage; later answers to earlier requests end it."""
_INTERVAL: Final = 0.1
"""Time between two probes, as a share of the outage so far."""
LONG_PAUSE: Final = 10.0
"""Minimum seconds of a pause that is shown to the user."""
START_PATIENCE: Final = 120.0
"""Maximum seconds to wait for a service's first answer, since servers load models."""


class OutageError(Exception):
    """The service has not answered for longer than --patience."""

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(reason)
        self.seconds = seconds


class ServiceGate:
    """Closes when requests fail and none succeeds; then admits probes at growing intervals until one is answered."""

    def __init__(
        self, patience: float, clock: Clock = time.monotonic, notify: Callable[[str], None] = lambda _: None
    ) -> None:
        """`notify` is called with a line for each outage that lasts long enough to report."""
        self._patience = patience
        self.clock = clock
        self._notify = notify
        self.last_answer: float | None = None
        """When the service last answered a request; None: never."""
        self.last_sent = -math.inf
        """Latest sending time of an answered request."""
        self._failed: dict[str, float] = {}
        """Key of each request that failed since the last answer → time of its first failure."""
        self._closed_at: float | None = None
        self._next_probe = 0.0
        self._reason, self._kind = "", ""
        self._is_notified = False
        self._changed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether only probes are admitted."""
        return self._closed_at is not None

    async def enter(self) -> None:
        """Waits until a request may be sent; raises OutageError after too long an outage."""
        while self._closed_at is not None:
            patience = self._patience if self.last_answer is not None else min(self._patience, START_PATIENCE)
            now = self.clock()
            outage, pause = now - min(self._failed.values(), default=self._closed_at), self._next_probe - now
            if outage > patience:
                raise OutageError(outage, self._reason)
            if max(outage, pause) >= LONG_PAUSE and not self._is_notified:
                self._is_notified = True
                left = f"next try in {duration(max(0.0, pause))}, waiting for at most {duration(patience)}"
                self._notify(f"{self._reason}; {left} (--patience)")
            if pause <= 0:
                self._next_probe = now + min(max(outage * _INTERVAL, _FIRST_INTERVAL), _LONGEST_INTERVAL)
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(pause, patience - outage + 0.01))

    def answered(self, sent_at: float) -> bool:
        """Records an answer; returns whether it ended an outage.

        An answer to a request from before the outage ends it only if the outage was a rate limit.
        """
        self.last_answer = now = self.clock()
        self.last_sent = max(self.last_sent, sent_at)
        was_closed = self._closed_at is not None
        if self._closed_at is not None and sent_at < self._closed_at:
            if self._kind != "rate" or now < self._closed_at + _SLOW_ANSWER:
                return False
        elif self._failed and sent_at < next(iter(self._failed.values())):
            return False  # sent before the first failure: it says nothing about the present state
        if self._is_notified:
            self._notify(f"answers again after {duration(now - min(self._failed.values()))}")
        self._closed_at, self._is_notified = None, False
        self._failed.clear()
        self._changed.set()
        return was_closed

    def failed(self, request_key: str, fault: TransientError, enough: int) -> None:
        """Records a failure; `enough` different requests that fail without an answer in between close the gate."""
        now, self._reason, self._kind = self.clock(), str(fault), fault.kind
        self._failed.setdefault(request_key, now)
        if self._closed_at is None and len(self._failed) >= enough:
            self._closed_at, self._next_probe = now, now + _FIRST_INTERVAL
            self._changed.clear()
        if self._closed_at is not None and fault.pause is not None:
            self._next_probe = max(self._next_probe, now + fault.pause)

    def pause(self) -> tuple[str, float] | None:
        """Reason of an outage and seconds until the next probe; None while the service answers."""
        if self._closed_at is None:
            return None
        return self._reason, max(0.0, self._next_probe - self.clock())


_HELD: Final = 60.5
"""Length of the window in seconds: a minute, and the time that a request needs to reach the service."""
_BIN: Final = 0.1
_KNOWN: Final = 0.995
"""Share of the token limit that is used, since the tokens of requests in flight are estimates."""
_CHECK_AGAIN: Final = 0.25
"""Seconds between two checks of a limit, since answers may return tokens."""
_LONGEST_WAIT: Final = 60.0
_LOW: Final = 0.2
"""Share of a service's budget below which requests are no faster than its refill."""
_SAFETY: Final = 0.95
"""Share of that rate that is used."""


class MinuteWindow:
    """A limit of units in any 60 seconds, spread evenly; reserved by an estimate, corrected by the answer."""

    def __init__(self, limit: float, clock: Clock = time.monotonic) -> None:
        self._limit = limit
        self._rate = limit / 57
        self._level = self._burst = limit / 100
        """Units that may be sent in a burst."""
        self._most = limit / 20
        """Maximum of unused units."""
        self._clock, self._at, self._sum = clock, clock(), 0.0
        self._bins: deque[list[float]] = deque()
        """Units per tenth of a second: [end of the bin, units]."""

    def take(self, units: float) -> float:
        """Takes units and returns 0; if they are not available, takes none and returns the seconds to wait."""
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
        """Returns unused units that were taken `age` seconds ago; negative if too few were taken."""
        self._level = min(self._most, self._level + units)
        taken_at = self._clock() - age
        for entry in self._bins:
            if entry[0] >= taken_at:
                entry[1] -= units
                self._sum -= units
                return


class HeaderRateLimit:
    """The service's own limit, from its headers; no waiting while enough units are left."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._rate = self._level = self._at = 0.0
        self._tight = False

    def update(self, limit: float, remaining: float, reset: float, under_way: float) -> None:
        """Updates limit, remaining units, seconds until the budget is full, and units of requests in flight.

        The limit may be per minute or per day; the lower of both refill rates is used.
        """
        self._tight = remaining < limit * _LOW and reset > 0 and limit > 0
        if self._tight:
            self._rate = _SAFETY * min((limit - remaining) / reset, limit / 60)
        self._level, self._at = remaining - under_way, self._clock()

    def reserve(self, units: float) -> float:
        """Takes units and returns the seconds to wait."""
        if not self._tight:
            return 0.0
        now = self._clock()
        self._level += (now - self._at) * self._rate - units
        self._at = now
        return min(_LONGEST_WAIT, max(0.0, -self._level / self._rate))


class RateLimits:
    """The user's limits of requests and tokens per minute; both are optional."""

    def __init__(self, rpm: int | None, tpm: int | None, clock: Clock = time.monotonic) -> None:
        self._requests = MinuteWindow(rpm, clock) if rpm else None
        self._tokens = MinuteWindow(tpm * _KNOWN, clock) if tpm else None

    def take(self, tokens: float) -> float:
        """Takes a request with these tokens and returns 0, or takes nothing and returns the seconds to wait."""
        # tokens first, since they can be returned
        if self._tokens is not None and (wait := self._tokens.take(tokens)) > 0:
            return wait
        wait = 0.0 if self._requests is None else self._requests.take(1)
        if wait > 0 and self._tokens is not None:
            self._tokens.correct(tokens, 0.0)
        return wait

    def correct(self, tokens: float, age: float) -> None:
        """Returns unused tokens that were taken `age` seconds ago; negative if too few were taken."""
        if self._tokens is not None:
            self._tokens.correct(tokens, age)


class Ticket(NamedTuple):
    """An admitted request, until its answer is recorded."""

    tokens: float
    sent_in: int
    """The round of `AdaptiveConcurrency`."""
    sent_at: float


class RateLimiter:
    """Concurrency, gate and limits of one service."""

    def __init__(self, slots: AdaptiveConcurrency, gate: ServiceGate, limits: RateLimits | SharedRateLimits) -> None:
        self.slots, self.gate, self._limits = slots, gate, limits
        self._service = {"requests": HeaderRateLimit(), "tokens": HeaderRateLimit()}
        self._turn = asyncio.Lock()
        self._free_at = 0.0
        """When the limits admit the next request."""

    async def enter(self, tokens: float) -> Ticket:
        """Waits until a request with these tokens may be sent, or raises OutageError; `slots.release` must follow."""
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
        """Records the seconds and tokens of an answer."""
        self._limits.correct(ticket.tokens - tokens, time.monotonic() - ticket.sent_at)
        if self.gate.answered(ticket.sent_at):
            self.slots.restart()
        self.slots.open()
        self.slots.record(ticket.sent_in, seconds)

    def note_limits(self, headers: Mapping[str, str]) -> None:
        """Records the service's own limits from the headers of a reply."""
        for unit, budget in self._service.items():
            if (left := rate_limit(headers, unit)) is not None:
                budget.update(*left, self.slots.in_use if unit == "requests" else 0.0)

    def status(self) -> str:
        """Number of requests in flight, or why none is sent and for how long."""
        pause = self.gate.pause()
        if pause is not None and pause[1] + 1 >= LONG_PAUSE:
            return f"{pause[0]}: next try in {duration(pause[1])}"
        limited = self._free_at - time.monotonic()
        if limited >= LONG_PAUSE:
            return f"rate limit: next request in {duration(limited)}"
        return f"{self.slots.in_use} at a time"


def rate_limit(headers: Mapping[str, str], unit: str) -> tuple[float, float, float] | None:
    """Limit, remaining units and seconds until the reset, from the headers of OpenAI or Anthropic; or None."""
    for before, after in (("x-ratelimit-", f"-{unit}"), (f"anthropic-ratelimit-{unit}-", "")):
        if (limit := headers.get(f"{before}limit{after}")) is not None:
            seconds = parse_seconds(headers.get(f"{before}reset{after}", ""), parse_date(headers.get("date", "")))
            with suppress(ValueError):
                remaining = float(headers.get(f"{before}remaining{after}", ""))
                return None if seconds is None else (float(limit), remaining, seconds)
    return None
