"""A run's side of a spread evaluation: its shards, what they hold that the store lacks, and the pool of its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from mbbq_gen.errors import RunError, UsageError
from mbbq_gen.providers.base import Provider
from mbbq_gen.resources import Resources
from mbbq_gen.runs.folder import RunFolder
from mbbq_gen.runs.spread.cluster import check_on
from mbbq_gen.runs.spread.pool import Pool, Spread, SpreadStatus
from mbbq_gen.runs.spread.shards import META, OWN_FOLDER, ShardFolder, fold_shards
from mbbq_gen.runs.spread.worker import WorkerPlan
from mbbq_gen.runs.store import RunStore
from mbbq_gen.runs.watching import Watcher

STATUS: Final = "workers"
"""Name of the value of a run that says how its workers stand: a `SpreadStatus`."""
_TOLD_EVERY: Final = 2.0
"""Seconds between two writings of it: each waits for the disk."""


def shard_folder(store: RunStore, folder: RunFolder) -> ShardFolder | None:
    """Where the shards of a run are; None where it was never spread."""
    named = store.meta(META)
    if named is None:
        return None
    return ShardFolder(named or folder.path / OWN_FOLDER)


def fold_left_over(store: RunStore, folder: RunFolder, watcher: Watcher) -> list[str]:
    """Stores what an earlier session left in shards, before anything is asked; says which shards there were.

    Raises:
        UsageError: where the run's shards are in a folder that is not there.
    """
    shards = shard_folder(store, folder)
    if shards is None:
        return []
    if not _is_there(shards):
        raise UsageError(
            f"{shards.place}: the shards of {folder.path} are not there; bring them back, or name them with --shards"
        )
    shards.clear_parts()
    names = shards.names()
    if found := fold_shards(store, shards, names):
        watcher.say(f"{found:,} answers were in shards already")
    return names


def spread_over(
    spread: Spread,
    folder: RunFolder,
    store: RunStore,
    provider: Provider,
    resources: Resources,
    *,
    limited: bool,
    folded: Iterable[str] = (),
) -> Pool:
    """The pool that asks a run's requests; Ray is started when the first one is.

    `limited`: whether the run has a limit of money. `folded`: shards whose answers the store has.

    Raises:
        UsageError: where `--on` or `--shards` can't be used, or Ray is not installed.
    """
    check_on(spread.on)
    manifest = folder.manifest()
    named = _absolute(spread.shards)
    before = store.meta(META)
    if named or before is None:
        if before is not None and before != named:
            raise UsageError(
                f"--shards {spread.shards}: this run's are in {before or folder.path / OWN_FOLDER}; leave --shards out"
            )
        ShardFolder(named or folder.path / OWN_FOLDER).claim(manifest.created_at)
        store.set_meta(META, named)
    place = named or before or str((folder.path / OWN_FOLDER).absolute())
    options = _options_of_one(manifest.settings.model_options, provider, spread)
    plan = WorkerPlan(manifest.settings.model, options, resources, place, limited)
    return Pool(provider, plan, spread, _keeper(store), folded)


def _absolute(shards: str | None) -> str:
    """The name of a place that holds wherever a command is given; empty for the run's own folder."""
    if shards is None or "://" in shards:
        return shards or ""
    return str(Path(shards).absolute())


def _is_there(shards: ShardFolder) -> bool:
    """Whether a run's shards can be reached.

    Raises:
        RunError: where nobody can tell.
    """
    try:
        return shards.place.is_there()
    except OSError as error:
        raise RunError(f"{shards.place}: can't be reached: {error.strerror or error}") from error


def worker_status(store: RunStore) -> SpreadStatus | None:
    """How the workers of a run stood last; None where it was never spread."""
    text = store.meta(STATUS)
    return None if text is None else SpreadStatus.model_validate_json(text)


def _keeper(store: RunStore) -> Callable[[SpreadStatus], None]:
    """Keeps how the workers stand, now and then."""
    told = 0.0

    def keep(status: SpreadStatus) -> None:
        nonlocal told
        if status.has_ended or time.monotonic() - told >= _TOLD_EVERY:
            told = time.monotonic()
            store.set_meta(STATUS, status.model_dump_json())

    return keep


def _options_of_one(options: Mapping[str, JsonValue], provider: Provider, spread: Spread) -> dict[str, JsonValue]:
    """The provider's options for one of the workers: its share of the machine, and of the requests at a time.

    Only what shapes no text is changed.
    """
    changed = dict(options)
    at_a_time: int | None = getattr(getattr(provider, "options", None), "concurrency", None)
    if at_a_time is not None:
        changed["concurrency"] = max(1, at_a_time // spread.workers)
    depends: bool | None = getattr(provider, "text_depends_on_batch", None)
    if depends is False and "threads" not in options and not spread.gpus_per_worker and spread.on == "ray":
        changed["threads"] = max(1, (os.cpu_count() or 1) // spread.workers)
    return changed
