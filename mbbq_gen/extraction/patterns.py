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
    ,           a comma or the like before the next word; without it only what follows a slot or gap may come behind one
    ^  $        beginning and end of a sentence

There is no repetition, so every pattern has a longest match. All patterns share one automaton.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import regex

from mbbq_gen.errors import PackError
from mbbq_gen.extraction.normalise import loose_key, strict_key
from mbbq_gen.extraction.tokens import COMMA, SEMICOLON, SENTENCE, tokenise

MAX_GAP = 6
_PIECE = regex.compile(r"\{([a-z])\}|…(\d?)|[()|?:^$,]|=?[^\s(){}|?:^$…*,]+\*?")

Slots = tuple[tuple[str, int], ...]
"""Slot name and the item that it took, in order."""
Step = tuple[str, str | int]
"""Kind (`word`, `strict`, `prefix`, `slot`, `gap`, `colon`, `comma`, `start`, `end`) and its value."""


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
    """A state of the automaton: where each kind of step leads."""

    words: dict[str, list[_Node]] = field(default_factory=dict)
    strict: dict[str, list[_Node]] = field(default_factory=dict)
    prefixes: dict[int, dict[str, list[_Node]]] = field(default_factory=dict)
    slots: list[tuple[str, _Node]] = field(default_factory=list)
    gaps: list[tuple[int, _Node]] = field(default_factory=list)
    colon: list[_Node] = field(default_factory=list)
    comma: list[_Node] = field(default_factory=list)
    start: list[_Node] = field(default_factory=list)
    end: list[_Node] = field(default_factory=list)
    free: list[_Node] = field(default_factory=list)
    """States that no step parts from this one."""
    rules: list[Rule] = field(default_factory=list)


_BOUND, _PAST_COMMA, _FREE = range(3)
"""What may stand before the next item: no comma and no sentence end; no sentence end; anything."""
_State = tuple[_Node, int, Slots, int]
"""State, next item, slots so far, and what may stand before that item."""

# --- parsing ----------------------------------------------------------------------------------------------------------


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
        elif step[0] in {"word", "strict", "prefix", "slot"}:
            return False
    return True


def word_rows(phrase: str) -> list[tuple[str, ...]]:
    """The word rows that a pattern without gaps and slots stands for."""
    return [tuple(str(value) for _, value in row) for row in _rows_of(parse(phrase))]


def _rows_of(choice: Choice) -> list[tuple[Step, ...]]:
    rows: list[tuple[Step, ...]] = [()] if choice.optional else []
    for row in choice.rows:
        partial: list[tuple[Step, ...]] = [()]
        for step in row:
            endings = _rows_of(step) if isinstance(step, Choice) else [(step,)]
            partial = [first + second for first in partial for second in endings]
        rows += partial
    return rows


_SIGNS: dict[str, Step] = {":": ("colon", 0), ",": ("comma", 0), "^": ("start", 0), "$": ("end", 0)}


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


# --- finding ----------------------------------------------------------------------------------------------------------


class Automaton:
    """All patterns of a language, found in one pass whose time grows with the text's length only."""

    def __init__(self, rules: Iterable[Rule], *, turkish: bool = False) -> None:
        self._root = _Node()
        self._turkish = turkish
        for rule in rules:
            end = _Node(rules=[rule])
            for row in parse(rule.phrase).rows:
                _connect(row, self._root, end)

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
                or (root.start and _begins(item))
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

        A state knows what may stand before its item: anything at the pattern's start and right after a `:`, a comma after a
        slot, a gap or a `,`, and else nothing that parts words.
        """
        pending: list[_State] = [(self._root, place, (), _FREE)]
        count = len(items)
        while pending:
            node, here, slots, free = pending.pop()
            for rule in node.rules:
                yield rule, here, slots
            for after in node.free:
                pending.append((after, here, slots, free))
            if node.end and (here == count or items[here].break_before >= SEMICOLON):
                pending.extend((after, here, slots, free) for after in node.end)
            if here == count:
                continue
            item = items[here]
            if node.start and _begins(item):
                pending.extend((after, here, slots, _FREE) for after in node.start)
            if node.colon and _has_colon(item.gap):
                pending.extend((after, here, slots, _FREE) for after in node.colon)
            if free < _FREE and item.break_before >= SENTENCE:
                continue
            for reach, after in node.gaps:
                pending.extend((after, end, slots, _PAST_COMMA) for end in _gap_ends(items, here, reach))
            if node.comma and item.break_before >= COMMA:
                pending.extend((after, here, slots, _PAST_COMMA) for after in node.comma)
            if free == _BOUND and not _COMMAS.isdisjoint(item.gap):
                continue
            self._take(node, item, here, slots, pending)

    def _take(
        self,
        node: _Node,
        item: Item,
        here: int,
        slots: Slots,
        pending: list[_State],
    ) -> None:
        """Adds the states that one more item leads to."""
        if node.slots and item.is_mention:
            pending.extend((after, here + 1, (*slots, (name, here)), _PAST_COMMA) for name, after in node.slots)
        if not item.is_word:
            return
        key = item.key
        found = node.words.get(key)
        if found is not None:
            pending.extend((after, here + 1, slots, _BOUND) for after in found)
        if node.strict:
            found = node.strict.get(strict_key(item.text, self._turkish), ())
            pending.extend((after, here + 1, slots, _BOUND) for after in found)
        for length, table in node.prefixes.items():
            found = table.get(key[:length])
            if found is not None:
                pending.extend((after, here + 1, slots, _BOUND) for after in found)


def _connect(row: Row, start: _Node, end: _Node) -> None:
    """Lays the steps of a row between two states."""
    here = start
    for number, step in enumerate(row, 1):
        after = end if number == len(row) else _Node()
        if isinstance(step, Choice):
            for inner in step.rows:
                _connect(inner, here, after)
            if step.optional:
                here.free.append(after)
        else:
            _add_step(here, step, after)
        here = after
    if not row:
        start.free.append(end)


def _add_step(node: _Node, step: Step, after: _Node) -> None:
    """One step from a state to another."""
    kind, value = step
    if kind == "gap":
        node.gaps.append((int(value), after))
    elif kind == "slot":
        node.slots.append((str(value), after))
    elif kind == "prefix":
        node.prefixes.setdefault(len(str(value)), {}).setdefault(str(value), []).append(after)
    elif kind in {"word", "strict"}:
        table = node.words if kind == "word" else node.strict
        table.setdefault(str(value), []).append(after)
    else:
        {"colon": node.colon, "comma": node.comma, "start": node.start, "end": node.end}[kind].append(after)


_COMMAS = frozenset(",،、，")
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

