"""Models in Ollama: `ollama:MODEL`, over Ollama's own API, which takes all settings of sampling and of the context.

Ollama's OpenAI-compatible API takes no context length and no repetition penalty, and cuts longer prompts without an
error. Here the context is set from the longest prompt so far plus the answer, and sampling is neutral.
Address: --base-url, OLLAMA_HOST, or http://127.0.0.1:11434. Reference: docs/api.md of Ollama.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Final, Self

from pydantic import Field, JsonValue

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.reasoning import ReasoningSettings, refusal, tokens_of
from mbbq_gen.core.records import Request, Usage
from mbbq_gen.providers.api.options import RemoteOptions, checked_address
from mbbq_gen.providers.api.provider import ApiProvider, Endpoint
from mbbq_gen.providers.base import ProviderOptions, check_installed
from mbbq_gen.providers.http.credentials import find_key
from mbbq_gen.providers.http.errors import TransientError, finish_reason
from mbbq_gen.providers.http.transport import table_of, text_of, words_of

ADDRESS: Final = "http://127.0.0.1:11434"
_PORT: Final = 11434
_LEAST_CONTEXT: Final = 4096
_BYTES_A_TOKEN: Final = 2
"""Bytes of text that become a token at the least, chat template included: most tokenizers need 3 or more."""


class OllamaOptions(RemoteOptions):
    """Options of `ollama:MODEL`."""

    top_p: float | None = Field(default=1.0, gt=0.0, le=1.0, description="share of the likeliest tokens; 1: all")
    top_k: int = Field(default=0, ge=0, description="number of the likeliest tokens; 0: all")
    min_p: float = Field(default=0.0, ge=0.0, le=1.0, description="least probability, as a share of the largest")
    repeat_penalty: float = Field(default=1.0, gt=0.0, description="repetition penalty; 1: none")
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0, description="0: none")
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0, description="0: none")
    seed: int | None = Field(default=None, description="seed of sampling")
    num_ctx: int | None = Field(
        default=None, ge=256, description="context length in tokens; default: as the longest prompt needs"
    )
    keep_alive: str = Field(default="10m", description="how long the model stays loaded after an answer")


class OllamaProvider(ApiProvider):
    """Asks a model in Ollama."""

    kind: ClassVar[str] = "ollama"
    options_class: ClassVar[type[ProviderOptions]] = OllamaOptions
    models_path: ClassVar[str] = "/api/tags"
    version_in_base: ClassVar[bool | None] = False
    renames_length: ClassVar[bool] = False
    options: OllamaOptions

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: PackPaths) -> Self:
        """The provider; nothing is asked yet."""
        assert isinstance(options, OllamaOptions)
        check_installed(f"ollama:{model}", ("aiohttp",), "pip install 'mbbq-gen[api]'")
        base_url = (options.base_url or _host() or ADDRESS).removesuffix("/v1")
        return cls(model, options, base_url, find_key((), options.api_key_env, options.api_key_file))

    @cached_property
    def endpoint(self) -> Endpoint:
        """The server; a key is only needed behind a proxy."""
        key = {"Authorization": f"Bearer {self.secret.value}"} if self.secret else {}
        return Endpoint(self.base_url, {"Content-Type": "application/json"} | key)

    def check_access(self) -> None:
        """Nothing is needed: Ollama takes no key."""

    @property
    def path(self) -> str:
        """Where a question is posted."""
        return "/api/chat"

    @property
    def settings(self) -> dict[str, JsonValue]:
        """What shapes the text; the context length does not, as long as nothing is cut."""
        names = ("max_tokens", "temperature", *_SAMPLING, "seed", "num_ctx")
        return self.shared_settings(names, ADDRESS)

    @cached_property
    def _context(self) -> list[int]:
        """The context length that is asked for; it only grows, because another one loads the model anew."""
        return [_LEAST_CONTEXT]

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a chat request."""
        options = self.options
        longest = self.longest_answer(request)
        size = sum(len(message.content.encode()) + 64 for message in request.messages)
        while self._context[0] < size // _BYTES_A_TOKEN + longest:
            self._context[0] *= 2
        sampling: dict[str, JsonValue] = {
            name: value
            for name in ("temperature", *_SAMPLING, "seed")
            if (value := getattr(options, name)) is not None
        }
        sampling |= {"num_predict": longest, "num_ctx": options.num_ctx or self._context[0]}
        body: dict[str, JsonValue] = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "stream": False,
            "keep_alive": options.keep_alive,
            "options": sampling,
        }
        if request.prompt.reasoning_effort is not None:
            body |= self.reasoning_settings(request.prompt.reasoning_effort).sent
        return self.learned.apply(body | options.extra)

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """`think`: false, true or an effort; raises UsageError for a number of tokens."""
        if tokens_of(level) is not None or level == "minimal":
            raise refusal(self.name, level, "takes none, default, low, medium or high")
        think: JsonValue = {"none": False, "default": True}.get(level, level)
        return self.check_reasoning(ReasoningSettings.of_level(level, {"think": think}))

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a chat answer."""
        message = table_of(payload).get("message")
        if not isinstance(message, dict):
            raise TransientError("malformed", "answered without a message")
        reason = words_of(payload.get("done_reason"))
        if reason == "load":
            raise TransientError("server", "the model is loading")
        return {
            "text": text_of(message.get("content")),
            "reasoning": words_of(message.get("thinking")) or None,
            "finish_reason": finish_reason(reason),
            "provider_finish_reason": reason,
            "model": words_of(payload.get("model")),
            "usage": Usage(input_tokens=payload.get("prompt_eval_count"), output_tokens=payload.get("eval_count")),
        }


_SAMPLING: Final = ("top_p", "top_k", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")


def _host() -> str | None:
    """The address in OLLAMA_HOST, written as Ollama takes it: with or without scheme and port; 0.0.0.0 is this machine.

    Raises:
        UsageError: it is no address.
    """
    said = os.environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not said:
        return None
    scheme, _, rest = said.rpartition("://")
    host, colon, port = rest.rpartition(":")
    host, port = (host, port) if colon and port.isdigit() else (rest, "443" if scheme == "https" else str(_PORT))
    host = "127.0.0.1" if host in ("", "0.0.0.0") else host
    return checked_address(f"{scheme or 'http'}://{host}:{port}", "OLLAMA_HOST")
