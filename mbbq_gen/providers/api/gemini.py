"""Google's models: `gemini:MODEL`, on the Gemini API or on Vertex AI.

Environment variables of Google's own client: GEMINI_API_KEY or GOOGLE_API_KEY, GOOGLE_GEMINI_BASE_URL;
GOOGLE_GENAI_USE_VERTEXAI with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION. Blocked answers are `content_filter`.
Reference: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from pydantic import Field, JsonValue

from mbbq_gen.core.records import Request
from mbbq_gen.providers.api.options import RemoteOptions
from mbbq_gen.providers.api.provider import ApiProvider, answer_fields, system_text, usage_of
from mbbq_gen.providers.base import Capabilities
from mbbq_gen.providers.http.credentials import VERTEX, CloudToken, vertex_place
from mbbq_gen.providers.http.errors import TransientError, finish_reason
from mbbq_gen.providers.http.replies import table_of, tables_of, text_of, text_or_none, value_at

_BESIDE: Final = frozenset({"safetySettings", "safety_settings", "tools", "toolConfig", "cachedContent", "labels"})
"""Fields of the body that are not settings of generation."""
_SAMPLING: Final = {
    "temperature": "temperature", "top_p": "topP", "top_k": "topK", "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty", "seed": "seed",
}  # fmt: skip
"""Our option → Google's name."""


class GeminiOptions(RemoteOptions):
    """Options of `gemini:MODEL`."""

    top_k: int | None = Field(default=None, ge=1, description="number of the likeliest tokens; default: not sent")
    presence_penalty: float | None = Field(default=None, ge=-2.0, le=2.0, description="0: none")
    frequency_penalty: float | None = Field(default=None, ge=-2.0, le=2.0, description="0: none")
    seed: int | None = Field(default=None, description="seed of the service")


class GeminiProvider(ApiProvider):
    """A model of Google."""

    kind = "gemini"
    capabilities = Capabilities(batches=True, reasoning=True, structured_output=True)
    options_class = GeminiOptions
    packages = ("aiohttp", "google-auth")
    address = "https://generativelanguage.googleapis.com"
    address_variable = "GOOGLE_GEMINI_BASE_URL"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    setting_names = ("max_tokens", *_SAMPLING)
    path: str = ""
    settings_field = "generationConfig"
    base_url_form = "--base-url, which has no version at its end"
    options: GeminiOptions

    def __init__(self, model: str, options: GeminiOptions) -> None:
        """On Vertex AI if GOOGLE_GENAI_USE_VERTEXAI is set."""
        self.is_vertex = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"1", "true"}
        self.model_path = f"/{model}" if "/" in model else f"/models/{model}"
        """The model's path below the base URL; names of tuned models include their folder."""
        self.path = f"{self.model_path}:generateContent"
        if self.is_vertex:
            self.capabilities = replace(self.capabilities, batches=False)  # Vertex AI needs a storage bucket for them
            self.cloud = CloudToken("vertex") if vertex_place() else None  # without a project: a key (express mode)
        super().__init__(model, options)

    @cached_property
    def root(self) -> str:
        """The Gemini API, or Vertex AI, in a project or with a key (express mode)."""
        if not self.is_vertex:
            return f"{self.base_url}/v1beta"
        server, path = (vertex_place() if self.cloud is not None else None) or (VERTEX, "")
        return f"{self.base_url if self.base_url != self.address else server}/v1{path}/publishers/google"

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers with the key; on Vertex AI, a token is added."""
        key = {"x-goog-api-key": self.secret.value} if self.secret is not None and self.cloud is None else {}
        return {"Content-Type": "application/json", **key}

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a generateContent request."""
        settings: dict[str, JsonValue] = {"maxOutputTokens": self.answer_limit(request), **self.given(**_SAMPLING)}
        settings = self.with_reasoning(settings, request, "maxOutputTokens")
        body: dict[str, JsonValue] = {
            "contents": [
                {"role": "model" if message.role == "assistant" else "user", "parts": [{"text": message.content}]}
                for message in request.messages
                if message.role != "system"
            ],
            "generationConfig": settings,
        }
        for name, value in self.options.extra.items():
            (body if name in _BESIDE else settings)[name] = value
        body["generationConfig"] = self.learned.apply(settings)
        system = system_text(request.messages)
        return body | {"systemInstruction": {"parts": [{"text": system}]}} if system else body

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a generateContent answer."""
        candidates, feedback = tables_of(payload.get("candidates")), table_of(payload.get("promptFeedback"))
        if not candidates and not feedback.get("blockReason"):
            raise TransientError("malformed", "the response has no candidate")
        candidate = candidates[0] if candidates else {}
        reason = text_or_none(candidate.get("finishReason")) or text_or_none(feedback.get("blockReason"))
        parts = tables_of(value_at(candidate, "content.parts"))
        results = {"prompt": feedback, "answer": candidate.get("safetyRatings")}
        usage = usage_of(
            payload.get("usageMetadata"),
            ("promptTokenCount",),
            ("candidatesTokenCount", "thoughtsTokenCount"),
            reasoning=("thoughtsTokenCount",),
            cached=("cachedContentTokenCount",),
        )
        return answer_fields(
            "".join(text_of(part.get("text")) for part in parts if not part.get("thought")),
            finish_reason(reason) if candidates else "content_filter",
            reason,
            usage,
            content_filter={name: result for name, result in results.items() if result},
            reasoning="".join(text_or_none(part.get("text")) or "" for part in parts if part.get("thought")),
            model=text_or_none(payload.get("modelVersion")),
            request_id=text_or_none(payload.get("responseId")) or headers.get("x-request-id"),
        )
