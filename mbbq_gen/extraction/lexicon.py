"""The words of a language: every word gets its key, its classes as bits, and its stems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from mbbq_gen.extraction.text import CROSS, TICK, WORD, loose_key, strict_key
from mbbq_gen.languages.extraction_pack import WORD_LISTS, Grammar, OptionText

MAX_WORDS = 60_000
"""Cached words."""
MIN_BORROWED = 4
"""Letters of an English word that is understood inside another language."""
_VOWELS = frozenset("aeiouy")
MAX_ENDINGS = 4
"""Endings that a word may have one after another."""
MIN_REACH = 4
"""Letters that a stem has at least which is not the shortest one."""
_PARTS = re.compile(r"_|(…)")
"""Separators of the words of an entry."""
CLASSES: dict[str, int] = {name: 1 << place for place, name in enumerate(WORD_LISTS["words"])}
_PLACE_NAMES = tuple(name for name in WORD_LISTS["places"] if name != "nouns")
PLACES: dict[str, int] = {name: 1 << (len(CLASSES) + place) for place, name in enumerate(_PLACE_NAMES)}
_NEXT = len(CLASSES) + len(PLACES)
SMALL, NOUN, NOUN_AFTER, PLACE_NOUN, STARTS_ROW, STRAY, INNER, MENTIONED, ANYBODY, CLOSES, BORROWED = (
    1 << (_NEXT + place) for place in range(11)
)
"""Small words; words for an option before and after its label; words that a place belongs to; words that begin a row;
letters that are words; later words of a row; words of a mention;
nouns for anybody; verbs that close a clause which the next one turns away from, rests on or depends on;
words of English that the language does not know itself."""
KNOWN = (1 << _NEXT) - 1 & ~(CLASSES["doer"] | CLASSES["doing"]) | NOUN | NOUN_AFTER | PLACE_NOUN | ANYBODY
"""Any class at all, small words aside."""
PLAIN_WORDS = KNOWN | SMALL | INNER | MENTIONED
"""Words without content of their own: of a class, small, or part of a mention."""
_BITS = {**CLASSES, "small": SMALL}
"""Class that may stand between < and > in a phrase → its bit."""
_JOINS = CLASSES["but"] | CLASSES["because"] | CLASSES["although"] | CLASSES["condition"] | CLASSES["aside"]


@dataclass(slots=True, eq=False)
class Token:
    """A word as it is written, with its classes and stems."""

    key: str
    """Its form for comparing."""
    classes: int
    stem: str
    """Its key without endings."""
    root: str
    """Its stem without endings of gender or degree."""
    reach: frozenset[str] = frozenset()
    """Its other stems: its key, and those that other ways of stripping endings give."""
    forms: frozenset[str] = frozenset()
    """All of these: key, stem, root, reach."""
    begins: tuple[PhraseNode, ...] = ()
    """The nodes after it in phrases that begin with it."""
    follows: frozenset[str] | None = frozenset()
    """The words that may follow it in them; None if not only certain words may."""
    copula: bool = False
    """Whether it ends in a copula."""


@dataclass(slots=True)
class PhraseNode:
    """A node of the tree of rows of words."""

    keys: dict[str, PhraseNode] = field(default_factory=dict)
    prefixes: dict[str, PhraseNode] = field(default_factory=dict)
    suffixes: dict[str, PhraseNode] = field(default_factory=dict)
    classes: dict[int, PhraseNode] = field(default_factory=dict)
    gap: PhraseNode | None = None
    """The node after a gap of up to four words."""
    mask: int = 0
    """The classes of the row that ends here."""
    is_gap: bool = False
    """Whether other words may stand before the next part."""

    def after(self, key: str) -> tuple[PhraseNode, ...]:
        """The nodes after a word, whatever its classes."""
        found = [self.keys[key]] if key in self.keys else []
        found += [node for prefix, node in self.prefixes.items() if key.startswith(prefix)]
        return (*found, *(node for suffix, node in self.suffixes.items() if key.endswith(suffix)))

    def child(self, part: str, bits: dict[str, int]) -> PhraseNode:
        """The node after one part of a phrase; adds it if it is missing."""
        if part == "…":
            self.gap = self.gap or PhraseNode(is_gap=True)
            return self.gap
        if part.startswith("<"):
            return self.classes.setdefault(bits[part[1:-1]], PhraseNode())
        if part.endswith("*"):
            return self.prefixes.setdefault(part[:-1], PhraseNode())
        if part.startswith("*"):
            return self.suffixes.setdefault(part[1:], PhraseNode())
        return self.keys.setdefault(part, PhraseNode())


GAP = 4
"""Longest gap in a phrase, in words."""


class Lexicon(dict[str, Token]):
    """Word as written → token, filled on demand; `second`: English, for words that the language does not know."""

    def __init__(self, grammar: Grammar, second: Grammar | None = None) -> None:
        super().__init__()
        self.turkish = grammar.script.casefold == "turkish"
        self.language = grammar.meta.language
        self.compounds = grammar.text.compounds
        self.elision = grammar.script.elision
        self.verb_final = grammar.script.verb_final
        self.and_before = tuple(map(loose_key, words_of(grammar.script.and_before)))
        self._copulas = tuple(map(loose_key, words_of(grammar.script.copula)))
        self.clitics = tuple(sorted(map(loose_key, words_of(grammar.script.clitics)), key=len, reverse=True))
        self._exact: dict[str, int] = {}
        self._strict: dict[str, int] = {}
        self._prefixes: dict[int, dict[str, int]] = {}
        self._suffixes: dict[int, dict[str, int]] = {}
        self.rows = PhraseNode()
        for bits, entry in _entries(grammar):
            self._add_entry(entry, bits | CLOSES if entry.startswith("*") and bits & _JOINS else bits)
        self._add_entry(TICK, CLASSES["yes"])
        self._add_entry(CROSS, CLASSES["no"])
        self._borrowed: dict[str, int] = {}
        if second is not None:
            for line_class, entry in _entries(second):
                if entry.isalpha() and len(entry) >= MIN_BORROWED and not line_class & SMALL:
                    key = self.key(entry)
                    self._borrowed[key] = self._borrowed.get(key, 0) | line_class
        self.stemmer = Stemmer(grammar.text, grammar.script.clitics)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __missing__(self, text: str) -> Token:
        if len(self) >= MAX_WORDS:
            self.clear()
        key = self.key(text)
        mask = self._mask(key, text)
        stem, root = self.stemmer.forms(key)
        begins = self.rows.after(key) if mask & STARTS_ROW else ()
        is_open = any(node.gap or node.prefixes or node.suffixes or node.classes for node in begins)
        follows = None if is_open else frozenset(key for node in begins for key in node.keys)
        reach = self.stemmer.reach(key) - {stem}
        forms = reach | {key, stem, root}
        copula = bool(self._copulas) and key.endswith(self._copulas)
        word = self[text] = Token(key, mask & ~STARTS_ROW, stem, root, reach, forms, begins, follows, copula)
        return word

    def knows(self, text: str) -> bool:
        """Whether a word has any class or is small; does not cache it."""
        word = self.get(text)
        return bool((self._mask(self.key(text), text) if word is None else word.classes) & (KNOWN | SMALL))

    def _mask(self, key: str, text: str) -> int:
        """The classes of a word, or of its rest after a particle that is written together with it."""
        mask = self.mask_of(key, text)
        for clitic in self.clitics if not mask else ():
            if key.startswith(clitic) and len(key) - len(clitic) >= 2:
                mask = self.mask_of(key[len(clitic) :], text[len(clitic) :])
                if mask:
                    break
        return mask

    def key(self, text: str) -> str:
        """The form of a word that comparisons use."""
        return loose_key(strict_key(text, True) if self.turkish else text)

    def mask_of(self, key: str, text: str) -> int:
        """The classes of a word."""
        mask = self._exact.get(key, 0)
        if self._strict:
            mask |= self._strict.get(strict_key(text, self.turkish), 0)
        for length, table in self._prefixes.items():
            mask |= table.get(key[:length], 0)
        for length, table in self._suffixes.items():
            if len(key) >= length:
                mask |= table.get(key[-length:], 0)
        if mask & (KNOWN | SMALL) == 0:
            borrowed = self._borrowed.get(key, 0)
            mask |= borrowed | BORROWED if borrowed else 0
        return mask

    def _add_entry(self, entry: str, bits: int) -> None:
        parts = (entry,) if entry.isascii() and entry.isalpha() else _parts_of(entry)
        if len(parts) > 1:
            node = self.rows
            for place, part in enumerate(parts):
                if part[0] not in "<…":
                    word = self.key(part.strip("*"))
                    part = f"{'*' * part.startswith('*')}{word}{'*' * part.endswith('*')}"  # noqa: PLW2901
                node = node.child(part, _BITS)
                if place == 0 and not part.startswith("<"):
                    self._add_entry(part, STARTS_ROW)
            node.mask |= bits
            return
        for part in parts:
            key = self.key(part.strip("*"))
            table = self._exact
            if part.startswith("="):
                table, key = self._strict, strict_key(part[1:], self.turkish)
            elif part.endswith("*"):
                table = self._prefixes.setdefault(len(key), {})
            elif part.startswith("*"):
                table = self._suffixes.setdefault(len(key), {})
            table[key] = table.get(key, 0) | bits


def _entries(grammar: Grammar) -> Iterator[tuple[int, str]]:
    """Every entry of a grammar with its classes."""
    text, labels, places = grammar.text, grammar.labels, grammar.places
    lists = [(bit, grammar.words[name]) for name, bit in CLASSES.items()]
    lists += [(bit, places[name]) for name, bit in PLACES.items()]
    lists += [(PLACE_NOUN, places["nouns"]), (ANYBODY, text.persons), (SMALL, text.small), (STRAY, labels["stray"])]
    for bit, lines in [*lists, (NOUN, labels["nouns"]), (NOUN_AFTER, labels["nouns_after"])]:
        yield from ((bit, entry) for entry in words_of(lines))


def words_of(lines: Iterable[str]) -> Iterator[str]:
    """The entries on lines of words."""
    for line in lines:
        yield from line.split()


def entries_of(grammar: Grammar, name: str, keys: list[str]) -> str | None:
    """The longest entry of a class that words begin with, as written in the pack."""
    best, longest = None, 0
    for entry in words_of(grammar.words[name]):
        parts = [loose_key(part) for part in _parts_of(entry.lstrip("="))]
        length = 0
        while length < min(len(parts), len(keys)) and _matches(parts[length], keys[length]):
            length += 1
        gapped = "…" in entry and length > 0
        if (length == len(parts) or gapped) and length > longest:
            best, longest = entry, length
    return best


def _matches(part: str, key: str) -> bool:
    """Whether a word of an entry matches a key."""
    if part.endswith("*"):
        return key.startswith(part[:-1])
    return key.endswith(part[1:]) if part.startswith("*") else key == part


@lru_cache(maxsize=MAX_WORDS)
def _parts_of(entry: str) -> tuple[str, ...]:
    """The words, classes and gaps of an entry, one after another."""
    parts: list[str] = []
    for part in _PARTS.split(entry):
        if part and part[0] in "<=…":
            parts.append(part)
        elif part:
            parts += _split(part)
    return tuple(parts)


def _split(part: str) -> list[str]:
    """The words of a part of an entry, split at apostrophes, hyphens and Han characters."""
    if part.startswith("*") and not WORD.match(part, 1):
        return [part]  # an ending that begins with a sign of a vowel is no word by itself
    words = WORD.findall(part)
    if not words:
        return []
    words[0] = "*" * part.startswith("*") + words[0]
    words[-1] += "*" * part.endswith("*")
    return words


MAX_CLITICS = 5
"""Clitics that a word may seem to have: its own first letters may look like one ("al-" before "faqir", "fa-")."""


class Stemmer:
    """Strips the endings that a grammar lists."""

    def __init__(self, text: OptionText, clitics: Iterable[str]) -> None:
        self._suffixes = _by_last_letter(text.suffixes)
        self._agreement = _by_last_letter(text.agreement)
        self._alternations = tuple((loose_key(old), loose_key(new)) for old, new in text.alternations)
        self._min_stem = text.min_stem
        self._clitics = tuple(map(loose_key, words_of(clitics)))

    def forms(self, key: str) -> tuple[str, str]:
        """The stem, and the stem without endings of gender."""
        if key.isdigit():
            return key, key
        for _ in range(MAX_CLITICS if self._clitics else 0):
            rest = [(len(key) - len(clitic), clitic) for clitic in self._clitics if key.startswith(clitic)]
            key = next((key[-left:] for left, it in rest if left >= self._min_stem + (len(it) == 1)), key)
        stem = self._strip(key, self._suffixes)
        return stem, (self._strip(stem, self._agreement) if self._agreement else stem)

    def reach(self, key: str) -> frozenset[str]:
        """The word and every stem that stripping endings, in whatever way, may leave of it."""
        if len(key) <= self._min_stem or key.isdigit():
            return frozenset()
        found, ends = {key}, [key]
        for _ in range(MAX_ENDINGS):
            ends = [
                stem[: len(stem) - len(suffix)]
                for stem in ends
                for suffix in self._suffixes.get(stem[-1:], ())
                if len(stem) - len(suffix) >= max(self._min_stem, MIN_REACH) and stem.endswith(suffix)
            ]
            found.update(ends)
        return frozenset(found)

    def made_from(self, key: str) -> frozenset[str]:
        """The forms of a word of one character, from which endings are never stripped: Korean 딸, 딸입니다.

        None for a short ASCII word: Turkish "suda" is "in the water" rather than a form of the name Su.
        """
        if len(key) > 1 or key.isascii():
            return frozenset()
        return frozenset(key + suffix for suffixes in self._suffixes.values() for suffix in suffixes)

    def _strip(self, key: str, suffixes: dict[str, tuple[str, ...]]) -> str:
        stem = key
        for _ in range(MAX_ENDINGS):
            for suffix in suffixes.get(stem[-1:], ()):
                rest = len(stem) - len(suffix)
                if rest >= self._min_stem + (suffix in _VOWELS) and stem.endswith(suffix):
                    stem = stem[:rest]
                    break
            else:
                break
        for old, new in self._alternations:
            if stem.endswith(old) and len(stem) >= self._min_stem:
                return stem[: -len(old)] + new
        return stem


def _by_last_letter(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for word in {loose_key(word.lstrip("-")) for word in words_of(lines)}:
        found.setdefault(word[-1], []).append(word)
    return {letter: tuple(sorted(words, key=lambda word: (-len(word), word))) for letter, words in found.items()}
