"""From a table of observations to scores: metrics, bounds, intervals, warnings, published against corrected labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

import numpy as np
import polars as pl

from mbbq_gen.analysis.score_table import (
    WARNINGS,
    Bounds,
    FractionCounts,
    GoldDifference,
    GroupScore,
    MetricDefinition,
    MetricScore,
    ScoreTable,
    WarningCode,
)
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.records import NO_RESPONSE
from mbbq_gen.scoring.cells import COUNT_NAMES, Array, Counts, Scenario, UnparsedPolicy, count_matrix, scenario_matrix
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES, PromptEffects, TooFew
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.observations import GoldLabels, relabel
from mbbq_gen.scoring.tally import CLUSTER, Tally, grouping_columns, tally_groups
from mbbq_gen.statistics.crossed_effects import MIN_PROMPT_VARIANTS, CrossedEffect, crossings, widen_for_prompts
from mbbq_gen.statistics.influence import influence, least_even, n_templates_effective, share_of, standard_error
from mbbq_gen.statistics.intervals import (
    LOW_PARSING,
    BoundaryInterval,
    IntervalMethod,
    Intervals,
    ScenarioEstimate,
    boundary_interval,
    expanded_tail,
    interval_hull,
    intervals_between,
    missing_interval,
    resample_weights,
    t_interval,
    t_interval_units,
    t_quantile,
    within_confidence,
)
from mbbq_gen.statistics.panel import mean_over_templates, number, resample_counts, sizes_matter


@dataclass(frozen=True)
class ScoreSettings:
    """How scores are made."""

    metrics: tuple[Metric, ...]
    unparsed: UnparsedPolicy
    confidence_level: float | None
    n_resamples: int
    seed: int
    prompt_effects: PromptEffects = "fixed"


def score(
    frame: pl.DataFrame,
    by: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    *,
    confidence_level: float | None = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
    unparsed: UnparsedPolicy = "discard",
    gold: GoldLabels | None = None,
    prompt_effects: PromptEffects = "fixed",
) -> ScoreTable:
    """The scores of an observations table, by any of GROUPINGS; no `by` gives one group of everything.

    Args:
        frame: One row for each answer, or an aggregated table (`mbbq_gen.scoring.tally`).
        confidence_level: Of the intervals; None: no intervals.
        unparsed: Whether unparsed answers leave the denominators of bias or stay.
        gold: Which right answers count; None: those that the table was observed with.
        prompt_effects: Whether intervals hold for the prompt variants of the run only, or for others like them.

    Raises:
        UsageError: for settings out of range, an unknown grouping or metric, or a table with both kinds of gold labels.
    """
    settings = ScoreSettings(choose_metrics(metrics), unparsed, confidence_level, n_resamples, seed, prompt_effects)
    _check(settings)
    columns = grouping_columns(by)
    if gold is not None:
        frame = relabel(frame, gold)
    tallies = list(tally_groups(frame, columns, prompt_effects))
    groups = _score_groups(tallies, settings)
    codes = {code for group in groups for code in group.warnings}
    codes |= {code for group in groups for found in group.metrics.values() for code in found.warnings}
    found: list[GoldLabels] = frame["gold"].unique().to_list()
    if len(found) > 1:
        raise UsageError("the table holds rows with published and with corrected gold labels; choose one of the two")
    return ScoreTable(
        by=tuple(columns),
        gold=found[0] if found else None,
        unparsed=unparsed,
        confidence_level=confidence_level,
        interval_method="expanded_percentile",
        n_resamples=n_resamples,
        seed=seed,
        prompt_effects=prompt_effects,
        cluster=CLUSTER,
        definitions={metric.name: _definition(metric) for metric in settings.metrics},
        groups=groups,
        gold_differences=_label_differences(frame, columns, settings),
        warnings={code: text for code, text in WARNINGS.items() if code in codes},
    )


def _definition(metric: Metric) -> MetricDefinition:
    return MetricDefinition(formula=metric.formula, source=metric.source, meaning=metric.meaning, sign=metric.sign)


def _check(settings: ScoreSettings) -> None:
    """Looks whether every setting makes sense."""
    if settings.confidence_level is not None and not 0 < settings.confidence_level < 1:
        raise UsageError(f"confidence level: {settings.confidence_level} is not between 0 and 1; 0.95 is usual")
    if settings.n_resamples < 1:
        raise UsageError(f"number of resamples: {settings.n_resamples} is less than 1; 2000 is usual")
    if settings.unparsed not in get_args(UnparsedPolicy):
        raise UnknownNameError("policy for unparsed answers", settings.unparsed, get_args(UnparsedPolicy))
    if settings.prompt_effects not in get_args(PromptEffects):
        raise UnknownNameError("kind of prompt effects", settings.prompt_effects, get_args(PromptEffects))


BATCH_GROUPS = 64
"""Groups that are resampled together: enough to be fast, few enough to stay small in memory."""


@dataclass(frozen=True)
class GroupCounts:
    """The named counts of groups over the same templates."""

    tallies: list[Tally]
    by_template: Counts
    """Groups × templates."""
    total: Counts
    """Groups."""
    resampled: Counts | None
    """Groups × resamples; None where no interval is made."""
    n_requested: Counts
    """Groups, without the weights of a design."""
    crossed: Array | None = None
    """Groups × templates × prompt variants × CELLS, where prompt variants are random."""
    supposed: dict[Scenario, Counts] = field(default_factory=dict)
    """Groups × templates, if all unparsed answers had been of one kind: filled on request."""

    def supposing(self, scenario: Scenario) -> Counts:
        """The named counts of groups × templates, if all unparsed answers had been of that kind."""
        if scenario not in self.supposed:
            cells = np.stack([tally.cells for tally in self.tallies])
            self.supposed[scenario] = Counts(cells @ scenario_matrix(scenario) @ count_matrix(), "keep")
        return self.supposed[scenario]

    def crossings(self, metric: Metric, total: Counts, scenario: Scenario | None = None) -> list[CrossedEffect] | None:
        """What prompt variants make of a metric of every group, if all unparsed answers had been so; None: fixed."""
        if self.crossed is None:
            return None
        moved = self.crossed if scenario is None else self.crossed @ scenario_matrix(scenario)
        return crossings(metric, Counts(moved @ count_matrix(), total.unparsed), total)


def _score_groups(tallies: Sequence[Tally], settings: ScoreSettings) -> tuple[GroupScore, ...]:
    """The scores in the tallies' order; groups with the same templates share their draws."""
    scored: dict[int, GroupScore] = {}
    same: dict[tuple[str, ...], list[int]] = {}
    for row, tally in enumerate(tallies):
        same.setdefault(tally.templates, []).append(row)
    for templates, rows in same.items():
        weights = None
        if settings.confidence_level is not None and len(templates) >= MIN_TEMPLATES:
            weights = resample_weights(templates, settings.n_resamples, settings.seed)
        for start in range(0, len(rows), BATCH_GROUPS):
            part = rows[start : start + BATCH_GROUPS]
            found = _score_batch(_batch([tallies[row] for row in part], weights, settings), settings)
            scored.update(zip(part, found, strict=True))
    return tuple(scored[row] for row in range(len(tallies)))


