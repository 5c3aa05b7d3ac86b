"""Hypothesis tests of scores. Each result names its unit of analysis.

Answers to one template are correlated, which tests with the template as unit allow for. Tests with the item as unit (a
question, as in MBBQ §4.2) have too many false positives when templates react differently to a language. All p values
are two-sided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, combinations
from typing import Any, Final, Literal

import numpy as np
from scipy import special

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.codes import ReasonCode
from mbbq_gen.statistics.estimate import REASONS, Estimate, InferenceSettings, number

Unit = Literal["template", "item", "question", "answer"]
"""The unit of analysis: a template; an item, over all its prompt variants; a question in one order, with all answers to
it; one answer."""
TestName = Literal["interval", "sign_flip", "kruskal_wallis", "randomisation", "tost"]
Adjustment = Literal["holm", "benjamini_hochberg"]

EXACT_UP_TO = 16
"""The most templates with a difference for which all 2¹⁶ sign flips are listed."""
PERMUTATIONS = 4999
_DIGITS = 9
_TIE = 1e-9
"""Smaller differences are ties, since the slopes in influences have an error of 1e-10."""


class TestResult(FrozenModel):
    """The result of a test."""

    __test__ = False  # pytest would collect it by its name

    test: TestName
    unit: Unit
    hypothesis: str
    """The null hypothesis."""
    statistic: float | None = None
    statistic_name: str = ""
    p_value: float | None = None
    p_adjusted: float | None = None
    """Adjusted for multiple tests; None for a single test."""
    adjustment: Adjustment | None = None
    effect: float | None = None
    effect_name: str | None = None
    n: int
    n_prompt_variants: int | None = None
    """Number of random prompt variants; None if they are fixed."""
    is_exact: bool = False
    margin: float | None = None
    """The equivalence margin of `tost`, on either side of 0."""
    reason: str | None = None
    reason_code: ReasonCode | None = None

    def adjusted(self, p_adjusted: float | None, adjustment: Adjustment = "holm") -> TestResult:
        """A copy with an adjusted p value."""
        return self.model_copy(update={"p_adjusted": p_adjusted, "adjustment": adjustment})

    def unavailable(self, reason: str, code: ReasonCode = "zero_variance") -> TestResult:
        """A copy with the reason why there is no p value."""
        return self.model_copy(update={"reason": reason, "reason_code": code})

    def filled(self, p_value: float, statistic: float, statistic_name: str, **more: Any) -> TestResult:
        """A copy with p value and statistic."""
        return self.model_copy(
            update={"p_value": p_value, "statistic": statistic, "statistic_name": statistic_name, **more}
        )


# --- several groups --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def signs(n: int, seed: int) -> Array:
    """Read-only rows of +1 and −1: all combinations for few units, else PERMUTATIONS random ones."""
    if n <= EXACT_UP_TO:
        bits = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    else:
        generator = np.random.default_rng(stable_number("sign_flip", seed, n))
        bits = 1.0 - generator.integers(0, 2, (PERMUTATIONS, n)).astype(np.float64)
    flips: Array = 1.0 - 2.0 * bits
    flips.flags.writeable = False
    return flips


def permutation_p(statistics: Array, observed: float, *, is_exact: bool) -> float:
    """The share of permutations at least as extreme as the observed statistic.

    If permutations are drawn at random, (1 + extreme) / (1 + drawn), which is never 0 (Phipson & Smyth 2010).
    """
    extreme = int(np.sum(statistics >= observed - _TIE * max(1.0, abs(observed))))
    return extreme / statistics.size if is_exact else (1 + extreme) / (1 + statistics.size)


def kruskal_wallis(samples: Sequence[Array], hypothesis: str) -> TestResult:
    """Tests that groups of items have one distribution (Kruskal & Wallis 1952), with correction for ties, by χ².

    MBBQ §4.2 uses it. It assumes independent items, between groups too: it uses neither the pairing of parallel items
    nor the templates. Effect: ε² = H / (n − 1).
    """
    rounded = [np.round(sample, _DIGITS) for sample in samples]
    pooled = np.concatenate(rounded)
    result = TestResult(test="kruskal_wallis", unit="item", hypothesis=hypothesis, n=pooled.size)
    if np.all(pooled == pooled[0]):
        return result.unavailable("all scores are equal")
    from scipy import stats  # a slow import

    statistic, p_value = map(float, stats.kruskal(*rounded))
    return result.filled(p_value, statistic, "H", effect=statistic / (pooled.size - 1), effect_name="epsilon_squared")


def sign_flip_groups(shares: Array, hypothesis: str, *, seed: int = 0) -> TestResult:
    """Tests that groups over the same templates have equal scores, by flipping signs of the templates' differences.

    `shares` is groups × templates: the contribution of each template to each group's score. Under the hypothesis, both
    signs of a template's differences are equally likely (Fisher 1935, "The Design of Experiments", §21). The statistic
    is s′ C⁺ s, where s is the sum of the templates' deviations from their mean, and C the sum of their outer products,
    which no flip changes.
    """
    result = TestResult(test="sign_flip", unit="template", hypothesis=hypothesis, n=shares.shape[1])
    deviations = shares - shares.mean(axis=0)
    deviations = deviations[:, (np.abs(deviations) > _TIE).any(axis=0)]
    inverse = np.linalg.pinv(deviations @ deviations.T)
    flips = signs(deviations.shape[1], seed)
    sums = flips @ deviations.T
    total = deviations.sum(axis=1)
    statistics, observed = np.einsum("rg,gh,rh->r", sums, inverse, sums), float(total @ inverse @ total)
    is_exact = deviations.shape[1] <= EXACT_UP_TO
    p_value = permutation_p(statistics, observed, is_exact=is_exact)
    return result.filled(p_value, observed, "chi_squared", is_exact=is_exact)


# --- ranks -----------------------------------------------------------------------------------------------------------


def mid_ranks(values: Array) -> Array:
    """The average rank of each value, from 1. As `scipy.stats.rankdata`, which is slow to import."""
    ordered = np.sort(values)
    ranks: Array = (ordered.searchsorted(values) + ordered.searchsorted(values, "right") + 1) / 2
    return ranks


MIN_SIZE_TEMPLATES: Final = 10
"""Least number of templates for the test of template sizes."""
SIZE_LEVEL: Final = 0.01


def sizes_matter(scores: Array, sizes: Array) -> bool:
    """Whether template scores depend on template sizes, by Spearman's rank correlation; NaN scores are ignored."""
    is_known = (sizes > 0) & ~np.isnan(scores)
    scores, sizes = scores[is_known], sizes[is_known]
    n = scores.size
    if n < MIN_SIZE_TEMPLATES or sizes.min() == sizes.max() or scores.min() == scores.max():
        return False
    one, other = (mid_ranks(values) - (n + 1) / 2 for values in (scores, sizes))
    correlation = float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))
    t = abs(correlation) * ((n - 2) / max(1 - correlation**2, 1e-12)) ** 0.5
    return bool(2 * special.stdtr(n - 2, -t) < SIZE_LEVEL)


