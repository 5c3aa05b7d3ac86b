"""What a longer option is called by: the name or noun that the rest of its text describes.

The head alone means the option where no other option has it; a word of the description alone means it only where it is
said to be one ("with dyslexia"), and a few characters of a script without word boundaries only where some of them stand
in a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import regex

from mbbq_gen.extraction.normalise import normalise
from mbbq_gen.extraction.tokens import COMMA, NO_BREAK, Token, tokenise

_LINKS = frozenset("の的")
"""Characters that link a noun to what describes it: no end of a text begins with one."""
HeadPlace = Literal["first", "end", "last"]
"""Where the noun of a text stands: in front of what describes it, at the end of its phrase, or at the end of all."""
MIN_PHRASE = 3
"""Words of a phrase whose last one is its noun beyond doubt."""
MIN_RUN = 2
"""Characters in a row that a part of a text without word boundaries has at least."""
_HANGUL = regex.compile(r"\p{Hangul}")


def head_of(option: str, small: frozenset[str], head: HeadPlace) -> frozenset[str]:
    """The telling words of the noun that the rest of a text describes; none where there is no rest.

    Up to the first comma: those before the first small word, or, where a noun ends its phrase, the last of them if they
    are three or more; where nouns come last of all, the name that ends it, else those behind the last small word, else
    the last of three words or more.
    """
    parts: list[list[Token]] = [[]]
    tokens, cut = _up_to_comma(option)
    for token in tokens:
        if token.key in small:
            parts.append([])
        else:
            parts[-1].append(token)
    told = [part for part in parts if part]
    whole = len(told) == 1 and not cut
    if head == "end" and told and len(told[0]) >= MIN_PHRASE:
        return frozenset({told[0][-1].key})
    if not told or (whole and head != "last"):
        return frozenset()
    if head != "last":
        return frozenset(token.key for token in told[0])
    words = told[-1]
    name = list(itertools.takewhile(lambda token: token.text[:1].isupper(), reversed(words)))
    if whole and len(name) in {0, len(words)}:
        return frozenset(token.key for token in words[-1:] if len(words) >= MIN_PHRASE)
    return frozenset(token.key for token in name or words)


def _up_to_comma(option: str) -> tuple[list[Token], bool]:
    """The words of a text up to its first comma, and whether there is one."""
    tokens = tokenise(normalise(option).text)
    end = next((place for place, token in enumerate(tokens) if place and token.break_before == COMMA), len(tokens))
    return tokens[:end], end < len(tokens)


def head_runs(option: str, others: Sequence[str]) -> frozenset[str]:
    """The ends of a text without word boundaries, up to its first comma, that stand in no other option: 小周, 여학생.

    Where blanks part words (Korean), an end begins behind a blank.
    """
    tokens, _ = _up_to_comma(option)
    rivals = ["".join(token.key for token in tokenise(normalise(other).text)) for other in others]
    keys = [token.key for token in tokens]
    parted = bool(_HANGUL.search(option))
    starts = [p for p in range(1, len(keys) - MIN_RUN + 1) if (tokens[p].gap if parted else keys[p] not in _LINKS)]
    runs = {"".join(keys[start:]) for start in starts}
    return frozenset(run for run in runs if not any(run in rival for rival in rivals))


def begins_word(token: Token) -> bool:
    """Whether a character is no later one of a word, as far as blanks tell."""
    return bool(token.gap) or token.break_before > NO_BREAK or not _HANGUL.match(token.text)


def longest_run(places: Sequence[tuple[int, str]], text: Sequence[str]) -> int:
    """How many of the characters found stand in a row both in a response and in an option's text."""
    pairs = set(itertools.pairwise(text))
    best = length = 1
    for (place, word), (following, after) in itertools.pairwise(places):
        length = length + 1 if following == place + 1 and (word, after) in pairs else 1
        best = max(best, length)
    return best
