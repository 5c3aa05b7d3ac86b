"""A plan whose prompts are stored while the first requests are out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen import Run
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.extraction import Capture, call
from tests.support.servers import SERVERS, Reply, serving

SERVER = next(case for case in SERVERS if case.name == "vllm")
REFUSED = Reply(status=401, body='{"error": {"message": "no"}}', field="model")


def stored_plan(folder: Path) -> list[tuple[str, ...]]:
    with RunFolder(folder).open_store(read_only=True) as store:
        assert store.meta("planned") == "yes"
        return store.query("SELECT number, prompt_id, request_key, record FROM prompts ORDER BY number").fetchall()


@pytest.mark.parametrize("refuses", [None, REFUSED])
def test_a_run_has_its_whole_plan_however_it_ends(refuses: Reply | None, tmp_path: Path, capsys: Capture) -> None:
    with serving(SERVER, lambda body: "A", refuses=refuses) as server:
        address = f"{server.root}/v1"
        options = ("--benchmark", "starter", "--languages", "en,nl", "--max-connections", "8")
        code, _, _ = call(
            capsys, "run", tmp_path / "grown", "--model", f"openai:{SERVER.model}", "--base-url", address, *options
        )
        whole = Run.create(
            tmp_path / "whole", model=f"openai:{SERVER.model}", base_url=address, benchmark="starter", languages="en,nl"
        )
    plan = stored_plan(tmp_path / "whole")
    assert len(plan) > 500
    assert code == (0 if refuses is None else 1)
    assert stored_plan(tmp_path / "grown") == plan
    assert RunFolder(tmp_path / "grown").manifest().counts == whole.manifest.counts
