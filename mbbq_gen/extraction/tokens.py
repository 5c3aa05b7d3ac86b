"""Cuts a text into words and weighs the gaps between them.

Scripts that write words apart give one token a word; Han, Kana and Hangul give one token a character, so that patterns
and option texts are found without word boundaries. A change of script is a boundary too: `B입니다` is `B`, then Hangul.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import regex

from mbbq_gen.extraction.normalise import loose_key

_TOKEN = regex.compile(
    r"\p{Nd}+(?:[.,]\p{Nd}+)*"
    r"|\p{Latin}[\p{Latin}\p{Mn}\p{Nd}]*"
    r"|[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}ー]"
    r"|[[\p{L}\p{M}]--[\p{Latin}\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}]]+",
    regex.V1,
)
_ASCII_TOKEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[A-Za-z][A-Za-z0-9]*")

NO_BREAK, QUOTE, COMMA, SEMICOLON, SENTENCE, LINE, PARAGRAPH = range(7)
"""How strongly a gap parts two words; from SENTENCE on, a new sentence begins."""

_PLAIN_GAPS = frozenset({" ", "", "'", "-"})
_PARAGRAPH = regex.compile(r"\n[ \t\r>]*\n")
_SENTENCE_END = frozenset(".!?。！？।॥؟…．｡")
COMMA_SIGNS = frozenset(",،、，")
"""The comma of every script."""
_COMMA_LIKE = frozenset(",،、，:：()（）[]—–|{}=→⇒←⇐")
_QUOTES = frozenset('"“”„«»‘「」『』‹›')


@dataclass(slots=True)
class Token:
    """One word of a text."""

    key: str
    """Its loose key."""
    text: str
    """Itself, mended, case kept."""
    start: int
    """First character, in the mended text."""
    end: int
    """After the last character."""
    gap: str
    """What stands between the word before and this one."""
    break_before: int
    """How strongly the gap parts them."""


def tokenise(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """The words of `text[start:end]` in order; the first one's gap reaches back to `start`."""
    stop = len(text) if end is None else end
    words: Iterable[tuple[int, int]]
    if text.isascii():
        words = (match.span() for match in _ASCII_TOKEN.finditer(text, start, stop))
    else:
        words = (match.span() for match in _TOKEN.finditer(text, start, stop))
    tokens: list[Token] = []
    here, before = start, ""
    for first, last in words:
        word, gap = text[first:last], text[here:first]
        strength = NO_BREAK if gap in _PLAIN_GAPS else gap_strength(gap, word, before)
        tokens.append(Token(loose_key(word), word, first, last, gap, strength))
        here, before = last, word
    if tokens:
        tokens[0].break_before = PARAGRAPH
    return tokens


def gap_strength(gap: str, word_after: str, word_before: str) -> int:
    """How strongly a gap parts the words around it."""
    if "\n" in gap:
        return PARAGRAPH if _PARAGRAPH.search(gap) else LINE
    if not _SENTENCE_END.isdisjoint(gap):
        return _stop_strength(gap, word_after, word_before)
    if ";" in gap or "；" in gap:
        return SEMICOLON
    if not _COMMA_LIKE.isdisjoint(gap) or " - " in gap or " -- " in gap:
        return COMMA
    return QUOTE if not _QUOTES.isdisjoint(gap) else NO_BREAK


def _stop_strength(gap: str, word_after: str, word_before: str) -> int:
    """A full stop inside an abbreviation, or a question mark inside a quotation that goes on, ends no sentence."""
    lower_after = word_after[:1].islower()
    if lower_after and gap.strip() in {"...", "…", ".."}:
        return SEMICOLON
    if gap == "." or (gap == ". " and lower_after and len(word_before) <= 2):
        return COMMA
    if lower_after and gap.strip() not in {".", "!", "?", "...", "…"} and not _QUOTES.isdisjoint(gap):
        return COMMA
    if lower_after and "'" in gap and gap.strip(" .") != "'":
        return COMMA
    return SENTENCE
