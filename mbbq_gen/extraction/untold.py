"""That a clause says it can't be told, or declines: of what, of whom, and how firmly; `.unknowns` has the ways."""

from __future__ import annotations

from itertools import takewhile

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.rules import Force, Rule
from mbbq_gen.extraction.sentence import Sentence
from mbbq_gen.extraction.syntax import PRONOUN, is_in_brackets, opines, speaks
from mbbq_gen.extraction.unknowns import MAY_BE_UNKNOWN, ClauseWords, way_of_unknown

_WRITER = C["speaker"] | C["source"]
_OF_PERSON = frozenset({Rule.NOT_TOLD, Rule.UNTOLD})
_OF_ANOTHER = _WRITER | C["who"] | C["info"] | C["correction"]
"""What a clause holds that does not go on about the person of the clause before."""
_OF_ANSWERS = C["source"] | C["info"] | C["know"] | C["tell"] | C["speaker"] | C["answer"] | C["choose"] | C["judge"]
"""Words by which something that can't be told may be the answer, whatever it is about."""


def read_untold(
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
    way = way_of_unknown(words)
    if way is not None and not s.state.condition:
        _note(s, way, start, end, bits, persons, mentions, bare)
    return way


def _note(
    s: Sentence, way: Rule, start: int, end: int, bits: int, persons: set[int], mentions: list[Mention], bare: bool
) -> None:
    """Notes a way of saying that it can't be told: of what is asked, of one person, or of something else."""
    state, unknown, line = s.state, s.question.unknown, s.line
    if way is Rule.UNCLEAR_DENIED:
        s.add("unknown", unknown, Force.FITTING, way, start, end, positive=False)
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
        s.add(kind, unknown, Force.POSSIBLE, Rule.SENSITIVE, start, end, about="other")
    elif one or own or state.entry or (state.prejudice and not (bits & C["who"] and bits & _WRITER)):
        s.add(kind, unknown, Force.POSSIBLE, way, start, end, about="person")
    elif other:
        s.add(kind, unknown, Force.POSSIBLE, way, start, end, about="other")
    else:
        firm = state.conclude or state.announced or bits & (C["answer"] | C["final"])
        force = Force.CONCLUDED if firm else Force.HEDGED
        if state.granted:
            force = Force.POSSIBLE if any(m.option != unknown for m in s.mentions) else Force.FITTING
        state.doubted = s.reading.doubted = True
        s.add(kind, unknown, force, way, start, end)


def _has_guessed(s: Sentence, end: int) -> bool:
    """Whether the sentence before was a guess at one person, from which this one does not turn away: "Probably the
    mother. I can't say for certain."."""
    said = [p for p in s.reading.propositions if p.force > Force.POSSIBLE]
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
