"""Is a number 0? Are several equal? Sign flips, where there are templates enough for an interval.

An interval and a p value stand on the same templates: where one side of a difference has answers to fewer than five of
them, it has neither (docs/decisions/0014-differences-and-tests.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mbbq_gen.scoring.reasons import TOO_FEW, ReasonCode
from mbbq_gen.scoring.wordings import TOO_FEW_WORDINGS
from mbbq_gen.statistics.panel import Estimate, contributions, shares
from mbbq_gen.statistics.significance import TestName, TestResult, sign_flip, sign_flip_groups, untestable

_REASONS: Final[dict[ReasonCode, str]] = {
    "undefined": "a score is undefined",
    "too_few_templates": TOO_FEW,
    "too_few_wordings": TOO_FEW_WORDINGS,
}


def is_zero(estimate: Estimate, hypothesis: str, *, seed: int = 0) -> TestResult:
    """Is the number 0? `hypothesis` says which."""
    nothing = missing("sign_flip", [estimate], hypothesis)
    return nothing or sign_flip(contributions(estimate), hypothesis, seed=seed)


def are_equal(estimates: Sequence[Estimate], hypothesis: str, *, seed: int = 0) -> TestResult:
    """Are the numbers equal? `hypothesis` says which."""
    nothing = missing("sign_flip", estimates, hypothesis)
    return nothing or sign_flip_groups(shares(estimates), hypothesis, seed=seed)


def missing(test: TestName, estimates: Sequence[Estimate], hypothesis: str) -> TestResult | None:
    """The result of a test of numbers of which one has no interval, and why; None where all have one."""
    found = [(estimate.missing, estimate.n_templates) for estimate in estimates]
    for code, templates in found:
        if code is not None:
            return untestable(test, "template", hypothesis, templates, _REASONS[code], code)
    return None
