"""Matches the label or the text of an option at an offset of a text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from mbbq_gen.extraction.lexicon import SMALL, Lexicon
from mbbq_gen.extraction.question import label_core
from mbbq_gen.extraction.text import LOOK_ALIKES, NormalText, normalise

CLOSE = re.compile(r"[ \t*_\"'“”«»’`\])}）】」》$|~]*")
_OPEN = re.compile(r"[\s:：=→⇒*_\"'“”„«»‘’`>\[({（【「《$\\#•|~-]*")
_AFTER_LABEL = re.compile(r"[ \t)\]}）】.:：、,，\-–—*_\"'“”„«»(（=>|~]*")
_WORD_END = r"(?![^\W\d_]|[\d\u0300-\u036f\u0900-\u0963])"
_ASCII_END = r"(?![A-Za-z0-9_]|[/&][A-Za-z]|['’\-][a-z]|\.[A-Za-z0-9])"
_SERIES = "АБВГ", "أبجد", "ابتث", "কখগঘ", "कखगघ", "가나다라", "அஆஇஈ", "అఆఇఈ", "କଖଗଘ", "アイウエ", "甲乙丙丁"
"""First letters of lists in other alphabets; read as A, B, C, D."""
_IN_BRACKETS = re.compile(r"[*_\"”]{0,3} ?\(")
_UNSPACED_LETTER = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD_BEFORE = re.compile(r"[A-Za-z0-9/&'’\u00c0-\u1dff]")
_LETTER = re.compile(r"[^\W_]|[\u0300-\u036f\u0900-\u0963\u0981-\u0d63]")
_POSSESSIVE = re.compile(r"['’]s|[\u0300-\u036f\u0900-\u0963\u0981-\u0d63]")
_FOLDS = str.maketrans({"İ": "i", "ı": "i", "’": "'", "‘": "'", "-": " ", "‑": " "})


@dataclass(slots=True)
class SlotContent:
    """A label, an option's text, or both, at an offset of a text."""

    option: int
    start: int
    end: int
    label: int | None
    text: int | None
    enclosed: bool
    """Whether it can only be a label, by its signs or its form: `(A)`, `**A**`, `①`, `ans0`."""
    circled: bool = False


def end_of(signs: re.Pattern[str], text: str, start: int) -> int:
    """The end of the signs that begin at an offset."""
    found = signs.match(text, start)
    return found.end() if found else start


