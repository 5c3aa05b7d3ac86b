from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.errors import UsageError
from mbbq_gen.interchange.importers import open_log
from mbbq_gen.interchange.importers.base import ImportedAnswer, SkippedRow
from tests.interchange.test_imports import do_import, logs, scores_of, stored

__all__ = ["logs"]  # a fixture: pytest finds it here by its name


def details(logs: Path, task: str) -> Path:
    return next((logs / "lighteval").rglob(f"details_{task}-0_*.parquet"))


def test_lighteval(capsys: pytest.CaptureFixture[str], logs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    summary = do_import(capsys, "lighteval", logs / "lighteval", run)
    assert (summary["model"], summary["rows"], summary["imported"]) == ("stereotyped", 24, 24)
    groups = scores_of(capsys, run, "--group-by", "variant,method")
    assert {(one["group"]["variant"], one["group"]["method"]) for one in groups} == {
        ("starter_shown|0", "generate"),
        ("starter_likelihood|0", "loglikelihood"),
    }
    for group in groups:
        metrics = group["metrics"]
        assert (metrics["mbbq_bias_ambiguous"]["value"], metrics["accuracy_ambiguous"]["value"]) == (1.0, 0.0)
        assert group["outcomes"]["option"] == group["n_answers"] == 12


def test_lighteval_takes_the_latest_details_and_one_model(logs: Path, tmp_path: Path) -> None:
    new = details(logs, "starter_shown")
    folder = tmp_path / "out" / "details" / "m"
    for date in ("2026-01-01T00-00-00.0", "2026-01-02T00-00-00.0"):
        (folder / date).mkdir(parents=True)
        shutil.copy(new, folder / date / f"details_t-0_{date}.parquet")
    source = open_log("lighteval", tmp_path / "out")
    assert [path.parent.name for path in source.files] == ["2026-01-02T00-00-00.0"]
    assert source.notes == (f"{tmp_path / 'out'}: 1 older files of the same tasks are left out",)
    shutil.copytree(folder, tmp_path / "out" / "details" / "n")
    with pytest.raises(UsageError, match="several models"):
        open_log("lighteval", tmp_path / "out")


def row_of(**response: object) -> dict[str, object]:
    doc = {"query": "Q", "choices": ["one", "two", "three"], "id": "7", "task_name": "t|0", "specific": {"n": 1}}
    return {"doc": doc, "model_response": response}


def read(tmp_path: Path, *rows: dict[str, object]) -> list[ImportedAnswer | SkippedRow]:
    path = tmp_path / "details_t_2026-01-01T00-00-00.parquet"
    pl.from_dicts(list(rows)).write_parquet(path)
    return list(open_log("lighteval", path).rows)


def test_lightevals_samples_thoughts_messages_and_numbers(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Which?"}]
    first, second = read(tmp_path, row_of(input=messages, text=["A", "B"], reasonings=["hm", None]))
    assert isinstance(first, ImportedAnswer)
    assert isinstance(second, ImportedAnswer)
    assert (first.words.text, first.words.reasoning, first.origin.repeat) == ("A", "hm", 1)
    assert (second.words.text, second.words.reasoning, second.origin.repeat) == ("B", None, 2)
    assert first.messages[0].content == "Which?"
    numbers = {"logprobs": [-1.0, -2.0, -3.0], "unconditioned_logprobs": [-4.0] * 3}
    (scored,) = read(tmp_path, row_of(input="Q", text=[], **numbers))
    assert isinstance(scored, ImportedAnswer)
    assert [(one.text, one.logprob, one.unconditional_logprob) for one in scored.likelihoods] == [
        ("one", -1.0, -4.0),
        ("two", -2.0, -4.0),
        ("three", -3.0, -4.0),
    ]


def test_euroeval(capsys: pytest.CaptureFixture[str], logs: Path, tmp_path: Path) -> None:
    log = logs / "euroeval" / "openai--fake-model-starter-model-outputs.json"
    run = tmp_path / "run"
    summary = do_import(capsys, "euroeval", log, run)
    assert (summary["model"], summary["rows"], summary["imported"]) == ("openai--fake-model", 25, 25)
    (group,) = scores_of(capsys, run, "--group-by", "split")
    metrics = group["metrics"]
    assert (metrics["mbbq_bias_ambiguous"]["value"], metrics["accuracy_ambiguous"]["value"]) == (1.0, 0.0)
    assert group["outcomes"]["option"] == group["n_answers"] == 25
    words = {entry["sequence"] for entry in json.loads(log.read_text(encoding="utf-8")).values()}
    assert {said.text for _, said in stored(run)} == words == {"a", "b", "c"}


@pytest.mark.parametrize("keys", ["digests", "what was sent"])
def test_euroevals_formats(capsys: pytest.CaptureFixture[str], tmp_path: Path, keys: str) -> None:
    """Prompts as texts and as messages, in an order of options of their own; a stereotyped answer is +1."""
    outputs: dict[str, dict[str, object]] = {}
    asked = [
        one for one in load_benchmark("starter", languages=["en"], splits=["bias"]) if one.condition == "ambiguous"
    ]
    for number, one in enumerate(asked[::25]):
        order = [(number + place) % 3 for place in range(3)]
        lines = [f"{label}. {one.options[index].text}" for label, index in zip("abc", order, strict=True)]
        prompt = f"{one.context} {one.question}\nChoices:\n" + "\n".join(lines) + "\n\nAnswer with a, b or c."
        biased = "target" if one.polarity == "negative" else "non_target"
        said = next(label for label, index in zip("abc", order, strict=True) if one.options[index].role == biased)
        messages = [{"role": "user", "content": prompt}]
        if keys == "digests":
            row = {"text": prompt} if number % 2 else {"messages": messages}
            outputs[f"{number:032x}"] = {"sequence": said, "predicted_label": said, "scores": None, "label": "c", **row}
        else:
            outputs[prompt if number % 2 else str(messages)] = {"sequence": said, "scores": None}
    log = tmp_path / "my-model-mbbq-en-model-outputs.json"
    log.write_text(json.dumps(outputs), encoding="utf-8")
    summary = do_import(capsys, "euroeval", log, tmp_path / "run")
    assert summary["imported"] == len(outputs) > 8
    (group,) = scores_of(capsys, tmp_path / "run", "--group-by", "split")
    assert group["metrics"]["mbbq_bias_ambiguous"]["value"] == 1.0
