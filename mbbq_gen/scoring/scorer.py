"""From a table of observations to scores: metrics, bounds, intervals, warnings, published against corrected labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.records import NOT_HAD
from mbbq_gen.scoring.bootstrap import Interval, percentile_interval, resample_weights
from mbbq_gen.scoring.cells import COUNT_NAMES, Counts, Undetected, scenario_matrix
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.observations import Labels, relabel
from mbbq_gen.scoring.table import (
    FEW_TEMPLATES,
    WARNINGS,
    Bounds,
    FractionCounts,
    GroupScore,
    LabelDifference,
    MetricDefinition,
    MetricScore,
    ScoreTable,
    WarningCode,
)
from mbbq_gen.scoring.tally import CLUSTER, Tally, grouping_columns, tally_groups

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array


@dataclass(frozen=True)
class Settings:
    """How scores are made."""

    metrics: tuple[Metric, ...]
    undetected: Undetected
    interval: float | None
    resamples: int
    seed: int


def score(
    frame: polars.DataFrame,
    by: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    *,
    interval: float | None = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    undetected: Undetected = "discard",
    labels: Labels | None = None,
) -> ScoreTable:
    """The scores of an observations table, by any of GROUPINGS; no `by` gives one group of everything.

    `metrics` None: all of METRICS. `interval` None: no intervals. `undetected` says whether undetected answers leave
    the denominators of bias or stay. `labels` None: as the table was observed.

    Raises:
        UsageError: for settings out of range, an unknown grouping or metric, or a table observed with both labels.
    """
    settings = Settings(choose_metrics(metrics), undetected, interval, resamples, seed)
    _check(settings)
    columns = grouping_columns(by)
    if labels is not None:
        frame = relabel(frame, labels)
    tallies = list(tally_groups(frame, columns))
    groups = _score_groups(tallies, settings)
    codes = {code for group in groups for code in group.warnings}
    codes |= {code for group in groups for found in group.metrics.values() for code in found.warnings}
    return ScoreTable(
        by=tuple(columns),
        labels=_labels_of(frame),
        undetected=undetected,
        interval=interval,
        interval_method="percentile",
        resamples=resamples,
        seed=seed,
        cluster=CLUSTER,
        definitions={metric.name: _definition(metric) for metric in settings.metrics},
        groups=groups,
        label_differences=_label_differences(frame, columns, settings),
        warnings={code: text for code, text in WARNINGS.items() if code in codes},
    )


def _definition(metric: Metric) -> MetricDefinition:
    return MetricDefinition(formula=metric.formula, source=metric.source, meaning=metric.meaning, sign=metric.sign)


def _check(settings: Settings) -> None:
    """Looks whether every setting makes sense."""
    if settings.interval is not None and not 0 < settings.interval < 1:
        raise UsageError(f"interval: {settings.interval} is not between 0 and 1; 0.95 is usual")
    if settings.resamples < 1:
        raise UsageError(f"resamples: {settings.resamples} is less than 1; 2000 is usual")
    if settings.undetected not in get_args(Undetected):
        raise UnknownNameError("setting of undetected", settings.undetected, get_args(Undetected))


def _labels_of(frame: polars.DataFrame) -> Labels | None:
    found: list[Labels] = frame["labels"].unique().to_list()
    if len(found) > 1:
        raise UsageError("the table holds rows read with published and with corrected labels; choose one of the two")
    return found[0] if found else None


def _score_groups(tallies: Sequence[Tally], settings: Settings) -> tuple[GroupScore, ...]:
    """The scores in the tallies' order; groups with the same templates share their draws."""
    scored: dict[int, GroupScore] = {}
    drawn: tuple[tuple[str, ...], Array] | None = None
    for number in sorted(range(len(tallies)), key=lambda number: tallies[number].templates):
        tally, weights = tallies[number], None
        if settings.interval is not None and len(tally.templates) > 1:
            if drawn is None or drawn[0] != tally.templates:
                drawn = (tally.templates, resample_weights(tally.templates, settings.resamples, settings.seed))
            weights = drawn[1]
        scored[number] = _score_group(tally, weights, settings)
    return tuple(scored[number] for number in range(len(tallies)))


@dataclass(frozen=True)
class GroupCounts:
    """The named counts of one group: by template, altogether, and in every resample (None: no interval is made)."""

    tally: Tally
    by_template: Counts
    total: Counts
    resampled: Counts | None


