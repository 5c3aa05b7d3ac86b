"""From a table of observations to scores: metrics, bounds, intervals, warnings, published against corrected labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, get_args

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.records import NOT_HAD
from mbbq_gen.scoring.bootstrap import (
    IntervalMethod,
    Intervals,
    expanded_tail,
    hull,
    intervals_between,
    resample_weights,
    t_interval,
    t_interval_units,
    t_quantile,
    within_confidence,
)
from mbbq_gen.scoring.cells import COUNT_NAMES, Counts, Scenario, Undetected, count_matrix, scenario_matrix
from mbbq_gen.scoring.edge import Room, edge_interval
from mbbq_gen.scoring.influence import effective_templates, influence, least_even, share_of, standard_error
from mbbq_gen.scoring.metrics import Metric, choose_metrics
from mbbq_gen.scoring.missing import LOW_DETECTION, OneEnd, missing_interval
from mbbq_gen.scoring.observations import Labels, relabel
from mbbq_gen.scoring.reasons import FEW_TEMPLATES, MIN_TEMPLATES, TooFew
from mbbq_gen.scoring.table import (
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
from mbbq_gen.scoring.template_sizes import sizes_matter, template_mean
from mbbq_gen.scoring.wordings import MIN_WORDINGS, Crossing, Wordings, crossings, moved_out

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
    wordings: Wordings = "fixed"


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
    wordings: Wordings = "fixed",
) -> ScoreTable:
    """The scores of an observations table, by any of GROUPINGS; no `by` gives one group of everything.

    `metrics` None: all of METRICS. `interval` None: no intervals. `undetected` says whether undetected answers leave
    the denominators of bias or stay. `labels` None: as the table was observed. `wordings`: whether intervals speak of
    the wordings that were asked, or of wordings like these.

    Raises:
        UsageError: for settings out of range, an unknown grouping or metric, or a table observed with both labels.
    """
    settings = Settings(choose_metrics(metrics), undetected, interval, resamples, seed, wordings)
    _check(settings)
    columns = grouping_columns(by)
    if labels is not None:
        frame = relabel(frame, labels)
    tallies = list(tally_groups(frame, columns, wordings))
    groups = _score_groups(tallies, settings)
    codes = {code for group in groups for code in group.warnings}
    codes |= {code for group in groups for found in group.metrics.values() for code in found.warnings}
    return ScoreTable(
        by=tuple(columns),
        labels=_labels_of(frame),
        undetected=undetected,
        interval=interval,
        interval_method="expanded_percentile",
        resamples=resamples,
        seed=seed,
        wordings=wordings,
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
    if settings.wordings not in get_args(Wordings):
        raise UnknownNameError("setting of wordings", settings.wordings, get_args(Wordings))


def _labels_of(frame: polars.DataFrame) -> Labels | None:
    found: list[Labels] = frame["labels"].unique().to_list()
    if len(found) > 1:
        raise UsageError("the table holds rows read with published and with corrected labels; choose one of the two")
    return found[0] if found else None


BATCH_GROUPS = 64
"""Groups that are resampled together: enough to be fast, few enough to stay small in memory."""


@dataclass(frozen=True)
class Batch:
    """The named counts of groups over the same templates."""

    tallies: list[Tally]
    by_template: Counts
    """Groups × templates."""
    total: Counts
    """Groups."""
    resampled: Counts | None
    """Groups × resamples; None where no interval is made."""
    asked: Counts
    """Groups, without the weights of a design."""
    crossed: Array | None = None
    """Groups × templates × wordings × CELLS, where wordings are random."""
    supposed: dict[Scenario, Counts] = field(default_factory=dict)
    """Groups × templates, had all undetected answers been of one kind: filled as it is asked for."""

    def supposing(self, scenario: Scenario) -> Counts:
        """The named counts of groups × templates, had all undetected answers been of that kind."""
        import numpy as np

        if scenario not in self.supposed:
            cells = np.stack([tally.cells for tally in self.tallies])
            self.supposed[scenario] = Counts(cells @ scenario_matrix(scenario) @ count_matrix(), "keep")
        return self.supposed[scenario]

    def crossings(self, metric: Metric, total: Counts, scenario: Scenario | None = None) -> list[Crossing] | None:
        """What wordings make of a metric of every group, had all undetected answers been so; None: held fixed."""
        if self.crossed is None:
            return None
        moved = self.crossed if scenario is None else self.crossed @ scenario_matrix(scenario)
        return crossings(metric, Counts(moved @ count_matrix(), total.undetected), total)


def _score_groups(tallies: Sequence[Tally], settings: Settings) -> tuple[GroupScore, ...]:
    """The scores in the tallies' order; groups with the same templates share their draws."""
    scored: dict[int, GroupScore] = {}
    same: dict[tuple[str, ...], list[int]] = {}
    for number, tally in enumerate(tallies):
        same.setdefault(tally.templates, []).append(number)
    for templates, numbers in same.items():
        weights = None
        if settings.interval is not None and len(templates) >= MIN_TEMPLATES:
            weights = resample_weights(templates, settings.resamples, settings.seed)
        for start in range(0, len(numbers), BATCH_GROUPS):
            part = numbers[start : start + BATCH_GROUPS]
            found = _score_batch(_batch([tallies[number] for number in part], weights, settings), settings)
            scored.update(zip(part, found, strict=True))
    return tuple(scored[number] for number in range(len(tallies)))


