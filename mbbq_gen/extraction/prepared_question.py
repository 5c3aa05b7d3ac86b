"""The options of a question, prepared for being found; and the question itself, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from mbbq_gen.extraction.lexicon import CLASSES, SMALL, STRAY, Lexicon, Token
from mbbq_gen.extraction.question import ContextCues, QuestionKey
from mbbq_gen.extraction.text import HIRAGANA, UNSPACED, WORD, normalise

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
    """Stems of its telling words."""
    unspaced: bool
    """Whether it has characters that are words."""
    index: int = 0
    distinctive: frozenset[str] = frozenset()
    """Those that no other person has."""
    need: int = 1
    """How many of the distinctive ones make a mention."""
    roots: tuple[tuple[str, str], ...] = ()
    """Its telling stems, each with its stem without gender."""
    forms: tuple[tuple[str, frozenset[str]], ...] = ()
    """Its telling stems, each with what other ways of stripping endings leave of the word."""
    denying: frozenset[str] = frozenset()
    """Stems such as "not": they mean it only beside another of its words."""
    heads: frozenset[str] = frozenset()
    """Stems of its names, where all persons have one: each of them alone means it."""
    anybody: bool = False
    """Whether it is anybody of a kind itself: "a baker"."""
    nested: bool = False
    """Whether every telling word is also another person's: only all of them together mean it."""


@dataclass(frozen=True, slots=True)
class LabelTokens:
    """The labels of the options."""

    option_of: dict[str, int]
    """Label as shown, without brackets → option."""
    folded: dict[str, int]
    """The same with the case folded."""
    texts: frozenset[str]
    """Everything that may be a label as it is written."""
    outside: frozenset[str]
    """Labels of the same series that are not on offer."""
    stray: int
    """Bits of the options whose label may be a word of the language."""
    long: bool
    """Whether labels are words of their own kind: ans0."""
    digits: bool
    spelled: dict[str, int]
    """A label's name ("be") → option."""


@dataclass(slots=True)
class PreparedQuestion:
    """What is asked: options, labels, and the words of the question."""

    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown: int | None
    persons: list[int]
    """Indices of the options that are people."""
    texts: list[OptionTokens]
    keys: frozenset[str]
    """All words of the options."""
    owners: dict[str, int]
    """Stem → bits of the persons whose telling word it is."""
    alone: dict[str, int]
    """Stem → the one person that has it."""
    sequences: dict[str, tuple[tuple[int, tuple[str, ...]], ...]]
    """First word of an option's text → the options that begin with it and all their words, the longest first."""
    shown: LabelTokens
    unspaced: bool = False
    """Whether its words are characters, so that pairs of them say what is asked."""
    verb_final: bool = False
    """Whether negations stand behind what they deny."""
    and_before: tuple[str, ...] = ()
    and_behind: tuple[str, ...] = ()
    """What says "and", written together with the second or the first of two people."""
    elision: bool = False
    """Whether a letter in front of an apostrophe is a word of the language."""
    predicate: frozenset[str] = frozenset()
    """Stems of the telling words of the question."""
    core: tuple[frozenset[str], ...] = ()
    """Stems of each telling word of the question that its text has not told, pairs of characters one by one; empty
    where it has told all of them."""
    negated: bool = False
    """Whether the question asks who did not, or did without."""
    lacked: frozenset[str] = frozenset()
    """Stems of what it asks who did without, where nothing else denies: "without help"."""
    story: frozenset[str] = frozenset()
    """Words of its text for answering, choosing or assuming, as keys: they announce nothing."""
    order: tuple[int, ...] = ()
    """The persons in the order in which the question's text names them, where that is known."""
    named: tuple[int, ...] = ()
    """The same, where the words that each of them is called by alone show it; where nothing is known of the text, as
    they stand among the options."""
    traits: dict[str, int] = field(default_factory=dict)
    """Stem of what one of the people is without and the others are with → that person."""
    roots: dict[str, str] = field(default_factory=dict)
    """Stem without gender → the only telling stem that has it."""
    forms: dict[str, str] = field(default_factory=dict)
    """Any form that a telling word has, if no other one has it → its telling stem."""

    telling: frozenset[str] = frozenset()
    """Every stem and form that may mean an option."""
    triggers: frozenset[str] = frozenset()
    """These and the first words of `sequences`: a word of none of whose forms is here names no option by its text."""

    def begins_second(self, key: str) -> bool:
        """Whether a word begins with "and": Arabic وحفيد; not where an option has it as it is."""
        return bool(self.and_before) and key.startswith(self.and_before) and key not in self.keys


