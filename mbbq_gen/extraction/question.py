"""A question as it was shown; prepared for matching: options, labels and predicate; and what English calls its people.

`extractors/people/xx.toml` says which words of a language an English noun or adjective stands for. An option whose
words stand there gets the English words that a response speaks as its text ("the plumber" for "De loodgieter").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pydantic import Field

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction.lexicon import CLASSES, SMALL, Lexicon, Stemmer, Token
from mbbq_gen.extraction.lines import mark_phrases, read_lines
from mbbq_gen.extraction.text import HIRAGANA, UNSPACED, WORD, loose_key, normalise
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack


class QuestionKey(NamedTuple):
    """What a question is prepared from."""

    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown: int | None
    sentence: str | None = None
    """The question's own sentence; None where it is not known."""
    shared: frozenset[str] = frozenset()
    """Forms of its words that its context has, too."""


@dataclass(frozen=True)
class Question:
    """A question, as it was shown."""

    options: Sequence[str]
    """The options' texts, 2 to 10."""
    labels: Sequence[str]
    """Their labels, in the same order; an option shown without one has its text for a label."""
    unknown_index: int | None
    """Place of the unknown option; None where there is none."""
    prompt: str | None = None
    """The prompt: its last question gives the predicate of an answer, and an echo of it is no answer."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Language → the options' texts in it, tried where nothing else is found."""

    def __post_init__(self) -> None:
        """Raises UsageError where options, labels, unknown option and aliases don't fit together."""
        count = len(self.options)
        if not 2 <= count <= 10:
            raise UsageError(f"options: {count} of them; 2 to 10 can be read")
        if len(self.labels) != count:
            raise UsageError(f"labels: {len(self.labels)} of them for {count} options; give one label for each option")
        if self.unknown_index is not None and not 0 <= self.unknown_index < count:
            raise UsageError(f"unknown_index: {self.unknown_index} is not an index into {count} options")
        for language, texts in self.aliases.items():
            if len(texts) != count:
                raise UsageError(f"aliases.{language}: {len(texts)} texts for {count} options")

    def key(self, sentence: str | None = None, shared: frozenset[str] = frozenset()) -> QuestionKey:
        """What it is prepared from."""
        return QuestionKey(tuple(self.options), tuple(self.labels), self.unknown_index, sentence, shared)


MAX_KEPT = 4096
"""Texts of options and questions that are kept with their words: a benchmark shows each of them again and again."""
MIN_PART = 5
"""Letters of a part of a compound."""
MIN_VERB = 6
"""Letters of a word that denies and says what: Turkish "kaybetmedi"."""
NEGATIONS = CLASSES["neg"] | CLASSES["neither"] | CLASSES["cannot"] | CLASSES["lack"]
_JOINS = CLASSES["conj"] | CLASSES["because"] | CLASSES["but"] | CLASSES["relative"]


@dataclass(slots=True)
class OptionTokens:
    """One option's text."""

    keys: tuple[str, ...]
    """Its words in order, without leading articles."""
    whole: tuple[str, ...]
    """All its words in order."""
    content: frozenset[str]
    """Stems of its content words."""
    forms: dict[str, frozenset[str]]
    """Stem → the forms that other ways of stripping endings give."""
    roots: dict[str, str]
    """Stem → stem without gender."""
    denying: frozenset[str]
    """Stems such as "not": they name it only beside another of its words."""
    anybody: bool
    """Whether it is anybody of a kind itself: "a baker"."""
    index: int = 0


@dataclass(frozen=True, slots=True)
class LabelTokens:
    """The labels of the options."""

    option_of: dict[str, int]
    """Label as shown, without brackets → option."""
    folded: dict[str, int]
    """The same with the case folded."""
    texts: frozenset[str]
    """Everything that may be a label as it is written."""


