from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.leaderboard import Leaderboard, LeaderboardRow, RankInterval, build_leaderboard, rank_ranges
from mbbq_gen.report.leaderboard_views import rank_text
from mbbq_gen.runs.observations import LoadOptions, load_observations
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observation_schema
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings
from tests.support.extraction import Capture, succeed
from tests.support.report import Page, oracle_run

FEW = InferenceSettings(n_resamples=100)
HOSTILE = "</th><script>alert(1)</script>\u202e=1+1"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    variants = dict.fromkeys(("perfect", "stereotyped", "random"), "bare,letters") | {"first_option": "bare"}
    more = ("--splits", "bias,control", "--sample", 96, "--variants")
    return {name: oracle_run(folder / name, name, *more, ids) for name, ids in variants.items()}


@pytest.fixture(scope="module")
def board(runs: dict[str, Path]) -> Leaderboard:
    return build_leaderboard(load_observations(list(runs.values()), LoadOptions(PackPaths())), None, FEW)


def row_of(board: Leaderboard, model: str, language: str = "en") -> LeaderboardRow:
    return next(row for row in board.rows if row.model == f"oracle:{model}" and row.language == language)


def test_rows_are_models_by_benchmark_and_language(board: Leaderboard) -> None:
    assert [(row.benchmark, row.language) for row in board.rows] == [("starter", "en")] * 4 + [("starter", "tr")] * 4
    perfect = row_of(board, "perfect")
    assert perfect.scores["accuracy_ambiguous"].value == 1
    assert perfect.scores["control_accuracy"].value == 1
    assert perfect.scores["diff_bias_disambiguated"].value == 0
    assert row_of(board, "stereotyped").scores["mbbq_bias_ambiguous"].value == 1
    assert perfect.parse_rate == 1


def test_ranks_are_among_those_asked_alike(board: Leaderboard) -> None:
    perfect, random, stereotyped = (
        row_of(board, name).scores["accuracy_ambiguous"].rank for name in ("perfect", "random", "stereotyped")
    )
    assert perfect == RankInterval(best=1, worst=1, of=3)
    assert stereotyped == RankInterval(best=3, worst=3, of=3)
    assert random == RankInterval(best=2, worst=2, of=3)
    assert row_of(board, "first_option").scores["accuracy_ambiguous"].rank is None


def test_who_was_asked_otherwise_is_said(board: Leaderboard) -> None:
    apart = row_of(board, "first_option")
    assert apart.differences == ("prompt variants: bare instead of bare, letters",)
    assert "prompts_differ" in apart.cautions
    assert row_of(board, "random").differences == ()
    assert board.cautions["prompts_differ"]


def estimate(value: float, error: float, templates: int = 30) -> Estimate:
    """A number whose templates pull it evenly to either side, so that its standard error is `error`."""
    pulls = np.tile([1.0, -1.0], templates // 2) * error / templates**0.5
    sizes = np.full(templates, 1 / templates)
    return Estimate(value, pulls, pulls, sizes, np.full(10, value))


def independent(values: list[float], error: float) -> list[Estimate]:
    """Estimates that pull different templates, so that their differences are no surer than they are."""
    found = []
    for place, value in enumerate(values):
        pulls = np.zeros(40 * len(values))
        pulls[place * 40 : (place + 1) * 40] = estimate(value, error, 40).influence_values
        found.append(Estimate(value, pulls, pulls, np.full(pulls.size, 1 / pulls.size), np.full(10, value)))
    return found


@pytest.mark.parametrize(
    ("metric", "values", "ranks"),
    [
        ("mbbq_bias_ambiguous", [0.6, -0.05, -0.58], "2–3 1 2–3"),
        ("accuracy_ambiguous", [0.9, float("nan"), 0.1], "1 – 2"),
        ("accuracy_ambiguous", [0.9], "–"),
        ("accuracy_ambiguous", [0.9, 0.52, 0.5, 0.1], "1 2–3 2–3 4"),
    ],
)
def test_rank_ranges(metric: str, values: list[float], ranks: str) -> None:
    assert " ".join(map(rank_text, rank_ranges(METRICS[metric], independent(values, 0.02), 0.95))) == ranks


def test_json_is_the_board(capsys: Capture, runs: dict[str, Path]) -> None:
    out = succeed(capsys, "leaderboard", *runs.values(), "--json", "--n-resamples", 100, quiet=True)
    found = Leaderboard.model_validate_json(out)
    assert found.schema_version == "mbbq-gen.leaderboard/1"
    assert len(found.rows) == 8
    assert not {"rank", "total", "score"} & set(json.loads(out))


def test_the_page_obeys_nothing_that_a_name_says(runs: dict[str, Path]) -> None:
    pytest.importorskip("jinja2")
    from mbbq_gen.report.leaderboard_views import board_page

    frame = load_observations([runs["perfect"], runs["random"]], LoadOptions(PackPaths()))
    name: Any = pl.when(pl.col("model").cast(pl.String) == "oracle:random").then(pl.lit(HOSTILE)).otherwise(pl.lit("m"))
    text = board_page(build_leaderboard(frame.with_columns(model=name), None, FEW), ["'my run'"])
    page = Page(text)
    assert [attributes for attributes, _ in page.scripts] == [{"type": "application/json", "id": "tables"}, {}]
    assert "\u202e" not in text
    assert page.policy.startswith("default-src 'none'")
    assert "unsafe" not in page.policy
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name == "style" or name.startswith("on")]


def test_without_control_answers_only_those_above_chance_have_a_bias_rank(runs: dict[str, Path]) -> None:
    frame = load_observations([runs["perfect"], runs["random"]], LoadOptions(PackPaths()))
    asked = (pl.col("split") == "bias") | (pl.col("condition") == "ambiguous")
    board = build_leaderboard(frame.filter(asked), None, FEW)
    cautions = [row_of(board, name).cautions for name in ("perfect", "random")]
    assert ["uncertain_ability" in one for one in cautions] == [False, True]


def test_no_answers() -> None:
    with pytest.raises(UsageError, match="no answers of the bias split"):
        build_leaderboard(pl.DataFrame(schema=observation_schema()))