def build_question(asked: QuestionKey, lexicon: Lexicon) -> PreparedQuestion:
    """The question prepared; `lexicon`: the language that its texts are in."""
    options, labels, unknown = asked.options, asked.labels, asked.unknown
    own = ("" if label == text else label for label, text in zip(labels, options, strict=True))
    shown = _read_labels(tuple(own), lexicon)
    texts = [replace(_option_words(text, lexicon), index=index) for index, text in enumerate(options)]
    persons = [text for text in texts if text.index != unknown]
    if not all(text.heads for text in persons):
        for text in persons:
            text.heads = frozenset()
    owners: dict[str, int] = {}
    for text in persons:
        for stem in text.content:
            owners[stem] = owners.get(stem, 0) | 1 << text.index
    for text in persons:
        text.distinctive = frozenset(stem for stem in text.content if owners[stem] == 1 << text.index)
        if not text.distinctive:
            stems = lexicon.stemmer.forms
            others = {stems(key)[0] for other in persons if other is not text for key in other.keys}
            text.distinctive = text.denying = frozenset(stems(key)[0] for key in text.keys) - others
            owners.update(dict.fromkeys(text.distinctive, 1 << text.index))
        text.nested = not text.distinctive
        many = 1 if text.unspaced else 3
        text.need = 1 if len(text.distinctive) <= many else 2
    if lexicon.compounds:
        owners.update(_parts(persons, owners))
    alone = {stem: bits.bit_length() - 1 for stem, bits in owners.items() if bits & (bits - 1) == 0}
    shared = frozenset.intersection(*(text.content for text in persons)) if len(persons) > 1 else frozenset()
    scene = asked.scene or ContextCues()
    order = scene.order if asked.scene else range(len(persons) if asked.unknown != 0 else 0)
    question = PreparedQuestion(
        options,
        labels,
        unknown,
        [text.index for text in persons],
        texts,
        frozenset(key for text in texts for key in text.keys),
        owners,
        alone,
        _sequences(texts, unknown),
        shown,
        unspaced=any(text.unspaced for text in texts),
        elision=lexicon.elision,
        verb_final=lexicon.verb_final,
        and_before=lexicon.and_before,
        and_behind=lexicon.and_behind,
        story=scene.announcing,
        named=tuple(persons[place].index for place in order),
    )
    if all(text.denying for text in persons):
        question.traits = _traits(persons, shared, lexicon)
    _learn_forms(question, persons)
    if asked.sentence:
        _learn_question(question, _words(asked.sentence, lexicon), scene.told)
    question.triggers = question.telling.union(question.sequences)
    return question


def _traits(persons: Sequence[OptionTokens], shared: frozenset[str], lexicon: Lexicon) -> dict[str, int]:
    """What a word for "without" stands beside in the text of one person only."""
    without: dict[str, int] = {}
    for text in persons:
        words = [lexicon[key] for key in text.whole]
        lacking = [place for place, word in enumerate(words) if word.classes & (NEGATIONS | CLASSES["lack"])]
        beside = [words[near].stem for place in lacking for near in (place - 1, place + 1) if 0 <= near < len(words)]
        for stem in shared.intersection(beside):
            without[stem] = without.get(stem, 0) | 1 << text.index
    return {stem: bits.bit_length() - 1 for stem, bits in without.items() if not bits & (bits - 1)}


def _learn_forms(question: PreparedQuestion, persons: Sequence[OptionTokens]) -> None:
    """Notes the other forms of the telling words."""
    owners = question.owners
    for text in persons:
        for stem, root in text.roots:
            known = question.roots.setdefault(root, stem)
            if known != stem and owners.get(known) != owners[stem]:
                question.roots[root] = ""
        for stem, forms in text.forms:
            for form in forms:
                question.forms[form] = stem if question.forms.get(form, stem) == stem else ""
    question.roots = {root: stem for root, stem in question.roots.items() if stem and root not in owners}
    question.forms = {form: stem for form, stem in question.forms.items() if stem in owners and form not in owners}
    question.forms |= {stem: stem for stem in owners}
    question.telling = frozenset((*owners, *question.roots, *question.forms))


