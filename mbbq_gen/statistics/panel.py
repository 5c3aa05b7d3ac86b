"""Scores of several groups over the same templates, so that they can be added, subtracted and tested together.

A panel lays the cells of every group (a language, a model, a prompt variant, a split) over one list of templates. A
score of a group is then an `Estimate`: its value, the influence of every template on it, and its value in every
resample of the templates. Estimates of one panel share templates and resamples, so a difference of two is again an
estimate, and its interval is the paired one; so is a mean, which is what a macro average is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from scipy import special

from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import CELLS, Array, Counts, UnparsedPolicy, count_matrix
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES, TOO_FEW, PromptEffects, ReasonCode
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import Tally, grouping_columns, tally_groups
from mbbq_gen.statistics.crossed_effects import (
    MIN_PROMPT_VARIANTS,
    TOO_FEW_PROMPT_VARIANTS,
    CrossedEffect,
    crossings,
    widen_for_prompts,
)
from mbbq_gen.statistics.influence import influence, least_even, n_templates_effective, share_of
from mbbq_gen.statistics.intervals import (
    LOW_PARSING,
    UNSEEN_TEMPLATE_DEVIATION,
    BoundaryInterval,
    ReadWarning,
    boundary_interval,
    expanded_tail,
    interval_hull,
    intervals_between,
    mover_interval,
    resample_weights,
    t_interval,
    t_interval_units,
    t_quantile,
)


@dataclass(frozen=True)
class InferenceSettings:
    """How uncertain numbers are made certain enough to print."""

    confidence: float = 0.95
    n_resamples: int = 2000
    seed: int = 0
    unparsed: UnparsedPolicy = "discard"
    prompt_effects: PromptEffects = "fixed"


class EstimateResult(FrozenModel):
    """An estimate for output: with its interval, and the templates that it stands on."""

    value: float | None
    """None where it is undefined; `reason` says why."""
    ci_low: float | None = None
    """Lower end of the expanded percentile interval over templates; None where there is none."""
    ci_high: float | None = None
    standard_error: float | None = None
    """Cluster-robust, by the templates' influences; with random prompt variants, also by theirs."""
    t_ci_low: float | None = None
    """Value minus t times the standard error: a check on the bootstrap."""
    t_ci_high: float | None = None
    n_templates: int = 0
    n_templates_effective: float | None = None
    n_prompt_variants: int | None = None
    """Prompt variants that it generalises over; None where they are fixed."""
    reason: str | None = None
    """Why `value`, or the interval, is None."""
    reason_code: ReasonCode | None = None
    """The same for programs."""
    warnings: tuple[ReadWarning, ...] = ()
    """What it must be read with."""


