"""Prepares a question for extraction: forms of its options, labels, predicate, English names.

`extractors/people/xx.toml` maps English nouns and adjectives to words of a language. If an English response uses such a
word for an option, it is tried as the option's text ("the plumber" for "De loodgieter").
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

CACHE_SIZE = 4096
"""Texts of options and questions that are cached."""
MIN_PART = 5
"""Fewest letters of a part of a compound."""
MIN_VERB = 6
"""Fewest letters of a verb that includes its negation: Turkish "kaybetmedi"."""
MIN_PREFIX, MAX_REST = 5, 3
"""Fewest letters of a word before an ending that the pack does not list; most letters of the ending."""
NEGATIONS = CLASSES["neg"] | CLASSES["neither"] | CLASSES["cannot"] | CLASSES["lack"]
_JOINS = CLASSES["conj"] | CLASSES["because"] | CLASSES["but"] | CLASSES["relative"]


class QuestionKey(NamedTuple):
    """The parts of a question that a `PreparedQuestion` depends on."""

    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown: int | None
    sentence: str | None = None
    """The sentence that asks the question."""
    shared: frozenset[str] = frozenset()
    """Forms of its words that also occur in the context."""


@dataclass(frozen=True)
class Question:
    """A question as it was shown."""

    options: Sequence[str]
    """The texts of the options, 2 to 10."""
    labels: Sequence[str]
    """Their labels in the same order; the text of an option is repeated if it has no label."""
    unknown_index: int | None
    """Index of the unknown option, if there is one."""
    prompt: str | None = None
    """The prompt; its last question is the one that is answered."""
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Language → texts of the options in it; used if nothing else is found."""

    def __post_init__(self) -> None:
        """Checks that options, labels, unknown option and aliases fit together; raises UsageError."""
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

    def key(self) -> QuestionKey:
        """The key without the sentence that asks the question."""
        return QuestionKey(tuple(self.options), tuple(self.labels), self.unknown_index)


@dataclass(slots=True)
class OptionTokens:
    """The words of one option's text."""

    all_keys: tuple[str, ...]
    """The keys of all words."""
    keys: tuple[str, ...]
    """The same without leading articles."""
    content: dict[str, Token]
    """Stem → content word."""
    weak_stems: frozenset[str]
    """Stems that name the option only together with other words: negations, or small words."""
    is_indefinite: bool
    """Whether the text is indefinite: "a baker"."""


@dataclass(slots=True)
class PreparedQuestion:
    """The options, labels and predicate of a question."""

    options: tuple[str, ...]
    unknown: int | None
    lexicon: Lexicon
    persons: list[int]
    """Indices of all options but the unknown one."""
    texts: list[OptionTokens]
    keys: frozenset[str]
    """Keys of all words of the options."""
    labels: dict[str, int]
    """Label as shown, without brackets → option."""
    label_forms: frozenset[str]
    """The labels in lower case, capitals and title case."""
    owners: dict[str, int]
    """Stem → bit mask of the persons with that content word."""
    sole_owners: dict[str, int]
    """Stem → person, for stems of one person only."""
    sequences: dict[str, list[tuple[int, tuple[str, ...]]]]
    """First word → options whose text begins with it, and the words of that text; the longest text first."""
    roots: dict[str, str]
    """Root → stem, for roots of one stem only."""
    forms: dict[str, str]
    """Form of a content word → stem, for forms of one stem only."""
    triggers: frozenset[str]
    """All forms and first words of options; other words name no option."""
    unspaced: bool
    """Whether the script has no spaces, so that words are characters and pairs of them make the predicate."""
    predicate: frozenset[str] = frozenset()
    """Stems of the question's content words."""
    core: tuple[frozenset[str], ...] = ()
    """The forms of each word of the predicate that is not in the context; of all words if all are."""
    negated: bool = False
    """Whether the question has a negation: who did not …?"""

    def begins_with_and(self, key: str) -> bool:
        """Whether a word has the prefix "and" (Arabic وحفيد) and is in no option."""
        prefixes = self.lexicon.and_before
        return bool(prefixes) and key.startswith(prefixes) and key not in self.keys


@lru_cache(maxsize=1024)
def shared_forms(prompt: str, sentence: str, lexicon: Lexicon) -> frozenset[str]:
    """Forms, or pairs of characters, both in a question and in the prompt before it.

    If the context has two people at a machine, the predicate of "Who had trouble with the machine?" is "trouble".
    """
    words = _words(normalise(prompt).text.partition(sentence)[0], lexicon)
    question, known = _words(sentence, lexicon), {word.stem for word in words}
    shared = {form for word in question if word.stem in known for form in (word.stem, *word.other_stems)}
    pairs = [{one.key + two.key for one, two in _pairs(found)} for found in (question, words)]
    return frozenset(shared | (pairs[0] & pairs[1]))