def _batch(tallies: list[Tally], weights: Array | None, settings: Settings) -> Batch:
    """Counts groups of the same templates, altogether and in every resample."""
    import numpy as np

    cells = np.stack([tally.cells for tally in tallies])
    by_template = tallies[0].counts(settings.undetected, cells)
    resampled = None
    if weights is not None:
        resampled = resample_counts(by_template, weights)
    total = Counts(by_template.values.sum(axis=1), settings.undetected)
    asked = tallies[0].counts(settings.undetected, np.stack([tally.asked.sum(axis=0) for tally in tallies]))
    by_wording = [tally.by_wording for tally in tallies if tally.by_wording is not None]
    return Batch(tallies, by_template, total, resampled, asked, np.stack(by_wording) if by_wording else None)


def resample_counts(by_template: Counts, weights: Array) -> Counts:
    """The counts of groups × templates in every resample: groups × resamples."""
    groups, templates, names = by_template.values.shape
    flat = by_template.values.transpose(2, 0, 1).reshape(-1, templates)  # by count first: fast to multiply and to read
    drawn = (flat @ weights.T).reshape(names, groups, -1)
    return Counts(drawn.transpose(1, 2, 0), by_template.undetected)


def _score_batch(batch: Batch, settings: Settings) -> list[GroupScore]:
    measured: dict[str, list[MetricScore]] = {}
    made: dict[tuple[object, ...], Measured] = {}
    for metric in settings.metrics:
        what = (metric.fractions, metric.combine)  # several names can stand for one formula
        if what not in made:
            made[what] = measure(metric, batch, settings)
        measured[metric.name] = _metric_scores(metric, batch, made[what], settings)
    return [
        GroupScore(
            group=tally.group,
            n_items=sum(tally.outcomes.values()),
            n_instances=tally.n_instances,
            n_templates=len(tally.templates),
            outcomes=tally.outcomes,
            counts={name: int(batch.asked[name][place]) for name in COUNT_NAMES},
            metrics={name: scores[place] for name, scores in measured.items()},
            warnings=tuple(_group_warnings(tally, batch.asked, place)),
        )
        for place, tally in enumerate(batch.tallies)
    ]


@dataclass(frozen=True)
class Measured:
    """A metric of every group of a batch; NaN where undefined."""

    value: Array
    n_templates: Array
    effective: Array
    error: Array
    """Standard errors, over templates and, where these are random, wordings."""
    reach: Array | None
    """How far intervals reach by t distributions; None where there are none."""
    share_read: Array
    template_mean: list[float]
    sizes_matter: list[bool]
    intervals: Intervals | None
    """With room for what was not seen, and what wordings add."""
    rooms: list[Room | None]
    """Where templates may lie far off the others: the interval that allows for one that was not seen."""
    within: list[float | None]
    """The margins that a bias is shown to be within; None for none."""
    crossings: list[Crossing] | None
    """What wordings make of it; None where they are held fixed."""


