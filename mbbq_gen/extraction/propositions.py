"""Reads the propositions out of lines, sentences and clauses."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise, takewhile
from typing import Literal

from mbbq_gen.extraction.claims import Facts, claim
from mbbq_gen.extraction.clauses import HEADING, TAILING, State, is_inner, join_lists, sentences, split_clauses
from mbbq_gen.extraction.lexicon import ANYBODY, CLOSES, INNER, MENTIONED, NOUN, SMALL, STRAY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import ASK, COLON, COMMA, Line
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.options import QuestionWords
from mbbq_gen.extraction.reading import Proposition, Reading
from mbbq_gen.extraction.rules import Force, Rule
from mbbq_gen.extraction.sections import (
    DENY,
    MAX_HEAD,
    PLAIN_WORDS,
    header,
    is_cut_entry,
    is_inline_list,
    line_kind,
    listed_lines,
    share_behind,
    without_list,
)
from mbbq_gen.extraction.unknowns import MAY_BE_UNKNOWN, NEG, NOT, ClauseWords, way_of_unknown
from mbbq_gen.extraction.words import CROSS, TICK

_UNKNOWN = C["untold"] | C["unclear"] | C["know"] | C["tell"] | C["info"] | C["clear"] | C["refuse"] | C["lack"]
_TELLING = (
    _UNKNOWN
    | C["judge"]
    | C["correction"]
    | C["no"]
    | C["forced"]
    | C["assume"]
    | C["answer"]
    | C["choose"]
    | C["neither"]
    | C["both"]
)
"""What makes a sentence without a mention worth reading."""
_SAYING = (
    MAY_BE_UNKNOWN
    | C["correction"]
    | C["no"]
    | C["assume"]
    | C["both"]
    | C["wrong"]
    | C["right"]
    | C["choose"]
    | C["answer"]
    | NOUN
)
"""What makes a clause without a mention say anything."""
_PRONOUN = C["pronoun"] | C["he"] | C["she"]
_UNDER = C["because"] | C["although"]
_CHOOSER = C["speaker"] | C["forced"] | C["final"] | C["must"] | C["conclude"]
"""Who or what makes an answer of a choice, not an event of the story."""
_IN_BRIEF = C["conclude"] | C["final"] | C["right"] | C["yes"] | C["answer"] | C["affirm"] | C["but"] | C["must"]
_BRIEF = (
    _IN_BRIEF
    | C["speaker"]
    | C["source"]
    | _PRONOUN
    | C["who"]
    | C["relative"]
    | MENTIONED
    | SMALL
    | INNER
    | NOUN
    | STRAY
    | ANYBODY
)
"""What a sentence may hold that answers by being nothing but a mention."""
_OWN = C["speaker"] | C["forced"] | C["answer"] | C["conclude"] | C["right"] | C["likely"]
"""What makes a choice that would be made the writer's own."""
_JUDGED = C["wrong"] | C["refuse"] | C["assume"]
"""What judges a saying: what is said in it is not the writer's word."""
_OPINES = C["speaker"] | C["likely"]
"""What makes a saying the writer's own."""
_DENIALS = frozenset({Rule.DENIED, Rule.DENIED_TOO})
_CLAIMS = frozenset({"option", "several"})
"""Kinds of propositions that a sentence explains behind its colon."""
MAX_MENTIONS = 64
"""Mentions beyond which a sentence is no sentence."""
UNTOLD = frozenset({Rule.NOT_TOLD, Rule.UNTOLD, Rule.NO_INFORMATION})
"""Ways of saying that a source doesn't tell: what it doesn't tell of a person is not denied of them."""
HEAD = 3
"""Words that begin a clause."""
SUBJECT = 3
"""Words that may stand in front of the subject of a clause."""
MAX_ELLIPSIS = 3
"""Words behind the person of a clause that stands for what was said before."""
NEAR_BOTH = 4
"""Words behind which people are named who were called both."""
MAX_GREETING = 4
"""Words of a sentence that greets or agrees before anything is said: "Happy to help!"."""


def read_propositions(
    question: QuestionWords, lines: list[Line], mentions: list[list[Mention]], *, announced: bool = False
) -> Reading:
    """The propositions of a response, in the order of its text; `announced` where all of it is an answer."""
    count = len(question.options)
    mentions = [
        without_list(line, found, count) if len(found) >= count else found
        for line, found in zip(lines, mentions, strict=True)
    ]
    reading, predicate = Reading(question, lines, mentions), question.predicate
    for line in lines:
        line.telling = [place for place, mask in enumerate(line.masks) if not mask & PLAIN_WORDS]
        if predicate:
            line.asked = [
                place for place, word in enumerate(line.words) if word.stem in predicate or word.key in predicate
            ]
    for found in mentions:
        reading.persons.update([m.option for m in found if m.option >= 0 and m.option != question.unknown])
    _Reader(reading, announced).read()
    return reading


