"""What the answers that could not be parsed leave open: an interval for sampling and for missing answers at once.

Had all unparsed answers been of one kind, a score would be L, had they been of the other, U; both are estimates over
templates with standard errors. An interval that holds the true score, wherever between them it lies, in (at least) the
wanted share of samples reaches c standard errors below L and above U, c between the one-sided and the two-sided
quantile: F(c + (U − L) / larger error) − F(−c) = confidence (Imbens & Manski 2004, Econometrica 72, 1845, eq. 7; with
t for the normal, as templates are few). It assumes nothing of the unparsed answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array

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
        confidence: such as 0.95.
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
