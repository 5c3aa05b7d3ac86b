"""Repeats the client's key, as careless services and proxies do, so that a client can be searched for it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from mbbq_gen.fake_server.dialects.base import Body

_FIELDS: Final = frozenset(
    {"text", "content", "message", "model", "modelVersion", "id", "responseId", "system_fingerprint", "code"}
)
"""Fields whose text it is added to."""
_LATE: Final = 380
"""Characters before a key that comes late: whoever shortens to 400 keeps a part of it."""


class Echo:
    """How a key is repeated; where it is not, everything stays as it is."""

    def __init__(self, form: str, key: str | None) -> None:
        """`form` is that of the setting `access.echo_key`."""
        self._key = key or ""
        self._form = form if key else "no"

    @property
    def text(self) -> str:
        """The key as it is repeated; nothing where it is not."""
        if self._form == "no":
            return ""
        if self._form == "base64":
            return base64.b64encode(f"Bearer {self._key}".encode()).decode()
        if self._form == "percent":
            return "".join(f"%{byte:02X}" for byte in self._key.encode())
        return self._key

    def into(self, body: Body) -> Body:
        """A body with the key in its texts and names."""
        return body if self._form == "no" else {name: self._added(name, value) for name, value in body.items()}

    def _added(self, name: str, value: JsonValue) -> JsonValue:
        if isinstance(value, Mapping):
            return {inner: self._added(inner, entry) for inner, entry in value.items()}
        if isinstance(value, list):
            return [self._added(name, entry) for entry in value]
        if isinstance(value, str) and name in _FIELDS:
            return f"{value}{' ' + '.' * _LATE if self._form == 'late' else ''} {self.text}"
        return value

    def written(self, body: bytes) -> bytes:
        """The bytes of a body, with each character of the key escaped where that is asked for."""
        if self._form != "escaped":
            return body
        escaped = "".join(f"\\u{ord(character):04x}" for character in self._key)
        return body.replace(json.dumps(self._key)[1:-1].encode(), escaped.encode())
