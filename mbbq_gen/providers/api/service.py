"""A service behind an address: how it is reached, what its failures mean, and its other addresses."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import msgspec
from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.providers.api.options import RemoteOptions, checked_address
from mbbq_gen.providers.base import ExecutionContext, Provider, ProviderOptions
from mbbq_gen.providers.http.credentials import (
    SHORTEST_KEY,
    CloudToken,
    SecretRedactor,
    filled_headers,
    find_key,
    missing_key,
)
from mbbq_gen.providers.http.errors import (
    ApiError,
    ErrorClass,
    RejectedError,
    TransientError,
    classify_error,
    is_page,
    rule_for,
    service_error,
)
from mbbq_gen.providers.http.replies import FormFile, HttpResponse, base_url_advice, tables_of
from mbbq_gen.providers.http.scheduler import RetryPolicy

if TYPE_CHECKING:
    from mbbq_gen.providers.http.transport import Transport

JSON_BOTH_WAYS: Final[Mapping[str, str]] = MappingProxyType(
    {"Content-Type": "application/json", "Accept": "application/json"}
)


class Endpoint(NamedTuple):
    """A service as it is reached."""

    base_url: str
    """Without a slash at its end, without secrets."""
    headers: Mapping[str, str]
    """All that every request carries, the key too: never to be written anywhere."""
    query: str = ""
    """End of every address, such as `?api-version=2024-10-21`."""


class ApiService(Provider):
    """A model's service as it is reached. `ApiProvider` adds the requests to the model."""

    options_class: ClassVar[type[ProviderOptions]] = RemoteOptions
    options: Any
    official_url: str = ""
    """The service's own server, for which a key is needed."""
    url_variable: str = ""
    """Environment variable with another one."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key."""
    models_path: str = "/models"
    """Empty where the service has no list of its models."""
    cloud: CloudToken | None = None
    """Credentials of a cloud, used instead of a key."""
    version_in_base: ClassVar[bool | None] = None
    """Whether base URLs end with a version such as /v1; None: either way."""
    no_temperature: ClassVar[re.Pattern[str] | None] = None
    """Models that are known to take no temperature: it is not sent, and no request key says that it was."""
    reached = False
    """Whether anything has ever replied at the address."""
    answered = False
    """Whether the model has answered: a proxy's page is a transient failure from then on."""

    def __init__(self, model: str, options: Any) -> None:
        """Finds address and key by a RemoteOptions; raises UsageError where they are wrong."""
        takes_none = self.no_temperature is not None and self.no_temperature.search(model)
        if takes_none and "temperature" not in options.model_fields_set:
            options = options.model_copy(update={"temperature": None})
        self.model, self.options = model, options
        self.default_url = self.official_url
        """The server that is no setting of its own."""
        self.base_url = self.find_base_url()
        self.needs_key = self.base_url == self.official_url
        """Whether the server takes no requests without a key."""
        self.secret = find_key(self.key_variables, options.api_key_env, options.api_key_file)
        self.user_headers, others = filled_headers(options.headers)
        self._secrets = [*filter(None, (self.secret, *others))]
        for known in self._secrets:
            if len(known.value) >= SHORTEST_KEY and known.value in f"{model} {options.extra}":
                raise UsageError(f"the model's name or option extra holds the key in {known.origin}: leave it out")
        self._context = ExecutionContext()
        self._notified: set[str] = set()
        self._transport: Transport | None = None

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The provider at the server that options or environment name; nothing is imported or sent yet."""
        return cls(model, options)

    def find_base_url(self) -> str:
        """The base URL that options or environment name, or the service's own."""
        return self.configured_url(self.url_variable) or self.official_url

    def configured_url(self, variable: str) -> str | None:
        """The base URL that the options or this environment variable name."""
        return self.options.base_url or checked_address(os.environ.get(variable), variable)

    def check_access(self) -> None:
        """Raises UsageError where a key or the credentials of the cloud are missing."""
        if self.cloud is not None:
            self.cloud.check(self.name)
        elif self.secret is None and self.needs_key:
            raise missing_key(self.name, self.key_variables)

    @property
    @abstractmethod
    def path(self) -> str:
        """Path below the base URL to which requests are posted."""

    @cached_property
    def endpoint(self) -> Endpoint:
        """Address and headers of the service, here with a Bearer key."""
        key = {"Authorization": f"Bearer {self.secret.value}"} if self.secret else {}
        return Endpoint(self.base_url, {**JSON_BOTH_WAYS, **key})

    @cached_property
    def redactor(self) -> SecretRedactor:
        """Removes the keys from all that comes back."""
        return SecretRedactor([secret.value for secret in self._secrets], self.endpoint.headers)

    def hide(self, value: Any) -> Any:
        """A text or JSON value that a service sent, without keys."""
        return self.redactor.shown(value)

    @property
    def transport(self) -> Transport:
        """The connections, opened when first needed."""
        if self._transport is None:
            from mbbq_gen.providers.http.transport import Transport

            self._transport = Transport(self.base_url, self.options.timeout, self.redactor)
        return self._transport

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._transport is not None:
            await self._transport.close()
        self._transport = None

    def url(self, path: str) -> str:
        """The whole address of a path."""
        query = self.endpoint.query
        return f"{self.endpoint.base_url}{path}{query.replace('?', '&') if '?' in path else query}"

    @cached_property
    def fixed_headers(self) -> Mapping[str, str]:
        """The headers that every request has: the endpoint's and the user's own."""
        return {**self.endpoint.headers, **self.user_headers}

    async def headers_for(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """All headers of one request, with a token of the cloud if there is one."""
        if self.cloud is None:
            return self.fixed_headers
        kept = {name: value for name, value in self.fixed_headers.items() if name != "api-key"}
        return {**kept, "Authorization": f"Bearer {await self.cloud.token()}"}

    def notify_once(self, text: str) -> None:
        """Notifies the user of something, once."""
        if text not in self._notified:
            self._notified.add(text)
            self._context.notify(text)

    # --- the service's other addresses -------------------------------------------------------------------------------

    async def send(self, method: str, url: str, data: bytes | FormFile | None = None) -> HttpResponse:
        """The reply at an address, with any status; raises TransientError if there is none."""
        headers = await self.headers_for(method, url, data if isinstance(data, bytes) else b"")
        reply = await self.transport.send(method, url, headers, data)
        self.reached = True
        return reply

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
        """Asks another address, whole or below the base URL, with JSON or a form: files, batches, models.

        `accept`: statuses beside 2xx that are no failure. `repeat`: whether it may be sent again.

        Raises:
            ProviderError: if it fails after all attempts; RejectedError if the service refuses it.
            TransientError: where it might not fail again, and was not to be repeated.
        """
        data = form or (None if body is None else msgspec.json.encode(body))
        tries = RetryPolicy(self.options.attempts, lambda: True, self.options.patience)
        while True:
            try:
                reply = await self.send(method, path if "://" in path else self.url(path), data)
                if (200 <= reply.status < 300 and not reply.is_page) or reply.status in accept:
                    return reply
                error = reply.error
                kind = self.classify(error, with_pages=True)  # these addresses come after answered requests
                if kind in {"key", "quota_exhausted", "not_the_service"}:
                    raise await self.fatal_error(error, kind)
                raise RejectedError(f"{self.name}: {method} {path}: {self.error_text(error)}", error)
            except TransientError as fault:
                if not repeat:
                    raise
                if (pause := tries.next_pause(fault)) is None:
                    raise ProviderError(f"{self.name}: {method} {path}: {fault}; try again later") from fault
            await asyncio.sleep(pause)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The lines of a large result; raises ProviderError without one, TransientError where the connection broke."""
        url = self.url(path)
        async with aclosing(self.transport.lines(url, await self.headers_for("GET", url, b""))) as lines:
            async for line in lines:
                if isinstance(line, HttpResponse):
                    self.classify(line.error)
                    raise ProviderError(f"{self.name}: GET {path}: {self.error_text(line.error)}")
                if is_page(line[:200].decode("utf-8", "replace")):
                    raise TransientError("server", "a web page instead of the results")
                yield line

    async def list_models(self) -> list[str]:
        """The models that the service lists; raises ProviderError where it gives no list."""
        try:
            listed = (await self.call("GET", self.models_path or "/models", repeat=False)).json()
            entries = listed.get("data", listed.get("models")) if isinstance(listed, dict) else listed
            if isinstance(entries, list):
                names = [str(entry.get("id") or entry.get("name") or "") for entry in tables_of(entries)]
                return [name.removeprefix("models/") for name in names if name]
            why = service_error(200, listed).words
        except (RejectedError, TransientError) as error:
            why = str(error)
        then = f"; {advice}" if (advice := base_url_advice(self.base_url, self.version_in_base)) else ""
        raise ProviderError(f"{self.name}: {self.base_url} gives no list of models: {self.hide(why)}{then}")

    # --- failures ----------------------------------------------------------------------------------------------------

    def error_text(self, error: ApiError) -> str:
        """A service's words and status, without keys."""
        return f"{self.hide(error.text)} ({error.status})"

    def classify(self, error: ApiError, *, with_pages: bool = False) -> ErrorClass:
        """The class of a failure, if no other try may succeed.

        Once the service has answered, a proxy's page or a 403 without a reason is no end of the run.

        Raises:
            TransientError: another try may succeed; `with_pages`: so may one after a web page.
        """
        kind, rule = classify_error(error), rule_for(error)
        may_pass = kind == "transient" or (kind == "not_the_service" and self.answered) or (error.page and with_pages)
        if kind == "key" and self.answered:
            may_pass = error.status == 403 and rule.is_by_status
        if not may_pass:
            return kind
        words = self.error_text(error)
        if error.page:
            words = f"a web page instead of an answer: {words}"
        if rule.is_loading:
            self.notify_once(f"{self.name}: {rule.label}; waiting up to two minutes ({words})")
        is_rate = error.status == 429 or (error.status == 403 and kind == "transient")
        raise TransientError("rate" if is_rate else "server", words, error.pause, error.status)

    async def fatal_error(self, error: ApiError, kind: ErrorClass) -> ProviderError:
        """The error that ends a run, in one line."""
        words, at = self.error_text(error), self.base_url
        match kind:
            case "not_the_service":
                line = f"{at} {self._other_reply(error)}"
            case "key" if self.secret is not None:
                line = f"{at} refuses the key in {self.secret.origin}: {words}"
            case "key":
                give = "give one with --api-key-env NAME or --api-key-file FILE"
                line = f"{at} refuses us without a key: {words}; {give}"
            case "quota_exhausted":
                kept = "received responses are kept; continue later with the same command"
                line = f"the quota is exhausted at {at}: {words}; {kept}"
            case "other_api":
                line = f"does not answer at this API: {words}; use another model or api=auto"
            case _:
                line = f"no such {await self._missing_model(f'at {at}: {words}', error)}"
        return ProviderError(f"{self.name}: {line}")

    def _other_reply(self, error: ApiError) -> str:
        """Description of a reply from elsewhere: a redirection, a web page, or a server without that address."""
        advice = base_url_advice(self.base_url, self.version_in_base, error.message)
        advice = advice or "check the base URL, and what stands between here and there"
        if error.target is not None:
            moved = error.target.removesuffix(self.url(self.path).split("?")[0].removeprefix(self.base_url))
            if moved.startswith(("http://", "https://")) and moved not in {self.base_url, error.target}:
                advice = f"give --base-url {moved}"
            target = self.hide(error.target)
            return f"redirects to {target} ({error.status}): {advice}; keys do not follow redirections"
        if error.page:
            page = f"{self.hide(error.text)}, {error.status}"
            return f"answers with a web page ({page}), which no model wrote: {advice}"
        return f"has no such address: {self.error_text(error)}; {advice}"

    async def _missing_model(self, said: str, error: ApiError) -> str:
        """Description of a missing address or model, with the names that are most like it."""
        names: list[str] = []
        with suppress(TransientError, ProviderError):
            names = await self.list_models() if self.models_path else []
        if not names and (advice := base_url_advice(self.base_url, self.version_in_base, error.message)):
            return f"address or model {said}; {advice}"
        if self.model in names:
            return f"model {said}; the service lists it, so it is not loaded there, or this key may not use it"
        near = difflib.get_close_matches(self.model, names, n=3, cutoff=0.5)
        return f"model {said}" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