@dataclass(slots=True)
class PreparedQuestion:
    """Options, labels, and the predicate of the question."""

    options: tuple[str, ...]
    unknown: int | None
    persons: list[int]
    """Indices of the options that are people."""
    texts: list[OptionTokens]
    keys: frozenset[str]
    """All words of the options."""
    shown: LabelTokens
    owners: dict[str, int]
    """Stem → bits of the persons whose content word it is."""
    alone: dict[str, int]
    """Stem → the one person that has it."""
    sequences: dict[str, list[tuple[int, tuple[str, ...]]]]
    """First word of an option's text → the options that begin with it and all their words, the longest first."""
    roots: dict[str, str]
    """Stem without gender → the only stem that has it."""
    forms: dict[str, str]
    """Any form of a content word, if no other one has it → its stem."""
    triggers: frozenset[str]
    """All forms and first words of options: a word of none of whose forms is here names no option by its text."""
    unspaced: bool
    """Whether words are characters, so that pairs of them make the predicate."""
    verb_final: bool
    """Whether negations stand after what they deny."""
    elision: bool
    """Whether a letter before an apostrophe is a word of the language."""
    and_before: tuple[str, ...]
    """What says "and", written together with the second of two people."""
    predicate: frozenset[str] = frozenset()
    """Stems of the content words of the question."""
    core: tuple[frozenset[str], ...] = ()
    """Stems of each of them that the context has not, pairs of characters one by one; empty where it has all."""
    negated: bool = False
    """Whether the question asks who did not, or did without."""

    def begins_second(self, key: str) -> bool:
        """Whether a word begins with "and": Arabic وحفيد; not where an option has it as it is."""
        return bool(self.and_before) and key.startswith(self.and_before) and key not in self.keys


@lru_cache(maxsize=1024)
def shared_forms(prompt: str, sentence: str, lexicon: Lexicon) -> frozenset[str]:
    """Stems, and pairs of characters, of a question's own sentence that the prompt before it has, too: of two
    people who stand at a machine, "Who had trouble with the machine?" asks about trouble."""
    words = _words(normalise(prompt).text.partition(sentence)[0], lexicon)
    question, known = _words(sentence, lexicon), {word.stem for word in words}
    shared = {form for word in question if word.stem in known for form in (word.stem, *word.reach)}
    return frozenset(shared.union(set(_pairs(question)).intersection(_pairs(words))))


def build_question(key: QuestionKey, lexicon: Lexicon) -> PreparedQuestion:
    """The question prepared; `lexicon`: the language that its texts are in."""
    unknown = key.unknown
    texts = [replace(_option_tokens(text, lexicon), index=index) for index, text in enumerate(key.options)]
    persons = [text for text in texts if text.index != unknown]
    owners: dict[str, int] = {}
    for stem, index in [(stem, text.index) for text in persons for stem in text.content]:
        owners[stem] = owners.get(stem, 0) | 1 << index
    own = {text.index: {stem for stem in text.content if owners[stem] == 1 << text.index} for text in persons}
    stem_of = lexicon.stemmer.forms
    for text in persons:
        if not own[text.index]:  # all its content words are the other's, too: its small words tell it apart
            others = {stem_of(word)[0] for other in persons if other is not text for word in other.keys}
            own[text.index] = {stem_of(word)[0] for word in text.keys} - others
            text.denying = frozenset(own[text.index])
            owners.update(dict.fromkeys(text.denying, 1 << text.index))
    if lexicon.compounds:
        parts = _compound_parts(own)
        owners.update({part: bits for part, bits in parts.items() if not bits & (bits - 1) and part not in owners})
    roots: dict[str, str] = {}
    forms: dict[str, str] = {}
    for text in persons:
        for stem, root in text.roots.items():
            known = roots.setdefault(root, stem)
            if known != stem and owners.get(known) != owners[stem]:
                roots[root] = ""
        for stem, others_of in text.forms.items():
            for form in others_of:
                forms[form] = stem if forms.get(form, stem) == stem else ""
    roots = {root: stem for root, stem in roots.items() if stem and root not in owners}
    forms = {form: stem for form, stem in forms.items() if stem in owners and form not in owners}
    forms |= {stem: stem for stem in owners}
    sequences: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    rows = {(text.index, words) for text in texts for words in (text.keys, text.whole) if words}
    for index, words in sorted(rows, key=lambda row: (-len(row[1]), row)):
        if words == texts[index].keys or index != unknown:
            sequences.setdefault(words[0], []).append((index, words))
    labels = ("" if label == text else label for label, text in zip(key.labels, key.options, strict=True))
    question = PreparedQuestion(
        options=key.options,
        unknown=unknown,
        persons=[text.index for text in persons],
        texts=texts,
        keys=frozenset(word for text in texts for word in text.keys),
        shown=_label_tokens(tuple(labels)),
        owners=owners,
        alone={stem: bits.bit_length() - 1 for stem, bits in owners.items() if not bits & (bits - 1)},
        sequences=sequences,
        roots=roots,
        forms=forms,
        triggers=frozenset((*owners, *roots, *forms, *sequences)),
        unspaced=any(UNSPACED.search(text) is not None for text in key.options),
        verb_final=lexicon.verb_final,
        elision=lexicon.elision,
        and_before=lexicon.and_before,
    )
    if key.sentence:
        _add_predicate(question, key.sentence, key.shared, lexicon)
    return question


