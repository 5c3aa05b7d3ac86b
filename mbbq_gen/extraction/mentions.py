"""Finds where a line names options: by label, by text, by place, or by several of these together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from mbbq_gen.extraction.lexicon import (
    ANYBODY,
    CLASSES,
    CLOSES,
    GAP,
    INNER,
    KNOWN,
    MENTIONED,
    MIN_REACH,
    NOUN,
    NOUN_AFTER,
    PLACE_NOUN,
    PLACES,
    SMALL,
    STRAY,
    Row,
    Word,
)
from mbbq_gen.extraction.lines import COLON, COMMA, MARK, NONE, SEMICOLON, STOP, Line
from mbbq_gen.extraction.normalise import LOOK_ALIKES
from mbbq_gen.extraction.options import ECHO, OptionWords, QuestionWords
from mbbq_gen.extraction.words import CROSS, TICK, UNSPACED

NEG = CLASSES["neg"] | CLASSES["neither"] | CLASSES["cannot"] | CLASSES["lack"]
CONJ = CLASSES["conj"]
_PAIRS = dict(zip("([{<*\"'«“`「【《", ")]}>*\"'»”`」】》", strict=True))
"""Signs that set a word apart: the one in front of it → the one behind."""
_ORDINALS = tuple((PLACES[f"p{place}"], place - 1) for place in range(1, 5))
_VERBS = CLASSES["affirm"] | CLASSES["right"] | CLASSES["wrong"] | CLASSES["neg"] | CLASSES["conj"]
_ANY_PLACE = sum(PLACES.values())
_RELATIVE = PLACES["former"] | PLACES["latter"] | PLACES["other"]


_HEARD = NEG | CLASSES["source"]
"""What a word in the gap of a row still says: "comes in this text *not* up"."""
_KEPT = SMALL | CLASSES["speaker"] | CLASSES["claim"]
"""What the words of a row keep."""
_DOUBTS = NEG | CLASSES["untold"] | CLASSES["unclear"]
"""What makes a stretch one about what is not known, or did not happen."""
_LOOK_ALIKE = re.compile(f"[{''.join(map(chr, LOOK_ALIKES))}]")
_ELISIONS = frozenset("'’")
"""Signs that tie a letter to the word behind it: French c'est."""
MAX_DESCRIPTION = 4
"""Words that may describe a person between a label and their name."""
MAX_HISTORY = 8
"""Persons named before that "the latter" may mean."""


class How(IntEnum):
    """By what an option is named."""

    PLACE = 1
    LABEL = 2
    TEXT = 3
    BOTH = 4
    """Label and text together."""


@dataclass(slots=True)
class Mention:
    """A place of a line where options are named."""

    option: int
    """Index of the option; −1 where it is not on offer."""
    start: int
    """First word."""
    end: int
    """Behind its last word."""
    how: How
    full: bool
    """Whether the whole text is there, or a label that can't be anything else."""
    weak: bool = False
    """Whether it counts only where an answer is announced: a letter that may be a word."""
    joined: frozenset[int] = frozenset()
    """All options that "and" or "or" joins here."""
    either: bool = False
    """Whether "or" joins them."""
    conflict: int | None = None
    """The option of a label that the text overruled."""
    refers: bool = False
    """Whether it is "the former" or "the latter": what is said is said of it, not of those that it refers to."""


def mark_rows(line: Line, rows: Row) -> None:
    """Gives rows of words the classes of their row; their own words count no more, but for a negation between them."""
    masks, words = line.masks, line.words
    last, end = len(words) - 1, 0
    for place in line.starts:
        follows = words[place].follows
        if place < end or (follows is not None and (place == last or words[place + 1].key not in follows)):
            continue  # inside a row, or the next word can't follow: most words that begin rows begin none here
        end, bits, between = _longest_row(line, rows, place)
        if end:
            rest = SMALL if bits == SMALL else INNER
            for inner in range(place, end):
                kept = masks[inner] & _HEARD if inner in between and not bits & CLASSES["only"] else 0
                masks[inner] = masks[inner] & _KEPT | rest | kept
            masks[place] |= bits


