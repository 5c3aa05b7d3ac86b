"""Limits on requests to a service: concurrency, requests and tokens per minute, outages.

No package on PyPI had the first and the last for asyncio: docs/decisions/0029-outages-and-concurrency.md.
"""

from __future__ import annotations

import asyncio
import math
import time
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
_GAIN: Final = 0.1
"""Growth of the throughput, relative to that of the concurrency, that justifies the latter."""
_FAST: Final = 4.0
"""Growth factor of the concurrency until it was first too high."""


def initial_concurrency(url: str) -> int:
    """Initial concurrency: lower at a server on this machine, which often answers one request at a time."""
    host = urlsplit(url).hostname or ""
    return 4 if host in ("localhost", "::1") or host.startswith("127.") else 16


class AdaptiveConcurrency:
    """Limits concurrent requests, and adapts the limit to the service, as TCP does (slow start, then AIMD).

    A round ends when as many of its requests as the limit are answered. Its throughput is limit / mean latency
    (Little's law). The limit grows fourfold each round while the throughput grows with it; where it does not, the
    previous limit is kept. Too many failures halve it; above that, it grows by one each round. It stays so low that
    answers take at most half of the timeout.
    """

    def __init__(self, most: int, start: int | None = None, timeout: float = math.inf) -> None:
        self.most = most
        """The highest limit: the user's, or one beyond which the throughput did not grow."""
        self._start = float(min(most, start or most))
        self._timeout = timeout
        self.is_open = False
        """Whether the first answer has arrived; until then the limit is 1."""
        self.in_use = 0
        self._freed = asyncio.Event()
        self.round = 0
        """Number of the round; each request belongs to the round in which it was sent."""
        self._threshold = math.inf
        """Half of the limit at which too many requests failed: growth is fast below it, then slow."""
        self._before: tuple[float, float] | None = None
        """Limit and throughput of the previous round, if the limit has grown fast since."""
        self._limit, self._seconds = 1.0, 0.0
        self._answered = self._failed = 0
        self._was_full = False
        """Whether all slots were in use at some time in this round."""

    @property
    def limit(self) -> int:
        """Maximum requests in flight now."""
        return int(self._limit)

    def open(self) -> None:
        """Allows concurrent requests; later calls do nothing."""
        if not self.is_open:
            self.is_open = True
            self.restart()

    def restart(self) -> None:
        """Starts again with the initial concurrency."""
        self._before = None
        self._begin_round(min(self._start, self._threshold))

    async def acquire(self) -> None:
        """Waits for a slot."""
        while self.in_use >= self.limit:
            self._freed.clear()
            await self._freed.wait()
        self.in_use += 1
        self._was_full = self._was_full or self.in_use >= self.limit

    def release(self) -> None:
        """Releases a slot."""
        self.in_use -= 1
        self._freed.set()

    def record(self, sent_in: int, seconds: float, fault: TransientError | None = None) -> None:
        """Adapts the limit to an answer or a transient failure of a round, after so many seconds."""
        if fault is not None and fault.kind == "timeout" and self.is_open:
            self._limit = max(1.0, self._limit - 1)  # the server may still process it
        if sent_in != self.round or not self.is_open:
            return
        if fault is None:
            self._answered += 1
            self._seconds += seconds
            if self._answered >= self.limit:
                self._begin_round(self._next_limit(self._seconds / self._answered))
            return
        self._failed += 1
        # requests in flight count too: refusals arrive at once, answers later
        if self._failed > 2 + _TOLERATED * (self._failed + self._answered + self.in_use):
            self._threshold, self._before = max(1.0, self._limit / 2), None
            self._begin_round(self._threshold)

    def _next_limit(self, latency: float) -> float:
        """The limit after a round with this mean latency in seconds."""
        limit, before, self._before = self._limit, self._before, None
        throughput = limit / max(latency, 1e-6)
        room = self._timeout / 2 / max(latency, 1e-6)  # growth of the latency up to half of the timeout
        if room < 1:
            self._threshold = limit * 0.7
            return self._threshold
        if before is not None:
            limit_before, throughput_before = before
            if throughput < throughput_before * (1 + _GAIN * (limit / limit_before - 1)):
                self.most = int(limit_before)
                return limit_before
        if not self._was_full:  # more slots would stay free
            return limit
        if limit < self._threshold:
            self._before = limit, throughput
            return min(limit * min(_FAST, room), self._threshold)
        return limit + 1

    def _begin_round(self, limit: float) -> None:
        self._limit = min(float(self.most), max(1.0, limit))
        self.round += 1
        self._answered = self._failed = 0
        self._seconds = 0.0
        self._was_full = self.in_use >= self.limit
        self._freed.set()


