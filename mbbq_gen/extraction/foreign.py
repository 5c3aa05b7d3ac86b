"""Guesses the language of an answer that is in none of the languages it was expected in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import regex

from mbbq_gen.extraction.lexicon import KNOWN, SMALL, Lexicon, Word
from mbbq_gen.extraction.pack import Grammar
from mbbq_gen.languages import read_pack
from mbbq_gen.resources import Resources

MOST_WORDS = 300
"""Words of a text that its language is guessed from."""
MIN_KNOWN = 0.2
"""Share of them that the guessed language must know."""
MIN_SIGNS = 4
"""Letters of a script beyond which a text is in that script's language."""
_SCRIPTS = {
    "ja": regex.compile(r"[\p{Hiragana}\p{Katakana}]"),
    "zh": regex.compile(r"\p{Han}"),
    "ko": regex.compile(r"\p{Hangul}"),
    "ar": regex.compile(r"\p{Arabic}"),
    "ru": regex.compile(r"\p{Cyrillic}"),
    "or": regex.compile(r"\p{Oriya}"),
    "ta": regex.compile(r"\p{Tamil}"),
    "te": regex.compile(r"\p{Telugu}"),
}
"""Language → a letter of its script, where no other language with a pack is written in it; kana before Han."""
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")
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
            count = sum(map(lexicon.knows, words))
            if count > score:
                best, score = language, count
    return best


def best_language(text: str, expected: str, resources: Resources) -> str | None:
    """The language that a longer text is in, as far as packs know languages; None where none knows enough of it.

    By script where a script has one language, else by who knows most of its words; `expected` wins a tie.
    """
    script = next((code for code, signs in _SCRIPTS.items() if len(signs.findall(text[:2000])) > MIN_SIGNS), None)
    lexicons = _lexicons(resources)
    if script is not None:
        return script if script in lexicons else None
    words = _LETTERS.findall(text)[:MOST_WORDS]
    known = {
        language: sum(1 for word in words if len(word) > 1 and lexicon.knows(word))
        for language, lexicon in lexicons.items()
    }
    best = max(known, key=lambda language: (known[language], language == expected), default=None)
    return best if best is not None and known[best] >= max(MIN_FOREIGN, MIN_KNOWN * len(words)) else None


@lru_cache(maxsize=8)
def _lexicons(resources: Resources) -> dict[str, Lexicon]:
    """The words of every language that has a pack."""
    return {
        language: Lexicon(read_pack(resources, "extractors", language, Grammar))
        for language in resources.names("extractors")
    }
