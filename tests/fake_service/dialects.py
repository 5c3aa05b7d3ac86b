"""How each API asks, answers and fails.

https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api, https://ai.google.dev/api,
https://learn.microsoft.com/azure/ai-services/openai/reference
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from aiohttp import web

from tests.fake_service.model import Asked, FailureError, Said, Turn

Body = dict[str, Any]

STATUSES: Final = {
    "invalid": 400,
    "refused_parameter": 400,
    "filtered_prompt": 400,
    "wrong_key": 401,
    "unknown_model": 404,
    "not_found": 404,
    "too_large": 413,
    "rate_limited": 429,
    "quota": 429,
    "server_error": 500,
}
"""HTTP status of each kind of failure."""


def rfc3339(seconds: float) -> str:
    """A moment since 1970 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _text_of(content: Any) -> str:
    return "".join(str(part.get("text", "")) for part in content) if isinstance(content, list) else str(content or "")


def _turns(messages: Any, system: Any = None) -> list[Turn]:
    """Roles and texts; raises FailureError where there are none."""
    if not isinstance(messages, list) or not messages:
        raise FailureError("invalid", "expected a list with at least one message", "messages")
    own = {"developer": "system", "model": "assistant", None: "user"}
    turns = [("system", _text_of(system))] if system else []
    for message in messages:
        role = message.get("role")
        turns.append((own.get(role, role), _text_of(message.get("content", message.get("parts")))))
    return turns


def _budget(body: Mapping[str, Any], *names: str) -> int | None:
    """The token budget under the first of these names; raises FailureError where it is wrong."""
    name = next((name for name in names if body.get(name) is not None), "")
    if name and (not isinstance(body[name], int) or body[name] < 1):
        raise FailureError("invalid", f"{name}: expected an integer above 0", name)
    return body.get(name)


def key_of(request: web.Request) -> str | None:
    """The key in a request: a bearer token, or in a header of the service's own."""
    found = [request.headers.get(name) for name in ("x-api-key", "x-goog-api-key", "api-key", "authorization")]
    return next((key.removeprefix("Bearer ") for key in found if key), None)


class Dialect(Protocol):
    """One API's shapes."""

    request_id_header: str
    statuses: Mapping[str, int]

    def parse(self, body: Mapping[str, Any], path_model: str | None) -> Asked:
        """The question in a body; `path_model` is the model in the path. Raises FailureError where it is wrong."""

    def answer(self, asked: Asked, said: Said) -> Body:
        """The body of an answer."""

    def error(self, failure: FailureError, status: int) -> Body:
        """The body of a failure."""


def failure_of(dialect: Dialect, failure: FailureError) -> tuple[int, Body]:
    """Status and body of a failure."""
    status = failure.status or dialect.statuses[failure.kind]
    return status, dialect.error(failure, status)


