"""Tells texts that run in a loop from texts that say something."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import regex

from mbbq_gen.extraction.tokens import Token

_SCRIPTS = [
    regex.compile(pattern)
    for pattern in (
        r"\p{Latin}{2}",
        r"\p{Cyrillic}{2}",
        r"[\p{Han}\p{Hiragana}\p{Katakana}]",
        r"\p{Hangul}",
        r"\p{Arabic}{2}",
        r"\p{Hebrew}{2}",
        r"\p{Thai}{2}",
        r"\p{Devanagari}{2}",
        r"\p{Greek}{2}",
    )
]
_FAR = re.compile("[\u0370-\U0010ffff]")
"""A letter of another script than Latin."""
MANY_SCRIPTS = 3
"""Scripts that no answer of one mind mixes."""
LOOP_WORDS, MIN_LOOP, MAX_FRESH = 3, 18, 0.4
"""Words of a row that comes again and again; words of a text that may be a loop; share of rows that differ in one."""


def is_degenerate(tokens: Sequence[Token]) -> bool:
    """Whether one word makes most of a text, or a few words follow themselves again and again."""
    if len(tokens) < 8 or len({token.key for token in tokens}) > 0.4 * len(tokens) + 1:
        return False
    again = sum(token.key == before.key for before, token in itertools.pairwise(tokens))
    if again > 0.5 * len(tokens):
        return True
    counts: dict[str, int] = {}
    for token in tokens:
        counts[token.key] = counts.get(token.key, 0) + 1
    return max(counts.values()) > 0.6 * len(tokens)


def is_mixed(tokens: Sequence[Token]) -> bool:
    """Whether words of three scripts or more stand in one text: a model that has lost its thread."""
    if len(tokens) < MIN_LOOP:
        return False
    text = " ".join([token.text for token in tokens])
    if text.isascii() or not _FAR.search(text):
        return False
    return sum(script.search(text) is not None for script in _SCRIPTS) >= MANY_SCRIPTS


def is_loop(tokens: Sequence[Token]) -> bool:
    """Whether the same rows of words make most of a text."""
    if len(tokens) < MIN_LOOP:
        return False
    keys = [token.key for token in tokens]
    if len(set(keys)) > MAX_FRESH * len(keys):
        return False
    rows = set(zip(*(keys[start:] for start in range(LOOP_WORDS)), strict=False))
    return len(rows) < MAX_FRESH * (len(keys) - LOOP_WORDS + 1)
