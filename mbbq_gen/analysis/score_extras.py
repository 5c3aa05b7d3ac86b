"""Scores with what they are read beside: macro averages, tests against 0, baselines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np
import polars as pl

from mbbq_gen.analysis.ability import AdjustedScore
from mbbq_gen.analysis.correction import AnnotatedFrame, ConfidenceShares, Correction, confidence_shares, correction
from mbbq_gen.analysis.follow_up import FollowUpReport
from mbbq_gen.analysis.scores import ScoreTable, score
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, Normalise
from mbbq_gen.scoring.cells import BASELINES, Array, Baseline, baseline_matrix
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.tally import Subset, Tally, grouping_columns, tally_groups
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings, mean, mean_of_strata, no_score, number
from mbbq_gen.statistics.hypothesis_tests import TestResult, benjamini_hochberg, zero_tests
from mbbq_gen.statistics.panel import i_squared, make_panel, panel_of, plain_value, reml_variance, template_scores


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
    """The scores of a trivial model on the same questions."""

    group: dict[str, str | None]
    baseline: Baseline
    metrics: dict[str, float | None]


class Heterogeneity(FrozenModel):
    """The variation of a score between templates, or between categories, beyond chance."""

    group: dict[str, str | None]
    metric: str
    over: Literal["template", "category"]
    n: int
    """Templates, or categories, with a score; of categories, those with an error: two templates or more."""
    tau_squared: float | None
    """Variance of the true scores by restricted maximum likelihood; None for fewer than two."""
    tau: float | None
    i_squared: float | None
    """The part of the variance of the observed scores that it makes (Higgins & Thompson 2002)."""


class SensitivityInterval(FrozenModel):
    """The interval of a score with other constants for a template that was not seen."""

    group: dict[str, str | None]
    metric: str
    constants: Literal[
        "as set", "deviation halved", "deviation doubled", "stretch halved", "stretch doubled", "estimated"
    ]
    """`estimated`: the deviation within which 95 % of templates lie, 1.96 τ; from SENSITIVITY_TEMPLATES on."""
    unseen_deviation: float
    unseen_stretch: float
    ci_low: float
    ci_high: float


class StoppedEstimate(FrozenModel):
    """A score that decided when an adaptive run stopped."""

    run: str
    metric: str
    group: dict[str, str]
    compared: tuple[str, str] | None
    """The two languages of a difference."""
    value: float | None
    adjusted_value: float | None
    """The median-unbiased estimate, by the stage-wise ordering."""


SENSITIVITY_TEMPLATES: Final = 40
"""Templates from which the deviation of an unseen one is also estimated."""


class ScoreReport(ScoreTable):
    """A score table with optional additions, each empty unless requested."""

    subset: Subset = "all"
    extractor: str = "rules"
    answers: Literal["first", "follow-up"] = "first"
    """The first answers, or with what follow-ups say in the place of what could not be read."""
    normalization: Normalise | None = None
    """The normalization of likelihoods; None: that of the run, or none were requested."""
    macro_averages: tuple[MacroAverage, ...] = ()
    adjusted: tuple[AdjustedScore, ...] = ()
    tests: tuple[GroupTest, ...] = ()
    baselines: tuple[BaselineScores, ...] = ()
    heterogeneity: tuple[Heterogeneity, ...] = ()
    sensitivity: tuple[SensitivityInterval, ...] = ()
    """Of scores whose interval has room for a template that was not seen."""
    stopped: tuple[StoppedEstimate, ...] = ()
    """Of adaptive runs that stopped on their result."""
    confidences: tuple[ConfidenceShares, ...] = ()
    correction: Correction | None = None
    """Scores corrected by annotations; None if not requested."""
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
    """The scores of a report: the extractor's confidence and, with labels, what they make of the scores beside them."""
    return ScoreReport(
        **dict(score(frame, by, names, sampling)),
        extractor=extractor,
        confidences=tuple(confidence_shares(frame, by)),
        correction=None if labelled is None else correction(frame, labelled, by, choose_metrics(names), sampling),
    )


