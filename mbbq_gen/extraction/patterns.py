"""The pattern language of the packs, and the automaton that finds all patterns of a language in one pass.

A pattern is a row of words with a few signs, nothing that can explode:

    word        that word, in any case, with or without accents
    =word       that word with just these accents
    word*       a word that begins so
    *word       a word that ends so
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

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import regex

from mbbq_gen.errors import PackError
from mbbq_gen.extraction.normalise import loose_key, strict_key
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, SEMICOLON, SENTENCE, tokenise

MAX_GAP = 6
_PIECE = regex.compile(r"\{([a-z])\}|…(\d?)|[()|?:^$,]|\*?=?[^\s(){}|?:^$…*,]+\*?")
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’-]+")

Slots = tuple[tuple[str, int], ...]
"""Slot name and the item that it took, in order."""
Step = tuple[str, str | int]
"""Kind (`word`, `strict`, `prefix`, `suffix`, `slot`, `gap`, `colon`, `comma`, `start`, `end`) and its value."""


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
    def is_word(self) -> bool:
        """Whether a word of a pattern may take it."""


@dataclass(slots=True)
class Hit:
    """A rule found in the text: items `start` to `end` (exclusive), and the items in its slots."""

    rule: Rule
    start: int
    end: int
    slots: Slots = ()


@dataclass(slots=True, eq=False)
class _Node:
    """A state of the automaton: where each kind of step leads."""

    words: dict[str, list[_Node]] = field(default_factory=dict)
    strict: dict[str, list[_Node]] = field(default_factory=dict)
    prefixes: dict[int, dict[str, list[_Node]]] = field(default_factory=dict)
    suffixes: dict[int, dict[str, list[_Node]]] = field(default_factory=dict)
    slots: list[tuple[str, _Node]] = field(default_factory=list)
    gaps: list[tuple[int, _Node]] = field(default_factory=list)
    colon: list[_Node] = field(default_factory=list)
    comma: list[_Node] = field(default_factory=list)
    start: list[_Node] = field(default_factory=list)
    end: list[_Node] = field(default_factory=list)
    free: list[_Node] = field(default_factory=list)
    """States that no step parts from this one."""
    rules: list[Rule] = field(default_factory=list)
    loose: bool = False
    """Whether a comma may follow the word that leads here though the pattern writes none."""
    bound: bool = False
    """Whether the line's gaps before its first mention hold no commas."""
    tight: bool = False
    """Whether the gap that leads here holds none."""


LOOSE_FAMILIES = frozenset({"markers.correction"})
"""Lists whose lines are broken by commas as people please: "no, wait", "no wait"."""

TIGHT_FAMILIES = frozenset({"relations.aside", "relations.negated"})
"""Lists in whose lines no comma parts a gap from the first mention: "no proof of that, so the answer is C"."""

_BOUND, _PAST_COMMA, _FREE = range(3)
"""What may stand before the next item: no comma and no sentence end; no sentence end; anything."""
_Place = tuple[_Node, int, int]
"""A state, words of a gap that may still follow before it (−1: no gap), and what may stand before the next item."""

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
        elif step[0] in {"word", "strict", "prefix", "suffix", "slot"}:
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


_SIGNS: dict[str, Step] = {":": ("colon", 0), ",": ("comma", 0), "^": ("start", 0), "$": ("end", 0)}


def _steps(piece: str, phrase: str) -> tuple[Step, ...]:
    """The steps of one piece; an apostrophe or hyphen inside a word parts it as in any text."""
    if piece in _SIGNS:
        return (_SIGNS[piece],)
    if piece.startswith("…"):
        return (("gap", int(piece[1:]) if piece[1:] else MAX_GAP),)
    if piece.startswith("{"):
        return (("slot", piece[1:-1]),)
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


# --- laying out -------------------------------------------------------------------------------------------------------


def _connect(row: Row, start: _Node, end: _Node) -> None:
    """Lays the steps of a row between two states."""
    here = start
    for number, step in enumerate(row, 1):
        after = end if number == len(row) else _Node(loose=end.loose, bound=end.bound)
        if after is not end:
            after.tight = end.bound and _leads_to_first_slot(row, number)
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


