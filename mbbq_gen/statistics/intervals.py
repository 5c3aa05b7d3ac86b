"""Intervals that respect that questions come from a few dozen templates: a bootstrap over templates.

Templates are drawn with replacement, with all their answers (Davison & Hinkley 1997, "Bootstrap Methods and their
Application", §3.8). A resample is a vector of how often each template was drawn, so its counts are one matrix product.
The plain percentile interval is too narrow for few templates: its spread is too small by √((n − 1) / n), and it takes
the normal where t belongs. So percentiles are taken further out (the expanded percentile interval: Hesterberg 2015,
"What Teachers Should Know About the Bootstrap", §5.3), with the effective number of templates as n.
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

IntervalMethod = Literal["expanded_percentile", "hartung_knapp", "few_templates", "near_boundary"]
Ends = tuple[float, float]
"""The lower and the upper end of an interval, or of a scale."""


def percentile_interval(ordered: Array, tail: float) -> Ends:
    """Sorted values less a tail at either end, by linearly interpolated quantiles; NaN where there is none."""
    if not ordered.size or math.isnan(tail):
        return math.nan, math.nan
    return _quantile(ordered, tail), _quantile(ordered, 1 - tail)


def _quantile(ordered: Array, share: float) -> float:
    place = share * (ordered.size - 1)
    below = int(place)
    first, second = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
    return first + (place - below) * (second - first)


def expanded_tail(confidence: float, units: float, widening: float) -> float:
    """The tail Φ(−widening · t) of each end, t with `units` − 1 degrees of freedom (Hesterberg 2015, §5.3)."""
    return float(special.ndtr(-widening * t_quantile(confidence, units)))


def t_quantile(confidence: float, units: float) -> float:
    """The quantile of t with `units` − 1 degrees of freedom for a two-sided interval; NaN for units ≤ 1."""
    return float(special.stdtrit(units - 1, (1 + confidence) / 2)) if units > 1 else math.nan


LEAST_BEYOND: Final = 5.0
"""Resamples beyond a percentile, below which it is no measure of how far scores may go."""


def t_interval(value: float, error: float, units: float | None, confidence: float, ends: Ends) -> Ends | None:
    """Value ± t · error, t of one degree of freedom less than units, within the ends; None where nothing varies."""
    if units is None or not error > 0:
        return None
    reach = error * t_quantile(confidence, units)
    return max(value - reach, ends[0]), min(value + reach, ends[1])


def score_interval(value: float, error: float, units: float, confidence: float, ends: Ends) -> Ends | None:
    """The values that lie within t standard errors of the score, were the errors those of that value.

    Between the ends of a scale, variance goes with (value − low) · (high − value), as that of a share does. So this is
    Wilson's interval of the effective number of answers, with t in place of the normal (Korn & Graubard 1998, Survey
    Methodology 24). None where the value is an end, nothing varies, or the scale has no ends.
    """
    length = ends[1] - ends[0]
    share = (value - ends[0]) / length
    if not (0 < share < 1 and error > 0 and units > 1 and math.isfinite(length)):
        return None
    low, high = wilson(share, share * (1 - share) / (error / length) ** 2, t_quantile(confidence, units))
    return ends[0] + length * low, ends[0] + length * high


def interval_hull(interval: Ends, *others: Ends | None) -> Ends:
    """The widest of intervals, end by end; None among the others does not count."""
    found = [interval, *(other for other in others if other is not None)]
    return min(low for low, _ in found), max(high for _, high in found)


def mover_interval(values: tuple[float, float], first: Ends, second: Ends, correlation: float = 0.0) -> Ends:
    """The interval of first − second that the intervals of the two make (MOVER: Zou 2007; Zou & Donner 2008)."""

    def joined(mine: float, its: float) -> float:
        return math.sqrt(max(mine**2 + its**2 - 2 * correlation * mine * its, 0.0))

    one, other = values
    low, high = joined(one - first[0], second[1] - other), joined(first[1] - one, other - second[0])
    return one - other - low, one - other + high


UNSEEN_TEMPLATE_DEVIATION: Final = 0.3
"""How far off an unseen template may lie: assumed, and how near an end of its scale a score gets a score interval."""
STRETCH: Final = 1.2
"""How much farther it may lie off near an end of the scale, away from the end, for each unit of the scale's length:
there the tail has one side only."""
ENOUGH: Final = 10
"""Effective number of templates apart from the others, from which an interval does not rest on what was not seen."""
ROOM_BELOW: Final = 20
"""Effective number of templates below which a score near an end has room for an unseen one, whatever was seen."""
SKEWED: Final = 1.0
"""Skewness of the templates' scores, either way, from which there is room on the side of the long tail."""
_DRAWS: Final = 1000
_DIGITS: Final = 9
"""Scores that agree in so many digits are the same."""