class OpenAIChat:
    """POST /v1/chat/completions, Azure's too: there the model stands in the path."""

    request_id_header = "x-request-id"
    statuses = STATUSES
    _types: Final = {"rate_limited": "requests", "quota": "insufficient_quota", "server_error": "server_error"}
    _codes: Final = {
        "wrong_key": "invalid_api_key",
        "unknown_model": "model_not_found",
        "refused_parameter": "unsupported_parameter",
        "rate_limited": "rate_limit_exceeded",
        "quota": "insufficient_quota",
        "filtered_prompt": "content_filter",
    }

    def parse(self, body: Mapping[str, Any], path_model: str | None) -> Asked:
        budget = _budget(body, "max_completion_tokens", "max_tokens")
        return Asked(path_model or body["model"], _turns(body.get("messages")), budget, {**body, "azure": path_model})

    def answer(self, asked: Asked, said: Said) -> Body:
        refused, thought = said.finish == "refusal", {said.thought_form: said.thought}
        message = {
            "role": "assistant",
            "content": None if refused else said.text,
            "refusal": said.text * refused or None,
        }
        if said.thought_form == "details":
            thought = {"reasoning_details": [{"type": "reasoning.text", "text": said.thought, "format": "unknown"}]}
        elif said.thought_form == "parts":
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": said.thought}]}
            thought = {"content": [thinking, {"type": "text", "text": said.text}]}
        usage: Body = {"prompt_tokens": said.input_tokens, "completion_tokens": said.output_tokens}
        usage["total_tokens"] = said.input_tokens + said.output_tokens
        choice = {"index": 0, "message": message | (thought if said.thought else {})}
        choice |= {"logprobs": _logprobs(asked, said), "finish_reason": "stop" if refused else said.finish}
        if asked.body["azure"]:
            choice["content_filter_results"] = _harms(blocked=said.finish == "content_filter")
        return {
            "id": f"chatcmpl-{asked.digest}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": said.model,
            "choices": [choice],
            "usage": usage | {"completion_tokens_details": {"reasoning_tokens": said.reasoning_tokens}},
            "system_fingerprint": "fp_fake_service",
            **({"prompt_filter_results": [{"content_filter_results": _harms()}]} if asked.body["azure"] else {}),
        }

    def error(self, failure: FailureError, status: int) -> Body:
        code, parameter = self._codes.get(failure.kind), failure.parameter
        if failure.kind == "refused_parameter" and parameter == "temperature":
            code = "unsupported_value"
        instead = " Use 'max_completion_tokens' instead." if code and parameter == "max_tokens" else ""
        kind = self._types.get(failure.kind, "invalid_request_error")
        error: Body = {"message": f"{failure}{instead}", "type": kind, "param": parameter, "code": code}
        if failure.kind == "filtered_prompt":
            inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": _harms(blocked=True)}
            error |= {"status": status, "innererror": inner}
        return {"error": error}


def _harms(*, blocked: bool = False) -> Body:
    """Azure's verdicts on a text."""
    safe = {"filtered": False, "severity": "safe"}
    return {"hate": {"filtered": True, "severity": "high"} if blocked else safe, "violence": safe}


def _logprobs(asked: Asked, said: Said) -> Body | None:
    """The first token, with as many alternatives as are asked for."""
    if asked.body.get("logprobs") is not True or not said.first_tokens:
        return None
    tokens: list[Body] = [{"token": token, "logprob": value} for token, value in said.first_tokens.items()]
    return {"content": [{**tokens[0], "top_logprobs": tokens[: asked.body.get("top_logprobs") or 0]}]}


class OpenAIResponses(OpenAIChat):
    """POST /v1/responses."""

    def parse(self, body: Mapping[str, Any], path_model: str | None) -> Asked:
        given = body.get("input")
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        turns = _turns(messages, body.get("instructions"))
        return Asked(body["model"], turns, _budget(body, "max_output_tokens"), body)

    def answer(self, asked: Asked, said: Said) -> Body:
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(said.finish)
        items: list[Body] = []
        if said.reasoning_tokens:
            wanted = (asked.body.get("reasoning") or {}).get("summary") not in (None, "none")
            summary = [{"type": "summary_text", "text": said.thought}] if wanted and said.thought else []
            items.append({"id": f"rs_{asked.digest}", "type": "reasoning", "summary": summary})
        if said.text:
            kind, name = ("refusal", "refusal") if said.finish == "refusal" else ("output_text", "text")
            part = {"type": kind, name: said.text}
            items.append({"id": f"msg_{asked.digest}", "type": "message", "role": "assistant", "content": [part]})
        usage: Body = {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens}
        usage["output_tokens_details"] = {"reasoning_tokens": said.reasoning_tokens}
        return {
            "id": f"resp_{asked.digest}",
            "object": "response",
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "model": said.model,
            "output": items,
            "usage": usage | {"total_tokens": said.input_tokens + said.output_tokens},
        }


