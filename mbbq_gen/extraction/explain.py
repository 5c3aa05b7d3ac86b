"""Explains an extraction: its candidates, their pack entries, and why each won or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mbbq_gen.core.records import Extraction, FrozenModel
from mbbq_gen.extraction.claims import WHY, Proposition, Rule, Strength
from mbbq_gen.extraction.lexicon import CLASSES, entries_of
from mbbq_gen.extraction.mentions import MentionKind
from mbbq_gen.extraction.question import Question, label_core
from mbbq_gen.extraction.slots import CONTESTED, AnswerSlot, SlotKind

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import Analysis, RuleExtractor
DECISIONS: dict[str, str] = {
    "empty": "There is nothing to read.",
    "truncated": "The response was cut off before an answer.",
    "degenerate": "A word or a few make most of the text, again and again.",
    "no_candidate": "No option, and no statement that it can't be known, was found.",
    "conflict": "Several options are named and none is committed to.",
}
"""Rule → text of a decision without a winner."""
_KINDS = {
    MentionKind.LABEL: "label",
    MentionKind.TEXT: "text",
    MentionKind.BOTH: "label_text",
    MentionKind.ORDINAL: "ordinal",
}
_IN_PASSING = Rule.ASIDE, Rule.REASON, Rule.GRANTED, Rule.DESCRIBED
"""Rules whose names are used as the standing of a candidate."""


class Source(FrozenModel):
    """The pack entry behind a proposition."""

    file: str
    """The pack's file, as `extractors/nl.toml`."""
    key: str
    """The list, as `words.neg`."""
    phrase: str


class ZoneSpan(FrozenModel):
    """A part of the response that is not the answer."""

    kind: str
    """`reasoning`, `echo`, `continuation` or `markup`."""
    span: tuple[int, int]


class Candidate(FrozenModel):
    """A part of the response that could have been the answer."""

    kind: str
    """`slot`, `label`, `text`, `label_text`, `ordinal`, `unknown`, `refusal`, `several` or `correction`."""
    options: tuple[int, ...]
    """The option that it names; empty if it names none or several."""
    span: tuple[int, int]
    text: str
    sentence: int = 0
    """Number of its sentence in the response; 0 for slots."""
    standing: str
    """The kind of its slot; `live`; or why it can't win: `negated`, `listed`, `aside` or a name from `_IN_PASSING`."""
    rule: str = ""
    tier: int = 0
    """Strength of its proposition, or rank of its slot, larger for stronger ones."""
    source: Source | None = None
    status: Literal["won", "lost"] = "lost"
    reason: str


class Explanation(FrozenModel):
    """An extraction with its zones and candidates."""

    extraction: Extraction
    version: str
    """Version of the extractor."""
    language: str
    response: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    zones: tuple[ZoneSpan, ...]
    candidates: tuple[Candidate, ...]
    decision: str


def explain_analysis(extractor: RuleExtractor, analysis: Analysis, response: str, question: Question) -> Explanation:
    """The analysis of a response as a record."""
    found = _Candidates(extractor, analysis, response)
    raw_span = analysis.normal.raw_span
    return Explanation(
        extraction=analysis.extraction,
        version=extractor.version,
        language=extractor.language,
        response=response,
        options=tuple(question.options),
        labels=tuple(question.labels),
        zones=tuple(ZoneSpan(kind=zone.kind, span=raw_span(zone.start, zone.end)) for zone in analysis.zoned.zones),
        candidates=tuple(sorted(found.all(), key=lambda candidate: candidate.span)),
        decision=_decision_text(analysis, question),
    )


def reason_of(rule: str) -> str:
    """The meaning of a rule's name without its prefixes."""
    return DECISIONS.get(rule) or next((WHY[part] for part in reversed(rule.split(":")) if part in WHY), rule)


def _decision_text(analysis: Analysis, question: Question) -> str:
    decision = analysis.decision
    option, reason = decision.option, reason_of(decision.rule)
    if decision.outcome in {"unparsed", "truncated", "empty"}:
        return DECISIONS[decision.rule]
    if decision.outcome == "multiple":
        return "More than one option is chosen."
    if option is not None:
        label = question.labels[option]
        chosen = f"{label_core(label) or label} ({question.options[option]}), {reason}"
    else:
        hint = "; no option is the unknown one (--unknown-index)" if question.unknown_index is None else ""
        chosen = f"no option, because it {reason}{hint}"
    return f"{decision.outcome}: {chosen}; confidence {decision.confidence}."


