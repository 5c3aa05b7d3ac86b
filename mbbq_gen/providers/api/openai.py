"""OpenAI's models, and every server that speaks its language: vLLM, Ollama, LM Studio, llama.cpp, Azure, and many more.

`openai:MODEL` asks OpenAI. `--base-url URL` asks another server. `--model-arg service=XYZ` takes address and key from
XYZ_BASE_URL and XYZ_API_KEY; `service=azure` asks a deployment on Azure (AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY).

For OpenAI and Azure, address, headers and authentication are those of the official client, made once; the requests go
over our own connections (`remote.transport`). Chat completions, or the responses API where a model answers only there.
Reference: https://platform.openai.com/docs/api-reference
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import ContinuationScore, Method, Request, Response, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.options import (
    ReasoningParameters,
    RemoteOptions,
    checked_address,
    openai_reasoning,
    server_reasoning,
)
from mbbq_gen.providers.api.provider import ApiProvider, Endpoint
from mbbq_gen.providers.base import ProviderOptions, check_installed
from mbbq_gen.providers.http.credentials import EntraTokens, find_key, missing_key
from mbbq_gen.providers.http.errors import ApiError, TransientError, classify_error, finish_reason
from mbbq_gen.providers.http.scheduler import Scheduler
from mbbq_gen.providers.http.transport import FormFile, HttpResponse, table_of, tables_of, text_of, words_of

if TYPE_CHECKING:
    import openai

INSTALL: Final = "pip install 'mbbq-gen[api]'"
SERVICES: Final[Mapping[str, str]] = {
    "openai": "https://api.openai.com/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
}
"""Services whose address is known; any other is named by XYZ_BASE_URL."""
REASONING_BY: Final[Mapping[str, ReasoningParameters]] = {
    "openai": "effort",
    "deepseek": "switch",
    "groq": "groq",
    "mistral": "effort",
    "openrouter": "openrouter",
    "together": "together",
    "xai": "effort",
}
"""How each of them gets the reasoning effort."""
_DEPLOYMENT: Final = re.compile(r"/openai/deployments/[^/]+/")
_AZURE_VERSION: Final = "2024-10-21"
_RESPONSES_ONLY: Final = re.compile(r"^(o\d+|gpt-[\d.]+)-pro\b|codex|deep-research|computer-use")
"""Models that are known to answer at the responses API only; of others it is learned."""

_OWN_TEMPERATURE: Final = re.compile(r"(?:^|/)(?:o\d+(?:-|$)|gpt-5(?!.*chat))")
"""Models that are known to take no temperature: it is not sent, and no request key says that it was."""

_MOST_NAMED: Final = 20
"""First tokens that OpenAI names at most."""

_NOT_TOLD: Final = "the answer has no logprobs: nothing tells how likely its first token was"


class OpenAIOptions(RemoteOptions):
    """Options of `openai:MODEL`."""

    service: str = Field(
        default="openai", pattern=r"^[a-z][a-z0-9_-]*$", description="service: xyz uses XYZ_API_KEY, XYZ_BASE_URL"
    )
    api: Literal["auto", "chat", "responses"] = Field(
        default="auto", description="chat completions or the responses API; auto: as the model needs it"
    )
    seed: int | None = Field(default=None, description="seed of the service, where it has one")
    reasoning_effort: str | None = Field(default=None, description="of reasoning models: minimal, low, medium, high")
    reasoning_by: ReasoningParameters | None = Field(
        default=None,
        description="parameter for --reasoning-effort: effort, groq, openrouter, together, "
        "switch (DeepSeek), template (vLLM, SGLang, llama.cpp); default: as the address tells",
    )
    top_logprobs: int = Field(
        default=_MOST_NAMED, ge=1, description="--method first-token-logprobs: first tokens to return"
    )
    entra: bool = Field(
        default=False, description="Azure: use tokens of Microsoft Entra (azure-identity) instead of a key"
    )
    api_version: str | None = Field(
        default=None, description=f"Azure; default: OPENAI_API_VERSION, or {_AZURE_VERSION}"
    )


class OpenAIProvider(ApiProvider):
    """Asks a server that speaks OpenAI's language."""

    kind: ClassVar[str] = "openai"
    options_class: ClassVar[type[ProviderOptions]] = OpenAIOptions
    packages: ClassVar[tuple[str, ...]] = ("openai", "aiohttp")
    version_in_base: ClassVar[bool | None] = True
    options: OpenAIOptions
    is_azure: bool
    """Whether requests go to Azure, whose addresses have versions and deployments."""

    def __init__(self, model: str, options: OpenAIOptions) -> None:
        """Raises UsageError where neither options nor environment tell where the service is."""
        prefix = options.service.upper().replace("-", "_")
        self.is_azure = options.service == "azure"
        self._variables = ("AZURE_OPENAI_API_KEY",) if self.is_azure else (f"{prefix}_API_KEY",)
        base_url = _azure_url(model, options) if self.is_azure else _base_url(prefix, options)
        secret = find_key(self._variables, options.api_key_env, options.api_key_file)
        if "temperature" not in options.model_fields_set and _OWN_TEMPERATURE.search(model):
            options = options.model_copy(update={"temperature": None})
        super().__init__(model, options, base_url, secret)
        self._at_responses = options.api == "responses" or (
            options.api == "auto" and self._is_official and _RESPONSES_ONLY.search(model) is not None
        )
        self._scores = False
        """Whether first tokens are requested."""
        self._told = False
        """Whether any answer has named them."""
        if self._at_responses and options.seed is not None:
            raise UsageError(f"{self.name}: the responses API takes no seed; leave --model-arg seed out")

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: PackPaths) -> Self:
        """The provider; nothing is imported or sent yet."""
        assert isinstance(options, OpenAIOptions)
        check_installed(f"openai:{model}", ("openai", "aiohttp"), INSTALL)
        return cls(model, options)

    @property
    def _is_official(self) -> bool:
        return self.is_azure or self.base_url == SERVICES["openai"]

    def check_access(self) -> None:
        """Raises UsageError where a service of the table is to be used without a key; local servers need none."""
        if self._entra is not None:
            self._entra.check(self.name)
            return
        if self.secret is None and (self.is_azure or self.base_url in SERVICES.values()):
            raise missing_key(self.name, self._variables)

    @cached_property
    def endpoint(self) -> Endpoint:
        """OpenAI and Azure: as the official client has it. Other servers take a key and nothing else.

        Half a second of start-up is what the official client costs; only its own services are worth it.
        """
        if not self._is_official:
            key = {"Authorization": f"Bearer {self.secret.value}"} if self.secret else {}
            return Endpoint(self.base_url, {"Content-Type": "application/json", "Accept": "application/json"} | key)
        client = self._client()
        headers = {**client.default_headers, **client.auth_headers}
        query = ""
        if self.is_azure:
            headers.pop("Authorization", None)
            headers["api-key"] = self.secret.value if self.secret else ""
            query = "" if self.base_url.endswith("/openai/v1") else f"?api-version={self._azure_version}"
        texts = {name: value for name, value in headers.items() if isinstance(value, str)}
        return Endpoint(str(client.base_url).rstrip("/"), texts, query)

    @cached_property
    def _entra(self) -> EntraTokens | None:
        """Tokens of Microsoft Entra, if requested."""
        return EntraTokens() if self.is_azure and self.options.entra else None

    async def headers_for(self, method: str, url: str, body: bytes | FormFile | None) -> Mapping[str, str]:
        """With a token where Entra gives them."""
        headers = await super().headers_for(method, url, body)
        if self._entra is None:
            return headers
        plain = {name: value for name, value in headers.items() if name != "api-key"}
        return {**plain, "Authorization": f"Bearer {await self._entra.token()}"}

    async def aclose(self) -> None:
        """Closes the connections, those of the credentials too."""
        if self._entra is not None:
            await self._entra.close()
        await super().aclose()

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        key = self.secret.value if self.secret else "none"
        if not self.is_azure:
            return openai.AsyncOpenAI(api_key=key, base_url=self.base_url, max_retries=0)
        return openai.AsyncAzureOpenAI(
            api_key=key, base_url=self.base_url, api_version=self._azure_version, max_retries=0
        )

    @property
    def _azure_version(self) -> str:
        options = self.options
        return options.api_version or os.environ.get("OPENAI_API_VERSION") or _AZURE_VERSION

    @property
    def settings(self) -> dict[str, JsonValue]:
        """What shapes the text: the server where it is not OpenAI's own, and all parameters."""
        names = ("max_tokens", "temperature", "top_p", "seed", "reasoning_effort", "reasoning_by")
        settings = self.shared_settings(names, SERVICES["openai"])
        if self.options.top_logprobs != _MOST_NAMED:
            settings["top_logprobs"] = self.options.top_logprobs
        return settings if self.options.api == "auto" else {**settings, "api": self.options.api}

    @property
    def methods(self) -> frozenset[Method]:
        """Chat completions name the likeliest first tokens; the responses API returns text only."""
        return frozenset() if self._at_responses else frozenset({"first-token-logprobs"})

    async def score_options(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """How likely each label is as the first token of the answer, as the service tells it.

        Raises:
            ProviderError: where it tells nothing of the kind, or no further request can succeed.
        """
        self._scores = True
        async with aclosing(Scheduler(self, self.rate_limiter).answers(requests)) as responses:
            async for response in responses:
                yield response

    @property
    def batch_endpoint(self) -> str:
        """What answers the requests of a batch: without what stands before it on other servers; Azure's has no /v1."""
        has_version = not self.is_azure or self.base_url.endswith("/v1")
        return f"/v1{self.path}" if has_version else self.path

    def url(self, path: str) -> str:
        """The whole address of a path; on Azure only chat completions are below the deployment."""
        whole = super().url(path)
        return whole if path == "/chat/completions" else _DEPLOYMENT.sub("/openai/", whole)

    @property
    def path(self) -> str:
        """Chat completions or responses."""
        return "/responses" if self._at_responses else "/chat/completions"

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body for the API in use."""
        options = self.options
        turns: list[JsonValue] = [{"role": message.role, "content": message.content} for message in request.messages]
        body: dict[str, JsonValue] = {"model": self.model}
        length = "max_completion_tokens" if self._is_official else "max_tokens"
        if self._at_responses:
            length = "max_output_tokens"
            body |= {"input": turns, length: options.max_tokens, "store": False}
        else:
            body |= {"messages": turns, length: options.max_tokens}
            if request.prompt.method == "first-token-logprobs":
                body |= {length: 1, "logprobs": True, "top_logprobs": options.top_logprobs}
        for name in ("temperature", "top_p"):
            if (value := getattr(options, name)) is not None:
                body[name] = value
        if options.seed is not None:
            body["seed"] = options.seed
        if options.reasoning_effort is not None:
            effort = options.reasoning_effort
            body |= {"reasoning": {"effort": effort}} if self._at_responses else {"reasoning_effort": effort}
        return self.learned.apply(self.with_reasoning(body, request, length) | options.extra)

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """In OpenAI's words, or in those of the server.

        Raises:
            UsageError: where the model is known not to take it.
        """
        if self._is_official and self.options.reasoning_by is None:
            told = openai_reasoning(self.name, self.model, level, at_responses=self._at_responses)
        else:
            told = server_reasoning(self.name, self.model, level, self.options.reasoning_by or self._reasoning_by)
        return self.check_reasoning(told, "reasoning_effort")

    @property
    def _reasoning_by(self) -> ReasoningParameters:
        """The parameter, by the server's address; one that nobody knows is taken for one with chat templates."""
        return next((by for name, by in REASONING_BY.items() if SERVICES[name] == self.base_url), "template")

    def learn_from(self, error: ApiError, body: Mapping[str, JsonValue]) -> bool:
        """Also learns that a model answers at the responses API only."""
        if classify_error(error) == "other_api":
            if self._at_responses or self.options.api != "auto":
                return False
            if self._scores:
                raise self._tells_nothing("it answers at the responses API only")
            if self.options.seed is not None:
                raise ProviderError(
                    f"{self.name} answers at the responses API only, which takes no seed; in a new run folder, leave"
                    " --model-arg seed out"
                )
            self._at_responses = True
            self._say_once(f"{self.name} answers at the responses API only: asking there")
            return True
        return super().learn_from(error, body)

    def runtime_info(self) -> dict[str, JsonValue]:
        """Also which API answered."""
        return super().runtime_info() | {"api": "responses" if self._at_responses else "chat"}

    def error_in(self, reply: HttpResponse, payload: Any) -> ApiError | None:
        """What failed; where first tokens are not returned, that is the end.

        Raises:
            ProviderError: then.
        """
        error = super().error_in(reply, payload)
        if error is not None and self._scores and "logprob" in f"{error.message} {error.parameter}".lower():
            raise self._tells_nothing(f"{self.hide(error.words)} ({error.status})")
        return error

    def read(self, request: Request, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """The response to a request: its words, or how likely its labels are.

        Raises:
            TransientError: as `parse`.
            ProviderError: where no answer tells how likely its first token was.
        """
        response = super().read(request, payload, headers, **more)
        is_unanswered = response.error is not None or response.finish_reason == "content_filter"
        if request.prompt.method != "first-token-logprobs" or is_unanswered:
            return response
        tokens = first_tokens(payload)
        self._told = self._told or bool(tokens)
        if not self._told:
            raise self._tells_nothing("its answers have no logprobs")
        answers = request.prompt.continuations
        scores = tuple(ContinuationScore.of(answer, tokens.get(answer.text), 1) for answer in answers)
        told = {"scores": scores} if tokens else {"error": _NOT_TOLD}
        kept = response.model_dump(exclude={"text", "refusal", "finish_reason", "scores", "error"})
        return Response(**kept, **told, finish_reason="stop" if tokens else response.finish_reason)

    def _tells_nothing(self, why: str) -> ProviderError:
        """Why the labels' probabilities can't be had, in one line."""
        fewer = "give --model-arg top_logprobs=N, a smaller number, or " if "top_logprobs" in why else ""
        return ProviderError(
            f"{self.name}: {self.base_url} does not return probabilities of first tokens: {why};"
            f" in a new run folder, {fewer}ask by --method generate"
        )

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a chat completion or of a response."""
        if not isinstance(payload, dict):
            raise TransientError("malformed", "the response is JSON without an answer")
        read = _response_fields if payload.get("object") == "response" or "output" in payload else _chat_fields
        fields = read(payload)
        fields["request_id"] = headers.get("x-request-id") or words_of(payload.get("id"))
        fields["model"] = words_of(payload.get("model"))
        fields["system_fingerprint"] = words_of(payload.get("system_fingerprint"))
        return fields


def first_tokens(payload: Any) -> dict[str, float]:
    """Text of each first token in a chat completion → its natural log-probability; empty without `logprobs`.

    A service names the likeliest first tokens only, 20 at most at OpenAI. A label that is missing is less likely than
    all of them; how much less is unknown.

        {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [
            {"token": "A", "logprob": -0.1}, {"token": " B", "logprob": -2.5}, …]}]}, …}]}

    Shape: https://platform.openai.com/docs/api-reference/chat/object
    """
    choices = tables_of(table_of(payload).get("choices"))
    content = tables_of(table_of(choices[0].get("logprobs")).get("content")) if choices else []
    named = tables_of(content[0].get("top_logprobs")) if content else []
    found: dict[str, float] = {}
    for entry in [*named, content[0]] if named else []:
        token, logprob = words_of(entry.get("token")), entry.get("logprob")
        if token is None or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            continue
        if math.isfinite(logprob):
            found[token] = max(float(logprob), found.get(token, -math.inf))
    return found


def _base_url(prefix: str, options: OpenAIOptions) -> str:
    """The server: as said, as the environment says, or the one known for the service."""
    said = checked_address(os.environ.get(f"{prefix}_BASE_URL"), f"{prefix}_BASE_URL")
    named = options.base_url or said or SERVICES.get(options.service)
    if named is None:
        raise UsageError(f"service {options.service!r}: set {prefix}_BASE_URL, or give --base-url URL")
    return named


def _azure_url(model: str, options: OpenAIOptions) -> str:
    """The address of a deployment."""
    said = checked_address(os.environ.get("AZURE_OPENAI_ENDPOINT"), "AZURE_OPENAI_ENDPOINT")
    root = options.base_url or said
    if root is None:
        raise UsageError("service 'azure': set AZURE_OPENAI_ENDPOINT, or give --base-url https://NAME.openai.azure.com")
    return root if "/openai/" in root else f"{root}/openai/deployments/{model}"


def _chat_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Text, reasoning, refusal, filter results and usage of a chat completion."""
    choices = tables_of(payload.get("choices"))
    if not choices:
        raise TransientError("malformed", "the response has no choice")
    choice, usage = choices[0], _usage(payload.get("usage"), "prompt", "completion")
    if choice.get("error"):
        raise TransientError("broken", "the response has an error in the choice")
    reason = words_of(choice.get("finish_reason"))
    finish = finish_reason(reason, words_of(choice.get("native_finish_reason")))
    message = choice.get("message")
    if finish == "content_filter":
        message = table_of(message)
    if not isinstance(message, dict):
        raise TransientError("malformed", "the response has no message")
    text, reasoning = _plain_text(message.get("content")), _reasoning(message)
    if not (text or reasoning or message.get("refusal")) and (usage.input_tokens, usage.output_tokens) == (0, 0):
        raise TransientError("server", "the response is empty and reports no tokens")
    results = {
        name: found
        for name, found in (
            ("prompt", payload.get("prompt_filter_results")),
            ("answer", choice.get("content_filter_results")),
        )
        if found
    }
    return {
        "text": text if text is not None or finish == "content_filter" else "",
        "finish_reason": finish,
        "provider_finish_reason": reason,
        "refusal": words_of(message.get("refusal")) or None,
        "reasoning": reasoning,
        "content_filter": results or None,
        "usage": usage,
    }


