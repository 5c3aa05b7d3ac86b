"""Scores of runs: the short result, tables of `report --verbose` and `score`, score files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlencode

from mbbq_gen.core.files import output_file
from mbbq_gen.core.records import Confidence
from mbbq_gen.core.text import spreadsheet_safe
from mbbq_gen.report.analysis_tables import correction_blocks, follow_up_blocks, score_blocks
from mbbq_gen.report.conclusions import (
    AMBIGUOUS,
    BY_TOST,
    DISAMBIGUATED,
    NEEDED,
    GroupAssessment,
    assess_groups,
    equivalence_text,
    labelled_groups,
    model_sentences,
)
from mbbq_gen.report.run_tables import cost_line, setting_facts
from mbbq_gen.report.tables import (
    DASH,
    LINK,
    OUTCOME_TITLES,
    Block,
    Cell,
    Column,
    LinkedText,
    Table,
    bounds_text,
    group_name,
    interval_text,
    number,
    share,
    without_repeats,
)
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.intervals import LOW_PARSING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.correction import ConfidenceShares
    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.analysis.scores import GroupScore, MetricScore, ScoreTable, WarningCode
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
WIDE = 110
"""Width of a terminal, in columns, from which intervals are beside their scores instead of below them."""


# --- the short result ------------------------------------------------------------------------------------------------

_DECIDING: tuple[WarningCode, ...] = ("too_few_templates", "few_templates")
"""Warnings of the short result; the others are only shown with --verbose."""
_MARK, _BIASES = "*", (AMBIGUOUS, DISAMBIGUATED)
_LEGEND = (
    "accuracy: share of correct answers (chance: 0.33); control: on disambiguated control questions, which name no "
    "group. bias: above 0 stereotypical, below 0 anti-stereotypical; bias (disambiguated): accuracy where the right "
    "answer fits the stereotype minus where it contradicts it; each with a 95% interval"
)


def brief_blocks(scores: ScoreTable, width: int) -> Iterator[Block]:
    """The conclusion on every model and benchmark, the table, and its main footnotes."""
    found = assess_groups(scores)
    names = [name for name in scores.by if name not in {"language", "split"}]
    yield from model_sentences(found, names)
    yield ""
    yield brief_table(found, [*names, "language"], width)
    yield _LEGEND + (" over prompt variants like these" if scores.prompt_effects == "random" else "")
    if scores.average != "questions":
        yield f"scores: {AVERAGES[scores.average]}"
    for label, group in labelled_groups(found, names):
        inconclusive = [one for one in group if one.ambiguous == "inconclusive" and not one.is_uninterpretable]
        margins = equivalence_text({one.language: one.bias.metrics[AMBIGUOUS] for one in inconclusive if one.bias})
        if margins:
            yield f"{label}no bias, in either direction, is larger than {margins} in ambiguous contexts ({BY_TOST})"
    shown = [one.bias.metrics[name] for one in found if one.bias and not one.is_uninterpretable for name in _BIASES]
    warnings = {code for score in shown if score.value is not None for code in score.warnings}
    yield from (f"{_MARK} {scores.warnings[code]}" for code in _DECIDING if code in warnings)
    if "low_parse_rate" in warnings:
        yield f"(a … b): {BOUNDS_NOTE}; shown where fewer than {LOW_PARSING:.0%} were parsed"
    if any(one.is_uninterpretable for one in found):
        yield "(in brackets): cannot be interpreted; the first line says why"


def brief_table(found: Sequence[GroupAssessment], names: Sequence[str], width: int) -> Table:
    """One row for each language; names that repeat the row above are blank. A narrow table has no counts."""
    is_wide = width >= WIDE
    counts = ("answers", "parsed", "control\naccuracy", "accuracy\n(ambig.)", "accuracy\n(disamb.)")[not is_wide :]
    table = Table(
        *(Column(name, name) for name in names),
        *(Column(title, title, "number", no_wrap=True) for title in counts),
        *(Column(title, title, no_wrap=True) for title in ("bias\n(ambiguous)", "bias\n(disambiguated)")),
    )
    shown = without_repeats([[one.group[name] or DASH for name in names] for one in found], len(names))
    for one, values in zip(found, shown, strict=True):
        bias, control = ({} if part is None else part.metrics for part in (one.bias, one.control))
        n_answers = [sum(part.n_answers for part in (one.bias, one.control) if part)] if is_wide else []
        accuracies = ((control, NEEDED[1]), (bias, "accuracy_ambiguous"), (bias, NEEDED[1]))
        cells = [metrics[name].value if metrics else None for metrics, name in accuracies]
        biases = [_brief_bias(one, name, " " if is_wide else "\n") for name in _BIASES]
        table.add_row(*values, *n_answers, share(bias["parse_rate"].value if bias else None), *cells, *biases)
    return table


def _brief_bias(one: GroupAssessment, metric: str, between: str) -> str:
    """`+0.49* [+0.38, +0.59]`, with bounds below at a low parse rate; `(+0.44)` if it is uninterpretable."""
    score = None if one.bias is None else one.bias.metrics[metric]
    if score is None or score.value is None:
        return DASH
    text = number(score.value, signed=True)
    if one.is_uninterpretable:
        return f"({text})"
    text += (_MARK if set(score.warnings) & set(_DECIDING) else "") + interval_text(score, before=between)
    bounds = bounds_text(score.bounds) if "low_parse_rate" in score.warnings else ""
    return f"{text}\n({bounds})" if bounds else text


# --- footnotes -------------------------------------------------------------------------------------------------------

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Notes:
    """Footnotes: warnings, numbered in the order of their first use in a table."""

    def __init__(self, scores: ScoreTable) -> None:
        self._sentences = scores.warnings
        self._general = dict.fromkeys(code for group in scores.groups for code in group.warnings)
        self._numbers: dict[WarningCode, int] = {}
        self._has_bounds = any(bounds_text(one.bounds) for group in scores.groups for one in group.metrics.values())

    def marks(self, codes: Iterable[WarningCode]) -> str:
        """The footnote marks of these warnings, such as `¹˒²`."""
        numbers = sorted(self._numbers.setdefault(code, len(self._numbers) + 1) for code in codes)
        return "˒".join(map(str, numbers)).translate(_SUPERSCRIPTS)

    def with_interval(self, score: MetricScore) -> str:
        """A signed score with marks and interval, `+0.08¹ [-0.02, +0.17]`, and bounds in a line below."""
        text = number(score.value, signed=True) + self.marks(score.warnings) + interval_text(score)
        bounds = bounds_text(score.bounds)
        return f"{text}\n({bounds})" if bounds else text

    def lines(self) -> list[str]:
        """The footnotes in use, then the warnings about whole groups."""
        used = [f"{self.marks([code])} {self._sentences[code]}" for code in self._numbers]
        used += [f"note: {self._sentences[code]}" for code in self._general if code not in self._numbers]
        return [*used, f"(a … b), bounds: {BOUNDS_NOTE}"] if self._has_bounds else used


# --- full tables -----------------------------------------------------------------------------------------------------


def score_table(
    scores: ScoreTable, metrics: Sequence[str], notes: Notes, assessments: Sequence[GroupAssessment] | None = None
) -> Table:
    """Answers, templates and scores by group; footnotes are added to `notes`.

    `assessments`: given for a page, where numbers of answers are links, and uninterpretable biases are in brackets.
    """
    uninterpretable = {tuple(one.group.values()) for one in assessments or () if one.is_uninterpretable}
    shown = [METRICS[name] for name in metrics]
    titles = ("answers", "templates", *(one.title + (f" ({one.source})" if one.low < 0 else "") for one in shown))
    table = Table(
        *(Column(name, name) for name in scores.by),
        *(Column(title, title, "number") for title in titles),
        title="Scores of the bias questions and the control questions",
    )
    for names, group in _named_groups(scores):
        answers: Cell = group.n_answers
        if assessments is not None:
            count = f"{group.n_answers:,}"
            link = LINK + urlencode({name: value or "" for name, value in group.group.items()})
            answers = LinkedText(count, link, f"{count} items of {', '.join(filter(None, group.group.values()))}")
        in_brackets = tuple(value for name, value in group.group.items() if name != "split") in uninterpretable
        cells: list[Cell] = []
        for name in metrics:
            found = group.metrics[name]
            if METRICS[name].low >= 0:
                cells.append(share(found.value) if name == "parse_rate" else found.value)
            elif in_brackets:
                cells.append(None if found.value is None else f"({number(found.value, signed=True)})")
            else:
                cells.append(notes.with_interval(found))
        row_names = names if assessments is None else [value or DASH for value in group.group.values()]
        table.add_row(*row_names, answers, group.n_templates, *cells)
    return table


def outcome_table(scores: ScoreTable) -> Table:
    """Counts of the occurring outcomes by group."""
    occurring = [name for name in OUTCOME_TITLES if any(group.outcomes.get(name, 0) for group in scores.groups)]
    table = Table(*scores.by, *(OUTCOME_TITLES[name] for name in occurring), title="Outcomes of the extraction")
    for names, group in _named_groups(scores):
        table.add_row(*names, *(group.outcomes[name] for name in occurring))
    return table


def metric_table(scores: ScoreTable, metrics: Sequence[str], notes: Notes) -> Table:
    """One row for each group and metric, with interval, counts and templates; footnotes are added to `notes`."""
    numbers = ("value", "interval", "bounds", "template\nmean", "counts", "templates")
    table = Table(
        *(Column(name, name) for name in scores.by),
        Column("metric", "metric", no_wrap=True),
        *(Column(name, name, "number", no_wrap=True) for name in numbers),
        Column("notes", "notes", no_wrap=True),
    )
    for names, group in _named_groups(scores):
        for name in metrics:
            found = group.metrics[name]
            value, mean = (None if one is None else f"{one:+.4f}" for one in (found.value, found.mean_over_templates))
            ends = f"{number(found.ci_low, signed=True)} … {number(found.ci_high, signed=True)}"
            counts = [f"{fraction.numerator}/{fraction.denominator}" for fraction in found.fractions]
            start = names if name == metrics[0] else [""] * len(names)
            cells = (value, None if found.ci_low is None else ends, bounds_text(found.bounds) or None, mean)
            table.add_row(*start, name, *cells, ", ".join(counts), found.n_templates, notes.marks(found.warnings))
    return table


def confidence_table(found: Iterable[ConfidenceShares]) -> Table:
    """Shares of extractions by confidence, for each group."""
    levels = get_args(Confidence)
    table = Table("group", "answers", *levels, title="Confidence of the extraction")
    for one in found:
        shares = (share(one.shares[level]) for level in levels)
        table.add_row(group_name(one.group) or "all answers", one.n_answers, *shares)
    return table


def _named_groups(scores: ScoreTable) -> Iterator[tuple[list[str], GroupScore]]:
    """The groups with their names; all but the last name are blank if they are the same in the row above."""
    names = [[group.group[name] or DASH for name in scores.by] for group in scores.groups]
    return zip(without_repeats(names, len(scores.by) - 1), scores.groups, strict=True)


# --- reports in the terminal ------------------------------------------------------------------------------------------


def report_blocks(
    path: str, manifest: Manifest, progress: Progress, scores: ScoreReport, width: int, *, verbose: bool
) -> Iterator[Block]:
    """Settings, conclusions and scores; with `verbose` all metrics of both splits, outcomes and confidence.

    `path`: the run folder as typed; `width`: columns of the terminal.
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
    """Conclusions if the scores allow them, all scores, corrections, and requested additions."""
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
