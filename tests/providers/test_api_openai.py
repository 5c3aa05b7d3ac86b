from __future__ import annotations

import time
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.openai import OpenAIProvider
from mbbq_gen.providers.base import ExecutionContext
from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import KEY, ask, fake, provider, requests, with_system
from tests.support.cases import cases

__all__ = ["fake"]


def openai(server: FakeServer, **options: Any) -> OpenAIProvider:
    found = provider("openai:fake", base_url=server.openai, **options)
    assert isinstance(found, OpenAIProvider)
    return found


@pytest.mark.parametrize(
    "faults",
    cases("providers/api_openai", "each_fault_by_itself"),
    ids=lambda faults: "-".join(map(str, faults)) + f"-{faults.get('retry_after_form', '')}",
)
def test_each_fault_by_itself(faults: dict[str, Any]) -> None:
    wanted = requests(40)
    timeout = 3.0 if "hang" in faults else 30.0  # a busy machine must not add faults of its own
    with fake_server({"faults": {**faults, "most_per_request": 2}}) as server:
        responses = ask(openai(server, timeout=timeout, max_connections=40), wanted)
        stats = server.stats()
    assert {response.request_key for response in responses} == {request.request_key for request in wanted}
    assert [response.error for response in responses if response.error] == []
    assert stats.too_early == 0
    assert stats.by_fault
    assert stats.requests == sum(response.n_attempts or 0 for response in responses)
    if not {"lost", "cut", "malformed", "hang"} & faults.keys():  # who is slow for 3 s counts as hanging
        assert stats.paid_again == 0


def test_a_server_that_enforces_its_limit_is_refused_a_few_times() -> None:
    with fake_server({"limits": {"rpm": 3000, "burst_s": 1.0}}) as server:
        responses = ask(openai(server, max_connections=64), requests(150))
        stats = server.stats()
    assert [response.error for response in responses if response.error] == []
    assert stats.by_status.get("429", 0) <= 130
    assert stats.too_early == 0


def test_refused_parameters_are_learned_once() -> None:
    notices: list[str] = []
    with fake_server({"access": {"refused_parameters": ["store", "max_tokens"]}}) as server:
        asked = openai(server, extra={"store": False})
        before = dict(asked.settings)
        responses = ask(asked, requests(50), notices)
        stats = server.stats()
    assert [response.error for response in responses if response.error] == []
    assert stats.requests == 52
    assert len(notices) == 2
    assert "store" in notices[0] + notices[1]
    assert "max_completion_tokens" in notices[0] + notices[1]
    learned = asked.runtime_info()["learned"]
    assert isinstance(learned, dict)
    assert learned["renamed"] == {"max_tokens": "max_completion_tokens"}
    assert asked.settings == before


def test_an_exhausted_quota_keeps_what_had_arrived() -> None:
    arrived: list[Response] = []
    with fake_server({"access": {"quota": 30}}) as server, pytest.raises(ProviderError, match="quota is exhausted"):
        ask(openai(server, max_connections=5), requests(100), arrived=arrived)
    assert len(arrived) == 30


def test_official_services_need_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="openai:gpt-4o-mini: no key; set OPENAI_API_KEY"):
        provider("openai:gpt-4o-mini").check_access()
    with pytest.raises(UsageError, match="no key; set GROQ_API_KEY"):
        provider("openai:m", service="groq").check_access()
    with pytest.raises(UsageError, match="set NOWHERE_BASE_URL, or give --base-url"):
        provider("openai:m", service="nowhere")
    monkeypatch.setenv("NOWHERE_BASE_URL", "http://127.0.0.1:1/v1/")
    assert provider("openai:m", service="nowhere").base_url == "http://127.0.0.1:1/v1"
    provider("openai:m", service="nowhere").check_access()


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "http://me:secret@host/v1", "https://host/v1?key=x", "http://"])
def test_addresses_carry_no_secrets(address: str) -> None:
    with pytest.raises(UsageError, match="base_url"):
        provider("openai:m", base_url=address)


def test_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    request = with_system("Who?", "Be brief.")
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    official = provider("openai:gpt-4o-mini", max_tokens=9, seed=4, extra='{"logit_bias": {}}')
    assert official.body_of(request) == {
        "model": "gpt-4o-mini",
        "messages": turns,
        "max_completion_tokens": 9,
        "temperature": 0.0,
        "seed": 4,
        "logit_bias": {},
    }
    local = provider("openai:m", base_url="http://127.0.0.1:1/v1", temperature="none", max_tokens=9)
    own = {"model": "m", "messages": turns, "max_tokens": 9}
    assert local.body_of(request) == {**own, "top_p": 1.0, "frequency_penalty": 0.0}
    left = provider("openai:m", base_url="http://127.0.0.1:1/v1", temperature="none", max_tokens=9, sampling="server")
    assert left.body_of(request) == own
    pro = provider("openai:gpt-5-pro", temperature="none", max_tokens=9)
    assert (pro.path, pro.body_of(request)) == (
        "/responses",
        {"model": "gpt-5-pro", "input": turns, "max_output_tokens": 9, "store": False},
    )


def test_address_and_headers_of_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    asked = provider("openai:gpt-4o-mini")
    assert asked.url(asked.path) == "https://api.openai.com/v1/chat/completions"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert "base_url" not in asked.settings


def test_the_budget_of_requests_is_kept(fake: FakeServer) -> None:
    begin = time.monotonic()
    ask(openai(fake, rpm=1200), requests(30))
    assert time.monotonic() - begin > (30 - 12 - 1) / 20


def test_everything_is_answered_once(fake: FakeServer) -> None:
    wanted = requests(200)
    fake.change({"latency": {"seconds": 0.01}})
    responses = ask(openai(fake, max_connections=20), iter(wanted))
    assert sorted(response.request_key for response in responses) == [request.request_key for request in wanted]
    stats = fake.stats()
    assert (stats.requests, len(stats.asked), stats.paid_again) == (200, 200, 0)
    assert 1 < stats.peak_in_flight <= 20


def test_a_request_that_always_fails_is_recorded_and_the_others_go_on() -> None:
    with fake_server({"faults": {"server_error": 0.3, "most_per_request": 99}, "seed": 3}) as server:
        responses = ask(openai(server, attempts=2, max_connections=40), requests(40))
    failed = [response for response in responses if response.error is not None]
    assert 0 < len(failed) < 40
    assert all(response.error.startswith("sent 2 times, last: ") for response in failed if response.error)
    assert all(response.n_attempts == 2 and response.text is None for response in failed)


def test_closing_the_generator_stops_the_work(fake: FakeServer) -> None:
    import asyncio

    fake.change({"latency": {"seconds": 0.05}})
    asked = openai(fake, max_connections=4)

    async def some() -> int:
        taken = 0
        responses = asked.generate(requests(10_000), ExecutionContext())
        async for _ in responses:
            taken += 1
            if taken == 10:
                break
        await responses.aclose()
        await asked.aclose()
        return taken

    assert asyncio.run(some()) == 10
    assert fake.stats().requests <= 10 + 4