def _reasoning(message: Mapping[str, Any]) -> str | None:
    """The reasoning: in a field of its own (DeepSeek, vLLM, SGLang, OpenRouter), or in parts (Mistral)."""
    told = words_of(message.get("reasoning_content")) or words_of(message.get("reasoning"))
    if told:
        return told
    parts = [part for part in tables_of(message.get("content")) if part.get("type") == "thinking"]
    inner = (_plain_text(part.get("thinking")) or "" for part in parts)
    details = (
        words_of(part.get("text") or part.get("summary")) or "" for part in tables_of(message.get("reasoning_details"))
    )
    return "".join((*inner, *details)) or None


def _plain_text(content: Any) -> str | None:
    """A message's text, which some services send in parts or as a table; None where there is none.

    Raises:
        TypeError: it is something else, so it is not known what the model wrote.
    """
    if content is None:
        return None
    if isinstance(content, dict) and "text" in content:
        return text_of(content["text"])
    if not isinstance(content, list):
        return text_of(content)
    parts = [part for part in content if not isinstance(part, dict) or part.get("type", "text") == "text"]
    return "".join(text_of(part.get("text") if isinstance(part, dict) else part) for part in parts)


def _response_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the responses API."""
    if not isinstance(payload.get("output"), list):
        raise TransientError("malformed", "the response has no output")
    if words_of(payload.get("status")) in {"failed", "cancelled", "in_progress", "queued"}:
        raise TransientError("server", f"the response is {payload['status']}")
    items = tables_of(payload.get("output"))
    parts = [part for item in items for part in tables_of(item.get("content"))]  # a thought's are of another type
    text = "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")
    refusal = "".join(words_of(part.get("refusal")) or "" for part in parts if part.get("type") == "refusal")
    reasoning = "\n".join(
        words_of(part.get("text")) or ""
        for item in items
        if item.get("type") == "reasoning"
        for part in tables_of(item.get("summary")) or tables_of(item.get("content"))
    )
    reason = words_of(table_of(payload.get("incomplete_details")).get("reason")) or words_of(payload.get("status"))
    finish = finish_reason(reason) or "other"
    return {
        "text": text or (None if finish == "content_filter" else ""),
        "finish_reason": finish,
        "provider_finish_reason": reason,
        "refusal": refusal or None,
        "reasoning": reasoning or None,
        "usage": _usage(payload.get("usage"), "input", "output"),
    }


def _usage(found: Any, read: str, written: str) -> Usage:
    """Tokens, under the names of either API."""
    if not isinstance(found, dict):
        return Usage()
    of_input, of_output = (table_of(found.get(f"{name}_tokens_details")) for name in (read, written))
    reasoning = count_or_none(of_output.get("reasoning_tokens"))
    return Usage(
        input_tokens=found.get(f"{read}_tokens"),
        output_tokens=_with_reasoning(found, f"{read}_tokens", f"{written}_tokens", reasoning),
        reasoning_tokens=reasoning,
        cached_input_tokens=of_input.get("cached_tokens"),
    )


def _with_reasoning(found: Mapping[str, Any], read: str, written: str, reasoning: int | None) -> int | None:
    """All that was written; where a service counts thinking beside it (xAI does), the total tells."""
    counts = [count_or_none(found.get(name)) for name in (read, written, "total_tokens")]
    if reasoning and None not in counts and sum(count or 0 for count in counts[:2]) + reasoning == counts[2]:
        return (counts[1] or 0) + reasoning
    return counts[1]
