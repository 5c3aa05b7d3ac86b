"""Tests: against scipy where it has them, against full enumeration, and against counting by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS, count_matrix
from mbbq_gen.statistics.significance import (
    MetricValue,
    benjamini_hochberg,
    friedman,
    holm,
    kendall_w,
    kruskal_wallis,
    paired_permutation,
    sign_flip,
    wilcoxon,
)

P_VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def test_sign_flip_of_few_templates_is_exact() -> None:
    """Four templates, all of one sign: 2 of the 16 ways are as extreme."""
    found = sign_flip(np.array([1.0, 2.0, 3.0, 4.0]), "h")
    assert (found.p_value, found.is_exact, found.unit, found.n) == (2 / 16, True, "template", 4)
    by_hand = [
        sum(sign * value for sign, value in zip(signs, (1, -2, 4), strict=True)) for signs in product((1, -1), repeat=3)
    ]
    expected = sum(abs(value) >= 3 for value in by_hand) / 8
    assert sign_flip(np.array([1.0, -2.0, 4.0]), "h").p_value == expected


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


def test_nothing_to_test_is_said() -> None:
    assert sign_flip(np.array([0.3, np.nan]), "h").reason == "fewer than two templates"
    assert wilcoxon(np.zeros(5), "h").reason == "every template has the score 0"
    assert kruskal_wallis([np.array([1.0, 2.0]), np.array([1.0])], "h", "item").p_value is None
    assert kruskal_wallis([np.ones(3), np.ones(4)], "h", "item").reason == "all scores are equal"
    assert friedman(np.ones((5, 3)), "h").reason == "no template tells the groups apart"
    assert friedman(np.array([[1.0, np.nan], [np.nan, 2.0]]), "h").n == 0


def test_wilcoxon_is_scipys() -> None:
    values = np.array([0.3, -0.1, 0.2, 0.5, -0.45, 0.7, 0.01])
    found = wilcoxon(values, "h")
    assert found.p_value == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
    assert found.is_exact
    ranks = stats.rankdata(np.abs(values))
    assert found.effect == pytest.approx((ranks * np.sign(values)).sum() / ranks.sum())
    with_zeros = wilcoxon(np.array([0.0, 0.0, 0.5, 0.5, 0.5, -0.5, 1.0]), "h")
    assert not with_zeros.is_exact
    assert with_zeros.p_value is not None


def test_kruskal_wallis_is_scipys_and_leaves_out_gaps() -> None:
    generator = np.random.default_rng(2)
    samples = [generator.integers(-1, 2, 30).astype(float) for _ in range(3)]
    expected = stats.kruskal(*samples)
    found = kruskal_wallis([np.append(sample, np.nan) for sample in samples], "h", "item")
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert (found.n, found.unit) == (90, "item")
    assert found.effect == pytest.approx(expected.statistic / 89)


def test_friedman_is_scipys_and_its_effect_is_kendalls_w() -> None:
    scores = np.random.default_rng(3).integers(0, 4, (15, 4)).astype(float)
    expected = stats.friedmanchisquare(*scores.T)
    found = friedman(scores, "h")
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.effect == pytest.approx(expected.statistic / (15 * 3))


def test_kendalls_w_by_hand() -> None:
    """Three judges rank four: 1234, 1234, 1243. Sums 3, 6, 10, 11; squares about 7.5: 41; W = 12 · 41 / (9 · 60)."""
    ranks = np.array([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4, 3]], dtype=float)
    assert kendall_w(ranks) == pytest.approx(12 * 41 / (9 * 60))
    assert kendall_w(np.array([[1.0, 2.0], [1.0, 2.0]])) == 1
    assert kendall_w(np.array([[1.0, 2.0], [2.0, 1.0]])) == 0
    assert kendall_w(np.ones((2, 2))) is None


def random_counts(groups: int, templates: int, seed: int) -> Any:
    cells = np.random.default_rng(seed).integers(0, 6, (groups, templates, len(CELLS))).astype(float)
    return cells @ count_matrix()


@pytest.mark.parametrize("name", ["mbbq_bias_ambiguous", "diff_bias_disambiguated", "accuracy_disambiguated"])
def test_paired_permutation_of_few_templates_is_full_enumeration(name: str) -> None:
    counts, value = random_counts(2, 6, 9), MetricValue(METRICS[name], "discard")
    found = paired_permutation(counts, value, "h")

    def difference(flips: tuple[int, ...]) -> float:
        swapped = np.stack([counts[[flip, 1 - flip], place] for place, flip in enumerate(flips)], axis=1)
        one, other = value(swapped.sum(axis=1))
        return float(one - other)

    observed = difference((0,) * 6)
    extreme = [abs(difference(flips)) >= abs(observed) - 1e-12 for flips in product((0, 1), repeat=6)]
    assert found.p_value == pytest.approx(np.mean(extreme))
    assert found.is_exact
    assert found.statistic == pytest.approx(observed)


def test_paired_permutation_of_three_groups_finds_what_is_there_and_nothing_else() -> None:
    counts, value = random_counts(3, 20, 8), MetricValue(METRICS["mbbq_bias_ambiguous"], "discard")
    same = paired_permutation(counts, value, "h")
    assert same.p_value is not None
    assert same.p_value > 0.05
    biased = counts.copy()
    biased[0] += (
        40 * count_matrix()[0]
    )  # one answer kind, the target in a negative ambiguous question, forty times more
    assert paired_permutation(biased, value, "h").p_value == 1 / 5000
    assert paired_permutation(counts[[1, 0, 2]], value, "h").statistic == pytest.approx(same.statistic)


def test_groups_without_answers_are_said() -> None:
    counts = random_counts(2, 5, 1)
    counts[1] = 0
    found = paired_permutation(counts, MetricValue(METRICS["mbbq_bias_ambiguous"], "discard"), "h")
    assert (found.p_value, found.reason) == (None, "a score is undefined")


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])


def test_benjamini_hochberg_is_scipys() -> None:
    p_values = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205]
    assert benjamini_hochberg(p_values) == pytest.approx(list(stats.false_discovery_control(p_values)))
    assert benjamini_hochberg([None, 0.02, None]) == [None, 0.02, None]


@settings(deadline=None)
@given(P_VALUES)
def test_adjusting_keeps_order_and_never_lowers(p_values: list[float | None]) -> None:
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p_values)
        assert [found is None for found in adjusted] == [p is None for p in p_values]
        known = [(p, found) for p, found in zip(p_values, adjusted, strict=True) if p is not None and found is not None]
        assert all(p <= found + 1e-12 <= 1 + 2e-12 for p, found in known)
        assert all(one[1] <= other[1] + 1e-12 for one in known for other in known if one[0] <= other[0])
