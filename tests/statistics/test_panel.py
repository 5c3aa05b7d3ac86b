from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.cells import CELLS, Counts, count_matrix
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, influence_values, mean_of_strata, ratio_of
from mbbq_gen.statistics.intervals import mover_interval
from mbbq_gen.statistics.panel import make_panel
from tests.support.cases import known
from tests.support.scoring import Row, observations_of
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

SAMPLING = InferenceSettings(n_resamples=400)


def random_cells(seed: int, templates: int = 12) -> Any:
    return np.random.default_rng(seed).integers(0, 9, (templates, len(CELLS))).astype(float)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(sorted(METRICS)))
def test_influences_are_the_slopes_of_the_score(seed: int, name: str) -> None:
    """Counting a template a little more changes the score by its influence: a derivative, taken numerically."""
    metric, cells, step = METRICS[name], random_cells(seed), 1e-5
    by_template = Counts(cells @ count_matrix(), "discard")
    total = Counts(by_template.values.sum(axis=0), "discard")
    pulls = influence_values(metric, by_template, total)
    for template in (0, 7):
        more = Counts(total.values + step * by_template.values[template], "discard")
        less = Counts(total.values - step * by_template.values[template], "discard")
        slope = (float(metric.value(more)) - float(metric.value(less))) / (2 * step)
        assert pulls[template] == pytest.approx(slope, abs=1e-5)
    assert pulls.sum() == pytest.approx(0, abs=1e-6)


def test_the_standard_error_of_equal_templates_is_the_textbook_one() -> None:
    """With one size for all templates the score is the mean of template scores, its error s / √n."""
    shares = [0.0, 0.25, 0.5, 0.5, 1.0]
    rows = [
        Row("ambiguous", chose="unknown" if item < 4 * share else "target", template=f"t{place}", number=item)
        for place, share in enumerate(shares)
        for item in range(4)
    ]
    (group,) = score(observations_frame(observations_of(rows)), settings=InferenceSettings(n_resamples=100)).groups
    found = group.metrics["accuracy_ambiguous"]
    assert found.standard_error == pytest.approx(np.std(shares, ddof=1) / 5**0.5)
    assert found.n_templates_effective == pytest.approx(5)


def simulated(**settings: Any) -> Any:
    model = SimulatedModel({"en": SimulatedLanguage(lean=0.2), "tr": SimulatedLanguage(lean=0.6)})
    return simulate(model, Design(splits=("bias",), **settings), seed=3)


def test_a_panel_scores_as_score_does() -> None:
    frame = simulated()
    table = score(frame, ["language"], settings=InferenceSettings(n_resamples=400))
    panel = make_panel(frame, ["language"], SAMPLING)
    for name, metric in METRICS.items():
        for group, estimate in zip(table.groups, panel.estimates(metric), strict=True):
            found, expected = estimate.score(SAMPLING), group.metrics[name]
            for key in ("value", "ci_low", "ci_high", "standard_error"):
                assert getattr(found, key) == pytest.approx(getattr(expected, key)), (name, key)


def test_a_difference_is_paired() -> None:
    """Template effects that both languages share leave the difference: its error is less than that of two samples."""
    model = SimulatedModel({"en": SimulatedLanguage(), "tr": SimulatedLanguage()}, template_sd=0.5, interaction_sd=0.0)
    panel = make_panel(simulate(model, Design(fillings=8, splits=("bias",)), seed=1), ["language"], SAMPLING)
    one, other = panel.estimates(METRICS["mbbq_bias_ambiguous"])
    difference = one.subtract(other)
    assert difference.value == pytest.approx(one.value - other.value)
    assert difference.standard_error < 0.7 * (one.standard_error**2 + other.standard_error**2) ** 0.5
    found = difference.score(SAMPLING)
    assert known(found.ci_low) == pytest.approx(difference.value - difference.analytic_half_width(0.95), abs=0.02)
    assert difference.score(SAMPLING) == difference.score(SAMPLING)
    assert one.subtract(one).score(SAMPLING).value == 0


def test_a_stratified_panel_draws_each_category_from_its_own_templates() -> None:
    panel = make_panel(simulated(), [], SAMPLING, is_stratified=True)
    assert panel.strata is not None
    for name in set(panel.strata):
        places = [place for place, stratum in enumerate(panel.strata) if stratum == name]
        assert set(panel.weights[:, places].sum(axis=1)) == {len(places)}


def stratum(values: list[float], sizes: list[float]) -> Estimate:
    below = np.array(sizes)
    return ratio_of(np.array(values) * below, below, np.ones((5, len(values))), (-1.0, 1.0))


def test_the_error_of_uneven_strata_is_right_on_average() -> None:
    """Seven large templates and five small ones, as MBBQ has them: the mean squared error is the true variance."""
    sizes, generator = np.array([240.0] * 7 + [24.0] * 5), np.random.default_rng(8)
    shares = sizes / sizes.sum()
    squares = [
        mean_of_strata([stratum(list(generator.normal(0, 1, 12)), list(sizes))]).standard_error ** 2
        for _ in range(3000)
    ]
    assert np.mean(squares) == pytest.approx(float((shares**2).sum()), rel=0.04)
    assert mean_of_strata([stratum(list(generator.normal(0, 1, 12)), list(sizes))]).df < 7.5


def test_too_little_is_said() -> None:
    weights = np.ones((5, 1))
    alone = ratio_of(np.array([2.0]), np.array([4.0]), weights).score(SAMPLING)
    assert (alone.value, alone.ci_low, alone.reason) == (0.5, None, "fewer than 5 templates: no interval, no p value")
    agreeing = ratio_of(np.array([4.0, 4.0]), np.array([4.0, 4.0]), np.ones((5, 2))).score(SAMPLING)
    assert (agreeing.value, agreeing.ci_low, agreeing.ci_high) == (1.0, None, None)
    assert agreeing.reason == alone.reason
    assert agreeing.reason_code == "too_few_templates"
    assert agreeing.standard_error is None
    nothing = ratio_of(np.array([0.0, 0.0]), np.array([0.0, 0.0]), np.ones((5, 2))).score(SAMPLING)
    assert (nothing.value, nothing.ci_low, nothing.reason) == (None, None, "a denominator is 0")


def test_two_intervals_make_the_interval_of_a_difference() -> None:
    """Of symmetric ones it is the root of the sum of squares; a certain one only shifts; what is shared goes."""
    alike = mover_interval((0.5, 0.1), (0.2, 0.8), (-0.2, 0.4), correlation=1.0)
    assert alike == pytest.approx((0.4, 0.4))
    assert mover_interval((0.5, 0.1), (0.2, 0.8), (-0.2, 0.4), 0.5) == pytest.approx((0.1, 0.7))
    assert mover_interval((0.5, 0.1), (0.2, 0.8), (-0.3, 0.5)) == pytest.approx((-0.1, 0.9))
    assert mover_interval((0.5, 0.1), (0.2, 0.6), (0.1, 0.1)) == pytest.approx((0.1, 0.5))
