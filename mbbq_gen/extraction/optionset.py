"""The options of one question, prepared for being found: their labels, and their words with the language's
inflection."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import regex

from mbbq_gen.extraction.clitics import Clitics
from mbbq_gen.extraction.normalise import LOOK_ALIKES, loose_key, normalise
from mbbq_gen.extraction.pack import ExtractorPack, TextRules
from mbbq_gen.extraction.tokens import NO_BREAK, SENTENCE, Token, tokenise

Match = Literal["exact", "inflected", "partial", "fuzzy"]

UNSPACED = regex.compile(r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}]")
"""A character of a script without word boundaries (Hangul is read so too)."""
_CASED = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}]")
MIN_FUZZY, LONG_FUZZY, LONG_START = 5, 8, 6
"""Letters of a word that may be misspelt, misspelt twice, misspelt in its first letter."""
MAX_TITLE = 4
"""Letters of an abbreviation in front of a name: Dr, Prof, श्री."""
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
        self._clitics = Clitics(word for pack in packs for word in pack.script.clitics)
        self.known: dict[str, tuple[str, str, str]] = {}
        """The forms of the words that it has seen."""

    def forms(self, key: str) -> tuple[str, str, str]:
        """The word itself, its stem (marked `~`) and its stem without gender (marked `≈`), finest first."""
        known = self.known.get(key)
        if known is None:
            if len(self.known) > 200_000:
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


def _longest_first(words: object) -> tuple[str, ...]:
    keys = {loose_key(str(word).lstrip("-")) for word in words}  # type: ignore[attr-defined]
    return tuple(sorted(keys, key=lambda key: (-len(key), key)))


@dataclass(slots=True)
class OptionText:
    """One option's text, prepared."""

    index: int
    is_unknown: bool
    tokens: tuple[str, ...]
    """Its words without leading articles, in order, each once or more."""
    article: str | None
    """The article right before them, if it begins with one: the "a" of `A woman` is no label."""
    content: tuple[str, ...]
    """Its telling words, each once, in order."""
    repeated: dict[str, int]
    """How often a telling word stands in it, where that is more than once: 爷爷."""
    per_character: bool
    """Whether its script has no word boundaries."""
    repeats: bool
    """Whether a telling word comes twice."""
    needs_sequence: bool = False
    """Whether only all its words in order mean it: unknown options, and texts made of the same words as another's."""


@dataclass(slots=True)
class OptionSet:
    """All options of a question."""

    count: int
    unknown: int | None
    labels: dict[str, int]
    """Loose key of a label → option."""
    shown: dict[str, int]
    """Label as shown, without brackets → option."""
    label_words: dict[int, str]
    """Option → its label's key."""
    core: dict[int, str]
    """Option → its label with the case folded and the accents kept."""
    outside: frozenset[str]
    """Labels of the same series that are not on offer, as shown."""
    digits: bool
    """Whether labels are numbers."""
    long_labels: bool
    """Whether labels are longer than one sign and so can't be words."""
    latin: bool
    """Whether labels are Latin letters."""
    texts: tuple[OptionText, ...]
    lookup: dict[str, tuple[tuple[int, str, Match], ...]]
    """A word's form → (option, the option's word, how well it matches)."""
    distinctive: dict[int, frozenset[str]]
    """Option → its words that no other option has."""
    near: dict[str, tuple[tuple[str, int], ...]]
    """First letter, and `_` with the second and third → distinctive words, for misspellings and open endings."""
    denying: dict[int, frozenset[str]] = field(default_factory=dict)
    """Option → its words such as "not": they mean it only together with a word beside them in its text."""
    pairs: dict[str, frozenset[tuple[int, str]]] = field(default_factory=dict)
    """A word that a dot may stand behind inside an option's text → the option and its next word: Dr. Rao."""
    endings: frozenset[str] = field(default_factory=frozenset)
    """Endings that a name may have where stripping all of them would take too much of it."""
    articles: frozenset[str] = field(default_factory=frozenset)
    stop: frozenset[str] = field(default_factory=frozenset)


