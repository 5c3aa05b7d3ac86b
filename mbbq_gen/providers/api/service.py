"""A service at a base URL: headers, keys, handling of failures, and requests other than those to the model."""

from __future__ import annotations

import asyncio
import os
import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import msgspec
from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.providers.api.options import RemoteOptions, checked_address
from mbbq_gen.providers.base import ExecutionContext, Provider, ProviderOptions
from mbbq_gen.providers.http.credentials import SHORTEST_KEY, CloudToken, SecretRedactor, filled_headers, find_key
from mbbq_gen.providers.http.errors import (
    ApiError,
    ErrorClass,
    RejectedError,
    TransientError,
    classify_error,
    is_page,
    rule_for,
)
from mbbq_gen.providers.http.replies import FormFile, HttpResponse
from mbbq_gen.providers.http.scheduler import RetryPolicy

if TYPE_CHECKING:
    from mbbq_gen.providers.http.transport import Transport

JSON_BOTH_WAYS: Final[Mapping[str, str]] = MappingProxyType(
    {"Content-Type": "application/json", "Accept": "application/json"}
)


class ApiService(Provider):
    """Access to a service. `ApiProvider` adds the requests to the model."""

    options_class: ClassVar[type[ProviderOptions]] = RemoteOptions
    options: Any
    address: str = ""
    """Base URL of the service itself, which requires a key."""
    address_variable: str = ""
    """Environment variable with another base URL."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key."""
    cloud: CloudToken | None = None
    """Cloud credentials, used instead of a key."""
    base_url_form: ClassVar[str] = "the address"
    """What to check where a base URL does not work."""
    no_temperature: ClassVar[re.Pattern[str] | None] = None
    """Names of models without a temperature: by default it is neither sent nor part of the settings."""
    reached = False
    """Whether there was any reply at the base URL."""
    answered = False
    """Whether the model has answered; from then on, a proxy's page is a transient failure."""

    def __init__(self, model: str, options: Any) -> None:
        """`options`: a RemoteOptions; raises UsageError if its base URL or key is invalid."""
        omits_temperature = self.no_temperature is not None and self.no_temperature.search(model)
        if omits_temperature and "temperature" not in options.model_fields_set:
            options = options.model_copy(update={"temperature": None})
        self.model, self.options = model, options
        self.default_url = self.address
        """The base URL that is left out of the settings."""
        self.base_url = self.find_base_url()
        self.needs_key = self.base_url == self.address
        """Whether the server requires a key."""
        self.secret = find_key(self.key_variables, options.api_key_env)
        key = self.secret
        if key is not None and len(key.value) >= SHORTEST_KEY and key.value in f"{model} {options.extra}":
            raise UsageError(f"the model's name or option extra holds the key in {key.origin}: leave it out")
        self.user_headers, secrets = filled_headers(options.headers)
        """The user's own headers of every request."""
        self._secrets = [*secrets, *([key.value] if key else [])]
        self._context = ExecutionContext()
        self._notified: set[str] = set()
        self._transport: Transport | None = None

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The provider for a model; nothing is imported or sent yet."""
        return cls(model, options)

    def find_base_url(self) -> str:
        """The base URL from options or environment, or the service's own."""
        return self.configured_url(self.address_variable) or self.address

    def configured_url(self, variable: str) -> str | None:
        """The base URL from the options or this environment variable, or None."""
        return self.options.base_url or checked_address(os.environ.get(variable), variable)

    def check_access(self) -> None:
        """Raises UsageError if the key or the cloud credentials are missing."""
        if self.cloud is not None:
            self.cloud.check(self.name)
        elif self.secret is None and self.needs_key:
            raise UsageError(f"{self.name}: no key; set {self.key_variables[0]}, or give --api-key-env NAME")

    @property
    @abstractmethod
    def path(self) -> str:
        """Path below the base URL for requests to the model."""

    @cached_property
    def root(self) -> str:
        """The URL below which all paths are."""
        return self.base_url

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Headers of every request, here with a Bearer key. They must not be stored."""
        return {**JSON_BOTH_WAYS, **({"Authorization": f"Bearer {self.secret.value}"} if self.secret else {})}

    @cached_property
    def redactor(self) -> SecretRedactor:
        """Redacts the keys in replies."""
        return SecretRedactor(self._secrets, self.headers)

    def hide(self, value: Any) -> Any:
        """A text or JSON value from a service, without keys."""
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
        """The URL of a path."""
        return f"{self.root}{path}"

    async def headers_for(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """All headers of one request, with a cloud token if one is used."""
        if self.cloud is None:
            return self._all_headers
        headers = {**self._all_headers, "Authorization": f"Bearer {await self.cloud.token()}"}
        return {name: value for name, value in headers.items() if name != "api-key"}

    @cached_property
    def _all_headers(self) -> Mapping[str, str]:
        """The headers of every request, with the user's own."""
        return {**self.headers, **self.user_headers}

    def notify_once(self, text: str) -> None:
        """Notifies the user, but not twice with the same text."""
        if text not in self._notified:
            self._notified.add(text)
            self._context.notify(text)

    # --- requests other than those to the model ----------------------------------------------------------------------

    async def send(self, method: str, url: str, data: bytes | FormFile | None = None) -> HttpResponse:
        """The reply to a request, with any status; raises TransientError if there is none."""
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
        """The reply to a request about files, batches or models, with a JSON body or a form.

        `path`: a URL, or a path below the base URL. `accept`: further statuses that are no failure. `repeat`: whether
        to retry.

        Raises:
            ProviderError: all attempts failed; RejectedError: the service refused the request.
            TransientError: the failure was transient, and `repeat` is false.
        """
        data = form or (None if body is None else msgspec.json.encode(body))
        tries = RetryPolicy(self.options.attempts, lambda: True, self.options.patience)
        while True:
            try:
                reply = await self.send(method, path if "://" in path else self.url(path), data)
                if (200 <= reply.status < 300 and not reply.is_page) or reply.status in accept:
                    return reply
                error = reply.error
                kind = self.classify(error, with_pages=True)
                if kind in {"key", "quota_exhausted", "not_the_service"}:
                    raise self.fatal_error(error, kind)
                raise RejectedError(f"{self.name}: {method} {path}: {self.error_text(error)}", error)
            except TransientError as fault:
                if not repeat:
                    raise
                if (pause := tries.next_pause(fault)) is None:
                    raise ProviderError(f"{self.name}: {method} {path}: {fault}; try again later") from fault
            await asyncio.sleep(pause)

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a large result; raises ProviderError or TransientError."""
        url = self.url(path)
        async with aclosing(self.transport.lines(url, await self.headers_for("GET", url, b""))) as lines:
            async for line in lines:
                if isinstance(line, HttpResponse):
                    self.classify(line.error)
                    raise ProviderError(f"{self.name}: GET {path}: {self.error_text(line.error)}")
                if is_page(line[:200].decode("utf-8", "replace")):
                    raise TransientError("server", "a web page instead of the results")
                yield line

    # --- failures ----------------------------------------------------------------------------------------------------

    def error_text(self, error: ApiError) -> str:
        """Message and status of a failure, without keys."""
        return f"{self.hide(error.text)} ({error.status})"

    def classify(self, error: ApiError, *, with_pages: bool = False) -> ErrorClass:
        """The class of a permanent failure; raises TransientError for a transient one.

        Once the model has answered, a proxy's page and a 403 without a reason are transient. `with_pages`: web pages
        always are.
        """
        kind = classify_error(error)
        is_transient = kind == "transient" or (error.is_page and with_pages)
        if self.answered and kind in {"key", "not_the_service"}:
            is_transient = kind == "not_the_service" or (error.status == 403 and rule_for(error).is_by_status)
        if not is_transient:
            return kind
        text = f"{'a web page instead of an answer: ' if error.is_page else ''}{self.error_text(error)}"
        is_rate = error.status == 429 or (error.status == 403 and kind == "transient")
        raise TransientError("rate" if is_rate else "server", text, error.pause, error.status)

    def fatal_error(self, error: ApiError, kind: ErrorClass) -> ProviderError:
        """The error that ends the run, by the class of a failure."""
        words, at = self.error_text(error), self.base_url
        match kind:
            case "not_the_service" if error.redirect is not None:
                target = self.hide(error.redirect)
                line = f"{at} redirects to {target} ({error.status}): keys do not follow; give the right --base-url"
            case "not_the_service" if error.is_page:
                line = f"{at} answers with a web page ({self.hide(error.text)}, {error.status}); check"
                line = f"{line} {self.base_url_form}, and what stands between here and there"
            case "not_the_service":
                line = f"{at} has no such address: {words}; check {self.base_url_form}"
            case "key" if self.secret is not None:
                line = f"{at} refuses the key in {self.secret.origin}: {words}"
            case "key":
                line = f"{at} refuses us without a key: {words}; give one with --api-key-env NAME"
            case "quota_exhausted":
                kept = "received responses are kept; continue later with the same command"
                line = f"the quota is exhausted at {at}: {words}; {kept}"
            case "other_api":
                line = f"does not answer at this API: {words}; give --model-arg api=responses, or another model"
            case _:
                line = f"no such model at {at}: {words}; check the model's name, and {self.base_url_form}"
        return ProviderError(f"{self.name}: {line}")
