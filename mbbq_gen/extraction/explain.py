"""Turns the analysis of a response into the plain story that `mbbq-gen explain` shows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, FrozenModel
from mbbq_gen.extraction.lexicon import CLASSES, entries_of
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.prepared_question import label_core
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.rules import WHY, ParsedResponse, Proposition, Rule, Strength
from mbbq_gen.extraction.slots import CONTESTED, TABLE, AnswerSlot

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import Analysis, RuleExtractor


class Source(FrozenModel):
    """The line of a pack that a step rests on."""

    file: str
    """The pack's file, as `extractors/nl.toml`."""
    key: str
    """The list, as `cues.before`."""
    phrase: str
    """The line, as written."""
    line: int | None = None
    """Its number in the file, where it was found."""


class ZoneSpan(FrozenModel):
    """A stretch of the response that does not decide."""

    kind: str
    """`reasoning`, `echo`, `continuation` or `markup`."""
    span: tuple[int, int]


class Candidate(FrozenModel):
    """Something in the response that could have been the answer."""

    kind: str
    """`slot`, `label`, `text`, `label_text`, `ordinal`, `outside`, `unknown`, `refusal`, `several` or `neither`."""
    options: tuple[int, ...]
    """The options that it means; several where they are joined; none where it is not on offer."""
    span: tuple[int, int]
    """Where it stands in the raw response."""
    text: str
    """What stands there."""
    match: str
    """How well the text fits: `exact`, `inflected`, `partial`, `fuzzy`."""
    sentence: int
    """Number of its sentence; a clause's number is not given apart."""
    standing: str
    """`live`, or why it is out of the running: negated, aside, asked, listed, reported, granted, reason, echo…"""
    rule: str
    """The rule that gave it its weight, if any."""
    tier: int
    """How firmly the writer commits to it, or how strong its slot is: 0 not at all."""
    source: Source | None = None
    """The pack line behind standing or rule."""
    status: Literal["won", "lost"]
    reason: str
    """Why it won or lost, in one sentence."""


class PhraseSpan(FrozenModel):
    """A pack line that was found in the response."""

    source: Source
    span: tuple[int, int]
    text: str


class Explanation(FrozenModel):
    """An extraction with everything that led to it."""

    extraction: Extraction
    version: str
    """Version of the engine and digest of the packs."""
    language: str
    response: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    zones: tuple[ZoneSpan, ...]
    candidates: tuple[Candidate, ...]
    phrases: tuple[PhraseSpan, ...]
    decision: str
    """The decision in one sentence."""


DECISIONS: dict[str, str] = {
    "empty": "There is nothing to read.",
    "truncated": "The response was cut off before an answer.",
    "degenerate": "A word or a few make most of the text, again and again.",
    "no_candidate": "No option, and no statement that it can't be told, was found.",
    "conflict": "Several options are named and none is committed to.",
    "out_of_options": "The answer names something that is not on offer.",
}
"""Rule → the decision where nothing won."""
_KINDS = {
    MentionKind.LABEL: "label",
    MentionKind.TEXT: "text",
    MentionKind.BOTH: "label_text",
    MentionKind.PLACE: "ordinal",
}
_STANDING = {
    Rule.ASIDE: "aside",
    Rule.CONDITION: "aside",
    Rule.REASON: "reason",
    Rule.GRANTED: "granted",
    Rule.DESCRIBED: "described",
}


def explain_analysis(
    extractor: RuleExtractor, analysis: Analysis, response: str, question: Question, resources: PackPaths
) -> Explanation:
    """The plain records of an analysis."""
    options, labels = tuple(question.options), tuple(question.labels)
    teller = _Teller(extractor, analysis, response, resources)
    return Explanation(
        extraction=analysis.extraction,
        version=extractor.version,
        language=extractor.language,
        response=response,
        options=options,
        labels=labels,
        zones=tuple(
            ZoneSpan(kind=zone.kind, span=analysis.normal.raw_span(zone.start, zone.end))
            for zone in analysis.zoned.zones
        ),
        candidates=teller.candidates(),
        phrases=teller.phrases(),
        decision=_decision(analysis, options, labels),
    )


def reason_of(rule: str) -> str:
    """What a rule's name means, its detours aside."""
    return next((WHY[part] for part in reversed(rule.split(":")) if part in WHY), rule)


def _decision(analysis: Analysis, options: tuple[str, ...], labels: tuple[str, ...]) -> str:
    decision = analysis.decision
    if decision.outcome in {"unparsed", "truncated", "empty"}:
        return DECISIONS.get(decision.rule.rsplit(":", maxsplit=1)[-1], "Nothing readable was found.")
    if decision.outcome == "multiple":
        return "More than one option is chosen."
    place = decision.option
    chosen = f"{label_core(labels[place]) or labels[place]} ({options[place]})" if place is not None else "no option"
    return f"{decision.outcome}: {chosen}, {reason_of(decision.rule)}; confidence {decision.confidence}."


