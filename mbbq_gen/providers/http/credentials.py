"""Finds API keys, fetches cloud tokens, and redacts secrets in replies before they are read or stored.

A key is redacted in the forms in which services and proxies repeat it: plain, escaped, percent-encoded, in base64 (at
any offset), and truncated in its second half. Other keys are recognised by their prefix, and are redacted only in
messages of services: answers are never changed by a heuristic.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.parse import quote, quote_plus

from mbbq_gen.core.errors import MissingExtraError, ProviderError, UsageError
from mbbq_gen.providers.base import is_installed

HIDDEN: Final = "***"
SHORTEST_KEY: Final = 6
"""Shorter keys, as used at local servers, are not redacted: they may be ordinary words."""
_LONG: Final = 16
"""Minimum length of keys whose first half is redacted too, since a truncated text may end within a key."""
_LOOKS_LIKE_KEY: Final = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|key|hf|nvapi|pplx|r8)[-_][A-Za-z0-9_*\-.…]{8,}|\bAIza[A-Za-z0-9_*\-.…]{8,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9_*\-.…+/=]{8,}"
)
"""Keys, complete or masked, in services' errors and user input; it may also match other texts."""
_USER_IN_ADDRESS: Final = re.compile(r"(?<=://)[^\s'\"]*@|[^/\s'\"@]+@")
_QUERY_OF_ADDRESS: Final = re.compile(r"(://[^\s?'\"]*\?)[^\s'\"]+")
_PERCENT: Final = re.compile("%[0-9A-F]{2}")
_ESCAPED: Final = re.compile(rb"\\\\|\\/|\\u00[2-7][0-9A-Fa-f]")
"""An escaped character in JSON; escaped backslashes are matched so that the next character is not misread."""
_SECRET_HEADERS: Final = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)
_SCHEME: Final = re.compile(r"^(?:Bearer|Basic|Token) +", re.IGNORECASE)
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|xai|key|hf|nvapi|pplx|r8)[-_]|AIza)[\w.-]*?"
    r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}"
)


def holds_key(text: str) -> bool:
    """Whether a text holds a key: a known prefix and a long run of letters and digits."""
    return _KEY.search(text) is not None