def _batch(tallies: list[Tally], weights: Array | None, settings: ScoreSettings) -> GroupCounts:
    """Counts groups of the same templates, altogether and in every resample."""
    cells = np.stack([tally.cells for tally in tallies])
    by_template = tallies[0].counts(settings.unparsed, cells)
    resampled = None if weights is None else resample_counts(by_template, weights)
    total = Counts(by_template.values.sum(axis=1), settings.unparsed)
    requested = tallies[0].counts(settings.unparsed, np.stack([tally.n_requested.sum(axis=0) for tally in tallies]))
    by_variant = [tally.by_prompt_variant for tally in tallies if tally.by_prompt_variant is not None]
    return GroupCounts(tallies, by_template, total, resampled, requested, np.stack(by_variant) if by_variant else None)


def _score_batch(batch: GroupCounts, settings: ScoreSettings) -> list[GroupScore]:
    measured: dict[str, list[MetricScore]] = {}
    made: dict[tuple[object, ...], MetricEstimates] = {}
    for metric in settings.metrics:
        what = (metric.fractions, metric.combine)  # several names can stand for one formula
        if what not in made:
            made[what] = measure(metric, batch, settings)
        found = made[what]
        bounds = _bounds(metric, batch, settings)
        fractions = [
            (
                fraction.formula(settings.unparsed),
                fraction.numerator(batch.n_requested),
                fraction.denominator(batch.n_requested),
            )
            for fraction in metric.fractions
        ]
        measured[metric.name] = [
            _metric_score(place, found=found, bounds=bounds[place], fractions=fractions, settings=settings)
            for place in range(len(batch.tallies))
        ]
    return [
        GroupScore(
            group=tally.group,
            n_answers=sum(tally.outcomes.values()),
            n_instances=tally.n_instances,
            n_templates=len(tally.templates),
            outcomes=tally.outcomes,
            counts={name: int(batch.n_requested[name][place]) for name in COUNT_NAMES},
            metrics={name: scores[place] for name, scores in measured.items()},
            warnings=tuple(_group_warnings(tally, batch.n_requested, place)),
        )
        for place, tally in enumerate(batch.tallies)
    ]


