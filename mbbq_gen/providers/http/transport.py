"""Bytes to a service and back, over one pool of connections. It knows nothing of retries, models or JSON shapes.

aiohttp: the official clients spend two milliseconds of a core on a request, most of it in httpx and in typed models;
this spends a tenth of one, and what comes back is read by the provider itself.
"""

from __future__ import annotations

import asyncio
import io
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.http.credentials import SecretRedactor
from mbbq_gen.providers.http.errors import TransientError
from mbbq_gen.providers.http.replies import MOST_BYTES, FormFile, HttpResponse, Line, with_other_scheme

_CONNECT_SECONDS: Final = 20.0
_PROBE_SECONDS: Final = 3.0
_LARGE: Final = 1_000_000
"""Bytes from which a body is sent in pieces, so that others may be heard between them."""
_MARGIN: Final = 4096
"""Bytes beyond what we take that are looked at for keys before the rest is cut off."""
_MOST_HOPS: Final = 5
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_ENCODING: Final = re.compile(r"content-encoding: (.+?)\. Please install `([\w.-]+)`")
_NO_TLS: Final = re.compile("WRONG_VERSION_NUMBER|HTTP_REQUEST|RECORD_LAYER_FAILURE|PACKET_LENGTH")
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError)


class Transport:
    """The connections to a service. Made and closed inside one event loop."""

    def __init__(self, url: str, timeout: float, redactor: SecretRedactor, most: int = MOST_BYTES) -> None:
        """Connections for a base URL; nothing is sent yet.

        `timeout`: seconds that a reply may take. `most`: bytes of an answer, which is cut there.
        """
        trusted: ssl.SSLContext | bool = True
        if url.startswith("https:"):
            trusted = ssl.create_default_context()
            if not trusted.get_ca_certs():  # a machine that has none
                import certifi

                trusted.load_verify_locations(certifi.where())
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, ssl=trusted),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
        )
        self._long = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=timeout)
        """The time that a large file may take: any, as long as something moves."""
        self._url, self._timeout, self._redactor, self._most = url, timeout, redactor, most
        self._reached = self._probed = False
        self._known_headers: Mapping[str, str] | None = None
        """Those sent last: whose secrets are hidden already."""
        self._proxies = getproxies()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """The reply to a request to the model, cut where it is longer than we take; raises as `send`."""
        if headers is not self._known_headers:
            self._redactor.learn(headers)
            self._known_headers = headers
        try:
            async with self._session.post(
                URL(url, encoded=True) if "%" in url else url,  # what is signed is what is sent
                headers=headers,
                data=io.BytesIO(body) if len(body) > _LARGE else body,
                allow_redirects=False,
                proxy=self._proxy(url),
            ) as reply:
                self._reached = True
                length = reply.content_length
                if length is not None and length <= self._most and "Content-Encoding" not in reply.headers:
                    return self._response(reply, await reply.read())
                taken = bytearray()
                async for chunk in reply.content.iter_any():
                    taken += chunk
                    if len(taken) > self._most:
                        reply.close()
                        whole = self._response(reply, bytes(taken[: self._most + _MARGIN]))
                        return whole._replace(body=whole.body[: self._most], is_cut=True)
                return self._response(reply, bytes(taken))
        except _FAILURES as error:
            raise await self._fault(error) from error

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | FormFile | None = None
    ) -> HttpResponse:
        """The whole reply of another address, whatever its status.

        Raises:
            TransientError: where the connection could not be made, broke, or took too long.
            ProviderError: where it can't be made at this address, or replies can't be decompressed here.
        """
        self._redactor.learn(headers)
        given: dict[str, Any] = {"headers": headers, "allow_redirects": False, "proxy": self._proxy(url)}
        try:
            if isinstance(body, FormFile):
                given["headers"] = {name: value for name, value in headers.items() if name.lower() != "content-type"}
                with body.path.open("rb") as stream:
                    form = aiohttp.FormData(dict(body.fields))
                    form.add_field("file", stream, filename=body.filename, content_type="application/jsonl")
                    async with self._session.request(method, url, data=form, timeout=self._long, **given) as reply:
                        return self._response(reply, await reply.read())
            data = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
            target = URL(url, encoded=True) if "%" in url else url
            async with self._session.request(method, target, data=data, **given) as reply:
                self._reached = True
                return self._response(reply, await reply.read())
        except _FAILURES as error:
            raise await self._fault(error) from error

    async def lines(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[Line | HttpResponse, None]:
        """The lines of a large answer as they come in; an HttpResponse, alone, where the status is not 200.

        A redirection is followed, never from https to something that others can read. To another host the headers do
        not go along: the key is in them, and a result that stands elsewhere is reached by its address alone. A line is
        cut a little further than it is taken, so that no key is cut before it is hidden.

        Raises:
            TransientError: as `send`.
        """
        self._redactor.learn(headers)
        most, rest = self._most, bytearray()
        try:
            for _ in range(_MOST_HOPS):
                async with self._session.get(
                    url, headers=headers, proxy=self._proxy(url), timeout=self._long, allow_redirects=False
                ) as reply:
                    location = reply.headers.get("Location") if reply.status in _REDIRECTIONS else None
                    target = urljoin(url, location or "")
                    if location and target.startswith(("https://", url.partition("://")[0] + "://")):
                        is_same_host = urlsplit(target)[:2] == urlsplit(url)[:2]
                        headers, url = headers if is_same_host else {"Accept": "*/*"}, target
                        continue
                    if reply.status != 200:
                        yield self._response(reply, await reply.read())
                        return
                    async for chunk in reply.content.iter_any():
                        for number, piece in enumerate(chunk.split(b"\n")):
                            if number:
                                yield Line(self._redactor.body(bytes(rest))[:most], len(rest) > most)
                                rest = bytearray()
                            rest += piece[: max(0, most + _MARGIN - len(rest))]
                    if rest:
                        yield Line(self._redactor.body(bytes(rest))[:most], len(rest) > most)
                    return
            raise TransientError("broken", f"{_MOST_HOPS} redirections, one after the other")
        except _FAILURES as error:
            raise await self._fault(error) from error

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()
        await asyncio.sleep(0)

    def _response(self, reply: aiohttp.ClientResponse, body: bytes) -> HttpResponse:
        """What came back, without the secrets that were sent."""
        return HttpResponse(reply.status, self._redactor.headers(reply.headers), self._redactor.body(body))

    def _proxy(self, url: str) -> str | None:
        """The proxy that the environment names for an address, or None."""
        if not self._proxies:
            return None
        scheme, _, rest = url.partition("://")
        host = rest.partition("/")[0].rpartition("@")[2]
        proxy = self._proxies.get(scheme)
        return None if proxy is None or proxy_bypass(host) else proxy

    async def _fault(self, error: Exception) -> TransientError | ProviderError:
        """What went wrong, in words. A ProviderError where no other try can succeed: http for https or the reverse,
        an untrusted certificate, an encoding that needs a package."""
        url, other = self._url, with_other_scheme(self._url)
        if found := _ENCODING.search(str(error)):
            return ProviderError(f"{url}: replies are encoded as {found[1]}; first: pip install {found[2]}")
        if not self._reached and isinstance(error, aiohttp.ClientConnectorCertificateError):
            return ProviderError(
                f"{url}: the certificate is not trusted: {error.certificate_error}; set SSL_CERT_FILE to the"
                " certificate of its issuer"
            )
        if not self._reached and isinstance(error, aiohttp.ClientConnectorSSLError) and _NO_TLS.search(str(error)):
            return ProviderError(f"{url}: speaks http, not https; try --base-url {other}")
        has_hung_up = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientResponseError)
        if not self._reached and has_hung_up and await self._is_tls():
            return ProviderError(f"{url}: speaks https, not http; try --base-url {other}")
        if isinstance(error, aiohttp.ClientConnectorError):
            return TransientError("connect", f"no connection: {error.os_error.strerror or error.os_error}")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return TransientError("connect", f"no connection within {_CONNECT_SECONDS:.0f} s")
        if isinstance(error, TimeoutError):
            return TransientError("timeout", f"no answer within {self._timeout:g} s")
        return TransientError("broken", f"the connection broke ({type(error).__name__})")

    async def _is_tls(self) -> bool:
        """Whether the server at an http address answers to TLS; tried once."""
        parts, is_first, self._probed = urlsplit(self._url), not self._probed, True
        if not is_first or parts.scheme != "http" or self._proxy(self._url) is not None:
            return False
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, ssl=context)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True
