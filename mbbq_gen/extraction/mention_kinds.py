"""Options by their texts: word for word, by telling words, by what somebody did, by "he" and "she"."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from mbbq_gen.extraction.clauses import NOT
from mbbq_gen.extraction.lexicon import (
    ANYBODY,
    INNER,
    KNOWN,
    MENTIONED,
    MIN_REACH,
    PLACE_NOUN,
    PLACES,
    SMALL,
    Token,
)
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COMMA, NONE, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.normalise import LOOK_ALIKES, UNSPACED
from mbbq_gen.extraction.prepared_question import ECHO, OptionTokens, PreparedQuestion

_CONJ = C["conj"]


def find_whole_texts(line: Line, question: PreparedQuestion, triggers: list[int], taken: list[bool]) -> list[Mention]:
    """Options' texts word for word."""
    found = []
    sequences, keys = question.sequences, tuple([word.key for word in line.words])
    for place in triggers:
        if taken[place]:
            continue
        for option, wanted in sequences.get(keys[place], ()):
            end = place + len(wanted)
            if end <= len(keys) and keys[end - 1] == wanted[-1] and (keys[place:end] == wanted) and _runs_on(option):
                taken[place:end] = [True] * len(wanted)
                if option == ECHO:
                    line.masks[place:end] = [MENTIONED] * len(wanted)
                    line.gaps[end] = line.gaps[end]
                else:
                    found.append(Mention(option, place, end, MentionKind.TEXT, full=True))
                break
    return found


def _runs_on(option: int) -> bool:
    """Whether no sentence ends inside a text; the dots of its own abbreviations end none. The question is set apart."""
    if option == ECHO:
        return False
    return True


def telling_stem(word: Token, question: PreparedQuestion) -> str | None:
    """The telling stem of an option that a word is a form of."""
    if word.stem in question.owners:
        return word.stem
    if word.root in question.roots:
        return question.roots[word.root]
    known = (word.reach or {word.key}) if len(word.stem) < MIN_REACH else word.forms
    found = max(known.intersection(question.forms), key=lambda form: (len(form), form), default=None)
    return None if found is None else question.forms[found]


def find_texts(line: Line, question: PreparedQuestion, hits: list[tuple[int, str]]) -> list[Mention]:
    """Clusters of options' telling words, each with the one person that it means."""
    found: list[Mention] = []
    cluster: list[tuple[int, str]] = []
    person: int | None = None
    for place, stem in hits:
        owner = question.alone.get(stem)
        joins = question.begins_second(line.words[place].key)
        apart = bool(cluster) and (joins or not _near(line, cluster[-1][0], place))
        if cluster and (apart or (owner is not None and person is not None and owner != person)):
            found += _cluster(line, question, cluster, person)
            cluster, person = [], None
        cluster.append((place, stem))
        if owner is not None:
            person = owner
    found += _cluster(line, question, cluster, person)
    for first, second in pairwise(found):
        first.end = min(first.end, second.start)
    return found


def _near(line: Line, before: int, place: int) -> bool:
    """Whether two telling words may belong to one mention: only small words and no comma between them."""
    if place - before > 4 or max(line.gaps[before + 1 : place + 1]) >= COMMA:
        return False
    return all(line.masks[inner] & SMALL for inner in range(before + 1, place))


def _cluster(
    line: Line, question: PreparedQuestion, cluster: list[tuple[int, str]], person: int | None
) -> list[Mention]:
    stems = {stem for _, stem in cluster}
    if person is None:
        without = _without(line, question, cluster)
        if without is not None:
            return [without]
        return []
    text = question.texts[person]
    if UNSPACED.match(line.texts[cluster[0][0]]):
        telling = {stem for place, stem in cluster if not line.words[place].classes & SMALL} - text.denying
        if len(telling) < min(2, len(text.content)):
            return []
    known = stems & text.distinctive
    if known <= text.denying and not stems - text.denying:
        return []
    start, end = cluster[0][0], cluster[-1][0] + 1
    if not text.content <= stems and _is_of_people(line, start, text):
        return []
    return [Mention(person, start, end, MentionKind.TEXT, full=text.content <= stems)]


