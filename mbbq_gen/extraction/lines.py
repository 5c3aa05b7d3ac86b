"""Splits a text into lines of words with their classes, and marks phrases."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import GAP, INNER, KNOWN, NOUN, SMALL, Lexicon, PhraseNode, Token
from mbbq_gen.extraction.text import ASCII_WORD, WORD

NONE, MARK, COMMA, COLON, SEMICOLON, STOP, QUESTION_MARK = range(7)
"""Strength of signs: none, quotes or emphasis, comma, colon or dash, semicolon, end of a sentence or question."""
_STOPS = frozenset(".!。！।॥．｡؛…¿¡")
_QUESTION_MARKS = frozenset("?？؟")
_COMMAS = frozenset(",،、，")
_COLONS = frozenset(":：—–→⇒=")
_SEMICOLONS = frozenset(";；|")
_MARKS = frozenset("*\"'`()[]{}<>«»“”„‘’‚「」『』【】《》_~#$\\")
_BULLET = re.compile(r"\s*(?:[#>\-*+•·▪●–—]+\s+|\(?\d{1,2}[.)]\s+|>+)+")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|__[^_]+__:?\s*$)")
_KEPT_INSIDE = C["neg"] | C["neither"] | C["cannot"] | C["lack"] | C["source"]
"""Classes that a word in the gap of a phrase keeps."""
_KEPT = SMALL | C["speaker"] | C["claim"]
"""Classes that the words of a phrase keep."""
_KEPT_IN_FINAL = C["answer"] | NOUN
"""Classes that the words of a phrase of the class `final` keep: "the last answer"."""


@lru_cache(maxsize=20_000)
def _strength(gap: str) -> int:
    """The strength of the signs between two words."""
    signs = set(gap)
    if signs & _QUESTION_MARKS:
        return QUESTION_MARK
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
    """The classes of each word; changed when phrases and mentions are found."""
    starts: list[int]
    """Indices of words that may begin phrases."""
    start: int
    """Start of the line in the text."""
    bullet: bool
    """Whether it is an entry of a list."""
    heading: bool
    """Whether it is a heading."""
    table: bool
    """Whether it is a row of a table."""
    content_words: list[int] = field(default_factory=list)
    """Indices of words without any class; filled when phrases and mentions have been found."""
    predicate_words: list[int] = field(default_factory=list)
    """Indices of words of the question's predicate; filled together with `content_words`."""
    offsets: list[int] = field(default_factory=list)
    """Start of each word in the line; filled on demand."""

    def bits(self, first: int, last: int) -> int:
        """The classes of words `first` up to `last`, combined."""
        return reduce(or_, self.masks[first:last], 0)

    def is_bare(self, first: int, last: int) -> bool:
        """Whether words `first` up to `last` include no content word."""
        index = bisect_left(self.content_words, first)
        return index == len(self.content_words) or self.content_words[index] >= last

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Start and end in the text of words `first` up to `last`."""
        if not self.offsets:
            offset = 0
            for sign, text in zip(self.signs, self.texts, strict=False):
                offset += len(sign)
                self.offsets.append(offset)
                offset += len(text)
        return self.start + self.offsets[first], self.start + self.offsets[last - 1] + len(self.texts[last - 1])


def read_lines(text: str, lexicon: Lexicon) -> list[Line]:
    """The lines of a text that have words."""
    lines: list[Line] = []
    end = 0
    for raw in text.split("\n"):
        start = end
        end += len(raw) + 1
        parts = (ASCII_WORD if raw.isascii() else WORD).split(raw)
        if len(parts) < 3:
            continue
        texts, signs = parts[1::2], parts[0::2]
        words = list(map(lexicon.__getitem__, texts))
        bullet = _BULLET.match(raw) if parts[0] or parts[1].isdigit() else None
        is_marked = "*" in raw[:4] + raw[-4:] and _HEADING.match(raw) is not None
        line = Line(
            texts,
            signs,
            gaps=list(map(_strength, signs)),
            words=words,
            masks=[word.classes for word in words],
            starts=[index for index, word in enumerate(words) if word.begins],
            start=start,
            bullet=bullet is not None,
            heading=is_marked or raw.lstrip().startswith("#"),
            table=raw.count("|") >= 2,
        )
        lines.append(line)
        for index in [index for index, gap in enumerate(line.gaps[:-1]) if gap >= STOP and index]:
            sign, before, after = signs[index], texts[index - 1], texts[index]
            known = line.masks[index - 1] & KNOWN
            title = not known and before[0].isupper() and len(before) in {2, 3} and not before.isupper()
            if sign == "." or (sign == ". " and (after[0].islower() or title)):  # Dr., bijv.
                line.gaps[index] = NONE
            elif after[0].islower() and sign.strip() not in {".", "!", "?", "...", "…"}:  # "Why?" he asked
                line.gaps[index] = COMMA
        if bullet is not None and parts[1].isdigit() and bullet.end() > len(parts[0]):
            line.masks[0] = 0
            line.starts = line.starts[line.starts[:1] == [0] :]
            line.gaps[1] = STOP
    return lines


def mark_phrases(line: Line, phrases: PhraseNode) -> None:
    """Gives the words of each phrase the phrase's classes instead of their own."""
    masks, words = line.masks, line.words
    last, end = len(words) - 1, 0
    for start in line.starts:
        follows = words[start].follows
        if start < end or (follows is not None and (start == last or words[start + 1].key not in follows)):
            continue  # inside a phrase, or no phrase goes on with the next word
        end, bits, between = _longest_phrase(line, phrases, start)
        if end:
            rest = SMALL if bits == SMALL else INNER
            for inner in range(start, end):
                kept = masks[inner] & _KEPT_INSIDE if inner in between and not bits & C["only"] else 0
                kept |= masks[inner] & _KEPT_IN_FINAL if bits & C["final"] else 0
                masks[inner] = masks[inner] & _KEPT | rest | kept
            masks[start] |= bits


def _longest_phrase(line: Line, phrases: PhraseNode, start: int) -> tuple[int, int, tuple[int, ...]]:
    """End, classes and gap words of the longest phrase at a word; end 0 without one."""
    words, masks, gaps = line.words, line.masks, line.gaps
    count = len(words)
    longest, bits = 0, 0
    gapped: tuple[int, ...] = ()
    open_nodes: list[tuple[PhraseNode, int, int, tuple[int, ...]]] = [
        (child, start + 1, 0, ()) for child in words[start].begins
    ]
    open_nodes += [(child, start + 1, 0, ()) for bit, child in phrases.classes.items() if masks[start] & bit]
    while open_nodes:
        node, end, skipped, between = open_nodes.pop()
        if node.mask and end > longest:
            longest, bits, gapped = end, node.mask, between
        if end >= count or gaps[end] >= COMMA:
            continue
        if node.gap is not None:
            open_nodes.append((node.gap, end, 0, between))
        if node.prefixes or node.suffixes:
            open_nodes += [(child, end + 1, 0, between) for child in node.after(words[end].key)]
        elif (child := node.keys.get(words[end].key)) is not None:
            open_nodes.append((child, end + 1, 0, between))
        if node.classes:
            open_nodes += [(c, end + 1, 0, between) for bit, c in node.classes.items() if masks[end] & bit]
        if node.is_gap and skipped < GAP:
            open_nodes.append((node, end + 1, skipped + 1, (*between, end)))
    return longest, bits, gapped
