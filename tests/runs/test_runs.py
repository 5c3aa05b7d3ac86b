from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from mbbq_gen.benchmarks.rows import LazyInstance
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ConfigError, ProviderError, RunError, RunLockedError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance, Request, Response
from mbbq_gen.providers.base import ExecutionContext, Provider
from mbbq_gen.runs.executor import Executor
from mbbq_gen.runs.planner import plan_run
from mbbq_gen.runs.resolve import InstanceSource
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.storage.store import RunStore
from tests.prompts.test_render import many


class CountingProvider(Provider):
    """Answers "A" to everything, remembers what it was asked, and fails or stops where it is told to."""

    kind = "counting"
    model = "counting"

    def __init__(self, *, fail: Iterable[int] = (), stop_at: int | None = None, pause: int = 1) -> None:
        self.asked: list[str] = []
        self.fail, self.stop_at, self.pause, self.closed = set(fail), stop_at, pause, False

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        return {"temperature": 0}

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        for number, request in enumerate(requests):
            if number == self.stop_at:
                raise ProviderError("the model is gone")
            self.asked.append(request.request_key)
            if number % self.pause == 0:
                await asyncio.sleep(0)
            told = {"error": "no luck"} if number in self.fail else {"text": "A", "finish_reason": "stop"}
            yield Response.model_validate({"request_key": request.request_key, **told})

    async def aclose(self) -> None:
        self.closed = True


def settings(**changes: object) -> RunConfig:
    known = {
        "model": "counting:counting",
        "benchmark": ("starter",),
        "languages": ("en",),
        "splits": ("bias",),
        "seed": 0,
    }
    known |= {"variants": ("bare", "polite"), "option_order": "balanced", "label_style": ("A",)}
    return RunConfig.model_validate({**known, **changes})


def plan(
    folder: RunFolder, store: RunStore, provider: Provider, instances: list[Instance], **changes: object
) -> Manifest:
    class Given(InstanceSource):
        def __call__(self, *_: object) -> Iterator[LazyInstance]:
            return map(LazyInstance.of, instances)

    return plan_run(store, folder, provider, Given(settings(**changes), PackPaths()))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path / "run")
    found.create()
    return found