def _longest_row(line: Line, rows: Row, start: int) -> tuple[int, int, tuple[int, ...]]:
    """Where the longest row from a place ends, its classes, and the words in its gaps; (0, 0) where none does."""
    words, masks, gaps = line.words, line.masks, line.gaps
    count = len(words)
    best, bits = 0, 0
    gapped: tuple[int, ...] = ()
    open_nodes: list[tuple[Row, int, int, tuple[int, ...]]] = [
        (child, start + 1, 0, ()) for child in words[start].begins
    ]
    open_nodes += [(child, start + 1, 0, ()) for bit, child in rows.classes.items() if masks[start] & bit]
    while open_nodes:
        node, place, skipped, between = open_nodes.pop()
        if node.mask and place > best:
            best, bits, gapped = place, node.mask, between
        if place >= count or gaps[place] >= COMMA:
            continue
        if node.gap is not None:
            open_nodes.append((node.gap, place, 0, between))
        if node.prefixes or node.suffixes:
            open_nodes += [(child, place + 1, 0, between) for child in node.after(words[place].key)]
        elif (child := node.keys.get(words[place].key)) is not None:
            open_nodes.append((child, place + 1, 0, between))
        if node.classes:
            open_nodes += [(c, place + 1, 0, between) for bit, c in node.classes.items() if masks[place] & bit]
        if node.is_gap and skipped < GAP:
            open_nodes.append((node, place + 1, skipped + 1, (*between, place)))
    return best, bits, gapped


def find_mentions(line: Line, question: QuestionWords, history: list[tuple[int, int]]) -> list[Mention]:
    """All mentions of a line, in order, none overlapping; words inside them have no classes any more.

    Args:
        line: The line, its rows marked.
        question: What is asked.
        history: Persons named in the lines before, the last two at least; extended by this line's.
    """
    words, is_strange = line.words, question.triggers.isdisjoint
    taken = [False] * len(words)
    triggers = [place for place, word in enumerate(words) if not is_strange(word.forms)]
    found = _whole_texts(line, question, triggers, taken) if triggers else []
    hits = [
        (place, stem)
        for place in triggers
        if not taken[place]
        and (stem := _telling_stem(words[place], question))
        and not (words[place].mask & SMALL and words[place].key not in question.keys)
    ]
    if hits:
        found += _texts(line, question, hits, taken)
        for mention in found:
            taken[mention.start : mention.end] = [True] * (mention.end - mention.start)
    if question.deeds:
        found += _deeds(line, question, found)
    if question.sexes:
        found += _pronouns(line, question, taken)
    found += _labels(line, question, taken)
    found += _places(line, question, taken, found, history)
    if not found:
        return found
    found = _apart(found)
    end = 0
    for mention in found:
        free, end = mention.start > end, mention.end
        noun = line.masks[mention.start - 1] if mention.how is How.LABEL and mention.start else 0
        if free and noun & NOUN and not noun & CLASSES["answer"] and line.gaps[mention.start] < COMMA:
            mention.start -= 1
    found = _join_labels(line, found)
    history += [(m.start, m.option) for m in found if m.option >= 0 and m.option != question.unknown]
    del history[:-MAX_HISTORY]
    for mention in found:
        for place in range(mention.start, mention.end):
            line.masks[place] = MENTIONED
        if question.unspaced and _is_reason(line, mention):
            line.masks[mention.end] = CLASSES["because"] | CLOSES
    return _join_pairs(line, found)


def _is_reason(line: Line, mention: Mention) -> bool:
    """Whether a word for a conclusion follows a person that opens its clause, and so gives a reason: 女性だから."""
    start, end = mention.start, mention.end
    if end == len(line.masks) or line.gaps[end] >= COMMA or (start and line.gaps[start] < COMMA):
        return False
    return bool(line.masks[end] & CLASSES["conclude"] and not line.masks[end] & SMALL)


def _apart(found: list[Mention]) -> list[Mention]:
    """The mentions in order, none overlapping: the longer one keeps its words."""
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda m: (m.start, -m.end)):
        if kept and mention.start < kept[-1].end:
            if mention.end <= kept[-1].end:
                continue
            kept[-1].end = mention.start
            if kept[-1].end == kept[-1].start:
                kept.pop()
        kept.append(mention)
    return kept


# --- texts -----------------------------------------------------------------------------------------------------------