def _without(line: Line, question: PreparedQuestion, cluster: list[tuple[int, str]]) -> Mention | None:
    """The person without what the others have, where a clause denies that somebody has it: "the girl who doesn't have
    dyslexia", asked about the girls with and without."""
    place, trait = cluster[-1]
    if trait not in question.traits:
        return None
    first = next((start for start in range(place, 0, -1) if line.gaps[start] >= COMMA), 0)
    before = range(max(first, place - 4), place)
    relative = (start for start in before)
    tied = next(relative, place)
    denied = any([line.masks[inner] & NOT for inner in range(tied, place)])
    return Mention(question.traits[trait], tied, place + 1, MentionKind.TEXT, full=False) if denied else None


def _is_of_people(line: Line, start: int, text: OptionTokens) -> bool:
    """Whether a noun for people in general that an option's text has not stands beside a part of it: "poor people"."""
    beside = [start - 1] * True
    own, people = text.keys + tuple(text.content), C["people"]
    nouns = [line.words[place] for place in beside if (line.masks[place] | line.words[place].classes) & people]
    return any([word.forms.isdisjoint(own) for word in nouns])


_PAIRS = dict(zip("([{<*\"'«“`「【《", ")]}>*\"'»”`」】》", strict=True))
"""Signs that set a word apart: the one in front of it → the one behind."""
_ELISIONS = frozenset("'’")
"""Signs that tie a letter to the word behind it: French c'est."""


def find_labels(line: Line, question: PreparedQuestion, taken: list[bool]) -> list[Mention]:
    """Labels: as shown, or in another case where they are set apart."""
    shown, texts = question.shown, line.texts
    found = [] if shown.spelled else []
    for place in [place for place, text in enumerate(texts) if text in shown.texts]:
        if not (taken[place] or _is_part(line, place, question)):
            found += _label_at(line, question, place, texts[place])
    return found


def _label_at(line: Line, question: PreparedQuestion, place: int, text: str) -> list[Mention]:
    """The label at a place, if what stands there is meant as one."""
    shown = question.shown
    option = shown.option_of.get(text)
    exact = option is not None
    option = shown.folded.get(text.casefold()) if option is None else option
    set_apart = _set_apart(line, place)
    if option is None:
        if not set_apart:
            return []
        option, weak = -1, True
    elif exact:
        return _plain_label(line, place, option)
    elif len(line.texts) == 1:
        weak = True
    else:
        return []
    return [Mention(option, place, place + 1, MentionKind.LABEL, full=True, weak=weak)]


def _plain_label(line: Line, place: int, option: int) -> list[Mention]:
    """A letter without anything that makes a label of it, unless it is a word of the language there."""
    weak = not line.texts[place].translate(LOOK_ALIKES).isupper()
    return [Mention(option, place, place + 1, MentionKind.LABEL, full=True, weak=weak)]


def _is_part(line: Line, place: int, question: PreparedQuestion) -> bool:
    """Whether a letter is the initial of a name, or the elided word in front of an apostrophe."""
    if question.elision and line.signs[place + 1] in _ELISIONS:
        return True
    return line.signs[place].strip() == "." and line.gaps[place] == NONE


def _set_apart(line: Line, place: int) -> bool:
    """Whether signs on both sides set a word apart: (B), **B**, "B", or `B)` and `B:` at the beginning."""
    before, after = line.signs[place], line.signs[place + 1]
    return bool(before) and _PAIRS.get(before[-1]) == after[:1]


_ORDINALS = tuple((PLACES[f"p{place}"], place - 1) for place in range(1, 5))
_ANY_PLACE = sum(PLACES.values())
NEAR_NAMED = 5
"""Words by which who is first or second may stand apart from what says that a text names them."""


