"""Everything that was found on the way to a reading, and the record that is kept of it."""

from __future__ import annotations

from dataclasses import dataclass

from mbbq_gen.extraction.normalise import NormalText
from mbbq_gen.extraction.reading import Reading
from mbbq_gen.extraction.resolve import Decision
from mbbq_gen.extraction.structured import Value
from mbbq_gen.extraction.tokens import Token
from mbbq_gen.extraction.zones import ZonedText
from mbbq_gen.records import Extraction


@dataclass(slots=True)
class Analysis:
    """Everything that was found on the way to a decision."""

    normal: NormalText
    zoned: ZonedText
    decision: Decision
    tokens: list[Token]
    reading: Reading | None
    value: Value | None = None
    alias: str | None = None

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the raw response that `start` to `end` of the text that was read came from."""
        offset = self.value.start if self.value is not None else 0
        return self.normal.raw_span(start + offset, end + offset)


def to_extraction(analysis: Analysis) -> Extraction:
    """The record of an analysis, with spans in the raw response."""
    decision = analysis.decision
    return Extraction(
        outcome=decision.outcome,
        option=decision.option,
        confidence=decision.confidence,
        rule=decision.rule,
        spans=evidence_spans(analysis),
        conflicts=tuple(decision.conflicts),
    )


def evidence_spans(analysis: Analysis) -> tuple[tuple[int, int], ...]:
    """Where in the raw response the winning evidence stands: the announcement, if any, and the answer."""
    winner, reading = analysis.decision.winner, analysis.reading
    if winner is None or reading is None:
        return ()
    spans = {(winner.start, winner.end)} if winner.end > winner.start else set()
    if winner.hit is not None:
        spans.add((reading.items[winner.hit.start].start, reading.items[winner.hit.end - 1].end))
    return tuple(sorted(analysis.raw_span(*span) for span in spans))


def by_detour(analysis: Analysis, name: str) -> Analysis:
    """A reading that another road led to: its rule says which, and it is never quite sure."""
    decision = analysis.decision
    decision.rule = f"{name}:{decision.rule}"
    if decision.confidence == "high":
        decision.confidence = "medium"
    return analysis


def names_nothing(analysis: Analysis) -> bool:
    """Whether a response speaks of no option at all, not even to list or reject it: only then may other names help."""
    reading = analysis.reading
    return analysis.decision.rule == "no_candidate" and reading is not None and not reading.statements


def names_in_reason(analysis: Analysis) -> bool:
    """Whether the only plain sentence names its option in a reason: "The girl of 24, since grandma …"."""
    reading, winner = analysis.reading, analysis.decision.winner
    if reading is None or winner is None or analysis.decision.rule != "single_mention" or not reading.reasons:
        return False
    return 0 < min(reading.reasons) < min(one.place for one in reading.statements)
