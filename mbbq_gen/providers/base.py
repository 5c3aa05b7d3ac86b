"""The interface of providers: a provider turns requests into responses and declares its capabilities.

Its `settings` affect the text (model, sampling, system prompt…) and are part of the request key. Its `runtime_info`
does not affect the text (threads, device, versions); it is stored in the manifest.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths, stable_digest
from mbbq_gen.core.reasoning import ReasoningSettings, effort_error
from mbbq_gen.core.records import Message, Method, Prompt, Request, Response, Usage
from mbbq_gen.core.tables import UnreadableError, json_value


def _read_json(value: Any) -> Any:
    """The table in a JSON text, as the command line passes it; any other value as it is."""
    try:
        return json_value(value) if isinstance(value, str) else value
    except UnreadableError as error:
        raise ValueError(str(error)) from error


JsonTable = Annotated[dict[str, JsonValue], BeforeValidator(_read_json)]
"""An option that is a table: a dict, or its JSON text."""


class ProviderOptions(BaseModel):
    """The options of a kind of provider, with bounds, help and defaults. Unknown options are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    may_change: ClassVar[frozenset[str]] = frozenset()
    """Options that do not affect the text: a run may be resumed with other values."""


NEUTRAL_SAMPLING: Final[Mapping[str, float]] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Sampling option → the value that changes no probability. All kinds of providers use these names."""


class SamplingOptions(ProviderOptions):
    """Sampling options of local models and of the user's own servers."""

    sampling: Literal["neutral", "server"] | None = Field(
        default=None,
        description="sampling that is not set below: neutral changes no probability; server leaves it to the server or "
        "to generation_config.json; default: neutral, and nothing is sent to services such as OpenAI",
    )
    top_p: float | None = Field(default=None, gt=0.0, le=1.0, description="share of the likeliest tokens; 1: all")
    top_k: int | None = Field(default=None, ge=0, description="number of the likeliest tokens; 0: all")
    min_p: float | None = Field(default=None, ge=0.0, le=1.0, description="least share of the largest probability")
    repetition_penalty: float | None = Field(
        default=None, gt=0.0, description="divides the scores of tokens in the prompt or the answer; 1: none"
    )
    presence_penalty: float | None = Field(default=None, ge=-2.0, le=2.0, description="0: none")
    frequency_penalty: float | None = Field(default=None, ge=-2.0, le=2.0, description="0: none")

    @property
    def given_sampling(self) -> dict[str, JsonValue]:
        """The sampling options that have a value."""
        return {name: value for name in NEUTRAL_SAMPLING if (value := getattr(self, name)) is not None}


BATCH_KINDS: Final = ("anthropic", "gemini", "openai")
"""Kinds of services that take batches (`providers.api.batches`)."""


@dataclass(frozen=True)
class Capabilities:
    """The features of a provider."""

    methods: frozenset[Method] = frozenset({"generate"})
    batches: bool = False
    reasoning: bool = False
    """Whether a reasoning effort may be requested; the model may still refuse it."""
    structured_output: bool = False
    """Whether the service accepts a JSON schema for the answer."""
    base_url: str | None = None
    """The server's address; None: there is no server, so no request costs money."""
    local: bool = False
    """Whether the model runs on this machine, so that its speed can be measured."""
    batch_dependent: bool = False
    """Whether a text may depend on the other requests of its batch."""
    max_connections: int | None = None
    """Maximum concurrent requests; None: the provider has no such option."""
    rpm: int | None = None
    tpm: int | None = None
    """Maximum requests and tokens per minute; None: no limit."""


class SharedRateLimits(Protocol):
    """The user's rate limits, shared by several processes that use one service."""

    async def take(self, tokens: float) -> float:
        """As `RateLimits.take`."""

    def correct(self, tokens: float) -> None:
        """As `RateLimits.correct`."""


@dataclass
class ExecutionContext:
    """Callbacks and state that a run shares with its provider."""

    notify: Callable[[str], None] = lambda _: None
    """Receives notices for the user, a line each."""
    may_resend: Callable[[Request], bool] | None = None
    """Whether the budget allows a retry of a request that may already have been billed. None: always."""
    shared_limits: SharedRateLimits | None = None
    """Rate limits shared with other processes; None: the provider's own."""
    in_doubt: Counter[str] = field(default_factory=Counter)
    """Request key → number of attempts that may have been billed, for requests without a response so far. Providers
    with a `base_url` update it."""


