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

from mbbq_gen.errors import ProviderError
from mbbq_gen.providers.base import ProviderOptions, request_key
from mbbq_gen.providers.remote.asking import Asking
from mbbq_gen.providers.remote.bounds import LENGTHS, most_usage
from mbbq_gen.providers.remote.credentials import Secret
from mbbq_gen.providers.remote.faults import PassingError, RefusedError, ServiceError, Verdict, judge, service_error
from mbbq_gen.providers.remote.learned import Learned
from mbbq_gen.providers.remote.masking import Mask
from mbbq_gen.providers.remote.options import RemoteOptions
from mbbq_gen.providers.remote.pace import Pace
from mbbq_gen.providers.remote.retry import Tries, pause_of, retrying
from mbbq_gen.providers.remote.transport import FormFile, Reply, Wire, error_payload
from mbbq_gen.records import Message, Request, Response, Usage

_NEAREST: Final = 3


@dataclass(frozen=True)
class Endpoint:
    """A service as it is reached: made once, by the service's own client where it has one."""

    base_url: str
    """Without a slash at its end, without secrets."""
    headers: Mapping[str, str]
    """All that every request carries, the key too: never to be written anywhere."""
    query: str = ""
    """What every address ends with, such as `?api-version=2024-10-21`."""


class RemoteProvider(ABC):
    """A model behind an API."""

    kind: ClassVar[str]
    options_class: ClassVar[type[ProviderOptions]] = RemoteOptions
    packages: ClassVar[tuple[str, ...]] = ("aiohttp",)
    """Whose versions the manifest records."""
    models_path: ClassVar[str] = "/models"
    """Where the service lists its models."""
    length_names: Collection[str] = LENGTHS
    """What the service may call the longest answer."""

    def __init__(self, model: str, options: RemoteOptions, base_url: str, secret: Secret | None) -> None:
        """`secret` None: no key was found; asking a service that needs one fails in `check_access`."""
        self.model = model
        self.options = options
        self.base_url = base_url
        self.secret = secret
        self.reached = False
        """Whether the service has ever answered."""
        self.learned = Learned()
        self.on_notice: Callable[[str], None] = lambda _: None
        """Hears what should be said once, in a line."""
        self.may_resend: Callable[[Request], bool] = lambda _: True
        """Asked before a request is sent again that may have been paid already: whether there is money for it."""
        self.in_doubt: Counter[str] = Counter()
        """Request key → how often it was sent and may have been paid, of requests whose response nobody has yet."""
        self._said: set[str] = set()
        self._served: set[str] = set()
        self._wire: Wire | None = None
        self._pace: Pace | None = None

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
            PassingError: where the JSON is no answer at all.
        """

    @abstractmethod
    def check_access(self) -> None:
        """Makes sure that what asking needs is there, before anything else is done.

        Raises:
            UsageError: where it is not: no key, no package.
        """

    def shared_settings(self, names: Iterable[str], own_address: str) -> dict[str, JsonValue]:
        """Settings from the options of these names that were given, and the server where it is not the usual one."""
        settings: dict[str, JsonValue] = {
            name: value for name in names if (value := getattr(self.options, name)) is not None
        }
        if self.options.extra:
            settings["extra"] = self.options.extra
        if self.base_url != own_address:
            settings["base_url"] = self.base_url
        return settings

    # --- what others use --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """`kind:model`."""
        return f"{self.kind}:{self.model}"

    def facts(self) -> dict[str, JsonValue]:
        """Server, versions, limits; once asked, also what was learned and which models answered."""
        options = self.options
        facts: dict[str, JsonValue] = {
            "base_url": self.base_url,
            "concurrency": options.concurrency,
            "versions": {name: _version(name) for name in self.packages},
        }
        facts |= {name: value for name in ("rpm", "tpm") if (value := getattr(options, name)) is not None}
        if lessons := self.learned.facts():
            facts["learned"] = self.hide(lessons)
        if self._served:
            facts["served_models"] = list[JsonValue](sorted(self._served))
        return facts

    def request_key(self, messages: Sequence[Message], presentation_id: str) -> str:
        """The key; the same messages are the same request, whatever presentation they come from."""
        return request_key(self.kind, self.model, self.settings, messages)

    async def generate(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """The responses as they come.

        Raises:
            ProviderError: where no further request can succeed.
        """
        async with aclosing(Asking(self, self.pace).answers(requests)) as responses:
            async for response in responses:
                yield response

    async def learn(self, request: Request) -> Response:
        """Asks one request by itself, and so finds out which parameters the model refuses; the answer counts.

        Raises:
            ProviderError: where no request can succeed.
        """
        response = await Asking(self, self.pace).answer(request)
        self.in_doubt.pop(request.request_key, None)
        return response

    def parse(self, request_key: str, payload: Any, headers: Mapping[str, str], **more: Any) -> Response:
        """The response that an answer's JSON holds; `more` are fields that it does not tell.

        Raises:
            PassingError: where the JSON is no answer, or not of the shape that it should have.
        """
        try:
            return Response(request_key=request_key, **self.fields_of(payload, headers), **more)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            shape = type(error).__name__
            raise PassingError("malformed", f"answered JSON that is no answer, of another shape ({shape})") from error

    def most_usage(self, request: Request) -> Usage | None:
        """The most tokens that a request can take, by the body that is sent; None where nothing in it bounds them."""
        return most_usage(self.body_of(request), self.length_names)

    def parse_failure(self, request_key: str, status: int, payload: Any, headers: Mapping[str, str]) -> Response:
        """The response that an error's JSON comes to: filtered, or failed."""
        return self.failure(request_key, service_error(status, payload), headers)

    def is_lasting(self, status: int, payload: Any) -> bool:
        """Whether the same request would fail again."""
        return judge(service_error(status, payload)) != "passing"

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: JsonValue = None,
        form: FormFile | None = None,
        accept: Sequence[int] = (),
        repeat: bool = True,
    ) -> Reply:
        """Asks another address of the service: files, batches, models.

        Args:
            method: of HTTP.
            path: below the base URL, or a whole address on the same server.
            body: sent as JSON.
            form: sent as a form instead.
            accept: statuses beside 2xx that are no failure to the caller.
            repeat: whether it may be sent again where it is not known if it had arrived.

        Raises:
            ProviderError: where it fails for good, in one line without secrets; RefusedError where the service says so.
            PassingError: where it failed, might not fail again, and was not to be repeated.
        """
        data = form if form is not None else None if body is None else _encode(body)
        tries = Tries(self.options.attempts if repeat else 1, lambda: True)
        try:
            async for attempt in retrying(tries):
                with attempt:
                    return await self._call_once(method, path, data, accept)
        except PassingError as fault:
            if repeat:
                raise ProviderError(f"{self.name}: {method} {path}: {fault}; try again later") from fault
            raise
        raise AssertionError("tenacity returns or raises")

    async def _call_once(self, method: str, path: str, data: bytes | FormFile | None, accept: Sequence[int]) -> Reply:
        reply = await self.wire.send(method, self.url(path), self.endpoint.headers, data)
        self.reached = True
        if 200 <= reply.status < 300 or reply.status in accept:
            return reply
        error = service_error(reply.status, error_payload(reply))
        verdict = judge(error)
        if verdict == "passing":
            raise self.fault_of(reply, error)
        if verdict in {"key", "quota"}:
            raise await self.lasting(error, verdict)
        raise RefusedError(f"{self.name}: {method} {path}: {self.hide(error.message)} ({error.status})", error)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The lines of a large result, one at a time.

        Raises:
            ProviderError: where it can't be had.
            PassingError: where the connection broke on the way.
        """
        async with aclosing(self.wire.lines(self.url(path), self.endpoint.headers)) as lines:
            async for line in lines:
                if isinstance(line, Reply):
                    error = service_error(line.status, error_payload(line))
                    if judge(error) == "passing":
                        raise self.fault_of(line, error)
                    raise ProviderError(f"{self.name}: GET {path}: {self.hide(error.message)} ({error.status})")
                yield line

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._wire is not None:
            await self._wire.close()
        self._wire = None
        self._pace = None

    def prepare(self) -> None:
        """Makes what the first request would otherwise wait for: the official client is slow to import."""
        _ = self.endpoint, self.wire

    # --- what asking uses -------------------------------------------------------------------------------------------

    @property
    def wire(self) -> Wire:
        """The connections, opened when first needed."""
        if self._wire is None:
            self._wire = Wire.open(self.base_url, self.options.timeout, self.mask)
        return self._wire

    @cached_property
    def mask(self) -> Mask:
        """What takes the keys out of all that comes back, however it comes."""
        return Mask.of(self.secret.value if self.secret else None, self.endpoint.headers)

    @property
    def pace(self) -> Pace:
        """Slots and budgets, shared by everything that this provider asks."""
        if self._pace is None:
            self._pace = Pace(self.options.concurrency, self.options.rpm, self.options.tpm)
        return self._pace

    def url(self, path: str) -> str:
        """The whole address of a path."""
        if path.startswith(("http://", "https://")):
            return path
        return f"{self.endpoint.base_url}{path}{self.endpoint.query}"

    async def post(self, body: Mapping[str, JsonValue]) -> Reply:
        """Sends one request; any status comes back.

        Raises:
            PassingError: where no reply was had.
        """
        return await self.wire.send("POST", self.url(self.path), self.endpoint.headers, _encode(body))

    def error_in(self, status: int, payload: Any) -> ServiceError | None:
        """What failed, where a reply is no answer; some servers say so with status 200."""
        if status != 200:
            return service_error(status, payload)
        if isinstance(payload, dict) and payload.get("error"):
            error = service_error(500, payload)
            told = payload["error"].get("code") if isinstance(payload["error"], dict) else None
            return error if not isinstance(told, int) or told < 400 else service_error(told, payload)
        return None

    def fault_of(self, reply: Reply, error: ServiceError) -> PassingError:
        """A failure that may pass, with the time that the service asks to wait."""
        pause = pause_of(reply.headers)
        words = f"{self.hide(error.message)} ({error.status})"
        pause = error.pause if pause is None else pause
        return PassingError("rate" if error.status == 429 else "server", words, pause, error.status)

    def failure(self, request_key: str, error: ServiceError, headers: Mapping[str, str]) -> Response:
        """The response of a request that can't be answered: filtered, or an error."""
        request_id = headers.get("x-request-id") or headers.get("request-id")
        if judge(error) == "filtered":
            return Response(
                request_key=request_key,
                finish_reason="content_filter",
                content_filter=self.hide(error.verdicts or error.message),
                service_finish_reason=self.hide(error.code) or None,
                request_id=request_id,
            )
        text = f"{self.hide(error.message)} ({error.status})"
        return Response(request_key=request_key, error=text, request_id=request_id)

    def learn_from(self, error: ServiceError, body: Mapping[str, JsonValue]) -> bool:
        """Takes a lesson from a refused parameter and says it; False where there is none to take."""
        lesson = self.learned.learn(error, body)
        if lesson is not None:
            self._say_once(f"{self.name} {lesson}")
        return lesson is not None

    async def lasting(self, error: ServiceError, verdict: Verdict) -> ProviderError:
        """Why no request can succeed, in one line."""
        words = f"{self.hide(error.message)} ({error.status})"
        if verdict == "key":
            origin = f"the key in {self.secret.origin}" if self.secret else "us without a key"
            return ProviderError(f"{self.name}: {self.base_url} refuses {origin}: {words}")
        if verdict == "quota":
            return ProviderError(
                f"{self.name}: nothing left to spend at {self.base_url}: {words};"
                " what arrived is kept, go on later with the same command"
            )
        if verdict == "other_api":
            return ProviderError(f"{self.name}: does not answer at this API: {words}; use another model or api=auto")
        return ProviderError(f"{self.name}: no such model at {self.base_url}: {words}{await self._nearest()}")

    async def _nearest(self) -> str:
        """The nearest names of the models that the service has, where it tells them."""
        import difflib

        names = await self.model_names()
        near = difflib.get_close_matches(self.model, names, n=_NEAREST, cutoff=0.5)
        return f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""

    async def model_names(self) -> list[str]:
        """The models that the service has; empty where it does not tell."""
        try:
            reply = await self.wire.send("GET", self.url(self.models_path), self.endpoint.headers, None)
            listed = reply.json()
        except PassingError:
            return []
        entries = listed.get("data") if isinstance(listed, dict) else None
        return [str(entry["id"]) for entry in entries or [] if isinstance(entry, dict) and "id" in entry]

    def notice(self, response: Response) -> None:
        """Takes note of an answer, and says once what the user should know of answers like it."""
        if response.model is not None and response.model not in self._served and len(self._served) < 100:
            self._served.add(response.model)
        if response.finish_reason == "length" and not (response.text or "").strip():
            self._say_once(
                f"{self.name}: answers are cut off before they begin"
                + (" (all tokens went into reasoning)" if response.usage.reasoning_tokens else "")
                + f"; raise --max-new-tokens (now {self.options.max_new_tokens})"
            )

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.on_notice(text)

    def hide(self, value: Any) -> Any:
        """A text or JSON value that a service sent, fit to be shown: without keys."""
        return self.mask.shown(value)


def _encode(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