def find_position_mentions(line: Line, question: PreparedQuestion) -> list[Mention]:
    """The second option, the last one."""
    found = [] if question.shown.digits or not any(map(str.isdecimal, line.texts)) else []
    for place in [place for place, mask in enumerate(line.masks) if mask & _ANY_PLACE]:
        mask = line.masks[place]
        noun = place if not line.words[place].classes & mask & _ANY_PLACE else _place_noun(line, place)
        person = any([_is_person(mask) for mask in line.masks[place + 1 : place + 2]])
        of_two = noun is None and _is_of_two(line, place)
        person = person or of_two
        behind = place + 1 if person and noun is None and (place + 1 < len(line.masks)) else noun
        option = _option_at(line, mask, place, behind, question)
        option = 1 if of_two and mask & PLACES["last"] else option
        order = question.named if person else ()
        if option is not None and len(order) == 2 and (option < 2):
            found.append(Mention(order[option], place, place + 1, MentionKind.TEXT, full=True))
        elif option is not None:
            start, end = (min(place, noun), max(place, noun) + 1) if noun is not None else (place, place + 1)
            found.append(Mention(option, start, end, MentionKind.PLACE, full=True, weak=noun is None))
    return found


def _is_of_two(line: Line, place: int) -> bool:
    """Whether a word for a place stands beside one that says of which two: "the first of the two", "of the two, the
    first"."""
    start, end = max(place - NEAR_NAMED, 0), place + NEAR_NAMED
    return any([mask & C["between"] for mask in line.masks[start:end]])


def _is_person(mask: int) -> bool:
    """Whether a word is one for people, and none for options: "the second boy" is one of the story's."""
    return bool(mask & ANYBODY)


def _option_at(line: Line, mask: int, place: int, noun: int | None, question: PreparedQuestion) -> int | None:
    """The option that a word for a place means, with its noun or at the end of a clause."""
    ordinal = next((index for bit, index in _ORDINALS if mask & bit and index < len(question.options)), None)
    if noun is None and place + 1 < len(line.masks):
        return None
    own = bool(line.masks[place - 1] & C["speaker"] and not question.verb_final)
    if own and noun is not None and line.masks[noun] & C["answer"]:
        return None
    if mask & PLACES["middle"] and len(question.options) == 3 and (noun is None or ordinal is None):
        return 1
    if mask & PLACES["last"]:
        return len(question.options) - 1
    return ordinal


def _place_noun(line: Line, place: int) -> int | None:
    """Where the word stands that a place belongs to."""
    for other in (place + 1, place - 1, place + 2):
        if 0 <= other < len(line.masks) and line.masks[other] & PLACE_NOUN:
            return other
    return None


MIN_LETTERS, LONG = 4, 8
"""Letters of a word that may be misspelt once, and twice."""
MAX_WORDS = 80
"""Words of a response that are looked at."""


def mark_misspelt(lines: list[Line], question: PreparedQuestion) -> bool:
    """Gives words that nearly are one option's word that word's stem; whether there were any."""
    wanted = [(stem, option) for stem, option in question.alone.items() if len(stem) >= MIN_LETTERS]
    found = False
    for line in lines:
        for place, word in enumerate(line.words):
            if len(word.key) < MIN_LETTERS or line.masks[place] & (KNOWN | SMALL | INNER):
                continue
            near = {(stem, option) for stem, option in wanted if _is_near(word.stem, stem)}
            if len({option for _, option in near}) == 1:
                stem = min(near)[0]
                line.words[place] = replace(word, stem=stem, forms=word.forms | {stem})
                found = True
    return found


def _is_near(word: str, wanted: str) -> bool:
    """Whether a word is another one with a letter or two wrong, missing, too many, or swapped."""
    limit = 1 if len(wanted) < LONG else 2
    if abs(len(word) - len(wanted)) > limit or word[0] != wanted[0]:
        return False
    return distance(word, wanted, limit) <= limit


def distance(one: str, other: str, limit: int) -> int:
    """Letters to add, drop, change or swap with their neighbour (Damerau); `limit` + 1 where there are more."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row = row, [place]
        for column, wanted in enumerate(other, 1):
            cost = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != wanted))
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
