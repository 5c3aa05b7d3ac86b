"""Tells letters that stand on their own from parts of something longer: `AI`, `C&A`, `Robert C. Miller`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.optionset import OptionSet
from mbbq_gen.extraction.tokens import COMMA, LINE, Token

EMPHASIS = "*_`~ "
"""Signs that dress a letter up."""
_QUOTES = frozenset("'’‘`\"")
_QUOTED = frozenset({"''", "‘’", "’’", "``", "`'"})
_GLUE = frozenset("&+#@%/\\^")
_HANGUL = regex.compile(r"\p{Hangul}")


@dataclass(frozen=True, slots=True)
class LabelWords:
    """The label words of all packs in use, as keys."""

    option_words: frozenset[str]
    option_words_after: frozenset[str]
    names: dict[str, str]
    stray: frozenset[str]
    articles: frozenset[str]
    suffixes: frozenset[str]
    not_after: frozenset[str]
    not_before: frozenset[str]
    answer_words: frozenset[str]
    """Option words that announce an answer themselves: they make a label but stay outside the mention."""


def ends_line(mention: Mention, tokens: Sequence[Token], gap_after: str) -> bool:
    """Whether nothing follows a letter on its line."""
    if "\n" in gap_after:
        return True
    return mention.end >= len(tokens) and not gap_after.strip(EMPHASIS + ".!?)]}:,;\"'")


def is_quoted(before: str, after: str) -> bool:
    """Whether the same kind of quote stands right before and right behind a letter."""
    return before[-1:] + after[:1] in _QUOTED


def is_glued(
    tokens: Sequence[Token], place: int, gap_after: str, *, end: int, options: OptionSet, words: LabelWords
) -> bool:
    """Whether a letter is part of something longer: `AI`, `C&A`, `N/A`, `I'd`, `D.C.`; `l'A` is the label A."""
    token = tokens[place]
    if place:
        gap = token.gap
        if gap in {"-", "‑"} and tokens[place - 1].key in words.option_words:
            return False
        if gap in _QUOTES and is_quoted(gap, gap_after):
            return False
        if gap in {"'", "’", "‘"} and tokens[place - 1].key in words.articles and token.text in options.shown:
            return bool(gap_after) and gap_after[0] in "+#%&@°"
        if gap in {"'", "’", "‘", "-", "‑"} or (gap == "" and tokens[place - 1].text[-1:].isascii()):
            return True
        if gap == "" and _HANGUL.match(token.text) and _HANGUL.match(tokens[place - 1].text):
            return True
        if gap and not _GLUE.isdisjoint(gap) and not gap.strip(EMPHASIS + "#/ \n").startswith("(") and "\n" not in gap:
            return not ("/" in gap and tokens[place - 1].key in options.labels) and "#" not in gap
        if gap == "." and len(tokens[place - 1].text) == 1:
            return True
    if gap_after and end < len(tokens):
        if gap_after.strip() and not _GLUE.isdisjoint(gap_after) and "\n" not in gap_after:
            return not ("/" in gap_after and tokens[end].key in options.labels)
        if gap_after == "." and len(tokens[end].text) == 1 and end == place + 1:
            return True
    return bool(gap_after) and gap_after[0] in "+#%&@°"


def is_initial(tokens: Sequence[Token], place: int, gap_after: str, known: frozenset[str]) -> bool:
    """Whether a capital is the initial of a name: `Robert C. Miller`, `Mr. B. Smith`.

    A name is a capitalised word that no pattern of the language knows.
    """
    if place == 0 or place + 1 >= len(tokens) or tokens[place].break_before >= LINE:
        return False
    before, following = tokens[place - 1], tokens[place + 1]
    named_after = following.text[:1].isupper() and following.key not in known and gap_after in {". ", " ", "."}
    titled = len(before.text) <= 3 and tokens[place].gap == ". "
    named_before = tokens[place].break_before < COMMA and len(before.text) > 1
    return named_after and before.text[:1].isupper() and (titled or named_before) and before.key not in known
