"""The effect of unparsed answers: bounds with an interval, and the tipping point of a difference."""

from __future__ import annotations

import math

from scipy import special

from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, difference_interval, number
from mbbq_gen.statistics.intervals import Ends, interval_hull
from mbbq_gen.statistics.panel import Panel

_STEPS = 12
"""Steps of the bisection for the tipping point: down to 2⁻¹² of the unparsed answers."""
_BOUND_STEPS = 50
_ROUNDING = 1e-14


class MissingDataBounds(FrozenModel):
    """A number, if all unparsed answers had been of the kind that makes it lowest, or highest."""

    low: float | None
    high: float | None
    interval_low: float | None
    """Lower end of an interval for sampling and unparsed answers (Imbens & Manski 2004); None: no interval.
    Never nearer than that of the number itself."""
    interval_high: float | None


class TippingPoint(FrozenModel):
    """The unparsed answers that would have to be against a difference for it not to be found."""

    share: float | None
    """Share of the unparsed answers of both levels, the others being like those read; None: all would not be enough."""
    read_rate: float | None
    """The same as a rate: answers parsed, of these and of the ones that must have been against it."""


def tipping_point(panel: Panel, metric: Metric, pair: tuple[int, int], *, first_is_higher: bool) -> TippingPoint | None:
    """The tipping point of the difference of two groups of a panel; None where there is no unparsed answer."""
    if metric.extremes is None:
        return None
    counts = panel.total
    stem = "answered" if metric.condition is None else f"{metric.condition}_all"
    requested = float(sum(counts[stem][place] for place in pair))
    read = float(sum((metric.parse_rate(counts) * counts[stem])[place] for place in pair))
    if not requested > read:
        return None
    against = list(zip(pair if first_is_higher else pair[::-1], metric.extremes, strict=True))

    def is_found(share: float) -> bool:
        """Whether the first is higher for sure, that share of the unparsed answers being against it."""
        one, other = (
            panel.on_groups([place]).imputed(scenario, share).estimates(metric)[0] for place, scenario in against
        )
        found = one.subtract(other)
        return found.missing_reason is None and found.value - found.analytic_half_width(panel.sampling.confidence) > 0

    if is_found(1.0):
        return TippingPoint(share=None, read_rate=None)
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_found(middle) else (low, middle)
    return TippingPoint(share=high, read_rate=read / (read + high * (requested - read)))


def missing_data_bounds(
    low: Estimate, high: Estimate, plain: Estimate, sampling: InferenceSettings | None
) -> MissingDataBounds:
    """The bounds of a number whose lowest and highest values are these estimates; `plain`: as it was extracted.

    The interval holds the plain one; where there is none of the one there is none of the other, nor without settings.
    """
    own = None if sampling is None else plain.interval(sampling.confidence)
    interval: tuple[float | None, float | None] = own or (None, None)
    if sampling is not None and own is not None and low.value != high.value:
        found = _template_interval(low, high, plain, sampling.confidence) or own
        below, _ = low.widen_for_variants((found[0], low.value), sampling.confidence)
        _, above = high.widen_for_variants((high.value, found[1]), sampling.confidence)
        below, above = interval_hull((max(below, low.bounds[0]), min(above, high.bounds[1])), own)
        interval = number(below), number(above)
    ends = {"interval_low": interval[0], "interval_high": interval[1]}
    return MissingDataBounds(low=number(low.value), high=number(high.value), **ends)


def _template_interval(low: Estimate, high: Estimate, plain: Estimate, confidence: float) -> Ends | None:
    """The interval for sampling and missing answers, prompt variants fixed; None where the number itself has none.

    Where a side of a difference has room for what was not seen, it holds the interval that those of the sides make; the
    lowest difference is that of the first's lowest and the second's highest value.
    """
    own = plain.template_interval(confidence)
    if own is None:
        return None
    errors, gap = (low.standard_error, high.standard_error), abs(high.value - low.value)
    margin = imbens_manski_margin(gap, max(errors), min(low.n_effective, high.n_effective), confidence)
    lowest, highest = low.value - margin * errors[0], high.value + margin * errors[1]
    lowest = min(lowest, *(low.unseen_interval(confidence) or own))
    highest = max(highest, *(high.unseen_interval(confidence) or own))
    sides = None
    if (
        low.operands
        and high.operands
        and plain.operands
        and any(side.allows_unseen for side in (*low.operands, *high.operands, *plain.operands))
    ):
        (one_low, other_high), (one_high, other_low), (one, other) = low.operands, high.operands, plain.operands
        first = _template_interval(one_low, one_high, one, confidence)
        second = _template_interval(other_low, other_high, other, confidence)
        sides = difference_interval(low.operands, high.operands, first, second)
    return interval_hull((lowest, highest), own, sides)


def imbens_manski_margin(gap: float, error: float, effective: float, confidence: float) -> float:
    """How many standard errors the interval reaches beyond either end (Imbens & Manski 2004, eq. 6, with t).

    Solves F(c + gap / error) − F(−c) = confidence by Newton's method, F being that of t with `effective` − 1 degrees of
    freedom, and error the larger of the two ends' standard errors; NaN where there is none.
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

    for _ in range(_BOUND_STEPS):  # from below: the function is concave, so no step goes too far
        missing = confidence - float(special.stdtr(degrees, margin + width) - special.stdtr(degrees, -margin))
        step = missing / (density(margin + width) + density(margin))
        margin += step
        if step < _ROUNDING:
            break
    return margin
