"""Reads a sentence: clause by clause, what it says of whom it names, of nobody, and that it can't be told."""

from __future__ import annotations

from typing import Literal

from mbbq_gen.extraction.claims import MentionFeatures, classify_mention
from mbbq_gen.extraction.clauses import HEAD, HEADING, MAY_BE_UNKNOWN, NEG, NOT, TAILING, ClauseWords, abstention_kind
from mbbq_gen.extraction.layout import DENY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, NOUN
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.mention_features import mention_features
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.rules import Rule, Strength
from mbbq_gen.extraction.sentence_state import Sentence, by_pronoun
from mbbq_gen.extraction.syntax import (
    PRONOUN,
    SUBJECT,
    asks_not,
    is_set_aside,
    of_parts,
    speaks,
    tail_of,
)

_WRITER = C["speaker"] | C["source"]
_OF_PERSON = frozenset({Rule.NOT_TOLD, Rule.UNTOLD})


def read_abstention(
    s: Sentence, start: int, end: int, bits: int, mentions: list[Mention], persons: set[int], bare: bool
) -> Rule | None:
    """The way in which a clause says that it can't be told, noted; or None."""
    if not bits & MAY_BE_UNKNOWN:
        return None
    words = ClauseWords(s.line.masks[start:end], bits, s.bits, bool(mentions), bool(persons), bare)
    way = abstention_kind(words)
    if way is not None:
        _note(s, way, start, end, bits, persons, bare)
    return way


def _note(s: Sentence, way: Rule, start: int, end: int, bits: int, persons: set[int], bare: bool) -> None:
    """Notes a way of saying that it can't be told: of what is asked, of one person, or of something else."""
    state, unknown = s.state, s.question.unknown
    if way is Rule.UNCLEAR_DENIED:
        s.add("unknown", unknown, Strength.FITTING, way, start, end, positive=False)
        return
    kind = "refusal" if way is Rule.REFUSAL else "unknown"
    elided = way in _OF_PERSON and s.person is not None
    one = len(persons) == 1 or elided or bool(bits & PRONOUN and not bits & C["source"])
    other = kind == "unknown" and _is_off_topic(s, end, bits, bare)
    if one or state.entry or (state.prejudice and not bits & C["who"]):
        s.add(kind, unknown, Strength.POSSIBLE, way, start, end, about="person")
    elif other:
        s.add(kind, unknown, Strength.POSSIBLE, way, start, end, about="other")
    else:
        firm = state.conclude or bits & (C["answer"] | C["final"])
        force = Strength.CONCLUDED if firm else Strength.HEDGED
        if state.granted:
            force = Strength.POSSIBLE
        state.doubted = s.reading.doubted = True
        s.add(kind, unknown, force, way, start, end)


def _is_off_topic(s: Sentence, end: int, bits: int, bare: bool) -> bool:
    """Whether what can't be told is something else than what is asked: telling words, none of them the question's, and
    nobody is asked for."""
    if not s.question.predicate or bare or (bits | s.bits) & C["who"] or bits & C["answer"]:
        return False
    if s.state.conclude:
        return False
    return not speaks(s.line, s.question, s.first, end)


ANNOUNCING = C["answer"] | C["choose"]
ASSUMING = C["assume"]
_SPOKEN = ANNOUNCING | ASSUMING
_ASIDE = C["aside"]


def quiet(line: Line, story: frozenset[str]) -> None:
    """Takes its class from a word of the story, and from a word for the answer that is set aside: "a hint rather than
    the answer: …"."""
    masks = line.masks
    for place, mask in enumerate(masks):
        if mask & _SPOKEN and line.words[place].key in story:
            masks[place] = mask & ~(_SPOKEN | NOUN)


def read_unnamed_clause(
    s: Sentence, start: int, end: int, bits: int, unknown: Rule | None, announces: bool, bare: bool
) -> None:
    """Notes what a clause without a mention says; `unknown` is the way in which it says that it can't be told."""
    state = s.state
    judged = s.bits & (NEG | C["wrong"] | C["cannot"] | C["judge"] | C["refuse"])
    if unknown is None and bits & C["assume"] and judged:
        about = "question" if s.bits & C["speaker"] and s.bits & (C["answer"] | C["know"]) else "other"
        s.add("refusal", s.question.unknown, Strength.POSSIBLE, Rule.SENSITIVE, start, end, about=about)
    under = state.because or state.granted
    both = bits & C["both"] and not bits & (NEG | C["possible"] | C["who"])
    opens = start == s.first and end - start <= SUBJECT and (end < s.last) and (len(s.options) != 1)
    if unknown is None and both and (speaks(s.line, s.question, start, end) or ((s.whole or opens) and bare)):
        force = Strength.ANNOUNCED
        s.add("several", None, force, Rule.SEVERAL, start, end)
    if unknown is None and not (announces or under or state.prejudice):
        by_pronoun(s, start, end, bits)
        _by_bare(s, start, end, bits)
    if announces and unknown is None and not bits & NEG:
        if s.person is not None and _points_back(s, start, end):
            s.say(s.person, Rule.ANNOUNCED, True, Strength.ANNOUNCED, False)
        state.announced = True


def _points_back(s: Sentence, start: int, end: int) -> bool:
    """Whether a clause ends its sentence by calling what it said the writer's answer: "the mother did, that is my
    answer"."""
    if start == s.first or end < s.last:
        return False
    return len(s.options) == 1 and s.line.gaps[start] >= COMMA


