from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.scoring.observations import flattened
from mbbq_gen.storage.store import RunStore
from tests.support.extraction import Capture, call


@pytest.fixture
def store(tmp_path: Path, capsys: Capture) -> Iterator[RunStore]:
    script, run = tmp_path / "script.jsonl", tmp_path / "run"
    script.write_text("".join(f"{json.dumps(line)}\n" for line in ({"response": "A"}, {"response": ""})))
    given = ["--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en,tr", "--sample", "12"]
    assert call(capsys, "run", run, *given, "--variants", "bare,letters", "--reasoning-effort", "none,low")[0] == 0
    with RunFolder(run).open_store(read_only=True) as opened:
        yield opened


def rows(store: RunStore, table: str) -> list[dict[str, Any]]:
    found = store.query(f"SELECT * FROM {table}")
    names = [name for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def test_prompts(store: RunStore) -> None:
    found = rows(store, "prompts")
    assert {row["reasoning_effort"] for row in found} == {"none", "low"}
    for row in found:
        record = json.loads(row["record"])
        assert row["option_order"] == "".join(map(str, record["option_order"]))
        for name in ("prompt_id", "instance_key", "language", "variant", "label_style", "method", "reasoning_effort"):
            assert row[name] == record[name]


def test_questions_are_those_of_the_records(store: RunStore) -> None:
    by_columns, by_records = store.questions(), flattened(store.instances())
    assert_frame_equal(by_columns.frame, by_records.frame, categorical_as_str=True)
    assert by_columns.examples == by_records.examples
    assert by_columns.frame.height == 48
