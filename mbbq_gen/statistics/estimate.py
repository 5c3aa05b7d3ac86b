"""Estimates: a number with the influence of each template and its bootstrap values.

For a fraction F = Σ a / Σ b over templates, the influence of template t is (a_t − F · b_t) / Σ b; for a metric that
combines fractions, the chain rule. Their sum of squares is the variance of the score over samples of templates, except
for a small-sample factor (Cameron & Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference", §II; Davison &
Hinkley 1997, "Bootstrap Methods and their Application", §2.7). Estimates of one panel (`mbbq_gen.statistics.panel`)
share templates and resamples, so a weighted sum of estimates is again an estimate: a difference, a macro average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array, Counts, UnparsedPolicy, quotient
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES, TOO_FEW, Average, PromptEffects, ReasonCode
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics import intervals
from mbbq_gen.statistics.intervals import CrossedEffect, Ends, effective_number


@dataclass(frozen=True)
class InferenceSettings:
    """Settings of intervals and tests."""

    confidence: float = 0.95
    n_resamples: int = 2000
    seed: int = 0
    unparsed: UnparsedPolicy = "discard"
    prompt_effects: PromptEffects = "fixed"
    """Whether a statement holds for the prompt variants of the run only, or for others like them."""
    average: Average = "questions"
    unseen_deviation: float = intervals.UNSEEN_TEMPLATE_DEVIATION
    """How far off a template that was not seen may lie, and how much farther near an end of the scale."""
    unseen_stretch: float = intervals.STRETCH

    def __post_init__(self) -> None:
        """Refuses settings out of range (UsageError)."""
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence level: {self.confidence} is not between 0 and 1; 0.95 is usual")
        if self.n_resamples < 1:
            raise UsageError(f"number of resamples: {self.n_resamples} is less than 1; 2000 is usual")
        for kind, name, known in (
            ("policy for unparsed answers", self.unparsed, get_args(UnparsedPolicy)),
            ("kind of prompt effects", self.prompt_effects, get_args(PromptEffects)),
            ("average", self.average, get_args(Average)),
        ):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        if not (0 <= self.unseen_deviation < math.inf and 0 <= self.unseen_stretch < math.inf):
            raise UsageError("deviation and stretch of an unseen template: give numbers of 0 or more")

    def facts(self) -> dict[str, Any]:
        """The settings that every table of an analysis shows."""
        return {
            "confidence_level": self.confidence,
            "n_resamples": self.n_resamples,
            "seed": self.seed,
            "unparsed": self.unparsed,
        }


class EstimateResult(FrozenModel):
    """An estimate for output: with its interval, and the templates that it stands on."""

    value: float | None
    """None where it is undefined; `reason` says why."""
    ci_low: float | None = None
    """Lower end of the interval over templates; None where there is none."""
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
    """Why `value`, or the interval, is None; `reason_code` says it for programs."""
    reason_code: ReasonCode | None = None
    warnings: tuple[str, ...] = ()

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.ci_low is not None and self.ci_high is not None and (self.ci_low > 0 or self.ci_high < 0)


REASONS: dict[ReasonCode, str] = {
    "undefined": "a denominator is 0",
    "too_few_templates": TOO_FEW,
    "too_few_prompt_variants": intervals.TOO_FEW_PROMPT_VARIANTS,
}


def no_score(reason: str) -> EstimateResult:
    """The result for a score that does not exist, with the reason."""
    return EstimateResult(value=None, reason=reason, reason_code="undefined")


def number(value: Array | float) -> float | None:
    """A number for output: None for an undefined one, and no negative zero."""
    found = float(value)
    return None if math.isnan(found) else found + 0.0


@dataclass(frozen=True)
class Estimate:
    """A number with its influence by template; arrays are by the panel's templates."""

    value: float
    """NaN where undefined."""
    influence_values: Array
    """They add up to 0."""
    adjusted_influence: Array
    """Influences widened for small numbers: √ of their sum of squares is the standard error."""
    template_weights: Array
    """The share of the weight of each template; they add up to 1."""
    bootstrap_values: Array
    """The value in every resample; NaN where undefined."""
    bounds: Ends = (-math.inf, math.inf)
    unseen_deviation: float = intervals.UNSEEN_TEMPLATE_DEVIATION
    unseen_stretch: float = intervals.STRETCH
    df: float = math.nan
    """Degrees of freedom of its error; NaN: effective templates less one."""
    parse_rate: float = math.nan
    """Share of the answers in the score's contexts that could be parsed, the least of several."""
    crossed_effect: CrossedEffect | None = None
    """The effect of random prompt variants; None: they are fixed."""
    operands: tuple[Estimate, Estimate] | None = None
    """The two that it is the difference of; None: it is no difference."""
    components: tuple[Estimate, ...] = ()
    """The estimates that a function combines; it has no more templates than they have."""
    is_curved: bool = False
    """Whether several fractions make it: percentiles alone are then too narrow, and the t interval is held too."""
    is_analytic: bool = False
    """Whether its interval is value ± t · standard error: of a random-effects mean."""
    support: int | None = None
    """Templates that count for there being an interval, with rows in any denominator; None: those with a weight."""

    @cached_property
    def n_templates(self) -> int:
        """Templates that bear on it; of a difference, on the side that has fewer."""
        own = int(np.count_nonzero(self.template_weights > 0)) if self.support is None else self.support
        return min([own, *(int(part.n_templates) for part in (*(self.operands or ()), *self.components))])

    @cached_property
    def _n_weighted(self) -> int:
        """Templates with a weight, which is of the denominator that fewest make; of a difference, the fewest."""
        own = int(np.count_nonzero(self.template_weights > 0))
        return min([own, *(int(part._n_weighted) for part in (*(self.operands or ()), *self.components))])

    @cached_property
    def effective(self) -> float:
        """The effective number of templates (Kish 1965, "Survey Sampling", §8.2); NaN for none."""
        return effective_number(self.template_weights) or math.nan

    @property
    def missing_reason(self) -> ReasonCode | None:
        """Why there is no value, or no interval; None where there are both."""
        if math.isnan(self.value):
            return "undefined"
        if self.n_templates < MIN_TEMPLATES or math.isnan(self.standard_error):
            return "too_few_templates"
        is_enough = self.n_prompt_variants is None or self.n_prompt_variants >= intervals.MIN_PROMPT_VARIANTS
        return None if is_enough else "too_few_prompt_variants"

    @property
    def n_prompt_variants(self) -> int | None:
        """Prompt variants that bear on it; None where they are fixed."""
        return None if self.crossed_effect is None else self.crossed_effect.count

    @cached_property
    def standard_error(self) -> float:
        """The standard error over templates, cluster-robust; NaN for fewer than MIN_TEMPLATES."""
        if self.n_templates < MIN_TEMPLATES:
            return math.nan
        return math.sqrt(float(self.adjusted_influence @ self.adjusted_influence))

    @property
    def units(self) -> float:
        """Degrees of freedom of its error, plus one: what the t distribution of its intervals goes by."""
        return self.effective if math.isnan(self.df) else self.df + 1

    def subtract(self, other: Estimate) -> Estimate:
        """The difference, paired by template and resample."""
        return combine((self, other), (1.0, -1.0))

    def analytic_reach(self, confidence: float) -> float:
        """Half the width of its interval by t distributions; NaN where there is none."""
        prompts = 0.0 if self.crossed_effect is None else self.crossed_effect.reach(confidence)
        return math.hypot(self.standard_error * intervals.t_quantile(confidence, self.units), prompts)

    def score(self, sampling: InferenceSettings | None) -> EstimateResult:
        """The estimate for output; without settings it has no intervals and needs no reason for that."""
        code, error, ends, margin = self.missing_reason, None, None, math.nan
        if code is None:
            drawn = 0.0 if self.crossed_effect is None else self.crossed_effect.variance
            error = number(math.hypot(self.standard_error, drawn**0.5))
        if sampling is not None:
            ends = self.interval(sampling.confidence)
            margin = math.nan if error is None else self.analytic_reach(sampling.confidence)
        elif code != "undefined":
            code = None
        return EstimateResult(
            value=number(self.value),
            ci_low=ends and number(ends[0]),
            ci_high=ends and number(ends[1]),
            standard_error=error,
            t_ci_low=number(self.value - margin),
            t_ci_high=number(self.value + margin),
            n_templates=self.n_templates,
            n_templates_effective=number(self.effective),
            n_prompt_variants=self.n_prompt_variants,
            reason=code and REASONS[code],
            reason_code=code,
            warnings=("low_parse_rate",) if self.parse_rate < intervals.LOW_PARSING else (),
        )

    def interval(self, confidence: float) -> Ends | None:
        """The interval over templates, and prompt variants where they are random; None where there is none."""
        whole = self.over_templates(confidence)
        return None if whole is None else self.over_prompt_variants(whole, confidence)

    def over_templates(self, confidence: float) -> Ends | None:
        """The interval over templates, with room for what was not seen; None where there is none."""
        if confidence not in self._intervals:  # several numbers are made from it
            has_none = self.missing_reason is not None or math.isnan(self.standard_error)
            self._intervals[confidence] = None if has_none else self._over_templates(confidence)
        return self._intervals[confidence]

    @cached_property
    def _intervals(self) -> dict[float, Ends | None]:
        return {}

    def _over_templates(self, confidence: float) -> Ends:
        """The interval of the bootstrap, or of t where it is analytic."""
        if self.is_analytic:
            ends = intervals.t_interval(self.value, self.standard_error, self.units, confidence, self.bounds)
            return self.with_room(*(ends or (self.value, self.value)), confidence)
        plain = math.sqrt(float(self.influence_values @ self.influence_values))
        tail = intervals.expanded_tail(
            confidence, self.units, self.standard_error / plain if plain else widening(self.units)
        )
        low, high = intervals.percentile_interval(self._ordered_values, tail)
        return self.with_room(low, high, confidence, tail * self.bootstrap_values.size)

    @cached_property
    def _ordered_values(self) -> Array:
        """The bootstrap values where it is defined, sorted."""
        ordered: Array = np.sort(self.bootstrap_values[~np.isnan(self.bootstrap_values)])
        return ordered

    @property
    def n_resamples_dropped(self) -> int:
        """Resamples in which it was undefined, and which therefore do not count."""
        return int(np.count_nonzero(np.isnan(self.bootstrap_values)))

    def over_prompt_variants(self, interval: Ends, confidence: float) -> Ends:
        """An interval round it with what prompt variants add, where they are random."""
        if self.crossed_effect is None:
            return interval
        return intervals.widen_for_prompts(self.value, interval, self.crossed_effect.reach(confidence), self.bounds)

    def with_room(self, low: float, high: float, confidence: float, beyond: float = math.inf) -> Ends:
        """The ends of the interval, as wide as few templates ask for, and what was not seen.

        No resample of five templates lies beyond the farthest of them; t can (Cameron & Miller 2015, §VI.D). Where the
        score is curved, or fewer than LEAST_BEYOND resamples (`beyond`) would be cut off, t is held too.
        """
        units = None
        if self._n_weighted < FEW_TEMPLATES:
            units = float(self._n_weighted)
        elif self.is_curved or beyond < intervals.LEAST_BEYOND:
            units = self.units
        least = intervals.t_interval(self.value, self.standard_error, units, confidence, self.bounds)
        sides = None
        if self.operands is not None and any(one.has_room for one in self.operands):  # it is far from its own ends
            first, second = (one.over_templates(confidence) for one in self.operands)
            sides = difference_interval(self.operands, self.operands, first, second)
        return intervals.interval_hull((low, high), least, self.room(confidence), sides)

    def room(self, confidence: float) -> Ends | None:
        """The interval with room for what was not seen, and the score interval near an end; None: no need."""
        if not self.has_room:
            return None
        ends = (self.value, self.value) if self.boundary is None else self.boundary.ends(confidence)
        return intervals.interval_hull(
            ends, intervals.score_interval(self.value, self.standard_error, self.units, confidence, self.bounds)
        )

    @cached_property
    def has_room(self) -> bool:
        """Whether its interval is more than a bootstrap's: near an end of the scale, or with a boundary interval."""
        near = min(self.value - self.bounds[0], self.bounds[1] - self.value) < self.unseen_deviation
        return self.n_templates >= MIN_TEMPLATES and (near or self.boundary is not None)

    @cached_property
    def boundary(self) -> intervals.BoundaryInterval | None:
        """The interval with room for what was not seen; None where none is needed, or templates are too few."""
        if self.n_templates < MIN_TEMPLATES:
            return None
        bears = self.template_weights > 0
        sizes = self.template_weights[bears]
        own = self.value + self.influence_values[bears] / sizes
        return intervals.boundary_interval(own, sizes, self.bounds, self.unseen_deviation, self.unseen_stretch)


