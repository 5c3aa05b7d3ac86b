from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.core.errors import ProviderError, RunLockedError
from mbbq_gen.core.progress import ProgressEvent
from mbbq_gen.runs.job import JobResult
from tests.fake_service.client import FakeServer, fake_server

SMALL: dict[str, Any] = {
    "benchmark": "starter",
    "languages": ["en", "tr"],
    "variants": ["bare", "letters"],
    "splits": "bias",
    "sample": 12,
}
ON_THE_COMMAND_LINE = ["--benchmark", "starter", "--languages", "en,tr"]
ON_THE_COMMAND_LINE += ["--variants", "bare,letters", "--splits", "bias"]


def test_progress_and_words_reach_the_caller(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    steps: list[ProgressEvent] = []
    said: list[str] = []
    run = Run.create(tmp_path / "run", model="oracle:perfect", progress=steps.append, **SMALL)
    assert {step.stage for step in steps} == {"planning"}
    steps.clear()
    run.execute(progress=steps.append, say=said.append)
    asking = [step for step in steps if step.stage == "asking"]
    assert [step.done for step in asking] == sorted({step.done for step in asking})
    assert asking[-1] == ProgressEvent("asking", 48, 48)
    assert said[0].startswith("oracle:perfect: ")
    assert "1,728 questions: 24 × 2" in said[0]
    with caplog.at_level(logging.INFO, logger="mbbq_gen"):
        run.execute()
    assert "answered already" in caplog.messages[-1]


def server_run(folder: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Run:
    monkeypatch.setenv("OPENAI_API_KEY", "fake-key")
    options = {"base_url": server.openai, "max_connections": 4}
    return Run.create(folder, model="openai:fake", model_args=options, **{**SMALL, **more})


@pytest.mark.parametrize("way", ["plain", "in a loop", "awaited"])
def test_every_way_of_asking_gives_the_same(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server({"answers": {"oracle": "stereotyped"}}, run=tmp_path / "run") as server:
        run = server_run(tmp_path / "run", server, monkeypatch)

        async def ask() -> JobResult:
            return await run.execute_async() if way == "awaited" else run.execute()

        done = run.execute() if way == "plain" else asyncio.run(ask())
        assert (done.requests, done.answered, done.failed) == (48, 48, 0)
        assert server.stats().paid_again == 0
    for group in run.scores(metrics=["mbbq_bias_ambiguous"], confidence_level=None).groups:
        assert group.metrics["mbbq_bias_ambiguous"].value == 1


def test_a_cancelled_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with fake_server() as server:
        run = server_run(tmp_path / "run", server, monkeypatch)

        async def cancelled_at_once() -> None:
            task: asyncio.Task[JobResult]

            def stop(step: ProgressEvent) -> None:
                if step.stage == "asking":
                    task.cancel()

            task = asyncio.create_task(run.execute_async(progress=stop, say=said.append))
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled_at_once())
        assert f"mbbq-gen run {run.path}" in said[-1]
        assert 0 < run.progress().answered < 48
        assert run.execute().answered == 48


def test_what_stops_a_run_raises_and_the_lock_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server({"access": {"key": "another"}}) as server:
        run = server_run(tmp_path / "run", server, monkeypatch)
        with pytest.raises(ProviderError, match="refuses the key in OPENAI_API_KEY"):
            run.execute()
        server.change({"access": {"key": "fake-key"}})
        assert run.execute().answered == 48
    with run.folder.locked(), pytest.raises(RunLockedError):
        run.execute()
