from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.unsteady import unsteady


def test_a_run_waits_for_a_server_that_is_started_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with unsteady(after=30, outage="refused", seconds=11.0, latency=0.01) as server:
        model = ["--model", "openai:fake", "--base-url", server.root]
        chosen = ["--benchmark", "starter", "--languages", "en", "--sample", "20", "--json"]
        assert run_command_line(["run", str(tmp_path / "r"), *model, *chosen]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)
    assert "--patience" in said.err
    assert "answers again" in said.err
    with RunFolder(tmp_path / "r").open_store(read_only=True) as store:
        progress = store.progress()
    assert (progress.answered, progress.failed, progress.pending) == (200, 0, 0)
