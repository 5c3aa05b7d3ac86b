"""The automaton that finds all patterns of a language in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mbbq_gen.extraction.normalise import MAX_WORDS
from mbbq_gen.extraction.patterns import Hit, Item, Rule, Slots
from mbbq_gen.extraction.states import BOUND, FREE, PAST_COMMA, State, States, Table, place_of
from mbbq_gen.extraction.symbols import (
    ALL_FLAGS,
    BEGINS,
    COLON,
    COMMA_SIGN,
    ENDS,
    NOTHING_FOLLOWS,
    PARTS,
    SENTENCE_END,
    Alphabet,
    Symbol,
)

MAX_STEPS = 50_000
"""Steps between sets of places that an automaton keeps at most."""

_Place = tuple[State, int, int]
"""A state, words of a gap that may still follow before it (−1: no gap), and what may stand before the next item."""


class _Set(dict[int, "_Step"]):
    """A set of places that are reached together; number of a symbol → the rules that are complete before it, and the
    set behind it. A step is worked out when it is first asked for."""

    __slots__ = ("_automaton", "places")

    def __init__(self, automaton: Automaton, places: tuple[int, ...]) -> None:
        super().__init__()
        self._automaton = automaton
        self.places = places

    def __missing__(self, number: int) -> _Step:
        step = self[number] = self._automaton.step(self.places, number)
        return step


_Step = tuple[tuple[Rule, ...], _Set | None]
_NOWHERE: _Step = ((), None)


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a place leads to once it is known what stands before the next item."""

    rules: tuple[Rule, ...]
    """The rules that are complete."""
    always: tuple[int, ...]
    """Places behind any item whatever."""
    single: tuple[int, ...]
    """Places behind a mention of one option."""
    several: tuple[int, ...]
    """Places behind a mention of more."""
    words: tuple[Table, ...]
    """Tables of the words that may come."""
    parts: tuple[State, ...]
    """States that may take words by their accents, beginnings or endings."""


class Automaton:
    """All patterns of a language, found in one pass whose time grows with the text's length only.

    It is made deterministic as it goes: the places that a row of words leads to are kept and looked up the next time.
    """

    def __init__(self, rules: Iterable[Rule], *, turkish: bool = False) -> None:
        self._states = States(rules)
        self._alphabet = Alphabet(self._states.vocabulary, turkish=turkish)
        self._sets: dict[tuple[int, ...], _Set] = {}
        self._opened: dict[int, _Opened] = {}
        self._slots: dict[tuple[Rule, tuple[int, ...]], Slots] = {}
        self._steps = 0
        self._start = self._set((place_of(self._states.root, -1, FREE),))

    def find(self, items: Sequence[Item]) -> list[Hit]:
        """Every place where a rule matches, by where it starts; of one rule at one start only the longest match."""
        if self._steps > MAX_STEPS:
            self._forget()
        numbers = self._alphabet.numbers(items)
        hits: list[Hit] = []
        first, own = self._start, self._states.own
        for place in range(len(items)):
            following = first[numbers[place]][1]
            here = place
            best: dict[Rule, int] | None = None
            while following is not None:
                here += 1
                rules, following = following[numbers[here]]
                if rules:
                    best = best or {}
                    for rule in rules:
                        best[rule] = here
            for rule, end in best.items() if best else ():
                hits.append(Hit(rule, place, end, self._slots_of(numbers, rule, place, end) if rule in own else ()))
        return hits

    def matches(self, items: Sequence[Item]) -> bool:
        """Whether any rule matches anywhere."""
        return bool(self.find(items))

    def step(self, places: tuple[int, ...], number: int) -> _Step:
        """The rules that are complete before the item with a number, and the set of places behind it."""
        self._steps += 1
        symbol = self._alphabet.symbols[number]
        opened = [self._opened.get(place * ALL_FLAGS + symbol[3]) or self._open(place, symbol[3]) for place in places]
        complete = {rule for one in opened for rule in one.rules}
        rules = tuple(sorted(complete, key=self._states.order.__getitem__)) if complete else ()
        after = () if number == NOTHING_FOLLOWS else _behind(opened, symbol)
        return (rules, self._set(after)) if after else (rules, None) if rules else _NOWHERE

    def _set(self, places: tuple[int, ...]) -> _Set:
        known = self._sets.get(places)
        if known is None:
            known = self._sets[places] = _Set(self, places)
        return known

    def _open(self, number: int, flags: int) -> _Opened:
        """What a place leads to, given what stands before the next item."""
        closed = _closure(self._states.place(number), flags)
        entering = [state for state, left, free in closed if left < 0 and _may_enter(free, flags)]
        opened = self._opened[number * ALL_FLAGS + flags] = _Opened(
            rules=tuple(rule for state, left, _ in closed if left < 0 for rule in state.rules),
            always=tuple(place_of(*after) for one in closed if (after := _gone_on(one, flags)) is not None),
            single=tuple(place for state in entering for _, place in state.slots),
            several=tuple(place for state in entering for _, place in state.groups),
            words=tuple(state.words for state in entering if state.words),
            parts=tuple(state for state in entering if state.strict or state.prefixes or state.suffixes),
        )
        return opened

    def _forget(self) -> None:
        """Drops all that is kept of earlier texts."""
        self._sets.clear()
        self._opened.clear()
        self._steps = 0
        self._start = self._set(self._start.places)

    # --- slots --------------------------------------------------------------------------------------------------------

    def _slots_of(self, numbers: Sequence[int], rule: Rule, place: int, end: int) -> Slots:
        """The items that the slots of a match took."""
        row = tuple(numbers[place : end + 1])
        slots = self._slots.get((rule, row))
        if slots is None:
            if len(self._slots) >= MAX_WORDS:
                self._slots.clear()
            symbols = [self._alphabet.symbols[number] for number in row]
            slots = self._slots[rule, row] = self._fill(self._states.own[rule], symbols)
        return tuple([(name, place + offset) for name, offset in slots])

    def _fill(self, root: State, symbols: Sequence[Symbol]) -> Slots:
        """The slots of a match of one rule, by walking its own states; the last symbol stands behind it."""
        pending: list[tuple[_Place, int, Slots]] = [((root, -1, FREE), 0, ())]
        while pending:
            start, here, slots = pending.pop()
            symbol = symbols[here]
            closed = _closure(start, symbol[3])
            if here + 1 == len(symbols):
                if any(state.rules for state, _, _ in closed):
                    return slots
                continue
            if symbol[2]:
                pending += [
                    (self._states.place(after), here + 1, (*slots, (name, here)))
                    for state, left, free in closed
                    if left < 0 and _may_enter(free, symbol[3])
                    for name, after in state.slots_for(symbol[2])
                ]
            gone = (after for one in closed if (after := _gone_on(one, symbol[3])) is not None)
            words = (self._states.place(p) for one in closed for p in _behind_word(one, symbol))
            pending += [(after, here + 1, slots) for after in dict.fromkeys((*gone, *words))]
        return ()


