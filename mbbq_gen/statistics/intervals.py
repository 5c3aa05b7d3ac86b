"""Intervals that respect that questions come from a few dozen templates: a bootstrap over templates.

Templates are drawn with replacement, and all the answers to a template come or stay away together (Davison & Hinkley
1997, "Bootstrap Methods and their Application", §3.8). A resample is a vector of how often each template was drawn, so
its counts are one matrix product, and its scores the same formulas on arrays.

The plain percentile interval of such a bootstrap is too narrow for few templates: its spread is too small by
√((n − 1) / n), and it takes the normal where the t distribution belongs. Both are corrected by taking the percentiles
further out (the expanded percentile interval: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", §5.3),
with the effective number of templates as n, which is less than their number where they differ in size.
`benches/simulate_all.py` holds it to what it promises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.codes import FEW_TEMPLATES

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array

IntervalMethod = Literal["expanded_percentile", "few_templates", "near_boundary"]


@dataclass(frozen=True)
class Intervals:
    """Where scores lie with the given confidence, one of each an axis; NaN where there is none."""

    low: Array
    high: Array
    n_resamples_dropped: Array
    """Resamples in which the score was undefined, and which therefore do not count."""


def resample_weights(templates: Sequence[str], resamples: int, seed: int) -> Array:
    """How often each template is drawn in each resample: shape (resamples, templates), rows add up to their number.

    The draws depend on the seed and the templates' names alone: two groups with the same templates (two languages, two
    models) are resampled alike, so that the difference of their scores can be taken resample by resample.
    """
    import numpy as np

    generator = np.random.default_rng(stable_number("bootstrap", seed, *templates))
    number = len(templates)
    drawn = generator.multinomial(number, np.full(number, 1 / number), size=resamples)
    weights: Array = drawn.astype(np.float64)
    return weights


def intervals_between(values: Array, tails: Sequence[Array]) -> list[Intervals]:
    """What is left of each row of resampled scores when a tail of them is cut off at either end, for each tail."""
    import numpy as np

    ordered = np.sort(values, axis=-1)  # NaN last
    defined = values.shape[-1] - np.isnan(values).sum(axis=-1)
    return [
        Intervals(
            low=_quantile(ordered, defined, tail),
            high=_quantile(ordered, defined, 1 - tail),
            n_resamples_dropped=values.shape[-1] - defined,
        )
        for tail in tails
    ]


def within_confidence(confidence: float) -> float | None:
    """The confidence of the interval that two one-sided tests at level 1 − confidence stand on; None for none.

    At 0.95 it is 0.90: a number is shown to be smaller than a margin, in either direction, where this interval lies
    within it (TOST; Schuirmann 1987).
    """
    return 2 * confidence - 1 if confidence > 0.5 else None


def expanded_tail(confidence: float, effective: Array, widening: Array | None = None) -> Array:
    """What is cut off at either end: Φ(−√(n / (n − 1)) · t), t the quantile of n − 1 degrees of freedom; NaN for n ≤ 1.

    For many templates it is (1 − confidence) / 2. `widening` stands in for √(n / (n − 1)), where what is resampled is
    no single score.
    """
    import numpy as np
    from scipy import special

    more_than_one = np.where(effective > 1, effective, np.nan)
    wider = np.sqrt(more_than_one / (more_than_one - 1)) if widening is None else widening
    tail: Array = special.ndtr(-wider * t_quantile(confidence, more_than_one))
    return tail


def t_quantile(confidence: float, effective: Array) -> Array:
    """How many standard errors reach to either side: t with n − 1 degrees of freedom; NaN for n ≤ 1."""
    import numpy as np
    from scipy import special

    reach: Array = special.stdtrit(np.where(effective > 1, effective, np.nan) - 1, (1 + confidence) / 2)
    return reach


LEAST_BEYOND: Final = 5.0
"""Resamples beyond a percentile, below which it is no measure of how far scores may go."""


def t_interval_units(templates: int, effective: float, beyond: float) -> float | None:
    """Of how many units the t interval is that an interval must hold at least; None where percentiles are enough.

    No resample of five templates lies beyond the farthest of them, so percentiles can't either; t, of one less degrees
    of freedom than templates, can (Cameron & Miller 2015, §VI.D). And no percentile lies beyond the farthest resample:
    where fewer than LEAST_BEYOND of them (`beyond`) would be cut off, as at the levels of runs in rounds, it is t too.
    """
    if templates < FEW_TEMPLATES:
        return float(templates)
    return effective if beyond < LEAST_BEYOND else None


def t_interval(
    value: float, error: float, units: float | None, confidence: float, ends: tuple[float, float]
) -> tuple[float, float] | None:
    """Value ± t · error, t of one degree of freedom less than units, cut off where the score can't go.

    None for no units, and where nothing varies.
    """
    import numpy as np

    if units is None or not error > 0:
        return None
    reach = error * float(t_quantile(confidence, np.array(units)))
    return max(value - reach, ends[0]), min(value + reach, ends[1])


def interval_hull(interval: tuple[float, float], *others: tuple[float, float] | None) -> tuple[float, float]:
    """The widest of intervals, end by end; None among the others does not count."""
    found = [interval, *(other for other in others if other is not None)]
    return min(low for low, _ in found), max(high for _, high in found)


def mover_interval(
    values: tuple[float, float], first: tuple[float, float], second: tuple[float, float], correlation: float = 0.0
) -> tuple[float, float]:
    """The interval of first − second that the intervals of the two make (MOVER: Zou 2007; Zou & Donner 2008).

    What the ends of theirs are off their values adds up as standard errors do.
    """

    def joined(mine: float, its: float) -> float:
        return math.sqrt(max(mine**2 + its**2 - 2 * correlation * mine * its, 0.0))

    one, other = values
    low, high = joined(one - first[0], second[1] - other), joined(first[1] - one, other - second[0])
    return one - other - low, one - other + high


def _quantile(ordered: Array, defined: Array, share: Array) -> Array:
    """The quantile of each row's defined values, interpolated as numpy does; NaN where nothing is defined."""
    import numpy as np

    place = np.nan_to_num(share) * np.maximum(defined - 1, 0)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, np.maximum(defined - 1, 0))
    first = np.take_along_axis(ordered, below[..., None], axis=-1)[..., 0]
    second = np.take_along_axis(ordered, above[..., None], axis=-1)[..., 0]
    found: Array = np.where(np.isnan(share) | (defined == 0), np.nan, first + (place - below) * (second - first))
    return found