def difference_interval(
    lowest: tuple[Estimate, Estimate], highest: tuple[Estimate, Estimate], first: Ends | None, second: Ends | None
) -> Ends | None:
    """The interval of a difference made from those of its sides (MOVER); None where a side has none."""
    if first is None or second is None:
        return None
    ends = []
    for one, other in (lowest, highest):
        mine, its = one.influence_values, other.influence_values
        both = float((mine @ mine) * (its @ its)) ** 0.5
        correlation = float(mine @ its) / both if both > 0 else 0.0  # 0 where templates make nothing of one
        ends.append(intervals.mover_interval((one.value, other.value), first, second, correlation))
    return ends[0][0], ends[1][1]


# --- from numbers over templates to an estimate ----------------------------------------------------------------------

_STEP = 1e-6
"""Step of the central difference; the metrics are products and sums of fractions, so its error is rounding."""


def influence_values(metric: Metric, by_template: Counts, total: Counts) -> Array:
    """The influence of every template, the last axis of `by_template`; NaN where the score is undefined."""
    found = np.zeros(by_template.values.shape[:-1])
    for fraction, slope in zip(metric.fractions, metric_slopes(metric, total), strict=True):
        value, base = np.nan_to_num(fraction.value(total)), np.maximum(fraction.denominator(total), 1.0)
        pulls = fraction.numerator(by_template) - value[..., None] * fraction.denominator(by_template)
        found += slope[..., None] * pulls / base[..., None]
    undefined = np.isnan(metric.value(total))[..., None]
    return np.where(undefined, np.nan, found)