def _learn_question(question: PreparedQuestion, words: list[Token], told: frozenset[str]) -> None:
    """Notes what is asked: the words of the question, those that its text has told only where it has no others, and
    whether it asks who did not."""
    question.negated = any(word.classes & NEGATIONS for word in words)
    telling = [
        word
        for word in words
        if not word.classes & (SMALL | CLASSES["who"])
        and (not word.classes & NEGATIONS or len(word.key) >= MIN_VERB)
        and word.stem not in question.owners
        and len(word.key) > 1
    ]
    pairs = [
        one.key + two.key
        for one, two in pairwise(words)
        if UNSPACED.match(one.key) and UNSPACED.match(two.key) and not _says_little(one, two, question)
    ]
    if question.negated and not any(word.classes & NEGATIONS & ~CLASSES["lack"] for word in words):
        question.lacked = _lacked(words, telling, question.verb_final)
    asked = [frozenset((word.stem, *word.reach)) for word in telling] + [frozenset((pair,)) for pair in pairs]
    predicate = frozenset().union(*asked)
    question.predicate = predicate - told or predicate
    question.core = tuple(forms for forms in asked if not forms & told or not predicate - told)


def _lacked(words: list[Token], telling: list[Token], verb_final: bool) -> frozenset[str]:
    """Stems of the telling word that a word for "without" belongs to: the next one, or the one right in front of it
    where verbs end sentences."""
    place = next(place for place, word in enumerate(words) if word.classes & CLASSES["lack"])
    before = [word for word in words[max(place - 1, 0) : place] if word in telling]
    after = [word for word in words[place + 1 :] if word in telling and not word.classes & CLASSES["lack"]]
    found = (before or after[:1]) if verb_final else (after[:1] or before)
    return frozenset(form for word in found for form in (word.stem, word.key, *word.reach))


def _says_little(one: Token, two: Token, question: PreparedQuestion) -> bool:
    """Whether a pair of characters is part of an option, or of what may stand in any sentence."""
    if one.key in question.keys and two.key in question.keys:
        return True
    if HIRAGANA.match(one.key) and HIRAGANA.match(two.key):
        return True
    return bool((one.classes | two.classes) & CLASSES["who"] or one.classes & two.classes & SMALL)


@lru_cache(maxsize=MAX_KEPT)
def _words(text: str, lexicon: Lexicon) -> list[Token]:
    """The words of a text."""
    return list(map(lexicon.__getitem__, WORD.findall(normalise(text).text)))


@lru_cache(maxsize=MAX_KEPT)
def _option_words(text: str, lexicon: Lexicon) -> OptionTokens:
    """An option's text by itself: what the other options make of it is not known yet."""
    words = _words(text, lexicon)
    whole = tuple(word.key for word in words)
    unspaced = UNSPACED.search(text) is not None
    if not unspaced or not all(word.classes & SMALL for word in words):  # Chinese 本地人 is made of small words
        while len(words) > 1 and words[0].classes & SMALL and not words[0].classes & NEGATIONS:
            words = words[1:]
    telling = [w for w in words if len(w.key) > 1 and not _means_nobody(w)]
    telling = telling or [w for w in words if not HIRAGANA.match(w.key)] or words
    return OptionTokens(
        tuple(word.key for word in words),
        whole,
        frozenset(word.stem for word in telling),
        unspaced,
        roots=tuple((word.stem, word.root) for word in telling),
        forms=tuple((w.stem, forms) for w in telling if (forms := w.reach or lexicon.stemmer.made_from(w.key))),
        denying=frozenset(word.stem for word in telling if word.classes & NEGATIONS),
        anybody=any(word.classes & CLASSES["indefinite"] for word in _words(text, lexicon)),
        heads=_heads(text, lexicon),
    )


