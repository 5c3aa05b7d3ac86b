"""The base class of all models behind an API.

A subclass defines base URL and headers (`find_base_url`, `headers`), requests (`path`, `body_of`) and the fields of an
answer (`fields_of`). Rate limits, retries, adaptation of refused parameters, redaction and errors are implemented here.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec
from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import Message, Request, Response, Usage, construct_valid
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.options import reasoning_parameters
from mbbq_gen.providers.api.service import ApiService
from mbbq_gen.providers.base import Capabilities, ExecutionContext, versions_of
from mbbq_gen.providers.http.errors import (
    LENGTHS,
    TOO_LONG,
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
    initial_concurrency,
)
from mbbq_gen.providers.http.replies import HttpResponse, error_payload, table_of, tables_of, value_at
from mbbq_gen.providers.http.scheduler import ParametersChangedError, Scheduler

_REASONING_NAMES: Final = frozenset(
    {"reasoning", "reasoning_effort", "thinking", "output_config", "thinkingConfig", "chat_template_kwargs"}
)
"""Fields of a body that set the reasoning effort."""
_OPTIONS: Final = {"topP": "top_p", "topK": "top_k", "repeat_penalty": "repetition_penalty"}
"""Field of a body → our option, if the names differ."""


class ApiProvider(ApiService):
    """A model behind an API."""

    capabilities = Capabilities(reasoning=True)
    packages: ClassVar[tuple[str, ...]] = ("aiohttp",)
    setting_names: ClassVar[tuple[str, ...]] = ("max_tokens", "temperature", "top_p")
    length_names: Collection[str] = LENGTHS
    """The service's names for the maximum tokens of an answer."""
    renames_length: ClassVar[bool] = True
    """Whether servers of this kind use different names for it."""
    settings_field: ClassVar[str] = ""
    """The field of a body that holds the parameters; empty: the body itself."""

    def __init__(self, model: str, options: Any) -> None:
        """As `ApiService`."""
        super().__init__(model, options)
        limits = {name: getattr(options, name) for name in ("max_connections", "rpm", "tpm")}
        self.capabilities = replace(self.capabilities, base_url=self.base_url, **limits)
        self.learned = ParameterAdapter(self.renames_length)
        self.own_settings: dict[str, JsonValue] = {}
        """Settings in addition to `setting_names`."""
        self._served: set[str] = set()
        self._limiter: RateLimiter | None = None

    @abstractmethod
    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The JSON body of a request, adapted to the parameters that the model refuses."""

    @abstractmethod
    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of the Response for an answer's JSON; raises TransientError if it is no answer."""

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """The options that affect the text and have a value, and the base URL unless it is the default."""
        settings = {**self.given(*self.setting_names), **self.own_settings}
        settings |= {name: value for name in ("extra", "headers") if (value := getattr(self.options, name))}
        return settings if self.base_url == self.default_url else {**settings, "base_url": self.base_url}

    def given(self, *same: str, **renamed: str) -> dict[str, JsonValue]:
        """The options that have a value, under the `same` name or `renamed`."""
        names = {name: name for name in same} | renamed
        return {other: value for name, other in names.items() if (value := getattr(self.options, name)) is not None}

    def runtime_info(self) -> dict[str, JsonValue]:
        """Server, versions and limits; after requests, also adapted parameters and names of the models."""
        facts = self.given("max_connections", "rpm", "tpm")
        facts |= {"base_url": self.base_url, "versions": versions_of(self.packages)}
        if changes := self.learned.runtime_info():
            facts["learned"] = self.hide(changes)
        if self._served:
            facts["served_models"] = list[JsonValue](sorted(self._served))
        return facts

    # --- reasoning effort --------------------------------------------------------------------------------------------

    @property
    def reasoning_api(self) -> str:
        """The `api` of the model's rows in `reasoning.toml`."""
        return self.kind

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """The parameters of a reasoning effort.

        Raises UsageError if the model does not support it, or the user set an option that it excludes.
        """
        found = reasoning_parameters(self.reasoning_api, self.name, self.model, level)
        for name in self.options.model_fields_set.intersection(found.left_out):
            if getattr(self.options, name) is not None:
                raise UsageError(
                    f"--reasoning-effort and --model-arg {name}: {self.name} takes one of them; leave one out"
                )
        return found

    def with_reasoning(self, body: dict[str, JsonValue], request: Request, length: str) -> dict[str, JsonValue]:
        """A body or its settings with the reasoning effort of a request; `length`: field with the maximum tokens.

        If reasoning excludes sampling, sampling is left out at every level, `none` included, for comparable levels.
        """
        level = request.prompt.reasoning_effort
        if level is None:
            return body
        reasoning = self.reasoning_settings(level)
        kept = {name: value for name, value in body.items() if name not in reasoning.left_out}
        if "temperature" not in self.options.model_fields_set:  # the default may be dropped if refused
            self.learned.optional |= {"temperature"}
        return {**kept, **reasoning.sent, length: self.answer_limit(request) + reasoning.room}

    # --- requests ----------------------------------------------------------------------------------------------------

    def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """As `Provider`."""
        _ = self.transport  # its import is slow, so it is done before the first request
        return self._scheduler(context).run(requests)

    async def learn(self, request: Request, context: ExecutionContext) -> Response:
        """Sends one request alone to adapt the parameters to the model; raises ProviderError."""
        async with aclosing(self._scheduler(context).run([request])) as responses:
            return await anext(responses)

    def _scheduler(self, context: ExecutionContext) -> Scheduler:
        """A new scheduler; all schedulers of a provider share its rate limiter."""
        self._context, options = context, self.options
        if self._limiter is None:
            most, is_given = options.max_connections, "max_connections" in options.model_fields_set
            first = most if is_given else initial_concurrency(self.base_url)
            slots = AdaptiveConcurrency(most, first, options.timeout)
            if is_given:  # the user's value is used at once
                slots.open()
            gate = ServiceGate(options.patience, notify=lambda text: self._context.notify(f"{self.name}: {text}"))
            self._limiter = RateLimiter(slots, gate, context.shared_limits or RateLimits(options.rpm, options.tpm))
        return Scheduler(self, self._limiter, context)

    def status(self) -> str:
        """Number of requests in flight, or why none is sent."""
        return "" if self._limiter is None else self._limiter.status()

    async def aclose(self) -> None:
        """Closes the connections."""
        await super().aclose()
        self._limiter = None

    def answer_limit(self, request: Request) -> int:
        """Maximum tokens of the answer without reasoning: the smaller limit of option and request."""
        most: int = self.options.max_tokens
        return most if request.max_tokens is None else min(most, request.max_tokens)

    def longest_answer(self, request: Request) -> int:
        """Maximum output tokens of a request, reasoning included."""
        level, most = request.prompt.reasoning_effort, self.answer_limit(request)
        return most if level is None else most + self.reasoning_settings(level).room

    def max_usage(self, request: Request) -> Usage | None:
        """The maximum tokens that a request can use, from its body; None: unbounded."""
        return max_usage(self.body_of(request), self.length_names)

    async def prepare(self, request: Request | None = None) -> Response | None:
        """Called before each request is built; returns a response if the request can't be sent."""
        return None

    def url_for(self, request: Request) -> str:
        """The URL to which a request is posted."""
        return self.url(self.path)

    async def attempt(self, request: Request, number: int) -> Response:
        """Sends a request once and returns its response; `number`: number of the attempt.

        Only answers of the model have a `latency_s`.

        Raises:
            ParametersChangedError: a refused parameter was dropped or renamed.
            TransientError: another attempt may succeed.
            ProviderError: no further request can succeed.
        """
        if (failed := await self.prepare(request)) is not None:
            return failed
        body, started = self.body_of(request), time.perf_counter()
        url, data = self.url_for(request), msgspec.json.encode(body)
        reply = await self.send("POST", url, data)
        seconds = round(time.perf_counter() - started, 4)
        payload = reply.json() if reply.status == 200 and not reply.is_page else error_payload(reply)
        error = self.error_in(reply, payload, request)
        if self._limiter is not None:
            self._limiter.note_limits(reply.headers)
        if error is not None:
            kind = self.classify(error)
            if kind == "unsupported_parameter" and (self.body_of(request) != body or self.adapt(error, body)):
                raise ParametersChangedError
            if kind in {"key", "model", "quota_exhausted", "other_api", "not_the_service"}:
                raise self.fatal_error(error, kind)
            return self.failure(request.request_key, error, reply.headers, n_attempts=number)
        response = self.read(request, payload, reply.headers, latency_s=seconds, n_attempts=number)
        self.answered = True
        usage = response.usage
        most = None if usage.input_tokens and usage.output_tokens else max_usage(body, self.length_names)
        if most is not None and (missing := unmetered_usage(response, most)):
            response = response.model_copy(update={"unmetered_usage": missing})
        self.note_response(response)
        return response

    def error_in(self, reply: HttpResponse, payload: Any, request: Request) -> ApiError | None:
        """The failure that a reply reports, or None; some servers report failures with status 200."""
        if reply.status != 200 or reply.is_page:
            return service_error(reply.status, payload, reply.headers)
        whole = table_of(payload)
        for found in (whole, *tables_of(whole.get("choices"))[:1]):
            if found.get("error"):
                code = count_or_none(table_of(found["error"]).get("code")) or 500
                return service_error(code if 400 <= code < 600 else 500, {"error": found["error"]}, reply.headers)
        return None

    def read(self, request: Request, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """As `parse`, for a request."""
        return self.parse(request.request_key, payload, headers, **more)

    def parse(self, request_key: str, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """The response for an answer's JSON, with `more` fields; raises TransientError for malformed JSON."""
        try:
            return Response.of_answer({"request_key": request_key, **self.fields_of(payload, headers), **more})
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            start = self.hide(json.dumps(payload))[:80]
            raise TransientError("malformed", f"the response is JSON of another shape: {start}") from error

    # --- failures ----------------------------------------------------------------------------------------------------

    def failure(self, request_key: str, error: ApiError, headers: Mapping[str, str], **more: Any) -> Response:
        """The response of a request that can't be answered: a content filter, or an error."""
        kind = classify_error(error)
        more |= {"request_key": request_key, "request_id": headers.get("x-request-id") or headers.get("request-id")}
        if kind == "content_filter":
            more["content_filter"] = self.hide(error.filter_results or error.message)
            return Response(finish_reason=kind, provider_finish_reason=self.hide(error.code) or None, **more)
        label = f"{TOO_LONG}: " if kind == "too_long" else ""
        return Response(error=f"{label}{self.error_text(error)}", **more)

    def is_permanent(self, status: int, payload: Any) -> bool:
        """Whether the same request would fail again; false for failures of key, quota, model name or proxy."""
        kind = classify_error(service_error(status, payload))
        return kind in {"content_filter", "too_long", "failed", "unsupported_parameter", "other_api"}

    def make_optional(self, names: Iterable[str]) -> None:
        """As `Provider`."""
        self.learned.optional |= frozenset(names)

    def adapt(self, error: ApiError, body: Mapping[str, JsonValue]) -> bool:
        """Drops or renames the refused parameter from now on; returns whether that was possible.

        Raises ProviderError if the parameter affects the text, since the run would not be the same without it.
        """
        refusal, body = self.error_text(error), {**body, **table_of(body.get(self.settings_field))}
        if rule_for(error).setting == "roles":
            turns = tables_of(body.get("messages", body.get("input")))
            has_system = "system" in body or any(turn.get("role") == "system" for turn in turns)
            advice = "leave --system-prompt out (with --axes: place=user)" if has_system else "give --num-fewshot 0"
            raise ProviderError(
                f"{self.name} does not take these roles of messages: {refusal}; in a new run folder, {advice}"
            )
        notice, name = self.learned.learn(error, body), refused_name(error, body)
        if notice is not None:
            self.notify_once(f"{self.name} {notice}")
        elif name is not None and not (self.answered and name in LENGTHS):  # shorter prompts may leave more room
            raise ProviderError(
                f"{self.name} does not take {name} = {json.dumps(body[name])}: {refusal};"
                f" this setting affects the text, so it is not dropped; in a new run folder, {self.advice_for(name)}"
            )
        return notice is not None

    def advice_for(self, name: str) -> str:
        """Advice on a refused parameter, by its name in the body."""
        if name in self.options.extra:
            return "leave it out of --model-arg extra"
        name = _OPTIONS.get(name, name)
        if name in _REASONING_NAMES:
            return "give another --reasoning-effort, or none"
        if name in LENGTHS:
            return "give another --max-tokens, or ask it as http:FILE, which says what the fields are called"
        if name in ("temperature", "top_p"):
            return f"--model-arg {name}=none leaves it to the service"
        option = "--system-prompt" if name == "system" else f"--model-arg {name}"
        return f"leave {option} out, or give another value"

    def note_response(self, response: Response) -> None:
        """Records the model of an answer, and notifies the user once of answers without text."""
        if response.model is not None and len(self._served) < 100:
            self._served.add(response.model)
        if response.finish_reason == "stop" and response.reasoning and not (response.text or "").strip():
            self.notify_once(
                f"{self.name}: answers are empty, all text is in the field of the reasoning; start the server without"
                " its reasoning parser (vLLM: no --reasoning-parser; llama.cpp: --reasoning-format none), or give"
                " --reasoning-effort none"
            )


def turns_of(messages: Iterable[Message], *, system: bool = True) -> list[JsonValue]:
    """The messages as role and content; system messages only if `system`."""
    return [
        {"role": message.role, "content": message.content} for message in messages if system or message.role != "system"
    ]


def system_text(messages: Iterable[Message]) -> str:
    """The system messages as one text."""
    return "\n\n".join(message.content for message in messages if message.role == "system")


def answer_fields(
    text: str | None, finish: FinishReason | None, reason: str | None, usage: Usage, **more: Any
) -> dict[str, Any]:
    """The common fields of a Response and `more`, whose empty values become None.

    `reason`: the service's finish reason. An empty text becomes None if a filter blocked the answer.
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
    """The tokens of an answer at the paths of each count; several paths are added up."""

    def total(names: Sequence[str]) -> int | None:
        counts = [tokens for name in names if (tokens := count_or_none(value_at(found, name))) is not None]
        return count_or_none(sum(counts)) if counts else None

    counts = map(total, (read, written, reasoning, cached))
    return construct_valid(Usage, dict(zip(Usage.model_fields, counts, strict=True)))
