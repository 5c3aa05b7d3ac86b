"""What a word is, in any script."""

from __future__ import annotations

import re

TICK, CROSS = "\ua66e", "\ua669"
"""Letters of no living language that stand for a tick and a cross, each a word of its own."""
_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff"
CJK = "\ua66e\ua669\u3040-\u30ff\u3400-\u9fff"
_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
_LATIN = "[^\\W_\u0370-\u1dff\u1f00-\U0010ffff]"
_OTHER = f"[^\\W_\\x00-\u036f\u1e00-\u1eff{CJK}]"
WORD = re.compile(rf"([{CJK}]|{_LATIN}+(?:[\u0300-\u036f\u200c\u200d]+{_LATIN}*)*|{_OTHER}+(?:[{_MARKS}]+{_OTHER}*)*)")
"""A word: letters and digits of one script, Latin or another, with the marks that belong to it in Indic and Arabic
scripts; a Han or Kana character. A label and the ending behind it are two words: Korean "B\uac00"."""
ASCII_WORD = re.compile("([A-Za-z0-9]+)")
"""The same in a text without any other letters."""
UNSPACED = re.compile(rf"[{_SCRIPTS}]")
"""A character of a script without blanks between words: each is a word of its own."""
HIRAGANA = re.compile("[\u3040-\u309f]")
"""A character of the script that Japanese writes its endings and particles in."""
