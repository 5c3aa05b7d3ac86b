"""HTTP requests over one connection pool; retries and the meaning of replies are in other modules.

aiohttp needs 0.1 ms of CPU time per request; the official clients of the services need 2 ms.
"""

from __future__ import annotations

import asyncio
import io
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.http.credentials import SecretRedactor
from mbbq_gen.providers.http.errors import TransientError
from mbbq_gen.providers.http.replies import FormFile, HttpResponse

_CONNECT_SECONDS: Final = 20.0
_LARGE: Final = 1_000_000
"""Bytes from which a body is sent in chunks, so that it does not block the event loop."""
_MOST_BYTES: Final = 16_000_000
"""Maximum bytes of an answer: about three million words."""
_NO_TLS: Final = re.compile("WRONG_VERSION_NUMBER|HTTP_REQUEST|RECORD_LAYER_FAILURE|PACKET_LENGTH")
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError)


class Transport:
    """The connections to a service; must be opened and closed in the same event loop."""

    def __init__(self, url: str, timeout: float, redactor: SecretRedactor) -> None:
        """`timeout`: maximum seconds for a reply."""
        trusted: ssl.SSLContext | bool = True
        if url.startswith("https:"):
            trusted = ssl.create_default_context()
            if not trusted.get_ca_certs():  # the machine has no certificates
                import certifi

                trusted.load_verify_locations(certifi.where())
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, ssl=trusted),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
        )
        self._long = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=timeout)
        self._url, self._timeout, self._redactor = url, timeout, redactor
        self._reached = False
        self._known_headers: Mapping[str, str] | None = None  # the last headers, whose secrets are redacted already
        self._proxies = getproxies()

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | FormFile | None = None
    ) -> HttpResponse:
        """The reply to a request, with any status.

        Raises TransientError if the connection failed, ProviderError if another attempt would fail too.
        """
        self._learn(headers)
        given: dict[str, Any] = {"headers": headers, "allow_redirects": False, "proxy": self._proxy(url)}
        try:
            with ExitStack() as opened:
                if isinstance(body, FormFile):
                    kept = {name: value for name, value in headers.items() if name.lower() != "content-type"}
                    form, stream = aiohttp.FormData(dict(body.fields)), opened.enter_context(body.path.open("rb"))
                    form.add_field("file", stream, filename=body.filename, content_type="application/jsonl")
                    given |= {"headers": kept, "data": form, "timeout": self._long}
                else:
                    given["data"] = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
                target = URL(url, encoded=True) if "%" in url else url  # a signed URL must be sent unchanged
                async with self._session.request(method, target, **given) as reply:
                    self._reached = True
                    length = reply.content_length
                    if length is not None and length <= _MOST_BYTES and "Content-Encoding" not in reply.headers:
                        return self._response(reply, await reply.read())
                    received = bytearray()
                    async for chunk in reply.content.iter_any():
                        received += chunk
                        if len(received) > _MOST_BYTES:
                            raise TransientError("malformed", f"the response has more than {_MOST_BYTES:,} bytes")
                    return self._response(reply, bytes(received))
        except _FAILURES as error:
            raise self._fault(error) from error

    async def lines(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes | HttpResponse, None]:
        """Yields the lines of a large answer as they arrive, or a single HttpResponse if the status is not 200.

        A line is truncated at the maximum size of an answer. Raises as `send`.
        """
        self._learn(headers)
        rest = bytearray()
        try:
            async with self._session.get(
                url, headers=headers, proxy=self._proxy(url), timeout=self._long, allow_redirects=False
            ) as reply:
                if reply.status != 200:
                    yield self._response(reply, await reply.read())
                    return
                async for chunk in reply.content.iter_any():
                    for number, piece in enumerate(chunk.split(b"\n")):
                        if number:
                            yield self._redactor.body(bytes(rest))
                            rest.clear()
                        rest += piece[: max(0, _MOST_BYTES - len(rest))]
                if rest:
                    yield self._redactor.body(bytes(rest))
        except _FAILURES as error:
            raise self._fault(error) from error

    def _learn(self, headers: Mapping[str, str]) -> None:
        """Redacts the secrets in these headers from now on."""
        if headers is not self._known_headers:
            self._redactor.learn(headers)
            self._known_headers = headers

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()
        await asyncio.sleep(0)

    def _response(self, reply: aiohttp.ClientResponse, body: bytes) -> HttpResponse:
        """The reply with redacted secrets."""
        return HttpResponse(reply.status, self._redactor.headers(reply.headers), self._redactor.body(body))

    def _proxy(self, url: str) -> str | None:
        """The proxy for a URL from the environment, or None."""
        if not self._proxies:
            return None
        scheme, _, rest = url.partition("://")
        host = rest.partition("/")[0].rpartition("@")[2]
        proxy = self._proxies.get(scheme)
        return None if proxy is None or proxy_bypass(host) else proxy

    def _fault(self, error: Exception) -> TransientError | ProviderError:
        """Our error for one of aiohttp; a ProviderError if no other attempt can succeed."""
        url = self._url
        if not self._reached and isinstance(error, aiohttp.ClientConnectorCertificateError):
            return ProviderError(
                f"{url}: the certificate is not trusted: {error.certificate_error}; set SSL_CERT_FILE to the"
                " certificate of its issuer"
            )
        if not self._reached and isinstance(error, aiohttp.ClientConnectorSSLError) and _NO_TLS.search(str(error)):
            return ProviderError(f"{url}: speaks http, not https; write http:// in --base-url")
        if isinstance(error, aiohttp.ClientConnectorError):
            return TransientError("connect", f"no connection: {error.os_error.strerror or error.os_error}")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return TransientError("connect", f"no connection within {_CONNECT_SECONDS:.0f} s")
        if isinstance(error, TimeoutError):
            return TransientError("timeout", f"no answer within {self._timeout:g} s")
        return TransientError("broken", f"the connection broke ({type(error).__name__})")
