from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ProviderError, RunError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Request, Response, Usage
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider, is_installed
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.budget import load_unmetered
from mbbq_gen.runs.distributed import pool as pool_module
from mbbq_gen.runs.distributed import worker as worker_module
from mbbq_gen.runs.distributed.cluster import _init, connected
from mbbq_gen.runs.distributed.pool import WorkerPool
from mbbq_gen.runs.executor import Executor
from mbbq_gen.runs.job import Job
from mbbq_gen.runs.run_folder import RunFolder
from tests.conftest import FULL
from tests.fake_service.client import fake_server
from tests.support.cases import cases
from tests.support.extraction import Capture, call, json_of, start, stderr_of
from tests.support.providers import make_request
from tests.support.stores import rows

NODES = """
import asyncio, json, sys, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.core.files import PackPaths
from mbbq_gen.runs.distributed.pool import WorkerPool
from mbbq_gen.runs.executor import Executor
from mbbq_gen.runs.run_folder import RunFolder

number, run, model = int(sys.argv[1]), RunFolder(Path(sys.argv[2])), sys.argv[3]
small = {"object_store_memory": 80_000_000, "include_dashboard": False}
looks = {"health_check_period_ms": 500, "health_check_failure_threshold": 10}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": looks, **small})
nodes = [cluster.add_node(num_cpus=1, wait=False, **small) for _ in range(number)]
cluster.wait_for_nodes()
ray.init(address=cluster.address, log_to_driver=False)
commits = []

def alive():
    return sum(node["Alive"] for node in ray.nodes())

def kill_one(stored):
    commits.append(len(stored))
    if len(commits) == 2:
        cluster.remove_node(nodes[-1], allow_graceful=False)
        while alive() > number:
            time.sleep(0.1)

with run.locked(), run.open_store() as store:
    config = run.manifest().config.model_copy(update={"ray": "local", "workers": number})
    pool = WorkerPool(open_provider(model), config, PackPaths())
    asyncio.run(Executor(store, pool, kill_one).run())
    told = {"alive": alive(), "deaths": pool.deaths, "pending": store.progress().pending, "stored": sum(commits)}
    print("told", json.dumps(told))
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


class Service(Provider):
    """A paid service in each worker; `model` tells its answers apart."""

    kind, model = "openai", "m"
    settings: dict[str, Any] = {}  # noqa: RUF012
    capabilities = Capabilities(base_url="http://127.0.0.1", max_connections=4)
    refuses = False

    def max_usage(self, request: Request) -> Usage:
        return Usage(input_tokens=10, output_tokens=2)

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        for request in requests:
            await asyncio.sleep(0)
            if self.refuses:
                raise ProviderError("wrong key")
            yield Response(request_key=request.request_key, text="A", usage=Usage(input_tokens=3, output_tokens=1))


class Model(Service):
    capabilities = Capabilities(local=True)


class DiedError(Exception):
    pass


class StandIn:
    """Stands in for Ray: workers are in this process, until they get a request that kills them."""

    exceptions = SimpleNamespace(RayActorError=DiedError, RayError=OSError)

    def __init__(self, deadly: Sequence[str] = ()) -> None:
        self.deadly = Counter(deadly)
        self.blocks: list[int] = []

    def remote(self, kind: type) -> Any:
        def start(*given: Any) -> Any:
            worker = kind(*given)
            return SimpleNamespace(exchange=SimpleNamespace(remote=lambda block: self._exchange(worker, block)))

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=start))

    def _exchange(self, worker: Any, block: Sequence[Request]) -> Any:
        async def exchange() -> Any:
            self.blocks += [len(block)] if block else []
            for request in block:
                if self.deadly[request.request_key] > 0:
                    self.deadly[request.request_key] -= 1
                    raise DiedError
            return await worker.exchange(block)

        loop = asyncio.get_running_loop()
        return SimpleNamespace(future=lambda: asyncio.run_coroutine_threadsafe(exchange(), loop))

    def kill(self, actor: Any) -> None:
        pass


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Sends requests, named by their numbers, to two workers; returns the responses, and what is in doubt."""

    def ask(ray: StandIn, service: Provider, number: int, **context: Any) -> tuple[dict[str, Response], Counter[str]]:
        @contextmanager
        def connected(address: str, workers: int) -> Iterator[Any]:
            yield ray

        monkeypatch.setattr(pool_module, "connected", connected)
        monkeypatch.setattr(worker_module, "open_provider", lambda *_: service)
        config = RunConfig.model_validate({"model": "openai:m", "ray": "local", "workers": 2})
        requests = [make_request(prompt_id=str(n)).model_copy(update={"request_key": str(n)}) for n in range(number)]
        shared, found = ExecutionContext(**context), list[Response]()

        async def collect() -> None:
            pool = WorkerPool(service, config, PackPaths())
            try:
                async for response in pool.generate(requests, shared):
                    found.append(response)
            except ProviderError as error:
                found.append(Response(request_key="stopped", error=str(error)))
            await pool.aclose()

        asyncio.run(collect())
        by_key = {response.request_key: response for response in found}
        assert len(by_key) == len(found), "one response each"
        return by_key, +shared.in_doubt

    return ask


