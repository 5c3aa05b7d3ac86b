"""Annotations and judges as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mbbq_gen.core.text import shortened, whole_percent
from mbbq_gen.report.run_tables import dollars, price_lines
from mbbq_gen.report.score_tables import OUTCOME_TITLES
from mbbq_gen.report.tables import DASH, Block, Table, Unwrapped, estimate_text, percent, text_table

if TYPE_CHECKING:
    from mbbq_gen.annotation.judge_report import Basis, JudgeReport
    from mbbq_gen.annotation.review import AnnotationReport, Mistake
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.runs.cost_estimate import JudgeEstimate

MISTAKE_TITLES: dict[Mistake, str] = {
    "wrong_option": "another option is correct",
    "spurious": "an option extracted where there is none",
    "missed": "an option that was not extracted",
    "unknown_kind": "wrong, correct option not stated",
}
_ANNOTATIONS_LISTED = 40


_LISTED = 20
_BASES: dict[Basis, str] = {
    "all": "of all answers of the run that have a text",
    "sample": "of a random sample within each language: representative of the run",
    "only": "of answers selected by their extraction: NOT representative of the run",
    "nothing": "of no answers: there is no reply yet",
}


def annotation_blocks(report: AnnotationReport) -> Iterator[Block]:
    """How many extractions are correct, by language, and those that are not."""
    rows: list[tuple[str, ...]] = [
        (
            *(share.group, f"{share.n_extractions:,}", f"{share.judged.n:,}"),
            f"{round((share.judged.value or 0.0) * share.judged.n):,}",
            *(percent(share.judged), percent(share.weighted)),
        )
        for share in (*report.by_language, report.overall)
    ]
    titles = ("language", "extractions", "annotated", "correct", "correct, of those annotated", "correct, in the run")
    yield text_table(titles, rows, right=titles[1:4])
    covered = (
        ""
        if report.coverage is None
        else f"; annotated strata hold {whole_percent(report.coverage)} of the run's extractions"
    )
    yield (
        "\ncorrect: the extraction is what the response chooses. in the run: each annotation is weighted by the "
        f"extractions of its stratum ({', '.join(report.by) or 'one stratum'}) that it stands for{covered}. Intervals: "
        f"Wilson, {report.confidence_level:.0%}, on the effective number of annotations."
    )
    if report.stale_annotations:
        yield (
            f"{report.stale_annotations:,} annotations were of extractions that have changed since: annotate them again"
        )
    if not report.disagreements:
        return
    counts = [f"{MISTAKE_TITLES[kind]}: {count}" for kind, count in report.mistakes.items() if count]
    rows = []
    for one in report.disagreements[:_ANNOTATIONS_LISTED]:
        known = "no option" if one.right is None else f"option {one.right + 1}"
        right = DASH if one.mistake == "unknown_kind" else known
        shown = (_read(one.outcome, one.option), one.rule, right, shortened(one.note, 60))
        rows.append((one.prompt_id, one.language, *shown))
    title = f"extractions annotated as wrong ({'; '.join(counts)})"
    yield text_table(("id", "language", "extracted", "rule", "correct", "note"), rows, title=title)
    if len(report.disagreements) > _ANNOTATIONS_LISTED:
        yield f"and {len(report.disagreements) - _ANNOTATIONS_LISTED:,} more; --json has them all"


def judge_estimate_blocks(found: JudgeEstimate) -> Iterator[Block]:
    """What a judge would take and cost, by language."""
    tokens = found.tokens
    yield f"{found.model}" + (f" at {found.base_url}" if found.base_url else "") + f", judge {found.judge!r}"
    yield f"prompt      version {found.prompt_version} (sha256 {found.prompt_sha256[:12]})"
    done = f", {found.answered:,} more have a reply already" if found.answered else ""
    yield f"{tokens.prompts:,} answers to judge, {tokens.requests:,} different requests{done}"
    yield from price_lines(tokens, found.cost, found.duration)
    yield ""
    rows = [
        (group.language, *(f"{number:,}" for number in (group.requests, group.input_tokens, group.output_tokens)))
        for group in tokens.groups
    ]
    titles = ("language", "requests", "tokens in", "tokens out")
    yield text_table(titles, rows, right=titles[1:])
    yield ""
    yield from found.notes


def judge_report_blocks(report: JudgeReport) -> Iterator[Block]:
    """Agreement, confusion table, accuracy by annotations, and the disagreements with their ids."""
    yield (
        f"judge {report.judge!r}: {report.model}, prompt version {report.prompt_version}"
        f" (sha256 {report.prompt_sha256[:12]})"
    )
    failed = f", {report.failed:,} failed" if report.failed else ""
    cost = "" if report.cost is None else f", {dollars(report.cost)}"
    yield f"{report.answered:,} of {report.requests:,} requests answered{failed}{cost}"
    unparsed = sum(report.faults.values())
    if unparsed:
        why = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in report.faults.items())
        yield f"{unparsed:,} of {report.answers:,} answers unparsed by the judge ({why})"
    yield from _judge_agreement(report)
    if report.annotated:
        rows: list[tuple[str, ...]] = [
            (row.group, f"{row.judge.n:,}", percent(row.judge), percent(row.rules)) for row in report.annotated
        ]
        title = "accuracy by annotations (mbbq-gen annotate), on the answers that both have"
        titles = ("language", "annotated", "judge correct", "rules correct")
        yield text_table(titles, rows, right=("annotated",), title=title)
    else:
        yield Unwrapped(f"\nno annotations to evaluate this judge with yet: mbbq-gen annotate {report.run}")
    if report.differences:
        yield Unwrapped(
            f"\ndisagreements: {len(report.differences):,}; see one with: mbbq-gen explain {report.run} ID\n"
        )
        rows = [
            (
                *(one.prompt_id, one.language, _read(one.outcome, one.option), one.confidence, one.rule),
                _read(one.judge_outcome, one.judge_option),
            )
            for one in report.differences[:_LISTED]
        ]
        yield text_table(("id", "language", "rules", "confidence", "rule", "judge"), rows)
        if len(report.differences) > _LISTED:
            yield f"and {len(report.differences) - _LISTED:,} more; --json has them all"
    yield Unwrapped(
        f"\nThe rules' extractions are unchanged. The judge's are {report.extractor!r}:"
        f" mbbq-gen score {report.run} --extractor {report.extractor}"
    )


def _judge_agreement(report: JudgeReport) -> Iterator[Table | str]:
    rows = []
    for row in report.agreement:
        found = row.equal_share
        shown = percent(found) if found.ci_low is not None or found.value is None else f"{found.value:.1%}"
        counts = (f"{row.n:,}", f"{row.unparsed:,}", shown, estimate_text(row.kappa), f"{row.kappa.n_templates:,}")
        rows.append((row.group, *counts))
    titles = ("language", "answers", "unparsed", "same choice", "kappa", "templates")
    title = f"agreement with the rules, {_BASES[report.basis]}"
    yield text_table(titles, rows, right=("answers", "unparsed", "templates"), title=title)
    if not report.confusion:
        return
    rules = sorted({crossing.rules for crossing in report.confusion})
    judge = sorted({crossing.judge for crossing in report.confusion})
    counts_of = {(crossing.rules, crossing.judge): crossing.n for crossing in report.confusion}
    crossed = [(ours, *(f"{counts_of.get((ours, theirs), 0):,}" for theirs in judge)) for ours in rules]
    yield from ("", text_table(("rules ↓, judge →", *judge), crossed, right=judge))


def _read(outcome: Outcome, option: int | None) -> str:
    return OUTCOME_TITLES[outcome] + ("" if option is None else f" {option + 1}")