def _leads_to_first_slot(row: Row, number: int) -> bool:
    """Whether the first so many steps of a row end in a gap, and its first mention comes next."""
    kinds = [step[0] if isinstance(step, tuple) else "choice" for step in row]
    return kinds[number - 1] == "gap" and "slot" not in kinds[:number] and kinds[number : number + 1] == ["slot"]


def _add_step(node: _Node, step: Step, after: _Node) -> None:
    """One step from a state to another."""
    kind, value = step
    if kind == "gap":
        node.gaps.append((int(value), after))
    elif kind == "slot":
        node.slots.append((str(value), after))
    elif kind == "prefix":
        node.prefixes.setdefault(len(str(value)), {}).setdefault(str(value), []).append(after)
    elif kind == "suffix":
        node.suffixes.setdefault(len(str(value)), {}).setdefault(str(value), []).append(after)
    elif kind in {"word", "strict"}:
        table = node.words if kind == "word" else node.strict
        table.setdefault(str(value), []).append(after)
    else:
        {"colon": node.colon, "comma": node.comma, "start": node.start, "end": node.end}[kind].append(after)


# --- finding ----------------------------------------------------------------------------------------------------------

_COLON_SIGNS = frozenset(":：=→⇒←⇐–—\n")

_PARTS, _COMMA_SIGN, _SENTENCE, _BEGINS, _COLON, _ENDS = (1 << bit for bit in range(6))
"""What stands before an item: a comma or more, a comma sign, a sentence end, the beginning of a sentence, a colon;
_ENDS: a semicolon or more, or nothing follows at all."""

Symbol = tuple[str, str, bool, int]
"""What the automaton sees of an item: its key and accented key if patterns know them, whether it is a mention, its
gap."""


_END: Symbol = ("", "", False, _ENDS)
"""What stands behind the last item."""


@dataclass(slots=True, eq=False)
class _Set:
    """A set of places that are reached together, with what is already known of its successors."""

    places: frozenset[_PlaceKey]
    nodes: dict[int, _Node]
    after: dict[int, tuple[tuple[Rule, ...], _Set | None]] = field(default_factory=dict)
    """Number of a symbol → the rules that are complete before it, and the set behind it."""


_PlaceKey = tuple[int, int, int]
MAX_SETS = 100_000