def test_requests_of_a_dead_worker_are_sent_again_and_count_as_lost(ask: Any) -> None:
    found, in_doubt = ask(StandIn(["3"]), Service(), 90)
    assert len(found) == 90
    assert all(response.text == "A" for response in found.values())
    lost = {
        key for key, response in found.items() if response.unmetered_usage == Usage(input_tokens=10, output_tokens=2)
    }
    assert "3" in lost
    assert len(lost) == sum(response.unmetered_usage is not None for response in found.values()) <= 20
    assert in_doubt == Counter()


@pytest.mark.parametrize(
    ("may_resend", "said", "attempts"),
    [(None, "its worker died, 4 times", 4), (lambda _: False, "there is no money to ask it again", 1)],
)
def test_requests_that_are_not_sent_again_count_as_lost(may_resend: Any, said: str, attempts: int, ask: Any) -> None:
    found, in_doubt = ask(StandIn(["3"] * 4), Service(), 90, may_resend=may_resend)
    failed = [response for response in found.values() if response.error is not None]
    assert len(found) == 90
    assert 0 < len(failed) <= 20
    assert all(said in str(response.error) for response in failed)
    assert {response.unmetered_usage.input_tokens for response in failed if response.unmetered_usage} == {10 * attempts}
    assert in_doubt == Counter()


def test_a_refusal_of_the_service_ends_all_workers(ask: Any) -> None:
    service = Service()
    service.refuses = True
    found, in_doubt = ask(StandIn(), service, 90)
    assert {key: response.error for key, response in found.items()} == {"stopped": "wrong key"}
    assert in_doubt == Counter(), "nothing was charged"


@pytest.mark.parametrize(("number", "largest"), [(0, 0), (5, 5), (90, 22), (3000, 256)])
def test_models_get_large_blocks_and_end_together(number: int, largest: int, ask: Any) -> None:
    ray = StandIn()
    found, _ = ask(ray, Model(), number)
    assert len(found) == sum(ray.blocks) == number
    assert max(ray.blocks, default=0) == largest


@pytest.mark.parametrize(("given", "said"), cases("runs/distributed", "wrong_use_is_one_line"))
@needs_ray
def test_wrong_use_is_one_line(capsys: Capture, tmp_path: Path, given: list[str], said: str) -> None:
    model = ["--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"]
    assert said in stderr_of(capsys, "run", tmp_path / "run", *model, *SELECTION, *given).splitlines()[-1]


class SlowRay:
    """Stands in for Ray on a machine so busy that it does not start in its half a minute, so many times."""

    def __init__(self, *failures: str) -> None:
        self.failures = list(failures)
        self.tries = 0

    def init(self, **_: Any) -> None:
        self.tries += 1
        if self.failures:
            raise Exception(self.failures.pop(0))

    def shutdown(self) -> None:
        pass


BUSY = "The current node timed out during startup. This could happen because some of the raylet failed to startup"


