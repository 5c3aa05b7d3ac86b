"""Options by their places: the second option, "option 2", the latter, the other one."""

from __future__ import annotations

from mbbq_gen.extraction.by_label import is_named
from mbbq_gen.extraction.lexicon import ANYBODY, EARLIER, INNER, LATER, NAMED, NOUN, PLACE_NOUN, PLACES
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.options import QuestionWords
from mbbq_gen.extraction.syntax import PRONOUN
from mbbq_gen.extraction.unknowns import NOT

_ORDINALS = tuple((PLACES[f"p{place}"], place - 1) for place in range(1, 5))
_ANY_PLACE = sum(PLACES.values())
_FIRST = EARLIER | PLACES["p1"] | PLACES["former"]
_TURN = _FIRST | LATER | PLACES["p2"] | PLACES["latter"] | PLACES["last"]
"""Words for who is named before, or behind, the other."""
_SOMEBODY = C["who"] | C["relative"] | C["doer"] | C["doing"] | ANYBODY | PLACE_NOUN
_TIES = C["who"] | C["relative"]
_ELSE = NOUN | NOT
"""Words of a clause that names an option, or says what a text does not name."""
NEAR_NAMED = 5
"""Words by which who is first or second may stand apart from what says that a text names them."""
_RELATIVE = PLACES["former"] | PLACES["latter"] | PLACES["other"]


def find_places(
    line: Line, question: QuestionWords, taken: list[bool], found_before: list[Mention], history: list[tuple[int, int]]
) -> list[Mention]:
    """The second option, the latter, the other one."""
    found = [] if question.shown.digits or not any(map(str.isdecimal, line.texts)) else _numbers(line, question, taken)
    for place in [place for place, mask in enumerate(line.masks) if mask & _ANY_PLACE and not taken[place]]:
        mask = line.masks[place]
        noun = place if not line.words[place].mask & mask & _ANY_PLACE else _place_noun(line, place)
        if mask & _RELATIVE:
            named = sorted(
                (m.start, m.option) for m in (*found_before, *found) if m.start < place and m.option in question.persons
            )
            known = question.order or (question.named if _is_of_two(line, place) else ())
            option = _referent(mask, [option for _, option in (*history, *named)], known, question)
            if option is not None and (not mask & PLACES["other"] or _is_noun(line, place, question)):
                refers = not mask & PLACES["other"]
                found.append(Mention(option, place, place + 1, How.TEXT, full=True, refers=refers))
            continue
        person = any([_is_person(mask) for mask in line.masks[place + 1 : place + 2]])
        of_two = noun is None and _is_of_two(line, place)
        person = person or of_two
        option = _option_at(line, mask, place, place + 1 if person and noun is None else noun, question)
        option = 1 if of_two and mask & PLACES["last"] else option
        order = question.order or (question.named if person else ())
        if option is not None and (noun is None or person) and len(order) == 2 and option < 2:
            found.append(Mention(order[option], place, place + 1, How.TEXT, full=True))
        elif option is not None:
            start, end = (min(place, noun), max(place, noun) + 1) if noun is not None else (place, place + 1)
            found.append(Mention(option, start, end, How.PLACE, full=True, weak=noun is None))
    if len(question.persons) == 2:
        found = _of_story(line, question, taken, found_before, found)
    return found


def _of_story(
    line: Line, question: QuestionWords, taken: list[bool], before: list[Mention], found: list[Mention]
) -> list[Mention]:
    """The mentions by place, with people by the order in which the story names them: "whoever it mentions first"."""
    masks, words = line.masks, line.words
    turns = [place for place, mask in enumerate(masks) if (mask | words[place].mask) & _TURN and not taken[place]]
    for place in turns:
        mask, own = masks[place] | words[place].mask, words[place].mask
        of_source = any([near & C["source"] for near in masks[place + 1 : place + 2]])
        if mask & _ANY_PLACE and (mask & _ANY_PLACE & ~own or of_source):  # "the first sentence" is nobody
            continue
        start, end = _between_commas(line, place)
        near = [
            other
            for other in range(max(start, place - NEAR_NAMED), min(end, place + NEAR_NAMED + 1))
            if (masks[other] | words[other].mask) & NAMED and other != place
        ]
        if not near or any(m.start < end and m.end > start for m in before):
            continue
        first, last = min(place, *near), max(place, *near) + 1
        called = question.verb_final and any([mask & PRONOUN for mask in masks[last : last + 1]])
        people = range(max(start - 1, 0), end)
        if not (called or any([(masks[other] | words[other].mask) & _SOMEBODY for other in people])):
            continue
        tied = next((other for other in range(first, start, -1) if masks[other] & _TIES), start)
        if any([mask & _ELSE for mask in masks[tied:end]]):
            continue
        found = [m for m in found if m.end <= first or m.start >= last]
        found.append(_in_turn(mask, question, first, last))
    return found


