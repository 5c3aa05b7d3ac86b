"""Tables of annotations and judges for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.core.text import shortened, whole_percent
from mbbq_gen.report.analysis_tables import estimate, plain_table
from mbbq_gen.report.run_tables import dollars, print_price
from mbbq_gen.report.score_tables import DASH, OUTCOME_TITLES

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.annotation.judge_report import Basis, JudgeReport
    from mbbq_gen.annotation.review import AgreementRate, AnnotationReport, Mistake
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.runs.cost_estimate import JudgeEstimate
    from mbbq_gen.statistics.estimate import EstimateResult
    from mbbq_gen.statistics.intervals import Proportion


MISTAKE_TITLES: dict[Mistake, str] = {
    "wrong_option": "another option is correct",
    "spurious": "an option extracted where there is none",
    "missed": "an option that was not extracted",
    "unknown_kind": "wrong, correct option not stated",
}
_ANNOTATIONS_LISTED = 40


def print_annotations(report: AnnotationReport, console: Console) -> None:
    """Prints the whole report."""
    table = plain_table(
        ("language", "extractions", "annotated", "correct", "correct, of those annotated", "correct, in the run"),
        right=("extractions", "annotated", "correct"),
    )
    for share in (*report.by_language, report.overall):
        table.add_row(
            share.group,
            f"{share.n_extractions:,}",
            f"{share.judged.n:,}",
            f"{_right(share):,}",
            percent(share.judged),
            percent(share.weighted),
        )
    console.print(table)
    covered = (
        ""
        if report.coverage is None
        else f"; annotated strata hold {whole_percent(report.coverage)} of the run's extractions"
    )
    console.print(
        "\ncorrect: the extraction is what the response chooses. in the run: each annotation is weighted by the "
        f"extractions of its stratum ({', '.join(report.by) or 'one stratum'}) that it stands for{covered}. Intervals: "
        f"Wilson, {report.confidence_level:.0%}, on the effective number of annotations."
    )
    if report.stale_annotations:
        console.print(
            f"{report.stale_annotations:,} annotations were of extractions that have changed since: annotate them again"
        )
    if not report.disagreements:
        return
    counts = [f"{MISTAKE_TITLES[kind]}: {count}" for kind, count in report.mistakes.items() if count]
    console.print(f"\nextractions annotated as wrong ({'; '.join(counts)})\n")
    found = report.disagreements[:_ANNOTATIONS_LISTED]
    table = plain_table(("id", "language", "extracted", "rule", "correct", "note"))
    for one in found:
        right = (
            DASH if one.mistake == "unknown_kind" else "no option" if one.right is None else f"option {one.right + 1}"
        )
        read = OUTCOME_TITLES[one.outcome] + ("" if one.option is None else f" {one.option + 1}")
        table.add_row(one.prompt_id, one.language, read, one.rule, right, shortened(one.note, 60))
    console.print(table)
    if len(report.disagreements) > _ANNOTATIONS_LISTED:
        console.print(f"and {len(report.disagreements) - _ANNOTATIONS_LISTED:,} more; --json has them all")


def _right(share: AgreementRate) -> int:
    return round((share.judged.value or 0.0) * share.judged.n)


def percent(found: Proportion) -> str:
    """A share with its interval: `97.5% [94.1%, 99.0%]`."""
    if found.value is None or found.ci_low is None or found.ci_high is None:
        return DASH
    return f"{found.value:.1%} [{found.ci_low:.1%}, {found.ci_high:.1%}]"


_LISTED = 20
_BASES: dict[Basis, str] = {
    "all": "of all answers of the run that have a text",
    "sample": "of a random sample within each language: representative of the run",
    "only": "of answers selected by their extraction: NOT representative of the run",
    "nothing": "of no answers: there is no reply yet",
}


def print_judge_estimate(found: JudgeEstimate, console: Console) -> None:
    """Prints the estimate of a judge by language."""
    tokens = found.tokens
    console.print(f"{found.model}" + (f" at {found.base_url}" if found.base_url else "") + f", judge {found.judge!r}")
    console.print(f"prompt      version {found.prompt_version} (sha256 {found.prompt_sha256[:12]})")
    done = f", {found.answered:,} more have a reply already" if found.answered else ""
    console.print(f"{tokens.prompts:,} answers to judge, {tokens.requests:,} different requests{done}")
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
    """Prints agreement, confusion table, accuracy by annotations, and the disagreements with their ids."""
    console.print(
        f"judge {report.judge!r}: {report.model}, prompt version {report.prompt_version}"
        f" (sha256 {report.prompt_sha256[:12]})"
    )
    failed = f", {report.failed:,} failed" if report.failed else ""
    cost = "" if report.cost is None else f", {dollars(report.cost)}"
    console.print(f"{report.answered:,} of {report.requests:,} requests answered{failed}{cost}")
    unparsed = sum(report.faults.values())
    if unparsed:
        why = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in report.faults.items())
        console.print(f"{unparsed:,} of {report.answers:,} answers unparsed by the judge ({why})")
    console.print(f"\nagreement with the rules, {_BASES[report.basis]}\n")
    _print_agreement(report, console)
    if report.annotated:
        console.print("\naccuracy by annotations (mbbq-gen annotate), on the answers that both have\n")
        table = plain_table(("language", "annotated", "judge correct", "rules correct"), right=("annotated",))
        for row in report.annotated:
            table.add_row(row.group, f"{row.judge.n:,}", percent(row.judge), percent(row.rules))
        console.print(table)
    else:
        console.print(
            f"\nno annotations to evaluate this judge with yet: mbbq-gen annotate {report.run}",
            soft_wrap=True,
        )
    if report.differences:
        console.print(
            f"\ndisagreements: {len(report.differences):,}; see one with: mbbq-gen explain {report.run} ID\n",
            soft_wrap=True,
        )
        table = plain_table(("id", "language", "rules", "confidence", "rule", "judge"))
        for one in report.differences[:_LISTED]:
            table.add_row(
                one.prompt_id,
                one.language,
                _read(one.outcome, one.option),
                one.confidence,
                one.rule,
                _read(one.judge_outcome, one.judge_option),
            )
        console.print(table)
        if len(report.differences) > _LISTED:
            console.print(f"and {len(report.differences) - _LISTED:,} more; --json has them all")
    console.print(
        f"\nThe rules' extractions are unchanged. The judge's are {report.extractor!r}:"
        f" mbbq-gen score {report.run} --extractor {report.extractor}",
        soft_wrap=True,
    )


def _print_agreement(report: JudgeReport, console: Console) -> None:
    table = plain_table(
        ("language", "answers", "unparsed", "same choice", "kappa", "templates"),
        right=("answers", "unparsed", "templates"),
    )
    for row in report.agreement:
        shares = (_share(row.equal_share), estimate(row.kappa), f"{row.kappa.n_templates:,}")
        table.add_row(row.group, f"{row.n:,}", f"{row.unparsed:,}", *shares)
    console.print(table)
    if not report.confusion:
        return
    console.print()
    rules = sorted({crossing.rules for crossing in report.confusion})
    judge = sorted({crossing.judge for crossing in report.confusion})
    counts = {(crossing.rules, crossing.judge): crossing.n for crossing in report.confusion}
    titles = ("rules ↓, judge →", *judge)
    crossed = plain_table(titles, right=titles[1:])
    for ours in rules:
        crossed.add_row(ours, *(f"{counts.get((ours, theirs), 0):,}" for theirs in judge))
    console.print(crossed)


def _share(score: EstimateResult) -> str:
    if score.value is None:
        return DASH
    ends = "" if score.ci_low is None or score.ci_high is None else f" [{score.ci_low:.1%}, {score.ci_high:.1%}]"
    return f"{score.value:.1%}{ends}"


def _read(outcome: Outcome, option: int | None) -> str:
    return OUTCOME_TITLES[outcome] + ("" if option is None else f" {option + 1}")
