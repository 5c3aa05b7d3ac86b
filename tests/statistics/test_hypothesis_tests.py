from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, ratio_of
from mbbq_gen.statistics.hypothesis_tests import (
    benjamini_hochberg,
    holm,
    kendall_w,
    kruskal_wallis,
    sign_flip_groups,
    zero_test,
)
from mbbq_gen.statistics.panel import resample_weights
from tests.support.cases import known

SAMPLING = InferenceSettings(n_resamples=1000)
P_VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12)


def simulated_difference(seed: int, templates: int = 12, lean: float = 0.0) -> Estimate:
    generator = np.random.default_rng(seed)
    weights = resample_weights(tuple(str(number) for number in range(templates)), SAMPLING.n_resamples, seed)
    sides = []
    for shift in (lean, 0.0):
        sizes = generator.integers(4, 60, templates).astype(float)
        sides.append(ratio_of(sizes * np.clip(generator.normal(shift, 0.2, templates), -1, 1), sizes, weights, (-1, 1)))
    return sides[0].subtract(sides[1])


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_p_value_is_below_the_level_where_the_interval_excludes_0(confidence: float) -> None:
    settings, agreed = InferenceSettings(confidence, SAMPLING.n_resamples), {True: 0, False: 0}
    for seed in range(40):
        difference = simulated_difference(seed, lean=0.03 * (seed % 10))
        found, shown = zero_test(difference, "h", settings), difference.score(settings)
        assert (known(found.p_value) < 1 - confidence) == shown.excludes_zero
        agreed[shown.excludes_zero] += 1
    assert min(agreed.values()) > 0


def test_the_p_value_is_near_students() -> None:
    values = np.random.default_rng(5).normal(0.25, 0.8, 40)
    weights = resample_weights(tuple(str(number) for number in range(40)), 4000, 0)
    found = zero_test(ratio_of(values, np.ones(40), weights, (-9.0, 9.0)), "h", SAMPLING)
    assert found.p_value == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.02)
    assert found.effect == pytest.approx(values.mean() / values.std(ddof=1))


def test_kruskal_wallis_is_scipys() -> None:
    generator = np.random.default_rng(2)
    samples = [generator.integers(-1, 2, 30).astype(float) for _ in range(3)]
    expected = stats.kruskal(*samples)
    found = kruskal_wallis(samples, "h")
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert (found.n, found.unit) == (90, "item")
    assert found.effect == pytest.approx(expected.statistic / 89)


def test_kendalls_w_by_hand() -> None:
    """Three judges rank four: 1234, 1234, 1243. Sums 3, 6, 10, 11; squares about 7.5: 41; W = 12 · 41 / (9 · 60)."""
    ranks = np.array([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4, 3]], dtype=float)
    assert kendall_w(ranks) == pytest.approx(12 * 41 / (9 * 60))
    assert kendall_w(np.array([[1.0, 2.0], [1.0, 2.0]])) == 1
    assert kendall_w(np.array([[1.0, 2.0], [2.0, 1.0]])) == 0
    assert kendall_w(np.ones((2, 2))) is None


def random_shares(groups: int, templates: int, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    return (generator.normal(0.2, 0.3, templates) + generator.normal(0, 0.2, (groups, templates))) / templates


def test_sign_flips_of_two_groups_are_full_enumeration() -> None:
    found = sign_flip_groups(random_shares(2, 6, 9), "h")
    one, other = random_shares(2, 6, 9)
    observed = float((one - other).sum())
    sums = [abs(float(np.array(row) @ (one - other))) for row in product((1, -1), repeat=6)]
    assert found.p_value == pytest.approx(np.mean([size >= abs(observed) - 1e-12 for size in sums]))
    assert found.is_exact


def test_sign_flips_of_three_groups_find_what_is_there_and_nothing_else() -> None:
    shares = random_shares(3, 20, 8)
    same = sign_flip_groups(shares, "h")
    assert same.p_value is not None
    assert same.p_value > 0.05
    moved = shares + np.array([[0.5], [0.0], [0.0]]) / 20
    found = known(sign_flip_groups(moved, "h").p_value)
    assert found < 0.01
    again = sign_flip_groups(shares[[1, 0, 2]], "h")
    assert again.statistic == pytest.approx(same.statistic)
    assert again.p_value == same.p_value


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
