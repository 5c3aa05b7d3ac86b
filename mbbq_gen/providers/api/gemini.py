"""Google's models: `gemini:MODEL`, on the Gemini API or on Vertex AI.

Environment variables of Google's own client: GEMINI_API_KEY or GOOGLE_API_KEY, GOOGLE_GEMINI_BASE_URL;
GOOGLE_GENAI_USE_VERTEXAI with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION. Blocked answers are `content_filter`.
Reference: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Final, Self

from pydantic import Field, JsonValue

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import Request, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.options import RemoteOptions, checked_address, gemini_reasoning
from mbbq_gen.providers.api.provider import ApiProvider, Endpoint
from mbbq_gen.providers.base import ProviderOptions, check_installed
from mbbq_gen.providers.http.credentials import GoogleCredentials, find_key, missing_key, vertex_address, vertex_place
from mbbq_gen.providers.http.errors import ApiError, TransientError, finish_reason
from mbbq_gen.providers.http.transport import FormFile, table_of, tables_of, text_of, words_of

INSTALL: Final = "pip install 'mbbq-gen[gemini]'"
ADDRESS: Final = "https://generativelanguage.googleapis.com"
_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_BESIDE: Final = frozenset({"safetySettings", "safety_settings", "tools", "toolConfig", "cachedContent", "labels"})
"""What stands beside the settings of generation in a body, not among them."""


class GeminiOptions(RemoteOptions):
    """Options of `gemini:MODEL`."""

    seed: int | None = Field(default=None, description="seed of the service")
    reasoning_tokens: int | None = Field(
        default=None, ge=-1, description="reasoning tokens, within max_tokens; 0: none; -1: no limit"
    )


class GeminiProvider(ApiProvider):
    """Asks a model of Google."""

    kind: ClassVar[str] = "gemini"
    renames_length: ClassVar[bool] = False
    options_class: ClassVar[type[ProviderOptions]] = GeminiOptions
    packages: ClassVar[tuple[str, ...]] = ("aiohttp", "google-auth")
    version_in_base: ClassVar[bool | None] = False
    options: GeminiOptions

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: PackPaths) -> Self:
        """The provider; nothing is imported or sent yet."""
        assert isinstance(options, GeminiOptions)
        check_installed(f"gemini:{model}", ("aiohttp",), INSTALL)
        said = checked_address(os.environ.get("GOOGLE_GEMINI_BASE_URL"), "GOOGLE_GEMINI_BASE_URL")
        secret = find_key(_VARIABLES, options.api_key_env, options.api_key_file)
        return cls(model, options, options.base_url or said or ADDRESS, secret)

    @property
    def is_vertex(self) -> bool:
        """Whether the environment asks for Vertex AI."""
        return os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"1", "true"}

    def check_access(self) -> None:
        """Raises UsageError where there is no key; Vertex AI has credentials of its own."""
        if self._credentials is not None:
            self._credentials.check(self.name)
        elif self.secret is None and self.base_url == ADDRESS:
            raise missing_key(self.name, _VARIABLES)

    @cached_property
    def endpoint(self) -> Endpoint:
        """The Gemini API, or Vertex AI: in a project, or with a key of its own (express mode)."""
        headers = {"Content-Type": "application/json"}
        if self.secret is not None and self._credentials is None:
            headers["x-goog-api-key"] = self.secret.value
        if not self.is_vertex:
            return Endpoint(f"{self.base_url}/v1beta", headers)
        where = vertex_place() if self._credentials is not None else None
        root = self.base_url if self.base_url != ADDRESS else vertex_address(where)
        return Endpoint(f"{root}/v1{where.path if where else ''}/publishers/google", headers)

    @cached_property
    def _credentials(self) -> GoogleCredentials | None:
        """Of Vertex AI; None for all that a key opens."""
        return GoogleCredentials() if self.is_vertex and vertex_place() is not None else None

    @property
    def settings(self) -> dict[str, JsonValue]:
        """What shapes the text."""
        return self.shared_settings(("max_tokens", "temperature", "top_p", "seed", "reasoning_tokens"), ADDRESS)

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
        settings: dict[str, JsonValue] = {"maxOutputTokens": options.max_tokens}
        for ours, theirs in (("temperature", "temperature"), ("top_p", "topP"), ("seed", "seed")):
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

    def learn_from(self, error: ApiError, body: Mapping[str, JsonValue]) -> bool:
        """The parameters are one level deeper than elsewhere."""
        settings = body["generationConfig"]
        assert isinstance(settings, dict)
        return super().learn_from(error, {**body, **settings})

    def download_url(self, path: str) -> str:
        """Files are downloaded from addresses of their own, on the same server."""
        return f"{self.base_url}/download/v1beta{path}"

    async def headers_for(self, method: str, url: str, body: bytes | FormFile | None) -> Mapping[str, str]:
        """With a token of Google's credentials on Vertex AI, which they renew themselves."""
        headers = await super().headers_for(method, url, body)
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
        finish = "content_filter" if not candidates else finish_reason(reason)
        parts = tables_of(table_of(candidate.get("content")).get("parts"))
        text = "".join(text_of(part.get("text")) for part in parts if not part.get("thought"))
        results = {
            name: found
            for name, found in (("prompt", feedback or None), ("answer", candidate.get("safetyRatings")))
            if found
        }
        return {
            "text": text or (None if finish == "content_filter" else ""),
            "finish_reason": finish,
            "provider_finish_reason": reason,
            "content_filter": results or None,
            "reasoning": "".join(words_of(part.get("text")) or "" for part in parts if part.get("thought")) or None,
            "model": words_of(payload.get("modelVersion")),
            "request_id": words_of(payload.get("responseId")) or headers.get("x-request-id"),
            "usage": _usage(payload.get("usageMetadata")),
        }


def _usage(found: Any) -> Usage:
    """Tokens; thinking counts as output."""
    if not isinstance(found, dict):
        return Usage()
    written = count_or_none(found.get("candidatesTokenCount"))
    reasoning = count_or_none(found.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=found.get("promptTokenCount"),
        output_tokens=None if written is None and reasoning is None else (written or 0) + (reasoning or 0),
        reasoning_tokens=reasoning,
        cached_input_tokens=found.get("cachedContentTokenCount"),
    )
