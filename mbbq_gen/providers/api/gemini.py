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

from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import Request, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.options import RemoteOptions, gemini_reasoning
from mbbq_gen.providers.api.provider import ApiProvider, answer_fields
from mbbq_gen.providers.api.service import Endpoint
from mbbq_gen.providers.base import Capabilities
from mbbq_gen.providers.http.credentials import GoogleCredentials, vertex_address, vertex_place
from mbbq_gen.providers.http.errors import ApiError, TransientError, finish_reason
from mbbq_gen.providers.http.replies import table_of, tables_of, text_of, words_of

_BESIDE: Final = frozenset({"safetySettings", "safety_settings", "tools", "toolConfig", "cachedContent", "labels"})
"""What stands beside the settings of generation in a body, not among them."""


_SAMPLING: Final = {
    "temperature": "temperature", "top_p": "topP", "top_k": "topK", "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty", "seed": "seed",
}  # fmt: skip
"""Our name of an option → Google's."""


class GeminiOptions(RemoteOptions):
    """Options of `gemini:MODEL`."""

    top_k: int | None = Field(default=None, ge=1, description="number of the likeliest tokens; default: not sent")
    presence_penalty: float | None = Field(default=None, ge=-2.0, le=2.0, description="0: none")
    frequency_penalty: float | None = Field(default=None, ge=-2.0, le=2.0, description="0: none")
    seed: int | None = Field(default=None, description="seed of the service")
    reasoning_tokens: int | None = Field(
        default=None, ge=-1, description="reasoning tokens, within max_tokens; 0: none; -1: no limit"
    )


class GeminiProvider(ApiProvider):
    """Asks a model of Google."""

    kind = "gemini"
    declared = Capabilities(batches=True, reasoning=True, structured_output=True)
    renames_length = False
    options_class = GeminiOptions
    packages = ("aiohttp", "google-auth")
    address = "https://generativelanguage.googleapis.com"
    address_variable = "GOOGLE_GEMINI_BASE_URL"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    install = "pip install 'mbbq-gen[gemini]'"
    setting_names = ("max_tokens", *_SAMPLING, "reasoning_tokens")
    version_in_base = False
    options: GeminiOptions

    @property
    def is_vertex(self) -> bool:
        """Whether the environment asks for Vertex AI."""
        return os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"1", "true"}

    @property
    def capabilities(self) -> Capabilities:
        """As declared; no batches on Vertex AI, which takes them from buckets only."""
        return replace(super().capabilities, batches=not self.is_vertex)

    def check_access(self) -> None:
        """Raises UsageError where there is no key; Vertex AI has credentials of its own."""
        if self._credentials is not None:
            self._credentials.check(self.name)
        else:
            super().check_access()

    @cached_property
    def endpoint(self) -> Endpoint:
        """The Gemini API, or Vertex AI: in a project, or with a key of its own (express mode)."""
        headers = {"Content-Type": "application/json"}
        if self.secret is not None and self._credentials is None:
            headers["x-goog-api-key"] = self.secret.value
        if not self.is_vertex:
            return Endpoint(f"{self.base_url}/v1beta", headers)
        where = vertex_place() if self._credentials is not None else None
        root = self.base_url if self.base_url != self.address else vertex_address(where)
        return Endpoint(f"{root}/v1{where.path if where else ''}/publishers/google", headers)

    @cached_property
    def _credentials(self) -> GoogleCredentials | None:
        """Of Vertex AI; None for all that a key opens."""
        return GoogleCredentials() if self.is_vertex and vertex_place() is not None else None

    def instead_of(self, name: str) -> str:
        """The settings have names of the service's own."""
        return super().instead_of({"thinkingConfig": "reasoning_tokens"}.get(name, name))

    @property
    def path(self) -> str:
        """Where a question is posted."""
        return f"{self.model_path}:generateContent"

    @property
    def model_path(self) -> str:
        """The model below the base URL; tuned ones are named with their folder."""
        return f"/{self.model}" if "/" in self.model else f"/models/{self.model}"

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a generateContent request."""
        options = self.options
        names = {"user": "user", "assistant": "model"}
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        settings: dict[str, JsonValue] = {"maxOutputTokens": self.answer_limit(request)}
        for ours, theirs in _SAMPLING.items():
            if (value := getattr(options, ours)) is not None:
                settings[theirs] = value
        if options.reasoning_tokens is not None:
            settings["thinkingConfig"] = {"thinkingBudget": options.reasoning_tokens}
        settings = self.with_reasoning(settings, request, "maxOutputTokens")
        body: dict[str, JsonValue] = {
            "contents": [
                {"role": names[message.role], "parts": [{"text": message.content}]}
                for message in request.messages
                if message.role != "system"
            ],
            "generationConfig": self.learned.apply(
                settings | {name: value for name, value in options.extra.items() if name not in _BESIDE}
            ),
        }
        body |= {name: value for name, value in options.extra.items() if name in _BESIDE}
        return body | {"systemInstruction": {"parts": [{"text": system}]}} if system else body

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """A budget or a level, as the model takes it; raises UsageError where it takes none."""
        return self.check_reasoning(gemini_reasoning(self.name, self.model, level), "reasoning_tokens")

    def learn_from(self, error: ApiError, body: Mapping[str, JsonValue], request: Request) -> bool:
        """The parameters are one level deeper than elsewhere."""
        return super().learn_from(error, {**body, **table_of(body["generationConfig"])}, request)

    def download_url(self, path: str) -> str:
        """Files are downloaded from addresses of their own, on the same server."""
        return f"{self.base_url}/download/v1beta{path}"

    async def headers_for(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """With a token of Google's credentials on Vertex AI, which they renew themselves."""
        headers = self.fixed_headers
        if self._credentials is None:
            return headers
        return {**headers, "Authorization": f"Bearer {await self._credentials.token()}"}

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a generateContent answer."""
        if not isinstance(payload, dict):
            raise TransientError("malformed", "the response is JSON without an answer")
        candidates = tables_of(payload.get("candidates"))
        feedback = table_of(payload.get("promptFeedback"))
        if not candidates and not feedback.get("blockReason"):
            raise TransientError("malformed", "the response has no candidate")
        candidate = candidates[0] if candidates else {}
        reason = words_of(candidate.get("finishReason")) or words_of(feedback.get("blockReason"))
        parts = tables_of(table_of(candidate.get("content")).get("parts"))
        results = {"prompt": feedback, "answer": candidate.get("safetyRatings")}
        found = table_of(payload.get("usageMetadata"))
        written, thought = (count_or_none(found.get(f"{name}TokenCount")) for name in ("candidates", "thoughts"))
        return answer_fields(
            "".join(text_of(part.get("text")) for part in parts if not part.get("thought")),
            finish_reason(reason) if candidates else "content_filter",
            reason,
            Usage(
                input_tokens=found.get("promptTokenCount"),
                output_tokens=None if written is None and thought is None else (written or 0) + (thought or 0),
                reasoning_tokens=thought,
                cached_input_tokens=found.get("cachedContentTokenCount"),
            ),
            content_filter={name: result for name, result in results.items() if result},
            reasoning="".join(words_of(part.get("text")) or "" for part in parts if part.get("thought")),
            model=words_of(payload.get("modelVersion")),
            request_id=words_of(payload.get("responseId")) or headers.get("x-request-id"),
        )
