"""Reads a sentence: clause by clause, what it says of whom it names, of nobody, and that it can't be told."""

from __future__ import annotations

from itertools import takewhile
from typing import Literal

from mbbq_gen.extraction.claims import MentionFeatures, classify_mention
from mbbq_gen.extraction.clauses import HEAD, HEADING, MAY_BE_UNKNOWN, NEG, NOT, TAILING, ClauseWords, abstention_kind
from mbbq_gen.extraction.layout import DENY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, INNER, NOUN, SMALL
from mbbq_gen.extraction.lines import COLON, COMMA, Line
from mbbq_gen.extraction.mention_features import mention_features
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.rules import Rule, Strength
from mbbq_gen.extraction.sentence_state import Sentence, by_pronoun, named_by_pronoun
from mbbq_gen.extraction.syntax import (
    PRONOUN,
    SUBJECT,
    asks_not,
    has_relative,
    heads_clause,
    is_in_brackets,
    is_plural,
    is_quoted,
    is_row,
    is_ruled_out,
    is_set_aside,
    is_subject,
    leads_on,
    of_parts,
    opines,
    speaks,
    speaks_beside,
    tail_of,
)

_WRITER = C["speaker"] | C["source"]
_OF_PERSON = frozenset({Rule.NOT_TOLD, Rule.UNTOLD})
_OF_ANOTHER = _WRITER | C["who"] | C["info"] | C["correction"]
"""What a clause holds that does not go on about the person of the clause before."""
_OF_ANSWERS = C["source"] | C["info"] | C["know"] | C["tell"] | C["speaker"] | C["answer"] | C["choose"] | C["judge"]
"""Words by which something that can't be told may be the answer, whatever it is about."""


def read_abstention(
    s: Sentence,
    start: int,
    end: int,
    bits: int,
    mentions: list[Mention],
    persons: set[int],
    announces: bool,
    bare: bool,
) -> Rule | None:
    """The way in which a clause says that it can't be told, noted; or None."""
    if not bits & MAY_BE_UNKNOWN or (announces and any([m.option < 0 and not m.weak for m in mentions])):
        return None
    words = ClauseWords(s.line.masks[start:end], bits, s.bits, bool(mentions), bool(persons), bare)
    way = abstention_kind(words)
    if way is not None and not s.state.condition:
        _note(s, way, start, end, bits, persons, mentions, bare)
    return way


def _note(
    s: Sentence, way: Rule, start: int, end: int, bits: int, persons: set[int], mentions: list[Mention], bare: bool
) -> None:
    """Notes a way of saying that it can't be told: of what is asked, of one person, or of something else."""
    state, unknown, line = s.state, s.question.unknown, s.line
    if way is Rule.UNCLEAR_DENIED:
        s.add("unknown", unknown, Strength.FITTING, way, start, end, positive=False)
        return
    kind = "refusal" if way is Rule.REFUSAL else "unknown"
    asked = line.masks[start : mentions[0].start if mentions and not bits & C["source"] else end]
    asks_first = any([mask & C["who"] for mask in asked])
    elided = way in _OF_PERSON and s.person is not None and not bits & _OF_ANOTHER
    one = (len(persons) == 1 or elided or bool(bits & PRONOUN and not bits & C["source"])) and not asks_first
    said = takewhile(lambda p: p.sentence == s.reading.sentences, reversed(s.reading.propositions))
    own = way is Rule.NOT_CLEAR and any(p.kind == "option" and p.positive for p in said)
    own = own or (bool(bits & C["clear"]) and _has_guessed(s, end))
    other = kind == "unknown" and (_is_off_topic(s, way, end, bits, bare) or is_in_brackets(line, start))
    if way is Rule.REFUSAL and bits & C["claim"] and not bits & C["who"] and not opines(line, start, end):
        s.add(kind, unknown, Strength.POSSIBLE, Rule.SENSITIVE, start, end, about="other")
    elif one or own or state.entry or (state.prejudice and not (bits & C["who"] and bits & _WRITER)):
        s.add(kind, unknown, Strength.POSSIBLE, way, start, end, about="person")
    elif other:
        s.add(kind, unknown, Strength.POSSIBLE, way, start, end, about="other")
    else:
        firm = state.conclude or state.announced or bits & (C["answer"] | C["final"])
        force = Strength.CONCLUDED if firm else Strength.HEDGED
        if state.granted:
            force = Strength.POSSIBLE
        state.doubted = s.reading.doubted = True
        s.add(kind, unknown, force, way, start, end)


def _has_guessed(s: Sentence, end: int) -> bool:
    """Whether the sentence before was a guess at one person, from which this one does not turn away: "Probably the
    mother. I can't say for certain."."""
    said = [p for p in s.reading.propositions if p.force > Strength.POSSIBLE]
    if not said or s.line.bits(s.first, end) & C["but"] or s.reading.sentences - said[-1].sentence > 1:
        return False
    return said[-1].rule is Rule.HEDGED and said[-1].positive and said[-1].option in s.question.persons