@dataclass(frozen=True)
class Estimate:
    """A number with what templates make of it. `influences`, `scaled_influences` and `template_weights` are by the
    panel's templates."""

    value: float
    """NaN where undefined."""
    influences: Array
    """Influences: they add up to 0."""
    scaled_influences: Array
    """Influences widened for small numbers: √ of their sum of squares is the standard error."""
    template_weights: Array
    """How much of the weight each template has; they add up to 1."""
    bootstrap_values: Array
    """The value in every resample; NaN where undefined."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest value that there can be."""
    unseen_deviation: float = UNSEEN_TEMPLATE_DEVIATION
    """How far off a template that was not seen may lie (`mbbq_gen.statistics.intervals`)."""
    df: float = math.nan
    """Degrees of freedom of its error, where they are not effective templates less one: of strata; NaN: they are."""
    parse_rate: float = math.nan
    """Share of the answers in the score's contexts that could be parsed, the least where several scores make it; NaN:
    unknown."""
    crossed_effect: CrossedEffect | None = None
    """What prompt variants make of it, where they are taken as random; None: they are fixed."""
    operands: tuple[Estimate, Estimate] | None = None
    """The two that it is the difference of; None: it is no difference."""
    components: tuple[Estimate, ...] = ()
    """Numbers that it is no difference of, but can't be known better than: those that a function combines."""

    @property
    def contributions(self) -> Array:
        """What each template adds to it: its influence and its share of the value; they add up to the value."""
        found: Array = self.influences + self.value * self.template_weights
        return found

    @property
    def n_templates(self) -> int:
        """Templates that bear on it; of a difference, on the side that has fewer: it can't know more of them."""
        own = int((self.template_weights > 0).sum())
        parts: tuple[Estimate, ...] = (*(self.operands or ()), *self.components)
        return min([own, *(part.n_templates for part in parts)])

    @property
    def effective(self) -> float:
        """How many templates of equal size would count as much; NaN for none."""
        squares = float((self.template_weights**2).sum())
        return float(self.template_weights.sum()) ** 2 / squares if squares else float("nan")

    @property
    def missing_reason(self) -> ReasonCode | None:
        """Why there is no value, or no interval; None where there are both."""
        if math.isnan(self.value):
            return "undefined"
        if self.n_templates < MIN_TEMPLATES:
            return "too_few_templates"
        too_few = self.crossed_effect is not None and self.crossed_effect.count < MIN_PROMPT_VARIANTS
        return "too_few_prompt_variants" if too_few else None

    @property
    def standard_error(self) -> float:
        """The standard error over templates, cluster-robust; NaN for fewer than MIN_TEMPLATES."""
        return float((self.scaled_influences**2).sum() ** 0.5) if self.n_templates >= MIN_TEMPLATES else float("nan")

    @property
    def total_standard_error(self) -> float:
        """The standard error over templates and, where they are random, prompt variants; NaN where there is no
        interval."""
        if self.missing_reason is not None:
            return float("nan")
        return (
            self.standard_error
            if self.crossed_effect is None
            else math.hypot(self.standard_error, self.crossed_effect.variance**0.5)
        )

    @property
    def units(self) -> float:
        """Degrees of freedom of its error, plus one: what the t distribution of its intervals goes by."""
        return self.effective if math.isnan(self.df) else self.df + 1

    def subtract(self, other: Estimate) -> Estimate:
        """The difference, paired by template and resample."""
        return combine((self, other), (1.0, -1.0))

    def analytic_reach(self, confidence: float) -> float:
        """How far its interval reaches to either side by t distributions; NaN where there is none."""
        templates = self.standard_error * float(t_quantile(confidence, np.array(self.units)))
        return (
            templates if self.crossed_effect is None else math.hypot(templates, self.crossed_effect.reach(confidence))
        )

    def score(self, sampling: InferenceSettings) -> EstimateResult:
        """With its intervals."""
        value, error, code = number(self.value), number(self.total_standard_error), self.missing_reason
        ends = self.interval(sampling.confidence)
        low, high = (None, None) if ends is None else (number(ends[0]), number(ends[1]))
        margin = None if error is None else number(self.analytic_reach(sampling.confidence))
        return EstimateResult(
            value=value,
            ci_low=low,
            ci_high=high,
            standard_error=error,
            t_ci_low=None if margin is None or value is None else value - margin,
            t_ci_high=None if margin is None or value is None else value + margin,
            n_templates=self.n_templates,
            n_templates_effective=number(self.effective),
            n_prompt_variants=None if self.crossed_effect is None else self.crossed_effect.count,
            reason=_REASONS.get(code),
            reason_code=code,
            warnings=("low_parse_rate",) if self.parse_rate < LOW_PARSING else (),
        )

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """The interval over templates, and prompt variants where they are random; None where there is none."""
        whole = self.over_templates(confidence)
        return None if whole is None else self.over_prompt_variants(whole, confidence)

    def over_templates(self, confidence: float) -> tuple[float, float] | None:
        """The interval over templates: the bootstrap's, with room for what was not seen; None where there is none."""
        if self.missing_reason is not None or math.isnan(self.standard_error):
            return None
        plain = float((self.influences**2).sum() ** 0.5)
        widening = np.array(self.standard_error / plain if plain else 1.0)
        tail = expanded_tail(confidence, np.array(self.units), widening)
        (found,) = intervals_between(self.bootstrap_values, [tail])
        return self.with_room(float(found.low), float(found.high), confidence, float(tail) * self.bootstrap_values.size)

    def over_prompt_variants(self, interval: tuple[float, float], confidence: float) -> tuple[float, float]:
        """An interval round it with what prompt variants add, where they are random."""
        if self.crossed_effect is None:
            return interval
        return widen_for_prompts(self.value, interval, self.crossed_effect.reach(confidence), self.bounds)

    def with_room(self, low: float, high: float, confidence: float, beyond: float = math.inf) -> tuple[float, float]:
        """The ends of the interval, as wide as few templates ask for, and what was not seen.

        `beyond`: the resamples beyond either end; infinitely many of an interval that rests on none.
        """
        units = t_interval_units(self.n_templates, self.units, beyond)
        least = t_interval(self.value, self.standard_error, units, confidence, self.bounds)
        room = self.room(confidence)
        return interval_hull((low, high), least, None if room is None else room.ends, self.from_sides(confidence))

    def from_sides(self, confidence: float) -> tuple[float, float] | None:
        """The interval of a difference that the intervals of its sides make, where one of few templates has room.

        A side near an end of its scale has room for a template far off. The difference lies in the middle of a scale
        of its own, and shows nothing of that.
        """
        if self.operands is None or self.n_templates >= FEW_TEMPLATES:
            return None
        if all(side.room(confidence) is None for side in self.operands):
            return None
        one, other = self.operands
        first, second = one.over_templates(confidence), other.over_templates(confidence)
        if first is None or second is None:
            return None
        return mover_interval((one.value, other.value), first, second, correlation(one, other))

    def room(self, confidence: float) -> BoundaryInterval | None:
        """The interval with room for what was not seen; None where none is needed, or templates are too few."""
        if self.n_templates < MIN_TEMPLATES:
            return None
        own = self.value + np.divide(
            self.influences,
            self.template_weights,
            out=np.full_like(self.influences, np.nan),
            where=self.template_weights > 0,
        )
        return boundary_interval(own, self.template_weights, confidence, self.bounds, self.unseen_deviation)


