from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.runs.batch_runner import MOST_TRIES
from tests.fake_service.client import fake_server
from tests.runs.test_batches import KINDS, Calls, command, ledger_of, started, status_of, told
from tests.support.stores import column

__all__ = ["command"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [{"max_requests": 7}, {"max_bytes": 9000}], ids=["requests", "bytes"])
def test_batches_too_large_are_halved_until_they_fit(
    command: Calls, run_path: Path, kind: str, limit: dict[str, int]
) -> None:
    with fake_server({"answers": {"oracle": "perfect"}, "batches": limit}, run=run_path) as server:
        err = told(command, 0, *started(server, kind, run_path))
        for _ in range(6):  # OpenAI tells only after a batch is made
            if status_of(command, run_path)["answered"] == 80:
                break
            err += told(command, 0, "run", run_path)
        assert status_of(command, run_path)["answered"] == 80
        assert server.stats().paid_again == 0
    batches = ledger_of(run_path)
    refused = [batch for batch in batches if batch.state == "refused"]
    assert "is too large for the service" in err
    assert all(batch.too_large for batch in refused)
    assert len({batch.requests for batch in refused}) <= 4, "no size is tried in vain again and again"
    taken = [batch.requests for batch in batches if batch.state == "collected"]
    assert max(taken) <= min(batch.requests for batch in refused) // 2
    if "max_requests" in limit:
        assert max(taken) == 4
        assert sum(taken) - 4 * taken.count(4) <= 8, "no smaller than need be"
    assert not list(run_path.glob("*.jsonl*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_that_takes_no_batch_ends_the_run(command: Calls, run_path: Path, kind: str) -> None:
    with fake_server({"batches": {"max_bytes": 50}}, run=run_path) as server:
        err = told(command, 1, *started(server, kind, run_path, "--batch-size", 2))
        assert err.strip().splitlines()[-1].startswith(f"error: {kind}:m: refuses even a batch of one request (")
        found = status_of(command, run_path)
        assert (found["answered"], found["failed"], found["not_sent"]) == (1, 0, 79)
        assert command("run", run_path)[0] == 1
        assert server.stats().batches == 0
        assert command("run", run_path, "--no-batch")[0] == 0
        assert status_of(command, run_path)["answered"] == 80


def test_a_batch_refused_for_another_reason_is_given_up_at_last(command: Calls, run_path: Path) -> None:
    with fake_server({"batches": {"rejected": 1.0}}, run=run_path) as server:
        assert command(*started(server, "openai", run_path))[0] == 0
        codes = [command("run", run_path)[0] for _ in range(MOST_TRIES - 1)]
        code, _, err = command("run", run_path)
        assert (codes, code) == ([0] * (MOST_TRIES - 1), 1)
        assert f"stopped: 77 of 77 requests failed, most often (77): refused with {MOST_TRIES} batches" in err
        found = status_of(command, run_path)
        assert found["failed"] == 80 - MOST_TRIES
        assert found["answered"] == MOST_TRIES, "each time one request is asked by itself first"
        batches = server.stats().batches
        command("run", run_path)
        assert server.stats().batches == batches
    errors = column(run_path, "SELECT DISTINCT json_extract(record, '$.error') FROM responses WHERE is_error")
    assert errors == ["refused with 3 batches, the last time: the input could not be read"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_handed_over_where_all_fails(command: Calls, run_path: Path, kind: str) -> None:
    with fake_server({"answers": {"unrecognised": "reject"}}) as server:
        for _ in range(2):
            err = told(command, 1, *started(server, kind, run_path))
            assert "stopped: 3 of 3 requests failed, " in err
            assert f"ask the others again with mbbq-gen run {run_path} --batch (--max-error-rate sets the share)" in err
            assert status_of(command, run_path)["failed"] == 3
        assert server.stats().batches == 0
        server.change({"answers": {"unrecognised": "fixed"}})
        assert command("run", run_path, "--batch")[0] == 0
        assert command("run", run_path)[0] == 0
        assert status_of(command, run_path)["answered"] == 80
        assert server.stats().batches == 1