def _compound_parts(own: dict[int, set[str]]) -> dict[str, int]:
    """First and last parts of long stems, with bits of their owners: "rolstoel" of "rolstoelbasketballer"."""
    parts: dict[str, int] = {}
    for index, stems in own.items():
        for stem in (stem for stem in stems if len(stem) >= 2 * MIN_PART):
            for length in range(MIN_PART, len(stem) - MIN_PART + 1):
                for part in (stem[:length], stem[-length:]):
                    parts[part] = parts.get(part, 0) | 1 << index
    return parts


def _add_predicate(question: PreparedQuestion, sentence: str, shared: frozenset[str], lexicon: Lexicon) -> None:
    """Adds the predicate: the content words of the question, those that its context shares only where it has no
    others, and whether it asks who did not."""
    words = _words(sentence, lexicon)
    question.negated = any(word.classes & NEGATIONS for word in words)
    if question.unspaced and not question.negated:  # where words are characters, only rows of them deny
        for line in read_lines(sentence, lexicon):
            mark_phrases(line, lexicon.rows)
            question.negated = question.negated or any([mask & NEGATIONS for mask in line.masks])
    content = [
        word
        for word in words
        if not word.classes & (SMALL | CLASSES["who"])
        and (not word.classes & NEGATIONS or len(word.key) >= MIN_VERB)
        and word.stem not in question.owners
        and len(word.key) > 1
    ]
    pairs = [  # without parts of options, endings, and question words
        one.key + two.key
        for one, two in pairwise(words)
        if UNSPACED.match(one.key)
        and UNSPACED.match(two.key)
        and not (one.key in question.keys and two.key in question.keys)
        and not (HIRAGANA.match(one.key) and HIRAGANA.match(two.key))
        and not (one.classes | two.classes) & CLASSES["who"]
    ]
    forms = [frozenset((word.stem, *word.reach)) for word in content] + [frozenset((pair,)) for pair in pairs]
    predicate = frozenset().union(*forms)
    question.predicate = predicate - shared or predicate
    question.core = tuple(own for own in forms if not own & shared or not predicate - shared)


@lru_cache(maxsize=MAX_KEPT)
def _words(text: str, lexicon: Lexicon) -> list[Token]:
    """The words of a text."""
    return list(map(lexicon.__getitem__, WORD.findall(normalise(text).text)))


def _pairs(words: list[Token]) -> list[str]:
    """Characters that are words, two and two."""
    return [one.key + two.key for one, two in pairwise(words) if UNSPACED.match(one.key) and UNSPACED.match(two.key)]