class Provider(ABC):
    """A model that answers requests; `open`, `settings` and `generate` must be defined."""

    kind: str
    """The part before the colon in `kind:model`."""
    model: str
    """The part after the colon, as reports show it."""
    options_class: ClassVar[type[ProviderOptions]] = ProviderOptions

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The provider for a model; loads nothing heavy; may raise UsageError.

        `model`: the name after the colon. `options`: an `options_class`. `resources`: where packs are found.
        """
        raise NotImplementedError

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, JsonValue]:
        """Everything that affects the text of an answer; part of the request key."""

    @abstractmethod
    def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """Yields the responses as they finish, in any order, each with its request's key.

        `request.prompt.method` selects the result: a text, or `scores` with one `ContinuationScore` for each
        continuation, in their order. Requests are consumed lazily, on the caller's thread. A request that fails yields
        a response with `error`. Closing the generator, or cancelling its task, stops the work soon.

        Raises:
            ProviderError: no further request can succeed.
        """

    @property
    def name(self) -> str:
        """`kind:model`."""
        return f"{self.kind}:{self.model}"

    @property
    def capabilities(self) -> Capabilities:
        """The features of this provider."""
        return Capabilities()

    def runtime_info(self) -> dict[str, JsonValue]:
        """Facts for the manifest in addition to the settings; complete after the first answer."""
        return {}

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """The key for cache and resume; equal messages give an equal key."""
        return request_key(self.kind, self.model, self.settings, messages)

    def check_access(self) -> None:  # noqa: B027
        """Raises UsageError if something that requests need is missing, such as a key."""

    async def check_methods(self, methods: Collection[Method]) -> None:  # noqa: B027
        """Raises ProviderError, before the first request, if the server does not support these methods."""

    def check_dialogue(self) -> None:  # noqa: B027
        """Raises UsageError if the model does not accept a second turn of a conversation."""

    def max_usage(self, request: Request) -> Usage | None:
        """The maximum tokens that a request can use; None: unbounded."""
        return None

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """The parameters of a reasoning effort; raises UsageError if the model does not support it."""
        if self.capabilities.reasoning:
            return ReasoningSettings()
        raise effort_error(self.name, level, "has no setting for reasoning effort; leave it out")

    def make_optional(self, names: Iterable[str]) -> None:  # noqa: B027
        """Allows the provider to drop these fields of a request's body if the model refuses them."""

    def status(self) -> str:
        """Number of requests in flight, or why none is sent, for the progress line."""
        return ""

    async def aclose(self) -> None:  # noqa: B027
        """Releases threads, connections and the model's memory."""


def require_methods(provider: Provider, methods: Iterable[Method]) -> None:
    """Raises UsageError if a model does not support one of these methods."""
    known = sorted(provider.capabilities.methods, key=lambda method: (method != "generate", method))
    for method in methods:
        if method not in known:
            raise UsageError(f"--method {method}: {provider.name} does not support it; it supports: {', '.join(known)}")


def request_key(
    kind: str, model: str, settings: Mapping[str, JsonValue], messages: Sequence[Message], prompt_id: str | None = None
) -> str:
    """The sha256 of everything that affects an answer; `prompt_id` is for scripts and oracles only."""
    turns = [[message.role, message.content] for message in messages]
    return stable_digest(json.dumps([kind, model, settings, turns, prompt_id], sort_keys=True, separators=(",", ":")))


def prompt_key(provider: Provider, prompt: Prompt) -> str:
    """The request key of a prompt: messages, reasoning effort, and continuations if it is scored."""
    key = provider.request_key(prompt.messages, prompt.prompt_id)
    if prompt.reasoning_effort is not None:
        key = stable_digest(json.dumps([key, "reasoning", prompt.reasoning_effort], separators=(",", ":")))
    if prompt.method == "generate":
        return key
    answers = [[answer.option, answer.text] for answer in prompt.continuations]
    prior = [[message.role, message.content] for message in prompt.unconditional_prompt]
    return stable_digest(json.dumps([key, prompt.method, answers, prior], separators=(",", ":")))


def is_installed(module: str) -> bool:
    """Whether a module can be imported; imports at most its parent packages."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def versions_of(packages: Iterable[str]) -> dict[str, JsonValue]:
    """Package → its installed version, or None."""
    found = dict[str, JsonValue].fromkeys(packages)
    for package in found:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
