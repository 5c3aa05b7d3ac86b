"""Rate limits as services keep them: buckets of requests and tokens that refill steadily."""

from __future__ import annotations

from dataclasses import dataclass

from mbbq_gen.fake_server.scenario import Limits


@dataclass(frozen=True, slots=True)
class Level:
    """How full one bucket is, as headers tell it."""

    limit: int
    """A minute's worth."""
    remaining: int
    reset_s: float
    """Seconds until it is full again."""


@dataclass(frozen=True, slots=True)
class Levels:
    """How full the buckets are; None where there is no limit."""

    requests: Level | None
    tokens: Level | None


class Bucket:
    """Holds so many seconds' worth of a rate a minute, and refills steadily."""

    def __init__(self, per_minute: int, burst_s: float, now: float) -> None:
        self._limit = per_minute
        self._rate = per_minute / 60
        self._capacity = max(1.0, self._rate * burst_s)
        self._level = self._capacity
        self._at = now

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until so much may be taken: 0 for at once. More than it ever holds counts as all it holds."""
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (min(amount, self._capacity) - self._level) / self._rate)

    def take(self, amount: float) -> None:
        """Takes it; ask `wait_s` first."""
        self._level -= min(amount, self._capacity)

    def level(self) -> Level:
        """How full it was when last asked."""
        return Level(self._limit, max(0, int(self._level)), (self._capacity - self._level) / self._rate)


class RateLimiter:
    """Counts requests and tokens against the limits of a scenario."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits = limits
        self._requests = Bucket(limits.rpm, limits.burst_s, now) if limits.rpm else None
        self._tokens = Bucket(limits.tpm, limits.burst_s, now) if limits.tpm else None

    def take(self, tokens: int, now: float) -> float:
        """Seconds to wait before a request of so many tokens may come; 0: it may, and is counted."""
        wanted = [(bucket, amount) for bucket, amount in ((self._requests, 1), (self._tokens, tokens)) if bucket]
        wait = max((bucket.wait_s(amount, now) for bucket, amount in wanted), default=0.0)
        if wait == 0:
            for bucket, amount in wanted:
                bucket.take(amount)
        return wait

    def levels(self) -> Levels | None:
        """How full the buckets are; None where nothing is limited."""
        if self._requests is None and self._tokens is None:
            return None
        return Levels(
            self._requests.level() if self._requests else None, self._tokens.level() if self._tokens else None
        )
