from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.api import Run
from mbbq_gen.cli.options import InferenceOptions
from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.charts import make_charts
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


@pytest.mark.parametrize("average", ["templates", "random-effects"])
def test_every_output_names_the_average(average: str, runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    run, given = runs["biased"], ("--average", average)
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
        assert f"{average.split('-', maxsplit=1)[0]}" in out
        _, plain, _ = call(capsys, *command)
        assert "means over" not in plain


def test_an_oracle_is_exact(runs: dict[str, Path]) -> None:
    for average in ("questions", "templates", "random-effects"):
        scores = Run(runs["right"]).scores(metrics=METRICS.split(","), average=average)
        for group in scores.groups:
            values = [group.metrics[name].value for name in METRICS.split(",")]
            assert values == [1.0, 0.0]


def test_heterogeneity_and_sensitivity(runs: dict[str, Path], capsys: Capture) -> None:
    found = result(capsys, "score", runs["biased"], "--metric", METRICS, "--heterogeneity", "--sensitivity")
    over = {(one["metric"], one["over"]) for one in found["heterogeneity"]}
    assert over == {(name, what) for name in METRICS.split(",") for what in ("template", "category")}
    for one in found["heterogeneity"]:
        assert one["tau"] ** 2 == pytest.approx(one["tau_squared"])
        assert 0 <= one["i_squared"] <= 1
    rows: dict[str, dict[str, Any]] = {}
    for one in found["sensitivity"]:
        rows.setdefault(f"{one['group']} {one['metric']}", {})[one["constants"]] = one
    assert rows
    for one in rows.values():
        widths = {name: row["ci_high"] - row["ci_low"] for name, row in one.items()}
        assert widths["deviation halved"] <= widths["as set"] + 1e-9 <= widths["deviation doubled"] + 2e-9
        assert one["deviation doubled"]["unseen_deviation"] == 0.6
        assert one["stretch halved"]["unseen_stretch"] == 0.6
    wide, usual = (Run(runs["right"]).scores(unseen_deviation=deviation) for deviation in (0.6, 0.3))
    lows = [known(table.groups[0].metrics["accuracy_disambiguated"].ci_low) for table in (wide, usual)]
    assert lows[0] < lows[1] < 1


@pytest.mark.parametrize(("arguments", "word"), cases("cli/averages", "wrong_use"))
def test_wrong_use(arguments: tuple[str, ...], word: str, runs: dict[str, Path], capsys: Capture) -> None:
    assert word in stderr_of(capsys, *(one.format(run=runs["biased"]) for one in arguments)).splitlines()[-1]


def test_designs_and_stops_aim_at_an_average(runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    command = ("design", "--model", "oracle:random", "--benchmark", "starter", "--languages", "en", "--ci-width", 0.4)
    plain, random = (result(capsys, *command, "--average", name) for name in ("templates", "random-effects"))
    assert random["average"] == "random-effects"
    assert random["best"]["requests"] <= plain["best"]["requests"]
    run = ("run", tmp_path / "run", "--model", "synthetic:able-stereotyped", *STARTER[:-2], "--splits", "bias")
    succeed(capsys, *run, "--stop-when-decided", "bias != 0", "--average", "random-effects")
    adaptive = known(Run(tmp_path / "run").manifest.adaptive)
    assert adaptive.rule.average == "random-effects"
    found = result(capsys, "score", tmp_path / "run", "--average", "random-effects", "--metric", METRICS)
    assert [one["adjusted_value"] for one in found["stopped"]] == [one.adjusted_value for one in adaptive.targets]
    assert all(one["adjusted_value"] is not None for one in found["stopped"])
    _, _, err = call(capsys, "score", tmp_path / "run")
    assert "--average random-effects" in err


@pytest.mark.parametrize("name", ["mbbq_table_3", "mbbq_table_5"])
def test_tables_of_the_paper(name: str, runs: dict[str, Path]) -> None:
    frame = InferenceOptions().frame([*runs.values()], PackPaths())
    (chart,) = make_charts(frame, InferenceOptions().sampling(), [name]).charts
    columns = [column.name for column in chart.table.columns]
    found: list[dict[str, Any]] = [dict(zip(columns, row, strict=True)) for row in chart.table.rows]
    rows = sorted(found, key=lambda row: str(row["model"]))
    assert [row["model"] for row in rows] == [*["oracle:perfect"] * 2, *["synthetic:able-stereotyped"] * 2]
    if name == "mbbq_table_3":
        assert [row["mbbq_bias_ambiguous"].mark for row in rows] == ["", "", "*", "*"]
    assert rows[0]["accuracy_disambiguated"].value == 1.0
    assert chart.table.latex(chart.caption, name).count(r"\begin{tabular}") == 1
