"""Sensitivity to unparsed answers: bounds of scores and differences, with an interval."""

from __future__ import annotations

import math

from scipy import special

from mbbq_gen.core.records import FrozenModel
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, difference_interval, number
from mbbq_gen.statistics.intervals import Ends, interval_hull

_BOUND_STEPS = 50
_ROUNDING = 1e-14


class MissingDataBounds(FrozenModel):
    """The lowest and highest value of a score over all possible unparsed answers."""

    low: float | None
    high: float | None
    interval_low: float | None
    """Lower end of an interval for sampling and unparsed answers (Imbens & Manski 2004), which includes the interval of
    the score itself; None without one."""
    interval_high: float | None


def missing_data_bounds(
    low: Estimate, high: Estimate, plain: Estimate, sampling: InferenceSettings | None
) -> MissingDataBounds:
    """The bounds from the lowest and highest estimate; `plain` has no imputed answers.

    The interval includes that of `plain`. There is none without settings, or if `plain` has none.
    """
    own = None if sampling is None else plain.interval(sampling.confidence)
    interval: tuple[float | None, float | None] = own or (None, None)
    if sampling is not None and own is not None and low.value != high.value:
        ends = _template_interval(low, high, plain, sampling.confidence) or own
        below, _ = low.widen_for_variants((ends[0], low.value), sampling.confidence)
        _, above = high.widen_for_variants((high.value, ends[1]), sampling.confidence)
        below, above = interval_hull((max(below, low.bounds[0]), min(above, high.bounds[1])), own)
        interval = number(below), number(above)
    lower, upper = interval
    return MissingDataBounds(low=number(low.value), high=number(high.value), interval_low=lower, interval_high=upper)


def _template_interval(low: Estimate, high: Estimate, plain: Estimate, confidence: float) -> Ends | None:
    """The interval over templates and unparsed answers, with fixed prompt variants; None if `plain` has none.

    If an operand of a difference allows for unseen templates, it includes the interval made from those of the operands.
    The lowest difference is the first's lowest minus the second's highest value.
    """
    own = plain.template_interval(confidence)
    if own is None:
        return None
    errors, gap = (low.standard_error, high.standard_error), abs(high.value - low.value)
    margin = imbens_manski_margin(gap, max(errors), min(low.n_effective, high.n_effective), confidence)
    lowest, highest = low.value - margin * errors[0], high.value + margin * errors[1]
    lowest = min(lowest, *(low.unseen_interval(confidence) or own))
    highest = max(highest, *(high.unseen_interval(confidence) or own))
    if (
        low.operands
        and high.operands
        and plain.operands
        and any(operand.allows_unseen for operand in (*low.operands, *high.operands, *plain.operands))
    ):
        (one_low, other_high), (one_high, other_low), (one, other) = low.operands, high.operands, plain.operands
        first = _template_interval(one_low, one_high, one, confidence)
        second = _template_interval(other_low, other_high, other, confidence)
        by_operands = difference_interval(low.operands, high.operands, first, second)
        return interval_hull((lowest, highest), own, by_operands)
    return interval_hull((lowest, highest), own)


def imbens_manski_margin(gap: float, error: float, effective: float, confidence: float) -> float:
    """The critical value c of the interval beyond either bound (Imbens & Manski 2004, eq. 6, with t).

    Solves F(c + gap / error) − F(−c) = confidence by Newton's method, with the distribution F of t with `effective` − 1
    degrees of freedom, and the larger standard error of both bounds; NaN if that is undefined.
    """
    degrees = effective - 1
    if not degrees > 0 or math.isnan(error):
        return math.nan
    margin = float(special.stdtrit(degrees, confidence))
    if error == 0:
        return margin
    width, scale = gap / error, math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))

    def density(at: float) -> float:
        return scale / math.sqrt(degrees * math.pi) * math.pow(1 + at * at / degrees, -(degrees + 1) / 2)

    for _ in range(_BOUND_STEPS):  # from below; steps are never too large, since the function is concave
        rest = confidence - float(special.stdtr(degrees, margin + width) - special.stdtr(degrees, -margin))
        step = rest / (density(margin + width) + density(margin))
        margin += step
        if step < _ROUNDING:
            break
    return margin
