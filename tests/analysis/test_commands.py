from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbbq_gen.analysis.comparison_table import ComparisonTable
from mbbq_gen.analysis.power import PowerTable
from mbbq_gen.analysis.robustness import RobustnessTable
from mbbq_gen.analysis.score_extras import ScoreReport
from mbbq_gen.cli.main import run_command_line
from tests.support.cases import known
from tests.support.extraction import Capture, call, json_of, stderr_of, succeed

SAMPLE = ["--benchmark", "starter", "--languages", "en,tr", "--variants", "bare,letters", "--splits", "bias,control"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("stereotyped", "random"):
        asked = ["run", str(folder / name), "--model", f"oracle:{name}", *SAMPLE, "--sample", "96"]
        assert run_command_line(asked) == 0
    return {name: folder / name for name in ("stereotyped", "random")}


def test_compare_models(capsys: Capture, runs: dict[str, Path]) -> None:
    command = ["compare", runs["random"], runs["stereotyped"], "--across", "model", "--metric", "mbbq_bias_ambiguous"]
    table = ComparisonTable.model_validate_json(succeed(capsys, *command, "--json", "--n-resamples", 200, quiet=True))
    assert [comparison.within for comparison in table.comparisons] == [{"language": "en"}, {"language": "tr"}]
    for comparison in table.comparisons:
        assert comparison.levels == ("oracle:random", "oracle:stereotyped")
        (metric,) = comparison.metrics
        assert metric.levels[1].score.value == 1
        assert known(metric.pairs[0].difference.ci_high) < 0
        assert metric.pairs[0].tests[0].p_adjusted == 1e-6
    out = succeed(capsys, *command, "--n-resamples", 200)
    assert "oracle:random − oracle:stereotyped" in out
    assert "above 0: the first has the higher score" in out


def test_fewer_than_five_templates_get_no_interval_and_no_p_value(capsys: Capture, tmp_path: Path) -> None:
    run = tmp_path / "few"
    code, out, _ = call(capsys, "run", run, "--model", "oracle:random", *SAMPLE, "--sample", "3")
    assert (code, out.count("fewer than 5 templates: no interval, no p value")) == (0, 1)
    for command in (
        ["score", run, "--tests", "--control-adjusted", "--macro-average", "category"],
        ["compare", run, "--across", "language"],
        ["robustness", run],
        ["position-bias", run],
    ):
        out = succeed(capsys, *command, "--n-resamples", 200, quiet=True)
        assert "fewer than 5 templates: no interval, no p value" in out
        out = succeed(capsys, *command, "--n-resamples", 200, "--json")
        assert '"too_few_templates"' in out
        assert not [found for found in _values(json.loads(out), "high") if found is not None]
        assert {found.get("sd_high") for found in _objects(json.loads(out))} == {None}
        by_template = [test for test in _objects(json.loads(out)) if test.get("unit") in {"template", "item"}]
        assert {test["p_value"] for test in by_template} <= {None}


def _objects(value: object) -> Iterator[dict[str, object]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)


def _values(value: object, key: str) -> list[object]:
    return [found[key] for found in _objects(value) if "reason_code" in found and key in found]


def test_everything_can_be_tested_together(capsys: Capture, runs: dict[str, Path]) -> None:
    command = ["compare", *runs.values(), "--across", "model", "--n-resamples", 200, "--json"]
    tables = [
        ComparisonTable.model_validate_json(call(capsys, *command, *more)[1])
        for more in ([], ["--p-adjust-over", "all"])
    ]
    pairs = [[p for c in table.comparisons for m in c.metrics for p in m.pairs] for table in tables]
    assert [table.adjusted_over for table in tables] == ["pairs", "all"]
    for alone, together in zip(*pairs, strict=True):
        assert alone.tests[0].p_value == together.tests[0].p_value
        assert known(together.tests[0].p_adjusted) >= known(alone.tests[0].p_adjusted)
        assert together.difference == alone.difference
    smallest = min(pair.tests[0].p_value or 1.0 for pair in pairs[1])
    assert min(pair.tests[0].p_adjusted or 1.0 for pair in pairs[1]) == pytest.approx(len(pairs[1]) * smallest)


def test_a_margin_is_tested(capsys: Capture, runs: dict[str, Path]) -> None:
    command = ["--equivalence-margin", "0.9", "--n-resamples", "200"]
    scored = ["score", *runs.values(), "--metric", "mbbq_bias_ambiguous", *command]
    assert succeed(capsys, *scored).count("smaller than 0.9") == 8
    out = succeed(capsys, *scored, "--json")
    for group in ScoreReport.model_validate_json(out).tests:
        (test,) = group.tests
        assert (test.test, test.margin) == ("tost", 0.9)
        assert (test.p_value == 1) == (group.group["model"] == "oracle:stereotyped")
    compared = ["compare", runs["stereotyped"], "--across", "language", "--metric", "mbbq_bias_ambiguous", *command]
    out = succeed(capsys, *compared, quiet=True)
    assert re.search(r"^en − tr: smaller than 0\.9 .*, two one-sided tests\): p ", out, re.MULTILINE)
    assert re.search(r"^en: smaller than 0\.9 .*: p 1\.000", out, re.MULTILINE)
    assert "--equivalence-margin" in stderr_of(capsys, "score", runs["random"], "--equivalence-margin", "2")


def test_one_extractor_is_not_enough(capsys: Capture, runs: dict[str, Path]) -> None:
    assert "--across extractor: 1 of it" in stderr_of(capsys, "compare", runs["random"], "--across", "extractor")


def test_robustness(capsys: Capture, runs: dict[str, Path]) -> None:
    command = ["robustness", *runs.values(), "--metric", "mbbq_bias_ambiguous", "--n-resamples", 200]
    table = RobustnessTable.model_validate_json(succeed(capsys, *command, "--json", quiet=True))
    assert [group.group["model"] for group in table.groups] == ["oracle:random"] * 2 + ["oracle:stereotyped"] * 2
    still = next(group for group in table.groups if group.group == {"model": "oracle:stereotyped", "split": "bias"})
    expected = {"variant": 0, "option_order": 0, "language": 0}
    assert {flip.factor: flip.flip_share.value for flip in still.flips} == expected
    assert {rank.factor for rank in table.ranks} >= {"variant", "language"}
    out = succeed(capsys, *command)
    assert "template × variant" in out
    assert "above 0: stereotypical" in out


def test_power(capsys: Capture, runs: dict[str, Path]) -> None:
    command = ["power", "--benchmark", "mbbq", "--templates", 98, "--variants", 5]
    assert len(PowerTable.model_validate_json(succeed(capsys, *command, "--json", quiet=True)).detectable) == 3
    out = succeed(capsys, *command, "--pilot", runs["random"])
    assert f"taken from {runs['random']}" in out.replace("\n", "")
    assert "assumed, for they did not vary there" not in out.replace("\n", " ")
    for name, message in (("mbqq", "did you mean 'mbbq'"), ("jbbq", "have not been counted (those of starter, mbbq,")):
        assert message in stderr_of(capsys, "power", "--benchmark", name, "--templates", 20, "--variants", 5)
    assert "mbbq has 98" in stderr_of(capsys, "power", "--benchmark", "mbbq", "--templates", 500, "--variants", 5)


def test_score_of_several_runs(capsys: Capture, runs: dict[str, Path], tmp_path: Path) -> None:
    csv = tmp_path / "scores.csv"
    command: list[Any] = ["score", *runs.values(), "--metric", "mbbq_bias_ambiguous,accuracy_ambiguous"]
    code, out, err = call(capsys, *command, "--macro-average", "category", "--tests", "--baselines", "--json",
                          "--csv", csv)  # fmt: skip
    assert code == 0
    assert "added model to --group-by" in err
    report = ScoreReport.model_validate_json(out)
    assert report.by == ("language", "split", "model")
    assert len(report.groups) == 8
    assert len(report.macro_averages) == 8 * 2
    assert report.adjusted == ()
    assert {test.metric for test in report.tests} == {"mbbq_bias_ambiguous"}
    by_name = {(found.group["model"], found.group["split"], found.group["language"], found.baseline): found.metrics
               for found in report.baselines}  # fmt: skip
    assert by_name["oracle:random", "bias", "en", "stereotyped"]["mbbq_bias_ambiguous"] == 1
    assert pl.read_csv(csv).shape[0] == 8 * 2
    assert "macro average over" in succeed(capsys, *command, "--macro-average", "variant")


def test_the_scores_of_one_run_are_kept_in_its_folder(capsys: Capture, runs: dict[str, Path]) -> None:
    path = runs["stereotyped"] / "scores.json"
    found = json_of(capsys, "score", runs["stereotyped"], "--group-by", "split")
    assert json.loads(path.read_text(encoding="utf-8")) == found
    json_of(capsys, "score", runs["stereotyped"], "--group-by", "language", "--extractor", "first-label")
    assert json.loads(path.read_text(encoding="utf-8")) == found


def test_score_adjusted_for_control(capsys: Capture, runs: dict[str, Path]) -> None:
    command = ["score", runs["stereotyped"], "--control-adjusted", "--metric", "mbbq_bias_ambiguous,accuracy_ambiguous"]
    found = ScoreReport.model_validate_json(succeed(capsys, *command, "--json")).adjusted
    assert [row.group for row in found] == [{"language": "en"}, {"language": "tr"}]
    assert [(row.bias.value, row.control.value, row.adjusted.value) for row in found] == [(1, 1, 0)] * 2
    assert "bias − control" in call(capsys, *command)[1]


def test_a_subset_is_named(capsys: Capture, runs: dict[str, Path]) -> None:
    whole, part = (
        json_of(capsys, "score", runs["random"], "--group-by", "split", "--subset", name)
        for name in ("all", "bharat_pairs")
    )
    assert (whole["subset"], part["subset"]) == ("all", "bharat_pairs")
    assert part["groups"][0]["n_answers"] <= whole["groups"][0]["n_answers"]


EXAMPLE = Path(__file__).parents[1] / "data" / "scoring" / "worked_example.jsonl"


def test_lines_that_hold_nothing_or_the_same_twice_are_named(capsys: Capture, tmp_path: Path) -> None:
    empty, twice, failed = (tmp_path / f"{name}.jsonl" for name in ("empty", "twice", "failed"))
    empty.write_text("\n \n", encoding="utf-8")
    code, out, err = call(capsys, "score", "--jsonl", empty)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "empty.jsonl: no line with an answer in it" in err
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    twice.write_text("\n".join([*lines, *lines[:3]]), encoding="utf-8")
    assert "twice.jsonl: 3 lines repeat" in stderr_of(capsys, "score", "--jsonl", twice, code=0).replace("\n", " ")
    code, _, err = call(capsys, "score", "--jsonl", EXAMPLE)
    assert (code, err) == (0, "")
    rows = [{**json.loads(line), "option": None, "outcome": "error"} for line in lines]
    failed.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    code, out, err = call(capsys, "score", "--jsonl", failed)
    assert code == 0
    assert f"none of the {len(lines)} requests has a response" in err
    assert ScoreReport.model_validate_json(out).groups[0].metrics["mbbq_bias_ambiguous"].reason_code == "undefined"