def metric_slopes(metric: Metric, total: Counts) -> list[Array]:
    """The slope of the metric by each of its fractions, at the fractions' values; 0 where they are undefined."""
    values = np.stack([fraction.value(total) for fraction in metric.fractions])
    steps = _STEP * np.eye(len(values)).reshape(len(values), len(values), *[1] * (values.ndim - 1))
    return [
        np.nan_to_num((metric.combine(*(values + step)) - metric.combine(*(values - step))) / (2 * _STEP))
        for step in steps
    ]


def template_shares(metric: Metric, by_template: Counts) -> Array:
    """The weight of every template: shape (…, templates); of the denominator that fewest templates make."""
    sizes = [fraction.denominator(by_template) for fraction in metric.fractions]
    shares = np.stack([quotient(own, own.sum(axis=-1, keepdims=True), 0.0) for own in sizes])
    # A denominator that is 0 counts for nothing: the score rests on the others.
    squares = (shares**2).sum(axis=-1)
    found: Array = np.take_along_axis(shares, squares.argmax(axis=0)[None, ..., None], axis=0)[0]
    return found


def widening(units: float) -> float:
    """√(n / (n − 1)), by which errors over n templates are too small; NaN for fewer than two."""
    return math.sqrt(units / (units - 1)) if units > 1 else math.nan


