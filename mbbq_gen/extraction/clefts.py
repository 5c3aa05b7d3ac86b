"""Clefts: clauses that say who did it, "the one who did it was the mother", "it was the mother who did it"."""

from __future__ import annotations

from collections.abc import Sequence, Set

from mbbq_gen.extraction.clauses import is_inner
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import MENTIONED, SMALL
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.syntax import SUBJECT
from mbbq_gen.extraction.unknowns import NOT


def is_cleft(line: Line, m: Mention, start: int, end: int, last: int, options: Set[int]) -> bool:
    """Whether a clause says who did it; its sentence ends at `last` and names `options`."""
    masks = line.masks
    before, after = masks[start : m.start], words_behind(line, m, end)
    if not after and _goes_on(line, m, start, end, last, options):
        return True
    if not after:
        affirms = any([mask & C["affirm"] for mask in before[-3:]])
        return affirms and (_ties(before[:SUBJECT]) or _ties(_front(line, start)))
    leads = all([mask & (SMALL | C["conclude"] | C["affirm"]) for mask in before])
    is_it = (m.start - start <= SUBJECT or leads) and any([mask & C["affirm"] for mask in before + after[:2]])
    return is_it and _ties(after[:4])


def is_put_behind(line: Line, mentions: Sequence[Mention], m: Mention, start: int, first: int) -> bool:
    """Whether a clause names the one whom the sentence has told of so far: "celui qui l'a fait, c'est le père"."""
    if start == first or line.gaps[start] != COMMA or mentions[0] is not m:
        return False
    before = line.masks[start : m.start]
    ties = any([mask & (C["who"] | C["relative"]) for mask in line.masks[first:start]])
    return ties and any([mask & C["affirm"] for mask in before]) and all([mask & (SMALL | NOT) for mask in before])


def is_denied_cleft(line: Line, m: Mention, start: int, end: int) -> bool:
    """Whether a cleft denies that it is somebody, rather than telling what they did not do."""
    before, after = line.masks[start : m.start], words_behind(line, m, end)
    if _ties(before[:SUBJECT]):
        before = before[-3:]
    untied = after[: next((place for place in range(len(after)) if _ties(after[: place + 1])), 0)]
    return any([mask & NOT for mask in before + untied])


def _front(line: Line, start: int) -> list[int]:
    """The first words of what a clause goes on with, where nobody is named in between: "who came late and left early
    was the mother"."""
    first = start
    while first and line.gaps[first] < COMMA and not line.masks[first - 1] & MENTIONED:
        first -= 1
    return line.masks[first : first + SUBJECT]


def words_behind(line: Line, m: Mention, end: int) -> list[int]:
    """The classes of the words behind a mention, without those of its own row."""
    first = m.end
    while first < end and is_inner(line.masks[first]):
        first += 1
    return line.masks[first:end]


def _goes_on(line: Line, m: Mention, start: int, end: int, last: int, options: Set[int]) -> bool:
    """Whether a clause names somebody and the next one says who that is: German "es war die Mutter, die es tat"."""
    if end >= last or line.gaps[end] != COMMA or len(options) > 1 or not line.masks[end] & SMALL:
        return False
    return any([mask & C["affirm"] for mask in line.masks[start : m.start]]) and line.is_bare(start, end)


def _ties(masks: list[int]) -> bool:
    """Whether words tie what was done to somebody: "who", or a relative word that is first or behind a small word."""
    fronts = [SMALL, *masks]
    return any(
        [mask & C["who"] or (mask & C["relative"] and fronts[place] & SMALL) for place, mask in enumerate(masks)]
    )
