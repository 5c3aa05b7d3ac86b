"""Tests of scores, each with the unit that it takes to be independent of the others.

Answers to one template resemble each other. A test whose unit is the template respects that; one whose unit is the item
(a question, as MBBQ §4.2 has it) finds differences where there are none as soon as templates react to a language each
in its own way. Both are offered, and every result says its unit.

All p values are two-sided. Permutation p values are exact where all permutations are few, else (1 + extreme) / (1 +
drawn) (Phipson & Smyth 2010): never 0.
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
from mbbq_gen.scoring.codes import MIN_TEMPLATES, TOO_FEW, ReasonCode
from mbbq_gen.statistics.estimate import REASONS, Estimate, InferenceSettings, number

Unit = Literal["template", "item", "question", "answer", "level"]
"""What is taken to be independent: a template; a question over all its prompt variants; a question in one order with
all the answers to it; one answer; a prompt variant or language."""
TestName = Literal["interval", "sign_flip", "wilcoxon", "kruskal_wallis", "friedman", "randomisation", "tost"]
Adjustment = Literal["holm", "benjamini_hochberg"]

EXACT_UP_TO = 16
"""Templates that say anything for which all sign flips are tried: 2¹⁶ of them."""
RANKS_EXACT_UP_TO = 200
"""Templates for which all signs of ranks are counted."""
RANKS_DRAWN_UP_TO = 25
"""Units for which ranks of three or more groups are permuted; with more, χ² keeps its level (docs/evidence.md)."""
PERMUTATIONS = 4999
_DIGITS = 9
_TIE = 1e-9
"""Smaller differences are ties: influences have slopes with an error of 1e-10, and ties are frequent."""


class TestResult(FrozenModel):
    """The result of a test."""

    __test__ = False  # not a test class of pytest, whatever its name

    test: TestName
    unit: Unit
    hypothesis: str
    """The null hypothesis."""
    statistic: float | None = None
    statistic_name: str = ""
    p_value: float | None = None
    p_adjusted: float | None = None
    """Corrected for several tests at once; None where it stands alone."""
    adjustment: Adjustment | None = None
    effect: float | None = None
    effect_name: str | None = None
    n: int
    n_prompt_variants: int | None = None
    """Prompt variants that it generalises over; None where they are fixed."""
    is_exact: bool = False
    margin: float | None = None
    """The equivalence margin of `tost`, on either side of 0."""
    reason: str | None = None
    reason_code: ReasonCode | None = None

    def adjusted(self, p_adjusted: float | None, adjustment: Adjustment = "holm") -> TestResult:
        """The same result with an adjusted p value."""
        return self.model_copy(update={"p_adjusted": p_adjusted, "adjustment": adjustment})

    def missing(self, reason: str, code: ReasonCode = "zero_variance") -> TestResult:
        """The result of a test that can't be made, and why."""
        return self.model_copy(update={"reason": reason, "reason_code": code})

    def found(self, p_value: float, statistic: float, statistic_name: str, **more: Any) -> TestResult:
        """The result with its numbers."""
        return self.model_copy(
            update={"p_value": p_value, "statistic": statistic, "statistic_name": statistic_name, **more}
        )


EVEN: Final = 0.85
"""Answers of the smallest over the largest group, template by template, above which ranks keep their level."""
UNEVEN: Final = (
    f"the groups have unlike numbers of answers in the templates (least over most below {EVEN:.0%}): "
    "ranks of template scores would find differences of reading"
)


def _unrankable(result: TestResult, n: int, groups: int = 2, *, is_even: bool = True) -> TestResult | None:
    """The result of a test on too few units or groups, or on ranks of unlike groups; None where it can be made."""
    result = result.model_copy(update={"n": n})
    if result.unit == "template" and n < MIN_TEMPLATES:
        return result.missing(TOO_FEW, "too_few_templates")
    if n < 2:
        return result.missing(f"fewer than two {result.unit}s", "undefined")
    if not is_even:
        return result.missing(UNEVEN, "uneven_counts")
    return None if groups > 1 else result.missing("fewer than two groups", "not_applicable")