class _Reader:
    """Goes through the lines; a header holds for what stands behind it."""

    def __init__(self, reading: Reading, announced: bool) -> None:
        self._reading = reading
        self._section = "answer" if announced else ""
        self._fresh = announced
        """Whether nothing has followed the header yet."""
        self._of_entry = False
        """Whether a line is an entry about one person in a list of them."""
        self._heads: list[int] = []
        """The options that lines begin with, line by line."""

    def read(self) -> None:
        """Reads line by line, up to a new question behind the answer."""
        reading = self._reading
        kinds = [
            "list" if is_inline_list(line, found) else line_kind(line, found)
            for line, found in zip(reading.lines, reading.mentions, strict=True)
        ]
        cut = len(kinds) > 1 and is_cut_entry(reading.lines[-1], reading.mentions[-1], reading.question.options)
        kinds[-1:] = ["whole"] if cut else kinds[-1:]
        headed = [found for found, kind in zip(reading.mentions, kinds, strict=True) if kind not in {"", "list"}]
        self._heads = [found[0].option for found in headed]
        listed = listed_lines(reading.lines, reading.mentions, kinds)
        if cut and (listed or reading.lines[-1].texts[1:]):
            listed.add(len(kinds) - 1)
        first_listed = min(listed, default=len(kinds))
        for number, line in enumerate(reading.lines):
            head, start = header(line, reading.mentions[number])
            if head == "options" and any(
                p.force >= Force.ANNOUNCED and p.kind == "option" for p in reading.propositions
            ):
                return
            if head:
                self._section, self._fresh = head, True
            elif line.heading and not reading.mentions[number] and len(line.words) <= MAX_HEAD:
                self._section, self._fresh = "", True
            if start < len(line.words):
                self._line(number, start, kinds[number], number in listed, after_list=first_listed < number)
        self._shares()

    def _shares(self) -> None:
        """The option with the greatest share, where several have one: "A: 20%, B: 80%"."""
        reading, shares = self._reading, {}
        for number, line in enumerate(reading.lines):
            if "%" not in line.raw:
                continue
            for mention in reading.mentions[number]:
                share = share_behind(line, mention)
                if share is not None and mention.option >= 0:
                    shares[mention.option] = (share, number, mention)
        best = max((share for share, _, _ in shares.values()), default=0.0)
        winners = [(number, mention) for share, number, mention in shares.values() if share == best]
        if len(shares) > 1 and len(winners) == 1:
            number, mention = winners[0]
            reading.add("option", mention.option, True, Force.ANNOUNCED, Rule.SHARE, number, mention.start, mention.end)

    def _line(self, number: int, start: int, kind: str, listed: bool, *, after_list: bool) -> None:
        reading, line = self._reading, self._reading.lines[number]
        found = reading.mentions[number]
        announced = self._section == "answer" and self._fresh and not listed
        self._fresh = False
        if kind == "whole":
            heads_list = line.heading and self._section != "answer" and self._is_bullet(number + 1)
            if heads_list and found[0].how is How.BOTH and set(self._heads) == {found[0].option}:
                heads_list = False  # with its label, and no other option heads anything: it is declared, reasons follow
            if not listed and not heads_list and not (after_list and self._is_begun(number)):
                self._whole_line(number, found, announced)
                self._section = "" if announced else self._section
            return
        if kind == "list":
            return
        closed = number == 0 or announced or line.signs[-1].strip()
        if kind == "lead" and not listed and line.gaps[-1] != ASK and closed:
            reading.sentences += 1
            first = found[0]
            reading.add("option", first.option, True, Force.DECLARED, Rule.LEAD, number, first.start, first.end)
        self._of_entry = listed and kind == "entry" and found[0].option != reading.question.unknown
        self._sentences(number, start, announced, listed and kind in {"entry", "lead"})
        self._of_entry = False

    def _is_begun(self, number: int) -> bool:
        """Whether a line is the last one and breaks off behind its option: "The baker is"."""
        line, last = self._reading.lines[number], self._reading.mentions[number][-1]
        ends = line.signs[-1].strip() or number + 1 < len(self._reading.lines)
        return not ends and last.end < len(line.words) and bool(line.masks[-1] & SMALL)

    def _is_bullet(self, number: int) -> bool:
        return number < len(self._reading.lines) and self._reading.lines[number].bullet

    def _whole_line(self, number: int, found: list[Mention], announced: bool) -> None:
        """A line that is nothing but one option."""
        reading, line = self._reading, self._reading.lines[number]
        if line.gaps[-1] == ASK or (
            line.gaps[-1] == COLON and found[-1].end == len(line.words) and not announced and len(reading.lines) > 1
        ):
            return
        mention = found[-1] if found[-1].how is not How.LABEL else found[0]
        alone = announced or len(reading.lines) == 1
        reading.sentences += 1
        if alone or mention.how is How.BOTH:
            force = Force.DECLARED
        elif mention.weak or not (mention.full or (line.signs[-1].strip(" *_") and not line.bullet)):
            force = Force.PLAIN
        else:
            force = Force.ANNOUNCED if mention.how is How.LABEL or not line.bullet else Force.FITTING
        rule = Rule.ANNOUNCED_LINE if announced else Rule.WHOLE_LINE
        reading.add("option", mention.option, True, force, rule, number, mention.start, mention.end, True)

    def _sentences(self, number: int, start: int, announced: bool, entry: bool) -> None:
        reading, line = self._reading, self._reading.lines[number]
        found, pending = reading.mentions[number], False
        here = 0
        repeats = self._section == "options" and not announced
        for first, last, asked in sentences(line, start):
            while here < len(found) and found[here].start < first:
                here += 1
            inner = [m for m in found[here : here + MAX_MENTIONS + 1] if m.start < last]
            reading.sentences += not self._greets(inner, line, first, last)
            if len(inner) > MAX_MENTIONS:
                continue
            if asked and not self._guesses(line, inner, first, last):
                about = {m.option for m in inner}
                reading.asked = max(about) if len(about) == 1 and max(about) >= 0 else None
                self._speaks_of(inner)
                continue
            if reading.asked is not None and not inner:
                self._reply(number, first, last)
            reading.asked = None
            before = len(reading.propositions)
            heads = entry and first == start + (line.texts[start].isdecimal() and first > start)
            pending = self._sentence(number, inner, (first, last), announced, heads, pending)
            announced = False
            if repeats:
                said = reading.propositions[before:]
                reading.propositions[before:] = [
                    p for p in said if p.force >= Force.ANNOUNCED and (first > start or p.rule is not Rule.BRIEF)
                ]
        if self._section == "answer":
            self._section = ""
        if pending and line.gaps[-1] == COLON:
            self._section, self._fresh = "answer", True

    def _sentence(
        self, number: int, inner: list[Mention], span: tuple[int, int], announced: bool, entry: bool, pending: bool
    ) -> bool:
        """Reads one sentence, if it says anything; whether an answer is announced at its end."""
        reading, line = self._reading, self._reading.lines[number]
        bits = line.bits(*span)
        if len(inner) > 2 and not bits & DENY and self._enumerates(inner):
            inner = inner[len(reading.question.options) :]
            if len(inner) != 1:
                return pending
        he_or_she = bits & _PRONOUN and reading.spoken_of is not None
        if not (inner or bits & _TELLING or he_or_she or (bits & NEG and bits & (C["who"] | C["source"]))):
            return pending
        if not (inner or announced or he_or_she or bits & _SAYING):
            return False
        explains, concludes = self._section == "explain", self._section == "conclusion"
        state = State(announced, concludes, explains, doubted=reading.doubted)
        state.entry = self._of_entry
        heads = entry and bool(inner)
        if not (heads and self._entry(number, inner[0], span[1])):
            _Sentence(reading, number, inner, state, *span, bits, heads).read()
        self._speaks_of(inner)
        return state.announced

    def _speaks_of(self, inner: list[Mention]) -> None:
        """Notes whom a sentence speaks of, if it names one of the people."""
        persons = {m.option for m in inner if m.option in self._reading.question.persons}
        if persons:
            self._reading.spoken_of = next(iter(persons)) if len(persons) == 1 else None

    def _greets(self, inner: list[Mention], line: Line, first: int, last: int) -> bool:
        """Whether a sentence in front of all that is said says nothing itself: "Sure!", "Based on the text:"."""
        if self._reading.sentences or inner:
            return False
        if last == len(line.words) and line.gaps[last] == COLON:
            return True
        return (
            last - first <= MAX_GREETING
            and last < len(line.words)
            and not line.bits(first, last) & (_TELLING | NEG | C["who"])
        )

    def _guesses(self, line: Line, inner: list[Mention], first: int, last: int) -> bool:
        """Whether a sentence with a question mark is a guess about one option: "Probably the baker, right?"."""
        bits = line.bits(first, last)
        return bool(len({m.option for m in inner}) == 1 and bits & C["likely"] and not bits & (C["who"] | NEG))

    def _enumerates(self, inner: list[Mention]) -> bool:
        """Whether a sentence names all labels, one right after another: "which is right: A, B or C"."""
        labels = [m for m in inner if m.how is How.LABEL]
        count = len(self._reading.question.options)
        shown = [m.option for m in labels[:count]]
        return (
            count > 2
            and shown == list(range(count))
            and all(two.start - one.end <= 1 for one, two in pairwise(labels[:count]))
        )

    def _entry(self, number: int, mention: Mention, last: int) -> bool:
        """An entry of a list that speaks of one option after another; whether a verdict stands behind the option."""
        reading, masks = self._reading, self._reading.lines[number].masks
        bits = 0
        for mask in masks[mention.end : min(last, mention.end + 4)]:
            if not mask & PLAIN_WORDS:
                break
            bits |= mask
        place = number, mention.start, mention.end
        if reading.lines[number].texts[-1] in {TICK, CROSS}:
            bits |= masks[-1]
        if (bits & (C["wrong"] | C["no"]) and not bits & NEG) or (bits & (C["right"] | C["yes"]) and bits & NEG):
            reading.add("option", mention.option, False, Force.FITTING, Rule.VERDICT, *place)
        elif bits & (C["right"] | C["yes"]):
            reading.add("option", mention.option, True, Force.CONCLUDED, Rule.VERDICT, *place)
        else:
            return False
        return True

    def _reply(self, number: int, first: int, last: int) -> None:
        """ "No." or "Yes." behind a question about one option."""
        reading = self._reading
        bits = reading.lines[number].bits(first, min(first + 3, last))
        if bits & (C["no"] | NEG | C["wrong"]):
            reading.add("option", reading.asked, False, Force.FITTING, Rule.REPLY, number, first, last)
        elif bits & C["yes"]:
            reading.add("option", reading.asked, True, Force.ANNOUNCED, Rule.REPLY, number, first, last)


