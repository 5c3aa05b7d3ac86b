"""Finds where a line names options: by label, by text, by place, or by several of these together."""

from __future__ import annotations

from itertools import pairwise

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import MENTIONED, NOUN, SMALL
from mbbq_gen.extraction.lines import MARK, SEMICOLON, STOP, Line
from mbbq_gen.extraction.mention_kinds import (
    find_labels,
    find_position_mentions,
    find_texts,
    find_whole_texts,
    telling_stem,
)
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.prepared_question import PreparedQuestion

_CONJ = C["conj"]


def join_labels(line: Line, found: list[Mention]) -> list[Mention]:
    """A label and the text beside it become one mention; where they disagree, the text wins."""
    joined: list[Mention] = []
    for mention in found:
        last = joined[-1] if joined else None
        if (
            last is not None
            and {last.how, mention.how}
            in ({MentionKind.LABEL, MentionKind.TEXT}, {MentionKind.PLACE, MentionKind.TEXT})
            and _attached(line, last, mention)
        ):
            text, label = mention, last
            agrees = text.option == label.option
            if (
                not agrees
                and line.gaps[last.end] == STOP
                and (line.gaps[mention.end] < STOP)
                and (mention.end < len(line.words))
            ):
                joined.append(mention)
                continue
            for place in range(last.start + 1, mention.end):
                line.gaps[place] = min(line.gaps[place], MARK)
            joined[-1] = Mention(text.option, last.start, mention.end, MentionKind.BOTH, full=text.full, conflict=None)
        else:
            joined.append(mention)
    return joined


def _attached(line: Line, first: Mention, second: Mention) -> bool:
    """Whether nothing but signs, small words and words for an option stand between a label and a text."""
    gaps = line.gaps[first.end : second.start + 1]
    between = line.masks[first.end : second.start]
    if first.how is MentionKind.LABEL:
        return (max(gaps) <= SEMICOLON and len(between) <= 4) or (
            gaps[0] == STOP
            and len(between) <= 1
            and (first.start == 0 or line.gaps[second.end] >= STOP or second.end == len(line.words))
        )
    bracket = line.signs[second.start][-1:] in {"(", "["} or (between and between[-1] & NOUN)
    return bool(bracket) and len(between) <= 1


def join_pairs(line: Line, question: PreparedQuestion, found: list[Mention]) -> list[Mention]:
    """Mentions that "and" or "or" joins know each other."""
    for first, second in pairwise(found):
        between = range(first.end, second.start)
        if first.option == second.option or len(between) > 3:
            continue
        masks = [line.masks[place] for place in between]
        joins = question.begins_second(line.words[second.start].key)
        if joins or any(mask & _CONJ for mask in masks):
            pair = first.joined | second.joined | {first.option, second.option}
            first.joined = second.joined = frozenset(pair)
    return found


def find_mentions(line: Line, question: PreparedQuestion) -> list[Mention]:
    """All mentions of a line, in order, none overlapping; words inside them have no classes any more."""
    words, is_strange = line.words, question.triggers.isdisjoint
    taken = [False] * len(words)
    triggers = [place for place, word in enumerate(words) if not is_strange(word.forms)]
    found = find_whole_texts(line, question, triggers, taken) if triggers else []
    hits = [
        (place, stem)
        for place in triggers
        if not taken[place]
        and (stem := telling_stem(words[place], question))
        and not (line.masks[place] & SMALL and words[place].key not in question.keys)
    ]
    if hits:
        found += find_texts(line, question, hits)
        for mention in found:
            taken[mention.start : mention.end] = [True] * (mention.end - mention.start)
    found += find_labels(line, question, taken)
    found += find_position_mentions(line, question)
    found = _apart(found)
    found = join_labels(line, found)
    for mention in found:
        for place in range(mention.start, mention.end):
            line.masks[place] = MENTIONED
    return join_pairs(line, question, found)


def _apart(found: list[Mention]) -> list[Mention]:
    """The mentions in order, none overlapping: the longer one keeps its words."""
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda m: (m.start, -m.end)):
        if kept and mention.start < kept[-1].end:
            kept[-1].end = mention.start
            if kept[-1].end == kept[-1].start:
                kept.pop()
        kept.append(mention)
    return kept
