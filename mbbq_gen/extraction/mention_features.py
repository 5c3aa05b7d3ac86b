"""Features of a mention: how its clause names it, whether it speaks the question's words, and what it denies."""

from __future__ import annotations

from typing import NamedTuple

from mbbq_gen.extraction.claims import MentionFeatures
from mbbq_gen.extraction.clauses import NEG, NOT
from mbbq_gen.extraction.clefts import (
    DOER,
    doer_of,
    is_cleft,
    is_denied_cleft,
    is_put_behind,
)
from mbbq_gen.extraction.layout import DENY
from mbbq_gen.extraction.lexicon import ANYBODY, INNER, MENTIONED, NOUN, SMALL, STRAY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COLON, STOP
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.sentence_state import Sentence
from mbbq_gen.extraction.syntax import (
    PRONOUN,
    SUBJECT,
    asks_not,
    deniable,
    is_anybody,
    is_ellipsis,
    is_subject,
    of_parts,
    part_of,
    says_enough,
    share_said,
    speaks_beside,
)

_TIES = C["who"] | C["relative"] | C["doer"]


class PredicateMatch(NamedTuple):
    """How a clause speaks of what was done: in the question's words, or by saying who did what it tells."""

    told: bool
    """It speaks the question's words, or what it names the doer of does."""
    said_so: bool
    """It says who it was."""
    isnt: bool
    """It says who it was not."""
    of_deed: bool
    """It says so of something else than the question's words."""
    parted: bool
    """Who it was is said apart from what was done: "the one who came late was she", "who came late, that was she"."""
    first: int
    """Where it begins: in front of the clause, where that is what it names the doer of."""
    bits: int
    """The classes of its words."""


def match_predicate(s: Sentence, m: Mention, start: int, end: int, bits: int) -> PredicateMatch:
    """How a clause speaks of what was done. Where the question asks who did not, the one who did something else, of
    which nothing is denied, is not taken for the one asked for."""
    line, question, first = s.line, s.question, start
    told = speaks_beside(line, question, m, start, end) and says_enough(line, question, start, end, bits)
    affirms = bits & C["affirm"] or line.words[m.end - 1].copula
    cleft = bool(affirms and (not told or s.bits & _TIES)) and is_cleft(line, m, start, end)
    cleft = cleft or (bool(s.bits & C["between"]) and _is_singled_out(s, m, end))
    behind = is_put_behind(line, s.mentions, m, start, s.first, question.verb_final)
    doer = doer_of(line, m, end, s.first) if s.bits & DOER else None
    parted = behind or doer is not None
    after_doer = start if doer is None else doer + (not question.unspaced)
    between = line.masks[after_doer : m.start] if parted else []
    isnt = parted and any([mask & NOT for mask in between + line.masks[m.end : end]])
    of_deed = not told and (parted or (cleft and bool(bits & NOT) and not is_denied_cleft(line, m, start, end)))
    return PredicateMatch(told, parted or cleft, isnt, of_deed, parted, first, bits)


def _is_singled_out(s: Sentence, m: Mention, end: int) -> bool:
    """Whether somebody is singled out of the two: "of the two, the mother was more careful"."""
    line = s.line
    first = part_of(line, s.first, m.start)
    bits = line.bits(first, end)
    return bool(bits & C["between"]) and not bits & (C["who"] | NOT | C["both"])


def polarity(
    s: Sentence, m: Mention, start: int, end: int, naming: PredicateMatch, announces: bool, bare: bool, ellipsis: bool
) -> tuple[bool, bool]:
    """Whether a clause denies what it names, and whether it speaks for it."""
    line, question, bits = s.line, s.question, naming.bits
    label = m.how is not MentionKind.TEXT
    fits = naming.told or naming.said_so
    said = bits if fits or ellipsis else deniable(line, question, m, end, bits)
    deny = DENY | C["hard"] if label or bare or announces else DENY
    denied = bool(said & deny)
    if naming.of_deed:
        return (False, True)
    if fits or ellipsis:
        if naming.told and bits & NOT and bits & C["conj"]:
            bits = of_parts(line, question, naming.first, m.end, end)
            denied = True
        return (
            denied,
            bool(bits & NOT) == asks_not(line, question, naming.first, end) and (fits or not bits & C["wrong"]),
        )
    if not question.predicate and not bare and not label:
        return (denied, not said & (DENY & ~NEG))
    return (denied, not said & deny)


