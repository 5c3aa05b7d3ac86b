from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.api.batches import batch_service
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.batch_runner import MOST_TRIES, BatchRunner
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.ledgers import BatchTable
from mbbq_gen.storage.store import RunStore
from tests.conftest import FULL
from tests.fake_service.client import FakeServer, fake_server
from tests.support.extraction import Capture, call, start
from tests.support.prices import write_prices

KINDS = ("openai", "anthropic", "gemini")
SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "bare,letters", "--sample", "20"]
"""80 requests."""


def address(server: FakeServer, kind: str) -> str:
    return server.openai if kind == "openai" else server.root


def started(server: FakeServer, kind: str, run: Path, *more: object) -> list[object]:
    return ["run", run, "--model", f"{kind}:m", "--base-url", address(server, kind), *SELECTION, "--batch", *more]


def prices_of(folder: Path, kind: str) -> Path:
    return write_prices(folder, f"{kind}:m", 10.0, output=20.0, batch_input=5.0, batch_output=10.0)


@pytest.fixture
def price_file(tmp_path: Path, kind: str) -> Path:
    return prices_of(tmp_path, kind)


Calls = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: Capture, api_keys: None) -> Calls:
    return partial(call, capsys)


def told(command: Calls, code: int, *arguments: object) -> str:
    """Stderr of a command that must end with `code`."""
    found, _, err = command(*arguments)
    assert found == code, err
    return err


def ledger_of(run: Path) -> list[Any]:
    with RunFolder(run).open_store(read_only=True) as store:
        return BatchTable(store).batches()


