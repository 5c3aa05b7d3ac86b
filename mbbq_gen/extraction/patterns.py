"""The pattern language of the packs.

A pattern is a row of words with a few signs, nothing that can explode:

    word        that word, in any case, with or without accents
    =word       that word with just these accents
    word*       a word that begins so
    *word       a word that ends so
    (a|b c|d)   one of these
    (a|b)?      one of these or nothing
    …           up to six words (`…3`: up to three), within the sentence
    {x} {y}     a mention of an option (which slot means what, the list tells)
    {x+}        a mention of several options, joined by "and" or "or"
    :           a colon, dash, equals sign or line end before the next word
    ,           a comma or the like before the next word; without it only what follows a slot or gap may come behind one
    ^  $        beginning and end of a sentence

There is no repetition, so every pattern has a longest match. `.automaton` finds all patterns of a language in one pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import regex

from mbbq_gen.errors import PackError
from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.tokens import tokenise

MAX_GAP = 6
_PIECE = regex.compile(r"\{([a-z])\+?\}|…(\d?)|[()|?:^$,]|\*?=?[^\s(){}|?:^$…*,]+\*?")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’-]+")

Slots = tuple[tuple[str, int], ...]
"""Slot name and the item that it took, in order."""
Step = tuple[str, str | int]
"""Kind (`word`, `strict`, `prefix`, `suffix`, `slot`, `group`, `gap`, `colon`, `comma`, `start`, `end`) and value."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One line of a pack: which list it stands in and what it says."""

    family: str
    """The list, as `cues.before`."""
    phrase: str
    """The line, as written."""
    language: str
    """The pack's language."""
    home: bool
    """Whether it comes from the pack of the question's own language."""


class Item(Protocol):
    """What a pattern is matched against: a word, or a mention of an option that hides its words."""

    key: str
    text: str
    break_before: int
    gap: str

    @property
    def is_mention(self) -> bool:
        """Whether a slot may take it."""

    @property
    def is_group(self) -> bool:
        """Whether it is a mention of several options."""

    @property
    def is_word(self) -> bool:
        """Whether a word of a pattern may take it."""


