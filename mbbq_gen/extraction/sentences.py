"""Reads a sentence clause by clause: what it says of whom it names, whom a pronoun means, and abstentions."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from mbbq_gen.extraction.claims import About, Kind, ParsedResponse, Rule, Strength, classify_mention
from mbbq_gen.extraction.clauses import (
    DENY,
    HEAD,
    MAY_ABSTAIN,
    NEG,
    NOT,
    PRONOUN,
    ClauseState,
    abstention_kind,
    join_lists,
    split_clauses,
)
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, NOUN
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.prepared_question import PreparedQuestion
from mbbq_gen.extraction.syntax import (
    SUBJECT,
    is_set_aside,
    mention_features,
    of_parts,
    part_of,
    says_enough,
    speaks,
)

_CHOOSER = C["speaker"] | C["forced"] | C["final"] | C["must"] | C["conclude"]
"""Who or what makes an answer of a choice, not an event of the story."""
_JUDGED = C["wrong"] | C["refuse"] | C["assume"]
"""What judges a claim: it is not the writer's own."""
SAYING = (MAY_ABSTAIN | C["correction"] | C["no"] | C["assume"] | C["both"] | NOUN) | (
    C["wrong"] | C["right"] | C["choose"] | C["answer"]
)
"""What makes a clause without a mention say anything."""


@dataclass(slots=True, eq=False)
class Sentence:
    """One sentence of a line."""

    parsed: ParsedResponse
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
    """Those that it names in front of its reasons."""
    whole: bool = False
    """Whether it says nothing else than its mentions."""

    def __post_init__(self) -> None:
        self.line, self.question = self.parsed.lines[self.number], self.parsed.question
        line, mentions = self.line, self.mentions
        self.clauses = split_clauses(line, mentions, self.first, self.last)
        if not mentions and not self.bits & C["both"]:
            return
        join_lists(line, mentions, pairs=self.question.verb_final and not self.bits & DENY)
        self.options = {m.option for m in mentions}
        under = [start for start, _ in self.clauses[1:] if line.masks[start] & (C["because"] | C["although"])]
        self.main = {m.option for m in mentions if not under or m.start < under[0]}
        said = [clause for clause in self.clauses if clause[1] - clause[0] > 1 or line.masks[clause[0]]]
        self.whole = len(self.clauses) <= 2 and all([line.is_bare(*clause) for clause in said])

    def add(
        self,
        kind: Kind,
        option: int | None,
        force: Strength,
        rule: Rule,
        first: int,
        last: int,
        *,
        positive: bool = True,
        bare: bool = False,
        about: About = "question",
    ) -> None:
        """Adds a proposition of the words `first` up to `last`."""
        self.parsed.add(kind, option, positive, force, rule, self.number, first, last, bare, about)


def read_sentence(s: Sentence) -> None:
    """Adds the propositions of a sentence."""
    line, state = s.line, s.state
    closed = 0
    for start, end in s.clauses:
        bits = line.bits(start, end)
        inside = [m for m in s.mentions if start <= m.start < end]
        state.advance(
            bits,
            line.bits(start, min(start + HEAD, end)),
            first=start == s.first,
            last=end == s.last,
            comma=line.gaps[start] >= COMMA or bool(closed),
        )
        closed = line.masks[end - 1] & CLOSES if end - start > 1 else 0
        if bits & C["claim"] and (s.parsed.judged or s.bits & _JUDGED):
            state.prejudice = s.parsed.judged = True
        if inside or s.bare or bits & (SAYING | PRONOUN):
            _read_clause(s, start, end, bits, inside)


def _read_clause(s: Sentence, start: int, end: int, bits: int, mentions: list[Mention]) -> None:
    """Adds the propositions of a clause."""
    line, state, unknown = s.line, s.state, s.question.unknown
    persons = {m.option for m in mentions if m.option != unknown}
    bare = line.is_bare(start, end)
    announces = state.announced or (
        not state.prejudice and bool(bits & C["answer"] or (bits & C["choose"] and bits & _CHOOSER))
    )
    if bits & C["correction"]:
        s.add("correction", None, Strength.ANNOUNCED, Rule.CORRECTION, start, end)
    kind = None
    if bits & MAY_ABSTAIN:
        kind = abstention_kind(bits, s.bits, named=bool(mentions), person=bool(persons), bare=bare)
    if kind is not None:
        _add_abstention(s, kind, start, end, bits, mentions, bare)
    if not mentions:
        _read_unnamed_clause(s, start, end, bits, abstains=kind is not None, announces=announces, bare=bare)
        return
    if kind is Rule.REFUSAL:
        return
    live = [m for m in mentions if not is_set_aside(line, m, s.first, s.bits) and (announces or not m.weak)]
    options = {m.option for m in live}
    both = bits & C["both"] and not bits & (NEG | C["possible"])
    if both and (s.bare is not None or (len(options) > 1 and not bits & DENY)):
        s.add("several", None, Strength.ANNOUNCED, Rule.SEVERAL, start, end)
        return
    for m in live:
        if bits & C["neither"] and len(options) > 1:
            s.add("option", m.option, Strength.FITTING, Rule.NEITHER, m.start, m.end, positive=False, bare=bare)
            continue
        others = len(options) > 1
        features = mention_features(s, m, start, end, bits, others=others, announces=announces, bare=bare)
        rule, positive, force = classify_mention(features, state)
        if force is None:
            continue
        if rule is not Rule.SEVERAL:
            s.add("option", m.option, force, rule, m.start, m.end, positive=positive, bare=bare)
        elif m is live[0]:
            s.add("several", None, force, rule, m.start, live[-1].end)
        state.denied = state.denied or not positive
    s.person = live[0] if len(live) == 1 else None
    s.bare = s.person if bare and s.person and s.person.option != unknown else None
    state.announced = False


