"""Reads a sentence clause by clause: what each says of the options that it names.

What a clause says without naming any is in `.unnamed`, whom a pronoun means in `.pronouns`, that it can't be told in
`.untold`; what is known of each mention, in `.facts`.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Literal

from mbbq_gen.extraction.claims import Facts, claim
from mbbq_gen.extraction.clauses import HEAD, HEADING, TAILING
from mbbq_gen.extraction.facts import facts_of
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, NOUN
from mbbq_gen.extraction.lines import COLON, COMMA
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.pronouns import meant, named_by_pronoun
from mbbq_gen.extraction.rules import Force, Rule
from mbbq_gen.extraction.sections import DENY
from mbbq_gen.extraction.sentence import Sentence
from mbbq_gen.extraction.syntax import (
    PRONOUN,
    SUBJECT,
    are_alike,
    are_put_together,
    has_relative,
    heads_clause,
    is_blamed,
    is_plural,
    is_quoted,
    is_row,
    is_ruled_out,
    is_set_aside,
    is_subject,
    leads_on,
    opines,
    speaks_beside,
    tail_of,
)
from mbbq_gen.extraction.unknowns import MAY_BE_UNKNOWN, NEG
from mbbq_gen.extraction.unnamed import read_unnamed
from mbbq_gen.extraction.untold import read_untold

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
_DENIALS = frozenset({Rule.DENIED, Rule.DENIED_TOO})
_CLAIMS = frozenset({"option", "several"})
"""Kinds of propositions that a sentence explains behind its colon."""
_UNTOLD = frozenset({Rule.NOT_TOLD, Rule.UNTOLD, Rule.NO_INFORMATION})
"""Ways of saying that a source doesn't tell: what it doesn't tell of a person is not denied of them."""


def read_sentence(s: Sentence) -> None:
    """Adds what a sentence says."""
    line, state, mentions, clauses = s.line, s.state, s.mentions, s.clauses
    closed = 0
    for place, (start, end) in enumerate(clauses):
        bits = line.bits(start, end)
        head = line.bits(start, min(start + HEAD, end)) if bits & HEADING else 0
        if end - start == 1 and bits & C["although"]:
            bits = head = C["but"]
        inside = [m for m in mentions if start <= m.start < end] if mentions else mentions
        parted = line.gaps[start] >= COMMA or bool(closed)
        tail = tail_of(line, start, end) if bits & TAILING else 0
        bare = bool(bits & C["although"] and not inside and is_row(line, start, end))
        state.advance(bits, head, tail, place, len(clauses), comma=parted, named=bool(inside), bare=bare)
        closed = tail & CLOSES
        if bits & C["claim"] and (s.reading.judged or s.bits & _JUDGED) and not opines(line, start, end):
            state.prejudice = s.reading.judged = True
        if line.gaps[start] == COLON and start > s.first and _has_claimed(s):
            state.because = True
        if inside or s.bare or bits & SAYING or bits & PRONOUN:
            s.blamed = bool(s.bits & C["assume"]) and is_blamed(line, clauses[place + 1 :])
            _read_clause(s, start, end, bits, inside)


def _has_claimed(s: Sentence) -> bool:
    """Whether the sentence has chosen somebody already: what stands behind its colon explains that."""
    said = takewhile(lambda p: p.sentence == s.reading.sentences, reversed(s.reading.propositions))
    unknown = s.question.unknown
    return any([p.positive and p.force >= Force.HEDGED and p.option != unknown and p.kind in _CLAIMS for p in said])


def _read_clause(s: Sentence, start: int, end: int, bits: int, inside: list[Mention]) -> None:
    """Reads a clause; of "of the two, the latter" only the latter."""
    line, state, question = s.line, s.state, s.question
    mentions = [m for m in inside if m.refers] or [m for m in inside if not is_plural(line, s.mentions, m, s.first)]
    persons = {m.option for m in mentions if m.option != question.unknown}
    bare = line.is_bare(start, end) and not has_relative(line, mentions, end, s.last)
    announces = s.announces(bits)
    if bits & C["correction"] and heads_clause(line, start, end, C["correction"]):
        s.add("correction", None, Force.ANNOUNCED, Rule.CORRECTION, start, end)
    unknown = read_untold(s, start, end, bits, mentions, persons, announces, bare)
    if len(persons) > 1 and (
        bits & C["both"]
        or (bare and s.bits & MAY_BE_UNKNOWN & ~bits and are_put_together(line, mentions))
        or are_alike(line, mentions, start, s.first, s.last)
    ):
        for mention in mentions:
            mention.joined |= persons
    if not mentions and unknown is None and bits & PRONOUN:
        mentions = meant(s, start, end, bits)
    if not mentions:
        if bare and end < s.last and not s.mentions and bits & PRONOUN and end - start <= SUBJECT:
            s.bare = named_by_pronoun(s, start, end)
        read_unnamed(s, start, end, bits, unknown, announces, bare)
        return
    if unknown is Rule.REFUSAL or (unknown and len(persons) != 1 and not announces):
        return
    live = [
        m
        for m in mentions
        if not is_set_aside(line, m, s.first, s.last, s.bits)
        and (announces or not m.weak or _is_enough(s, m, bare))
        and (m.option >= 0 or announces)
    ]
    pair = bits & C["both"] and not bits & (NEG | C["possible"])
    if pair and (_is_pair(s, live, start) or (_are_labels(live) and not bits & DENY)):
        s.add("several", None, Force.ANNOUNCED, Rule.SEVERAL, start, end)
        return
    _read_mentions(s, start, end, bits, live, announces, bare, unknown)
    s.person = live[0] if len(live) == 1 and live[0].option >= 0 else None
    s.bare = s.person if bare and s.person and s.person.option != question.unknown else None
    state.announced = leads_on(line, start, end)


def _read_mentions(
    s: Sentence,
    start: int,
    end: int,
    bits: int,
    live: list[Mention],
    announces: bool,
    bare: bool,
    unknown: Rule | None,
) -> None:
    """What a clause says of each that it names; of "I change A to C" only the last is left in `live`."""
    line, question = s.line, s.question
    itself = announces and s.announces(bits, carried=False)
    if bits & C["correction"] and len({m.option for m in live}) == 2 and all([m.how is How.LABEL for m in live]):
        del live[:-1]
        live[0].joined, announces, itself = frozenset(), True, True
    options = {m.option for m in live}
    for mention in live:
        if mention.option < 0:
            if not mention.weak:
                s.add("outside", None, Force.ANNOUNCED, Rule.OUTSIDE, mention.start, mention.end)
        elif bits & C["neither"] and len(options) > 1 and is_ruled_out(line, question, mention, start, end, bare):
            s.deny(mention, Rule.NEITHER, bare, not bare and speaks_beside(line, question, mention, start, end))
        else:
            called = announces and (itself or is_subject(line, s.mentions, mention, start))
            facts = facts_of(s, mention, start, end, bits, options, called, bare)
            _claim(s, mention, live, facts, bits, unknown)


def _is_pair(s: Sentence, live: list[Mention], start: int) -> bool:
    """Whether a clause begins with another option than the one that is all in front of its comma: "A, B both fit"."""
    return len(live) == 1 and live[0].start == start and s.bare is not None and live[0].option != s.bare.option


def _are_labels(live: list[Mention]) -> bool:
    """Whether a clause names two or more options, all by their labels: "B and C both work here"."""
    return len({m.option for m in live}) > 1 and all([m.how is How.LABEL and m.option >= 0 for m in live])


def _is_enough(s: Sentence, m: Mention, bare: bool) -> bool:
    """Whether a weak mention is all that is said: a letter in its clause, "the second" in its sentence."""
    return s.whole if m.how is How.PLACE else bare


def _claim(s: Sentence, mention: Mention, live: list[Mention], facts: Facts, bits: int, unknown: Rule | None) -> None:
    """Notes what a clause says of a mention, by the table of claims."""
    rule, positive, force = claim(facts)
    force = _without_source(rule, force, unknown, mention)
    if rule is Rule.SEVERAL:
        _several(s, mention, live, bits & ~DENY if facts.fits and positive else bits, force)
    elif force is None:
        return
    elif rule in _DENIALS and force is Force.FITTING:
        before = s.last_denied() if rule is Rule.DENIED_TOO else None
        fits = facts.fits and not (facts.label or facts.announces or facts.bare)
        s.deny(mention, rule, facts.bare, fits or (before is not None and before.about == "person"))
    else:
        apart = rule is Rule.CLEFT and facts.known and not facts.told
        about: Literal["question", "other"] = "other" if apart else "question"
        s.say(mention, rule, positive, force, facts.bare, about)
    s.state.denied = s.state.denied or not positive


def _without_source(rule: Rule, force: Force | None, unknown: Rule | None, m: Mention) -> Force | None:
    """The force of a claim; what a source doesn't tell of a person is not denied of them."""
    return Force.DESCRIBED if rule is Rule.DENIED and unknown in _UNTOLD and m.how is not How.LABEL else force


def _several(s: Sentence, m: Mention, live: list[Mention], bits: int, force: Force | None) -> None:
    """Several persons together, once for all of them."""
    if force is None or m is not live[0] or bits & (C["possible"] | C["options"] | DENY):
        return
    if s.question.unknown not in {other.option for other in live} and not is_quoted(s.line, m.start):
        s.add("several", None, force, Rule.SEVERAL, m.start, live[-1].end)
