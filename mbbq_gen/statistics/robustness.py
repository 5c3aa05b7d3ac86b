"""How much of a score the wording, the option order, the label style and the language make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from mbbq_gen.errors import UsageError
from mbbq_gen.records import Record
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import grouping_columns
from mbbq_gen.statistics.agreement import Flips, choices, flips
from mbbq_gen.statistics.components import VarianceTable, variance_components
from mbbq_gen.statistics.effects import EffectTable, effect_table
from mbbq_gen.statistics.panel import Estimate, EstimateScore, Sampling, make_panel, mean, no_score
from mbbq_gen.statistics.significance import TestResult, friedman, kendall_w
from mbbq_gen.statistics.zero_tests import are_equal

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array

Factor = Literal["variant", "order", "label_style", "thinking", "language"]
FACTORS: tuple[Factor, ...] = ("variant", "order", "label_style", "thinking", "language")
DEFAULT_METRICS = ("accuracy_disambiguated", "mbbq_bias_ambiguous", "mbbq_bias_disambiguated")


class FactorLevel(Record):
    """One wording, order, label style or language."""

    level: str | None
    score: EstimateScore
    detection_rate: float | None


class Spread(Record):
    """A metric over the values of one factor."""

    metric: str
    factor: Factor
    levels: tuple[FactorLevel, ...]
    mean: EstimateScore
    """The plain mean over levels (macro average), of those where it is defined."""
    sd: float | None
    """Standard deviation of the levels' scores, chance included: see `components` for what is left without it."""
    lowest: float | None
    highest: float | None
    worst: float | None
    """Of a bias, the score farthest from 0; of an accuracy or rate, the lowest."""
    worst_level: str | None
    tests: tuple[TestResult, ...]
    """Whether the levels differ, paired by template."""


class RobustnessReport(Record):
    """What the presentation makes of the scores of one group."""

    group: dict[str, str | None]
    n_items: int
    spreads: tuple[Spread, ...]
    flips: tuple[Flips, ...]
    components: tuple[VarianceTable, ...]
    effects: tuple[EffectTable, ...] = ()
    """What the axes of composed wordings do, one table a metric; empty for wordings that are not composed."""
    notes: tuple[str, ...]
    """What could not be computed, and why."""


class RankStability(Record):
    """Do the wordings (or languages…) rank several models alike?"""

    metric: str
    factor: Factor
    models: tuple[str, ...]
    levels: tuple[str, ...]
    kendall_w: float | None
    """1: every level ranks the models alike; 0: no agreement; None: nothing to rank."""
    test: TestResult
    """Friedman's test that the levels do not rank the models at all."""


class RobustnessTable(Record):
    """Reports with the settings that made them: what `mbbq-gen robustness --json` writes."""

    schema_version: Literal["mbbq-gen.robustness/1"] = "mbbq-gen.robustness/1"
    interval: float
    resamples: int
    seed: int
    undetected: str
    signs: dict[str, str]
    """Metric → what a positive, or a high, value says."""
    groups: tuple[RobustnessReport, ...]
    ranks: tuple[RankStability, ...]


def robustness_reports(
    frame: polars.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: Sampling
) -> list[RobustnessReport]:
    """A report for each group; `by` should hold model and split, where there are several."""
    import polars as pl

    columns = grouping_columns(by)
    keyed = frame.with_columns(pl.col(column).cast(pl.String) for column in columns.values())
    parts = keyed.partition_by(list(columns.values()), as_dict=True) if columns else {(): keyed}
    ordered = sorted(parts.items(), key=lambda item: [(value is None, str(value)) for value in item[0]])
    return [_report(part, dict(zip(columns, values, strict=True)), metrics, sampling) for values, part in ordered]