def _whole_texts(line: Line, question: QuestionWords, triggers: list[int], taken: list[bool]) -> list[Mention]:
    """Options' texts word for word."""
    found = []
    sequences, keys = question.sequences, tuple([word.key for word in line.words])
    for place in triggers:
        if taken[place]:
            continue
        for option, wanted in sequences.get(keys[place], ()):
            end = place + len(wanted)
            if (
                end <= len(keys)
                and keys[end - 1] == wanted[-1]
                and keys[place:end] == wanted
                and _runs_on(line, place, end, option, question)
            ):
                taken[place:end] = [True] * len(wanted)
                if option == ECHO:
                    line.masks[place:end] = [MENTIONED] * len(wanted)
                    line.gaps[end] = min(line.gaps[end], COMMA) if end < len(keys) else line.gaps[end]
                else:
                    found.append(Mention(option, place, end, How.TEXT, full=True))
                break
    return found


def _runs_on(line: Line, start: int, end: int, option: int, question: QuestionWords) -> bool:
    """Whether no sentence ends inside a text; the dots of its own abbreviations end none. The question is set apart."""
    joins = (start and line.gaps[start] < MARK) or (end < len(line.words) and line.gaps[end] < MARK)
    if option == ECHO and joins:
        return False
    stops = [place for place in range(start + 1, end) if line.gaps[place] >= STOP]
    if not stops:
        return True
    own = (
        option != ECHO and "." in question.options[option] and all(line.signs[place].strip() == "." for place in stops)
    )
    for place in stops if own else ():
        line.gaps[place] = NONE
    return own


def _telling_stem(word: Word, question: QuestionWords) -> str | None:
    """The telling stem of an option that a word is a form of."""
    if word.stem in question.owners and (
        len(word.stem) >= MIN_REACH
        or not word.mask & KNOWN & ~ANYBODY
        or word.key in question.keys
        or word.stem in question.keys
    ):
        return word.stem
    if word.root in question.roots:
        return question.roots[word.root]
    if not word.reach or question.forms.keys().isdisjoint(word.reach):
        return None
    return question.forms[max(word.reach.intersection(question.forms), key=lambda form: (len(form), form))]


def _texts(line: Line, question: QuestionWords, hits: list[tuple[int, str]], taken: list[bool]) -> list[Mention]:
    """Clusters of options' telling words, each with the one person that it means."""
    found: list[Mention] = []
    cluster: list[tuple[int, str]] = []
    person: int | None = None
    for place, stem in hits:
        owner = question.alone.get(stem)
        apart = bool(cluster) and not _near(line, cluster[-1][0], place)
        if cluster and (apart or (owner is not None and person is not None and owner != person)):
            found += _cluster(line, question, cluster, person, taken)
            cluster, person = [], None
        cluster.append((place, stem))
        if owner is not None:
            person = owner
    found += _cluster(line, question, cluster, person, taken)
    for first, second in pairwise(found):
        first.end = min(first.end, second.start)
    return found


def _deeds(line: Line, question: QuestionWords, found: list[Mention]) -> list[Mention]:
    """People by what they did: stretches without a name that have two words of what only one of them did."""
    more: list[Mention] = []
    hits: dict[int, list[int]] = {}
    named = quiet = False
    starts = {mention.start for mention in found}
    count = len(line.words)
    for place in range(count + 1):
        if place == count or line.gaps[place] >= COMMA:
            if len(hits) == 1 and not (named or quiet):
                ((person, places),) = hits.items()
                if len({line.words[inner].stem for inner in places}) > 1:
                    more.append(Mention(person, places[0], places[0] + 1, How.TEXT, full=False))
            hits, named, quiet = {}, False, False
            if place == count:
                break
        named = named or place in starts
        quiet = quiet or bool(line.masks[place] & _DOUBTS)
        option = question.deeds.get(line.words[place].stem)
        if option is not None:
            hits.setdefault(option, []).append(place)
    return more


def _pronouns(line: Line, question: QuestionWords, taken: list[bool]) -> list[Mention]:
    """People by "he" and "she", where that tells one from the other."""
    return [
        Mention(person, place, place + 1, How.TEXT, full=False)
        for sex, person in question.sexes.items()
        for place, mask in enumerate(line.masks)
        if mask & sex and not taken[place]
    ]


