from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbbq_gen.benchmarks.quality import validate
from mbbq_gen.benchmarks.registry import BENCHMARKS, load_benchmark
from mbbq_gen.core.config import RunConfig
from mbbq_gen.runs.resolve import notices
from tests.support.extraction import Capture, stderr_of, succeed
from tests.support.extraction import call as any_call

DATASETS = Path(__file__).parents[1] / "data" / "datasets"


@pytest.fixture(autouse=True)
def nothing_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MBBQ_GEN_DATA", str(tmp_path / "releases"))


def call(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    return any_call(capsys, "data", *arguments)


def mbbq(*arguments: object) -> tuple[object, ...]:
    return (*arguments[:1], "mbbq", "--data-dir", DATASETS / "mbbq", "--languages", "en", *arguments[1:])


def test_audit_as_json_is_what_the_library_finds(capsys: Capture) -> None:
    code, out, err = call(capsys, *mbbq("validate", "--json"))
    found = json.loads(out)
    assert (code, err, found["questions"]) == (0, "", 72)
    expected = validate(load_benchmark("mbbq", data=DATASETS / "mbbq", languages=["en"]))
    assert found["findings"] == [json.loads(finding.model_dump_json()) for finding in expected]


def test_strict_exits_with_1_only_where_something_is_found(capsys: Capture, tmp_path: Path) -> None:
    assert call(capsys, *mbbq("validate", "--strict"))[0] == 1
    assert call(capsys, *mbbq("validate", "--strict", "--json"))[0] == 1
    lines = call(capsys, "show", "starter", "--languages", "en", "--template", first_template(capsys), "--json")[1]
    sound = tmp_path / "sound.jsonl"
    sound.write_text(lines, encoding="utf-8")
    code, out, err = call(capsys, "validate", "--instances", sound, "--strict", "--json")
    assert (code, json.loads(out)["findings"]) == (0, []), err
    code, out, err = call(capsys, "validate", "--instances", sound)
    assert (code, out) == (0, "")
    assert "no issues" in err


def first_template(capsys: Capture) -> str:
    for line in call(capsys, "show", "starter", "--languages", "en", "--json")[1].splitlines():
        template = str(json.loads(line)["template_id"])
        questions = [
            q for q in load_benchmark("starter", languages=["en"], splits=["bias"]) if q.template_id == template
        ]
        if not validate(questions):
            return template
    raise AssertionError("every template of starter has something odd")


def test_a_broken_file_stops_the_audit_with_one_line(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"benchmark": "x"', encoding="utf-8")
    validate = ("data", "validate", "--instances", tmp_path / "own.jsonl")
    assert "own.jsonl:1: not JSON" in stderr_of(capsys, *validate)
    (tmp_path / "own.jsonl").write_text("", encoding="utf-8")
    for command in ("validate", "stats"):
        code, _, err = call(capsys, command, "--instances", tmp_path / "own.jsonl")
        assert (code, "no questions to" in err) == (2, True)


@pytest.mark.parametrize("command", ["show", "validate", "stats"])
def test_missing_data_names_the_command_that_gets_it(capsys: Capture, command: str) -> None:
    err = stderr_of(capsys, "data", command, "esbbq")
    assert "get them with `mbbq-gen data download esbbq`" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", [name for name, info in BENCHMARKS.items() if info.confounded_order])
def test_results_in_an_order_that_tells_the_role_say_so(name: str) -> None:
    config = RunConfig(benchmark=name, option_order="published")
    assert any("position bias looks like social bias" in notice for notice in notices(config))
    assert not any("position" in notice for notice in notices(RunConfig(benchmark=name)))


@pytest.mark.parametrize("command", ["show", "validate", "stats"])
def test_a_downloaded_release_is_found(capsys: Capture, shared_datasets: Path, command: str) -> None:
    assert call(capsys, "download", "kobbq", "--from", shared_datasets / "kobbq")[0] == 0
    assert "kobbq" in succeed(capsys, "data", command, "kobbq")