_FIRST_INTERVAL: Final = 0.25
_LONGEST_INTERVAL: Final = 30.0
"""Seconds between two probes: at first, and at most."""
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
        self._reason = ""
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
        """Records an answer; returns whether it ended an outage. Answers to earlier requests say nothing about it."""
        self.last_answer = now = self.clock()
        self.last_sent = max(self.last_sent, sent_at)
        was_closed = self._closed_at is not None
        began = next(iter(self._failed.values()), -math.inf) if self._closed_at is None else self._closed_at
        if sent_at < began:
            return False
        if self._is_notified:
            self._notify(f"answers again after {duration(now - min(self._failed.values()))}")
        self._closed_at, self._is_notified = None, False
        self._failed.clear()
        self._changed.set()
        return was_closed

    def failed(self, request_key: str, fault: TransientError, enough: int) -> None:
        """Records a failure; `enough` different requests that fail without an answer in between close the gate."""
        now, self._reason = self.clock(), str(fault)
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


_CHECK_AGAIN: Final = 0.25
"""Seconds between two checks of a limit, since answers may return tokens."""
_USED: Final = 0.925
"""Share of the user's limits that is used: bursts and wrong estimates must not pass a limit in any 60 seconds."""
_RECENT: Final = 50
"""Number of answers whose mean tokens are the estimate of the next request."""
_LOW: Final = 0.2
"""Share of a service's limit below which requests are no faster than its refill."""
_SAFETY: Final = 0.95
"""Share of that rate that is used."""


class TokenBucket:
    """A limit of units in any 60 seconds, spread evenly; reserved by an estimate, corrected by the answer."""

    def __init__(self, limit: float, clock: Clock) -> None:
        self._rate = limit * _USED / 60
        self._level = self._burst = limit / 100
        """Units that may be sent at once."""
        self._most = limit / 40
        """Maximum of unused units."""
        self._clock, self._at = clock, clock()

    def take(self, units: float) -> float:
        """Takes units and returns 0; if they are not available, takes none and returns the seconds to wait."""
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        missing = min(units, self._burst) - self._level
        if missing > 0:
            return max(0.001, missing / self._rate)
        self._level -= units
        return 0.0

    def correct(self, units: float) -> None:
        """Returns unused units; negative if too few were taken."""
        self._level = min(self._most, self._level + units)


class RateLimits:
    """The user's limits of requests and tokens per minute; both are optional."""

    def __init__(self, rpm: int | None, tpm: int | None, clock: Clock = time.monotonic) -> None:
        self._requests = TokenBucket(rpm, clock) if rpm else None
        self._tokens = TokenBucket(tpm, clock) if tpm else None

    def take(self, tokens: float) -> float:
        """Takes a request with these tokens and returns 0, or takes nothing and returns the seconds to wait."""
        # tokens first, since they can be returned
        if self._tokens is not None and (wait := self._tokens.take(tokens)) > 0:
            return wait
        wait = 0.0 if self._requests is None else self._requests.take(1)
        if wait > 0:
            self.correct(tokens)
        return wait

    def correct(self, tokens: float) -> None:
        """Returns unused tokens; negative if too few were taken."""
        if self._tokens is not None:
            self._tokens.correct(tokens)


