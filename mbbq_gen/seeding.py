"""Choices that look random and are the same on every machine and Python: sha256 of what they are about."""

from __future__ import annotations

import hashlib

_SEPARATOR = "\x1f"


def stable_digest(*parts: object) -> str:
    """The sha256, in hexadecimal, of the parts' texts, kept apart from each other by a separator."""
    return hashlib.sha256(_SEPARATOR.join(str(part) for part in parts).encode()).hexdigest()


def stable_number(*parts: object) -> int:
    """A non-negative 64-bit number that depends on the parts alone, evenly spread."""
    return int(stable_digest(*parts)[:16], 16)
