"""Scores with what they are read beside: macro averages, tests against 0, baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from mbbq_gen.analysis.ability import AdjustedScore
from mbbq_gen.analysis.correction import AnnotatedFrame, confidence_shares, correction, extraction_errors
from mbbq_gen.analysis.correction_table import (
    ConfidenceShares,
    Correction,
    ExtractionErrorRate,
    ExtractionFlag,
    extraction_flags,
)
from mbbq_gen.analysis.scores import ScoreTable, score
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, Normalise
from mbbq_gen.scoring.cells import BASELINES, Array, Baseline, baseline_matrix
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.tally import Subset, grouping_columns, tally_groups
from mbbq_gen.statistics.estimate import (
    Estimate,
    EstimateResult,
    InferenceSettings,
    mean,
    mean_of_strata,
    no_score,
    number,
)
from mbbq_gen.statistics.hypothesis_tests import TestResult, benjamini_hochberg, tost, wilcoxon, zero_test
from mbbq_gen.statistics.panel import make_panel, panel_of


class MacroAverage(FrozenModel):
    """The plain mean of a score over the values of one grouping, every value counting the same."""

    over: str
    """`category`, as EsBBQ averages; `variant`, as MBBQ does over prompts."""
    group: dict[str, str | None]
    metric: str
    score: EstimateResult
    """Over categories, templates are drawn within each category; over prompt variants, for all of them at once."""
    n_levels: int
    """Values that the mean is over."""
    undefined: tuple[str, ...]
    """Values that are left out, for the score is undefined there."""


class GroupTest(FrozenModel):
    """A score of one group against 0."""

    group: dict[str, str | None]
    metric: str
    tests: tuple[TestResult, ...]
    """p_adjusted is Benjamini and Hochberg's over all groups of the table, for each metric and test."""


class BaselineScores(FrozenModel):
    """What a trivial model would score on the same questions."""

    group: dict[str, str | None]
    baseline: Baseline
    metrics: dict[str, float | None]


class ScoreReport(ScoreTable):
    """A score table with optional additions, each empty unless requested."""

    subset: Subset = "all"
    """Which answers were scored."""
    extractor: str = "rules"
    """The extractor: its name, or an earlier version."""
    normalization: Normalise | None = None
    """How likelihoods were made comparable; None: as the run says, or none were requested."""
    macro_averages: tuple[MacroAverage, ...] = ()
    adjusted: tuple[AdjustedScore, ...] = ()
    tests: tuple[GroupTest, ...] = ()
    baselines: tuple[BaselineScores, ...] = ()
    confidences: tuple[ConfidenceShares, ...] = ()
    """The extractor's confidence; not with --jsonl."""
    extraction_flags: tuple[ExtractionFlag, ...] = ()
    """Language differences that extraction errors could explain; in reports only."""
    correction: Correction | None = None
    """Scores corrected by annotations; None if not requested."""


def reported(
    frame: pl.DataFrame,
    by: Sequence[str],
    names: Sequence[str],
    sampling: InferenceSettings,
    labelled: AnnotatedFrame | None = None,
) -> ScoreReport:
    """The scores of a report: the extractor's confidence and, with labels, what they make of the scores beside them.

    `by` holds language and split. Differences of languages that extraction could have caused are flagged.
    """
    metrics = choose_metrics(names)
    table = score(frame, by, names, sampling)
    within = [name for name in by if name not in {"language", "split"}]
    biases = [metric for metric in metrics if metric.low < 0]
    errors = {} if labelled is None else _errors(labelled, [*within, "language"], sampling)
    return ScoreReport(
        **dict(table),
        confidences=tuple(confidence_shares(frame, by)),
        extraction_flags=tuple(extraction_flags(frame, within, biases, sampling, errors)),
        correction=None if labelled is None else correction(frame, labelled, by, metrics, sampling),
    )


def _errors(
    labelled: AnnotatedFrame, by: Sequence[str], sampling: InferenceSettings
) -> dict[tuple[str | None, ...], ExtractionErrorRate]:
    """How often answers of the bias split are extracted wrongly, by the values of the groupings."""
    rows = labelled.frame.filter(labelled.frame["split"] == "bias")
    return {tuple(found.group.values()): found for found in extraction_errors(rows, by, sampling.confidence)}


