from __future__ import annotations

import asyncio
import heapq
from itertools import pairwise

import pytest

from mbbq_gen.providers.http.errors import TransientError
from mbbq_gen.providers.http.rate_limits import AdaptiveConcurrency, initial_concurrency
from tests.support.api import ask, provider, requests
from tests.support.cases import cases
from tests.support.unsteady import text_for, unsteady

TIMEOUT = TransientError("timeout", "no answer within 30 s")
BUSY = TransientError("server", "busy (503)", status=503)


def simulate(slots: int, seconds: float, count: int, most: int, timeout: float) -> tuple[float, list[int], float]:
    """Time of a run against a server of so many slots, the limits that it went through, and the longest answer."""
    controller = AdaptiveConcurrency(most, 4, timeout)
    controller.open()
    now, busy, sent, longest = 0.0, 0, 0, 0.0
    queue: list[tuple[float, int]] = []
    done: list[tuple[float, int, float, int]] = []
    limits = [controller.limit]

    def advance() -> None:
        nonlocal sent, busy
        while sent < count and controller.in_use < controller.limit:
            asyncio.run(controller.acquire())
            queue.append((now, controller.round))
            sent += 1
        while queue and busy < slots:
            heapq.heappush(done, (now + seconds, sent + len(done), *queue.pop(0)))
            busy += 1

    advance()
    while done:
        now, _, begun, sent_in = heapq.heappop(done)
        busy -= 1
        longest = max(longest, now - begun)
        controller.record(sent_in, now - begun)
        controller.release()
        limits.append(controller.limit)
        advance()
    return now, limits, longest


@pytest.mark.parametrize("seconds", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("slots", [1, 4, 16])
def test_a_slow_server_is_kept_busy_and_no_answer_times_out(slots: int, seconds: float) -> None:
    time, limits, longest = simulate(slots, seconds, 200, most=64, timeout=60)
    assert time <= 1.15 * 200 * seconds / slots
    assert longest < 60
    assert limits[-1] <= max(6 * slots, 9)


def test_failures_halve_it_once_for_all_requests_sent_before() -> None:
    controller = AdaptiveConcurrency(64)
    controller.open()
    sent_in = controller.round
    for _ in range(64):
        controller.record(sent_in, 0.1, BUSY)
    assert controller.limit == 32


@pytest.mark.parametrize(("url", "expected"), cases("providers/concurrency", "which_addresses_are_on_this_machine"))
def test_which_addresses_are_on_this_machine(url: str, expected: bool) -> None:
    assert (initial_concurrency(url) < 16) is expected


def test_a_server_that_answers_one_at_a_time_is_not_asked_twice() -> None:
    wanted = requests(40)
    with unsteady(latency=0.05, slots=1) as server:
        asked = provider("openai:fake", base_url=server.root, api_key_env=None, timeout=2.0)
        responses = ask(asked, wanted)
    assert {response.request_key: response.text for response in responses} == {
        request.request_key: text_for(request) for request in wanted
    }
    assert server.answered == 40
    assert server.peak <= 16


def test_each_timeout_lowers_the_concurrency() -> None:
    controller = AdaptiveConcurrency(64)
    controller.open()
    limits = [controller.limit]
    for _ in range(80):
        controller.record(controller.round, 30.0, TIMEOUT)
        limits.append(controller.limit)
    assert all(after < before or after == 1 for before, after in pairwise(limits))


def test_few_failures_change_nothing() -> None:
    controller = AdaptiveConcurrency(100)
    controller.open()
    for number in range(1000):
        controller.record(controller.round, 0.1, BUSY if number % 20 == 0 else None)
    assert controller.limit == 100


def test_one_request_is_alone_before_the_first_answer() -> None:
    controller = AdaptiveConcurrency(50, 16)
    assert controller.limit == 1
    controller.open()
    assert controller.limit == 16