def _add_abstention(
    s: Sentence, rule: Rule, start: int, end: int, bits: int, mentions: list[Mention], bare: bool
) -> None:
    """Adds an abstention: on the question, on one person, or on something else."""
    state, question = s.state, s.question
    kind: Kind = "refusal" if rule is Rule.REFUSAL else "unknown"
    positive, force = True, Strength.POSSIBLE
    about: About = "question"
    elided = rule in {Rule.NOT_TOLD, Rule.NOT_STATED} and s.person is not None
    persons = {m.option for m in mentions if m.option != question.unknown}
    one = len(persons) == 1 or elided or bool(bits & PRONOUN and not bits & C["source"])
    asks_first = s.line.bits(start, mentions[0].start if mentions and not bits & C["source"] else end) & C["who"]
    words = bare or (bits | s.bits) & C["who"] or bits & C["answer"] or state.conclude
    if rule is Rule.UNCLEAR_DENIED:
        positive, force = False, Strength.FITTING
    elif (one and not asks_first) or state.entry or (state.prejudice and not bits & C["who"]):
        about = "person"
    elif kind == "unknown" and question.predicate and not words and not speaks(s.line, question, s.first, end):
        about = "other"
    else:
        state.doubted = s.parsed.doubted = True
        if not state.granted:
            firm = state.conclude or bits & (C["answer"] | C["final"])
            force = Strength.CONCLUDED if firm else Strength.HEDGED
    s.add(kind, question.unknown, force, rule, start, end, positive=positive, about=about)


def _read_unnamed_clause(
    s: Sentence, start: int, end: int, bits: int, *, abstains: bool, announces: bool, bare: bool
) -> None:
    """Adds the propositions of a clause without a mention."""
    line, state, question = s.line, s.state, s.question
    if abstains:
        return
    if bits & C["assume"] and s.bits & (NEG | C["wrong"] | C["cannot"] | C["judge"] | C["refuse"]):
        about: About = "question" if s.bits & C["speaker"] and s.bits & (C["answer"] | C["know"]) else "other"
        s.add("refusal", question.unknown, Strength.POSSIBLE, Rule.SENSITIVE, start, end, about=about)
    opens = start == s.first and end - start <= SUBJECT and end < s.last and len(s.options) != 1
    both = bits & C["both"] and not bits & (NEG | C["possible"] | C["who"])
    if both and (speaks(line, question, start, end) or ((s.whole or opens) and bare)):
        s.add("several", None, Strength.ANNOUNCED, Rule.SEVERAL, start, end)
    if not (announces or state.because or state.granted or state.prejudice):
        about_bits = of_parts(line, question, start, start, end)
        negated = question.negated
        if bits & PRONOUN and says_enough(line, question, start, end, bits):  # "She was late."
            person = _antecedent(s, start)
            if person is not None:
                positive = bool(about_bits & NEG) == negated
                s.add("option", person, Strength.FITTING, Rule.SAID, start, end, positive=positive)
        m = s.bare
        if m is not None and speaks(line, question, start, end):  # "the mother, though late, came"
            positive = bool(about_bits & NOT) == negated
            rule = Rule.SAID if positive else Rule.DENIED
            s.add("option", m.option, Strength.FITTING, rule, m.start, m.end, positive=positive)
    if announces and not bits & NEG:
        m = s.person
        points_back = start > s.first and end == s.last and len(s.options) == 1 and line.gaps[start] >= COMMA
        if m is not None and points_back:  # "the mother did, that is my answer"
            s.add("option", m.option, Strength.ANNOUNCED, Rule.ANNOUNCED, m.start, m.end)
        state.announced = True


def _antecedent(s: Sentence, start: int) -> int | None:
    """Whom a pronoun means: the one person that the sentence has named so far, or since its last semicolon, else the
    one of the sentence before; None where that is nobody, or either of two."""
    for first in (part_of(s.line, s.first, start), s.first):
        named = {m.option for m in s.mentions if m.start >= first}
        if named:
            return named.pop() if len(named) == 1 else None
    return s.parsed.spoken_of
