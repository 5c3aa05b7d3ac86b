"""Confidence intervals by a cluster bootstrap over templates.

Templates are drawn with replacement, with all their answers (Davison & Hinkley 1997, "Bootstrap Methods and their
Application", §3.8). A resample is the vector of each template's frequency, so its counts are one matrix product.
The percentile interval is too narrow for few templates: its spread is too small by √((n − 1) / n), and it uses the
normal distribution instead of t. The expanded percentile interval uses more extreme percentiles (Hesterberg 2015, "What
Teachers Should Know About the Bootstrap", §5.3), here with the effective number of templates as n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from scipy import special

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array, quotient

IntervalMethod = Literal["expanded_percentile", "few_templates", "near_boundary"]
Ends = tuple[float, float]
"""The lower and upper end of an interval or a scale."""


def percentile_interval(ordered: Array, tail: float) -> Ends:
    """The percentile interval of sorted values, with linear interpolation; NaN without values."""
    if not ordered.size or math.isnan(tail):
        return math.nan, math.nan
    return _quantile(ordered, tail), _quantile(ordered, 1 - tail)


def _quantile(ordered: Array, share: float) -> float:
    position = share * (ordered.size - 1)
    below = int(position)
    first, second = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
    return first + (position - below) * (second - first)


def expanded_tail(confidence: float, units: float, widening: float) -> float:
    """The tail probability Φ(−widening · t), t with `units` − 1 degrees of freedom (Hesterberg 2015, §5.3)."""
    return float(special.ndtr(-widening * t_quantile(confidence, units)))


def t_quantile(confidence: float, units: float) -> float:
    """The t quantile of a two-sided interval, with `units` − 1 degrees of freedom; NaN for units ≤ 1."""
    return float(special.stdtrit(units - 1, (1 + confidence) / 2)) if units > 1 else math.nan


MIN_TAIL_RESAMPLES: Final = 5.0
"""Least number of resamples beyond a percentile for a reliable percentile interval."""


def t_interval(value: float, error: float, units: float | None, confidence: float, ends: Ends) -> Ends | None:
    """Value ± t · error, t with `units` − 1 degrees of freedom, cut at the ends; None if the error is 0."""
    if units is None or not error > 0:
        return None
    half_width = error * t_quantile(confidence, units)
    return max(value - half_width, ends[0]), min(value + half_width, ends[1])


def score_interval(value: float, error: float, units: float, confidence: float, ends: Ends) -> Ends | None:
    """The score interval: Wilson's interval with the effective number of answers, and t instead of the normal.

    It assumes a variance proportional to (value − low) · (high − value), as of a proportion (Korn & Graubard 1998,
    Survey Methodology 24). None if the value is an end of the scale, the error is 0, or the scale is infinite.
    """
    length = ends[1] - ends[0]
    share = (value - ends[0]) / length
    if not (0 < share < 1 and error > 0 and units > 1 and math.isfinite(length)):
        return None
    low, high = wilson(share, share * (1 - share) / (error / length) ** 2, t_quantile(confidence, units))
    return ends[0] + length * low, ends[0] + length * high


def interval_hull(interval: Ends, *others: Ends | None) -> Ends:
    """The smallest interval that contains all intervals; None among the others is ignored."""
    known = [interval, *(other for other in others if other is not None)]
    return min(low for low, _ in known), max(high for _, high in known)


def mover_interval(values: tuple[float, float], first: Ends, second: Ends, correlation: float = 0.0) -> Ends:
    """The interval of first − second from the intervals of both (MOVER: Zou 2007; Zou & Donner 2008)."""

    def distance(of_first: float, of_second: float) -> float:
        return math.sqrt(max(of_first**2 + of_second**2 - 2 * correlation * of_first * of_second, 0.0))

    one, other = values
    below, above = distance(one - first[0], second[1] - other), distance(first[1] - one, other - second[0])
    return one - other - below, one - other + above


UNSEEN_TEMPLATE_DEVIATION: Final = 0.3
"""The assumed deviation of an unseen template. Scores this near an end of the scale get a score interval."""
STRETCH: Final = 1.2
"""Factor on the deviation near an end of the scale, away from the end, per unit of the scale's length."""
MIN_DEVIATING: Final = 10
"""Effective number of deviating templates from which an interval does not depend on the assumed deviation."""
FEW_EFFECTIVE: Final = 20
"""Effective number of templates below which an interval near an end always allows for an unseen template."""
SKEWNESS_LIMIT: Final = 1.0
"""Absolute skewness of template scores above which the interval allows for an unseen template in the long tail."""
_DRAWS: Final = 1000
_DIGITS: Final = 9
"""Digits that template scores are rounded to."""


