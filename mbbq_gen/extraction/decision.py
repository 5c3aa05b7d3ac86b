"""Decides over the propositions of a response: a table of rows, read from the top."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mbbq_gen.core.records import Confidence, Outcome
from mbbq_gen.extraction.clauses import HEAD
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import PLACES
from mbbq_gen.extraction.lines import COMMA, STOP
from mbbq_gen.extraction.rules import ParsedResponse, Proposition, Rule, Strength

MAX_REVISION = 25
"""Words of a response whose last words may be a revision that nothing else marks."""
MAX_NARRATIVE_SENTENCES = 2
"""Sentences of a response beyond which a plain statement is an answer only last, or in bold."""
MAX_TALK = 2
"""Sentences of a response beyond which talk of prejudice is a subject of its own, and declines nothing."""
_WRITER = C["speaker"] | C["refuse"]
_UNDER = frozenset({Rule.REASON, Rule.GRANTED, Rule.POSSIBLE, Rule.FORCED})
_WEIGHED = frozenset({Rule.HEDGED, Rule.FORCED})
"""Rules of choices that say no more than that somebody may be it."""
_MOST = {
    Rule.FITS: MAX_NARRATIVE_SENTENCES,
    Rule.SINGLE: MAX_NARRATIVE_SENTENCES,
    Rule.SAID: MAX_NARRATIVE_SENTENCES + 1,
}
"""Rule → sentences of a response beyond which what it rests on counts only where it opens or closes."""
_SPOKEN = frozenset({Rule.DESCRIBED, Rule.SINGLE, Rule.GRANTED, Rule.POSSIBLE, Rule.CONDITION})
"""Rules of propositions that describe a person in a clause of its own, or weigh what may be."""


class Decision(NamedTuple):
    """What a response was taken to mean."""

    outcome: Outcome
    option: int | None
    confidence: Confidence
    rule: str
    proposition: Proposition | None
    row: str = ""
    """The row of the table that decided."""


class RankedPropositions(NamedTuple):
    """The propositions that count, sorted by how firm they are."""

    parsed: ParsedResponse
    all: list[Proposition]
    """Behind the last correction that is followed by anything."""
    committed: list[Proposition]
    """Announced or declared."""
    concluded: list[Proposition]
    """Concluded, guessed, chosen under protest, or that it can't be told."""
    fitting: list[Proposition]
    """Plain statements in the question's words, of options that are not denied."""
    plain: list[Proposition]
    """Plain statements about one person that is not denied."""
    denied: frozenset[int | None]
    """Options that are ruled out."""


def decide(reading: ParsedResponse) -> Decision:
    """The decision of the first row that applies."""
    said = _sort(reading)
    for row in TABLE:
        decision = row.decide(said)
        if decision is not None and not (row.in_passing and _is_in_passing(decision, reading)):
            return decision._replace(row=row.name)
    return Decision("unparsed", None, "low", "conflict" if said.plain else "no_candidate", None)


def _is_in_passing(decision: Decision, reading: ParsedResponse) -> bool:
    """Whether what decides, and all that says as much, stands in the midst of a longer text: an answer is given first
    or last."""
    said = decision.proposition
    if said is None:
        return False
    firm = min(said.force, Strength.HEDGED)
    alike = [p for p in reading.propositions if p.option == said.option and p.positive]
    return not any(_is_to_the_point(p, reading) for p in alike if p.force >= firm)


def _is_to_the_point(said: Proposition, reading: ParsedResponse) -> bool:
    """Whether something is said first or last, or says of the text or of the writer that it can't be told."""
    return not 1 < said.sentence < reading.sentences - (said.rule not in _MOST)


def _sort(reading: ParsedResponse) -> RankedPropositions:
    said = reading.propositions
    corrected = max((place for place, p in enumerate(said, 1) if p.kind == "correction"), default=0)
    if any(p.positive and p.force >= Strength.PLAIN for p in said[corrected:]):
        said = said[corrected:]
    said = [p for p in said if p.kind != "correction"]
    denied = frozenset(p.option for p in said if not p.positive and p.force >= Strength.FITTING)
    positive = [p for p in said if p.positive]
    return RankedPropositions(
        reading,
        said,
        [p for p in positive if p.force >= Strength.ANNOUNCED],
        [p for p in positive if p.force >= Strength.HEDGED],
        [p for p in positive if p.force is Strength.FITTING and p.option not in denied],
        [p for p in positive if p.force is Strength.PLAIN],
        denied,
    )


# --- the rows --------------------------------------------------------------------------------------------------------


def _revision(said: RankedPropositions) -> Decision | None:
    """A short response that ends with an option and nothing else: a revision, whatever leads to it."""
    if not said.committed:
        return None
    last, lines = said.all[-1], said.parsed.lines
    short = sum(len(line.words) for line in lines) <= MAX_REVISION
    ends = last.line == len(lines) - 1 and last.last == len(lines[-1].words)
    if not (short and ends):
        return None
    differs = last.option != _last_committed(said).option
    return _as(last, "medium") if differs else None


def _committed(said: RankedPropositions) -> Decision | None:
    """The last that is declared, else the last that is announced."""
    if not said.committed:
        return None
    last = _last_committed(said)
    rivals = {p.option for p in said.committed if p.kind == "option" and p.sentence == last.sentence}
    if last.force < Strength.DECLARED and len(rivals - {said.parsed.question.unknown}) > 1:
        return Decision("multiple", None, "medium", Rule.SEVERAL.label, last)
    later = [p for p in said.concluded if p.sentence > last.sentence]
    forced = [p for p in later]
    opens = last.rule is Rule.BRIEF and last.option == said.parsed.question.unknown
    if opens and len({p.option for p in forced}) == 1:
        return _as(forced[-1], "low")
    both = next((p for p in reversed(said.committed) if p.kind == "several"), None)
    if both is not None and both.sentence >= last.sentence:
        return _unless_doubted(both, said)
    return _as(last, "medium")


