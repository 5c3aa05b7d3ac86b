"""Parts a sentence into clauses, and keeps what holds for the rest of it as they go by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, INNER, KNOWN, MENTIONED, NOUN, SMALL
from mbbq_gen.extraction.lines import ASK, COMMA, STOP, Line
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.unknowns import NEG
from mbbq_gen.extraction.words import CROSS, TICK

_SPLIT = C["correction"] | C["but"] | C["because"] | C["although"] | C["condition"] | C["conclude"]
_SEAMS = _SPLIT | C["conj"] | CLOSES
_VERDICT = C["right"] | C["wrong"] | C["yes"] | C["no"]
_IN_LIST = SMALL | C["conj"] | NOUN
_NOT_IN_LIST = NEG | C["aside"] | C["affirm"] | C["conclude"] | _SPLIT
"""What may stand between the entries of a list, and what may not: a verb makes a clause of its own."""
_BEGINS = C["correction"] | C["because"] | C["although"] | C["condition"]
_TURNS = C["but"] | C["conclude"]
"""What begins a clause; what may stand inside one as well, without a comma: "she had, however, given it away"."""
_SUBORDINATE = (("because", C["because"]), ("granted", C["although"]), ("condition", C["condition"]))
"""What of `State` a clause is that begins, or ends, with a word of a class."""
HEAD = 3
"""Words that begin a clause."""
HEADING = C["because"] | C["although"] | C["condition"] | C["assume"]
"""Classes for which it matters whether they stand among the first words of a clause."""
TAILING = C["because"] | C["although"] | C["condition"] | C["but"] | CLOSES
"""Classes for which it matters whether they stand at the end of a clause."""
_OPINES = C["likely"] | C["choose"] | C["claim"]
"""What the writer does with a conclusion: a reason ends in front of it."""
_HOLDS = HEADING | TAILING | C["conclude"] | C["forced"] | C["likely"] | C["possible"]
"""What changes what holds for the rest of a sentence."""
_HEADS = (KNOWN | C["doer"] | C["doing"]) & ~C["speaker"]
"""What the first word of a row has, and its later words don't."""
NEAR_AND = 3
"""Words behind "and" within which the person of a clause of its own stands."""


@dataclass(slots=True)
class State:
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
        if comma and bits & C["source"] and bits & NEG and not bits & C["assume"]:
            self.prejudice = False
        if self.because and comma and bits & C["speaker"] and bits & _OPINES and not head & C["because"]:
            self.because = False
        if not bits & _HOLDS and not self.turning and not (comma and self.until_comma):
            self.contrast = self.denied and place > 0
            self.turning = False
            return
        first, goes_on = place == 0, place + 1 < clauses
        turns = bits & C["but"] and not (tail & CLOSES and tail & C["but"])
        if turns or self.turning or (bits & C["conclude"] and (first or comma)):
            self.because = self.granted = self.prejudice = False
        if turns or self.turning:
            self.turned, self.possible = True, False
        self.turning = bool(tail & CLOSES and tail & (C["but"] | C["although"]))
        if not first and comma and self.until_comma:
            self.possible = self.possible and not (self.granted or self.condition)
            self.because = self.granted = self.condition = self.prejudice = self.until_comma = False
        for name, bit in _SUBORDINATE:
            if name == "condition" and bits & C["forced"]:
                continue
            if head & bit:
                setattr(self, name, True)
                self.until_comma = goes_on and (first or not named) if name == "because" else first
                self.until_comma = self.until_comma and not (bare and name == "granted")
            elif tail & bit:
                setattr(self, name, True)
                self.until_comma = True
        if bits & C["forced"]:
            self.forced, self.condition = True, False
        if bits & C["assume"] and not head & C["aside"]:
            own = bits & C["speaker"] and not bits & (NEG | C["source"])
            self.likely, self.prejudice = self.likely or bool(own), self.prejudice or not own
        self.contrast = self.denied and not first
        self.conclude = self.conclude or bool(bits & C["conclude"])
        self.likely = self.likely or bool(bits & C["likely"])
        self.possible = self.possible or bool(bits & C["possible"])


def sentences(line: Line, start: int) -> Iterator[tuple[int, int, bool]]:
    """First word, end, and whether it asks, of each sentence of a line from a word on."""
    first, gaps, count = start, line.gaps, len(line.words)
    for place in [*(p for p, gap in enumerate(gaps[:count]) if gap >= STOP and p > start), count]:
        yield first, place, gaps[place] == ASK
        first = place


def split_clauses(line: Line, mentions: list[Mention], first: int, last: int) -> list[tuple[int, int]]:
    """First word and end of each clause of a sentence; a verdict goes with the option in front of it."""
    gaps, masks = line.gaps, line.masks
    parts: list[tuple[int, int]] = []
    start, closed = first, False
    signs = [place for place in range(first, last) if line.texts[place] in {TICK, CROSS}] if _is_ticked(line) else []
    for place in _seams(line, first, last) if not signs else range(first + 1, last):
        mask = masks[place]
        if closed and not is_inner(mask):
            parts.append((start, place))
            start, closed = place, False
            continue
        if mask & CLOSES and gaps[place] < COMMA:
            closed = True
            continue
        if signs and _next_ticked(signs, mentions, start, place):
            parts.append((start, place))
            start = place
            continue
        if gaps[place] < COMMA and not mask & (_SPLIT | C["conj"]):
            continue
        if gaps[place] < COMMA and mask & _BEGINS and ends_clause(line, place, last):
            continue
        if gaps[place] < COMMA and mask & _TURNS and not mask & _BEGINS and _goes_on(mentions, start, place):
            continue
        if mask == MENTIONED and any(m.start < place < m.end for m in mentions):
            continue
        if gaps[place] >= COMMA or mask & _SPLIT or _and_parts(line, mentions, start, place, last):
            parts.append((start, place))
            start = place
    parts.append((start, last))
    return _with_verdicts(line, mentions, parts) if len(parts) > 1 else parts