@dataclass(frozen=True)
class BoundaryInterval:
    """An interval with room for a template that was not seen."""

    middle: float
    lower: Array | None
    """Weighted means with an unseen template below the others, sorted; None: no room is needed there."""
    upper: Array | None
    rests_on_unseen: bool
    """Whether so few templates lie off the others that the interval stands on the assumption: it is warned of."""

    def ends(self, confidence: float) -> Ends:
        """Low and high; never on one side of the score."""
        tail = (1 - confidence) / 2
        low = self.middle if self.lower is None else _quantile(self.lower, tail)
        high = self.middle if self.upper is None else _quantile(self.upper, 1 - tail)
        return min(low, self.middle), max(high, self.middle)


def boundary_interval(
    scores: Array, sizes: Array, ends: Ends, unseen: float = UNSEEN_TEMPLATE_DEVIATION, stretch: float = STRETCH
) -> BoundaryInterval | None:
    """The interval of Σ size · score / Σ size, with room for a template that was not seen.

    Templates and one more get random weights, as in the Bayesian bootstrap (Rubin 1981); the one more lies as far off
    as the farthest that was seen, or as `unseen`, times `stretch` near an end of the scale. There is room on both sides
    where nearly all templates say the same, else on the side of a long tail: one that is seen, or, with few templates
    near an end of the scale, to be expected. None where scores differ enough for a bootstrap, or no template has one.
    """
    if not scores.size:
        return None
    scores, whole = np.round(scores, _DIGITS), float(sizes.sum())
    middle = float(scores @ sizes) / whole
    near_low, near_high = middle - ends[0] < unseen, ends[1] - middle < unseen
    start = _usual_score(scores, sizes, whole)
    down: Array | None
    up: Array | None
    down = up = None if start is None else np.abs(scores - start)
    if start is None or down is None or effective_number(sizes * down) >= ENOUGH:
        start, away = middle, scores - middle
        spread = float(sizes @ away**2) / whole
        skew = float(sizes @ away**3) / whole / spread**1.5 if spread > 0 else 0.0
        is_rough = effective_number(sizes) < ROOM_BELOW
        down = np.maximum(-away, 0.0) if skew < -SKEWED or (near_high and is_rough) else None
        up = np.maximum(away, 0.0) if skew > SKEWED or (near_low and is_rough) else None
        if down is None and up is None:
            return None
    are_few = any(effective_number(sizes * tail) < ENOUGH for tail in (down, up) if tail is not None)
    drawn = _exponential_weights(scores.size)
    extra = drawn[:, -1] * (whole / sizes.size)
    weighted, below = drawn[:, :-1] @ (sizes * scores), drawn[:, :-1] @ sizes + extra
    lower, upper, at_an_end = None, None, stretch * (ends[1] - ends[0])
    if down is not None:
        far = max(unseen * (at_an_end if near_high else 1.0), float(down.max()))
        lower = np.sort((weighted + extra * max(ends[0], start - far)) / below)
    if up is not None:
        far = max(unseen * (at_an_end if near_low else 1.0), float(up.max()))
        upper = np.sort((weighted + extra * min(ends[1], start + far)) / below)
    return BoundaryInterval(middle, lower, upper, are_few)


def _usual_score(scores: Array, sizes: Array, whole: float) -> float | None:
    """The score that templates of more than half of the weight have; None for none."""
    values, places = np.unique(scores, return_inverse=True)
    weights = np.bincount(places, weights=sizes)
    most = int(weights.argmax())
    return float(values[most]) if weights[most] > whole / 2 else None


def effective_number(parts: Array) -> float:
    """The effective number of parts; 0 where all are 0."""
    squares = float((parts**2).sum())
    return float(parts.sum()) ** 2 / squares if squares else 0.0


@lru_cache(maxsize=64)
def _exponential_weights(templates: int) -> Array:
    """Weights of templates and of one more, not yet divided by their sum: draws × (templates + 1)."""
    generator = np.random.default_rng(stable_number("edge", templates))
    return generator.exponential(size=(_DRAWS, templates + 1))


class Proportion(FrozenModel):
    """A share with its Wilson interval."""

    value: float | None
    """None, as the ends, where nothing was counted."""
    ci_low: float | None
    ci_high: float | None
    n: int
    effective_n: float
    """Effective number: fewer than `n` where some weigh more than others."""


def wilson(share: float, n: float, z: float = NormalDist().inv_cdf(0.975)) -> Ends:
    """Wilson's interval of a share of `n` (1927, JASA 22, eq. 2), z standard errors wide; n need not be whole."""
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    return low, 1.0 if share == 1 else min(1.0, centre + half)


