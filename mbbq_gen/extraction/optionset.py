"""The options of one question, prepared for being found: their labels, and their words with the language's
inflection."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import regex

from mbbq_gen.extraction.heads import head_of, head_runs
from mbbq_gen.extraction.normalise import LOOK_ALIKES, ends_accented, loose_key, normalise
from mbbq_gen.extraction.pack import TextRules
from mbbq_gen.extraction.stemmer import Stemmer
from mbbq_gen.extraction.tokens import NO_BREAK, SENTENCE, Token, tokenise

Match = Literal["exact", "inflected", "partial", "fuzzy"]

UNSPACED = regex.compile(r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}]")
"""A character of a script without word boundaries (Hangul is read so too)."""
_CASED = regex.compile(r"[\p{Latin}\p{Cyrillic}\p{Greek}]")
MIN_FUZZY, LONG_FUZZY, LONG_START = 5, 8, 6
"""Letters of a word that may be misspelt, misspelt twice, misspelt in its first letter."""
MAX_TITLE = 4
"""Letters of an abbreviation in front of a name: Dr, Prof, श्री."""
_STOPS = frozenset({".", ".º", ".ª", ".°"})
"""Ends of abbreviations."""
MIN_PART, MIN_COMPOUND = 4, 7
"""Letters of the last part of a compound, and of the compound."""
MAX_SHORT = 4
"""Letters of an abbreviation in front of a label: Nr, Opc."""


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
    head: frozenset[str] = frozenset()
    """The telling words of the name or noun that a longer text begins or ends with: "Dave" of "Dave, who is late"."""
    runs: frozenset[str] = frozenset()
    """The same for a script without word boundaries: the ends of the text that no other option has."""
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
    near_start: dict[str, tuple[tuple[str, int], ...]]
    """First letter → distinctive words, for misspellings and open endings."""
    near_inside: dict[str, tuple[tuple[str, int], ...]]
    """Second and third letter → distinctive words that are long enough to be known by them."""
    last_parts: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Last letters → distinctive words that may be compounds."""
    denying: dict[int, frozenset[str]] = field(default_factory=dict)
    """Option → its words such as "not": they mean it only together with a word beside them in its text."""
    pairs: dict[str, frozenset[tuple[int, str]]] = field(default_factory=dict)
    """A word that a dot may stand behind inside an option's text → the option and its next word: Dr. Rao."""
    endings: frozenset[str] = field(default_factory=frozenset)
    """Endings that a name may have where stripping all of them would take too much of it."""
    accents: dict[str, bool] = field(default_factory=dict)
    """A word that is written with accents → whether its last letter has one: "âgé" is not "âge"."""
    shared: frozenset[str] = field(default_factory=frozenset)
    """The telling words that all persons have in common: "cashier" of the young and the old one."""
    idle: dict[int, set[str]] = field(default_factory=dict)
    """Finder of texts → words of earlier responses that name no option for it, not even misspelt."""
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
    for text, option in zip(texts, options, strict=True):
        if not (text.is_unknown or text.per_character):
            text.head = head_of(option, articles | stop, stemmer.head)
        if text.per_character and not text.is_unknown:
            text.runs = head_runs(option, options[: text.index] + options[text.index + 1 :])
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
    near = _near_words(texts, distinctive)
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
        near_start=_by_letters(near, 0, 1),
        near_inside=_by_letters([pair for pair in near if len(pair[0]) >= LONG_START], 1, 3),
        last_parts=_by_letters([pair for pair in near if len(pair[0]) >= MIN_COMPOUND], -MIN_PART, None)
        if stemmer.compounds
        else {},
        denying=denying,
        pairs=_dotted_pairs(options, texts),
        endings=stemmer.endings,
        accents=_accents(options),
        shared=_shared_words(texts),
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


def _shared_words(texts: tuple[OptionText, ...]) -> frozenset[str]:
    """The telling words of all persons, where there are several."""
    persons = [frozenset(text.content) for text in texts if not text.is_unknown]
    if len(persons) < 2 or any(text.per_character for text in texts):
        return frozenset()
    return persons[0].intersection(*persons[1:])


