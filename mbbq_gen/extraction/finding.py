"""Finds where a line names options: by label, by text, by place, or by several of these together."""

from __future__ import annotations

from mbbq_gen.extraction.by_label import find_labels
from mbbq_gen.extraction.by_place import find_places
from mbbq_gen.extraction.by_text import find_deeds, find_pronouns, find_texts, find_whole_texts, telling_stem
from mbbq_gen.extraction.joining import join_labels, join_pairs
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, MENTIONED, NOUN, SMALL
from mbbq_gen.extraction.lines import COMMA, Line
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.options import QuestionWords

MAX_HISTORY = 8
"""Persons named before that "the latter" may mean."""


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
    found = find_whole_texts(line, question, triggers, taken) if triggers else []
    hits = [
        (place, stem)
        for place in triggers
        if not taken[place]
        and (stem := telling_stem(words[place], question))
        and not (line.masks[place] & SMALL and words[place].key not in question.keys)
    ]
    if hits:
        found += find_texts(line, question, hits, taken)
        for mention in found:
            taken[mention.start : mention.end] = [True] * (mention.end - mention.start)
    if question.deeds:
        found += find_deeds(line, question, found)
    if question.sexes:
        found += find_pronouns(line, question, taken)
    found += find_labels(line, question, taken)
    found += find_places(line, question, taken, found, history)
    if not found:
        return found
    found = _apart(found)
    end = 0
    for mention in found:
        free, end = mention.start > end, mention.end
        noun = line.masks[mention.start - 1] if mention.how is How.LABEL and mention.start else 0
        if free and noun & NOUN and not noun & C["answer"] and line.gaps[mention.start] < COMMA:
            mention.start -= 1
    found = join_labels(line, found)
    history += [(m.start, m.option) for m in found if m.option >= 0 and m.option != question.unknown]
    del history[:-MAX_HISTORY]
    for mention in found:
        for place in range(mention.start, mention.end):
            line.masks[place] = MENTIONED
        if question.unspaced and _is_reason(line, mention):
            line.masks[mention.end] = C["because"] | CLOSES
    return join_pairs(line, question, found)


def _is_reason(line: Line, mention: Mention) -> bool:
    """Whether a word for a conclusion follows a person that opens its clause, and so gives a reason: 女性だから."""
    start, end = mention.start, mention.end
    if end == len(line.masks) or line.gaps[end] >= COMMA or (start and line.gaps[start] < COMMA):
        return False
    return bool(line.masks[end] & C["conclude"] and not line.masks[end] & SMALL)


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