@dataclass(frozen=True)
class MetricEstimates:
    """A metric of every group of a batch; NaN where undefined."""

    value: Array
    n_templates: Array
    effective: Array
    error: Array
    """Standard errors, over templates and, where these are random, prompt variants."""
    reach: Array | None
    """How far intervals reach by t distributions; None where there are none."""
    parse_rate: Array
    mean_over_templates: list[float]
    sizes_matter: list[bool]
    intervals: Intervals | None
    """With room for what was not seen, and what prompt variants add."""
    rooms: list[BoundaryInterval | None]
    """Where templates may lie far off the others: the interval that allows for one that was not seen."""
    within: list[float | None]
    """The margins that a bias is shown to be within; None for none."""
    crossings: list[CrossedEffect] | None
    """What prompt variants make of it; None where they are fixed."""


def measure(metric: Metric, batch: GroupCounts, settings: ScoreSettings) -> MetricEstimates:
    """A metric over all groups of a batch at once: value, standard error, interval."""
    value = metric.value(batch.total)
    effective = n_templates_effective(metric, batch.by_template)
    influences = influence(metric, batch.by_template, batch.total)
    alone = metric.value(batch.by_template)
    sizes = metric.fractions[0].denominator(batch.by_template)
    margins: list[float | None] = [None] * len(batch.tallies)
    error, crossed = standard_error(influences, effective), batch.crossings(metric, batch.total)
    intervals: Intervals | None = None
    rooms: list[BoundaryInterval | None] = []
    if batch.resampled is not None and settings.confidence_level is not None:
        wanted = np.where(np.isnan(value), np.nan, effective)
        narrow = within_confidence(settings.confidence_level) if metric.low < 0 else None
        levels = [settings.confidence_level, *([] if narrow is None else [narrow])]
        drawn, tails = metric.value(batch.resampled), [expanded_tail(level, wanted) for level in levels]
        found = intervals_between(drawn, tails)
        own = _own_scores(metric, batch.by_template, value, influences)
        whole = partial(
            _with_room, metric=metric, own=own, value=value, error=error, effective=effective, crossed=crossed
        )
        beyond = [tail * drawn.shape[-1] for tail in tails]
        intervals, rooms = whole(found[0], beyond=beyond[0], confidence=settings.confidence_level)
        if narrow is not None:
            within, _ = whole(found[1], beyond=beyond[1], confidence=narrow)
            margins = [number(margin) for margin in np.maximum(-within.low, within.high)]
    reach: Array | None = None
    if settings.confidence_level is not None:
        reach = error * t_quantile(settings.confidence_level, effective)
        if crossed is not None:
            reach = np.hypot(reach, [crossing.reach(settings.confidence_level) for crossing in crossed])
    return MetricEstimates(
        value=value,
        n_templates=metric.has_rows(batch.by_template).sum(axis=-1),
        effective=effective,
        error=error if crossed is None else np.hypot(error, [crossing.variance**0.5 for crossing in crossed]),
        reach=reach,
        parse_rate=metric.parse_rate(batch.total),
        mean_over_templates=[mean_over_templates(row) for row in alone],
        sizes_matter=[sizes_matter(*pair) for pair in zip(alone, sizes, strict=True)],
        intervals=intervals,
        rooms=rooms,
        within=margins,
        crossings=crossed,
    )


def _own_scores(metric: Metric, by_template: Counts, value: Array, influences: Array) -> tuple[Array, Array]:
    """What each template says for itself, to first order, and its share of the score: groups × templates."""
    shares = least_even([share_of(fraction.denominator(by_template)) for fraction in metric.fractions])
    return value[:, None] + np.divide(
        influences, shares, out=np.full_like(influences, np.nan), where=shares > 0
    ), shares