@lru_cache(maxsize=MAX_KEPT)
def _option_tokens(text: str, lexicon: Lexicon) -> OptionTokens:
    """An option's text by itself, without regard to the other options."""
    words = _words(text, lexicon)
    whole = tuple(word.key for word in words)
    if UNSPACED.search(text) is None or not all(word.classes & SMALL for word in words):  # Chinese 本地人
        while len(words) > 1 and words[0].classes & SMALL and not words[0].classes & NEGATIONS:
            words = words[1:]
    content = [
        word
        for word in words
        if len(word.key) > 1
        and (
            word.classes & NEGATIONS
            or not (word.classes & (SMALL | _JOINS) or (word.classes & CLASSES["who"] and word.stem == word.key))
        )
    ]
    content = content or [word for word in words if not HIRAGANA.match(word.key)] or words
    return OptionTokens(
        tuple(word.key for word in words),
        whole,
        frozenset(word.stem for word in content),
        {w.stem: forms for w in content if (forms := w.reach or lexicon.stemmer.made_from(w.key))},
        {word.stem: word.root for word in content},
        frozenset(word.stem for word in content if word.classes & NEGATIONS),
        any(word.classes & CLASSES["indefinite"] for word in _words(text, lexicon)),
    )


@lru_cache(maxsize=MAX_KEPT)
def _label_tokens(labels: tuple[str, ...]) -> LabelTokens:
    """The labels by themselves."""
    cores = {core: index for index, label in enumerate(labels) if (core := label_core(label))}
    return LabelTokens(
        cores,
        {core.casefold(): index for core, index in cores.items()},
        frozenset(form for core in cores for form in (core, core.lower(), core.upper(), core.capitalize())),
    )


def label_core(label: str) -> str:
    """A label without brackets, dots and emphasis: `(A)` → `A`, `Option B` → `B`."""
    found = WORD.findall(normalise(label).text)
    return found[-1] if found else ""


MIN_PREFIX, MAX_REST = 5, 3
"""Letters of a word that an unlisted ending may follow, and letters of such an ending."""


class PersonWordsPack(Pack):
    """What people are called in a language."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    words: dict[Text, tuple[Text, ...]] = Field(default_factory=dict)
    """An English noun or adjective, small letters → the words that it stands for."""


@dataclass(frozen=True, slots=True)
class PersonTranslation:
    """An English name and the words of a language that it stands for, as keys."""

    english: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=64)
def read_people(resources: PackPaths, language: str) -> tuple[PersonTranslation, ...]:
    """What people are called in a language, longer English names first; nothing where no file says."""
    path = resources.find("extractors", f"people/{language}")
    if path is None:
        return ()
    pack = validate_pack(PersonWordsPack, read_toml(path), path)
    rows = [PersonTranslation(_keys(name), tuple(_keys(word) for word in words)) for name, words in pack.words.items()]
    return tuple(sorted(rows, key=lambda row: (-len(row.english), row.english)))


def english_texts(
    options: Sequence[str],
    unknown: int | None,
    words: Iterable[Token],
    people: Sequence[PersonTranslation],
    stemmer: Stemmer,
) -> tuple[str, ...] | None:
    """The options' texts with the English words of a response for theirs; None where it speaks of none of them."""
    stem_of = stemmer.forms
    spoken = {form for known in words for form in (known.key, known.stem)}
    said = [row for row in people if all(word in spoken or stem_of(word)[0] in spoken for word in row.english)]

    def stands_in(word: str, keys: Sequence[str]) -> bool:
        """Whether a word stands among others, with whatever ending."""
        stem, is_long = stem_of(word)[0], len(word) >= MIN_PREFIX
        return any(
            stem_of(key)[0] == stem or (is_long and key.startswith(word) and len(key) - len(word) <= MAX_REST)
            for key in keys
        )

    texts = list(options)
    for index, option in enumerate(options):
        keys = _keys(option)
        joined = "".join(keys) if UNSPACED.search(option) else None
        rows = [
            row
            for row in (said if index != unknown else ())
            if any(
                all(stands_in(part, keys) for part in word) if joined is None else "".join(word) in joined
                for word in row.words
            )
        ]
        english = dict.fromkeys(word for row in rows for word in row.english)
        texts[index] = f"The {' '.join(english)}" if english else option
    if texts == list(options) or len(set(texts)) < len(texts):
        return None
    return tuple(texts)


def _keys(text: str) -> tuple[str, ...]:
    return tuple(loose_key(word) for word in WORD.findall(normalise(text).text))
