from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mbbq_gen.statistics.estimate import InferenceSettings, ratio_of
from mbbq_gen.statistics.hypothesis_tests import zero_test
from mbbq_gen.statistics.panel import resample_weights
from tests.support.cases import known

SAMPLING = InferenceSettings()


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")


def test_the_worked_example_is_right(page: str) -> None:
    english = np.array([0.1, 0.0, 0.2, -0.1, 0.1, 0.0])
    turkish = np.array([0.3, 0.1, 0.2, 0.1, 0.4, 0.1])
    gaps = english - turkish
    spread, error = gaps.std(ddof=1), gaps.std(ddof=1) / math.sqrt(6)
    margin = stats.t.ppf(0.975, 5) * error
    assert f"{spread:.4f} / 2.449 = {error:.4f}" in page
    assert f"{gaps.mean() - margin:.3f} … {gaps.mean() + margin:.3f}".replace("-", "−") in page
    weights = resample_weights(tuple("abcdef"), 2000, 0)
    found = zero_test(ratio_of(gaps, np.ones(6), weights, (-1.0, 1.0)), "h", SAMPLING)
    assert known(found.p_value) < 0.05
    assert found.effect == pytest.approx(-1.43, abs=0.005)
    for scores, text in ((english, "0.110"), (turkish, "0.133")):
        assert f"{stats.t.ppf(0.975, 5) * scores.std(ddof=1) / math.sqrt(6):.3f}" == text