@dataclass(frozen=True)
class BoundaryInterval:
    """An interval that allows for an unseen template."""

    middle: float
    lower: Array | None
    """Sorted weighted means with an unseen template below the others; None: the lower end needs none."""
    upper: Array | None
    depends_on_unseen: bool
    """Whether few templates deviate, so that the interval depends on the assumed deviation; gives a warning."""

    def ends(self, confidence: float) -> Ends:
        """The interval, which always contains the score."""
        tail = (1 - confidence) / 2
        low = self.middle if self.lower is None else _quantile(self.lower, tail)
        high = self.middle if self.upper is None else _quantile(self.upper, 1 - tail)
        return min(low, self.middle), max(high, self.middle)


def boundary_interval(
    scores: Array, sizes: Array, ends: Ends, unseen: float = UNSEEN_TEMPLATE_DEVIATION
) -> BoundaryInterval | None:
    """The interval of Σ size · score / Σ size that allows for an unseen template.

    The templates and an unseen one get random weights, as in the Bayesian bootstrap (Rubin 1981). The unseen one
    deviates by `unseen`, times STRETCH near an end of the scale, or as much as the farthest template if that is more.
    It may deviate in both directions if nearly all templates have the same score, else in the direction of a long tail:
    an observed one, or the one expected of few templates near an end. None if scores vary enough for a bootstrap.
    """
    if not scores.size:
        return None
    scores, total = np.round(scores, _DIGITS), float(sizes.sum())
    middle = float(scores @ sizes) / total
    near_low, near_high = middle - ends[0] < unseen, ends[1] - middle < unseen
    center = _majority_score(scores, sizes, total)
    down: Array | None
    up: Array | None
    down = up = None if center is None else np.abs(scores - center)
    if center is None or down is None or effective_number(sizes * down) >= MIN_DEVIATING:
        center, deviations = middle, scores - middle
        variance = float(sizes @ deviations**2) / total
        skew = float(sizes @ deviations**3) / total / variance**1.5 if variance > 0 else 0.0
        are_few = effective_number(sizes) < FEW_EFFECTIVE
        down = np.maximum(-deviations, 0.0) if skew < -SKEWNESS_LIMIT or (near_high and are_few) else None
        up = np.maximum(deviations, 0.0) if skew > SKEWNESS_LIMIT or (near_low and are_few) else None
        if down is None and up is None:
            return None
    few_deviate = any(effective_number(sizes * side) < MIN_DEVIATING for side in (down, up) if side is not None)
    weights = _exponential_weights(scores.size)
    extra = weights[:, -1] * (total / sizes.size)
    sums, weight = weights[:, :-1] @ (sizes * scores), weights[:, :-1] @ sizes + extra
    lower, upper, factor = None, None, STRETCH * (ends[1] - ends[0])
    if down is not None:
        deviation = max(unseen * (factor if near_high else 1.0), float(down.max()))
        lower = np.sort((sums + extra * max(ends[0], center - deviation)) / weight)
    if up is not None:
        deviation = max(unseen * (factor if near_low else 1.0), float(up.max()))
        upper = np.sort((sums + extra * min(ends[1], center + deviation)) / weight)
    return BoundaryInterval(middle, lower, upper, few_deviate)


def _majority_score(scores: Array, sizes: Array, total: float) -> float | None:
    """The score of templates with more than half of the weight; None if there is none."""
    values, indices = np.unique(scores, return_inverse=True)
    weights = np.bincount(indices, weights=sizes)
    largest = int(weights.argmax())
    return float(values[largest]) if weights[largest] > total / 2 else None


def effective_number(weights: Array) -> float:
    """The effective number of weights (Σ w)² / Σ w² (Kish 1965, "Survey Sampling", §8.2); 0 if all are 0."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


@lru_cache(maxsize=64)
def _exponential_weights(templates: int) -> Array:
    """Weights of templates and an unseen one, not normalised: draws × (templates + 1)."""
    generator = np.random.default_rng(stable_number("edge", templates))
    return generator.exponential(size=(_DRAWS, templates + 1))


class Proportion(FrozenModel):
    """A proportion with its Wilson interval."""

    value: float | None
    """None, like the interval, if `n` is 0."""
    ci_low: float | None
    ci_high: float | None
    n: int
    effective_n: float
    """Effective number, less than `n` if weights differ."""


def wilson(share: float, n: float, z: float = NormalDist().inv_cdf(0.975)) -> Ends:
    """Wilson's interval of a proportion (1927, JASA 22, eq. 2) at z standard errors; n can be fractional."""
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    return low, 1.0 if share == 1 else min(1.0, centre + half)


