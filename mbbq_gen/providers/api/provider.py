"""What every provider of a model behind an API shares; a kind of service fills in the shape of its bodies.

A subclass says where the service is and with which key (`endpoint`), what is sent (`body_of`, `path`) and how an answer
is read (`fields_of`). It gets everything else: pace, retries, learned parameters, secrets kept, one clear line where
nothing helps, and `call` for the service's other addresses.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Final

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.reasoning import ReasoningSettings, refusal
from mbbq_gen.core.records import Message, Request, Response, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.options import RemoteOptions
from mbbq_gen.providers.base import ProviderOptions, request_key
from mbbq_gen.providers.http.concurrency import FIRST, FIRST_ON_LOOPBACK, AdaptiveConcurrency, ServiceGate, is_loopback
from mbbq_gen.providers.http.credentials import SHORTEST_KEY, Secret, SecretRedactor, filled_headers
from mbbq_gen.providers.http.errors import (
    LENGTH_NAMES,
    ApiError,
    ErrorClass,
    ParameterAdapter,
    RejectedError,
    RetriesExhaustedError,
    TransientError,
    classify_error,
    is_page,
    refused_name,
    rule_for,
    service_error,
)
from mbbq_gen.providers.http.rate_limits import RateLimiter, RateLimits, SharedRateLimits
from mbbq_gen.providers.http.scheduler import RetryPolicy, Scheduler, retrying
from mbbq_gen.providers.http.transport import (
    MOST_BYTES,
    FormFile,
    HttpResponse,
    Line,
    Transport,
    base_url_advice,
    error_payload,
    table_of,
    tables_of,
)
from mbbq_gen.providers.http.usage_bounds import LENGTHS, max_usage

_NEAREST: Final = 3
REASONING_NAMES: Final = frozenset(
    {"reasoning", "reasoning_effort", "thinking", "output_config", "thinkingConfig", "chat_template_kwargs"}
)
"""Fields that say how much a model thinks."""


@dataclass(frozen=True)
class Endpoint:
    """A service as it is reached: made once, by the service's own client where it has one."""

    base_url: str
    """Without a slash at its end, without secrets."""
    headers: Mapping[str, str]
    """All that every request carries, the key too: never to be written anywhere."""
    query: str = ""
    """What every address ends with, such as `?api-version=2024-10-21`."""


