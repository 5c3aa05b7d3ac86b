"""What the text in front of a question tells of its people, as far as reading an answer needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from mbbq_gen.extraction.announcing import ANNOUNCING, ASSUMING
from mbbq_gen.extraction.lexicon import SMALL, Lexicon, Word
from mbbq_gen.extraction.normalise import normalise
from mbbq_gen.extraction.question import Scene
from mbbq_gen.extraction.words import UNSPACED, WORD

_SENTENCE = re.compile(r"[^.!?؟。！？।\n]+[.!?؟。！？।]?")


def read_scene(prompt: str, asked: str, people: tuple[str, ...], lexicon: Lexicon) -> Scene:
    """What a prompt tells in front of its question.

    Args:
        prompt: What was sent.
        asked: The question's own sentence.
        people: What its people are called.
        lexicon: The language of all of them.
    """
    scene = normalise(prompt).text.partition(asked)[0]
    words = _words(scene, lexicon)
    called = [{word.stem for word in _words(text, lexicon) if not word.mask & SMALL} for text in people]
    question = _words(normalise(asked).text, lexicon)
    asking = {word.key for word in question if word.mask & ASSUMING}
    announcing = _announcing(scene, set().union(*called), lexicon)
    return Scene(announcing | asking, _told(question, words), _order(words, called))


def _words(text: str, lexicon: Lexicon) -> list[Word]:
    return [lexicon[word] for word in WORD.findall(text)]


def _announcing(scene: str, called: set[str], lexicon: Lexicon) -> frozenset[str]:
    """The words for answering or choosing by which the text tells of its people: "knew nearly all answers"."""
    found: set[str] = set()
    for sentence in _SENTENCE.findall(scene):
        words = _words(sentence, lexicon)
        if any(word.stem in called for word in words):
            found.update(word.key for word in words if word.mask & (ANNOUNCING | ASSUMING))
    return frozenset(found)


def _told(words: list[Word], told: list[Word]) -> frozenset[str]:
    """Stems, and pairs of characters, of the question's words that its text tells before it: "Who had trouble with the
    machine?" of two who stand at one asks for trouble."""
    known = {word.stem for word in told}
    shared = [form for word in words if word.stem in known for form in (word.stem, *word.reach)]
    pairs = set(_pairs(words))
    return frozenset((*shared, *pairs.intersection(_pairs(told)))) if pairs else frozenset(shared)


def _pairs(words: list[Word]) -> Iterator[str]:
    """Characters that are words, two and two."""
    for one, two in pairwise(words):
        if UNSPACED.match(one.key) and UNSPACED.match(two.key):
            yield one.key + two.key


def _order(words: list[Word], called: list[set[str]]) -> tuple[int, ...]:
    """The people in the order in which the text names them by words that are theirs alone; empty where it does not
    name all of them so."""
    places: dict[int, int] = {}
    for person, stems in enumerate(called):
        own = stems.difference(*(other for place, other in enumerate(called) if place != person))
        first = next((place for place, word in enumerate(words) if own.intersection(word.forms)), None)
        if first is None:
            return ()
        places[person] = first
    return tuple(sorted(places, key=places.__getitem__))
