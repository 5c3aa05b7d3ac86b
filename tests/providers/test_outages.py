from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pytest

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.provider import ApiProvider
from mbbq_gen.providers.http.errors import TransientError
from mbbq_gen.providers.http.rate_limits import OutageError, ServiceGate
from tests.support.api import ask, provider, requests
from tests.support.cases import known
from tests.support.unsteady import Unsteady, text_for, unsteady


def run_gate(patience: float, length: float, pause: float | None = None) -> tuple[list[float], list[str]]:
    """When probes are let through in an outage of so many seconds, by a clock of its own, and what is said."""
    now, probes, said = 0.0, list[float](), list[str]()

    async def outage() -> None:
        nonlocal now
        gate = ServiceGate(patience, lambda: now, said.append)
        gate.answered(0.0)
        fault = TransientError("server", "not now (503)", pause)
        gate.failed("a", fault, 2)
        assert not gate.is_closed
        gate.failed("b", fault, 2)
        while gate.is_closed:
            waiting = asyncio.ensure_future(gate.enter())
            await asyncio.sleep(0)
            while not waiting.done():
                found = known(gate.pause())
                now += max(0.01, found[1])
                gate._changed.set()
                gate._changed = asyncio.Event()
                await asyncio.sleep(0.001)
            await waiting
            probes.append(now)
            if now >= length:
                gate.answered(now)
            else:
                gate.failed("a", fault, 2)

    asyncio.run(outage())
    return probes, said


def asked(server: Unsteady, **options: float) -> ApiProvider:
    return provider("openai:fake", base_url=server.root, api_key_env=None, **options)


@pytest.mark.parametrize("concurrency", [4, 64])
@pytest.mark.parametrize("outage", ["refused", "closed", "500", "503", "529", "page", "429"])
def test_an_outage_costs_no_answer_and_is_not_stormed(outage: str, concurrency: int) -> None:
    wanted = requests(200)
    with unsteady(after=40, outage=outage, seconds=0.7, latency=0.01) as server:
        responses = ask(asked(server, max_connections=concurrency), wanted)
    assert {response.request_key: response.text for response in responses} == {
        request.request_key: text_for(request) for request in wanted
    }
    assert server.in_outage <= concurrency * 1.25 + 8


def test_patience_ends_a_run_in_one_line_and_what_arrived_is_kept() -> None:
    arrived: list[Response] = []
    with unsteady(after=40, outage="refused", seconds=60, latency=0.01) as server:
        begin = time.monotonic()
        with pytest.raises(ProviderError, match=r"no answer from http://.* for .*: no connection") as caught:
            ask(asked(server, max_connections=8, patience=1), requests(200), arrived=arrived)
    assert time.monotonic() - begin < 10
    assert "\n" not in str(caught.value)
    assert len(arrived) >= 40
    assert all(response.error is None for response in arrived)


def test_a_server_that_loads_its_model_is_waited_for() -> None:
    with unsteady(fault="loading", latency=0.001) as server:
        begin = time.monotonic()
        threading.Timer(1.0, setattr, (server, "fault", None)).start()
        assert [response.error for response in ask(asked(server, attempts=2), requests(20))] == [None] * 20
        assert time.monotonic() >= begin + 1.0
        assert server.in_outage < 10


def test_a_request_that_fails_while_others_succeed_is_given_up() -> None:
    wanted = requests(150)
    bad = frozenset(text_for(request) for request in wanted[10:14])
    with unsteady(latency=0.02, poison=bad) as server:
        responses = ask(asked(server, attempts=2, max_connections=8), wanted)
    failed = [response for response in responses if response.error is not None]
    assert {response.request_key for response in failed} == {request.request_key for request in wanted[10:14]}
    assert len(responses) == 150


def test_the_plan_is_not_taken_in_an_outage() -> None:
    wanted = iter(requests(2000))
    with unsteady(after=20, outage="503", seconds=60, latency=0.01) as server:
        with pytest.raises(ProviderError, match="--patience"):
            ask(asked(server, max_connections=64, patience=1), wanted)
        assert server.in_outage < 2 * 64  # at most one more request for each connection before the outage is known
    assert sum(1 for _ in wanted) > 1700


def test_probes_come_at_growing_intervals() -> None:
    probes, said = run_gate(600, 300)
    gaps = [after - before for before, after in pairwise(probes)]
    assert gaps == sorted(gaps)
    assert len(probes) < 80
    assert probes[-1] < 340
    assert [line.split(";")[0] for line in said] == ["not now (503)", said[-1]]
    assert "answers again" in said[-1]


def test_a_pause_that_the_service_asks_for_is_kept() -> None:
    probes, _ = run_gate(600, 50, pause=20.0)
    assert probes[0] >= 20


def test_patience_has_an_end() -> None:
    with pytest.raises(OutageError):
        run_gate(100, 1e9)
