"""The words of a language, each with its key, classes (a bit mask) and stems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from mbbq_gen.extraction.text import CROSS, TICK, WORD, loose_key, strict_key
from mbbq_gen.languages.extraction_pack import WORD_LISTS, Grammar, OptionText

MAX_WORDS = 60_000
"""Words that a lexicon caches."""
MIN_BORROWED = 4
"""Fewest letters of an English word that is read in a text of another language."""
_VOWELS = frozenset("aeiouy")
MAX_ENDINGS = 4
"""Endings that are stripped from a word, one after another."""
MIN_OTHER_STEM = 4
"""Fewest letters of a stem in `Token.other_stems`."""
_PARTS = re.compile(r"_|(…)")
"""Separators of the words of a pack entry."""
CLASSES: dict[str, int] = {name: 1 << index for index, name in enumerate(WORD_LISTS["words"])}
_PLACE_NAMES = tuple(name for name in WORD_LISTS["places"] if name != "nouns")
PLACES: dict[str, int] = {name: 1 << (len(CLASSES) + index) for index, name in enumerate(_PLACE_NAMES)}
_NEXT = len(CLASSES) + len(PLACES)
SMALL, NOUN, NOUN_AFTER, PLACE_NOUN, STARTS_PHRASE, STRAY, INNER, MENTIONED, ANYBODY, CLOSES, BORROWED = (
    1 << (_NEXT + index) for index in range(11)
)
"""Further classes.

