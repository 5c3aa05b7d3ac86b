"""Headers of one's own, as gateways ask for them: fixed texts, and keys that stand in the environment.

    {"HTTP-Referer": "https://lab.example", "cf-aig-authorization": "Bearer $GATEWAY_KEY"}

What is written down, in the manifest and in request keys, is the text with its `$NAME`; what is sent has the value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from mbbq_gen.errors import UsageError
from mbbq_gen.providers.remote.credentials import Secret

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_SECRET: Final = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})


def header_fault(headers: Mapping[str, Any]) -> str | None:
    """What is wrong with headers as a user gives them, or None."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            return f"{name!r} can't be set"
        if not isinstance(value, str) or re.search(r"[\r\n\x00]", value) or not value.isascii():
            return f"{name}: give one line of plain text"
        if _SECRET.search(name) and not _VARIABLE.search(value):
            return f"{name}: keys are not written down here; put it into the environment and write $NAME"
    return None


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
        secrets[name] = Secret(value, name)
        return value

    filled = {name: _VARIABLE.sub(value_of, str(text)) for name, text in headers.items()}
    return filled, list(secrets.values())
