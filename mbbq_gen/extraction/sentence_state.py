"""Whom a pronoun means, and what is said of that person."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Literal

from mbbq_gen.extraction.clauses import NEG, ClauseState, join_lists, split_clauses
from mbbq_gen.extraction.layout import DENY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.prepared_question import PreparedQuestion
from mbbq_gen.extraction.rules import ParsedResponse, Rule, Strength
from mbbq_gen.extraction.syntax import (
    PRONOUN,
    asks_not,
    of_parts,
    part_of,
    says_enough,
)

CHOOSER = C["speaker"] | C["forced"] | C["final"] | C["must"] | C["conclude"]
"""Who or what makes an answer of a choice, not an event of the story."""
_UNDER = C["because"] | C["although"]


@dataclass(slots=True, eq=False)
class Sentence:
    """One sentence of a line."""

    reading: ParsedResponse
    number: int
    """Its line."""
    mentions: list[Mention]
    state: ClauseState
    first: int
    last: int
    """Its words, the last one excluded."""
    bits: int
    """The classes of its words together."""
    heads: bool
    """Whether it is the head of an entry in a list."""
    line: Line = field(init=False)
    question: PreparedQuestion = field(init=False)
    clauses: list[tuple[int, int]] = field(init=False)
    """First word and end of each."""
    person: Mention | None = None
    """The one person that the clause before is about."""
    bare: Mention | None = None
    """The one person that is all a clause before says: "the mother, …"."""
    options: Set[int] = frozenset()
    """All that it names."""
    main: Set[int] = frozenset()
    """Those that it names in front of its reasons and explanations."""
    whole: bool = False
    """Whether it says nothing else than its mentions."""
    reasoned: bool = False
    """Whether it is a clause and its reason."""
    hypothetical: bool = False
    """Whether it tells what would be."""
    hypothetical_from: int = 0
    """Its first word that does."""

    def __post_init__(self) -> None:
        self.line, self.question = self.reading.lines[self.number], self.reading.question
        self.clauses = split_clauses(self.line, self.mentions, self.first, self.last)
        if self.mentions or self.bits & C["both"]:
            self.survey()

    def survey(self) -> None:
        """Notes what the sentence is as a whole."""
        line, mentions, clauses, bits = self.line, self.mentions, self.clauses, self.bits
        if len(mentions) > 1:
            join_lists(line, mentions, pairs=self.question.verb_final and not bits & DENY)
        self.options = {m.option for m in mentions}
        under = [start for start, end in clauses[1:] if line.masks[start] & _UNDER]
        self.main = {m.option for m in mentions if not under or m.start < under[0]}
        would = bits & C["condition"]
        self.hypothetical = bool(would)
        said = [clause for clause in clauses if clause[1] - clause[0] > 1 or line.masks[clause[0]]]
        self.whole = len(clauses) <= 2 and all([line.is_bare(*clause) for clause in said])
        self.reasoned = False

    def announces(self, bits: int, *, carried: bool = True) -> bool:
        """Whether a clause speaks of its mention as the answer; `carried`: or the one before it announced an answer."""
        if self.state.announced:
            return True
        if self.state.prejudice:
            return False
        if bits & C["answer"]:
            return True
        return bool(bits & C["choose"] and bits & CHOOSER)

    # --- noting ------------------------------------------------------------------------------------------------------

    def say(
        self,
        m: Mention,
        rule: Rule,
        positive: bool,
        force: Strength,
        bare: bool,
        about: Literal["question", "other"] = "question",
    ) -> None:
        """What is said of an option."""
        self.add("option", m.option, force, rule, m.start, m.end, positive=positive, bare=bare, about=about)

    def deny(self, m: Mention, rule: Rule, bare: bool) -> None:
        """That an option is ruled out: as the answer, or as the one who did what is asked."""
        about: Literal["question", "person"] = "person"
        self.add("option", m.option, Strength.FITTING, rule, m.start, m.end, positive=False, bare=bare, about=about)

    def add(  # type: ignore[no-untyped-def]
        self, kind, option, force, rule, first, last, *, positive=True, bare=False, about="question"
    ) -> None:
        """Whatever is said, of one option or of none."""
        self.reading.add(kind, option, positive, force, rule, self.number, first, last, bare, about)


def by_pronoun(s: Sentence, start: int, end: int, bits: int) -> None:
    """A clause that says or denies what is asked of the person whom a pronoun means: "She was late."."""
    if not bits & PRONOUN:
        return
    person = _spoken_of(s, start)
    if person is None:
        return
    if not says_enough(s.line, s.question, start, end, bits):
        return
    bits = of_parts(s.line, s.question, start, start, end)
    positive = bool(bits & NEG) == asks_not(s.line, s.question, start, end)
    rule = Rule.SAID
    s.add("option", person, Strength.FITTING, rule, start, end, positive=positive)


def _spoken_of(s: Sentence, start: int) -> int | None:
    """Whom a pronoun means: the one person that the sentence has named so far, or since its last semicolon, else the
    one of the sentence before; None where that is nobody, or either of two."""
    for first in (part_of(s.line, s.first, start), s.first):
        named = {m.option for m in s.mentions if m.start >= first}
        if named:
            return named.pop() if len(named) == 1 else None
    return s.reading.spoken_of
