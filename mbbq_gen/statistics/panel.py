"""Scores of several groups over the same templates, so that they can be added, subtracted and tested together.

A panel lays the cells of every group (a language, a model, a wording, a split) over one list of templates. A score of
a group is then an `Estimate`: its value, the influence of every template on it, and its value in every resample of the
templates. Estimates of one panel share templates and resamples, so a difference of two is again an estimate, and its
interval is the paired one; so is a mean, which is what a macro average is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mbbq_gen.records import Record
from mbbq_gen.scoring.bootstrap import (
    difference_interval,
    expanded_tail,
    hull,
    intervals_between,
    resample_weights,
    t_interval,
    t_interval_units,
    t_quantile,
)
from mbbq_gen.scoring.cells import CELLS, Counts, Undetected, count_matrix
from mbbq_gen.scoring.edge import UNSEEN, Room, edge_interval
from mbbq_gen.scoring.influence import effective_templates, influence, least_even, share_of
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.missing import LOW_DETECTION, ReadWarning
from mbbq_gen.scoring.reasons import FEW_TEMPLATES, MIN_TEMPLATES, TOO_FEW, ReasonCode
from mbbq_gen.scoring.tally import Tally, grouping_columns, tally_groups
from mbbq_gen.scoring.wordings import MIN_WORDINGS, TOO_FEW_WORDINGS, Crossing, Wordings, crossings, moved_out

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array


@dataclass(frozen=True)
class Sampling:
    """How uncertain numbers are made certain enough to print."""

    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0
    undetected: Undetected = "discard"
    wordings: Wordings = "fixed"


class EstimateScore(Record):
    """An estimate as it leaves: with its interval, and the templates that it stands on."""

    value: float | None
    """None where it is undefined; `reason` says why."""
    low: float | None
    """Lower end of the expanded percentile interval over templates; None where there is none."""
    high: float | None
    standard_error: float | None
    """Cluster-robust, by the templates' influences; with random wordings, also by theirs."""
    analytic_low: float | None
    """Value minus t times the standard error: a check on the bootstrap."""
    analytic_high: float | None
    n_templates: int
    effective_templates: float | None
    n_wordings: int | None = None
    """Wordings that it generalises over; None where they are held fixed."""
    reason: str | None = None
    """Why `value`, or the interval, is None."""
    reason_code: ReasonCode | None = None
    """The same for programs."""
    warnings: tuple[ReadWarning, ...] = ()
    """What it must be read with."""


