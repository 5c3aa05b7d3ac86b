from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from mbbq_gen.scoring.metrics import METRICS
from tests.conftest import FULL

RUNS = 1000 if FULL else 60
ERROR = (0.05 * 0.95 / RUNS) ** 0.5
TEMPLATES = (5, 8, 15, 40, 98) if FULL else (5, 15, 40)

pytestmark = pytest.mark.slow


@pytest.fixture
def simulation(repository: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(repository / "benches")
    import simulate_all

    found: ModuleType = simulate_all
    return found


@pytest.mark.parametrize("sizes", ["equal", "MBBQ"])
@pytest.mark.parametrize("templates", TEMPLATES)
def test_intervals_hold_the_truth(simulation: ModuleType, templates: int, sizes: str) -> None:
    """Of accuracies from 0.6 to 0.999 and biases up to 1, by models whose templates differ by an ICC of 0.15."""
    cases = [(simulation.ACCURACY, simulation.accurate(value, 0.15)) for value in simulation.ACCURACIES]
    cases += [(simulation.BIAS, simulation.biased(value, 0.15)) for value in simulation.BIASES]
    cases += [(METRICS["diff_bias_disambiguated"], simulation.Model((0.5,), (0.3,), 0.9))]
    for metric, model in cases:
        held = simulation.Held()
        for _, cells in simulation.cells_of(model, sizes, templates, simulation.READINGS[0], RUNS):
            for (estimate,) in simulation.pairs(cells, metric):
                held.add(estimate.interval(0.95), model.truth(metric, 0.95))
        assert held.made == RUNS
        assert held.rate / 100 >= 0.95 - 4 * ERROR, (model, held.rate)
        assert 0 < held.width < 1.3, model


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("templates", TEMPLATES)
def test_differences_keep_their_level(simulation: ModuleType, templates: int, place: int) -> None:
    """Of two languages with one score, whose answers are parsed alike, unevenly or hardly."""
    for sizes in ("equal", "MBBQ"):
        held, model = simulation.Held(), simulation.biased(0.5, 0.15, 2)
        for _, cells in simulation.cells_of(model, sizes, templates, simulation.PAIRS[place], RUNS):
            for one, other in simulation.pairs(cells, simulation.BIAS):
                held.add(one.subtract(other).interval(0.95), 0.0)
        assert not held.made or held.rate / 100 >= 0.95 - 4 * ERROR, (sizes, held.rate)