def measure(metric: Metric, batch: Batch, settings: Settings) -> Measured:
    """A metric over all groups of a batch at once: value, standard error, interval."""
    import numpy as np

    value = metric.value(batch.total)
    effective = effective_templates(metric, batch.by_template)
    pulls = influence(metric, batch.by_template, batch.total)
    alone = metric.value(batch.by_template)
    sizes = metric.fractions[0].denominator(batch.by_template)
    margins: list[float | None] = [None] * len(batch.tallies)
    error, crossed = standard_error(pulls, effective), batch.crossings(metric, batch.total)
    intervals: Intervals | None = None
    rooms: list[Room | None] = []
    if batch.resampled is not None and settings.interval is not None:
        wanted = np.where(np.isnan(value), np.nan, effective)
        narrow = within_confidence(settings.interval) if metric.low < 0 else None
        levels = [settings.interval, *([] if narrow is None else [narrow])]
        drawn, tails = metric.value(batch.resampled), [expanded_tail(level, wanted) for level in levels]
        found = intervals_between(drawn, tails)
        own = _own_scores(metric, batch.by_template, value, pulls)
        whole = partial(
            _with_room, metric=metric, own=own, value=value, error=error, effective=effective, crossed=crossed
        )
        beyond = [tail * drawn.shape[-1] for tail in tails]
        intervals, rooms = whole(found[0], beyond=beyond[0], confidence=settings.interval)
        if narrow is not None:
            within, _ = whole(found[1], beyond=beyond[1], confidence=narrow)
            margins = [_number(margin) for margin in np.maximum(-within.low, within.high)]
    return Measured(
        value=value,
        n_templates=metric.has_rows(batch.by_template).sum(axis=-1),
        effective=effective,
        error=error if crossed is None else np.hypot(error, [crossing.variance**0.5 for crossing in crossed]),
        reach=None if settings.interval is None else _reach(error, effective, crossed, settings.interval),
        share_read=metric.share_read(batch.total),
        template_mean=[template_mean(row) for row in alone],
        sizes_matter=[sizes_matter(*pair) for pair in zip(alone, sizes, strict=True)],
        intervals=intervals,
        rooms=rooms,
        within=margins,
        crossings=crossed,
    )


def _own_scores(metric: Metric, by_template: Counts, value: Array, pulls: Array) -> tuple[Array, Array]:
    """What each template says for itself, to first order, and its share of the score: groups × templates."""
    import numpy as np

    shares = least_even([share_of(fraction.denominator(by_template)) for fraction in metric.fractions])
    return value[:, None] + np.divide(pulls, shares, out=np.full_like(pulls, np.nan), where=shares > 0), shares


def _with_room(
    found: Intervals,
    *,
    metric: Metric,
    own: tuple[Array, Array],
    value: Array,
    error: Array,
    effective: Array,
    beyond: Array,
    crossed: list[Crossing] | None,
    confidence: float,
) -> tuple[Intervals, list[Room | None]]:
    """The intervals as they leave: as wide as few templates, what was not seen and wordings make them; and the room.

    `beyond`: of each score, the resamples beyond either end of its interval.
    """
    import numpy as np

    ends, movers = (metric.low, metric.high), _movers(metric, value, crossed, confidence)
    rooms = [edge_interval(*pair, confidence, ends) for pair in zip(*own, strict=True)]
    wide = []
    for place, (room, sizes) in enumerate(zip(rooms, own[1], strict=True)):
        templates = int((sizes > 0).sum())
        units = t_interval_units(templates, float(effective[place]), float(beyond[place]))
        least = t_interval(float(value[place]), float(error[place]), units, confidence, ends)
        drawn = (float(found.low[place]), float(found.high[place]))
        wide.append(movers[place](hull(drawn, least, None if room is None else room.ends)))
    low, high = np.array(wide).reshape(-1, 2).T
    return Intervals(low, high, found.dropped), rooms


