"""Finds mentions of options by label, text, ordinal ("the second") or misspelt text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

from mbbq_gen.extraction.lexicon import ANYBODY, INNER, KNOWN, MENTIONED, NOUN, PLACE_NOUN, PLACES, SMALL, STRAY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COMMA, MARK, NONE, SEMICOLON, STOP, Line
from mbbq_gen.extraction.question import PreparedQuestion
from mbbq_gen.extraction.text import LOOK_ALIKES, UNSPACED

_ORDINALS = tuple((PLACES[f"p{index}"], index - 1) for index in range(1, 5))
_ANY_PLACE = sum(PLACES.values())
_VERBS = C["affirm"] | C["right"] | C["wrong"] | C["neg"] | C["conj"]
"""Classes that a word after a label may have, but not a word after an article: "A is wrong"."""
NEAR = 5
"""Largest distance in words of "of the two" from "the first"."""
MIN_LETTERS, LONG = 4, 8
"""Fewest letters of a word that may have one misspelling, and two."""
MAX_WORDS = 80
"""First words of a line that are checked for misspellings."""


class MentionKind(IntEnum):
    """The way in which an option is named."""

    ORDINAL = 1
    LABEL = 2
    TEXT = 3
    BOTH = 4


@dataclass(slots=True)
class Mention:
    """A stretch of words that names an option."""

    option: int
    start: int
    end: int
    kind: MentionKind
    full: bool
    """Whether it is the whole text, a label, or an ordinal."""
    weak: bool = False
    """Whether it counts only in a clause that announces an answer: a letter or ordinal that may mean something else."""
    joined: frozenset[int] = frozenset()
    """All options that are joined with it by "and", "or" or a comma."""
    conflict: int | None = None
    """The option of the label, if the text beside it names another one."""


def find_mentions(line: Line, question: PreparedQuestion) -> list[Mention]:
    """All mentions of a line, in order; their words get the class MENTIONED only."""
    words = line.words
    taken = [False] * len(words)
    triggers = [index for index, word in enumerate(words) if not question.triggers.isdisjoint(word.forms)]
    found = _whole_texts(line, question, triggers, taken)
    hits = [
        (index, stem)
        for index in triggers
        if not taken[index]
        and (stem := _stem_of_option(line, index, question))
        and not (line.masks[index] & SMALL and words[index].key not in question.keys)
    ]
    found += _partial_texts(line, question, hits)
    for mention in found:
        taken[mention.start : mention.end] = [True] * (mention.end - mention.start)
    found += _labels(line, question, taken)
    found += _positions(line, question)
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda m: (m.start, -m.end)):
        if kept and mention.start < kept[-1].end:
            if mention.end <= kept[-1].end:
                continue
            kept[-1].end = mention.start
        kept.append(mention)
    found = _with_labels(line, kept)
    for mention in found:
        line.masks[mention.start : mention.end] = [MENTIONED] * (mention.end - mention.start)
    for first, second in pairwise(found):
        between = line.masks[first.end : second.start]
        joins = question.begins_with_and(words[second.start].key) or any([mask & C["conj"] for mask in between])
        if first.option != second.option and len(between) <= 3 and joins:
            first.joined = second.joined = first.joined | second.joined | {first.option, second.option}
    return found


# --- by text ---------------------------------------------------------------------------------------------------------


def _whole_texts(line: Line, question: PreparedQuestion, triggers: list[int], taken: list[bool]) -> list[Mention]:
    """Mentions by an option's text, word for word."""
    found = []
    keys = tuple([word.key for word in line.words]) if triggers else ()
    for index in triggers:
        if taken[index]:
            continue
        for option, text in question.sequences.get(keys[index], ()):
            end = index + len(text)
            if keys[index:end] == text:
                taken[index:end] = [True] * len(text)
                found.append(Mention(option, index, end, MentionKind.TEXT, full=True))
                break
    return found


