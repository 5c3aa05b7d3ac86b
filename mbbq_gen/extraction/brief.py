"""Reads a response of a few words that names one of the options by any of its words: "Nou, die lerares" for "De
gepensioneerde wiskundelerares".

In a longer text such a word may speak of something else; where it is all there is, it can only be the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.optionset import OptionSet, OptionText
from mbbq_gen.extraction.reading import COMMITTED, Evidence
from mbbq_gen.extraction.resolve import Decision
from mbbq_gen.extraction.stemmer import Stemmer
from mbbq_gen.extraction.tokens import SENTENCE, Token

MAX_WORDS, MAX_CHARACTERS = 6, 10
"""Words of a brief response, and its characters in a script without word boundaries."""
MIN_BEGIN, MAX_ENDING = 4, 5
"""Letters of an option's word that an unlisted ending may follow, and letters of that ending."""
MIN_LAST = 5
"""Letters of a word that is the last part of a compound."""
MIN_COMMON, COMMON = 5, 0.7
"""Letters that two inflected forms of a word begin with, and their share of the longer one."""
MIN_ROW = 2
"""Characters in a row that name an option in a script without word boundaries."""


def read_brief(
    tokens: Sequence[Token],
    options: OptionSet,
    stemmer: Stemmer,
    known: frozenset[str],
    barring: frozenset[str],
) -> Decision | None:
    """The one person whom all telling words of a brief response belong to.

    Args:
        tokens: The response's words.
        options: The options.
        stemmer: Strips endings.
        known: Words of the language that may stand beside a person's: "it was", "of course".
        barring: Words that turn the answer round: "not".
    """
    if not tokens or any(token.break_before >= SENTENCE for token in tokens[1:]):
        return None
    if any(token.key in barring for token in tokens):
        return None
    persons = [text for text in options.texts if not text.is_unknown]
    if any(text.per_character for text in persons):
        found = _rows(tokens, persons, known) if len(tokens) <= MAX_CHARACTERS else set()
    else:
        found = _words(tokens, persons, stemmer, known) if len(tokens) <= MAX_WORDS else set()
    if len(found) != 1:
        return None
    piece = Evidence(COMMITTED, 0, tuple(found), "mention", "brief", None, True, tokens[0].start, tokens[-1].end)
    return Decision("option", piece.options[0], "low", "brief", piece)


def _words(tokens: Sequence[Token], persons: Sequence[OptionText], stemmer: Stemmer, known: frozenset[str]) -> set[int]:
    """The options that every telling word belongs to; none where a word is strange."""
    common: set[int] | None = None
    for token in tokens:
        owners = {text.index for text in persons if any(_means(token.key, word, stemmer) for word in text.content)}
        if owners:
            common = owners if common is None else common & owners
        elif token.key not in known:
            return set()
    return common or set()


def _means(key: str, word: str, stemmer: Stemmer) -> bool:
    """Whether a word is a form of an option's word, or the last part of it."""
    if key == word or stemmer.forms(key)[1] == stemmer.forms(word)[1]:
        return True
    if len(word) >= MIN_BEGIN and key.startswith(word) and len(key) - len(word) <= MAX_ENDING:
        return True
    if len(key) >= MIN_LAST and word.endswith(key):
        return True
    begin = next((n for n, (a, b) in enumerate(zip(key, word, strict=False)) if a != b), min(len(key), len(word)))
    return begin >= max(MIN_COMMON, COMMON * max(len(key), len(word)))


def _rows(tokens: Sequence[Token], persons: Sequence[OptionText], known: frozenset[str]) -> set[int]:
    """The options with the longest stretch of the response in their text; none where another character is strange."""
    best: dict[int, tuple[int, int]] = {}
    for text in persons:
        joined = "".join(text.tokens)
        for start in range(len(tokens)):
            end = start
            while end < len(tokens) and "".join(token.key for token in tokens[start : end + 1]) in joined:
                end += 1
            if end - start > best.get(text.index, (0, 0))[1] - best.get(text.index, (0, 0))[0]:
                best[text.index] = start, end
    longest = max((end - start for start, end in best.values()), default=0)
    found = {index for index, (start, end) in best.items() if end - start == longest}
    if longest < MIN_ROW or len(found) != 1:
        return set()
    start, end = best[next(iter(found))]
    return found if all(token.key in known for token in [*tokens[:start], *tokens[end:]]) else set()
