"""What every provider of a model behind an API shares; a kind of service fills in the shape of its bodies.

A subclass says where the service is and with which key (`endpoint`), what is sent (`body_of`, `path`) and how an answer
is read (`fields_of`). It gets everything else: pace, retries, learned parameters, redaction, clear errors.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec
from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import Message, Request, Response, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.options import reasoning_parameters
from mbbq_gen.providers.api.service import ApiService
from mbbq_gen.providers.base import Capabilities, ExecutionContext, versions_of
from mbbq_gen.providers.http.errors import (
    LENGTH_NAMES,
    LENGTHS,
    ApiError,
    FinishReason,
    ParameterAdapter,
    TransientError,
    classify_error,
    max_usage,
    refused_name,
    rule_for,
    service_error,
    unmetered_usage,
)
from mbbq_gen.providers.http.rate_limits import (
    AdaptiveConcurrency,
    RateLimiter,
    RateLimits,
    ServiceGate,
    first_concurrency,
)
from mbbq_gen.providers.http.replies import HttpResponse, error_payload, table_of, tables_of, value_at
from mbbq_gen.providers.http.scheduler import ParametersChangedError, Scheduler
from mbbq_gen.providers.http.servers import PromptCutDetector

_REASONING_NAMES: Final = frozenset(
    {"reasoning", "reasoning_effort", "thinking", "output_config", "thinkingConfig", "chat_template_kwargs"}
)
"""Fields that say how much a model thinks."""


class ApiProvider(ApiService):
    """A model behind an API."""

    capabilities = Capabilities(reasoning=True)
    packages: ClassVar[tuple[str, ...]] = ("aiohttp",)
    setting_names: ClassVar[tuple[str, ...]] = ("max_tokens", "temperature", "top_p")
    length_names: Collection[str] = LENGTHS
    """Names that the service may have for the longest answer."""
    renames_length: ClassVar[bool] = True
    """Whether servers of this kind differ in what they call it."""
    settings_field: ClassVar[str] = ""
    """The field of a body with its parameters, where they are not in the body itself."""
    option_names: Mapping[str, str] = MappingProxyType({})
    """Fields of a body → our options, where they have other names."""
    context_advice: str = "set a longer context at the server"
    """Advice on a longer context, for the message about prompts that are cut."""
    is_own_server: bool = False
    """Whether the model is on a server of the user's own, which may cut prompts without an error."""

    def __init__(self, model: str, options: Any) -> None:
        """As `ApiService`."""
        super().__init__(model, options)
        limits = {name: getattr(options, name) for name in ("max_connections", "rpm", "tpm")}
        self.capabilities = replace(self.capabilities, base_url=self.base_url, **limits)
        self.adapter = ParameterAdapter(self.renames_length)
        self.own_settings: dict[str, JsonValue] = {}
        """Settings beside those of `setting_names`."""
        self._malformed: set[str] = set()
        """Keys of requests that were once answered with JSON that is no answer."""
        self._served: set[str] = set()
        self._cuts = PromptCutDetector()
        self._limiter: RateLimiter | None = None

    @abstractmethod
    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The JSON body that asks a request, as the model takes it by what was learned so far."""

    @abstractmethod
    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a Response in an answer's JSON; raises TransientError where it is no answer at all."""

    @property
    def settings(self) -> dict[str, JsonValue]:
        """The options that shape the text and were given, and the server where it is not the usual one."""
        settings = {**self.given(*self.setting_names), **self.own_settings}
        settings |= {name: value for name in ("extra", "headers") if (value := getattr(self.options, name))}
        return settings if self.base_url == self.default_url else {**settings, "base_url": self.base_url}

    def given(self, *same: str, **renamed: str) -> dict[str, JsonValue]:
        """The options that have a value, under the `same` name or `renamed`."""
        names = {**dict(zip(same, same, strict=True)), **renamed}
        return {other: value for name, other in names.items() if (value := getattr(self.options, name)) is not None}

    def runtime_info(self) -> dict[str, JsonValue]:
        """Server, versions, limits; after requests, also what was learned and which models answered."""
        facts = self.given("max_connections", "rpm", "tpm")
        facts |= {"base_url": self.base_url, "versions": versions_of(self.packages)}
        if changes := self.adapter.runtime_info():
            facts["learned"] = self.hide(changes)
        if self._served:
            facts["served_models"] = list[JsonValue](sorted(self._served))
        return facts

    # --- reasoning effort --------------------------------------------------------------------------------------------

    @property
    def reasoning_api(self) -> str:
        """The rows of `reasoning.toml` that fit the model."""
        return self.kind

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """The parameters of a level of reasoning effort.

        Raises UsageError where the model does not support it, or a setting that the user gave would be left out.
        """
        found = reasoning_parameters(self.reasoning_api, self.name, self.model, level)
        for name in self.options.model_fields_set.intersection(found.left_out):
            if getattr(self.options, name) is not None:
                raise UsageError(
                    f"--reasoning-effort and --model-arg {name}: {self.name} takes one of them; leave one out"
                )
        return found

    def with_reasoning(self, body: dict[str, JsonValue], request: Request, length: str) -> dict[str, JsonValue]:
        """A body or its settings with the level that a request asks for; `length` names its longest answer.

        Sampling is left out at every level, `none` too, where thinking takes none: levels differ in nothing else.
        """
        level = request.prompt.reasoning_effort
        if level is None:
            return body
        reasoning = self.reasoning_settings(level)
        kept = {name: value for name, value in body.items() if name not in reasoning.left_out}
        if "temperature" not in self.options.model_fields_set:  # our own default is no reason to end a run
            self.adapter.optional |= {"temperature"}
        return {**kept, **reasoning.sent, length: self.answer_limit(request) + reasoning.room}

    # --- requests ----------------------------------------------------------------------------------------------------

    def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """As `Provider`."""
        _ = self.transport  # slow to import: not while the first request waits
        return self._scheduler(context).run(requests)

    async def learn(self, request: Request, context: ExecutionContext) -> Response:
        """Sends one request by itself, and so finds out which parameters the model refuses; raises ProviderError."""
        async with aclosing(self._scheduler(context).run([request])) as responses:
            return await anext(responses)

    def _scheduler(self, context: ExecutionContext) -> Scheduler:
        """One go at answering; the slots and budgets are shared by all requests to this provider."""
        self._context, options = context, self.options
        if self._limiter is None:
            most, is_given = options.max_connections, "max_connections" in options.model_fields_set
            first = most if is_given else first_concurrency(self.base_url)
            slots = AdaptiveConcurrency(most, first, options.timeout)
            if is_given:  # the user knows the service
                slots.open()
            gate = ServiceGate(options.patience, notify=lambda text: self._context.notify(f"{self.name}: {text}"))
            self._limiter = RateLimiter(slots, gate, context.shared_limits or RateLimits(options.rpm, options.tpm))
        return Scheduler(self, self._limiter, context)

    def status(self) -> str:
        """Number of requests under way, or why none is sent."""
        return "" if self._limiter is None else self._limiter.status()

    async def aclose(self) -> None:
        """Closes the connections."""
        await super().aclose()
        self._limiter = None

    def answer_limit(self, request: Request) -> int:
        """Most tokens of the answer alone: the smaller limit of option and request."""
        most: int = self.options.max_tokens
        return most if request.max_tokens is None else min(most, request.max_tokens)

    def longest_answer(self, request: Request) -> int:
        """Most tokens that a request asks for, those for thinking included."""
        level, most = request.prompt.reasoning_effort, self.answer_limit(request)
        return most if level is None else most + self.reasoning_settings(level).room

    def max_usage(self, request: Request) -> Usage | None:
        """The most tokens that a request can take, by its body; None where nothing in it bounds them."""
        return max_usage(self.body_of(request), self.length_names)

    async def prepare(self, request: Request | None = None) -> Response | None:
        """Does what must be done before a body is made, before each request; a response where it can't be sent."""
        return None

    def url_for(self, request: Request) -> str:
        """The whole address to which a request is posted."""
        return self.url(self.path)

    async def attempt(self, request: Request, number: int) -> Response:
        """The response to a request that is sent once; `number` counts how often it was sent.

        Only an answer of the model has a `latency_s`.

        Raises:
            ParametersChangedError: a parameter was refused and is left out from now on.
            TransientError: another try may succeed.
            ProviderError: no further request can succeed.
        """
        if (refused := await self.prepare(request)) is not None:
            return refused
        body, started = self.body_of(request), time.perf_counter()
        url, data = self.url_for(request), msgspec.json.encode(body)
        try:
            reply = await self.transport.post(url, await self.headers_for("POST", url, data), data)
        except TransientError as fault:
            if fault.kind != "malformed":
                raise
            paid = max_usage(body, self.length_names)
            return Response(request_key=request.request_key, error=str(fault), n_attempts=number, unmetered_usage=paid)
        seconds = round(time.perf_counter() - started, 4)
        self.reached = True
        payload = reply.json() if reply.status == 200 and not reply.is_page else error_payload(reply)
        error = self.error_in(reply, payload, request)
        if self._limiter is not None:
            self._limiter.note_limits(reply.headers)
        if error is not None:
            kind = self.classify(error)
            may_learn = kind in {"unsupported_parameter", "other_api"}
            if may_learn and (self.body_of(request) != body or self.learn_from(error, body, request)):
                raise ParametersChangedError
            if kind in {"key", "model", "quota_exhausted", "other_api", "not_the_service"}:
                raise await self.fatal_error(error, kind)
            return self.failure(request.request_key, error, reply.headers, n_attempts=number)
        response = self.read(request, payload, reply.headers, latency_s=seconds, n_attempts=number)
        self.answered = True
        usage = response.usage
        most = None if usage.input_tokens and usage.output_tokens else max_usage(body, self.length_names)
        if most is not None and (missing := unmetered_usage(response, most)):
            response = response.model_copy(update={"unmetered_usage": missing})
        if self.is_own_server:
            self._check_cuts(request, response)
        self.note_response(response)
        return response

    def error_in(self, reply: HttpResponse, payload: Any, request: Request) -> ApiError | None:
        """The failure that a reply reports; some servers report it with status 200, for the whole or for the choice."""
        if reply.status != 200 or reply.is_page:
            return service_error(reply.status, payload, reply.headers)
        whole = table_of(payload)
        for found in (whole, *tables_of(whole.get("choices"))[:1]):
            if found.get("error"):
                code = count_or_none(table_of(found["error"]).get("code")) or 500
                return service_error(code if 400 <= code < 600 else 500, {"error": found["error"]}, reply.headers)
        return None

    def read(self, request: Request, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """As `parse`. JSON that is no answer may be billed: it is requested once more, then recorded as a failure."""
        key, sent = request.request_key, more.get("n_attempts")
        try:
            return self.parse(key, payload, headers, **more)
        except TransientError as fault:
            if fault.kind == "malformed" and key in self._malformed:
                return Response(request_key=key, error=f"sent {sent} times, last: {fault}", n_attempts=sent)
            self._malformed |= {key} if fault.kind == "malformed" else set()
            raise

    def parse(self, request_key: str, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """The response in an answer's JSON, with `more` fields; raises TransientError for JSON of another shape."""
        try:
            return Response.of_answer({"request_key": request_key, **self.fields_of(payload, headers), **more})
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            shape = type(error).__name__
            raise TransientError("malformed", f"the response is JSON of another shape ({shape})") from error

    # --- failures ----------------------------------------------------------------------------------------------------

    def failure(self, request_key: str, error: ApiError, headers: Mapping[str, str], **more: Any) -> Response:
        """The response of a request that can't be answered: filtered, or an error."""
        kind = classify_error(error)
        more |= {"request_key": request_key, "request_id": headers.get("x-request-id") or headers.get("request-id")}
        if kind == "content_filter":
            more["content_filter"] = self.hide(error.filter_results or error.message)
            return Response(finish_reason=kind, provider_finish_reason=self.hide(error.code) or None, **more)
        label = f"{rule_for(error).label}: " if kind == "too_long" else ""
        return Response(error=f"{label}{self.error_text(error)}", **more)

    def is_permanent(self, status: int, payload: Any) -> bool:
        """Whether the same request would fail again: not what a bill, a key or a proxy was to blame for."""
        kind = classify_error(service_error(status, payload))
        return kind in {"content_filter", "too_long", "failed", "unsupported_parameter", "other_api"}

    def make_optional(self, names: Iterable[str]) -> None:
        """Lets these fields of a request's body be left out where the model refuses them."""
        self.adapter.optional |= frozenset(names)

    def learn_from(self, error: ApiError, body: Mapping[str, JsonValue], request: Request) -> bool:
        """Leaves out or renames the refused parameter from now on; returns whether that was possible.

        Raises:
            ProviderError: where what is refused shapes the text: to go on without it would be another run.
        """
        refusal, body = self.error_text(error), {**body, **table_of(body.get(self.settings_field))}
        if rule_for(error).setting == "roles":
            turns = tables_of(body.get("messages", body.get("input")))
            has_system = "system" in body or any(turn.get("role") == "system" for turn in turns)
            advice = "leave --system-prompt out (with --axes: place=user)" if has_system else "give --num-fewshot 0"
            raise ProviderError(
                f"{self.name} does not take these roles of messages: {refusal}; in a new run folder, {advice}"
            )
        notice, name = self.adapter.learn(error, body), refused_name(error, body)
        if notice is not None:
            self.notify_once(f"{self.name} {notice}")
        elif name is not None and not (self.answered and name in LENGTH_NAMES):  # a length may fit beside other prompts
            raise ProviderError(
                f"{self.name} does not take {name} = {json.dumps(body[name])}: {refusal};"
                f" this setting affects the text, so it is not dropped; in a new run folder, {self.advice_for(name)}"
            )
        return notice is not None

    def advice_for(self, name: str) -> str:
        """Advice on a refused parameter, by its name in the body."""
        if name in self.options.extra:
            return "leave it out of --model-arg extra"
        name = self.option_names.get(name, name)
        if name in _REASONING_NAMES:
            return "give another --reasoning-effort, or none"
        if name in LENGTH_NAMES:
            return "give another --max-tokens, or ask it as http:FILE, which says what the fields are called"
        if name in ("temperature", "top_p"):
            return f"--model-arg {name}=none leaves it to the service"
        option = "--system-prompt" if name == "system" else f"--model-arg {name}"
        return f"leave {option} out, or give another value"

    def _check_cuts(self, request: Request, response: Response) -> None:
        """Raises ProviderError if the server cuts prompts."""
        usage, prompt = response.usage, request.prompt
        if prompt.method.endswith("loglikelihood"):
            return
        is_text = response.finish_reason == "length" and prompt.method == "generate"
        ended_early = is_text and (usage.output_tokens or 0) < self.longest_answer(request)
        size = sum([len(message.content.encode()) for message in request.messages])
        tokens = self._cuts.add(prompt.language, size, usage.input_tokens, usage.output_tokens if ended_early else None)
        if tokens:
            raise ProviderError(
                f"{self.name}: {self.base_url} cuts prompts at about {tokens:,} tokens (prompt_cut), so the model does"
                f" not see the whole question; {self.context_advice}, and start a new run folder"
            )

    def note_response(self, response: Response) -> None:
        """Takes note of an answer, and says once what the user should know of answers like it."""
        if response.model is not None and len(self._served) < 100:
            self._served.add(response.model)
        words, finish = (response.text or "").strip().lower(), response.finish_reason
        if finish == "stop" and response.reasoning and not words:
            self.notify_once(
                f"{self.name}: answers are empty, all text is in the field of the reasoning; start the server without"
                " its reasoning parser (vLLM: no --reasoning-parser; llama.cpp: --reasoning-format none), or give"
                " --reasoning-effort none"
            )
        elif finish == "length" and (not words or (words.startswith("<think") and "</think" not in words)):
            reasoning = response.usage.reasoning_tokens or response.reasoning or response.text
            used = " (all tokens went into reasoning)" if reasoning else ""
            self.notify_once(
                f"{self.name}: answers are cut off before they begin{used}; raise --max-tokens (now"
                f" {self.options.max_tokens}), or ask for less --reasoning-effort"
            )


def turns_of(messages: Iterable[Message], *, system: bool = True) -> list[JsonValue]:
    """The messages as most services take them; those of the system only if `system`."""
    return [
        {"role": message.role, "content": message.content} for message in messages if system or message.role != "system"
    ]


def system_text(messages: Iterable[Message]) -> str:
    """The messages of the system, as one text."""
    return "\n\n".join(message.content for message in messages if message.role == "system")


def answer_fields(
    text: str | None, finish: FinishReason | None, reason: str | None, usage: Usage, **more: Any
) -> dict[str, Any]:
    """The fields of a Response that every service's answer has; of `more`, what is empty is None.

    `reason`: why the text ends, in the service's words. An empty text is None where a filter blocked the answer.
    """
    text = text or (None if finish == "content_filter" else "")
    found = {name: value or None for name, value in more.items()}
    return {"text": text, "finish_reason": finish, "provider_finish_reason": reason, "usage": usage, **found}


def usage_of(
    found: Any,
    read: Sequence[str],
    written: Sequence[str],
    *,
    reasoning: Sequence[str] = (),
    cached: Sequence[str] = (),
) -> Usage:
    """The tokens of an answer by the service's names (a dot goes into an object); several names are added up."""

    def total(names: Sequence[str]) -> int | None:
        counts = [tokens for name in names if (tokens := count_or_none(value_at(found, name))) is not None]
        return sum(counts) if counts else None

    return Usage(
        input_tokens=total(read),
        output_tokens=total(written),
        reasoning_tokens=total(reasoning),
        cached_input_tokens=total(cached),
    )
