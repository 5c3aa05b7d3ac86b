"""Reads the shares that a response gives to each option: "A: 70%, B: 20%"."""

from __future__ import annotations

import regex

from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.reading import COMMITTED, Evidence, Reading
from mbbq_gen.extraction.tokens import LINE

_SHARE = regex.compile(r"^\s*(?:%|％|percent)")


def read_shares(reading: Reading, *, in_object: bool) -> None:
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
            if (_SHARE.match(gap) or field) and (share := _number(following.key)) is not None:
                shares[item.mention.options[0]] = (share, place)
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


def _number(key: str) -> float | None:
    """What a word that begins with a digit is worth; None where it is no number, such as 1.2.3."""
    try:
        return float(key.replace(",", ".").replace("..", ".")) if key[:1].isdigit() else None
    except ValueError:
        return None