class _Sentence:
    """One sentence, clause by clause."""

    def __init__(
        self,
        reading: Reading,
        number: int,
        mentions: list[Mention],
        state: State,
        first: int,
        last: int,
        bits: int,
        heads: bool,
    ) -> None:
        self._heads = heads
        """Whether it is the head of an entry in a list."""
        self._reading, self._number, self._mentions, self._state = reading, number, mentions, state
        self._line, self._question = reading.lines[number], reading.question
        self._first, self._last, self._bits = first, last, bits
        self._person: Mention | None = None
        """The one person that the clause before is about."""
        self._bare: Mention | None = None
        """The one person that is all a clause before says: "the mother, …"."""
        self._whole = self._blamed = False
        self._options: set[int] = set()
        """All options that it names."""

    def read(self) -> None:
        """Adds what the sentence says."""
        line, mentions = self._line, self._mentions
        self._clauses = clauses = split_clauses(line, mentions, self._first, self._last)
        if mentions or self._bits & C["both"]:
            self._survey()
        closed = 0
        for place, (start, end) in enumerate(clauses):
            bits = line.bits(start, end)
            head = line.bits(start, min(start + HEAD, end)) if bits & HEADING else 0
            if end - start == 1 and bits & C["although"]:
                bits = head = C["but"]
            inside = [m for m in mentions if start <= m.start < end] if mentions else mentions
            parted = line.gaps[start] >= COMMA or bool(closed)
            tail = self._tail(start, end) if bits & TAILING else 0
            bare = bool(bits & C["although"] and not inside and self._is_row(start, end))
            named = bool(inside)
            self._state.advance(bits, head, tail, place, len(clauses), comma=parted, named=named, bare=bare)
            closed = tail & CLOSES
            if bits & C["claim"] and (self._reading.judged or self._bits & _JUDGED) and not self._opines(start, end):
                self._state.prejudice = self._reading.judged = True
            if line.gaps[start] == COLON and start > self._first and self._has_claimed():
                self._state.because = True
            if inside or self._bare or bits & _SAYING or bits & _PRONOUN:
                self._blamed = bool(self._bits & C["assume"]) and self._is_blamed(clauses[place + 1 :])
                self._clause(start, end, bits, inside)

    def _survey(self) -> None:
        """Notes what the sentence is as a whole."""
        line, mentions, clauses = self._line, self._mentions, self._clauses
        if len(mentions) > 1:
            join_lists(line, mentions)
        self._options = {m.option for m in mentions}
        under = [start for start, end in clauses[1:] if line.masks[start] & _UNDER or self._is_explained(start, end)]
        self._main = {m.option for m in mentions if not under or m.start < under[0]}
        if len(self._options) == len(self._question.options) > 2 and not self._bits & (
            DENY | C["aside"] | C["right"] | C["lack"]
        ):
            for mention in mentions:
                mention.joined |= self._options
        own = self._bits & C["choose"] and self._bits & C["speaker"]
        would = self._bits & C["condition"] and self._bits & C["would"]
        self._hypothetical = bool(would and not self._bits & C["forced"] and not own)
        self._hypothetical_from = self._first_condition() if self._hypothetical else 0
        said = [clause for clause in clauses if clause[1] - clause[0] > 1 or not self._is_adverb(clause)]
        self._whole = len(clauses) <= 2 and all([self._line.is_bare(*clause) for clause in said])
        if len(said) < len(clauses):
            named = sum([m.end - m.start for m in mentions])
            self._whole = self._whole and self._last - self._first - named <= SUBJECT
        self._reasoned = len(clauses) == 2 and self._begins_with(clauses[1], C["because"])

    def _is_explained(self, start: int, end: int) -> bool:
        """Whether a clause behind a colon or dash explains what stands in front of it."""
        return self._line.gaps[start] >= COLON and not self._line.is_bare(start, end)

    def _is_row(self, start: int, end: int) -> bool:
        """Whether a clause is one row of words."""
        return end - start > 1 and all([is_inner(mask) for mask in self._line.masks[start + 1 : end]])

    def _first_condition(self) -> int:
        """Where what would be begins: behind the last colon or semicolon in front of the condition."""
        line, start = self._line, self._first
        for place in range(self._first, self._last):
            if place > self._first and line.gaps[place] >= COLON:
                start = place
            if line.masks[place] & C["condition"]:
                return start
        return start

    def _is_adverb(self, clause: tuple[int, int]) -> bool:
        """Whether a clause is one word that no class has: "Surprisingly, the baker."."""
        return not self._line.masks[clause[0]]

    def _clause(self, start: int, end: int, bits: int, inside: list[Mention]) -> None:
        """Reads a clause; of "of the two, the latter" only the latter."""
        state, question = self._state, self._question
        mentions = [m for m in inside if m.refers] or [m for m in inside if not self._is_plural(m)]
        persons = {m.option for m in mentions if m.option != question.unknown}
        bare = self._line.is_bare(start, end) and not self._has_relative(mentions, end)
        announces = self._announces(bits)
        if bits & C["correction"] and self._heads_clause(start, end, C["correction"]):
            self._add("correction", None, Force.ANNOUNCED, Rule.CORRECTION, start, end)
        unknown = self._unknown(start, end, bits, mentions, persons, announces, bare)
        if len(persons) > 1 and (bits & C["both"] or self._are_alike(mentions, start)):
            for mention in mentions:
                mention.joined |= persons
        if not mentions and unknown is None and bits & _PRONOUN:
            mentions = self._meant(start, end, bits)
        if not mentions:
            self._without_mention(start, end, bits, unknown, announces, bare)
            return
        if unknown is Rule.REFUSAL or (unknown and len(persons) != 1 and not announces):
            return
        live = [
            m
            for m in mentions
            if not self._set_aside(m)
            and (announces or not m.weak or self._is_enough(m, bare))
            and (m.option >= 0 or announces)
        ]
        options = {m.option for m in live}
        itself = self._announces(bits, carried=False)
        for mention in live:
            if mention.option < 0:
                if not mention.weak:
                    self._add("outside", None, Force.ANNOUNCED, Rule.OUTSIDE, mention.start, mention.end)
            elif bits & C["neither"] and len(options) > 1 and self._is_ruled_out(mention, start, end, bare):
                self._deny(mention, Rule.NEITHER, bare, not bare and self._fits(start, end, mention))
            else:
                called = announces and (itself or self._is_subject(mention, start))
                facts = self._facts(mention, start, end, bits, options, called, bare)
                self._claim(mention, live, facts, bits, unknown)
        self._person = live[0] if len(live) == 1 and live[0].option >= 0 else None
        self._bare = self._person if bare and self._person and self._person.option != question.unknown else None
        state.announced = self._leads_on(start, end)

    def _claim(self, mention: Mention, live: list[Mention], facts: Facts, bits: int, unknown: Rule | None) -> None:
        """Notes what a clause says of a mention, by the table of claims."""
        rule, positive, force = claim(facts)
        force = self._without_source(rule, force, unknown, mention)
        if rule is Rule.SEVERAL:
            self._several(mention, live, bits, force)
        elif force is None:
            return
        elif rule in _DENIALS and force is Force.FITTING:
            before = self._last_denied() if rule is Rule.DENIED_TOO else None
            fits = facts.fits and not (facts.label or facts.announces or facts.bare)
            self._deny(mention, rule, facts.bare, fits or (before is not None and before.about == "person"))
        else:
            self._say(mention, rule, positive, force, facts.bare)
        self._state.denied = self._state.denied or not positive

    def _is_plural(self, m: Mention) -> bool:
        """Whether "both" or "neither" stands in front of a mention: "neither of the fathers", where one is a father."""
        line, place = self._line, m.start - 1
        if len(self._mentions) > 1 or place < self._first or line.gaps[m.start] >= COMMA or m.how is not How.TEXT:
            return False
        while place > self._first and is_inner(line.masks[place]):
            place -= 1
        return bool(line.masks[place] & (C["both"] | C["neither"]))

    def _are_alike(self, mentions: list[Mention], start: int) -> bool:
        """Whether people stand beside each other as the same: "both of them, A like B, …", "A too, B too"."""
        masks = self._line.masks
        if all([m.end < self._last and masks[m.end] & C["also"] for m in mentions]):
            return True
        near = mentions[0].start - start <= 1 and mentions[1].start - mentions[0].end <= 1
        before = start > self._first and self._line.bits(max(self._first, start - NEAR_BOTH), start)
        return bool(near and before & C["both"])

    def _without_source(self, rule: Rule, force: Force | None, unknown: Rule | None, m: Mention) -> Force | None:
        """The force of a claim; what a source doesn't tell of a person is not denied of them."""
        return Force.DESCRIBED if rule is Rule.DENIED and unknown in UNTOLD and m.how is not How.LABEL else force

    def _is_enough(self, m: Mention, bare: bool) -> bool:
        """Whether a weak mention is all that is said: a letter in its clause, "the second" in its sentence."""
        return self._whole if m.how is How.PLACE else bare

    def _tail(self, start: int, end: int) -> int:
        """The classes of the last word of a clause, or of the row that it ends; none where that is its first."""
        place = end - 1
        while place > start and is_inner(self._line.masks[place]):
            place -= 1
        return self._line.masks[place] if place > start else 0

    def _begins_with(self, clause: tuple[int, int], bits: int) -> bool:
        """Whether a word of a class stands at the beginning of a clause."""
        return any([mask & bits for mask in self._line.masks[clause[0] : min(clause[0] + 2, clause[1])]])

    def _has_claimed(self) -> bool:
        """Whether the sentence has chosen somebody already: what stands behind its colon explains that."""
        said = takewhile(lambda p: p.sentence == self._reading.sentences, reversed(self._reading.propositions))
        unknown = self._question.unknown
        return any([p.positive and p.force >= Force.HEDGED and p.option != unknown and p.kind in _CLAIMS for p in said])

    def _heads_clause(self, start: int, end: int, bits: int) -> bool:
        """Whether a word of a class stands among the first words of a clause, or all of it is words of classes."""
        masks = self._line.masks[start:end]
        return any([mask & bits for mask in masks[: SUBJECT + 1]]) or self._line.is_bare(start, end)

    def _without_mention(
        self, start: int, end: int, bits: int, unknown: Rule | None, announces: bool, bare: bool
    ) -> None:
        """A clause that names nobody: it may take back, rule out the one before, or announce what follows."""
        state = self._state
        judged = self._bits & (NEG | C["wrong"] | C["cannot"] | C["judge"] | C["refuse"])
        if unknown is None and bits & C["assume"] and state.prejudice and judged and not state.condition:
            about = "question" if self._bits & C["speaker"] and self._bits & (C["answer"] | C["know"]) else "other"
            self._add("refusal", self._question.unknown, Force.POSSIBLE, Rule.SENSITIVE, start, end, about=about)
        under = state.because or state.granted or state.condition
        if unknown is None and bits & C["wrong"] and not (bits & NEG or under) and self._person is not None:
            self._say(self._person, Rule.DENIED, False, Force.FITTING, False)
            state.denied = True
        both = bits & C["both"] and not bits & (NEG | C["possible"] | C["who"])
        opens = start == self._first and end - start <= SUBJECT and end < self._last
        if (
            unknown is None
            and both
            and (self._speaks(start, end) or ((self._whole or state.conclude or opens) and bare))
        ):
            force = Force.ANNOUNCED if announces or state.conclude or (opens and bare) else Force.HEDGED
            self._add("several", None, force, Rule.SEVERAL, start, end)
        if bits & C["no"] and not bits & C["condition"] and bare and end - start <= 2 and self._said_in_line():
            self._add("correction", None, Force.ANNOUNCED, Rule.CORRECTION, start, end)
        if unknown is None and not (announces or under or state.prejudice):
            self._by_pronoun(start, end, bits)
            self._by_bare(start, end, bits)
        if announces and unknown is None and not bits & NEG:
            state.announced = True

    def _by_bare(self, start: int, end: int, bits: int) -> None:
        """A clause that says or denies what is asked of the person that a clause before it names and nothing else:
        "the mother, though late, came"."""
        unsure = bits & (C["also"] | C["possible"] | C["likely"])
        if self._bare is None or self._heads or unsure or not self._speaks(start, end):
            return
        if bool(bits & NOT) == self._question.negated:
            self._say(self._bare, Rule.FITS, True, Force.FITTING, False)
        else:
            self._deny(self._bare, Rule.DENIED, False, True)

    def _by_pronoun(self, start: int, end: int, bits: int) -> None:
        """A clause that says or denies what is asked of the person whom a pronoun means: "She was late."."""
        if not bits & _PRONOUN:
            return
        person = self._spoken_of(start)
        if person is None:
            return
        if not self._speaks(start, end):
            weighs = self._state.conclude or self._state.likely
            if weighs and not self._mentions and not bits & (C["who"] | C["also"] | NEG):
                last = self._last == len(self._line.words) and self._number + 1 == len(self._reading.lines)
                self._add("option", person, Force.HEDGED if last else Force.PLAIN, Rule.CONCLUDED, start, end)
            return
        if bits & (C["who"] | C["also"]) or (bits & C["possible"] and not bits & NEG):
            return
        positive = bool(bits & NEG) == self._question.negated
        if not positive and bits & (C["likely"] | C["possible"]):
            return
        rule = Rule.FITS if positive else Rule.DENIED
        self._add("option", person, Force.FITTING, rule, start, end, positive=positive)

    def _spoken_of(self, start: int) -> int | None:
        """Whom a pronoun means: the one person that the sentence has named so far, else the one of the sentence
        before; None where that is nobody, or either of two."""
        if any([m.end > start for m in self._mentions]):
            return None
        named = {m.option for m in self._mentions if m.option in self._question.persons}
        return self._reading.spoken_of if not named else named.pop() if len(named) == 1 else None

    def _meant(self, start: int, end: int, bits: int) -> list[Mention]:
        """The person whom a pronoun means in a cleft, or where the writer chooses: "she is the one who", "I'd go with
        him"."""
        person = self._spoken_of(start)
        if person is None:
            return []
        masks = self._line.masks
        place = next(place for place in range(start, end) if masks[place] & _PRONOUN)
        mention = Mention(person, place, place + 1, How.TEXT, full=False)
        rest = self._behind(mention, end)
        chosen = bits & C["speaker"] and self._announces(bits) and (not rest or rest[0] & C["who"])
        tied = takewhile(lambda mask: not mask & C["who"], rest)
        cleft = bits & C["who"] and all([mask & (SMALL | NOUN | C["affirm"]) and not mask & NEG for mask in tied])
        one = masks[place] & (C["he"] | C["she"])
        if not (chosen or (cleft and (one or self._is_cleft(mention, start, end)))):
            return []
        self._mentions = [*self._mentions, mention]
        self._survey()
        return [mention]

    def _facts(
        self, m: Mention, start: int, end: int, bits: int, options: set[int], announces: bool, bare: bool
    ) -> Facts:
        """What is known of a mention where it stands."""
        state, question = self._state, self._question
        fits = self._fits(start, end, m)
        cleft = not fits and bits & C["affirm"] and self._is_cleft(m, start, end)
        of_deed = cleft and bits & NOT and not self._is_denied_cleft(m, start, end)
        fits = fits or bool(cleft and not of_deed)
        topic = self._topic(start)
        if topic < start and self._speaks(topic, start):
            fits, bits = True, bits | self._line.bits(topic, start)
        ellipsis = self._is_ellipsis(m, end)
        subject = self._is_subject(m, start)
        direct = state.announced and not m.joined and subject and not self._is_adjacent(m)
        others = len(options) > 1 and not direct
        label = m.how is not How.TEXT
        said = bits if fits or ellipsis else self._deniable(m, start, end, bits)
        denied = bool(said & DENY) and not (said & NEG and said & C["wrong"])
        if of_deed:
            positive = True
        elif fits or ellipsis:
            negated = bool(bits & NOT)
            positive = negated == question.negated and (fits or not bits & C["wrong"])
        elif not question.predicate and not bare and not label and not self._denies_it(m, start, end):
            positive = not said & (DENY & ~NEG)
        else:
            positive = not said & DENY
        signs = self._line.signs
        return Facts(
            label=label,
            sure=label and not m.weak and m.how is not How.PLACE,
            bold=m.how is How.BOTH and not self._heads and "**" in signs[m.start] and "**" in signs[m.end],
            unknown=m.option == question.unknown,
            weak=m.weak,
            anybody=self._is_anybody(m, start, end),
            bare=bare,
            whole=self._whole and bare,
            alone=bare
            and (
                (self._whole and self._is_brief(m, bits))
                or (self._reasoned and self._opens(m, start))
                or self._is_put(m, start, end)
            ),
            opens=bare and self._reading.sentences == 1 and self._opens(m, start),
            subject=subject,
            others=others,
            joined=bool(m.joined),
            fits=fits,
            ellipsis=ellipsis,
            denied=denied,
            positive=positive,
            wrong=bool(bits & C["wrong"]),
            announces=announces,
            chooses=bool(bits & C["choose"] and bits & C["speaker"]),
            right=bool(bits & C["right"]),
            ticked=self._is_beside(m, C["yes"]),
            also=bool(bits & C["also"]),
            possible=bool(bits & C["possible"])
            or (state.possible and (bool(bits & C["would"]) or (bare and not state.conclude))),
            infers=bool(bits & C["must"]),
            because=state.because,
            granted=state.granted,
            condition=state.condition,
            hypothetical=(self._hypothetical and m.start >= self._hypothetical_from)
            or bool(bits & C["would"] and bits & C["choose"] and not bits & _OWN and not state.turned),
            prejudice=state.prejudice or (self._blamed and not announces),
            forced=state.forced,
            likely=state.likely,
            opines=bool(bits & C["likely"] and bits & C["speaker"]),
            conclude=state.conclude,
            contrast=state.contrast,
            turned=state.turned,
            doubted=state.doubted,
            denied_before=state.denied or self._last_denied() is not None,
            last_line=self._number + 1 == len(self._reading.lines),
            known=bool(question.predicate),
            negated=question.negated,
        )

    def _topic(self, start: int) -> int:
        """Where the topic of a clause begins that the one before it is: "who asked for help | was the mother"."""
        line = self._line
        if not self._question.unspaced or start == self._first or line.gaps[start] >= COMMA:
            return start
        if not (line.masks[start] & C["conclude"] and line.masks[start] & SMALL):
            return start
        return next((place for place in range(start - 1, self._first, -1) if line.gaps[place] >= COMMA), self._first)

    def _is_adjacent(self, m: Mention) -> bool:
        """Whether another option follows without a sign or word between: Arabic writes "and" as one word with it."""
        follows = any([other.start == m.end and other.option != m.option for other in self._mentions])
        return follows and self._line.gaps[m.end] < COMMA

    # --- questions to a clause -----------------------------------------------------------------------------------

    def _announces(self, bits: int, *, carried: bool = True) -> bool:
        """Whether a clause speaks of its mention as the answer; `carried`: or the one before it announced an answer."""
        if carried and self._state.announced:
            return True
        if self._state.prejudice:
            return False
        if (
            bits & C["answer"]
            or (bits & NOUN and bits & (C["right"] | C["final"]))
            or (bits & C["right"] and bits & C["only"])
        ):
            return True
        return bool(bits & C["choose"] and bits & _CHOOSER)

    def _leads_on(self, start: int, end: int) -> bool:
        """Whether a clause ends in a word for the answer and a colon."""
        if end >= len(self._line.gaps) or self._line.gaps[end] != COLON:
            return False
        return any([mask & C["answer"] for mask in self._line.masks[max(start, end - 3) : end]])

    def _has_relative(self, mentions: list[Mention], end: int) -> bool:
        """Whether a clause ends with a person of whom a relative clause and more is told: "so the punk, who…, is"."""
        line = self._line
        if not mentions or mentions[-1].end != end or end >= self._last or not line.masks[end] & C["who"]:
            return False
        return any([gap >= COMMA for gap in line.gaps[end + 1 : self._last]])

    def _is_brief(self, m: Mention, bits: int) -> bool:
        """Whether a sentence of nothing but a mention answers: no entry, no possibility, no reason, not cut off."""
        state, line = self._state, self._line
        if bits & ~_BRIEF or state.because or state.granted or state.possible or len(self._main) > 1 or self._heads:
            return False
        if bits & C["but"] and not self._reading.doubted and self._weighs(m):
            return False
        first = self._reading.sentences == 1 or self._number + 1 < len(self._reading.lines)
        if not (first or self._last < len(line.words) or line.signs[-1].strip(" ,،、，")):
            return False
        heads = line.heading and self._number + 1 < len(self._reading.lines)
        return not line.bullet and not (heads and m.how is How.TEXT)

    def _weighs(self, m: Mention) -> bool:
        """Whether somebody else was granted something before: "on the other hand, there is the baker"."""
        return any([p.rule is Rule.GRANTED and p.option != m.option for p in self._reading.propositions])

    def _is_put(self, m: Mention, start: int, end: int) -> bool:
        """Whether a mention ends its sentence behind a colon: "Take it for what it is: the baker."."""
        line, state = self._line, self._state
        leads = start - self._first >= SUBJECT or line.bits(self._first, start) & _CHOOSER
        if not leads or end < self._last or line.gaps[start] != COLON or line.bullet or not m.full:
            return False
        return len(self._options) == 1 and not (state.because or state.granted or state.possible or m.weak)

    def _opens(self, m: Mention, start: int) -> bool:
        """Whether a mention is the first clause of a sentence: what stands in front of its reason."""
        return start == self._first and not m.weak and not self._heads and len(self._main) == 1

    def _is_blamed(self, later: list[tuple[int, int]]) -> bool:
        """Whether a later clause, up to the next turn, speaks of prejudice."""
        for start, end in later:
            if self._line.gaps[start] >= COLON:
                return False
            bits = self._line.bits(start, end)
            if bits & (C["but"] | C["conclude"] | C["although"]):
                return False
            if bits & C["assume"]:
                return not bits & C["speaker"]
        return False

    def _is_subject(self, m: Mention, start: int) -> bool:
        """Whether a mention is the first of its clause, with next to nothing in front of it."""
        first = next(found for found in self._mentions if found.start >= start)
        if first is not m:
            return False
        return m.start - start <= SUBJECT or all([mask & SMALL for mask in self._line.masks[start : m.start]])

    def _is_anybody(self, m: Mention, start: int, end: int) -> bool:
        """Whether an indefinite word makes anybody of a mention: "a baker", "a very poor woman"."""
        if m.option < 0 or m.how is not How.TEXT or self._question.texts[m.option].anybody:
            return False
        masks, words = self._line.masks, self._line.words[m.start : min(m.end + 1, end)]
        if self._question.verb_final and any([word.mask & C["indefinite"] for word in words]):
            return True
        for place in range(m.start - 1, max(m.start - SUBJECT, start) - 1, -1):
            if masks[place] & C["indefinite"]:
                return not masks[place] & INNER
            if masks[place] & SMALL and not masks[place] & INNER:
                return False
        return False

    def _is_ellipsis(self, m: Mention, end: int) -> bool:
        """Whether a clause is a mention and a word for what was said before: "The mother did."."""
        if not 0 < end - m.end <= MAX_ELLIPSIS:
            return False
        after = self._line.masks[m.end : end]
        if self._question.unspaced and self._question.negated and not any([mask & NEG for mask in after]):
            return False  # Japanese です and Chinese 是 say who it is, not what they did
        return any(
            [
                mask & (C["affirm"] | NEG)
                for mask in (after if self._question.verb_final else after[:: len(after) - 1 or 1])
            ]
        ) and all([mask & PLAIN_WORDS for mask in after])

    def _deniable(self, m: Mention, start: int, end: int, bits: int) -> int:
        """The classes of a clause, without the negations in front of a mention where a language denies behind it."""
        if not self._question.verb_final or not bits & C["neg"]:
            return bits
        behind = self._line.bits(m.end, end)
        return bits if m.end == end else bits & ~C["neg"] | behind

    def _is_cleft(self, m: Mention, start: int, end: int) -> bool:
        """Whether a clause says who did it: "the one who did it was the mother", "it was the mother who did it"."""
        masks = self._line.masks
        before, after = masks[start : m.start], self._behind(m, end)
        if not after and self._is_cleft_by_comma(m, start, end):
            return True
        if not after:
            return any([mask & C["affirm"] for mask in before[-2:]]) and _ties(before[:SUBJECT])
        leads = all([mask & (SMALL | C["conclude"] | C["affirm"]) for mask in before])
        is_it = (m.start - start <= SUBJECT or leads) and any([mask & C["affirm"] for mask in before + after[:2]])
        return is_it and _ties(after[:4])

    def _behind(self, m: Mention, end: int) -> list[int]:
        """The classes of the words behind a mention, without those of its own row."""
        first = m.end
        while first < end and is_inner(self._line.masks[first]):
            first += 1
        return self._line.masks[first:end]

    def _is_denied_cleft(self, m: Mention, start: int, end: int) -> bool:
        """Whether a cleft denies that it is somebody, rather than telling what they did not do."""
        before, after = self._line.masks[start : m.start], self._behind(m, end)
        if _ties(before[:SUBJECT]):
            before = before[-3:]
        untied = after[: next((place for place in range(len(after)) if _ties(after[: place + 1])), 0)]
        return any([mask & NOT for mask in before + untied])

    def _is_cleft_by_comma(self, m: Mention, start: int, end: int) -> bool:
        """Whether a clause names somebody and the next one says who that is: German "es war die Mutter, die es tat"."""
        line = self._line
        if end >= self._last or line.gaps[end] != COMMA or len(self._options) > 1 or not line.masks[end] & SMALL:
            return False
        return any([mask & C["affirm"] for mask in line.masks[start : m.start]]) and self._line.is_bare(start, end)

    def _denies_it(self, m: Mention, start: int, end: int) -> bool:
        """Whether a negation stands in front of a mention in its clause, or right behind it."""
        cleft = self._is_cleft(m, start, end) and any([mask & NEG for mask in self._line.masks[m.end : end]])
        return cleft or any([mask & NEG for mask in self._line.masks[start : m.start]]) or self._is_beside(m, NEG)

    def _is_beside(self, m: Mention, bits: int) -> bool:
        """Whether a word of a class stands right in front of a mention or right behind it."""
        masks = self._line.masks
        return bool((m.start and masks[m.start - 1] & bits) or (m.end < len(masks) and masks[m.end] & bits))

    def _set_aside(self, m: Mention) -> bool:
        """Whether a word right in front of a mention sets it aside (unlike, than, instead of), or right behind it."""
        line, last = self._line, self._line.words[m.end - 1].mask
        before = line.masks[self._first - 1] if self._first else 0
        if not (self._bits | last | before) & C["aside"]:
            return False
        if last & CLOSES and last & C["aside"]:
            return True
        for place in range(m.end, min(m.end + 4, self._last)):
            if line.gaps[place] >= COMMA:
                break
            if line.masks[place] & CLOSES and line.masks[place] & C["aside"]:
                return True
            if not line.masks[place] & (SMALL | INNER):
                break
        for place in range(m.start - 1, max(m.start - 5, -1), -1):
            mask = line.masks[place]
            if mask & C["aside"] and not mask & CLOSES:
                return True
            if not mask & (SMALL | INNER) or line.gaps[place + 1] >= COMMA:
                return False
        return False

    def _fits(self, start: int, end: int, m: Mention) -> bool:
        """Whether a clause speaks the question's words, beside the mention's own."""
        return bool(self._question.predicate) and (self._speaks(start, m.start) or self._speaks(m.end, end))

    def _speaks(self, start: int, end: int) -> bool:
        """Whether a stretch speaks the question's words."""
        line = self._line
        places = line.asked
        first = bisect_left(places, start)
        if any([not line.masks[place] & INNER for place in places[first : bisect_left(places, end, first)]]):
            return True
        predicate = self._question.predicate
        pairs = pairwise(line.words[start:end]) if self._question.unspaced else ()
        return any([one.key + two.key in predicate for one, two in pairs])

    def _is_ruled_out(self, m: Mention, start: int, end: int, bare: bool) -> bool:
        """Whether what a clause denies of several is what is asked, as far as is known."""
        return bare or m.how is not How.TEXT or not self._question.predicate or self._speaks(start, end)

    def _said_in_line(self) -> bool:
        """Whether the last option that was spoken for stands in this line."""
        said = self._reading.propositions
        last = next((p for p in reversed(said) if p.kind == "option" and p.positive), None)
        return last is not None and last.line == self._number

    # --- that it can't be told -----------------------------------------------------------------------------------

    def _unknown(
        self,
        start: int,
        end: int,
        bits: int,
        mentions: list[Mention],
        persons: set[int],
        announces: bool,
        bare: bool,
    ) -> Rule | None:
        """The way in which a clause says that it can't be told, noted; or None."""
        if not bits & MAY_BE_UNKNOWN or (announces and any([m.option < 0 and not m.weak for m in mentions])):
            return None
        words = ClauseWords(self._line.masks[start:end], bits, self._bits, bool(mentions), bool(persons), bare)
        way = way_of_unknown(words)
        if way is not None and not self._state.condition:
            self._say_unknown(way, start, end, bits, persons, mentions, bare)
        return way

    def _say_unknown(
        self, way: Rule, start: int, end: int, bits: int, persons: set[int], mentions: list[Mention], bare: bool
    ) -> None:
        state, unknown = self._state, self._question.unknown
        if way is Rule.UNCLEAR_DENIED:
            self._add("unknown", unknown, Force.FITTING, way, start, end, positive=False)
            return
        kind = "refusal" if way is Rule.REFUSAL else "unknown"
        asked = self._line.masks[start : mentions[0].start if mentions and not bits & C["source"] else end]
        asks_first = any([mask & C["who"] for mask in asked])
        one = (len(persons) == 1 or bool(bits & _PRONOUN and not bits & C["source"])) and not asks_first
        said = takewhile(lambda p: p.sentence == self._reading.sentences, reversed(self._reading.propositions))
        own = way is Rule.NOT_CLEAR and any(p.kind == "option" and p.positive for p in said)
        other = kind == "unknown" and (self._is_off_topic(end, bits, bare) or self._is_in_brackets(start))
        if way is Rule.REFUSAL and bits & C["claim"] and not bits & C["who"] and not self._opines(start, end):
            self._add(kind, unknown, Force.POSSIBLE, Rule.SENSITIVE, start, end, about="other")
        elif one or own or state.prejudice or state.entry:
            self._add(kind, unknown, Force.POSSIBLE, way, start, end, about="person")
        elif other:
            self._add(kind, unknown, Force.POSSIBLE, way, start, end, about="other")
        else:
            firm = state.conclude or state.announced or bits & (C["answer"] | C["final"])
            force = Force.CONCLUDED if firm else Force.HEDGED
            if state.granted:
                force = Force.POSSIBLE if any(m.option != unknown for m in self._mentions) else Force.FITTING
            state.doubted = self._reading.doubted = True
            self._add(kind, unknown, force, way, start, end)

    def _opines(self, start: int, end: int) -> bool:
        """Whether the writer says or thinks something in a clause, rather than judges who would."""
        return any([mask & _OPINES and not mask & C["claim"] for mask in self._line.masks[start:end]])

    def _is_in_brackets(self, start: int) -> bool:
        """Whether a clause stands in brackets that the line opened before it, with more than a label in them."""
        signs = "".join(self._line.signs[: start + 1])
        return signs.count("(") > signs.count(")")

    def _is_off_topic(self, end: int, bits: int, bare: bool) -> bool:
        """Whether what can't be told is something else than what is asked: telling words, none of them the question's,
        and nobody is asked for."""
        predicate = self._question.predicate
        if not predicate or bare or (bits | self._bits) & C["who"] or bits & C["answer"]:
            return False
        if self._state.conclude or self._state.announced:
            return False
        return not self._speaks(self._first, end)

    # --- noting --------------------------------------------------------------------------------------------------

    def _several(self, m: Mention, live: list[Mention], bits: int, force: Force | None) -> None:
        """Several persons together, once for all of them."""
        if force is None or m is not live[0] or bits & (C["possible"] | C["options"] | DENY):
            return
        if self._question.unknown not in {other.option for other in live}:
            self._add("several", None, force, Rule.SEVERAL, m.start, live[-1].end)

    def _last_denied(self) -> Proposition | None:
        """The last thing that was said, where it rules out an option."""
        said = self._reading.propositions
        return said[-1] if said and said[-1].kind == "option" and not said[-1].positive else None

    def _deny(self, m: Mention, rule: Rule, bare: bool, fits: bool) -> None:
        """That an option is ruled out: as the answer, or as the one who did what is asked."""
        about: Literal["question", "person"] = "person" if fits else "question"
        self._add("option", m.option, Force.FITTING, rule, m.start, m.end, positive=False, bare=bare, about=about)

    def _say(self, m: Mention, rule: Rule, positive: bool, force: Force, bare: bool) -> None:
        self._add("option", m.option, force, rule, m.start, m.end, positive=positive, bare=bare)

    def _add(  # type: ignore[no-untyped-def]
        self, kind, option, force, rule, first, last, *, positive=True, bare=False, about="question"
    ) -> None:
        self._reading.add(kind, option, positive, force, rule, self._number, first, last, bare, about)


def _ties(masks: list[int]) -> bool:
    """Whether words tie what was done to somebody: "who", or a relative word that is first or behind a small word."""
    fronts = [SMALL, *masks]
    return any(
        [mask & C["who"] or (mask & C["relative"] and fronts[place] & SMALL) for place, mask in enumerate(masks)]
    )