def _stem_of_option(line: Line, index: int, question: PreparedQuestion) -> str | None:
    """The stem of an option's word, if a word is a form of it."""
    word = line.words[index]
    if word.stem in question.owners:
        return word.stem
    if word.root in question.roots:
        return question.roots[word.root]
    found = max(word.option_forms.intersection(question.forms), key=lambda form: (len(form), form), default=None)
    return None if found is None else question.forms[found]


def _partial_texts(line: Line, question: PreparedQuestion, hits: list[tuple[int, str]]) -> list[Mention]:
    """Mentions by clusters of words of options; each cluster names one person."""
    found: list[Mention] = []
    cluster: list[tuple[int, str]] = []
    person: int | None = None
    for index, stem in [*hits, (-1, "")]:
        owner = question.sole_owners.get(stem)
        apart = index < 0 or (owner is not None and person is not None and owner != person)
        if cluster and not apart:
            before = cluster[-1][0]
            apart = (
                question.begins_with_and(line.words[index].key)
                or index - before > 4
                or max(line.gaps[before + 1 : index + 1]) >= COMMA
                or not all([mask & SMALL for mask in line.masks[before + 1 : index]])
            )
        if cluster and apart:
            mention = _of_cluster(line, question, cluster, person)
            if mention is not None:
                found.append(mention)
            cluster, person = [], None
        cluster.append((index, stem))
        person = owner if owner is not None else person
    return found


def _of_cluster(
    line: Line, question: PreparedQuestion, cluster: list[tuple[int, str]], person: int | None
) -> Mention | None:
    """The mention by a cluster of words; None if they do not suffice."""
    if person is None:
        return None
    stems, start, last = {stem for _, stem in cluster}, cluster[0][0], cluster[-1][0]
    text = question.texts[person]
    if UNSPACED.match(line.texts[start]):
        own = {stem for index, stem in cluster if not line.words[index].classes & SMALL} - text.weak_stems
        if len(own) < min(2, len(text.content)):
            return None
    if stems <= text.weak_stems:
        return None
    whole = text.content.keys() <= stems
    if not whole and start:  # "poor people": a noun for people that is not in the option's text
        word, known = line.words[start - 1], (*text.keys, *text.content)
        if (line.masks[start - 1] | word.classes) & C["people"] and word.forms.isdisjoint(known):
            return None
    return Mention(person, start, last + 1, MentionKind.TEXT, full=whole)


def mark_misspelt(lines: list[Line], question: PreparedQuestion) -> bool:
    """Gives each misspelt word of one option the right stem; returns whether there were any."""
    stems = [(stem, option) for stem, option in question.sole_owners.items() if len(stem) >= MIN_LETTERS]
    found = False
    for line in lines:
        for index, word in enumerate(line.words[:MAX_WORDS]):
            if len(word.key) < MIN_LETTERS or line.masks[index] & (KNOWN | SMALL | INNER):
                continue
            near = {(stem, option) for stem, option in stems if distance(word.stem, stem) <= 1 + (len(stem) >= LONG)}
            if len({option for _, option in near}) == 1:
                stem = min(near)[0]
                line.words[index] = replace(word, stem=stem, forms=word.forms | {stem})
                found = True
    return found


def distance(one: str, other: str) -> int:
    """The Damerau-Levenshtein distance (optimal string alignment); 3 if greater or the first letters differ."""
    if abs(len(one) - len(other)) > 2 or one[:1] != other[:1]:
        return 3
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        older, before, row = before, row, [index]
        for column, aim in enumerate(other, 1):
            cost = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != aim))
            if index > 1 and column > 1 and letter == other[column - 2] and one[index - 2] == aim:
                cost = min(cost, older[column - 2] + 1)
            row.append(cost)
        if min(row) > 2:
            return 3
    return min(row[-1], 3)


# --- by label and ordinal --------------------------------------------------------------------------------------------


