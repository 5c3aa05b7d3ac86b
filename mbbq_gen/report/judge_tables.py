"""What a judge says of the readings of a run, and what it would cost to ask it, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.report.audit_tables import percent
from mbbq_gen.report.money_tables import dollars, print_price
from mbbq_gen.report.statistics_tables import estimate, plain_table
from mbbq_gen.report.tables import DASH, OUTCOME_TITLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from mbbq_gen.records import Outcome
    from mbbq_gen.runs.judging.agreement import Basis, Difference, JudgeReport
    from mbbq_gen.runs.judging.forecast import JudgeForecast
    from mbbq_gen.statistics.panel import EstimateScore

_LISTED = 20
_BASES: dict[Basis, str] = {
    "all": "of all answers of the run that have a text",
    "sample": "of answers drawn by chance within each language: it stands for the run",
    "only": "of answers that were picked by how the rules read them: it does NOT stand for the run",
    "nothing": "of nothing: no reply has been had",
}


def print_judge_forecast(found: JudgeForecast, console: Console) -> None:
    """What asking a judge would take and cost, by language."""
    tokens = found.tokens
    console.print(f"{found.model}" + (f" at {found.base_url}" if found.base_url else "") + f", judge {found.judge!r}")
    console.print(f"prompt      version {found.prompt_version} (sha256 {found.prompt_sha256[:12]})")
    done = f", {found.answered:,} more are judged already" if found.answered else ""
    console.print(f"{tokens.presentations:,} answers to read, {tokens.requests:,} different requests{done}")
    print_price(tokens, found.cost, found.duration, console)
    console.print()
    table = plain_table(
        ("language", "requests", "tokens in", "tokens out"), right=("requests", "tokens in", "tokens out")
    )
    for group in tokens.groups:
        numbers = (group.requests, group.input_tokens, group.output_tokens)
        table.add_row(group.language, *(f"{number:,}" for number in numbers))
    console.print(table)
    console.print()
    for note in found.notes:
        console.print(note)


def print_judge_report(report: JudgeReport, console: Console) -> None:
    """Agreement, what is read how by each, accuracy where a person has judged, and the differences with their ids."""
    console.print(
        f"judge {report.judge!r}: {report.model}, prompt version {report.prompt_version}"
        f" (sha256 {report.prompt_sha256[:12]})"
    )
    failed = f", {report.failed:,} failed" if report.failed else ""
    cost = "" if report.cost is None else f", {dollars(report.cost)}"
    console.print(f"{report.answered:,} of {report.requests:,} requests answered{failed}{cost}")
    unread = sum(report.faults.values())
    if unread:
        why = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in report.faults.items())
        console.print(f"{unread:,} of {report.answers:,} answers unread by the judge ({why})")
    console.print(f"\nagreement with the rules, {_BASES[report.basis]}\n")
    _print_agreement(report, console)
    if report.audited:
        _print_audited(report, console)
    else:
        console.print(
            f"\nnobody has measured this judge yet: mbbq-gen audit {report.run} gives labels to measure it by",
            soft_wrap=True,
        )
    if report.differences:
        console.print(
            f"\nread differently: {len(report.differences):,}; see one with: mbbq-gen explain {report.run} ID\n",
            soft_wrap=True,
        )
        _print_differences(report.differences, console)
    console.print(
        f"\nThe rules' readings are as they were. The judge's are {report.extractor!r}:"
        f" mbbq-gen score {report.run} --extractor {report.extractor}",
        soft_wrap=True,
    )


def _print_agreement(report: JudgeReport, console: Console) -> None:
    table = plain_table(
        ("language", "answers", "unread", "same choice", "kappa", "templates"), right=("answers", "unread", "templates")
    )
    for row in report.agreement:
        shares = (_share(row.equal_share), estimate(row.kappa), f"{row.kappa.n_templates:,}")
        table.add_row(row.group, f"{row.n:,}", f"{row.unread:,}", *shares)
    console.print(table)
    if not report.crossings:
        return
    console.print()
    rules = sorted({crossing.rules for crossing in report.crossings})
    judge = sorted({crossing.judge for crossing in report.crossings})
    counts = {(crossing.rules, crossing.judge): crossing.n for crossing in report.crossings}
    titles = ("rules ↓, judge →", *judge)
    crossed = plain_table(titles, right=titles[1:])
    for ours in rules:
        crossed.add_row(ours, *(f"{counts.get((ours, theirs), 0):,}" for theirs in judge))
    console.print(crossed)


def _share(score: EstimateScore) -> str:
    if score.value is None:
        return DASH
    ends = "" if score.low is None or score.high is None else f" [{score.low:.1%}, {score.high:.1%}]"
    return f"{score.value:.1%}{ends}"


def _print_audited(report: JudgeReport, console: Console) -> None:
    console.print("\nright by a person's verdicts (mbbq-gen audit), on the answers that both were given\n")
    table = plain_table(("language", "verdicts", "judge right", "rules right"), right=("verdicts",))
    for row in report.audited:
        table.add_row(row.group, f"{row.judge.n:,}", percent(row.judge), percent(row.rules))
    console.print(table)


def _print_differences(found: Sequence[Difference], console: Console) -> None:
    table = plain_table(("id", "language", "rules", "confidence", "rule", "judge"))
    for one in found[:_LISTED]:
        table.add_row(
            one.presentation_id,
            one.language,
            _read(one.outcome, one.option),
            one.confidence,
            one.rule,
            _read(one.judge_outcome, one.judge_option),
        )
    console.print(table)
    if len(found) > _LISTED:
        console.print(f"and {len(found) - _LISTED:,} more; --json has them all")


def _read(outcome: Outcome, option: int | None) -> str:
    return OUTCOME_TITLES[outcome] + ("" if option is None else f" {option + 1}")