_REASONS: dict[ReasonCode | None, str] = {
    "undefined": "a denominator is 0",
    "too_few_templates": TOO_FEW,
    "too_few_prompt_variants": TOO_FEW_PROMPT_VARIANTS,
}


def correlation(one: Estimate, other: Estimate) -> float:
    """Of what templates make of two numbers; 0 where they make nothing of one."""
    both = float((one.influences**2).sum() * (other.influences**2).sum()) ** 0.5
    return float(one.influences @ other.influences) / both if both > 0 else 0.0


def number(value: Array | float) -> float | None:
    """A number for output: None for an undefined one, and no negative zero."""
    found = float(value)
    return None if math.isnan(found) else found + 0.0


def combine(estimates: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    """A weighted sum of estimates of one panel; undefined where one of them is."""
    pairs = list(zip(estimates, factors, strict=True))
    sizes = sum((abs(factor) * estimate.template_weights for estimate, factor in pairs), start=np.zeros(1))
    whole = float(np.sum(sizes))
    ends = [sorted((factor * estimate.bounds[0], factor * estimate.bounds[1])) for estimate, factor in pairs]
    added = [(estimate, factor) for estimate, factor in pairs if factor > 0]
    taken = [(estimate, -factor) for estimate, factor in pairs if factor < 0]
    values = [estimate.parse_rate for estimate in estimates]
    return Estimate(
        value=float(sum(factor * estimate.value for estimate, factor in pairs)),
        influences=sum((factor * estimate.influences for estimate, factor in pairs), start=np.zeros(1)),
        scaled_influences=sum((factor * estimate.scaled_influences for estimate, factor in pairs), start=np.zeros(1)),
        template_weights=np.asarray(sizes) / whole if whole else np.asarray(sizes),
        bootstrap_values=sum((factor * estimate.bootstrap_values for estimate, factor in pairs), start=np.zeros(1)),
        bounds=(sum(low for low, _ in ends), sum(high for _, high in ends)),
        unseen_deviation=math.hypot(*(factor * estimate.unseen_deviation for estimate, factor in pairs)),
        parse_rate=min((value for value in values if not math.isnan(value)), default=math.nan),
        crossed_effect=_combined(pairs),
        operands=(_sum(added), _sum(taken)) if added and taken else None,
    )


def _sum(pairs: Sequence[tuple[Estimate, float]]) -> Estimate:
    estimates, factors = zip(*pairs, strict=True)
    return estimates[0] if factors == (1.0,) else combine(estimates, factors)


def _combined(pairs: Sequence[tuple[Estimate, float]]) -> CrossedEffect | None:
    """The crossing of a weighted sum; None where prompt variants are fixed."""
    found = [(estimate.crossed_effect, factor) for estimate, factor in pairs if estimate.crossed_effect is not None]
    if not found or len(found) < len(pairs):
        return None
    sizes = np.sum([abs(factor) * crossing.sizes for crossing, factor in found], axis=0)
    whole = float(sizes.sum())
    influences = np.sum([factor * crossing.influences for crossing, factor in found], axis=0)
    return CrossedEffect(influences, sizes / whole if whole else sizes)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates of one panel: a macro average; undefined where one of them is, or there is none."""
    return combine(estimates, [1 / len(estimates)] * len(estimates))


def mean_of_strata(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates on templates of their own each, such as categories.

    Each has its own error from its own few templates of uneven sizes. A large template draws the score to itself, so
    that its own deviation looks small: deviations are divided by what is expected of them (Bell & McCaffrey 2002, CR2),
    and the degrees of freedom are those of the error so made, joined over strata as Satterthwaite (1946) does.
    """
    corrected = [_with_leverage(estimate) for estimate in estimates]
    found = mean(corrected)
    parts = [(float((estimate.scaled_influences**2).sum()), estimate.df) for estimate in corrected]
    spread = sum(variance**2 / degrees for variance, degrees in parts if degrees > 0)
    whole = sum(variance for variance, _ in parts)
    return replace(found, df=whole**2 / spread) if spread > 0 else found


def _with_leverage(estimate: Estimate) -> Estimate:
    """The estimate with deviations over what is expected of them where templates vary alike, and its freedom.

    With shares s, the deviation of template t from the score has the variance 1 − 2 s_t + Σ s² of a template's.
    """
    shares = estimate.template_weights
    squares = float((shares**2).sum())
    expected = np.where(shares > 0, 1 - 2 * shares + squares, 1.0)
    if estimate.n_templates < 2 or (expected <= 0).any():
        return replace(estimate, scaled_influences=np.full_like(estimate.scaled_influences, np.nan), df=0.0)
    own = shares[shares > 0]
    away = np.eye(own.size) - own[None, :]
    weighed = away.T @ np.diag(own**2 / expected[shares > 0]) @ away
    degrees = float(np.trace(weighed) ** 2 / (weighed**2).sum())
    return replace(estimate, scaled_influences=estimate.influences / np.sqrt(expected), df=degrees)


def delta_method(estimates: Sequence[Estimate], function: Callable[..., Any], slopes: Sequence[float]) -> Estimate:
    """A smooth function of estimates, with its slopes at their values; `function` takes numbers and arrays alike."""
    linear = combine(estimates, slopes)
    return replace(
        linear,
        value=float(function(*(estimate.value for estimate in estimates))),
        bootstrap_values=np.asarray(function(*(estimate.bootstrap_values for estimate in estimates)), dtype=float),
        bounds=(-math.inf, math.inf),
        operands=None,
        components=tuple(estimates),
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
    sampling: InferenceSettings
    strata: tuple[str, ...] | None = None
    """What each template is drawn within; None: all templates together."""
    crossed: Array | None = None
    """Groups × templates × prompt variants × CELLS, where prompt variants are random; None: they are fixed."""

    @cached_property
    def weights(self) -> Array:
        """Resamples × templates."""
        if self.strata is None:
            return one_panel_weights(self.templates, self.sampling)
        weights = np.zeros((self.sampling.n_resamples, len(self.templates)))
        for stratum in sorted(set(self.strata)):
            places = [place for place, name in enumerate(self.strata) if name == stratum]
            names = [self.templates[place] for place in places]
            weights[:, places] = resample_weights(names, self.sampling.n_resamples, self.sampling.seed)
        return weights

    @cached_property
    def by_template(self) -> Counts:
        """Named counts of groups × templates."""
        return Counts(self.cells @ count_matrix(), self.sampling.unparsed)

    @cached_property
    def total(self) -> Counts:
        """Named counts of groups."""
        return Counts(self.by_template.values.sum(axis=1), self.sampling.unparsed)

    @cached_property
    def _resampled(self) -> Counts:
        return resample_counts(self.by_template, self.weights)

    def estimates(self, metric: Metric) -> list[Estimate]:
        """The metric of every group."""
        values, drawn = metric.value(self.total), metric.value(self._resampled)
        read = metric.parse_rate(self.total)
        influences = influence(metric, self.by_template, self.total)
        effective = n_templates_effective(metric, self.by_template)
        sizes = least_even([share_of(fraction.denominator(self.by_template)) for fraction in metric.fractions])
        crossed: list[CrossedEffect] | list[None] = [None] * len(self.groups)
        if self.crossed is not None:
            crossed = crossings(metric, Counts(self.crossed @ count_matrix(), self.sampling.unparsed), self.total)
        return [
            Estimate(
                value=float(values[place]),
                influences=influences[place],
                scaled_influences=influences[place] * _widening(float(effective[place])),
                template_weights=sizes[place],
                bootstrap_values=drawn[place],
                bounds=(metric.low, metric.high),
                parse_rate=float(read[place]),
                crossed_effect=crossed[place],
            )
            for place in range(len(self.groups))
        ]

    def template_scores(self, metric: Metric) -> Array:
        """The metric of every group and template; NaN where undefined."""
        return metric.value(self.by_template)

    def on_templates(self, templates: Sequence[str]) -> Panel:
        """The same groups on some of the templates."""
        kept = [place for place, name in enumerate(self.templates) if name in set(templates)]
        return replace(
            self,
            templates=tuple(self.templates[place] for place in kept),
            cells=self.cells[:, kept],
            strata=None if self.strata is None else tuple(self.strata[place] for place in kept),
            crossed=None if self.crossed is None else self.crossed[:, kept],
        )

    def on_groups(self, places: Sequence[int] | slice) -> Panel:
        """Some of the groups on the same templates."""
        numbers = range(len(self.groups))[places] if isinstance(places, slice) else places
        return replace(
            self,
            groups=tuple(self.groups[place] for place in numbers),
            tallies=tuple(self.tallies[place] for place in numbers),
            cells=self.cells[list(numbers)],
            crossed=None if self.crossed is None else self.crossed[list(numbers)],
        )

    def reassigned(self, matrices: Sequence[Array], sampling: InferenceSettings) -> Panel:
        """The panel with the answers of each group moved between cells: for each group CELLS × CELLS."""

        def of(cells: Array) -> Array:
            found: Array = np.stack([part @ matrix for part, matrix in zip(cells, matrices, strict=True)])
            return found

        crossed = None if self.crossed is None else of(self.crossed)
        return replace(self, cells=of(self.cells), crossed=crossed, sampling=sampling)


def resample_counts(by_template: Counts, weights: Array) -> Counts:
    """The counts of groups × templates in every resample: groups × resamples."""
    groups, templates, names = by_template.values.shape
    flat = by_template.values.transpose(2, 0, 1).reshape(groups * names, templates)  # by count first: fast to multiply
    drawn = (flat @ weights.T).reshape(names, groups, -1)
    return Counts(drawn.transpose(1, 2, 0), by_template.unparsed)


def _widening(effective: float) -> float:
    """√(n / (n − 1)); NaN for fewer than two."""
    return (effective / (effective - 1)) ** 0.5 if effective > 1 else float("nan")


def contributions(estimate: Estimate) -> Array:
    """What each template adds to a number: its influence and its share of the value. They add up to the value."""
    return estimate.contributions[estimate.template_weights > 0]


def shares(estimates: Sequence[Estimate]) -> Array:
    """What each template that bears on any of them adds to each of several numbers: numbers × templates."""
    bears = np.any([estimate.template_weights > 0 for estimate in estimates], axis=0)
    return np.stack([estimate.contributions[bears] for estimate in estimates])


def make_panel(
    frame: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings, *, is_stratified: bool = False
) -> Panel:
    """The panel of an observations table: one group for each value of the groupings `by`, sorted."""
    tallies = list(tally_groups(frame, grouping_columns(by), sampling.prompt_effects))
    return panel_of(tallies, sampling, is_stratified=is_stratified)


def panel_of(tallies: Sequence[Tally], sampling: InferenceSettings, *, is_stratified: bool = False) -> Panel:
    """The panel of tallies, in their order; stratified: templates are drawn within benchmark and category."""
    templates = tuple(sorted({name for tally in tallies for name in tally.templates}))
    place = {name: number for number, name in enumerate(templates)}
    cells = np.zeros((len(tallies), len(templates), len(CELLS)))
    for row, tally in enumerate(tallies):
        cells[row, [place[name] for name in tally.templates]] = tally.cells
    strata = tuple(" / ".join(name.split(" / ")[:2]) for name in templates)
    by_variant = [tally.by_prompt_variant for tally in tallies if tally.by_prompt_variant is not None]
    crossed = None
    if by_variant:
        crossed = np.zeros((len(tallies), len(templates), by_variant[0].shape[1], len(CELLS)))
        for row, (tally, counted) in enumerate(zip(tallies, by_variant, strict=True)):
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


def one_panel_weights(templates: tuple[str, ...], sampling: InferenceSettings) -> Array:
    """Resamples × templates, as a panel of these templates draws them."""
    if not templates:
        return np.zeros((sampling.n_resamples, 0))
    return resample_weights(templates, sampling.n_resamples, sampling.seed)


def ratio_of(above: Array, below: Array, weights: Array, ends: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Σ above / Σ below over templates, a share unless `ends` says otherwise; undefined where the lower sum is 0."""
    whole = float(below.sum())
    value = float(above.sum()) / whole if whole else float("nan")
    influences = (above - value * below) / whole if whole else np.full(above.shape, np.nan)
    effective = whole**2 / float((below**2).sum()) if whole else 0.0
    drawn_below = weights @ below
    nothing = np.full(drawn_below.shape, np.nan)
    return Estimate(
        value=value,
        influences=influences,
        scaled_influences=influences * _widening(effective),
        template_weights=below / whole if whole else below,
        bootstrap_values=np.divide(weights @ above, drawn_below, out=nothing, where=drawn_below > 0),
        bounds=ends,
    )


def excludes_zero(score: EstimateResult) -> bool:
    """Whether the interval lies on one side of 0."""
    return score.ci_low is not None and score.ci_high is not None and (score.ci_low > 0 or score.ci_high < 0)


def no_score(reason: str, code: ReasonCode = "undefined") -> EstimateResult:
    """The score that there is none of, and why."""
    return EstimateResult(value=None, reason=reason, reason_code=code)


FEWEST: Final = 10
"""Templates below which nothing is said."""
LEVEL: Final = 0.01


def mean_over_templates(scores: Array) -> float:
    """The mean with every template counting alike; NaN for no template with a score."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else float("nan")


def mid_ranks(values: Array) -> Array:
    """The rank of each value, from 1; equal ones share the middle of theirs (`scipy.stats.rankdata`, a slow import)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: Array = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return found


def sizes_matter(scores: Array, sizes: Array) -> bool:
    """Whether larger templates score otherwise for sure. `scores`: NaN for none; `sizes`: 0 for a template without."""
    has = (sizes > 0) & ~np.isnan(scores)
    scores, sizes = scores[has], sizes[has]
    n = scores.size
    if n < FEWEST or sizes.min() == sizes.max() or scores.min() == scores.max():
        return False
    correlation = float(np.corrcoef(mid_ranks(scores), mid_ranks(sizes))[0, 1])
    away = abs(correlation) * ((n - 2) / max(1 - correlation**2, 1e-12)) ** 0.5
    return bool(2 * special.stdtr(n - 2, -away) < LEVEL)
