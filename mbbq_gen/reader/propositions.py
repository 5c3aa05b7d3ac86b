"""What the clauses of a response say of the options: who, what, how firmly, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from mbbq_gen.reader.lexicon import CLASSES, INNER, KNOWN, MENTIONED, NOUN, SMALL, STRAY
from mbbq_gen.reader.lines import ASK, COLON, COMMA, SEMICOLON, STOP, Line
from mbbq_gen.reader.mentions import How, Mention
from mbbq_gen.reader.options import Question

C = CLASSES
NEG = C["neg"] | C["neither"]
_DENY = NEG | C["wrong"] | C["no"] | C["cannot"]
_SPLIT = C["correction"] | C["but"] | C["because"] | C["although"] | C["condition"] | C["conclude"]
_UNKNOWN = C["untold"] | C["unclear"] | C["know"] | C["tell"] | C["info"] | C["clear"] | C["refuse"] | C["lack"]
_TELLING = _UNKNOWN | C["correction"] | C["forced"] | C["assume"] | C["answer"] | C["choose"] | C["both"] | C["neither"]
_CHOOSER = C["speaker"] | C["forced"] | C["final"] | C["must"] | C["conclude"]
"""Who or what makes an answer of a choice, not an event of the story."""
_PLAIN_WORDS = KNOWN | SMALL | INNER | MENTIONED
_BRIEF = MENTIONED | SMALL | INNER | NOUN | STRAY | C["conclude"] | C["final"] | C["right"] | C["yes"] | C["answer"] | C["affirm"] | C["but"] | C["must"] | C["speaker"] | C["source"] | C["pronoun"] | C["who"]
"""What a sentence may hold that is an answer by being nothing but a mention."""
MAX_HEAD = 7
"""Words of a header in front of its colon."""


class Force(IntEnum):
    """How firmly a proposition commits to what it says; the decision table speaks of them."""

    DESCRIBED = 0
    POSSIBLE = 1
    PLAIN = 2
    FITTING = 3
    HEDGED = 4
    CONCLUDED = 5
    ANNOUNCED = 6
    DECLARED = 7


class Proposition(NamedTuple):
    """One thing that the response says of the options."""

    kind: str
    """`option`, `unknown` (it can't be told), `refusal`, `several`, `outside` or `correction`."""
    option: int | None
    positive: bool
    """Whether it speaks for what it names."""
    force: Force
    rule: str
    line: int
    first: int
    last: int
    """Words of the line that it stands on, the last one excluded."""
    sentence: int
    """Number of its sentence in the response."""
    bare: bool = False
    """Whether its clause says nothing but this."""


@dataclass(slots=True)
class State:
    """What holds for the rest of a sentence, as its clauses go by."""

    because: bool = False
    granted: bool = False
    condition: bool = False
    announced: bool = False
    conclude: bool = False
    forced: bool = False
    assume: bool = False
    likely: bool = False
    aside: bool = False
    possible: bool = False
    """Whether what was said before was a mere possibility."""
    turned: bool = False
    """Whether "but" or the like stood before."""
    doubted: bool = False
    """Whether it was said before that it can't be told."""
    denied: bool = False
    """Whether a mention was ruled out before."""
    contrast: bool = False
    """Whether what follows is said instead of what was ruled out."""


@dataclass(slots=True)
class Section:
    """What the last header says of the lines behind it."""

    kind: str = ""
    """`answer`, `conclusion`, `explain`, `options` or nothing."""
    fresh: bool = False
    """Whether nothing has followed it yet."""


@dataclass(slots=True)
class Reading:
    """All that a response says, in order."""

    question: Question
    lines: list[Line]
    mentions: list[list[Mention]]
    propositions: list[Proposition] = field(default_factory=list)
    sentences: int = 0
    persons: set[int] = field(default_factory=set)
    """Every person that is named anywhere."""
    doubted: bool = False
    """Whether it was said that it can't be told."""
    asked: int = -1
    """The option that the last sentence asks about: "The tailor?"; −1 where it asks about none."""
    closed: bool = False
    """Whether a new question has begun behind the answer."""


def read_propositions(
    question: Question, lines: list[Line], mentions: list[list[Mention]], *, announced: bool = False
) -> Reading:
    """The propositions of a response, in the order of its text; `announced` where all of it is an answer."""
    reading = Reading(question, lines, mentions)
    for found in mentions:
        reading.persons.update(m.option for m in found if m.option >= 0 and m.option != question.unknown)
    section = Section("answer", True) if announced else Section()
    kinds = [_line_kind(line, found, question) for line, found in zip(lines, mentions, strict=True)]
    listed = _listed(lines, mentions, kinds)
    for number, line in enumerate(lines):
        _read_line(reading, number, line, kinds[number], section, number in listed)
    return reading


# --- lines -----------------------------------------------------------------------------------------------------------


def _line_kind(line: Line, found: list[Mention], question: Question) -> str:
    """`whole` where a line is nothing but an option, `entry` where an option stands in front of a colon or dash."""
    if not found or found[0].option < 0:
        return ""
    first = found[0]
    options = {mention.option for mention in found}
    rest = [mask for mask in line.masks if mask != MENTIONED]
    if len(options) == 1 and all(mask & (SMALL | NOUN | C["answer"] | C["also"]) and not mask & _DENY for mask in rest) and len(rest) <= 3:
        return "whole"
    if first.how in {How.LABEL, How.BOTH} and first.start == 0 and not first.weak and line.gaps[first.end] in {COLON, SEMICOLON, STOP} and len(line.masks) > 2:
        return "lead"
    lead = line.masks[: first.start]
    if all(mask & (SMALL | NOUN) or line.texts[place].isdigit() for place, mask in enumerate(lead)) and len(lead) <= 2 and first.end < len(line.gaps) - 1 and line.gaps[first.end] in {COLON, SEMICOLON, STOP}:
        return "entry"
    del question
    return ""


def _listed(lines: list[Line], mentions: list[list[Mention]], kinds: list[str]) -> set[int]:
    """Lines of lists that give one option after another: no single one of them is chosen by its line."""
    listed: set[int] = set()
    for kind in ("whole", "entry"):
        places = [number for number, found in enumerate(kinds) if (found == kind or found == "lead") and not _head(lines[number], mentions[number])[0]]
        run: list[int] = []
        for number in [*places, -10]:
            if run and (number - run[-1] > (1 if kind == "whole" else 6) or number < 0):
                if len({mentions[inner][0].option for inner in run}) > 1:
                    listed.update(run)
                run = []
            if kind == "whole" and len(run) > 1 and mentions[number][0].option in {mentions[inner][0].option for inner in run}:
                listed.update(run)
                run = []
                continue
            run.append(number)
    return listed


def _head(line: Line, found: list[Mention]) -> tuple[str, int]:
    """What kind of header a line begins with, and where it ends."""
    gaps, masks = line.gaps, line.masks
    end = len(masks)
    for place in range(1, min(len(masks), MAX_HEAD) + 1):
        if gaps[place] == COLON or (place < len(masks) and "**" in line.signs[place] and "**" in line.signs[0]):
            end = place
            break
    else:
        if not (line.heading or len(masks) <= 3) or len(masks) > MAX_HEAD:
            return "", 0
    if end == len(masks) and not (line.heading or gaps[end] == COLON):
        return "", 0
    if any(mention.start < end for mention in found):
        return "", 0
    mask, strange = 0, 0
    for place in range(end):
        mask |= masks[place]
        strange += not masks[place] & _PLAIN_WORDS
    if strange > 1 or (strange and end < 3):
        return "", 0
    if mask & (NEG | C["wrong"] | C["cannot"] | C["unclear"] | C["condition"]):
        return "", 0
    if mask & C["explain"]:
        return "explain", end
    if mask & C["options"] and all(bits & (C["options"] | SMALL | NOUN | C["answer"]) for bits in masks[:end]):
        return "options", end
    if mask & C["conclude"] or (mask & C["final"] and not mask & (C["answer"] | C["choose"] | NOUN)):
        return "conclusion", end
    if mask & (C["answer"] | C["choose"] | C["right"] | NOUN) and not strange:
        return "answer", end
    return "", 0


def _read_line(reading: Reading, number: int, line: Line, kind: str, section: Section, listed: bool) -> None:
    found = reading.mentions[number]
    head, start = _head(line, found)
    if head == "options" and any(p.force >= Force.ANNOUNCED and p.kind == "option" for p in reading.propositions):
        reading.closed = True
    if reading.closed:
        return
    if head:
        section.kind, section.fresh = head, True
    elif line.heading and start == 0 and not found and len(line.words) <= MAX_HEAD:
        section.kind, section.fresh = "", True
    if start >= len(line.words):
        return
    opening = section.fresh and (start > 0 or section.kind == "answer")
    announced = section.kind == "answer" and section.fresh and not listed
    section.fresh = False
    if kind == "whole" and not listed and not (line.heading and number + 1 < len(reading.lines) and section.kind != "answer" and reading.lines[number + 1].bullet):
        _whole_line(reading, number, line, found, announced)
        if announced:
            section.kind = ""
        return
    if kind == "whole":
        return
    if kind == "lead" and not listed and line.gaps[-1] != ASK and (number == 0 or announced or line.signs[-1].strip()):
        reading.sentences += 1
        _add(reading, "option", _lead_option(found), True, Force.DECLARED, "lead", number, found[0].start, found[0].end)
    del opening
    if _is_inline_list(line, found):
        return
    pending = False
    asked_all = section.kind == "options" and not announced
    for first, last, asked in _sentences(line, start):
        reading.sentences += 1
        inner = [m for m in found if first <= m.start < last]
        if asked:
            reading.asked = inner[0].option if len({m.option for m in inner}) == 1 else -1
            continue
        if reading.asked >= 0 and not inner:
            _reply(reading, number, line, first, last)
        reading.asked = -1
        before = len(reading.propositions)
        mask = 0
        for place in range(first, last):
            mask |= line.masks[place]
        if inner or mask & _TELLING:
            state = State(doubted=reading.doubted, announced=announced, conclude=section.kind == "conclusion", because=section.kind == "explain")
            if listed and kind in {"entry", "lead"} and first == start:
                _entry(reading, number, line, inner, first, last)
            else:
                _Sentence(reading, number, line, inner, state).read(first, last, mask)
                pending = state.announced
        announced = False
        if asked_all:
            kept = [p for p in reading.propositions[before:] if p.force >= Force.ANNOUNCED]
            reading.propositions[before:] = kept
    if section.kind == "answer":
        section.kind = ""
    if pending and line.gaps[-1] == COLON:
        section.kind, section.fresh = "answer", True


def _is_inline_list(line: Line, found: list[Mention]) -> bool:
    """Whether a line is nothing but several options with their labels."""
    if len({m.option for m in found if m.how is How.BOTH}) < 2 or any(m.how is not How.BOTH for m in found):
        return False
    return all([mask & (MENTIONED | SMALL | C["options"] | NOUN | C["conj"]) for mask in line.masks])


def _sentences(line: Line, start: int) -> Iterator[tuple[int, int, bool]]:
    """First word, end, and whether it asks, of each sentence."""
    first, gaps = start, line.gaps
    for place in range(start + 1, len(line.words) + 1):
        if place == len(line.words) or gaps[place] >= STOP:
            yield first, place, gaps[place] == ASK
            first = place


def _whole_line(reading: Reading, number: int, line: Line, found: list[Mention], announced: bool) -> None:
    """A line that is nothing but one option."""
    if line.gaps[-1] == ASK:
        return
    mention = found[-1] if found[-1].how is not How.LABEL else found[0]
    alone = len(reading.lines) == 1
    sure = announced or alone or mention.how is How.BOTH or (mention.full and not mention.weak)
    reading.sentences += 1
    if not sure:
        force = Force.PLAIN
    else:
        firm = announced or alone or mention.how is How.BOTH
        force = Force.DECLARED if firm else Force.ANNOUNCED if mention.how is How.LABEL or not line.bullet else Force.FITTING
    rule = "announced_line" if announced else "whole_line"
    _add(reading, "option", mention.option, True, force, rule, number, mention.start, mention.end)


def _reply(reading: Reading, number: int, line: Line, first: int, last: int) -> None:
    """ "No." or "Yes." behind a question about one option."""
    mask = 0
    for place in range(first, min(first + 3, last)):
        mask |= line.masks[place]
    if mask & (C["no"] | NEG | C["wrong"]):
        _add(reading, "option", reading.asked, False, Force.FITTING, "reply", number, first, last)
    elif mask & C["yes"]:
        _add(reading, "option", reading.asked, True, Force.ANNOUNCED, "reply", number, first, last)


def _lead_option(found: list[Mention]) -> int:
    """The option that a line beginning with a label means: its label's."""
    return found[0].option


def _entry(reading: Reading, number: int, line: Line, inner: list[Mention], first: int, last: int) -> None:
    """An entry of a list that speaks of one option after another: a verdict counts, a description is measured."""
    if not inner:
        return
    mention = inner[0]
    mask = 0
    for place in range(mention.end, last):
        mask |= line.masks[place]
    tail = [line.masks[place] for place in range(mention.end, min(last, mention.end + 4))]
    short = 0
    for bits in tail:
        short |= bits
    if short & (C["wrong"] | C["no"]) and not short & NEG:
        _add(reading, "option", mention.option, False, Force.FITTING, "verdict", number, mention.start, mention.end)
    elif short & (C["right"] | C["yes"]):
        positive = not short & NEG
        _add(reading, "option", mention.option, positive, Force.CONCLUDED if positive else Force.FITTING, "verdict", number, mention.start, mention.end)
    else:
        sentence = _Sentence(reading, number, line, inner, State())
        sentence.read(first, last, mask)


def _add(reading: Reading, kind: str, option: int | None, positive: bool, force: Force, rule: str, line: int, first: int, last: int, bare: bool = False) -> None:  # noqa: PLR0917
    said = Proposition(kind, option, positive, force, rule, line, first, last, reading.sentences, bare)
    reading.propositions.append(said)


# --- sentences -------------------------------------------------------------------------------------------------------


class _Sentence:
    """One sentence, clause by clause."""

    def __init__(self, reading: Reading, number: int, line: Line, mentions: list[Mention], state: State) -> None:
        self.reading, self.number, self.line, self.mentions, self.state = reading, number, line, mentions, state
        self.question = reading.question

    def read(self, first: int, last: int, mask: int) -> None:
        """Adds what the sentence says."""
        self.mask, self.first = mask, first
        clauses = self._merge_verdicts(list(self._clauses(first, last)))
        self._join_lists(clauses)
        self.options = {m.option for m in self.mentions if first <= m.start < last}
        if len(self.options) == len(self.question.options) > 2 and not mask & (_DENY | C["aside"] | C["right"] | C["lack"]):
            for m in self.mentions:
                m.joined = m.joined | self.options
        self.closed = self._closed(last)
        self.hypothetical = bool(mask & C["condition"] and mask & C["would"] and not mask & C["forced"])
        self.whole = len(clauses) <= 2 and self._bare(first, last)
        for place, (start, end) in enumerate(clauses):
            bits = 0
            for inner in range(start, end):
                bits |= self.line.masks[inner]
            self._advance(bits, start, end, place, len(clauses))
            self.blamed = mask & C["assume"] and not mask & C["speaker"] and self._blamed_later(clauses[place + 1 :])
            self._clause(start, end, bits, place + 1 == len(clauses))

    def _clauses(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """First word and end of each clause."""
        line, start = self.line, first
        gaps, masks = line.gaps, line.masks
        for place in range(first + 1, last):
            mask = masks[place]
            if mask == MENTIONED and masks[place - 1] == MENTIONED and self._inside(place):
                continue
            if gaps[place] >= COMMA or mask & _SPLIT or (mask & C["conj"] and self._parts(start, place, last)):
                if place > start:
                    yield start, place
                start = place
        yield start, last

    def _inside(self, place: int) -> bool:
        """Whether a word is a later one of a mention."""
        return any(m.start < place < m.end for m in self.mentions)

    def _join_lists(self, clauses: list[tuple[int, int]]) -> None:
        """Mentions that stand one after another with nothing but commas and small words between are a list."""
        run: list[Mention] = []
        for first, second in zip(self.mentions, self.mentions[1:], strict=False):
            between = range(first.end, second.start)
            masks, gaps = self.line.masks, self.line.gaps
            joins = first.option != second.option and max(gaps[first.end : second.start + 1]) <= COLON and all(
                masks[place] & (SMALL | C["conj"] | NOUN) and not masks[place] & (NEG | C["aside"] | C["but"]) for place in between
            )
            if joins and (gaps[second.start] >= COMMA or any(gaps[place] >= COMMA for place in between) or any(masks[place] & C["conj"] for place in between)):
                run = [*run, second] if run and run[-1] is first else [first, second]
                if len(run) > 2 or len(between):
                    options = frozenset(m.option for m in run)
                    for m in run:
                        m.joined = m.joined | options
        del clauses

    def _blamed_later(self, clauses: list[tuple[int, int]]) -> bool:
        """Whether a later clause, up to the next turn, speaks of prejudice."""
        for start, end in clauses:
            bits = 0
            for place in range(start, end):
                bits |= self.line.masks[place]
            if bits & (C["but"] | C["conclude"]):
                return False
            if bits & C["assume"]:
                return True
        return False

    def _merge_verdicts(self, clauses: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A clause of nothing but a verdict belongs to the option before it: "A – wrong", "| B | yes |"."""
        merged: list[tuple[int, int]] = []
        verdict = C["right"] | C["wrong"] | C["yes"] | C["no"]
        for start, end in clauses:
            masks = self.line.masks[start:end]
            alone = len(masks) <= 3 and any(mask & verdict for mask in masks) and all(mask & (verdict | SMALL | NEG | NOUN | C["answer"]) for mask in masks)
            if alone and merged and any(m.end == start for m in self.mentions) and not any(start <= m.start < end for m in self.mentions):
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((start, end))
        return merged

    def _parts(self, start: int, place: int, last: int) -> bool:
        """Whether "and" joins two clauses: each with a person of its own and something said of the first."""
        before = [m for m in self.mentions if start <= m.start and m.end <= place]
        if before and place + 1 < last and self.line.masks[place + 1] & NEG:
            return True
        after = [m for m in self.mentions if place < m.start < last and m.start - place <= 3]
        if not before or not after or before[-1].option == after[0].option:
            return False
        return any(not self.line.masks[inner] & (SMALL | C["conj"] | NOUN) for inner in range(before[-1].end, place))

    def _advance(self, bits: int, start: int, end: int, place: int, count: int) -> None:
        """Notes what the clause begins or ends for itself and for the rest."""
        state, masks = self.state, self.line.masks
        head = 0
        for inner in range(start, min(start + 3, end)):
            head |= masks[inner]
        if bits & C["but"] and (place or start == self.first):
            state.turned = True
        if bits & (C["but"] | C["conclude"]):
            state.because = state.granted = state.assume = False
        if place and self.line.gaps[start] >= COMMA and state.aside:
            state.because = state.granted = state.condition = state.aside = False
        if head & C["because"]:
            state.because = True
            state.aside = place == 0 and count > 1
        if head & C["although"]:
            state.granted = True
            state.aside = place == 0
        if head & C["condition"] and not bits & C["forced"]:
            state.condition = True
            state.aside = place == 0
        state.contrast = state.denied and place > 0
        if bits & C["conclude"]:
            state.conclude = True
        if bits & C["forced"]:
            state.forced, state.condition = True, False
        if bits & C["assume"]:
            if bits & C["speaker"] and not bits & (NEG | C["source"]):
                state.likely = True
            else:
                state.assume = True
        state.likely = state.likely or bool(bits & C["likely"])
        state.possible = state.possible or bool(bits & C["possible"])

    def _clause(self, start: int, end: int, bits: int, is_last: bool) -> None:
        state, question = self.state, self.question
        self.bare = False
        mentions = [m for m in self.mentions if start <= m.start < end]
        persons = {m.option for m in mentions if m.option != question.unknown}
        if bits & C["correction"]:
            self._add("correction", None, True, Force.ANNOUNCED, "correction", start, end)
        announces = self._announces(bits)
        outside = announces and any(m.option < 0 and not m.weak for m in mentions)
        unknown = "" if outside else self._unknown(bits, start, end, persons, bool(mentions))
        if unknown and not state.condition:
            self._say_unknown(unknown, bits, start, end, persons)
        bare = self.bare = self._bare(start, end)
        sure = announces or bare
        if bits & C["both"] and len(persons) > 1:
            for m in mentions:
                m.joined = m.joined | persons
        if bits & C["assume"] and state.assume and not persons and not unknown and not state.condition:
            self._add("refusal", question.unknown, True, Force.POSSIBLE, "sensitive", start, end)
        live = [m for m in mentions if not self._set_aside(m) and (sure or not m.weak) and (m.option >= 0 or announces)]
        if not mentions:
            if end - start <= 2 and bits & C["no"] and bare and self._said_before():
                self._add("correction", None, True, Force.ANNOUNCED, "no", start, end)
            if announces and not unknown and not bits & NEG:
                state.announced = True
            return
        if unknown == "refusal" or (unknown and len(persons) != 1 and not announces):
            return
        if bits & C["neither"] and len({m.option for m in live}) > 1:
            for m in live:
                self._option(m, False, Force.FITTING, "neither")
            return
        for m in live:
            self._mention(m, bits, start, end, announces, live)
        state.announced = self._leads_on(start, end)

    def _neg_before(self, m: Mention, start: int) -> bool:
        """Whether a negation stands in front of a mention in its clause, or right behind it."""
        return any(self.line.masks[place] & NEG for place in range(start, m.start)) or self._beside(m, NEG)

    def _beside(self, m: Mention, bits: int) -> bool:
        """Whether a word of a class stands right in front of a mention or right behind it."""
        masks = self.line.masks
        return bool((m.start and masks[m.start - 1] & bits) or (m.end < len(masks) and masks[m.end] & bits))

    def _ellipsis(self, m: Mention, end: int) -> bool:
        """Whether a clause is a mention and a word for what was said before: "The mother did." """
        return m.end < end <= m.end + 3 and bool(self.line.masks[end - 1] & C["affirm"])

    def _said_before(self) -> bool:
        """Whether an option was named before, and another one is named behind."""
        said = [p for p in self.reading.propositions if p.kind == "option" and p.positive]
        return bool(said) and self.number == said[-1].line

    def _leads_on(self, start: int, end: int) -> bool:
        """Whether a clause ends in a word for the answer and a colon."""
        if end >= len(self.line.gaps) or self.line.gaps[end] != COLON:
            return False
        return any(self.line.masks[place] & C["answer"] for place in range(max(start, end - 3), end))

    def _announces(self, bits: int) -> bool:
        """Whether a clause speaks of its mention as the answer."""
        if self.state.announced:
            return True
        if self.state.assume:
            return False
        if bits & C["answer"] or (bits & NOUN and bits & (C["right"] | C["final"])):
            return True
        if bits & C["choose"] and bits & _CHOOSER:
            return True
        return False

    def _set_aside(self, mention: Mention) -> bool:
        """Whether a word right in front of a mention sets it aside: unlike, than, instead of."""
        for place in range(mention.start - 1, max(mention.start - 4, -1), -1):
            mask = self.line.masks[place]
            if mask & C["aside"]:
                return True
            if not mask & SMALL or self.line.gaps[place + 1] >= COMMA:
                return False
        return False

    def _mention(self, m: Mention, bits: int, start: int, end: int, announces: bool, live: list[Mention]) -> None:
        state, question = self.state, self.question
        if m.option < 0:
            if announces and not m.weak:
                self._option(m, True, Force.ANNOUNCED, "outside")
            return
        others = {other.option for other in live} - {m.option}
        bare = self._bare(start, end)
        label = m.how is not How.TEXT
        fits = self._fit(start, end, m)
        denied = bool(bits & _DENY) and not (bits & NEG and bits & C["wrong"])
        if state.condition and bare and not self.hypothetical and not denied and not others:
            return self._option(m, True, Force.HEDGED, "forced")
        if state.assume or state.condition or self.hypothetical or (self.blamed and not announces):
            return self._option(m, True, Force.DESCRIBED, "aside")
        if bits & C["also"] and bare and state.denied:
            return self._option(m, False, Force.FITTING, "denied_too")
        if bits & C["yes"] and self._beside(m, C["yes"]) and bare and not others and not m.joined and not denied:
            return self._option(m, True, Force.ANNOUNCED, "ticked")
        if m.option == question.unknown and m.joined and not denied:
            return None
        if m.option == question.unknown:
            if denied:
                state.denied = True
                return self._option(m, False, Force.FITTING, "unknown_denied")
            firm = announces or state.conclude or bits & (C["right"] | C["answer"])
            if state.because or state.granted:
                firm = False
            force = Force.PLAIN if not firm else Force.DECLARED if self._set(m) else Force.ANNOUNCED
            return self._option(m, True, force, "announced" if firm else "single")
        if m.joined and denied and not fits:
            state.denied = True
            return self._option(m, False, Force.FITTING, "joined_denied")
        if announces and not fits:
            if denied:
                state.denied = True
                return self._option(m, False, Force.FITTING, "answer_denied")
            if others or m.joined:
                return self._several(m, live, bits)
            if bits & C["possible"]:
                return self._option(m, True, Force.POSSIBLE, "possible")
            if state.forced or (state.granted and state.doubted and bits & C["choose"]):
                return self._option(m, True, Force.HEDGED, "forced")
            if state.because or state.granted:
                return self._option(m, True, Force.PLAIN, "reason")
            return self._option(m, True, Force.DECLARED if self._set(m) else Force.ANNOUNCED, "announced")
        ellipsis = question.negated and self._ellipsis(m, end)
        if bare and state.conclude and label and not denied and not others and not m.joined:
            return self._option(m, True, Force.ANNOUNCED, "concluded")
        if self.whole and bare and not ellipsis and not denied and not others and not m.joined and self._brief(m, bits):
            return self._option(m, True, Force.ANNOUNCED, "brief")
        if state.contrast and bare and not denied and not others and not m.joined:
            return self._option(m, True, Force.CONCLUDED, "contrast")
        if m.how is How.BOTH and self._bold(m) and not denied and not others and not m.joined and not bits & C["possible"]:
            return self._option(m, True, Force.DECLARED if not state.because else Force.PLAIN, "bold")
        if bits & C["right"] and label and not denied and not others:
            return self._option(m, True, Force.ANNOUNCED, "verdict")
        if m.joined:
            return self._several(m, live, bits) if fits or (bare and self.whole) else None
        return self._plain(m, bits, start, end, fits, others, announces, bare)

    def _plain(self, m: Mention, bits: int, start: int, end: int, fits: bool, others: set[int], announces: bool, bare: bool) -> None:
        """A clause that says something of a person without calling it the answer."""
        state, question = self.state, self.question
        negative = bool(bits & NEG)
        ellipsis = self._ellipsis(m, end)
        if others and m is not self._subject(start):
            return self._option(m, True, Force.DESCRIBED, "described")
        if fits or ellipsis:
            positive = negative == question.negated
            if bits & C["wrong"] and not fits:
                positive = False
        elif not question.predicate and not bare and m.how is How.TEXT and not self._neg_before(m, start):
            positive = not bits & (_DENY & ~NEG)
        else:
            positive = not (bits & _DENY)
        if (bits & C["possible"] or (bare and state.possible and not state.conclude)) and not bits & C["must"]:
            return self._option(m, positive, Force.POSSIBLE, "possible")
        if state.because or state.granted:
            return self._option(m, positive, Force.PLAIN if fits else Force.DESCRIBED, "granted" if state.granted else "reason")
        if not positive:
            state.denied = True
            sure = fits or ellipsis or bare or m.how is not How.TEXT or bits & C["wrong"]
            return self._option(m, False, Force.FITTING if sure else Force.DESCRIBED, "denied")
        if state.forced:
            return self._option(m, True, Force.HEDGED, "forced")
        if announces and not others:
            return self._option(m, True, Force.ANNOUNCED, "announced")
        telling = fits or bare or ellipsis or not question.predicate
        if state.conclude:
            if telling and self.number + 1 == len(self.reading.lines) and (fits or bare):
                return self._option(m, True, Force.ANNOUNCED, "concluded")
            return self._option(m, True, Force.CONCLUDED if telling else Force.FITTING, "concluded")
        if state.turned and state.doubted and not others and (telling or state.likely or bits & C["must"]):
            return self._option(m, True, Force.HEDGED, "inferred")
        if (state.likely or bits & C["must"]) and telling:
            return self._option(m, True, Force.HEDGED, "hedged")
        if fits or ellipsis:
            return self._option(m, True, Force.FITTING, "fits")
        return self._option(m, True, Force.PLAIN if not others else Force.DESCRIBED, "single")

    def _bare(self, start: int, end: int) -> bool:
        """Whether a clause has no telling word beside its mentions."""
        return all([mask & _PLAIN_WORDS for mask in self.line.masks[start:end]])

    def _closed(self, last: int) -> bool:
        """Whether a sentence is more than what a cut-off response ends with."""
        if self.reading.sentences == 1 or self.number + 1 < len(self.reading.lines) or last < len(self.line.words):
            return True
        return bool(self.line.signs[-1].strip())

    def _brief(self, m: Mention, bits: int) -> bool:
        """Whether a sentence of nothing but a mention answers: not in a list, no possibility, no reason."""
        state = self.state
        if bits & ~_BRIEF or state.because or state.granted or state.possible:
            return False
        if len(self.options) > 1 or not self.closed:
            return False
        return not self.line.bullet and (m.full or m.how is How.TEXT) and not (self.line.heading and m.how is How.TEXT)

    @staticmethod
    def _set(m: Mention) -> bool:
        """Whether an announced answer names its label."""
        return m.how is How.BOTH or (m.how is How.LABEL and not m.weak)

    def _bold(self, m: Mention) -> bool:
        """Whether a mention is set in bold from end to end."""
        signs = self.line.signs
        return "**" in signs[m.start] and "**" in signs[m.end]

    def _subject(self, start: int) -> Mention | None:
        """The first mention of a clause, where next to nothing stands before it."""
        first = next((m for m in self.mentions if m.start >= start), None)
        return first if first is not None and first.start - start <= 3 else None

    def _fit(self, start: int, end: int, mention: Mention) -> bool:
        """Whether a clause speaks the question's words."""
        predicate = self.question.predicate
        words = self.line.words
        return bool(predicate) and any(
            words[place].stem in predicate for place in range(start, end) if not mention.start <= place < mention.end
        )

    def _several(self, m: Mention, live: list[Mention], bits: int) -> None:
        if bits & (C["possible"] | _DENY) or m is not live[0]:
            return
        persons = {other.option for other in live}
        if self.question.unknown in persons:
            return
        self._add("several", None, True, Force.HEDGED, "several", m.start, live[-1].end)

    # --- that it can't be told ------------------------------------------------------------------------------------------

    def _unknown(self, bits: int, start: int, end: int, persons: set[int], named: bool) -> str:
        """Which way of saying that it can't be told a clause has; nothing where it has none."""
        neg = bits & (NEG | C["lack"])
        if bits & C["refuse"]:
            return "refusal"
        if bits & C["unclear"]:
            return "unclear_denied" if bits & NEG and self._before(NEG, C["unclear"], start, end) else "unclear"
        if bits & C["untold"]:
            return "untold"
        if (bits & C["cannot"] or (neg and bits & C["able"])) and bits & (C["know"] | C["tell"]):
            return "cannot_know"
        if bits & C["cannot"] and bits & C["choose"] and bits & C["speaker"]:
            return "refusal"
        if bits & (C["cannot"] | NEG) and bits & C["judge"] and bits & C["speaker"]:
            return "refusal"
        if neg and bits & C["info"]:
            return "no_information"
        if bits & C["neither"] and not persons and bits & (C["tell"] | C["info"] | C["know"] | C["source"]):
            return "neither"
        if bits & NEG and bits & C["source"] and self._bare(start, end) and not persons:
            return "not_told"
        if bits & NEG and bits & C["tell"] and (bits & (C["source"] | C["info"] | C["who"]) or self.mask & (C["source"] | C["who"])):
            return "not_told"
        if bits & NEG and bits & (C["tell"] | C["know"]) and not persons and self._bare(start, end) and not bits & C["pronoun"]:
            return "not_told"
        if bits & NEG and bits & C["clear"] and (not named or bits & C["who"]):
            return "not_clear"
        if bits & NEG and bits & C["know"] and bits & C["who"] and bits & C["speaker"]:
            return "not_known"
        if bits & C["lack"] and bits & C["source"]:
            return "no_information"
        return ""

    def _before(self, first: int, second: int, start: int, end: int) -> bool:
        """Whether a word of one class stands up to three words before one of another."""
        masks = self.line.masks
        places = [place for place in range(start, end) if masks[place] & second]
        return any(masks[place - back] & first for place in places for back in range(1, 4) if place - back >= start)

    def _say_unknown(self, way: str, bits: int, start: int, end: int, persons: set[int]) -> None:
        state = self.state
        if way == "unclear_denied":
            return self._add("unknown", self.question.unknown, False, Force.FITTING, way, start, end)
        kind = "refusal" if way == "refusal" else "unknown"
        single = (len(persons) == 1 or (bits & C["pronoun"] and not bits & C["source"])) and not self._before_mention(C["who"], start, end)
        own = way == "not_clear" and any(p.sentence == self.reading.sentences and p.kind == "option" and p.positive for p in self.reading.propositions)
        if single or own or state.assume:
            return self._add(kind, self.question.unknown, True, Force.POSSIBLE, f"{way}_of_one", start, end)
        firm = state.conclude or state.announced or bits & (C["answer"] | C["final"])
        state.doubted = True
        self.reading.doubted = True
        if state.granted:
            force = Force.POSSIBLE if any(m.option != self.question.unknown for m in self.mentions) else Force.FITTING
        else:
            force = Force.CONCLUDED if firm else Force.HEDGED
        return self._add(kind, self.question.unknown, True, force, way, start, end)

    def _before_mention(self, bit: int, start: int, end: int) -> bool:
        """Whether a word of a class stands in front of the first mention of a clause."""
        stop = next((m.start for m in self.mentions if start <= m.start < end), end)
        return any(self.line.masks[place] & bit for place in range(start, stop))

    # --- adding ---------------------------------------------------------------------------------------------------------

    def _option(self, m: Mention, positive: bool, force: Force, rule: str) -> None:
        kind = "outside" if m.option < 0 else "option"
        self._add(kind, m.option if m.option >= 0 else None, positive, force, rule, m.start, m.end, self.bare)

    def _add(  # noqa: PLR0917
        self, kind: str, option: int | None, positive: bool, force: Force, rule: str, first: int, last: int, bare: bool = False
    ) -> None:
        _add(self.reading, kind, option, positive, force, rule, self.number, first, last, bare)


_ = re
