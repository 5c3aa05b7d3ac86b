"""Google's models: `gemini:MODEL`, through the official client, on the Gemini API or on Vertex AI.

All that the official client takes from the environment holds: GEMINI_API_KEY or GOOGLE_API_KEY, GOOGLE_GEMINI_BASE_URL,
GOOGLE_GENAI_USE_VERTEXAI with a project and a location. What its filters stop is `filtered`.
Reference: https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import Field, JsonValue

from mbbq_gen.providers.base import ProviderOptions
from mbbq_gen.providers.local_source import check_installed
from mbbq_gen.providers.remote.base import Endpoint, RemoteProvider
from mbbq_gen.providers.remote.credentials import find_key, missing_key
from mbbq_gen.providers.remote.faults import PassingError, ServiceError
from mbbq_gen.providers.remote.options import RemoteOptions, checked_address
from mbbq_gen.providers.remote.transport import Reply, passing_fault
from mbbq_gen.records import Request, Usage
from mbbq_gen.resources import Resources

if TYPE_CHECKING:
    from google import genai
    from google.genai import errors, types

INSTALL: Final = "pip install 'mbbq-gen[gemini]'"
ADDRESS: Final = "https://generativelanguage.googleapis.com"
_VARIABLES: Final = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_BLOCKED: Final = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK"}
)
_UNREAD: Final = {"sdk_http_response", "parsed", "automatic_function_calling_history"}
"""What the official client adds to an answer."""


class GeminiOptions(RemoteOptions):
    """Options of `gemini:MODEL`."""

    seed: int | None = Field(default=None, description="seed of the service")
    thinking_tokens: int | None = Field(
        default=None, ge=-1, description="tokens for thinking, within max_new_tokens; 0: none; -1: as many as it likes"
    )


class GeminiProvider(RemoteProvider):
    """Asks a model of Google."""

    kind: ClassVar[str] = "gemini"
    options_class: ClassVar[type[ProviderOptions]] = GeminiOptions
    packages: ClassVar[tuple[str, ...]] = ("google-genai", "aiohttp")
    options: GeminiOptions

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: Resources) -> Self:
        """The provider; nothing is imported or asked yet."""
        assert isinstance(options, GeminiOptions)
        check_installed(f"gemini:{model}", ("google.genai", "aiohttp"), INSTALL)
        said = checked_address(os.environ.get("GOOGLE_GEMINI_BASE_URL"), "GOOGLE_GEMINI_BASE_URL")
        secret = find_key(_VARIABLES, options.api_key_env, options.api_key_file)
        return cls(model, options, options.base_url or said or ADDRESS, secret)

    @property
    def _on_vertex(self) -> bool:
        return os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in {"1", "true"}

    def check_access(self) -> None:
        """Raises UsageError where there is no key; Vertex AI has credentials of its own."""
        if self.secret is None and not self._on_vertex and self.base_url == ADDRESS:
            raise missing_key(self.name, _VARIABLES)

    @cached_property
    def endpoint(self) -> Endpoint:
        """For addresses that the official client is not asked for."""
        headers = {"Content-Type": "application/json", "x-goog-api-key": self.secret.value if self.secret else ""}
        return Endpoint(f"{self.base_url}/v1beta", headers)

    @property
    def settings(self) -> dict[str, JsonValue]:
        """What shapes the text."""
        return self.shared_settings(("max_new_tokens", "temperature", "top_p", "seed", "thinking_tokens"), ADDRESS)

    @property
    def path(self) -> str:
        """Where the official client posts."""
        return f"/models/{self.model}:generateContent"

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a generateContent request."""
        options = self.options
        names = {"user": "user", "assistant": "model"}
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        settings: dict[str, JsonValue] = {"maxOutputTokens": options.max_new_tokens}
        for ours, theirs in (("temperature", "temperature"), ("top_p", "topP"), ("seed", "seed")):
            if (value := getattr(options, ours)) is not None:
                settings[theirs] = value
        if options.thinking_tokens is not None:
            settings["thinkingConfig"] = {"thinkingBudget": options.thinking_tokens}
        body: dict[str, JsonValue] = {
            "contents": [
                {"role": names[message.role], "parts": [{"text": message.content}]}
                for message in request.messages
                if message.role != "system"
            ],
            "generationConfig": self.learned.apply(settings | options.extra),
        }
        return body | {"systemInstruction": {"parts": [{"text": system}]}} if system else body

    def learn_from(self, error: ServiceError, body: Mapping[str, JsonValue]) -> bool:
        """The parameters stand a level further in than elsewhere."""
        settings = body["generationConfig"]
        assert isinstance(settings, dict)
        return super().learn_from(error, settings)

    async def post(self, body: Mapping[str, JsonValue]) -> Reply:
        """Sends one request through the official client."""
        import aiohttp
        import httpx
        from google.genai import errors

        config: dict[str, Any] = dict(body["generationConfig"])  # type: ignore[arg-type]
        if "systemInstruction" in body:
            config["systemInstruction"] = body["systemInstruction"]
        contents: Any = body["contents"]
        try:
            answer = await self._client.aio.models.generate_content(
                model=self.model, contents=contents, config=self._config(config)
            )
        except errors.APIError as error:
            return self._masked(_error_reply(error))
        except (httpx.HTTPError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise passing_fault(error, self.options.timeout) from error
        except (ValueError, errors.UnknownApiResponseError) as error:
            raise PassingError("malformed", f"answered something that is not JSON ({type(error).__name__})") from error
        found = answer.sdk_http_response
        headers = {name.lower(): value for name, value in ((found.headers if found else None) or {}).items()}
        said = answer.model_dump_json(by_alias=True, exclude_none=True, exclude=_UNREAD)
        return self._masked(Reply(200, headers, said.encode()))

    def _masked(self, reply: Reply) -> Reply:
        """The reply without the key: the official client's connections are not ours."""
        return Reply(reply.status, self.mask.headers(reply.headers), self.mask.body(reply.body))

    def _config(self, settings: Mapping[str, Any]) -> types.GenerateContentConfig:
        from google.genai import types

        return types.GenerateContentConfig.model_validate(settings)

    def prepare(self) -> None:
        """The official client asks, so it is what has to be made."""
        _ = self._client

    @cached_property
    def _client(self) -> genai.Client:
        from google import genai
        from google.genai import types

        http = types.HttpOptions(
            base_url=self.base_url if self.base_url != ADDRESS else None,
            timeout=int(self.options.timeout * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        if self._on_vertex:
            return genai.Client(http_options=http)
        return genai.Client(api_key=self.secret.value if self.secret else "none", http_options=http)

    async def aclose(self) -> None:
        """Closes the connections of both kinds."""
        if "_client" in self.__dict__:
            await self._client.aio.aclose()
            del self.__dict__["_client"]
        await super().aclose()

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a generateContent answer."""
        if not isinstance(payload, dict):
            raise PassingError("malformed", "answered JSON that is no answer")
        candidates = payload.get("candidates") or []
        feedback = payload.get("promptFeedback") or {}
        if not candidates and not feedback.get("blockReason"):
            raise PassingError("malformed", "answered without a candidate")
        candidate = candidates[0] if candidates else {}
        reason = candidate.get("finishReason") or feedback.get("blockReason")
        finish = "content_filter" if not candidates else _finish(reason)
        parts = (candidate.get("content") or {}).get("parts") or []
        text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
        verdicts = {
            name: found
            for name, found in (("prompt", feedback or None), ("answer", candidate.get("safetyRatings")))
            if found
        }
        return {
            "text": text or (None if finish == "content_filter" else ""),
            "finish_reason": finish,
            "service_finish_reason": reason,
            "content_filter": verdicts or None,
            "reasoning": "".join(part.get("text") or "" for part in parts if part.get("thought")) or None,
            "model": payload.get("modelVersion"),
            "request_id": payload.get("responseId") or headers.get("x-request-id"),
            "usage": _usage(payload.get("usageMetadata")),
        }

    async def model_names(self) -> list[str]:
        """The models that the service has."""
        try:
            listed = (await self.wire.send("GET", self.url("/models"), self.endpoint.headers, None)).json()
        except PassingError:
            return []
        entries = listed.get("models") if isinstance(listed, dict) else None
        return [str(entry["name"]).removeprefix("models/") for entry in entries or [] if "name" in entry]


def _finish(reason: str | None) -> Literal["stop", "length", "content_filter", "other"] | None:
    if reason is None:
        return None
    if reason in _BLOCKED:
        return "content_filter"
    return "stop" if reason == "STOP" else "length" if reason == "MAX_TOKENS" else "other"


def _error_reply(error: errors.APIError) -> Reply:
    """An exception of the official client as the reply that it was made from."""
    headers = getattr(error.response, "headers", None) or {}
    body = json.dumps(error.details, default=str).encode()
    return Reply(int(error.code), {str(name).lower(): str(value) for name, value in headers.items()}, body)


def _usage(found: Any) -> Usage:
    """Tokens; thinking counts as output."""
    if not isinstance(found, dict):
        return Usage()
    written, thought = found.get("candidatesTokenCount"), found.get("thoughtsTokenCount")
    return Usage(
        input_tokens=found.get("promptTokenCount"),
        output_tokens=None if written is None and thought is None else (written or 0) + (thought or 0),
        reasoning_tokens=thought,
        cached_input_tokens=found.get("cachedContentTokenCount"),
    )