SMALL: small words. NOUN, NOUN_AFTER: nouns for an option before and after its label. PLACE_NOUN: nouns after "first".
STARTS_PHRASE: the word begins a phrase. INNER: it is in a phrase. MENTIONED: it is in a mention of an option.
STRAY: labels that are words ("a"). ANYBODY: nouns for any person. BORROWED: English words in another language.
CLOSES: verbs that end a subordinate clause (entries that begin with `*`).
"""
KNOWN = (1 << _NEXT) - 1 & ~(CLASSES["doer"] | CLASSES["doing"]) | NOUN | NOUN_AFTER | PLACE_NOUN | ANYBODY
"""Classes of words that the pack lists, without small words and the forms of `doer` and `doing`."""
PLAIN_WORDS = KNOWN | SMALL | INNER | MENTIONED
"""A word of none of these classes is a content word."""
_BITS = {**CLASSES, "small": SMALL}
"""Name of a class between < and > in a phrase → its bit."""
_JOINS = CLASSES["but"] | CLASSES["because"] | CLASSES["although"] | CLASSES["condition"] | CLASSES["aside"]
GAP = 4
"""Longest gap in a phrase, in words."""
MAX_CLITICS = 5
"""Clitics that are stripped from a word, one after another."""


@dataclass(slots=True, eq=False)
class Token:
    """A word with its classes and stems."""

    key: str
    """Its form for comparisons, of `loose_key`."""
    classes: int
    stem: str
    """Its key without endings."""
    root: str
    """Its stem without endings of gender and degree."""
    other_stems: frozenset[str] = frozenset()
    """Its key and its longer stems, with fewer endings stripped."""
    forms: frozenset[str] = frozenset()
    """Its key, stem, root and other stems."""
    option_forms: frozenset[str] = frozenset()
    """Its forms without a stem that is too short to identify a word of an option."""
    begins: tuple[PhraseNode, ...] = ()
    """The nodes after it, of phrases that begin with it."""
    follows: frozenset[str] | None = frozenset()
    """Keys of the second words of these phrases; None if they are not all plain words."""
    copula: bool = False
    """Whether it ends with a copula."""


@dataclass(slots=True)
class PhraseNode:
    """A node of the tree (trie) of phrases."""

    keys: dict[str, PhraseNode] = field(default_factory=dict)
    prefixes: dict[str, PhraseNode] = field(default_factory=dict)
    suffixes: dict[str, PhraseNode] = field(default_factory=dict)
    classes: dict[int, PhraseNode] = field(default_factory=dict)
    gap: PhraseNode | None = None
    """The node after a gap of up to GAP words."""
    mask: int = 0
    """The classes of the phrase that ends here."""
    is_gap: bool = False
    """Whether other words may come before the next part."""

    def after(self, key: str) -> tuple[PhraseNode, ...]:
        """The nodes after a word, by its key alone."""
        found = [self.keys[key]] if key in self.keys else []
        found += [node for prefix, node in self.prefixes.items() if key.startswith(prefix)]
        return (*found, *(node for suffix, node in self.suffixes.items() if key.endswith(suffix)))

    def child(self, part: str) -> PhraseNode:
        """The node after one part of a phrase; adds it if it is missing."""
        if part == "…":
            self.gap = self.gap or PhraseNode(is_gap=True)
            return self.gap
        if part.startswith("<"):
            return self.classes.setdefault(_BITS[part[1:-1]], PhraseNode())
        if part.endswith("*"):
            return self.prefixes.setdefault(part[:-1], PhraseNode())
        if part.startswith("*"):
            return self.suffixes.setdefault(part[1:], PhraseNode())
        return self.keys.setdefault(part, PhraseNode())


class Lexicon(dict[str, Token]):
    """Word → token, filled on demand; `second`: grammar of English, for words without a class."""

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
        self.phrases = PhraseNode()
        for bits, entry in _entries(grammar):
            self._add_entry(entry, bits | CLOSES if entry.startswith("*") and bits & _JOINS else bits)
        self._add_entry(TICK, CLASSES["yes"])
        self._add_entry(CROSS, CLASSES["no"])
        self._borrowed: dict[str, int] = {}
        if second is not None:
            for bits, entry in _entries(second):
                if entry.isalpha() and len(entry) >= MIN_BORROWED and not bits & SMALL:
                    key = self.key(entry)
                    self._borrowed[key] = self._borrowed.get(key, 0) | bits
        self.stemmer = Stemmer(grammar.text, grammar.script.clitics)

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __missing__(self, text: str) -> Token:
        if len(self) >= MAX_WORDS:
            self.clear()
        key = self.key(text)
        mask = self._classes_past_clitics(key, text)
        stem = self.stemmer.stem(key)
        root = self.stemmer.root(stem)
        begins = self.phrases.after(key) if mask & STARTS_PHRASE else ()
        is_open = any(node.gap or node.prefixes or node.suffixes or node.classes for node in begins)
        follows = None if is_open else frozenset(key for node in begins for key in node.keys)
        others = self.stemmer.all_stems(key) - {stem}
        forms = others | {key, stem, root}
        own = forms if len(stem) >= MIN_OTHER_STEM else others or frozenset((key,))
        copula = key.endswith(self._copulas)
        word = Token(key, mask & ~STARTS_PHRASE, stem, root, others, forms, own, begins, follows, copula)
        self[text] = word
        return word

    def is_known(self, text: str) -> bool:
        """Whether a word has any class or is small; does not cache it."""
        word = self.get(text)
        mask = self._classes_past_clitics(self.key(text), text) if word is None else word.classes
        return bool(mask & (KNOWN | SMALL))

    def _classes_past_clitics(self, key: str, text: str) -> int:
        """The classes of a word, or if it has none, without its clitic."""
        mask = self.classes_of(key, text)
        for clitic in self.clitics if not mask else ():
            if key.startswith(clitic) and len(key) - len(clitic) >= 2:
                mask = self.classes_of(key[len(clitic) :], text[len(clitic) :])
                if mask:
                    break
        return mask

    def key(self, text: str) -> str:
        """The form of a word for comparisons."""
        return loose_key(strict_key(text, True) if self.turkish else text)

    def classes_of(self, key: str, text: str) -> int:
        """The classes of a word as the pack lists them."""
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
        """Adds a pack entry, a word or a phrase, with its classes."""
        parts = (entry,) if entry.isascii() and entry.isalpha() else _parts_of(entry)
        if len(parts) > 1:
            node = self.phrases
            for index, part in enumerate(parts):
                if part[0] not in "<…":
                    word = self.key(part.strip("*"))
                    part = f"{'*' * part.startswith('*')}{word}{'*' * part.endswith('*')}"  # noqa: PLW2901
                node = node.child(part)
                if index == 0 and not part.startswith("<"):
                    self._add_entry(part, STARTS_PHRASE)
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
    """Each entry of a grammar's lists with its class."""
    text, labels, places = grammar.text, grammar.labels, grammar.places
    lists = [(bit, grammar.words[name]) for name, bit in CLASSES.items()]
    lists += [(bit, places[name]) for name, bit in PLACES.items()]
    lists += [(PLACE_NOUN, places["nouns"]), (ANYBODY, text.persons), (SMALL, text.small), (STRAY, labels["stray"])]
    for bit, lines in [*lists, (NOUN, labels["nouns"]), (NOUN_AFTER, labels["nouns_after"])]:
        yield from ((bit, entry) for entry in words_of(lines))


