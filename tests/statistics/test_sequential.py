from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import WEIGHT, tally_groups, weighted_by_design
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.panel import Panel, panel_of
from mbbq_gen.statistics.sequential import (
    FOR_WIDTH,
    RESERVED_SHARE,
    ErrorSpending,
    InterimEstimate,
    Interval,
    critical_value,
    interim_estimates,
    interval_after,
    interval_at,
    nominal_level,
    variance_of_width,
    width_at_end,
)
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

BIAS = METRICS["mbbq_bias_ambiguous"]


@pytest.mark.parametrize("rho", [0.7, 1.0, 6.0])
def test_bounds_spend_what_they_are_to_spend(rho: float) -> None:
    """The chance to have left the bounds by each look is α · t^ρ: scipy integrates the joint normal distribution."""
    alpha, times = 0.05, np.array([0.2, 0.45, 0.5, 0.8, 1.0])
    bounds = ErrorSpending(alpha / (1 - RESERVED_SHARE), rho)
    reach = np.array([bounds.look(time, time) for time in times])
    root = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))
    for look in range(1, len(times) + 1):
        joint = stats.multivariate_normal(np.zeros(look), root[:look, :look], abseps=1e-6, releps=1e-6)
        inside = joint.cdf(reach[:look], lower_limit=-reach[:look])
        assert 1 - inside == pytest.approx(alpha * times[look - 1] ** rho, abs=2e-4)


@pytest.mark.parametrize("rho", [0.7, 6.0])
@pytest.mark.parametrize("information", [(1, 2, 3, 4), (1.0, 1.05, 1.1, 9.0), (4.0, 3.0, 5.0, 5.0)])
def test_all_looks_together_hold_the_level(rho: float, information: tuple[float, ...]) -> None:
    """However the information grows, or seems to fall: no more than α of all paths ever leave the bounds."""
    bounds = ErrorSpending(0.05, rho)
    grown = np.maximum.accumulate(np.array(information, dtype=float))
    reach = [bounds.look(now, now / grown[-1]) for now in information]
    steps = np.diff(grown, prepend=0.0)
    sums = np.random.default_rng(3).normal(size=(100_000, len(steps))) * np.sqrt(steps)
    crossed = np.abs(sums.cumsum(axis=1) / np.sqrt(grown)) > np.array(reach)
    assert crossed.any(axis=1).mean() <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 100_000)


def panel(
    templates: int, answers: int, seed: int = 0
) -> tuple[Panel, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    generator = np.random.default_rng(seed)
    cells = np.zeros((1, templates, len(CELLS)))
    places = [place for place, cell in enumerate(CELLS) if cell.context == "ambiguous" and cell.choice != "unparsed"]
    for template in range(templates):
        share = generator.dirichlet(np.ones(len(places)) * 3)
        cells[0, template, places] = generator.multinomial(answers, share)
    names = tuple(f"b / c / {number:03d}" for number in range(templates))
    return Panel(({},), (), names, cells, InferenceSettings(n_resamples=1)), cells


def measure(templates: int, answers: int, offered: int, seed: int = 0) -> InterimEstimate:
    made, cells = panel(templates, answers, seed)
    (found,) = interim_estimates(BIAS, made, cells, np.full(cells.shape[:2], float(offered)))
    return found


def intervals(seen: list[InterimEstimate], aim: float = 0.0) -> list[Interval]:
    """Of successive looks, the error spent late."""
    return [interval_after(seen[:number], 0.05, FOR_WIDTH, aim) for number in range(1, len(seen) + 1)]


def test_the_interval_of_a_last_look_is_nearly_that_of_a_fixed_sample() -> None:
    last = measure(60, 100, 100)
    looks = [measure(60, count, 100) for count in (4, 8, 16, 32, 64)]
    found = intervals([*looks, last])
    assert len(found) == 6
    fixed = interval_at(last, critical_value(0.05))
    assert 1.0 < found[-1].width / fixed.width < 1.15
    assert intervals(looks[:1])[0].width > interval_at(looks[0], critical_value(0.05)).width * 1.3


def test_what_can_not_be_reached_is_known_before_all_is_asked() -> None:
    looks = [measure(30, count, 400) for count in (10, 20, 40, 80)]
    least = width_at_end(looks[-1], critical_value(0.01), 0.05)
    now = intervals(looks)[-1].width
    assert 0.3 * now < least < now
    aim = variance_of_width(0.2, looks[-1], 0.05)
    assert 2 * 2.2 * math.sqrt(aim) == pytest.approx(0.2, rel=0.1)


def test_weights_by_design_undo_an_uneven_allocation() -> None:
    """Half of one language's answers taken away: the pooled score counts both languages alike again."""
    import polars as pl

    frame = simulate(
        SimulatedModel({"en": SimulatedLanguage(lean=0.8), "tr": SimulatedLanguage(lean=-0.4)}),
        Design(templates=12, variants=2, fillings=4, splits=("bias",)),
        seed=5,
    )
    assert WEIGHT not in weighted_by_design(frame).columns
    fewer = frame.filter((pl.col("language") == "en") | (pl.col("variant") == "wording 1"))
    weighted = weighted_by_design(fewer)
    assert weighted[WEIGHT].mean() == pytest.approx(1.0)
    by_language = panel_of(
        list(tally_groups(fewer, {"language": "language"})), InferenceSettings(n_resamples=1)
    ).estimates(BIAS)
    (pooled,) = panel_of(list(tally_groups(weighted, {})), InferenceSettings(n_resamples=1)).estimates(BIAS)
    (naive,) = panel_of(list(tally_groups(fewer, {})), InferenceSettings(n_resamples=1)).estimates(BIAS)
    middle = sum(found.value for found in by_language) / 2
    assert pooled.value == pytest.approx(middle, abs=0.01)
    assert naive.value > middle + 0.05


def test_no_interval_goes_beyond_the_scale() -> None:
    """Six templates at the strict level of a first look: t of five degrees of freedom knows no end."""
    interval = interval_at(measure(6, 4, 400), 4.9)
    assert -1 <= interval.low < interval.high <= 1


def test_levels_and_reaches_are_each_other() -> None:
    assert critical_value(0.05) == pytest.approx(1.959964)
    assert nominal_level(critical_value(0.0123)) == pytest.approx(0.0123)
