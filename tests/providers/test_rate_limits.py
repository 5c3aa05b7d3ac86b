from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from itertools import accumulate

import pytest

from mbbq_gen.providers.http.rate_limits import AdaptiveConcurrency, RateLimiter, RateLimits, ServiceGate, Ticket

MINUTES = 4
PROMPT = 400
"""Characters of a request."""


def most_in_a_minute(events: list[tuple[float, float]]) -> float:
    """The most units in any 60 seconds; each event is a time and units, sorted by time."""
    times = [time for time, _ in events]
    sums = [0.0, *accumulate(units for _, units in events)]
    return max(sums[bisect_left(times, time + 60)] - sums[index] for index, time in enumerate(times))


def simulate(
    limits: RateLimits, clock: list[float], *, latency: float, written: float, most: int, concurrency: int
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """When requests are sent and answered, with their tokens; every answer has other tokens, and takes another time."""
    chance, limiter = random.Random(1), RateLimiter(AdaptiveConcurrency(1), ServiceGate(1.0), limits)
    sent, answered = list[tuple[float, float]](), list[tuple[float, float]]()
    under_way: list[tuple[float, int, float, float]] = []
    while clock[0] < 60 * MINUTES:
        while under_way and under_way[0][0] <= clock[0]:
            at, _, expected, tokens = heapq.heappop(under_way)
            limiter.note_answer(Ticket(expected, 0, 0.0), 1.0, round(tokens))
            answered.append((at, tokens))
        if len(under_way) >= concurrency:
            clock[0] = under_way[0][0]
            continue
        expected = limiter.estimate(PROMPT // 2 + most)
        wait = limits.take(expected)
        if wait > 0:
            clock[0] += min(wait, 0.25)
            continue
        tokens = PROMPT // 4 + min(most, max(1, round(chance.expovariate(1 / written))))
        seconds = latency * chance.uniform(0.5, 1.5)
        sent.append((clock[0], tokens))
        heapq.heappush(under_way, (clock[0] + seconds, len(sent), expected, tokens))
    return sent, sorted(answered)


@pytest.mark.parametrize("latency", [0.05, 1.0, 3.0])
@pytest.mark.parametrize(("written", "most"), [(2, 1024), (200, 1024), (20, 16)])
@pytest.mark.parametrize("concurrency", [16, 256])
def test_no_minute_passes_the_tokens_and_they_are_used(
    latency: float, written: float, most: int, concurrency: int
) -> None:
    clock, limit = [0.0], 60_000
    limits = RateLimits(None, limit, lambda: clock[0])
    sent, answered = simulate(limits, clock, latency=latency, written=written, most=most, concurrency=concurrency)
    assert most_in_a_minute(sent) <= limit
    assert most_in_a_minute(answered) <= limit * 1.01  # answers may bunch by chance
    for minute in range(1, MINUTES):
        used = sum(tokens for time, tokens in sent if 60 * minute <= time < 60 * (minute + 1))
        possible = concurrency / latency * 60 * (PROMPT // 4 + written)
        assert used >= 0.9 * min(limit, 0.9 * possible)


@pytest.mark.parametrize("limit", [1, 7, 60, 3000])
def test_no_minute_passes_the_requests_and_they_are_used(limit: int) -> None:
    clock, sent = [0.0], list[tuple[float, float]]()
    limits = RateLimits(limit, None, lambda: clock[0])
    while clock[0] < 60 * MINUTES:
        wait = limits.take(1e9)
        if wait > 0:
            clock[0] += min(wait, 0.25)
        else:
            sent.append((clock[0], 1))
    assert most_in_a_minute(sent) <= limit
    assert len(sent) >= 0.9 * limit * (MINUTES - 0.05) - 1


def test_a_request_larger_than_the_limit_is_sent_alone() -> None:
    clock = [0.0]
    limits = RateLimits(None, 100, lambda: clock[0])
    assert limits.take(5000) == 0
    assert limits.take(1) > 0
    clock[0] += 61.5
    assert limits.take(1) > 0  # the bucket still owes what the large one took
    clock[0] += 6000
    assert limits.take(1) == 0


def test_both_limits_hold_and_a_refused_request_takes_no_tokens() -> None:
    clock = [0.0]
    limits = RateLimits(1, 1000, lambda: clock[0])
    assert limits.take(5) == 0
    assert all(limits.take(5) > 0 for _ in range(500))
    clock[0] += 66
    assert limits.take(5) == 0