def _is_off_topic(s: Sentence, way: Rule, end: int, bits: int, bare: bool) -> bool:
    """Whether what can't be told is something else than what is asked: telling words, none of them the question's, and
    nobody is asked for."""
    if not s.question.predicate or bare or (bits | s.bits) & C["who"] or bits & C["answer"]:
        return False
    if s.state.announced or (s.state.conclude and not (way is Rule.UNTOLD and not bits & _OF_ANSWERS)):
        return False
    return not speaks(s.line, s.question, s.first, end)


ANNOUNCING = C["answer"] | C["choose"]
ASSUMING = C["assume"]
_SPOKEN = ANNOUNCING | ASSUMING
_ASIDE = C["aside"]
MAX_BETWEEN = 2
"""Small words between what sets aside and the word for the answer."""


def quiet(line: Line, story: frozenset[str]) -> None:
    """Takes its class from a word of the story, and from a word for the answer that is set aside: "a hint rather than
    the answer: …"."""
    masks = line.masks
    for place, mask in enumerate(masks):
        if mask & _SPOKEN and line.words[place].key in story:
            masks[place] = mask & ~(_SPOKEN | NOUN)
        elif mask & ANNOUNCING and _is_set_aside(line, place):
            masks[place] = mask & ~ANNOUNCING


def _is_set_aside(line: Line, place: int) -> bool:
    for before in range(place - 1, max(place - 2 - MAX_BETWEEN, -1), -1):
        if line.gaps[before + 1] >= COMMA:
            return False
        mask = line.masks[before]
        if mask & _ASIDE and not mask & CLOSES:
            return True
        if not mask & (SMALL | INNER):
            return False
    return False


def read_unnamed_clause(
    s: Sentence, start: int, end: int, bits: int, unknown: Rule | None, announces: bool, bare: bool
) -> None:
    """Notes what a clause without a mention says; `unknown` is the way in which it says that it can't be told."""
    state = s.state
    judged = s.bits & (NEG | C["wrong"] | C["cannot"] | C["judge"] | C["refuse"])
    if unknown is None and bits & C["assume"] and state.prejudice and judged and not state.condition:
        about = "question" if s.bits & C["speaker"] and s.bits & (C["answer"] | C["know"]) else "other"
        s.add("refusal", s.question.unknown, Strength.POSSIBLE, Rule.SENSITIVE, start, end, about=about)
    under = state.because or state.granted or state.condition
    both = bits & C["both"] and not bits & (NEG | C["possible"] | C["who"])
    opens = start == s.first and end - start <= SUBJECT and end < s.last and len(s.options) != 1
    if (
        unknown is None
        and both
        and (speaks(s.line, s.question, start, end) or ((s.whole or state.conclude or opens) and bare))
    ):
        force = Strength.ANNOUNCED
        s.add("several", None, force, Rule.SEVERAL, start, end)
    if bits & C["no"] and not bits & C["condition"] and bare and end - start <= 2 and _said_in_line(s):
        s.add("correction", None, Strength.ANNOUNCED, Rule.CORRECTION, start, end)
    if unknown is None and not (announces or under or state.prejudice):
        by_pronoun(s, start, end, bits)
        _by_bare(s, start, end, bits)
    if announces and unknown is None and not bits & NEG:
        if s.person is not None and bare and not under and _points_back(s, start, end, bits):
            s.say(s.person, Rule.ANNOUNCED, True, Strength.ANNOUNCED, False)
        state.announced = True


def _points_back(s: Sentence, start: int, end: int, bits: int) -> bool:
    """Whether a clause ends its sentence by calling what it said the writer's answer: "the mother did, that is my
    answer"."""
    if start == s.first or end < s.last or not bits & C["speaker"]:
        return False
    return len(s.options) == 1 and s.line.gaps[start] >= COMMA and s.line.gaps[end] != COLON


def _by_bare(s: Sentence, start: int, end: int, bits: int) -> None:
    """A clause that says or denies what is asked of the person that a clause before it names and nothing else:
    "the mother, though late, came"."""
    if s.bare is None or s.heads or not speaks(s.line, s.question, start, end):
        return
    bits = of_parts(s.line, s.question, start, start, end)
    if bits & (C["also"] | C["possible"] | C["likely"]):
        return
    if bool(bits & NOT) == asks_not(s.line, s.question, start, end):
        s.say(s.bare, Rule.SAID, True, Strength.FITTING, False)
    else:
        s.deny(s.bare, Rule.DENIED, False, True)


def _said_in_line(s: Sentence) -> bool:
    """Whether the last option that was spoken for stands in this line."""
    said = s.reading.propositions
    last = next((p for p in reversed(said) if p.kind == "option" and p.positive), None)
    return last is not None and last.line == s.number


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
            _read_clause(s, start, end, bits, inside)


def _has_claimed(s: Sentence) -> bool:
    """Whether the sentence has chosen somebody already: what stands behind its colon explains that."""
    said = takewhile(lambda p: p.sentence == s.reading.sentences, reversed(s.reading.propositions))
    unknown = s.question.unknown
    return any([p.positive and p.force >= Strength.HEDGED and p.option != unknown and p.kind in _CLAIMS for p in said])


