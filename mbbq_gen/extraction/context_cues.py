"""What the text in front of a question tells of its people: cues for reading answers to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from mbbq_gen.extraction.lexicon import ANNOUNCING, CLASSES, SMALL, Lexicon, Token
from mbbq_gen.extraction.question import ContextCues
from mbbq_gen.extraction.text import UNSPACED, WORD, normalise

BESIDE = 3
"""Words by which a small word may stand apart from the others of what a person is called."""
MIN_NAME = 4
"""Letters of a name that a word of the text may begin with."""
_SENTENCE = re.compile(r"[^.!?؟。！？।\n]+[.!?؟。！？।]?")


def read_scene(prompt: str, asked: str, people: tuple[str, ...], lexicon: Lexicon) -> ContextCues:
    """What a prompt tells in front of its question.

    Args:
        prompt: What was sent.
        asked: The question's own sentence.
        people: What its people are called.
        lexicon: The language of all of them.
    """
    scene = normalise(prompt).text.partition(asked)[0]
    words = _words(scene, lexicon)
    texts = [_words(text, lexicon) for text in people]
    called = [{word.stem for word in text if not word.classes & SMALL} for text in texts]
    question = _words(normalise(asked).text, lexicon)
    asking = {word.key for word in question if word.classes & CLASSES["assume"]}
    announcing = _announcing(scene, set().union(*called), lexicon)
    return ContextCues(
        announcing | asking, _told(question, words), _order(words, called) or _order_beside(words, texts)
    )


def _words(text: str, lexicon: Lexicon) -> list[Token]:
    return [lexicon[word] for word in WORD.findall(text)]


def _announcing(scene: str, called: set[str], lexicon: Lexicon) -> frozenset[str]:
    """The words for answering or choosing by which the text tells of its people: "knew nearly all answers"."""
    found: set[str] = set()
    for sentence in _SENTENCE.findall(scene):
        words = _words(sentence, lexicon)
        if any(word.stem in called for word in words):
            found.update(word.key for word in words if word.classes & ANNOUNCING)
    return frozenset(found)


def _told(words: list[Token], told: list[Token]) -> frozenset[str]:
    """Stems, and pairs of characters, of the question's words that its text tells before it: "Who had trouble with the
    machine?" of two who stand at one asks for trouble."""
    known = {word.stem for word in told}
    shared = [form for word in words if word.stem in known for form in (word.stem, *word.reach)]
    pairs = set(_pairs(words))
    return frozenset((*shared, *pairs.intersection(_pairs(told)))) if pairs else frozenset(shared)


def _pairs(words: list[Token]) -> Iterator[str]:
    """Characters that are words, two and two."""
    for one, two in pairwise(words):
        if UNSPACED.match(one.key) and UNSPACED.match(two.key):
            yield one.key + two.key


def _order(words: list[Token], called: list[set[str]]) -> tuple[int, ...]:
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


def _order_beside(words: list[Token], texts: list[list[Token]]) -> tuple[int, ...]:
    """The same where small words tell them apart, "with" and "without", or one has more of them than the other: by what
    stands beside the other words of what a person is called, or is the beginning of a name."""
    places: dict[int, int] = {}
    keys = [{word.key for word in text} for text in texts]
    for person, text in enumerate(texts):
        others = set().union(*(known for place, known in enumerate(keys) if place != person))
        own = keys[person] - others
        shared = {word.stem for word in text if not word.classes & SMALL and word.key in others}
        for place, word in enumerate(words):
            near = words[max(place - BESIDE, 0) : place + BESIDE + 1]
            beside = not shared or any(not shared.isdisjoint(other.forms) for other in near)
            if own:
                names = word.key in own or any(word.key.startswith(key) for key in own if len(key) >= MIN_NAME)
            else:
                names = not shared.isdisjoint(word.forms) and not any(
                    other.key in others - keys[person] for other in near
                )
            if names and beside:
                places[person] = place
                break
    return tuple(sorted(places, key=places.__getitem__)) if len(set(places.values())) == len(texts) else ()