def _behind(opened: Iterable[_Opened], symbol: Symbol) -> tuple[int, ...]:
    """The places behind an item, in order."""
    key, _, count, _ = symbol
    after: set[int] = set()
    for one in opened:
        after.update(one.always)
        if count:
            after.update(one.single)
            if count > 1:
                after.update(one.several)
        if key:
            for table in one.words:
                if key in table:
                    after.update(table[key])
            for state in one.parts:
                after.update(_taken_by_parts(state, symbol))
    return tuple(sorted(after))


def _taken_by_parts(state: State, symbol: Symbol) -> Sequence[int]:
    """The places that a word leads to from a state by its accents, beginning or ending."""
    key, strict = symbol[:2]
    after = state.strict.get(strict, ()) if strict else ()
    for length, table in state.prefixes.items():
        after += table.get(key[:length], ())
    for length, table in state.suffixes.items():
        after += table.get(key[-length:], ())
    return after


def _behind_word(place: _Place, symbol: Symbol) -> Sequence[int]:
    """The places that a word leads to from a place."""
    state, left, free = place
    if not symbol[0] or left >= 0 or not _may_enter(free, symbol[3]):
        return ()
    return (*state.words.get(symbol[0], ()), *_taken_by_parts(state, symbol))


def _gone_on(place: _Place, flags: int) -> _Place | None:
    """The place behind any item inside a gap, if the gap goes on."""
    state, left, free = place
    if left <= 0:
        return None
    if not _may_enter(free, flags) if state.tight else flags & SENTENCE_END and free < FREE:
        return None
    return state, left - 1, BOUND if state.tight else PAST_COMMA


def _closure(start: _Place, flags: int) -> list[_Place]:
    """A place with all that it leads on to without a word, given what stands before the next item."""
    closed: dict[_Place, None] = {}
    pending = [start]
    while pending:
        place = pending.pop()
        if place in closed:
            continue
        closed[place] = None
        state, left, free = place
        if left >= 0:
            pending.append((state, -1, free if state.tight else max(free, PAST_COMMA)))
            continue
        pending += [(after, -1, free) for after in state.free]
        if flags & ENDS:
            pending += [(after, -1, free) for after in state.end]
        if flags & BEGINS:
            pending += [(after, -1, FREE) for after in state.start]
        if flags & COLON:
            pending += [(after, -1, FREE) for after in state.colon]
        if free == FREE or not flags & SENTENCE_END:
            pending += [(after, reach, free) for reach, after in state.gaps]
            if flags & PARTS:
                pending += [(after, -1, max(free, PAST_COMMA)) for after in state.comma]
        else:
            pending += [(after, -1, free) for _, gap in state.gaps for after in _ends_behind(gap)]
    return list(closed)


def _ends_behind(gap: State) -> list[State]:
    """The states that a sentence end right where a gap of no words stands leads to."""
    pending, seen = [gap], set[int]()
    ends: list[State] = []
    while pending:
        state = pending.pop()
        if state.number not in seen:
            seen.add(state.number)
            ends += state.end
            pending += state.free
    return ends


def _may_enter(free: int, flags: int) -> bool:
    """Whether what stands before an item lets a place take it."""
    if flags & SENTENCE_END and free < FREE:
        return False
    return not (flags & COMMA_SIGN and free == BOUND)