def macro_averages(
    frame: pl.DataFrame, by: Sequence[str], over: str, metrics: Sequence[Metric], sampling: InferenceSettings
) -> list[MacroAverage]:
    """The macro averages over a grouping, for each group of the other groupings.

    Raises:
        UsageError: where `over` is also in `by`.
        UnknownNameError: for an unknown grouping.
    """
    if over in ("template", "subcategory"):
        raise UsageError(f"--macro-average {over}: average over category or variant")
    if over in by:
        raise UsageError(f"--macro-average {over}: also in --group-by; average over a grouping or show it")
    tallies = list(tally_groups(frame, grouping_columns([*by, over]), sampling.prompt_effects))
    names = list(grouping_columns(by))
    (averaged,) = grouping_columns([over])
    groups: dict[tuple[str | None, ...], list[int]] = {}
    for place, tally in enumerate(tallies):
        groups.setdefault(tuple(tally.group[name] for name in names), []).append(place)
    found = []
    for values, places in groups.items():
        panel = panel_of([tallies[place] for place in places], sampling, is_stratified=averaged == "category")
        levels = [str(group[averaged] or "–") for group in panel.groups]
        for metric in metrics:
            estimates = panel.estimates(metric)
            defined = [estimate for estimate in estimates if number(estimate.value) is not None]
            found.append(
                MacroAverage(
                    over=averaged,
                    group=dict(zip(names, values, strict=True)),
                    metric=metric.name,
                    score=_average(defined, sampling, is_stratified=panel.strata is not None),
                    n_levels=len(defined),
                    undefined=tuple(
                        level
                        for level, estimate in zip(levels, estimates, strict=True)
                        if number(estimate.value) is None
                    ),
                )
            )
    return found


def _average(defined: Sequence[Estimate], sampling: InferenceSettings, *, is_stratified: bool) -> EstimateResult:
    if not defined:
        return no_score("undefined throughout")
    found = (mean_of_strata if is_stratified else mean)(defined).score(sampling)
    if found.ci_low is None and is_stratified and any(estimate.n_templates < 2 for estimate in defined):
        update = {
            "reason": "a category has a single template: its error is unknown",
            "reason_code": "too_few_templates",
        }
        return found.model_copy(update=update)
    return found


def group_tests(
    frame: pl.DataFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
    *,
    against_zero: bool = True,
    margin: float | None = None,
) -> list[GroupTest]:
    """Every group's scores against 0, by their intervals and by Wilcoxon's test, with the false discovery rate held.

    Where prompt variants are random, by the interval over templates and prompt variants alone.

    Only metrics whose 0 means no bias are tested. With a margin, also whether each is shown to be smaller than it.
    """
    panel = make_panel(frame, by, sampling)
    found: list[GroupTest] = []
    for metric in metrics:
        if metric.low >= 0:
            continue
        scores = panel.template_scores(metric)
        rows = [
            (
                *(_against_zero(metric, estimate, scores[place], sampling) if against_zero else ()),
                *(() if margin is None else (tost(estimate, margin, metric.name, sampling),)),
            )
            for place, estimate in enumerate(panel.estimates(metric))
        ]
        adjusted = [benjamini_hochberg([test.p_value for test in tests]) for tests in zip(*rows, strict=True)]
        for place, row in enumerate(rows):
            found.append(
                GroupTest(
                    group=panel.groups[place],
                    metric=metric.name,
                    tests=tuple(
                        test.adjusted(adjusted[column][place], "benjamini_hochberg") for column, test in enumerate(row)
                    ),
                )
            )
    return found


def _against_zero(
    metric: Metric, estimate: Estimate, scores: Array, sampling: InferenceSettings
) -> tuple[TestResult, ...]:
    test = zero_test(estimate, f"{metric.name} is 0", sampling)
    if sampling.prompt_effects == "random":
        return (test,)
    return test, wilcoxon(scores, f"{metric.name} is 0 in the middle of the templates")


def baseline_scores(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> Iterable[BaselineScores]:
    """What every baseline would score on the questions of every group."""
    for tally in tally_groups(frame, grouping_columns(by)):
        for baseline in BASELINES:
            counts = tally.counts(sampling.unparsed, tally.total @ baseline_matrix(baseline))
            yield BaselineScores(
                group=tally.group,
                baseline=baseline,
                metrics={metric.name: number(metric.value(counts)) for metric in metrics},
            )