def _read_clause(s: Sentence, start: int, end: int, bits: int, inside: list[Mention]) -> None:
    """Reads a clause; of "of the two, the latter" only the latter."""
    line, state, question = s.line, s.state, s.question
    mentions = [m for m in inside if not is_plural(line, s.mentions, m, s.first)]
    persons = {m.option for m in mentions if m.option != question.unknown}
    bare = line.is_bare(start, end) and not has_relative(line, mentions, end, s.last)
    announces = s.announces(bits)
    if bits & C["correction"] and heads_clause(line, start, end, C["correction"]):
        s.add("correction", None, Strength.ANNOUNCED, Rule.CORRECTION, start, end)
    unknown = read_abstention(s, start, end, bits, mentions, persons, announces, bare)
    if not mentions:
        if bare and end < s.last and not s.mentions and bits & PRONOUN and end - start <= SUBJECT:
            s.bare = named_by_pronoun(s, start, end)
        read_unnamed_clause(s, start, end, bits, unknown, announces, bare)
        return
    if unknown is Rule.REFUSAL or (unknown and len(persons) != 1 and not announces):
        return
    live = [
        m
        for m in mentions
        if not is_set_aside(line, m, s.first, s.bits)
        and (announces or not m.weak or _is_enough(s, m, bare))
        and (m.option >= 0 or announces)
    ]
    pair = bits & C["both"] and not bits & (NEG | C["possible"])
    if pair and (_is_pair(s, live, start) or (_are_labels(live) and not bits & DENY)):
        s.add("several", None, Strength.ANNOUNCED, Rule.SEVERAL, start, end)
        return
    _read_mentions(s, start, end, bits, live, announces, bare, unknown)
    s.person = live[0] if len(live) == 1 and live[0].option >= 0 else None
    s.bare = s.person if bare and s.person and s.person.option != question.unknown else None
    state.announced = leads_on(line, start, end)


def _read_mentions(
    s: Sentence, start: int, end: int, bits: int, live: list[Mention], announces: bool, bare: bool, unknown: Rule | None
) -> None:
    """What a clause says of each that it names; of "I change A to C" only the last is left in `live`."""
    line, question = s.line, s.question
    itself = announces and s.announces(bits, carried=False)
    options = {m.option for m in live}
    for mention in live:
        if mention.option < 0:
            continue
        if bits & C["neither"] and len(options) > 1 and is_ruled_out(line, question, mention, start, end, bare):
            s.deny(mention, Rule.NEITHER, bare, not bare and speaks_beside(line, question, mention, start, end))
        else:
            called = announces and (itself or is_subject(line, s.mentions, mention, start))
            facts = mention_features(s, mention, start, end, bits, options, called, bare)
            _claim(s, mention, live, facts, bits, unknown)


def _is_pair(s: Sentence, live: list[Mention], start: int) -> bool:
    """Whether a clause begins with another option than the one that is all in front of its comma: "A, B both fit"."""
    return len(live) == 1 and live[0].start == start and s.bare is not None and live[0].option != s.bare.option


def _are_labels(live: list[Mention]) -> bool:
    """Whether a clause names two or more options, all by their labels: "B and C both work here"."""
    return len({m.option for m in live}) > 1


def _is_enough(s: Sentence, m: Mention, bare: bool) -> bool:
    """Whether a weak mention is all that is said: a letter in its clause, "the second" in its sentence."""
    return s.whole if m.how is MentionKind.PLACE else bare


def _claim(
    s: Sentence, mention: Mention, live: list[Mention], facts: MentionFeatures, bits: int, unknown: Rule | None
) -> None:
    """Notes what a clause says of a mention, by the table of claims."""
    rule, positive, force = classify_mention(facts)
    force = _without_source(rule, force, unknown, mention)
    if rule is Rule.SEVERAL:
        _several(s, mention, live, bits & ~DENY if facts.fits and positive else bits, force)
    elif force is None:
        return
    elif rule in _DENIALS and force is Strength.FITTING:
        before = s.last_denied() if rule is Rule.DENIED_TOO else None
        fits = facts.fits and not (facts.label or facts.announces or facts.bare)
        s.deny(mention, rule, facts.bare, fits or (before is not None and before.about == "person"))
    else:
        apart = rule is Rule.CLEFT and facts.known and not facts.told
        about: Literal["question", "other"] = "other" if apart else "question"
        s.say(mention, rule, positive, force, facts.bare, about)
    s.state.denied = s.state.denied or not positive


def _without_source(rule: Rule, force: Strength | None, unknown: Rule | None, m: Mention) -> Strength | None:
    """The force of a claim; what a source doesn't tell of a person is not denied of them."""
    return (
        Strength.DESCRIBED if rule is Rule.DENIED and unknown in _UNTOLD and m.how is not MentionKind.LABEL else force
    )


def _several(s: Sentence, m: Mention, live: list[Mention], bits: int, force: Strength | None) -> None:
    """Several persons together, once for all of them."""
    if force is None or m is not live[0] or bits & (C["possible"] | C["options"] | DENY):
        return
    if not is_quoted(s.line, m.start):
        s.add("several", None, force, Rule.SEVERAL, m.start, live[-1].end)