class Automaton:
    """All patterns of a language, found in one pass whose time grows with the text's length only.

    It is made deterministic as it goes: the places that a row of words leads to are kept and looked up the next time.
    """

    def __init__(self, rules: Iterable[Rule], *, turkish: bool = False) -> None:
        self._turkish = turkish
        self._root = _Node()
        self._own: dict[Rule, _Node] = {}
        for rule in rules:
            end = _Node(rules=[rule], loose=rule.family in LOOSE_FAMILIES, bound=rule.family in TIGHT_FAMILIES)
            choice = parse(rule.phrase)
            for row in choice.rows:
                _connect(row, self._root, end)
            if "{" in rule.phrase:
                self._own[rule] = _Node()
                for row in choice.rows:
                    _connect(row, self._own[rule], end)
        self._vocabulary = _vocabulary(self._root)
        self._known: dict[str, str] = {}
        self._plain: dict[str, int] = {}
        self._symbols: list[Symbol] = [_END]
        self._numbers: dict[Symbol, int] = {_END: 0}
        self._sets: dict[frozenset[_PlaceKey], _Set] = {}
        self._start = self._set({(self._root, -1, _FREE)})

    def find(self, items: Sequence[Item]) -> list[Hit]:
        """Every place where a rule matches, by where it starts; of one rule at one start only the longest match."""
        if len(self._sets) > MAX_SETS:
            self._sets.clear()
            self._start = self._set({(self._root, -1, _FREE)})
        plain = self._plain
        symbols = [
            (plain.get(item.key) if item.gap == " " and item.is_word and not item.is_mention else None)
            or self._number(item)
            for item in items
        ]
        symbols.append(0)
        hits: list[Hit] = []
        for place in range(len(items)):
            best = self._longest(symbols, place)
            if best:
                hits += [self._hit(items, rule, place, end) for rule, end in best.items()]
        return hits

    def _longest(self, symbols: Sequence[int], place: int) -> dict[Rule, int]:
        """The rules that match from a place on, each with the end of its longest match."""
        best: dict[Rule, int] = {}
        state, last = self._start, len(symbols) - 1
        for here in range(place, last + 1):
            symbol = symbols[here]
            known = state.after.get(symbol)
            if known is None:
                known = state.after[symbol] = self._step(state, self._symbols[symbol])
            rules, following = known
            for rule in rules:
                best[rule] = here
            if following is None:
                break
            state = following
        return best

    def matches(self, items: Sequence[Item]) -> bool:
        """Whether any rule matches anywhere."""
        return bool(self.find(items))

    def _hit(self, items: Sequence[Item], rule: Rule, place: int, end: int) -> Hit:
        """The hit with the items that its slots took."""
        own = self._own.get(rule)
        if own is None:
            return Hit(rule, place, end)
        return Hit(rule, place, end, self._slots(items, own, place, end))

    def _slots(self, items: Sequence[Item], root: _Node, place: int, end: int) -> Slots:
        """The slots of one rule's match, by walking its own states alone."""
        pending: list[tuple[_Node, int, int, int, Slots]] = [(root, -1, _FREE, place, ())]
        while pending:
            node, left, free, here, slots = pending.pop()
            symbol = self._symbol(items[here]) if here < len(items) else _END
            closed = _closure({(node, left, free)}, symbol[3])
            if here == end and any(reached.rules for reached, _, _ in closed):
                return slots
            if here >= end:
                continue
            for reached, rest, freedom in closed:
                if symbol[2] and rest < 0 and _may_enter(freedom, symbol[3]):
                    pending.extend(
                        (after, -1, _PAST_COMMA, here + 1, (*slots, (name, here))) for name, after in reached.slots
                    )
            words = {after for one in closed for after in _consume(one, (symbol[0], symbol[1], False, symbol[3]))}
            pending.extend((after, rest, freedom, here + 1, slots) for after, rest, freedom in words)
        return ()

    def _number(self, item: Item) -> int:
        """The number of what the automaton sees of an item; that of a plain word behind a blank is kept by its key."""
        symbol = self._symbol(item)
        number = self._numbers.get(symbol)
        if number is None:
            number = self._numbers[symbol] = len(self._symbols)
            self._symbols.append(symbol)
        plain = item.is_word and item.gap == " " and not (symbol[1] or symbol[2] or symbol[3])
        if plain and len(self._plain) < 200_000:
            self._plain[item.key] = number
        return number

    def _symbol(self, item: Item) -> Symbol:
        """What the automaton sees of an item."""
        key = item.key if item.is_word else ""
        known = self._known.get(key)
        if known is None:
            if len(self._known) > 200_000:
                self._known.clear()
            known = self._known[key] = key if self._knows(key) else ""
        strict = strict_key(item.text, self._turkish) if known and known in self._vocabulary.strict else ""
        gap = item.gap
        flags = 0 if gap == " " and item.break_before == 0 else _gap_flags(item)
        return known, strict, item.is_mention, flags

    def _knows(self, key: str) -> bool:
        """Whether any pattern asks for the word, its beginning or its ending."""
        known = self._vocabulary
        return (
            key in known.words
            or any(key[:length] in table for length, table in known.prefixes.items())
            or any(key[-length:] in table for length, table in known.suffixes.items())
        )

    def _set(self, places: set[_Place]) -> _Set:
        key = frozenset((id(node), left, free) for node, left, free in places)
        known = self._sets.get(key)
        if known is None:
            known = self._sets[key] = _Set(key, {id(node): node for node, _, _ in places})
        return known

    def _step(self, state: _Set, symbol: Symbol) -> tuple[tuple[Rule, ...], _Set | None]:
        """The rules that are complete before an item, and the places behind it."""
        places = {(state.nodes[node], left, free) for node, left, free in state.places}
        closed = _closure(places, symbol[3])
        rules = tuple(dict.fromkeys(rule for node, left, _ in closed if left < 0 for rule in node.rules))
        after = {reached for one in closed for reached in _consume(one, symbol)}
        return rules, self._set(after) if after else None


