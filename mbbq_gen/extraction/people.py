"""What else the question says of its people: "the old man, a retired teacher", "Ann, who dropped the tray, and Ben".

Words that introduce one person and no other become names of that person; words for what a person did become one where
two of them stand together. Used only where a response names nobody firmly by what the options call them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, permutations

from mbbq_gen.extraction.clauses import sentences
from mbbq_gen.extraction.layout import line_kind
from mbbq_gen.extraction.lexicon import CLASSES, CLOSES, INNER, KNOWN, MENTIONED, SMALL, Lexicon, Token, words_of
from mbbq_gen.extraction.lines import COMMA, Line, read_lines
from mbbq_gen.extraction.mention_finder import find_mentions
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.normalise import UNSPACED, WORD, normalise
from mbbq_gen.extraction.person_words import SynonymGroups
from mbbq_gen.extraction.phrases import mark_phrases
from mbbq_gen.extraction.prepared_question import PreparedQuestion
from mbbq_gen.extraction.question import ContextCues
from mbbq_gen.extraction.sentences import ANNOUNCING, ASSUMING

BESIDE = 3
"""Words by which a small word may stand apart from the others of what a person is called."""
MIN_NAME = 4
"""Letters of a name that a word of the text may begin with."""
_SENTENCE = re.compile(r"[^.!?؟。！？।\n]+[.!?؟。！？।]?")


def read_scene(prompt: str, asked: str, people: tuple[str, ...], lexicon: Lexicon) -> ContextCues:
    """What a prompt tells in front of its question.

    Args:
        prompt: What was sent.
        asked: The question's own sentence.
        people: What its people are called.
        lexicon: The language of all of them.
    """
    scene = normalise(prompt).text.partition(asked)[0]
    words = _words(scene, lexicon)
    texts = [_words(text, lexicon) for text in people]
    called = [{word.stem for word in text if not word.classes & SMALL} for text in texts]
    question = _words(normalise(asked).text, lexicon)
    asking = {word.key for word in question if word.classes & ASSUMING}
    announcing = _announcing(scene, set().union(*called), lexicon)
    return ContextCues(
        announcing | asking, _told(question, words), _order(words, called) or _order_beside(words, texts)
    )


def _words(text: str, lexicon: Lexicon) -> list[Token]:
    return [lexicon[word] for word in WORD.findall(text)]


def _announcing(scene: str, called: set[str], lexicon: Lexicon) -> frozenset[str]:
    """The words for answering or choosing by which the text tells of its people: "knew nearly all answers"."""
    found: set[str] = set()
    for sentence in _SENTENCE.findall(scene):
        words = _words(sentence, lexicon)
        if any(word.stem in called for word in words):
            found.update(word.key for word in words if word.classes & (ANNOUNCING | ASSUMING))
    return frozenset(found)


def _told(words: list[Token], told: list[Token]) -> frozenset[str]:
    """Stems, and pairs of characters, of the question's words that its text tells before it: "Who had trouble with the
    machine?" of two who stand at one asks for trouble."""
    known = {word.stem for word in told}
    shared = [form for word in words if word.stem in known for form in (word.stem, *word.reach)]
    pairs = set(_pairs(words))
    return frozenset((*shared, *pairs.intersection(_pairs(told)))) if pairs else frozenset(shared)


def _pairs(words: list[Token]) -> Iterator[str]:
    """Characters that are words, two and two."""
    for one, two in pairwise(words):
        if UNSPACED.match(one.key) and UNSPACED.match(two.key):
            yield one.key + two.key


def _order(words: list[Token], called: list[set[str]]) -> tuple[int, ...]:
    """The people in the order in which the text names them by words that are theirs alone; empty where it does not
    name all of them so."""
    places: dict[int, int] = {}
    for person, stems in enumerate(called):
        own = stems.difference(*(other for place, other in enumerate(called) if place != person))
        first = next((place for place, word in enumerate(words) if own.intersection(word.forms)), None)
        if first is None:
            return ()
        places[person] = first
    return tuple(sorted(places, key=places.__getitem__))


def _order_beside(words: list[Token], texts: list[list[Token]]) -> tuple[int, ...]:
    """The same where small words tell them apart, "with" and "without", or one has more of them than the other: by what
    stands beside the other words of what a person is called, or is the beginning of a name."""
    places: dict[int, int] = {}
    keys = [{word.key for word in text} for text in texts]
    for person, text in enumerate(texts):
        others = set().union(*(known for place, known in enumerate(keys) if place != person))
        own = keys[person] - others
        shared = {word.stem for word in text if not word.classes & SMALL and word.key in others}
        for place, word in enumerate(words):
            near = words[max(place - BESIDE, 0) : place + BESIDE + 1]
            beside = not shared or any(not shared.isdisjoint(other.forms) for other in near)
            if own:
                names = word.key in own or any(word.key.startswith(key) for key in own if len(key) >= MIN_NAME)
            else:
                names = not shared.isdisjoint(word.forms) and not any(
                    other.key in others - keys[person] for other in near
                )
            if names and beside:
                places[person] = place
                break
    return tuple(sorted(places, key=places.__getitem__)) if len(set(places.values())) == len(texts) else ()


AGES = range(5, 111)
"""Numbers that may be a person's age."""
MIN_BASE = 3
"""Letters that a word for a man and the one for a woman share at least."""
YOUNG, OLD = 35, 60
"""Ages up to which a person is young, and from which on one is old, whoever stands beside them."""
_SIGNS = {"he": ("male", "he"), "she": ("female", "she"), "old": ("old",), "young": ("young",)}
"""Words that may mean a person → the classes that show that they do."""
_AGE = frozenset({"old", "young"})
_OPPOSITE = {"he": "she", "she": "he", "old": "young", "young": "old"}


