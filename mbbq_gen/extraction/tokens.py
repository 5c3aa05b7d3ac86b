"""Cuts a text into words and weighs the gaps between them.

Scripts that write words apart give one token a word; Han, Kana and Hangul give one token a character, so that patterns
and option texts are found without word boundaries. A change of script is a boundary too: `B입니다` is `B`, then Hangul.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import regex

from mbbq_gen.extraction.normalise import MAX_WORDS, loose_key

_Words = re.Pattern[str] | regex.Pattern[str]

_TOKEN: _Words = regex.compile(
    r"(\p{Nd}+(?:[.,]\p{Nd}+)*"
    r"|\p{Latin}[\p{Latin}\p{Mn}\p{Nd}]*"
    r"|[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}ー]"
    r"|[[\p{L}\p{M}]--[\p{Latin}\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}]]+)",
    regex.V1,
)
_LATIN_ONLY = re.compile("[\x00-\xa9\xab-\xb1\xbb-\u024f\u2000-\u206f]*")
_LATIN_TOKEN: _Words = re.compile(r"([0-9]+(?:[.,][0-9]+)*|[A-Za-zÀ-ÖØ-öø-ɏ][0-9A-Za-zÀ-ÖØ-öø-ɏ]*)")
"""The same for texts in plain Latin letters; much faster."""

NO_BREAK, QUOTE, COMMA, SEMICOLON, SENTENCE, LINE, PARAGRAPH = range(7)
"""How strongly a gap parts two words; from SENTENCE on, a new sentence begins."""

_PARAGRAPH = regex.compile(r"\n[ \t\r>]*\n")
_SENTENCE_END = frozenset(".!?。！？।॥؟…．｡")
MAX_CHUNK = 40
"""Characters between two blanks that are kept at most."""
COMMA_SIGNS = frozenset(",،、，")
"""The comma of every script."""
_COMMA_LIKE = frozenset(",،、，:：()（）[]—–|{}=→⇒←⇐")
_QUOTES = frozenset('"“”„«»‘「」『』‹›')


@dataclass(slots=True)
class Token:
    """One word of a text; patterns are matched against a row of words and mentions."""

    is_mention: ClassVar[bool] = False
    is_group: ClassVar[bool] = False
    is_word: ClassVar[bool] = True

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


_Pieces = tuple[tuple[tuple[str, str, str], ...], str]
"""What stands between two blanks: the gap before each word, the word and its key; and the gap behind the last one."""


class _Cutter:
    """Cuts what stands between two blanks into words with one pattern; keeps what comes again and again."""

    def __init__(self, pattern: _Words) -> None:
        self._pattern = pattern
        self.words: dict[str, str] = {}
        """What is nothing but one word → its key."""
        self._others: dict[str, _Pieces] = {}

    def pieces(self, chunk: str) -> _Pieces:
        """The pieces of a chunk."""
        known = self._others.get(chunk)
        if known is None:
            parts = self._pattern.split(chunk)
            words = zip(parts[:-1:2], parts[1::2], strict=True)
            known = tuple([(gap, word, loose_key(word) or word) for gap, word in words]), parts[-1]
            self._keep(chunk, known)
        return known

    def _keep(self, chunk: str, pieces: _Pieces) -> None:
        if len(chunk) > MAX_CHUNK:
            return
        if len(self.words) + len(self._others) >= 2 * MAX_WORDS:
            self.words.clear()
            self._others.clear()
        if len(pieces[0]) == 1 and pieces[0][0][1] == chunk:
            self.words[chunk] = pieces[0][0][2]
        else:
            self._others[chunk] = pieces


_LATIN, _ANY = _Cutter(_LATIN_TOKEN), _Cutter(_TOKEN)
_strengths: dict[str, int] = {}
"""Gaps that came before and part any two words as strongly."""


def tokenise(text: str) -> list[Token]:
    """The words of a text in order; the first one's gap reaches back to its beginning."""
    cutter = _LATIN if text.isascii() or _LATIN_ONLY.fullmatch(text) else _ANY
    words, strengths = cutter.words.get, _strengths.get
    tokens: list[Token] = []
    place, gap, before = 0, "", ""
    for chunk in text.split(" "):
        key = words(chunk)
        if key is not None:
            strength = NO_BREAK if gap == " " else strengths(gap)
            if strength is None:
                strength = _learnt_strength(gap, chunk, before)
            end = place + len(chunk)
            tokens.append(Token(key, chunk, place, end, gap, strength))
            place, gap, before = end + 1, " ", chunk
            continue
        pieces, rest = cutter.pieces(chunk)
        for inner, word, key in pieces:
            gap += inner
            strength = strengths(gap)
            if strength is None:
                strength = _learnt_strength(gap, word, before)
            place += len(inner)
            end = place + len(word)
            tokens.append(Token(key, word, place, end, gap, strength))
            place, gap, before = end, "", word
        gap += rest + " "
        place += len(rest) + 1
    if tokens:
        tokens[0].break_before = PARAGRAPH
    return tokens


def _learnt_strength(gap: str, word_after: str, word_before: str) -> int:
    """How strongly a gap parts two words, kept for the next time where it does not depend on them."""
    strength = gap_strength(gap, word_after, word_before)
    if "\n" in gap or _SENTENCE_END.isdisjoint(gap):
        if len(_strengths) >= MAX_WORDS:
            _strengths.clear()
        _strengths[gap] = strength
    return strength


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
