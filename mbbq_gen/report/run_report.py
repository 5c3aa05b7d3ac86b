"""The report of a run in the terminal, and all scores as `mbbq-gen score` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from mbbq_gen.analysis.score_extras import ScoreReport
from mbbq_gen.report.analysis_tables import correction_blocks, score_blocks
from mbbq_gen.report.annotation_tables import follow_up_blocks
from mbbq_gen.report.assessments import NEEDED, assess_groups
from mbbq_gen.report.conclusions import model_sentences
from mbbq_gen.report.run_tables import cost_line
from mbbq_gen.report.score_tables import (
    Notes,
    brief_blocks,
    confidence_table,
    metric_table,
    outcome_table,
    summary_table,
    template_blocks,
)
from mbbq_gen.report.tables import Block
from mbbq_gen.runs.run_folder import Manifest
from mbbq_gen.storage.store import Progress


def report_blocks(
    path: str, manifest: Manifest, progress: Progress, scores: ScoreReport, width: int, *, verbose: bool
) -> Iterator[Block]:
    """Settings, conclusions, scores; with `verbose` both splits with all footnotes, outcomes and confidence.

    Args:
        path: the run folder, as it was typed.
        manifest: the run's.
        progress: the run's.
        scores: the run's, as `score_extras.reported` makes them.
        width: columns of the terminal.
        verbose: whether to show everything.
    """
    yield from _heading(manifest)
    if progress.pending:
        yield f"{progress.pending:,} of {progress.requests:,} requests have no response yet: this is a part"
    yield ""
    yield from brief_blocks(scores, width)
    if verbose:
        notes = Notes(scores)
        yield summary_table(scores, notes, width)
        yield outcome_table(scores)
        yield confidence_table(scores.confidences)
        yield (
            "\nitems: prompts. read: parsed responses. bias: above 0 stereotypical, below 0 anti-stereotypical, "
            f"with a {100 * (scores.confidence_level or 0):.3g}% bootstrap interval over templates. control: the same "
            "questions with first names."
        )
        yield from notes.lines()
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


def _heading(manifest: Manifest) -> list[str]:
    """Model, benchmarks and settings."""
    settings, total = manifest.config, sum(manifest.available.values())
    part = "all" if manifest.counts.instances == total else f"{manifest.counts.instances:,} of"
    names = ", ".join(choice.name for choice in settings.benchmarks)
    facts = [
        f"prompt variants: {', '.join(dict.fromkeys((*settings.variants, *settings.scored_variants)))}",
        f"option order: {settings.option_order}",
        f"labels: {', '.join(settings.label_style)}",
        f"seed: {settings.seed}",
    ]
    if settings.reasoning_effort:
        facts.append(f"reasoning effort: {', '.join(settings.reasoning_effort)}")
    if settings.method != ("generate",):
        facts.append(f"methods: {', '.join(settings.method)}")
    if settings.is_scored:
        facts.append(f"normalization: {settings.normalization}")
    if settings.num_fewshot:
        facts.append(f"{settings.num_fewshot} few-shot examples")
    if settings.instruction_language:
        facts.append(f"instructions in {settings.instruction_language}")
    if settings.no_context:
        facts.append("questions without their contexts")
    return [
        f"{settings.model} on {names}: {part} {total:,} questions, {manifest.counts.prompts:,} prompts",
        "; ".join(facts),
    ]


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
    yield from (*template_blocks(report), *score_blocks(report))
    for found in report.follow_ups:
        yield from follow_up_blocks(found)
    yield from notes.lines()
