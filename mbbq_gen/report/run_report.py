"""The report of a run in the terminal, and all scores as `mbbq-gen score` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from mbbq_gen.analysis.score_extras import ScoreReport
from mbbq_gen.report.analysis_tables import correction_blocks, score_blocks
from mbbq_gen.report.annotation_tables import follow_up_blocks
from mbbq_gen.report.conclusions import NEEDED, assess_groups, model_sentences
from mbbq_gen.report.run_tables import cost_line, setting_facts
from mbbq_gen.report.score_tables import (
    SUMMARY_METRICS,
    Notes,
    brief_blocks,
    confidence_table,
    metric_table,
    outcome_table,
    score_table,
)
from mbbq_gen.report.tables import Block
from mbbq_gen.runs.run_folder import Manifest
from mbbq_gen.storage.store import Progress


def report_blocks(
    path: str, manifest: Manifest, progress: Progress, scores: ScoreReport, width: int, *, verbose: bool
) -> Iterator[Block]:
    """Settings, conclusions, scores; with `verbose` both splits with all footnotes, outcomes and confidence.

    `path`: the run folder, as it was typed; `width`: columns of the terminal.
    """
    settings, total = manifest.config, sum(manifest.available.values())
    part = "all" if manifest.counts.instances == total else f"{manifest.counts.instances:,} of"
    names = ", ".join(choice.name for choice in settings.benchmarks)
    yield f"{settings.model} on {names}: {part} {total:,} questions, {manifest.counts.prompts:,} prompts"
    yield "; ".join(f"{term}: {text}" for term, text in setting_facts(manifest))
    if progress.pending:
        yield f"{progress.pending:,} of {progress.requests:,} requests have no response yet: this is a part"
    yield ""
    yield from brief_blocks(scores, width)
    if verbose:
        notes = Notes(scores)
        yield score_table(scores, SUMMARY_METRICS, notes)
        yield outcome_table(scores)
        yield confidence_table(scores.confidences)
        yield from ("", *notes.lines())
    if scores.correction is not None:
        yield from correction_blocks(scores.correction)
    for follow_ups in scores.follow_ups:
        yield from follow_up_blocks(follow_ups)
    yield from manifest.notices
    yield from (f"control questions of {name}: {counts.sentence}" for name, counts in manifest.control.items())
    if manifest.cost_report is not None:
        yield cost_line(manifest.cost_report)
    more = f"mbbq-gen report {path} " + ("-o report.html" if verbose else "--verbose, or -o report.html")
    yield f"\nrun folder: {path}    more: {more}"


def score_report_blocks(report: ScoreReport) -> Iterator[Block]:
    """The conclusions where the scores allow them, every score, corrections, and what was requested beside them."""
    names = list(report.definitions)
    if {"language", "split"} <= set(report.by) and set(NEEDED) <= set(names):
        by = [name for name in report.by if name not in {"language", "split"}]
        yield from (*model_sentences(assess_groups(report), by), "")
    notes = Notes(report)
    yield metric_table(report, names, notes)
    if report.correction is not None:
        yield from correction_blocks(report.correction)
    if report.confidences:
        yield confidence_table(report.confidences)
    yield from score_blocks(report)
    for found in report.follow_ups:
        yield from follow_up_blocks(found)
    yield from notes.lines()
