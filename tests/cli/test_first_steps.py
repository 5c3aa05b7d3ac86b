from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbbq_gen.cli.setup import KEYS
from mbbq_gen.runs.study import read_study
from tests.support.cases import known
from tests.support.extraction import Capture, call, json_of, stderr_of, succeed
from tests.support.servers import SERVERS, serving


def test_init_writes_a_study_that_run_takes_and_says_what_it_takes(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    given = ("init", path, "--model", "synthetic:unable, oracle:perfect", "--languages", "tr", "--sample", 6)
    out = succeed(capsys, *given)
    assert "synthetic:unable: 24 requests" in out
    assert f"next: mbbq-gen run {path}" in out
    runs = read_study(path)[1].values()
    expected = [("synthetic:unable", ("tr",), 6), ("oracle:perfect", ("tr",), 6)]
    assert [(run.model, run.languages, run.sample) for run in runs] == expected
    assert "oracle:perfect: Perhaps it was guessing" in succeed(capsys, "run", path)
    assert "exists" in stderr_of(capsys, *given)


@pytest.mark.slow
def test_the_budget_chooses_the_sample(capsys: Capture, tmp_path: Path) -> None:
    given = ["--model", "openai:gpt-4o-mini,transformers:smollm2"]
    given += ["--benchmark", "starter", "--languages", "en"]
    sizes = {}
    for budget in (0.01, 0.05, 1000):
        path = tmp_path / f"of-{budget}.toml"
        out = succeed(capsys, "init", path, *given, "--max-cost", budget, "--json")
        paid, local = read_study(path)[1].values()
        assert (paid.max_cost, local.max_cost) == (budget, None)
        sizes[budget] = paid.sample
        assert json.loads(out)["samples"]["openai:gpt-4o-mini"] == sizes[budget]
    small, larger, whole = sizes.values()
    assert known(small) < known(larger)
    assert whole is None
    assert "--max-cost" in stderr_of(capsys, "init", tmp_path / "none.toml", *given, "--max-cost", 0.000001)
    assert not (tmp_path / "none.toml").exists()


def test_the_doctor_names_keys_and_never_shows_them(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code, out, err = call(capsys, "doctor")
    assert code == 0
    assert "sk-very-secret" not in out + err
    assert any(line.split() == ["keys", "OPENAI_API_KEY", "yes", "set"] for line in out.splitlines())
    code, text, _ = call(capsys, "doctor", "--json")
    found = {(one["about"], one["name"]): one for one in json.loads(text)}
    assert [name for about, name in found if about == "keys" and found[about, name]["found"]] == ["OPENAI_API_KEY"]
    assert found["data", "starter"]["found"]
    assert "sk-very-secret" not in text


def test_the_doctor_recognises_a_server(capsys: Capture) -> None:
    case = next(case for case in SERVERS if case.name == "vllm")
    with serving(case, lambda _: "A") as server:
        found = json_of(capsys, "doctor", "--base-url", server.root)
        assert [heard.path for heard in server.heard if heard.method == "POST"] == []
    assert (found["server"], found["base_url"], found["models"]) == ("vllm", f"{server.root}/v1", ["smol"])
    assert f"--model openai:smol --base-url {server.root}/v1" in found["command"]