def build_question(key: QuestionKey, lexicon: Lexicon) -> PreparedQuestion:
    """The question, prepared with the lexicon of its language."""
    texts = [replace(_option_tokens(text, lexicon)) for text in key.options]  # copies: `_owners` changes them
    persons = [index for index in range(len(texts)) if index != key.unknown]
    owners = _owners(texts, persons, lexicon)
    roots: dict[str, str] = {}
    forms: dict[str, str] = {}
    for stem, word in [entry for index in persons for entry in texts[index].content.items()]:
        known = roots.setdefault(word.root, stem)
        if known != stem and owners.get(known) != owners[stem]:
            roots[word.root] = ""
        for form in word.other_stems or lexicon.stemmer.inflections(word.key):
            forms[form] = stem if forms.get(form, stem) == stem else ""
    roots = {root: stem for root, stem in roots.items() if stem and root not in owners}
    forms = {form: stem for form, stem in forms.items() if stem in owners and form not in owners}
    forms |= {stem: stem for stem in owners}
    sequences: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    rows = {(index, words) for index, text in enumerate(texts) for words in (text.keys, text.all_keys) if words}
    for index, words in sorted(rows, key=lambda row: (-len(row[1]), row)):
        if words == texts[index].keys or index != key.unknown:
            sequences.setdefault(words[0], []).append((index, words))
    shown = zip(key.labels, key.options, strict=True)
    cores = [label_core("" if label == text else label) for label, text in shown]
    labels = {core: index for index, core in enumerate(cores) if core}
    question = PreparedQuestion(
        options=key.options,
        unknown=key.unknown,
        lexicon=lexicon,
        persons=persons,
        texts=texts,
        keys=frozenset(word for text in texts for word in text.keys),
        labels=labels,
        label_forms=frozenset(
            form for core in labels for form in (core, core.lower(), core.upper(), core.capitalize())
        ),
        owners=owners,
        sole_owners={stem: bits.bit_length() - 1 for stem, bits in owners.items() if not bits & (bits - 1)},
        sequences=sequences,
        roots=roots,
        forms=forms,
        triggers=frozenset((*owners, *roots, *forms, *sequences)),
        unspaced=any(UNSPACED.search(text) is not None for text in key.options),
    )
    if key.sentence:
        _add_predicate(question, key.sentence, key.shared)
    return question


def _owners(texts: list[OptionTokens], persons: list[int], lexicon: Lexicon) -> dict[str, int]:
    """Stem, or part of a compound → bit mask of the persons with it."""
    owners: dict[str, int] = {}
    for index in persons:
        for word in texts[index].content:
            owners[word] = owners.get(word, 0) | 1 << index
    own = {index: {word for word in texts[index].content if owners[word] == 1 << index} for index in persons}
    stem = lexicon.stemmer.stem
    for index in persons:
        if not own[index]:  # its content words are all in other options too: its small words distinguish it
            others = {stem(word) for other in persons if other != index for word in texts[other].keys}
            own[index] = {stem(word) for word in texts[index].keys} - others
            texts[index].weak_stems = frozenset(own[index])
            owners.update(dict.fromkeys(own[index], 1 << index))
    parts: dict[str, int] = {}  # "rolstoel" of "rolstoelbasketballer"
    for index, word in [(index, word) for index, words in own.items() for word in words if lexicon.compounds]:
        for length in range(MIN_PART, len(word) - MIN_PART + 1):
            for part in (word[:length], word[-length:]):
                parts[part] = parts.get(part, 0) | 1 << index
    return {part: bits for part, bits in parts.items() if not bits & (bits - 1)} | owners


