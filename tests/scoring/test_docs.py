"""docs/scores.md agrees with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.analysis.score_table import WARNINGS
from mbbq_gen.core.records import Outcome
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import Observation
from mbbq_gen.scoring.tally import GROUPINGS


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).parents[2] / "docs" / "scores.md").read_text(encoding="utf-8")


def test_every_metric_has_its_denominators_explained(page: str) -> None:
    section = page.partition("## Denominators")[2].partition("## A worked example")[0]
    for name in METRICS:
        said = f"`{name}`" if not name.endswith("_bound") else f"`{name.removesuffix('_bound')}`, its `_bound`"
        assert said in section


def test_every_warning_and_grouping_is_explained(page: str) -> None:
    for code in WARNINGS:
        assert f"| `{code}` |" in page
    for name in GROUPINGS:
        assert f"`{name}`" in page


def test_every_outcome_is_placed(page: str) -> None:
    section = page.partition("## Outcomes and counts")[2].partition("## The metrics")[0]
    for outcome in Outcome.__args__:  # type: ignore[attr-defined]
        assert f"`{outcome}`" in section


def test_every_grouping_is_a_column() -> None:
    assert set(GROUPINGS.values()) <= set(Observation._fields)
