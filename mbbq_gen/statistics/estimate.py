"""Estimates: values with the influence of each template and bootstrap values.

For a fraction F = Σ a / Σ b over templates, the influence of template t is (a_t − F · b_t) / Σ b. For a metric of
several fractions the chain rule applies. The sum of squared influences is the cluster-robust variance of the score, up
to a small-sample factor (Cameron & Miller 2015, "A Practitioner's Guide to Cluster-Robust Inference", §II; Davison &
Hinkley 1997, "Bootstrap Methods and their Application", §2.7). Estimates of one panel (`mbbq_gen.statistics.panel`)
share templates and resamples, so their weighted sums, such as differences and macro averages, are estimates too.
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
    """Prompt variants as fixed effects (those of the run only) or random effects (a sample of others like them)."""
    average: Average = "questions"

    def __post_init__(self) -> None:
        """Raises UsageError for values out of range."""
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

    def facts(self) -> dict[str, Any]:
        """The settings in the JSON of every analysis."""
        return {
            "confidence_level": self.confidence,
            "n_resamples": self.n_resamples,
            "seed": self.seed,
            "unparsed": self.unparsed,
        }


class EstimateResult(FrozenModel):
    """An estimate for output, with its interval and number of templates."""

    value: float | None
    """None if undefined."""
    ci_low: float | None = None
    """Lower end of the interval over templates; None without an interval."""
    ci_high: float | None = None
    standard_error: float | None = None
    """Cluster-robust over templates; with random prompt variants, over both."""
    n_templates: int = 0
    n_templates_effective: float | None = None
    n_prompt_variants: int | None = None
    """Number of random prompt variants; None if they are fixed."""
    reason: str | None = None
    """The reason why `value`, or the interval, is None."""
    reason_code: ReasonCode | None = None
    warnings: tuple[str, ...] = ()

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval and 0 is outside."""
        return self.ci_low is not None and self.ci_high is not None and (self.ci_low > 0 or self.ci_high < 0)


REASONS: dict[ReasonCode, str] = {
    "undefined": "a denominator is 0",
    "too_few_templates": TOO_FEW,
    "too_few_prompt_variants": intervals.TOO_FEW_PROMPT_VARIANTS,
}


def no_score(reason: str) -> EstimateResult:
    """The result for an undefined score."""
    return EstimateResult(value=None, reason=reason, reason_code="undefined")


def number(value: Array | float) -> float | None:
    """A number for output: None for NaN, and no negative zero."""
    return None if math.isnan(value) else float(value) + 0.0