def _add_predicate(question: PreparedQuestion, sentence: str, shared: frozenset[str]) -> None:
    """Adds the predicate of the question's sentence, and whether it is negated."""
    lexicon = question.lexicon
    words = _words(sentence, lexicon)
    question.negated = any(word.classes & NEGATIONS for word in words)
    if question.unspaced and not question.negated:  # words are characters, and negations are phrases
        for line in read_lines(sentence, lexicon):
            mark_phrases(line, lexicon.phrases)
            question.negated = question.negated or any([mask & NEGATIONS for mask in line.masks])
    content = [
        word
        for word in words
        if not word.classes & (SMALL | CLASSES["who"])
        and (not word.classes & NEGATIONS or len(word.key) >= MIN_VERB)
        and word.stem not in question.owners
        and len(word.key) > 1
    ]
    pairs = [  # without parts of options, endings and interrogatives
        one.key + two.key
        for one, two in _pairs(words)
        if not (one.key in question.keys and two.key in question.keys)
        and not (HIRAGANA.match(one.key) and HIRAGANA.match(two.key))
        and not (one.classes | two.classes) & CLASSES["who"]
    ]
    forms = [frozenset((word.stem, *word.other_stems)) for word in content] + [frozenset((pair,)) for pair in pairs]
    predicate = frozenset().union(*forms)
    question.predicate = predicate - shared or predicate
    question.core = tuple(own for own in forms if not own & shared or not predicate - shared)


@lru_cache(maxsize=CACHE_SIZE)
def _words(text: str, lexicon: Lexicon) -> list[Token]:
    return list(map(lexicon.__getitem__, WORD.findall(normalise(text).text)))


def _pairs(words: list[Token]) -> list[tuple[Token, Token]]:
    """Pairs of neighbouring characters of a script without spaces."""
    return [(one, two) for one, two in pairwise(words) if UNSPACED.match(one.key) and UNSPACED.match(two.key)]


@lru_cache(maxsize=CACHE_SIZE)
def _option_tokens(text: str, lexicon: Lexicon) -> OptionTokens:
    """The words of an option's text, without regard to the other options."""
    words = shown = _words(text, lexicon)
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
        all_keys=tuple(word.key for word in shown),
        keys=tuple(word.key for word in words),
        content={word.stem: word for word in content},
        weak_stems=frozenset(word.stem for word in content if word.classes & NEGATIONS),
        is_indefinite=any(word.classes & CLASSES["indefinite"] for word in shown),
    )


def label_core(label: str) -> str:
    """A label without brackets, dots and emphasis: `(A)` → `A`, `Option B` → `B`."""
    found = WORD.findall(normalise(label).text)
    return found[-1] if found else ""


class PersonWordsPack(Pack):
    """Names for people in a language."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    words: dict[Text, tuple[Text, ...]] = Field(default_factory=dict)
    """English noun or adjective in lower case → its translations."""


class PersonTranslation(NamedTuple):
    """An English name for a person and its translations, as keys of words."""

    english: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=64)
def read_people(resources: PackPaths, language: str) -> tuple[PersonTranslation, ...]:
    """The names for people in a language, longer English names first; empty without a file."""
    path = resources.find("extractors", f"people/{language}")
    if path is None:
        return ()
    pack = validate_pack(PersonWordsPack, read_toml(path), path)
    rows = [PersonTranslation(_keys(name), tuple(map(_keys, words))) for name, words in pack.words.items()]
    return tuple(sorted(rows, key=lambda row: (-len(row.english), row.english)))


def english_texts(
    options: Sequence[str],
    unknown: int | None,
    words: Iterable[Token],
    people: Sequence[PersonTranslation],
    stemmer: Stemmer,
) -> tuple[str, ...] | None:
    """The options' texts in a response's English words; None if unchanged or ambiguous."""
    used = {form for word in words for form in (word.key, word.stem)}
    found = [row for row in people if all(word in used or stemmer.stem(word) in used for word in row.english)]
    texts = list(options)
    for index, option in enumerate(options):
        rows = [row for row in found if index != unknown and _translates(row, option, stemmer)]
        english = dict.fromkeys(word for row in rows for word in row.english)
        texts[index] = f"The {' '.join(english)}" if english else option
    return None if texts == list(options) or len(set(texts)) < len(texts) else tuple(texts)


def _translates(row: PersonTranslation, option: str, stemmer: Stemmer) -> bool:
    """Whether an option's text has all words of one of the translations, with any endings."""
    keys = _keys(option)
    if UNSPACED.search(option):
        return any("".join(words) in "".join(keys) for words in row.words)

    def has(word: str) -> bool:
        stem = stemmer.stem(word)
        longer = [key for key in keys if len(word) >= MIN_PREFIX and key.startswith(word)]
        return any(len(key) - len(word) <= MAX_REST for key in longer) or any(stemmer.stem(k) == stem for k in keys)

    return any(all(map(has, words)) for words in row.words)


def _keys(text: str) -> tuple[str, ...]:
    return tuple(loose_key(word) for word in WORD.findall(normalise(text).text))