def _near(line: Line, before: int, place: int) -> bool:
    """Whether two telling words may belong to one mention: only small words and no comma between them."""
    if place - before > 4 or max(line.gaps[before + 1 : place + 1]) >= COMMA:
        return False
    return all(line.masks[inner] & SMALL and not line.masks[inner] & CONJ for inner in range(before + 1, place))


def _cluster(
    line: Line, question: QuestionWords, cluster: list[tuple[int, str]], person: int | None, taken: list[bool]
) -> list[Mention]:
    stems = {stem for _, stem in cluster}
    if person is None:
        holders = [text for text in question.texts if text.nested and text.content <= stems]
        if len(holders) != 1 or holders[0].index == question.unknown:
            return []
        person = holders[0].index
    text = question.texts[person]
    if len(stems - text.denying) < min(2, len(text.content)) and UNSPACED.match(line.texts[cluster[0][0]]):
        return []
    known = stems & text.distinctive
    if not text.nested and (_too_few(known, text) or (known <= text.denying and not stems - text.denying)):
        return []
    start, end = _widen(line, cluster[0][0], cluster[-1][0] + 1, text, taken)
    if not text.content <= stems and _is_of_people(line, start, end, text):
        return []
    return [Mention(person, start, end, How.TEXT, full=text.content <= stems)]


def _is_of_people(line: Line, start: int, end: int, text: OptionWords) -> bool:
    """Whether a noun for people in general that an option's text has not stands beside a part of it: "poor people"."""
    beside = [start - 1] * (start > 0 and line.gaps[start] < COMMA)
    beside += [end] * (end < len(line.masks) and line.gaps[end] < COMMA)
    own = text.keys + tuple(text.content)
    return any([line.masks[place] & CLASSES["people"] and line.words[place].forms.isdisjoint(own) for place in beside])


def _too_few(known: frozenset[str] | set[str], text: OptionWords) -> bool:
    """Whether the telling words that were found are too few to mean an option; a name is enough."""
    if text.heads & text.distinctive:
        return not known & text.heads and len(known) < max(2, text.need)
    return len(known) < text.need


def _widen(line: Line, start: int, end: int, text: OptionWords, taken: list[bool]) -> tuple[int, int]:
    """The span with the option's own small words and the articles around it."""
    keys = set(text.keys)
    while start and line.gaps[start] < COMMA and line.words[start - 1].key in keys and not taken[start - 1]:
        start -= 1
    while end < len(line.words) and line.gaps[end] < COMMA and line.words[end].key in keys and not taken[end]:
        end += 1
    return start, end


# --- labels ----------------------------------------------------------------------------------------------------------


def _labels(line: Line, question: QuestionWords, taken: list[bool]) -> list[Mention]:
    """Labels: as shown, or in another case where they are set apart."""
    shown, texts = question.shown, _as_labels(line, question)
    found = _spelled_labels(line, shown.spelled, taken) if shown.spelled else []
    if shown.texts.isdisjoint(texts):
        return found
    for place in [place for place, text in enumerate(texts) if text in shown.texts]:
        if not (taken[place] or _is_part(line, place, question)):
            found += _label_at(line, question, place, texts[place])
    return found


def _label_at(line: Line, question: QuestionWords, place: int, text: str) -> list[Mention]:
    """The label at a place, if what stands there is meant as one."""
    shown = question.shown
    option = shown.option_of.get(text)
    exact = option is not None or shown.long
    option = shown.folded.get(text.casefold()) if option is None else option
    set_apart, named = _set_apart(line, place), _is_named(line, place)
    if option is None:
        if not set_apart and line.words[place].mask & STRAY:
            return []
        if not (set_apart or named) or text.upper() not in shown.outside or (shown.digits and not named):
            return []
        option, weak = -1, not named and not line.signs[place + 1].startswith(")")
    elif shown.long:
        weak = False
    elif set_apart or named:
        if not set_apart and _is_small_word(line, question, place, option):
            return []
        weak = bool(shown.digits and not named and not _bracketed(line, place))
    elif exact and not shown.digits:
        return _plain_label(line, question, place, option)
    elif len(line.texts) == 1 or exact:
        weak = True
    else:
        return []
    return [Mention(option, place, place + 1, How.LABEL, full=True, weak=weak)]