def _labels(line: Line, question: PreparedQuestion, taken: list[bool]) -> list[Mention]:
    """Mentions by a label as shown; in upper or lower case if it is the line."""
    labels = question.labels
    found = []
    for index in [index for index, text in enumerate(line.texts) if text in question.label_forms and not taken[index]]:
        text, signs = line.texts[index], line.signs
        if (question.lexicon.elision and signs[index + 1] in {"'", "’"}) or (
            signs[index].strip() == "." and line.gaps[index] == NONE
        ):
            continue  # French c'est, the initial of a name
        runs_on = index + 1 < len(line.texts) and line.gaps[index + 1] < MARK and signs[index + 1].isspace()
        if line.words[index].classes & STRAY and runs_on and not line.masks[index + 1] & _VERBS:
            continue  # "A baker"
        option = labels.get(text)
        weak = option is None or not text.translate(LOOK_ALIKES).isupper()
        if option is None and len(line.texts) == 1:
            option = next((labels[label] for label in labels if label.casefold() == text.casefold()), None)
        if option is not None:
            found.append(Mention(option, index, index + 1, MentionKind.LABEL, full=True, weak=weak))
    return found


def _positions(line: Line, question: PreparedQuestion) -> list[Mention]:
    """Mentions by ordinals: the second option, the last one."""
    found = []
    masks, count = line.masks, len(question.options)
    for index in [index for index, mask in enumerate(masks) if mask & _ANY_PLACE]:
        mask = masks[index]
        noun: int | None = index
        if line.words[index].classes & mask & _ANY_PLACE:
            near = index + 1, index - 1, index + 2
            noun = next((other for other in near if 0 <= other < len(masks) and masks[other] & PLACE_NOUN), None)
        person = any([mask & ANYBODY for mask in masks[index + 1 : index + 2]])
        of_two = noun is None and any([mask & C["between"] for mask in masks[max(index - NEAR, 0) : index + NEAR]])
        if person or of_two or (noun is None and index + 1 < len(masks)):
            continue  # "the second boy", "the first of the two" refer to the context
        if noun is not None and masks[index - 1] & C["speaker"] and masks[noun] & C["answer"]:
            continue  # "my first answer"
        option = next((index for bit, index in _ORDINALS if mask & bit and index < count), None)
        if mask & PLACES["middle"] and count == 3 and (noun is None or option is None):
            option = 1
        elif mask & PLACES["last"]:
            option = count - 1
        if option is not None:
            start, end = (min(index, noun), max(index, noun) + 1) if noun is not None else (index, index + 1)
            found.append(Mention(option, start, end, MentionKind.ORDINAL, full=True, weak=noun is None))
    return found


def _with_labels(line: Line, found: list[Mention]) -> list[Mention]:
    """Merges a label and the text beside it into one mention of the text's option."""
    joined: list[Mention] = []
    for mention in found:
        last = joined[-1] if joined else None
        if last is None or (last.kind is MentionKind.TEXT) == (mention.kind is MentionKind.TEXT):
            joined.append(mention)
            continue
        text, label = (mention, last) if mention.kind is MentionKind.TEXT else (last, mention)
        agrees = text.option == label.option
        ends = line.gaps[mention.end] >= STOP or mention.end == len(line.words)
        listed = agrees and line.gaps[last.start] >= COMMA  # "Choose one: A. Peter, B. Amira"
        if not _belong_together(line, last, mention, ends or listed) or (
            not agrees and not ends and line.gaps[last.end] == STOP
        ):
            joined.append(mention)
            continue
        for index in range(last.start + 1, mention.end):
            line.gaps[index] = min(line.gaps[index], MARK)
        conflict = None if agrees else label.option
        joined[-1] = Mention(
            text.option, last.start, mention.end, MentionKind.BOTH, full=text.full or agrees, conflict=conflict
        )
    return joined


def _belong_together(line: Line, first: Mention, second: Mention, ends: bool) -> bool:
    """Whether a label is close before a text, or in brackets after it."""
    gaps, between = line.gaps[first.end : second.start + 1], line.masks[first.end : second.start]
    if first.kind is MentionKind.LABEL:
        stops = gaps[0] == STOP and len(between) <= 1 and (first.start == 0 or ends)
        return stops or (max(gaps) <= SEMICOLON and len(between) <= 4)
    bracket = line.signs[second.start][-1:] in {"(", "["} or (between and between[-1] & NOUN)
    return bool(bracket) and len(between) <= 1