def _between_commas(line: Line, place: int) -> tuple[int, int]:
    """The stretch around a word up to the next commas."""
    gaps, count = line.gaps, len(line.masks)
    start = next((first for first in range(place, 0, -1) if gaps[first] >= COMMA), 0)
    return start, next((last for last in range(place + 1, count) if gaps[last] >= COMMA), count)


def _in_turn(mask: int, question: QuestionWords, first: int, last: int) -> Mention:
    """The person who is named first, or second; where nothing is known of the story, the option that is."""
    if question.named:
        return Mention(question.named[not mask & _FIRST], first, last, How.TEXT, full=True)
    option = 0 if mask & _FIRST else 1 if mask & PLACES["p2"] else len(question.options) - 1
    return Mention(option, first, last, How.PLACE, full=True)


def _is_of_two(line: Line, place: int) -> bool:
    """Whether a word for a place stands beside one that says of which two: "the first of the two", "of the two, the
    first"."""
    start, end = max(place - NEAR_NAMED, 0), place + NEAR_NAMED
    return any([mask & C["between"] for mask in line.masks[start:end]])


def _is_person(mask: int) -> bool:
    """Whether a word is one for people, and none for options: "the second boy" is one of the story's."""
    return bool(mask & ANYBODY and not mask & PLACE_NOUN)


def _option_at(line: Line, mask: int, place: int, noun: int | None, question: QuestionWords) -> int | None:
    """The option that a word for a place means, with its noun or at the end of a clause."""
    ordinal = next((index for bit, index in _ORDINALS if mask & bit and index < len(question.options)), None)
    if noun is None and place + 1 < len(line.masks) and line.gaps[place + 1] < COMMA:
        return None
    own = bool(place and line.masks[place - 1] & C["speaker"] and not question.verb_final)
    if own and noun is not None and line.masks[noun] & C["answer"]:
        return None  # "my first answer" is no place
    if mask & PLACES["middle"] and len(question.options) == 3 and (noun is None or ordinal is None):
        return 1
    if noun is not None and ordinal is None and mask & PLACES["last"]:
        return None if line.masks[noun] & C["answer"] else len(question.options) - 1  # "final answer" is none
    return ordinal


def _numbers(line: Line, question: QuestionWords, taken: list[bool]) -> list[Mention]:
    """Options by number where their labels are letters: "option 2"."""
    return [
        Mention(int(text) - 1, place, place + 1, How.PLACE, full=True)
        for place, text in enumerate(line.texts)
        if text.isdecimal() and len(text) == 1 and 0 < int(text) <= len(question.options)
        if not taken[place] and is_named(line, place)
    ]


def _referent(mask: int, before: list[int], order: tuple[int, ...], question: QuestionWords) -> int | None:
    """Whom the former, the latter, or the other one means; `before` are the persons named up to here, `order` that of
    the story, where it is known."""
    if mask & PLACES["other"]:
        left = [option for option in question.persons if before and option != before[-1]]
        return left[0] if len(left) == 1 else None
    shown = order or ([] if question.predicate else question.persons)
    pair = list(dict.fromkeys(reversed(before)))[:2]
    if len(pair) < 2:
        pair = list(reversed(shown)) if not before or order else []
    if len(pair) != 2:
        return None
    return pair[0] if mask & PLACES["latter"] else pair[1]


def _is_noun(line: Line, place: int, question: QuestionWords) -> bool:
    """Whether a word for "other" means a person: it is part of a row, ends a clause, or stands before "man"."""
    last = place + any(mask & INNER for mask in line.masks[place + 1 : place + 2])
    if any(line.texts[last] in text.split() for text in question.options):
        return False
    if place + 1 == len(line.masks) or line.gaps[place + 1] >= COMMA:
        return True
    return bool(line.masks[place + 1] & (INNER | ANYBODY))


def _place_noun(line: Line, place: int) -> int | None:
    """Where the word stands that a place belongs to."""
    for other in (place + 1, place - 1, place + 2):
        if 0 <= other < len(line.masks) and line.masks[other] & PLACE_NOUN:
            low, high = min(place, other), max(place, other)
            if max(line.gaps[low + 1 : high + 1]) < COMMA:
                return other
    return None
