"""What OpenAI's addresses share: the key, failures, headers of the rate limits; and Azure's additions.

Shapes: https://platform.openai.com/docs/api-reference, https://learn.microsoft.com/azure/ai-services/openai/reference
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from mbbq_gen.fake_server.asked import Failure, FailureKind
from mbbq_gen.fake_server.dialects.base import Body
from mbbq_gen.fake_server.http import HttpRequest
from mbbq_gen.fake_server.limits import Levels

_FAILURES: Final[dict[FailureKind, tuple[int, str, str | None]]] = {
    "wrong_key": (401, "invalid_request_error", "invalid_api_key"),
    "unknown_model": (404, "invalid_request_error", "model_not_found"),
    "invalid": (400, "invalid_request_error", None),
    "refused_parameter": (400, "invalid_request_error", "unsupported_parameter"),
    "rate_limited": (429, "requests", "rate_limit_exceeded"),
    "quota": (429, "insufficient_quota", "insufficient_quota"),
    "server_error": (500, "server_error", None),
    "filtered_prompt": (400, "invalid_request_error", "content_filter"),
    "too_large": (413, "invalid_request_error", None),
    "not_found": (404, "invalid_request_error", None),
}
_HARMS = ("hate", "self_harm", "sexual", "violence")


class OpenAIFamily:
    """The shared part of both of OpenAI's ways to ask."""

    request_id_header = "x-request-id"

    def key_of(self, request: HttpRequest) -> str | None:
        """The key: a bearer token, or Azure's own header."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        return bearer or request.headers.get("api-key")

    def failure(self, failure: Failure, request_id: str) -> tuple[int, Body]:
        """The error object with its message, type, parameter and code."""
        status, kind, code = _FAILURES[failure.kind]
        message = failure.message
        if failure.kind == "refused_parameter" and failure.parameter == "temperature":
            code = "unsupported_value"
        if failure.instead:
            message += f" Use '{failure.instead}' instead."
        error: Body = {"message": message, "type": kind, "param": failure.parameter, "code": code}
        if failure.kind == "filtered_prompt":
            error["status"] = status
            error["innererror"] = {
                "code": "ResponsibleAIPolicyViolation",
                "content_filter_result": filter_verdicts(blocked=True),
            }
        return failure.status or status, {"error": error}

    def limit_headers(self, levels: Levels) -> dict[str, str]:
        """`x-ratelimit-…-requests` and `…-tokens`."""
        headers = {}
        for name, level in (("requests", levels.requests), ("tokens", levels.tokens)):
            if level is not None:
                headers[f"x-ratelimit-limit-{name}"] = str(level.limit)
                headers[f"x-ratelimit-remaining-{name}"] = str(level.remaining)
                headers[f"x-ratelimit-reset-{name}"] = duration(level.reset_s)
        return headers


def duration(seconds: float) -> str:
    """A time as the headers write it: `340ms`, `1.5s`, `6m0s`."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{round(rest)}s" if minutes else f"{round(rest, 3):g}s"


def filter_verdicts(*, blocked: bool) -> dict[str, JsonValue]:
    """What Azure's content filter thinks of a text; `blocked`: it found hate."""
    return {
        harm: {
            "filtered": blocked and harm == "hate",
            "severity": "high" if blocked and harm == "hate" else "safe",
        }
        for harm in _HARMS
    }
