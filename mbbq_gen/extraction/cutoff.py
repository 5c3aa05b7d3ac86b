"""Tells answers that were cut off before they came from answers."""

from __future__ import annotations

from mbbq_gen.extraction.analysis import Analysis
from mbbq_gen.extraction.reading import SINGLE, breaks_off, is_cut, lacks_noun
from mbbq_gen.extraction.resolve import Decision
from mbbq_gen.records import DETECTED

MIN_SENTENCES = 3
"""Sentences that a text has at least if its open end means that it was cut off."""


def check_truncated(analysis: Analysis, small: frozenset[str], finish_reason: str | None) -> None:
    """Turns an answer that was cut off before it came into `truncated`; `small` are the language's small words."""
    decision = analysis.decision
    if decision.outcome == "no_answer" and decision.rule in {"no_candidate", "conflict"}:
        if finish_reason == "length" or analysis.zoned.open_reasoning or _breaks_off(analysis, small):
            analysis.decision = Decision("truncated", None, "medium", "truncated")
    elif (
        _is_opened_list(analysis)
        or _breaks_off_at(analysis, decision, finish_reason)
        or _is_unfinished(analysis, decision, small, finish_reason)
    ):
        analysis.decision = Decision("truncated", None, "low", "truncated", None, [decision.rule])


def _is_unfinished(analysis: Analysis, decision: Decision, small: frozenset[str], finish_reason: str | None) -> bool:
    """Whether nothing firmer than a plain sentence decided, and the text ends before it is done."""
    if decision.winner is None or decision.winner.tier > SINGLE or decision.outcome not in DETECTED:
        return False
    return finish_reason == "length" or _breaks_off(analysis, small) or _ends_open(analysis) or _ends_on_other(analysis)


def _ends_on_other(analysis: Analysis) -> bool:
    """Whether a text ends without a stop on the person with whom a subordinate clause begins: "The gardener cut the
    hedge while the neighbour"."""
    reading, winner = analysis.reading, analysis.decision.winner
    if reading is None or winner is None or reading.tail.strip(" \n*_") or not reading.statements:
        return False
    last = reading.statements[-1]
    begins = last.why is not None and last.place - last.why.end <= 1
    return begins and last.standing in {"granted", "reason"} and last.place == len(reading.items) - 1


def _breaks_off_at(analysis: Analysis, decision: Decision, finish_reason: str | None) -> bool:
    """Whether the text breaks off right behind the mention that decided, which nothing announced, or at the length
    limit behind the words that single it out: "it is the baker who"."""
    reading, winner = analysis.reading, decision.winner
    if reading is None or winner is None or winner.kind != "mention":
        return False
    if finish_reason == "length" and not reading.tail.strip():
        ends = [hit for hit in reading.hits_of("cues.identified") if hit.end >= len(reading.items) - 1]
        if any(place == winner.place for hit in ends for _, place in hit.slots):
            return True
    if lacks_noun(reading) and winner.place == len(reading.items) - 1:
        return True
    if not breaks_off(reading):
        return False
    rest = reading.items[winner.place + 1 :]
    unannounced = winner.rule in {"conclusion", "identified", "hedged", "leading_answer", "single_mention"}
    return unannounced and all(item.key in reading.words.dangling for item in rest)


def _breaks_off(analysis: Analysis, small: frozenset[str]) -> bool:
    """Whether the text ends in the middle of a sentence: on a small word or an announcement without its answer."""
    reading = analysis.reading
    if reading is None or not reading.items:
        return False
    ending = reading.tail.strip(" \n*_`\"'”’»")
    if ending and ending != ":":
        return False
    last = reading.items[-1]
    return reading.hanging_cue or (not last.is_mention and last.key in small and len(reading.items) > 3)


def _is_opened_list(analysis: Analysis) -> bool:
    """Whether the text breaks off in the first line of a discussion that talk about how to answer leads up to: "Let's
    look at the options: A. The tailor – he"."""
    reading, winner = analysis.reading, analysis.decision.winner
    if reading is None or winner is None or winner.rule not in {"line_label", "whole_answer", "single_mention"}:
        return False
    last = reading.sentence[winner.place]
    goes_on = len(reading.items) - winner.place > 2 and reading.sentence[-1] == last and not reading.tail.strip()
    return goes_on and any(reading.sentence[hit.start] == last - 1 for hit in reading.hits_of("markers.preamble"))


def _ends_open(analysis: Analysis) -> bool:
    """Whether a text ends in an unfinished sentence: on the line of the one before it, behind talk about how to
    answer, or behind several sentences the last of which decided."""
    reading, winner = analysis.reading, analysis.decision.winner
    if reading is None or winner is None or reading.tail.strip(" ([{-*_`"):
        return False
    if is_cut(reading) or any(
        reading.sentence[hit.start] == reading.sentence[-1] for hit in reading.hits_of("markers.preamble")
    ):
        return True
    last = reading.sentence[-1]
    return (
        last >= MIN_SENTENCES
        and reading.sentence[winner.place] < last
        and len(reading.items) - reading.starts[last] > 2
    )
