"""Evidence that is no sentence: ticks and crosses beside options, and the shares that a response gives to each of
them."""

from __future__ import annotations

import re

import regex

from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.pack import SharedPack
from mbbq_gen.extraction.reading import COMMITTED, Evidence, Reading
from mbbq_gen.extraction.tokens import LINE

_SHARE = regex.compile(r"^\s*(?:%|％|percent)")


class MarkReader:
    """Reads ticks and crosses with the signs that the shared pack lists."""

    def __init__(self, shared: SharedPack) -> None:
        self._ticks = _signs(shared.positive_marks)
        self._crosses = _signs(shared.negative_marks)
        signs = shared.positive_marks + shared.negative_marks
        self._any = re.compile("|".join(re.escape(sign[0]) for sign in signs))

    def read(self, reading: Reading, body: str) -> None:
        """Adds the evidence of the marks in a text."""
        if self._any.search(body):
            self._read_lines(reading, body)
        if "%" in body or "％" in body or "{" in body:
            _read_shares(reading, in_object="{" in body)

    def _read_lines(self, reading: Reading, body: str) -> None:
        lines = [(match.start(), match.end()) for match in regex.finditer(r"[^\n]+", body)]
        ticked: dict[int, int] = {}
        crossed: dict[int, int] = {}
        here = 0
        for start, end in lines:
            line = body[start:end]
            tick, cross = self._ticks.search(line), self._crosses.search(line)
            if bool(tick) == bool(cross):
                continue
            while here < len(reading.items) and reading.items[here].start < start:
                here += 1
            found: dict[int, int] = {}
            place = here
            while place < len(reading.items) and reading.items[place].start < end:
                item = reading.items[place]
                if isinstance(item, MentionItem) and len(item.mention.options) == 1:
                    found.setdefault(item.mention.options[0], place)
                place += 1
            if len(found) == 1:
                (ticked if tick else crossed).update(found)
        _add_marks(reading, ticked, crossed)


def _add_marks(reading: Reading, ticked: dict[int, int], crossed: dict[int, int]) -> None:
    """A single tick is an answer; crosses rule out."""
    for index, place in crossed.items():
        if index not in ticked:
            reading.rejected[index] = place
            reading.evidence = [
                piece for piece in reading.evidence if piece.options != (index,) or piece.place != place
            ]
    if len(ticked) == 1:
        ((index, place),) = ticked.items()
        item = reading.items[place]
        reading.evidence.append(
            Evidence(COMMITTED, place, (index,), "mention", "ticked", None, False, item.start, item.end)
        )
        reading.evidence.sort(key=lambda piece: (piece.place, piece.tier))


def _read_shares(reading: Reading, *, in_object: bool) -> None:
    """The option with the greatest share where at least two have one."""
    shares: dict[int, tuple[float, int]] = {}
    items = reading.items
    for place, item in enumerate(items):
        if not isinstance(item, MentionItem) or len(item.mention.options) != 1:
            continue
        for later in range(place + 1, min(place + 4, len(items))):
            following = items[later]
            if isinstance(following, MentionItem) or following.break_before >= LINE:
                break
            gap = items[later + 1].gap if later + 1 < len(items) else reading.tail
            field = in_object and ":" in following.gap and later == place + 1
            if following.key[:1].isdigit() and (_SHARE.match(gap) or field):
                shares[item.mention.options[0]] = (float(following.key.replace(",", ".").replace("..", ".")), place)
                break
    if len(shares) < 2:
        return
    ranked = sorted(shares.items(), key=lambda entry: -entry[1][0])
    if ranked[0][1][0] > ranked[1][1][0]:
        index, (_, place) = ranked[0]
        item = items[place]
        reading.evidence.append(
            Evidence(COMMITTED, place, (index,), "mention", "share", None, False, item.start, item.end)
        )
        reading.evidence.sort(key=lambda piece: (piece.place, piece.tier))


def _signs(signs: tuple[str, ...]) -> regex.Pattern[str]:
    return regex.compile("|".join(regex.escape(sign) for sign in signs))
