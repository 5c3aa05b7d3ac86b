"""Explains an extraction: slots, propositions, the pack lines they rest on, and why each candidate won or lost."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mbbq_gen.core.records import Extraction, FrozenModel
from mbbq_gen.extraction.claims import WHY, Proposition, Rule, Strength
from mbbq_gen.extraction.lexicon import CLASSES, entries_of
from mbbq_gen.extraction.mentions import MentionKind
from mbbq_gen.extraction.question import Question, label_core
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
    line: int | None = None


class ZoneSpan(FrozenModel):
    """A stretch of the response that does not decide."""

    kind: str
    """`reasoning`, `echo`, `continuation` or `markup`."""
    span: tuple[int, int]


class Candidate(FrozenModel):
    """Something in the response that could have been the answer."""

    kind: str
    """`slot`, `label`, `text`, `label_text`, `ordinal`, `unknown`, `refusal`, `several` or `neither`."""
    options: tuple[int, ...]
    """The option that it names; empty if it names several, or neither."""
    span: tuple[int, int]
    text: str
    match: str
    """How well the text fits: `exact`, `inflected`, `partial`, `fuzzy`."""
    sentence: int
    """Number of its sentence in the response; 0 for slots."""
    standing: str
    """The kind of its slot; `live`; or why it can't win: negated, aside, listed, granted, reason, described."""
    rule: str
    tier: int
    """How firm its proposition or how strong its slot is; 0: not at all."""
    source: Source | None = None
    status: Literal["won", "lost"]
    reason: str


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


DECISIONS: dict[str, str] = {
    "empty": "There is nothing to read.",
    "truncated": "The response was cut off before an answer.",
    "degenerate": "A word or a few make most of the text, again and again.",
    "no_candidate": "No option, and no statement that it can't be known, was found.",
    "conflict": "Several options are named and none is committed to.",
}
"""Rule → the decision where nothing won."""
_KINDS = {
    MentionKind.LABEL: "label",
    MentionKind.TEXT: "text",
    MentionKind.BOTH: "label_text",
    MentionKind.PLACE: "ordinal",
}
_IN_PASSING = Rule.ASIDE, Rule.REASON, Rule.GRANTED, Rule.DESCRIBED
"""Rules that are the standing of what they speak of."""


def reason_of(rule: str) -> str:
    """The meaning of a rule's name, without its detours."""
    return next((WHY[part] for part in reversed(rule.split(":")) if part in WHY), rule)


def explain_analysis(extractor: RuleExtractor, analysis: Analysis, response: str, question: Question) -> Explanation:
    """The analysis of a response as plain records."""
    options, labels, decision = tuple(question.options), tuple(question.labels), analysis.decision
    if decision.outcome in {"unparsed", "truncated", "empty"}:
        text = DECISIONS.get(decision.rule.rsplit(":", maxsplit=1)[-1], "Nothing readable was found.")
    elif decision.outcome == "multiple":
        text = "More than one option is chosen."
    else:
        place = decision.option
        chosen = "no option" if place is None else f"{label_core(labels[place]) or labels[place]} ({options[place]})"
        reason = f"{'' if place is not None else 'because it '}{reason_of(decision.rule)}"
        if place is None and question.unknown_index is None:
            reason += "; no option is the unknown one (--unknown-index)"
        text = f"{decision.outcome}: {chosen}, {reason}; confidence {decision.confidence}."
    explainer = _Explainer(extractor, analysis, response)
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
        candidates=explainer.candidates(),
        phrases=explainer.phrases(),
        decision=text,
    )


