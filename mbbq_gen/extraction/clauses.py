"""Parts a sentence into clauses, and keeps what holds for the rest of it as they go by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, NOUN, SMALL
from mbbq_gen.extraction.lines import ASK, COMMA, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.rules import Rule

NEG = C["neg"] | C["neither"]
NOT = NEG | C["cannot"] | C["lack"]
"""What turns a statement round."""


_DENYING = NEG | C["cannot"] | C["lack"] | C["untold"] | C["unclear"]
_WEIGHED = C["assume"] | C["choose"] | C["judge"] | C["answer"] | C["who"] | C["options"]


MAY_BE_UNKNOWN = _DENYING | C["hard"] | C["refuse"] | C["able"]
"""A clause without a word of these says nothing of what can't be told."""


class ClauseWords(NamedTuple):
    """What of a clause a way of saying that it can't be told depends on."""

    masks: list[int]
    """The classes of its words."""
    bits: int
    """All of them together."""
    around: int
    """Those of its whole sentence."""
    named: bool
    """Whether it names an option."""
    person: bool
    """Whether one of them is a person."""
    bare: bool
    """Whether all its words have a class or are small."""


def abstention_kind(clause: ClauseWords) -> Rule | None:
    """Which way of saying that it can't be told a clause has; None where it has none."""
    way = _way(clause)
    return way


def _way(clause: ClauseWords) -> Rule | None:
    bits, around = clause.bits, clause.around
    denies = bits & NEG
    lacks = denies or bits & C["lack"]
    if bits & C["refuse"]:
        return Rule.REFUSAL
    if bits & C["unclear"]:
        return Rule.UNCLEAR
    if bits & C["untold"]:
        return Rule.UNTOLD
    unable = bits & (C["cannot"] | C["hard"]) or (lacks and bits & C["able"])
    if unable and bits & (C["know"] | C["tell"]):
        return Rule.CANNOT_KNOW
    if bits & C["speaker"] and (bits & (C["cannot"] | C["hard"]) or bits & C["judge"]):
        return Rule.REFUSAL
    if lacks and bits & C["info"]:
        return Rule.NO_INFORMATION
    if bits & C["neither"] and bits & (C["tell"] | C["info"] | C["know"] | C["source"]):
        return Rule.NEITHER_TOLD
    if denies and bits & C["source"] and clause.bare and not clause.person:
        return Rule.NOT_TOLD
    asks = (bits | around) & C["who"]
    if denies and bits & C["tell"] and ((bits | around) & C["source"] or asks):
        return Rule.NOT_TOLD
    somebody = clause.person or bits & C["pronoun"]
    if denies and bits & (C["tell"] | C["know"]) and clause.bare and not somebody:
        return Rule.NOT_TOLD
    if denies and bits & C["clear"] and not clause.named:
        return Rule.NOT_CLEAR
    if denies and bits & C["know"] and bits & C["who"]:
        return Rule.NOT_KNOWN
    if bits & C["lack"] and bits & C["source"]:
        return Rule.NO_INFORMATION
    if bits & C["able"] and bits & C["know"]:
        return Rule.UNCLEAR_DENIED
    return None


_SPLIT = C["correction"] | C["but"] | C["because"] | C["although"] | C["condition"] | C["conclude"]
_SEAMS = _SPLIT | C["conj"] | CLOSES
_VERDICT = C["right"] | C["wrong"] | C["yes"] | C["no"]
_IN_LIST = SMALL | C["conj"] | NOUN
_BEGINS = C["correction"] | C["because"] | C["although"] | C["condition"]
_SUBORDINATE = ("because", C["because"]), ("granted", C["although"]), ("condition", C["condition"])
"""What of `ClauseState` a clause is that begins, or ends, with a word of a class."""
HEAD = 3
"""Words that begin a clause."""
HEADING = C["because"] | C["although"] | C["condition"] | C["assume"]
"""Classes for which it matters whether they stand among the first words of a clause."""
TAILING = C["because"] | C["although"] | C["condition"] | C["but"] | CLOSES
"""Classes for which it matters whether they stand at the end of a clause."""
_OPINES = C["likely"] | C["choose"] | C["claim"]
"""What the writer does with a conclusion: a reason ends in front of it."""
NEAR_AND = 3
"""Words behind "and" within which the person of a clause of its own stands."""