UNSEEN_TEMPLATE_DEVIATION: Final = 0.3
"""How far a template that was not seen may lie from the others: an assumption, larger than what is usually seen.
Nearer than this to an end of the scale, a score has a tail on the other side."""
STRETCH: Final = 1.2
"""How much farther it may lie off near an end of the scale, away from the end: there the tail has one side only."""
ENOUGH: Final = 10
"""Effective number of templates apart from the others, from which an interval does not rest on what was not seen."""
SKEWED: Final = 1.0
"""Skewness of the templates' scores, either way, from which there is room on the side of the long tail."""
_DRAWS: Final = 1000
_DIGITS: Final = 9
"""Scores that agree in so many digits are the same."""


def boundary_interval(
    scores: Array, sizes: Array, confidence: float, ends: tuple[float, float], unseen: float = UNSEEN_TEMPLATE_DEVIATION
) -> BoundaryInterval | None:
    """The interval of Σ size · score / Σ size, with room for a template that was not seen.

    Args:
        scores: of each template; NaN for none.
        sizes: what each template weighs.
        ends: smallest and largest score that there can be.
        unseen: how far off an unseen template may be.

    Returns:
        None where scores differ enough for a bootstrap, or no template has one.
    """
    import numpy as np

    has = (sizes > 0) & ~np.isnan(scores)
    scores, sizes = np.round(scores[has], _DIGITS), sizes[has]
    if not scores.size:
        return None
    middle = float(scores @ sizes / sizes.sum())
    near = (middle - ends[0] < unseen, ends[1] - middle < unseen)
    sides = _sides(scores, sizes, middle, near)
    if sides is None:
        return None
    drawn = _gamma(scores.size)
    extra = drawn[:, -1] * sizes.mean()
    below = drawn[:, :-1] @ sizes + extra
    weighted = drawn[:, :-1] @ (sizes * scores)
    tail, low, high = (1 - confidence) / 2, middle, middle
    up, down = (unseen * (STRETCH if is_near else 1.0) for is_near in near)
    if sides.down is not None:
        low = float(np.quantile((weighted + extra * max(ends[0], sides.start - max(down, sides.down))) / below, tail))
    if sides.up is not None:
        high = float(np.quantile((weighted + extra * min(ends[1], sides.start + max(up, sides.up))) / below, 1 - tail))
    return BoundaryInterval(min(low, middle), max(high, middle), rests_on_unseen=sides.are_few)


