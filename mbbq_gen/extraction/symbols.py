"""What the automaton sees of a word or mention: as little as patterns ask for, so that much looks the same to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mbbq_gen.extraction.normalise import MAX_WORDS, strict_key
from mbbq_gen.extraction.patterns import Item
from mbbq_gen.extraction.states import Vocabulary
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, SEMICOLON, SENTENCE

PARTS, COMMA_SIGN, SENTENCE_END, BEGINS, COLON, ENDS = (1 << bit for bit in range(6))
"""What stands before an item: a comma or more, a comma sign, a sentence end, the beginning of a sentence, a colon;
ENDS: a semicolon or more, or nothing follows at all."""
ALL_FLAGS = 1 << 6
"""How many sets of these there are."""

Symbol = tuple[str, str, int, int]
"""What the automaton sees of an item: its key and accented key if patterns know them, how many options it is a
mention of (0, 1, 2 for more), what stands before it."""

NOTHING_FOLLOWS = 0
"""Number of what stands behind the last item."""
_COLON_SIGNS = frozenset(":：=→⇒←⇐–—\n")


class Alphabet:
    """Gives every item a number: items that no pattern tells apart have the same one."""

    def __init__(self, vocabulary: Vocabulary, *, turkish: bool) -> None:
        self._vocabulary = vocabulary
        self._turkish = turkish
        self.symbols: list[Symbol] = [("", "", 0, ENDS)]
        self._numbers: dict[Symbol, int] = {self.symbols[NOTHING_FOLLOWS]: NOTHING_FOLLOWS}
        self._plain: dict[str, int] = {}
        """Number of a word behind a blank whose accents don't count."""
        self._others: dict[tuple[str, str, str, int, int], int] = {}
        """Number of what is no such word, by all that a symbol is made of."""

    def numbers(self, items: Sequence[Item]) -> list[int]:
        """The numbers of items in order, and that of the end behind them."""
        plain, number = self._plain.get, self._number
        found = [
            (None if item.break_before or item.gap != " " or item.is_mention else plain(item.key)) or number(item)
            for item in items
        ]
        found.append(NOTHING_FOLLOWS)
        return found

    def _number(self, item: Item) -> int:
        """The number of what the automaton sees of an item."""
        count = (2 if item.is_group else 1) if item.is_mention else 0
        key = item.key if item.is_word else ""
        looks = (key, item.text, item.gap, item.break_before, count)
        number = self._others.get(looks)
        if number is not None:
            return number
        symbol = self._symbol(*looks)
        number = self._numbers.get(symbol)
        if number is None:
            number = self._numbers[symbol] = len(self.symbols)
            self.symbols.append(symbol)
        plain = item.is_word and item.gap == " " and not (item.break_before or symbol[1] or symbol[2] or symbol[3])
        if len(self._plain) + len(self._others) >= 2 * MAX_WORDS:
            self._plain.clear()
            self._others.clear()
        if plain:
            self._plain[key] = number
        else:
            self._others[looks] = number
        return number

    def _symbol(self, key: str, text: str, gap: str, break_before: int, count: int) -> Symbol:
        known = key if key and key in self._vocabulary else ""
        strict = strict_key(text, self._turkish) if known and known in self._vocabulary.strict else ""
        flags = 0 if gap == " " and break_before == 0 else _gap_flags(gap, break_before)
        return known, strict, count, flags


@lru_cache(maxsize=4096)
def _gap_flags(gap: str, strength: int) -> int:
    """What stands before an item."""
    flags = 0
    if strength >= COMMA:
        flags |= PARTS
    if not COMMA_SIGNS.isdisjoint(gap) or strength == SEMICOLON:
        flags |= COMMA_SIGN
    if strength >= SENTENCE:
        flags |= SENTENCE_END
    if strength >= SEMICOLON:
        flags |= ENDS | BEGINS
    if ":" in gap or "：" in gap:
        flags |= BEGINS
    if not _COLON_SIGNS.isdisjoint(gap) or " - " in gap:
        flags |= COLON
    return flags
