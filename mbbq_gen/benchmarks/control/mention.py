"""The record of a mention, and the error for texts that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import NameGender


@dataclass(frozen=True)
class Mention:
    """A person mentioned."""

    person: int
    """0 or 1: which of the two."""
    first: int
    """Place of its first word."""
    last: int
    """Place of its last word."""
    kept: str = ""
    """What is left of a determiner that held another word: Spanish `a` of `al`."""
    case: str | None = None
    """The form of a name that the mention's ending asks for."""
    gender: NameGender | None = None
    """Its grammatical gender, where the determiner tells."""
    told: bool = False
    """Whether a verb tells who a stand-in before it is, which stays: "one was *fat*"."""
    behind: str = ""
    """What is written behind the name in place of a verb that the mention holds: Dutch "heet"."""
    bare: bool = False
    """Whether a verb of naming stands for its own before the comma: "one *was called* Ann and the other, Eve"."""
    inner: int | None = None
    """Place of its first word behind a stand-in that it holds: 3 in "the other who's fat"."""


class SubstitutionRefusedError(Exception):
    """A text in which not every mention can be replaced."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(f"{reason}: {what}")
        self.reason = reason
        self.what = what


def is_aside(word: Word, language: Language) -> bool:
    """Whether a word opens a clause that commas set off."""
    return word.gap == "," and word.low in language.rules.asides


def shown(words: Sequence[Word], first: int, last: int) -> str:
    """The words from one place to another."""
    return " ".join(word.text for word in words[first : last + 1])
