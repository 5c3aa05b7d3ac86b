"""Keys: where they come from, and how they stay out of everything that we write.

A key comes from an environment variable or from a file that nobody else may read. It is held in a `Secret`, which shows
itself as `***`, and whatever text a service sends back goes through `Secret.hide` before it is stored or said.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mbbq_gen.errors import UsageError

HIDDEN: Final = "***"
_LOOKS_LIKE_KEY: Final = re.compile(r"\b(?:sk|rk|pk|gsk|xai|key|AIza)[-_][A-Za-z0-9_*\-.…]{8,}")
"""Keys, whole or half hidden, as services repeat them in their errors."""
_SHORTEST: Final = 6
"""Shorter keys, as local servers take them, are ordinary words that would be hidden everywhere."""


@dataclass(frozen=True)
class Secret:
    """A key that does not show itself."""

    value: str = field(repr=False)
    origin: str
    """Where it came from, as an error should name it."""

    def __str__(self) -> str:
        return HIDDEN

    def hide(self, text: str) -> str:
        """The text without the key."""
        if len(self.value) >= _SHORTEST:
            text = text.replace(self.value, HIDDEN)
        return _LOOKS_LIKE_KEY.sub(HIDDEN, text)

    def hide_all(self, value: Any) -> Any:
        """A JSON value with the key hidden in every text of it."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_all(entry) for entry in value]
        if isinstance(value, dict):
            return {self.hide(str(name)): self.hide_all(entry) for name, entry in value.items()}
        return value


NO_KEY: Final = Secret("", "no key")


def find_key(variables: Sequence[str], named: str | None, file: str | None) -> Secret | None:
    """The key: from the file, else from the variable that was named, else from the first of `variables` that is set.

    Raises:
        UsageError: where a file or variable was named and holds no key, or others may read the file.
    """
    if file is not None and named is not None:
        raise UsageError("give the key by --api-key-env or by --api-key-file, one of them")
    if file is not None:
        return _read_key_file(Path(file).expanduser())
    if named is not None:
        if not os.environ.get(named, "").strip():
            raise UsageError(f"--api-key-env {named}: the environment holds no such variable; set it to your key")
        return Secret(os.environ[named].strip(), named)
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return Secret(value, variable)
    return None


def _read_key_file(path: Path) -> Secret:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"--api-key-file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--api-key-file {path}: not a text file") from error
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"--api-key-file {path}: others may read it; first: chmod 600 {path}")
    if not text or len(text.split()) != 1:
        raise UsageError(f"--api-key-file {path}: must hold the key and nothing else")
    return Secret(text, str(path))


def missing_key(kind: str, variables: Sequence[str]) -> UsageError:
    """What to say where a key is needed and there is none."""
    return UsageError(
        f"{kind}: no key; set {variables[0]}, or name where it is with --api-key-env NAME or --api-key-file FILE"
    )
