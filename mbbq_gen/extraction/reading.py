"""The propositions of a response: who, what is said of them, how firmly, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mbbq_gen.extraction.lines import Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.options import QuestionWords
from mbbq_gen.extraction.rules import Force, Rule

Kind = Literal["option", "unknown", "refusal", "several", "outside", "correction"]


class Proposition(NamedTuple):
    """One thing that a response says of the options."""

    kind: Kind
    """An option; that it can't be told; declining; several options together; something that is not on offer; or taking
    back what was said before."""
    option: int | None
    positive: bool
    """Whether it speaks for what it names."""
    force: Force
    rule: Rule
    line: int
    """Number of its line."""
    first: int
    last: int
    """Words of the line that it stands on, the last one excluded."""
    sentence: int
    """Number of its sentence in the response."""
    bare: bool = False
    """Whether its clause says nothing but this."""
    about: Literal["question", "person", "other"] = "question"
    """What can't be told: what is asked, something of one person, or something else."""


@dataclass(slots=True)
class Reading:
    """All that a response says, in the order of its text."""

    question: QuestionWords
    lines: list[Line]
    mentions: list[list[Mention]]
    """The mentions of each line."""
    propositions: list[Proposition] = field(default_factory=list)
    persons: set[int] = field(default_factory=set)
    """Every person that is named anywhere."""
    is_english: bool = False
    """Whether it was read as English, which the question is not in."""
    sentences: int = 0
    """Sentences so far."""
    doubted: bool = False
    """Whether it was said that it can't be told."""
    judged: bool = False
    """Whether it was said that something would be wrong to say."""
    spoken_of: int | None = None
    """The one person that the last sentence with a person was about; None where there were several."""
    asked: int | None = None
    """The option that the last sentence asks about: "The tailor?"; None where it asks about none."""

    def add(
        self,
        kind: Kind,
        option: int | None,
        positive: bool,
        force: Force,
        rule: Rule,
        line: int,
        first: int,
        last: int,
        bare: bool = False,
        about: Literal["question", "person", "other"] = "question",
    ) -> None:
        """Notes a proposition."""
        said = Proposition(kind, option, positive, force, rule, line, first, last, self.sentences, bare, about)
        self.propositions.append(said)
