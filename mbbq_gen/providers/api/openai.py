"""OpenAI's models, and every server with the same API: vLLM, Ollama, LM Studio, llama.cpp, Azure, and many more.

`openai:MODEL` is a model of OpenAI. `--base-url URL` selects another server. `--model-arg service=XYZ` reads base URL
and key from XYZ_BASE_URL and XYZ_API_KEY; `service=azure` is a deployment on Azure (AZURE_OPENAI_ENDPOINT,
AZURE_OPENAI_API_KEY). Requests are chat completions; the responses API is used for models that support nothing else.

Reference: https://platform.openai.com/docs/api-reference
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import ContinuationScore, Method, Request, Response, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.likelihood import LOGLIKELIHOODS, SCORING_PATH, ServerScorer, open_scorer
from mbbq_gen.providers.api.options import RemoteOptions
from mbbq_gen.providers.api.provider import ApiProvider, answer_fields, turns_of, usage_of
from mbbq_gen.providers.api.service import JSON_BOTH_WAYS
from mbbq_gen.providers.base import NEUTRAL_SAMPLING, Capabilities, SamplingOptions
from mbbq_gen.providers.http.credentials import CloudToken
from mbbq_gen.providers.http.errors import ApiError, RejectedError, TransientError, finish_reason, service_error
from mbbq_gen.providers.http.replies import (
    HttpResponse,
    error_payload,
    table_of,
    tables_of,
    text_of,
    text_or_none,
    value_at,
)
from mbbq_gen.providers.http.servers import OwnServer, ReasoningParameters, known_services, server_root
from mbbq_gen.providers.local.chat_format import PromptError

SERVICES: Final[Mapping[str, str]] = {name: service.base_url for name, service in known_services().items()}
"""Known services → base URL; others are set by XYZ_BASE_URL."""
_DEPLOYMENT: Final = re.compile(r"/openai/deployments/[^/]+/")
_RESPONSES_ONLY: Final = re.compile(r"^(o\d+|gpt-[\d.]+)-pro\b|codex|deep-research|computer-use")
"""Models that support the responses API only."""
FIRST_TOKENS: Final[Method] = "first-token-logprobs"
_MOST_NAMED: Final = 20
"""OpenAI's maximum of `top_logprobs`."""
_NO_LOGPROBS: Final = "the answer has no logprobs: nothing tells how likely its first token was"


class OpenAIOptions(RemoteOptions, SamplingOptions):
    """Options of `openai:MODEL`."""

    service: str = Field(
        default="openai", pattern=r"^[a-z][a-z0-9_-]*$", description="service: xyz uses XYZ_API_KEY, XYZ_BASE_URL"
    )
    api: Literal["auto", "chat", "responses"] = Field(
        default="auto", description="chat completions or the responses API; auto: the latter for known models"
    )
    seed: int | None = Field(default=None, description="seed of the service, where it has one")
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