def _denies(text: OptionText, negations: frozenset[str]) -> bool:
    """Whether an option's text holds a word such as "not" beside others: "The not religious neighbour"."""
    if text.per_character or text.needs_sequence:
        return False
    return not negations.isdisjoint(text.content) and not negations.issuperset(text.content)


def _accents(options: tuple[str, ...]) -> dict[str, bool]:
    """Whether the options' words that are written with accents end in one; not those that differ by nothing else."""
    found: dict[str, set[bool]] = {}
    for option in options:
        for token in () if option.isascii() else tokenise(normalise(option).text):
            if (ends := ends_accented(token.text)) is not None:
                found.setdefault(token.key, set()).add(ends)
    return {key: ends.pop() for key, ends in found.items() if len(ends) == 1}


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


def _near_words(texts: tuple[OptionText, ...], distinctive: dict[int, frozenset[str]]) -> list[tuple[str, int]]:
    """The telling words of persons that may be misspelt, each with its option."""
    return [
        (word, option.index)
        for option in texts
        if not option.is_unknown
        for word in sorted(distinctive[option.index])
        if len(word) >= 3 and _CASED.search(word) and not word.isdigit()
    ]


def _by_letters(words: list[tuple[str, int]], start: int, end: int | None) -> dict[str, tuple[tuple[str, int], ...]]:
    """Words by some of their letters."""
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    for word, index in words:
        key = word[start:end]
        found[key] = (*found.get(key, ()), (word, index))
    return found


def join_abbreviations(tokens: list[Token], options: OptionSet, stemmer: Stemmer, words: frozenset[str]) -> None:
    """Takes the sentence end out of a dot that stands between two words of an option's text, "Dr. Rao", or between a
    short word for an option and a label: "Nr. 1", "Opc. B"; `words` are those for an option."""
    pairs = options.pairs
    for place, token in enumerate(tokens):
        if token.break_before != SENTENCE or not place or token.gap.rstrip() not in _STOPS:
            continue
        before = tokens[place - 1].key
        if token.key in options.labels and before in words and len(before) <= MAX_SHORT:
            token.gap, token.break_before = " ", NO_BREAK
        elif before in pairs:
            meant = pairs[before]
            forms = stemmer.forms(token.key)
            if any((index, word) in meant for form in forms for index, word, _ in options.lookup.get(form, ())):
                token.gap, token.break_before = " ", NO_BREAK


def part_glued(tokens: list[Token], options: OptionSet, words: frozenset[str]) -> list[Token]:
    """The words with a label parted from the word for an option that it is written together with: "OptionB"."""
    shown = options.shown
    if not [token for token in tokens if token.text[-1:] in shown and len(token.text) > 2]:
        return tokens
    parted: list[Token] = []
    for token in tokens:
        rest, last = token.text[:-1], token.text[-1:]
        if last in shown and rest[-1:].islower() and loose_key(rest) in words:
            middle = token.end - 1
            parted.append(Token(loose_key(rest), rest, token.start, middle, token.gap, token.break_before))
            parted.append(Token(loose_key(last), last, middle, token.end, " ", NO_BREAK))
        else:
            parted.append(token)
    return parted


@lru_cache(maxsize=4096)
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
    if not found:
        return None
    best = min(found)
    if any(distance == best[0] and index != best[1] for distance, index, _, _ in found):
        return None
    return best[1:]


def compound_of(key: str, words: tuple[tuple[str, int], ...]) -> tuple[int, str, Match] | None:
    """The option that alone has a compound whose last part a word is: "machinist" of "kraanmachinist"."""
    found = [(index, word) for word, index in words if word.endswith(key) and len(word) - len(key) >= 3]
    if len({index for index, _ in found}) != 1:
        return None
    return (*found[0], "inflected")


def _may_end(ending: str, rules: TextRules, endings: frozenset[str]) -> bool:
    """Whether letters behind a word are an ending, one that the pack lists or a short enough one."""
    return len(ending) <= rules.open_suffix or ending in endings


def look_alike(text: str) -> str:
    """The Latin letter that a single Cyrillic or Greek letter looks like, else the text itself."""
    return text.translate(LOOK_ALIKES) if len(text) == 1 else text
