"""Scores of runs: the short result, the tables of `score`, score files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from mbbq_gen.core.files import output_file
from mbbq_gen.core.records import Confidence
from mbbq_gen.core.text import spreadsheet_safe
from mbbq_gen.report.analysis_tables import correction_blocks, follow_up_blocks, score_blocks
from mbbq_gen.report.conclusions import AMBIGUOUS, DISAMBIGUATED, NEEDED, GroupAssessment, assess_groups, conclusions
from mbbq_gen.report.run_tables import cost_text, setting_facts
from mbbq_gen.report.tables import DASH, OUTCOME_TITLES, Block, Column, Table, bounds_text, interval_text, number, share
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.statistics.intervals import LOW_PARSING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.analysis.scores import ScoreTable, WarningCode
    from mbbq_gen.runs.run_folder import Manifest
    from mbbq_gen.storage.store import Progress

SUMMARY_METRICS = (
    "parse_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)
BRIEF_METRICS = (*NEEDED, "accuracy_ambiguous")
"""Metrics of the short result."""
BOUNDS_NOTE = "the score if all unparsed answers had been of one kind, and of the other"


# --- the short result ------------------------------------------------------------------------------------------------

_DECIDING: tuple[WarningCode, ...] = ("too_few_templates", "few_templates")
"""Warnings of the short result; `score` shows the others."""
_MARK, _BIASES = "*", (AMBIGUOUS, DISAMBIGUATED)


def brief_blocks(scores: ScoreTable) -> Iterator[Block]:
    """The conclusions on every model and benchmark, the table, and its notes."""
    found, names = assess_groups(scores), [name for name in scores.by if name not in {"language", "split"}]
    texts = conclusions(found, names)
    labels = [f"{', '.join(one.names)}: " if len(texts) > 1 else "" for one in texts]
    yield from (label + one.short for label, one in zip(labels, texts, strict=True))
    yield brief_table(found, [*names, "language"])
    yield from brief_notes(scores, found)
    yield from (label + sentence for label, one in zip(labels, texts, strict=True) for sentence in one.more)


def brief_table(found: Sequence[GroupAssessment], names: Sequence[str]) -> Table:
    """One row for each language, narrow enough for a terminal of 80 columns."""
    accuracies = ("control\naccuracy", "accuracy\n(ambig.)", "accuracy\n(disamb.)")
    titles = ("parsed", *accuracies, "bias\n(ambiguous)", "bias\n(disamb.)")
    table = Table(*names, *titles, title="Scores by language")
    for one in found:
        bias, control = ({} if part is None else part.metrics for part in (one.bias, one.control))
        places = ((control, NEEDED[1]), (bias, "accuracy_ambiguous"), (bias, NEEDED[1]))
        values = [metrics[name].value if metrics else None for metrics, name in places]
        parsed = share(bias["parse_rate"].value if bias else None)
        table.add_row(
            *(one.group[name] for name in names), parsed, *values, *(_brief_bias(one, name) for name in _BIASES)
        )
    return table


def _brief_bias(one: GroupAssessment, metric: str) -> str:
    """`+0.49*`, below it `[+0.38, +0.59]` and, at a low parse rate, bounds; `(+0.44)` if it is uninterpretable."""
    score = None if one.bias is None else one.bias.metrics[metric]
    if score is None or score.value is None:
        return DASH
    text = number(score.value, signed=True)
    if one.is_uninterpretable:
        return f"({text})"
    text += (_MARK if set(score.warnings) & set(_DECIDING) else "") + interval_text(score, before="\n")
    bounds = bounds_text(score.bounds) if "low_parse_rate" in score.warnings else ""
    return f"{text}\n({bounds})" if bounds else text


def brief_notes(scores: ScoreTable, found: Sequence[GroupAssessment]) -> Iterator[str]:
    """What the columns and marks of `brief_table` mean."""
    level = (scores.confidence_level or 0) * 100
    yield (
        "accuracy: share of correct answers (chance: 0.33); control: on disambiguated control questions, which name no "
        "group. bias: above 0 stereotypical, below 0 anti-stereotypical; bias (disambiguated): accuracy where the "
        "right answer fits the stereotype minus where it contradicts it; each with a "
        f"{level:g}% interval" + (" over prompt variants like these" if scores.prompt_effects == "random" else "")
    )
    if scores.average != "questions":
        yield f"scores: {AVERAGES[scores.average]}"
    shown = [one.bias.metrics[name] for one in found if one.bias and not one.is_uninterpretable for name in _BIASES]
    warnings = {code for score in shown if score.value is not None for code in score.warnings}
    yield from (f"{_MARK} {scores.warnings[code]}" for code in _DECIDING if code in warnings)
    if "low_parse_rate" in warnings:
        yield f"(a … b): {BOUNDS_NOTE}; shown where fewer than {LOW_PARSING:.0%} were parsed"
    if any(one.is_uninterpretable for one in found):
        yield "(in brackets): can't be judged; the conclusion says why"


def report_blocks(path: str, manifest: Manifest, progress: Progress, scores: ScoreReport) -> Iterator[Block]:
    """Settings, conclusions and scores of a run; `path`: its folder as typed."""
    settings, total = manifest.config, sum(manifest.available.values())
    part = "all" if manifest.counts.instances == total else f"{manifest.counts.instances:,} of"
    names = ", ".join(choice.name for choice in settings.benchmarks)
    yield f"{settings.model} on {names}: {part} {total:,} questions, {manifest.counts.prompts:,} prompts"
    yield "; ".join(f"{term}: {text}" for term, text in setting_facts(manifest))
    if progress.pending:
        yield f"{progress.pending:,} of {progress.requests:,} requests have no response yet: this is a part"
    yield ""
    yield from brief_blocks(scores)
    if scores.correction is not None:
        yield from correction_blocks(scores.correction)
    for follow_ups in scores.follow_ups:
        yield from follow_up_blocks(follow_ups)
    yield from manifest.notices
    yield from (f"control questions of {name}: {counts.sentence}" for name, counts in manifest.control.items())
    if manifest.cost_report is not None:
        yield f"cost: {cost_text(manifest.cost_report)}"
    yield f"\nrun folder: {path}    more: mbbq-gen score {path}, or mbbq-gen report {path} -o report.html"


# --- the tables of `score` -------------------------------------------------------------------------------------------


def score_report_blocks(report: ScoreReport) -> Iterator[Block]:
    """Conclusions if the scores allow them, all scores, corrections, and requested additions."""
    if {"language", "split"} <= set(report.by) and set(NEEDED) <= set(report.definitions):
        found = conclusions(assess_groups(report), [name for name in report.by if name not in {"language", "split"}])
        yield from (f"{', '.join(one.names)}: {one.short}" if len(found) > 1 else one.short for one in found)
        yield ""
    yield from metric_blocks(report)
    yield extraction_table(report)
    if report.correction is not None:
        yield from correction_blocks(report.correction)
    yield from score_blocks(report)
    for follow_ups in report.follow_ups:
        yield from follow_up_blocks(follow_ups)


def metric_blocks(scores: ScoreTable) -> Iterator[Block]:
    """One row for each group and metric, with interval, counts, templates and numbers of notes; then the notes."""
    found = [score for group in scores.groups for score in group.metrics.values()]
    codes = dict.fromkeys(code for score in found for code in score.warnings)
    note_numbers = {code: place for place, code in enumerate(codes, start=1)}
    titles = ("value", "interval", "bounds", "template\nmean", "counts", "templates")
    table = Table(*scores.by, "metric", *(Column(title, title, "number") for title in titles), "notes")
    for group in scores.groups:
        for name, score in group.metrics.items():
            value, mean = (None if one is None else f"{one:+.4f}" for one in (score.value, score.mean_over_templates))
            ends = f"{number(score.ci_low, signed=True)} … {number(score.ci_high, signed=True)}"
            cells = (value, None if score.ci_low is None else ends, bounds_text(score.bounds) or None, mean)
            counts = ", ".join(f"{fraction.numerator}/{fraction.denominator}" for fraction in score.fractions)
            notes = ", ".join(map(str, sorted(note_numbers[code] for code in score.warnings)))
            table.add_row(*group.group.values(), name, *cells, counts, score.n_templates, notes)
    yield table
    yield from (f"{place}: {scores.warnings[code]}" for code, place in note_numbers.items())
    general = dict.fromkeys(code for group in scores.groups for code in group.warnings)
    yield from (f"note: {scores.warnings[code]}" for code in general if code not in note_numbers)
    if any(bounds_text(score.bounds) for score in found):
        yield f"bounds: {BOUNDS_NOTE}"


def extraction_table(scores: ScoreReport) -> Table:
    """By group: counts of the occurring outcomes, and shares of the extractor's confidence if it is known."""
    occurring = [name for name in OUTCOME_TITLES if any(group.outcomes.get(name, 0) for group in scores.groups)]
    levels = get_args(Confidence) if scores.confidences else ()
    titles = (*(OUTCOME_TITLES[name] for name in occurring), *(f"{level} confidence" for level in levels))
    confidences = {tuple(one.group.values()): one.shares for one in scores.confidences}
    table = Table(*scores.by, *titles, title="Outcomes of the extraction, and its confidence")
    for group in scores.groups:
        shares = confidences.get(tuple(group.group.values()), {})
        counts = (group.outcomes[name] for name in occurring)
        table.add_row(*group.group.values(), *counts, *(share(shares.get(level)) for level in levels))
    return table


