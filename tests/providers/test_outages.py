from __future__ import annotations

import threading
import time

import pytest

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.provider import ApiProvider
from tests.support.api import ask, provider, requests
from tests.support.unsteady import Unsteady, text_for, unsteady


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
