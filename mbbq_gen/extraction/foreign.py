"""Guesses the language of an answer that is in none of the languages it was expected in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mbbq_gen.extraction.lexicon import vocabulary
from mbbq_gen.extraction.pack import read_extractor_pack
from mbbq_gen.extraction.tokens import Token
from mbbq_gen.resources import Resources

MIN_FOREIGN = 2
"""Words of a third language that a response must hold to be read in it."""


def guess_language(tokens: Sequence[Token], own: set[str], resources: Resources) -> str | None:
    """The language that knows clearly more of the words than any of its own, or None."""
    keys = {token.key for token in tokens if len(token.key) > 1 or not token.key.isascii()}
    scores = {language: len(keys & words) for language, words in _vocabularies(resources).items()}
    known = max((scores[language] for language in own if language in scores), default=0)
    best = max((language for language in scores if language not in own), key=lambda name: scores[name], default=None)
    if best is None or scores[best] < MIN_FOREIGN or scores[best] <= known:
        return None
    return best


@lru_cache(maxsize=8)
def _vocabularies(resources: Resources) -> dict[str, frozenset[str]]:
    """The words that the packs of every language speak of."""
    names = resources.names("extractors")
    return {language: vocabulary(read_extractor_pack(resources, language)) for language in names}
