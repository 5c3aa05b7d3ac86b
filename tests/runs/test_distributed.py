from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import RunError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import is_installed
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.distributed.cluster import _FOLDER, _started, connected
from mbbq_gen.runs.distributed.pool import WorkerPool, distribute
from mbbq_gen.runs.distributed.storage import DistributedConfig, DistributedStatus, ResponseShards, fold_shards
from mbbq_gen.runs.distributed.worker import MOST_REQUESTS, pack
from mbbq_gen.runs.executor import Executor
from mbbq_gen.runs.job import Job
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import RunStore
from tests.conftest import FULL
from tests.fake_service.client import fake_server
from tests.support.cases import cases
from tests.support.extraction import Capture, call, json_of, start, stderr_of
from tests.support.providers import make_instance, make_request
from tests.support.stores import change, rows

NODES = """
import asyncio, json, sys, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.core.files import PackPaths
from mbbq_gen.runs.distributed.pool import WorkerPool
from mbbq_gen.runs.distributed.storage import DistributedConfig
from mbbq_gen.runs.distributed.pool import distribute
from mbbq_gen.runs.executor import Executor
from mbbq_gen.runs.run_folder import RunFolder

number, run, model = int(sys.argv[1]), RunFolder(Path(sys.argv[2])), sys.argv[3]
small = {"object_store_memory": 80_000_000, "include_dashboard": False}
looks = {"health_check_period_ms": 500, "health_check_failure_threshold": 10}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": looks, **small})
nodes = [cluster.add_node(num_cpus=1, wait=False, **small) for _ in range(number)]
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)
lines = []

def alive():
    return sum(node["Alive"] for node in ray.nodes())

def kill_one(status):
    lines.append(status)
    if len(lines) == 3:
        cluster.remove_node(nodes[-1], allow_graceful=False)
        while alive() > number:
            time.sleep(0.1)

with run.locked(), run.open_store() as store:
    inner, config = open_provider(model), DistributedConfig("local", number)
    plan = distribute(config, run, store, inner, PackPaths(), limited=False).plan
    asyncio.run(Executor(store, WorkerPool(inner, plan, config, kill_one), lambda _: None).run())
    print("told", json.dumps({"alive": alive(), "lost": lines[-1].lost, "pending": store.progress().pending}))
ray.shutdown()
cluster.shutdown()
"""


