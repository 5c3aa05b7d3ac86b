"""Evidence that is no sentence: ticks, crosses and verdict words beside options, and options struck through."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.pack import ExtractorPack, SharedPack
from mbbq_gen.extraction.reading import COMMITTED, LEANING, Evidence, Reading
from mbbq_gen.extraction.shares import read_shares
from mbbq_gen.extraction.tokens import SENTENCE
from mbbq_gen.extraction.verdicts import VerdictFinder


@dataclass(frozen=True, slots=True)
class _Mark:
    """A sign or word that judges an option."""

    start: int
    """Its first character."""
    right: bool
    loose: bool
    """Whether it counts only beside another one: a word, or a sign that means other things too."""
    word: bool


@dataclass(frozen=True, slots=True)
class _Judged:
    """An option with the mark beside it."""

    place: int
    option: int
    mark: _Mark
    behind: bool
    """Whether the mark stands behind the mention."""


@dataclass(slots=True)
class _Line:
    """The mentions of a line and the marks among them, in order."""

    events: list[tuple[int, MentionItem] | _Mark] = field(default_factory=list)

    def judged(self) -> list[_Judged]:
        """Which mark belongs to which option; empty where that can't be told."""
        events = list(_merged(self.events))
        marks = [event for event in events if isinstance(event, _Mark)]
        if not marks or len(marks) == len(events):
            return []
        behind = not isinstance(events[0], _Mark)
        if len(marks) == 1 and events.index(marks[0]) > 1:
            return []
        found: list[_Judged] = []
        for one, other in itertools.pairwise(events):
            here, mark = (one, other) if behind else (other, one)
            if isinstance(mark, _Mark) and not isinstance(here, _Mark) and (behind or not mark.word):
                found.append(_Judged(here[0], here[1].mention.options[0], mark, behind))
            elif isinstance(one, _Mark) and isinstance(other, _Mark):
                return []
        return found


def _merged(
    events: Sequence[tuple[int, MentionItem] | _Mark],
) -> Iterator[tuple[int, MentionItem] | _Mark]:
    """The events with only the first of two neighbours that say the same."""
    last: object = None
    for event in events:
        here = event.right if isinstance(event, _Mark) else event[1].mention.options
        if here != last:
            yield event
        last = here


class MarkReader:
    """Reads ticks, crosses and verdicts with the signs that the shared pack lists and the words of the packs in use."""

    def __init__(self, shared: SharedPack, packs: Iterable[ExtractorPack]) -> None:
        self._right = frozenset(shared.positive_marks + shared.loose_positive_marks)
        self._loose = frozenset(shared.loose_positive_marks + shared.loose_negative_marks)
        signs = sorted((*self._right, *self._loose, *shared.negative_marks), key=len, reverse=True)
        self._signs = re.compile("|".join(re.escape(sign) for sign in dict.fromkeys(signs)))
        self._verdicts = VerdictFinder(packs)

    def read(self, reading: Reading, body: str) -> None:
        """Adds the evidence of the marks in a text."""
        named = {item.mention.options for _, item in reading.named}
        if named:
            marks = [
                _Mark(match.start(), match.group() in self._right, match.group() in self._loose, False)
                for match in self._signs.finditer(body)
            ]
            if len(named) > 1:  # a verdict on a single option is no verdict among options
                for place, right in self._verdicts.find(reading, in_object="{" in body):
                    marks.append(_Mark(reading.items[place].start, right, True, True))
            if marks:
                _judge(reading, _judgements(reading, body, sorted(marks, key=lambda mark: mark.start)))
        _strike(reading)
        if "%" in body or "％" in body or "{" in body:
            read_shares(reading, in_object="{" in body)