def words_of(lines: Iterable[str]) -> Iterator[str]:
    """The entries of a list of the pack."""
    for line in lines:
        yield from line.split()


def entries_of(grammar: Grammar, name: str, keys: list[str]) -> str | None:
    """The longest entry of a class that matches the first words, as in the pack."""
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
    """Whether a word of an entry, perhaps with `*`, matches a key."""
    if part.endswith("*"):
        return key.startswith(part[:-1])
    return key.endswith(part[1:]) if part.startswith("*") else key == part


@lru_cache(maxsize=MAX_WORDS)
def _parts_of(entry: str) -> tuple[str, ...]:
    """The words, classes and gaps of an entry, in order."""
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
        return [part]  # an ending that begins with a vowel sign is no word
    words = WORD.findall(part)
    if not words:
        return []
    words[0] = "*" * part.startswith("*") + words[0]
    words[-1] += "*" * part.endswith("*")
    return words


class Stemmer:
    """Strips the endings that a grammar lists."""

    def __init__(self, text: OptionText, clitics: Iterable[str]) -> None:
        self._suffixes = _by_last_letter(text.suffixes)
        self._agreement = _by_last_letter(text.agreement)
        self._alternations = tuple((loose_key(old), loose_key(new)) for old, new in text.alternations)
        self._min_stem = text.min_stem
        self._clitics = tuple(map(loose_key, words_of(clitics)))

    def stem(self, key: str) -> str:
        """The word without clitics and endings."""
        if key.isdigit():
            return key
        for _ in range(MAX_CLITICS if self._clitics else 0):
            rest = [(len(key) - len(clitic), clitic) for clitic in self._clitics if key.startswith(clitic)]
            key = next((key[-left:] for left, it in rest if left >= self._min_stem + (len(it) == 1)), key)
        return self._strip(key, self._suffixes)

    def root(self, stem: str) -> str:
        """A stem without endings of gender and degree."""
        return self._strip(stem, self._agreement) if self._agreement else stem

    def all_stems(self, key: str) -> frozenset[str]:
        """The word and all stems that stripping endings can leave."""
        if len(key) <= self._min_stem or key.isdigit():
            return frozenset()
        found, ends = {key}, [key]
        for _ in range(MAX_ENDINGS):
            ends = [
                stem[: len(stem) - len(suffix)]
                for stem in ends
                for suffix in self._suffixes.get(stem[-1:], ())
                if len(stem) - len(suffix) >= max(self._min_stem, MIN_OTHER_STEM) and stem.endswith(suffix)
            ]
            found.update(ends)
        return frozenset(found)

    def inflections(self, key: str) -> frozenset[str]:
        """A word of one character with each ending, which are never stripped: Korean 딸, 딸입니다.

        Empty for an ASCII word: Turkish "suda" is "in the water" rather than a form of the name Su.
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
    """Last letter → the endings in a list with it, the longest first."""
    found: dict[str, list[str]] = {}
    for word in {loose_key(word.lstrip("-")) for word in words_of(lines)}:
        found.setdefault(word[-1], []).append(word)
    return {letter: tuple(sorted(words, key=lambda word: (-len(word), word))) for letter, words in found.items()}