def macro_averages(
    frame: pl.DataFrame, by: Sequence[str], over: str, metrics: Sequence[Metric], sampling: InferenceSettings
) -> list[MacroAverage]:
    """The macro averages over a grouping, for each group of the other groupings.

    Raises UsageError where `over` is also in `by`, UnknownNameError for an unknown grouping.
    """
    if over in by:
        raise UsageError(f"--macro-average {over}: also in --group-by; average over a grouping or show it")
    names, (averaged,) = list(grouping_columns(by)), grouping_columns([over])
    groups: dict[tuple[str | None, ...], list[Tally]] = {}
    for tally in tally_groups(frame, grouping_columns([*by, over]), sampling.prompt_effects):
        groups.setdefault(tuple(tally.group[name] for name in names), []).append(tally)
    found = []
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
            found.append(average)
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
    """Every group's scores against 0 (`zero_tests`), with the false discovery rate held.

    Only metrics whose 0 means no bias are tested. With a margin, also whether each is shown to be smaller than it.
    """
    panel = make_panel(frame, by, sampling)
    found: list[GroupTest] = []
    for metric in (metric for metric in metrics if metric.low < 0):
        rows = [
            zero_tests(estimate, scores, f"{metric.name} is 0", sampling, margin=margin, what=metric.name)
            for scores, estimate in zip(panel.template_scores(metric), panel.estimates(metric), strict=True)
        ]
        columns = list(zip(*rows, strict=True))[0 if against_zero else -1 :]
        adjusted = [benjamini_hochberg([test.p_value for test in column]) for column in columns]
        for place, group in enumerate(panel.groups):
            pairs = zip(columns, adjusted, strict=True)
            tests = [tests[place].adjusted(p[place], "benjamini_hochberg") for tests, p in pairs]
            found.append(GroupTest(group=group, metric=metric.name, tests=tuple(tests)))
    return found


def baseline_scores(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> Iterable[BaselineScores]:
    """The scores of every baseline on the questions of every group."""
    for tally in tally_groups(frame, grouping_columns(by)):
        for baseline in BASELINES:
            moved = baseline_matrix(baseline)
            yield BaselineScores(
                group=tally.group,
                baseline=baseline,
                metrics={metric.name: plain_value(metric, tally, sampling, moved) for metric in metrics},
            )


def heterogeneity(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> Iterator[Heterogeneity]:
    """τ² and I² of every group's scores, over templates and over categories (where groups are no categories)."""
    names, parts = list(grouping_columns(by)), dict[tuple[str | None, ...], list[Tally]]()
    for tally in tally_groups(frame, grouping_columns([*by, "category"])) if "category" not in names else ():
        parts.setdefault(tuple(tally.group[name] for name in names), []).append(tally)
    for tally in tally_groups(frame, grouping_columns(by)):
        whole = panel_of([tally], sampling, is_resampled=False)
        key = tuple(tally.group.values())
        categories = panel_of(parts[key], sampling, is_resampled=False) if key in parts else None
        for metric in (metric for metric in metrics if metric.name != "parse_rate"):
            own = template_scores(whole, metric)
            scored: dict[Literal["template", "category"], tuple[Array, Array]]
            scored = {"template": (own.scores[0], own.variances[0])}
            if categories is not None:
                found = [one for one in categories.estimates(metric) if (one.template_weights > 0).sum() > 1]
                errors = [float(one.adjusted_influence @ one.adjusted_influence) for one in found]
                scored["category"] = np.array([one.value for one in found]), np.array(errors)
            for over, (values, variances) in scored.items():
                known = ~np.isnan(values)[None]
                tau_squared = reml_variance(values[None], variances[None])
                yield Heterogeneity(
                    group=tally.group,
                    metric=metric.name,
                    over=over,
                    n=int(known.sum()),
                    tau_squared=number(tau_squared[0]),
                    tau=number(np.sqrt(tau_squared[0])),
                    i_squared=number(i_squared(tau_squared, variances[None], known)[0]),
                )


def sensitivity(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> Iterator[SensitivityInterval]:
    """Intervals at half and twice each constant, of scores whose interval has room for an unseen template."""
    panel = make_panel(frame, by, sampling)
    deviation, stretch = sampling.unseen_deviation, sampling.unseen_stretch
    for metric in metrics:
        taus = template_scores(panel, metric).tau_squared ** 0.5
        for group, tau, estimate in zip(panel.groups, taus, panel.estimates(metric), strict=True):
            if estimate.missing_reason is not None or estimate.boundary is None:
                continue
            cases = {
                "as set": (deviation, stretch),
                "deviation halved": (deviation / 2, stretch),
                "deviation doubled": (deviation * 2, stretch),
                "stretch halved": (deviation, stretch / 2),
                "stretch doubled": (deviation, stretch * 2),
            }
            if estimate.n_templates >= SENSITIVITY_TEMPLATES and tau > 0:
                cases["estimated"] = (1.96 * float(tau), stretch)
            for name, (far, farther) in cases.items():
                ends = replace(estimate, unseen_deviation=far, unseen_stretch=farther).interval(sampling.confidence)
                if ends is not None:
                    more = {"unseen_deviation": far, "unseen_stretch": farther, "ci_low": ends[0], "ci_high": ends[1]}
                    yield SensitivityInterval(group=group, metric=metric.name, constants=name, **more)