def proportion(counted: Iterable[tuple[bool, float]], confidence: float = 0.95) -> Proportion:
    """The weighted proportion of True among pairs of truth and weight, each weight above 0."""
    rows = list(counted)
    total = sum(weight for _, weight in rows)
    if not rows:
        return Proportion(value=None, ci_low=None, ci_high=None, n=0, effective_n=0.0)
    share = 1.0 if all(holds for holds, _ in rows) else sum(weight for holds, weight in rows if holds) / total
    effective = total * total / sum(weight * weight for _, weight in rows)
    low, high = wilson(share, effective, NormalDist().inv_cdf(0.5 + confidence / 2))
    return Proportion(value=share, ci_low=low, ci_high=high, n=len(rows), effective_n=effective)


LOW_PARSING = 0.9
"""Parse rate below which there is a warning."""
LOW_PARSING_TEXT = (
    f"fewer than {LOW_PARSING:.0%} of the answers were parsed: see the bounds for what the others could change"
)


# --- prompt variants -------------------------------------------------------------------------------------------------

MIN_PROMPT_VARIANTS: Final = 3
"""Least number of random prompt variants: intervals over two have a coverage of 91 %, with t = 12.7."""
TOO_FEW_PROMPT_VARIANTS: Final = (
    f"fewer than {MIN_PROMPT_VARIANTS} prompt variants: no interval and no p value with --prompt-effects random"
)


@dataclass(frozen=True)
class CrossedEffect:
    """The influences of templates crossed with random prompt variants.

    The variance that prompt variants add to a score over templates is

        K / (K − 1) · Σ_w ψ_w²  −  K / (K − 1) · n / (n − 1) · Σ_tw ρ_tw²

    with ψ_w the influence of prompt variant w, and ρ_tw the residual influence of template t in prompt variant w. This
    is the analysis of variance of a crossed design (Cornfield & Tukey 1956) with influences instead of scores; for
    large numbers of both, Cameron, Gelbach & Miller 2011. Prompt variants are few, so each part has its own t quantile
    (`widen_for_prompts`; docs/decisions/0016-prompt-variants.md).
    """

    influences: Array
    """Templates × prompt variants; they add up to 0."""
    sizes: Array
    """Templates × prompt variants: weights, which add up to 1."""

    @classmethod
    def combine(cls, effects: Sequence[CrossedEffect], factors: Sequence[float]) -> CrossedEffect:
        """The effect on a weighted sum of estimates."""
        pairs = list(zip(effects, factors, strict=True))
        sizes = np.sum([abs(factor) * effect.sizes for effect, factor in pairs], axis=0)
        influences = np.sum([factor * effect.influences for effect, factor in pairs], axis=0)
        return cls(influences, sizes / (float(sizes.sum()) or 1.0))

    @property
    def count(self) -> int:
        """The number of prompt variants with a weight."""
        return int((self.sizes.sum(axis=0) > 0).sum())

    @property
    def n_effective(self) -> float:
        """The effective number of prompt variants."""
        return effective_number(self.sizes.sum(axis=0))

    @property
    def variance(self) -> float:
        """The variance that prompt variants add; NaN for fewer than MIN_PROMPT_VARIANTS."""
        variants, templates = self.n_effective, effective_number(self.sizes.sum(axis=1))
        if self.count < MIN_PROMPT_VARIANTS or templates <= 1:
            return math.nan
        of_template, of_variant = (self.influences.sum(axis=axis, keepdims=True) for axis in (1, 0))
        shares = [quotient(self.sizes, self.sizes.sum(axis=axis, keepdims=True), 0.0) for axis in (1, 0)]
        residuals = self.influences - of_template * shares[0] - of_variant * shares[1]
        factor = variants / (variants - 1)
        interaction = templates / (templates - 1) * float((np.where(self.sizes > 0, residuals, 0.0) ** 2).sum())
        return max(factor * (float((of_variant**2).sum()) - interaction), 0.0)

    def half_width(self, confidence: float) -> float:
        """Half the width of an interval over prompt variants alone; NaN for fewer than MIN_PROMPT_VARIANTS."""
        return t_quantile(confidence, self.n_effective) * math.sqrt(self.variance)


def widen_for_prompts(value: float, interval: Ends, half_width: float, ends: Ends) -> Ends:
    """The interval over templates, widened by the half-width over prompt variants; cut at the ends of the scale.

    The new ends are value ± √((end − value)² + t²_{K − 1} · variance of prompt variants) (Howe 1974; Zou & Donner 2008,
    MOVER).
    """
    low, high = interval
    below, above = math.hypot(max(value - low, 0.0), half_width), math.hypot(max(high - value, 0.0), half_width)
    return max(min(low, value - below), min(ends[0], low)), min(max(high, value + above), max(ends[1], high))
