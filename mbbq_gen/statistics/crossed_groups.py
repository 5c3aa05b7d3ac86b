"""Tests about prompt variants like those of the run: a number against 0 over templates and prompt variants, both drawn
by chance.

The p value is the level at which the analytic interval, with what prompt variants add
(`mbbq_gen.statistics.crossed_effects`), just reaches 0; never less than that of the sign flips over templates, so that
nothing is found here that is not found of the prompt variants of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from mbbq_gen.statistics.hypothesis_tests import TestResult, holm, missing, untestable, zero_test
from mbbq_gen.statistics.panel import Estimate

_LEAST = 1e-6
"""The smallest p value that is looked for."""
_STEPS = 30
"""Of the bisection, on the logarithm."""


def crossed(estimate: Estimate, hypothesis: str, *, seed: int = 0) -> TestResult:
    """Is the number 0 over prompt variants like these? `hypothesis` is what speaks against."""
    if (nothing := missing("crossed", [estimate], hypothesis)) is not None:
        return nothing
    flipped = zero_test(estimate, hypothesis, seed=seed).p_value
    low, high = math.log(_LEAST), 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        reaches = estimate.analytic_reach(1 - math.exp(middle)) >= abs(estimate.value)
        low, high = (middle, high) if reaches else (low, middle)
    return TestResult(
        test="crossed",
        unit="template",
        hypothesis=hypothesis,
        statistic=estimate.value,
        statistic_name="value",
        p_value=max(math.exp(high), flipped or 0.0),
        n=estimate.n_templates,
        n_prompt_variants=None if estimate.crossed_effect is None else estimate.crossed_effect.count,
    )


def crossed_groups(estimates: Sequence[Estimate], hypothesis: str, *, seed: int = 0) -> TestResult:
    """Do several scores differ over prompt variants like these? The least of the pairs' p values, as Holm adjusts
    it."""
    pairs = [crossed(one.subtract(other), hypothesis, seed=seed) for one, other in combinations(estimates, 2)]
    if not pairs:
        reason = "fewer than two groups"
        return untestable("crossed", "template", hypothesis, 0, reason, "not_applicable")
    known = [p for p in holm([pair.p_value for pair in pairs]) if p is not None]
    if not known:
        return pairs[0]
    statistic = max(abs(pair.statistic or 0.0) for pair in pairs)
    return pairs[0].model_copy(
        update={"p_value": min(known), "statistic": statistic, "statistic_name": "largest difference"}
    )
