from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings, combine
from mbbq_gen.statistics.intervals import (
    FEW_EFFECTIVE,
    MIN_DEVIATING,
    SKEWNESS_LIMIT,
    STRETCH,
    UNSEEN_TEMPLATE_DEVIATION,
    boundary_interval,
    score_interval,
)
from mbbq_gen.statistics.panel import make_panel
from tests.support.cases import known
from tests.support.scoring import Row, observations_of

SMALL = st.integers(min_value=2, max_value=60)


def interval(scores: list[float], sizes: list[float] | None = None, **given: Any) -> tuple[float, float]:
    confidence = given.pop("confidence", 0.95)
    found = known(boundary_interval(np.array(scores), np.array(sizes or [1.0] * len(scores)), (0.0, 1.0), **given))
    return found.ends(confidence)


@pytest.mark.parametrize(("right", "templates"), [(8, 8), (40, 40), (98, 98), (39, 40), (93, 98), (0, 20), (2, 30)])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons(right: int, templates: int) -> None:
    """Up to what 1,000 draws leave open."""
    low, high = interval([1.0] * right + [0.0] * (templates - right), unseen=1.0)
    exact = stats.binomtest(right, templates).proportion_ci(0.95, "exact")
    assert low == pytest.approx(exact.low, abs=0.02)
    assert high == pytest.approx(exact.high, abs=0.02)


@pytest.mark.parametrize("templates", [5, 15, 40, 98])
def test_what_was_not_seen_is_bounded(templates: int) -> None:
    """All templates alike: the ends are UNSEEN times the share that a template more could have, 1 − 0.025^(1/n)."""
    share = 1 - 0.025 ** (1 / templates)
    low, high = interval([1.0] * templates)
    assert high == 1.0
    assert low == pytest.approx(1 - STRETCH * UNSEEN_TEMPLATE_DEVIATION * share, abs=0.01)
    low, high = interval([0.5] * templates)
    assert (low, high) == pytest.approx(
        (0.5 - UNSEEN_TEMPLATE_DEVIATION * share, 0.5 + UNSEEN_TEMPLATE_DEVIATION * share), abs=0.01
    )


@given(
    SMALL.flatmap(lambda count: st.lists(st.sampled_from([1.0, 1.0, 1.0, 0.9, 0.0]), min_size=count, max_size=count)),
    st.sampled_from((1, 4, 32)),  # a change of unit that rounds nothing
)
def test_properties(scores: list[float], size: int) -> None:
    """It holds the score, lies between the ends, depends on no unit of size, and is as wide as confidence asks."""
    sizes, middle = np.full(len(scores), float(size)), float(np.mean(scores))
    found = boundary_interval(np.array(scores), sizes, (0.0, 1.0))
    usual = max(scores.count(value) for value in set(scores)) > len(scores) / 2
    is_near = not UNSEEN_TEMPLATE_DEVIATION <= middle <= 1 - UNSEEN_TEMPLATE_DEVIATION
    is_few, others = len(scores) < FEW_EFFECTIVE, sum(value != 1.0 for value in scores)
    assert (found is not None) >= ((is_near and is_few) or (usual and others < MIN_DEVIATING))
    if found is None:
        return
    assert usual or is_near or abs(stats.skew(scores)) > SKEWNESS_LIMIT
    low, high = found.ends(0.95)
    assert -1e-9 <= low <= middle + 0.02
    assert middle - 0.02 <= high <= 1 + 1e-9
    assert (low, high) == pytest.approx(interval(scores))
    narrow = interval(scores, confidence=0.5)
    assert low <= narrow[0] + 1e-9
    assert narrow[1] <= high + 1e-9


@pytest.mark.parametrize("templates", [5, 8, 15, 40, 98])
def test_near_an_end_of_the_scale_the_interval_is_that_of_scores(templates: int) -> None:
    """Wilson's: its ends are the values from which the score is as many standard errors away as t says."""
    scores = np.linspace(0.85, 0.99, templates)
    value, error = float(scores.mean()), float(scores.std(ddof=1)) / templates**0.5
    found = known(score_interval(value, error, templates, 0.95, (0.0, 1.0)))
    reach = float(stats.t.ppf(0.975, templates - 1))
    for end in found:
        error_there = error * (end * (1 - end) / (value * (1 - value))) ** 0.5
        assert abs(end - value) == pytest.approx(reach * error_there)
    low, high = found
    assert value - low > high - value > 0
    mirrored = score_interval(-value, error, templates, 0.95, (-1.0, 0.0))
    assert mirrored == pytest.approx((-high, -low))
    for middle, wrong in ((1.0, error), (value, 0.0), (math.nan, error)):
        assert score_interval(middle, wrong, templates, 0.95, (0.0, 1.0)) is None
    assert score_interval(value, error, templates, 0.95, (-math.inf, math.inf)) is None


def rows(templates: int = 12, language: str = "en", chose: str = "unknown") -> list[Row]:
    return [
        Row("ambiguous", chose=chose, template=f"t{n}", number=k, language=language)  # type: ignore[arg-type]
        for n in range(templates)
        for k in range(4)
    ]


def test_a_model_that_always_says_unknown_has_room_on_both_sides() -> None:
    metrics = score(observations_frame(observations_of(rows()))).groups[0].metrics
    found = metrics["mbbq_bias_ambiguous"]
    assert (found.value, found.method) == (0.0, "near_boundary")
    assert found.ci_high is not None
    assert known(found.ci_low) == pytest.approx(-found.ci_high, abs=0.01)
    assert 0.05 < found.ci_high < 0.1
    assert found.warnings == ("near_boundary",)
    accuracy = metrics["accuracy_ambiguous"]
    assert accuracy.ci_high == 1.0
    assert 0.9 < known(accuracy.ci_low) < 0.95


def test_differences_leave_room_for_both() -> None:
    panel = make_panel(
        observations_frame(observations_of([*rows(), *rows(language="tr")])),
        ["language"],
        InferenceSettings(n_resamples=200),
    )
    one, other = panel.estimates(METRICS["mbbq_bias_ambiguous"])
    alone, apart = (
        one.score(InferenceSettings(n_resamples=200)),
        one.subtract(other).score(InferenceSettings(n_resamples=200)),
    )
    assert apart.value == 0.0
    assert None not in (alone.ci_high, apart.ci_high, apart.ci_low)
    assert apart.ci_high > alone.ci_high  # type: ignore[operator]
    assert apart.ci_low == pytest.approx(-apart.ci_high, abs=0.02)  # type: ignore[operator]
    assert combine([one, other], [1.0, -1.0]).bounds == (-2.0, 2.0)
