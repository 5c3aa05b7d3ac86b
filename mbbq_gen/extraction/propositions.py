"""Reads the propositions out of lines: headers, lists, shares and entries here, sentences by `.sentences`."""

from __future__ import annotations

from mbbq_gen.extraction.clauses import NEG, ClauseState, sentences
from mbbq_gen.extraction.layout import (
    MAX_HEAD,
    PLAIN_WORDS,
    header,
    line_kind,
    listed_lines,
    without_list,
)
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COLON, Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.prepared_question import PreparedQuestion
from mbbq_gen.extraction.rules import ParsedResponse, Rule, Strength
from mbbq_gen.extraction.sentence_state import Sentence
from mbbq_gen.extraction.sentences import SAYING, read_sentence
from mbbq_gen.extraction.syntax import PRONOUN

_TELLING = (
    C["untold"]
    | C["unclear"]
    | C["know"]
    | C["tell"]
    | C["info"]
    | C["clear"]
    | C["refuse"]
    | C["lack"]
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
MAX_MENTIONS = 64
"""Mentions beyond which a sentence is no sentence."""
MAX_GREETING = 4
"""Words of a sentence that greets or agrees before anything is said: "Happy to help!"."""


def read_propositions(
    question: PreparedQuestion, lines: list[Line], mentions: list[list[Mention]], *, announced: bool = False
) -> ParsedResponse:
    """The propositions of a response, in the order of its text; `announced` where all of it is an answer."""
    count = len(question.options)
    mentions = [
        without_list(found, count) if len(found) >= count else found
        for line, found in zip(lines, mentions, strict=True)
    ]
    reading, predicate = ParsedResponse(question, lines, mentions), question.predicate
    for line in lines:
        line.telling = [place for place, mask in enumerate(line.masks) if not mask & PLAIN_WORDS]
        if predicate:
            line.asked = [place for place, word in enumerate(line.words) if word.stem in predicate]
    for found in mentions:
        reading.persons.update([m.option for m in found if m.option != question.unknown])
    _Reader(reading, announced).read()
    return reading


class _Reader:
    """Goes through the lines; a header holds for what stands behind it."""

    def __init__(self, reading: ParsedResponse, announced: bool) -> None:
        self._reading = reading
        self._section = ""
        self._fresh = announced
        """Whether nothing has followed the header yet."""
        self._of_entry = False
        """Whether a line is an entry about one person in a list of them."""
        self._heads: list[int] = []
        """The options that lines begin with, line by line."""

    def read(self) -> None:
        """Reads line by line, up to a new question behind the answer."""
        reading = self._reading
        kinds = [line_kind(line, found) for line, found in zip(reading.lines, reading.mentions, strict=True)]
        kinds[-1:] = kinds[-1:]
        headed = [found for found, kind in zip(reading.mentions, kinds, strict=True) if kind not in {"", "list"}]
        self._heads = [found[0].option for found in headed]
        listed = listed_lines(reading.mentions, kinds)
        for number, line in enumerate(reading.lines):
            head, start = header(line, reading.mentions[number])
            if head:
                self._section, self._fresh = head, True
            elif line.heading and len(line.words) <= MAX_HEAD:
                self._section, self._fresh = "", True
            self._line(number, start, kinds[number], number in listed)

    def _line(self, number: int, start: int, kind: str, listed: bool) -> None:
        reading = self._reading
        found = reading.mentions[number]
        announced = self._section == "answer"
        self._fresh = False
        if kind == "whole":
            if not listed:
                self._whole_line(number, found)
                self._section = self._section
            return
        self._of_entry = listed and found[0].option != reading.question.unknown
        self._sentences(number, start, announced, listed)
        self._of_entry = False

    def _whole_line(self, number: int, found: list[Mention]) -> None:
        """A line that is nothing but one option."""
        reading = self._reading
        mention = found[-1]
        force = Strength.DECLARED
        rule = Rule.WHOLE_LINE
        reading.add("option", mention.option, True, force, rule, number, mention.start, mention.end, True)

    def _sentences(self, number: int, start: int, announced: bool, entry: bool) -> None:
        reading, line = self._reading, self._reading.lines[number]
        found, pending = reading.mentions[number], False
        here = 0
        for first, last, asked in sentences(line, start):
            while here < len(found) and found[here].start < first:
                here += 1
            inner = [m for m in found[here : here + MAX_MENTIONS + 1] if m.start < last]
            reading.sentences += not self._greets(inner, line, first, last)
            if len(inner) > MAX_MENTIONS:
                continue
            if asked and not self._guesses(line, inner, first, last):
                continue
            heads = entry
            pending = self._sentence(number, inner, (first, last), announced, heads, pending)
            announced = False
        if self._section == "answer":
            self._section = ""

    def _sentence(
        self, number: int, inner: list[Mention], span: tuple[int, int], announced: bool, entry: bool, pending: bool
    ) -> bool:
        """Reads one sentence, if it says anything; whether an answer is announced at its end."""
        reading, line = self._reading, self._reading.lines[number]
        bits = line.bits(*span)
        he_or_she = bits & PRONOUN and reading.spoken_of is not None
        if not (inner or bits & _TELLING or he_or_she or (bits & NEG and bits & (C["who"] | C["source"]))):
            return pending
        if not (inner or he_or_she or bits & SAYING):
            return False
        explains, concludes = self._section == "explain", self._section == "conclusion"
        state = ClauseState(announced, concludes, explains, doubted=reading.doubted)
        state.entry = self._of_entry
        heads = entry
        read_sentence(Sentence(reading, number, inner, state, *span, bits, heads))
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
        return bool(len({m.option for m in inner}) == 1 and bits & C["likely"])