def kendall_w(scores: Array) -> float | None:
    """Kendall's W with ties (Kendall & Babington Smith 1939), from 0 to 1; None if all scores of each row are equal."""
    rows, columns = scores.shape
    if rows < 1 or columns < 2:
        return None
    ranks = np.stack([mid_ranks(row) for row in scores])
    counts = [np.unique(row, return_counts=True)[1] for row in scores]
    ties = sum(float(np.sum(count**3 - count)) for count in counts)
    most = rows**2 * (columns**3 - columns) - rows * ties
    spread = float(np.sum((ranks.sum(axis=0) - rows * (columns + 1) / 2) ** 2))
    return float(12 * spread / most) if most > 0 else None


# --- many tests at once ----------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values that control the family-wise error rate (Holm 1979); None values are skipped."""
    known = sorted(p for p in p_values if p is not None)
    steps = accumulate((min(1.0, p * (len(known) - rank)) for rank, p in enumerate(known)), max)
    adjusted = dict(zip(known, steps, strict=True))
    return [None if p is None else adjusted[p] for p in p_values]


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values that control the false discovery rate (Benjamini & Hochberg 1995); None values are skipped."""
    known = sorted((p for p in p_values if p is not None), reverse=True)
    steps = accumulate((p * len(known) / (len(known) - rank) for rank, p in enumerate(known)), min, initial=1.0)
    adjusted = dict(zip(known, [*steps][1:], strict=True))
    return [None if p is None else adjusted[p] for p in p_values]


# --- tests of estimates ----------------------------------------------------------------------------------------------


def tost(estimate: Estimate, margin: float, what: str, sampling: InferenceSettings) -> TestResult:
    """Tests that an estimate named `what` is equivalent to 0, by two one-sided tests (Schuirmann 1987).

    The p value is the least level p at which the interval of confidence 1 − 2p lies within ± margin.
    """
    hypothesis = f"{what} is {margin:g} or farther from 0"
    if (unavailable := unavailable_test("tost", [estimate], hypothesis)) is not None:
        return unavailable

    def lies_within(p: float) -> bool:
        low, high = estimate.interval(1 - 2 * p) or (-math.inf, math.inf)
        return -margin < low and high < margin

    excess, error = abs(estimate.value) - margin, estimate.standard_error
    if excess < 0:
        p_value = _least_level(lies_within, 1 - sampling.confidence, 0.5)
    else:  # no interval of any level lies within: the one-sided t test
        p_value = float(special.stdtr(estimate.n_effective - 1, excess / error)) if error > 0 else 1.0
    return _of_estimate("tost", hypothesis, estimate).filled(p_value, abs(estimate.value), "size", margin=margin)


def zero_test(estimate: Estimate, hypothesis: str, sampling: InferenceSettings) -> TestResult:
    """Tests that an estimate is 0, by inverting its interval (Davison & Hinkley 1997, §5.6).

    The p value is the least level at which the interval excludes 0. So it is below 1 − confidence if and only if the
    reported interval excludes 0. Effect: the estimate over the standard deviation of templates (Cohen's d_z).
    """
    if (unavailable := unavailable_test("interval", [estimate], hypothesis)) is not None:
        return unavailable

    def excludes_zero(p: float) -> bool:
        low, high = estimate.interval(1 - p) or (math.nan, math.nan)
        return low > 0 or high < 0

    spread = estimate.standard_error * estimate.n_effective**0.5
    effect = number(estimate.value / spread) if spread > _TIE else None
    numbers = _least_level(excludes_zero, 1 - sampling.confidence), estimate.value, "value"
    return _of_estimate("interval", hypothesis, estimate).filled(*numbers, effect=effect, effect_name="d_z")


def zero_tests(
    estimate: Estimate, hypothesis: str, sampling: InferenceSettings, margin: float | None, what: str
) -> list[TestResult]:
    """Tests of an estimate named `what` against 0: `zero_test` and, with a margin, `tost`."""
    tests = [zero_test(estimate, hypothesis, sampling)]
    return tests if margin is None else [*tests, tost(estimate, margin, what, sampling)]


def _of_estimate(test: TestName, hypothesis: str, estimate: Estimate) -> TestResult:
    n, n_variants = estimate.n_templates, estimate.n_prompt_variants
    return TestResult(test=test, unit="template", hypothesis=hypothesis, n=n, n_prompt_variants=n_variants)


_LEAST, _STEPS = 1e-6, 16
"""The smallest p value, and the steps of the bisection on the logarithm."""


def _least_level(is_rejected: Callable[[float], bool], first: float, most: float = 1.0) -> float:
    """The least level of rejection, `most` if there is none; `first` is tried exactly, without rounding."""
    low, high = math.log(min(first, most)), math.log(most)
    if is_rejected(first):
        if is_rejected(_LEAST):
            return _LEAST
        low, high = math.log(_LEAST), math.log(first * (1 - _TIE))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_rejected(math.exp(middle)) else (middle, high)
    return math.exp(high)


MIN_FLIP_TEMPLATES: Final = 20
"""Least number of templates for sign flips if standard errors are unequal (docs/evidence.md)."""
MAX_ERROR_RATIO: Final = 1.5
"""Ratio of the groups' largest and smallest standard errors above which these are unequal."""


def equality_test(estimates: Sequence[Estimate], hypothesis: str, sampling: InferenceSettings) -> TestResult:
    """Tests that estimates are equal: two by their difference (`zero_test`), more by sign flips of templates.

    If prompt variants are random, or standard errors are unequal and templates fewer than MIN_FLIP_TEMPLATES, the p
    value of more than two is the smallest of all pairs after Holm's adjustment.
    """
    name: TestName = "sign_flip" if len(estimates) > 2 else "interval"
    if (unavailable := unavailable_test(name, estimates, hypothesis)) is not None:
        return unavailable
    if len(estimates) < 2:
        result = TestResult(test="interval", unit="template", hypothesis=hypothesis, n=0)
        return result.unavailable("fewer than two groups", "not_applicable")
    pairs = combinations(estimates, 2)
    errors = [estimate.standard_error for estimate in estimates]
    is_unequal, templates = max(errors) > MAX_ERROR_RATIO * min(errors), min(one.n_templates for one in estimates)
    is_unreliable = is_unequal and templates < MIN_FLIP_TEMPLATES
    if len(estimates) == 2 or is_unreliable or estimates[0].crossed_effect is not None:
        tests = [zero_test(one.subtract(other), hypothesis, sampling) for one, other in pairs]
        known = [p for p in holm([test.p_value for test in tests]) if p is not None]
        if len(tests) == 1 or not known:
            return tests[0]
        largest = max(abs(test.statistic or 0.0) for test in tests)
        return tests[0].filled(min(known), largest, "largest difference", effect=None)
    # Each template has the same weight in all groups; else unequal parse rates would appear as differences.
    weights = np.mean([estimate.template_weights for estimate in estimates], axis=0)
    shares = np.stack([estimate.influence_values + estimate.value * weights for estimate in estimates])
    return sign_flip_groups(shares[:, weights > 0], hypothesis, seed=sampling.seed)


def unavailable_test(test: TestName, estimates: Sequence[Estimate], hypothesis: str) -> TestResult | None:
    """The result of a test if one of the estimates has no interval, with the reason; None if all have one."""
    for estimate in estimates:
        if (code := estimate.missing_reason) is not None:
            result = TestResult(test=test, unit="template", hypothesis=hypothesis, n=estimate.n_templates)
            return result.unavailable("a score is undefined" if code == "undefined" else REASONS[code], code)
    return None
