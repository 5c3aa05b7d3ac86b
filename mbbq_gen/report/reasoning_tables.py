"""Tables of reasoning traces beside answers, for a terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mbbq_gen.analysis.reasoning import STANCES
from mbbq_gen.report.analysis_tables import estimate
from mbbq_gen.report.comparison_tables import TextTable, print_tables, share_text, tables_page
from mbbq_gen.report.explanation import STANCE_TITLES
from mbbq_gen.report.score_tables import DASH

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.analysis.reasoning import ReasoningGroup, ReasoningReport

_TRANSITIONS: Final = {
    "consistent": "consistent",
    "switched_to_unknown": "to unknown",
    "switched_to_stereotype": "to the stereotype",
    "switched_to_other": "to the other person",
}


def reasoning_tables(found: ReasoningReport) -> Iterator[TextTable]:
    """Trace counts, transitions from reasoning to answer, stances, and the scores of both."""
    names = tuple(found.groups[0].group) if found.groups else ()
    yield TextTable(
        "Reasoning traces",
        (*names, "answers", "traces", "truncated", "tokens", "in", "with a conclusion"),
        tuple(
            (
                *_values(group),
                f"{group.n_answers:,}",
                f"{group.n_traces:,}",
                f"{group.n_cut:,}",
                DASH if group.mean_tokens is None else f"{group.mean_tokens:,.0f}",
                ", ".join(f"{code} {count:,}" for code, count in group.reasoning_language.items()) or DASH,
                share_text(group.concluded.share),
            )
            for group in found.groups
        ),
        frozenset({"answers", "traces", "truncated", "tokens"}),
    )
    yield TextTable(
        "Answers after the reasoning",
        (*names, "both parsed", *_TRANSITIONS.values()),
        tuple(
            (
                *_values(group),
                f"{group.transitions[0].of:,}",
                *(share_text(part.share) for part in group.transitions if part.name in _TRANSITIONS),
            )
            for group in found.groups
        ),
        frozenset({"both parsed"}),
    )
    yield TextTable(
        "Traces by stance",
        (*names, *(STANCE_TITLES[name] for name in STANCES)),
        tuple((*_values(group), *(share_text(part.share) for part in group.stances)) for group in found.groups),
        frozenset(),
    )
    yield TextTable(
        "Scores of reasoning and of answers",
        ("score", *names, "reasoning", "answers", "answers − reasoning"),
        tuple(
            (
                score.metric,
                *_values(group),
                *(estimate(part) for part in (score.reasoning, score.answers, score.difference)),
            )
            for number in range(max((len(group.scores) for group in found.groups), default=0))
            for group in found.groups
            for score in group.scores[number : number + 1]
        ),
        frozenset(),
    )


def _values(group: ReasoningGroup) -> tuple[str, ...]:
    return tuple(value if value is not None else DASH for value in group.group.values())


def reasoning_notes(found: ReasoningReport) -> list[str]:
    """The notes below the tables."""
    notes = [
        "traces: the reasoning that the service returned before the answer; some services hide or summarise it. both "
        "parsed: reasoning and answer each choose an option; shares are of these, the last two of questions with one "
        "target.",
        f"Intervals: {found.confidence_level:.0%}, bootstrap over templates ({found.n_resamples:,} resamples, seed "
        f"{found.seed}); unparsed: {found.unparsed}. Scores of both are of the same questions; differences are "
        "paired by template.",
    ]
    cut = sum(group.n_cut for group in found.groups)
    if cut:
        notes.append(
            f"{cut:,} traces reached the token limit, so their answers are truncated; raise --max-tokens, or ask for "
            "less --reasoning-effort, in a new run."
        )
    return notes


def print_reasoning(found: ReasoningReport, console: Console) -> None:
    """The tables on a terminal."""
    print_tables(f"{found.model}: {found.run}", reasoning_tables(found), reasoning_notes(found), console)


def reasoning_page(found: ReasoningReport) -> str:
    """The tables as a page that holds all it needs."""
    return tables_page(f"Reasoning: {found.model}", reasoning_tables(found), reasoning_notes(found), found.run)