def _report(
    frame: polars.DataFrame, group: dict[str, str | None], metrics: Sequence[Metric], sampling: Sampling
) -> RobustnessReport:
    factors = [factor for factor in FACTORS if frame[factor].n_unique() > 1]
    answers = choices(frame)
    notes, components = [], []
    for metric in metrics:
        try:
            components.append(variance_components(frame, metric, sampling))
        except UsageError as error:
            notes.append(str(error))
    tables = [effect_table(frame, metric, sampling) for metric in metrics]
    notes += dict.fromkeys(table for table in tables if isinstance(table, str))
    found = [flips(answers, factor, sampling) for factor in factors]
    return RobustnessReport(
        group=group,
        n_items=frame.height,
        spreads=tuple(spread(frame, metric, factor, sampling) for metric in metrics for factor in factors),
        flips=tuple(flip for flip in found if flip is not None),
        components=tuple(components),
        effects=tuple(table for table in tables if isinstance(table, EffectTable)),
        notes=tuple(notes),
    )


def spread(frame: polars.DataFrame, metric: Metric, factor: Factor, sampling: Sampling) -> Spread:
    """A metric over the values of a factor."""
    import numpy as np

    panel = make_panel(frame, [factor], sampling)
    names = [group[factor] for group in panel.groups]
    estimates = panel.estimates(metric)
    rates = METRICS["detection_rate"].value(panel.total)
    defined = [
        (name, estimate) for name, estimate in zip(names, estimates, strict=True) if not np.isnan(estimate.value)
    ]
    values = [estimate.value for _, estimate in defined]
    worst = _worst(metric, defined)
    hypothesis = f"{metric.name} does not differ between values of {factor}"
    shared = panel.restricted(_templates_of_all(panel.by_template.values.sum(axis=2), panel.templates))
    return Spread(
        metric=metric.name,
        factor=factor,
        levels=tuple(
            FactorLevel(
                level=name, score=estimate.score(sampling), detection_rate=None if np.isnan(rate) else float(rate)
            )
            for name, estimate, rate in zip(names, estimates, rates, strict=True)
        ),
        mean=mean([estimate for _, estimate in defined]).score(sampling)
        if defined
        else no_score("undefined throughout"),
        sd=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        lowest=min(values, default=None),
        highest=max(values, default=None),
        worst=worst[1].value if worst else None,
        worst_level=worst[0] if worst else None,
        tests=(
            are_equal(shared.estimates(metric), hypothesis, seed=sampling.seed),
            friedman(shared.template_scores(metric).T, hypothesis),
        ),
    )


def _templates_of_all(answered: Array, templates: Sequence[str]) -> list[str]:
    """The templates with answers in all groups; `answered` is groups × templates."""
    return [name for place, name in enumerate(templates) if (answered[:, place] > 0).all()]


def _worst(metric: Metric, defined: Sequence[tuple[str | None, Estimate]]) -> tuple[str | None, Estimate] | None:
    if not defined:
        return None
    if metric.low < 0:
        return max(defined, key=lambda item: abs(item[1].value))
    return min(defined, key=lambda item: item[1].value)


def rank_stability(frame: polars.DataFrame, metric: Metric, factor: Factor, sampling: Sampling) -> RankStability | None:
    """Kendall's W of the ranks that the values of a factor give to the models; None with one model or one value."""
    import numpy as np

    panel = make_panel(frame, ["model", factor], sampling)
    values = metric.value(panel.total)
    models = sorted({str(group["model"]) for group in panel.groups})
    levels = sorted({str(group[factor]) for group in panel.groups})
    if len(models) < 2 or len(levels) < 2:
        return None
    table = np.full((len(levels), len(models)), np.nan)
    for group, value in zip(panel.groups, values, strict=True):
        table[levels.index(str(group[factor])), models.index(str(group["model"]))] = value
    whole = table[~np.isnan(table).any(axis=1)]
    hypothesis = f"the values of {factor} do not rank the models by {metric.name}"
    return RankStability(
        metric=metric.name,
        factor=factor,
        models=tuple(models),
        levels=tuple(levels),
        kendall_w=kendall_w(whole) if whole.size else None,
        test=friedman(whole, hypothesis, unit="level"),
    )