class OpenAIProvider(ApiProvider):
    """A model at a server with OpenAI's API."""

    kind = "openai"
    capabilities = Capabilities(batches=True, reasoning=True, structured_output=True)
    options_class = OpenAIOptions
    address = SERVICES["openai"]
    setting_names = ("max_tokens", "temperature", *NEUTRAL_SAMPLING, "seed", "reasoning_by")
    base_url_form = "--base-url, which mostly ends in /v1"
    no_temperature = re.compile(r"(?:^|/)(?:o\d+(?:-|$)|gpt-5(?!.*chat))")
    options: OpenAIOptions

    def __init__(self, model: str, options: OpenAIOptions) -> None:
        """Raises UsageError if neither options nor environment set the base URL."""
        self.is_azure = options.service == "azure"
        prefix = "AZURE_OPENAI" if self.is_azure else options.service.upper().replace("-", "_")
        self.address_variable = f"{prefix}_{'ENDPOINT' if self.is_azure else 'BASE_URL'}"
        self.key_variables = (f"{prefix}_API_KEY",)
        super().__init__(model, options)
        self._is_official = self.is_azure or self.base_url == self.address
        self.is_own_server = self.base_url not in SERVICES.values() and not self.is_azure
        self.needs_key = not self.is_own_server
        self._azure_version: str | None = None
        """Version of the API, which Azure needs in URLs without /v1."""
        if self.is_azure and not self.base_url.endswith("/openai/v1"):
            self._azure_version = os.environ.get("OPENAI_API_VERSION") or "2024-10-21"
        self.cloud = CloudToken("entra") if self.is_azure and options.entra else None
        is_pro = self._is_official and _RESPONSES_ONLY.search(model) is not None
        self._at_responses = options.api == "responses" or (options.api == "auto" and is_pro)
        methods = frozenset[Method]({"generate"} if self._at_responses else {"generate", FIRST_TOKENS})
        methods |= LOGLIKELIHOODS if self.is_own_server else frozenset()  # checked before the first request
        self.capabilities = replace(self.capabilities, methods=methods)
        self.sampling = options.sampling or ("neutral" if self.is_own_server else "server")
        """Sampling parameters that the user did not set: neutral or server."""
        own = {"sampling": self.sampling} if self.is_own_server or options.sampling is not None else {}
        others = options.model_dump(include={"top_logprobs", "api"}, exclude_defaults=True)
        self.own_settings = {**own, **others}
        self._server = OwnServer(model, self.sampling, options.given_sampling)
        self.learned.optional |= self._server.optional
        self._has_logprobs = False
        self._scorer: ServerScorer | None = None
        self._checking = asyncio.Lock()

    def find_base_url(self) -> str:
        """The base URL from options or environment, or that of the known service; on Azure, with the deployment."""
        service, variable = self.options.service, self.address_variable
        named = self.configured_url(variable) or SERVICES.get(service)
        if named is None:
            example = "https://NAME.openai.azure.com" if self.is_azure else "URL"
            raise UsageError(f"service {service!r}: set {variable}, or give --base-url {example}")
        return f"{named}/openai/deployments/{self.model}" if self.is_azure and "/openai/" not in named else named

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """As the base class, or with Azure's own key header."""
        if not self.is_azure:
            return super().headers
        return {**JSON_BOTH_WAYS, "api-key": self.secret.value if self.secret else ""}

    @property
    def path(self) -> str:
        """Path of the API in use."""
        return "/responses" if self._at_responses else "/chat/completions"

    @property
    def batch_endpoint(self) -> str:
        """Path of the API in the requests of a batch; without /v1 on Azure."""
        has_version = not self.is_azure or self.base_url.endswith("/v1")
        return f"/v1{self.path}" if has_version else self.path

    @property
    def api_url(self) -> str:
        """The base URL; /v1 is added for recognised servers if it is missing."""
        is_short = self._server.is_known and server_root(self.base_url) == self.base_url
        return f"{self.base_url}/v1" if is_short else self.base_url

    def url(self, path: str) -> str:
        """The URL of a path; on Azure only chat completions are below the deployment."""
        url = f"{self.api_url}{path}"
        if path != "/chat/completions":
            url = _DEPLOYMENT.sub("/openai/", url)
        return f"{url}{'&' if '?' in path else '?'}api-version={self._azure_version}" if self._azure_version else url

    def url_for(self, request: Request) -> str:
        """As `ApiProvider`; loglikelihoods have a URL of their own."""
        if self._scorer is None or request.prompt.method not in LOGLIKELIHOODS:
            return super().url_for(request)
        return f"{server_root(self.base_url)}{SCORING_PATH}"

    # --- the user's own server ---------------------------------------------------------------------------------------

    async def prepare(self, request: Request | None = None) -> Response | None:
        """Recognises the user's own server before the first request, and tokenizes texts to score.

        Returns a response with an error if the texts can't be tokenized.
        """
        server = self._server
        if self.is_own_server and not server.is_probed:
            await server.recognise(self._probe)
            self.learned.optional |= server.optional
            if ignored := [name for name in server.entry.ignored if name in self.options.given_sampling]:
                raise ProviderError(
                    f"{self.name}: {server.entry.name} does not take {ignored[0]}; leave --model-arg"
                    f" {ignored[0]} out in a new run folder"
                )
            if self.unpinned is not None:
                self.notify_once(f"{self.name}: {self.unpinned}")
        if request is None or request.prompt.method not in LOGLIKELIHOODS:
            return None
        await self.check_methods((request.prompt.method,))
        if self._scorer is None:
            raise TransientError("connect", f"can't reach {self.base_url}")
        try:
            await self._scorer.prepare(request)
        except (PromptError, RejectedError) as error:
            return Response(request_key=request.request_key, error=str(error))
        except (KeyError, TypeError, ValueError) as error:
            raise TransientError("malformed", "the server's tokens are JSON of another shape") from error
        return None

    async def check_methods(self, methods: Collection[Method]) -> None:
        """As `Provider`; checks that the server returns log-probabilities of prompts."""
        if LOGLIKELIHOODS.isdisjoint(methods):
            return
        await self.prepare()
        async with self._checking:
            if self._scorer is None and self._server.is_probed:  # if not, the first request reports the failure
                self._scorer = await open_scorer(self, self._server)

    async def _probe(self, path: str) -> Any:
        """The JSON or text at a path below the server's root; None if there is no such path."""
        reply = await self.send("GET", f"{server_root(self.base_url)}{path}")
        if reply.status >= 500:
            raise TransientError("server", f"{path}: {reply.status}")
        return error_payload(reply) if 200 <= reply.status < 300 else None

    async def list_models(self) -> list[str]:
        """The models that the server lists, after it is recognised; raises ProviderError if there is no list."""
        await self.prepare()
        try:
            listed = (await self.call("GET", "/models", repeat=False)).json()
            entries = listed.get("data", listed.get("models")) if isinstance(listed, dict) else listed
            if isinstance(entries, list):
                names = [str(entry.get("id") or entry.get("name") or "") for entry in tables_of(entries)]
                return [name.removeprefix("models/") for name in names if name]
            why = service_error(200, listed).text
        except (RejectedError, TransientError) as error:
            why = str(error).removeprefix(f"{self.name}: ")
        raise ProviderError(
            f"{self.name}: {self.base_url} gives no list of models: {self.hide(why)}; check {self.base_url_form}"
        )

    @property
    def unpinned(self) -> str | None:
        """Description of sampling that can't be set at the server; None if all can be set."""
        return self._server.entry.unpinned if self.sampling == "neutral" else None

    # --- requests ----------------------------------------------------------------------------------------------------

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body for the API in use; the user's `extra` has priority."""
        options, sampling, method = self.options, self._server.fields, request.prompt.method
        if method in LOGLIKELIHOODS and self._scorer is not None:
            return self.learned.apply(self._scorer.body(request))
        body: dict[str, JsonValue] = {"model": self.model}
        if self._at_responses:
            length = "max_output_tokens"
            body |= {"input": turns_of(request.messages), length: self.answer_limit(request), "store": False}
            # this API has no penalties, so neutral ones are not sent
            sampling = {name: sampling[name] for name in ("top_p", *options.given_sampling) if name in sampling}
        else:
            length = "max_completion_tokens" if self._is_official else "max_tokens"
            body |= {"messages": turns_of(request.messages), length: self.answer_limit(request)}
            if method == FIRST_TOKENS:
                body |= {length: 1, "logprobs": True, "top_logprobs": options.top_logprobs}
        body |= {**self.given("temperature"), **sampling, **self.given("seed")}
        return self.learned.apply(self.with_reasoning(body, request, length) | options.extra)

    @property
    def reasoning_api(self) -> str:
        """OpenAI's parameters, those of a known service, or those of a chat template."""
        if self.options.reasoning_by is not None:
            return self.options.reasoning_by
        if self._is_official:
            return "responses" if self._at_responses else "openai"
        known = {service.base_url: service.reasoning for service in known_services().values()}
        return known.get(self.base_url, "template")

    def runtime_info(self) -> dict[str, JsonValue]:
        """As `ApiProvider`; also the API in use, and the server with its sampling."""
        info = super().runtime_info() | {"api": "responses" if self._at_responses else "chat"}
        if self._scorer is not None:
            info["scoring_used"] = "prompt_logprobs"
        if not self._server.is_probed:
            return info
        served: dict[str, Any] = self._server.runtime_info(self.learned.dropped, self.options.extra)
        temperature = None if "temperature" in self.learned.dropped else self.options.temperature
        return info | served | {"sampling": {"temperature": temperature, **served["sampling"]}}

    # --- replies -----------------------------------------------------------------------------------------------------

    def error_in(self, reply: HttpResponse, payload: Any, request: Request) -> ApiError | None:
        """As `ApiProvider`; raises ProviderError if the service does not return first tokens."""
        error = super().error_in(reply, payload, request)
        is_scored = request.prompt.method == FIRST_TOKENS
        if error is not None and is_scored and "logprob" in f"{error.message} {error.parameter}".lower():
            raise self._no_first_tokens(self.error_text(error))
        return error

    def read(self, request: Request, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """As `ApiProvider`, with first-token scores of labels; raises ProviderError if the service returns none."""
        response = super().read(request, payload, headers, **more)
        has_failed = response.error is not None or response.finish_reason == "content_filter"
        if request.prompt.method != FIRST_TOKENS or has_failed:
            return response
        tokens = first_tokens(payload)
        self._has_logprobs = self._has_logprobs or bool(tokens)
        if not self._has_logprobs:
            raise self._no_first_tokens("its answers have no logprobs")
        answers = request.prompt.continuations
        scores = tuple(ContinuationScore.of(answer, tokens.get(answer.text), 1) for answer in answers)
        result = {"scores": scores} if tokens else {"error": _NO_LOGPROBS}
        kept = response.model_dump(exclude={"text", "refusal", "finish_reason", "scores", "error"})
        return Response(**kept, **result, finish_reason="stop" if tokens else response.finish_reason)

    def _no_first_tokens(self, why: str) -> ProviderError:
        fewer = "give --model-arg top_logprobs=N, a smaller number, or " if "top_logprobs" in why else ""
        return ProviderError(
            f"{self.name}: {self.base_url} does not return probabilities of first tokens: {why};"
            f" in a new run folder, {fewer}ask by --method generate"
        )

    def parse(self, request_key: str, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """As `ApiProvider`; the scores of a request that was prepared for scoring."""
        if self._scorer is None or request_key not in self._scorer:
            return super().parse(request_key, payload, headers, **more)
        return Response(request_key=request_key, model=self.model, **self._scorer.read(request_key, payload), **more)

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a chat completion, or of an answer of the responses API."""
        read = response_fields if payload.get("object") == "response" or "output" in payload else chat_fields
        fields = read(payload)
        fields["request_id"] = headers.get("x-request-id") or text_or_none(payload.get("id"))
        fields["model"] = text_or_none(payload.get("model"))
        fields["system_fingerprint"] = text_or_none(payload.get("system_fingerprint"))
        return fields


def first_tokens(payload: Any) -> dict[str, float]:
    """First token → its log-probability, from a chat completion; empty without `logprobs`.

    Services return the likeliest tokens only, at OpenAI at most 20. A missing label is less likely than all of them.

        {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [
            {"token": "A", "logprob": -0.1}, {"token": " B", "logprob": -2.5}, …]}]}, …}]}

    Shape: https://platform.openai.com/docs/api-reference/chat/object
    """
    content = tables_of(value_at(payload, "choices.0.logprobs.content"))
    named = tables_of(content[0].get("top_logprobs")) if content else []
    found: dict[str, float] = {}
    for entry in [*named, content[0]] if named else []:
        token, logprob = text_or_none(entry.get("token")), entry.get("logprob")
        if token is None or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            continue
        if math.isfinite(logprob):
            found[token] = max(float(logprob), found.get(token, -math.inf))
    return found


def chat_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Text, reasoning, refusal, filter results and usage of a chat completion."""
    choice, usage = payload["choices"][0], _usage(payload.get("usage"), "prompt", "completion")
    reason = text_or_none(choice.get("finish_reason"))
    finish = finish_reason(reason, text_or_none(choice.get("native_finish_reason")))
    message = table_of(choice.get("message")) if finish == "content_filter" else choice["message"]
    text = _plain_text(message.get("content"))
    # reasoning is in a field (DeepSeek, vLLM, SGLang, OpenRouter), or in parts of the content (Mistral)
    reasoning = text_or_none(message.get("reasoning_content")) or text_or_none(message.get("reasoning"))
    if not reasoning:
        parts = [part for part in tables_of(message.get("content")) if part.get("type") == "thinking"]
        details = tables_of(message.get("reasoning_details"))
        texts = [_plain_text(part.get("thinking")) for part in parts]
        texts += [text_or_none(part.get("text") or part.get("summary")) for part in details]
        reasoning = "".join(filter(None, texts))
    if not (text or reasoning or message.get("refusal")) and (usage.input_tokens, usage.output_tokens) == (0, 0):
        raise TransientError("server", "answered nothing, with no tokens in or out")
    results = {"prompt": payload.get("prompt_filter_results"), "answer": choice.get("content_filter_results")}
    fields = answer_fields(
        text,
        finish,
        reason,
        usage,
        refusal=text_or_none(message.get("refusal")),
        reasoning=reasoning,
        content_filter={name: found for name, found in results.items() if found},
    )
    return {**fields, "text": ""} if text == "" else fields


