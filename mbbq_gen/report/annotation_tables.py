"""Annotations, judges and follow-ups as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.core.text import shortened, whole_percent
from mbbq_gen.report.run_tables import dollars, price_lines
from mbbq_gen.report.score_tables import OUTCOME_TITLES
from mbbq_gen.report.tables import Block, Unwrapped, number, percent, text_table

if TYPE_CHECKING:
    from mbbq_gen.analysis.follow_up import FollowUpReport
    from mbbq_gen.annotation.judge_report import Basis, JudgeReport
    from mbbq_gen.annotation.review import AnnotationReport, Mistake
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.runs.cost_estimate import JudgeEstimate

_MISTAKE_TITLES: dict[Mistake, str] = {
    "wrong_option": "another option is correct",
    "spurious": "an option extracted where there is none",
    "missed": "an option that was not extracted",
    "unknown_kind": "wrong, correct option not stated",
}
_LISTED = 40
_BASES: dict[Basis, str] = {
    "all": "of all answers of the run that have a text",
    "sample": "of a random sample within each language: representative of the run",
    "only": "of answers selected by their extraction: NOT representative of the run",
    "nothing": "of no answers: there is no reply yet",
}


def annotation_blocks(report: AnnotationReport) -> Iterator[Block]:
    """How many extractions are correct, by language, and those that are not."""
    shares = [
        (
            *(one.group, one.n_extractions, one.judged.n, round((one.judged.value or 0.0) * one.judged.n)),
            *(percent(one.judged), percent(one.weighted)),
        )
        for one in (*report.by_language, report.overall)
    ]
    titles = ["language", "extractions", "annotated", "correct", "correct, of those annotated", "correct, in the run"]
    yield text_table(titles, shares)
    covered = ""
    if report.coverage is not None:
        covered = f"; annotated strata hold {whole_percent(report.coverage)} of the run's extractions"
    yield (
        "\ncorrect: the extraction is what the response chooses. in the run: each annotation is weighted by the "
        f"extractions of its stratum ({', '.join(report.by) or 'one stratum'}) that it stands for{covered}. Intervals: "
        f"Wilson, {report.confidence_level:.0%}, on the effective number of annotations."
    )
    if report.stale_annotations:
        yield f"{report.stale_annotations:,} annotations were of extractions that have changed since: annotate again"
    if not report.disagreements:
        return
    rows = []
    for one in report.disagreements[:_LISTED]:
        right = "no option" if one.right is None else f"option {one.right + 1}"
        right_known = None if one.mistake == "unknown_kind" else right
        shown = (_read(one.outcome, one.option), one.rule, right_known, shortened(one.note, 60))
        rows.append((one.prompt_id, one.language, *shown))
    counts = [f"{_MISTAKE_TITLES[kind]}: {count}" for kind, count in report.mistakes.items() if count]
    title = f"extractions annotated as wrong ({'; '.join(counts)})"
    yield text_table(["id", "language", "extracted", "rule", "correct", "note"], rows, title)
    yield from _and_more(report.disagreements)


def _and_more(found: Sequence[object]) -> Iterator[str]:
    if len(found) > _LISTED:
        yield f"and {len(found) - _LISTED:,} more; --json has them all"


def judge_estimate_blocks(found: JudgeEstimate) -> Iterator[Block]:
    """What a judge would take and cost, by language."""
    tokens = found.tokens
    yield f"{found.model}" + (f" at {found.base_url}" if found.base_url else "") + f", judge {found.judge!r}"
    yield f"prompt      version {found.prompt_version} (sha256 {found.prompt_sha256[:12]})"
    done = f", {found.answered:,} more have a reply already" if found.answered else ""
    yield f"{tokens.prompts:,} answers to judge, {tokens.requests:,} different requests{done}"
    yield from price_lines(tokens, found.cost, found.duration)
    groups = [(one.language, one.requests, one.input_tokens, one.output_tokens) for one in tokens.groups]
    yield from ("", text_table(["language", "requests", "tokens in", "tokens out"], groups), "")
    yield from found.notes


def judge_report_blocks(report: JudgeReport) -> Iterator[Block]:
    """Agreement, confusion table, accuracy by annotations, and the disagreements with their ids."""
    prompt = f"prompt version {report.prompt_version} (sha256 {report.prompt_sha256[:12]})"
    yield f"judge {report.judge!r}: {report.model}, {prompt}"
    failed = f", {report.failed:,} failed" if report.failed else ""
    cost = "" if report.cost is None else f", {dollars(report.cost)}"
    yield f"{report.answered:,} of {report.requests:,} requests answered{failed}{cost}"
    if unparsed := sum(report.faults.values()):
        why = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in report.faults.items())
        yield f"{unparsed:,} of {report.answers:,} answers unparsed by the judge ({why})"
    rows = []
    for row in report.agreement:
        found = row.equal_share
        shown = percent(found) if found.ci_low is not None or found.value is None else f"{found.value:.1%}"
        rows.append((row.group, row.n, row.unparsed, shown, row.kappa, row.kappa.n_templates))
    titles = ["language", "answers", "unparsed", "same choice", "kappa", "templates"]
    yield text_table(titles, rows, f"agreement with the rules, {_BASES[report.basis]}")
    if report.confusion:
        judge = sorted({crossing.judge for crossing in report.confusion})
        counts = {(crossing.rules, crossing.judge): crossing.n for crossing in report.confusion}
        crossed = [
            (ours, *(f"{counts.get((ours, theirs), 0):,}" for theirs in judge))
            for ours in sorted({key[0] for key in counts})
        ]
        yield from ("", text_table(["rules ↓, judge →", *judge], crossed))
    if report.annotated:
        accuracy = [(row.group, row.judge.n, percent(row.judge), percent(row.rules)) for row in report.annotated]
        title = "accuracy by annotations (mbbq-gen annotate), on the answers that both have"
        yield text_table(["language", "annotated", "judge correct", "rules correct"], accuracy, title)
    else:
        yield Unwrapped(f"\nno annotations to evaluate this judge with yet: mbbq-gen annotate {report.run}")
    if report.differences:
        count = len(report.differences)
        yield Unwrapped(f"\ndisagreements: {count:,}; see one with: mbbq-gen explain {report.run} ID\n")
        differing = [
            (
                *(one.prompt_id, one.language, _read(one.outcome, one.option), one.confidence, one.rule),
                _read(one.judge_outcome, one.judge_option),
            )
            for one in report.differences[:_LISTED]
        ]
        yield text_table(["id", "language", "rules", "confidence", "rule", "judge"], differing)
        yield from _and_more(report.differences)
    yield Unwrapped(
        f"\nThe rules' extractions are unchanged. The judge's are {report.extractor!r}:"
        f" mbbq-gen score {report.run} --extractor {report.extractor}"
    )


def _read(outcome: Outcome, option: int | None) -> str:
    return OUTCOME_TITLES[outcome] + ("" if option is None else f" {option + 1}")


def follow_up_blocks(found: FollowUpReport) -> Iterator[Block]:
    """Parse rates, scores with and without follow-ups, choices, and agreement, with what the model was found to do."""
    groups = [group for group in found.groups if group.followed_up]
    yield from found.findings
    if groups:
        parsed = [
            (
                *(one.language, one.split, one.answers, _share(one.read, one.answers), one.followed_up, one.replied),
                *(one.none, _share(one.read_with_follow_up, one.answers)),
            )
            for one in groups
        ]
        titles = ["language", "split", "answers", "parsed", "followed up", "replied", "chose none"]
        title = "Parse rates without and with follow-ups"
        yield text_table([*titles, "parsed with follow-ups"], parsed, title)
        scored = [
            (
                *((group.language, group.split) if place == 0 else ("", "")),
                *(name, number(one.first.value, signed=name[0] != "a")),
                *(number(one.with_follow_up.value, signed=name[0] != "a"), one.difference),
            )
            for group in groups
            for place, (name, one) in enumerate(group.metrics.items())
            if one.first.value is not None or one.with_follow_up.value is not None
        ]
        titles = ["language", "split", "metric", "first answers", "with follow-ups", "difference"]
        yield text_table(titles, scored, "Scores without and with follow-ups")
        chosen = [
            (
                *(group.language, group.split, one.source, one.n),
                *(percent(one.biased), percent(one.counter_biased), percent(one.unknown)),
            )
            for group in groups
            for one in group.choices
            if one.n
        ]
        titles = ["language", "split", "answers", "number", "biased", "counter-biased", "unknown"]
        yield text_table(titles, chosen, "What was chosen")
        yield (
            "first: first answers that were parsed. follow-up: replies to follow-ups that take the place of first "
            "answers. Intervals of shares treat answers as independent; those of differences are clustered by template."
        )
    if found.checks:
        agreement = [
            (
                *(one.language or "all", one.confidence or "all", one.followed_up, one.agrees.n),
                percent(one.agrees) if one.agrees.n else None,
            )
            for one in found.checks
        ]
        titles = ["language", "confidence", "sample", "replied", "confirm the extraction"]
        yield text_table(titles, agreement, "Check of parsed answers")


def _share(part: int, whole: int) -> str | None:
    return f"{100 * part / whole:.1f}%" if whole else None