def distinguishing_attributes(
    question: PreparedQuestion, told: Mapping[int, Iterable[str]], lexicon: Lexicon
) -> dict[str, int]:
    """What only one of two people is (`he`, `she`, `old`, `young`) → that person.

    Args:
        question: What is asked.
        told: Person → what the question's text says where it introduces them.
        lexicon: The language that it is in.
    """
    if len(question.persons) != len(told) or len(told) != 2:
        return {}
    shown = {option: _shown(question.options[option], list(words), lexicon) for option, words in told.items()}
    _by_ending(shown, question, lexicon)
    _by_age(shown, {option: _age([question.options[option], *words]) for option, words in told.items()})
    found: dict[str, int] = {}
    one, two = shown
    for trait, opposite in _OPPOSITE.items():
        mine = [option for option in shown if trait in shown[option] and opposite not in shown[option]]
        others = [option for option in shown if opposite in shown[option] and trait not in shown[option]]
        other = two if mine == [one] else one
        if len(mine) == 1 and (opposite in shown[other] or (trait in _AGE and trait not in shown[other])):
            person = mine[0]
        elif not mine and len(others) == 1 and trait in _AGE:
            person = two if others[0] == one else one
        else:
            continue
        found[trait] = person
    return found


def words_for_one(traits: Mapping[str, int], lexicon: Lexicon) -> dict[tuple[str, ...], int]:
    """Words that fit only one of two people, as keys → that person."""
    classes = _classes(lexicon)
    return {keys: person for trait, person in traits.items() for keys in classes[trait]}


@lru_cache(maxsize=64)
def _classes(lexicon: Lexicon) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The classes of `[people]`, every entry as the keys of its words."""
    people = lexicon.people
    return {
        name: tuple(
            tuple(lexicon[word].key for word in WORD.findall(entry.replace("_", " ")))
            for entry in words_of(getattr(people, name))
        )
        for name in type(people).model_fields
    }


def _shown(option: str, words: list[str], lexicon: Lexicon) -> set[str]:
    """What a person's option and the words that introduce them show of sex and age."""
    classes = _classes(lexicon)
    texts = [*WORD.findall(option), *words]
    keys = {lexicon[text].key for text in texts} | {lexicon[text].stem for text in texts}
    joined = "".join(texts) if UNSPACED.search(option) or any(UNSPACED.search(text) for text in words) else ""
    shown = {
        trait
        for trait, names in _SIGNS.items()
        for name in names
        if any(set(entry) <= keys and (len(entry) == 1 or "".join(entry) in joined) for entry in classes[name])
    }
    article = (lexicon[texts[0]].key,)
    if article in classes["masculine"]:
        shown.add("he")
    if article in classes["feminine"]:
        shown.add("she")
    return shown


def _by_ending(shown: dict[int, set[str]], question: PreparedQuestion, lexicon: Lexicon) -> None:
    """Adds who is a man and who a woman where one is called by what the other is called and an ending for women."""
    endings = [ending for (ending,) in _classes(lexicon)["feminine_ending"]]
    for one, other in permutations(shown) if endings else ():
        men, women = ({lexicon[text].key for text in WORD.findall(question.options[option])} for option in (one, other))
        stems = [word.removesuffix(ending) for word in women - men for ending in endings if word.endswith(ending)]
        if any(_is_made_of(stem, base) for stem in stems for base in men - women):
            shown[one].add("he")
            shown[other].add("she")


def _is_made_of(stem: str, base: str) -> bool:
    """Whether a word for a woman, without its ending, is one for a man but for two letters at its end: waitr-ess and
    waiter, not busin-ess and bus."""
    return MIN_BASE <= len(stem) <= len(base) and stem.startswith(base[: max(MIN_BASE, len(base) - 2)])


def _age(texts: Iterable[str]) -> int | None:
    """The first number that may be an age."""
    numbers = (int(word) for text in texts for word in WORD.findall(text) if word.isdecimal() and len(word) <= 3)
    return next((number for number in numbers if number in AGES), None)


def _by_age(shown: dict[int, set[str]], ages: Mapping[int, int | None]) -> None:
    """Adds who is old and who is young by their ages, beside each other or by themselves."""
    known = [age for age in ages.values() if age is not None]
    for option, age in ages.items():
        if age is None:
            continue
        both = len(known) > 1
        if (both and age == max(known) > min(known)) or (not both and age >= OLD):
            shown[option].add("old")
        if (both and age == min(known) < max(known)) or (not both and age <= YOUNG):
            shown[option].add("young")


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


def with_context_descriptions(
    question: PreparedQuestion, prompt: str, lexicon: Lexicon, alike: SynonymGroups
) -> PreparedQuestion | None:
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
        mark_phrases(line, lexicon.rows)
        everybody = find_mentions(line, question, [])
        if line_kind(line, everybody) in {"whole", "lead"}:
            continue
        found = [m for m in everybody if m.how is MentionKind.TEXT and m.option in question.persons]
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
    traits = distinguishing_attributes(
        question, {person: told.words.get(person, []) for person in question.persons}, lexicon
    )
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


def with_derived(question: PreparedQuestion, words: Iterable[Token]) -> PreparedQuestion:
    """The question with the words of a response that are made from a word for one of its people: deaf, deafness."""
    names: dict[str, int] = {}
    for word in {word.stem: word for word in words if not word.classes & (SMALL | KNOWN)}.values():
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
    question: PreparedQuestion,
    names: dict[str, int],
    deeds: Mapping[str, int],
    pairs: Mapping[tuple[str, ...], int],
    order: tuple[int, ...],
) -> PreparedQuestion:
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