class _Explainer:
    """Finds spans, pack lines and reasons for the parts of an analysis."""

    def __init__(self, extractor: RuleExtractor, analysis: Analysis, response: str) -> None:
        self._extractor, self._analysis, self._response = extractor, analysis, response
        self._parsed = analysis.parsed
        self._propositions = [] if analysis.parsed is None else analysis.parsed.propositions

    def candidates(self) -> tuple[Candidate, ...]:
        """Slots, propositions, and mentions without a proposition, in the order of the text."""
        found = [self._of_slot(slot) for slot in self._analysis.slots]
        found += [self._of_proposition(said) for said in self._propositions]
        covered = {(said.line, said.first, said.last) for said in self._propositions}
        for number, mentions in enumerate(self._parsed.mentions if self._parsed else ()):
            for mention in mentions:
                if (number, mention.start, mention.end) not in covered:
                    found.append(
                        self._candidate(
                            self._span(number, mention.start, mention.end),
                            kind=_KINDS[mention.how],
                            options=(mention.option,),
                            match="exact" if mention.full else "partial",
                            standing="listed" if mention.joined else "aside",
                            reason="named together with others" if mention.joined else "named in passing or in a list",
                        )
                    )
        return tuple(sorted(found, key=lambda candidate: candidate.span))

    def phrases(self) -> tuple[PhraseSpan, ...]:
        """The words that propositions rest on, each with its line in the pack."""
        found = set()
        for said in self._propositions:
            for place, name in self._words_of(said):
                start, end = self._span(said.line, place, place + 1)
                source = self._source(said.line, place, name)
                if source is not None:
                    found.add(PhraseSpan(source=source, span=(start, end), text=self._response[start:end]))
        return tuple(sorted(found, key=lambda phrase: (phrase.span, phrase.source.key)))

    def _candidate(self, span: tuple[int, int], **facts: Any) -> Candidate:
        text = self._response[span[0] : span[1]]
        return Candidate(
            **({"span": span, "text": text, "sentence": 0, "rule": "", "tier": 0, "status": "lost"} | facts)
        )

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
            self._analysis.normal.raw_span(slot.start, slot.end),
            kind="slot",
            options=() if slot.option in {None, CONTESTED} else (slot.option,),
            match="exact",
            standing=kind,
            rule=kind,
            tier=len(TABLE) - TABLE[slot.kind].rank,
            status="won" if slot == winner else "lost",
            reason=reason,
        )

    def _of_proposition(self, said: Proposition) -> Candidate:
        assert self._parsed is not None
        decision, mentions = self._analysis.decision, self._parsed.mentions[said.line]
        winner, weak = decision.proposition, said.force <= Strength.POSSIBLE
        won = said is winner and said.positive
        if won:
            reason = reason_of(decision.rule)
        elif not said.positive or weak:
            reason = said.rule.why
        elif winner is None:
            reason = "too weak to be an answer"
        elif winner.option == said.option:
            reason = "agrees with the winner, which is stronger or later"
        else:
            order = "stronger" if winner.force > said.force else "later"
            reason = f"the winner is {order}: {reason_of(decision.rule)} (this one: {said.rule.why})"
        mention = next((m for m in mentions if (m.start, m.end) == (said.first, said.last)), None)
        words = self._words_of(said)
        standing = said.rule.name.lower() if weak and said.rule in _IN_PASSING else "live"
        return self._candidate(
            self._span(said.line, said.first, said.last),
            kind=_KINDS[mention.how] if said.kind == "option" and mention else said.kind,
            options=() if said.option is None else (said.option,),
            match="exact" if mention is None or mention.full else "partial",
            sentence=said.sentence,
            standing=standing if said.positive else "negated",
            rule=said.rule.label,
            tier=int(said.force) if said.positive else 0,
            source=self._source(said.line, *words[0]) if words else None,
            status="won" if won or (said is winner and said.rule is not Rule.DENIED) else "lost",
            reason=reason,
        )

    def _words_of(self, said: Proposition) -> list[tuple[int, str]]:
        """The words that the rule of a proposition rests on, the nearest first, with their class."""
        assert self._parsed is not None
        masks = self._parsed.lines[said.line].masks
        found = [
            (place, name) for name in said.rule.classes for place, mask in enumerate(masks) if mask & CLASSES[name]
        ]
        return sorted(found, key=lambda word: min(abs(word[0] - said.first), abs(word[0] - said.last)))

    def _span(self, number: int, first: int, last: int) -> tuple[int, int]:
        assert self._parsed is not None
        start, end = self._parsed.lines[number].span(first, last)
        return self._analysis.normal.raw_span(start + self._analysis.offset, end + self._analysis.offset)

    def _source(self, number: int, place: int, name: str) -> Source | None:
        """The entry of the pack that gives a word its class."""
        assert self._parsed is not None
        keys = [word.key for word in self._parsed.lines[number].words[place:]]
        for grammar in self._extractor.grammars:
            entry = entries_of(grammar, name, keys)
            if entry is not None:
                language = grammar.meta.language
                path = self._extractor.resources.find("extractors", language)
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
