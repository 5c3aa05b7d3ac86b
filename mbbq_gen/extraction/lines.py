"""Lines of a text as words with their classes, and how strongly the signs between the words part them."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from mbbq_gen.extraction.lexicon import KNOWN, Lexicon, Token
from mbbq_gen.extraction.normalise import ASCII_WORD, WORD

NONE, MARK, COMMA, COLON, SEMICOLON, STOP, ASK = range(7)
"""How strongly signs part the words around them: not at all, quotes or emphasis, comma, colon or dash, semicolon, the
end of a sentence, the end of a question."""

_STOPS = frozenset(".!。！।॥．｡؛…¿¡")
_ASKS = frozenset("?？؟")
_COMMAS = frozenset(",،、，")
_COLONS = frozenset(":：—–→⇒=")
_SEMICOLONS = frozenset(";；|")
_MARKS = frozenset("*\"'`()[]{}<>«»“”„‘’‚「」『』【】《》_~#$\\")
_BULLET = re.compile(r"\s*(?:[#>\-*+•·▪●–—]+\s+|\(?\d{1,2}[.)]\s+|>+)+")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|__[^_]+__:?\s*$)")


class _Gaps(dict[str, int]):
    """Signs between two words → how strongly they part; learns as it reads."""

    def __missing__(self, gap: str) -> int:
        if len(self) > 20_000:
            self.clear()
        strength = self[gap] = _strength(gap)
        return strength


def _strength(gap: str) -> int:
    signs = set(gap)
    if signs & _ASKS:
        return ASK
    if signs & _STOPS and not gap.rstrip().endswith(":"):
        return STOP
    if signs & _SEMICOLONS:
        return SEMICOLON
    if signs & _COLONS or " - " in gap or " -- " in gap:
        return COLON
    if signs & _COMMAS:
        return COMMA
    return MARK if signs & _MARKS else NONE


_gaps = _Gaps()


@dataclass(slots=True)
class Line:
    """One line of a response."""

    texts: list[str]
    """Its words as written."""
    signs: list[str]
    """What stands before each word, and behind the last one: one more than words."""
    gaps: list[int]
    """How strongly `signs` part."""
    words: list[Token]
    masks: list[int]
    """The classes of each word, changed as rows and mentions are found."""
    starts: list[int]
    """Places where rows of words may begin."""
    raw: str
    """All of it as written."""
    start: int
    """Where the line begins in the text."""
    bullet: bool
    """Whether it is an entry of a list."""
    heading: bool
    """Whether it is set as a heading."""
    table: bool = False
    """Whether it is a row of a table."""
    is_ascii: bool = True
    """Whether it has no letters but those of English."""
    telling: list[int] = field(default_factory=list)
    """Places of words that say something by themselves; filled when rows and mentions have been found."""
    asked: list[int] = field(default_factory=list)
    """Places of words of the question; filled with them."""
    offsets: list[int] = field(default_factory=list)
    """Where each word begins in the line; filled when asked for."""

    def bits(self, first: int, last: int) -> int:
        """The classes of a stretch of words together."""
        return reduce(or_, self.masks[first:last], 0)

    def is_bare(self, first: int, last: int) -> bool:
        """Whether no word of a stretch says anything by itself."""
        telling = self.telling
        place = bisect_left(telling, first)
        return place == len(telling) or telling[place] >= last

    def span(self, first: int, last: int) -> tuple[int, int]:
        """The characters of the text from word `first` to before word `last`."""
        if not self.offsets:
            place = 0
            for sign, text in zip(self.signs, self.texts, strict=False):
                place += len(sign)
                self.offsets.append(place)
                place += len(text)
        return self.start + self.offsets[first], self.start + self.offsets[last - 1] + len(self.texts[last - 1])


def read_lines(text: str, lexicon: Lexicon) -> list[Line]:
    """The lines of a text that have words."""
    lines: list[Line] = []
    place = 0
    for raw in text.split("\n"):
        start = place
        place += len(raw) + 1
        is_ascii = raw.isascii()
        parts = (ASCII_WORD if is_ascii else WORD).split(raw)
        if len(parts) < 3:
            continue
        texts, signs = parts[1::2], parts[0::2]
        words = list(map(lexicon.__getitem__, texts))
        bullet = _BULLET.match(raw) if parts[0] or parts[1].isdigit() else None
        lines.append(
            Line(
                texts,
                signs,
                list(map(_gaps.__getitem__, signs)),
                words,
                [word.classes for word in words],
                [place for place, word in enumerate(words) if word.starts],
                raw,
                start,
                bullet is not None,
                ("*" in raw[:4] + raw[-4:] and _HEADING.match(raw) is not None) or raw.lstrip().startswith("#"),
                raw.count("|") >= 2,
                is_ascii,
            )
        )
        _mend_stops(lines[-1])
        if bullet is not None and parts[1].isdigit() and bullet.end() > len(parts[0]):
            lines[-1].masks[0] = 0
            lines[-1].starts = lines[-1].starts[lines[-1].starts[:1] == [0] :]
            lines[-1].gaps[1] = STOP
    return lines


def _mend_stops(line: Line) -> None:
    """A dot inside an abbreviation, and a question mark in a quotation that goes on, end no sentence."""
    texts, gaps, signs = line.texts, line.gaps, line.signs
    for place in [place for place, gap in enumerate(gaps[:-1]) if gap >= STOP and place]:
        sign, after = signs[place], texts[place]
        known = line.masks[place - 1] & KNOWN
        if sign == "." or (sign == ". " and _is_abbreviation(texts[place - 1], after, bool(known))):
            gaps[place] = NONE
        elif after[0].islower() and sign.strip() not in {".", "!", "?", "...", "…"}:
            gaps[place] = COMMA


def _is_abbreviation(before: str, after: str, known: bool) -> bool:
    """Whether a word before a dot is an abbreviation, by its length, its capital and what follows: Dr., bijv."""
    if after[0].islower():
        return True
    return not known and before[0].isupper() and len(before) in {2, 3} and not before.isupper() and not before.isdigit()
