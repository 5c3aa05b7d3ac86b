"""Lists of names as people give them, a text with commas or a sequence, made into names that are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from mbbq_gen.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from mbbq_gen.records import Split

T = TypeVar("T")
Names = str | Sequence[str]
"""A comma-separated list, as a text or taken apart already."""


def words(names: Names) -> list[str]:
    """The entries of a list, each once, in order."""
    entries = names.split(",") if isinstance(names, str) else names
    return list(dict.fromkeys(stripped for entry in entries if (stripped := str(entry).strip())))


def one_of(kind: str, name: str, known: Iterable[T]) -> T:
    """The known name.

    Raises:
        UnknownNameError: where it is not known; offers the nearest.
    """
    names = {str(candidate): candidate for candidate in known}
    if name not in names:
        raise UnknownNameError(kind, name, names)
    return names[name]


def all_of(kind: str, names: Names, known: Sequence[T]) -> list[T]:
    """Every name of a list; raises as `one_of`, and where the list is empty."""
    found = [one_of(kind, word, known) for word in words(names)]
    if not found:
        raise UsageError(f"name at least one {kind}; known: {', '.join(map(str, known))}")
    return found


def splits_of(names: Names) -> list[Split]:
    """The splits of a list."""
    known: tuple[Split, ...] = ("bias", "control")
    return all_of("split", names, known)
