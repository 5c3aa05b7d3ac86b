"""What a provider is: something that turns requests into responses, and says what shaped them.

Two kinds of knowledge are kept apart, because cache and resume stand on the first one:

* `settings` shape the text: model, its files' digest, sampling, system prompt… They are part of the request key.
* `facts` are true of a run but do not change the text: threads, device, versions. They go into the manifest only.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue

from mbbq_gen.core.errors import MissingExtraError, UsageError
from mbbq_gen.core.files import PackPaths, stable_digest
from mbbq_gen.core.reasoning import ReasoningSettings, refusal
from mbbq_gen.core.records import Message, Method, Prompt, Request, Response
from mbbq_gen.core.tables import UnreadableError, json_value


class Provider(Protocol):
    """A model that answers requests."""

    @property
    def kind(self) -> str:
        """The part before the colon in `kind:model`."""

    @property
    def model(self) -> str:
        """The part after the colon, as reports show it."""

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Everything that shapes the text of an answer; equal settings and messages give an equal request key."""

    def runtime_info(self) -> dict[str, JsonValue]:
        """What the manifest should know beside the settings; complete only after the first answer."""

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """What cache and resume use: see the function `request_key`."""

    def generate(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """The responses one by one as they finish, in any order, each with its request's key.

        The requests are taken as they are needed, on the caller's thread. A request that fails gives a response with
        `error`; what stops them all raises. Closing the generator, or cancelling its task, stops the work soon.

        Raises:
            ProviderError: where no further request can succeed.
        """

    async def aclose(self) -> None:
        """Frees what the provider holds: threads, connections, the model's memory."""


def _read_json(value: Any) -> Any:
    """A command line gives a table as text."""
    if not isinstance(value, str):
        return value
    try:
        return json_value(value)
    except UnreadableError as error:
        raise ValueError(str(error)) from error


JsonTable = Annotated[dict[str, JsonValue], BeforeValidator(_read_json)]
"""An option that is a table: a dict, or its JSON text."""


class LoglikelihoodProvider(Provider, Protocol):
    """A model that also tells how likely it finds answers."""

    @property
    def methods(self) -> frozenset[Method]:
        """The ways of asking, beside `generate`."""

    def score_options(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """Responses with `scores`, otherwise as `generate`: one `ContinuationScore` per continuation, in order."""


def loglikelihood_provider(provider: Provider) -> LoglikelihoodProvider | None:
    """The provider, if it tells how likely it finds answers."""
    return provider if hasattr(provider, "score_options") else None  # type: ignore[return-value]


def require_methods(provider: Provider, methods: Iterable[Method]) -> None:
    """Makes sure that a model supports these methods.

    Raises:
        UsageError: where it can't.
    """
    scoring = loglikelihood_provider(provider)
    known = scoring.methods if scoring else frozenset()
    for method in methods:
        if method != "generate" and method not in known:
            ways = ", ".join(["generate", *sorted(known)])
            raise UsageError(
                f"--method {method}: {provider.kind}:{provider.model} does not support this method; it supports: {ways}"
            )


def reasoning_settings(provider: Provider, levels: Iterable[str]) -> dict[str, ReasoningSettings]:
    """What each level of thinking comes to at a model.

    Raises:
        UsageError: where it does not support it.
    """
    wanted = list(levels)
    find: Callable[[str], ReasoningSettings] | None = getattr(provider, "reasoning_settings", None)
    if wanted and find is None:
        raise refusal(f"{provider.kind}:{provider.model}", wanted[0], "has no such setting; leave it out")
    return {level: find(level) for level in wanted} if find else {}


def prompt_key(provider: Provider, prompt: Prompt) -> str:
    """The request key of what is shown: of the messages and the level of thinking, and where likelihoods are requested,
    of the answers."""
    key = provider.request_key(prompt.messages, prompt.prompt_id)
    if prompt.reasoning_effort is not None:
        key = stable_digest(json.dumps([key, "reasoning", prompt.reasoning_effort], separators=(",", ":")))
    if prompt.method == "generate":
        return key
    answers = [[answer.option, answer.text] for answer in prompt.continuations]
    prior = [[message.role, message.content] for message in prompt.unconditional_prompt]
    return stable_digest(json.dumps([key, prompt.method, answers, prior], separators=(",", ":")))


class ProviderOptions(BaseModel):
    """The options of a kind of provider: bounds, help and defaults are said here once. Unknown ones are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    may_change: ClassVar[frozenset[str]] = frozenset()
    """Options that shape no text: a run may go on with other values of them."""


class ProviderClass(Protocol):
    """How the registry makes a provider: the class that a third party's entry point leads to is one of these."""

    options_class: type[ProviderOptions]
    """The options that this kind takes."""

    def open(self, model: str, options: ProviderOptions, resources: PackPaths) -> Provider:
        """The provider for a model (a class method); checks what is cheap to check and loads nothing heavy.

        Raises:
            UsageError: where the model can't be had as it was named.
        """


def request_key(
    kind: str,
    model: str,
    settings: Mapping[str, JsonValue],
    messages: Sequence[Message],
    prompt_id: str | None = None,
) -> str:
    """The sha256, in hexadecimal, of all that shapes an answer.

    `prompt_id` is given only by the responders whose answer depends on more than the messages: the scripted one
    and the oracles. For all others the same messages are the same request, whatever prompt they come from.
    """
    turns = [[message.role, message.content] for message in messages]
    return stable_digest(json.dumps([kind, model, settings, turns, prompt_id], sort_keys=True, separators=(",", ":")))


def check_installed(model: str, modules: tuple[str, ...], command: str) -> None:
    """Raises MissingExtraError where a module is not installed: it says which, and the command that installs them."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise MissingExtraError(f"{model} needs {', '.join(missing)} (not installed); run: {command}")


def is_installed(module: str) -> bool:
    """Whether a module can be imported; nothing is imported to find out, save the packages that hold it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