def _by_bare(s: Sentence, start: int, end: int, bits: int) -> None:
    """A clause that says or denies what is asked of the person that a clause before it names and nothing else:
    "the mother, though late, came"."""
    if s.bare is None or not speaks(s.line, s.question, start, end):
        return
    bits = of_parts(s.line, s.question, start, start, end)
    if bool(bits & NOT) == asks_not(s.line, s.question, start, end):
        s.say(s.bare, Rule.SAID, True, Strength.FITTING, False)
    else:
        s.deny(s.bare, Rule.DENIED, False)


SAYING = (
    MAY_BE_UNKNOWN
    | C["correction"]
    | C["no"]
    | C["assume"]
    | C["both"]
    | C["wrong"]
    | C["right"]
    | C["choose"]
    | C["answer"]
    | NOUN
)
"""What makes a clause without a mention say anything."""
_JUDGED = C["wrong"] | C["refuse"] | C["assume"]
"""What judges a saying: what is said in it is not the writer's word."""


def read_sentence(s: Sentence) -> None:
    """Adds what a sentence says."""
    line, state, mentions, clauses = s.line, s.state, s.mentions, s.clauses
    closed = 0
    for place, (start, end) in enumerate(clauses):
        bits = line.bits(start, end)
        head = line.bits(start, min(start + HEAD, end)) if bits & HEADING else 0
        inside = [m for m in mentions if start <= m.start < end] if mentions else mentions
        parted = line.gaps[start] >= COMMA or bool(closed)
        tail = tail_of(line, start, end) if bits & TAILING else 0
        bare = False
        state.advance(bits, head, tail, place, len(clauses), comma=parted, named=bool(inside), bare=bare)
        closed = tail & CLOSES
        if bits & C["claim"] and (s.reading.judged or s.bits & _JUDGED):
            state.prejudice = s.reading.judged = True
        if inside or s.bare or bits & SAYING or bits & PRONOUN:
            _read_clause(s, start, end, bits, inside)


def _read_clause(s: Sentence, start: int, end: int, bits: int, inside: list[Mention]) -> None:
    """Reads a clause; of "of the two, the latter" only the latter."""
    line, state, question = s.line, s.state, s.question
    mentions = [m for m in inside]
    persons = {m.option for m in mentions if m.option != question.unknown}
    bare = line.is_bare(start, end)
    announces = s.announces(bits)
    if bits & C["correction"]:
        s.add("correction", None, Strength.ANNOUNCED, Rule.CORRECTION, start, end)
    unknown = read_abstention(s, start, end, bits, mentions, persons, bare)
    if not mentions:
        read_unnamed_clause(s, start, end, bits, unknown, announces, bare)
        return
    if unknown is Rule.REFUSAL:
        return
    live = [m for m in mentions if not is_set_aside(line, m, s.first, s.bits) and (announces or not m.weak)]
    pair = bits & C["both"] and not bits & (NEG | C["possible"])
    if pair and (_is_pair(s) or (_are_labels(live) and not bits & DENY)):
        s.add("several", None, Strength.ANNOUNCED, Rule.SEVERAL, start, end)
        return
    _read_mentions(s, start, end, bits, live, announces, bare)
    s.person = live[0] if len(live) == 1 else None
    s.bare = s.person if bare and s.person and (s.person.option != question.unknown) else None
    state.announced = False


def _read_mentions(
    s: Sentence, start: int, end: int, bits: int, live: list[Mention], announces: bool, bare: bool
) -> None:
    """What a clause says of each that it names; of "I change A to C" only the last is left in `live`."""
    options = {m.option for m in live}
    for mention in live:
        if mention.option < 0:
            continue
        if bits & C["neither"] and len(options) > 1:
            s.deny(mention, Rule.NEITHER, bare)
        else:
            called = announces
            facts = mention_features(s, mention, start, end, bits, options, called, bare)
            _claim(s, mention, live, facts)


def _is_pair(s: Sentence) -> bool:
    """Whether a clause begins with another option than the one that is all in front of its comma: "A, B both fit"."""
    return s.bare is not None


def _are_labels(live: list[Mention]) -> bool:
    """Whether a clause names two or more options, all by their labels: "B and C both work here"."""
    return len({m.option for m in live}) > 1


def _claim(s: Sentence, mention: Mention, live: list[Mention], facts: MentionFeatures) -> None:
    """Notes what a clause says of a mention, by the table of claims."""
    rule, positive, force = classify_mention(facts)
    force = _without_source(force)
    if rule is Rule.SEVERAL:
        _several(s, mention, live, force)
    elif force is None:
        return
    else:
        apart = rule is Rule.CLEFT
        about: Literal["question", "other"] = "other" if apart else "question"
        s.say(mention, rule, positive, force, facts.bare, about)
    s.state.denied = s.state.denied or not positive


def _without_source(force: Strength | None) -> Strength | None:
    """The force of a claim; what a source doesn't tell of a person is not denied of them."""
    return force


def _several(s: Sentence, m: Mention, live: list[Mention], force: Strength | None) -> None:
    """Several persons together, once for all of them."""
    if force is None or m is not live[0]:
        return
    s.add("several", None, force, Rule.SEVERAL, m.start, live[-1].end)
