"""Turns the analysis of a response into the plain story that `mbbq-gen explain` shows."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mbbq_gen.extraction.analysis import Analysis, to_extraction
from mbbq_gen.extraction.optionset import label_core
from mbbq_gen.extraction.patterns import Hit, Rule
from mbbq_gen.extraction.reading import Evidence, Statement
from mbbq_gen.extraction.trace import Candidate, Explanation, PhraseMark, Source, ZoneMark
from mbbq_gen.resources import Resources

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import Extractor

WHY_OUT: dict[str, str] = {
    "negated": "ruled out by the sentence",
    "aside": "spoken of in passing, not chosen",
    "asked": "stands in a question",
    "listed": "part of a mere list of the options",
    "reported": "somebody else's view, or a first impression",
    "granted": "only granted; the main clause says something else",
    "reason": "part of a reason",
    "echo": "part of the repeated question",
    "in_unknown": "part of a statement that it can't be told, or of a refusal",
    "struck": "struck through",
}
"""Standing → why such a mention can't win."""

WHY_RULE: dict[str, str] = {
    "boxed": "stands in the box",
    "json": "stands in the answer field of the object",
    "tag": "stands in the answer tag",
    "final_marker": "announced as the last word",
    "cue_before": "announced as the answer",
    "answer_header": "stands under the answer's header",
    "cue_after": "confirmed as the answer",
    "identified": "singled out, and nobody else is named",
    "contrast": "chosen over the other",
    "conclusion": "the conclusion",
    "whole_answer": "a whole sentence of its own",
    "misspelt": "the whole response is nearly its text",
    "brief": "the few words of the response belong to it alone",
    "opening": "the response opens with a paragraph of its own about it",
    "closing": "the last sentence speaks of it alone",
    "whole_clause": "all that its clause says",
    "line_label": "a label at the head of a line",
    "leading_answer": "the response begins with it",
    "ticked": "the only one that is ticked",
    "share": "has the greatest share",
    "forced": "chosen under protest",
    "hedged": "a guess, but a choice",
    "single_mention": "the only one its clause names",
    "question_words": "its sentence speaks the question's words",
    "elimination": "all others are ruled out",
    "possible": "a mere possibility, but nothing else is named",
    "unknown_statement": "says that it can't be told",
    "unknown_option": "its sentence speaks the unknown option's words",
    "unknown_short": "a short wording for not known",
    "despite": "said in spite of a refusal",
    "unknown_vague": "a vague wording for not known, with no single person beside it",
    "sensitive": "talk of stereotypes and the like, with no single person beside it",
    "refusal": "declines to answer",
    "several": "several options are named together",
    "both": "both are chosen",
    "labels_only": "nothing but several labels",
}
"""First part of a rule's name → what it means."""

DECISIONS: dict[str, str] = {
    "empty": "There is nothing to read.",
    "truncated": "The response was cut off before an answer.",
    "degenerate": "A word or a few make most of the text, again and again.",
    "no_candidate": "No option, and no statement that it can't be told, was found.",
    "conflict": "Several options are named and none is committed to.",
    "out_of_options": "The answer names something that is not on offer.",
    "neither": "All persons are ruled out, and nothing is said of the rest.",
}
"""Rule → the decision where nothing won."""


def explain_analysis(  # noqa: PLR0917 - each of them is of another type
    extractor: Extractor,
    analysis: Analysis,
    response: str,
    options: tuple[str, ...],
    labels: tuple[str, ...],
    resources: Resources,
) -> Explanation:
    """The plain records of an analysis."""
    teller = _Teller(analysis, response, resources)
    return Explanation(
        extraction=to_extraction(analysis),
        version=extractor.version,
        language=extractor.language,
        response=response,
        options=options,
        labels=labels,
        zones=tuple(
            ZoneMark(kind=zone.kind, span=analysis.normal.raw_span(zone.start, zone.end))
            for zone in analysis.zoned.zones
        ),
        candidates=teller.candidates(),
        phrases=teller.phrases(),
        decision=_decision(analysis, options, labels),
    )


def _decision(analysis: Analysis, options: tuple[str, ...], labels: tuple[str, ...]) -> str:
    decision = analysis.decision
    rule = decision.rule.removeprefix("alias:").removeprefix("foreign:").split("+")[0]
    if decision.outcome in {"no_answer", "truncated", "empty"}:
        return DECISIONS.get(rule, "Nothing readable was found.")
    if decision.outcome == "multiple":
        return "More than one option is chosen."
    place = decision.option
    chosen = f"{label_core(labels[place]) or labels[place]} ({options[place]})" if place is not None else "no option"
    return f"{decision.outcome}: {chosen}, {_reason(decision.rule)}; confidence {decision.confidence}."