def _plain_text(content: Any) -> str | None:
    """The text of a message's content, which may be a list of parts or an object; TypeError for other types."""
    if content is None:
        return None
    if isinstance(content, dict) and "text" in content:
        return text_of(content["text"])
    if not isinstance(content, list):
        return text_of(content)
    parts = [part for part in content if not isinstance(part, dict) or part.get("type", "text") == "text"]
    return "".join(text_of(part.get("text") if isinstance(part, dict) else part) for part in parts)


def response_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Text, reasoning, refusal and usage of an answer of the responses API."""
    if not isinstance(payload.get("output"), list):
        raise TransientError("malformed", "the response has no output")
    if text_or_none(payload.get("status")) in {"failed", "cancelled", "in_progress", "queued"}:
        raise TransientError("server", f"the response is {payload['status']}")
    items = tables_of(payload.get("output"))
    parts = [part for item in items for part in tables_of(item.get("content"))]
    text = "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")
    refusal = "".join(text_or_none(part.get("refusal")) or "" for part in parts if part.get("type") == "refusal")
    reasoning = "\n".join(
        text_or_none(part.get("text")) or ""
        for item in items
        if item.get("type") == "reasoning"
        for part in tables_of(item.get("summary")) or tables_of(item.get("content"))
    )
    reason = text_or_none(value_at(payload, "incomplete_details.reason")) or text_or_none(payload.get("status"))
    finish = finish_reason(reason) or "other"
    return answer_fields(
        text, finish, reason, _usage(payload.get("usage"), "input", "output"), refusal=refusal, reasoning=reasoning
    )


def _usage(found: Any, read: str, written: str) -> Usage:
    """The token counts of an answer, by the names of either API."""
    usage = usage_of(
        found,
        (f"{read}_tokens",),
        (f"{written}_tokens",),
        reasoning=(f"{written}_tokens_details.reasoning_tokens",),
        cached=(f"{read}_tokens_details.cached_tokens",),
    )
    counts = (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens)
    if None not in counts and counts[2] and sum(filter(None, counts)) == count_or_none(found.get("total_tokens")):
        return usage.model_copy(update={"output_tokens": sum(filter(None, counts[1:]))})  # xAI: reasoning not in output
    return usage
