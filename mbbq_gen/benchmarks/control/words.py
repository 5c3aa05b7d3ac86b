"""Tokens of a text, and comparison of word forms in a language."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import regex

from mbbq_gen.languages.control_pack import ControlSet

_LONG = regex.compile(r"(aa|ee|oo|uu)(?=[^aeiou]+$)")
MIN_STEM = 3
"""Longer stems may lose a double consonant (dikke, dik) or end a compound."""
NAME_LENGTHS = (1, 2, 3, 4)
"""Possible numbers of letters of a first name in a language without spaces."""

_SEPARATOR_LISTS = (
    "determiners", "heads", "plurals", "collectives", "modifiers", "modifiers_behind", "numbers", "stand_ins",
    "copulas", "links", "small_words", "relations", "relations_behind", "male_words", "female_words", "group_words",
    "clause_words", "nominalizers", "other_words",
)  # fmt: skip


class Word(NamedTuple):
    """A word of a text."""

    text: str
    low: str
    """In lower case by the rules of the language."""
    start: int
    end: int
    gap: str
    """The punctuation between the previous word and this one, without outer spaces."""

    @property
    def follows(self) -> bool:
        """Whether only spaces or an apostrophe separate it from the previous word."""
        return self.gap in ("", "'", "’")


def _any_of(words: Iterable[str]) -> regex.Pattern[str]:
    """A pattern of words, the longest first."""
    known = sorted(words, key=lambda word: (-len(word), word))
    return regex.compile("|".join(regex.escape(word) for word in known))


class Language:
    """The grammar's rules for words, with caches."""

    def __init__(self, control_set: ControlSet) -> None:
        assert control_set.substitution is not None
        self.control_set = control_set
        self.rules = rules = control_set.substitution
        # Letters and digits with combining marks (Indic vowels) and zero-width joiners.
        part = r"[^\W_][\w\u200c\u200d--_]*"
        whole = "".join(rf"\b{regex.escape(phrase)}\b|" for phrase in rules.phrases)
        pattern = f"{whole}{part}(?:[-{regex.escape(rules.inner_signs)}]{part})*"
        self._word = regex.compile(pattern, regex.VERSION1 | regex.IGNORECASE)
        self._known = lru_cache(maxsize=4096)(lambda also: _any_of(self._separators | also))
        # The lists about people segment a text without spaces: words of several letters, and pronouns.
        lists = (getattr(rules, name) for name in _SEPARATOR_LISTS)
        short = {*rules.nominalizers, *rules.small_words, *rules.male_words, *rules.female_words, *rules.plurals}
        self._separators = {word for words in lists for word in words if len(word) > 1 or word in short}
        # Words from which no prefix is split.
        self._whole = {word for link in rules.links for word in link.split()}
        self._whole |= {*rules.phrases, *rules.small_words, *rules.modifiers, *rules.determiners, *rules.relations}
        self._endings = tuple(sorted(rules.endings, key=len, reverse=True))
        self.cases = [(ending, form) for form, endings in rules.cases.items() for ending in endings]
        self.forms = lru_cache(maxsize=4096)(self._forms)
        self.same = lru_cache(maxsize=65536)(self._same)
        self.is_head = lru_cache(maxsize=16384)(lambda word: self.same_as_any(word, rules.heads))
        self.stems = lru_cache(maxsize=16384)(self._stems)
        self.bases = lru_cache(maxsize=4096)(self._bases)
        self.stems_of = lru_cache(maxsize=4096)(self._stems_of)
        self.determiners = frozenset(rules.determiners)
        self.links = tuple(sorted((self.phrase(link) for link in rules.links), key=len, reverse=True))
        opening = {word for opener in rules.openers for word in self.phrase(opener)}
        self.link_words = frozenset(word for link in self.links for word in link) - opening
        self.tails = tuple(self.phrase(tail) for tail in rules.tails)
        functions = (rules.small_words, rules.clause_words, rules.before_bare, rules.determiners, rules.beside)
        self.functions = frozenset(word for words in functions for word in words)
        """Words beside a person that do not describe it."""

    def words(self, text: str, also: Iterable[str] = ()) -> list[Word]:
        """The words of a text, in order; `also` are more words that segment a text without spaces."""
        table = self.control_set.grammar.lower
        low = "".join(table.get(letter, letter.lower()[0]) for letter in text)  # by letter, to keep the positions
        found, before = list[Word](), 0
        for start, end in self._spans(text, frozenset(also)):
            # Data sets write "Ince" for Turkish "İnce"; words that begin with ı are rare.
            low_word = "i" + low[start + 1 : end] if text[start] == "I" else low[start:end]
            word = Word(text[start:end], low_word, start, end, text[before:start].strip())
            found += self._without_prefixes(word, also) if self.rules.article_prefix else [word]
            before = end
        return found

    def phrase(self, text: str) -> tuple[str, ...]:
        """The words of a text in lower case."""
        return tuple(word.low for word in self.words(text))

    def _spans(self, text: str, also: frozenset[str]) -> Iterator[tuple[int, int]]:
        for match in self._word.finditer(text):
            start, end = match.span()
            for known in self._known(also).finditer(text, start, end) if self.rules.unspaced else ():
                if start < known.start():
                    yield start, known.start()
                start = known.end()
                yield known.span()
            if start < end:
                yield start, end

    def _without_prefixes(self, word: Word, also: Iterable[str]) -> list[Word]:
        """A word split from its prefix, if the rest is known: Arabic و and رجل, of "والرجل".
        `Word.low` does not contain articles."""
        rules = self.rules
        known = {*also, *rules.heads, *rules.plurals, *rules.collectives, *rules.other_stems}
        if word.low in known or word.low in self._whole:
            return [word]
        for prefix in ("", *rules.prefixes):
            rest = word.low[len(prefix) :]
            if not word.low.startswith(prefix) or len(rest) < MIN_STEM - 1:
                continue
            article = rules.article_after.get(prefix, rules.article_prefix)
            bare = rest[len(article) :] if rest.startswith(article) and len(rest) > len(article) + 1 else rest
            if prefix == "" and bare != rest:
                return [word._replace(low=bare)]
            stems = (one for one in (bare, rest) if any(one.removesuffix(end) in known for end in ("", *rules.endings)))
            if prefix and (stem := next(stems, None)) is not None:
                index = word.start + len(prefix)
                first = Word(word.text[: len(prefix)], prefix, word.start, index, word.gap)
                return [first, Word(word.text[len(prefix) :], stem, index, word.end, "")]
        return [word]

    def _stems(self, word: str) -> frozenset[str]:
        softened = {soft: hard for hard, soft in self.rules.softened.items()}
        found = {word, self.rules.other_stems.get(word, word)}
        for ending in self._endings:
            stem = word[: -len(ending)]
            if word.endswith(ending) and len(stem) >= self.rules.shortest_stem:
                found |= {stem, self.rules.other_stems.get(stem, stem)}
                if stem[-2:-1] == stem[-1] and len(stem) > MIN_STEM and not self.rules.verbs_agree:
                    found.add(stem[:-1])
                if stem[-1] in softened:
                    found.add(stem[:-1] + softened[stem[-1]])
        if self.rules.long_vowels:
            found |= {_LONG.sub(lambda pair: pair.group()[0], stem) for stem in found}
        return frozenset(found)

    def _stems_of(self, text: str) -> frozenset[str]:
        """The words of a text, with and without endings; in a language without spaces, all possible names."""
        if self.rules.unspaced:
            return frozenset(text[at : at + length] for length in NAME_LENGTHS for at in range(len(text)))
        return frozenset(stem for word in self.phrase(text) for stem in self.stems(word))

    def _same(self, word: str, other: str) -> bool:
        """Whether a word of a text equals a word of a list or an option, ignoring endings."""
        if word == other:
            return True
        if self.rules.declensions:
            return word in self.forms(other) or other in self.forms(word)
        if self.rules.bases_only:
            return other in self.stems(word)
        stems = self.stems(word)
        is_compound = self.rules.compounds and len(other) > MIN_STEM
        compound = is_compound and any(stem.endswith(other) and len(stem) > len(other) + 2 for stem in stems)
        return compound or bool(stems & self.stems(other))

    def same_as_any(self, word: str, others: Iterable[str]) -> bool:
        """Whether a word equals one of some words, ignoring endings."""
        return any(self.same(word, other) for other in others)

    def _forms(self, word: str) -> dict[str, tuple[str, ...]]:
        """Form of a declined word → its possible cases, none for plural and adjective forms."""
        first, hyphen, last = word.partition("-")
        if hyphen:
            pairs = itertools.product(self.forms(first).items(), (last, *self.forms(last)))
            return {f"{one}-{other}": cases for (one, cases), other in pairs} | {f"{first}-{last}": ()}
        kind = next((kind for kind in self.rules.declensions if word.endswith(kind.ends)), None)
        if kind is None or len(word) <= kind.drop:
            return {}
        stem = word[: len(word) - kind.drop]
        found: dict[str, tuple[str, ...]] = {stem + ending: () for ending in kind.others}
        for case, ending in ((case, ending) for case, endings in kind.cases.items() for ending in endings):
            found[stem + ending] = (*found.get(stem + ending, ()), case)
        return found

    def is_weak(self, word: str) -> bool:
        """Whether a word alone does not distinguish a person: "other", "old"."""
        return self.is_head(word) or word in self.rules.modifiers

    def _bases(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Words without endings: those of a description, general nouns for people, and the stems of both."""
        found = (*words, *self.rules.heads)
        found += tuple(stem for stem, word in self.rules.other_stems.items() if word in found)
        if self.rules.bases_only or not self.rules.cases:
            return found
        return tuple(dict.fromkeys((*found, *(stem for word in found for stem in sorted(self.stems(word))))))

    def is_plural(self, word: str, bases: Sequence[str]) -> bool:
        """Whether a word is plural: a listed one, or one of `bases` with a plural ending."""
        if word in self.rules.plurals:
            return True
        if self.rules.declensions or word in bases:
            return False  # a form of the plural has no case
        return any(
            word == base + ending or (self.rules.compounds and len(base) > MIN_STEM and word.endswith(base + ending))
            for base in (*bases, *self._softened(bases))
            for ending in self.rules.plural_endings
        )

    def _softened(self, bases: Iterable[str]) -> list[str]:
        """The changed forms of words whose last letter changes before an ending."""
        return [base[:-1] + self.rules.softened[base[-1]] for base in bases if base[-1] in self.rules.softened]

    def case_and_stem(self, option: str) -> tuple[str | None, str]:
        """The case of an option's last word, by its longest possible ending, and the stem."""
        word = self.phrase(option)[-1]
        for stem in sorted(self.stems(word) - {word}, key=len):
            if (form := self.case_of(word, (stem,))) is not None:
                return form, stem
        return None, word

    def case_of(self, word: str, bases: Sequence[str]) -> str | None:
        """The form of a name for the ending of a mention's last word; None without an ending.

        `bases` are the possible words without an ending.
        """
        longest = () if word in bases else sorted((*bases, *self._softened(bases)), key=len, reverse=True)
        found = (form for base in longest for ending, form in self.cases if word == base + ending)
        return next(found, None)


class TextWords:
    """The words of a text, with access to their neighbours."""

    def __init__(self, words: Sequence[Word], language: Language) -> None:
        self.words, self.language, self.rules = words, language, language.rules

    def before(self, index: int) -> str:
        """The word before an index, with only spaces between; empty if there is none."""
        return self.words[index - 1].low if index > 0 and not self.words[index].gap else ""

    def after(self, index: int) -> str:
        """The word after an index, with only spaces between; empty if there is none."""
        return self.words[index + 1].low if index + 1 < len(self.words) and not self.words[index + 1].gap else ""

    def ends(self, index: int) -> bool:
        """Whether the text or a part of it ends after an index."""
        return index + 1 >= len(self.words) or bool(self.words[index + 1].gap)
