"""A part of the shared simulation (`benches/simulate_all.py`): intervals hold, and tests keep their level.

Seeds are fixed, so a result is the same in every run. A rate may be off by four of its standard errors.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.conftest import FULL

RUNS = 1000 if FULL else 60
ERROR = (0.05 * 0.95 / RUNS) ** 0.5
TEMPLATES = (5, 8, 15, 40, 98) if FULL else (5, 15, 40)
READ = ((0.95,), (0.05,), (0.95, 0.05))

pytestmark = pytest.mark.slow


@pytest.fixture
def simulation(repository: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(repository / "benches")
    import simulate_all

    found: ModuleType = simulate_all
    return found


@pytest.mark.parametrize("sizes", ["equal", "MBBQ's"])
@pytest.mark.parametrize("templates", TEMPLATES)
def test_intervals_hold_the_truth(simulation: ModuleType, templates: int, sizes: str) -> None:
    """From models that hardly ever name a person to such that always do."""
    for model in (*simulation.MODELS, simulation.BETWEEN[-1]):
        held = simulation.held(model, (0.95,), sizes, templates, RUNS)
        assert held.made == RUNS
        assert held.rate >= 0.95 - 4 * ERROR, (model, held.rate)
        assert 0 < held.wide / held.made < 1, model


def test_fewer_than_five_templates_have_no_interval(simulation: ModuleType) -> None:
    assert [simulation.held(simulation.MODELS[0], (0.95,), "equal", few, 3).made for few in (2, 3, 4)] == [0, 0, 0]


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("templates", TEMPLATES)
def test_tests_keep_their_level(simulation: ModuleType, templates: int, read: tuple[float, ...]) -> None:
    many = simulation.of_one if len(read) == 1 else simulation.of_two
    for sizes in ("equal", "MBBQ's"):
        for name, level in many(read, sizes, templates, RUNS).items():
            assert level <= 5 + 400 * ERROR, (name, sizes, level)
