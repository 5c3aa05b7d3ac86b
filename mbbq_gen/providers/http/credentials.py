"""The one place where keys are taken out of what comes from outside, before anything is read, cut, stored or shown.

    service ─► bytes and headers ─► SecretRedactor ─► HttpResponse ─► everything else

A key is known in every form in which careless services and proxies repeat it: as it is, escaped, percent-encoded, in
base64 (wherever in the encoded text it stands), in hexadecimal, and cut off in its second half. Keys that are not ours
are hidden, by what keys look like, only where a service's words are shown: an answer is never changed by a guess.
"""

from __future__ import annotations

import asyncio
import base64
import html
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus

from mbbq_gen.core.errors import MissingExtraError, ProviderError, UsageError
from mbbq_gen.providers.base import is_installed

HIDDEN: Final = "***"
SHORTEST_KEY: Final = 6
"""Shorter keys, as local servers take them, are ordinary words that would be hidden everywhere."""
_LONG: Final = 16
"""Of keys as long as this, the first half is hidden too: whoever cuts a text may cut it in the middle of one."""
_LOOKS_LIKE_KEY: Final = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|key|hf|nvapi|pplx|r8)[-_][A-Za-z0-9_*\-.…]{8,}|\bAIza[A-Za-z0-9_*\-.…]{8,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9_*\-.…+/=]{8,}"
)
"""Keys, whole or half hidden, as services repeat them in their errors and users type them in the wrong place."""
_USER_IN_ADDRESS: Final = re.compile(r"(?<=://)[^\s'\"]*@|[^/\s'\"@]+@")
_QUERY_OF_ADDRESS: Final = re.compile(r"(://[^\s?'\"]*\?)[^\s'\"]+")
_PERCENT: Final = re.compile("%[0-9A-F]{2}")
_ESCAPED: Final = re.compile(rb"\\\\|\\/|\\u00[2-7][0-9A-Fa-f]")
"""A character of a key as JSON may write it; an escaped backslash, so that what follows it is not taken for one."""
_SECRET_HEADERS: Final = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)
_SCHEME: Final = re.compile(r"^(?:Bearer|Basic|Token) +", re.IGNORECASE)


_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|xai|key|hf|nvapi|pplx|r8)[-_]|AIza)[\w.-]*?"
    r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}"
)


def is_lookalike(text: str) -> bool:
    """Whether a text holds what must be a key: the prefix of one, and many letters and digits in a row."""
    return _KEY.search(text) is not None