def status_of(command: Calls, run: Path) -> dict[str, Any]:
    code, out, err = command("status", run, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_from_plan_to_report(command: Calls, run_path: Path, kind: str, price_file: Path) -> None:
    with fake_server({"answers": {"oracle": "stereotyped"}, "batches": {"delay_s": 2.0}}, run=run_path) as server:
        planning = ["estimate", *started(server, kind, run_path)[2:-1], "--prices", price_file, "--json"]
        plan = json.loads(command(*planning)[1])
        process = start(*started(server, kind, run_path, "--prices", price_file))
        out, err = process.communicate()
        assert (process.returncode, out) == (0, ""), "nothing to report yet"
        assert "1 batch with 79 requests under way" in err
        (batch,) = status_of(command, run_path)["batches"]
        assert (batch["state"], batch["requests"]) == ("sent", 79)
        assert status_of(command, run_path)["in_batches"] == 79
        code, out, _ = command("batch", "collect", run_path, "--wait", "--every", "1", "--json")
        assert (code, [entry["state"] for entry in json.loads(out)]) == (0, ["collected"])
        code, out, _ = command("run", run_path)
        assert (code, "+1.00" in out) == (0, True), out
        assert "cost: $" in out
        stats = server.stats()
        assert (stats.batches, stats.paid, stats.paid_again) == (1, 80, 0)
    found = status_of(command, run_path)
    assert (found["answered"], found["in_batches"], found["not_sent"]) == (80, 0, 0)
    ways = {line["batch"]: line for line in found["cost_report"]["lines"]}
    assert ways[True]["responses"] == 79
    assert ways[True]["cost"] == pytest.approx(
        (ways[True]["input_tokens"] * 5 + ways[True]["output_tokens"] * 10) / 1e6
    )
    assert ways[False]["cost"] == pytest.approx(
        (ways[False]["input_tokens"] * 10 + ways[False]["output_tokens"] * 20) / 1e6
    )
    assert found["cost"] == pytest.approx(ways[True]["cost"] + ways[False]["cost"])
    assert RunFolder(run_path).manifest().cost_report is not None
    assert plan["tokens"]["requests"] == 80
    assert not list(run_path.glob("*.jsonl*")), "what was on its way to the service is gone"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_or_expires_goes_into_another_batch(command: Calls, run_path: Path, kind: str) -> None:
    scenario = {"answers": {"oracle": "perfect"}, "batches": {"failed": 0.3, "expired": 0.3}}
    with fake_server(scenario, run=run_path) as server:
        assert command(*started(server, kind, run_path, "--batch-size", 30))[0] == 0
        assert command("batch", "collect", run_path, "--wait", "--every", "1")[0] == 0
        found = status_of(command, run_path)
        assert (found["answered"], found["failed"]) == (80, 0)
        assert server.stats().paid_again == 0
        assert server.stats().paid == 80
    batches = ledger_of(run_path)
    assert [batch.requests for batch in batches[:3]] == [30, 30, 19]
    assert all(batch.state == "collected" for batch in batches)
    assert batches[0].missing > 0
    assert len(batches) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_batches_keep_what_they_answered(command: Calls, run_path: Path, kind: str) -> None:
    with fake_server({"batches": {"delay_s": 3600.0}}, run=run_path) as server:
        assert command(*started(server, kind, run_path, "--batch-size", 40))[0] == 0
        assert "has batches on their way" in told(command, 2, "run", run_path, "--no-batch")
        assert "2 batches cancelled" in told(command, 0, "batch", "cancel", run_path)
        assert "79 requests were never sent" in told(command, 0, "run", run_path)
        assert status_of(command, run_path)["answered"] == 1
        assert {batch.state for batch in ledger_of(run_path)} == {"collected"}
        assert server.stats().batches == 2, "no more are made until told so"
        assert command("run", run_path, "--no-batch")[0] == 0
        assert status_of(command, run_path)["answered"] == 80
        assert server.stats().paid_again == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_reply_is_lost_is_found_again(command: Calls, run_path: Path, kind: str) -> None:
    with fake_server({"answers": {"oracle": "perfect"}}, run=run_path) as server:
        plan_only(server, kind, run_path, command)
        outcome = asyncio.run(lose_replies(server, kind, run_path))
        assert outcome == ["sent"]
        assert command("batch", "collect", run_path, "--wait", "--every", "1")[0] == 0
        assert status_of(command, run_path)["answered"] == 80
        stats = server.stats()
        assert (stats.batches, stats.paid_again) == (1, 0)


def plan_only(server: FakeServer, kind: str, run: Path, command: Calls) -> None:
    """Makes a run of which nothing is asked: the money is not enough for a single answer."""
    prices = prices_of(run.parent, kind)
    given = started(server, kind, run, "--prices", prices, "--max-cost", "0.000001")
    assert "--max-cost" in told(command, 1, *given)
    assert server.stats().paid == 0


async def lose_replies(server: FakeServer, kind: str, run: Path) -> list[str]:
    """Hands a run over while the reply to the making of a batch gets lost; the states of its batches."""
    with RunFolder(run).open_store() as store:
        batching = session(store, run, kind, server)
        true_submit = batching.service.submit

        async def submit(ref: Any, path: Path) -> str:
            from mbbq_gen.providers.http.errors import TransientError

            await true_submit(ref, path)
            raise TransientError("broken", "the connection broke")

        batching.service.submit = submit  # type: ignore[method-assign]
        try:
            await batching.submit()
        finally:
            await batching.provider.aclose()
        return [batch.state for batch in batching.ledger.batches()]


def session(store: RunStore, run: Path, kind: str, server: FakeServer, most: int | None = None) -> BatchRunner:
    provider = open_provider(f"{kind}:m", {"base_url": address(server, kind)})
    return BatchRunner(store, batch_service(provider), run, most_requests=most, pause=0.0)


def test_a_batch_of_somebody_else_is_given_back(command: Calls, run_path: Path) -> None:
    with fake_server({}, run=run_path) as server:
        plan_only(server, "anthropic", run_path, command)
        with RunFolder(run_path).open_store() as store:
            batching = session(store, run_path, "anthropic", server)
            asyncio.run(mistake(batching))
            expected = [("lost", 1), ("collected", 0)]
            assert [(batch.state, len(batch.foreign_ids)) for batch in batching.ledger.batches()] == expected
            assert store.progress().answered == 80


async def mistake(batching: BatchRunner) -> None:
    """A batch is planned, then the process ends; another user's batch of the same size stands at the service."""
    provider, store = batching.provider, batching.store
    try:
        requests = list(store.pending())
        foreign = [
            {"custom_id": f"foreign-{number}", "params": provider.body_of(request)}
            for number, request in enumerate(requests)
        ]
        await provider.call("POST", f"{provider.path}/batches", body={"requests": foreign})  # type: ignore[dict-item]
        keys = [request.request_key for request in requests]
        number, name = batching.ledger.next_name()
        batching.ledger.plan(number, name, keys)
        await batching.collect()
        await batching.submit()
        await batching.collect()
    finally:
        await provider.aclose()


def test_money_limits_what_is_handed_over(command: Calls, tmp_path: Path) -> None:
    run, prices = tmp_path / "run", prices_of(tmp_path, "openai")
    with fake_server(run=run) as server:
        # An answer may cost 10 tokens × $10 a million and its question a few hundred bytes × $5 a million.
        given = ["--prices", prices, "--max-tokens", "10", "--max-cost", "0.02"]
        assert command(*started(server, "openai", run, *given))[0] == 0
        (batch,) = ledger_of(run)
        assert 1 < batch.requests < 79
        assert command("run", run)[0] in (0, 1)
        assert status_of(command, run)["cost"] <= 0.02
        for _ in range(5):
            command("run", run)
        found = status_of(command, run)
        assert found["cost"] <= 0.02
        command("run", run, "--max-cost", "1")
        assert command("run", run)[0] == 0
        assert status_of(command, run)["answered"] == 80
        assert server.stats().paid_again == 0


def test_a_wrong_key_shows_before_a_batch_is_made(command: Calls, run_path: Path) -> None:
    with fake_server({"access": {"key": "another"}}, run=run_path) as server:
        err = told(command, 1, *started(server, "openai", run_path))
        assert "refuses the key" in err
        assert "sk-test" not in err
        assert server.stats().batches == 0
    assert ledger_of(run_path) == []


class Ended(BaseException):
    """The process is gone."""


class Steps:
    """Counts the steps that change something, here or at the service, and ends the process at one of them."""

    def __init__(self, end_at: int | None) -> None:
        self.taken = 0
        self._end_at = end_at

    def take(self) -> None:
        self.taken += 1
        if self.taken == self._end_at:
            raise Ended


def watched(batching: BatchRunner, steps: Steps) -> None:
    """The process may end before and after every call of the service and every change of the store."""
    provider, store = batching.provider, batching.store
    call_service, learn = provider.call, provider.learn
    change, add_responses, set_meta = store.change, store.add_responses, store.set_meta

    async def called(*given: Any, **named: Any) -> Any:
        steps.take()
        reply = await call_service(*given, **named)
        steps.take()
        return reply

    async def learned(request: Request, context: ExecutionContext) -> Response:
        response = await learn(request, context)
        steps.take()
        return response

    def kept(act: Callable[..., None]) -> Callable[..., None]:
        def acted(*given: Any) -> None:
            steps.take()
            act(*given)
            steps.take()

        return acted

    provider.call, provider.learn = called, learned  # type: ignore[method-assign]
    store.change, store.add_responses = kept(change), kept(add_responses)  # type: ignore[method-assign]
    store.set_meta = kept(set_meta)  # type: ignore[method-assign]


def go_on(server: FakeServer, kind: str, run: Path, end_at: int | None = None) -> Steps:
    """One process, from the first request to the last answer or to its end at a step."""
    steps = Steps(end_at)
    with RunFolder(run).open_store() as store:
        batching = session(store, run, kind, server, most=30)
        watched(batching, steps)

        async def work() -> None:
            try:
                await batching.collect()
                await batching.submit()
                await batching.collect()
            finally:
                await batching.provider.aclose()

        with suppress(Ended):
            asyncio.run(work())
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_may_end_at_any_step(command: Calls, tmp_path: Path, kind: str) -> None:
    with fake_server({}, run=tmp_path / "planned") as server:
        plan_only(server, kind, tmp_path / "planned", command)
        whole = tmp_path / "whole"
        shutil.copytree(tmp_path / "planned", whole)
        steps = go_on(server, kind, whole).taken
    assert steps > 30
    apart = 1 if FULL else 3  # each service begins at another step
    for end_at in range(1 + KINDS.index(kind) % apart, steps + 1, apart):
        run = tmp_path / f"run-{end_at}"
        shutil.copytree(tmp_path / "planned", run)
        with fake_server() as server:
            assert go_on(server, kind, run, end_at).taken == end_at
            go_on(server, kind, run)
            with RunFolder(run).open_store(read_only=True) as store:
                assert store.progress().answered == 80, f"lost: ended at step {end_at}"
                assert not any(batch.is_open for batch in BatchTable(store).batches())
            stats = server.stats()
            assert stats.paid_again <= 1, f"paid twice: ended at step {end_at}"
            assert stats.batches <= 3, f"doubled: ended at step {end_at}"
        shutil.rmtree(run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_no_batch_answers_is_recorded_at_last(command: Calls, run_path: Path, kind: str) -> None:
    with fake_server({"batches": {"expired": 1.0, "most_per_request": 99}}, run=run_path) as server:
        assert command(*started(server, kind, run_path))[0] == 0
        err = told(command, 1, "batch", "collect", run_path, "--wait", "--every", "1")
        assert "stopped: 77 of 77 requests failed, most often (77): left without" in err
        assert f"ask the others again with mbbq-gen run {run_path} --batch" in err
        batches = server.stats().batches
        # Each time one request is asked by itself first, and is answered so.
        assert batches == MOST_TRIES
        found = status_of(command, run_path)
        assert (found["answered"], found["failed"]) == (MOST_TRIES, 80 - MOST_TRIES)
        assert found["failures"] == {"batch": 80 - MOST_TRIES}
        assert f"mbbq-gen run {run_path} --batch" in told(command, 1, "run", run_path)
        assert server.stats().batches == batches, "what failed for good is not asked again unless told so"
        server.change({"batches": {"expired": 0.0}})
        assert command("run", run_path, "--batch")[0] == 0
        assert command("run", run_path)[0] == 0
        assert status_of(command, run_path)["answered"] == 80


def test_a_shared_cache_spares_batches(command: Calls, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with fake_server({}, run=one) as server:
        assert command(*started(server, "openai", one, "--cache-dir", tmp_path / "cache"))[0] == 0
        assert command("run", one)[0] == 0
        assert command(*started(server, "openai", other, "--cache-dir", tmp_path / "cache"))[0] == 0
        assert (server.stats().batches, server.stats().paid) == (1, 80)
    assert status_of(command, other)["answered"] == 80
    assert {line["cached"] for line in status_of(command, other)["cost_report"]["lines"]} == {True}