def ratio_of(above: Array, below: Array, weights: Array, ends: Ends = (0.0, 1.0)) -> Estimate:
    """Σ above / Σ below over templates, a share unless `ends` says otherwise; undefined where the lower sum is 0."""
    whole = float(below.sum())
    value = float(above.sum()) / whole if whole else math.nan
    influences = (above - value * below) / whole if whole else np.full(above.shape, np.nan)
    return Estimate(
        value=value,
        influence_values=influences,
        adjusted_influence=influences * widening(effective_number(below)),
        template_weights=below / whole if whole else below,
        bootstrap_values=quotient(weights @ above, weights @ below),
        bounds=ends,
    )


# --- from estimates to an estimate -----------------------------------------------------------------------------------


def combine(estimates: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    """A weighted sum of estimates of one panel; undefined where one of them is."""
    pairs = list(zip(estimates, factors, strict=True))

    def total(name: str) -> Any:
        return sum(factor * getattr(estimate, name) for estimate, factor in pairs)

    def side(sign: int) -> Estimate | None:
        parts = [(estimate, sign * factor) for estimate, factor in pairs if sign * factor > 0]
        if not parts or len(parts) == len(pairs):
            return None
        return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else combine(*zip(*parts, strict=True))

    ends = [sorted((factor * estimate.bounds[0], factor * estimate.bounds[1])) for estimate, factor in pairs]
    added, taken = side(1), side(-1)
    crossed = [estimate.crossed_effect for estimate in estimates if estimate.crossed_effect is not None]
    sizes = np.asarray(sum(abs(factor) * estimate.template_weights for estimate, factor in pairs))
    whole, is_analytic = float(sizes.sum()), any(estimate.is_analytic for estimate in estimates)
    return Estimate(
        value=float(total("value")),
        influence_values=total("influence_values"),
        adjusted_influence=total("adjusted_influence"),
        template_weights=sizes / whole if whole else sizes,
        bootstrap_values=total("bootstrap_values"),
        bounds=(sum(low for low, _ in ends), sum(high for _, high in ends)),
        unseen_deviation=math.hypot(*(factor * estimate.unseen_deviation for estimate, factor in pairs)),
        unseen_stretch=max(estimate.unseen_stretch for estimate in estimates),
        df=min(estimate.df for estimate in estimates) if is_analytic else math.nan,
        parse_rate=min((one.parse_rate for one in estimates if not math.isnan(one.parse_rate)), default=math.nan),
        crossed_effect=CrossedEffect.combine(crossed, factors) if len(crossed) == len(pairs) else None,
        operands=(added, taken) if added and taken else None,
        is_curved=any(estimate.is_curved for estimate in estimates),
        is_analytic=is_analytic,
    )


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates of one panel: a macro average; undefined where one of them is."""
    return combine(estimates, [1 / len(estimates)] * len(estimates))


def mean_of_strata(estimates: Sequence[Estimate]) -> Estimate:
    """The plain mean of estimates on templates of their own each, such as categories.

    A large template draws the score to itself, so that its own deviation looks small: deviations are divided by what is
    expected of them (Bell & McCaffrey 2002, CR2), 1 − 2 s_t + Σ s² with shares s; the degrees of freedom are those of
    the error so made, joined over strata as Satterthwaite (1946) does.
    """
    corrected, spread, whole = [], 0.0, 0.0
    for estimate in estimates:
        shares = estimate.template_weights
        expected = np.where(shares > 0, 1 - 2 * shares + float((shares**2).sum()), 1.0)
        if estimate.n_templates < 2 or (expected <= 0).any():
            adjusted = np.full_like(estimate.adjusted_influence, np.nan)
        else:
            adjusted = estimate.influence_values / np.sqrt(expected)
            own = shares[shares > 0]
            away = np.eye(own.size) - own[None, :]
            weighed = away.T @ np.diag(own**2 / expected[shares > 0]) @ away
            degrees = float(np.trace(weighed) ** 2 / (weighed**2).sum())
            spread += float((adjusted**2).sum()) ** 2 / degrees if degrees > 0 else 0.0
        whole += float((adjusted**2).sum())
        corrected.append(replace(estimate, adjusted_influence=adjusted))
    found = mean(corrected)
    return replace(found, df=whole**2 / spread) if spread > 0 else found


def delta_method(estimates: Sequence[Estimate], function: Callable[..., Any], slopes: Sequence[float]) -> Estimate:
    """A smooth function of estimates, with its slopes at their values; `function` takes numbers and arrays alike."""
    return replace(
        combine(estimates, slopes),
        value=float(function(*(estimate.value for estimate in estimates))),
        bootstrap_values=np.asarray(function(*(estimate.bootstrap_values for estimate in estimates)), dtype=float),
        bounds=(-math.inf, math.inf),
        operands=None,
        components=tuple(estimates),
    )
