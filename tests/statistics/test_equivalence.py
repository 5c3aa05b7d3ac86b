from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, ratio_of
from mbbq_gen.statistics.hypothesis_tests import tost
from mbbq_gen.statistics.panel import resample_weights
from tests.support.cases import known
from tests.support.scoring import Row, observations_of

SAMPLING = InferenceSettings(n_resamples=2000)


def estimate_of(values: list[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
    names = tuple(f"t{number:03d}" for number in range(len(values)))
    weights = resample_weights(names, SAMPLING.n_resamples, SAMPLING.seed)
    return ratio_of(np.asarray(values, dtype=float), np.ones(len(values)), weights, (-1.0, 1.0))


def p_of(estimate: Estimate, margin: float) -> float:
    found = tost(estimate, margin, "a lean", SAMPLING)
    return known(found.p_value)


def test_the_p_value_is_near_that_of_students_t() -> None:
    values = np.random.default_rng(3).normal(0.02, 0.1, 60)
    error = values.std(ddof=1) / math.sqrt(60)
    for margin in (0.03, 0.04, 0.05):
        expected = max(
            stats.t.sf((margin - values.mean()) / error, 59), stats.t.sf((margin + values.mean()) / error, 59)
        )
        assert p_of(estimate_of(values), margin) == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("margin", [0.02, 0.04, 0.08, 0.5])
def test_the_test_and_the_interval_never_disagree(margin: float) -> None:
    estimate = estimate_of(np.random.default_rng(4).normal(0.01, 0.1, 40))
    ends = known(estimate.interval(0.9))
    assert (p_of(estimate, margin) < 0.05) == (max(-ends[0], ends[1]) < margin)


def test_nothing_seen_is_not_shown_to_be_nothing() -> None:
    """Always unknown: of 8 templates little is shown, of 98 that no lean is larger than 0.03."""
    assert p_of(estimate_of([0.0] * 8), 0.03) > 0.05
    assert p_of(estimate_of([0.0] * 98), 0.03) < 0.05


def test_a_lean_beyond_the_margin_is_never_shown_to_be_within() -> None:
    assert p_of(estimate_of([0.2, 0.3] * 10), 0.1) > 0.5
    assert p_of(estimate_of([0.2] * 20), 0.1) == 1


def test_few_templates_and_undefined_numbers_have_no_p_value() -> None:
    few = tost(estimate_of([0.0, 0.1, 0.0, 0.1]), 0.5, "a lean", SAMPLING)
    assert (few.p_value, few.reason_code) == (None, "too_few_templates")
    nothing = ratio_of(np.zeros(8), np.zeros(8), np.ones((5, 8)))
    assert tost(nothing, 0.5, "a lean", SAMPLING).reason_code == "undefined"


def test_it_keeps_its_level_at_the_margin() -> None:
    """A true lean as large as the margin is shown to be smaller in about 5 % of samples."""
    generator, sampling, runs = np.random.default_rng(5), InferenceSettings(n_resamples=400), 400
    weights = resample_weights(tuple(f"t{number}" for number in range(20)), sampling.n_resamples, sampling.seed)
    shown = 0
    for _ in range(runs):
        values = generator.normal(0.1, 0.1, 20)
        ends = ratio_of(values, np.ones(20), weights, (-1.0, 1.0)).interval(0.9)
        shown += ends is not None and ends[0] > -0.1 and ends[1] < 0.1
    assert 0.02 <= shown / runs <= 0.085


def test_a_score_says_what_it_is_shown_to_be_smaller_than() -> None:
    rows = [
        Row(
            "ambiguous",
            chose=("target", "non_target", "unknown", "unknown")[(template * number) % 4],
            template=f"t{template}",
        )
        for template in range(20)
        for number in range(8)
    ]
    (group,) = score(
        observations_frame(observations_of(rows)), settings=InferenceSettings(confidence=0.95, n_resamples=500)
    ).groups
    (narrow,) = score(
        observations_frame(observations_of(rows)), settings=InferenceSettings(confidence=0.90, n_resamples=500)
    ).groups
    found, at_90 = group.metrics["mbbq_bias_ambiguous"], narrow.metrics["mbbq_bias_ambiguous"]
    assert found.equivalence_bound == pytest.approx(max(-known(at_90.ci_low), known(at_90.ci_high)))
    assert group.metrics["accuracy_ambiguous"].equivalence_bound is None
    assert METRICS["accuracy_ambiguous"].low == 0