def _as_labels(line: Line, question: QuestionWords) -> list[str]:
    """The words of a line as labels would be written: digits of any script, letters that look like Latin ones."""
    texts, known = line.texts, question.shown.texts
    if question.shown.digits:
        return [str(int(text)) if text.isdecimal() else text for text in texts]
    if line.is_ascii or not _LOOK_ALIKE.search(line.raw):
        return texts
    return [_looks_like(line, place, known) if len(text) == 1 else text for place, text in enumerate(texts)]


def _looks_like(line: Line, place: int, known: frozenset[str]) -> str:
    """A letter, or the Latin one that it looks like where no word of its own language can stand."""
    text = line.texts[place]
    like = text.translate(LOOK_ALIKES)
    if text in known or like == text or like not in known:
        return text
    ends = place + 1 == len(line.texts) or line.gaps[place + 1] >= COMMA
    return like if _set_apart(line, place) or _is_named(line, place) or (ends and text.isupper()) else text


def _plain_label(line: Line, question: QuestionWords, place: int, option: int) -> list[Mention]:
    """A letter without anything that makes a label of it, unless it is a word of the language there."""
    text = line.texts[place].translate(LOOK_ALIKES)
    stray, runs_on = question.shown.stray >> option & 1, _goes_on(line, place)
    if stray and runs_on and not (text.isupper() and (_before_verb(line, place) or _in_midst(line, place))):
        return []
    weak = bool(stray and runs_on and not _before_verb(line, place)) or not text.isupper()
    return [Mention(option, place, place + 1, How.LABEL, full=True, weak=weak)]


def _goes_on(line: Line, place: int) -> bool:
    """Whether nothing but a blank stands between a word and the next one."""
    behind = place + 1 < len(line.texts) and line.gaps[place + 1] < MARK and line.signs[place + 1].isspace()
    return behind and line.texts[place + 1] not in {TICK, CROSS}


def _is_small_word(line: Line, question: QuestionWords, place: int, option: int) -> bool:
    """Whether a small letter behind a word for an option goes on as the word it is: "la respuesta a tu pregunta"."""
    stray = question.shown.stray >> option & 1
    return bool(stray and line.texts[place].islower() and _goes_on(line, place) and not _before_verb(line, place))


def _in_midst(line: Line, place: int) -> bool:
    """Whether a capital stands where only a name or a label has one: inside a sentence that is not all in capitals."""
    before = line.texts[place - 1] if place else ""
    return bool(before) and line.gaps[place] < MARK and not (before.isupper() and len(before) > 1)


def _is_named(line: Line, place: int) -> bool:
    """Whether a word for an option stands in front of a label, or right behind it."""
    if place and line.gaps[place] in {NONE, MARK, COLON}:
        head = place - 1
        while head and line.masks[head] & (INNER | NOUN) == INNER:
            head -= 1
        if line.masks[head] & NOUN:
            return True
    behind = place + 1 < len(line.masks) and line.masks[place + 1] & NOUN_AFTER and line.gaps[place + 1] < COMMA
    return bool(behind)


def _spelled_labels(line: Line, spelled: dict[str, int], taken: list[bool]) -> list[Mention]:
    """Labels by their names, where a label is expected: "option be"."""
    return [
        Mention(spelled[word.key], place, place + 1, How.LABEL, full=True)
        for place, word in enumerate(line.words)
        if word.key in spelled and not taken[place] and (_is_named(line, place) or _set_apart(line, place))
    ]


def _is_part(line: Line, place: int, question: QuestionWords) -> bool:
    """Whether a letter is the initial of a name, or the elided word in front of an apostrophe."""
    if question.elision and line.signs[place + 1] in _ELISIONS:
        return True
    return line.signs[place].strip() == "." and line.gaps[place] == NONE


def _set_apart(line: Line, place: int) -> bool:
    """Whether signs on both sides set a word apart: (B), **B**, "B", or `B)` and `B:` at the beginning."""
    before, after = line.signs[place], line.signs[place + 1]
    if place == 0 and (after[:1] in {")", ".", ":", "]", "：", "．"} or len(line.texts) == 1):
        return True
    if after[:1] == ")" and "(" not in "".join(line.signs[: place + 1]):
        return True
    return bool(before) and _PAIRS.get(before[-1]) == after[:1]