SELECTION = ["--benchmark", "starter", "--languages", "en", "--splits", "bias", "--variants", "bare,letters"]
needs_ray = pytest.mark.skipif(not is_installed("ray"), reason="needs the extra: pip install 'mbbq-gen[ray]'")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Answers of a model that a presentation's id picks from: the same whoever asks."""
    path = tmp_path_factory.mktemp("script") / "answers.jsonl"
    texts = ("A", "B", "The answer is C.", "I can't tell.", "Neither of them, nobody said so.")
    path.write_text("".join(json.dumps({"response": text}) + "\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    if not is_installed("ray"):
        pytest.skip("needs the extra: pip install 'mbbq-gen[ray]'")
    with connected("local", 2) as ray:
        yield ray


def texts(run: Path) -> dict[str, str]:
    found = rows(run, "SELECT request_key, json_extract(record, '$.text') FROM responses WHERE is_error = 0")
    return dict(found)


def in_shards(folder: Path) -> Counter[str]:
    shards = ResponseShards(folder)
    return Counter(answer.request_key for name in shards.names() for answer, _ in shards.read(name) if not answer.error)


def requests_of(lengths: Sequence[int], wordings: int) -> list[Request]:
    return [
        make_request(
            make_instance(str(number)).model_copy(update={"template_id": f"t{number % 3}"}),
            prompt_id=f"{number}-{wording}",
            text="x" * (length + wording),
        ).model_copy(update={"request_key": f"{number}-{wording}"})
        for wording in range(wordings)
        for number, length in enumerate(lengths)
    ]


@given(st.lists(st.integers(1, 3000), max_size=120), st.integers(1, 6), st.integers(1, 9))
def test_blocks_hold_every_request_once(lengths: list[int], wordings: int, workers: int) -> None:
    requests = requests_of(lengths, wordings)
    blocks = pack(requests, workers, "session")
    keys = [request.request_key for block in blocks for request in block.requests]
    assert sorted(keys) == sorted(request.request_key for request in requests)
    assert all(1 <= len(block.requests) <= MOST_REQUESTS for block in blocks)
    assert len({block.name for block in blocks}) == len(blocks)
    questions = [key.split("-")[0] for key in keys]
    for together in (questions, [f"t{int(number) % 3}" for number in questions]):
        changes = sum(one != two for one, two in itertools.pairwise(together))
        assert changes == max(0, len(set(together)) - 1), (
            "a context's wordings stand together, and a template's contexts"
        )
    longest = [max(lengths[number::3]) for number in dict.fromkeys(int(number) % 3 for number in questions)]
    assert longest == sorted(longest, reverse=True), "the longest template comes first"


AT = "2026-01-01T00:00:00.000+00:00"


def test_a_damaged_shard_is_not_believed(tmp_path: Path) -> None:
    shards = ResponseShards(tmp_path)
    name = shards.write("0123456789abcdef", [(Response(request_key="a", text="A"), AT)])
    data = bytearray((tmp_path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(RunError, match="damaged"):
        shards.read(name)


def test_shards_are_folded_once_each(tmp_path: Path, script: Path) -> None:
    run = planned(tmp_path, script)
    with run.locked(), run.open_store() as store:
        one, two, three = [request.request_key for request in list(store.pending())[:3]]
        store.add_responses([(Response(request_key=one, text="first"), AT)])
        store.add_responses([(Response(request_key=two, error="down"), AT)])
        shards = ResponseShards(tmp_path / "shards")
        shards.claim("now")
        shards.write(
            "0" * 16, [(Response(request_key=one, text="second"), AT), (Response(request_key="?", text="B"), AT)]
        )
        shards.write(
            "1" * 16, [(Response(request_key=two, text="up"), AT), (Response(request_key=three, error="x"), AT)]
        )
        assert [fold_shards(store, shards, shards.names()) for _ in range(2)] == [1, 0]
        progress = store.progress()
        assert (progress.answered, progress.failed) == (2, 1)
    assert texts(run.path) == {one: "first", two: "up"}


@pytest.mark.parametrize(("given", "said"), cases("runs/distributed", "wrong_use_is_one_line"))
@needs_ray
def test_wrong_use_is_one_line(capsys: Capture, tmp_path: Path, given: list[str], said: str) -> None:
    model = ["--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"]
    assert said in stderr_of(capsys, "run", tmp_path / "run", *model, *SELECTION, *given).splitlines()[-1]


class SlowRay:
    """Stands in for Ray on a machine so busy that it does not start in its half a minute, so many times."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.folders: list[Path] = []

    def init(self, *, _temp_dir: str, **_: Any) -> None:
        self.folders.append(Path(_temp_dir))
        if self.failures:
            raise Exception(self.failures.pop(0))

    def shutdown(self) -> None:
        pass


BUSY = "The current node timed out during startup. This could happen because some of the raylet failed to startup"


@pytest.mark.parametrize(("failures", "tries"), [([BUSY], 2), ([BUSY] * 2, 3), ([BUSY] * 3, 3), (["no disk"], 1)])
def test_a_ray_that_does_not_start_in_time_is_started_anew(
    failures: list[str], tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ray = SlowRay(*failures)
    if tries > len(failures):
        with _started(ray, 2):
            assert list(tmp_path.iterdir()) == ray.folders[-1:]
    else:
        with pytest.raises(RunError, match="no Ray at this machine: "), _started(ray, 2):
            pass
    assert len(ray.folders) == tries
    assert all(folder.name.startswith(f"{_FOLDER}{os.getpid()}-") for folder in ray.folders)
    assert list(tmp_path.iterdir()) == []


def settings(script: Path, **changes: object) -> RunConfig:
    known: dict[str, object] = {"model": f"scripted:{script}"}
    known |= {"benchmark": ("starter",), "languages": ("en",), "splits": ("bias",)}
    known |= {"variants": ("bare", "letters"), "option_order": "balanced", "label_style": ("A",), "seed": 0}
    return RunConfig.model_validate({**known, **changes})


def planned(tmp_path: Path, script: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    Job(folder, settings(script), PackPaths()).plan()
    return folder


@pytest.mark.slow
def test_the_same_texts_and_scores_as_without_ray(capsys: Capture, tmp_path: Path, script: Path, ray: Any) -> None:
    given = ["--model", f"scripted:{script}", *SELECTION]
    plain, spread = tmp_path / "plain", tmp_path / "spread"
    assert call(capsys, "run", plain, *given, "--json")[0] == 0
    code, out, _ = call(capsys, "run", spread, *given, "--ray", "local", "--workers", 2, "--json")
    assert (code, json.loads(out)["failed"]) == (0, 0)
    assert texts(spread) == texts(plain)
    scores = [json_of(capsys, "score", run) for run in (plain, spread)]
    assert without_names(scores[0]) == without_names(scores[1])
    assert set(in_shards(spread / "worker-shards").values()) == {1}
    assert in_shards(spread / "worker-shards").keys() == texts(spread).keys()
    facts = json.loads((spread / "manifest.json").read_text(encoding="utf-8"))["runtime_info"]
    assert facts["distributed"] == {"ray": "local", "workers": 2}
    stands = json_of(capsys, "status", spread)
    assert sum(worker["answered"] for worker in stands["distributed"]["workers"]) == stands["answered"]
    assert (stands["distributed"]["lost"], stands["distributed"]["has_ended"]) == (0, True)
    assert "2 by --ray local" in call(capsys, "status", spread)[1]
    assert "workers" not in call(capsys, "status", plain)[1]

    assert call(capsys, "run", spread, "--ray", "local")[0] == 0
    assert set(in_shards(spread / "worker-shards").values()) == {1}, "nothing was asked again"


def without_names(scores: Any) -> Any:
    if isinstance(scores, dict):
        return {name: without_names(value) for name, value in scores.items() if name not in {"run", "runs", "path"}}
    return [without_names(value) for value in scores] if isinstance(scores, list) else scores


@pytest.mark.slow
def test_what_stands_in_shards_is_not_asked_again(capsys: Capture, tmp_path: Path, script: Path, ray: Any) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    assert call(capsys, "run", run, "--model", f"scripted:{script}", *SELECTION, "--ray", "local")[0] == 0
    answers = texts(run)
    change(run, "DELETE FROM responses WHERE request_key IN (SELECT request_key FROM responses LIMIT 300)")
    run.rename(moved)
    err = stderr_of(capsys, "run", moved, code=0)
    assert "300 answers were in shards already" in err
    assert "answered already" in err
    assert texts(moved) == answers


@pytest.mark.slow
def test_workers_that_die_lose_only_what_was_under_way(capsys: Capture, tmp_path: Path, script: Path, ray: Any) -> None:
    run = RunFolder(tmp_path / "run")
    kinds = ("bare", "letters", "polite")
    Job(run, settings(script, splits=("bias", "control"), variants=kinds), PackPaths()).plan()
    draw, killed, lines = random.Random(18), set[int](), list[DistributedStatus]()

    def kill_one(status: DistributedStatus) -> None:
        lines.append(status)
        at_work = [line.process for line in status.workers if line.process is not None and line.process not in killed]
        if len(killed) < 10 and at_work:
            victim = draw.choice(at_work)
            killed.add(victim)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    with run.locked(), run.open_store() as store:
        asked = asyncio.run(ask_with(run, store, script, kill_one))
        assert asked == store.progress().requests > 5000
        if store.progress().pending:  # a block that four of the ten had under way counts as failed
            asyncio.run(ask_with(run, store, script, kill_one))
        assert store.progress().pending == 0
    assert len(killed) == 10
    assert capsys.readouterr().out == "", "Ray does not speak where results go"
    assert max(line.lost for line in lines) >= 1, "of either pool: each counts its own"
    assert set(in_shards(run.path / "worker-shards").values()) == {1}
    assert in_shards(run.path / "worker-shards").keys() == texts(run.path).keys()


async def ask_with(run: RunFolder, store: RunStore, script: Path, on_status: Any) -> int:
    inner, stored = open_provider(f"scripted:{script}"), list[Response]()
    pool = distribute(DistributedConfig("local", 2), run, store, inner, PackPaths(), limited=False)
    heard = WorkerPool(inner, pool.plan, DistributedConfig("local", 2), on_status)
    await Executor(store, heard, stored.extend).run()
    return len(stored)


@pytest.mark.slow
def test_all_workers_share_one_pace(capsys: Capture, tmp_path: Path, ray: Any) -> None:
    """A server that lets 1,200 requests a minute pass never refuses one; each worker for itself would pass it."""
    scenario = {"answers": {"oracle": "perfect"}, "limits": {"rpm": 1200, "burst_s": 3.0}}
    with fake_server(scenario, run=tmp_path / "run") as server:
        given = ["--model", "openai:m", "--base-url", server.openai, *SELECTION, "--sample", 150, "--rpm", 1200]
        code, out, _ = call(capsys, "run", tmp_path / "run", *given, "--ray", "local", "--workers", 2, "--json")
        found = server.stats()
    assert (code, json.loads(out)["failed"]) == (0, 0)
    assert found.requests == found.distinct_paid == json.loads(out)["requests"]
    assert (found.by_fault, found.paid_again) == ({}, 0)


AGENTS = (b"ray::DashboardAgent", b"ray::RuntimeEnvAgent")
"""Processes of Ray's own that look for their parent now and then only, and end about a minute after it was killed."""


def processes_of(driver: int) -> dict[int, bytes]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line, variables = (path / "cmdline").read_bytes(), (path / "environ").read_bytes().split(b"\0")
            if f"mbbq-ray-{driver}-".encode() in line or f"MBBQ_GEN_RAY={driver}".encode() in variables:
                found[int(path.name)] = line
    return found


def left_of(driver: int, number: signal.Signals) -> list[bytes]:
    killed = number == signal.SIGKILL
    return [line for line in processes_of(driver).values() if not (killed and line.startswith(AGENTS))]


def wait_for(condition: Any, seconds: float = 600, *, every: float = 0.01) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(every)
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_ends_leaves_its_answers_and_nothing_else(
    capsys: Capture, tmp_path: Path, script: Path, ray: Any, number: signal.Signals
) -> None:
    run, shards = tmp_path / "run", tmp_path / "shards"
    given = ["--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en", "--ray", "local"]
    process = start("run", run, *given, "--workers", 2, "--shard-dir", shards)
    assert wait_for(lambda: len(list(shards.glob("*.parquet"))) >= 3 or process.poll() is not None)
    assert len(processes_of(process.pid)) >= 4, "there is something to be left behind"
    process.send_signal(number)
    _, err = process.communicate(timeout=600)
    assert process.returncode == (130 if number == signal.SIGINT else -number), err
    assert wait_for(lambda: not left_of(process.pid, number), every=0.3), left_of(process.pid, number)
    assert list(Path("/dev/shm").glob("*ray*")) == []
    before = in_shards(shards)
    assert len(before) > 0
    assert set(before.values()) == {1}
    assert call(capsys, "run", run, "--ray", "local")[0] == 0
    (requests,) = rows(run, "SELECT count(DISTINCT request_key) FROM prompts")[0]
    assert len(texts(run)) == requests
    after = in_shards(shards)
    assert set(after.values()) == {1}, "what was in shards was not asked again"
    assert after.keys() == texts(run).keys()
    left = list(Path(tempfile.gettempdir()).glob(f"mbbq-ray-{process.pid}-*"))
    assert len(left) == (number == signal.SIGKILL)
    if number == signal.SIGKILL:
        variables = {**os.environ, "MBBQ_GEN_RAY_FOLDER": str(left[0])}
        alike = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=variables)
        next_one = "from mbbq_gen.runs.distributed.cluster import connected\nwith connected('local', 1): pass"
        subprocess.run([sys.executable, "-c", next_one], check=True, capture_output=True)  # a Ray of its own
        assert wait_for(lambda: not processes_of(process.pid), every=0.3), "the next command ends what was left"
        assert list(Path(tempfile.gettempdir()).glob(f"mbbq-ray-{process.pid}-*")) == []
        assert alike.poll() is None, "and nothing else"
        alike.communicate(b"\n")


@pytest.mark.slow
@needs_ray
@pytest.mark.parametrize("nodes", [2, pytest.param(8, marks=pytest.mark.skipif(not FULL, reason="`make proof`"))])
def test_a_node_that_dies_loses_nothing(tmp_path: Path, script: Path, nodes: int) -> None:
    """Each node has room for one worker, so the worker of the dead one has no place: the others do its work."""
    run = planned(tmp_path, script)
    given = [sys.executable, "-c", NODES, str(nodes), str(run.path), f"scripted:{script}"]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line.removeprefix("told ")) for line in done.stdout.splitlines() if line.startswith("told ")]
    assert told == [{"alive": nodes, "lost": 1, "pending": 0}], "the head is a node too"
    assert set(in_shards(run.path / "worker-shards").values()) == {1}
    assert in_shards(run.path / "worker-shards").keys() == texts(run.path).keys()


@pytest.mark.slow
def test_a_shard_that_comes_late_counts(tmp_path: Path, script: Path, ray: Any) -> None:
    """A worker that outlived its driver writes its shard after the next driver has folded what was there."""
    run = planned(tmp_path, script)
    with run.locked(), run.open_store() as store:
        inner = open_provider(f"scripted:{script}")
        pool = distribute(DistributedConfig("local", 2), run, store, inner, PackPaths(), limited=False)
        late = [(Response(request_key=request.request_key, text="late"), AT) for request in list(store.pending())[::3]]
        ResponseShards(run.path / "worker-shards").write("0" * 16, late)
        asyncio.run(Executor(store, pool, lambda _: None).run())
        assert store.progress().pending == 0
    assert {key for key, text in texts(run.path).items() if text == "late"} == {
        answer.request_key for answer, _ in late
    }
    assert set(in_shards(run.path / "worker-shards").values()) == {1}