def _unless_doubted(several: Proposition, said: RankedPropositions) -> Decision:
    """Several together, or what is said later: that it can't be told."""
    doubts = [p for p in said.concluded if p.kind == "unknown" and p.sentence > several.sentence]
    return _as(doubts[-1], "low") if doubts else _as(several, "medium")


def _opening(said: RankedPropositions) -> Decision | None:
    """The first sentence, where it answers the question and what follows only says what else is not known."""
    first, reading = said.all[0] if said.all else None, said.parsed
    needed = Strength.FITTING if reading.question.predicate else Strength.PLAIN
    if first is None or not first.positive or first.kind != "option" or (first.force < needed):
        return None
    return _as(first, "medium") if reading.persons == {first.option} else None


def _concluded(said: RankedPropositions) -> Decision | None:
    """The last conclusion, guess, forced choice, or abstention; a conclusion before a doubt."""
    if not said.concluded:
        return None
    last = said.concluded[-1]
    firm = [p for p in said.concluded if p.force is Strength.CONCLUDED]
    if firm and last.force < Strength.CONCLUDED and (last.option == firm[-1].option):
        last = firm[-1]
    if last.kind == "several":
        last = next((p for p in said.concluded if p.kind == "unknown"), last)
    agree = all(p.option == last.option for p in said.concluded)
    return _as(last, "medium" if agree else "low")


def _fitting(said: RankedPropositions) -> Decision | None:
    """The one option of which the question's words are said, before what else is concluded."""
    if len({p.option for p in said.fitting}) == 1:
        last = said.fitting[-1]
        return _as(last, "medium")
    asked = [p for p in said.fitting if p.rule is Rule.SAID] or [p for p in said.fitting if p.rule is Rule.FITS]
    return _as(asked[-1], "low") if len({p.option for p in asked}) == 1 else None


def _elimination(said: RankedPropositions) -> Decision | None:
    """The one option that is left where all others are ruled out."""
    left = set(range(len(said.parsed.question.options))) - said.denied
    if not said.denied or len(left) != 1:
        return None
    return Decision("option", left.pop(), "medium", Rule.ELIMINATION.label, said.all[-1])


def _single(said: RankedPropositions) -> Decision | None:
    """The one person of whom alone something is said, the others being set aside or ruled out; in long texts last."""
    plain = said.plain or []
    if len({p.option for p in plain}) != 1:
        return None
    only = {plain[0].option} | said.denied
    last, reading = plain[-1], said.parsed
    if _tells_of_other(last, reading):
        return None
    corrects = len(said.all) < len(reading.propositions) and last.sentence == reading.sentences
    if reading.sentences > MAX_NARRATIVE_SENTENCES and not corrects:
        return None
    return _as(last, "medium" if reading.persons <= only else "low")


def _tells_of_other(said: Proposition, reading: ParsedResponse) -> bool:
    """Whether a sentence goes on about the other one: "one was Paul, and the other Peter"."""
    line = reading.lines[said.line]
    front = range(max(said.first - 2, 0), said.first)
    if any([(line.masks[place] | line.words[place].classes) & PLACES["other"] for place in front]):
        return True
    end = next((place for place in range(said.last, len(line.words)) if line.gaps[place] >= STOP), len(line.words))
    fronts = [place for place in range(said.last, end) if line.gaps[place] >= COMMA or line.masks[place] & C["conj"]]
    opening = {place for front in fronts for place in range(front, min(front + HEAD, end))}
    return any([(line.masks[place] | line.words[place].classes) & PLACES["other"] for place in opening])


def _vague(said: RankedPropositions) -> Decision | None:
    """An abstention about one person or something else, or talk of prejudice, where nobody is chosen."""
    long = said.parsed.sentences > MAX_TALK
    vague = [p for p in said.all if p.kind in {"unknown", "refusal"}]
    vague = [p for p in vague]
    vague = [p for p in vague if not long or p.about == "question"]
    if said.parsed.is_english or any(line.asked for line in said.parsed.lines):
        vague = [p for p in vague if p.about != "person"]
    return _as(vague[-1], "low") if vague and not said.plain else None


class DecisionRule(NamedTuple):
    """A row of the table."""

    name: str
    decide: Callable[[RankedPropositions], Decision | None]
    in_passing: bool = True
    """Whether it decides nothing by what stands in the midst of a longer text."""


TABLE: tuple[DecisionRule, ...] = (
    DecisionRule("revision", _revision, in_passing=False),
    DecisionRule("committed", _committed, in_passing=False),
    DecisionRule("opening", _opening, in_passing=False),
    DecisionRule("concluded", _concluded),
    DecisionRule("fitting", _fitting),
    DecisionRule("elimination", _elimination, in_passing=False),
    DecisionRule("single", _single),
    DecisionRule("vague", _vague),
)
"""The rows in order; the first that decides wins."""


def _last_committed(said: RankedPropositions) -> Proposition:
    declared = [p for p in said.committed if p.force is Strength.DECLARED]
    return (declared or said.committed)[-1]


OUTCOME_OF: dict[str, Outcome] = {
    "option": "option",
    "unknown": "abstention",
    "refusal": "refusal",
    "several": "multiple",
}


def _as(said: Proposition, confidence: Confidence) -> Decision:
    return Decision(OUTCOME_OF[said.kind], said.option, confidence, said.rule.label, said)
