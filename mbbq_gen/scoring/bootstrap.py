"""Intervals that respect that questions come from a few dozen templates: a bootstrap over templates.

Templates are drawn with replacement, and all the answers to a template come or stay away together (Davison & Hinkley
1997, "Bootstrap Methods and their Application", §3.8). A resample is a vector of how often each template was drawn, so
its counts are one matrix product, and its scores the same formulas on arrays.

The plain percentile interval of such a bootstrap is too narrow for few templates: its spread is too small by
√((n − 1) / n), and it takes the normal where the t distribution belongs. Both are mended by reading the percentiles
further out (the expanded percentile interval: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", §5.3),
with the effective number of templates as n, which is less than their number where they differ in size.
`benches/simulate_all.py` holds it to what it promises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.scoring.reasons import FEW_TEMPLATES
from mbbq_gen.seeding import stable_number

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array

IntervalMethod = Literal["expanded_percentile", "few_templates", "edge"]


@dataclass(frozen=True)
class Intervals:
    """Where scores lie with the given confidence, one of each an axis; NaN where there is none."""

    low: Array
    high: Array
    dropped: Array
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
            dropped=values.shape[-1] - defined,
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


def hull(interval: tuple[float, float], *others: tuple[float, float] | None) -> tuple[float, float]:
    """The widest of intervals, end by end; None among the others does not count."""
    found = [interval, *(other for other in others if other is not None)]
    return min(low for low, _ in found), max(high for _, high in found)


def difference_interval(
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
