"""Tests: against scipy where it has them, against full enumeration, and against counting by hand."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mbbq_gen.statistics.hypothesis_tests import (
    benjamini_hochberg,
    friedman,
    holm,
    kendall_w,
    kruskal_wallis,
    sign_flip,
    sign_flip_groups,
    wilcoxon,
)

P_VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def test_sign_flip_of_few_templates_is_exact() -> None:
    """Five templates, all of one sign: 2 of the 32 ways are as extreme."""
    found = sign_flip(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), "h")
    assert (found.p_value, found.is_exact, found.unit, found.n) == (2 / 32, True, "template", 5)
    by_hand = [
        sum(sign * value for sign, value in zip(signs, (1, -2, 4, 3, -1), strict=True))
        for signs in product((1, -1), repeat=5)
    ]
    expected = sum(abs(value) >= 5 for value in by_hand) / 32
    assert sign_flip(np.array([1.0, -2.0, 4.0, 3.0, -1.0]), "h").p_value == expected


def test_sign_flip_agrees_with_scipy_for_many_templates() -> None:
    values = np.random.default_rng(5).normal(0.25, 1, 40)
    ours = sign_flip(values, "h")
    theirs = stats.permutation_test(
        (values,),
        lambda sample, axis: np.abs(np.sum(sample, axis=axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=9999,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.02)
    assert not ours.is_exact
    assert ours.effect == pytest.approx(values.mean() / values.std(ddof=1))


def test_drawn_p_values_are_never_zero_and_repeat() -> None:
    values = np.full(30, 1.0) + np.arange(30) / 100
    assert sign_flip(values, "h").p_value == 1 / 5000
    assert sign_flip(values, "h", seed=4) == sign_flip(values, "h", seed=4)


def test_sums_that_differ_by_rounding_are_ties() -> None:
    """Ten templates add one answer each, seven of them biased; the others add nothing but rounding."""
    told = np.array([1.0] * 7 + [-1.0] * 3)
    noise = np.random.default_rng(2).normal(0, 1e-12, 14)
    found = sign_flip(np.append(told, [0.0] * 4) / 12 + noise, "h")
    assert found.p_value == pytest.approx(stats.binomtest(7, 10).pvalue)
    assert (found.is_exact, found.n) == (True, 14)
    shares = np.stack([np.append(told, [0.5] * 4) / 12 + noise, np.append(0 * told, [0.5] * 4) / 12])
    assert sign_flip_groups(shares, "h").p_value == found.p_value
    assert wilcoxon(np.append(told, [0.0] * 4) + noise, "h").p_value == found.p_value


def test_a_lean_is_not_found_more_often_where_little_was_read() -> None:
    """15 templates with an answer or two each, no lean: the test spoke in 9 % of samples when rounding broke ties."""
    generator, spoken = np.random.default_rng(7), 0
    for _ in range(400):
        biased, other = generator.binomial(2, 0.25, (2, 15)).astype(float)
        whole = np.maximum(biased + other, 1).sum()
        added = (biased - other) / whole * (1 + generator.normal(0, 1e-10, 15))
        p_value = sign_flip(added, "h").p_value
        spoken += p_value is not None and p_value < 0.05
    assert spoken <= 0.05 * 400


def test_nothing_to_test_is_said() -> None:
    assert sign_flip(np.array([0.3, np.nan]), "h", unit="level").reason == "fewer than two levels"
    assert wilcoxon(np.zeros(5), "h").reason == "every template has the score 0"
    assert kruskal_wallis([np.array([1.0, 2.0]), np.array([1.0])], "h", "item").p_value is None
    assert kruskal_wallis([np.ones(3), np.ones(4)], "h", "item").reason == "all scores are equal"
    assert friedman(np.ones((5, 3)), "h").reason_code == "zero_variance"
    assert friedman(np.array([[1.0, np.nan], [np.nan, 2.0]]), "h").n == 0


@pytest.mark.parametrize("templates", [1, 2, 4])
def test_fewer_than_five_templates_have_no_p_value(templates: int) -> None:
    scores = np.random.default_rng(templates).normal(1, 0.1, (templates, 2))
    found = [
        sign_flip(scores[:, 0], "h"),
        sign_flip_groups(scores.T, "h"),
        wilcoxon(scores[:, 0], "h"),
        friedman(scores, "h"),
        kruskal_wallis([scores[:, 0], scores[:, 1]], "h", "template"),
    ]
    assert {test.p_value for test in found} == {None}
    assert {test.reason_code for test in found} == {"too_few_templates"}
    assert {test.reason for test in found} == {"fewer than 5 templates: no interval, no p value"}
    assert friedman(np.array([[1.0, 2.0], [1.0, 2.0]]), "h", unit="level").p_value is not None


def test_levels_that_never_differ_have_a_p_value_of_1() -> None:
    found = sign_flip_groups(np.zeros((2, 8)), "h")
    assert (found.p_value, found.n, found.is_exact) == (1.0, 8, True)


def test_wilcoxon_is_scipys() -> None:
    values = np.array([0.3, -0.1, 0.2, 0.5, -0.45, 0.7, 0.01])
    found = wilcoxon(values, "h")
    assert found.p_value == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
    assert found.is_exact
    ranks = stats.rankdata(np.abs(values))
    assert found.effect == pytest.approx((ranks * np.sign(values)).sum() / ranks.sum())


@given(st.lists(st.integers(min_value=-3, max_value=5), min_size=5, max_size=10).filter(any))
def test_wilcoxon_with_ties_and_zeros_counts_all_signs(values: list[int]) -> None:
    found = wilcoxon(np.array(values) / 7, "h")
    ranks = stats.rankdata(np.abs(values)) * (np.array(values) != 0)
    own = abs(float((ranks * np.sign(values)).sum()))
    all_of_them = [abs(float(ranks @ flips)) for flips in product((-1, 1), repeat=len(values))]
    assert found.p_value == pytest.approx(np.mean([total >= own - 1e-9 for total in all_of_them]))
    assert found.is_exact


def test_wilcoxon_of_many_templates_is_scipys_approximation() -> None:
    values = np.random.default_rng(1).integers(-3, 5, 260).astype(float)
    found = wilcoxon(values, "h")
    expected = stats.wilcoxon(values, zero_method="pratt", method="approx")
    assert not found.is_exact
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    fewer = wilcoxon(values[:200], "h")
    expected = stats.wilcoxon(values[:200], zero_method="pratt", method="approx")
    assert fewer.is_exact
    assert fewer.p_value == pytest.approx(expected.pvalue, abs=0.005)


def test_kruskal_wallis_is_scipys_and_leaves_out_gaps() -> None:
    generator = np.random.default_rng(2)
    samples = [generator.integers(-1, 2, 30).astype(float) for _ in range(3)]
    expected = stats.kruskal(*samples)
    found = kruskal_wallis([np.append(sample, np.nan) for sample in samples], "h", "item")
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert (found.n, found.unit) == (90, "item")
    assert found.effect == pytest.approx(expected.statistic / 89)


def test_friedman_is_scipys_and_its_effect_is_kendalls_w() -> None:
    scores = np.random.default_rng(3).integers(0, 4, (40, 4)).astype(float)
    expected = stats.friedmanchisquare(*scores.T)
    found = friedman(scores, "h")
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.effect == pytest.approx(expected.statistic / (40 * 3))


def test_friedman_of_two_groups_is_the_exact_sign_test() -> None:
    scores = np.random.default_rng(5).integers(0, 4, (14, 2)).astype(float)
    ahead, behind = (int((scores[:, 0] > scores[:, 1]).sum()), int((scores[:, 0] < scores[:, 1]).sum()))
    assert ahead + behind < 14
    found = friedman(scores, "h")
    assert found.p_value == pytest.approx(stats.binomtest(ahead, ahead + behind).pvalue)
    assert found.is_exact


def test_friedman_of_few_templates_permutes_ranks() -> None:
    """Held to all 6⁵ ways to permute three ranks, some of them tied, in five templates."""
    scores = np.array([[1, 2, 3], [1, 3, 2], [1, 1, 2], [1, 2, 3], [2, 1, 3]], dtype=float)
    ranks = np.array([stats.rankdata(row) for row in scores])

    def spread(rows: Any) -> float:
        return float(((np.sum(rows, axis=0) - ranks.sum() / 3) ** 2).sum())

    every = [
        spread(rows) for rows in product(*([row[list(order)] for order in permutations(range(3))] for row in ranks))
    ]
    exact = np.mean(np.array(every) >= spread(ranks) - 1e-9)
    assert friedman(scores, "h").p_value == pytest.approx(exact, abs=0.02)


def test_kendalls_w_by_hand() -> None:
    """Three judges rank four: 1234, 1234, 1243. Sums 3, 6, 10, 11; squares about 7.5: 41; W = 12 · 41 / (9 · 60)."""
    ranks = np.array([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4, 3]], dtype=float)
    assert kendall_w(ranks) == pytest.approx(12 * 41 / (9 * 60))
    assert kendall_w(np.array([[1.0, 2.0], [1.0, 2.0]])) == 1
    assert kendall_w(np.array([[1.0, 2.0], [2.0, 1.0]])) == 0
    assert kendall_w(np.ones((2, 2))) is None


def random_shares(groups: int, templates: int, seed: int) -> Any:
    """What templates add to the scores of groups that do not differ."""
    generator = np.random.default_rng(seed)
    return (generator.normal(0.2, 0.3, templates) + generator.normal(0, 0.2, (groups, templates))) / templates


def test_sign_flips_of_two_groups_are_full_enumeration() -> None:
    found = sign_flip_groups(random_shares(2, 6, 9), "h")
    one, other = random_shares(2, 6, 9)
    observed = float((one - other).sum())
    sums = [abs(float(np.array(row) @ (one - other))) for row in product((1, -1), repeat=6)]
    assert found.p_value == pytest.approx(np.mean([size >= abs(observed) - 1e-12 for size in sums]))
    assert found.is_exact
    assert found.statistic == pytest.approx(observed)
    assert found.p_value == sign_flip(one - other, "h").p_value


def test_sign_flips_of_three_groups_find_what_is_there_and_nothing_else() -> None:
    shares = random_shares(3, 20, 8)
    same = sign_flip_groups(shares, "h")
    assert same.p_value is not None
    assert same.p_value > 0.05
    moved = shares + np.array([[0.5], [0.0], [0.0]]) / 20
    found = sign_flip_groups(moved, "h").p_value
    assert found is not None
    assert found < 0.01
    again = sign_flip_groups(shares[[1, 0, 2]], "h")
    assert again.statistic == pytest.approx(same.statistic)
    assert again.p_value == same.p_value


def test_unequal_precision_makes_no_difference() -> None:
    """One language read in 95 of 100 answers, the other in 12: both lean alike, and a test says so in 95 of 100 runs.

    400 runs: 5 % has a standard error of 1.1 points; a test that swaps whole templates speaks in 10 to 13 %.
    """
    generator, spoken = np.random.default_rng(3), 0
    for run in range(400):
        lean = generator.normal(0.2, 0.3, 15).clip(-0.9, 0.9)
        shares = []
        for read in (23, 3):
            biased = generator.binomial(read, (1 + lean) / 2)
            shares.append((2 * biased - read) / (15 * read))
        p_value = sign_flip_groups(np.array(shares), "h", seed=run).p_value
        spoken += p_value is not None and p_value < 0.05
    assert spoken / 400 < 0.085


def test_groups_without_answers_are_said() -> None:
    shares = random_shares(2, 5, 1)
    shares[1] = np.nan
    found = sign_flip_groups(shares, "h")
    assert (found.p_value, found.reason) == (None, "a score is undefined")


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])


def test_benjamini_hochberg_is_scipys() -> None:
    p_values = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205]
    assert benjamini_hochberg(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)))
    assert benjamini_hochberg([None, 0.02, None]) == [None, 0.02, None]


@given(P_VALUES)
def test_adjusting_keeps_order_and_never_lowers(p_values: list[float | None]) -> None:
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p_values)
        assert [found is None for found in adjusted] == [p is None for p in p_values]
        known = [(p, found) for p, found in zip(p_values, adjusted, strict=True) if p is not None and found is not None]
        assert all(p <= found + 1e-12 <= 1 + 2e-12 for p, found in known)
        assert all(one[1] <= other[1] + 1e-12 for one in known for other in known if one[0] <= other[0])
