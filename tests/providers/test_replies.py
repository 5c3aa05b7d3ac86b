from __future__ import annotations

import time
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Message, Request
from mbbq_gen.providers.api.provider import ApiProvider
from mbbq_gen.providers.http.errors import failure_kind
from tests.support.api import ask, provider, replying, requests
from tests.support.cases import cases
from tests.support.providers import make_request

pytestmark = pytest.mark.usefixtures("api_keys")

pytest.importorskip("aiohttp")


def opened(kind: str, root: str, **options: Any) -> ApiProvider:
    return provider(f"{kind}:m", base_url=f"{root}/v1" if kind == "openai" else root, **options)


@pytest.mark.parametrize("case", cases("providers/replies"), ids=lambda case: case["name"])
def test_replies(case: dict[str, Any]) -> None:
    begin = time.monotonic()
    with replying(case["replies"]) as server:
        asked = opened(case.get("provider", "openai"), server.root, attempts=3, **case.get("options", {}))
        (response,) = ask(asked, requests(1))
    assert len(server.bodies) == case["sent"]
    assert time.monotonic() - begin >= case.get("seconds", 0.0)
    assert response.text == case.get("text")
    assert (response.error and failure_kind(response.error)) == case.get("kind")
    if "finish_reason" in case:
        assert response.finish_reason == case["finish_reason"]


def with_roles(roles: str) -> Request:
    names = {"s": "system", "u": "user", "a": "assistant"}
    turns = [Message.model_validate({"role": names[role], "content": "Who?"}) for role in roles]
    return make_request(messages=tuple(turns))


@pytest.mark.parametrize("case", cases("providers/refused_settings"), ids=lambda case: case["name"])
def test_the_first_refused_setting_ends_the_run_with_the_option(case: dict[str, Any]) -> None:
    asks = [with_roles(case.get("roles", "u")).model_copy(update={"request_key": f"{n:064d}"}) for n in range(12)]
    with replying(case["replies"]) as server:
        asked = opened(case.get("provider", "openai"), server.root, **case.get("options", {}))
        with pytest.raises(ProviderError) as caught:
            ask(asked, asks)
        assert len(server.bodies) == 1
    assert case["option"].format(root=server.root) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_empty_answers_beside_their_reasoning_are_reported_once() -> None:
    reply = {"body": {"choices": [{"finish_reason": "stop", "message": {"content": "", "reasoning_content": "B"}}]}}
    notices: list[str] = []
    with replying([reply]) as server:
        responses = ask(opened("openai", server.root), requests(3), notices)
    assert [(response.text, response.reasoning) for response in responses] == [("", "B")] * 3
    assert len(notices) == 1
    assert "--reasoning-format none" in notices[0]