class SecretRedactor:
    """Hides some secrets in texts, bytes and JSON."""

    def __init__(self, keys: Iterable[str], headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Hides keys, and whatever else is sent in headers to be let in."""
        self._known: set[str] = set()
        self._add({*keys, *_carried(headers)})

    def learn(self, headers: Mapping[str, str]) -> None:
        """Hides from now on what headers carry to be let in as well: credentials that are renewed while a run goes on.

        A signature of one request alone is not learned: it is worth nothing to anybody else.
        """
        self._add(_carried(headers))

    def _add(self, secrets: set[str]) -> None:
        known = self._known | {secret for secret in secrets if len(secret) >= SHORTEST_KEY}
        if self._known and known == self._known:
            return
        self._known = known
        forms = {form for secret in known for form in _forms(secret) if len(form) >= SHORTEST_KEY}
        self._forms = sorted(forms, key=len, reverse=True)
        self._halves = []
        for secret in (secret for secret in known if len(secret) >= _LONG):
            half = secret[: max(8, len(secret) // 2)]
            rest = secret[len(half) :]  # as much of it as is there
            cut = re.escape(half) + "".join(f"(?:{re.escape(letter)}" for letter in rest) + ")?" * len(rest)
            self._halves.append((half, re.compile(cut)))
        self._bytes = [form.encode() for form in self._forms]
        self._byte_halves = [(half.encode(), re.compile(cut.pattern.encode())) for half, cut in self._halves]

    def text(self, text: str) -> str:
        """The text without the secrets."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN)
        for half, cut in self._halves:
            if half in text:
                text = cut.sub(HIDDEN, text)
        return text

    def body(self, body: bytes) -> bytes:
        """The bytes of a reply without the secrets, JSON or not, whole or cut."""
        hidden = self._hidden(body)
        if b"\\" not in hidden or _ESCAPED.search(hidden) is None:
            return hidden

        def unescaped(found: re.Match[bytes]) -> bytes:
            """The character itself, where it means the same in JSON."""
            text = found.group()
            if text in (rb"\/", rb"\\"):
                return text[-1:] if text == rb"\/" else text
            letter = bytes([int(text[2:], 16)])
            return b"\\" + letter if letter in b'"\\' else letter

        plain = _ESCAPED.sub(unescaped, hidden)
        found = self._hidden(plain)
        return hidden if found == plain else found

    def _hidden(self, body: bytes) -> bytes:
        for form in self._bytes:
            if form in body:
                body = body.replace(form, HIDDEN.encode())
        for half, cut in self._byte_halves:
            if half in body:
                body = cut.sub(HIDDEN.encode(), body)
        return body

    def headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Headers without the secrets, by names in small letters where there were any."""
        together = "\n".join(headers.values())
        if self.text(together) == together:
            return headers
        return {name.lower(): self.text(value) for name, value in headers.items()}

    def shown(self, value: Any) -> Any:
        """A service's words, or JSON with them, fit to be shown: without the secrets, and without other keys."""
        if isinstance(value, str):
            return hide_lookalikes(self.text(value))
        if isinstance(value, list):
            return [self.shown(entry) for entry in value]
        if isinstance(value, dict):
            return {self.shown(str(name)): self.shown(entry) for name, entry in value.items()}
        return value


def _carried(headers: Mapping[str, str]) -> set[str]:
    """What headers carry to be let in."""
    return {
        _SCHEME.sub("", value)
        for name, value in headers.items()
        if _SECRET_HEADERS.search(name) and "signature=" not in value.lower()
    }


def hide_lookalikes(text: str) -> str:
    """A text without what looks like a key."""
    return _LOOKS_LIKE_KEY.sub(HIDDEN, text)


def hide_typed(text: str) -> str:
    """What a user typed, or words that repeat it, without keys, and addresses without passwords and queries."""
    text = _USER_IN_ADDRESS.sub(f"{HIDDEN}@", hide_lookalikes(text))
    return _QUERY_OF_ADDRESS.sub(rf"\1{HIDDEN}", text)


def _forms(secret: str) -> Iterator[str]:
    """The ways to write a secret."""
    raw = secret.encode()
    for plain in {secret, secret.lower(), secret.upper()}:
        quoted = (quote(plain, safe=""), quote(plain), quote_plus(plain))
        yield from {
            plain,
            html.escape(plain),
            *quoted,
            *(_PERCENT.sub(lambda found: found.group().lower(), text) for text in quoted),
        }
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
    percent = "".join(f"%{byte:02X}" for byte in raw)
    yield from {percent, percent.lower(), raw.hex(), raw.hex().upper()}
    for before in range(3):
        # Where three bytes become four characters, a secret looks in three ways, by how many bytes stand before it.
        encoded = base64.b64encode(bytes(before) + raw).decode()
        whole = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        yield from {whole, whole.replace("+", "-").replace("/", "_")}
    with suppress(ValueError):  # what is itself base64, such as the `user:password` of Basic
        text = base64.b64decode(secret, validate=True).decode("ascii")
        if text.isprintable():
            yield from (text, text.partition(":")[2])


_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
"""How variables that hold keys are written; anything else may be the key itself, typed in the wrong place."""
_LONGEST_PLAIN: Final = 20
"""Characters of a name without a folder or an ending, above which it may be a key."""


@dataclass(frozen=True)
class Secret:
    """A key that does not show itself."""

    value: str = field(repr=False)
    origin: str
    """Where it came from, as an error should name it."""

    def __str__(self) -> str:
        return HIDDEN


def _checked_key(value: str, origin: str) -> Secret:
    """A key without the blanks around it.

    Raises:
        UsageError: it can't be sent: it has blanks, line breaks or other letters than keys have.
    """
    text = value.strip()
    if len(text.split()) != 1 or not (text.isascii() and text.isprintable()):
        raise UsageError(f"{origin}: must contain only the key, without blanks, line breaks or special characters")
    return Secret(text, origin)


def find_key(variables: Sequence[str], named: str | None, file: str | None) -> Secret | None:
    """The key: from the file, else from the variable that was named, else from the first of `variables` that is set.

    Raises:
        UsageError: where a file or variable was named and holds no key, or others may read the file.
    """
    if file is not None and named is not None:
        raise UsageError("give the key by --api-key-env or by --api-key-file, one of them")
    if file is not None:
        path = Path(file).expanduser()
        shown = hide_lookalikes(str(path))
        if not path.exists() and len(str(path)) > _LONGEST_PLAIN and path.name == str(path) and not path.suffix:
            shown = HIDDEN
        try:
            mode = path.stat().st_mode
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--api-key-file {shown}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--api-key-file {path}: not a text file") from error
        if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsageError(f"--api-key-file {path}: other users can read it; run: chmod 600 {path}")
        return Secret(_checked_key(text, f"--api-key-file {path}").value, str(path))
    if named is not None:
        if not os.environ.get(named, "").strip():
            shown = named if _VARIABLE.fullmatch(named) else HIDDEN
            raise UsageError(f"--api-key-env {shown}: this environment variable is not set; set it to your key")
        return _checked_key(os.environ[named], named)
    for variable in variables:
        if os.environ.get(variable, "").strip():
            return _checked_key(os.environ[variable], variable)
    return None


def missing_key(kind: str, variables: Sequence[str]) -> UsageError:
    """What to say where a key is needed and there is none."""
    return UsageError(f"{kind}: no key; set {variables[0]}, or give --api-key-env NAME or --api-key-file FILE")


_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
_BEFORE: Final = 300.0
"""Seconds before its end at which a token is renewed."""


class EntraTokens:
    """Tokens, renewed before they run out. Nothing is imported before the first one is needed."""

    def __init__(self) -> None:
        self._credential: Any = None
        self._token = ""
        self._until = 0.0

    def check(self, name: str) -> None:
        """Raises MissingExtraError where azure-identity is not installed."""
        if not is_installed("azure.identity"):
            raise MissingExtraError(f"{name}: needs azure-identity; pip install 'mbbq-gen[entra]'")

    async def token(self) -> str:
        """A token that holds now; raises ProviderError where Entra gives none."""
        if time.time() < self._until - _BEFORE:
            return self._token
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity.aio import DefaultAzureCredential

        if self._credential is None:
            self._credential = DefaultAzureCredential()
        try:
            found = await self._credential.get_token(_SCOPE)
        except ClientAuthenticationError as error:
            raise ProviderError("Microsoft Entra returned no token; log in again: az login") from error
        self._token, self._until = found.token, float(found.expires_on)
        return self._token

    async def close(self) -> None:
        """Closes the credential's connections."""
        if self._credential is not None:
            await self._credential.close()
            self._credential = None


_CLOUD_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


class VertexProject(NamedTuple):
    """A project and a region."""

    project: str
    region: str

    @property
    def path(self) -> str:
        """The address of the project, below the version of the API."""
        return f"/projects/{self.project}/locations/{self.region}"


def vertex_place(projects: Sequence[str] = (), regions: Sequence[str] = ()) -> VertexProject | None:
    """Project and region as the environment names them, by these variables or Google's own; None without a project."""
    names = ((*projects, "GOOGLE_CLOUD_PROJECT"), (*regions, "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"))
    values = ([os.environ.get(name, "").strip() for name in either] for either in names)
    project, region = (next(filter(None, given), None) for given in values)
    return VertexProject(project, region or "global") if project else None


def vertex_address(place: VertexProject | None) -> str:
    """The server of a region."""
    at = "" if place is None or place.region == "global" else f"{place.region}-"
    return f"https://{at}aiplatform.googleapis.com"


class GoogleCredentials:
    """Tokens, renewed when they run out. Nothing is imported before the first one is needed."""

    def __init__(self) -> None:
        self._found: Any = None
        self._lock = asyncio.Lock()

    def check(self, name: str) -> None:
        """Raises UsageError where there are no credentials."""
        if not is_installed("google.auth"):
            raise MissingExtraError(f"{name}: needs google-auth; pip install 'mbbq-gen[vertex]'")
        self._credentials(name)

    def _credentials(self, name: str = "Vertex AI") -> Any:
        if self._found is None:
            import google.auth
            from google.auth.exceptions import DefaultCredentialsError

            try:
                self._found, _ = google.auth.default(scopes=[_CLOUD_SCOPE])
            except DefaultCredentialsError as error:
                raise UsageError(
                    f"{name}: no Google credentials; first: gcloud auth application-default login, or name a service"
                    " account's file in GOOGLE_APPLICATION_CREDENTIALS"
                ) from error
        return self._found

    async def token(self) -> str:
        """A token that holds now; raises ProviderError where Google gives none."""
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        credentials = self._credentials()
        if credentials.valid:
            return str(credentials.token)
        async with self._lock:
            if not credentials.valid:
                try:
                    await asyncio.to_thread(credentials.refresh, Request())
                except GoogleAuthError as error:
                    kind = type(error).__name__
                    raise ProviderError(f"Google gives no token ({kind}); log in anew, nothing is lost") from error
        return str(credentials.token)

    async def close(self) -> None:
        """Nothing stays open."""


ENV_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


def filled_headers(headers: Mapping[str, Any]) -> tuple[dict[str, str], list[Secret]]:
    """The headers as they are sent, and the secrets that stand in them.

    Raises:
        UsageError: where the environment lacks a variable.
    """
    secrets: dict[str, Secret] = {}

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        value = os.environ.get(name, "").strip()
        if not value:
            raise UsageError(f"option headers: the environment holds no {name}; set it")
        if not (value.isascii() and value.isprintable()):
            raise UsageError(f"option headers: {name}: give one line of plain text")
        secrets[name] = Secret(value, name)
        return value

    filled = {name: ENV_VARIABLE.sub(value_of, str(text)) for name, text in headers.items()}
    return filled, list(secrets.values())
