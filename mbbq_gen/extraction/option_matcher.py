"""Finds the label or the text of an option at a place of a response."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from mbbq_gen.extraction.lexicon import SMALL, Lexicon
from mbbq_gen.extraction.question import label_core
from mbbq_gen.extraction.text import LOOK_ALIKES, NormalText, normalise


@dataclass(slots=True)
class SlotContent:
    """A label, a text, or both, as they stand at a place."""

    option: int
    start: int
    end: int
    label: int | None
    text: int | None
    enclosed: bool
    """Whether signs or its form make a label of the letter: `(A)`, `**A**`, `①`, `ans0`."""
    circled: bool = False


CLOSE = re.compile(r"[ \t*_\"'“”«»’`\])}）】」》$|~]*")
_OPEN = re.compile(r"[\s:：=→⇒*_\"'“”„«»‘’`>\[({（【「《$\\#•|~-]*")
_AFTER_LABEL = re.compile(r"[ \t)\]}）】.:：、,，\-–—*_\"'“”„«»(（=>|~]*")
_WORD_END = r"(?![^\W\d_]|[\d\u0300-\u036f\u0900-\u0963])"
_ASCII_END = r"(?![A-Za-z0-9_]|[/&][A-Za-z]|['’\-][a-z]|\.[A-Za-z0-9])"
_SERIES = "АБВГ", "أبجد", "ابتث", "কখগঘ", "कखगघ", "가나다라", "அஆஇஈ", "అఆఇఈ", "କଖଗଘ", "アイウエ", "甲乙丙丁"
"""Letters that lists in other alphabets begin with: read for A, B, C, D where nothing else is possible."""


def end_of(signs: re.Pattern[str], text: str, start: int) -> int:
    """The end of the signs at a place."""
    found = signs.match(text, start)
    return found.end() if found else start


class OptionMatcher:
    """Finds the labels and texts of one question's options at a place of a text."""

    def __init__(self, options: tuple[str, ...], labels: tuple[str, ...], noun: re.Pattern[str], lexicon: Lexicon):
        cores = [label_core(label).casefold() for label in labels]
        self.count = len(options)
        self.labels = {core: place for place, core in enumerate(cores) if core}
        self._shown = frozenset(label_core(label) for label in labels) | {core for core in cores if len(core) > 1}
        self.circled = all(_is_circled(label) for label in labels)
        self.long = all(len(core) > 2 for core in cores)
        plain = self.labels.get("a") == 0 and self.labels.get("b") == 1
        series = [(sign.casefold(), place) for row in _SERIES for place, sign in enumerate(row[: len(self.labels)])]
        alike = {chr(sign).casefold(): chr(letter).casefold() for sign, letter in LOOK_ALIKES.items()}
        near = {
            sign: self.labels[letter] for sign, letter in alike.items() if letter in {"a", "b", "c"} & set(self.labels)
        }
        self.native = (dict(series) if plain else {}) | near
        """Letters of other alphabets that can only mean one of A, B, C…: by their place, and look-alikes."""
        self._label = _label_pattern(tuple(self.labels))
        self._noun = noun
        self.names = dict(self.labels)
        """Label or text → option."""
        for place, option in enumerate(options):
            words = fold(normalise(option).text.strip(" .。")).split()
            bare = words[1:] if len(words) > 1 and lexicon[words[0]].classes & SMALL else words
            for variant in (words, bare, ["the", *bare]):
                self.names.setdefault(" ".join(variant), place)
        texts = [(name, place) for name, place in self.names.items() if name not in self.labels]
        self._texts = sorted(texts, key=lambda text: -len(text[0]))
        self._firsts = frozenset((name[0] for name, _ in texts))
        self._longest = max([len(name) for name, _ in texts], default=0)

    def label_at(self, text: str, start: int, any_case: bool = True) -> tuple[int, int] | None:
        """Option and end of a label."""
        found = self._label.match(text, start)
        if found is None or _IS_TIED_BEFORE.search(text[max(start - 1, 0) : start]):
            return None
        if (
            found.group() not in self._shown
            and not any_case
            and text[found.end() : found.end() + 1] not in {")", "]", "）"}
        ):
            return None
        return self.labels[found.group().casefold()], found.end()

    def text_at(self, text: str, start: int) -> tuple[int, int] | None:
        """Option and end of an option's text."""
        if start >= len(text) or fold(text[start]) not in self._firsts:
            return None
        piece = fold(text[start : start + self._longest])
        for name, place in self._texts:
            end = (
                start + len(name) if piece.startswith(name) else _end_spread(text, start, name) if "  " in piece else 0
            )
            if end:
                behind = text[end : end + 2]
                tied = TIED.search(name[-1])
                if tied or not (behind[:1].isalnum() or behind[:1] == "/" or _POSSESSIVE.match(behind)):
                    return place, end
        return None

    def at(
        self,
        text: str,
        start: int,
        circled: frozenset[int] = frozenset(),
        *,
        native: bool = False,
        any_case: bool = True,
    ) -> SlotContent | None:
        """The label or text at a place, without signs around it."""
        here = end_of(_OPEN, text, start)
        direct = self.text_at(text, here)
        noun = self._noun.match(text, here)
        begin = end_of(_OPEN, text, noun.end()) if noun and direct is None else here
        label = self.label_at(text, begin, any_case)
        native = native and text[begin : begin + 1].casefold() in self.native
        if label is None and native and not _LETTER.match(text, begin + 1):
            label = self.native[text[begin].casefold()], begin + 1
        if direct is not None and (label is None or direct[1] > label[1]):
            own = _IN_BRACKETS.match(text, direct[1])
            named = self.label_at(text, own.end()) if own else None
            if named is not None and text[named[1] : named[1] + 1] == ")":
                return SlotContent(direct[0], here, named[1] + 1, named[0], direct[0], enclosed=True)
            return SlotContent(direct[0], here, direct[1], None, direct[0], enclosed=True)
        if label is None:
            return None
        option, end = label
        signs = text[max(begin - 2, start) : begin], text[end : end + 2]
        enclosed = (
            self.long
            or noun is not None
            or signs[1][:1] in {")", "]", "}", "）", "】"}
            or (signs[0].endswith("*") and signs[1].startswith("*"))
            or (begin in circled)
        )
        place = end_of(_AFTER_LABEL, text, end)
        beside = self.text_at(text, place) if place > end else None
        if beside is not None and beside[0] != option and "." in text[end:place]:
            goes_on = text[end_of(CLOSE, text, beside[1]) :][:1].strip(".。!\n,;:")
            beside = None if goes_on else beside
        if beside is not None:
            return SlotContent(beside[0], begin, beside[1], option, beside[0], enclosed)
        return SlotContent(option, begin, end, option, None, enclosed, begin in circled)


