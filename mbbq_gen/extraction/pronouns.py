"""Whom a pronoun means, and what is said of that person."""

from __future__ import annotations

from itertools import takewhile

from mbbq_gen.extraction.clefts import DOER, doer_of, is_cleft, words_behind
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import NOUN, SMALL
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.rules import Force, Rule
from mbbq_gen.extraction.sentence import Sentence
from mbbq_gen.extraction.syntax import PRONOUN, asks_not, of_parts, part_of, says_enough, share_said, speaks
from mbbq_gen.extraction.unknowns import NEG, NOT


def by_pronoun(s: Sentence, start: int, end: int, bits: int) -> None:
    """A clause that says or denies what is asked of the person whom a pronoun means: "She was late."."""
    if not bits & PRONOUN:
        return
    person = _spoken_of(s, start)
    if person is None:
        return
    if _is_equated(s, person, start, end):
        return
    if bits & C["isnt"] and bits & NEG and not bits & C["who"] and s.line.is_bare(start, end):
        s.deny(_mention_of(s, person, start, end), Rule.DENIED, False, True)
        return
    if not speaks(s.line, s.question, start, end):
        weighs = s.state.conclude or s.state.likely
        if weighs and not s.mentions and not bits & (C["who"] | C["also"] | NEG):
            last = s.last == len(s.line.words) and s.number + 1 == len(s.reading.lines)
            s.add("option", person, Force.HEDGED if last else Force.PLAIN, Rule.CONCLUDED, start, end)
        return
    if not says_enough(s.line, s.question, start, end, bits):
        return
    bits = of_parts(s.line, s.question, start, start, end)
    if bits & (C["who"] | C["also"]) or (bits & C["possible"] and not bits & NEG):
        return
    positive = bool(bits & NEG) == asks_not(s.line, s.question, start, end)
    if not positive and bits & (C["likely"] | C["possible"]):
        return
    rule = said_of(s, start, end) if positive else Rule.DENIED
    s.add("option", person, Force.FITTING, rule, start, end, positive=positive)


def said_of(s: Sentence, start: int, end: int) -> Rule:
    """Whether a clause says all that is asked of the person that it goes on about, or some of it."""
    return Rule.SAID if share_said(s.line, s.question, start, end) == 1 else Rule.FITS


def _is_equated(s: Sentence, person: int, start: int, end: int) -> bool:
    """Whether a clause says, or denies, that a person is the one who did what is told: "the one who came late was
    she"; noted."""
    masks, mention = s.line.masks, _mention_of(s, person, start, end)
    doer = doer_of(s.line, mention, end, s.first) if s.bits & DOER else None
    if doer is None:
        return False
    if any([mask & NOT for mask in masks[doer + 1 : mention.start] + masks[mention.end : end]]):
        s.deny(mention, Rule.DENIED, False, False)
    elif not s.question.negated:
        s.say(mention, Rule.CLEFT, True, Force.CONCLUDED, False)
    return True


def meant(s: Sentence, start: int, end: int, bits: int) -> list[Mention]:
    """The person whom a pronoun means in a cleft, or where the writer chooses: "she is the one who", "I'd go with
    him"."""
    person = _spoken_of(s, start)
    if person is None:
        return []
    line, masks, mention = s.line, s.line.masks, _mention_of(s, person, start, end)
    rest = words_behind(line, mention, end)
    chosen = bits & C["speaker"] and s.announces(bits) and (not rest or rest[0] & C["who"])
    tied = takewhile(lambda mask: not mask & C["who"], rest)
    cleft = bits & C["who"] and all([mask & (SMALL | NOUN | C["affirm"]) and not mask & NEG for mask in tied])
    one = masks[mention.start] & (C["he"] | C["she"])
    if not (chosen or (cleft and (one or is_cleft(line, mention, start, end, s.last, s.options)))):
        return []
    s.mentions = [*s.mentions, mention]
    s.survey()
    return [mention]


def named_by_pronoun(s: Sentence, start: int, end: int) -> Mention | None:
    """The person whom the pronoun of a clause means, as a mention."""
    person = _spoken_of(s, start)
    return None if person is None else _mention_of(s, person, start, end)


def _mention_of(s: Sentence, person: int, start: int, end: int) -> Mention:
    """The first pronoun of a clause as a mention of a person."""
    place = next(place for place in range(start, end) if s.line.masks[place] & PRONOUN)
    return Mention(person, place, place + 1, How.TEXT, full=False)


def _spoken_of(s: Sentence, start: int) -> int | None:
    """Whom a pronoun means: the one person that the sentence has named so far, or since its last semicolon, else the
    one of the sentence before; None where that is nobody, or either of two."""
    if any([m.end > start for m in s.mentions]):
        return None
    for first in (part_of(s.line, s.first, start), s.first):
        named = {m.option for m in s.mentions if m.option in s.question.persons and m.start >= first}
        if named:
            return named.pop() if len(named) == 1 else None
    return s.reading.spoken_of
