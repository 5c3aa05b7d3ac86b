"""The pattern language of the packs, and the automaton that finds all patterns of a language in one pass.

A pattern is a row of words with a few signs, nothing that can explode:

    word        that word, in any case, with or without accents
    =word       that word with just these accents
    word*       a word that begins so
    (a|b c|d)   one of these
    (a|b)?      one of these or nothing
    …           up to six words (`…3`: up to three), within the sentence
    {x} {y}     a mention of an option (which slot means what, the list tells)
    :           a colon, dash, equals sign or line end before the next word
    ^  $        beginning and end of a sentence

Every pattern is unfolded to the finite set of word rows it stands for, and all rows of all lists share one trie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import regex

from mbbq_gen.errors import PackError
from mbbq_gen.extraction.normalise import loose_key, strict_key
from mbbq_gen.extraction.tokens import SEMICOLON, SENTENCE, tokenise

MAX_ROWS = 4096
MAX_GAP = 6
_PIECE = regex.compile(r"\{([a-z])\}|…(\d?)|[()|?:^$]|=?[^\s(){}|?:^$…*]+\*?")

Slots = tuple[tuple[str, int], ...]
"""Slot name and the item that it took, in order."""
Step = tuple[str, str | int]
"""Kind (`word`, `strict`, `prefix`, `slot`, `gap`, `colon`, `start`, `end`) and its value."""


@dataclass(frozen=True, slots=True)
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
    def is_word(self) -> bool:
        """Whether a word of a pattern may take it."""


@dataclass(slots=True)
class Hit:
    """A rule found in the text: items `start` to `end` (exclusive), and the items in its slots."""

    rule: Rule
    start: int
    end: int
    slots: Slots = ()


@dataclass(slots=True)
class _Node:
    """A state of the automaton."""

    words: dict[str, _Node] = field(default_factory=dict)
    strict: dict[str, _Node] = field(default_factory=dict)
    prefixes: dict[int, dict[str, _Node]] = field(default_factory=dict)
    slots: dict[str, _Node] = field(default_factory=dict)
    gaps: dict[int, _Node] = field(default_factory=dict)
    colon: _Node | None = None
    start: _Node | None = None
    end: _Node | None = None
    rules: list[Rule] = field(default_factory=list)


_State = tuple[_Node, int, Slots, bool]
"""State, next item, slots so far, and whether the break before that item may be crossed."""


def unfold(phrase: str) -> list[tuple[Step, ...]]:
    """The word rows that a pattern stands for.

    Raises:
        PackError: where the pattern is not well formed; the caller adds file and key.
    """
    pieces = [match.group() for match in _PIECE.finditer(phrase)]
    if "".join(pieces).replace(" ", "") != phrase.replace(" ", ""):
        raise PackError(f"pattern {phrase!r}: a sign that patterns don't have")
    rows, rest = _unfold_choice(pieces, 0, phrase)
    if rest != len(pieces):
        raise PackError(f"pattern {phrase!r}: a bracket without its partner")
    if any(not row for row in rows):
        raise PackError(f"pattern {phrase!r}: matches nothing at all; make at least one word necessary")
    return rows


def _unfold_choice(pieces: Sequence[str], place: int, phrase: str) -> tuple[list[tuple[Step, ...]], int]:
    """Alternatives parted by `|`, up to a closing bracket or the end."""
    rows: list[tuple[Step, ...]] = []
    current: list[tuple[Step, ...]] = [()]
    while place < len(pieces) and pieces[place] != ")":
        piece = pieces[place]
        place += 1
        if piece == "|":
            rows, current = rows + current, [()]
            continue
        if piece == "(":
            inner, place = _unfold_choice(pieces, place, phrase)
            if place >= len(pieces):
                raise PackError(f"pattern {phrase!r}: a bracket without its partner")
            place += 1
            if place < len(pieces) and pieces[place] == "?":
                inner, place = [*inner, ()], place + 1
            current = _join(current, inner, phrase)
        elif piece == "?":
            raise PackError(f"pattern {phrase!r}: `?` stands only after a bracket")
        else:
            current = _join(current, [_steps(piece, phrase)], phrase)
    return rows + current, place


def _join(left: list[tuple[Step, ...]], right: list[tuple[Step, ...]], phrase: str) -> list[tuple[Step, ...]]:
    """Every left row followed by every right row."""
    if len(left) * len(right) > MAX_ROWS:
        raise PackError(f"pattern {phrase!r}: stands for more than {MAX_ROWS} word rows; split it")
    return [first + second for first in left for second in right]


_SIGNS: dict[str, Step] = {":": ("colon", 0), "^": ("start", 0), "$": ("end", 0)}


def _steps(piece: str, phrase: str) -> tuple[Step, ...]:
    """The steps of one piece; an apostrophe or hyphen inside a word parts it as in any text."""
    if piece in _SIGNS:
        return (_SIGNS[piece],)
    if piece.startswith("…"):
        return (("gap", int(piece[1:]) if piece[1:] else MAX_GAP),)
    if piece.startswith("{"):
        return (("slot", piece[1:-1]),)
    word = piece.removeprefix("=").removesuffix("*")
    words = tokenise(word)
    if not words:
        return ()
    steps: list[Step] = [("word", token.key) for token in words]
    if piece.startswith("="):
        steps = [("strict", token.text.casefold()) for token in words]
    if piece.endswith("*"):
        if len(words[-1].key) < 2:
            raise PackError(f"pattern {phrase!r}: {piece!r} is too short for a word beginning")
        steps[-1] = ("prefix", words[-1].key)
    return tuple(steps)


class Automaton:
    """All patterns of a language, found in one pass whose time grows with the text's length only."""

    def __init__(self, rules: Iterable[Rule], *, turkish: bool = False) -> None:
        self._root = _Node()
        self._turkish = turkish
        for rule in rules:
            for row in unfold(rule.phrase):
                self._add(row, rule)

    def _add(self, row: Sequence[Step], rule: Rule) -> None:
        node = self._root
        for kind, value in row:
            node = _successor(node, kind, value)
        if rule not in node.rules:
            node.rules.append(rule)

    def find(self, items: Sequence[Item]) -> list[Hit]:
        """Every place where a rule matches, by where it starts; of one rule at one start only the longest match."""
        hits: list[Hit] = []
        root = self._root
        for place, item in enumerate(items):
            if not (
                item.key in root.words
                or root.strict
                or item.is_mention
                or any(item.key[:length] in table for length, table in root.prefixes.items())
                or (root.start is not None and _begins(item))
            ):
                continue
            best: dict[Rule, Hit] = {}
            for rule, end, slots in self._walk(items, place):
                known = best.get(rule)
                if known is None or known.end < end:
                    best[rule] = Hit(rule, place, end, slots)
            hits.extend(best.values())
        return hits

    def _walk(self, items: Sequence[Item], place: int) -> Iterator[tuple[Rule, int, Slots]]:
        """Every rule that matches from an item on, with where it ends and what its slots took.

        A state knows whether the break before its item is free: at the pattern's start and right after a `:` it is,
        everywhere else a pattern stays within its sentence.
        """
        pending: list[_State] = [(self._root, place, (), True)]
        count = len(items)
        while pending:
            node, here, slots, free = pending.pop()
            for rule in node.rules:
                yield rule, here, slots
            if node.end is not None and (here == count or items[here].break_before >= SEMICOLON):
                pending.append((node.end, here, slots, free))
            if here == count:
                continue
            item = items[here]
            if node.start is not None and _begins(item):
                pending.append((node.start, here, slots, True))
            if node.colon is not None and _has_colon(item.gap):
                pending.append((node.colon, here, slots, True))
            if not free and item.break_before >= SENTENCE:
                continue
            self._take(node, item, here, slots, pending)
            for reach, after in node.gaps.items():
                pending.extend((after, end, slots, False) for end in _gap_ends(items, here, reach))

    def _take(
        self,
        node: _Node,
        item: Item,
        here: int,
        slots: Slots,
        pending: list[_State],
    ) -> None:
        """Adds the states that one more item leads to."""
        if item.is_mention:
            pending.extend((after, here + 1, (*slots, (name, here)), False) for name, after in node.slots.items())
        if not item.is_word:
            return
        key = item.key
        after = node.words.get(key)
        if after is not None:
            pending.append((after, here + 1, slots, False))
        if node.strict:
            after = node.strict.get(strict_key(item.text, self._turkish))
            if after is not None:
                pending.append((after, here + 1, slots, False))
        for length, table in node.prefixes.items():
            after = table.get(key[:length])
            if after is not None:
                pending.append((after, here + 1, slots, False))