_IN_BRACKETS = re.compile(r"[*_\"”]{0,3} ?\(")
TIED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_IS_TIED_BEFORE = re.compile(r"[A-Za-z0-9/&'’\u00c0-\u1dff]")
_LETTER = re.compile(r"[^\W_]|[\u0300-\u036f\u0900-\u0963\u0981-\u0d63]")
_POSSESSIVE = re.compile(r"['’]s|[\u0300-\u036f\u0900-\u0963\u0981-\u0d63]")
_FOLDS = str.maketrans({"İ": "i", "ı": "i", "’": "'", "‘": "'", "-": " ", "‑": " "})


def fold(text: str) -> str:
    """The text in lower case, as long as before; apostrophes and hyphens alike."""
    return text.translate(_FOLDS).lower()


def _end_spread(text: str, start: int, name: str) -> int:
    """The end of a name with several blanks between its words; 0 if it is not there."""
    for word in name.split(" "):
        while text[start : start + 1] in {" ", "-"}:
            start += 1
        if fold(text[start : start + len(word)]) != word:
            return 0
        start += len(word)
    return start


@lru_cache(maxsize=256)
def _label_pattern(labels: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for a label with what may not stand after it."""
    ordered = sorted(labels, key=len, reverse=True)
    parts = [
        f"(?:{'|'.join(map(re.escape, part))}){end}"
        for part, end in (
            ([label for label in ordered if label.isascii()], _ASCII_END),
            ([label for label in ordered if not label.isascii()], _WORD_END),
        )
        if part
    ]
    return re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)


def circled_places(response: str, normal: NormalText) -> frozenset[int]:
    """Places of the normalised text at which the raw text has a circled number or letter."""
    if normal.starts is None:
        return frozenset()
    return frozenset(place for place, start in enumerate(normal.starts) if _is_circled(response[start]))


def _is_circled(sign: str) -> bool:
    return len(sign) == 1 and unicodedata.decomposition(sign).startswith(("<circle>", "<compat> 0028"))


option_matcher = lru_cache(maxsize=4096)(OptionMatcher)
"""The matcher of a question, compiled once."""