@dataclass(slots=True)
class Hit:
    """A rule found in the text: items `start` to `end` (exclusive), and the items in its slots."""

    rule: Rule
    start: int
    end: int
    slots: Slots = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several rows, or nothing if it is optional."""

    rows: tuple[tuple[Step | Choice, ...], ...]
    optional: bool


Row = tuple[Step | Choice, ...]


def parse(phrase: str) -> Choice:
    """The pattern as a choice of rows.

    Raises:
        PackError: where the pattern is not well formed; the caller adds file and key.
    """
    pieces = [match.group() for match in _PIECE.finditer(phrase)]
    if "".join(pieces).replace(" ", "") != phrase.replace(" ", ""):
        raise PackError(f"pattern {phrase!r}: a sign that patterns don't have")
    choice, rest = _parse_choice(pieces, 0, phrase)
    if rest != len(pieces):
        raise PackError(f"pattern {phrase!r}: a bracket without its partner")
    if any(_may_be_empty(row) for row in choice.rows):
        raise PackError(f"pattern {phrase!r}: matches nothing at all; make at least one word necessary")
    return choice


def _parse_choice(pieces: Sequence[str], place: int, phrase: str) -> tuple[Choice, int]:
    """Alternatives parted by `|`, up to a closing bracket or the end."""
    rows: list[Row] = []
    current: list[Step | Choice] = []
    while place < len(pieces) and pieces[place] != ")":
        piece = pieces[place]
        place += 1
        if piece == "|":
            rows.append(tuple(current))
            current = []
        elif piece == "(":
            inner, place = _parse_choice(pieces, place, phrase)
            if place >= len(pieces):
                raise PackError(f"pattern {phrase!r}: a bracket without its partner")
            place += 1
            if place < len(pieces) and pieces[place] == "?":
                inner, place = Choice(inner.rows, optional=True), place + 1
            current.append(inner)
        elif piece == "?":
            raise PackError(f"pattern {phrase!r}: `?` stands only after a bracket")
        else:
            current.extend(_steps(piece, phrase))
    return Choice((*rows, tuple(current)), optional=False), place


def _may_be_empty(row: Row) -> bool:
    """Whether a row can match without a single word or mention."""
    for step in row:
        if isinstance(step, Choice):
            if not step.optional and not any(_may_be_empty(inner) for inner in step.rows):
                return False
        elif step[0] in {"word", "strict", "prefix", "suffix", "slot", "group"}:
            return False
    return True


def word_rows(phrase: str, limit: int = 100_000) -> list[tuple[str, ...]]:
    """The word rows that a pattern stands for, gaps, slots and signs left out; at most `limit` of them."""
    rows = itertools.islice(_rows_of(parse(phrase)), limit)
    kinds = {"word", "strict", "prefix", "suffix"}
    return [tuple(str(value) for kind, value in row if kind in kinds) for row in rows]


def _rows_of(choice: Choice) -> Iterator[tuple[Step, ...]]:
    """Every row of steps that a choice stands for, one at a time."""
    if choice.optional:
        yield ()
    for row in choice.rows:
        yield from _endings(row, 0)


def _endings(row: Row, place: int) -> Iterator[tuple[Step, ...]]:
    """Every way to go on in a row from a place."""
    if place == len(row):
        yield ()
        return
    step = row[place]
    for first in _rows_of(step) if isinstance(step, Choice) else iter([(step,)]):
        for rest in _endings(row, place + 1):
            yield first + rest


def anchors(choice: Choice, small: frozenset[str]) -> frozenset[str]:
    """Words one of which stands in every match of a pattern, if possible none of the small ones; empty where a match
    need not have any."""
    found: set[str] = set()
    for row in choice.rows:
        sets = [words for step in row if (words := _anchors_of(step, small))]
        if not sets:
            return frozenset()
        found |= min(sets, key=lambda words: (len(words & small), -min(map(len, words)), len(words), sorted(words)))
    return frozenset(found)


def _anchors_of(step: Step | Choice, small: frozenset[str]) -> frozenset[str]:
    if isinstance(step, Choice):
        return frozenset() if step.optional else anchors(step, small)
    return frozenset({loose_key(str(step[1]))}) if step[0] in {"word", "strict"} else frozenset()


_SIGNS: dict[str, Step] = {":": ("colon", 0), ",": ("comma", 0), "^": ("start", 0), "$": ("end", 0)}


def _steps(piece: str, phrase: str) -> tuple[Step, ...]:
    """The steps of one piece; an apostrophe or hyphen inside a word parts it as in any text."""
    if piece in _SIGNS:
        return (_SIGNS[piece],)
    if piece.startswith("…"):
        return (("gap", int(piece[1:]) if piece[1:] else MAX_GAP),)
    if piece.startswith("{"):
        return (("group" if piece.endswith("+}") else "slot", piece[1:-1].rstrip("+")),)
    word = piece.removeprefix("*").removeprefix("=").removesuffix("*")
    words = tokenise(word)
    if not words or not _WORD.fullmatch(word):
        raise PackError(f"pattern {phrase!r}: {piece!r} is no word and no sign of the pattern language")
    steps: list[Step] = [("word", token.key) for token in words]
    if piece.startswith("="):
        steps = [("strict", token.text.casefold()) for token in words]
    if "*" in piece and (len(words[0].key) < 2 or len(words) > 1):
        raise PackError(f"pattern {phrase!r}: {piece!r} is too short, or more than one word, for part of a word")
    if piece.endswith("*"):
        steps[-1] = ("prefix", words[-1].key)
    elif piece.startswith("*"):
        steps[0] = ("suffix", words[0].key)
    return tuple(steps)
