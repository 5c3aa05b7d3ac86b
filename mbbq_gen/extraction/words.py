"""What a word is, in any script."""

from __future__ import annotations

import re

TICK, CROSS = "\ua66e", "\ua669"
"""Letters of no living language that stand for a tick and a cross, each a word of its own."""
_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff"
CJK = "\ua66e\ua669\u3040-\u30ff\u3400-\u9fff"
WORD = re.compile(
    rf"([{CJK}]|[^\W_{CJK}]+(?:[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d]+[^\W_{CJK}]*)*)"
)
"""A word: letters and digits, with the marks that belong to it in Indic and Arabic scripts; a Han or Kana character."""
UNSPACED = re.compile(rf"[{_SCRIPTS}]")
"""A character of a script without blanks between words: each is a word of its own."""
