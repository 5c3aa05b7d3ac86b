"""Bytes to a service and back, over one pool of connections. It knows nothing of retries, models or JSON shapes.

aiohttp: the official clients spend two milliseconds of a core on a request, most of it in httpx and in typed models;
this spends a quarter of one, and what comes back is read by the provider itself.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.text import storable
from mbbq_gen.providers.http.credentials import SecretRedactor, hide_lookalikes
from mbbq_gen.providers.http.errors import TransientError, is_page

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS: Final = 20.0
_PROBE_SECONDS: Final = 3.0
_SHOWN: Final = 80
_LONGEST_TEXT: Final = 2000
_LARGE: Final = 1_000_000
"""Bytes from which a body is sent in pieces, so that others may be heard between them."""
_MARGIN: Final = 4096
"""Bytes beyond what we take that are looked at for keys before the rest is cut off."""
_MOST_HOPS: Final = 5
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_ENCODING: Final = re.compile(r"content-encoding: (.+?)\. Please install `([\w.-]+)`")
_NO_TLS: Final = re.compile("WRONG_VERSION_NUMBER|HTTP_REQUEST|RECORD_LAYER_FAILURE|PACKET_LENGTH")
MOST_BYTES: Final = 16_000_000
"""Bytes of an answer that are taken if nobody says otherwise: some three million words."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What a service sent back."""

    status: int
    headers: Mapping[str, str]
    """Ask for names in small letters."""
    body: bytes
    is_cut: bool = False
    """Whether the body was longer than we take, and ends here."""

    def json(self) -> Any:
        """The body as JSON.

        Of a body that was longer than we take, what had come until then.

        Raises:
            TransientError: where it is not JSON: a cut or broken answer.
        """
        try:
            return _beginning(self.body) if self.is_cut else read_json(self.body)
        except ValueError as error:
            start = hide_lookalikes(self.body[:_LONGEST_TEXT].decode("utf-8", "replace"))[:_SHOWN]
            raise TransientError("malformed", f"the response is not JSON: {start!r}") from error

    @property
    def is_page(self) -> bool:
        """Whether it is a web page, of something that stands before the service."""
        return self.body[:_SHOWN].lstrip()[:1] == b"<" and is_page(self.body[:_LONGEST_TEXT].decode("utf-8", "replace"))


_API_VERSION: Final = re.compile(r"/v\d+(?:beta\d*|alpha\d*)?$")
_API_PATH: Final = re.compile(r"/(?:chat/completions|completions|responses|messages|models)$")
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
"""An escape: a whole pair, half of one (the group), or any other."""


def read_json(body: bytes) -> Any:
    """The JSON of a body, as files can hold it: bytes that are no UTF-8 and halves of pairs become U+FFFD.

    Raises:
        ValueError: where it is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):  # not strict JSON, but what others read
        pass
    try:
        try:
            value = json.loads(body)
        except UnicodeDecodeError:
            value = json.loads(body.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return storable(value) if any(found[1] for found in _ESCAPE.finditer(body)) else value


def _beginning(body: bytes) -> Any:
    """The JSON value that a body begins, with what is missing at its end left out."""
    from pydantic_core import from_json

    whole = _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], body)
    return from_json(whole, allow_partial="trailing-strings")


def error_payload(reply: HttpResponse) -> Any:
    """The JSON of an error; its text where it is not JSON."""
    try:
        return reply.json()
    except TransientError:
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


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a large answer."""

    content: bytes
    is_cut: bool = False
    """Whether it was longer than we take, and ends here."""

    def json(self) -> Any:
        """Its JSON; of a line that was too long, what had come until then.

        Raises:
            ValueError: where it is not JSON.
        """
        return _beginning(self.content) if self.is_cut else read_json(self.content)