class _Candidates:
    """The candidates of an analysis."""

    def __init__(self, extractor: RuleExtractor, analysis: Analysis, response: str) -> None:
        self._extractor, self._analysis, self._response = extractor, analysis, response
        parsed = analysis.parsed
        self._propositions = [] if parsed is None else parsed.propositions
        self._mentions = [] if parsed is None else parsed.mentions
        self._lines = [] if parsed is None else parsed.lines

    def all(self) -> list[Candidate]:
        """Slots, propositions, and mentions without a proposition."""
        found = [self._of_slot(slot) for slot in self._analysis.slots]
        found += [self._of_proposition(p) for p in self._propositions]
        covered = {(p.line, p.first, p.last) for p in self._propositions}
        for number, mentions in enumerate(self._mentions):
            for mention in mentions:
                if (number, mention.start, mention.end) not in covered:
                    found.append(
                        self._candidate(
                            *self._span(number, mention.start, mention.end),
                            kind=_KINDS[mention.kind],
                            options=(mention.option,),
                            standing="listed" if mention.joined else "aside",
                            reason="named together with others" if mention.joined else "named in passing or in a list",
                        )
                    )
        return found

    def _candidate(self, start: int, end: int, **facts: Any) -> Candidate:
        """A candidate in the normalised text from `start` to `end`."""
        first, last = self._analysis.normal.raw_span(start, end)
        return Candidate(span=(first, last), text=self._response[first:last], **facts)

    def _of_slot(self, slot: AnswerSlot) -> Candidate:
        winner, kind = self._analysis.slot, slot.kind.value
        if slot == winner:
            reason = WHY[kind]
        elif slot.option == CONTESTED:
            reason = "its own sentence names another option: prose decides"
        elif winner is None:
            reason = "taken back or denied: prose decides"
        else:
            reason = f"{WHY[winner.kind.value]}: that is stronger than what {WHY[kind]}, or later"
        return self._candidate(
            slot.start,
            slot.end,
            kind="slot",
            options=() if slot.option in {None, CONTESTED} else (slot.option,),
            standing=kind,
            rule=kind,
            tier=len(SlotKind) - slot.kind.rank,
            status="won" if slot == winner else "lost",
            reason=reason,
        )

    def _of_proposition(self, p: Proposition) -> Candidate:
        decision, mentions = self._analysis.decision, self._mentions[p.line]
        winner, weak = decision.proposition, p.strength <= Strength.POSSIBLE
        if p is winner and p.positive:
            reason = reason_of(decision.rule)
        elif not p.positive or weak:
            reason = p.rule.why
        elif winner is None:
            reason = "too weak to be an answer"
        elif winner.option == p.option:
            reason = "agrees with the winner, which is stronger or later"
        else:
            order = "stronger" if winner.strength > p.strength else "later"
            reason = f"the winner is {order}: {reason_of(decision.rule)} (this one: {p.rule.why})"
        mention = next((m for m in mentions if (m.start, m.end) == (p.first, p.last)), None)
        standing = p.rule.name.lower() if weak and p.rule in _IN_PASSING else "live"
        return self._candidate(
            *self._span(p.line, p.first, p.last),
            kind=_KINDS[mention.kind] if p.kind == "option" and mention else p.kind,
            options=() if p.option is None else (p.option,),
            sentence=p.sentence,
            standing=standing if p.positive else "negated",
            rule=p.rule.label,
            tier=int(p.strength) if p.positive else 0,
            source=self._source(p),
            status="won" if p is winner and p.rule is not Rule.DENIED else "lost",
            reason=reason,
        )

    def _span(self, number: int, first: int, last: int) -> tuple[int, int]:
        """Start and end of words of a line in the normalised text."""
        start, end = self._lines[number].span(first, last)
        return start + self._analysis.offset, end + self._analysis.offset

    def _source(self, p: Proposition) -> Source | None:
        """The pack entry of the nearest word of the classes of a proposition's rule."""
        line = self._lines[p.line]
        names = p.rule.classes
        words = [(index, name) for name in names for index, mask in enumerate(line.masks) if mask & CLASSES[name]]
        if not words:
            return None
        index, name = min(words, key=lambda word: min(abs(word[0] - p.first), abs(word[0] - p.last)))
        keys = [word.key for word in line.words[index:]]
        for grammar in self._extractor.grammars:
            entry = entries_of(grammar, name, keys)
            if entry is not None:
                return Source(file=f"extractors/{grammar.meta.language}.toml", key=f"words.{name}", phrase=entry)
        return None
