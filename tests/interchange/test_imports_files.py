from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbbq_gen.api import Run
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import Instance
from mbbq_gen.interchange.importers import open_log
from mbbq_gen.interchange.importers.base import ImportedAnswer
from mbbq_gen.interchange.importers.lm_eval import open_lm_eval
from tests.interchange.test_imports import do_import, stored

MAP = '[fields]\nresponse = "reply"\nid = "row"\ncontext = "story"\nquestion = "asked"\noptions = ["a", "b", "c"]\n'


@pytest.fixture(scope="module")
def asked() -> list[Instance]:
    return list(load_benchmark("starter", languages=["en"], splits=["bias"]))[::40][:4]


def rows_of(asked: list[Instance], replies: list[Any]) -> list[dict[str, Any]]:
    return [
        {"row": number, "story": one.context, "asked": one.question, "reply": reply}
        | dict(zip("abc", (option.text for option in one.options), strict=True))
        for number, (one, reply) in enumerate(zip(asked, replies, strict=True), start=1)
    ]


def write_table(path: Path, rows: list[dict[str, Any]], kind: str) -> Path:
    """The rows as a file of a kind: its ending, and its encoding or delimiter after a colon."""
    ending, _, how = kind.partition(":")
    path = path.with_suffix(f".{ending}")
    if ending == "jsonl":
        path.write_bytes("".join(json.dumps(row) + "\n" for row in rows).encode(how))
    elif ending == "json":
        path.write_text(json.dumps(rows if how == "list" else {str(n): row for n, row in enumerate(rows)}), "utf-8")
    elif ending == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text(pl.DataFrame(rows).write_csv(separator=how), encoding="utf-8-sig")
    return path


@pytest.mark.parametrize("kind", ["jsonl:utf-8-sig", "json:list", "json:object", "parquet", "csv:;", "csv:,", "csv:\t"])
def test_a_table_of_any_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: list[Instance], kind: str
) -> None:
    (tmp_path / "map.toml").write_text(MAP, encoding="utf-8")
    replies = ["A", "B; of course", "C, é", "A"]
    log = write_table(tmp_path / "answers", rows_of(asked, replies), kind)
    do_import(capsys, "csv", log, tmp_path / "run", "--columns", tmp_path / "map.toml", "--model", "m")
    found = {said.import_source.id: said.text for _, said in stored(tmp_path / "run") if said.import_source}
    assert found == dict(zip("1234", replies, strict=True))


def test_nan_is_no_answer_and_half_a_character_is_mended(tmp_path: Path, asked: list[Instance]) -> None:
    (tmp_path / "map.toml").write_text(MAP, encoding="utf-8")
    log = write_table(tmp_path / "answers", rows_of(asked, ["A", float("nan"), "B \ud83d", "B 😀"]), "jsonl:utf-8")
    found = [
        row.response and row.response.text if isinstance(row, ImportedAnswer) else row.reason
        for _, row in open_log("csv", log, tmp_path / "map.toml").rows
    ]
    assert found == ["A", "unparsed", "B \ufffd", "B 😀"]


def test_predictions_of_opencompass(capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: list[Instance]) -> None:
    rows = {}
    for number, one in enumerate(asked):
        options = "\n".join(f"{label}. {option.text}" for label, option in zip("ABC", one.options, strict=True))
        turn = {"role": "HUMAN", "prompt": f"{one.context}\n{one.question}\n{options}\nAnswer:"}
        rows[str(number)] = {"origin_prompt": [turn], "prediction": "ABC"[number % 3], "gold": "A"}
    log, field_map = tmp_path / "starter.json", tmp_path / "map.toml"
    log.write_text(json.dumps(rows, indent=4, ensure_ascii=False), encoding="utf-8")
    field_map.write_text('[fields]\nresponse = "prediction"\nprompt = "origin_prompt"\n', encoding="utf-8")
    summary = do_import(capsys, "csv", log, tmp_path / "run", "--columns", field_map, "--model", "m")
    assert (summary["rows"], summary["imported"]) == (4, 4)
    found = {said.import_source.id: said.text for _, said in stored(tmp_path / "run") if said.import_source}
    assert found == {"0": "A", "1": "B", "2": "C", "3": "A"}


@pytest.mark.parametrize("number", ["-inf", -float("inf")])
def test_minus_infinity_is_below_all_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: list[Instance], number: str | float
) -> None:
    lines = []
    for row, one in enumerate(asked):
        prompt = f"{one.context} {one.question}"
        numbers = [number, -2.5, -7.0]
        lines.append(
            {
                "doc_id": row,
                "doc": {"context": one.context, "question": one.question},
                "arguments": [[prompt, f" {option.text}"] for option in one.options],
                "resps": [[[value, "False"]] for value in numbers],
            }
        )
    log = tmp_path / "samples_starter_2026-01-01T00-00-00.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert all(isinstance(row, ImportedAnswer) for _, row in open_lm_eval(log).rows)
    do_import(capsys, "lm-eval", log, tmp_path / "run", "--model", "m")
    rows = Run(tmp_path / "run").samples().to_dicts()
    assert [(row["outcome"], row["chosen_index"]) for row in rows] == [("option", 1)] * 4
