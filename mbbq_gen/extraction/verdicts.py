"""Finds words that judge the option in front of them, as ticks and crosses do: `B: right`, `| C | no |`, `A? No.`"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mbbq_gen.extraction.mentions import Item, MentionItem
from mbbq_gen.extraction.pack import ExtractorPack
from mbbq_gen.extraction.reading import Reading
from mbbq_gen.extraction.tokens import COMMA, LINE, tokenise

MAX_LEAD, MAX_REAR = 3, 1
"""Small words that may stand in front of a verdict, and behind it: "so out", "fits best"."""
_QUOTES = frozenset('"“”„«»「」')


class VerdictFinder:
    """The verdict words of the packs in use."""

    def __init__(self, packs: Iterable[ExtractorPack]) -> None:
        self._rows: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
        for pack in packs:
            for words, right in ((pack.verdicts.right, True), (pack.verdicts.wrong, False)):
                for word in words:
                    keys = tuple(token.key for token in tokenise(word))
                    self._rows.setdefault(keys[0], []).append((keys, right))
        for rows in self._rows.values():
            rows.sort(key=lambda row: -len(row[0]))

    def find(self, reading: Reading, *, in_object: bool) -> Iterator[tuple[int, bool]]:
        """The items at which a verdict stands that fills its part of the sentence or table, and whether it is a good
        one. A letter that is a label is none."""
        items, rows = reading.items, self._rows
        places = [place for place, item in enumerate(items) if item.key in rows]
        if not places:
            return
        conclusions = {place for hit in reading.hits_of("markers.conclusion") for place in range(hit.start, hit.end)}
        for place in places:
            item = items[place]
            if _names_option(item) or item.key in reading.options.labels:
                continue
            for keys, right in rows[item.key]:
                end = place + len(keys)
                if len(keys) == 1 or tuple([other.key for other in items[place:end]]) == keys:
                    if _fills_part(reading, place, end, conclusions, in_object=in_object):
                        yield place, right
                    break


def _names_option(item: Item) -> bool:
    return isinstance(item, MentionItem) and bool(item.mention.options)


def _fills_part(reading: Reading, start: int, end: int, conclusions: set[int], *, in_object: bool) -> bool:
    """Whether nothing but small words stands beside a verdict between the signs around it."""
    items = reading.items
    rear = end
    while rear < len(items) and rear - end < MAX_REAR and items[rear].break_before < COMMA and _is_small(reading, rear):
        rear += 1
    if rear < len(items) and items[rear].break_before < COMMA:
        return False
    front = start
    while (
        front
        and start - front < MAX_LEAD
        and items[front].break_before < COMMA
        and (_is_small(reading, front - 1) or front - 1 in conclusions)
    ):
        front -= 1
    if not front or (not in_object and not _QUOTES.isdisjoint(items[front].gap)):
        return False
    ends_line = rear == len(items) or items[rear].break_before >= LINE
    beside = ends_line and _names_option(items[front - 1])
    return items[front].break_before >= COMMA or ")" in items[front].gap or beside


def _is_small(reading: Reading, place: int) -> bool:
    item = reading.items[place]
    return not item.is_mention and item.key in reading.words.small and item.key not in reading.words.copulas
