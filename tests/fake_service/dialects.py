"""How each API asks, answers and fails.

https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api, https://ai.google.dev/api,
https://learn.microsoft.com/azure/ai-services/openai/reference
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, Protocol

from aiohttp import web

from tests.fake_service.model import FailureError, Received, Said
from tests.support.planned_questions import Turn

Body = dict[str, Any]

_STATUSES = {"wrong_key": 401, "unknown_model": 404, "not_found": 404, "too_large": 413, "rate_limited": 429}
_STATUSES |= {"quota": 429, "server_error": 500}
"""HTTP status of each kind of failure; others have 400."""


def rfc3339(seconds: float) -> str:
    """A moment since 1970 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def key_of(request: web.Request) -> str | None:
    """The key in a request: a bearer token, or in a header of the service's own."""
    found = [request.headers.get(name) for name in ("x-api-key", "x-goog-api-key", "api-key", "authorization")]
    return next((key.removeprefix("Bearer ") for key in found if key), None)


def _text_of(content: Any) -> str:
    return "".join(str(part.get("text", "")) for part in content) if isinstance(content, list) else str(content or "")


def _turns(messages: Any, system: Any = None) -> list[Turn]:
    own = {"developer": "system", "model": "assistant", None: "user"}
    turns = [("system", _text_of(system))] if system else []
    for message in messages:
        role = message.get("role")
        turns.append((own.get(role, role), _text_of(message.get("content", message.get("parts")))))
    return turns


class Dialect(Protocol):
    """One API's shapes."""

    request_id_header: str = "x-request-id"
    statuses: dict[str, int] = _STATUSES

    def parse(self, body: Body, path_model: str | None) -> Received: ...
    def answer(self, received: Received, said: Said) -> Body: ...
    def error(self, failure: FailureError, status: int) -> Body: ...

    def failure(self, failure: FailureError) -> tuple[int, Body]:
        """Status and body of a failure."""
        status = failure.status or self.statuses.get(failure.kind, 400)
        return status, self.error(failure, status)


class OpenAIChat(Dialect):
    """POST /v1/chat/completions, Azure's too: there the model stands in the path."""

    def parse(self, body: Body, path_model: str | None) -> Received:
        budget = body.get("max_completion_tokens") or body.get("max_tokens")
        return Received(path_model or body["model"], _turns(body.get("messages")), budget, body)

    def answer(self, received: Received, said: Said) -> Body:
        refused = said.finish == "refusal"
        message = {"role": "assistant", "content": None if refused else said.text}
        message |= {said.trace_form: said.trace} if said.trace else {}
        message |= {"refusal": said.text} if refused else {}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if refused else said.finish}
        if received.body.get("logprobs") and said.first_tokens:
            tokens = [{"token": token, "logprob": value} for token, value in said.first_tokens.items()]
            top = tokens[: received.body.get("top_logprobs", 0)]
            choice["logprobs"] = {"content": [tokens[0] | {"top_logprobs": top}]}
        usage: Body = {"prompt_tokens": said.input_tokens, "completion_tokens": said.output_tokens}
        usage["completion_tokens_details"] = {"reasoning_tokens": said.reasoning_tokens}
        usage["total_tokens"] = said.input_tokens + said.output_tokens
        body = {"id": f"chatcmpl-{received.digest}", "object": "chat.completion", "created": int(time.time())}
        return body | {"model": said.model, "choices": [choice], "usage": usage, "system_fingerprint": "fp_fake"}

    def error(self, failure: FailureError, status: int) -> Body:
        kind, parameter = failure.kind, failure.parameter
        codes = {"wrong_key": "invalid_api_key", "unknown_model": "model_not_found", "quota": "insufficient_quota"}
        codes |= {"rate_limited": "rate_limit_exceeded", "filtered_prompt": "content_filter"}
        codes["unsupported_parameter"] = "unsupported_value" if parameter == "temperature" else "unsupported_parameter"
        types = {"rate_limited": "requests", "quota": "insufficient_quota", "server_error": "server_error"}
        instead = " Use 'max_completion_tokens' instead." if parameter == "max_tokens" else ""
        error: Body = {"message": f"{failure}{instead}", "type": types.get(kind, "invalid_request_error")}
        return {"error": error | {"param": parameter, "code": codes.get(kind)}}