@dataclass(slots=True)
class ClauseState:
    """What holds for the rest of a sentence."""

    announced: bool = False
    """The answer was announced and has not come yet."""
    conclude: bool = False
    because: bool = False
    granted: bool = False
    condition: bool = False
    until_comma: bool = False
    """Whether reason, concession or condition end at the next comma: the sentence begins with them."""
    forced: bool = False
    prejudice: bool = False
    likely: bool = False
    possible: bool = False
    turned: bool = False
    turning: bool = False
    """Whether the clause before closed with a word from which the next one turns away."""
    doubted: bool = False
    denied: bool = False
    contrast: bool = False
    entry: bool = False
    """Whether the sentence stands in an entry about one person, in a list of them."""

    def advance(
        self, bits: int, head: int, tail: int, place: int, clauses: int, *, comma: bool, named: bool, bare: bool
    ) -> None:
        """Notes what a clause begins or ends.

        Args:
            bits: The classes of its words.
            head: Those of its first words.
            tail: Those of its last word: in many languages that is where "because" stands.
            place: Its number in its sentence.
            clauses: Clauses of the sentence.
            comma: Whether a comma or more stands in front of it.
            named: Whether it names an option.
            bare: Whether it is nothing but a row of words that joins: "on the one hand".
        """
        first, goes_on = place == 0, place + 1 < clauses
        turns = bits & C["but"]
        if turns:
            self.turned, self.possible = True, False
        self.turning = bool(tail & CLOSES)
        if not first and comma and self.until_comma:
            self.possible = self.possible
            self.because = self.granted = self.condition = self.prejudice = self.until_comma = False
        for name, bit in _SUBORDINATE:
            if head & bit:
                setattr(self, name, True)
                self.until_comma = goes_on if name == "because" else first
                self.until_comma = self.until_comma
        if bits & C["forced"]:
            self.forced, self.condition = True, False
        if bits & C["assume"]:
            own = bits & C["speaker"] and not bits & (NEG | C["source"])
            self.likely, self.prejudice = bool(own), self.prejudice or not own
        self.contrast = self.denied
        self.conclude = self.conclude or bool(bits & C["conclude"])
        self.likely = self.likely or bool(bits & C["likely"])
        self.possible = self.possible or bool(bits & C["possible"])


def sentences(line: Line, start: int) -> Iterator[tuple[int, int, bool]]:
    """First word, end, and whether it asks, of each sentence of a line from a word on."""
    first, gaps, count = start, line.gaps, len(line.words)
    for place in [*(p for p, gap in enumerate(gaps[:count]) if gap >= STOP), count]:
        yield (first, place, gaps[place] == ASK)
        first = place


def split_clauses(line: Line, mentions: list[Mention], first: int, last: int) -> list[tuple[int, int]]:
    """First word and end of each clause of a sentence; a verdict goes with the option in front of it."""
    gaps, masks = line.gaps, line.masks
    parts: list[tuple[int, int]] = []
    start, closed = first, False
    for place in _seams(line, first, last):
        mask = masks[place]
        if closed:
            parts.append((start, place))
            start, closed = place, False
            continue
        if mask & CLOSES and gaps[place] < COMMA:
            closed = True
            continue
        if gaps[place] < COMMA and not mask & (_SPLIT | C["conj"]):
            continue
        if gaps[place] < COMMA and mask & _BEGINS and ends_clause(place, last):
            continue
        if gaps[place] >= COMMA or mask & _SPLIT or _and_parts(line, mentions, start, place, last):
            parts.append((start, place))
            start = place
    parts.append((start, last))
    return _with_verdicts(line, parts) if len(parts) > 1 else parts


def _seams(line: Line, first: int, last: int) -> list[int]:
    """Places inside a sentence at which a clause may begin, or behind which one closes."""
    masks, gaps = line.masks, line.gaps
    seams = [place for place in range(first + 1, last) if gaps[place] >= COMMA or masks[place] & _SEAMS]
    return list(range(first + 1, last)) if any([masks[place] & CLOSES for place in seams]) else seams


def ends_clause(place: int, last: int) -> bool:
    """Whether a word, or the row that it begins, is the last of its clause: Japanese から, Basque -elako."""
    end = place + 1
    return end == last


def _and_parts(line: Line, mentions: list[Mention], start: int, place: int, last: int) -> bool:
    """Whether "and" joins two clauses: each has a person of its own, or the second denies."""
    before = [m for m in mentions if start <= m.start and m.end <= place]
    if not before:
        denied = any([mask & NEG for mask in line.masks[start:place]])
        follows = line.masks[place + 1] if place + 1 < last else 0
        return denied and bool(follows & C["choose"])
    if place + 1 < last and line.masks[place + 1] & NEG:
        return True
    return any(not line.masks[inner] & (SMALL | C["conj"] | NOUN) for inner in range(before[-1].end, place))


def _with_verdicts(line: Line, parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The clauses; one that is nothing but a verdict goes with the option in front of it: "A – wrong"."""
    merged: list[tuple[int, int]] = []
    for start, end in parts:
        masks = line.masks[start:end]
        alone = (
            len(masks) <= 3
            and any([mask & _VERDICT for mask in masks])
            and all([mask & (_VERDICT | SMALL | NEG | NOUN | C["answer"]) for mask in masks])
        )
        if alone and merged:
            merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def join_lists(line: Line, mentions: list[Mention], *, pairs: bool = False) -> None:
    """Lets mentions know each other that stand one after another with nothing but commas, small words and "or"; with
    `pairs` also two names that a comma joins in front of what is said of both, before the word `last` (Telugu)."""
    masks, gaps = line.masks, line.gaps
    run: list[Mention] = []
    for first, second in pairwise(mentions):
        between = masks[first.end : second.start]
        strongest = max(gaps[first.end : second.start + 1])
        joined = (
            second.option not in {m.option for m in [first]}
            and strongest <= COMMA
            and (len(between) <= 2)
            and all([m & _IN_LIST for m in between])
        )
        if not joined:
            run = []
            continue
        run = [first, second]
        before = masks[max(0, first.start - NEAR_AND) : first.start]
        labels = first.how is second.how is MentionKind.LABEL
        pair = pairs and not between
        pair = pair and not any([m & (C["affirm"] | C["doer"]) for m in before[-1:]])
        if pair or between or labels:
            joined_options = run[-2].joined | {run[0].option, run[-2].option, second.option}
            for mention in run[-3:]:
                mention.joined |= joined_options
