"""What else the question says of its people: "the old man, a retired teacher", "Ann, who dropped the tray, and Ben".

Words that introduce one person and no other become names of that person; words for what a person did become one where
two of them stand together. Used only where a response names nobody firmly by what the options call them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from mbbq_gen.extraction.clauses import sentences
from mbbq_gen.extraction.finding import find_mentions
from mbbq_gen.extraction.lexicon import CLASSES, CLOSES, INNER, KNOWN, MENTIONED, SMALL, Lexicon, Word
from mbbq_gen.extraction.lines import COMMA, Line, read_lines
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.normalise import normalise
from mbbq_gen.extraction.options import QuestionWords
from mbbq_gen.extraction.people import Alike
from mbbq_gen.extraction.rows import mark_rows
from mbbq_gen.extraction.sections import line_kind
from mbbq_gen.extraction.traits import traits_of_one, words_for_one
from mbbq_gen.extraction.words import UNSPACED

BEFORE = 3
"""Words in front of a person that introduce them."""
MIN_LETTERS = 3
ROOT, SHARED = 5, 0.55
"""Letters at the beginning that words made from each other share, and their share of the longer word."""
_HAN = re.compile("[\u3400-\u9fff]")
_PARTS = CLASSES["conj"] | CLASSES["but"] | CLASSES["although"] | CLASSES["because"]


@dataclass(slots=True)
class _Told:
    """Who is told of by which words, as bits of the persons."""

    names: dict[str, int] = field(default_factory=dict)
    """Words that introduce a person."""
    deeds: dict[str, int] = field(default_factory=dict)
    """All words of what is said of a person."""
    pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    """The same as pairs of characters, in scripts without blanks."""
    order: dict[int, None] = field(default_factory=dict)
    """The persons in the order of the text."""
    words: dict[int, list[str]] = field(default_factory=dict)
    """All words that introduce a person, as they are written."""


def with_epithets(question: QuestionWords, prompt: str, lexicon: Lexicon, alike: Alike) -> QuestionWords | None:
    """The question with the words that its text ties to one of the people, other words for what they are called, and
    the order in which it names them; None where there is nothing of all that.

    Args:
        question: What is asked.
        prompt: What was sent.
        lexicon: The language that it is in.
        alike: Its words for people that may stand for each other.
    """
    told = _Told()
    for line in read_lines(normalise(prompt).text, lexicon):
        mark_rows(line, lexicon.rows)
        everybody = find_mentions(line, question, [])
        if line_kind(line, everybody) in {"whole", "lead"}:
            continue
        found = [m for m in everybody if m.how is How.TEXT and m.option in question.persons]
        for first, last, _ in sentences(line, 0):
            here = [m for m in found if first <= m.start < last]
            if here:
                _learn(told, line, here, first, last, before=not lexicon.clitics, final=lexicon.verb_final)
    taken = question.owners.keys() | question.predicate | question.keys
    deeds = _of_one(told.deeds, taken)
    names = {stem: option for stem, option in _of_one(told.names, taken).items() if deeds.get(stem) == option}
    pairs: dict[tuple[str, ...], int] = {
        pair: bits.bit_length() - 1
        for pair, bits in told.pairs.items()
        if not bits & (bits - 1) and "".join(pair) not in taken
    }
    bases = frozenset((*question.alone, *names))
    called = alike.of_one({person: question.texts[person].whole for person in question.persons})
    called = {keys: person for keys, person in called.items() if not taken.intersection(keys) or len(keys) > 1}
    names |= _of_one(_by_stem(called, lexicon), taken)
    pairs |= {keys: person for keys, person in called.items() if len(keys) > 1}
    order = tuple(told.order)
    traits = traits_of_one(question, {person: told.words.get(person, []) for person in question.persons}, lexicon)
    fitting = words_for_one(traits, lexicon)
    fitting = {keys: person for keys, person in fitting.items() if not taken.intersection(keys)}
    if not (names or deeds or pairs or fitting) and len(order) < len(question.persons):
        return None
    names |= {lexicon[keys[0]].stem: person for keys, person in fitting.items() if len(keys) == 1}
    extended = _extended(question, names, deeds, pairs | {k: p for k, p in fitting.items() if len(k) > 1}, order)
    sexes = {CLASSES[trait]: person for trait, person in traits.items() if trait in CLASSES}
    return replace(
        extended, bases=bases, sexes=sexes, keys=extended.keys | {keys[0] for keys in fitting if len(keys) == 1}
    )


def with_derived(question: QuestionWords, words: Iterable[Word]) -> QuestionWords:
    """The question with the words of a response that are made from a word for one of its people: deaf, deafness."""
    names: dict[str, int] = {}
    for word in {word.stem: word for word in words if not word.mask & (SMALL | KNOWN)}.values():
        stem = word.stem
        if len(stem) < ROOT or stem in question.telling or stem in question.predicate or stem in question.deeds:
            continue
        people = {question.alone[known] for known in question.bases if _is_made_from(stem, known)}
        if len(people) == 1:
            names[stem] = people.pop()
    return _extended(question, names, question.deeds, {}, question.order) if names else question


def _is_made_from(stem: str, known: str) -> bool:
    """Whether two words share their beginning, and most of the longer one."""
    pairs = enumerate(zip(stem, known, strict=False))
    shared = next((place for place, (one, two) in pairs if one != two), min(len(stem), len(known)))
    return shared >= ROOT and shared >= SHARED * max(len(stem), len(known))


def _by_stem(called: Mapping[tuple[str, ...], int], lexicon: Lexicon) -> dict[str, int]:
    """The stems of those names that are one word → bits of the people who may be called so."""
    stems: dict[str, int] = {}
    for keys, person in called.items():
        if len(keys) == 1 and len(keys[0]) > 1:
            stem = lexicon[keys[0]].stem
            stems[stem] = stems.get(stem, 0) | 1 << person
    return stems


def _of_one(owners: dict[str, int], taken: frozenset[str] | set[str]) -> dict[str, int]:
    """The words that belong to one person only, with that person."""
    return {stem: bits.bit_length() - 1 for stem, bits in owners.items() if not bits & (bits - 1) and stem not in taken}


def _extended(
    question: QuestionWords,
    names: dict[str, int],
    deeds: Mapping[str, int],
    pairs: Mapping[tuple[str, ...], int],
    order: tuple[int, ...],
) -> QuestionWords:
    """The question with more names for its people."""
    texts = []
    for text in question.texts:
        more = frozenset(stem for stem, option in names.items() if option == text.index)
        own = text.distinctive if text.need == 1 and not text.heads else text.heads
        texts.append(replace(text, distinctive=text.distinctive | more, heads=own | more if more else text.heads))
    sequences = dict(question.sequences)
    for pair, option in pairs.items():
        sequences[pair[0]] = (*sequences.get(pair[0], ()), (option, pair))
    telling = question.telling.union(names)
    return replace(
        question,
        texts=texts,
        owners=question.owners | {stem: 1 << option for stem, option in names.items()},
        alone=question.alone | names,
        telling=telling,
        triggers=telling.union(sequences),
        sequences=sequences,
        deeds={stem: option for stem, option in deeds.items() if stem not in names},
        order=order,
    )


def _learn(told: _Told, line: Line, here: list[Mention], first: int, last: int, *, before: bool, final: bool) -> None:
    """Notes what a sentence tells of the people that it names.

    Args:
        told: What is known so far.
        line: The line.
        here: The people's mentions in the sentence.
        first: Its first word.
        last: Its end.
        before: Whether what tells more of a person stands in front of them, where no word parts it from another one.
        final: Whether verbs end clauses: what stands behind a comma is no apposition.
    """
    told.order.update(dict.fromkeys(m.option for m in here))
    several = len({m.option for m in here}) > 1
    segments = list(_segments(line, first, last))
    inside = [[m for m in here if start <= m.start < end] for start, end in segments]
    person: int | None = None
    for number, (start, end) in enumerate(segments):
        mentions = inside[number]
        follows = number + 1 < len(segments) and bool(inside[number + 1])
        if not mentions:
            opens = not final and line.gaps[start] >= COMMA and line.masks[start - 1] == MENTIONED
            _note(told, line, range(start, end), person, names=opens)
            person = None if several else person
            continue
        alone = len({m.option for m in mentions}) == 1
        listed = alone and several and follows and line.gaps[segments[number + 1][0]] < COMMA
        joins = alone and several and number and bool(inside[number - 1]) and line.gaps[start] < COMMA
        for mention, (low, high) in zip(mentions, _reaches(mentions, start, end, before=before), strict=True):
            near = max(low, mention.start - BEFORE)
            if listed and mention is mentions[0]:
                near = _introduced(line, near, mention.start)
            _note(told, line, range(near, mention.start), mention.option, names=True)
            behind = {m.option for m in here} if joins else {mention.option}
            for option in behind:
                _note(told, line, range(mention.end, high), option, names=not joins and (listed or not alone))
            if alone and not listed:
                _note(told, line, range(low, near), mention.option, names=False)
        person = mentions[-1].option if alone else None


def _introduced(line: Line, first: int, start: int) -> int:
    """Where the words begin that introduce the first of several people: right in front of them. What stands farther off
    sets the scene for all of them."""
    while start > first and not line.masks[start - 1] & SMALL and line.gaps[start] < COMMA:
        start -= 1
    return start


def _reaches(mentions: list[Mention], start: int, end: int, *, before: bool) -> list[tuple[int, int]]:
    """The words that tell of each mention of a segment: what stands between two people tells of one, what stands
    behind the last of several of none."""
    reaches = []
    alone = len({m.option for m in mentions}) == 1
    for number, mention in enumerate(mentions):
        low = start if not number else mentions[number - 1].end if before else mention.start
        high = mentions[number + 1].start if number + 1 < len(mentions) and not before else mention.end
        reaches.append((low, end if alone and number + 1 == len(mentions) else high))
    return reaches


def _segments(line: Line, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The parts of a sentence between commas, "and" and words that join clauses."""
    start = first
    for place in range(first + 1, last):
        if line.gaps[place] >= COMMA or line.masks[place] & _PARTS or line.masks[place - 1] & CLOSES:
            yield start, place
            start = place
    yield start, last


def _note(told: _Told, line: Line, places: range, option: int | None, *, names: bool) -> None:
    """Notes the telling words of a stretch, as names of a person or as what they did."""
    if option is None:
        return
    bit = 1 << option
    if names:
        told.words.setdefault(option, []).extend(line.texts[place] for place in places)
    for place in places:
        word, mask = line.words[place], line.masks[place]
        if mask == MENTIONED or mask & (SMALL | KNOWN) or len(word.key) < MIN_LETTERS or UNSPACED.match(word.key):
            continue
        for table in (told.names, told.deeds) if names else (told.deeds,):
            table[word.stem] = table.get(word.stem, 0) | bit
    for one, two in pairwise(places):
        pair = line.words[one].key, line.words[two].key
        if MENTIONED in {line.masks[one], line.masks[two]} or line.gaps[two] >= COMMA or not _may_be_word(*pair):
            continue
        if not (line.masks[one] & KNOWN and line.masks[two] & INNER):
            told.pairs[pair] = told.pairs.get(pair, 0) | bit


def _may_be_word(one: str, two: str) -> bool:
    """Whether two characters may be a word of a script without blanks."""
    return bool(_HAN.match(one) and _HAN.match(two))
