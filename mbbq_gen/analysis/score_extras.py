"""Optional parts of score reports: macro averages, tests against 0, baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Literal

import numpy as np
import polars as pl

from mbbq_gen.analysis.ability import AdjustedScore
from mbbq_gen.analysis.correction import AnnotatedFrame, ConfidenceShares, Correction, confidence_shares, correction
from mbbq_gen.analysis.follow_up import FollowUpReport
from mbbq_gen.analysis.scores import ScoreTable, score
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, Normalise
from mbbq_gen.scoring.cells import BASELINES, Baseline, baseline_matrix
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.tally import Subset, Tally, grouping_columns, tally_groups
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings, mean, mean_of_strata, no_score
from mbbq_gen.statistics.hypothesis_tests import TestResult, benjamini_hochberg, zero_tests
from mbbq_gen.statistics.panel import make_panel, panel_of, plain_value


class MacroAverage(FrozenModel):
    """The unweighted mean of a score over the values of one grouping."""

    over: str
    """`category`, as in EsBBQ; `variant`, as in MBBQ."""
    group: dict[str, str | None]
    metric: str
    score: EstimateResult
    """Templates are resampled within categories, but jointly for prompt variants."""
    n_levels: int
    """Number of averaged values."""
    undefined: tuple[str, ...]
    """Values without a defined score, which are excluded."""


class GroupTest(FrozenModel):
    """Tests of the score of one group against 0."""

    group: dict[str, str | None]
    metric: str
    tests: tuple[TestResult, ...]
    """p_adjusted by Benjamini and Hochberg over all groups, for each metric and test."""


class BaselineScores(FrozenModel):
    """The scores of a trivial model on the same questions."""

    group: dict[str, str | None]
    baseline: Baseline
    metrics: dict[str, float | None]


class StoppedEstimate(FrozenModel):
    """A score in the stopping rule of an adaptive run."""

    run: str
    metric: str
    group: dict[str, str]
    compared: tuple[str, str] | None
    """The two languages of a difference."""
    value: float | None
    adjusted_value: float | None
    """The median-unbiased estimate (stage-wise ordering)."""


class ScoreReport(ScoreTable):
    """A score table with optional parts."""

    subset: Subset = "all"
    extractor: str = "rules"
    answers: Literal["first", "follow-up"] = "first"
    """The first answers, or with replies to follow-ups for unparsed answers."""
    normalization: Normalise | None = None
    """The normalization of likelihoods; None: that of the run, or no likelihoods."""
    macro_averages: tuple[MacroAverage, ...] = ()
    adjusted: tuple[AdjustedScore, ...] = ()
    tests: tuple[GroupTest, ...] = ()
    baselines: tuple[BaselineScores, ...] = ()
    stopped: tuple[StoppedEstimate, ...] = ()
    """For adaptive runs that stopped on their result."""
    confidences: tuple[ConfidenceShares, ...] = ()
    correction: Correction | None = None
    """Scores corrected by annotations."""
    follow_ups: tuple[FollowUpReport, ...] = ()


def reported(
    frame: pl.DataFrame,
    by: Sequence[str],
    names: Sequence[str],
    sampling: InferenceSettings,
    labelled: AnnotatedFrame | None = None,
    *,
    extractor: str = "rules",
) -> ScoreReport:
    """The scores with the extractor's confidence and, for labelled answers, corrected scores."""
    return ScoreReport(
        **dict(score(frame, by, names, sampling)),
        extractor=extractor,
        confidences=tuple(confidence_shares(frame, by)),
        correction=None if labelled is None else correction(frame, labelled, by, choose_metrics(names), sampling),
    )


def macro_averages(
    frame: pl.DataFrame, by: Sequence[str], over: str, metrics: Sequence[Metric], sampling: InferenceSettings
) -> list[MacroAverage]:
    """The macro averages over the grouping `over`, by the groupings `by`.

    Raises UsageError if `over` is also in `by`, UnknownNameError for an unknown grouping.
    """
    if over in by:
        raise UsageError(f"--macro-average {over}: also in --group-by; average over a grouping or show it")
    names, (averaged,) = list(grouping_columns(by)), grouping_columns([over])
    groups: dict[tuple[str | None, ...], list[Tally]] = {}
    for tally in tally_groups(frame, grouping_columns([*by, over]), sampling.prompt_effects):
        groups.setdefault(tuple(tally.group[name] for name in names), []).append(tally)
    averages = []
    for values, tallies in groups.items():
        panel = panel_of(tallies, sampling, is_stratified=averaged == "category")
        levels = [str(group[averaged] or "–") for group in panel.groups]
        for metric in metrics:
            estimates = panel.estimates(metric)
            defined, result = [one for one in estimates if not np.isnan(one.value)], no_score("undefined throughout")
            if defined:
                result = (mean_of_strata if panel.strata else mean)(defined).score(sampling)
                if result.ci_low is None and panel.strata and any(one.n_templates < 2 for one in defined):
                    reason = "a category has a single template: its error is unknown"
                    result = result.model_copy(update={"reason": reason, "reason_code": "too_few_templates"})
            average = MacroAverage(
                over=averaged,
                group=dict(zip(names, values, strict=True)),
                metric=metric.name,
                score=result,
                n_levels=len(defined),
                undefined=tuple(name for name, one in zip(levels, estimates, strict=True) if np.isnan(one.value)),
            )
            averages.append(average)
    return averages


def group_tests(
    frame: pl.DataFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
    *,
    against_zero: bool = True,
    margin: float | None = None,
) -> list[GroupTest]:
    """Tests of every group's scores against 0 (`zero_tests`), adjusted by the false discovery rate.

    Only biases are tested. With a margin, there are also equivalence tests.
    """
    panel = make_panel(frame, by, sampling)
    results: list[GroupTest] = []
    for metric in (metric for metric in metrics if metric.low < 0):
        rows = [
            zero_tests(estimate, f"{metric.name} is 0", sampling, margin, metric.name)
            for estimate in panel.estimates(metric)
        ]
        columns = list(zip(*rows, strict=True))[0 if against_zero else -1 :]
        adjusted = [benjamini_hochberg([test.p_value for test in column]) for column in columns]
        for place, group in enumerate(panel.groups):
            pairs = zip(columns, adjusted, strict=True)
            tests = [tests[place].adjusted(p[place], "benjamini_hochberg") for tests, p in pairs]
            results.append(GroupTest(group=group, metric=metric.name, tests=tuple(tests)))
    return results


def baseline_scores(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> Iterable[BaselineScores]:
    """The scores of every baseline on the questions of every group."""
    for tally, baseline in product(tally_groups(frame, grouping_columns(by)), BASELINES):
        moved = baseline_matrix(baseline)
        values = {metric.name: plain_value(metric, tally, sampling, moved) for metric in metrics}
        yield BaselineScores(group=tally.group, baseline=baseline, metrics=values)
