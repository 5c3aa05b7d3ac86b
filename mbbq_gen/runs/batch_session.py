"""Sessions of batched runs: choose the mode, submit and collect batches, report what is left."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from mbbq_gen.core.errors import UsageError
from mbbq_gen.providers.api.batches import batch_service
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.runs.batch_runner import BatchRunner
from mbbq_gen.runs.executor import ErrorRateGuard, Session, copy_cached, open_cost_guard
from mbbq_gen.storage.cache import ResponseCache
from mbbq_gen.storage.ledgers import BatchTable
from mbbq_gen.storage.store import RunStore

Mode = Literal["off", "on", "stopped"]
"""How requests are sent: one by one, in batches, or in batches of which no more are made."""
_NAME = "batches"
_MOST = "batch_requests"


def choose_mode(store: RunStore, batch: bool | None, most_requests: int | None) -> Mode:
    """How the requests of a run are sent from now on.

    Args:
        store: the run's.
        batch: whether in batches; None: as before.
        most_requests: of one batch; None: as before.

    Raises:
        UsageError: where requests are to be sent one by one while batches may still answer.
    """
    if batch is False and bool(BatchTable(store).open_batches()):
        raise UsageError(
            f"--no-batch: {store.path.parent} has batches on their way; first: mbbq-gen batch collect"
            f" {store.path.parent}, or mbbq-gen batch cancel {store.path.parent}"
        )
    if batch is not None:
        set_mode(store, "on" if batch else "off")
    if most_requests is not None:
        store.set_meta(_MOST, str(most_requests))
    return mode_of(store)


def mode_of(store: RunStore) -> Mode:
    """How the requests of a run are sent."""
    found = store.meta(_NAME)
    return found if found in ("on", "stopped") else "off"  # type: ignore[return-value]


def set_mode(store: RunStore, mode: Mode) -> None:
    """Stores how the requests of a run are sent."""
    store.set_meta(_NAME, mode)


def _most_requests(store: RunStore) -> int | None:
    """The user's limit of a batch, which a run keeps."""
    found = store.meta(_MOST)
    return None if found is None else int(found)


def failures_held(store: RunStore) -> int:
    """How many requests that failed are in a batch once more."""
    ledger = BatchTable(store)
    return len(ledger.failures() & ledger.held())


Work = Callable[[BatchRunner], Coroutine[Any, Any, None]]


async def in_session(session: Session, work: Work, *, spends: bool) -> None:
    """Does some work on the batches of a run; what the provider learned is written into the manifest.

    Args:
        session: the run's.
        work: what to do.
        spends: whether it submits batches, which `--max-cost` limits.
    """
    store, provider, rules, watcher = session.store, session.provider, session.rules, session.watcher
    service = batch_service(provider)
    read_prices(rules.prices)  # a price file that is wrong is said before anything is sent
    limit = rules.max_cost if spends else None
    cost_guard = None if limit is None else open_cost_guard(store, provider, rules, limit, for_batches=True)
    with ExitStack() as stack:
        cache = stack.enter_context(ResponseCache(Path(rules.cache_dir))) if rules.cache_dir is not None else None
        advance = stack.enter_context(watcher.stage("collecting"))
        path = session.folder.path
        errors = ErrorRateGuard(rules.max_error_rate, f"ask the others again with mbbq-gen run {path} --batch")
        batching = BatchRunner(
            store, service, path, _most_requests(store), cost_guard, cache, errors, advance, watcher.say
        )
        try:
            try:
                await work(batching)
            finally:
                await provider.aclose()
        finally:
            session.store_runtime_info()


async def run_batches(session: Session, mode: Mode, *, again: bool) -> bool:
    """Collects what has come, submits what is missing, and says how the run stands; whether batches are under way.

    `again`: requests that failed for good are submitted once more.

    Raises:
        ProviderError: where the service refuses.
        RunError: where too many requests fail.
    """
    _copy_cached(session)

    async def work(batching: BatchRunner) -> None:
        answers = await batching.collect()
        if answers:
            session.watcher.say(f"{answers:,} answers collected")
        batching.errors.check()
        made = await batching.submit(failed_too=again) if mode == "on" else 0
        if made:
            session.watcher.say(f"{made:,} batch{'es' if made > 1 else ''} submitted")

    await in_session(session, work, spends=mode == "on")
    return report_batches(session)


def _copy_cached(session: Session) -> None:
    """Takes answers of other runs from the cache that they share."""
    if session.rules.cache_dir is None:
        return
    copied: list[int] = []
    with ResponseCache(Path(session.rules.cache_dir)) as cache:
        copy_cached(session.store, cache, lambda responses: copied.append(len(responses)))
    if copied:
        session.watcher.say(f"{sum(copied):,} answers came from the cache {session.rules.cache_dir} and cost nothing")


def report_batches(session: Session) -> bool:
    """Says how a run in batches stands; whether batches are under way."""
    ledger, progress, path = BatchTable(session.store), session.store.progress(), session.folder.path
    batches = ledger.open_batches()
    if batches:
        held = sum(batch.record.requests for batch in batches)
        session.watcher.say(
            f"{len(batches)} batch{'es' if len(batches) > 1 else ''} with {held:,} requests under way; the service"
            f" answers within a day. Later: mbbq-gen run {path} --collect"
            f"    or: mbbq-gen batch status {path}"
        )
        return True
    left = progress.pending - progress.failed
    if left > 0 and mode_of(session.store) == "stopped":
        session.watcher.say(
            f"{left:,} requests were never sent: send them with mbbq-gen run {path} --batch, or --no-batch"
        )
    return False
