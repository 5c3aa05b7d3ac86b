from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.errors import UsageError
from mbbq_gen.providers.http.credentials import Secret, find_key
from mbbq_gen.providers.http.errors import (
    ApiError,
    ParameterAdapter,
    TransientError,
    classify_error,
    error_table,
    rule_for,
    service_error,
)
from mbbq_gen.providers.http.rate_limits import AdaptiveConcurrency, HeaderRateLimit
from mbbq_gen.providers.http.scheduler import RetryPolicy
from tests.support.api import KEY
from tests.support.cases import cases, known


def test_retry_after_in_all_its_forms() -> None:
    def pause(**headers: str) -> float | None:
        return service_error(403, None, {name.replace("_", "-"): value for name, value in headers.items()}).pause

    assert pause(retry_after="3") == 3.0
    assert pause(retry_after_ms="250", retry_after="1") == 0.25
    assert pause() is pause(retry_after="soon") is None


def tries_of(fault: TransientError, most: int, reached: bool = True) -> int:
    tries, made = RetryPolicy(most, lambda: reached), 1
    while made < 999 and tries.next_pause(fault) is not None:
        made += 1
    return made


def test_tries_are_bounded() -> None:
    assert tries_of(TransientError("server", "broken"), most=4) == 4
    assert tries_of(TransientError("rate", "slow down", 0.1), most=4) == 60
    assert tries_of(TransientError("connect", "nobody"), most=9, reached=False) == 3
    assert tries_of(TransientError("connect", "nobody"), most=9) == 9
    assert tries_of(TransientError("rate", "tomorrow", 9999.0), most=9) == 1


def test_a_service_with_little_left_is_asked_as_fast_as_it_fills_up() -> None:
    budget = HeaderRateLimit("requests", lambda: 0.0)
    headers = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "0"}
    budget.update({**headers, "x-ratelimit-reset-requests": "59s"})
    waits = [budget.reserve(1) for _ in range(10)]
    assert waits == sorted(waits)
    assert 0.9 < waits[-1] < 1.2  # ten requests at ten a second
    budget.update(dict.fromkeys(headers, "many"))
    assert budget.reserve(1) > waits[-1]


def refusal(message: str, parameter: str | None = None) -> ApiError:
    return ApiError(400, message, "unsupported_parameter", parameter)


def test_a_key_does_not_show_itself() -> None:
    assert KEY not in "{0} {0!r}".format(Secret(KEY, "OPENAI_API_KEY"))


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRST", raising=False)
    monkeypatch.setenv("SECOND", f" {KEY}\n")
    found = known(find_key(("FIRST", "SECOND"), None))
    assert (found.value, found.origin) == (KEY, "SECOND")
    assert find_key(("FIRST",), None) is None
    with pytest.raises(UsageError, match="--api-key-env FIRST: this environment variable is not set"):
        find_key((), "FIRST")
    monkeypatch.setenv("FIRST", "two words")
    with pytest.raises(UsageError, match="must contain only the key"):
        find_key((), "FIRST")


# --- the table of failures: what each means, when to come back, and why a text ends ---------------------------------


@pytest.mark.parametrize("case", cases("providers/errors"), ids=lambda case: case["name"])
def test_classes(case: dict[str, Any]) -> None:
    error = service_error(case["status"], case["body"], case.get("headers"))
    assert classify_error(error) == case["class"]
    assert error.pause == case.get("pause")
    assert error.redirect == case.get("redirect")
    assert "\n" not in error.message


def test_every_rule_has_a_case() -> None:
    found = {
        rule_for(service_error(case["status"], case["body"], case.get("headers"))) for case in cases("providers/errors")
    }
    assert [rule for rule in error_table().rules if rule not in found] == []


@given(status=st.integers(400, 599), body=st.recursive(st.none() | st.text() | st.integers(), st.lists) | st.text())
def test_any_error_body_can_be_read(status: int, body: Any) -> None:
    error = service_error(status, body)
    assert len(error.message) <= 400
    assert classify_error(error)


def test_nothing_is_learned_where_nothing_is_named() -> None:
    learned = ParameterAdapter()
    assert learned.learn(refusal("Unexpected problem"), {"model": "m", "temperature": 0}) is None
    assert learned.learn(refusal("model is unsupported", "model"), {"model": "m"}) is None
    assert learned.runtime_info() == {}


def test_a_slot_is_not_lost_when_its_owner_is_cancelled() -> None:
    async def run() -> int:
        slots = AdaptiveConcurrency(1)
        slots.open()
        await slots.acquire()
        waiting = [asyncio.create_task(slots.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        slots.release()
        waiting[0].cancel()
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        slots.release()
        return slots.in_use

    assert asyncio.run(run()) == 0