def stored(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as db:
        return db.execute("SELECT request_key, record FROM responses ORDER BY request_key").fetchall()


def test_everything_is_asked_once_and_stored(folder: RunFolder) -> None:
    provider = CountingProvider()
    with folder.open_store() as store:
        manifest = plan(folder, store, provider, many(3, 2))
        asyncio.run(Executor(store, provider, lambda _: None).run())
        progress = store.progress()
    assert manifest.counts.instances == 36
    assert manifest.counts.prompts == 72
    assert manifest.counts.requests == progress.answered == len(provider.asked) == len(set(provider.asked))
    assert provider.closed


def test_identical_requests_are_asked_once(folder: RunFolder) -> None:
    provider = CountingProvider()
    first = many(1, 1)[0]
    twins = [first.model_copy(update={"instance_id": f"twin{number}", "parallel_id": None}) for number in range(6)]
    with folder.open_store() as store:
        manifest = plan(folder, store, provider, twins, option_order="published", variants=("bare",))
        asyncio.run(Executor(store, provider, lambda _: None).run())
        assert len(list(store.without_extraction("v", "en"))) == 6
    assert manifest.counts.prompts == 6
    assert manifest.counts.requests == len(provider.asked) == 1


def test_failures_are_asked_again_and_answers_never(folder: RunFolder) -> None:
    first, second = CountingProvider(fail={0, 5}), CountingProvider()
    with folder.open_store() as store:
        plan(folder, store, first, many(1, 2))
        asyncio.run(Executor(store, first, lambda _: None).run())
        assert store.progress().failed == 2
        before = dict(stored(folder.store_path))
        asyncio.run(Executor(store, second, lambda _: None).run())
        assert store.progress().pending == 0
    after = dict(stored(folder.store_path))
    assert second.asked == [first.asked[0], first.asked[5]]
    unchanged = [key for key in before if key not in second.asked]
    assert [after[key] for key in unchanged] == [before[key] for key in unchanged]


def test_an_answer_is_never_replaced(folder: RunFolder) -> None:
    with folder.open_store() as store:
        store.add_responses([(Response(request_key="k", text="first"), "t1")])
        store.add_responses([(Response(request_key="k", text="second"), "t2")])
        store.add_responses([(Response(request_key="k", error="late"), "t3")])
    ((_, record),) = stored(folder.store_path)
    assert json.loads(record)["text"] == "first"


def test_a_provider_that_dies_loses_nothing(folder: RunFolder) -> None:
    dying, healthy = CountingProvider(stop_at=20, pause=7), CountingProvider()
    with folder.open_store() as store:
        plan(folder, store, dying, many(2, 2))
        with pytest.raises(ProviderError, match="the model is gone"):
            asyncio.run(Executor(store, dying, lambda _: None).run())
        assert store.progress().answered == 20
        asyncio.run(Executor(store, healthy, lambda _: None).run())
        assert store.progress().pending == 0
    assert not set(dying.asked) & set(healthy.asked)
    assert dying.closed


def test_progress_hears_only_of_durable_answers(folder: RunFolder) -> None:
    provider, heard = CountingProvider(), 0
    with folder.open_store() as store:
        plan(folder, store, provider, many(2, 2))

        def on_stored(responses: list[Response]) -> None:
            nonlocal heard
            heard += len(responses)
            with sqlite3.connect(folder.store_path) as other:
                (count,) = other.execute("SELECT count(*) FROM responses").fetchone()
            assert count >= heard

        asyncio.run(Executor(store, provider, on_stored).run())
    assert heard == len(provider.asked)


def test_an_interrupted_plan_is_made_anew(folder: RunFolder) -> None:
    provider = CountingProvider()
    with folder.open_store() as store:
        store.add_instances((instance, instance.model_dump_json()) for instance in many(1, 1)[:3])
        manifest = plan(folder, store, provider, many(2, 1))
        assert store.count_instances() == manifest.counts.instances == 12


def test_two_processes_on_one_run_are_refused(folder: RunFolder) -> None:
    entered: list[str] = []

    def second() -> None:
        try:
            with folder.locked():
                entered.append("in")
        except RunLockedError as error:
            entered.append(str(error))

    with folder.locked():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert entered == [f"{folder.path}: another process is working on this run; wait for it to end"]
    with folder.locked():
        pass


def test_other_settings_are_refused_and_named(folder: RunFolder) -> None:
    with folder.open_store() as store:
        before = plan(folder, store, CountingProvider(), many(1, 1)).config
    assert before.resumed(settings(), (), "run") == before
    with pytest.raises(ConfigError, match=r"seed=7: run was made with 0"):
        before.resumed(settings(seed=7), (), "run")
    with pytest.raises(ConfigError, match=r"variants=bare: run was made with bare,polite"):
        before.resumed(settings(variants=("bare",)), (), "run")


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("x")
    with pytest.raises(UsageError, match=r"holds 'thesis\.doc'"):
        RunFolder(tmp_path).create()
    with pytest.raises(UsageError, match="is a file"):
        RunFolder(tmp_path / "thesis.doc").create()
    with pytest.raises(UsageError, match="no run here"):
        RunFolder(tmp_path / "new").require()


def test_equal_ids_are_refused(folder: RunFolder) -> None:
    twice = many(1, 1)[:1] * 2
    with folder.open_store() as store, pytest.raises(RunError, match="two questions have the id"):
        plan(folder, store, CountingProvider(), twice)


def test_an_empty_selection_is_refused(folder: RunFolder) -> None:
    with folder.open_store() as store, pytest.raises(UsageError, match="no question"):
        plan(folder, store, CountingProvider(), [])


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(RunError, match="not a run store"):
        RunStore(path)