@dataclass(frozen=True)
class Estimate:
    """A number with what templates make of it. `pulls`, `mended` and `sizes` are by the panel's templates."""

    value: float
    """NaN where undefined."""
    pulls: Array
    """Influences: they add up to 0."""
    mended: Array
    """Influences widened for small numbers: √ of their sum of squares is the standard error."""
    sizes: Array
    """How much of the weight each template has; they add up to 1."""
    drawn: Array
    """The value in every resample; NaN where undefined."""
    ends: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest value that there can be."""
    unseen: float = UNSEEN
    """How far off a template that was not seen may lie (`mbbq_gen.scoring.edge`)."""
    degrees: float = math.nan
    """Degrees of freedom of its error, where they are not effective templates less one: of strata; NaN: they are."""
    read: float = math.nan
    """Share of the answers in the score's contexts that could be read, the least where several scores make it; NaN:
    not told."""
    crossing: Crossing | None = None
    """What wordings make of it, where they are taken as random; None: they are held fixed."""
    sides: tuple[Estimate, Estimate] | None = None
    """The two that it is the difference of; None: it is no difference."""
    made_of: tuple[Estimate, ...] = ()
    """Numbers that it is no difference of, but can't be known better than: those that a function combines."""

    @property
    def added(self) -> Array:
        """What each template adds to it: its influence and its share of the value; they add up to the value."""
        found: Array = self.pulls + self.value * self.sizes
        return found

    @property
    def n_templates(self) -> int:
        """Templates that bear on it; of a difference, on the side that has fewer: it can't know more of them."""
        own = int((self.sizes > 0).sum())
        parts: tuple[Estimate, ...] = (*(self.sides or ()), *self.made_of)
        return min([own, *(part.n_templates for part in parts)])

    @property
    def effective(self) -> float:
        """How many templates of equal size would count as much; NaN for none."""
        squares = float((self.sizes**2).sum())
        return float(self.sizes.sum()) ** 2 / squares if squares else float("nan")

    @property
    def missing(self) -> ReasonCode | None:
        """Why there is no value, or no interval; None where there are both."""
        if math.isnan(self.value):
            return "undefined"
        if self.n_templates < MIN_TEMPLATES:
            return "too_few_templates"
        too_few = self.crossing is not None and self.crossing.count < MIN_WORDINGS
        return "too_few_wordings" if too_few else None

    @property
    def error(self) -> float:
        """The standard error over templates, cluster-robust; NaN for fewer than MIN_TEMPLATES."""
        return float((self.mended**2).sum() ** 0.5) if self.n_templates >= MIN_TEMPLATES else float("nan")

    @property
    def whole_error(self) -> float:
        """The standard error over templates and, where they are random, wordings; NaN where there is no interval."""
        if self.missing is not None:
            return float("nan")
        return self.error if self.crossing is None else math.hypot(self.error, self.crossing.variance**0.5)

    @property
    def units(self) -> float:
        """Degrees of freedom of its error, plus one: what the t distribution of its intervals goes by."""
        return self.effective if math.isnan(self.degrees) else self.degrees + 1

    def minus(self, other: Estimate) -> Estimate:
        """The difference, paired by template and resample."""
        return combine((self, other), (1.0, -1.0))

    def analytic_reach(self, confidence: float) -> float:
        """How far its interval reaches to either side by t distributions; NaN where there is none."""
        import numpy as np

        templates = self.error * float(t_quantile(confidence, np.array(self.units)))
        return templates if self.crossing is None else math.hypot(templates, self.crossing.reach(confidence))

    def score(self, sampling: Sampling) -> EstimateScore:
        """With its intervals, as it leaves."""
        value, error, code = number(self.value), number(self.whole_error), self.missing
        ends = self.interval(sampling.confidence)
        low, high = (None, None) if ends is None else (number(ends[0]), number(ends[1]))
        margin = None if error is None else number(self.analytic_reach(sampling.confidence))
        return EstimateScore(
            value=value,
            low=low,
            high=high,
            standard_error=error,
            analytic_low=None if margin is None or value is None else value - margin,
            analytic_high=None if margin is None or value is None else value + margin,
            n_templates=self.n_templates,
            effective_templates=number(self.effective),
            n_wordings=None if self.crossing is None else self.crossing.count,
            reason=_REASONS.get(code),
            reason_code=code,
            warnings=("low_detection",) if self.read < LOW_DETECTION else (),
        )

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """The interval over templates, and wordings where they are random; None where there is none."""
        whole = self.over_templates(confidence)
        return None if whole is None else self.over_wordings(whole, confidence)

    def over_templates(self, confidence: float) -> tuple[float, float] | None:
        """The interval over templates: the bootstrap's, with room for what was not seen; None where there is none."""
        import numpy as np

        if self.missing is not None or math.isnan(self.error):
            return None
        plain = float((self.pulls**2).sum() ** 0.5)
        widening = np.array(self.error / plain if plain else 1.0)
        tail = expanded_tail(confidence, np.array(self.units), widening)
        (found,) = intervals_between(self.drawn, [tail])
        return self.with_room(float(found.low), float(found.high), confidence, float(tail) * self.drawn.size)

    def over_wordings(self, interval: tuple[float, float], confidence: float) -> tuple[float, float]:
        """An interval round it with what wordings add, where they are random."""
        if self.crossing is None:
            return interval
        return moved_out(self.value, interval, self.crossing.reach(confidence), self.ends)

    def with_room(self, low: float, high: float, confidence: float, beyond: float = math.inf) -> tuple[float, float]:
        """The ends of the interval, as wide as few templates ask for, and what was not seen.

        `beyond`: the resamples beyond either end; infinitely many of an interval that rests on none.
        """
        units = t_interval_units(self.n_templates, self.units, beyond)
        least = t_interval(self.value, self.error, units, confidence, self.ends)
        room = self.room(confidence)
        return hull((low, high), least, None if room is None else room.ends, self.from_sides(confidence))

    def from_sides(self, confidence: float) -> tuple[float, float] | None:
        """The interval of a difference that the intervals of its sides make, where one of few templates has room.

        A side near an end of its scale has room for a template far off. The difference lies in the middle of a scale
        of its own, and shows nothing of that.
        """
        if self.sides is None or self.n_templates >= FEW_TEMPLATES:
            return None
        if all(side.room(confidence) is None for side in self.sides):
            return None
        one, other = self.sides
        first, second = one.over_templates(confidence), other.over_templates(confidence)
        if first is None or second is None:
            return None
        return difference_interval((one.value, other.value), first, second, correlation(one, other))

    def room(self, confidence: float) -> Room | None:
        """The interval with room for what was not seen; None where none is needed, or templates are too few."""
        import numpy as np

        if self.n_templates < MIN_TEMPLATES:
            return None
        own = self.value + np.divide(self.pulls, self.sizes, out=np.full_like(self.pulls, np.nan), where=self.sizes > 0)
        return edge_interval(own, self.sizes, confidence, self.ends, self.unseen)


