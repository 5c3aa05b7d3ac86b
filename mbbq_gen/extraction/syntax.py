"""How a clause is built and how a person stands in it: questions to the classes of a line's words, nothing noted.

A clause is words `start` up to `end` of a line, its sentence `first` up to `last`. Clefts have `.clefts` to themselves.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import reduce
from itertools import pairwise
from operator import or_

from mbbq_gen.extraction.clauses import NEG, NOT
from mbbq_gen.extraction.layout import PLAIN_WORDS
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, INNER, SMALL
from mbbq_gen.extraction.lines import COLON, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.prepared_question import PreparedQuestion

PRONOUN = C["pronoun"] | C["he"] | C["she"]
_OPINES = C["speaker"] | C["likely"]
"""What makes a saying the writer's own."""
_QUOTES = ("“", "”"), ("«", "»"), ("「", "」"), ("『", "』")
SUBJECT = 3
"""Words that may stand in front of the subject of a clause."""
MAX_ELLIPSIS = 3
"""Words behind the person of a clause that stands for what was said before."""


# --- what a clause is, begins and ends with --------------------------------------------------------------------------


def tail_of(line: Line, start: int, end: int) -> int:
    """The classes of the last word of a clause, or of the row that it ends; none where that is its first."""
    place = end - 1
    return line.masks[place] if place > start else 0


def part_of(line: Line, first: int, place: int) -> int:
    """Where the part of a sentence begins that a word stands in: behind the last colon or semicolon up to it."""
    return max((start for start in range(first + 1, place + 1) if line.gaps[start] >= COLON), default=first)


# --- whether it speaks of what is asked ------------------------------------------------------------------------------


def speaks(line: Line, question: PreparedQuestion, start: int, end: int) -> bool:
    """Whether a stretch speaks the question's words."""
    places = line.asked
    first = bisect_left(places, start)
    if any([not line.masks[place] & INNER for place in places[first : bisect_left(places, end, first)]]):
        return True
    predicate = question.predicate
    pairs = pairwise(line.words[start:end]) if question.unspaced else ()
    return any([one.key + two.key in predicate for one, two in pairs])


def share_said(line: Line, question: PreparedQuestion, start: int, end: int) -> float:
    """How much a stretch speaks of the question's words that its text has not told, from 0 to 1; 0 where it has told
    all of them."""
    words = line.words[start:end]
    said = {form for word in words for form in (word.stem, word.key)}
    return sum([not forms.isdisjoint(said) for forms in question.core]) / max(len(question.core), 1)


def says_enough(line: Line, question: PreparedQuestion, start: int, end: int, bits: int) -> bool:
    """Whether a clause that speaks words of the question speaks enough of them: a third, or more than half where the
    question denies and the clause doesn't: "he came to school" says nothing of an interest in the school."""
    share = share_said(line, question, start, end)
    return share > 1 / 2 if not bits & NOT and asks_not(line, question, start, end) else share >= 1 / 3


def asks_not(line: Line, question: PreparedQuestion, start: int, end: int) -> bool:
    """Whether the question asks who did not, as far as a clause speaks of it: asked who managed without help, "he
    managed alone" speaks of managing only."""
    if not question.lacked:
        return question.negated
    said = zip(line.words[start:end], line.masks[start:end], strict=True)
    lacked = question.lacked
    return any([word.stem in lacked for word, mask in said])


def of_parts(line: Line, question: PreparedQuestion, first: int, start: int, end: int) -> int:
    """The classes of those parts of a clause, parted by "and" behind `start`, that speak the question's words: "she
    could not hold back her tears and was very moved"."""
    seams = [place for place in range(start, end) if line.masks[place] & C["conj"]]
    parts = list(pairwise([first, *seams, end]))
    return reduce(or_, [line.bits(*part) for part in parts if speaks(line, question, *part)], 0)


def speaks_beside(line: Line, question: PreparedQuestion, m: Mention, start: int, end: int) -> bool:
    """Whether a clause speaks the question's words, beside the mention's own."""
    return bool(question.predicate) and (speaks(line, question, start, m.start) or speaks(line, question, m.end, end))


# --- how a mention stands in it --------------------------------------------------------------------------------------


def is_subject(line: Line, mentions: list[Mention], m: Mention, start: int) -> bool:
    """Whether a mention is the first of its clause, with next to nothing in front of it."""
    first = next(found for found in mentions if found.start >= start)
    if first is not m:
        return False
    return m.start - start <= SUBJECT


def is_anybody(line: Line, question: PreparedQuestion, m: Mention, start: int, end: int) -> bool:
    """Whether an indefinite word makes anybody of a mention: "a baker", "a very poor woman"."""
    if m.how is not MentionKind.TEXT or question.texts[m.option].anybody:
        return False
    masks, words = line.masks, line.words[m.start : min(m.end + 1, end)]
    if question.verb_final and any([word.classes & C["indefinite"] for word in words]):
        return True
    for place in range(m.start - 1, max(m.start - SUBJECT, start) - 1, -1):
        if masks[place] & C["indefinite"]:
            return not masks[place] & INNER
        if masks[place] & SMALL and not masks[place] & INNER:
            return False
    return False


def is_ellipsis(line: Line, question: PreparedQuestion, m: Mention, end: int) -> bool:
    """Whether a clause is a mention and a word for what was said before: "The mother did."."""
    if not 0 < end - m.end <= MAX_ELLIPSIS:
        return False
    after = line.masks[m.end : end]
    if question.unspaced:
        return False
    return any(
        [mask & (C["affirm"] | NEG) for mask in (after if question.verb_final else after[:: len(after) - 1 or 1])]
    ) and all([mask & PLAIN_WORDS for mask in after])


def is_set_aside(line: Line, m: Mention, first: int, bits: int) -> bool:
    """Whether a word right in front of a mention sets it aside (unlike, than, instead of), or right behind it; `bits`
    are the classes of its sentence."""
    own = line.words[m.end - 1].classes
    before = line.masks[first - 1] if first else 0
    if not (bits | own | before) & C["aside"]:
        return False
    for place in range(m.start - 1, max(m.start - 5, -1), -1):
        mask = line.masks[place]
        if mask & C["aside"] and not mask & CLOSES:
            return True
    return False


def deniable(line: Line, question: PreparedQuestion, m: Mention, end: int, bits: int) -> int:
    """The classes of a clause, without the negations in front of a mention where a language denies behind it."""
    if not question.verb_final or not bits & C["neg"]:
        return bits
    behind = line.bits(m.end, end)
    return bits & ~C["neg"] | behind