def _means_nobody(word: Token) -> bool:
    """Whether a word of an option tells nothing of its person: "the boy *who* reads". A denial tells something, and so
    does what only ends like "who": Tamil "மீனவர்", who fishes."""
    asks = word.classes & CLASSES["who"] and word.stem == word.key
    return not word.classes & NEGATIONS and bool(word.classes & (SMALL | _JOINS) or asks)


def _parts(persons: Sequence[OptionTokens], owners: dict[str, int]) -> dict[str, int]:
    """First and last parts of long words that tell one person from the others: "rolstoel" of "rolstoelbasketballer"."""
    found: dict[str, int] = {}
    for text in persons:
        for stem in [stem for stem in text.distinctive if len(stem) >= 2 * MIN_PART]:
            for length in range(MIN_PART, len(stem) - MIN_PART + 1):
                for part in (stem[:length], stem[-length:]):
                    found[part] = found.get(part, 0) | 1 << text.index
    for text in persons:
        text.distinctive |= {part for part, bits in found.items() if bits == 1 << text.index and part not in owners}
    return {part: bits for part, bits in found.items() if bits & (bits - 1) == 0 and part not in owners}


def _heads(text: str, lexicon: Lexicon) -> frozenset[str]:
    """Stems of the names in a text: capitals inside it, and what stands in front of its first comma."""
    plain = normalise(text).text
    words = [word for word in WORD.findall(plain) if not lexicon[word].classes & SMALL]
    all_names = len(words) > 1 and all(word[0].isupper() for word in words)
    if lexicon.capital_nouns and (not all_names or lexicon[WORD.findall(plain)[0]].classes & SMALL):
        return frozenset()
    texts = WORD.findall(plain)
    names = [word for word in texts[0 if all_names else 1 :] if word[0].isupper() and len(word) > 1]
    if names and lexicon[texts[0]].classes & SMALL and not lexicon[texts[-1]].classes & SMALL and texts[-1].islower():
        names = []  # "the Polish gardener": a capital that a noun follows is no name
    if "," in plain:
        names += WORD.findall(plain.split(",")[0])
    return frozenset(lexicon[word].stem for word in names if not lexicon[word].classes & SMALL)


def _sequences(
    texts: Sequence[OptionTokens], unknown: int | None
) -> dict[str, tuple[tuple[int, tuple[str, ...]], ...]]:
    found: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for text in texts:
        for keys in {text.keys, text.keys if text.index == unknown else text.whole} - {()}:
            found.setdefault(keys[0], []).append((text.index, keys))
    return {key: tuple(sorted(rows, key=lambda row: -len(row[1]))) for key, rows in found.items()}


@lru_cache(maxsize=MAX_KEPT)
def _read_labels(labels: tuple[str, ...], lexicon: Lexicon) -> LabelTokens:
    """The labels by themselves."""
    cores = {label_core(label): index for index, label in enumerate(labels)}
    cores.pop("", None)
    outside = _outside(tuple(cores))
    known = *cores, *outside
    return LabelTokens(
        cores,
        {core.casefold(): index for core, index in cores.items()},
        frozenset(form for core in known for form in (core, core.lower(), core.upper(), core.capitalize())),
        outside,
        sum(1 << index for core, index in cores.items() if lexicon[core].classes & STRAY),
        bool(cores) and all(len(core) > 1 and not core.isdigit() for core in cores),
        bool(cores) and all(core.isdigit() for core in cores),
        {name: cores[letter] for name, letter in lexicon.label_names.items() if letter in cores},
    )


def label_core(label: str) -> str:
    """A label without brackets, dots and emphasis: `(A)` → `A`, `Option B` → `B`."""
    found = WORD.findall(normalise(label).text)
    return found[-1] if found else ""


def _outside(cores: tuple[str, ...]) -> frozenset[str]:
    """Letters or numbers of the labels' own series that are not on offer."""
    if cores and all(len(core) == 1 and core.isascii() and core.isalpha() for core in cores):
        return frozenset("ABCDEFGHIJ") - frozenset(core.upper() for core in cores)
    if cores and all(core.isdigit() for core in cores):
        return frozenset(str(number) for number in range(11)) - frozenset(cores)
    return frozenset()
