from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError, RunError
from mbbq_gen.providers.http.errors import TransientError
from mbbq_gen.runs.batch_runner import BatchRunner
from mbbq_gen.runs.run_folder import RunFolder
from tests.fake_service.client import FakeServer, fake_server
from tests.runs.test_batches import KINDS, Calls, command, ledger_of, plan_only, session, started, status_of
from tests.support.cases import read_data
from tests.support.stores import column

__all__ = ["command"]
FAULTS = read_data("runs/batches_faults")["faults"]


def scores(command: Calls, run: Path) -> list[Any]:
    code, out, _ = command("score", run, "--group-by", "split", "--json")
    assert code == 0
    return [group["counts"] for group in json.loads(out)["groups"]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1])
def test_whatever_fails_on_the_way_no_answer_is_lost(command: Calls, tmp_path: Path, kind: str, seed: int) -> None:
    oracle, run = tmp_path / "oracle", tmp_path / "run"
    selection = ["--benchmark", "starter", "--languages", "en", "--variants", "bare,letters", "--sample", "10"]
    assert command("run", oracle, "--model", "oracle:stereotyped", *selection)[0] == 0
    scenario: dict[str, Any] = {"seed": seed, "answers": {"oracle": "stereotyped"}}
    scenario |= {"faults": FAULTS, "batches": {"failed": 0.2, "expired": 0.2, "max_requests": 20}}
    with fake_server(scenario, run=run) as server:
        code, _, err = command(*started(server, kind, run, "--sample", "10"))
        for _ in range(30):
            assert code in (0, 1)
            assert code == 0 or err.strip().splitlines()[-1].startswith("error: ")
            if status_of(command, run)["answered"] == 40:
                break
            code, _, err = command("run", run)
        assert status_of(command, run)["answered"] == 40
        assert server.stats().by_fault
    assert scores(command, run) == scores(command, oracle)
    held = column(
        run,
        "SELECT q.request_key FROM batch_requests q JOIN batches b ON b.number = q.batch"
        " JOIN responses r ON r.request_key = q.request_key"
        " WHERE b.state = 'collected' AND json_extract(r.record, '$.batch') = b.service_id",
    )
    assert set(Counter(held).values()) <= {1}, "an answer belongs to one batch"


@pytest.mark.parametrize("kind", KINDS)
def test_collecting_and_cancelling_again_changes_nothing(command: Calls, run_path: Path, kind: str) -> None:
    with fake_server({}, run=run_path) as server:
        assert command(*started(server, kind, run_path))[0] == 0
        assert command("batch", "collect", run_path)[0] == 0
        before, batches = status_of(command, run_path), server.stats().batches
        assert before["answered"] == 80
        for word in ("collect", "cancel", "cancel", "collect"):
            assert command("batch", word, run_path)[0] == 0
        assert status_of(command, run_path)["cost_report"] == before["cost_report"]
        assert server.stats().batches == batches == 1
        assert server.stats().paid_again == 0


def work_on(server: FakeServer, kind: str, run: Path, act: Any, most: int | None = None) -> None:
    with RunFolder(run).open_store() as store:
        batching = session(store, run, kind, server, most)

        async def work() -> None:
            try:
                await act(batching)
            finally:
                await batching.provider.aclose()

        asyncio.run(work())


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_never_arrives_is_lost_and_said(command: Calls, run_path: Path, kind: str) -> None:

    async def never(batching: BatchRunner) -> None:
        async def submit(ref: Any, path: Path) -> str:
            raise TransientError("broken", "the connection broke")

        batching.service.submit = submit  # type: ignore[method-assign]
        await batching.submit()

    with fake_server({}, run=run_path) as server:
        plan_only(server, kind, run_path, command)
        with pytest.raises(RunError, match=r"could not be submitted.* --batch-size N \(now 79 requ"):
            work_on(server, kind, run_path, never)
        assert [batch.state for batch in ledger_of(run_path)] == ["lost"]
        assert not list(run_path.glob("*.jsonl*"))
        assert server.stats().batches == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("breaks", [4, 5])
def test_results_that_break_off_are_read_again(command: Calls, run_path: Path, kind: str, breaks: int) -> None:

    async def collect(batching: BatchRunner) -> None:
        true_results, left = batching.service.results, [breaks]

        async def results(status: Any) -> Any:
            number = 0
            async for answer in true_results(status):
                number += 1
                if left[0] and number == 40:
                    left[0] -= 1
                    raise TransientError("broken", "the connection broke", 0.01)
                yield answer

        batching.service.results = results  # type: ignore[method-assign]
        assert await batching.collect() == 79

    with fake_server({}, run=run_path) as server:
        assert command(*started(server, kind, run_path))[0] == 0
        if breaks == 5:
            with pytest.raises(ProviderError, match="the connection broke"):
                work_on(server, kind, run_path, collect)
            assert command("batch", "collect", run_path)[0] == 0
        else:
            work_on(server, kind, run_path, collect)
        (batch,) = ledger_of(run_path)
        assert (batch.state, batch.answered, batch.missing) == ("collected", 79, 0)
        assert status_of(command, run_path)["answered"] == 80


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancel_that_comes_too_late_loses_nothing(command: Calls, run_path: Path, kind: str) -> None:
    """The batch has ended at the service, but nobody has looked: cancelling it is no fault, its answers are kept."""
    with fake_server({}, run=run_path) as server:
        assert command(*started(server, kind, run_path))[0] == 0
        assert command("batch", "cancel", run_path)[0] == 0
        assert command("run", run_path)[0] == 0
        assert status_of(command, run_path)["answered"] == 80
        assert server.stats().paid_again == 0