_IN_BRIEF = C["conclude"] | C["final"] | C["right"] | C["yes"] | C["answer"] | C["affirm"] | C["but"] | C["must"]
_BRIEF = (
    _IN_BRIEF
    | C["speaker"]
    | C["source"]
    | PRONOUN
    | C["who"]
    | C["relative"]
    | MENTIONED
    | SMALL
    | INNER
    | NOUN
    | STRAY
    | ANYBODY
)
"""What a sentence may hold that answers by being nothing but a mention."""


def mention_features(
    s: Sentence, m: Mention, start: int, end: int, bits: int, options: set[int], announces: bool, bare: bool
) -> MentionFeatures:
    """What is known of a mention of a clause that names `options`."""
    line, state, question = s.line, s.state, s.question
    naming = match_predicate(s, m, start, end, bits)
    bits, fits = naming.bits, naming.told or naming.said_so
    ellipsis = is_ellipsis(line, question, m, end)
    denied, positive = polarity(s, m, start, end, naming, announces, bare, ellipsis)
    subject = is_subject(line, s.mentions, m, start)
    others = len(options) > 1
    label = m.how is not MentionKind.TEXT
    signs = line.signs
    return MentionFeatures(
        label=label,
        sure=label and not m.weak and (m.how is not MentionKind.PLACE) and not bits & C["also"],
        bold=m.how is MentionKind.BOTH and not s.heads and ("**" in signs[m.start]) and ("**" in signs[m.end]),
        unknown=m.option == question.unknown,
        anybody=is_anybody(line, question, m, start, end),
        bare=bare,
        whole=s.whole,
        alone=bare and ((s.whole and _is_brief(s, bits)) or _is_put(s, m, start, end)),
        subject=subject,
        others=others,
        joined=bool(m.joined),
        fits=fits,
        all_told=naming.told and share_said(line, question, naming.first, end) == 1,
        cleft=naming.parted or bool(naming.said_so),
        denied=denied,
        positive=positive,
        announces=announces,
        right=bool(bits & C["right"]),
        also=bool(bits & C["also"]),
        infers=bool(bits & C["must"]),
        because=state.because,
        granted=state.granted,
        condition=state.condition,
        prejudice=state.prejudice,
        forced=state.forced,
        likely=state.likely,
        opines=bool(bits & C["likely"] and bits & C["speaker"]),
        conclude=state.conclude,
        turned=state.turned,
        doubted=state.doubted,
        denied_before=state.denied,
        last_line=s.number + 1 == len(s.reading.lines),
        closes=s.number + 1 == len(s.reading.lines)
        and s.last == len(line.words)
        and (line.gaps[-1] >= STOP)
        and all([mask & (SMALL | C["affirm"]) for mask in line.masks[m.end :]]),
        known=bool(question.predicate),
        negated=asks_not(line, question, naming.first, end),
    )


def _is_brief(s: Sentence, bits: int) -> bool:
    """Whether a sentence of nothing but a mention answers: no entry, no possibility, no reason, not cut off."""
    line = s.line
    if bits & ~_BRIEF or len(s.main) > 1 or s.heads:
        return False
    first = s.reading.sentences == 1 or s.number + 1 < len(s.reading.lines)
    if not (first or s.last < len(line.words) or line.signs[-1].strip(" ,،、，")):
        return False
    heads = line.heading and s.number + 1 < len(s.reading.lines)
    return not heads


def _is_put(s: Sentence, m: Mention, start: int, end: int) -> bool:
    """Whether a mention ends its sentence behind a colon: "Take it for what it is: the baker."."""
    line = s.line
    leads = start - s.first >= SUBJECT
    if not leads or end < s.last or line.gaps[start] != COLON or not m.full:
        return False
    return len(s.options) == 1
