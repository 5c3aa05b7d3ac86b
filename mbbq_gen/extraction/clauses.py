"""Splits lines into sentences and clauses, keeps what holds for the rest of a sentence, and names abstentions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mbbq_gen.extraction.claims import Rule
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, NOUN, SMALL
from mbbq_gen.extraction.lines import ASK, COMMA, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind

NEG = C["neg"] | C["neither"]
NOT = NEG | C["cannot"] | C["lack"]
"""Negation of a statement."""
DENY = NEG | C["wrong"] | C["no"] | C["cannot"]
"""Denial of an option."""
PRONOUN = C["pronoun"] | C["he"] | C["she"]
MAY_ABSTAIN = NOT | C["not_stated"] | C["unclear"] | C["hard"] | C["refuse"] | C["able"]
"""A clause without a word of these is no abstention."""
HEAD = 3
"""Words that begin a clause."""
_SPLIT = C["correction"] | C["but"] | C["because"] | C["although"] | C["condition"] | C["conclude"]
_BEGINS = C["correction"] | C["because"] | C["although"] | C["condition"]
_JUDGES = C["right"] | C["wrong"] | C["yes"] | C["no"]
_IN_LIST = SMALL | C["conj"] | NOUN
_NOT_IN_LIST = NEG | C["aside"] | C["affirm"] | C["conclude"] | _SPLIT
"""What may stand between the entries of a list, and what may not: a verb makes a clause of its own."""


def abstention_kind(bits: int, around: int, *, named: bool, person: bool, bare: bool) -> Rule | None:
    """The kind of abstention or refusal that a clause is; None where it is none.

    Args:
        bits: The classes of its words.
        around: Those of its whole sentence.
        named: Whether it names an option.
        person: Whether one of them is a person.
        bare: Whether all its words have a class or are small.
    """
    denies, asks, knows = bits & NEG, (bits | around) & C["who"], bits & (C["know"] | C["tell"])
    lacks, hard = denies or bits & C["lack"], bits & (C["cannot"] | C["hard"])
    kinds = (
        (Rule.REFUSAL, bits & C["refuse"]),
        (Rule.UNCLEAR, bits & C["unclear"]),
        (Rule.NOT_STATED, bits & C["not_stated"]),
        (Rule.CANNOT_KNOW, knows and (hard or (lacks and bits & C["able"]))),
        (Rule.REFUSAL, bits & C["speaker"] and (hard or bits & C["judge"])),
        (Rule.NO_INFORMATION, lacks and bits & C["info"]),
        (Rule.NEITHER_TOLD, bits & C["neither"] and bits & (C["tell"] | C["info"] | C["know"] | C["source"])),
        (Rule.NOT_TOLD, denies and bits & C["source"] and bare and not person),
        (Rule.NOT_TOLD, denies and bits & C["tell"] and ((bits | around) & C["source"] or asks)),
        (Rule.NOT_TOLD, denies and knows and bare and not (person or bits & C["pronoun"])),
        (Rule.NOT_CLEAR, denies and bits & C["clear"] and not named),
        (Rule.NOT_KNOWN, denies and bits & C["know"] and bits & C["who"]),
        (Rule.NO_INFORMATION, bits & C["lack"] and bits & C["source"]),
        (Rule.UNCLEAR_DENIED, bits & C["able"] and bits & C["know"]),
    )
    return next((kind for kind, holds in kinds if holds), None)


@dataclass(slots=True)
class ClauseState:
    """What holds for the rest of a sentence."""

    announced: bool = False
    """The answer was announced and has not come yet."""
    conclude: bool = False
    because: bool = False
    doubted: bool = False
    granted: bool = False
    condition: bool = False
    until_comma: bool = False
    """Whether reason, concession or condition end at the next comma: the sentence begins with them."""
    forced: bool = False
    prejudice: bool = False
    likely: bool = False
    turned: bool = False
    denied: bool = False
    entry: bool = False
    """Whether the sentence stands in an entry about one person, in a list of them."""

    def advance(self, bits: int, head: int, *, first: bool, last: bool, comma: bool) -> None:
        """Notes what a clause begins.

        Args:
            bits: The classes of its words.
            head: Those of its first words.
            first: Whether it is the first of its sentence.
            last: Whether it is the last one.
            comma: Whether a comma or more stands in front of it.
        """
        self.turned = self.turned or bool(bits & C["but"])
        if not first and comma and self.until_comma:
            self.because = self.granted = self.condition = self.prejudice = self.until_comma = False
        if head & C["because"]:
            self.because, self.until_comma = True, not last
        if head & C["although"]:
            self.granted, self.until_comma = True, first
        if head & C["condition"]:
            self.condition, self.until_comma = True, first
        if bits & C["forced"]:
            self.forced, self.condition = True, False
        if bits & C["assume"]:
            self.likely = bool(bits & C["speaker"] and not bits & (NEG | C["source"]))
            self.prejudice = self.prejudice or not self.likely
        self.conclude = self.conclude or bool(bits & C["conclude"])
        self.likely = self.likely or bool(bits & C["likely"])


def sentences(line: Line, start: int) -> Iterator[tuple[int, int, bool]]:
    """First word, end, and whether it is a question, of each sentence of a line from a word on."""
    first, gaps, count = start, line.gaps, len(line.words)
    for place in [*(p for p, gap in enumerate(gaps[:count]) if gap >= STOP and p > start), count]:
        yield first, place, gaps[place] == ASK
        first = place


def split_clauses(line: Line, mentions: list[Mention], first: int, last: int) -> list[tuple[int, int]]:
    """First word and end of each clause of a sentence; "wrong" and "right" go with the option in front of them."""
    gaps, masks = line.gaps, line.masks
    parts: list[tuple[int, int]] = []
    start, closed = first, False
    closes = any([mask & CLOSES for mask in masks[first + 1 : last]])
    for place in range(first + 1, last):
        mask = masks[place]
        if closed:
            parts.append((start, place))
            start, closed = place, False
        elif closes and mask & CLOSES and gaps[place] < COMMA:
            closed = True
        elif gaps[place] < COMMA and (
            not mask & (_SPLIT | C["conj"]) or (mask & _BEGINS and place + 1 == last)  # Japanese から, Basque -elako
        ):
            continue
        elif gaps[place] >= COMMA or mask & _SPLIT or _and_splits(line, mentions, start, place, last):
            parts.append((start, place))
            start = place
    parts.append((start, last))
    merged: list[tuple[int, int]] = []
    for start, end in parts:
        inner = masks[start:end]
        judges = len(inner) <= 3 and any([mask & _JUDGES for mask in inner])
        if merged and judges and all([mask & (_JUDGES | SMALL | NEG | NOUN | C["answer"]) for mask in inner]):
            merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def _and_splits(line: Line, mentions: list[Mention], start: int, place: int, last: int) -> bool:
    """Whether "and" joins two clauses: words stand between it and the person before, or the second clause denies."""
    follows = line.masks[place + 1] if place + 1 < last else 0
    before = [m for m in mentions if start <= m.start and m.end <= place]
    if not before:
        return bool(follows & C["choose"]) and any([mask & NEG for mask in line.masks[start:place]])
    return bool(follows & NEG) or any([not mask & _IN_LIST for mask in line.masks[before[-1].end : place]])


def join_lists(line: Line, mentions: list[Mention], *, pairs: bool) -> None:
    """Joins mentions with nothing but commas, small words and "or" between them; with `pairs` also two that only a
    comma joins in front of what is said of both (Telugu)."""
    for first, second in pairwise(mentions):
        between, before = line.masks[first.end : second.start], line.masks[max(0, first.start - 1) : first.start]
        if (
            second.option == first.option
            or max(line.gaps[first.end : second.start + 1]) > COMMA
            or len(between) > 2
            or not all([mask & _IN_LIST and not mask & _NOT_IN_LIST for mask in between])
        ):
            continue
        labels = first.how is second.how is MentionKind.LABEL
        if between or labels or (pairs and not any([mask & (C["affirm"] | C["doer"]) for mask in before])):
            first.joined |= {first.option, second.option}
            second.joined |= first.joined