def _score_group(tally: Tally, weights: Array | None, settings: Settings) -> GroupScore:
    counts = GroupCounts(
        tally=tally,
        by_template=tally.counts(settings.undetected),
        total=tally.counts(settings.undetected, tally.total),
        resampled=None if weights is None else tally.counts(settings.undetected, weights @ tally.cells),
    )
    return GroupScore(
        group=tally.group,
        n_items=sum(tally.outcomes.values()),
        n_instances=tally.n_instances,
        n_templates=len(tally.templates),
        outcomes=tally.outcomes,
        counts={name: int(counts.total[name]) for name in COUNT_NAMES},
        metrics={metric.name: _score_metric(metric, counts, settings) for metric in settings.metrics},
        warnings=tuple(_group_warnings(tally, counts.total)),
    )


def _score_metric(metric: Metric, counts: GroupCounts, settings: Settings) -> MetricScore:
    value = _number(metric.value(counts.total))
    n_templates = int(metric.has_rows(counts.by_template).sum())
    interval = None
    if counts.resampled is not None and settings.interval is not None and value is not None and n_templates > 1:
        interval = percentile_interval(metric.value(counts.resampled), settings.interval)
    return MetricScore(
        value=value,
        low=interval and _number(interval.low),
        high=interval and _number(interval.high),
        bounds=_bounds(metric, counts.tally),
        fractions=tuple(
            FractionCounts(
                formula=fraction.formula(settings.undetected),
                numerator=int(fraction.numerator(counts.total)),
                denominator=int(fraction.denominator(counts.total)),
            )
            for fraction in metric.fractions
        ),
        n_templates=n_templates,
        dropped=interval.dropped if interval else 0,
        warnings=tuple(_metric_warnings(interval, n_templates, settings)),
    )


def _bounds(metric: Metric, tally: Tally) -> Bounds | None:
    """The score with all undetected answers moved to either extreme; then there is nothing to discard or keep."""
    if metric.extremes is None:
        return None
    low_if, high_if = metric.extremes
    low, high = (
        _number(metric.value(tally.counts("keep", tally.total @ scenario_matrix(scenario))))
        for scenario in metric.extremes
    )
    return Bounds(low=low, high=high, low_if=low_if, high_if=high_if)


def _number(value: Array | float) -> float | None:
    """A number as it leaves: None for an undefined one, and no negative zero."""
    number = float(value)
    return None if math.isnan(number) else number + 0.0


def _metric_warnings(interval: Interval | None, n_templates: int, settings: Settings) -> Iterator[WarningCode]:
    if settings.interval is None:
        return
    if n_templates < 2:
        yield "one_template"
    elif n_templates < FEW_TEMPLATES:
        yield "few_templates"
    if interval and interval.low == interval.high:
        yield "no_spread"
    if interval and interval.dropped:
        yield "undefined_resamples"


def _group_warnings(tally: Tally, total: Counts) -> Iterator[WarningCode]:
    pooled: dict[str, WarningCode] = {
        "split": "mixed_splits",
        "model": "mixed_models",
        "benchmark": "mixed_benchmarks",
    }
    for name, code in pooled.items():
        if tally.pooled[name] > 1:
            yield code
    if any(tally.outcomes[outcome] for outcome in NOT_HAD):
        yield "not_had"
    if total["biased_contexts"] != total["counter_biased_contexts"]:
        yield "unbalanced_contexts"
    if tally.n_corrected:
        yield "wrong_labels"


def _label_differences(
    frame: polars.DataFrame, columns: dict[str, str], settings: Settings
) -> tuple[LabelDifference, ...]:
    if not frame["corrected_index"].is_not_null().any():
        return ()
    readings: list[tuple[Labels, polars.DataFrame]] = [
        ("published", relabel(frame, "published")),
        ("corrected", relabel(frame, "corrected")),
    ]
    published, corrected = (list(tally_groups(reading, columns)) for _, reading in readings)
    return tuple(_differences(published, corrected, settings))


def _differences(
    published: Sequence[Tally], corrected: Sequence[Tally], settings: Settings
) -> Iterator[LabelDifference]:
    for before, after in zip(published, corrected, strict=True):
        for metric in settings.metrics:
            values = (metric.value(tally.counts(settings.undetected, tally.total)) for tally in (before, after))
            old, new = (_number(value) for value in values)
            if old != new:
                yield LabelDifference(
                    group=before.group,
                    metric=metric.name,
                    published=old,
                    corrected=new,
                    n_corrected=before.n_corrected,
                )


def compare_labels(
    frame: polars.DataFrame,
    by: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    undetected: Undetected = "discard",
) -> tuple[LabelDifference, ...]:
    """The scores that differ between published and corrected labels; empty where none does.

    Raises:
        UsageError: as `score` does.
    """
    settings = Settings(choose_metrics(metrics), undetected, None, 1, 0)
    _check(settings)
    return _label_differences(frame, grouping_columns(by), settings)
