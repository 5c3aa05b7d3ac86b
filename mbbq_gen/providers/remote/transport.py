"""Bytes to a service and back, over one pool of connections. It knows nothing of retries, models or JSON shapes.

aiohttp: the official clients spend two milliseconds of a core on a request, most of it in httpx and in typed models;
this spends a quarter of one, and what comes back is read by the provider itself.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import getproxies, proxy_bypass

from mbbq_gen.providers.remote.faults import PassingError
from mbbq_gen.providers.remote.masking import Mask, hide_lookalikes

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS: Final = 20.0
_SHOWN: Final = 80
_LONGEST_TEXT: Final = 2000


@dataclass(frozen=True, slots=True)
class Reply:
    """What a service sent back."""

    status: int
    headers: Mapping[str, str]
    """Ask for names in small letters."""
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            PassingError: where it is not JSON: a cut or broken answer.
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            start = hide_lookalikes(self.body[:_LONGEST_TEXT].decode("utf-8", "replace"))[:_SHOWN]
            raise PassingError("malformed", f"answered something that is not JSON: {start!r}") from error


def error_payload(reply: Reply) -> Any:
    """The JSON of an error; its text where it is not JSON."""
    try:
        return reply.json()
    except PassingError:
        return reply.body[:_LONGEST_TEXT].decode("utf-8", "replace")


@dataclass(frozen=True)
class FormFile:
    """A file to be sent as a form, read from disk as it goes out."""

    path: Path
    filename: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """The form's other fields."""
    name: str = "file"
    """The file's own field."""


class Wire:
    """The connections to a service. Made and closed inside one event loop."""

    def __init__(self, session: aiohttp.ClientSession, timeout: float, mask: Mask) -> None:
        self._session = session
        self._mask = mask
        self._timeout = timeout
        self._proxies = getproxies()

    @classmethod
    def open(cls, url: str, timeout: float, mask: Mask) -> Wire:
        """Connections as the service at `url` needs them; nothing is sent yet. What comes back goes through `mask`."""
        import aiohttp

        connector = aiohttp.TCPConnector(
            limit=0, ttl_dns_cache=300, ssl=_trusted() if url.startswith("https:") else True
        )
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        session = aiohttp.ClientSession(
            connector=connector, timeout=limits, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
        )
        return cls(session, timeout, mask)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | FormFile | None) -> Reply:
        """The service's reply, whatever its status.

        Raises:
            PassingError: where the connection could not be made, broke, or took too long.
        """
        import aiohttp

        try:
            if isinstance(body, FormFile):
                return await self._send_form(method, url, headers, body)
            async with self._session.request(
                method, url, headers=headers, data=body, allow_redirects=False, proxy=self._proxy(url)
            ) as reply:
                return await self._masked(reply)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise passing_fault(error, self._timeout) from error

    async def _send_form(self, method: str, url: str, headers: Mapping[str, str], form: FormFile) -> Reply:
        import aiohttp

        plain = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        with form.path.open("rb") as stream:
            data = aiohttp.FormData(dict(form.fields))
            data.add_field(form.name, stream, filename=form.filename, content_type="application/jsonl")
            long = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=self._timeout)
            async with self._session.request(
                method, url, headers=plain, data=data, allow_redirects=False, proxy=self._proxy(url), timeout=long
            ) as reply:
                return await self._masked(reply)

    async def lines(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes | Reply, None]:
        """The lines of a large answer as they come in; a Reply, alone, where the status is not 200.

        Raises:
            PassingError: as `send`.
        """
        import aiohttp

        long = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=self._timeout)
        try:
            async with self._session.get(url, headers=headers, proxy=self._proxy(url), timeout=long) as reply:
                if reply.status != 200:
                    yield await self._masked(reply)
                    return
                rest = b""
                async for chunk in reply.content.iter_any():
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield self._mask.body(line)
                if rest:
                    yield self._mask.body(rest)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise passing_fault(error, self._timeout) from error

    async def _masked(self, reply: aiohttp.ClientResponse) -> Reply:
        """What came back, without the secrets that were sent."""
        return Reply(reply.status, self._mask.headers(reply.headers), self._mask.body(await reply.read()))

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()
        await asyncio.sleep(0)

    def _proxy(self, url: str) -> str | None:
        """The proxy that the environment names for an address, or None."""
        if not self._proxies:
            return None
        scheme, _, rest = url.partition("://")
        host = rest.partition("/")[0].rpartition("@")[2]
        proxy = self._proxies.get(scheme)
        return None if proxy is None or proxy_bypass(host) else proxy


def passing_fault(error: Exception, timeout: float) -> PassingError:
    """What went wrong between us and a service, in words; whether it was the connecting that failed."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        return PassingError("connect", f"no connection: {error.os_error.strerror or error.os_error}")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return PassingError("connect", f"no connection within {_CONNECT_SECONDS:.0f} s")
    if isinstance(error, TimeoutError):
        return PassingError("timeout", f"no answer within {timeout:g} s")
    return PassingError("broken", f"the connection broke ({type(error).__name__})")


def _trusted() -> ssl.SSLContext:
    """The machine's certificates, and those of certifi for machines that have none."""
    import certifi

    context = ssl.create_default_context()
    if not context.get_ca_certs():
        context.load_verify_locations(certifi.where())
    return context
