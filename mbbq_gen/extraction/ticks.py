"""Makes words of ticks and crosses."""

from __future__ import annotations

import re

from mbbq_gen.extraction.shared import SharedPack
from mbbq_gen.extraction.words import CROSS, TICK

_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")


class Ticks:
    """The signs that tick an option or cross it out."""

    def __init__(self, shared: SharedPack) -> None:
        self._word = dict.fromkeys(shared.positive_marks, TICK) | dict.fromkeys(shared.negative_marks, CROSS)
        loose = dict.fromkeys(shared.loose_positive_marks, TICK) | dict.fromkeys(shared.loose_negative_marks, CROSS)
        self._loose = loose
        self._all = re.compile(
            "|".join(re.escape(sign) for sign in sorted({**self._word, **loose}, key=len, reverse=True))
        )

    def mark(self, text: str) -> str:
        """The text with a word in place of every sign and without what is struck out, as long as before; a sign that
        may be a bullet counts only where there are two kinds of them."""
        if "~~" in text:
            text = _STRUCK.sub(lambda match: " " * len(match.group()), text)
        found = set(self._all.findall(text)) if not text.isascii() or "[" in text else set()
        if not found:
            return text
        words = dict(self._word)
        if len({self._loose.get(sign) or self._word.get(sign) for sign in found}) > 1:
            words.update(self._loose)
        return self._all.sub(lambda match: words.get(match.group(), match.group()[0]).ljust(len(match.group())), text)