def build_options(  # noqa: PLR0917 - each of them is of another type
    options: tuple[str, ...],
    labels: tuple[str, ...],
    unknown: int | None,
    stemmer: Stemmer,
    articles: frozenset[str],
    stop: frozenset[str],
    negations: frozenset[str] = frozenset(),
) -> OptionSet:
    """The options prepared; texts in another language get that language's stemmer and small words."""
    texts = tuple(_option_text(index, text, index == unknown, articles, stop) for index, text in enumerate(options))
    for text in texts:
        text.needs_sequence = (
            text.is_unknown
            or text.repeats
            or any(set(text.content) == set(other.content) for other in texts if other is not text)
        )
    lookup, distinctive = _word_index(texts, stemmer, articles | stop)
    denying = {text.index: negations.intersection(text.content) for text in texts if _denies(text, negations)}
    for index, words in denying.items():
        distinctive[index] -= words
    shown = {core: index for index, label in enumerate(labels) if (core := label_core(label))}
    digits = all(core.isdigit() for core in shown)
    return OptionSet(
        count=len(options),
        unknown=unknown,
        labels={loose_key(core): index for core, index in shown.items()},
        shown=shown,
        label_words={index: loose_key(core) for core, index in shown.items()},
        core={index: core.casefold() for core, index in shown.items()},
        outside=_outside_labels(tuple(shown)),
        digits=digits,
        long_labels=not digits and all(len(core) > 1 for core in shown),
        latin=all(regex.fullmatch(r"[A-Za-z0-9]+", core) for core in shown),
        texts=texts,
        lookup=lookup,
        distinctive=distinctive,
        near=_near_index(texts, distinctive),
        denying=denying,
        pairs=_dotted_pairs(options, texts),
        endings=stemmer.endings,
        articles=articles,
        stop=stop,
    )


@lru_cache(maxsize=1024)
def label_core(label: str) -> str:
    """A label without brackets, dots and emphasis: `(A)` → `A`, `Option B` → `B`."""
    tokens = tokenise(normalise(label).text)
    return tokens[-1].text if tokens else ""


def _outside_labels(shown: tuple[str, ...]) -> frozenset[str]:
    """Letters or numbers of the labels' own series that are not on offer."""
    if all(len(core) == 1 and "A" <= core <= "Z" for core in shown):
        return frozenset("ABCDEFGHIJ") - frozenset(shown)
    if all(len(core) == 1 and "a" <= core <= "z" for core in shown):
        return frozenset("ABCDEFGHIJ") - frozenset(core.upper() for core in shown)
    if all(core.isdigit() for core in shown):
        return frozenset(str(number) for number in range(11)) - frozenset(shown)
    return frozenset()


def _option_text(index: int, text: str, is_unknown: bool, articles: frozenset[str], stop: frozenset[str]) -> OptionText:
    keys = [token.key for token in tokenise(normalise(text).text)]
    article = None
    while len(keys) > 1 and keys[0] in articles:
        article = keys.pop(0)
    per_character = bool(UNSPACED.search(text))
    content = keys if per_character else [key for key in keys if key not in articles and key not in stop]
    return OptionText(
        index=index,
        is_unknown=is_unknown,
        tokens=tuple(keys),
        article=article,
        content=tuple(dict.fromkeys(content or keys)),
        repeated={word: count for word, count in Counter(content or keys).items() if count > 1},
        per_character=per_character,
        repeats=len(set(content)) < len(content) and not per_character,
    )


def _word_index(
    texts: tuple[OptionText, ...], stemmer: Stemmer, small: frozenset[str]
) -> tuple[dict[str, tuple[tuple[int, str, Match], ...]], dict[int, frozenset[str]]]:
    """Forms → options, and the words that tell options apart.

    Where options share a stem (`amigo` and `amiga`, a teacher and the teacher's friend), it belongs to all of them: the
    better match wins, and a tie between two options means neither.
    """
    owners: dict[str, set[tuple[int, str]]] = {}
    for option in texts:
        for word in set(option.tokens):
            for form in stemmer.forms(word):
                owners.setdefault(form, set()).add((option.index, word))
    lookup: dict[str, tuple[tuple[int, str, Match], ...]] = {}
    for form, pairs in owners.items():
        match: Match = "inflected" if form[0] in "~≈" else "exact"
        lookup[form] = tuple((index, word, match) for index, word in sorted(pairs))
    distinctive = {
        option.index: frozenset(
            word
            for word in option.content
            if not (option.per_character and word in small)
            and not any(
                word in other.tokens
                for other in texts
                if other.index != option.index and not (other.is_unknown and option.per_character)
            )
        )
        for option in texts
    }
    return lookup, distinctive


