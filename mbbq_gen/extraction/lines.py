"""Lines of a text as words with their classes, and the strength of the signs between the words."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import GAP, INNER, KNOWN, NOUN, SMALL, Lexicon, PhraseNode, Token
from mbbq_gen.extraction.text import ASCII_WORD, WORD

NONE, MARK, COMMA, COLON, SEMICOLON, STOP, ASK = range(7)
"""Strengths of signs: none, quotes or emphasis, comma, colon or dash, semicolon, end of a sentence or question."""
_STOPS = frozenset(".!。！।॥．｡؛…¿¡")
_ASKS = frozenset("?？؟")
_COMMAS = frozenset(",،、，")
_COLONS = frozenset(":：—–→⇒=")
_SEMICOLONS = frozenset(";；|")
_MARKS = frozenset("*\"'`()[]{}<>«»“”„‘’‚「」『』【】《》_~#$\\")
_BULLET = re.compile(r"\s*(?:[#>\-*+•·▪●–—]+\s+|\(?\d{1,2}[.)]\s+|>+)+")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|__[^_]+__:?\s*$)")


@lru_cache(maxsize=20_000)
def _strength(gap: str) -> int:
    """The strength of the signs between two words."""
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


@dataclass(slots=True)
class Line:
    """One line of a response."""

    texts: list[str]
    signs: list[str]
    """The text before each word, and after the last one: one more than words."""
    gaps: list[int]
    """The strength of `signs`."""
    words: list[Token]
    masks: list[int]
    """The classes of each word, changed as rows and mentions are found."""
    starts: list[int]
    """Places where rows of words may begin."""
    raw: str
    start: int
    """The line's start in the text."""
    bullet: bool
    """Whether it is an entry of a list."""
    heading: bool
    """Whether it is set as a heading."""
    table: bool = False
    is_ascii: bool = True
    """Whether all its characters are ASCII."""
    telling: list[int] = field(default_factory=list)
    """Places of words that say something by themselves; filled when rows and mentions have been found."""
    predicate: list[int] = field(default_factory=list)
    """Places of words of the question; filled with them."""
    offsets: list[int] = field(default_factory=list)
    """The start of each word in the line; filled on demand."""

    def bits(self, first: int, last: int) -> int:
        """The classes of a stretch of words together."""
        return reduce(or_, self.masks[first:last], 0)

    def is_bare(self, first: int, last: int) -> bool:
        """Whether no word from `first` to `last` has content of its own."""
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
                list(map(_strength, signs)),
                words,
                [word.classes for word in words],
                [place for place, word in enumerate(words) if word.begins],
                raw,
                start,
                bullet is not None,
                ("*" in raw[:4] + raw[-4:] and _HEADING.match(raw) is not None) or raw.lstrip().startswith("#"),
                raw.count("|") >= 2,
                is_ascii,
            )
        )
        line = lines[-1]
        for number in [number for number, gap in enumerate(line.gaps[:-1]) if gap >= STOP and number]:
            sign, before, after = signs[number], texts[number - 1], texts[number]
            known = line.masks[number - 1] & KNOWN
            title = not known and before[0].isupper() and len(before) in {2, 3} and not before.isupper()
            if sign == "." or (sign == ". " and (after[0].islower() or title)):  # Dr., bijv.
                line.gaps[number] = NONE
            elif after[0].islower() and sign.strip() not in {".", "!", "?", "...", "…"}:  # "Why?" he asked
                line.gaps[number] = COMMA
        if bullet is not None and parts[1].isdigit() and bullet.end() > len(parts[0]):
            line.masks[0] = 0
            line.starts = line.starts[line.starts[:1] == [0] :]
            line.gaps[1] = STOP
    return lines


_KEPT_INSIDE = C["neg"] | C["neither"] | C["cannot"] | C["lack"] | C["source"]
"""Classes that a word in the gap of a phrase keeps: "comes in this text *not* up"."""
_KEPT = SMALL | C["speaker"] | C["claim"]
"""Classes that the words of a phrase keep."""
_KEPT_IN_FINAL = C["answer"] | NOUN
"""Classes that they keep in a phrase of the class `final`: "the last answer"."""


def mark_phrases(line: Line, rows: PhraseNode) -> None:
    """Gives rows of words the classes of their row; their own words count no more, but for a negation between them."""
    masks, words = line.masks, line.words
    last, end = len(words) - 1, 0
    for place in line.starts:
        follows = words[place].follows
        if place < end or (follows is not None and (place == last or words[place + 1].key not in follows)):
            continue  # inside a row, or the next word can't follow: most words that begin rows begin none here
        end, bits, between = _longest_row(line, rows, place)
        if end:
            rest = SMALL if bits == SMALL else INNER
            for inner in range(place, end):
                kept = masks[inner] & _KEPT_INSIDE if inner in between and not bits & C["only"] else 0
                kept |= masks[inner] & _KEPT_IN_FINAL if bits & C["final"] else 0
                masks[inner] = masks[inner] & _KEPT | rest | kept
            masks[place] |= bits


def _longest_row(line: Line, rows: PhraseNode, start: int) -> tuple[int, int, tuple[int, ...]]:
    """End and classes of the longest phrase from a place, and the words in its gaps; end 0 without one."""
    words, masks, gaps = line.words, line.masks, line.gaps
    count = len(words)
    best, bits = 0, 0
    gapped: tuple[int, ...] = ()
    open_nodes: list[tuple[PhraseNode, int, int, tuple[int, ...]]] = [
        (child, start + 1, 0, ()) for child in words[start].begins
    ]
    open_nodes += [(child, start + 1, 0, ()) for bit, child in rows.classes.items() if masks[start] & bit]
    while open_nodes:
        node, place, skipped, between = open_nodes.pop()
        if node.mask and place > best:
            best, bits, gapped = place, node.mask, between
        if place >= count or gaps[place] >= COMMA:
            continue
        if node.gap is not None:
            open_nodes.append((node.gap, place, 0, between))
        if node.prefixes or node.suffixes:
            open_nodes += [(child, place + 1, 0, between) for child in node.after(words[place].key)]
        elif (child := node.keys.get(words[place].key)) is not None:
            open_nodes.append((child, place + 1, 0, between))
        if node.classes:
            open_nodes += [(c, place + 1, 0, between) for bit, c in node.classes.items() if masks[place] & bit]
        if node.is_gap and skipped < GAP:
            open_nodes.append((node, place + 1, skipped + 1, (*between, place)))
    return best, bits, gapped
