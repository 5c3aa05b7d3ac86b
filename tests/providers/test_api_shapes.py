from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Request, Response
from tests.fake_service.client import FakeServer
from tests.support.api import answering, ask, fake, provider, requests, with_system
from tests.support.cases import cases, read_data
from tests.support.planned_questions import digest_of

pytestmark = pytest.mark.usefixtures("api_keys")

__all__ = ["fake"]

pytest.importorskip("aiohttp")

CHAT = {"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}], "model": "m"}
RESPONSE: dict[str, Any] = read_data("providers/api_shapes")["response"]
MESSAGE = {"content": [{"type": "text", "text": "B"}], "stop_reason": "end_turn", "model": "m"}
GEMINI = {"candidates": [{"content": {"parts": [{"text": "B"}]}, "finishReason": "STOP"}]}
WHOLE = {"openai": CHAT, "anthropic": MESSAGE, "gemini": GEMINI}
KINDS = tuple(WHOLE)


def one(kind: str, root: str, **options: Any) -> Response:
    path = "/v1" if kind == "openai" else ""
    (response,) = ask(provider(f"{kind}:m", base_url=root + path, **options), requests(1))
    return response


def chat(message: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"message": {"content": "B"} if message is None else message, "finish_reason": "stop"}
    return {"choices": [choice | more], "model": "m"}


@pytest.mark.parametrize(
    ("kind", "payload"), cases("providers/api_shapes", "what_is_no_answer_is_asked_again_and_recorded_at_last")
)
def test_what_is_no_answer_is_asked_again_and_recorded_at_last(kind: str, payload: Any) -> None:
    with answering((200, payload)) as root:
        response = one(kind, root, attempts=1)
    assert response.text is None
    assert response.error is not None
    assert response.error.startswith("sent once, last: ")
    with answering((200, payload), (200, WHOLE[kind])) as root:
        response = one(kind, root, attempts=2)
    assert (response.text, response.error, response.n_attempts) == ("B", None, 2)


@pytest.mark.parametrize(("message", "text"), cases("providers/api_shapes", "texts_in_parts"))
def test_texts_in_parts(message: Any, text: str) -> None:
    with answering((200, chat(message))) as root:
        response = one("openai", root)
    assert (response.text, response.error) == (text, None)
    assert response.usage.input_tokens is None


@pytest.mark.parametrize(
    ("part", "reason", "text", "finish"), cases("providers/api_shapes", "answers_of_the_responses_api")
)
def test_answers_of_the_responses_api(part: dict[str, Any], reason: str | None, text: str, finish: str | None) -> None:
    usage = {"input_tokens": 5, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 7}}
    body = RESPONSE | {"output": [RESPONSE["output"][0], {"type": "message", "content": [part]}], "usage": usage}
    if reason:
        body |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    with answering((200, body)) as root:
        response = one("openai", root, api="responses")
    assert ((response.text or ""), response.reasoning, response.error) == (text, "Hm.", None)
    assert finish is None or response.finish_reason == finish
    assert (part["type"] == "refusal") == (response.refusal == "No.")
    assert (response.usage.output_tokens, response.usage.reasoning_tokens) == (9, 7)


def test_a_model_of_the_responses_api_is_told_its_option() -> None:
    refusal = {"error": {"message": "This model is only supported in v1/responses and not in v1/chat/completions."}}
    with answering((404, refusal)) as root, pytest.raises(ProviderError, match="give --model-arg api=responses"):
        ask(provider("openai:m", base_url=f"{root}/v1"), requests(1))


def test_a_blocked_prompt_of_gemini_has_no_candidate() -> None:
    with answering((200, {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})) as root:
        response = one("gemini", root)
    assert (response.finish_reason, response.provider_finish_reason) == ("content_filter", "PROHIBITED_CONTENT")
    assert (response.text, response.error) == (None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_system_messages_and_top_p_arrive(kind: str, fake: FakeServer) -> None:
    fake.change({"answers": {"unrecognised": "echo"}})
    address = fake.openai if kind == "openai" else fake.root
    (response,) = ask(provider(f"{kind}:fake", base_url=address, top_p=0.5), [with_system("Who?", "Be brief.")])
    assert (response.text, response.error) == ("Who?", None)
    assert fake.stats().asked[digest_of([("system", "Be brief."), ("user", "Who?")])] == 1


def test_azure_over_a_socket() -> None:
    harms = {"hate": {"filtered": False, "severity": "safe"}}
    told = chat() | {"prompt_filter_results": [{"content_filter_results": harms}]}
    error = {"message": "The prompt was blocked", "code": "content_filter", "status": 400}
    error |= {"innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": harms}}
    with answering((200, told), (400, {"error": error})) as root:
        asked = provider("openai:my-deployment", service="azure", base_url=root, max_connections=1)
        asked.check_access()
        answered, stopped = ask(asked, requests(2))
    assert (answered.text, answered.error) == ("B", None)
    assert answered.content_filter
    assert (stopped.finish_reason, stopped.error) == ("content_filter", None)


def test_requests_that_can_not_be_read_end_the_asking(fake: FakeServer) -> None:
    """Whatever the requests come from may fail too; what was under way is not lost."""

    def broken() -> Iterator[Request]:
        yield from requests(1)
        raise OSError("the store is gone")

    with pytest.raises(OSError, match="the store is gone"):
        ask(provider("openai:fake", base_url=fake.openai), broken())