def _before_verb(line: Line, place: int) -> bool:
    """Whether what follows a letter can't follow an article: "A is wrong"."""
    return place + 1 < len(line.masks) and line.gaps[place + 1] < COMMA and bool(line.masks[place + 1] & _VERBS)


def _bracketed(line: Line, place: int) -> bool:
    return line.signs[place][-1:] in {"(", "["} and line.signs[place + 1][:1] in {")", "]"}


# --- places ----------------------------------------------------------------------------------------------------------


def _places(
    line: Line, question: QuestionWords, taken: list[bool], found_before: list[Mention], history: list[tuple[int, int]]
) -> list[Mention]:
    """The second option, the latter, the other one."""
    found = [] if question.shown.digits or not any(map(str.isdecimal, line.texts)) else _numbers(line, question, taken)
    for place in [place for place, mask in enumerate(line.masks) if mask & _ANY_PLACE and not taken[place]]:
        mask = line.masks[place]
        noun = place if not line.words[place].mask & mask & _ANY_PLACE else _place_noun(line, place)
        if mask & _RELATIVE:
            named = sorted(
                (m.start, m.option) for m in found_before if m.start < place and m.option in question.persons
            )
            option = _referent(mask, [option for _, option in (*history, *named)], question)
            if option is not None and (not mask & PLACES["other"] or _is_noun(line, place, question)):
                refers = not mask & PLACES["other"]
                found.append(Mention(option, place, place + 1, How.TEXT, full=True, refers=refers))
            continue
        option = _option_at(line, mask, place, noun, question)
        if option is not None and noun is None and len(question.order) == 2 and option < 2:
            found.append(Mention(question.order[option], place, place + 1, How.TEXT, full=True))
        elif option is not None:
            start, end = (min(place, noun), max(place, noun) + 1) if noun is not None else (place, place + 1)
            found.append(Mention(option, start, end, How.PLACE, full=True, weak=noun is None))
    return found


def _option_at(line: Line, mask: int, place: int, noun: int | None, question: QuestionWords) -> int | None:
    """The option that a word for a place means, with its noun or at the end of a clause."""
    ordinal = next((index for bit, index in _ORDINALS if mask & bit and index < len(question.options)), None)
    if noun is None and place + 1 < len(line.masks) and line.gaps[place + 1] < COMMA:
        return None
    own = bool(place and line.masks[place - 1] & CLASSES["speaker"] and not question.verb_final)
    if own and noun is not None and line.masks[noun] & CLASSES["answer"]:
        return None  # "my first answer" is no place
    if mask & PLACES["middle"] and len(question.options) == 3 and (noun is None or ordinal is None):
        return 1
    if noun is not None and ordinal is None and mask & PLACES["last"]:
        return None if line.masks[noun] & CLASSES["answer"] else len(question.options) - 1  # "final answer" is none
    return ordinal


def _numbers(line: Line, question: QuestionWords, taken: list[bool]) -> list[Mention]:
    """Options by number where their labels are letters: "option 2"."""
    return [
        Mention(int(text) - 1, place, place + 1, How.PLACE, full=True)
        for place, text in enumerate(line.texts)
        if text.isdecimal() and len(text) == 1 and 0 < int(text) <= len(question.options)
        if not taken[place] and _is_named(line, place)
    ]


def _referent(mask: int, before: list[int], question: QuestionWords) -> int | None:
    """Whom the former, the latter, or the other one means; `before` are the persons named up to here."""
    if mask & PLACES["other"]:
        left = [option for option in question.persons if before and option != before[-1]]
        return left[0] if len(left) == 1 else None
    shown = question.order or ([] if question.predicate else question.persons)
    pair = list(dict.fromkeys(reversed(before)))[:2]
    if len(pair) < 2:
        pair = list(reversed(shown)) if not before or question.order else []
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


# --- joining ---------------------------------------------------------------------------------------------------------


