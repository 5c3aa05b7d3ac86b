"""Finds misspelt option words, in responses that name no option otherwise."""

from __future__ import annotations

from dataclasses import replace

from mbbq_gen.extraction.lexicon import INNER, KNOWN, SMALL
from mbbq_gen.extraction.lines import Line
from mbbq_gen.extraction.options import QuestionWords

MIN_LETTERS, LONG = 4, 8
"""Letters of a word that may be misspelt once, and twice."""
MAX_WORDS = 80
"""Words of a response that are looked at."""


def mark_misspelt(lines: list[Line], question: QuestionWords) -> bool:
    """Gives words that nearly are one option's word that word's stem; whether there were any."""
    wanted = [(stem, option) for stem, option in question.alone.items() if len(stem) >= MIN_LETTERS]
    found = False
    count = 0
    for line in lines:
        for place, word in enumerate(line.words):
            count += 1
            if count > MAX_WORDS:
                return found
            if len(word.key) < MIN_LETTERS or line.masks[place] & (KNOWN | SMALL | INNER) or word.key.isdigit():
                continue
            near = {(stem, option) for stem, option in wanted if _is_near(word.stem, stem) or _is_near(word.key, stem)}
            if len({option for _, option in near}) == 1:
                stem = min(near)[0]
                line.words[place] = replace(word, stem=stem, forms=word.forms | {stem})
                found = True
    return found


def _is_near(word: str, wanted: str) -> bool:
    """Whether a word is another one with a letter or two wrong, missing, too many, or swapped."""
    limit = 1 if len(wanted) < LONG else 2
    if abs(len(word) - len(wanted)) > limit or word[0] != wanted[0]:
        return False
    return distance(word, wanted, limit) <= limit


def distance(one: str, other: str, limit: int) -> int:
    """Letters to add, drop, change or swap with their neighbour (Damerau); `limit` + 1 where there are more."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        older, before, row = before, row, [place]
        for column, wanted in enumerate(other, 1):
            cost = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != wanted))
            if place > 1 and column > 1 and letter == other[column - 2] and one[place - 2] == wanted:
                cost = min(cost, older[column - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
