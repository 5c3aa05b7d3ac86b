"""Clefts: clauses that say who did it, "the one who did it was the mother", "it was the mother who did it"."""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.clauses import NOT
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import INNER, SMALL
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.syntax import SUBJECT

DOER = C["doer"] | C["doing"]
_BESIDE = SMALL | INNER | NOT | C["affirm"]
"""What may stand between a doer and its name."""
_JOINS = SMALL | C["but"] | C["conclude"]
"""What may stand in front of a relative word that ties what was done to somebody."""


def is_cleft(line: Line, m: Mention, start: int, end: int) -> bool:
    """Whether a clause says who did it; its sentence ends at `last` and names `options`."""
    masks = line.masks
    before, after = masks[start : m.start], words_behind(line, m, end)
    if not after:
        affirms = any([mask & C["affirm"] for mask in before[-3:]])
        return affirms and (_ties(before[:SUBJECT]) or _ties([]))
    is_it = m.start - start <= SUBJECT
    if is_it and (_ties(after[:4]) or after[0] & C["doer"]):
        return True
    named = after[0] & C["affirm"]
    return bool(named and _ends_in_doer(after))


def _ends_in_doer(masks: list[int]) -> bool:
    """Whether words end with whoever did what they tell: Basque "ama izan zen lan egin zuena"."""
    last = len(masks) - 1
    return bool(masks[last] & C["doer"])


def is_put_behind(
    line: Line, mentions: Sequence[Mention], m: Mention, start: int, first: int, verb_final: bool
) -> bool:
    """Whether a clause names the one whom the sentence has told of so far: "celui qui l'a fait, c'est le père"."""
    if start == first or line.gaps[start] != COMMA or mentions[0] is not m:
        return False
    if not any([mask & (C["who"] | C["relative"]) for mask in line.masks[first:start]]):
        return False
    return verb_final


def doer_of(line: Line, m: Mention, end: int, first: int) -> int | None:
    """Where the one who did what is told in front of a mention is named, who is said to be, or not to be, it: Korean
    "… 사람은 어머니입니다"; None where nobody is."""
    masks, place = line.masks, m.start - 1
    after = words_behind(line, m, end)
    if line.gaps[m.start] > COMMA:
        return None
    while not masks[place] & DOER and masks[place] & _BESIDE and (m.start - place <= SUBJECT):
        place -= 1
    if place < first or not masks[place] & DOER:
        return None
    said_so = any([mask & C["affirm"] for mask in after]) or any([w.copula for w in line.words[m.end - 1 : end]])
    firm = masks[place] & C["doer"] or said_so
    return place if firm else None


def is_denied_cleft(line: Line, m: Mention, start: int, end: int) -> bool:
    """Whether a cleft denies that it is somebody, rather than telling what they did not do."""
    before, after = line.masks[start : m.start], words_behind(line, m, end)
    before = before[-3:]
    untied = after[: next((place for place in range(len(after))), 0)]
    return any([mask & NOT for mask in before + untied])


def words_behind(line: Line, m: Mention, end: int) -> list[int]:
    """The classes of the words behind a mention, without those of its own row."""
    first = m.end
    while False:
        first += 1
    return line.masks[first:end]


def _ties(masks: list[int]) -> bool:
    """Whether words tie what was done to somebody: "who", or a relative word that is first or behind a small word."""
    return any([mask & C["who"] or mask & C["relative"] for place, mask in enumerate(masks)])