@pytest.mark.parametrize(("failures", "tries"), [([BUSY], 2), ([BUSY] * 2, 3), ([BUSY] * 3, 3), (["no disk"], 1)])
def test_a_ray_that_does_not_start_in_time_is_started_anew(failures: list[str], tries: int) -> None:
    ray = SlowRay(*failures)
    if tries > len(failures):
        _init(ray, "this machine", {})
    else:
        with pytest.raises(RunError, match="no Ray at this machine: "):
            _init(ray, "this machine", {})
    assert ray.tries == tries


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
    facts = json.loads((spread / "manifest.json").read_text(encoding="utf-8"))["runtime_info"]
    assert facts["distributed"] == {"ray": "local", "workers": 2}


def without_names(scores: Any) -> Any:
    if isinstance(scores, dict):
        return {name: without_names(value) for name, value in scores.items() if name not in {"run", "runs", "path"}}
    return [without_names(value) for value in scores] if isinstance(scores, list) else scores


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks at processes through /proc")
def test_workers_that_die_lose_no_request(capsys: Capture, tmp_path: Path, script: Path, ray: Any) -> None:
    run = RunFolder(tmp_path / "run")
    kinds = ("bare", "letters", "polite")
    Job(run, settings(script, splits=("bias", "control"), variants=kinds), PackPaths()).plan()
    draw, killed, asked = random.Random(18), set[int](), list[Response]()

    def kill_one(stored: list[Response]) -> None:
        asked.extend(stored)
        at_work = [number for number, line in processes_of(os.getpid()).items() if line.startswith(b"ray::Worker")]
        if len(killed) < 3 and {*at_work} - killed:
            victim = draw.choice(sorted({*at_work} - killed))
            killed.add(victim)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    with run.locked(), run.open_store() as store:
        config = settings(script, ray="local")
        pool = WorkerPool(open_provider(config.model), config, PackPaths())
        asyncio.run(Executor(store, pool, kill_one).run())
        assert len(asked) == len(texts(run.path)) == store.progress().requests > 5000
    assert capsys.readouterr().out == "", "Ray does not speak where results go"
    assert 1 <= pool.deaths <= len(killed)


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
def test_a_driver_that_ends_keeps_its_answers_and_leaves_no_process(
    capsys: Capture, tmp_path: Path, ray: Any, number: signal.Signals
) -> None:
    run = RunFolder(tmp_path / "run")
    with fake_server({"answers": {"oracle": "perfect"}, "latency": {"seconds": 0.3}}, run=run.path) as server:
        given = ["--model", "openai:m", "--base-url", server.openai, *SELECTION]
        process = start("run", run.path, *given, "--ray", "local", "--workers", 2)
        assert wait_for(lambda: n_stored(run) > 100 or process.poll() is not None)
        assert len(processes_of(process.pid)) >= 4, "there is something to be left behind"
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
        assert process.returncode == (130 if number == signal.SIGINT else -number), err
        assert wait_for(lambda: not left_of(process.pid, number), every=0.3), left_of(process.pid, number)
        assert list(Path("/dev/shm").glob("*ray*")) == []
        left = list(Path(tempfile.gettempdir()).glob(f"mbbq-ray-{process.pid}-*"))
        assert len(left) == (number == signal.SIGKILL)
        before, charged = n_stored(run), server.stats().paid
        with run.open_store(read_only=True) as store:
            unmetered = load_unmetered(store).requested.requests
        assert 100 < before <= charged <= before + unmetered, "all that may have been charged is counted"
        server.change({"latency": {"seconds": 0.0}})
        assert call(capsys, "run", run.path, "--ray", "local")[0] == 0
        assert n_stored(run) == server.stats().distinct_paid
        assert server.stats().paid_again <= charged - before, "what was stored is not sent again"


def n_stored(run: RunFolder) -> int:
    with suppress(Exception):  # it is not planned yet
        return int(rows(run.path, "SELECT count(*) FROM responses WHERE is_error = 0")[0][0])
    return 0


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
    wanted = {"alive": nodes, "deaths": 1, "pending": 0, "stored": len(texts(run.path))}
    assert told == [wanted], "the head is a node too"