def _successor(node: _Node, kind: str, value: str | int) -> _Node:
    """The state after a step, made if it is not there."""
    if kind == "colon":
        node.colon = node.colon or _Node()
        return node.colon
    if kind == "start":
        node.start = node.start or _Node()
        return node.start
    if kind == "end":
        node.end = node.end or _Node()
        return node.end
    if kind == "gap":
        return node.gaps.setdefault(int(value), _Node())
    text = str(value)
    if kind == "prefix":
        return node.prefixes.setdefault(len(text), {}).setdefault(text, _Node())
    table = {"word": node.words, "strict": node.strict, "slot": node.slots}[kind]
    return table.setdefault(text, _Node())


_COLON_SIGNS = frozenset(":：=→⇒–—\n")


def _has_colon(gap: str) -> bool:
    """Whether a gap introduces what follows."""
    return not _COLON_SIGNS.isdisjoint(gap) or " - " in gap


def _begins(item: Item) -> bool:
    """Whether a sentence, or what a colon introduces, begins with the item."""
    return item.break_before >= SEMICOLON or ":" in item.gap or "：" in item.gap


def _gap_ends(items: Sequence[Item], here: int, reach: int) -> Iterator[int]:
    """Where a gap of at most `reach` items that starts at `here` may end, staying in the sentence."""
    for length in range(reach + 1):
        end = here + length
        if end > len(items) or (length and end - 1 > here and items[end - 1].break_before >= SENTENCE):
            return
        yield end

