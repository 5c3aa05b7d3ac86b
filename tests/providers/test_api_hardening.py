from __future__ import annotations

import json
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.provider import ApiProvider
from tests.support.api import Heard, Spoken, answer, ask, provider, requests, spoken
from tests.support.cases import cases, known

pytestmark = pytest.mark.usefixtures("api_keys")
KINDS = ("openai", "anthropic", "gemini")


def opened(kind: str, root: str, **options: Any) -> ApiProvider:
    return provider(f"{kind}:m", base_url=f"{root}/v1" if kind == "openai" else root, **options)


def reply(status: int, payload: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, body


def in_turn(*replies: tuple[int, dict[str, str], bytes]) -> Any:
    left = list(replies)
    return lambda _heard: left.pop(0) if len(left) > 1 else left[0]


def asked_of(kind: str, server: Spoken, count: int = 1, **options: Any) -> list[Response]:
    return ask(opened(kind, server.root, **options), requests(count))


BILLING = "You exceeded your current quota, please check your plan and billing details."
LIMITS: dict[str, Any] = {
    "openai": {"error": {"message": BILLING, "type": "requests", "code": "rate_limit_exceeded"}},
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": BILLING}},
    "gemini": {
        "error": {
            "code": 429,
            "message": BILLING,
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "x/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerMinutePerProject"}]},
                {"@type": "x/google.rpc.RetryInfo", "retryDelay": "0.01s"},
            ],
        }
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("headers", [{}, {"retry_after": "0.01"}])
def test_a_limit_that_speaks_of_bills_is_waited_for(kind: str, headers: dict[str, str]) -> None:
    with spoken(in_turn(reply(429, LIMITS[kind], **headers), reply(200, answer(kind)))) as server:
        (response,) = asked_of(kind, server)
    assert (response.text, response.n_attempts) == ("A", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_moderation_is_a_filter_and_the_others_go_on(kind: str) -> None:
    flagged = {
        "error": {
            "code": 403,
            "message": "Your input was flagged",
            "metadata": {"reasons": ["hate"], "flagged_input": "…", "provider_name": "OpenAI"},
        }
    }
    with spoken(in_turn(reply(403, flagged), reply(200, answer(kind)))) as server:
        responses = asked_of(kind, server, 3)
    assert sorted(str(response.finish_reason) for response in responses) == ["content_filter", "stop", "stop"]
    assert [response.content_filter for response in responses if response.content_filter] == [{"reasons": ["hate"]}]


PAGE = b"<!DOCTYPE html><html><head><title>Access denied</title></head><body>billing</body></html>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [200, 403, 404])
def test_a_page_at_the_start_is_one_line(kind: str, status: int) -> None:
    with spoken(in_turn(reply(status, PAGE, content_type="text/html"))) as server:
        with pytest.raises(ProviderError, match=rf"answers with a web page \(Access denied, {status}\).*--base-url"):
            asked_of(kind, server, 20)
        assert len(server.heard) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_redirection_names_its_target_and_gets_no_key(kind: str) -> None:
    with spoken(in_turn(reply(200, answer(kind)))) as elsewhere:

        def moved(heard: Heard) -> tuple[int, dict[str, str], bytes]:
            return reply(307, b"", location=f"{elsewhere.root}{heard.path}?key=1")

        with spoken(moved) as server, pytest.raises(ProviderError) as caught:
            asked_of(kind, server, 20)
        assert elsewhere.heard == []
    assert f"redirects to {elsewhere.root}/" in str(caught.value)
    assert "key=1" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "path", "advice"), cases("providers/api_hardening", "a_base_url_with_a_wrong_end_is_told")
)
@pytest.mark.parametrize("body", [b"404 page not found", b'{"detail":"Not Found"}'])
def test_a_base_url_with_a_wrong_end_is_told(kind: str, path: str, advice: str, body: bytes) -> None:
    with spoken(in_turn(reply(404, body))) as server:
        asked = provider(f"{kind}:m", base_url=server.root + path)
        with pytest.raises(ProviderError) as caught:
            ask(asked, requests(5))
        assert advice in str(caught.value)


def test_an_endless_answer_is_a_failure() -> None:
    with spoken(in_turn(reply(200, answer("openai", "x" * 17_000_000)))) as server:
        (response,) = asked_of("openai", server, attempts=1)
    assert "more than 16,000,000 bytes" in known(response.error)


@pytest.mark.parametrize("kind", KINDS)
def test_headers_of_ones_own(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "gateway-secret-98765")
    given = {"X-Title": "bias", "cf-aig-authorization": "Bearer $GATEWAY_KEY"}
    told = {"error": {"message": "no room for gateway-secret-98765", "code": "odd"}}
    with spoken(in_turn(reply(400, told), reply(200, answer(kind)))) as server:
        asked = opened(kind, server.root, headers=given)
        responses = ask(asked, requests(2))
        for heard in server.heard:
            assert heard.headers["x-title"] == "bias"
            assert heard.headers["cf-aig-authorization"] == "Bearer gateway-secret-98765"
    assert asked.settings["headers"] == given
    assert [response.error for response in responses if response.error] == ["no room for *** (400)"]
    assert "gateway-secret" not in json.dumps(asked.settings) + repr(responses)


@pytest.mark.parametrize(("headers", "words"), cases("providers/api_hardening", "headers_that_can_not_be_taken"))
def test_headers_that_can_not_be_taken(headers: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        provider("openai:m", headers=headers)


ODD = ["\ud83d", "a\udc00b", "\x00", "\uffff\ufffe", "\ud83d\ude00", "\u202e\x85", "x" * 1_000_000, "", " "]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_any_text_can_be_stored(kind: str, text: str) -> None:
    with spoken(in_turn(reply(200, answer(kind, text)))) as server:
        (response,) = asked_of(kind, server)
    assert Response.model_validate_json(response.model_dump_json()) == response
    assert response.text == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", ["-5", "NaN", "Infinity", "1e999", '"many"', "null", "[]", "true", "2.5", "9" * 40])
def test_odd_token_counts_cost_no_answer(kind: str, count: str) -> None:
    usages: dict[str, dict[str, Any]] = {
        "openai": {"usage": {"prompt_tokens": "~", "completion_tokens": "~", "completion_tokens_details": "~"}},
        "anthropic": {"usage": {"input_tokens": "~", "output_tokens": "~", "cache_read_input_tokens": "~"}},
        "gemini": {"usageMetadata": {"promptTokenCount": "~", "candidatesTokenCount": "~", "thoughtsTokenCount": "~"}},
    }
    body = json.dumps(answer(kind, **usages[kind])).replace('"~"', count).encode()
    with spoken(in_turn(reply(200, body))) as server:
        (response,) = asked_of(kind, server)
    assert response.text == "A"
    assert set(response.usage.model_dump().values()) == {None}
    assert Response.model_validate_json(response.model_dump_json()) == response
