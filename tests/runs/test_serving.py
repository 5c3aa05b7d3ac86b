from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.cases import cases
from tests.support.extraction import Capture, call, json_of, succeed
from tests.support.servers import SERVERS, Reply, serving

CASES = {case.name: case for case in SERVERS}
FIELDS: dict[str, Any] = {"benchmark": "starter", "languages": "en", "variants": "letters", "sample": 24}


def run_at(folder: Path, server: str, **options: Any) -> Path:
    case = CASES[server]
    with serving(case, lambda body: "ABC"[len(body["messages"][-1]["content"]) % 3]) as running:
        run = Run.create(folder, model=f"openai:{case.model}", base_url=f"{running.root}/v1", **FIELDS, **options)
        run.execute()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("runs")
    return {
        "vllm": run_at(base / "vllm", "vllm"),
        "again": run_at(base / "again", "vllm"),
        "penalty": run_at(base / "penalty", "vllm", model_args={"repetition_penalty": 1.1}),
        "llama": run_at(base / "llama", "llama.cpp", sampling="server"),
    }


def test_status_and_exports_have_server_and_sampling(runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = call(capsys, "status", runs["penalty"], "--json")
    served = json.loads(out)["serving"]
    assert code == 0
    assert served["server"] == {"name": "vllm", "version": "0.32.0", "model_file": "smol", "context_length": 2048}
    assert served["sampling_sent"]["repetition_penalty"] == served["sampling"]["repetition_penalty"] == 1.1
    _, out, _ = call(capsys, "status", runs["llama"])
    assert "llama.cpp" in out
    assert "top_p 0.95" in out  # the server's own default, which it states
    succeed(capsys, "export", runs["penalty"], "--csv", tmp_path / "out")
    record, manifest = (
        json.loads((tmp_path / "out" / name).read_text(encoding="utf-8")) for name in ("export.json", "manifest.json")
    )
    dictionary = (tmp_path / "out" / "data_dictionary.md").read_text(encoding="utf-8")
    assert {name: record[name] for name in served} == served
    assert {name: manifest["runtime_info"][name] for name in served} == served
    assert all(f"| `{name}` |" in dictionary for name in served)


@pytest.mark.parametrize(
    ("first", "second", "named"), cases("runs/serving", "comparisons_say_in_one_sentence_how_runs_differ")
)
def test_comparisons_say_in_one_sentence_how_runs_differ(
    runs: dict[str, Path], first: str, second: str, named: list[str], capsys: Capture
) -> None:
    paths = [runs[first], runs[second]]
    commands: list[tuple[Any, ...]] = [
        ("leaderboard", *paths),
        ("compare", *paths, "--across", "model", "--metric", "accuracy_ambiguous", "--n-resamples", 100),
    ]
    for command in commands:
        sentence = json_of(capsys, *command)["serving"]
        assert (sentence is None) == (not named)
        assert [part for part in named if part not in str(sentence)] == []
        _, out, _ = call(capsys, *command)
        assert (str(sentence)[:40] in out) == bool(named)


@pytest.mark.parametrize("status", [200, 401])
def test_a_run_has_its_whole_plan_however_it_ends(status: int, tmp_path: Path, capsys: Capture) -> None:
    case, plans = CASES["vllm"], list[Any]()
    refuses = None if status == 200 else Reply(status=status, body='{"error": {"message": "no"}}', field="model")
    with serving(case, lambda body: "A", refuses=refuses) as server:
        model, address = f"openai:{case.model}", f"{server.root}/v1"
        Run.create(tmp_path / "whole", model=model, base_url=address, benchmark="starter", languages="en", sample=100)
        options = ("--base-url", address, "--benchmark", "starter", "--languages", "en", "--sample", 100)
        code, _, _ = call(capsys, "run", tmp_path / "grown", "--model", model, *options)
    for name in ("whole", "grown"):
        with RunFolder(tmp_path / name).open_store(read_only=True) as store:
            rows = store.query("SELECT number, request_key, record FROM prompts ORDER BY number").fetchall()
            plans.append((len(rows) > 500, rows, store.meta("planned"), RunFolder(tmp_path / name).manifest().counts))
    assert (code, *plans[0]) == (0 if status == 200 else 1, True, *plans[1][1:])