def proportion(counted: Iterable[tuple[bool, float]], confidence: float = 0.95) -> Proportion:
    """The share of what holds among (holds, weight), each weight above 0."""
    rows = list(counted)
    total = sum(weight for _, weight in rows)
    if not rows:
        return Proportion(value=None, ci_low=None, ci_high=None, n=0, effective_n=0.0)
    holding = sum(weight for holds, weight in rows if holds)
    share = 1.0 if all(holds for holds, _ in rows) else holding / total
    effective = total * total / sum(weight * weight for _, weight in rows)
    low, high = wilson(share, effective, NormalDist().inv_cdf(0.5 + confidence / 2))
    return Proportion(value=share, ci_low=low, ci_high=high, n=len(rows), effective_n=effective)


LOW_PARSING = 0.9
"""Share of the answers that could be parsed below which it is warned of."""
LOW_PARSING_TEXT = (
    f"fewer than {LOW_PARSING:.0%} of the answers were parsed: see the bounds for what the others could change"
)


# --- prompt variants -------------------------------------------------------------------------------------------------

MIN_PROMPT_VARIANTS: Final = 3
"""Fewest prompt variants for a statement about others like them: two hold the truth in 91 %, with t = 12.7."""
TOO_FEW_PROMPT_VARIANTS: Final = (
    f"fewer than {MIN_PROMPT_VARIANTS} prompt variants: no interval and no p value with --prompt-effects random"
)


@dataclass(frozen=True)
class CrossedEffect:
    """What each template in each prompt variant makes of a number: how far prompt variants widen its interval.

    What prompt variants add to the variance of a score over templates is

        K / (K − 1) · Σ_w ψ_w²  −  K / (K − 1) · n / (n − 1) · Σ_tw ρ_tw²

    ψ_w being the influence of prompt variant w and ρ_tw what is left of the influence of template t in prompt variant w
    when both are taken off: the analysis of variance of a crossed design (Cornfield & Tukey 1956), for influences in
    place of scores; for large numbers of both, Cameron, Gelbach & Miller 2011. Prompt variants are few, so each part
    keeps its own t quantile (`widen_for_prompts`; docs/decisions/0016-prompt-variants.md).
    """

    influences: Array
    """Templates × prompt variants: influences; they add up to 0."""
    sizes: Array
    """Templates × prompt variants: shares of the weight; they add up to 1."""

    @classmethod
    def combine(cls, effects: Sequence[CrossedEffect], factors: Sequence[float]) -> CrossedEffect:
        """The effect on a weighted sum."""
        pairs = list(zip(effects, factors, strict=True))
        sizes = np.sum([abs(factor) * effect.sizes for effect, factor in pairs], axis=0)
        whole = float(sizes.sum())
        return cls(np.sum([factor * effect.influences for effect, factor in pairs], axis=0), sizes / (whole or 1.0))

    @property
    def count(self) -> int:
        """Prompt variants that bear on it."""
        return int((self.sizes.sum(axis=0) > 0).sum())

    @property
    def effective(self) -> float:
        """The effective number of prompt variants; 0 for none."""
        return effective_number(self.sizes.sum(axis=0))

    @property
    def variance(self) -> float:
        """The variance that prompt variants add to the number; NaN for fewer than MIN_PROMPT_VARIANTS."""
        variants, templates = self.effective, effective_number(self.sizes.sum(axis=1))
        if self.count < MIN_PROMPT_VARIANTS or templates <= 1:
            return math.nan
        of_template, of_variant = (self.influences.sum(axis=axis, keepdims=True) for axis in (1, 0))
        shares = [quotient(self.sizes, self.sizes.sum(axis=axis, keepdims=True), 0.0) for axis in (1, 0)]
        rest = self.influences - of_template * shares[0] - of_variant * shares[1]
        factor = variants / (variants - 1)
        together = templates / (templates - 1) * float((np.where(self.sizes > 0, rest, 0.0) ** 2).sum())
        return max(factor * (float((of_variant**2).sum()) - together), 0.0)

    def reach(self, confidence: float) -> float:
        """Half the width of an interval over prompt variants alone; NaN for fewer than MIN_PROMPT_VARIANTS."""
        return t_quantile(confidence, self.effective) * math.sqrt(self.variance)


def widen_for_prompts(value: float, interval: Ends, reach: float, ends: Ends) -> Ends:
    """The ends of an interval over templates with what prompt variants add; never beyond where the number can be.

    Each end is moved out to value ± √((end − value)² + t²_{K − 1} · variance of prompt variants) (Howe 1974; Zou &
    Donner 2008, MOVER).
    """
    low, high = interval
    below, above = math.hypot(max(value - low, 0.0), reach), math.hypot(max(high - value, 0.0), reach)
    return max(min(low, value - below), min(ends[0], low)), min(max(high, value + above), max(ends[1], high))