def _with_room(
    found: Intervals,
    *,
    metric: Metric,
    own: tuple[Array, Array],
    value: Array,
    error: Array,
    effective: Array,
    beyond: Array,
    crossed: list[CrossedEffect] | None,
    confidence: float,
) -> tuple[Intervals, list[BoundaryInterval | None]]:
    """The intervals as they are shown: as wide as few templates, what was not seen and prompt variants make them; and
    the room.

    `beyond`: of each score, the resamples beyond either end of its interval.
    """
    ends = metric.low, metric.high
    rooms = [boundary_interval(*pair, confidence, ends) for pair in zip(*own, strict=True)]
    wide = []
    for place, (room, sizes) in enumerate(zip(rooms, own[1], strict=True)):
        templates = int((sizes > 0).sum())
        units = t_interval_units(templates, float(effective[place]), float(beyond[place]))
        least = t_interval(float(value[place]), float(error[place]), units, confidence, ends)
        drawn = (float(found.low[place]), float(found.high[place]))
        interval = interval_hull(drawn, least, None if room is None else room.ends)
        if crossed is not None:
            interval = widen_for_prompts(float(value[place]), interval, crossed[place].reach(confidence), ends)
        wide.append(interval)
    low, high = np.array(wide).reshape(-1, 2).T
    return Intervals(low, high, found.n_resamples_dropped), rooms


def _metric_score(
    place: int,
    *,
    found: MetricEstimates,
    bounds: Bounds | None,
    fractions: list[tuple[str, Array, Array]],
    settings: ScoreSettings,
) -> MetricScore:
    n_templates, intervals = int(found.n_templates[place]), found.intervals
    n_variants = None if found.crossings is None else found.crossings[place].count
    too_few: TooFew | None = None
    if n_templates < MIN_TEMPLATES:
        too_few = "too_few_templates"
    elif n_variants is not None and n_variants < MIN_PROMPT_VARIANTS:
        too_few = "too_few_prompt_variants"
    has_interval = intervals is not None and too_few is None
    low = number(intervals.low[place]) if has_interval and intervals else None
    high = number(intervals.high[place]) if has_interval and intervals else None
    room = found.rooms[place] if has_interval else None
    method: IntervalMethod | None = None
    if low is not None and room is not None:
        method = "near_boundary"
    elif low is not None:
        method = "few_templates" if n_templates < FEW_TEMPLATES else "expanded_percentile"
    dropped = int(intervals.n_resamples_dropped[place]) if low is not None and intervals else 0
    bounds = None if bounds is None else _round_the_plain_interval(bounds, low, high)
    value, error = number(found.value[place]), None if too_few else number(found.error[place])
    margin = None if found.reach is None or error is None else float(found.reach[place])
    return MetricScore(
        value=value,
        ci_low=low,
        ci_high=high,
        reason_code="undefined" if value is None else too_few if settings.confidence_level is not None else None,
        method=method,
        standard_error=error,
        t_ci_low=None if margin is None or value is None else number(value - margin),
        t_ci_high=None if margin is None or value is None else number(value + margin),
        equivalence_bound=None if too_few else found.within[place],
        parse_rate=(read := number(found.parse_rate[place])),
        mean_over_templates=number(found.mean_over_templates[place]),
        bounds=bounds,
        fractions=tuple(
            FractionCounts(formula=formula, numerator=int(above[place]), denominator=int(below[place]))
            for formula, above, below in fractions
        ),
        n_templates=n_templates,
        n_templates_effective=number(found.effective[place]),
        n_prompt_variants=n_variants,
        n_resamples_dropped=dropped,
        warnings=(
            *_metric_warnings(room, dropped, n_templates, read, settings),
            *(
                ("too_few_prompt_variants",)
                if too_few == "too_few_prompt_variants" and settings.confidence_level is not None
                else ()
            ),
            *(("template_size_effect",) if found.sizes_matter[place] and settings.confidence_level is not None else ()),
        ),
    )


def _round_the_plain_interval(bounds: Bounds, low: float | None, high: float | None) -> Bounds:
    """Bounds whose interval holds the score's own one; where all was read, it is that one."""
    own = (low, high)
    if low is not None and high is not None and bounds.low != bounds.high:
        ends = (bounds.interval_low, bounds.interval_high)
        own = (low if ends[0] is None else min(ends[0], low), high if ends[1] is None else max(ends[1], high))
    return bounds.model_copy(update={"interval_low": own[0], "interval_high": own[1]})


def _bounds(metric: Metric, batch: GroupCounts, settings: ScoreSettings) -> list[Bounds | None]:
    """The score with all unparsed answers moved to either extreme; then there is nothing to discard or keep."""
    if metric.extremes is None:
        return [None] * len(batch.tallies)
    low_scenario, high_scenario = metric.extremes
    low, high = (_supposed(metric, batch, scenario) for scenario in metric.extremes)
    ends = _missing_ends(metric, batch, low, high, settings.confidence_level)
    return [
        Bounds(
            low=number(low.end.value[place]),
            high=number(high.end.value[place]),
            low_scenario=low_scenario,
            high_scenario=high_scenario,
            interval_low=None if ends is None else number(ends[0][place]),
            interval_high=None if ends is None else number(ends[1][place]),
        )
        for place in range(len(batch.tallies))
    ]