def mid_ranks(values: Array) -> Array:
    """The rank of each value, from 1; equal ones share the middle of theirs (`scipy.stats.rankdata`, a slow import)."""
    ordered = np.sort(values)
    found: Array = (ordered.searchsorted(values) + ordered.searchsorted(values, "right") + 1) / 2
    return found


SIZE_TEMPLATES: Final = 10
"""Templates below which nothing is said of their sizes."""
SIZE_LEVEL: Final = 0.01


def sizes_matter(scores: Array, sizes: Array) -> bool:
    """Whether larger templates have other scores: Spearman's rank correlation; NaN: no score, size 0: no answers."""
    has = (sizes > 0) & ~np.isnan(scores)
    scores, sizes = scores[has], sizes[has]
    n = scores.size
    if n < SIZE_TEMPLATES or sizes.min() == sizes.max() or scores.min() == scores.max():
        return False
    one, other = (mid_ranks(values) - (n + 1) / 2 for values in (scores, sizes))
    correlation = float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))
    away = abs(correlation) * ((n - 2) / max(1 - correlation**2, 1e-12)) ** 0.5
    return bool(2 * special.stdtr(n - 2, -away) < SIZE_LEVEL)


# --- ranks of one score ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def signs(n: int, seed: int) -> Array:
    """Rows of +1 and −1, not to be changed: all of them for few units, else PERMUTATIONS drawn ones."""
    if n <= EXACT_UP_TO:
        bits = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    else:
        generator = np.random.default_rng(stable_number("sign_flip", seed, n))
        bits = 1.0 - generator.integers(0, 2, (PERMUTATIONS, n)).astype(np.float64)
    found: Array = 1.0 - 2.0 * bits
    found.flags.writeable = False
    return found


def permutation_p(statistics: Array, observed: float, *, is_exact: bool) -> float:
    """The share of permutations at least as extreme as what was observed."""
    extreme = int(np.sum(statistics >= observed - _TIE * max(1.0, abs(observed))))
    return extreme / statistics.size if is_exact else (1 + extreme) / (1 + statistics.size)


def wilcoxon(scores: Array, hypothesis: str, *, is_even: bool = True) -> TestResult:
    """Is the middle of the template scores 0? Wilcoxon's signed-rank test; zeros keep their ranks (Pratt 1959).

    Exact for up to RANKS_EXACT_UP_TO templates, ties and zeros included; beyond, the normal approximation. Assumes
    template scores symmetric about their middle. Effect: the matched-pairs rank-biserial correlation.
    """
    found = np.round(scores[~np.isnan(scores)], _DIGITS)
    result = TestResult(test="wilcoxon", unit="template", hypothesis=hypothesis, n=found.size)
    if (nothing := _unrankable(result, found.size, is_even=is_even)) is not None:
        return nothing
    if not np.any(found):
        return result.missing("every template has the score 0")
    is_exact = found.size <= RANKS_EXACT_UP_TO
    ranks = mid_ranks(np.abs(found)) * (found != 0)
    above, below = float(ranks[found > 0].sum()), float(ranks[found < 0].sum())
    if is_exact:  # the chance of each sum of ranks, rank by rank; mid-ranks are doubled, so that sums are whole numbers
        chances = np.ones(1)
        for rank in np.rint(2 * ranks[ranks > 0]).astype(int):
            chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
        p_value = min(1.0, 2 * float(chances[: round(2 * min(above, below)) + 1].sum()))
    else:
        from scipy import stats  # a slow import

        p_value = float(stats.wilcoxon(found, zero_method="pratt", method="approx").pvalue)
    effect = (above - below) / (above + below)
    return result.found(p_value, min(above, below), "W", effect=effect, effect_name="rank_biserial", is_exact=is_exact)


# --- several groups --------------------------------------------------------------------------------------------------


