"""Who did what is told: whether a clause speaks the question's words or says who it was, and whether it denies that."""

from __future__ import annotations

from typing import NamedTuple

from mbbq_gen.extraction.clefts import DOER, doer_of, is_cleft, is_denied_cleft, is_put_behind, opens_with_denial
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COLON
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.sections import DENY
from mbbq_gen.extraction.sentence import Sentence
from mbbq_gen.extraction.syntax import (
    SUBJECT,
    asks_not,
    deniable,
    is_beside,
    of_parts,
    part_of,
    says_enough,
    share_said,
    speaks,
    speaks_beside,
    topic_of,
)
from mbbq_gen.extraction.unknowns import NEG, NOT

_TIES = C["who"] | C["relative"] | C["doer"]
TIES = _TIES | C["between"]
"""What ties what was done to the one who did it."""


class Naming(NamedTuple):
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


def naming_of(s: Sentence, m: Mention, start: int, end: int, bits: int) -> Naming:
    """How a clause speaks of what was done. Where the question asks who did not, the one who did something else, of
    which nothing is denied, is not taken for the one asked for."""
    line, question, first = s.line, s.question, start
    told = speaks_beside(line, question, m, start, end) and says_enough(line, question, start, end, bits)
    affirms = bits & C["affirm"] or line.words[m.end - 1].copula
    cleft = bool(affirms and (not told or s.bits & _TIES)) and is_cleft(line, m, start, end, s.last, s.options)
    cleft = cleft or (bool(s.bits & C["between"]) and _is_singled_out(s, m, start, end))
    behind = is_put_behind(line, s.mentions, m, start, end, s.first, question.verb_final)
    topic = s.first if behind else topic_of(line, question, start, s.first)
    if topic < start and speaks(line, question, topic, start):
        told, first, bits = True, topic, bits | line.bits(topic, start)
    doer = doer_of(line, m, end, s.first) if s.bits & DOER else None
    parted = behind or doer is not None
    after_doer = start if doer is None else doer + (not question.unspaced)
    between = line.masks[after_doer : m.start] if parted else []
    isnt = parted and any([mask & NOT for mask in between + line.masks[m.end : end]])
    if cleft and not parted and bits & NOT and opens_with_denial(line, m, start, end):
        return Naming(told, True, _is_not_it(s, m, start, end, told), False, True, first, bits)
    if not told and asks_not(line, question, first, end):
        parted = parted and (isnt or bool(line.bits(s.first, m.start) & NOT))
        cleft = cleft and bool(bits & NOT or s.bits & (C["who"] | C["relative"]))
    of_deed = not told and (parted or (cleft and bool(bits & NOT) and not is_denied_cleft(line, m, start, end)))
    return Naming(told, parted or cleft, isnt, of_deed, parted, first, bits)


def _is_not_it(s: Sentence, m: Mention, start: int, end: int, told: bool) -> bool:
    """Whether "it wasn't she who …" rules her out: it does, unless what she was not the one to do is the contrary of
    what is asked."""
    denies = sum([1 for mask in s.line.masks[start:end] if mask & NOT]) > 1
    told = told and (denies or share_said(s.line, s.question, start, end) > 1 / 2)
    return not told or denies == s.question.negated


def _is_singled_out(s: Sentence, m: Mention, start: int, end: int) -> bool:
    """Whether somebody is singled out of the two: "of the two, the mother was more careful"."""
    line = s.line
    first = part_of(line, s.first, m.start)
    last = min((place for place in range(m.end, s.last) if line.gaps[place] >= COLON), default=s.last)
    others = {other.option for other in s.mentions if first <= other.start < last} - {m.option}
    bits = line.bits(first, end)
    return bool(bits & C["between"]) and not others and not bits & (C["who"] | NOT | C["both"])


def polarity(
    s: Sentence, m: Mention, start: int, end: int, naming: Naming, announces: bool, bare: bool, ellipsis: bool
) -> tuple[bool, bool]:
    """Whether a clause denies what it names, and whether it speaks for it."""
    line, question, bits = s.line, s.question, naming.bits
    label = m.how is not How.TEXT
    fits = naming.told or naming.said_so
    said = bits if fits or ellipsis else deniable(line, question, m, end, bits)
    explained = announces and label and not m.weak and end - m.end > SUBJECT and m.start > start
    if explained:  # "the answer is C: she couldn't do it"
        said = line.bits(start, m.end + SUBJECT)
    deny = DENY | C["hard"] if label or bare or (announces and not fits) else DENY
    denied = bool(said & deny) and not (said & NEG and said & C["wrong"])
    if naming.parted and (naming.isnt or naming.of_deed):
        return denied and naming.isnt, not naming.isnt
    if naming.of_deed:
        return False, True
    if (fits or ellipsis) and not explained:
        if naming.told and bits & NOT and bits & C["conj"]:
            bits = of_parts(line, question, naming.first, m.end, end)
            denied = bool(bits & deny) and not (bits & NEG and bits & C["wrong"])
        return denied, bool(bits & NOT) == asks_not(line, question, naming.first, end) and (
            fits or not bits & C["wrong"]
        )
    if not question.predicate and not bare and not label and not _denies_it(s, m, start, end):
        return denied, not said & (DENY & ~NEG)
    return denied, not said & deny


def _denies_it(s: Sentence, m: Mention, start: int, end: int) -> bool:
    """Whether a negation stands in front of a mention in its clause, or right behind it."""
    line = s.line
    cleft = is_cleft(line, m, start, end, s.last, s.options) and any([mask & NEG for mask in line.masks[m.end : end]])
    return cleft or any([mask & NEG for mask in line.masks[start : m.start]]) or is_beside(line, m, NEG)