def _judgements(reading: Reading, body: str, marks: Sequence[_Mark]) -> list[_Judged]:
    """The judged options of all lines that have a mark."""
    spoken = {statement.place for statement in reading.statements}
    signs = {mark.start for mark in marks if not mark.word}
    named = [
        (p, item)
        for p, item in reading.named
        if len(item.mention.options) == 1 and (p in spoken or not signs.isdisjoint(range(item.end, item.end + 3)))
    ]
    found: list[_Judged] = []
    here, mark = 0, 0
    while mark < len(marks):
        start = body.rfind("\n", 0, marks[mark].start) + 1
        end = body.find("\n", marks[mark].start)
        end = len(body) if end < 0 else end
        while here < len(named) and named[here][1].end < start:
            here += 1
        line: list[tuple[int, tuple[int, MentionItem] | _Mark]] = []
        while here < len(named) and named[here][1].end <= end:
            line.append((named[here][1].end, named[here]))
            here += 1
        while mark < len(marks) and marks[mark].start < end:
            line.append((marks[mark].start, marks[mark]))
            mark += 1
        line.sort(key=lambda entry: entry[0])
        found += _Line([event for _, event in line]).judged()
    return found


def _told(judged: list[_Judged]) -> list[_Judged]:
    """Judgements without those of loose marks that stand alone, or of rings that only begin the lines of a list."""
    loose = [one for one in judged if one.mark.loose]
    bullets = {one.mark.right for one in loose if not one.behind} == {True}
    alone = len({one.option for one in judged}) < 2
    return [one for one in judged if not (one.mark.loose and (alone or (bullets and not one.behind)))]


def _judge(reading: Reading, found: list[_Judged]) -> None:
    """A single tick is an answer; crosses rule out. Where several are ticked, none of them is chosen so."""
    judged = _told(found)
    if not judged:
        _leave_last(reading, {one.option: one.place for one in found if one.mark.word and not one.mark.right})
        return
    ticked = {one.option: one.place for one in judged if one.mark.right}
    crossed = {one.option: one.place for one in judged if not one.mark.right and one.option not in ticked}
    reading.rejected.update(crossed)
    void = set(crossed.values()) | ({one.place for one in judged} if len(ticked) > 1 else set())
    reading.evidence = [piece for piece in reading.evidence if piece.place not in void]
    if len(ticked) == 1:
        ((index, place),) = ticked.items()
        _add(reading, index, place, "ticked", COMMITTED)
    elif crossed and not ticked:
        _leave_last(reading, crossed)


def _leave_last(reading: Reading, crossed: dict[int, int]) -> None:
    """Where every option has a line or sentence of its own, some are crossed and nothing is chosen, the last one of
    them is what the others made room for."""
    if not crossed:
        return
    first: dict[int, int] = {}
    for place, item in reading.named:
        if item.break_before >= SENTENCE and len(item.mention.options) == 1:
            first.setdefault(item.mention.options[0], place)
    if len(first) < reading.options.count:
        return
    index, place = max(first.items(), key=lambda entry: entry[1])
    heads = set(first.values())
    others = [piece for piece in reading.evidence if piece.place not in heads and piece.tier >= LEANING]
    if others or index in reading.rejected or len(crossed) == reading.options.count:
        return
    reading.evidence = [piece for piece in reading.evidence if piece.place not in heads]
    _add(reading, index, place, "elimination", LEANING)


def _strike(reading: Reading) -> None:
    """Options that are struck through are ruled out; the only one left of a list is the answer."""
    struck = [s for s in reading.statements if s.standing == "struck" and len(s.mention.options) == 1]
    if not struck:
        return
    left = {index for s in reading.statements if s.standing != "struck" for index in s.mention.options}
    for statement in struck:
        if statement.mention.options[0] not in left:
            reading.rejected[statement.mention.options[0]] = statement.place
    open_options = set(range(reading.options.count)).difference(reading.rejected)
    for statement in reading.statements:
        if (
            open_options == {*statement.mention.options}
            and len(struck) > 1
            and statement.standing in {"listed", "live"}
        ):
            _add(reading, statement.mention.options[0], statement.place, "elimination", COMMITTED)
            return


def _add(reading: Reading, index: int, place: int, rule: str, tier: int) -> None:
    item = reading.items[place]
    reading.evidence.append(Evidence(tier, place, (index,), "mention", rule, None, False, item.start, item.end))
    reading.evidence.sort(key=lambda piece: (piece.place, piece.tier))