@dataclass(frozen=True)
class ScenarioScores:
    """A metric of every group of a batch, if all unparsed answers had been of one kind."""

    end: ScenarioEstimate
    effective: Array
    own: tuple[Array, Array]
    """What each template says for itself, and its share."""
    crossings: list[CrossedEffect] | None


def _supposed(metric: Metric, batch: GroupCounts, scenario: Scenario) -> ScenarioScores:
    by_template = batch.supposing(scenario)
    total = Counts(by_template.values.sum(axis=1), "keep")
    value, influences = metric.value(total), influence(metric, by_template, total)
    effective = n_templates_effective(metric, by_template)
    end = ScenarioEstimate(value, standard_error(influences, effective))
    own = _own_scores(metric, by_template, value, influences)
    return ScenarioScores(end, effective, own, batch.crossings(metric, total, scenario))


def _missing_ends(
    metric: Metric, batch: GroupCounts, low: ScenarioScores, high: ScenarioScores, confidence: float | None
) -> tuple[Array, Array] | None:
    """Both ends of the interval for sampling and unparsed answers, kept where the metric can go."""
    if confidence is None or len(batch.tallies[0].templates) < MIN_TEMPLATES:
        return None
    lower, upper = missing_interval(low.end, high.end, np.fmin(low.effective, high.effective), confidence)
    for place in np.flatnonzero(high.end.value != low.end.value):  # where all was read, the score's own interval stands
        below, above = (
            boundary_interval(own[place], shares[place], confidence, (metric.low, metric.high))
            for own, shares in (low.own, high.own)
        )
        lower[place] = lower[place] if below is None else min(lower[place], below.low)
        upper[place] = upper[place] if above is None else max(upper[place], above.high)
    if low.crossings is not None and high.crossings is not None:
        beyond = [[crossing.reach(confidence) for crossing in end.crossings or ()] for end in (low, high)]
        lower = low.end.value - np.hypot(low.end.value - lower, beyond[0])
        upper = high.end.value + np.hypot(upper - high.end.value, beyond[1])
    is_enough = metric.has_rows(batch.by_template).sum(axis=-1) >= MIN_TEMPLATES
    return (
        np.where(is_enough, np.maximum(lower, metric.low), np.nan),
        np.where(is_enough, np.minimum(upper, metric.high), np.nan),
    )


def _metric_warnings(
    room: BoundaryInterval | None, dropped: int, n_templates: int, read: float | None, settings: ScoreSettings
) -> Iterator[WarningCode]:
    if read is not None and read < LOW_PARSING:
        yield "low_parse_rate"
    if settings.confidence_level is None:
        return
    if n_templates < MIN_TEMPLATES:
        yield "too_few_templates"
    elif n_templates < FEW_TEMPLATES:
        yield "few_templates"
    if room is not None and room.rests_on_unseen:
        yield "near_boundary"
    if dropped:
        yield "undefined_resamples"


def _group_warnings(tally: Tally, total: Counts, place: int) -> Iterator[WarningCode]:
    pooled: dict[str, WarningCode] = {
        "split": "mixed_splits",
        "model": "mixed_models",
        "benchmark": "mixed_benchmarks",
        "method": "mixed_methods",
    }
    for name, code in pooled.items():
        if tally.pooled_over[name] > 1:
            yield code
    if any(tally.outcomes[outcome] for outcome in NO_RESPONSE):
        yield "missing_responses"
    if total["biased_contexts"][place] != total["counter_biased_contexts"][place]:
        yield "unbalanced_contexts"
    if tally.n_corrected:
        yield "mislabeled_instances"


def _label_differences(
    frame: pl.DataFrame, columns: dict[str, str], settings: ScoreSettings
) -> tuple[GoldDifference, ...]:
    if not frame["corrected_index"].is_not_null().any():
        return ()
    published, corrected = (list(tally_groups(relabel(frame, gold), columns)) for gold in get_args(GoldLabels))
    found = []
    for before, after in zip(published, corrected, strict=True):
        for metric in settings.metrics:
            values = (metric.value(tally.counts(settings.unparsed, tally.total)) for tally in (before, after))
            old, new = (number(value) for value in values)
            if old != new:
                found.append(
                    GoldDifference(
                        group=before.group,
                        metric=metric.name,
                        published=old,
                        corrected=new,
                        n_corrected=before.n_corrected,
                    )
                )
    return tuple(found)