class Transport:
    """The connections to a service. Made and closed inside one event loop."""

    def __init__(self, url: str, timeout: float, mask: SecretRedactor, most: int = MOST_BYTES) -> None:
        """Connections as the service at `url` needs them; nothing is sent yet.

        Args:
            url: The base URL.
            timeout: Seconds that a reply may take.
            mask: What comes back goes through it.
            most: Bytes of an answer that are taken; what is longer is cut there.
        """
        import aiohttp

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
        self._url, self._timeout, self._mask, self._most = url, timeout, mask, most
        self._reached = self._probed = False
        self._known_headers: Mapping[str, str] | None = None
        """Those sent last: whose secrets are hidden already."""
        self._proxies = getproxies()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """The reply to a request to the model, cut where it is longer than we take; raises as `send`."""
        return await self.send("POST", url, headers, body, limited=True)

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | FormFile | None,
        *,
        limited: bool = False,
    ) -> HttpResponse:
        """The service's reply, whatever its status; `limited` cuts a body that is longer than we take.

        Raises:
            TransientError: where the connection could not be made, broke, or took too long.
            ProviderError: where it can't be made at this address, or replies can't be decompressed here.
        """
        import aiohttp
        from yarl import URL

        if headers is not self._known_headers:
            self._mask.learn(headers)
            self._known_headers = headers
        given: dict[str, Any] = {"allow_redirects": False, "proxy": self._proxy(url)}
        try:
            if isinstance(body, FormFile):
                plain = {name: value for name, value in headers.items() if name.lower() != "content-type"}
                with body.path.open("rb") as stream:
                    form = aiohttp.FormData(dict(body.fields))
                    form.add_field(body.name, stream, filename=body.filename, content_type="application/jsonl")
                    given |= {"headers": plain, "data": form, "timeout": self._long}
                    async with self._session.request(method, url, **given) as reply:
                        return await self._masked(reply)
            data = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
            target = URL(url, encoded=True) if "%" in url else url  # what is signed is what is sent
            async with self._session.request(method, target, headers=headers, data=data, **given) as reply:
                self._reached = True
                return await (self._take(reply) if limited else self._masked(reply))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await self._check_lasting(error)
            raise passing_fault(error, self._timeout) from error

    async def _check_lasting(self, error: Exception) -> None:
        """Raises ProviderError where no other try can succeed: http for https or the reverse, an untrusted
        certificate, an encoding that needs a package."""
        import aiohttp

        url, other = self._url, with_other_scheme(self._url)
        if found := _ENCODING.search(str(error)):
            raise ProviderError(f"{url}: replies are encoded as {found[1]}; first: pip install {found[2]}")
        if self._reached:
            return
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            raise ProviderError(
                f"{url}: the certificate is not trusted: {error.certificate_error}; set SSL_CERT_FILE to the"
                " certificate of its issuer"
            )
        if isinstance(error, aiohttp.ClientConnectorSSLError) and _NO_TLS.search(str(error)):
            raise ProviderError(f"{url}: speaks http, not https; try --base-url {other}")
        if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientResponseError) and await self._is_tls():
            raise ProviderError(f"{url}: speaks https, not http; try --base-url {other}")

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

    async def _masked(self, reply: aiohttp.ClientResponse) -> HttpResponse:
        """What came back, without the secrets that were sent."""
        return HttpResponse(reply.status, self._mask.headers(reply.headers), self._mask.body(await reply.read()))

    async def _take(self, reply: aiohttp.ClientResponse) -> HttpResponse:
        """A reply of which no more is held in memory than we take."""
        length = reply.content_length
        if length is not None and length <= self._most and "Content-Encoding" not in reply.headers:
            return await self._masked(reply)
        body, headers = bytearray(), self._mask.headers(reply.headers)
        async for chunk in reply.content.iter_any():
            body += chunk
            if len(body) > self._most:
                reply.close()
                hidden = self._mask.body(bytes(body[: self._most + _MARGIN]))[: self._most]
                return HttpResponse(reply.status, headers, hidden, is_cut=True)
        return HttpResponse(reply.status, headers, self._mask.body(bytes(body)))

    async def lines(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[Line | HttpResponse, None]:
        """The lines of a large answer as they come in; an HttpResponse, alone, where the status is not 200.

        A redirection is followed, never from https to something that others can read. To another host the headers do
        not go along: the key is in them, and a result that stands elsewhere is reached by its address alone.

        Raises:
            TransientError: as `send`.
        """
        import aiohttp

        self._mask.learn(headers)
        try:
            for _ in range(_MOST_HOPS):
                async with self._session.get(
                    url, headers=headers, proxy=self._proxy(url), timeout=self._long, allow_redirects=False
                ) as reply:
                    location = reply.headers.get("Location") if reply.status in _REDIRECTIONS else None
                    target = urljoin(url, location or "")
                    is_safe = target.startswith(("https://", url.partition("://")[0] + "://"))
                    if not location or not is_safe:
                        async for line in self._lines_of(reply):
                            yield line
                        return
                    is_same_host = urlsplit(target)[:2] == urlsplit(url)[:2]
                    headers, url = headers if is_same_host else {"Accept": "*/*"}, target
            raise TransientError("broken", f"{_MOST_HOPS} redirections, one after the other")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise passing_fault(error, self._timeout) from error

    async def _lines_of(self, reply: aiohttp.ClientResponse) -> AsyncGenerator[Line | HttpResponse, None]:
        """The lines of a reply, or the reply itself where it is an error. Secrets are hidden, and what is too long cut:
        a little further, so that no key is cut before it is hidden."""
        if reply.status != 200:
            yield await self._masked(reply)
            return
        most, rest = self._most, bytearray()
        async for chunk in reply.content.iter_any():
            for number, piece in enumerate(chunk.split(b"\n")):
                if number:
                    yield Line(self._mask.body(bytes(rest))[:most], len(rest) > most)
                    rest = bytearray()
                rest += piece[: max(0, most + _MARGIN - len(rest))]
        if rest:
            yield Line(self._mask.body(bytes(rest))[:most], len(rest) > most)

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


def passing_fault(error: Exception, timeout: float) -> TransientError:
    """What went wrong between us and a service, in words; whether it was the connecting that failed."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        return TransientError("connect", f"no connection: {error.os_error.strerror or error.os_error}")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return TransientError("connect", f"no connection within {_CONNECT_SECONDS:.0f} s")
    if isinstance(error, TimeoutError):
        return TransientError("timeout", f"no answer within {timeout:g} s")
    return TransientError("broken", f"the connection broke ({type(error).__name__})")


_PLAIN_HTTP: Final = re.compile(r"plain http request .*https port|http request to an https", re.IGNORECASE)
"""The text with which a TLS server answers a plain request (nginx, Go, Apache)."""


def base_url_advice(base_url: str, with_version: bool | None, message: str = "") -> str | None:
    """What to try instead of a base URL where nothing answers; None where it looks right.

    `with_version`: whether such URLs end with a version (/v1), or must not; None: unknown. `message`: of the reply.
    """
    if _PLAIN_HTTP.search(message) and base_url.startswith("http://"):
        return f"it expects https: try --base-url {with_other_scheme(base_url)}"
    if with_version is None:
        return None
    plain = _API_PATH.sub("", base_url)
    if plain != base_url:
        return f"base URLs end before that: try --base-url {plain if with_version else _API_VERSION.sub('', plain)}"
    if with_version and not _API_VERSION.search(urlsplit(base_url).path):
        return f"base URLs of such servers mostly end in /v1: try --base-url {base_url}/v1"
    if not with_version and _API_VERSION.search(base_url):
        return f"the version is added here: try --base-url {_API_VERSION.sub('', base_url)}"
    return None


def with_other_scheme(url: str) -> str:
    """The address with http for https, or the reverse."""
    return f"http://{url[8:]}" if url.startswith("https://") else f"https://{url[7:]}"


# Fields of an answer; those of the wrong type are treated as missing.


def table_of(value: Any) -> dict[str, Any]:
    """A JSON object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def tables_of(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """The text of an answer: a text, or a number as one; "" where it is missing.

    Raises:
        TypeError: it is something else, so it is not known what the model wrote.
    """
    if value is None:
        return ""
    text = words_of(value)
    if text is None:
        raise TypeError(f"text of type {type(value).__name__}")
    return text


def words_of(value: Any) -> str | None:
    """A text, or a number as one; None where it is something else."""
    if value is None or type(value) is str:
        return value
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