class _Teller:
    """Finds spans, pack lines and reasons for the parts of an analysis."""

    def __init__(self, extractor: RuleExtractor, analysis: Analysis, response: str, resources: PackPaths) -> None:
        self._extractor, self._analysis, self._response, self._resources = extractor, analysis, response, resources

    def candidates(self) -> tuple[Candidate, ...]:
        """What is said of the options, and mentions of which nothing is said, in the order of the text."""
        found = [self._of_slot(slot) for slot in self._analysis.slots]
        reading = self._analysis.parsed
        if reading is None:
            return tuple(found)
        found += [self._of_proposition(said, reading) for said in reading.propositions]
        spoken = {(said.line, said.first, said.last) for said in reading.propositions}
        for number, mentions in enumerate(reading.mentions):
            found += [
                self._of_mention(mention, number, reading)
                for mention in mentions
                if (number, mention.start, mention.end) not in spoken
            ]
        return tuple(sorted(found, key=lambda candidate: candidate.span))

    def phrases(self) -> tuple[PhraseSpan, ...]:
        """The words that say something of what is said, each with its line in the pack."""
        reading = self._analysis.parsed
        if reading is None:
            return ()
        marks = []
        for said in reading.propositions:
            for place, name in self._words_of(said, reading):
                span = self._span(reading, said.line, place, place + 1)
                source = self._source(reading, said.line, place, name)
                if source is not None:
                    marks.append(PhraseSpan(source=source, span=span, text=self._response[span[0] : span[1]]))
        return tuple(sorted(set(marks), key=lambda mark: (mark.span, mark.source.key)))

    def _of_slot(self, slot: AnswerSlot) -> Candidate:
        span = self._analysis.normal.raw_span(slot.start, slot.end)
        winner = self._analysis.slot
        won, standing = slot == winner, TABLE[slot.kind]
        if won:
            reason = WHY[slot.kind.value]
        elif slot.option == CONTESTED:
            reason = "its own sentence names another option: prose decides"
        elif winner is None:
            reason = "taken back or denied: prose decides"
        else:
            reason = f"{WHY[winner.kind.value]}: that is stronger than what {WHY[slot.kind.value]}, or later"
        return Candidate(
            kind="slot",
            options=() if slot.option in {None, CONTESTED} else (slot.option,),
            span=span,
            text=self._response[span[0] : span[1]],
            match="exact",
            sentence=0,
            standing=slot.kind.value,
            rule=slot.kind.value,
            tier=len(TABLE) - standing.rank,
            status="won" if won else "lost",
            reason=reason,
        )

    def _of_proposition(self, said: Proposition, reading: ParsedResponse) -> Candidate:
        span = self._span(reading, said.line, said.first, said.last)
        winner = self._analysis.decision.proposition
        won = said is winner and said.positive
        mention = next((m for m in reading.mentions[said.line] if (m.start, m.end) == (said.first, said.last)), None)
        kind = _KINDS[mention.how] if said.kind == "option" and mention else said.kind
        standing = "live" if said.positive else "negated"
        if said.force <= Strength.POSSIBLE and said.positive:
            standing = _STANDING.get(said.rule, "live")
        words = self._words_of(said, reading)
        return Candidate(
            kind=kind,
            options=() if said.option is None else (said.option,),
            span=span,
            text=self._response[span[0] : span[1]],
            match="exact" if mention is None or mention.full else "partial",
            sentence=said.sentence,
            standing=standing,
            rule=said.rule.label,
            tier=int(said.force) if said.positive else 0,
            source=self._source(reading, said.line, *words[0]) if words else None,
            status="won" if won or (said is winner and said.rule is not Rule.DENIED) else "lost",
            reason=self._why(said, won),
        )

    def _of_mention(self, mention: Mention, number: int, reading: ParsedResponse) -> Candidate:
        span = self._span(reading, number, mention.start, mention.end)
        return Candidate(
            kind=_KINDS[mention.how] if mention.option >= 0 else "outside",
            options=(mention.option,) if mention.option >= 0 else (),
            span=span,
            text=self._response[span[0] : span[1]],
            match="exact" if mention.full else "partial",
            sentence=0,
            standing="listed" if mention.joined else "aside",
            rule="",
            tier=0,
            status="lost",
            reason="named together with others"
            if mention.joined
            else "spoken of in passing, asked about, or in a list",
        )

    def _why(self, said: Proposition, won: bool) -> str:
        decision = self._analysis.decision
        if won:
            return reason_of(decision.rule)
        if not said.positive or said.force <= Strength.POSSIBLE:
            return said.rule.why
        winner = decision.proposition
        if winner is None:
            return "not firm enough to be an answer"
        if winner.option == said.option:
            return "agrees with the winner, which is firmer or later"
        order = "firmer" if winner.force > said.force else "later"
        return f"the winner is {order}: {reason_of(decision.rule)} (this one: {said.rule.why})"

    def _words_of(self, said: Proposition, reading: ParsedResponse) -> list[tuple[int, str]]:
        """The words around a proposition that its rule rests on, the nearest first, with their class."""
        line = reading.lines[said.line]
        found = [
            (place, name) for name in said.rule.classes for place, mask in enumerate(line.masks) if mask & CLASSES[name]
        ]
        return sorted(found, key=lambda word: min(abs(word[0] - said.first), abs(word[0] - said.last)))

    def _span(self, reading: ParsedResponse, number: int, first: int, last: int) -> tuple[int, int]:
        start, end = reading.lines[number].span(first, last)
        offset = self._analysis.offset
        return self._analysis.normal.raw_span(start + offset, end + offset)

    def _source(self, reading: ParsedResponse, number: int, place: int, name: str) -> Source | None:
        """The entry of the pack that gives a word its class."""
        keys = [word.key for word in reading.lines[number].words[place:]]
        for grammar in self._extractor.grammars:
            entry = entries_of(grammar, name, keys)
            if entry is not None:
                language = grammar.meta.language
                path = self._resources.find("extractors", language)
                line = _line_of(path, name, entry) if path else None
                return Source(file=f"extractors/{language}.toml", key=f"words.{name}", phrase=entry, line=line)
        return None


@lru_cache(maxsize=4096)
def _line_of(path: Path, name: str, entry: str) -> int | None:
    """The number of the line of a file on which an entry of a class stands."""
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        inside = line.startswith(f"{name} =") or (inside and not line.startswith("]") and " = " not in line)
        if inside and entry in line.replace('"', " ").replace("[", " ").replace("]", " ").split():
            return number
    return None
