"""Tokens of a text, and comparison of word forms in a language."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import regex

from mbbq_gen.languages.control_pack import ControlSet, Substitution


@lru_cache(maxsize=64)
def _word(inner_signs: str, phrases: tuple[str, ...]) -> regex.Pattern[str]:
    """Letters and digits with the signs above, below and behind them: Indic vowels, and what joins or parts letters."""
    part = r"[^\W_][\w\u200c\u200d--_]*"
    whole = "".join(rf"\b{regex.escape(phrase)}\b|" for phrase in phrases)
    return regex.compile(f"{whole}{part}(?:[-{regex.escape(inner_signs)}]{part})*", regex.VERSION1 | regex.IGNORECASE)


_LONG = regex.compile(r"(aa|ee|oo|uu)(?=[^aeiou]+$)")
"""A long vowel of a last syllable."""
LEAST_STEM = 3
"""Letters above which a doubled consonant is one (dikke, dik) and a word may end a compound."""
NAME_LENGTHS = (1, 2, 3, 4)
"""Letters that a first name may have in a language without blanks."""
_BETWEEN = ("", "'", "’")
"""What may stand, blanks aside, between two words of one mention."""


class Word(NamedTuple):
    """A word of a text."""

    text: str
    low: str
    """In lower case by the rules of the language."""
    start: int
    end: int
    gap: str
    """What stands between the word before and this one, without blanks around it."""

    @property
    def follows(self) -> bool:
        """Whether nothing but blanks or an apostrophe parts it from the word before."""
        return self.gap in _BETWEEN


def lower(text: str, control_set: ControlSet) -> str:
    """The text in lower case, letter for letter, so that places stay the same."""
    table = control_set.grammar.lower
    low = text
    for letter, small in table.items():
        low = low.replace(letter, small)
    low = low.lower()
    return low if len(low) == len(text) else "".join(table.get(letter, letter.lower()[0]) for letter in text)


def tokenize(text: str, control_set: ControlSet, also: Iterable[str] = ()) -> list[Word]:
    """The words of a text, in order.

    Args:
        also: words of a language without blanks that part the text as those of its grammar do.
    """
    low, found, before = lower(text, control_set), [], 0
    for start, end in _spans(text, control_set.substitution, frozenset(also)):
        word = text[start:end]
        # Data sets write "Ince" where Turkish has "İnce"; words in ı are rare.
        low_word = "i" + low[start + 1 : end] if word[0] == "I" else low[start:end]
        whole = Word(word, low_word, start, end, text[before:start].strip())
        prefixed = control_set.substitution is not None and control_set.substitution.article_prefix
        found += _without_prefixes(whole, control_set.substitution, also) if prefixed else [whole]
        before = end
    return found


def _without_prefixes(word: Word, rules: Substitution | None, also: Iterable[str]) -> list[Word]:
    """A word, parted from what is joined to its beginning where the rest is known: Arabic و and رجل, of "والرجل".
    Articles are no part of a word in lower case."""
    assert rules is not None
    known = {*also, *rules.heads, *rules.plurals, *rules.collectives, *rules.other_stems}
    whole = {*known, *rules.link_vocabulary}
    if word.low in whole:
        return [word]
    for prefix in ("", *rules.prefixes):
        rest = word.low[len(prefix) :]
        if not word.low.startswith(prefix) or len(rest) < LEAST_STEM - 1:
            continue
        article = rules.article_after.get(prefix, rules.article_prefix)
        bare = rest[len(article) :] if rest.startswith(article) and len(rest) > len(article) + 1 else rest
        if prefix == "" and bare != rest:
            return [word._replace(low=bare)]
        stem = next((one for one in (bare, rest) if prefix and _is_known(one, known, rules)), None)
        if stem is not None:
            place = word.start + len(prefix)
            first = Word(word.text[: len(prefix)], prefix, word.start, place, word.gap)
            return [first, Word(word.text[len(prefix) :], stem, place, word.end, "")]
    return [word]


def _is_known(word: str, known: Iterable[str], rules: Substitution) -> bool:
    """Whether a word is one of the known, endings aside."""
    return word in known or any(word == one + ending for one in known for ending in rules.endings)


def _spans(text: str, rules: Substitution | None, also: frozenset[str]) -> Iterator[tuple[int, int]]:
    """From and to where each word stands."""
    word = _word(rules.inner_signs, rules.phrases) if rules is not None else _word("", ())
    for match in word.finditer(text):
        start, end = match.span()
        if rules is not None and rules.unspaced:
            for known in _known(rules.vocabulary, also).finditer(text, start, end):
                if start < known.start():
                    yield start, known.start()
                start = known.end()
                yield known.span()
        if start < end:
            yield start, end


@lru_cache(maxsize=4096)
def _known(vocabulary: frozenset[str], also: frozenset[str]) -> regex.Pattern[str]:
    """Finds words that are known, the longest first."""
    return regex.compile("|".join(regex.escape(word) for word in sorted(vocabulary | also, key=lambda w: (-len(w), w))))


def phrase(text: str, control_set: ControlSet) -> tuple[str, ...]:
    """The words of a text in lower case."""
    return tuple(word.low for word in tokenize(text, control_set))


class Language:
    """What the grammar says of words, prepared for frequent use."""

    def __init__(self, control_set: ControlSet) -> None:
        assert control_set.substitution is not None
        self.control_set = control_set
        self.rules = rules = control_set.substitution
        self.determiners = frozenset(rules.determiners)
        self.links = tuple(sorted((tuple(phrase(link, control_set)) for link in rules.links), key=len, reverse=True))
        opening = {word for opener in rules.openers for word in phrase(opener, control_set)}
        self.link_words = frozenset(word for link in self.links for word in link) - opening
        self.tails = tuple(tuple(phrase(tail, control_set)) for tail in rules.tails)
        self._endings = tuple(sorted(rules.endings, key=len, reverse=True))
        self.cases = [(ending, form) for form, endings in rules.cases.items() for ending in endings]
        self.forms = lru_cache(maxsize=4096)(self._forms)
        self.same = lru_cache(maxsize=65536)(self._same)
        self.is_head = lru_cache(maxsize=16384)(self._is_head)
        self.stems = lru_cache(maxsize=16384)(self._stems)
        self._without_endings = lru_cache(maxsize=4096)(self._all_stems)
        self.stems_of = lru_cache(maxsize=4096)(self._stems_of)

    def _stems(self, word: str) -> frozenset[str]:
        """The word, and what is left of it without an ending."""
        softened = {soft: hard for hard, soft in self.rules.softened.items()}
        found = {word, self.rules.other_stems.get(word, word)}
        for ending in self._endings:
            stem = word[: -len(ending)]
            if word.endswith(ending) and len(stem) >= self.rules.shortest_stem:
                found.add(stem)
                if stem[-2:-1] == stem[-1] and len(stem) > LEAST_STEM and not self.rules.verbs_agree:
                    found.add(stem[:-1])
                if stem[-1] in softened:
                    found.add(stem[:-1] + softened[stem[-1]])
                if stem in self.rules.other_stems:
                    found.add(self.rules.other_stems[stem])
        if self.rules.long_vowels:
            found |= {_LONG.sub(lambda pair: pair.group()[0], stem) for stem in found}
        return frozenset(found)

    def _all_stems(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Words with and without endings, in an order of their own."""
        return tuple(dict.fromkeys((*words, *(stem for word in words for stem in sorted(self.stems(word))))))

    def _stems_of(self, text: str) -> frozenset[str]:
        """The words of a text, with and without endings; in a language without blanks, all that may be a name."""
        if self.rules.unspaced:
            return frozenset(text[at : at + length] for length in NAME_LENGTHS for at in range(len(text)))
        return frozenset(stem for word in tokenize(text, self.control_set) for stem in self.stems(word.low))

    def _same(self, word: str, other: str) -> bool:
        """Whether a word of a text is a word of the language's lists or of an option, endings aside."""
        if self.rules.declensions:
            return word == other or word in self.forms(other) or other in self.forms(word)
        if self.rules.bases_only:
            return word == other or other in self.stems(word)
        return (
            word == other
            or bool(self.stems(word) & self.stems(other))
            or (
                self.rules.compounds
                and len(other) > LEAST_STEM
                and any(stem.endswith(other) and len(stem) > len(other) + 2 for stem in self.stems(word))
            )
        )

    def _forms(self, word: str) -> dict[str, tuple[str, ...]]:
        """The forms of a word that declines → the cases that each may be: none for forms that tell nothing."""
        first, hyphen, last = word.partition("-")
        if hyphen:
            pairs = itertools.product(self.forms(first).items(), (last, *self.forms(last)))
            return {f"{one}-{other}": cases for (one, cases), other in pairs} | {f"{first}-{last}": ()}
        kind = next((kind for kind in self.rules.declensions if word.endswith(kind.ends)), None)
        if kind is None or len(word) <= kind.drop:
            return {}
        stem = word[: len(word) - kind.drop]
        found: dict[str, tuple[str, ...]] = {stem + ending: () for ending in kind.others}
        for case, endings in kind.cases.items():
            for ending in endings:
                found[stem + ending] = (*found.get(stem + ending, ()), case)
        return found

    def _is_head(self, word: str) -> bool:
        """Whether a word stands for any person."""
        return any(self.same(word, head) for head in self.rules.heads)

    def words(self, text: str, also: Iterable[str] = ()) -> list[Word]:
        """The words of a text, parted as `tokenize` says."""
        return tokenize(text, self.control_set, also)

    def bases(self, words: Sequence[str]) -> tuple[str, ...]:
        """What endings may stand behind: the words of a description, any person, and both without their own endings."""
        found = (*words, *self.rules.heads)
        found += tuple(stem for stem, word in self.rules.other_stems.items() if word in found)
        return found if self.rules.bases_only or not self.rules.cases else self._without_endings(found)

    def is_collective(self, word: str) -> bool:
        """Whether a word means a group that is one thing: a couple, a family."""
        return word in self.rules.collectives or bool(
            self.rules.cases and self.stems(word) & set(self.rules.collectives)
        )

    def is_plural(self, word: str, bases: Sequence[str]) -> bool:
        """Whether a word, one of `bases` with an ending, means several."""
        if word in self.rules.plurals:
            return True
        if self.rules.declensions:
            return False  # a form of the plural has no case
        return word not in bases and any(
            word == base + ending or (self.rules.compounds and len(base) > LEAST_STEM and word.endswith(base + ending))
            for base in (*bases, *self._softened(bases))
            for ending in self.rules.plural_endings
        )

    def _softened(self, bases: Iterable[str]) -> list[str]:
        """The words whose last letter changes before an ending, with that change."""
        return [base[:-1] + self.rules.softened[base[-1]] for base in bases if base[-1] in self.rules.softened]

    def form_of(self, option: str) -> str | None:
        """The form of a name that an option's last word asks for; None where it has no ending."""
        return self._case_and_stem(phrase(option, self.control_set)[-1])[0]

    def _case_and_stem(self, word: str) -> tuple[str | None, str]:
        """The case of an option's last word, by the longest ending that it can have, and what is left without it."""
        for stem in sorted(self.stems(word) - {word}, key=len):
            form = self.case_of(word, (stem,))
            if form is not None:
                return form, stem
        return None, word

    def without_case(self, word: str) -> str:
        """An option's last word without the ending of its case: the shortest stem with which it is in that case."""
        form, stem = self._case_and_stem(word)
        keeps = form is None or not self.rules.article_endings or word.endswith(self.rules.article_endings)
        return word if keeps or word.endswith(self.rules.plural_signs) else stem

    def case_of(self, word: str, bases: Sequence[str]) -> str | None:
        """The form of a name that a word's ending asks for; None where it has no ending.

        Args:
            word: the last word of a mention.
            bases: words without an ending, one of which it may be.
        """
        if word in bases:
            return None
        for base in sorted((*bases, *self._softened(bases)), key=len, reverse=True):
            for ending, form in self.cases:
                if word == base + ending:
                    return form
        return None
