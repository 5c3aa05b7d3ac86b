"""The states that the patterns of a language are laid out in: one behind every step of every pattern."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.patterns import Choice, Row, Rule, Step, parse

BOUND, PAST_COMMA, FREE = range(3)
"""What may stand before the next item: no comma and no sentence end; no sentence end; anything."""

MAX_REACH = 9
"""Words of the longest gap that a pattern can write."""

LOOSE_FAMILIES = frozenset({"markers.correction"})
"""Lists whose lines are broken by commas as people please: "no, wait", "no wait"."""

TIGHT_FAMILIES = frozenset({"relations.aside", "relations.negated"})
"""Lists in whose lines no comma parts a gap from the first mention: "no proof of that, so the answer is C"."""

Table = Mapping[str, tuple[int, ...]]
"""A word, or a beginning or ending of one → the places behind it."""
_NOTHING: Table = MappingProxyType({})
"""What most states have of most tables; shared, so that a state is small."""
_NO_PARTS: Mapping[int, Table] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class State:
    """A state of the automaton: where each kind of step leads."""

    number: int
    words: Table = field(default_factory=lambda: _NOTHING)
    strict: Table = field(default_factory=lambda: _NOTHING)
    prefixes: Mapping[int, Table] = field(default_factory=lambda: _NO_PARTS)
    """Length → the beginnings of words that are so long."""
    suffixes: Mapping[int, Table] = field(default_factory=lambda: _NO_PARTS)
    slots: tuple[tuple[str, int], ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    """Slots for mentions of several options."""
    gaps: tuple[tuple[int, State], ...] = ()
    colon: tuple[State, ...] = ()
    comma: tuple[State, ...] = ()
    start: tuple[State, ...] = ()
    end: tuple[State, ...] = ()
    free: tuple[State, ...] = ()
    """States that no step parts from this one."""
    rules: tuple[Rule, ...] = ()
    loose: bool = False
    """Whether a comma may follow the word that leads here though the pattern writes none."""
    bound: bool = False
    """Whether the line's gaps before its first mention hold no commas."""
    tight: bool = False
    """Whether the gap that leads here holds none."""

    def slots_for(self, count: int) -> tuple[tuple[str, int], ...]:
        """The slots that a mention of one option, or of more, may fill, each with the place behind it."""
        return self.slots + self.groups if count > 1 else self.slots


def place_of(state: State, left: int, freedom: int) -> int:
    """The number of a place: a state, words of a gap that may still follow before it (−1: no gap), and what may stand
    before the next item."""
    return (state.number * (MAX_REACH + 2) + left + 1) * 3 + freedom


class States:
    """The states of some rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._all: list[State] = []
        self.root = self._new()
        self.own: dict[Rule, State] = {}
        """Where each rule with slots begins in states of its own."""
        self.order: dict[Rule, int] = {}
        for rule in rules:
            self._add(rule)
        self.vocabulary = Vocabulary.of(self._all)

    def place(self, number: int) -> tuple[State, int, int]:
        """The state, rest of a gap and freedom that a place stands for."""
        rest, freedom = divmod(number, 3)
        state, left = divmod(rest, MAX_REACH + 2)
        return self._all[state], left - 1, freedom

    def _new(self, *, loose: bool = False, bound: bool = False, rules: tuple[Rule, ...] = ()) -> State:
        state = State(len(self._all), loose=loose, bound=bound, rules=rules)
        self._all.append(state)
        return state

    def _add(self, rule: Rule) -> None:
        self.order[rule] = len(self.order)
        end = self._new(rules=(rule,), loose=rule.family in LOOSE_FAMILIES, bound=rule.family in TIGHT_FAMILIES)
        choice = parse(rule.phrase)
        for row in choice.rows:
            self._connect(row, self.root, end)
        if "{" in rule.phrase:
            self.own[rule] = self._new()
            for row in choice.rows:
                self._connect(row, self.own[rule], end)

    def _connect(self, row: Row, start: State, end: State) -> None:
        """Lays the steps of a row between two states."""
        here = start
        for number, step in enumerate(row, 1):
            after = end if number == len(row) else self._new(loose=end.loose, bound=end.bound)
            if after is not end:
                after.tight = end.bound and _leads_to_first_slot(row, number)
            if isinstance(step, Choice):
                for inner in step.rows:
                    self._connect(inner, here, after)
                if step.optional:
                    here.free += (after,)
            else:
                _add_step(here, step, after)
            here = after
        if not row:
            start.free += (end,)


def _leads_to_first_slot(row: Row, number: int) -> bool:
    """Whether the first so many steps of a row end in a gap, and its first mention comes next."""
    kinds = [step[0] if isinstance(step, tuple) else "choice" for step in row]
    slots = ("slot", "group")
    named = any(kind in slots for kind in kinds[:number])
    return kinds[number - 1] == "gap" and not named and number < len(kinds) and kinds[number] in slots


def _add_step(state: State, step: Step, after: State) -> None:
    """One step from a state to another."""
    kind, value = step
    word, behind = str(value), place_of(after, -1, BOUND)
    match kind:
        case "gap":
            state.gaps += ((int(value), after),)
        case "slot":
            state.slots += ((word, place_of(after, -1, PAST_COMMA)),)
        case "group":
            state.groups += ((word, place_of(after, -1, PAST_COMMA)),)
        case "word":
            state.words = _with(state.words, word, place_of(after, -1, PAST_COMMA) if after.loose else behind)
        case "strict":
            state.strict = _with(state.strict, word, behind)
        case "prefix":
            state.prefixes = _with_part(state.prefixes, word, behind)
        case "suffix":
            state.suffixes = _with_part(state.suffixes, word, behind)
        case _:
            setattr(state, kind, (*getattr(state, kind), after))


def _with(table: Table, word: str, place: int) -> Table:
    """A table with one more entry; changed in place where it has any."""
    if not isinstance(table, dict):
        return {word: (place,)}
    table[word] = (*table.get(word, ()), place)
    return table


def _with_part(tables: Mapping[int, Table], word: str, place: int) -> Mapping[int, Table]:
    """The tables of beginnings or endings with one more."""
    return {**tables, len(word): _with(tables.get(len(word), _NOTHING), word, place)}


@dataclass(slots=True)
class Vocabulary:
    """The words, word beginnings and endings that any pattern asks for."""

    words: set[str] = field(default_factory=set)
    strict: set[str] = field(default_factory=set)
    """Loose keys of the words whose accents count."""
    prefixes: dict[int, set[str]] = field(default_factory=dict)
    suffixes: dict[int, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, states: Iterable[State]) -> Vocabulary:
        """What the patterns of some states ask for."""
        found = cls()
        for state in states:
            found.words.update(state.words)
            found.strict.update(loose_key(word) for word in state.strict)
            for part, tables in ((found.prefixes, state.prefixes), (found.suffixes, state.suffixes)):
                for length, table in tables.items():
                    part.setdefault(length, set()).update(table)
        found.words |= found.strict
        return found

    def __contains__(self, key: str) -> bool:
        """Whether any pattern asks for a word, its beginning or its ending."""
        return (
            key in self.words
            or any(key[:length] in table for length, table in self.prefixes.items())
            or any(key[-length:] in table for length, table in self.suffixes.items())
        )