def kruskal_wallis(samples: Sequence[Array], hypothesis: str, unit: Unit, *, is_even: bool = True) -> TestResult:
    """Do the groups come from one distribution? Kruskal & Wallis 1952, with the correction for ties, χ² approximation.

    Takes all units to be independent, between the groups too: with parallel items it wastes the pairing, and with
    items as units it forgets the templates. Effect: ε² = H / (n − 1).
    """
    found = [np.round(sample[~np.isnan(sample)], _DIGITS) for sample in samples]
    pooled = np.concatenate(found) if found else np.zeros(0)
    result = TestResult(test="kruskal_wallis", unit=unit, hypothesis=hypothesis, n=pooled.size)
    least = min((sample.size for sample in found), default=0)
    if (nothing := _unrankable(result, least, len(found), is_even=is_even)) is not None:
        return nothing
    if np.all(pooled == pooled[0]):
        return result.missing("all scores are equal")
    from scipy import stats  # a slow import, and no other test needs it

    statistic, p_value = map(float, stats.kruskal(*found))
    return result.found(p_value, statistic, "H", effect=statistic / (pooled.size - 1), effect_name="epsilon_squared")


def friedman(scores: Array, hypothesis: str, *, unit: Unit = "template", is_even: bool = True) -> TestResult:
    """Do the groups rank alike within templates? `scores`: templates × groups; templates with a gap are left out.

    Friedman 1937, with the correction for ties. Two groups: the exact sign test that it is then. More: ranks are
    permuted within units for up to RANKS_DRAWN_UP_TO of them; beyond, the χ² approximation. Effect: Kendall's W.
    """
    whole = np.round(scores[~np.isnan(scores).any(axis=1)], _DIGITS)
    n, groups = whole.shape
    result = TestResult(test="friedman", unit=unit, hypothesis=hypothesis, n=n)
    if (nothing := _unrankable(result, n, groups, is_even=is_even)) is not None:
        return nothing
    agreement = kendall_w(whole)
    if agreement is None:
        return result.missing(f"the groups are equal in every {unit}")
    statistic, is_exact = n * (groups - 1) * agreement, groups == 2
    if is_exact:
        ahead, behind = int((whole[:, 0] > whole[:, 1]).sum()), int((whole[:, 0] < whole[:, 1]).sum())
        p_value = min(1.0, 2 * float(special.bdtr(min(ahead, behind), ahead + behind, 0.5)))
    elif n > RANKS_DRAWN_UP_TO:
        p_value = float(special.chdtrc(groups - 1, statistic))
    else:
        generator = np.random.default_rng(stable_number("friedman", n, groups))
        rows = [mid_ranks(row) for row in whole]
        sums = sum(generator.permuted(np.tile(row, (PERMUTATIONS, 1)), axis=1) for row in rows)
        middle = n * (groups + 1) / 2
        drawn, observed = (((np.asarray(ranked) - middle) ** 2).sum(axis=-1) for ranked in (sums, sum(rows)))
        p_value = permutation_p(drawn, float(observed), is_exact=False)
    return result.found(p_value, statistic, "chi_squared", effect=agreement, effect_name="kendall_w", is_exact=is_exact)


def kendall_w(scores: Array) -> float | None:
    """Kendall's W with ties (Kendall & Babington Smith 1939): 0 to 1; None where no row ranks anything."""
    rows, columns = scores.shape
    if rows < 1 or columns < 2:
        return None
    ranks = np.stack([mid_ranks(row) for row in scores])
    counts = [np.unique(row, return_counts=True)[1] for row in scores]
    ties = sum(float(np.sum(count**3 - count)) for count in counts)
    most = rows**2 * (columns**3 - columns) - rows * ties
    spread = float(np.sum((ranks.sum(axis=0) - rows * (columns + 1) / 2) ** 2))
    return float(12 * spread / most) if most > 0 else None


