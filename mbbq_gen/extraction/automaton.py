"""The automaton that finds all patterns of a language in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from mbbq_gen.extraction.normalise import MAX_WORDS, loose_key, strict_key
from mbbq_gen.extraction.patterns import Choice, Hit, Item, Row, Rule, Slots, Step, parse
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, SEMICOLON, SENTENCE


@dataclass(slots=True, eq=False)
class _Node:
    """A state of the automaton: where each kind of step leads."""

    words: dict[str, list[_Node]] = field(default_factory=dict)
    strict: dict[str, list[_Node]] = field(default_factory=dict)
    prefixes: dict[int, dict[str, list[_Node]]] = field(default_factory=dict)
    suffixes: dict[int, dict[str, list[_Node]]] = field(default_factory=dict)
    slots: list[tuple[str, _Node]] = field(default_factory=list)
    groups: list[tuple[str, _Node]] = field(default_factory=list)
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

    def slots_for(self, count: int) -> list[tuple[str, _Node]]:
        """The slots that a mention of one option, or of more, may fill."""
        return self.slots + self.groups if count > 1 else self.slots


LOOSE_FAMILIES = frozenset({"markers.correction"})
"""Lists whose lines are broken by commas as people please: "no, wait", "no wait"."""

TIGHT_FAMILIES = frozenset({"relations.aside", "relations.negated"})
"""Lists in whose lines no comma parts a gap from the first mention: "no proof of that, so the answer is C"."""

_BOUND, _PAST_COMMA, _FREE = range(3)
"""What may stand before the next item: no comma and no sentence end; no sentence end; anything."""
_Place = tuple[_Node, int, int]
"""A state, words of a gap that may still follow before it (−1: no gap), and what may stand before the next item."""


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
    slots = ("slot", "group")
    named = any(kind in slots for kind in kinds[:number])
    return kinds[number - 1] == "gap" and not named and number < len(kinds) and kinds[number] in slots


def _add_step(node: _Node, step: Step, after: _Node) -> None:
    """One step from a state to another."""
    kind, value = step
    if kind == "gap":
        node.gaps.append((int(value), after))
    elif kind in {"slot", "group"}:
        (node.slots if kind == "slot" else node.groups).append((str(value), after))
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

Symbol = tuple[str, str, int, int]
"""What the automaton sees of an item: its key and accented key if patterns know them, how many options it is a
mention of (0, 1, 2 for more), its gap."""


_END: Symbol = ("", "", 0, _ENDS)
"""What stands behind the last item."""


@dataclass(slots=True, eq=False)
class _Set:
    """A set of places that are reached together, with what is already known of its successors."""

    places: frozenset[_Place]
    after: dict[int, _Step] = field(default_factory=dict)
    """Number of a symbol → the rules that are complete before it, and the set behind it."""


_Step = tuple[tuple[Rule, ...], _Set | None]
MAX_STEPS = 20_000
"""Steps between sets of places that an automaton keeps at most."""


class Automaton:
    """All patterns of a language, found in one pass whose time grows with the text's length only.

    It is made deterministic as it goes: the places that a row of words leads to are kept and looked up the next time.
    """

    def __init__(self, rules: Iterable[Rule], *, turkish: bool = False) -> None:
        self._turkish = turkish
        self._root = _Node()
        self._own: dict[Rule, _Node] = {}
        self._order: dict[Rule, int] = {}
        for rule in rules:
            self._order[rule] = len(self._order)
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
        self._sets: dict[frozenset[_Place], _Set] = {}
        self._places: dict[_Place, _Place] = {}
        self._steps = 0
        self._start = self._set(frozenset({(self._root, -1, _FREE)}))

    def find(self, items: Sequence[Item]) -> list[Hit]:
        """Every place where a rule matches, by where it starts; of one rule at one start only the longest match."""
        if self._steps > MAX_STEPS:
            self._sets.clear()
            self._places.clear()
            self._steps = 0
            self._start = self._set(self._start.places)
        plain = self._plain
        symbols = [
            (plain.get(item.key) if item.gap == " " and not item.is_mention else None) or self._number(item)
            for item in items
        ]
        symbols.append(0)
        hits: list[Hit] = []
        first, begins = self._start, self._start.after
        for place, symbol in enumerate(symbols[:-1]):
            known = begins.get(symbol) or self._step(first, symbol)
            if known[1] is not None:
                best = self._longest(symbols, place + 1, known[1])
                if best:
                    hits += [self._hit(items, rule, place, end) for rule, end in best.items()]
        return hits

    def _longest(self, symbols: Sequence[int], place: int, state: _Set) -> dict[Rule, int]:
        """The rules that match from a state on, each with the end of its longest match."""
        best: dict[Rule, int] = {}
        for here in range(place, len(symbols)):
            symbol = symbols[here]
            rules, following = state.after.get(symbol) or self._step(state, symbol)
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
                        (after, -1, _PAST_COMMA, here + 1, (*slots, (name, here)))
                        for name, after in reached.slots_for(symbol[2])
                    )
            words = {after for one in closed for after in _consume(one, (symbol[0], symbol[1], 0, symbol[3]))}
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
        if plain:
            if len(self._plain) >= MAX_WORDS:
                self._plain.clear()
            self._plain[item.key] = number
        return number

    def _symbol(self, item: Item) -> Symbol:
        """What the automaton sees of an item."""
        key = item.key if item.is_word else ""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_WORDS:
                self._known.clear()
            known = self._known[key] = key if self._knows(key) else ""
        strict = strict_key(item.text, self._turkish) if known and known in self._vocabulary.strict else ""
        gap = item.gap
        flags = 0 if gap == " " and item.break_before == 0 else _gap_flags(gap, item.break_before)
        count = (2 if item.is_group else 1) if item.is_mention else 0
        return known, strict, count, flags

    def _knows(self, key: str) -> bool:
        """Whether any pattern asks for the word, its beginning or its ending."""
        known = self._vocabulary
        return (
            key in known.words
            or any(key[:length] in table for length, table in known.prefixes.items())
            or any(key[-length:] in table for length, table in known.suffixes.items())
        )

    def _set(self, places: frozenset[_Place]) -> _Set:
        known = self._sets.get(places)
        if known is None:
            shared = frozenset(self._places.setdefault(place, place) for place in places)
            known = self._sets[shared] = _Set(shared)
        return known

    def _step(self, state: _Set, number: int) -> _Step:
        """The rules that are complete before the item with a number, and the places behind it; kept with the set."""
        symbol = self._symbols[number]
        closed = _closure(state.places, symbol[3])
        complete = {rule for node, left, _ in closed if left < 0 for rule in node.rules}
        rules = tuple(sorted(complete, key=self._order.__getitem__))
        after = frozenset(reached for one in closed for reached in _consume(one, symbol))
        self._steps += 1
        step = state.after[number] = rules, self._set(after) if after else None
        return step


def _closure(places: Iterable[_Place], flags: int) -> set[_Place]:
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
    key, strict, count, flags = symbol
    if left >= 0:
        blocked = not _may_enter(free, flags) if node.tight else flags & _SENTENCE and free < _FREE
        return [] if blocked or left == 0 else [(node, left - 1, _BOUND if node.tight else _PAST_COMMA)]
    if not _may_enter(free, flags):
        return []
    after: list[_Place] = []
    if count:
        after.extend((reached, -1, _PAST_COMMA) for _, reached in node.slots_for(count))
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
    after = [reached for _, reached in node.slots_for(2)] + [reached for _, reached in node.gaps]
    for nodes in (node.colon, node.comma, node.start, node.end, node.free):
        after += nodes
    for table in (node.words, node.strict, *node.prefixes.values(), *node.suffixes.values()):
        after += [reached for nodes in table.values() for reached in nodes]
    return after


@lru_cache(maxsize=4096)
def _gap_flags(gap: str, strength: int) -> int:
    """What stands before an item."""
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
