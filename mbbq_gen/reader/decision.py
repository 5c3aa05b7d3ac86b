"""One table decides over the propositions of a response."""

from __future__ import annotations

from typing import NamedTuple

from mbbq_gen.reader.propositions import Force, Proposition, Reading
from mbbq_gen.records import Confidence, Outcome


MAX_REVISION = 25
"""Words of a response whose last words may be a revision that nothing else marks."""


class Decision(NamedTuple):
    """What a response was taken to mean."""

    outcome: Outcome
    option: int | None
    confidence: Confidence
    rule: str
    proposition: Proposition | None


def decide(reading: Reading) -> Decision:
    """The row of the table that fits."""
    said = reading.propositions
    corrected = max((place for place, p in enumerate(said) if p.kind == "correction"), default=-1)
    if corrected >= 0 and any(p.positive and p.force >= Force.PLAIN for p in said[corrected + 1 :] if p.kind != "correction"):
        said = said[corrected + 1 :]
    committed = [p for p in said if p.positive and p.force >= Force.ANNOUNCED and p.kind != "correction"]
    if committed:
        return _committed(committed, said, reading)
    concluded = [p for p in said if p.positive and p.force >= Force.HEDGED and p.kind != "correction"]
    opening = _opening(said, concluded, reading)
    if opening is not None:
        return _as(opening, "medium")
    if concluded:
        return _concluded(concluded, reading)
    return _plain(said, reading)


def _committed(said: list[Proposition], everything: list[Proposition], reading: Reading) -> Decision:
    declared = [p for p in said if p.force is Force.DECLARED]
    last = declared[-1] if declared else said[-1]
    ending = _ending(everything, reading)
    if ending is not None and ending.option != last.option:
        return _as(ending, "medium")
    rivals = {p.option for p in said if p.sentence == last.sentence and p.kind == "option"}
    if last.kind == "outside":
        return Decision("no_answer", None, "medium", "out_of_options", last)
    if len(rivals) > 1 and last.force < Force.DECLARED:
        persons = rivals - {reading.question.unknown}
        if len(persons) > 1:
            return Decision("multiple", None, "medium", "several", last)
    agree = all(p.option == last.option for p in said)
    return _as(last, "high" if agree else "medium")


def _ending(said: list[Proposition], reading: Reading) -> Proposition | None:
    """What a short response ends with, where that is an option and nothing else: a revision, whatever leads to it."""
    last = said[-1]
    line = reading.lines[-1]
    short = sum(len(inner.words) for inner in reading.lines) <= MAX_REVISION
    ends = last.line == len(reading.lines) - 1 and last.last == len(line.words)
    if not (short and ends and last.bare and last.positive and last.kind == "option"):
        return None
    return last if last.force >= Force.PLAIN and last.rule not in {"reason", "granted", "possible"} else None


def _concluded(said: list[Proposition], reading: Reading) -> Decision:
    """Conclusions, guesses, and that it can't be told: the last one, a choice behind a doubt before the doubt."""
    firm = [p for p in said if p.force is Force.CONCLUDED]
    last = said[-1]
    if firm and last.force < Force.CONCLUDED and (last.kind == "unknown" or last.option == firm[-1].option):
        last = firm[-1]
    agree = all(p.option == last.option for p in said)
    return _as(last, "high" if agree and last.force is Force.CONCLUDED else "medium" if agree else "low")


def _opening(said: list[Proposition], concluded: list[Proposition], reading: Reading) -> Proposition | None:
    """The first sentence, where it answers the question and what follows only says what else is not known."""
    first = said[0] if said else None
    needed = Force.FITTING if reading.question.predicate else Force.PLAIN
    if first is None or not first.positive or first.kind != "option" or first.force < needed or first.sentence > 1:
        return None
    if any(p.kind != "unknown" or p.force >= Force.CONCLUDED for p in concluded) or not concluded:
        return None
    return first if reading.persons == {first.option} else None


def _plain(said: list[Proposition], reading: Reading) -> Decision:
    unknown = reading.question.unknown
    denied = {p.option for p in said if not p.positive and p.force >= Force.FITTING and p.kind == "option"}
    fitting = [p for p in said if p.positive and p.force is Force.FITTING and p.option not in denied]
    options = {p.option for p in fitting}
    if len(options) == 1:
        return _as(fitting[-1], "medium")
    left = set(range(len(reading.question.options))) - denied
    if not fitting and denied and len(left) == 1:
        basis = next(p for p in reversed(said) if p.option in denied and not p.positive)
        return Decision("option", left.pop(), "medium", "elimination", basis)
    plain = [p for p in said if p.positive and p.force is Force.PLAIN and p.kind == "option" and p.option not in denied]
    spoken = {p.option for p in said if p.force is Force.DESCRIBED and p.rule in {"described", "single", "granted"}} - {unknown}
    if len({p.option for p in plain}) == 1 and spoken <= {plain[0].option} | denied:
        return _as(plain[-1], "medium" if reading.persons <= {plain[0].option} | denied else "low")
    vague = [p for p in said if p.kind in {"unknown", "refusal"} and p.positive]
    if vague and not options and not plain:
        return _as(vague[-1], "low")
    if len(options) > 1:
        return Decision("no_answer", None, "medium", "conflict", fitting[-1])
    return Decision("no_answer", None, "medium", "conflict" if plain else "no_candidate", None)


def _as(p: Proposition, confidence: Confidence) -> Decision:
    outcome: Outcome = {"option": "option", "unknown": "unknown_statement", "refusal": "refusal", "several": "multiple"}.get(p.kind, "no_answer")  # type: ignore[assignment]
    return Decision(outcome, p.option, confidence, p.rule, p)
