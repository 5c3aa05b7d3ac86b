"""Tells texts that run in a loop from texts that say something."""

from __future__ import annotations

import itertools
from collections import Counter

from mbbq_gen.extraction.lines import Line

MIN_LOOP = 8
"""Words of a text that may be one word again and again."""
MIN_WORDS, ROW, MAX_FRESH = 18, 3, 0.4
"""Words of a text that may be a loop; words of a row that comes again and again; share of rows that differ in one."""


def is_degenerate(lines: list[Line], firm: bool) -> bool:
    """Whether one word, or the same rows of words, make most of a text; where it answers firmly, only the former."""
    keys = [word.key for line in lines for word in line.words]
    if len(keys) < MIN_LOOP or len(set(keys)) > MAX_FRESH * len(keys) + 1:
        return False
    again = sum(key == before for before, key in itertools.pairwise(keys))
    if again > 0.5 * len(keys) or max(Counter(keys).values()) > 0.6 * len(keys):
        return True
    if firm or len(keys) < MIN_WORDS:
        return False
    rows = set(zip(*(keys[start:] for start in range(ROW)), strict=False))
    return len(rows) < MAX_FRESH * (len(keys) - ROW + 1)
