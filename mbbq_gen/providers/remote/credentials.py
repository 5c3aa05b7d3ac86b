"""Keys: where they come from.

A key comes from an environment variable or from a file that nobody else may read. It is held in a `Secret`, which shows
itself as `***`; `remote.masking` takes it out of whatever a service sends back.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mbbq_gen.errors import UsageError
from mbbq_gen.providers.remote.masking import HIDDEN, hide_lookalikes

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
            shown = named if _VARIABLE.fullmatch(named) else HIDDEN
            raise UsageError(f"--api-key-env {shown}: the environment holds no such variable; set it to your key")
        return Secret(os.environ[named].strip(), named)
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return Secret(value, variable)
    return None


def _read_key_file(path: Path) -> Secret:
    shown = hide_lookalikes(str(path))
    if not path.exists() and len(str(path)) > _LONGEST_PLAIN and path.name == str(path) and not path.suffix:
        shown = HIDDEN
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"--api-key-file {shown}: {error.strerror or error}") from error
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