@dataclass(frozen=True)
class BoundaryInterval:
    """An interval with room for a template that was not seen."""

    low: float
    high: float
    rests_on_unseen: bool
    """Whether so few templates lie off the others that the interval stands on the assumption: it is warned of."""

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high."""
        return self.low, self.high


@dataclass(frozen=True)
class _Sides:
    """To which sides a template may lie that was not seen."""

    start: float
    """What it is reckoned from."""
    down: float | None
    """How far below it the farthest lies that was seen; None: no room is needed there."""
    up: float | None
    are_few: bool
    """Whether there are effectively fewer than ENOUGH templates there."""


def _sides(scores: Array, sizes: Array, middle: float, near: tuple[bool, bool]) -> _Sides | None:
    """Both sides where nearly all say the same; the side of a long tail, seen or to be expected; else None.

    `near`: whether the score is near the lower and the upper end of its scale.
    """
    import numpy as np

    values, places = np.unique(scores, return_inverse=True)
    weights = np.bincount(places, weights=sizes)
    most = int(weights.argmax())
    usual = float(values[most]) if weights[most] > sizes.sum() / 2 else None
    if usual is not None:
        apart = np.abs(scores - usual)
        if effective_number(sizes * apart) < ENOUGH:
            return _Sides(usual, float(apart.max()), float(apart.max()), are_few=True)
    away = scores - middle
    spread = float(sizes @ away**2 / sizes.sum())
    skew = float(sizes @ away**3 / sizes.sum()) / spread**1.5 if spread > 0 else 0.0
    down = np.maximum(-away, 0.0) if skew < -SKEWED or near[1] else None
    up = np.maximum(away, 0.0) if skew > SKEWED or near[0] else None
    tails = [tail for tail in (down, up) if tail is not None]
    if not tails:
        return None
    are_few = any(effective_number(sizes * tail) < ENOUGH for tail in tails)
    return _Sides(middle, _largest(down), _largest(up), are_few)


def _largest(tail: Array | None) -> float | None:
    return None if tail is None else float(tail.max())


def effective_number(parts: Array) -> float:
    """How many parts of one size would count as much; 0 where all are 0."""
    squares = float((parts**2).sum())
    return float(parts.sum()) ** 2 / squares if squares else 0.0


@lru_cache(maxsize=64)
def _gamma(templates: int) -> Array:
    """Weights of templates and of one more, not yet divided by their sum: draws × (templates + 1)."""
    import numpy as np

    generator = np.random.default_rng(stable_number("edge", templates))
    drawn: Array = generator.exponential(size=(_DRAWS, templates + 1))
    return drawn


class Proportion(FrozenModel):
    """A share with its Wilson interval."""

    value: float | None
    """None where nothing was counted; so are the ends of the interval."""
    ci_low: float | None
    ci_high: float | None
    n: int
    """How many were counted."""
    effective_n: float
    """As how many they count: fewer than `n` where some weigh more than others."""


def wilson(share: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """The ends of Wilson's interval of a share of `n`, which need not be whole."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
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
    low, high = wilson(share, effective, confidence)
    return Proportion(value=share, ci_low=low, ci_high=high, n=len(rows), effective_n=effective)


LOW_PARSING = 0.9
"""Share of the answers that could be parsed below which it is warned of."""
ReadWarning = Literal["low_parse_rate"]
LOW_PARSING_TEXT = (
    f"fewer than {LOW_PARSING:.0%} of the answers were parsed: see the bounds for what the others could change"
)
_BOUND_STEPS = 40
"""Of the bisection: 2⁻⁴⁰ of the range is less than rounding."""


@dataclass(frozen=True)
class ScenarioEstimate:
    """A score if all unparsed answers had been of one kind: numbers, or arrays over groups; NaN where undefined."""

    value: Array
    error: Array
    """Cluster-robust standard error."""


def imbens_manski_margin(gap: Array, error: Array, effective: Array, confidence: float) -> Array:
    """How many standard errors the interval reaches beyond either end; NaN where there is no error.

    Args:
        gap: between the ends, 0 or more.
        error: the larger of the two ends' standard errors.
        effective: number of templates; degrees of freedom are one less.
    """
    import numpy as np
    from scipy import special

    degrees = np.where(effective > 1, effective, np.nan) - 1
    width = np.divide(gap, error, out=np.full(np.shape(gap), np.inf), where=np.asarray(error) > 0)
    low = special.stdtrit(degrees, confidence)
    high = special.stdtrit(degrees, (1 + confidence) / 2)
    for _ in range(_BOUND_STEPS):
        middle = (low + high) / 2
        is_enough = special.stdtr(degrees, middle + width) - special.stdtr(degrees, -middle) >= confidence
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    found: Array = high
    return found


def missing_interval(
    low: ScenarioEstimate, high: ScenarioEstimate, effective: Array, confidence: float
) -> tuple[Array, Array]:
    """The interval for sampling and missing answers, from the score's two ends; NaN where there is none."""
    import numpy as np

    far = imbens_manski_margin(np.abs(high.value - low.value), np.fmax(low.error, high.error), effective, confidence)
    return low.value - far * low.error, high.value + far * high.error
