"""Models in Ollama: `ollama:MODEL`, over Ollama's own API, which accepts all settings of sampling and context.

Ollama's OpenAI-compatible API has no context length and no repetition penalty, and truncates longer prompts without an
error. Here the context fits the longest prompt so far plus the answer, and sampling is neutral.
Base URL: --base-url, or http://127.0.0.1:11434. Reference: docs/api.md of Ollama.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Request, Response, Usage
from mbbq_gen.providers.api.options import RemoteOptions
from mbbq_gen.providers.api.provider import ApiProvider, turns_of
from mbbq_gen.providers.base import NEUTRAL_SAMPLING, SamplingOptions
from mbbq_gen.providers.http.errors import TransientError, finish_reason
from mbbq_gen.providers.http.replies import table_of, text_of, text_or_none, value_at
from mbbq_gen.providers.http.servers import storable_facts

_LEAST_CONTEXT: Final = 4096
_BYTES_A_TOKEN: Final = 2
"""Minimum bytes per token, chat template included; most tokenizers have 3 or more."""


class OllamaOptions(RemoteOptions, SamplingOptions):
    """Options of `ollama:MODEL`."""

    seed: int | None = Field(default=None, description="seed of sampling")
    num_ctx: int | None = Field(
        default=None, ge=256, description="context length in tokens; default: as the longest prompt needs"
    )


class OllamaProvider(ApiProvider):
    """A model in Ollama."""

    kind = "ollama"
    options_class = OllamaOptions
    address = "http://127.0.0.1:11434"
    setting_names = ("max_tokens", "temperature", *NEUTRAL_SAMPLING, "seed", "num_ctx")
    path = "/api/chat"
    base_url_form = "--base-url, which has no version at its end"
    options: OllamaOptions

    def __init__(self, model: str, options: OllamaOptions) -> None:
        """As `ApiProvider`."""
        super().__init__(model, options)
        self.needs_key, self.own_settings = False, {"sampling": options.sampling or "neutral"}
        self._num_ctx = _LEAST_CONTEXT
        """The requested context length; it only grows, since each change reloads the model."""
        self._facts: dict[str, JsonValue] | None = None
        neutral = {} if options.sampling == "server" else NEUTRAL_SAMPLING
        self._sampling: dict[str, JsonValue] = {**neutral, **options.given_sampling}
        self._sent = {name.replace("repetition_", "repeat_"): value for name, value in self._sampling.items()}

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a chat request."""
        longest = self.longest_answer(request)
        size = sum(len(message.content.encode()) + 64 for message in request.messages)
        while self._num_ctx < size // _BYTES_A_TOKEN + longest:
            self._num_ctx *= 2
        lengths = {"num_predict": longest, "num_ctx": self.options.num_ctx or self._num_ctx}
        body: dict[str, JsonValue] = {
            "model": self.model,
            "messages": turns_of(request.messages),
            "stream": False,
            "keep_alive": "10m",
            "options": {**self.given("temperature", "seed"), **self._sent, **lengths},
        }
        if request.prompt.reasoning_effort is not None:
            body |= self.reasoning_settings(request.prompt.reasoning_effort).sent
        return self.learned.apply(body | self.options.extra)

    async def prepare(self, request: Request | None = None) -> Response | None:
        """Fetches version and facts of the model once."""
        if self._facts is not None:
            return None
        self._facts = {"name": "ollama"}
        try:
            version = await self.call("GET", "/api/version", accept=(404,), repeat=False)
            shown = await self.call("POST", "/api/show", body={"model": self.model}, accept=(404,), repeat=False)
        except (ProviderError, TransientError):
            self._facts = None  # the request itself reports the failure, or waits
            return None
        found = table_of(shown.json())
        sizes = table_of(found.get("model_info")).items()
        facts = {
            "version": value_at(version.json(), "version"),
            "chat_template": found.get("template"),
            "quantization": value_at(found, "details.quantization_level"),
            "parameters": value_at(found, "details.parameter_size"),
            "context_length": next((n for key, n in sizes if key.endswith("context_length")), None),
            "sampling_defaults": found.get("parameters"),
        }
        self._facts |= storable_facts(facts)
        return None

    def runtime_info(self) -> dict[str, JsonValue]:
        """As `ApiProvider`; also the server, the sampling as sent and by our names, and the context length."""
        applied = dict.fromkeys(NEUTRAL_SAMPLING) | {"temperature": self.options.temperature, **self._sampling}
        info = super().runtime_info() | {"server": self._facts or {"name": "ollama"}, "sampling_sent": self._sent}
        return info | {"sampling": applied, "num_ctx": self.options.num_ctx or self._num_ctx}

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a chat answer."""
        message, reason = payload["message"], text_or_none(payload.get("done_reason"))
        return {
            "text": text_of(message.get("content")),
            "reasoning": text_or_none(message.get("thinking")) or None,
            "finish_reason": finish_reason(reason),
            "provider_finish_reason": reason,
            "model": text_or_none(payload.get("model")),
            "usage": Usage(input_tokens=payload.get("prompt_eval_count"), output_tokens=payload.get("eval_count")),
        }