@dataclass(frozen=True)
class Estimate:
    """A value with its influence by template. Arrays are in the order of the panel's templates."""

    value: float
    """NaN if undefined."""
    influence_values: Array
    """They add up to 0."""
    adjusted_influence: Array
    """Influences with a small-sample correction; the root of their sum of squares is the standard error."""
    template_weights: Array
    """They add up to 1."""
    bootstrap_values: Array
    """The value in every resample; NaN if undefined."""
    bounds: Ends = (-math.inf, math.inf)
    unseen_deviation: float = intervals.UNSEEN_TEMPLATE_DEVIATION
    df: float = math.nan
    """Degrees of freedom of the error; NaN: effective number of templates minus 1."""
    parse_rate: float = math.nan
    """Parse rate in the metric's contexts; of several estimates the lowest."""
    crossed_effect: CrossedEffect | None = None
    """The effect of random prompt variants; None if they are fixed."""
    operands: tuple[Estimate, Estimate] | None = None
    """Minuend and subtrahend of a difference; None for other estimates."""
    components: tuple[Estimate, ...] = ()
    """The arguments of a function of estimates."""
    is_curved: bool = False
    """Whether it combines several fractions, so that the interval must also include the t interval."""
    support: int | None = None
    """Number of templates with rows in any denominator; None: number of templates with a weight."""

    @cached_property
    def n_templates(self) -> int:
        """The number of templates; of a combination, the smallest number of its parts."""
        own = int(np.count_nonzero(self.template_weights > 0)) if self.support is None else self.support
        return min([own, *(int(part.n_templates) for part in (*(self.operands or ()), *self.components))])

    @cached_property
    def _n_weighted(self) -> int:
        """The number of templates with a weight; of a combination, the smallest number of its parts."""
        own = int(np.count_nonzero(self.template_weights > 0))
        return min([own, *(int(part._n_weighted) for part in (*(self.operands or ()), *self.components))])

    @cached_property
    def n_effective(self) -> float:
        """The effective number of templates (Kish 1965, "Survey Sampling", §8.2); NaN without templates."""
        return effective_number(self.template_weights) or math.nan

    @property
    def missing_reason(self) -> ReasonCode | None:
        """The reason for no value or no interval; None if there are both."""
        if math.isnan(self.value):
            return "undefined"
        if self.n_templates < MIN_TEMPLATES or math.isnan(self.standard_error):
            return "too_few_templates"
        is_enough = self.n_prompt_variants is None or self.n_prompt_variants >= intervals.MIN_PROMPT_VARIANTS
        return None if is_enough else "too_few_prompt_variants"

    @property
    def n_prompt_variants(self) -> int | None:
        """The number of random prompt variants; None if they are fixed."""
        return None if self.crossed_effect is None else self.crossed_effect.count

    @cached_property
    def standard_error(self) -> float:
        """The cluster-robust standard error over templates; NaN for fewer than MIN_TEMPLATES."""
        if self.n_templates < MIN_TEMPLATES:
            return math.nan
        return math.sqrt(float(self.adjusted_influence @ self.adjusted_influence))

    @property
    def units(self) -> float:
        """The degrees of freedom of the error, plus 1, for `intervals.t_quantile`."""
        return self.n_effective if math.isnan(self.df) else self.df + 1

    def subtract(self, other: Estimate) -> Estimate:
        """The difference, paired by template and resample."""
        return combine((self, other), (1.0, -1.0))

    def analytic_half_width(self, confidence: float) -> float:
        """Half the width of the t interval; NaN without one."""
        prompts = 0.0 if self.crossed_effect is None else self.crossed_effect.half_width(confidence)
        return math.hypot(self.standard_error * intervals.t_quantile(confidence, self.units), prompts)

    def score(self, sampling: InferenceSettings | None) -> EstimateResult:
        """The estimate for output; without settings it has no interval."""
        code, error, ends = self.missing_reason, None, None
        if code is None:
            of_prompts = 0.0 if self.crossed_effect is None else self.crossed_effect.variance
            error = number(math.hypot(self.standard_error, of_prompts**0.5))
        if sampling is not None:
            ends = self.interval(sampling.confidence)
        elif code != "undefined":
            code = None
        return EstimateResult(
            value=number(self.value),
            ci_low=ends and number(ends[0]),
            ci_high=ends and number(ends[1]),
            standard_error=error,
            n_templates=self.n_templates,
            n_templates_effective=number(self.n_effective),
            n_prompt_variants=self.n_prompt_variants,
            reason=code and REASONS[code],
            reason_code=code,
            warnings=("low_parse_rate",) if self.parse_rate < intervals.LOW_PARSING else (),
        )

    def interval(self, confidence: float) -> Ends | None:
        """The interval over templates, and over prompt variants if they are random; None without one."""
        ends = self.template_interval(confidence)
        return None if ends is None else self.widen_for_variants(ends, confidence)

    def template_interval(self, confidence: float) -> Ends | None:
        """The interval over templates; None without one."""
        if confidence not in self._intervals:
            is_missing = self.missing_reason is not None or math.isnan(self.standard_error)
            self._intervals[confidence] = None if is_missing else self._template_interval(confidence)
        return self._intervals[confidence]

    @cached_property
    def _intervals(self) -> dict[float, Ends | None]:
        return {}

    def _template_interval(self, confidence: float) -> Ends:
        """The bootstrap interval, widened where that is needed."""
        plain = math.sqrt(float(self.influence_values @ self.influence_values))
        tail = intervals.expanded_tail(
            confidence, self.units, self.standard_error / plain if plain else widening(self.units)
        )
        low, high = intervals.percentile_interval(self._ordered_values, tail)
        return self.widened(low, high, confidence, tail * self.bootstrap_values.size)

    @cached_property
    def _ordered_values(self) -> Array:
        """The defined bootstrap values, sorted."""
        ordered: Array = np.sort(self.bootstrap_values[~np.isnan(self.bootstrap_values)])
        return ordered

    @property
    def n_resamples_dropped(self) -> int:
        """The number of resamples with an undefined value."""
        return int(np.count_nonzero(np.isnan(self.bootstrap_values)))

    def widen_for_variants(self, interval: Ends, confidence: float) -> Ends:
        """The interval, widened for prompt variants if they are random."""
        if self.crossed_effect is None:
            return interval
        half_width = self.crossed_effect.half_width(confidence)
        return intervals.widen_for_prompts(self.value, interval, half_width, self.bounds)

    def widened(self, low: float, high: float, confidence: float, tail_resamples: float = math.inf) -> Ends:
        """The interval, widened for few templates and for unseen templates.

        Resamples of few templates are too narrow, so the t interval is included (Cameron & Miller 2015, §VI.D). So it
        is for curved metrics, and if fewer than MIN_TAIL_RESAMPLES resamples (`tail_resamples`) are beyond an end.
        """
        units = None
        if self._n_weighted < FEW_TEMPLATES:
            units = float(self._n_weighted)
        elif self.is_curved or tail_resamples < intervals.MIN_TAIL_RESAMPLES:
            units = self.units
        by_t = intervals.t_interval(self.value, self.standard_error, units, confidence, self.bounds)
        by_operands = None
        if self.operands is not None and any(one.allows_unseen for one in self.operands):
            first, second = (one.template_interval(confidence) for one in self.operands)
            by_operands = difference_interval(self.operands, self.operands, first, second)
        return intervals.interval_hull((low, high), by_t, self.unseen_interval(confidence), by_operands)

    def unseen_interval(self, confidence: float) -> Ends | None:
        """The boundary interval together with the score interval; None if neither is needed."""
        if not self.allows_unseen:
            return None
        ends = (self.value, self.value) if self.boundary is None else self.boundary.ends(confidence)
        by_score = intervals.score_interval(self.value, self.standard_error, self.units, confidence, self.bounds)
        return intervals.interval_hull(ends, by_score)

    @cached_property
    def allows_unseen(self) -> bool:
        """Whether the interval allows for unseen templates: near an end of the scale, or with a boundary interval."""
        is_near = min(self.value - self.bounds[0], self.bounds[1] - self.value) < self.unseen_deviation
        return self.n_templates >= MIN_TEMPLATES and (is_near or self.boundary is not None)

    @cached_property
    def boundary(self) -> intervals.BoundaryInterval | None:
        """The interval that allows for an unseen template; None if not needed, or for too few templates."""
        if self.n_templates < MIN_TEMPLATES:
            return None
        has_weight = self.template_weights > 0
        sizes = self.template_weights[has_weight]
        scores = self.value + self.influence_values[has_weight] / sizes
        return intervals.boundary_interval(scores, sizes, self.bounds, self.unseen_deviation)