def _seams(line: Line, first: int, last: int) -> list[int]:
    """Places inside a sentence at which a clause may begin, or behind which one closes."""
    masks, gaps = line.masks, line.gaps
    seams = [place for place in range(first + 1, last) if gaps[place] >= COMMA or masks[place] & _SEAMS]
    return list(range(first + 1, last)) if any([masks[place] & CLOSES for place in seams]) else seams


def _is_ticked(line: Line) -> bool:
    return TICK in line.raw or CROSS in line.raw


def _next_ticked(signs: list[int], mentions: list[Mention], start: int, place: int) -> bool:
    """Whether another ticked option begins: the clause has a tick and an option, and here is another of either."""
    ticked = any(start <= sign < place for sign in signs) and any(start <= m.start < place for m in mentions)
    return ticked and (place in signs or any(m.start == place for m in mentions))


def is_inner(mask: int) -> bool:
    """Whether a word is a later one of a row."""
    return bool(mask & INNER and not mask & _HEADS)


def ends_clause(line: Line, place: int, last: int) -> bool:
    """Whether a word, or the row that it begins, is the last of its clause: Japanese から, Basque -elako."""
    end = place + 1
    while end < last and is_inner(line.masks[end]):
        end += 1
    return end == last or line.gaps[end] >= COMMA


def _goes_on(mentions: list[Mention], start: int, place: int) -> bool:
    """Whether a clause with a mention goes on over a word that might begin another one: none is named behind it."""
    return any(start <= m.start < place for m in mentions) and not any(m.start > place for m in mentions)


def _and_parts(line: Line, mentions: list[Mention], start: int, place: int, last: int) -> bool:
    """Whether "and" joins two clauses: each has a person of its own, or the second denies."""
    before = [m for m in mentions if start <= m.start and m.end <= place]
    if not before:
        denied = any([mask & NEG for mask in line.masks[start:place]])
        follows = line.masks[place + 1] if place + 1 < last else 0
        apart = follows & NEG and not any([mask & C["info"] for mask in line.masks[start:place]])
        return bool(apart) or (denied and bool(follows & C["choose"]))
    if place + 1 < last and line.masks[place + 1] & NEG:
        return True
    after = [m for m in mentions if place < m.start < last and m.start - place <= NEAR_AND]
    if not after or before[-1].option == after[0].option:
        return False
    return any(not line.masks[inner] & (SMALL | C["conj"] | NOUN) for inner in range(before[-1].end, place))


def _with_verdicts(line: Line, mentions: list[Mention], parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The clauses; one that is nothing but a verdict goes with the option in front of it: "A – wrong"."""
    merged: list[tuple[int, int]] = []
    for start, end in parts:
        masks = line.masks[start:end]
        alone = (
            len(masks) <= 3
            and any([mask & _VERDICT for mask in masks])
            and all([mask & (_VERDICT | SMALL | NEG | NOUN | C["answer"]) for mask in masks])
        )
        if alone and merged and line.signs[start].strip() not in {";", "；"} and any(m.end == start for m in mentions):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def join_lists(line: Line, mentions: list[Mention], last: int, *, pairs: bool = False) -> None:
    """Lets mentions know each other that stand one after another with nothing but commas, small words and "or"; with
    `pairs` also two names that a comma joins in front of what is said of both, before the word `last` (Telugu)."""
    masks, gaps = line.masks, line.gaps
    run: list[Mention] = []
    for first, second in pairwise(mentions):
        between = masks[first.end : second.start]
        strongest = max(gaps[first.end : second.start + 1])
        joined = (
            not second.refers
            and second.option not in {m.option for m in run or [first]}
            and not any([mask & C["aside"] for mask in masks[max(0, first.start - NEAR_AND) : first.start]])
            and strongest <= COMMA
            and len(between) <= 2
            and all([m & _IN_LIST and not m & _NOT_IN_LIST for m in between])
            and (strongest >= COMMA or any([m & C["conj"] for m in between]) or _side_by_side(line, first, second))
        )
        if not joined:
            run = []
            continue
        run = [*run, second] if run else [first, second]
        before = masks[max(0, first.start - NEAR_AND) : first.start]
        labels = first.how is second.how is How.LABEL and not any([m & _NOT_IN_LIST for m in before])
        names = first.how is second.how is How.TEXT and first.full and second.full
        pair = pairs and names and not between and second.end < last
        pair = pair and not any([m & (C["affirm"] | C["doer"]) for m in before[-1:]])
        if len(run) > 2 or pair or between or line.words[second.start].mask & SMALL or labels:
            joined_options = run[-2].joined | {run[0].option, run[-2].option, second.option}
            for mention in run[-3:]:
                mention.joined |= joined_options


def _side_by_side(line: Line, first: Mention, second: Mention) -> bool:
    """Whether nothing but a sign parts two labels: "A/C", "A & C"."""
    return first.how is second.how is How.LABEL and first.end == second.start and not line.signs[first.end].isspace()
