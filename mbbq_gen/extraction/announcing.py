"""Words for the answer that announce none: those of the story, and those that are set aside."""

from __future__ import annotations

from mbbq_gen.extraction.lexicon import CLASSES, CLOSES, INNER, NOUN, SMALL
from mbbq_gen.extraction.lines import COMMA, Line

ANNOUNCING = CLASSES["answer"] | CLASSES["choose"]
ASSUMING = CLASSES["assume"]
_SPOKEN = ANNOUNCING | ASSUMING
_ASIDE = CLASSES["aside"]
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