def difference_interval(
    lowest: tuple[Estimate, Estimate], highest: tuple[Estimate, Estimate], first: Ends | None, second: Ends | None
) -> Ends | None:
    """The interval of a difference from those of its operands (`intervals.mover_interval`); None if one has none.

    `lowest` and `highest`: the operands of the lower and upper end; they are the same without unparsed answers.
    """
    if first is None or second is None:
        return None
    ends = []
    for minuend, subtrahend in (lowest, highest):
        one, other = minuend.influence_values, subtrahend.influence_values
        norm = float((one @ one) * (other @ other)) ** 0.5
        correlation = float(one @ other) / norm if norm > 0 else 0.0
        ends.append(intervals.mover_interval((minuend.value, subtrahend.value), first, second, correlation))
    return ends[0][0], ends[1][1]


# --- from counts to an estimate --------------------------------------------------------------------------------------

_STEP = 1e-6
"""Step of the central difference; its error is rounding, since metrics are products and sums of fractions."""


def influence_values(metric: Metric, by_template: Counts, total: Counts) -> Array:
    """The influence of every template, the last axis of `by_template`; NaN if the score is undefined."""
    influences = np.zeros(by_template.values.shape[:-1])
    for fraction, slope in zip(metric.fractions, metric_slopes(metric, total), strict=True):
        value, denominator = np.nan_to_num(fraction.value(total)), np.maximum(fraction.denominator(total), 1.0)
        residuals = fraction.numerator(by_template) - value[..., None] * fraction.denominator(by_template)
        influences += slope[..., None] * residuals / denominator[..., None]
    return np.where(np.isnan(metric.value(total))[..., None], np.nan, influences)


def metric_slopes(metric: Metric, total: Counts) -> list[Array]:
    """The partial derivative of the metric by each of its fractions; 0 if undefined."""
    values = np.stack([fraction.value(total) for fraction in metric.fractions])
    steps = _STEP * np.eye(len(values)).reshape(len(values), len(values), *[1] * (values.ndim - 1))
    return [
        np.nan_to_num((metric.combine(*(values + step)) - metric.combine(*(values - step))) / (2 * _STEP))
        for step in steps
    ]


def template_shares(metric: Metric, by_template: Counts) -> Array:
    """Template weights (…, templates), by the metric's denominator with the smallest effective number of templates."""
    sizes = [fraction.denominator(by_template) for fraction in metric.fractions]
    shares = np.stack([quotient(size, size.sum(axis=-1, keepdims=True), 0.0) for size in sizes])
    squares = (shares**2).sum(axis=-1)  # 0 for a denominator of 0, which is therefore ignored
    smallest: Array = np.take_along_axis(shares, squares.argmax(axis=0)[None, ..., None], axis=0)[0]
    return smallest


def widening(units: float) -> float:
    """The small-sample factor √(n / (n − 1)) of standard errors; NaN for fewer than two."""
    return math.sqrt(units / (units - 1)) if units > 1 else math.nan


