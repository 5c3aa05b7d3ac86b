"""The part of `mbbq-gen run` in which requests go out, and answers come in, by batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mbbq_gen.cli.asking import keep_facts, open_purse, own_prices
from mbbq_gen.cli.options import say
from mbbq_gen.cli.progress import Bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.runs.asking import AskingSettings
    from mbbq_gen.runs.batches import Batching
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.store import RunStore

Mode = Literal["off", "on", "stopped"]
"""How a run is asked: one by one, in batches, or in batches of which no more are made."""
_NAME = "batches"
_MOST = "batch_requests"


@dataclass(frozen=True)
class BatchOptions:
    """Whether a run is asked in batches."""

    batch: Annotated[
        bool | None,
        typer.Option("--batch/--no-batch", help="Hand everything over in batches, at about half the price, and exit."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with RUN: collect its batches, hand over what they lack.")
    ] = False

    def mode(self, store: RunStore, most_requests: int | None) -> Mode:
        """How this run is asked from now on, with at most so many requests in a batch (None: as before).

        Raises:
            UsageError: where it is to be asked one by one while batches may still answer.
        """
        if self.batch is False and store_has_batches(store):
            raise UsageError(
                f"--no-batch: {store.path.parent} has batches on their way; first: mbbq-gen batch collect"
                f" {store.path.parent}, or mbbq-gen batch cancel {store.path.parent}"
            )
        if self.batch is not None:
            set_mode(store, "on" if self.batch else "off")
        if most_requests is not None:
            store.set_meta(_MOST, str(most_requests))
        return mode_of(store)


def mode_of(store: RunStore) -> Mode:
    """How a run is asked."""
    found = store.meta(_NAME)
    return found if found in ("on", "stopped") else "off"  # type: ignore[return-value]


def set_mode(store: RunStore, mode: Mode) -> None:
    """Keeps with a run how it is asked."""
    store.set_meta(_NAME, mode)


def _most_requests(store: RunStore) -> int | None:
    """The user's limit of a batch, which a run keeps."""
    found = store.meta(_MOST)
    return None if found is None else int(found)


def store_has_batches(store: RunStore) -> bool:
    """Whether batches of a run may still bring answers."""
    from mbbq_gen.runs.batch_ledger import BatchLedger

    return bool(BatchLedger(store).open_batches())


Work = Callable[["Batching"], Coroutine[Any, Any, None]]


def in_session(
    folder: RunFolder, store: RunStore, provider: Provider, rules: AskingSettings, work: Work, *, spends: bool
) -> None:
    """Does some work on the batches of a run; what the provider learned is written into the manifest.

    Args:
        folder: the run's, locked.
        store: the run's, open for writing.
        provider: whom the run asks.
        rules: of asking.
        work: what to do.
        spends: whether it hands over batches, which `--max-cost` limits.
    """
    from mbbq_gen.providers.batches import batch_service
    from mbbq_gen.providers.remote.base import RemoteProvider
    from mbbq_gen.runs.batches import Batching
    from mbbq_gen.runs.cache import SharedCache

    service, prices = batch_service(provider), own_prices(rules.price_file)
    assert isinstance(provider, RemoteProvider)  # all that have batches are
    provider.on_notice = say
    limit = rules.max_cost if spends else None
    purse = None if limit is None else open_purse(store, provider, rules, limit, for_batches=True)
    with ExitStack() as stack:
        cache = stack.enter_context(SharedCache(Path(rules.cache))) if rules.cache is not None else None
        bar = stack.enter_context(Bar("collecting", None, "answers", delay=1.0))
        batching = Batching(
            store, provider, service, folder.path, _most_requests(store), purse, cache, bar.advance, say
        )

        async def session() -> None:
            try:
                await work(batching)
            finally:
                await provider.aclose()

        try:
            asyncio.run(session())
        finally:
            keep_facts(folder, store, provider, prices)


def ask_in_batches(
    folder: RunFolder, store: RunStore, provider: Provider, rules: AskingSettings, mode: Mode, *, again: bool
) -> bool:
    """Collects what has come, hands over what is missing, and says how the run stands; whether batches are under way.

    `again`: requests that failed for good are handed over once more.
    """
    _copy_cached(store, rules)

    async def work(batching: Batching) -> None:
        answers = await batching.collect()
        if answers:
            say(f"{answers:,} answers collected")
        made = await batching.submit(failed_too=again) if mode == "on" else 0
        if made:
            say(f"{made:,} batch{'es' if made > 1 else ''} handed over")

    in_session(folder, store, provider, rules, work, spends=mode == "on")
    return tell_batches(folder, store)


def _copy_cached(store: RunStore, rules: AskingSettings) -> None:
    """Takes what other runs have asked before from the cache that they share."""
    from mbbq_gen.runs.cache import SharedCache
    from mbbq_gen.runs.runner import copy_cached

    if rules.cache is None:
        return
    copied: list[int] = []
    with SharedCache(Path(rules.cache)) as cache:
        copy_cached(store, cache, lambda responses: copied.append(len(responses)))
    if copied:
        say(f"{sum(copied):,} answers came from the cache {rules.cache} and cost nothing")


def tell_batches(folder: RunFolder, store: RunStore) -> bool:
    """Says how a run that is asked in batches stands; whether batches are under way."""
    from mbbq_gen.runs.batch_ledger import BatchLedger

    ledger, progress = BatchLedger(store), store.progress()
    batches = ledger.open_batches()
    if batches:
        held = sum(batch.record.requests for batch in batches)
        say(
            f"{len(batches)} batch{'es' if len(batches) > 1 else ''} with {held:,} requests under way; the service"
            f" answers within a day. Later: mbbq-gen run {folder.path} --resume"
            f"    or: mbbq-gen batch status {folder.path}"
        )
        return True
    left = progress.pending - progress.failed
    if left > 0 and mode_of(store) == "stopped":
        say(f"{left:,} requests were never asked: ask them with mbbq-gen run {folder.path} --batch, or --no-batch")
    return False
