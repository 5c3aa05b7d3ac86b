"""Is a number, or a difference, shown to be smaller than a margin? Two one-sided tests (TOST; Schuirmann 1987).

That no lean was found says nothing where little was asked. Here the burden lies the other way: the hypothesis is that
the number is as far from 0 as the margin or farther, and a small p value speaks for its being nearer. The p value is
the least level α at which the clustered interval of confidence 1 − 2α (bootstrap, with room for what was not seen) lies
within the margin, so that test and interval never disagree.
"""

from __future__ import annotations

from mbbq_gen.scoring.wordings import TOO_FEW_WORDINGS
from mbbq_gen.statistics.panel import Estimate, Sampling
from mbbq_gen.statistics.significance import TestResult, too_few, untestable

_LEAST = 0.001
"""The smallest p value: the interval's draws tell no finer."""
_STEPS = 14


def smaller_than(estimate: Estimate, margin: float, what: str, sampling: Sampling) -> TestResult:
    """The test that a number is nearer to 0 than the margin. `what` names the number."""
    hypothesis = f"{what} is {margin:g} or farther from 0"
    if estimate.value != estimate.value:
        return untestable("tost", "template", hypothesis, estimate.n_templates, "a denominator is 0", "undefined")
    if (nothing := too_few("tost", "template", hypothesis, estimate.n_templates)) is not None:
        return nothing
    if estimate.missing == "too_few_wordings":
        return untestable("tost", "template", hypothesis, estimate.n_templates, TOO_FEW_WORDINGS, "too_few_wordings")
    return TestResult(
        test="tost",
        unit="template",
        hypothesis=hypothesis,
        statistic=abs(estimate.value),
        statistic_name="size",
        margin=margin,
        p_value=_p_value(estimate, margin, sampling),
        n=estimate.n_templates,
        n_wordings=None if estimate.crossing is None else estimate.crossing.count,
    )


def _p_value(estimate: Estimate, margin: float, sampling: Sampling) -> float | None:
    if abs(estimate.value) >= margin:
        return _analytic(estimate, margin)
    low, high = _LEAST, 0.5
    if _lies_within(estimate, margin, low, sampling):
        return low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _lies_within(estimate, margin, middle, sampling) else (middle, high)
    return high


def _lies_within(estimate: Estimate, margin: float, level: float, sampling: Sampling) -> bool:
    found = estimate.interval(1 - 2 * level)
    return found is not None and -margin < found[0] and found[1] < margin


def _analytic(estimate: Estimate, margin: float) -> float:
    """Above the margin: by t, one half or more; 1 where templates do not vary."""
    from scipy import special

    if not estimate.error > 0:
        return 1.0
    return float(special.stdtr(estimate.effective - 1, (abs(estimate.value) - margin) / estimate.error))