def _closure(places: set[_Place], flags: int) -> set[_Place]:
    """The places with all that lead on without a word, given what stands before the next item."""
    closed: set[_Place] = set()
    pending = list(places)
    while pending:
        place = pending.pop()
        if place in closed:
            continue
        closed.add(place)
        node, left, free = place
        if left >= 0:
            pending.append((node, -1, free if node.tight else max(free, _PAST_COMMA)))
            continue
        pending.extend((after, -1, free) for after in node.free)
        if flags & _ENDS:
            pending.extend((after, -1, free) for after in node.end)
        if flags & _BEGINS:
            pending.extend((after, -1, _FREE) for after in node.start)
        if flags & _COLON:
            pending.extend((after, -1, _FREE) for after in node.colon)
        if free == _FREE or not flags & _SENTENCE:
            pending.extend((after, reach, free) for reach, after in node.gaps)
            if flags & _PARTS:
                pending.extend((after, -1, max(free, _PAST_COMMA)) for after in node.comma)
        elif node.gaps:
            pending.extend((after, -1, free) for _, gap in node.gaps for after in _ends_behind(gap))
    return closed


def _ends_behind(gap: _Node) -> list[_Node]:
    """The states that a sentence end right where a gap of no words stands leads to."""
    pending, ends, seen = [gap], [], set()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            ends += node.end
            pending += node.free
    return ends


def _may_enter(free: int, flags: int) -> bool:
    """Whether what stands before an item lets a place take it."""
    if flags & _SENTENCE and free < _FREE:
        return False
    return not (flags & _COMMA_SIGN and free == _BOUND)


def _consume(place: _Place, symbol: Symbol) -> list[_Place]:
    """The places behind one item."""
    node, left, free = place
    key, strict, is_mention, flags = symbol
    if left >= 0:
        blocked = not _may_enter(free, flags) if node.tight else flags & _SENTENCE and free < _FREE
        return [] if blocked or left == 0 else [(node, left - 1, _BOUND if node.tight else _PAST_COMMA)]
    if not _may_enter(free, flags):
        return []
    after: list[_Place] = []
    if is_mention:
        after.extend((reached, -1, _PAST_COMMA) for _, reached in node.slots)
    if key:
        after.extend((reached, -1, _PAST_COMMA if reached.loose else _BOUND) for reached in node.words.get(key, ()))
        for length, table in node.prefixes.items():
            after.extend((reached, -1, _BOUND) for reached in table.get(key[:length], ()))
        for length, table in node.suffixes.items():
            after.extend((reached, -1, _BOUND) for reached in table.get(key[-length:], ()))
    if strict and node.strict:
        after.extend((reached, -1, _BOUND) for reached in node.strict.get(strict, ()))
    return after


@dataclass(slots=True)
class _Vocabulary:
    """The words, word beginnings and endings that any pattern asks for."""

    words: set[str] = field(default_factory=set)
    strict: set[str] = field(default_factory=set)
    """Loose keys of the words whose accents count."""
    prefixes: dict[int, set[str]] = field(default_factory=dict)
    suffixes: dict[int, set[str]] = field(default_factory=dict)


def _vocabulary(root: _Node) -> _Vocabulary:
    """What the patterns behind a state ask for."""
    found = _Vocabulary()
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found.words.update(node.words)
        found.strict.update(loose_key(word) for word in node.strict)
        for part, tables in ((found.prefixes, node.prefixes), (found.suffixes, node.suffixes)):
            for length, table in tables.items():
                part.setdefault(length, set()).update(table)
        pending.extend(_successors(node))
    found.words |= found.strict
    return found


def _successors(node: _Node) -> list[_Node]:
    """All states one step behind a state."""
    after = [reached for _, reached in node.slots] + [reached for _, reached in node.gaps]
    for nodes in (node.colon, node.comma, node.start, node.end, node.free):
        after += nodes
    for table in (node.words, node.strict, *node.prefixes.values(), *node.suffixes.values()):
        after += [reached for nodes in table.values() for reached in nodes]
    return after


def _gap_flags(item: Item) -> int:
    """What stands before an item."""
    gap, strength = item.gap, item.break_before
    flags = 0
    if strength >= COMMA:
        flags |= _PARTS
    if not COMMA_SIGNS.isdisjoint(gap) or strength == SEMICOLON:
        flags |= _COMMA_SIGN
    if strength >= SENTENCE:
        flags |= _SENTENCE
    if strength >= SEMICOLON:
        flags |= _ENDS | _BEGINS
    if ":" in gap or "：" in gap:
        flags |= _BEGINS
    if not _COLON_SIGNS.isdisjoint(gap) or " - " in gap:
        flags |= _COLON
    return flags