_REASONS: dict[ReasonCode | None, str] = {
    "undefined": "a denominator is 0",
    "too_few_templates": TOO_FEW,
    "too_few_wordings": TOO_FEW_WORDINGS,
}


def correlation(one: Estimate, other: Estimate) -> float:
    """Of what templates make of two numbers; 0 where they make nothing of one."""
    both = float((one.pulls**2).sum() * (other.pulls**2).sum()) ** 0.5
    return float(one.pulls @ other.pulls) / both if both > 0 else 0.0


def number(value: float) -> float | None:
    """A number as it leaves: None for an undefined one, and no negative zero."""
    return None if math.isnan(value) else value + 0.0


def combine(estimates: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    """A weighted sum of estimates of one panel; undefined where one of them is."""
    import numpy as np

    pairs = list(zip(estimates, factors, strict=True))
    sizes = sum((abs(factor) * estimate.sizes for estimate, factor in pairs), start=np.zeros(1))
    whole = float(np.sum(sizes))
    ends = [sorted((factor * estimate.ends[0], factor * estimate.ends[1])) for estimate, factor in pairs]
    return Estimate(
        value=float(sum(factor * estimate.value for estimate, factor in pairs)),
        pulls=sum((factor * estimate.pulls for estimate, factor in pairs), start=np.zeros(1)),
        mended=sum((factor * estimate.mended for estimate, factor in pairs), start=np.zeros(1)),
        sizes=np.asarray(sizes) / whole if whole else np.asarray(sizes),
        drawn=sum((factor * estimate.drawn for estimate, factor in pairs), start=np.zeros(1)),
        ends=(sum(low for low, _ in ends), sum(high for _, high in ends)),
        unseen=math.hypot(*(factor * estimate.unseen for estimate, factor in pairs)),
        read=_least([estimate.read for estimate in estimates]),
        crossing=_combined(pairs),
        sides=_sides(pairs),
    )


def _sides(pairs: Sequence[tuple[Estimate, float]]) -> tuple[Estimate, Estimate] | None:
    """What a weighted sum adds, and what it takes off; None where it does but one of them."""
    added = [(estimate, factor) for estimate, factor in pairs if factor > 0]
    taken = [(estimate, -factor) for estimate, factor in pairs if factor < 0]
    return (_sum(added), _sum(taken)) if added and taken else None


def _sum(pairs: Sequence[tuple[Estimate, float]]) -> Estimate:
    estimates, factors = zip(*pairs, strict=True)
    return estimates[0] if factors == (1.0,) else combine(estimates, factors)


def _combined(pairs: Sequence[tuple[Estimate, float]]) -> Crossing | None:
    """The crossing of a weighted sum; None where wordings are held fixed."""
    import numpy as np

    found = [(estimate.crossing, factor) for estimate, factor in pairs if estimate.crossing is not None]
    if not found or len(found) < len(pairs):
        return None
    sizes = np.sum([abs(factor) * crossing.sizes for crossing, factor in found], axis=0)
    whole = float(sizes.sum())
    pulls = np.sum([factor * crossing.pulls for crossing, factor in found], axis=0)
    return Crossing(pulls, sizes / whole if whole else sizes)


def _least(values: Sequence[float]) -> float:
    """The least of those that are told; NaN for none."""
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates of one panel: a macro average; undefined where one of them is, or there is none."""
    return combine(estimates, [1 / len(estimates)] * len(estimates))


def mean_of_strata(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates on templates of their own each, such as categories.

    Each has its own error from its own few templates of uneven sizes. A large template draws the score to itself, so
    that its own deviation looks small: deviations are divided by what is expected of them (Bell & McCaffrey 2002, CR2),
    and the degrees of freedom are those of the error so made, joined over strata as Satterthwaite (1946) does.
    """
    mended = [_with_leverage(estimate) for estimate in estimates]
    found = mean(mended)
    parts = [(float((estimate.mended**2).sum()), estimate.degrees) for estimate in mended]
    spread = sum(variance**2 / degrees for variance, degrees in parts if degrees > 0)
    whole = sum(variance for variance, _ in parts)
    return replace(found, degrees=whole**2 / spread) if spread > 0 else found


def _with_leverage(estimate: Estimate) -> Estimate:
    """The estimate with deviations over what is expected of them where templates vary alike, and its freedom.

    With shares s, the deviation of template t from the score has the variance 1 − 2 s_t + Σ s² of a template's.
    """
    import numpy as np

    shares = estimate.sizes
    squares = float((shares**2).sum())
    expected = np.where(shares > 0, 1 - 2 * shares + squares, 1.0)
    if estimate.n_templates < 2 or (expected <= 0).any():
        return replace(estimate, mended=np.full_like(estimate.mended, np.nan), degrees=0.0)
    own = shares[shares > 0]
    away = np.eye(own.size) - own[None, :]
    weighed = away.T @ np.diag(own**2 / expected[shares > 0]) @ away
    degrees = float(np.trace(weighed) ** 2 / (weighed**2).sum())
    return replace(estimate, mended=estimate.pulls / np.sqrt(expected), degrees=degrees)


def smooth(estimates: Sequence[Estimate], function: Callable[..., Any], slopes: Sequence[float]) -> Estimate:
    """A smooth function of estimates, with its slopes at their values; `function` takes numbers and arrays alike."""
    import numpy as np

    linear = combine(estimates, slopes)
    drawn = np.asarray(function(*(estimate.drawn for estimate in estimates)), dtype=float)
    return Estimate(
        value=float(function(*(estimate.value for estimate in estimates))),
        pulls=linear.pulls,
        mended=linear.mended,
        sizes=linear.sizes,
        drawn=drawn,
        unseen=linear.unseen,
        read=linear.read,
        crossing=linear.crossing,
        made_of=tuple(estimates),
    )


@dataclass(frozen=True)
class Panel:
    """Groups × templates × cells, and the resamples that all groups share."""

    groups: tuple[dict[str, str | None], ...]
    tallies: tuple[Tally, ...]
    templates: tuple[str, ...]
    """All templates of any group, sorted."""
    cells: Array
    """Groups × templates × CELLS; zeros where a group does not have a template."""
    sampling: Sampling
    strata: tuple[str, ...] | None = None
    """What each template is drawn within; None: all templates together."""
    crossed: Array | None = None
    """Groups × templates × wordings × CELLS, where wordings are random; None: they are held fixed."""

    @cached_property
    def weights(self) -> Array:
        """Resamples × templates."""
        import numpy as np

        if self.strata is None:
            return one_panel_weights(self.templates, self.sampling)
        weights = np.zeros((self.sampling.resamples, len(self.templates)))
        for stratum in sorted(set(self.strata)):
            places = [place for place, name in enumerate(self.strata) if name == stratum]
            names = [self.templates[place] for place in places]
            weights[:, places] = resample_weights(names, self.sampling.resamples, self.sampling.seed)
        return weights

    @cached_property
    def by_template(self) -> Counts:
        """Named counts of groups × templates."""
        return Counts(self.cells @ count_matrix(), self.sampling.undetected)

    @cached_property
    def total(self) -> Counts:
        """Named counts of groups."""
        return Counts(self.by_template.values.sum(axis=1), self.sampling.undetected)

    @cached_property
    def _resampled(self) -> Counts:
        groups, templates, names = self.by_template.values.shape
        flat = self.by_template.values.transpose(2, 0, 1).reshape(groups * names, templates)
        drawn = (flat @ self.weights.T).reshape(names, groups, -1)
        return Counts(drawn.transpose(1, 2, 0), self.sampling.undetected)

    def estimates(self, metric: Metric) -> list[Estimate]:
        """The metric of every group."""
        values, drawn = metric.value(self.total), metric.value(self._resampled)
        read = metric.share_read(self.total)
        pulls = influence(metric, self.by_template, self.total)
        effective = effective_templates(metric, self.by_template)
        sizes = least_even([share_of(fraction.denominator(self.by_template)) for fraction in metric.fractions])
        crossed: list[Crossing] | list[None] = [None] * len(self.groups)
        if self.crossed is not None:
            crossed = crossings(metric, Counts(self.crossed @ count_matrix(), self.sampling.undetected), self.total)
        return [
            Estimate(
                value=float(values[place]),
                pulls=pulls[place],
                mended=pulls[place] * _widening(float(effective[place])),
                sizes=sizes[place],
                drawn=drawn[place],
                ends=(metric.low, metric.high),
                read=float(read[place]),
                crossing=crossed[place],
            )
            for place in range(len(self.groups))
        ]

    def template_scores(self, metric: Metric) -> Array:
        """The metric of every group and template; NaN where undefined."""
        return metric.value(self.by_template)

    def restricted(self, templates: Sequence[str]) -> Panel:
        """The same groups on some of the templates."""
        kept = [place for place, name in enumerate(self.templates) if name in set(templates)]
        return replace(
            self,
            templates=tuple(self.templates[place] for place in kept),
            cells=self.cells[:, kept],
            strata=None if self.strata is None else tuple(self.strata[place] for place in kept),
            crossed=None if self.crossed is None else self.crossed[:, kept],
        )

    def of_groups(self, places: Sequence[int] | slice) -> Panel:
        """Some of the groups on the same templates."""
        numbers = range(len(self.groups))[places] if isinstance(places, slice) else places
        return replace(
            self,
            groups=tuple(self.groups[place] for place in numbers),
            tallies=tuple(self.tallies[place] for place in numbers),
            cells=self.cells[list(numbers)],
            crossed=None if self.crossed is None else self.crossed[list(numbers)],
        )

    def moved(self, matrices: Sequence[Array], sampling: Sampling) -> Panel:
        """The panel with the answers of each group moved between cells: for each group CELLS × CELLS."""
        import numpy as np

        def of(cells: Array) -> Array:
            found: Array = np.stack([part @ matrix for part, matrix in zip(cells, matrices, strict=True)])
            return found

        crossed = None if self.crossed is None else of(self.crossed)
        return replace(self, cells=of(self.cells), crossed=crossed, sampling=sampling)


def _widening(effective: float) -> float:
    """√(n / (n − 1)); NaN for fewer than two."""
    return (effective / (effective - 1)) ** 0.5 if effective > 1 else float("nan")


def contributions(estimate: Estimate) -> Array:
    """What each template adds to a number: its influence and its share of the value. They add up to the value."""
    return estimate.added[estimate.sizes > 0]


def shares(estimates: Sequence[Estimate]) -> Array:
    """What each template that bears on any of them adds to each of several numbers: numbers × templates."""
    import numpy as np

    bears = np.any([estimate.sizes > 0 for estimate in estimates], axis=0)
    return np.stack([estimate.added[bears] for estimate in estimates])


def make_panel(frame: polars.DataFrame, by: Sequence[str], sampling: Sampling, *, is_stratified: bool = False) -> Panel:
    """The panel of an observations table: one group for each value of the groupings `by`, sorted."""
    tallies = list(tally_groups(frame, grouping_columns(by), sampling.wordings))
    return panel_of(tallies, sampling, is_stratified=is_stratified)


def panel_of(tallies: Sequence[Tally], sampling: Sampling, *, is_stratified: bool = False) -> Panel:
    """The panel of tallies, in their order; stratified: templates are drawn within benchmark and category."""
    import numpy as np

    templates = tuple(sorted({name for tally in tallies for name in tally.templates}))
    place = {name: number for number, name in enumerate(templates)}
    cells = np.zeros((len(tallies), len(templates), len(CELLS)))
    for row, tally in enumerate(tallies):
        cells[row, [place[name] for name in tally.templates]] = tally.cells
    strata = tuple(" / ".join(name.split(" / ")[:2]) for name in templates)
    by_wording = [tally.by_wording for tally in tallies if tally.by_wording is not None]
    crossed = None
    if by_wording:
        crossed = np.zeros((len(tallies), len(templates), by_wording[0].shape[1], len(CELLS)))
        for row, (tally, counted) in enumerate(zip(tallies, by_wording, strict=True)):
            crossed[row, [place[name] for name in tally.templates]] = counted
    return Panel(
        groups=tuple(tally.group for tally in tallies),
        tallies=tuple(tallies),
        templates=templates,
        cells=cells,
        sampling=sampling,
        strata=strata if is_stratified else None,
        crossed=crossed,
    )


def one_panel_weights(templates: tuple[str, ...], sampling: Sampling) -> Array:
    """Resamples × templates, as a panel of these templates draws them."""
    import numpy as np

    if not templates:
        return np.zeros((sampling.resamples, 0))
    return resample_weights(templates, sampling.resamples, sampling.seed)


def ratio_of(above: Array, below: Array, weights: Array, ends: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Σ above / Σ below over templates, a share unless `ends` says otherwise; undefined where the lower sum is 0."""
    import numpy as np

    whole = float(below.sum())
    value = float(above.sum()) / whole if whole else float("nan")
    pulls = (above - value * below) / whole if whole else np.full(above.shape, np.nan)
    effective = whole**2 / float((below**2).sum()) if whole else 0.0
    drawn_below = weights @ below
    nothing = np.full(drawn_below.shape, np.nan)
    return Estimate(
        value=value,
        pulls=pulls,
        mended=pulls * _widening(effective),
        sizes=below / whole if whole else below,
        drawn=np.divide(weights @ above, drawn_below, out=nothing, where=drawn_below > 0),
        ends=ends,
    )


def excludes_zero(score: EstimateScore) -> bool:
    """Whether the interval lies on one side of 0."""
    return score.low is not None and score.high is not None and (score.low > 0 or score.high < 0)


def no_score(reason: str, code: ReasonCode = "undefined") -> EstimateScore:
    """The score that there is none of, and why."""
    return EstimateScore(
        value=None,
        low=None,
        high=None,
        standard_error=None,
        analytic_low=None,
        analytic_high=None,
        n_templates=0,
        effective_templates=None,
        reason=reason,
        reason_code=code,
    )
