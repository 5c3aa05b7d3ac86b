from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.api import Run
from mbbq_gen.scoring.codes import Average
from tests.support.cases import cases, known
from tests.support.extraction import Capture, call, json_of, stderr_of, succeed

METRICS = "accuracy_disambiguated,mbbq_bias_ambiguous"
STARTER = ["--benchmark", "starter", "--languages", "en,tr", "--variants", "letters", "--sample", 96]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from mbbq_gen.cli.main import run_command_line

    folder = tmp_path_factory.mktemp("averages")
    models = {"biased": "synthetic:able-stereotyped", "right": "oracle:perfect"}
    for name, model in models.items():
        arguments = ["run", str(folder / name), "--model", model, *map(str, STARTER)]
        assert run_command_line(arguments) == 0
    return {name: folder / name for name in models}


def result(capsys: Capture, *arguments: object) -> Any:
    return json_of(capsys, *arguments)


def test_every_output_names_the_average(runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    average, run, given = "templates", runs["biased"], ("--average", "templates")
    assert result(capsys, "score", run, *given, "--metric", METRICS)["average"] == average
    assert result(capsys, "compare", run, "--across", "language", *given)["average"] == average
    assert result(capsys, "report", run, *given)["average"] == average
    assert result(capsys, "leaderboard", run, runs["right"], *given)["average"] == average
    assert result(capsys, "score", run)["average"] == "questions"
    succeed(capsys, "score", run, *given, "--csv", tmp_path / "scores.csv")
    succeed(capsys, "export", run, "--csv", tmp_path / "out", *given)
    for path in (tmp_path / "scores.csv", tmp_path / "out" / "scores.csv"):
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
        assert {row["average"] for row in rows} == {average}
    for command in (("score", run), ("report", run), ("compare", run, "--across", "language")):
        _, out, _ = call(capsys, *command, *given)
        assert "means over templates" in out
        _, plain, _ = call(capsys, *command)
        assert "means over" not in plain


def test_an_oracle_is_exact(runs: dict[str, Path]) -> None:
    averages: tuple[Average, ...] = ("questions", "templates")
    for average in averages:
        scores = Run(runs["right"]).scores(metrics=METRICS.split(","), average=average)
        for group in scores.groups:
            values = [group.metrics[name].value for name in METRICS.split(",")]
            assert values == [1.0, 0.0]


@pytest.mark.parametrize(("arguments", "word"), cases("cli/averages", "wrong_use"))
def test_wrong_use(arguments: tuple[str, ...], word: str, runs: dict[str, Path], capsys: Capture) -> None:
    assert word in stderr_of(capsys, *(one.format(run=runs["biased"]) for one in arguments)).splitlines()[-1]


def test_a_run_that_stopped_has_an_unbiased_estimate(tmp_path: Path, capsys: Capture) -> None:
    run = ("run", tmp_path / "run", "--model", "synthetic:able-stereotyped", *STARTER[:-2], "--splits", "bias")
    succeed(capsys, *run, "--stop-when-decided", "bias != 0")
    adaptive = known(Run(tmp_path / "run").manifest.adaptive)
    found = result(capsys, "score", tmp_path / "run", "--metric", METRICS)
    assert [one["adjusted_value"] for one in found["stopped"]] == [one.adjusted_value for one in adaptive.targets]
    assert all(one["adjusted_value"] is not None for one in found["stopped"])