def _denies(text: OptionText, negations: frozenset[str]) -> bool:
    """Whether an option's text holds a word such as "not" beside others: "The not religious neighbour"."""
    if text.per_character or text.needs_sequence:
        return False
    return not negations.isdisjoint(text.content) and not negations.issuperset(text.content)


def _dotted_pairs(options: tuple[str, ...], texts: tuple[OptionText, ...]) -> dict[str, frozenset[tuple[int, str]]]:
    """The words that have a dot behind them inside a text, or are short enough for an abbreviation."""
    pairs: dict[str, set[tuple[int, str]]] = {}
    for text, option in zip(texts, options, strict=True):
        if text.per_character:
            continue
        dotted = "." in option.rstrip(" .")
        for word, following in itertools.pairwise(text.tokens):
            if dotted or len(word) <= MAX_TITLE:
                pairs.setdefault(word, set()).add((text.index, following))
    return {word: frozenset(found) for word, found in pairs.items()}


def _near_index(
    texts: tuple[OptionText, ...], distinctive: dict[int, frozenset[str]]
) -> dict[str, tuple[tuple[str, int], ...]]:
    near: dict[str, list[tuple[str, int]]] = {}
    for option in texts:
        if option.is_unknown:
            continue
        for word in distinctive[option.index]:
            if len(word) >= 3 and _CASED.search(word) and not word.isdigit():
                keys = (word[0], f"_{word[1:3]}") if len(word) >= LONG_START else (word[0],)
                for key in keys:
                    near.setdefault(key, []).append((word, option.index))
    return {start: tuple(words) for start, words in near.items()}


def join_abbreviations(tokens: list[Token], options: OptionSet, stemmer: Stemmer) -> None:
    """Takes the sentence end out of a dot that stands between two words of an option's text: "Dr. Rao"."""
    pairs = options.pairs
    if not pairs:
        return
    for place, token in enumerate(tokens):
        if token.break_before == SENTENCE and place and token.gap.rstrip() == "." and tokens[place - 1].key in pairs:
            meant = pairs[tokens[place - 1].key]
            forms = stemmer.forms(token.key)
            if any((index, word) in meant for form in forms for index, word, _ in options.lookup.get(form, ())):
                token.gap, token.break_before = " ", NO_BREAK


@lru_cache(maxsize=65536)
def edits(left: str, right: str, limit: int) -> int:
    """The Damerau (optimal string alignment) distance, or `limit + 1` where it is more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]


def fuzzy_option(
    key: str, near: tuple[tuple[str, int], ...], rules: TextRules, endings: frozenset[str] = frozenset()
) -> tuple[int, str, Match] | None:
    """The option whose word a misspelt or strangely inflected word means, if exactly one fits best."""
    found: list[tuple[int, int, str, Match]] = []
    for word, index in near:
        extra = len(key) - len(word)
        if extra > 0 and len(word) >= 3 and key.startswith(word) and _may_end(key[len(word) :], rules, endings):
            found.append((0, index, word, "inflected"))
            continue
        size = min(len(word), len(key))
        if size < MIN_FUZZY or abs(extra) > 2:
            continue
        limit = 2 if size >= LONG_FUZZY else 1
        distance = edits(key, word, limit)
        if distance <= limit:
            found.append((distance, index, word, "fuzzy"))
    nearest = [entry for entry in sorted(found) if entry[0] == min(found)[0]]
    if len({index for _, index, _, _ in nearest}) != 1:
        return None
    return nearest[0][1:]


def _may_end(ending: str, rules: TextRules, endings: frozenset[str]) -> bool:
    """Whether letters behind a word are an ending, one that the pack lists or a short enough one."""
    return len(ending) <= rules.open_suffix or ending in endings


def look_alike(text: str) -> str:
    """The Latin letter that a single Cyrillic or Greek letter looks like, else the text itself."""
    return text.translate(LOOK_ALIKES) if len(text) == 1 else text