class LabelForms:
    """The labels of a question, in the forms in which an answer may have them."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        cores = [label_core(label).casefold() for label in labels]
        self.options = {core: index for index, core in enumerate(cores) if core}
        """Label without brackets, in lower case → option."""
        self.shown = frozenset(label_core(label) for label in labels) | {core for core in cores if len(core) > 1}
        self.are_circled = all(_is_circled(label) for label in labels)
        self.are_long = all(len(core) > 2 for core in cores)
        plain = self.options.get("a") == 0 and self.options.get("b") == 1
        series = [(sign.casefold(), index) for row in _SERIES for index, sign in enumerate(row[: len(self.options)])]
        alike = {chr(sign).casefold(): chr(letter).casefold() for sign, letter in LOOK_ALIKES.items()}
        known = {"a", "b", "c"} & set(self.options)
        near = {sign: self.options[letter] for sign, letter in alike.items() if letter in known}
        self.native_letters = (dict(series) if plain else {}) | near
        """Letter of another alphabet → option: by their order in it, and look-alikes of A, B, C."""
        ordered = sorted(self.options, key=len, reverse=True)
        parts = [re.escape(label) + (_ASCII_END if label.isascii() else _WORD_END) for label in ordered]
        self.pattern = re.compile("|".join(parts) or r"(?!)", re.IGNORECASE)
        """Any label that no letter or digit follows."""


_label_forms = lru_cache(maxsize=256)(LabelForms)
"""The forms of labels, made once: few labels occur in many questions."""


class OptionMatcher:
    """Matches the labels and texts of a question's options."""

    def __init__(self, options: tuple[str, ...], labels: tuple[str, ...], noun: re.Pattern[str], lexicon: Lexicon):
        forms = _label_forms(labels)
        self.count, self.labels, self._shown, self._label = len(options), forms.options, forms.shown, forms.pattern
        self.has_circled_labels, self.has_long_labels = forms.are_circled, forms.are_long
        self.native_letters = forms.native_letters
        self._noun = noun
        self.option_names = dict(self.labels)
        """Label or text → option."""
        for index, option in enumerate(options):
            words = fold(normalise(option).text.strip(" .。")).split()
            bare = words[1:] if len(words) > 1 and lexicon[words[0]].classes & SMALL else words
            for variant in (words, bare, ["the", *bare]):
                self.option_names.setdefault(" ".join(variant), index)
        texts = [(name, index) for name, index in self.option_names.items() if name not in self.labels]
        self._texts = sorted(texts, key=lambda text: -len(text[0]))
        self._firsts = frozenset((name[0] for name, _ in texts))
        self._longest = max([len(name) for name, _ in texts], default=0)

    def label_at(self, text: str, start: int, any_case: bool = True) -> tuple[int, int] | None:
        """Option and end of the label at an offset."""
        found = self._label.match(text, start)
        if found is None or _WORD_BEFORE.search(text[max(start - 1, 0) : start]):
            return None
        is_other_case = not any_case and found.group() not in self._shown
        if is_other_case and text[found.end() : found.end() + 1] not in {")", "]", "）"}:
            return None
        return self.labels[found.group().casefold()], found.end()

    def text_at(self, text: str, start: int) -> tuple[int, int] | None:
        """Option and end of the option's text at an offset."""
        if start >= len(text) or fold(text[start]) not in self._firsts:
            return None
        piece = fold(text[start : start + self._longest])
        for name, option in self._texts:
            end = (
                start + len(name) if piece.startswith(name) else _end_spread(text, start, name) if "  " in piece else 0
            )
            if end:
                behind = text[end : end + 2]
                tied = _UNSPACED_LETTER.search(name[-1])
                if tied or not (behind[:1].isalnum() or behind[:1] == "/" or _POSSESSIVE.match(behind)):
                    return option, end
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
        """The label and text after the signs at an offset; `native`: also other alphabets."""
        here = end_of(_OPEN, text, start)
        direct = self.text_at(text, here)
        noun = self._noun.match(text, here)
        begin = end_of(_OPEN, text, noun.end()) if noun and direct is None else here
        label = self.label_at(text, begin, any_case)
        native = native and text[begin : begin + 1].casefold() in self.native_letters
        if label is None and native and not _LETTER.match(text, begin + 1):
            label = self.native_letters[text[begin].casefold()], begin + 1
        if direct is not None and (label is None or direct[1] > label[1]):
            bracket = _IN_BRACKETS.match(text, direct[1])
            inner = self.label_at(text, bracket.end()) if bracket else None
            if inner is not None and text[inner[1] : inner[1] + 1] == ")":
                return SlotContent(direct[0], here, inner[1] + 1, inner[0], direct[0], enclosed=True)
            return SlotContent(direct[0], here, direct[1], None, direct[0], enclosed=True)
        if label is None:
            return None
        option, end = label
        signs = text[max(begin - 2, start) : begin], text[end : end + 2]
        enclosed = (
            self.has_long_labels
            or noun is not None
            or signs[1][:1] in {")", "]", "}", "）", "】"}
            or (signs[0].endswith("*") and signs[1].startswith("*"))
            or (begin in circled)
        )
        after = end_of(_AFTER_LABEL, text, end)
        beside = self.text_at(text, after) if after > end else None
        if beside is not None and beside[0] != option and "." in text[end:after]:
            goes_on = text[end_of(CLOSE, text, beside[1]) :][:1].strip(".。!\n,;:")
            beside = None if goes_on else beside
        if beside is not None:
            return SlotContent(beside[0], begin, beside[1], option, beside[0], enclosed)
        return SlotContent(option, begin, end, option, None, enclosed, begin in circled)


def fold(text: str) -> str:
    """The text in lower case, as long as before; apostrophes and hyphens alike."""
    return text.translate(_FOLDS).lower()


def _end_spread(text: str, start: int, name: str) -> int:
    """The end of a name with extra spaces between its words; 0 without a match."""
    for word in name.split(" "):
        while text[start : start + 1] in {" ", "-"}:
            start += 1
        if fold(text[start : start + len(word)]) != word:
            return 0
        start += len(word)
    return start


def circled_places(response: str, normal: NormalText) -> frozenset[int]:
    """Offsets in the normalised text of circled numbers and letters in the raw text."""
    if normal.starts is None:
        return frozenset()
    return frozenset(offset for offset, start in enumerate(normal.starts) if _is_circled(response[start]))


def _is_circled(sign: str) -> bool:
    return len(sign) == 1 and unicodedata.decomposition(sign).startswith(("<circle>", "<compat> 0028"))


option_matcher = lru_cache(maxsize=4096)(OptionMatcher)
"""The matcher of a question, compiled once."""
