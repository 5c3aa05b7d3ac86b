from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from mbbq_gen.core.errors import UsageError
from mbbq_gen.interchange.importers import open_log
from mbbq_gen.interchange.importers.base import ImportedAnswer, SkippedRow
from tests.interchange.test_imports import do_import, logs, scores_of, stored

__all__ = ["logs"]  # a fixture: pytest finds it here by its name


def details(logs: Path, task: str) -> Path:
    return next((logs / "lighteval").rglob(f"details_{task}-0_*.parquet"))


def test_lighteval(capsys: pytest.CaptureFixture[str], logs: Path, run_path: Path) -> None:
    summary = do_import(capsys, "lighteval", logs / "lighteval", run_path)
    assert (summary["model"], summary["rows"], summary["imported"]) == ("stereotyped", 24, 24)
    groups = scores_of(capsys, run_path, "--group-by", "variant,method")
    expected = {("starter_shown|0", "generate"), ("starter_likelihood|0", "loglikelihood")}
    assert {(one["group"]["variant"], one["group"]["method"]) for one in groups} == expected
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
    return [row for _, row in open_log("lighteval", path).rows]


def test_lightevals_samples_thoughts_messages_and_numbers(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Which?"}]
    first, second = read(tmp_path, row_of(input=messages, text=["A", "B"], reasonings=["hm", None]))
    assert isinstance(first, ImportedAnswer)
    assert isinstance(second, ImportedAnswer)
    assert first.response is not None
    assert second.response is not None
    assert (first.response.text, first.response.reasoning, first.repeat) == ("A", "hm", 1)
    assert (second.response.text, second.response.reasoning, second.repeat) == ("B", None, 2)
    assert first.messages[0].content == "Which?"
    numbers = {"logprobs": [-1.0, -2.0, -3.0], "unconditioned_logprobs": [-4.0] * 3}
    (scored,) = read(tmp_path, row_of(input="Q", text=[], **numbers))
    assert isinstance(scored, ImportedAnswer)
    expected = [("one", -1.0, -4.0), ("two", -2.0, -4.0), ("three", -3.0, -4.0)]
    assert [(one.text, one.logprob, one.unconditional_logprob) for one in scored.likelihoods] == expected


def test_euroeval_is_a_table(capsys: pytest.CaptureFixture[str], logs: Path, run_path: Path, tmp_path: Path) -> None:
    log, columns = logs / "euroeval" / "openai--fake-model-starter-model-outputs.json", tmp_path / "map.toml"
    columns.write_text('[fields]\nresponse = "sequence"\nprompt = "__key__"\n', encoding="utf-8")
    summary = do_import(capsys, "csv", log, run_path, "--columns", columns)
    assert (summary["rows"], summary["imported"]) == (25, 25)
    (group,) = scores_of(capsys, run_path, "--group-by", "split")
    metrics = group["metrics"]
    assert (metrics["mbbq_bias_ambiguous"]["value"], metrics["accuracy_ambiguous"]["value"]) == (1.0, 0.0)
    assert group["outcomes"]["option"] == group["n_answers"] == 25
    words = {entry["sequence"] for entry in json.loads(log.read_text(encoding="utf-8")).values()}
    assert {said.text for _, said in stored(run_path)} == words == {"a", "b", "c"}


@pytest.mark.parametrize("response", [{"text": [], "logprobs": [-1.0]}, {"text": [], "logprobs": [-1.0, -2.0, None]}])
def test_numbers_that_are_not_those_of_the_choices_are_no_answer(tmp_path: Path, response: dict[str, object]) -> None:
    (found,) = read(tmp_path, row_of(**response))
    assert isinstance(found, SkippedRow)
    assert found.reason == "unparsed"
