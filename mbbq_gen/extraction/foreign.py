"""Guesses the language of an answer that is in none of the languages it was expected in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from mbbq_gen.extraction.lexicon import KNOWN, SMALL, Lexicon, Word
from mbbq_gen.extraction.pack import Grammar
from mbbq_gen.languages import read_pack
from mbbq_gen.resources import Resources

MIN_FOREIGN = 2
"""Words of a third language that a response must hold to be read in it."""


def guess_language(texts: Iterable[str], own: Iterable[Word], expected: set[str], resources: Resources) -> str | None:
    """The language that knows clearly more of a response's words than the languages it was expected in, or None.

    Args:
        texts: The response's words as written.
        own: The same words as the expected language knows them.
        expected: The languages that were tried.
        resources: Where packs are looked for.
    """
    known = sum(1 for word in own if word.mask & (KNOWN | SMALL) and (len(word.key) > 1 or not word.key.isascii()))
    words = {text for text in texts if len(text) > 1 or not text.isascii()}
    best, score = None, max(known, MIN_FOREIGN - 1)
    for language, lexicon in _lexicons(resources).items():
        if language not in expected:
            count = sum(1 for text in words if lexicon[text].mask & (KNOWN | SMALL))
            if count > score:
                best, score = language, count
    return best


@lru_cache(maxsize=8)
def _lexicons(resources: Resources) -> dict[str, Lexicon]:
    """The words of every language that has a pack."""
    return {
        language: Lexicon(read_pack(resources, "extractors", language, Grammar))
        for language in resources.names("extractors")
    }