Mover = Callable[[tuple[float, float]], tuple[float, float]]
"""From an interval over templates to one over wordings too."""


def _movers(metric: Metric, value: Array, crossed: list[Crossing] | None, confidence: float) -> list[Mover]:
    """How the intervals of groups are moved out by what wordings add; not at all where they are held fixed."""
    if crossed is None:
        return [lambda interval: interval] * len(value)
    ends, reaches = (metric.low, metric.high), [crossing.reach(confidence) for crossing in crossed]
    return [partial(moved_out, float(one), reach=reach, ends=ends) for one, reach in zip(value, reaches, strict=True)]


def _reach(error: Array, effective: Array, crossed: list[Crossing] | None, confidence: float) -> Array:
    """How far intervals reach to either side by t distributions."""
    import numpy as np

    reach: Array = error * t_quantile(confidence, effective)
    return reach if crossed is None else np.hypot(reach, [crossing.reach(confidence) for crossing in crossed])


def _metric_scores(metric: Metric, batch: Batch, found: Measured, settings: Settings) -> list[MetricScore]:
    """The records of one metric, in the order of the batch."""
    bounds = _bounds(metric, batch, settings)
    fractions = [
        (fraction.formula(settings.undetected), fraction.numerator(batch.asked), fraction.denominator(batch.asked))
        for fraction in metric.fractions
    ]
    return [
        _metric_score(place, found=found, bounds=bounds[place], fractions=fractions, settings=settings)
        for place in range(len(batch.tallies))
    ]


def _metric_score(
    place: int,
    *,
    found: Measured,
    bounds: Bounds | None,
    fractions: list[tuple[str, Array, Array]],
    settings: Settings,
) -> MetricScore:
    n_templates, intervals = int(found.n_templates[place]), found.intervals
    n_wordings = None if found.crossings is None else found.crossings[place].count
    too_few = _too_few(n_templates, n_wordings)
    has_interval = intervals is not None and too_few is None
    low = _number(intervals.low[place]) if has_interval and intervals else None
    high = _number(intervals.high[place]) if has_interval and intervals else None
    room = found.rooms[place] if has_interval else None
    method = None if low is None else _method(room, n_templates)
    dropped = int(intervals.dropped[place]) if low is not None and intervals else 0
    bounds = None if bounds is None else _round_the_plain_interval(bounds, low, high)
    value, error = _number(found.value[place]), None if too_few else _number(found.error[place])
    margin = None if found.reach is None or error is None else float(found.reach[place])
    return MetricScore(
        value=value,
        low=low,
        high=high,
        reason_code="undefined" if value is None else too_few if settings.interval is not None else None,
        method=method,
        standard_error=error,
        analytic_low=None if margin is None or value is None else _number(value - margin),
        analytic_high=None if margin is None or value is None else _number(value + margin),
        smaller_than=None if too_few else found.within[place],
        share_read=(read := _number(found.share_read[place])),
        template_mean=_number(found.template_mean[place]),
        bounds=bounds,
        fractions=tuple(
            FractionCounts(formula=formula, numerator=int(above[place]), denominator=int(below[place]))
            for formula, above, below in fractions
        ),
        n_templates=n_templates,
        effective_templates=_number(found.effective[place]),
        n_wordings=n_wordings,
        dropped=dropped,
        warnings=(
            *_metric_warnings(room, dropped, n_templates, read, settings),
            *(("too_few_wordings",) if too_few == "too_few_wordings" and settings.interval is not None else ()),
            *(("template_sizes",) if found.sizes_matter[place] and settings.interval is not None else ()),
        ),
    )