def ratio_of(numerator: Array, denominator: Array, weights: Array, ends: Ends = (0.0, 1.0)) -> Estimate:
    """The ratio Σ numerator / Σ denominator over templates; undefined if the denominator is 0."""
    total = float(denominator.sum())
    value = float(numerator.sum()) / total if total else math.nan
    influences = (numerator - value * denominator) / total if total else np.full(numerator.shape, np.nan)
    return Estimate(
        value=value,
        influence_values=influences,
        adjusted_influence=influences * widening(effective_number(denominator)),
        template_weights=denominator / total if total else denominator,
        bootstrap_values=quotient(weights @ numerator, weights @ denominator),
        bounds=ends,
    )


# --- from estimates to an estimate -----------------------------------------------------------------------------------


def combine(estimates: Sequence[Estimate], factors: Sequence[float]) -> Estimate:
    """A weighted sum of estimates of one panel; undefined if one of them is."""
    pairs = list(zip(estimates, factors, strict=True))

    def side(sign: int) -> Estimate | None:
        """The sum of the estimates with a factor of this sign; None if there is none, or no other."""
        parts = [(estimate, sign * factor) for estimate, factor in pairs if sign * factor > 0]
        if not parts or len(parts) == len(pairs):
            return None
        return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else combine(*zip(*parts, strict=True))

    ends = [sorted((factor * estimate.bounds[0], factor * estimate.bounds[1])) for estimate, factor in pairs]
    minuend, subtrahend = side(1), side(-1)
    crossed = [estimate.crossed_effect for estimate in estimates if estimate.crossed_effect is not None]
    sizes = np.asarray(sum(abs(factor) * estimate.template_weights for estimate, factor in pairs))
    size = float(sizes.sum())
    return Estimate(
        value=float(sum(factor * estimate.value for estimate, factor in pairs)),
        influence_values=np.asarray(sum(factor * estimate.influence_values for estimate, factor in pairs)),
        adjusted_influence=np.asarray(sum(factor * estimate.adjusted_influence for estimate, factor in pairs)),
        template_weights=sizes / size if size else sizes,
        bootstrap_values=np.asarray(sum(factor * estimate.bootstrap_values for estimate, factor in pairs)),
        bounds=(sum(low for low, _ in ends), sum(high for _, high in ends)),
        unseen_deviation=math.hypot(*(factor * estimate.unseen_deviation for estimate, factor in pairs)),
        parse_rate=min((one.parse_rate for one in estimates if not math.isnan(one.parse_rate)), default=math.nan),
        crossed_effect=CrossedEffect.combine(crossed, factors) if len(crossed) == len(pairs) else None,
        operands=(minuend, subtrahend) if minuend and subtrahend else None,
        is_curved=any(estimate.is_curved for estimate in estimates),
    )


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates of one panel (macro average); undefined if one of them is."""
    return combine(estimates, [1 / len(estimates)] * len(estimates))


def mean_of_strata(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates on disjoint templates, such as categories.

    A large template pulls the score towards itself, so its squared deviation is divided by its expectation (Bell &
    McCaffrey 2002, CR2), 1 − 2 s_t + Σ s² with template weights s. The degrees of freedom are pooled over strata by
    Satterthwaite (1946).
    """
    corrected, spread, total = [], 0.0, 0.0
    for estimate in estimates:
        shares = estimate.template_weights
        expected = np.where(shares > 0, 1 - 2 * shares + float((shares**2).sum()), 1.0)
        if estimate.n_templates < 2 or (expected <= 0).any():
            adjusted = np.full_like(estimate.adjusted_influence, np.nan)
        else:
            adjusted = estimate.influence_values / np.sqrt(expected)
            positive = shares[shares > 0]
            centering = np.eye(positive.size) - positive[None, :]
            covariance = centering.T @ np.diag(positive**2 / expected[shares > 0]) @ centering
            degrees = float(np.trace(covariance) ** 2 / (covariance**2).sum())
            spread += float((adjusted**2).sum()) ** 2 / degrees if degrees > 0 else 0.0
        total += float((adjusted**2).sum())
        corrected.append(replace(estimate, adjusted_influence=adjusted))
    average = mean(corrected)
    return replace(average, df=total**2 / spread) if spread > 0 else average


def delta_method(estimates: Sequence[Estimate], function: Callable[..., Any], slopes: Sequence[float]) -> Estimate:
    """A smooth function of estimates, with its partial derivatives `slopes`; it must accept numbers and arrays."""
    return replace(
        combine(estimates, slopes),
        value=float(function(*(estimate.value for estimate in estimates))),
        bootstrap_values=np.asarray(function(*(estimate.bootstrap_values for estimate in estimates)), dtype=float),
        bounds=(-math.inf, math.inf),
        operands=None,
        components=tuple(estimates),
    )