def sign_flip_groups(shares: Array, hypothesis: str, *, seed: int = 0) -> TestResult:
    """Do groups over the same templates have the same score? Each template's differences keep or change their sign.

    `shares` is groups × templates: what each template adds to each group's score. Under the hypothesis a template's
    differences could as well have the other sign (Fisher 1935, "The Design of Experiments", §21). For two groups the
    statistic is the difference of the scores; for more it is the sum s of the templates' deviations from their mean, as
    s′ C⁺ s, where C is the sum of their outer products, which no flip changes. Assumes symmetric differences.
    """
    groups, n = shares.shape
    result = TestResult(test="sign_flip", unit="template", hypothesis=hypothesis, n=n)
    if np.isnan(shares).any():
        return result.missing("a score is undefined", "undefined")
    if (nothing := _unrankable(result, n, groups)) is not None:
        return nothing
    deviations = shares - shares.mean(axis=0)
    deviations = deviations[:, (np.abs(deviations) > _TIE).any(axis=0)]
    inverse = np.linalg.pinv(deviations @ deviations.T)
    flips = signs(deviations.shape[1], seed)
    sums = flips @ deviations.T
    own = deviations.sum(axis=1)
    statistics, observed = np.einsum("rg,gh,rh->r", sums, inverse, sums), float(own @ inverse @ own)
    is_exact = deviations.shape[1] <= EXACT_UP_TO
    p_value = permutation_p(statistics, observed, is_exact=is_exact)
    shown = (float(own[0] - own[1]), "difference") if groups == 2 else (observed, "chi_squared")
    return result.found(p_value, *shown, is_exact=is_exact)