def _round_the_plain_interval(bounds: Bounds, low: float | None, high: float | None) -> Bounds:
    """Bounds whose interval holds the score's own one; where all was read, it is that one."""
    own = (low, high)
    if low is not None and high is not None and bounds.low != bounds.high:
        ends = (bounds.interval_low, bounds.interval_high)
        own = (low if ends[0] is None else min(ends[0], low), high if ends[1] is None else max(ends[1], high))
    return bounds.model_copy(update={"interval_low": own[0], "interval_high": own[1]})


def _method(room: Room | None, n_templates: int) -> IntervalMethod:
    """What an interval rests on besides the bootstrap."""
    if room is not None:
        return "edge"
    return "few_templates" if n_templates < FEW_TEMPLATES else "expanded_percentile"


def _too_few(n_templates: int, n_wordings: int | None) -> TooFew | None:
    """Why there can be no interval."""
    if n_templates < MIN_TEMPLATES:
        return "too_few_templates"
    return "too_few_wordings" if n_wordings is not None and n_wordings < MIN_WORDINGS else None


def _bounds(metric: Metric, batch: Batch, settings: Settings) -> list[Bounds | None]:
    """The score with all undetected answers moved to either extreme; then there is nothing to discard or keep."""
    if metric.extremes is None:
        return [None] * len(batch.tallies)
    low_if, high_if = metric.extremes
    low, high = (_supposed(metric, batch, scenario) for scenario in metric.extremes)
    ends = _missing_ends(metric, batch, low, high, settings.interval)
    return [
        Bounds(
            low=_number(low.end.value[place]),
            high=_number(high.end.value[place]),
            low_if=low_if,
            high_if=high_if,
            interval_low=None if ends is None else _number(ends[0][place]),
            interval_high=None if ends is None else _number(ends[1][place]),
        )
        for place in range(len(batch.tallies))
    ]


@dataclass(frozen=True)
class Supposed:
    """A metric of every group of a batch, had all undetected answers been of one kind."""

    end: OneEnd
    effective: Array
    own: tuple[Array, Array]
    """What each template says for itself, and its share."""
    crossings: list[Crossing] | None


def _supposed(metric: Metric, batch: Batch, scenario: Scenario) -> Supposed:
    by_template = batch.supposing(scenario)
    total = Counts(by_template.values.sum(axis=1), "keep")
    value, pulls = metric.value(total), influence(metric, by_template, total)
    effective = effective_templates(metric, by_template)
    end = OneEnd(value, standard_error(pulls, effective))
    own = _own_scores(metric, by_template, value, pulls)
    return Supposed(end, effective, own, batch.crossings(metric, total, scenario))


def _missing_ends(
    metric: Metric, batch: Batch, low: Supposed, high: Supposed, confidence: float | None
) -> tuple[Array, Array] | None:
    """Both ends of the interval for sampling and for what was not read, kept where the metric can go."""
    import numpy as np

    if confidence is None or len(batch.tallies[0].templates) < MIN_TEMPLATES:
        return None
    lower, upper = missing_interval(low.end, high.end, np.fmin(low.effective, high.effective), confidence)
    for place in np.flatnonzero(high.end.value != low.end.value):  # where all was read, the score's own interval stands
        below, above = (
            edge_interval(own[place], shares[place], confidence, (metric.low, metric.high))
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


def _number(value: Array | float) -> float | None:
    """A number as it leaves: None for an undefined one, and no negative zero."""
    number = float(value)
    return None if math.isnan(number) else number + 0.0


def _metric_warnings(
    room: Room | None, dropped: int, n_templates: int, read: float | None, settings: Settings
) -> Iterator[WarningCode]:
    if read is not None and read < LOW_DETECTION:
        yield "low_detection"
    if settings.interval is None:
        return
    if n_templates < MIN_TEMPLATES:
        yield "too_few_templates"
    elif n_templates < FEW_TEMPLATES:
        yield "few_templates"
    if room is not None and room.rests_on_unseen:
        yield "edge"
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
        if tally.pooled[name] > 1:
            yield code
    if any(tally.outcomes[outcome] for outcome in NOT_HAD):
        yield "not_had"
    if total["biased_contexts"][place] != total["counter_biased_contexts"][place]:
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
