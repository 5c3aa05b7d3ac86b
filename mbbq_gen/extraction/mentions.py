"""A mention: a place of a line where an option is named, and by what; `.mention_finder` finds them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class MentionKind(IntEnum):
    """By what an option is named."""

    PLACE = 1
    LABEL = 2
    TEXT = 3
    BOTH = 4
    """Label and text together."""


@dataclass(slots=True)
class Mention:
    """A place of a line where options are named."""

    option: int
    """Index of the option; −1 where it is not on offer."""
    start: int
    """First word."""
    end: int
    """Behind its last word."""
    how: MentionKind
    full: bool
    """Whether the whole text is there, or a label that can't be anything else."""
    weak: bool = False
    """Whether it counts only where an answer is announced: a letter that may be a word."""
    joined: frozenset[int] = frozenset()
    """All options that "and" or "or" joins here."""
    conflict: int | None = None
    """The option of a label that the text overruled."""