# --- many tests at once ----------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values that hold the chance of any false positive (Holm 1979); None stays None and does not count."""
    known = sorted(p for p in p_values if p is not None)
    steps = accumulate((min(1.0, p * (len(known) - rank)) for rank, p in enumerate(known)), max)
    adjusted = dict(zip(known, steps, strict=True))
    return [None if p is None else adjusted[p] for p in p_values]


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p values that hold the share of false discoveries (Benjamini & Hochberg 1995); None does not count."""
    known = sorted((p for p in p_values if p is not None), reverse=True)
    steps = accumulate((p * len(known) / (len(known) - rank) for rank, p in enumerate(known)), min, initial=1.0)
    adjusted = dict(zip(known, [*steps][1:], strict=True))
    return [None if p is None else adjusted[p] for p in p_values]


def tost(estimate: Estimate, margin: float, what: str, sampling: InferenceSettings) -> TestResult:
    """The test that the number named `what` is nearer to 0 than the margin, by two one-sided tests (Schuirmann 1987).

    The p value is the least level p at which the interval of confidence 1 − 2p lies within the margin.
    """
    hypothesis = f"{what} is {margin:g} or farther from 0"
    if (nothing := missing("tost", [estimate], hypothesis)) is not None:
        return nothing

    def lies_within(p: float) -> bool:
        low, high = estimate.interval(1 - 2 * p) or (-math.inf, math.inf)
        return -margin < low and high < margin

    beyond, error = abs(estimate.value) - margin, estimate.standard_error
    if beyond < 0:
        p_value = _least_level(lies_within, 1 - sampling.confidence, 0.5)
    else:  # no interval of any level lies within: the one-sided t test
        p_value = float(special.stdtr(estimate.effective - 1, beyond / error)) if error > 0 else 1.0
    return _of_estimate("tost", hypothesis, estimate).found(p_value, abs(estimate.value), "size", margin=margin)


def zero_test(estimate: Estimate, hypothesis: str, sampling: InferenceSettings) -> TestResult:
    """Is the number 0? The p value is the least level at which its interval excludes 0 (Davison & Hinkley 1997, §5.6).

    So p is below 1 − confidence if and only if the interval that is shown excludes 0. Effect: the number over the
    standard deviation of templates (Cohen's d_z).
    """
    if (nothing := missing("interval", [estimate], hypothesis)) is not None:
        return nothing

    def excludes_zero(p: float) -> bool:
        low, high = estimate.interval(1 - p) or (math.nan, math.nan)
        return low > 0 or high < 0

    spread = estimate.standard_error * estimate.effective**0.5
    effect = number(estimate.value / spread) if spread > _TIE else None
    found = _least_level(excludes_zero, 1 - sampling.confidence), estimate.value, "value"
    return _of_estimate("interval", hypothesis, estimate).found(*found, effect=effect, effect_name="d_z")


def zero_tests(
    estimate: Estimate,
    scores: Array,
    hypothesis: str,
    sampling: InferenceSettings,
    *,
    margin: float | None = None,
    what: str = "",
    is_even: bool = True,
) -> list[TestResult]:
    """Tests of a number against 0: by its interval, by ranks of `scores` (variants fixed), and against a margin."""
    tests = [zero_test(estimate, hypothesis, sampling)]
    if sampling.prompt_effects == "fixed":
        tests.append(wilcoxon(scores, f"{hypothesis} in the middle of the templates", is_even=is_even))
    return tests if margin is None else [*tests, tost(estimate, margin, what, sampling)]


def _of_estimate(test: TestName, hypothesis: str, estimate: Estimate) -> TestResult:
    n, n_variants = estimate.n_templates, estimate.n_prompt_variants
    return TestResult(test=test, unit="template", hypothesis=hypothesis, n=n, n_prompt_variants=n_variants)


_LEAST, _STEPS = 1e-6, 16
"""The smallest p value that is looked for, and the steps of the bisection on the logarithm."""


def _least_level(is_found: Callable[[float], bool], first: float, most: float = 1.0) -> float:
    """The least level at which something is found, `most` if at none; `first` is looked at itself, without rounding."""
    low, high = math.log(min(first, most)), math.log(most)
    if is_found(first):
        if is_found(_LEAST):
            return _LEAST
        low, high = math.log(_LEAST), math.log(first * (1 - _TIE))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(math.exp(middle)) else (middle, high)
    return math.exp(high)


FLIPPED_FROM: Final = 20
"""Templates from which sign flips keep their level whatever is parsed of each group (docs/evidence.md)."""
UNEQUAL: Final = 1.5
"""Largest over smallest standard error of groups, from which fewer templates are too few for sign flips."""


def equality_test(estimates: Sequence[Estimate], hypothesis: str, sampling: InferenceSettings) -> TestResult:
    """Are the numbers equal? Two: is their difference 0; more: sign flips of templates.

    Where prompt variants are random, or fewer than FLIPPED_FROM templates tell the numbers unequally well, several are
    compared by the least of their pairs' p values, as Holm adjusts it.
    """
    if (nothing := missing("sign_flip" if len(estimates) > 2 else "interval", estimates, hypothesis)) is not None:
        return nothing
    if len(estimates) < 2:
        result = TestResult(test="interval", unit="template", hypothesis=hypothesis, n=0)
        return result.missing("fewer than two groups", "not_applicable")
    pairs = combinations(estimates, 2)
    errors = [estimate.standard_error for estimate in estimates]
    is_unequal = max(errors) > UNEQUAL * min(errors) and min(one.n_templates for one in estimates) < FLIPPED_FROM
    if len(estimates) == 2 or is_unequal or estimates[0].crossed_effect is not None:
        tests = [zero_test(one.subtract(other), hypothesis, sampling) for one, other in pairs]
        known = [p for p in holm([test.p_value for test in tests]) if p is not None]
        if len(tests) == 1 or not known:
            return tests[0]
        largest = max(abs(test.statistic or 0.0) for test in tests)
        return tests[0].found(min(known), largest, "largest difference", effect=None)
    # A template has the same share of each value: with its own shares, uneven reading would make it differ.
    shares = np.mean([estimate.template_weights for estimate in estimates], axis=0)
    added = np.stack([estimate.influence_values + estimate.value * shares for estimate in estimates])
    return sign_flip_groups(added[:, shares > 0], hypothesis, seed=sampling.seed)


def missing(test: TestName, estimates: Sequence[Estimate], hypothesis: str) -> TestResult | None:
    """The result of a test of numbers of which one has no interval, and why; None where all have one."""
    for estimate in estimates:
        if (code := estimate.missing_reason) is not None:
            result = TestResult(test=test, unit="template", hypothesis=hypothesis, n=estimate.n_templates)
            return result.missing("a score is undefined" if code == "undefined" else REASONS[code], code)
    return None