class HeaderRateLimit:
    """The service's own limit, from the headers of OpenAI or Anthropic; no waiting while enough units are left."""

    def __init__(self, unit: str, clock: Clock = time.monotonic) -> None:
        """`unit`: requests or tokens."""
        forms, fields = ("x-ratelimit-{1}-{0}", "anthropic-ratelimit-{0}-{1}"), ("limit", "remaining", "reset")
        self._names = [[form.format(unit, field) for field in fields] for form in forms]
        self._clock = clock
        self._rate = self._level = self._at = 0.0
        """Units per second; 0: no limit. Units left at the time `_at`."""

    def update(self, headers: Mapping[str, str]) -> None:
        """Reads limit, remaining units and reset.

        The limit may be per minute or per day; the lower of both refill rates is used.
        """
        names = next((names for names in self._names if names[0] in headers), None)
        if names is None:
            return
        now = parse_date(headers.get("date", ""))
        limit, remaining, reset = (parse_seconds(headers.get(name, ""), now) for name in names)
        if limit and reset and remaining is not None:
            is_low = remaining < limit * _LOW
            self._rate = _SAFETY * min((limit - remaining) / reset, limit / 60) if is_low else 0.0
            self._level, self._at = remaining, self._clock()

    def reserve(self, units: float) -> float:
        """Takes units and returns the seconds to wait."""
        if not self._rate:
            return 0.0
        now = self._clock()
        self._level += (now - self._at) * self._rate - units
        self._at = now
        return min(60.0, max(0.0, -self._level / self._rate))


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
        self._service = {"requests": HeaderRateLimit("requests"), "tokens": HeaderRateLimit("tokens")}
        self._turn = asyncio.Lock()
        self._mean: float | None = None
        """Mean tokens of the latest answers, input and output; None: there is none."""

    def estimate(self, most: float) -> float:
        """Tokens of a request with at `most` so many."""
        return most if self._mean is None else min(most, self._mean)

    async def enter(self, most: float) -> Ticket:
        """Waits until a request with at `most` so many tokens may be sent; `slots.release` must follow.

        Raises OutageError if the service does not answer for too long.
        """
        await self.slots.acquire()
        tokens = self.estimate(most)
        try:
            async with self._turn:
                if self.gate.is_closed:
                    await self.gate.enter()
                wait = max(self._service["requests"].reserve(1), self._service["tokens"].reserve(tokens))
                if wait > 0:
                    await asyncio.sleep(wait)
                while True:
                    taken = self._limits.take(tokens)
                    wait = taken if isinstance(taken, float) else await taken
                    if wait <= 0:
                        break
                    await asyncio.sleep(min(wait, _CHECK_AGAIN))
        except BaseException:
            self.slots.release()
            raise
        return Ticket(tokens, self.slots.round, time.monotonic())

    def note_answer(self, ticket: Ticket, seconds: float, tokens: float) -> None:
        """Records the seconds and tokens of an answer."""
        self._mean = tokens if self._mean is None else self._mean + (tokens - self._mean) / _RECENT
        self._limits.correct(ticket.tokens - tokens)
        if self.gate.answered(ticket.sent_at):
            self.slots.restart()
        self.slots.open()
        self.slots.record(ticket.sent_in, seconds)

    def note_limits(self, headers: Mapping[str, str]) -> None:
        """Records the service's own limits from the headers of a reply."""
        self._service["requests"].update(headers)
        self._service["tokens"].update(headers)

    def status(self) -> str:
        """Number of requests in flight, or why none is sent and for how long."""
        pause = self.gate.pause()
        if pause is not None and pause[1] + 1 >= LONG_PAUSE:
            return f"{pause[0]}: next try in {duration(pause[1])}"
        return f"{self.slots.in_use} at a time"
