"""Strips the endings of words as the packs list them."""

from __future__ import annotations

from collections.abc import Iterable

from mbbq_gen.extraction.clitics import Clitics
from mbbq_gen.extraction.normalise import MAX_WORDS, loose_key
from mbbq_gen.extraction.pack import ExtractorPack

_VOWELS = frozenset("aeiouy")
"""A single vowel is no ending of so short a word that three letters would be left."""


class Stemmer:
    """Strips endings as a pack lists them; keeps what it has seen."""

    def __init__(self, packs: tuple[ExtractorPack, ...]) -> None:
        rules = [pack.text for pack in packs]
        self._suffixes = _longest_first(word for rule in rules for word in rule.suffixes)
        self.endings = frozenset(self._suffixes)
        """Every ending of the language, as a key."""
        self._agreement = _longest_first(word for rule in rules for word in rule.agreement)
        self._alternations = {loose_key(a): loose_key(b) for rule in rules for a, b in rule.alternations}
        self._min_stem = min((rule.min_stem for rule in rules), default=3)
        self.head = packs[0].text.head
        self.compounds = packs[0].text.compounds
        self._clitics = Clitics(word for pack in packs for word in pack.script.clitics)
        self.known: dict[str, tuple[str, str, str]] = {}
        """The forms of the words that it has seen."""

    def forms(self, key: str) -> tuple[str, str, str]:
        """The word itself, its stem (marked `~`) and its stem without gender (marked `≈`), finest first."""
        known = self.known.get(key)
        if known is None:
            if len(self.known) >= MAX_WORDS:
                self.known.clear()
            stem = self._strip(self._clitics.bare(key) if self._clitics else key, self._suffixes)
            known = self.known[key] = (key, f"~{stem}", f"≈{self._strip(stem, self._agreement)}")
        return known

    def _strip(self, key: str, suffixes: tuple[str, ...]) -> str:
        if key.isdigit():
            return key
        stem = key
        for _ in range(4):
            for suffix in suffixes:
                rest = len(stem) - len(suffix)
                if rest >= self._min_stem + (suffix in _VOWELS) and stem.endswith(suffix):
                    stem = stem[: -len(suffix)]
                    break
            else:
                break
        for old, new in self._alternations.items():
            if stem.endswith(old) and len(stem) > self._min_stem - 1:
                return stem[: -len(old)] + new
        return stem


def _longest_first(words: Iterable[str]) -> tuple[str, ...]:
    keys = {loose_key(word.lstrip("-")) for word in words}
    return tuple(sorted(keys, key=lambda key: (-len(key), key)))