# --- files -----------------------------------------------------------------------------------------------------------


UTF8_MARK = "\ufeff"
"""First character of files that spreadsheets then read as UTF-8."""


def csv_cells(frame: polars.DataFrame) -> polars.DataFrame:
    """The table without nested cells, and without cells that are formulas in a spreadsheet."""
    import polars as pl

    def escaped(series: polars.Series) -> polars.Series:
        name = spreadsheet_safe(series.name)
        if series.dtype.is_nested():
            cells = [None if cell is None else json.dumps(cell, ensure_ascii=False) for cell in series.to_list()]
        elif isinstance(series.dtype, pl.String | pl.Categorical | pl.Enum):
            cells = series.cast(pl.String).to_list()
        else:
            return series.alias(name)
        safe = {cell: spreadsheet_safe(cell) for cell in set(cells) if cell is not None}  # once for each distinct one
        return pl.Series(name, [None if cell is None else safe[cell] for cell in cells], pl.String)

    return pl.DataFrame([escaped(series) for series in frame.get_columns()])


_NUMBERS = (
    *("standard_error", "bound_low", "bound_high", "bound_interval_low", "bound_interval_high"),
    *("equivalence_bound", "parse_rate", "mean_over_templates"),
)
SCORE_COLUMNS: dict[str, type] = {
    "metric": str,
    **dict.fromkeys(("value", "ci_low", "ci_high"), float),
    "reason_code": str,
    **dict.fromkeys(_NUMBERS, float),
    **dict.fromkeys(("n_answers", "n_instances", "n_templates"), int),
    "n_templates_effective": float,
    "n_prompt_variants": int,
    **dict.fromkeys(("warnings", "sign", "gold", "unparsed"), str),
    "confidence_level": float,
    **dict.fromkeys(("prompt_effects", "average"), str),
}
"""Column of `score_rows` after the groupings → its type."""


def score_rows(table: ScoreTable) -> polars.DataFrame:
    """One row for each group and metric: group, metric, value, intervals, bounds, templates, warnings, settings."""
    import polars as pl

    columns, rows = dict.fromkeys(table.by, str) | SCORE_COLUMNS, []
    for group in table.groups:
        for name, found in group.metrics.items():
            cells: dict[str, object] = {**dict(table), **dict(group), **dict(found), **group.group, "metric": name}
            cells |= {f"bound_{end}": value for end, value in found.bounds or ()}
            cells |= {"warnings": " ".join((*group.warnings, *found.warnings)), "sign": table.definitions[name].sign}
            rows.append({column: cells.get(column) for column in columns})
    return pl.DataFrame(rows, schema=columns)


def write_scores(table: ScoreTable, path: Path) -> None:
    """Writes `score_rows` as CSV, escaped by `csv_cells`; raises as `core.files.output_file`."""
    with output_file(path) as temporary, temporary.open("wb") as stream:
        csv_cells(score_rows(table)).write_csv(stream)
