from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.leaderboard import build_leaderboard
from mbbq_gen.report.leaderboard_views import board_page
from mbbq_gen.runs.observations import LoadOptions, load_observations
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.extraction import Capture, call, stderr_of
from tests.support.report import Page, oracle_run

pytest.importorskip("jinja2")
INSTALL = "pip install 'mbbq-gen[report]'"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return oracle_run(tmp_path_factory.mktemp("run") / "run", "random")


@pytest.fixture(autouse=True)
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)


def check_tables(page: Page) -> None:
    tags = [tag for tag, _ in page.elements]
    assert "svg" not in tags
    assert tags.count("table") > tags.count("figure") > 0
    assert INSTALL in " ".join(page.text)


def test_the_page_has_the_tables_of_all_charts(run: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "report.html"
    assert call(capsys, "report", run, "-o", path)[0] == 0
    check_tables(Page(path.read_text(encoding="utf-8")))


def test_the_leaderboard_has_its_tables(run: Path) -> None:
    frame = load_observations([run], LoadOptions(PackPaths()))
    check_tables(Page(board_page(build_leaderboard(frame, None, InferenceSettings(n_resamples=100)))))


def test_figures_are_refused_in_one_line(run: Path, tmp_path: Path, capsys: Capture) -> None:
    err = stderr_of(capsys, "report", run, "--figures", tmp_path / "figures")
    assert err.count("\n") == 1
    assert INSTALL in err
    assert not (tmp_path / "figures").exists()