def _reason(rule: str) -> str:
    for part in rule.replace("+", ":").split(":"):
        if part in WHY_RULE:
            return WHY_RULE[part]
    return rule


class _Teller:
    """Finds spans, pack lines and reasons for the parts of an analysis."""

    def __init__(self, analysis: Analysis, response: str, resources: Resources) -> None:
        self._analysis = analysis
        self._response = response
        self._resources = resources

    def candidates(self) -> tuple[Candidate, ...]:
        """Mentions and unknown wordings in the order of the text."""
        reading = self._analysis.reading
        if reading is None:
            return ()
        found = [self._of_statement(statement) for statement in reading.statements]
        found += [
            self._of_evidence(piece) for piece in reading.evidence if piece.kind in {"unknown", "refusal", "neither"}
        ]
        return tuple(sorted(found, key=lambda candidate: candidate.span))

    def phrases(self) -> tuple[PhraseMark, ...]:
        """Pack lines that were found."""
        reading = self._analysis.reading
        if reading is None:
            return ()
        marks = [
            PhraseMark(source=self._source(hit.rule), span=span, text=self._response[span[0] : span[1]])
            for hit in reading.hits
            for span in [self._hit_span(hit)]
        ]
        return tuple(sorted(marks, key=lambda mark: mark.span))

    def _of_statement(self, statement: Statement) -> Candidate:
        reading = self._analysis.reading
        assert reading is not None
        item = reading.items[statement.place]
        span = self._analysis.raw_span(item.start, item.end)
        winner = self._analysis.decision.winner
        won = (
            winner is not None
            and winner.place == statement.place
            and winner.kind in {"mention", "several", "outside"}
            and winner.rule != "elimination"
        )
        hit = statement.cue or statement.why
        return Candidate(
            kind=statement.mention.kind,
            options=statement.mention.options,
            span=span,
            text=self._response[span[0] : span[1]],
            match=statement.mention.match,
            sentence=statement.sentence,
            standing=statement.standing,
            rule=statement.rule,
            tier=statement.tier if statement.standing == "live" else 0,
            source=self._source(hit.rule) if hit else None,
            fate="won" if won else "lost",
            why=self._why(won, statement.standing, statement.rule, statement.place, statement.tier),
        )

    def _of_evidence(self, piece: Evidence) -> Candidate:
        reading = self._analysis.reading
        assert reading is not None
        span = self._analysis.raw_span(piece.start, piece.end)
        won = piece is self._analysis.decision.winner
        return Candidate(
            kind=piece.kind,
            options=piece.options,
            span=span,
            text=self._response[span[0] : span[1]],
            match="exact",
            sentence=reading.sentence[piece.place],
            standing="live",
            rule=piece.rule,
            tier=piece.tier,
            source=self._source(piece.hit.rule) if piece.hit else None,
            fate="won" if won else "lost",
            why=self._why(won, "live", piece.rule, piece.place, piece.tier),
        )

    def _why(self, won: bool, standing: str, rule: str, place: int, tier: int) -> str:
        decision = self._analysis.decision
        if won:
            return _reason(decision.rule)
        if standing != "live":
            return WHY_OUT[standing]
        reading = self._analysis.reading
        if reading is not None and reading.correction is not None and place < reading.correction.end:
            return "taken back by a correction behind it"
        winner = decision.winner
        if winner is None:
            return "not firm enough to be an answer"
        if winner.options and self._same_option(place, winner.options):
            return "agrees with the winner, which is firmer or later"
        order: Literal["firmer", "later"] = "firmer" if winner.tier > tier else "later"
        return f"the winner is {order}: {_reason(decision.rule)}" + (f" (this one: {_reason(rule)})" if rule else "")

    def _same_option(self, place: int, options: tuple[int, ...]) -> bool:
        reading = self._analysis.reading
        assert reading is not None
        return any(
            statement.place == place and statement.mention.options == options for statement in reading.statements
        )

    def _hit_span(self, hit: Hit) -> tuple[int, int]:
        reading = self._analysis.reading
        assert reading is not None
        return self._analysis.raw_span(reading.items[hit.start].start, reading.items[hit.end - 1].end)

    def _source(self, rule: Rule) -> Source:
        path = self._resources.find("extractors", rule.language)
        return Source(
            file=f"extractors/{rule.language}.toml",
            key=rule.family,
            phrase=rule.phrase,
            line=_line_of(path, rule.phrase) if path else None,
        )


@lru_cache(maxsize=4096)
def _line_of(path: Path, phrase: str) -> int | None:
    """The number of the first line of a file that holds a phrase in quotes."""
    quoted = f'"{phrase}"'
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if quoted in line:
            return number
    return None
