"""Batches that a service will not take: too many requests or bytes, too much waiting, or for another reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.providers.http.errors import says_too_large
from mbbq_gen.runs.batch_runner import MOST_TRIES
from mbbq_gen.runs.run_folder import RunFolder
from tests.fake_service.client import fake_server
from tests.runs.test_batches import KINDS, Calls, command, ledger_of, started, status_of
from tests.support.cases import cases

__all__ = ["command"]


pytest.importorskip("openai")
pytest.importorskip("anthropic")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [{"max_requests": 7}, {"max_bytes": 9000}], ids=["requests", "bytes"])
def test_batches_too_large_are_halved_until_they_fit(
    command: Calls, tmp_path: Path, kind: str, limit: dict[str, int]
) -> None:
    run = tmp_path / "run"
    with fake_server({"answers": {"oracle": "perfect"}, "batches": limit}, run=run) as server:
        code, _, err = command(*started(server, kind, run))
        assert code == 0
        for _ in range(6):  # OpenAI tells only after a batch is made
            if status_of(command, run)["answered"] == 80:
                break
            code, _, more = command("run", run, "--collect")
            assert code == 0
            err += more
        assert status_of(command, run)["answered"] == 80
        assert server.stats().paid_again == 0
    batches = ledger_of(run)
    refused = [batch for batch in batches if batch.state == "refused"]
    assert "is too large for the service" in err
    assert all(batch.record.too_large for batch in refused)
    assert len({batch.record.requests for batch in refused}) <= 4, "no size is tried in vain again and again"
    taken = [batch.record.requests for batch in batches if batch.state == "collected"]
    assert max(taken) <= min(batch.record.requests for batch in refused) // 2
    if "max_requests" in limit:
        assert max(taken) == 4
        assert sum(taken) - 4 * taken.count(4) <= 8, "no smaller than need be"
    assert not list(run.glob("*.jsonl*"))


@pytest.mark.parametrize("kind", KINDS)
def test_requests_that_no_batch_takes_fail(command: Calls, tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    with fake_server({"batches": {"max_bytes": 50}}, run=run) as server:
        code, _, err = command(*started(server, kind, run, "--batch-size", 2))
        assert code == 1
        assert "most often (79): too large for a batch of its own" in err
        found = status_of(command, run)
        assert (found["answered"], found["failed"], found["not_sent"]) == (1, 79, 0)
        assert server.stats().batches == 0
        assert command("run", run, "--no-batch")[0] == 0
        assert status_of(command, run)["answered"] == 80


def test_too_much_waiting_is_halved_only_where_nothing_else_waits(command: Calls, tmp_path: Path) -> None:
    """A limit on what waits holds for all batches together: smaller ones help only where one alone is too much."""
    run = tmp_path / "run"
    selection = ["--benchmark", "starter", "--languages", "en", "--variants", "bare,letters", "--sample", "80"]
    with fake_server({"batches": {"max_waiting": 130, "delay_s": 3600.0}}, run=run) as server:
        where = ["--model", "openai:m", "--base-url", server.openai]
        assert command("run", run, *where, *selection, "--batch")[0] == 0
        assert [(batch.state, batch.record.requests) for batch in ledger_of(run)] == [("sent", 319)]
        code, _, err = command("run", run, "--collect")
        assert code == 0
        assert "at most 159 requests in one batch" in err
        err = command("run", run, "--collect")[2]
        assert "at most 79 requests in one batch" in err
        states = [(batch.state, batch.record.requests) for batch in ledger_of(run)[3:]]
        assert states[0] == ("sent", 79)
        command("run", run, "--collect")
        ledger = ledger_of(run)
        assert 0 < sum(batch.record.requests for batch in ledger if batch.is_open) <= 130
        command("run", run, "--collect")
        assert len(ledger_of(run)) == len(ledger), "nothing more is handed over while one is under way"
        server.change({"batches": {"delay_s": 0.0, "max_waiting": None}})


def test_a_batch_refused_for_another_reason_is_given_up_at_last(command: Calls, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with fake_server({"batches": {"rejected": 1.0}}, run=run) as server:
        assert command(*started(server, "openai", run))[0] == 0
        codes = [command("run", run, "--collect")[0] for _ in range(MOST_TRIES - 1)]
        code, _, err = command("run", run, "--collect")
        assert (codes, code) == ([0] * (MOST_TRIES - 1), 1)
        assert f"stopped: 77 of 77 requests failed, most often (77): refused with {MOST_TRIES} batches" in err
        found = status_of(command, run)
        assert found["failed"] == 80 - MOST_TRIES
        assert found["answered"] == MOST_TRIES, "each time one request is asked by itself first"
        batches = server.stats().batches
        command("run", run, "--collect")
        assert server.stats().batches == batches
    with RunFolder(run).open_store(read_only=True) as store:
        (error,) = store.query(
            "SELECT DISTINCT json_extract(record, '$.error') FROM responses WHERE is_error"
        ).fetchall()
    assert error == ("refused with 3 batches, the last time: the input could not be read",)


@pytest.mark.parametrize(("words", "too_large"), cases("runs/batches_refused", "what_services_say_of_size"))
def test_what_services_say_of_size(words: str, too_large: bool) -> None:
    assert says_too_large(words) is too_large


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_handed_over_where_all_fails(command: Calls, tmp_path: Path, kind: str) -> None:
    """The first requests, each by itself, tell so; the same command asks them again, and goes on."""
    run = tmp_path / "run"
    with fake_server({"answers": {"unrecognised": "reject"}}) as server:
        for _ in range(2):
            code, _, err = command(*started(server, kind, run))
            assert code == 1
            assert "stopped: 3 of 3 requests failed, " in err
            assert f"ask the others again with mbbq-gen run {run} --batch (--max-error-rate sets the share)" in err
            assert status_of(command, run)["failed"] == 3
        assert server.stats().batches == 0
        server.change({"answers": {"unrecognised": "fixed"}})
        assert command("run", run, "--batch")[0] == 0
        assert command("run", run, "--collect")[0] == 0
        assert status_of(command, run)["answered"] == 80
        assert server.stats().batches == 1


def test_a_first_request_that_fails_alone_holds_up_no_batch(command: Calls, tmp_path: Path) -> None:
    """Another one answers, so the batch is made, with the one that failed in it: nothing is left to be asked again."""
    with fake_server({"faults": {"server_error": 0.5, "most_per_request": 1}}) as server:
        for number in range(20):  # until the very first request fails and one of the next two does not
            run = tmp_path / f"run-{number}"
            server.change({"seed": number})
            code, _, err = command(*started(server, "openai", run, "--model-arg", "attempts=1"))
            if code == 0 and status_of(command, run)["failed"]:
                break
        assert code == 0
        assert "1 batch submitted" in err
        assert "sends them again" not in err, "it is in the batch"
        assert command("run", run, "--collect")[0] == 0
        assert status_of(command, run)["answered"] == 80


def test_a_refused_name_of_the_longest_answer_stops_a_batch_too(command: Calls, tmp_path: Path) -> None:
    """Anthropic has one name for it: no other is tried, and no batch is made that would fail one and all."""
    run = tmp_path / "run"
    with fake_server({"access": {"refused_parameters": ["max_tokens"]}}) as server:
        code, _, err = command(*started(server, "anthropic", run))
        assert code == 1
        assert "does not take max_tokens = 1024: unsupported parameter" in err
        assert "in a new run folder, give another --max-tokens" in err
        assert server.stats().batches == 0