class SecretRedactor:
    """Redacts secrets in texts, bytes and JSON."""

    def __init__(self, keys: Iterable[str], headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Redacts these keys, and credentials in these headers."""
        self._known: frozenset[str] = frozenset()
        self._forms: list[bytes] = []
        self._halves: list[tuple[bytes, bytes]] = []
        """The first half of each long secret, and the whole."""
        self.learn(headers, keys)

    def learn(self, headers: Mapping[str, str], keys: Iterable[str] = ()) -> None:
        """Redacts these credentials too; request signatures are not secret, since they can't be reused."""
        carried = [
            _SCHEME.sub("", value)
            for name, value in headers.items()
            if _SECRET_HEADERS.search(name) and "signature=" not in value.lower()
        ]
        new = {secret for secret in (*keys, *carried) if len(secret) >= SHORTEST_KEY} - self._known
        if not new:
            return
        self._known |= new
        forms = {form.encode() for secret in new for form in _forms(secret) if len(form) >= SHORTEST_KEY}
        self._forms = sorted({*self._forms, *forms}, key=len, reverse=True)
        whole = [secret.encode() for secret in new if len(secret) >= _LONG]
        self._halves += [(secret[: len(secret) // 2], secret) for secret in whole]

    def text(self, text: str) -> str:
        """The text without the secrets."""
        body = text.encode("utf-8", "surrogatepass")
        hidden = self._hidden(body)
        return text if hidden is body else hidden.decode("utf-8", "surrogatepass")

    def body(self, body: bytes) -> bytes:
        """The bytes of a reply without the secrets, JSON or not, whole or cut."""
        hidden = self._hidden(body)
        if b"\\" not in hidden or _ESCAPED.search(hidden) is None:
            return hidden
        plain = _ESCAPED.sub(_unescaped, hidden)
        found = self._hidden(plain)
        return hidden if found == plain else found

    def _hidden(self, body: bytes) -> bytes:
        for form in self._forms:
            if form in body:
                body = body.replace(form, HIDDEN.encode())
        for half, secret in self._halves:
            while (start := body.find(half)) >= 0:  # and as much of the second half as follows
                end = start + len(half)
                while end < len(body) and secret.startswith(body[start : end + 1]):
                    end += 1
                body = body[:start] + HIDDEN.encode() + body[end:]
        return body

    def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Headers without the secrets; names are in lower case if anything was redacted."""
        together = "\n".join(headers.values())
        if self.text(together) is together:
            return headers
        return {name.lower(): self.text(value) for name, value in headers.items()}

    def shown(self, value: Any) -> Any:
        """A service's message or JSON without the secrets and anything that looks like a key."""
        if isinstance(value, str):
            return hide_lookalikes(self.text(value))
        if isinstance(value, list):
            return [self.shown(entry) for entry in value]
        if isinstance(value, dict):
            return {self.shown(str(name)): self.shown(entry) for name, entry in value.items()}
        return value


def _unescaped(found: re.Match[bytes]) -> bytes:
    """The character of an escape in JSON; the escape itself if JSON requires it."""
    text = found.group()
    if text[1:2] != b"u":
        return b"/" if text == rb"\/" else text
    letter = bytes([int(text[2:], 16)])
    return b"\\" + letter if letter in b'"\\' else letter


def hide_lookalikes(text: str) -> str:
    """A text without anything that looks like a key."""
    return _LOOKS_LIKE_KEY.sub(HIDDEN, text)


def redact_input(text: str) -> str:
    """User input without keys; URLs without passwords and queries."""
    text = _USER_IN_ADDRESS.sub(f"{HIDDEN}@", hide_lookalikes(text))
    return _QUERY_OF_ADDRESS.sub(rf"\1{HIDDEN}", text)


def _forms(secret: str) -> Iterator[str]:
    """The encodings of a secret."""
    for plain in {secret, secret.lower()}:
        quoted = (quote(plain, safe=""), quote(plain), quote_plus(plain))
        yield from (plain, json.dumps(plain)[1:-1], *quoted)
        yield from (_PERCENT.sub(lambda found: found.group().lower(), text) for text in quoted)
    raw = secret.encode()
    for before in range(3):  # base64 depends on the offset modulo 3 bytes
        encoded = base64.b64encode(bytes(before) + raw).decode()
        whole = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))
    with suppress(ValueError):  # a secret in base64, such as the `user:password` of Basic
        text = base64.b64decode(secret, validate=True).decode("ascii")
        if text.isprintable():
            yield from (text, text.partition(":")[2])


@dataclass(frozen=True)
class Secret:
    """A key whose repr and str do not show it."""

    value: str = field(repr=False)
    origin: str
    """Environment variable, for messages."""

    def __str__(self) -> str:
        return HIDDEN


def find_key(variables: Sequence[str], named: str | None) -> Secret | None:
    """The key in the `named` variable, else in the first of `variables` that is set.

    Raises UsageError if the named variable is not set, or a variable holds something else than a key.
    """
    for variable in variables if named is None else (named,):
        if key := os.environ.get(variable, "").strip():
            if len(key.split()) != 1 or not (key.isascii() and key.isprintable()):
                raise UsageError(
                    f"{variable}: must contain only the key, without blanks, line breaks or special characters"
                )
            return Secret(key, variable)
    if named is not None:
        shown = named if re.fullmatch("[A-Z][A-Z0-9_]{0,63}", named) else HIDDEN
        raise UsageError(f"--api-key-env {shown}: this environment variable is not set; set it to your key")
    return None


class CloudToken:
    """An access token of a cloud, renewed five minutes before it expires; imports packages lazily."""

    def __init__(self, cloud: Literal["entra", "vertex"]) -> None:
        """`entra`: Microsoft Entra, for Azure. `vertex`: Google's credentials, for Vertex AI."""
        self._cloud, self._token, self._renew_at, self._lock = cloud, "", 0.0, asyncio.Lock()

    def check(self, name: str) -> None:
        """Raises UsageError if a package or the credentials are missing."""
        module = "azure.identity" if self._cloud == "entra" else "google.auth"
        if not is_installed(module):
            raise MissingExtraError(f"{name}: needs {module}; pip install 'mbbq-gen[{self._cloud}]'")
        if self._cloud == "vertex":
            _google_credentials(name)

    async def token(self) -> str:
        """A valid token; raises ProviderError if there is none."""
        async with self._lock:
            if time.time() >= self._renew_at:
                fetch = _entra_token if self._cloud == "entra" else _google_token
                self._token, end = await asyncio.to_thread(fetch)
                self._renew_at = end - 300
        return self._token


def _entra_token() -> tuple[str, float]:
    """A new token and its expiry in seconds since 1970."""
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import DefaultAzureCredential

    try:
        with DefaultAzureCredential() as credential:
            found = credential.get_token("https://cognitiveservices.azure.com/.default")
    except ClientAuthenticationError as error:
        raise ProviderError("Microsoft Entra returned no token; log in again: az login") from error
    return found.token, float(found.expires_on)


def _google_credentials(name: str) -> Any:
    import google.auth

    try:
        return google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[0]
    except google.auth.exceptions.DefaultCredentialsError as error:
        raise UsageError(
            f"{name}: no Google credentials; first: gcloud auth application-default login, or name a service"
            " account's file in GOOGLE_APPLICATION_CREDENTIALS"
        ) from error


def _google_token() -> tuple[str, float]:
    """A new token and its expiry in seconds since 1970; infinity if it does not expire."""
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    credentials = _google_credentials("Vertex AI")
    try:
        credentials.refresh(Request())
    except GoogleAuthError as error:
        raise ProviderError(f"Google gives no token ({type(error).__name__}); log in anew, nothing is lost") from error
    expiry = credentials.expiry
    return str(credentials.token), expiry.replace(tzinfo=UTC).timestamp() if expiry else math.inf


VERTEX: Final = "https://aiplatform.googleapis.com"


def vertex_place(projects: Sequence[str] = (), regions: Sequence[str] = ()) -> tuple[str, str] | None:
    """Server and path of the Vertex AI project in the environment, or None; the variables given come first."""
    names = ((*projects, "GOOGLE_CLOUD_PROJECT"), (*regions, "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"))
    values = ([os.environ.get(name, "").strip() for name in either] for either in names)
    project, region = (next(filter(None, given), None) for given in values)
    prefix = "" if region in (None, "global") else f"{region}-"
    path = f"/projects/{project}/locations/{region or 'global'}"
    return (VERTEX.replace("//", f"//{prefix}"), path) if project else None


def filled_headers(headers: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The headers with $NAME replaced by environment variables, and the values of these.

    UsageError if a variable is not set to one line of plain text.
    """
    secrets: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1], "").strip()
        if not value or not (value.isascii() and value.isprintable()):
            raise UsageError(f"option headers: {found[1]}: set this environment variable to one line of plain text")
        secrets.append(value)
        return value

    return {name: re.sub(r"\$\{?(\w+)\}?", value_of, text) for name, text in headers.items()}, secrets
