"""Scores with what they are read beside: macro averages, tests against 0, baselines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.errors import UsageError
from mbbq_gen.extraction.likelihood import Normalise
from mbbq_gen.records import Record
from mbbq_gen.scoring.baselines import BASELINES, Baseline, baseline_value
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.scorer import score
from mbbq_gen.scoring.subsets import Subset
from mbbq_gen.scoring.table import ScoreTable
from mbbq_gen.scoring.tally import grouping_columns, tally_groups
from mbbq_gen.statistics.ability import AdjustedScore
from mbbq_gen.statistics.corrected_scores import confidence_shares, correction, reading_errors
from mbbq_gen.statistics.correction_table import ConfidenceShares, Correction, ReadingError, ReadingFlag
from mbbq_gen.statistics.crossed import crossed
from mbbq_gen.statistics.equivalence import smaller_than
from mbbq_gen.statistics.panel import (
    Estimate,
    EstimateScore,
    Sampling,
    make_panel,
    mean,
    mean_of_strata,
    no_score,
    number,
    panel_of,
)
from mbbq_gen.statistics.reading_flags import reading_flags
from mbbq_gen.statistics.significance import TestResult, benjamini_hochberg, wilcoxon
from mbbq_gen.statistics.zero_tests import is_zero

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array
    from mbbq_gen.statistics.labelled import LabelledFrame


class MacroAverage(Record):
    """The plain mean of a score over the values of one grouping, every value counting the same."""

    over: str
    """`category`, as EsBBQ averages; `variant`, as MBBQ does over prompts."""
    group: dict[str, str | None]
    metric: str
    score: EstimateScore
    """Over categories, templates are drawn within each category; over wordings, for all of them at once."""
    n_levels: int
    """Values that the mean is over."""
    undefined: tuple[str, ...]
    """Values that are left out, for the score is undefined there."""


class GroupTest(Record):
    """A score of one group against 0."""

    group: dict[str, str | None]
    metric: str
    tests: tuple[TestResult, ...]
    """p_adjusted is Benjamini and Hochberg's over all groups of the table, for each metric and test."""


class BaselineScores(Record):
    """What a trivial model would score on the same questions."""

    group: dict[str, str | None]
    baseline: Baseline
    metrics: dict[str, float | None]


class ScoreReport(ScoreTable):
    """A score table with what stands beside it; everything added is empty unless it was asked for."""

    subset: Subset = "all"
    """Which answers were scored."""
    extractor: str = "engine"
    """Whose reading of the answers: a reader's name, or a version of old."""
    normalise: Normalise | None = None
    """How likelihoods were made comparable; None: as the run says, or none were asked for."""
    macro_averages: tuple[MacroAverage, ...] = ()
    adjusted: tuple[AdjustedScore, ...] = ()
    tests: tuple[GroupTest, ...] = ()
    baselines: tuple[BaselineScores, ...] = ()
    confidences: tuple[ConfidenceShares, ...] = ()
    """How sure the reader was; not with --jsonl, whose readings may be anybody's."""
    reading_flags: tuple[ReadingFlag, ...] = ()
    """Differences of languages that reading could have made; in reports alone."""
    correction: Correction | None = None
    """What labels make of the scores; None where it was not asked for."""


def reported(
    frame: polars.DataFrame,
    by: Sequence[str],
    names: Sequence[str],
    sampling: Sampling,
    labelled: LabelledFrame | None = None,
) -> ScoreReport:
    """The scores of a report: how sure the reader was and, with labels, what they make of the scores beside them.

    `by` holds language and split. Differences of languages that reading could have made are flagged.
    """
    metrics = choose_metrics(names)
    table = score(
        frame,
        by,
        names,
        interval=sampling.confidence,
        resamples=sampling.resamples,
        seed=sampling.seed,
        undetected=sampling.undetected,
        wordings=sampling.wordings,
    )
    within = [name for name in by if name not in {"language", "split"}]
    biases = [metric for metric in metrics if metric.low < 0]
    errors = {} if labelled is None else _errors(labelled, [*within, "language"], sampling)
    return ScoreReport(
        **dict(table),
        confidences=tuple(confidence_shares(frame, by)),
        reading_flags=tuple(reading_flags(frame, within, biases, sampling, errors)),
        correction=None if labelled is None else correction(frame, labelled, by, metrics, sampling),
    )


def _errors(
    labelled: LabelledFrame, by: Sequence[str], sampling: Sampling
) -> dict[tuple[str | None, ...], ReadingError]:
    """How often answers of the bias split are read wrong, by the values of the groupings."""
    rows = labelled.frame.filter(labelled.frame["split"] == "bias")
    return {tuple(found.group.values()): found for found in reading_errors(rows, by, sampling.confidence)}


def macro_averages(
    frame: polars.DataFrame, by: Sequence[str], over: str, metrics: Sequence[Metric], sampling: Sampling
) -> list[MacroAverage]:
    """The macro averages over a grouping, for each group of the other groupings.

    Raises:
        UsageError: where `over` is also in `by`.
        UnknownNameError: for an unknown grouping.
    """
    if over in by:
        raise UsageError(f"--macro {over}: also in --by; average over a grouping or show it")
    tallies = list(tally_groups(frame, grouping_columns([*by, over]), sampling.wordings))
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
                    score=(mean_of_strata if panel.strata else mean)(defined).score(sampling)
                    if defined
                    else no_score("undefined throughout"),
                    n_levels=len(defined),
                    undefined=tuple(
                        level
                        for level, estimate in zip(levels, estimates, strict=True)
                        if number(estimate.value) is None
                    ),
                )
            )
    return found


def group_tests(
    frame: polars.DataFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: Sampling,
    *,
    against_zero: bool = True,
    margin: float | None = None,
) -> list[GroupTest]:
    """Every group's scores against 0, by sign flips and by Wilcoxon's test, with the false discovery rate held.

    Where wordings are random, by the test over templates and wordings instead.

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
                *(() if margin is None else (smaller_than(estimate, margin, metric.name, sampling),)),
            )
            for place, estimate in enumerate(panel.estimates(metric))
        ]
        adjusted = [benjamini_hochberg([test.p_value for test in tests]) for tests in zip(*rows, strict=True)]
        for place, row in enumerate(rows):
            found.append(
                GroupTest(
                    group=panel.groups[place],
                    metric=metric.name,
                    tests=tuple(_adjusted(test, adjusted[column][place]) for column, test in enumerate(row)),
                )
            )
    return found


def _against_zero(metric: Metric, estimate: Estimate, scores: Array, sampling: Sampling) -> tuple[TestResult, ...]:
    if sampling.wordings == "random":
        return (crossed(estimate, f"{metric.name} is 0", seed=sampling.seed),)
    return (
        is_zero(estimate, f"{metric.name} is 0", seed=sampling.seed),
        wilcoxon(scores, f"{metric.name} is 0 in the middle of the templates"),
    )


def _adjusted(test: TestResult, p_adjusted: float | None) -> TestResult:
    return test.model_copy(update={"p_adjusted": p_adjusted, "adjustment": "benjamini_hochberg"})


def baseline_scores(
    frame: polars.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: Sampling
) -> Iterable[BaselineScores]:
    """What every baseline would score on the questions of every group."""
    for tally in tally_groups(frame, grouping_columns(by)):
        for baseline in BASELINES:
            yield BaselineScores(
                group=tally.group,
                baseline=baseline,
                metrics={
                    metric.name: number(baseline_value(metric, baseline, tally, sampling.undetected))
                    for metric in metrics
                },
            )
