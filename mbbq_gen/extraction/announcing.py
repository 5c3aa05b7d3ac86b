"""Words for the answer that announce none: those of the story, and those that are set aside."""

from __future__ import annotations

import re

from mbbq_gen.extraction.lexicon import CLASSES, CLOSES, INNER, SMALL, Lexicon
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.words import WORD

_ANNOUNCING = CLASSES["answer"] | CLASSES["choose"]
_SENTENCE = re.compile(r"[^.!?؟。！？।\n]+[.!?؟。！？।]?")
_ASIDE = CLASSES["aside"]
MAX_BETWEEN = 2
"""Small words between what sets aside and the word for the answer."""


def story_words(scene: str, people: tuple[str, ...], lexicon: Lexicon) -> frozenset[str]:
    """The words for answering or choosing, as keys, by which a text tells of its people: "knew nearly all answers".

    Args:
        scene: What stands in front of the question.
        people: What its people are called.
        lexicon: The language of both.
    """
    called = {word.stem for text in people for word in map(lexicon.__getitem__, WORD.findall(text))}
    called = {stem for stem in called if not lexicon[stem].mask & SMALL}
    found: set[str] = set()
    for sentence in _SENTENCE.findall(scene):
        words = [lexicon[text] for text in WORD.findall(sentence)]
        if any(word.stem in called for word in words):
            found.update(word.key for word in words if word.mask & _ANNOUNCING)
    return frozenset(found)


def quiet(line: Line, story: frozenset[str]) -> None:
    """Takes its class from a word of the story, and from a word for the answer that is set aside: "a hint rather than
    the answer: …"."""
    masks = line.masks
    for place, mask in enumerate(masks):
        if mask & _ANNOUNCING and (line.words[place].key in story or _is_set_aside(line, place)):
            masks[place] = mask & ~_ANNOUNCING


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