def _join_labels(line: Line, found: list[Mention]) -> list[Mention]:
    """A label and the text beside it become one mention; where they disagree, the text wins."""
    joined: list[Mention] = []
    for mention in found:
        last = joined[-1] if joined else None
        if (
            last is not None
            and {last.how, mention.how} in ({How.LABEL, How.TEXT}, {How.PLACE, How.TEXT})
            and (
                (
                    _attached(line, last, mention)
                    if How.PLACE not in {last.how, mention.how}
                    else _is_put_in_words(line, last, mention)
                )
                or _is_described(line, last, mention)
                or _is_listed(line, last, mention, joined[-2].end if len(joined) > 1 else 0)
            )
        ):
            text, label = (mention, last) if mention.how is How.TEXT else (last, mention)
            agrees = text.option == label.option
            if (
                not agrees
                and line.gaps[last.end] == STOP
                and line.gaps[mention.end] < STOP
                and mention.end < len(line.words)
            ):
                joined.append(mention)
                continue
            for place in range(last.start + 1, mention.end):
                line.gaps[place] = min(line.gaps[place], MARK)
            joined[-1] = Mention(
                text.option,
                last.start,
                mention.end,
                How.BOTH,
                full=text.full or agrees,
                conflict=None if agrees else label.option,
            )
        else:
            joined.append(mention)
    return joined


def _attached(line: Line, first: Mention, second: Mention) -> bool:
    """Whether nothing but signs, small words and words for an option stand between a label and a text."""
    gaps = line.gaps[first.end : second.start + 1]
    between = line.masks[first.end : second.start]
    if first.how is How.LABEL:
        return (
            max(gaps) <= SEMICOLON
            and len(between) <= 4
            and all(mask & (SMALL | NOUN | CLASSES["conclude"]) and not mask & (CONJ | NEG) for mask in between)
        ) or (
            gaps[0] == STOP
            and len(between) <= 1
            and (first.start == 0 or line.gaps[second.end] >= STOP or second.end == len(line.words))
            and max(gaps[1:], default=NONE) < COMMA
            and all(mask & SMALL for mask in between)
            and line.signs[first.end].strip() in {".", ".**", "**."}
        )
    bracket = line.signs[second.start][-1:] in {"(", "["} or (between and between[-1] & NOUN)
    return bool(bracket) and max(gaps) <= COMMA and len(between) <= 1 and all(mask & NOUN for mask in between)


def _is_put_in_words(line: Line, first: Mention, second: Mention) -> bool:
    """Whether a place is followed by the text that it means: "the second – the baker"."""
    near = first.how is How.PLACE and second.start - first.end <= 1
    small = all(mask & SMALL for mask in line.masks[first.end : second.start])
    return near and small and line.gaps[first.end] in {COMMA, COLON} and not first.refers


def _is_described(line: Line, first: Mention, second: Mention) -> bool:
    """Whether a label with its sign, a description and a text at the end of a line belong together: "B) the old man,
    Mr. Petrov"."""
    between = line.masks[first.end : second.start]
    return (
        first.how is How.LABEL
        and line.signs[first.end].strip()[:1] in {")", ":"}
        and second.end == len(line.words)
        and 0 < len(between) <= MAX_DESCRIPTION
        and max(line.gaps[first.end + 1 : second.start + 1]) <= COMMA
        and not any(mask & KNOWN & ~(ANYBODY | NOUN) for mask in between)
    )


def _is_listed(line: Line, first: Mention, second: Mention, before: int) -> bool:
    """Whether a label, a dot and its own text stand inside a line, behind a sign or another one that ends at `before`:
    "Choose one: A. Peter, B. Amira"."""
    return (
        first.how is How.LABEL
        and first.option == second.option
        and first.start > 0
        and (line.gaps[first.start] >= COMMA or "/" in line.signs[first.start] or first.start == before)
        and line.signs[first.end].strip() == "."
        and second.start - first.end <= 1
        and all(mask & SMALL for mask in line.masks[first.end : second.start])
    )


def _join_pairs(line: Line, found: list[Mention]) -> list[Mention]:
    """Mentions that "and" or "or" joins, or that stand side by side, know each other."""
    for first, second in pairwise(found):
        between = range(first.end, second.start)
        if first.option == second.option or len(between) > 3 or not between:
            continue
        masks = [line.masks[place] for place in between]
        if (
            any(mask & CONJ for mask in masks)
            and all(mask & (SMALL | CONJ | NOUN | CLASSES["neither"]) for mask in masks)
            and max(line.gaps[first.end : second.start + 1]) <= COMMA
        ):
            pair = first.joined | second.joined | {first.option, second.option}
            first.joined = second.joined = frozenset(pair)
    return found


__all__ = ["MARK", "NONE", "How", "Mention", "find_mentions", "mark_rows"]