class Anthropic:
    """POST /v1/messages."""

    request_id_header = "request-id"
    statuses = STATUSES | {"quota": 400}
    _types: Final = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        504: "timeout_error",
        529: "overloaded_error",
    }

    def parse(self, body: Mapping[str, Any], path_model: str | None) -> Asked:
        turns, budget = _turns(body.get("messages"), body.get("system")), _budget(body, "max_tokens")
        if budget is None:
            raise FailureError("invalid", "max_tokens: Field required", "max_tokens")
        thinking = body.get("thinking") or {"type": "disabled"}
        if thinking["type"] != "disabled" and body.get("temperature") not in (None, 1):
            message = "`temperature` may only be set to 1 when thinking is enabled."
            raise FailureError("refused_parameter", message, "temperature")
        if thinking["type"] != "disabled" and thinking.get("budget_tokens", 0) >= budget:
            raise FailureError("invalid", "`max_tokens` must be greater than `thinking.budget_tokens`.")
        return Asked(body["model"], turns, budget, {**body, "thinking": thinking})

    def answer(self, asked: Asked, said: Said) -> Body:
        stop = {"stop": "end_turn", "length": "max_tokens"}.get(said.finish, "refusal")
        blocks = [{"type": "thinking", "thinking": said.thought, "signature": asked.digest}] if said.thought else []
        blocks += [{"type": "text", "text": said.text}] if said.text else []
        return {
            "id": f"msg_{asked.digest}",
            "type": "message",
            "role": "assistant",
            "model": said.model,
            "content": [] if stop == "refusal" else blocks,
            "stop_reason": stop,
            "usage": {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens},
        }

    def error(self, failure: FailureError, status: int) -> Body:
        return {"type": "error", "error": {"type": self._types.get(status, "api_error"), "message": str(failure)}}


class Gemini:
    """POST /v1beta/models/MODEL:generateContent."""

    request_id_header = "x-request-id"
    statuses = STATUSES | {"wrong_key": 400}
    _types: Final = {
        400: "INVALID_ARGUMENT",
        404: "NOT_FOUND",
        413: "INVALID_ARGUMENT",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
        504: "DEADLINE_EXCEEDED",
    }
    _finish: Final = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "refusal": "PROHIBITED_CONTENT"}
    _ratings: Final = [{"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "HIGH", "blocked": True}]

    def parse(self, body: Mapping[str, Any], path_model: str | None) -> Asked:
        config = body.get("generationConfig") or {}
        turns = _turns(body.get("contents"), (body.get("systemInstruction") or {}).get("parts"))
        return Asked(path_model or "", turns, _budget(config, "maxOutputTokens"), {**body, **config})

    def answer(self, asked: Asked, said: Said) -> Body:
        candidate: Body = {"finishReason": self._finish.get(said.finish, "STOP"), "index": 0}
        if said.finish in ("stop", "length"):
            wanted = (asked.body.get("thinkingConfig") or {}).get("includeThoughts")
            parts: list[Body] = [{"text": said.thought, "thought": True}] if wanted and said.thought else []
            parts += [{"text": said.text}] if said.text else []
            candidate["content"] = {"role": "model", **({"parts": parts} if parts else {})}
        if said.finish == "content_filter":
            candidate["safetyRatings"] = self._ratings
        usage = {"promptTokenCount": said.input_tokens, "totalTokenCount": said.input_tokens + said.output_tokens}
        usage["candidatesTokenCount"] = said.output_tokens - said.reasoning_tokens
        usage |= {"thoughtsTokenCount": said.reasoning_tokens} if said.reasoning_tokens else {}
        tail = {"usageMetadata": usage, "modelVersion": said.model, "responseId": asked.digest}
        return {"candidates": [candidate], **tail}

    def blocked(self, answer: Body) -> Body:
        """The body, with status 200, where the prompt was blocked: no candidate at all."""
        rest = {name: value for name, value in answer.items() if name != "candidates"}
        return {"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": self._ratings}, **rest}

    def error(self, failure: FailureError, status: int) -> Body:
        error: Body = {"code": status, "message": str(failure), "status": self._types.get(status, "INTERNAL")}
        prefix = "type.googleapis.com/google.rpc."
        if failure.kind == "wrong_key":
            error["details"] = [{"@type": f"{prefix}ErrorInfo", "reason": "API_KEY_INVALID"}]
        elif failure.kind == "quota":
            error["details"] = [{"@type": f"{prefix}QuotaFailure", "violations": [{"quotaId": "PerDay"}]}]
        elif failure.retry_after_s is not None:
            error["details"] = [{"@type": f"{prefix}RetryInfo", "retryDelay": f"{failure.retry_after_s:g}s"}]
        return {"error": error}
