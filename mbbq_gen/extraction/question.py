"""A question as an extractor gets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mbbq_gen.core.errors import UsageError


class QuestionKey(NamedTuple):
    """What a question is prepared from."""

    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown: int | None
    sentence: str | None = None
    """The question's own sentence; None where it is not known."""
    shared: frozenset[str] = frozenset()
    """Forms of its words that its context has, too."""


@dataclass(frozen=True)
class Question:
    """A question, as it was shown."""

    options: Sequence[str]
    """The options' texts, 2 to 10."""
    labels: Sequence[str]
    """Their labels, in the same order; an option shown without one has its text for a label."""
    unknown_index: int | None
    """Place of the unknown option; None where there is none."""
    prompt: str | None = None
    """The prompt: its last question gives the predicate of an answer, and an echo of it is no answer."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Language → the options' texts in it, tried where nothing else is found."""

    def __post_init__(self) -> None:
        """Raises UsageError where options, labels, unknown option and aliases don't fit together."""
        count = len(self.options)
        if not 2 <= count <= 10:
            raise UsageError(f"options: {count} of them; 2 to 10 can be read")
        if len(self.labels) != count:
            raise UsageError(f"labels: {len(self.labels)} of them for {count} options; give one label for each option")
        if self.unknown_index is not None and not 0 <= self.unknown_index < count:
            raise UsageError(f"unknown_index: {self.unknown_index} is not an index into {count} options")
        for language, texts in self.aliases.items():
            if len(texts) != count:
                raise UsageError(f"aliases.{language}: {len(texts)} texts for {count} options")

    def key(self, sentence: str | None = None, shared: frozenset[str] = frozenset()) -> QuestionKey:
        """What it is prepared from."""
        return QuestionKey(tuple(self.options), tuple(self.labels), self.unknown_index, sentence, shared)
