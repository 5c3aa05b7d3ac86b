"""Normalises text and words: Unicode forms, invisible characters, keys for comparing words, patterns of words."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

import regex

_INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\u0640"
_TO_NORMALISE = re.compile(f"[{_INVISIBLE}\U0001f130-\U0001f189\U0001f1e6-\U0001f1ff\u2776-\u2793\u24eb-\u24fe]")
_INVISIBLE_ONLY = regex.compile(f"[{_INVISIBLE}]")
_ACCENTS = "".join(map(chr, range(0x300, 0x370)))
_PLAIN_SIGNS = {
    **{first + n: chr(ord("A") + n) for first in (0x1F130, 0x1F150, 0x1F170, 0x1F1E6) for n in range(26)},
    **{code: str(int(unicodedata.numeric(chr(code)))) for code in (*range(0x2776, 0x2794), *range(0x24EB, 0x24FF))},
    ord("№"): "#",
}
"""Squared, circled and flag signs → the letter or digit that they show."""
_CLUSTER = regex.compile(r"\X")
_ACCENT_FREE_SCRIPTS = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}\p{Arabic}]")
_INDIC = regex.compile(r"[\u0900-\u0dff]")
_LETTER_FOLDS = str.maketrans(
    {"ı": "i", "ё": "е", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ة": "ه", "ى": "ي", "ک": "ك", "ی": "ي"}
)
_NUKTA = regex.compile(r"[\u093c\u09bc\u0a3c\u0b3c]")
_NASALS = regex.compile(r"ङ्(?=[क-घ])|ञ्(?=[च-झ])|ण्(?=[ट-ढ])|न्(?=[त-ध])|म्(?=[प-भ])|ँ")
"""Spellings of a nasal in Devanagari: हिन्दी and हिंदी, हाँ and हां are one word."""
_INDIC_FOLDS = str.maketrans({"\u0981": None, "\u0b01": None, "ৰ": "র", "ৎ": "ত"})
"""Candrabindu is often left out; Assamese ৰ is often typed as Bengali র; ৎ is ত before an ending (অভিজিতের)."""
LOOK_ALIKES = str.maketrans("АВЕКМНОРСТХаеорсхΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEKMHOPCTXaeopcxABEZHIKMNOPTYX")
"""Cyrillic and Greek letter → the Latin letter that it looks like."""
TICK, CROSS = "\ua66e", "\ua669"
"""Letters of no living language that replace ticks and crosses, so that each is a word."""
_UNSPACED_SCRIPTS = "\u3040-\u30ff\u3400-\u9fff"
CJK = "\ua66e\ua669\u3040-\u30ff\u3400-\u9fff"
_COMBINING_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
_LATIN = "[^\\W_\u0370-\u1dff\u1f00-\U0010ffff]"
_OTHER = f"[^\\W_\\x00-\u036f\u1e00-\u1eff{CJK}]"
WORD = re.compile(
    rf"([{CJK}]|{_LATIN}+(?:[\u0300-\u036f\u200c\u200d]+{_LATIN}*)*|{_OTHER}+(?:[{_COMBINING_MARKS}]+{_OTHER}*)*)"
)
"""A word: letters and digits, either Latin or not, with combining marks; or one Han or Kana character.

A label and a Korean ending after it are two words: "B\uac00"."""
ASCII_WORD = re.compile("([A-Za-z0-9]+)")
"""A word in an ASCII text."""
UNSPACED = re.compile(rf"[{_UNSPACED_SCRIPTS}]")
"""A character of a script without spaces between words; each is read as a word."""
HIRAGANA = re.compile("[\u3040-\u309f]")
"""A character of the Japanese script for endings and particles."""


@dataclass(frozen=True, slots=True)
class NormalText:
    """A normalised text with its map to the raw text."""

    text: str
    """The normalised text, case kept."""
    starts: tuple[int, ...] | None
    """Raw start of every character; None if the text was normal already."""
    ends: tuple[int, ...] | None
    """Raw end of every character; None as for `starts`."""

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the raw text of `text[start:end]`."""
        if self.starts is None or self.ends is None:
            return start, end
        if start >= end:
            offset = self.starts[start] if start < len(self.starts) else (self.ends[-1] if self.ends else 0)
            return offset, offset
        return self.starts[start], self.ends[end - 1]


def normalise(text: str) -> NormalText:
    """The text normalised, with the map back to the raw text."""
    if text.isascii() or (unicodedata.is_normalized("NFKC", text) and not _TO_NORMALISE.search(text)):
        return NormalText(text, None, None)
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        normal = _normalise_cluster(cluster.group())
        characters.append(normal)
        starts.extend([cluster.start()] * len(normal))
        ends.extend([cluster.end()] * len(normal))
    return NormalText("".join(characters), tuple(starts), tuple(ends))


@lru_cache(maxsize=4096)
def _normalise_cluster(cluster: str) -> str:
    """A grapheme cluster in NFKC, with letters for emoji, without invisible characters and leading accents."""
    plain = _INVISIBLE_ONLY.sub("", cluster).translate(_PLAIN_SIGNS)
    return unicodedata.normalize("NFKC", plain.lstrip(_ACCENTS))


@lru_cache(maxsize=4096)
def loose_key(word: str) -> str:
    """The form of a word for comparisons, without case and optional accents."""
    folded = unicodedata.normalize("NFKC", word).replace("İ", "i").casefold()
    if folded.isascii():
        return folded
    if _ACCENT_FREE_SCRIPTS.search(folded):
        parts = unicodedata.normalize("NFD", folded.replace("й", "\ue000"))  # й keeps its mark: a letter of its own
        bare = "".join(sign for sign in parts if unicodedata.category(sign) != "Mn" or _INDIC.match(sign))
        folded = unicodedata.normalize("NFC", bare).replace("\ue000", "й").translate(_LETTER_FOLDS)
    if _INDIC.search(folded):
        folded = _NASALS.sub("ं", _NUKTA.sub("", folded)).translate(_INDIC_FOLDS)
    return "".join(
        str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in _INVISIBLE_ONLY.sub("", folded)
    )


@lru_cache(maxsize=4096)
def strict_key(word: str, turkish: bool) -> str:
    """The word with its case folded and its accents kept, for pack entries with `=`."""
    composed = unicodedata.normalize("NFKC", word)
    if turkish:
        composed = composed.replace("I", "ı").replace("İ", "i")
    return composed.casefold()
