"""The one place where keys are taken out of what comes from outside, before anything is read, cut, stored or shown.

    service ─► bytes and headers ─► Mask ─► Reply ─► everything else

A key is known in every form in which careless services and proxies repeat it: as it is, escaped, percent-encoded, in
base64 (wherever in the encoded text it stands), in hexadecimal, and cut off in its second half. Keys that are not ours
are hidden, by what keys look like, only where a service's words are shown: an answer is never changed by a guess.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "***"
_SHORTEST: Final = 6
"""Shorter keys, as local servers take them, are ordinary words that would be hidden everywhere."""
_LONG: Final = 16
"""Of keys as long as this, the first half is hidden too: whoever cuts a text may cut it in the middle of one."""
_LOOKS_LIKE_KEY: Final = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|key|hf)[-_][A-Za-z0-9_*\-.…]{8,}|\bAIza[A-Za-z0-9_*\-.…]{8,}"
    r"|(?<=[Bb]earer )[A-Za-z0-9_*\-.…+/=]{8,}"
)
"""Keys, whole or half hidden, as services repeat them in their errors and users type them in the wrong place."""
_USER_IN_ADDRESS: Final = re.compile(r"[^/\s'\"@]+@")
_QUERY_OF_ADDRESS: Final = re.compile(r"(://[^\s?'\"]*\?)[^\s'\"]+")
_PERCENT: Final = re.compile("%[0-9A-F]{2}")
_ESCAPED: Final = re.compile(rb"\\\\|\\/|\\u00[2-7][0-9A-Fa-f]")
"""A character of a key as JSON may write it; an escaped backslash, so that what follows it is not taken for one."""
_SECRET_HEADERS: Final = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)
_SCHEME: Final = re.compile(r"^(?:Bearer|Basic|Token) +", re.IGNORECASE)


class Mask:
    """Hides some secrets in texts, bytes and JSON."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known = {secret for secret in secrets if len(secret) >= _SHORTEST}
        self._prepare()

    def _prepare(self) -> None:
        known = self._known
        forms = {form for secret in known for form in _forms(secret) if len(form) >= _SHORTEST}
        self._forms = sorted(forms, key=len, reverse=True)
        self._halves = [(half, _cut_off(secret)) for secret in known if (half := _half(secret))]
        self._bytes = [form.encode() for form in self._forms]
        self._byte_halves = [(half.encode(), re.compile(cut.pattern.encode())) for half, cut in self._halves]

    @classmethod
    def of(cls, keys: Iterable[str], headers: Mapping[str, str]) -> Mask:
        """Hides keys, and whatever else is sent in headers to be let in."""
        return cls([*_carried(headers), *keys])

    def learn(self, headers: Mapping[str, str]) -> None:
        """Hides from now on what headers carry to be let in as well: credentials that are renewed while a run goes on.

        A signature of one request alone is not learned: it is worth nothing to anybody else.
        """
        new = {secret for secret in _carried(headers) if len(secret) >= _SHORTEST} - self._known
        if new:
            self._known |= new
            self._prepare()

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
        plain = _ESCAPED.sub(_unescaped, hidden)
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


def _carried(headers: Mapping[str, str]) -> Iterator[str]:
    """What headers carry to be let in."""
    for name, value in headers.items():
        if _SECRET_HEADERS.search(name) and "signature=" not in value.lower():
            yield _SCHEME.sub("", value)


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
        yield from {plain, html.escape(plain), *quoted, *(_PERCENT.sub(_small, text) for text in quoted)}
        yield json.dumps(plain)[1:-1]
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
    percent = "".join(f"%{byte:02X}" for byte in raw)
    yield from {percent, percent.lower(), raw.hex(), raw.hex().upper()}
    for before in range(3):
        # Where three bytes become four characters, a secret looks in three ways, by how many bytes stand before it.
        encoded = base64.b64encode(bytes(before) + raw).decode()
        whole = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        yield from {whole, whole.replace("+", "-").replace("/", "_")}
    yield from _decoded(secret)


def _small(found: re.Match[str]) -> str:
    return found.group().lower()


def _decoded(secret: str) -> Iterator[str]:
    """What a secret holds that is itself base64, such as the `user:password` of Basic."""
    try:
        text = base64.b64decode(secret, validate=True).decode("ascii")
    except ValueError:
        return
    if text.isprintable():
        yield text
        yield text.partition(":")[2]


def _half(secret: str) -> str | None:
    """The first half of a secret that is long enough to have one."""
    return secret[: max(8, len(secret) // 2)] if len(secret) >= _LONG else None


def _cut_off(secret: str) -> re.Pattern[str]:
    """The first half of a secret with as much of the rest as is there."""
    half = _half(secret) or secret
    rest = secret[len(half) :]
    return re.compile(re.escape(half) + "".join(f"(?:{re.escape(letter)}" for letter in rest) + ")?" * len(rest))


def _unescaped(found: re.Match[bytes]) -> bytes:
    """The character itself, where it means the same in JSON."""
    text = found.group()
    if text == rb"\/":
        return b"/"
    if text == rb"\\":
        return text
    letter = bytes([int(text[2:], 16)])
    return b"\\" + letter if letter in b'"\\' else letter