class Anthropic(Dialect):
    """POST /v1/messages."""

    request_id_header = "request-id"
    statuses = _STATUSES | {"quota": 400}

    def parse(self, body: Body, path_model: str | None) -> Received:
        if (budget := body.get("max_tokens")) is None:
            raise FailureError("invalid", "max_tokens: Field required", "max_tokens")
        thinking = body.get("thinking") or {"type": "disabled"}
        turns = _turns(body.get("messages"), body.get("system"))
        return Received(body["model"], turns, budget, {**body, "thinking": thinking})

    def answer(self, received: Received, said: Said) -> Body:
        stop = {"stop": "end_turn", "length": "max_tokens"}.get(said.finish, "refusal")
        blocks = [{"type": "thinking", "thinking": said.trace, "signature": received.digest}] if said.trace else []
        blocks += [{"type": "text", "text": said.text}] if said.text else []
        usage = {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
        body: Body = {"id": f"msg_{received.digest}", "type": "message", "role": "assistant", "model": said.model}
        return body | {"content": [] if stop == "refusal" else blocks, "stop_reason": stop, "usage": usage}

    def error(self, failure: FailureError, status: int) -> Body:
        types = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
        types |= {413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": types.get(status, "api_error"), "message": str(failure)}}


class Gemini(Dialect):
    """POST /v1beta/models/MODEL:generateContent."""

    statuses = _STATUSES | {"wrong_key": 400}

    def parse(self, body: Body, path_model: str | None) -> Received:
        config = body.get("generationConfig") or {}
        turns = _turns(body.get("contents"), (body.get("systemInstruction") or {}).get("parts"))
        return Received(path_model or "", turns, config.get("maxOutputTokens"), {**body, **config})

    def answer(self, received: Received, said: Said) -> Body:
        """One candidate; without content where a filter blocked it; no candidate where it blocked the prompt."""
        reasons = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}
        candidate: Body = {"finishReason": reasons.get(said.finish, "STOP"), "index": 0}
        if said.finish in ("stop", "length"):
            wanted = (received.body.get("thinkingConfig") or {}).get("includeThoughts")
            parts: list[Body] = [{"text": said.trace, "thought": True}] if wanted and said.trace else []
            parts += [{"text": said.text}] if said.text else []
            candidate["content"] = {"role": "model"} | ({"parts": parts} if parts else {})
        usage = {"promptTokenCount": said.input_tokens, "totalTokenCount": said.input_tokens + said.output_tokens}
        usage["candidatesTokenCount"] = said.output_tokens - said.reasoning_tokens
        usage |= {"thoughtsTokenCount": said.reasoning_tokens} if said.reasoning_tokens else {}
        body: Body = {"usageMetadata": usage, "modelVersion": said.model, "responseId": received.digest}
        if said.outcome == "filtered_prompt":
            return body | {"promptFeedback": {"blockReason": "SAFETY"}}
        return body | {"candidates": [candidate]}

    def error(self, failure: FailureError, status: int) -> Body:
        types = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED"}
        types |= {503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
        error: Body = {"code": status, "message": str(failure), "status": types.get(status, "INTERNAL")}
        google = "type.googleapis.com/google.rpc."
        if failure.kind == "wrong_key":
            error["details"] = [{"@type": f"{google}ErrorInfo", "reason": "API_KEY_INVALID"}]
        elif failure.kind == "quota":
            error["details"] = [{"@type": f"{google}QuotaFailure", "violations": [{"quotaId": "PerDay"}]}]
        elif failure.retry_after_s is not None:
            error["details"] = [{"@type": f"{google}RetryInfo", "retryDelay": f"{failure.retry_after_s:g}s"}]
        return {"error": error}