class ApiProvider(ABC):
    """A model behind an API."""

    kind: ClassVar[str]
    options_class: ClassVar[type[ProviderOptions]] = RemoteOptions
    packages: ClassVar[tuple[str, ...]] = ("aiohttp",)
    """Whose versions the manifest records."""
    models_path: ClassVar[str] = "/models"
    """Where the service lists its models."""
    version_in_base: ClassVar[bool | None] = None
    """Whether base URLs end with a version such as /v1; None: either way."""
    length_names: Collection[str] = LENGTHS
    """What the service may call the longest answer."""
    renames_length: ClassVar[bool] = True
    """Whether servers of this kind differ in what they call it."""

    def __init__(self, model: str, options: RemoteOptions, base_url: str, secret: Secret | None) -> None:
        """`secret` None: no key was found; asking a service that needs one fails in `check_access`."""
        self.model = model
        self.options = options
        self.base_url = base_url
        self.secret = secret
        self.reached = False
        """Whether anything has ever replied at the address."""
        self.answered = False
        """Whether the service itself has: what is not its own words is a passing fault from then on."""
        self.own_headers, self._other_secrets = filled_headers(options.headers)
        for known in (secret, *self._other_secrets):
            if known is not None and len(known.value) >= SHORTEST_KEY and known.value in f"{model} {options.extra}":
                raise UsageError(f"the model's name or option extra holds the key in {known.origin}: leave it out")
        self.learned = ParameterAdapter(renames_length=self.renames_length)
        self.notify: Callable[[str], None] = lambda _: None
        """Hears what should be said once, in a line."""
        self.may_resend: Callable[[Request], bool] = lambda _: True
        """Asked before a request is sent again that may have been paid already: whether there is money for it."""
        self.shared_budgets: SharedRateLimits | None = None
        """What a minute may take, where other processes ask the same service; None: the options' own."""
        self.in_doubt: Counter[str] = Counter()
        """Request key → how often it was sent and may have been paid, of requests whose response nobody has yet."""
        self._malformed: set[str] = set()
        """Keys of requests that were once answered with JSON that is no answer."""
        self._said: set[str] = set()
        self._served: set[str] = set()
        self._wire: Transport | None = None
        self._pace: RateLimiter | None = None

    # --- what a kind of service fills in ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def path(self) -> str:
        """Where requests are posted, below the base URL."""

    @cached_property
    @abstractmethod
    def endpoint(self) -> Endpoint:
        """How the service is reached. May import its official client."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, JsonValue]:
        """Everything that shapes the text of an answer."""

    @abstractmethod
    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The JSON body that asks a request, as the model takes it by what was learned so far."""

    @abstractmethod
    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a Response that an answer's JSON tells.

        Raises:
            TransientError: where the JSON is no answer at all.
        """

    @abstractmethod
    def check_access(self) -> None:
        """Makes sure that what asking needs is there, before anything else is done.

        Raises:
            UsageError: where it is not: no key, no package.
        """

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """What a level of thinking comes to at this model.

        Raises:
            UsageError: where it does not support it.
        """
        raise refusal(self.name, level, "has no such setting; leave it out, or use --model-arg extra")

    def with_reasoning(self, body: dict[str, JsonValue], request: Request, length: str) -> dict[str, JsonValue]:
        """A body or its settings with the level that a request asks for; `length` names its longest answer.

        Sampling is left out at every level, `none` too, where thinking takes none: levels differ in nothing else.
        """
        level = request.prompt.reasoning_effort
        if level is None:
            return body
        told = self.reasoning_settings(level)
        kept = {name: value for name, value in body.items() if name not in told.left_out}
        if "temperature" not in self.options.model_fields_set:  # our own default is no reason to end a run
            self.learned.dispensable |= {"temperature"}
        return {**kept, **told.sent, length: self.options.max_tokens + told.room}

    def longest_answer(self, request: Request) -> int:
        """Most tokens that a request asks for, those for thinking included."""
        level = request.prompt.reasoning_effort
        return self.options.max_tokens + (0 if level is None else self.reasoning_settings(level).room)

    def check_reasoning(self, told: ReasoningSettings, *own: str) -> ReasoningSettings:
        """What a level comes to, where nothing that was typed stands against it.

        Raises:
            UsageError: where an option says the same otherwise (`own`), or what was requested would be left out.
        """
        given = [name for name in own if getattr(self.options, name) is not None]
        given += [
            name
            for name in told.left_out
            if name in self.options.model_fields_set and getattr(self.options, name) is not None
        ]
        if given:
            raise UsageError(
                f"--reasoning-effort and --model-arg {given[0]}: {self.name} takes one of them; leave one out"
            )
        return told

    def shared_settings(self, names: Iterable[str], own_address: str) -> dict[str, JsonValue]:
        """Settings from the options of these names that were given, and the server where it is not the usual one."""
        settings: dict[str, JsonValue] = {
            name: value for name in names if (value := getattr(self.options, name)) is not None
        }
        if self.options.extra:
            settings["extra"] = self.options.extra
        if self.options.headers:
            settings["headers"] = self.options.headers
        if self.options.max_answer_bytes != MOST_BYTES:
            settings["max_answer_bytes"] = self.options.max_answer_bytes
        if self.base_url != own_address:
            settings["base_url"] = self.base_url
        return settings

    # --- what others use --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """`kind:model`."""
        return f"{self.kind}:{self.model}"

    def runtime_info(self) -> dict[str, JsonValue]:
        """Server, versions, limits; after requests, also what was learned and which models answered."""
        options = self.options
        facts: dict[str, JsonValue] = {
            "base_url": self.base_url,
            "max_connections": options.max_connections,
            "versions": {name: _version(name) for name in self.packages},
        }
        facts |= {name: value for name in ("rpm", "tpm") if (value := getattr(options, name)) is not None}
        if lessons := self.learned.runtime_info():
            facts["learned"] = self.hide(lessons)
        if self._served:
            facts["served_models"] = list[JsonValue](sorted(self._served))
        return facts

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """The key; the same messages are the same request, whatever prompt they come from."""
        return request_key(self.kind, self.model, self.settings, messages)

    async def generate(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """The responses as they come.

        Raises:
            ProviderError: where no further request can succeed.
        """
        async with aclosing(Scheduler(self, self.rate_limiter).answers(requests)) as responses:
            async for response in responses:
                yield response

    async def learn(self, request: Request) -> Response:
        """Asks one request by itself, and so finds out which parameters the model refuses; the answer counts.

        Raises:
            ProviderError: where no request can succeed.
        """
        response = await Scheduler(self, self.rate_limiter).answer(request)
        self.in_doubt.pop(request.request_key, None)
        return response

    def parse(self, request_key: str, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """The response that an answer's JSON holds; `more` are fields that it does not tell.

        Raises:
            TransientError: where the JSON is no answer, or not of the shape that it should have.
        """
        truncated_at = more.get("truncated_at")
        try:
            fields = self.fields_of(payload, headers)
            if truncated_at is not None:
                fields["finish_reason"] = "length"
            return Response(request_key=request_key, **fields, **more)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            shape = type(error).__name__
            raise TransientError("malformed", f"the response is JSON of another shape ({shape})") from error

    def read(self, request: Request, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """The response to a request; where more than text is needed, its provider reads that here.

        JSON that is no answer may be billed: it is requested once more, then recorded as a failure.

        Raises:
            TransientError: as `parse`.
        """
        key = request.request_key
        try:
            return self.parse(key, payload, headers, **more)
        except TransientError as fault:
            if fault.kind == "malformed" and key in self._malformed:
                sent = more.get("n_attempts")
                return Response(request_key=key, error=f"sent {sent} times, last: {fault}", n_attempts=sent)
            if fault.kind == "malformed":
                self._malformed.add(key)
            raise

    def max_usage(self, request: Request) -> Usage | None:
        """The most tokens that a request can take, by the body that is sent; None where nothing in it bounds them."""
        return max_usage(self.body_of(request), self.length_names)

    def parse_failure(self, request_key: str, status: int, payload: Any, headers: Mapping[str, str]) -> Response:
        """The response that an error's JSON comes to: filtered, or failed."""
        return self.failure(request_key, service_error(status, payload), headers)

    def is_lasting(self, status: int, payload: Any) -> bool:
        """Whether the same request would fail again: not what a bill, a key or a proxy was to blame for."""
        kind = classify_error(service_error(status, payload))
        return kind in {"content_filter", "too_long", "failed", "unsupported_parameter", "other_api"}

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: JsonValue = None,
        form: FormFile | None = None,
        accept: Sequence[int] = (),
        repeat: bool = True,
    ) -> HttpResponse:
        """Asks another address of the service: files, batches, models.

        Args:
            method: of HTTP.
            path: below the base URL: keys go nowhere else.
            body: sent as JSON.
            form: sent as a form instead.
            accept: statuses beside 2xx that are no failure to the caller.
            repeat: whether it may be sent again where it is not known if it had arrived.

        Raises:
            ProviderError: if it fails for good, in one line without secrets; RejectedError if the service says so.
            TransientError: where it failed, might not fail again, and was not to be repeated.
        """
        data = form if form is not None else None if body is None else _encode(body)
        tries = RetryPolicy(self.options.attempts if repeat else 1, lambda: True, self.options.patience)
        try:
            async for attempt in retrying(tries):
                with attempt:
                    return await self._call_once(method, path, data, accept)
        except TransientError as fault:
            if repeat:
                raise RetriesExhaustedError(f"{self.name}: {method} {path}: {fault}; try again later", fault) from fault
            raise
        raise AssertionError("tenacity returns or raises")

    async def _call_once(
        self, method: str, path: str, data: bytes | FormFile | None, accept: Sequence[int]
    ) -> HttpResponse:
        url = self.url(path)
        reply = await self.transport.send(method, url, await self.headers_for(method, url, data), data)
        self.reached = True
        if (200 <= reply.status < 300 and not reply.is_page) or reply.status in accept:
            return reply
        error = service_error(reply.status, error_payload(reply), reply.headers)
        kind = classify_error(error)
        if self.may_pass(error, kind) or error.page:  # a run has been answered before it comes to these addresses
            raise self.fault_of(error)
        if kind in {"key", "quota_exhausted", "not_the_service"}:
            raise await self.lasting(error, kind)
        raise RejectedError(f"{self.name}: {method} {path}: {self.hide(error.words)} ({error.status})", error)

    async def stream(self, path: str, *, download: bool = False) -> AsyncGenerator[Line, None]:
        """The lines of a large result, one at a time; `download`: from where the service keeps files apart.

        Raises:
            ProviderError: where it can't be had.
            TransientError: where the connection broke on the way.
        """
        url = self.download_url(path) if download else self.url(path)
        async with aclosing(self.transport.lines(url, await self.headers_for("GET", url, None))) as lines:
            async for line in lines:
                if isinstance(line, Line) and is_page(line.content[:200].decode("utf-8", "replace")):
                    raise TransientError("server", "a web page instead of the results")
                if isinstance(line, HttpResponse):
                    error = service_error(line.status, error_payload(line), line.headers)
                    if self.may_pass(error, classify_error(error)):
                        raise self.fault_of(error)
                    raise ProviderError(f"{self.name}: GET {path}: {self.hide(error.words)} ({error.status})")
                yield line

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._wire is not None:
            await self._wire.close()
        self._wire = None
        self._pace = None

    def prepare(self) -> None:
        """Makes what the first request would otherwise wait for: the official client is slow to import."""
        _ = self.endpoint, self.transport

    # --- what asking uses -------------------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        """The connections, opened when first needed."""
        if self._wire is None:
            self._wire = Transport.open(
                self.base_url, self.options.timeout, self.redactor, self.options.max_answer_bytes
            )
        return self._wire

    @cached_property
    def redactor(self) -> SecretRedactor:
        """What takes the keys out of all that comes back, however it comes."""
        keys = [secret.value for secret in (self.secret, *self._other_secrets) if secret is not None]
        return SecretRedactor.of(keys, self.endpoint.headers)

    @property
    def rate_limiter(self) -> RateLimiter:
        """Slots and budgets, shared by everything that this provider asks."""
        if self._pace is None:
            options = self.options
            first = FIRST_ON_LOOPBACK if is_loopback(self.base_url) else FIRST
            self._pace = RateLimiter(
                AdaptiveConcurrency(options.max_connections, first, options.timeout),
                ServiceGate(options.patience, notify=lambda text: self.notify(f"{self.name}: {text}")),
                self.shared_budgets or RateLimits(options.rpm, options.tpm),
            )
        return self._pace

    def status(self) -> str:
        """How many requests are under way, or why none is sent, in a few words for the progress line."""
        return "" if self._pace is None else self._pace.status()

    def url(self, path: str) -> str:
        """The whole address of a path."""
        query = self.endpoint.query
        return f"{self.endpoint.base_url}{path}{query.replace('?', '&') if '?' in path else query}"

    def download_url(self, path: str) -> str:
        """The whole address of a file, where files have addresses of their own."""
        return self.url(path)

    async def headers_for(self, method: str, url: str, body: bytes | FormFile | None) -> Mapping[str, str]:
        """All headers of one request: the endpoint's and the user's own. Some services sign each request, or let tokens
        run out; their providers say so here."""
        return {**self.endpoint.headers, **self.own_headers} if self.own_headers else self.endpoint.headers

    async def post(self, body: Mapping[str, JsonValue]) -> HttpResponse:
        """Sends one request; any status comes back.

        Raises:
            TransientError: where no reply was had.
        """
        url, data = self.url(self.path), _encode(body)
        return await self.transport.send("POST", url, await self.headers_for("POST", url, data), data, limited=True)

    def error_in(self, reply: HttpResponse, payload: Any) -> ApiError | None:
        """The failure that a reply reports; some servers report it with status 200, for the whole or for the choice."""
        if reply.status != 200 or reply.is_page:
            return service_error(reply.status, payload, reply.headers)
        choices = tables_of(table_of(payload).get("choices"))
        for found in (table_of(payload), *choices[:1]):
            if found.get("error"):
                code = count_or_none(table_of(found["error"]).get("code")) or 500
                return service_error(code if 400 <= code < 600 else 500, {"error": found["error"]}, reply.headers)
        return None

    def may_pass(self, error: ApiError, kind: ErrorClass) -> bool:
        """Whether another try may succeed. Once the service has answered, a proxy's page or a 403 without a reason is
        no end of the run."""
        if self.answered and kind == "key":
            return error.status == 403 and rule_for(error).is_by_status
        return kind == "transient" or (kind == "not_the_service" and self.answered)

    def fault_of(self, error: ApiError) -> TransientError:
        """A failure that may pass, with the time that the service asks to wait."""
        words = f"{self.hide(error.words)} ({error.status})"
        if error.page:
            words = f"a web page instead of an answer: {words}"
        kind, rule = classify_error(error), rule_for(error)
        if rule.is_loading:
            self._say_once(f"{self.name}: {rule.label}; waiting up to two minutes ({words})")
        is_rate = error.status == 429 or (error.status == 403 and kind == "transient")
        return TransientError("rate" if is_rate else "server", words, error.pause, error.status)

    def failure(self, request_key: str, error: ApiError, headers: Mapping[str, str]) -> Response:
        """The response of a request that can't be answered: filtered, or an error."""
        request_id = headers.get("x-request-id") or headers.get("request-id")
        kind = classify_error(error)
        if kind == "content_filter":
            return Response(
                request_key=request_key,
                finish_reason="content_filter",
                content_filter=self.hide(error.filter_results or error.message),
                provider_finish_reason=self.hide(error.code) or None,
                request_id=request_id,
            )
        label = f"{rule_for(error).label}: " if kind == "too_long" else ""
        text = f"{label}{self.hide(error.words)} ({error.status})"
        return Response(request_key=request_key, error=text, request_id=request_id)

    def learn_from(self, error: ApiError, body: Mapping[str, JsonValue]) -> bool:
        """Takes a lesson from a refused parameter and says it; False where there is none to take.

        Raises:
            ProviderError: where what is refused shapes the text: to go on without it would be another run.
        """
        refusal = f"{self.hide(error.words)} ({error.status})"
        if rule_for(error).setting == "roles":
            raise ProviderError(
                f"{self.name} does not accept these message roles: {refusal}; in a new run folder, {_other_roles(body)}"
            )
        lesson, name = self.learned.learn(error, body), refused_name(error, body)
        if lesson is not None:
            self._say_once(f"{self.name} {lesson}")
        elif name is not None and not (self.answered and name in LENGTH_NAMES):  # a length may fit beside other prompts
            raise ProviderError(
                f"{self.name} does not take {name} = {json.dumps(body[name])}: {refusal};"
                f" this setting affects the text, so it is not dropped; in a new run folder, {self.instead_of(name)}"
            )
        return lesson is not None

    def instead_of(self, name: str) -> str:
        """What a user may do about a refused parameter, by its name in the body."""
        if name in self.options.extra:
            return "leave it out of --model-arg extra"
        if name in REASONING_NAMES and getattr(self.options, name, None) is None:
            return "give another --reasoning-effort, or none"
        if name in LENGTH_NAMES:
            return "give another --max-tokens, or ask it as http:FILE, which says what the fields are called"
        if name in ("temperature", "top_p", "topP"):
            return f"--model-arg {'top_p' if name == 'topP' else name}=none leaves it to the service"
        own = {"reasoning_effort": "--reasoning-effort", "system": "--system-prompt"}
        return f"leave {own.get(name, f'--model-arg {name}')} out, or give another value"

    async def lasting(self, error: ApiError, kind: ErrorClass) -> ProviderError:
        """Why no request can succeed, in one line."""
        words = f"{self.hide(error.words)} ({error.status})"
        if kind == "not_the_service":
            return ProviderError(f"{self.name}: {self.base_url} {self._not_the_service(error)}")
        if kind == "key":
            origin = f"the key in {self.secret.origin}" if self.secret else "us without a key"
            how = "" if self.secret else "; give one with --api-key-env NAME or --api-key-file FILE"
            return ProviderError(f"{self.name}: {self.base_url} refuses {origin}: {words}{how}")
        if kind == "quota_exhausted":
            return ProviderError(
                f"{self.name}: the quota is exhausted at {self.base_url}: {words};"
                " received responses are kept, continue later with the same command"
            )
        if kind == "other_api":
            return ProviderError(f"{self.name}: is not available in this API: {words}; use another model or api=auto")
        names = await self.model_names()
        advice = None if names else base_url_advice(self.base_url, self.version_in_base)
        if advice is not None:
            return ProviderError(f"{self.name}: no such address or model at {self.base_url}: {words}; {advice}")
        return ProviderError(f"{self.name}: no such model at {self.base_url}: {words}{self._nearest(names)}")

    def _not_the_service(self, error: ApiError) -> str:
        """What replies at the address instead of the service, and what to do."""
        advice = base_url_advice(self.base_url, self.version_in_base, error.message)
        if error.target is not None:
            path = self.url(self.path).split("?")[0].removeprefix(self.base_url)
            moved = error.target.removesuffix(path)
            is_moved = error.target.startswith(("http://", "https://")) and error.target.endswith(path)
            is_moved = is_moved and moved != self.base_url
            then = f"give --base-url {moved}" if is_moved else advice or "check the base URL"
            return f"redirects to {self.hide(error.target)} ({error.status}): {then}; keys do not follow redirections"
        if not error.page and not 300 <= error.status < 400:
            return f"has no such address: {self.hide(error.words)}; {advice or 'check the base URL'}"
        page = f"answers with a web page ({self.hide(error.words)}, {error.status})"
        what = page if error.page else "redirects nowhere"
        return f"{what}, which no model wrote: {advice or 'check the base URL, and what stands between here and there'}"

    def _nearest(self, names: Sequence[str]) -> str:
        """The nearest names of the models that the service lists."""
        import difflib

        if self.model in names:
            return "; the service lists it, so it is not loaded there, or this key may not use it"
        near = difflib.get_close_matches(self.model, names, n=_NEAREST, cutoff=0.5)
        return f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""

    async def model_names(self) -> list[str]:
        """The models that the service has; empty where it gives no list."""
        try:
            return await self.list_models()
        except (TransientError, ProviderError):
            return []

    async def list_models(self) -> list[str]:
        """The models that the service lists.

        Raises:
            ProviderError: where it gives no list.
        """
        try:
            listed = (await self.call("GET", self.models_path, repeat=False)).json()
        except (RejectedError, TransientError) as error:
            raise self._no_list(str(error)) from error
        entries = listed.get("data", listed.get("models")) if isinstance(listed, dict) else listed
        if not isinstance(entries, list):
            raise self._no_list(service_error(200, listed).words)
        found = tables_of(entries)
        names = [str(entry.get("id") or entry.get("name") or "") for entry in found]
        return [name.removeprefix("models/") for name in names if name]

    def _no_list(self, why: str) -> ProviderError:
        advice = base_url_advice(self.base_url, self.version_in_base)
        then = f"; {advice}" if advice else ""
        return ProviderError(f"{self.name}: {self.base_url} returns no list of models: {self.hide(why)}{then}")

    def notice(self, response: Response) -> None:
        """Takes note of an answer, and says once what the user should know of answers like it."""
        if response.model is not None and response.model not in self._served and len(self._served) < 100:
            self._served.add(response.model)
        if response.truncated_at is not None:
            self._say_once(
                f"{self.name}: answers of more than {self.options.max_answer_bytes:,} bytes are cut there, and marked"
                " (truncated_at); --model-arg max_answer_bytes=N takes more"
            )
        elif response.finish_reason == "stop" and response.reasoning and not (response.text or "").strip():
            self._say_once(
                f"{self.name}: answers are empty, all text is in the field of the reasoning; start the server without"
                " its reasoning parser (vLLM: no --reasoning-parser; llama.cpp: --reasoning-format none), or give"
                " --reasoning-effort none"
            )
        elif response.finish_reason == "length" and _has_not_begun(response.text or ""):
            reasoning = response.usage.reasoning_tokens or response.reasoning or response.text
            self._say_once(
                f"{self.name}: answers are cut off before they begin"
                + (" (all tokens went into reasoning)" if reasoning else "")
                + f"; raise --max-tokens (now {self.options.max_tokens}), or ask for less --reasoning-effort"
            )

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.notify(text)

    def hide(self, value: Any) -> Any:
        """A text or JSON value that a service sent, fit to be shown: without keys."""
        return self.redactor.shown(value)


def _has_not_begun(text: str) -> bool:
    """Whether there is nothing but blanks, or reasoning that does not end."""
    words = text.strip().lower()
    return not words or (words.startswith("<think") and "</think" not in words)


def _other_roles(body: Mapping[str, JsonValue]) -> str:
    """What a user may do about roles that a chat template refuses."""
    turns = body.get("messages", body.get("input"))
    has_system = "system" in body or any(turn.get("role") == "system" for turn in tables_of(turns))
    return "leave --system-prompt out (with --axes: place=user)" if has_system else "give --num-fewshot 0"


def _encode(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
