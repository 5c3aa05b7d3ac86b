"""Connects a run with Ray: opens its worker pool and shards, and maps work that needs no model over workers.

    parts ─► workers, prepared once each ─► the result of each part, in the order of the parts

Mapped work costs nothing and is deterministic, so Ray replaces a worker that dies and repeats its parts. Each worker
has two parts at a time, which bounds memory.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import JsonValue

from mbbq_gen.core.errors import MbbqGenError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import ProgressListener
from mbbq_gen.providers.base import Provider
from mbbq_gen.runs.distributed.cluster import check_on, connected
from mbbq_gen.runs.distributed.pool import DistributedConfig, DistributedStatus, WorkerPool
from mbbq_gen.runs.distributed.storage import META, OWN_FOLDER, ResponseShards, fold_shards
from mbbq_gen.runs.distributed.worker import WorkerPlan
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import RunStore

P = TypeVar("P")
R = TypeVar("R")
_AHEAD: Final = 2
"""Parts that a helper has at a time: it does not wait for the next one."""
_MOST_TRIES: Final = 3
"""Times that a part is done again because its helper died."""


@dataclass(frozen=True)
class MapWorkers:
    """Where work is done, and by how many."""

    ray: str
    """`local`: started here for this command; else the address of a running Ray."""
    number: int

    def each(self, prepare: Callable[[], Callable[[P], R]], parts: Iterable[P]) -> Iterator[R]:
        """What comes of each part, in their order. Each helper calls `prepare` once, and what it gives with parts.

        Raises:
            MbbqGenError: what a helper raised.
            RunError: where Ray can't be had, or helpers die over a part again and again.
        """
        with connected(self.ray, self.number) as ray:
            options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": _MOST_TRIES}
            kind = ray.remote(_Helper).options(**options)
            actors = [kind.remote(prepare) for _ in range(self.number)]
            try:
                yield from _results(ray, actors, parts)
            finally:
                for actor in actors:
                    ray.kill(actor)


def _results(ray: Any, actors: list[Any], parts: Iterable[Any]) -> Iterator[Any]:
    under_way: deque[Any] = deque()
    for number, part in enumerate(parts):
        if len(under_way) == _AHEAD * len(actors):
            yield _result(ray, under_way.popleft())
        under_way.append(actors[number % len(actors)].work.remote(part))
    while under_way:
        yield _result(ray, under_way.popleft())


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, MbbqGenError):
            raise error.cause from None
        raise RunError(f"--ray: a worker failed: {str(error).strip().splitlines()[-1]}") from error
    except ray.exceptions.RayError as error:
        raise RunError(f"--ray: a worker died {_MOST_TRIES + 1} times over one part; check the memory") from error


class _Helper:
    """Made an actor by `MapWorkers`."""

    def __init__(self, prepare: Callable[[], Callable[[Any], Any]]) -> None:
        self._work = prepare()

    def work(self, part: Any) -> Any:
        """What comes of a part."""
        return self._work(part)


STATUS: Final = "workers"
"""Name of the stored value with the status of the workers: a `DistributedStatus`."""
_TOLD_EVERY: Final = 2.0
"""Seconds between two writings of it: each waits for the disk."""


def shard_folder(store: RunStore, folder: RunFolder) -> ResponseShards | None:
    """Where the shards of a run are; None where it was never distributed."""
    named = store.meta(META)
    if named is None:
        return None
    return ResponseShards(named or folder.path / OWN_FOLDER)


def fold_left_over(store: RunStore, folder: RunFolder, watcher: ProgressListener) -> list[str]:
    """Stores what an earlier session left in shards, before anything is sent; says which shards there were.

    Raises:
        UsageError: where the run's shards are in a folder that is not there.
    """
    shards = shard_folder(store, folder)
    if shards is None:
        return []
    if not _is_there(shards):
        raise UsageError(
            f"{shards.place}: the shards of {folder.path} are missing; restore them, or name them with --shard-dir"
        )
    shards.clear_parts()
    names = shards.names()
    if found := fold_shards(store, shards, names):
        watcher.say(f"{found:,} answers were in shards already")
    return names


def distribute(
    distributed: DistributedConfig,
    folder: RunFolder,
    store: RunStore,
    provider: Provider,
    resources: PackPaths,
    *,
    limited: bool,
    folded: Iterable[str] = (),
) -> WorkerPool:
    """The pool that asks a run's requests; Ray is started when the first one is.

    `limited`: whether the run has a cost limit. `folded`: shards whose answers the store has.

    Raises:
        UsageError: where `--ray` or `--shard-dir` can't be used, or Ray is not installed.
    """
    check_on(distributed.ray)
    manifest = folder.manifest()
    if distributed.shards is None or "://" in distributed.shards:
        named = distributed.shards or ""
    else:
        named = str(Path(distributed.shards).absolute())
    before = store.meta(META)
    if named or before is None:
        if before is not None and before != named:
            raise UsageError(
                f"--shard-dir {distributed.shards}: this run's are in {before or folder.path / OWN_FOLDER};"
                " leave --shard-dir out"
            )
        ResponseShards(named or folder.path / OWN_FOLDER).claim(manifest.created_at)
        store.set_meta(META, named)
    place = named or before or str((folder.path / OWN_FOLDER).absolute())
    options = _options_of_one(manifest.config.model_args, provider, distributed)
    plan = WorkerPlan(manifest.config.model, options, resources, place, limited)
    return WorkerPool(provider, plan, distributed, _keeper(store), folded)


def _is_there(shards: ResponseShards) -> bool:
    """Whether a run's shards can be reached.

    Raises:
        RunError: where nobody can tell.
    """
    try:
        return shards.place.is_there()
    except OSError as error:
        raise RunError(f"{shards.place}: can't be reached: {error.strerror or error}") from error


def worker_status(store: RunStore) -> DistributedStatus | None:
    """How the workers of a run stood last; None where it was never distributed."""
    text = store.meta(STATUS)
    return None if text is None else DistributedStatus.model_validate_json(text)


def _keeper(store: RunStore) -> Callable[[DistributedStatus], None]:
    """Keeps how the workers stand, now and then."""
    told = 0.0

    def keep(status: DistributedStatus) -> None:
        nonlocal told
        if status.has_ended or time.monotonic() - told >= _TOLD_EVERY:
            told = time.monotonic()
            store.set_meta(STATUS, status.model_dump_json())

    return keep


def _options_of_one(
    options: Mapping[str, JsonValue], provider: Provider, distributed: DistributedConfig
) -> dict[str, JsonValue]:
    """The provider's options for one of the workers: its share of the machine, and of the requests at a time.

    Only what shapes no text is changed.
    """
    changed = dict(options)
    at_a_time: int | None = getattr(getattr(provider, "options", None), "max_connections", None)
    if at_a_time is not None:
        changed["max_connections"] = max(1, at_a_time // distributed.workers)
    depends: bool | None = getattr(provider, "batch_dependent", None)
    if depends is False and "threads" not in options and not distributed.gpus_per_worker and distributed.ray == "local":
        changed["threads"] = max(1, (os.cpu_count() or 1) // distributed.workers)
    return changed
