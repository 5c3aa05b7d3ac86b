"""A provider that sends blocks of requests to Ray workers and yields their responses.

    requests ─► window ─► blocks ─┬─► worker 0 ─► shard ─┬─► responses
                                  ├─► worker 1 ─► shard ─┤
                                  └─► …                  ┘     a dead worker is replaced; its blocks are sent
                                                               again, unless their shards exist

As it is a provider, the store, cost guard, cache, extraction and Ctrl-C work as without Ray.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Message, Request, Response, Usage
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider
from mbbq_gen.providers.http.rate_limits import RateLimits
from mbbq_gen.runs.distributed.cluster import check_ray, connected
from mbbq_gen.runs.distributed.storage import (
    FOLDER_META,
    OWN_FOLDER,
    STATUS_META,
    DistributedConfig,
    DistributedStatus,
    ResponseShards,
    WorkerLine,
)
from mbbq_gen.runs.distributed.worker import Block, BlockResult, Worker, WorkerPlan, block_of, pack
from mbbq_gen.runs.resolve import provider_options
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import RunStore

_WINDOW: Final = 20_000
"""Requests that are packed into blocks at a time, which limits the driver's memory."""
_PAID_WINDOW: Final = 32
"""The same per worker under a cost limit; a whole window counts as spent if the driver dies."""
_BLOCKS_PER_WORKER: Final = 2
"""Blocks of a worker at a time; the next one is ready when one ends."""
_MOST_TRIES: Final = 4
"""Deaths of workers with one block after which its requests count as failed."""
_MOST_DEATHS: Final = 5
"""Deaths per worker, without a block finished in between, after which the run stops."""
_START_NOTICE: Final = 30.0
"""Seconds before a message that Ray has not started all workers."""
_STATUS_INTERVAL: Final = 2.0
"""Seconds between two writes of the status, each of which waits for the disk."""
_STOP_TIMEOUT: Final = 10.0
"""Seconds for workers to write their responses when the run is stopped."""


@dataclass
class _Slot:
    """The state of one worker and its replacements."""

    number: int
    started_at: float
    actor: Any = None
    is_ready: bool = False
    """Whether its worker has started; Ray may lack resources, for example after a node has died."""
    answered: int = 0
    blocks: int = 0
    deaths: int = 0
    process: int | None = None
    ended_at: float = 0.0

    @property
    def per_minute(self) -> float | None:
        """Answers per minute; None before its first block."""
        seconds = self.ended_at - self.started_at
        return 60 * self.answered / seconds if self.blocks and seconds > 0 else None


class WorkerPool(Provider):
    """All workers as one provider."""

    def __init__(
        self,
        inner: Provider,
        plan: WorkerPlan,
        distributed: DistributedConfig,
        on_status: Callable[[DistributedStatus], None] = lambda _: None,
        folded: Iterable[str] = (),
    ) -> None:
        """`inner`: the provider that each worker opens, not called here; `on_status`: called after each block."""
        self._inner, self.plan, self._config, self._on_status = inner, plan, distributed, on_status
        self.kind, self.model = inner.kind, inner.model
        self._context = ExecutionContext()
        self._folder = ResponseShards(plan.shards)
        self._known_shards = set(folded)
        """Known shards; others are late shards, of workers that outlived their driver."""
        self._late: dict[str, Response] = {}
        self._session = secrets.token_hex(8)
        self._open = ExitStack()
        self._ray: Any = None
        self._budgets: Any = None
        self._slots: list[_Slot] = []
        self._pending: dict[asyncio.Future[BlockResult | None], tuple[_Slot, Any, Block | None]] = {}
        """Pending calls: slot, its worker at that time, and the block; None: the start of the worker."""
        self._to_resend: deque[Block] = deque()
        self._deaths_by_block: Counter[str] = Counter()
        self._n_rerun = 0
        self._deaths_in_a_row = 0
        self._facts: dict[str, JsonValue] = {}
        self._shown: set[str] = set()

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Those of the provider in each worker."""
        return self._inner.settings

    @property
    def capabilities(self) -> Capabilities:
        """Those of the provider in each worker."""
        return self._inner.capabilities

    def max_usage(self, request: Request) -> Usage | None:
        """That of the provider in each worker."""
        return self._inner.max_usage(request)

    def runtime_info(self) -> dict[str, JsonValue]:
        """The runtime info of the provider in the workers, and of the distribution."""
        distributed: dict[str, JsonValue] = {"ray": self._config.ray, "workers": self._config.workers}
        return {**self._inner.runtime_info(), **self._facts, "distributed": distributed}

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """That of the provider in each worker."""
        return self._inner.request_key(messages, prompt_id)

    async def aclose(self) -> None:
        """Stops the workers, and Ray if it was started for them."""
        for future in self._pending:
            future.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)
        self._pending.clear()
        await asyncio.to_thread(self._open.close)
        self._slots, self._ray, self._budgets = [], None, None
        await self._inner.aclose()

    # --- blocks out, shards in --------------------------------------------------------------------------------------

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """The responses of all workers, a shard at a time; ProviderError if no further request can succeed."""
        self._context = context
        blocks = self._blocks(requests)
        self._to_resend.clear()
        try:
            while True:
                for response in self._send_blocks(blocks):
                    yield response
                if not self._to_resend and all(block is None for *_, block in self._pending.values()):
                    return
                n_starting = sum(block is None for *_, block in self._pending.values())
                seconds = _START_NOTICE if n_starting else None
                done, _ = await asyncio.wait(self._pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    self._notice(
                        f"{n_starting} of {self._config.workers} workers wait for a place in Ray (processors, GPUs);"
                        " the others go on"
                    )
                for future in done:
                    for response in self._responses_of(future, *self._pending.pop(future)):
                        context.in_doubt.pop(response.request_key, None)
                        yield response
        finally:
            await self._stop()
            if self._slots:
                self._report(has_ended=True)

    def _notice(self, text: str) -> None:
        """Notifies the user, once for each text."""
        if text not in self._shown:
            self._shown.add(text)
            self._context.notify(text)

    def _blocks(self, requests: Iterable[Request]) -> Iterator[Block]:
        """The requests in blocks, packed window by window."""
        remaining, workers = iter(requests), self._config.workers
        window = _WINDOW if self._context.may_resend is None else _PAID_WINDOW * workers
        while ahead := list(islice(remaining, window)):
            yield from pack(ahead, workers, self._session)

    def _under_way(self, slot: _Slot) -> int:
        """The number of blocks of a slot's worker."""
        return sum(actor is slot.actor and block is not None for _, actor, block in self._pending.values())

    def _send_blocks(self, blocks: Iterator[Block]) -> Iterator[Response]:
        """Sends every worker as many blocks as allowed; yields responses of late shards instead of sending requests."""
        while True:
            slot = min((slot for slot in self._slots if slot.is_ready), key=self._under_way, default=None)
            if slot is not None and self._under_way(slot) >= _BLOCKS_PER_WORKER:
                return
            block = self._to_resend.popleft() if self._to_resend else next(blocks, None)
            if block is None:
                return
            if slot is None:
                self._to_resend.appendleft(block)
                if not self._slots:
                    self._start()
                return
            own = {sent.name for *_, sent in self._pending.values() if sent is not None}
            for name in self._folder.names():
                if name not in self._known_shards and name.partition("-")[0] not in own:
                    self._late.update((found.request_key, found) for found in self._read(name) if found.error is None)
            late = [key for request in block.requests if (key := request.request_key) in self._late]
            if late:
                yield from (self._late[key] for key in late)
                kept = [request for request in block.requests if request.request_key not in self._late]
                block = block_of(kept, self._session)
            if block.requests:
                self._context.in_doubt.update(request.request_key for request in block.requests)
                self._add_pending(slot, slot.actor.answer.remote(block), block)

    def _add_pending(self, slot: _Slot, reply: Any, block: Block | None = None) -> None:
        self._pending[asyncio.wrap_future(reply.future())] = (slot, slot.actor, block)

    def _responses_of(
        self, future: asyncio.Future[BlockResult | None], slot: _Slot, actor: Any, block: Block | None
    ) -> Iterator[Response]:
        """The responses of a finished call, none if a worker has started; ProviderError if no request can succeed."""
        is_current = actor is slot.actor
        try:
            finished = future.result()
        except self._ray.exceptions.RayActorError:
            if is_current:
                self._replace(slot)
            if block is not None:
                yield from self._responses_of_lost(block)
            return
        except self._ray.exceptions.RayError as error:
            raise ProviderError(f"a worker failed: {str(error).strip().splitlines()[-1]}") from error
        if finished is None:
            if is_current:
                slot.is_ready = True
                if not slot.blocks:
                    slot.started_at = time.monotonic()
            return
        slot.answered += finished.answered
        slot.blocks += 1
        slot.ended_at = time.monotonic()
        if is_current:
            slot.process = finished.process
        self._deaths_in_a_row = 0
        self._facts = dict(finished.runtime_info)
        for notice in finished.notices:
            self._notice(notice)
        if finished.shard is not None:
            yield from self._read(finished.shard)
        self._report()
        if finished.fatal is not None:
            raise ProviderError(finished.fatal)

    def _read(self, shard: str) -> Iterator[Response]:
        self._known_shards.add(shard)
        return (response for response, _ in self._folder.read(shard))

    def _responses_of_lost(self, block: Block) -> Iterator[Response]:
        """The responses of a block whose worker died after writing its shard; else the block is sent again."""
        may_resend, shards = self._context.may_resend, self._folder.names(block.name)
        for shard in shards:
            yield from self._read(shard)
        if not shards:
            self._n_rerun += 1
            self._deaths_by_block[block.name] += 1
            kept = []
            for request in block.requests:
                if self._deaths_by_block[block.name] >= _MOST_TRIES:
                    why = f"its worker died, {_MOST_TRIES} times"
                elif may_resend is not None and not may_resend(request):
                    why = "its worker died, and there is no money to ask it again"
                else:
                    kept.append(request)
                    continue
                yield Response(request_key=request.request_key, error=why, model=self.model)
            if kept:
                retried = block if len(kept) == len(block.requests) else block_of(kept, self._session)
                self._deaths_by_block[retried.name] = self._deaths_by_block[block.name]
                self._to_resend.append(retried)
        self._report()

    # --- workers ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._ray = self._open.enter_context(connected(self._config.ray, self._config.workers))
        self._open.callback(self._kill_workers)
        limits = (self.capabilities.rpm, self.capabilities.tpm)
        if any(limits):
            keeper = self._ray.remote(RateLimits)
            self._budgets = keeper.options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote(*limits)
        self._slots = [_Slot(number, time.monotonic()) for number in range(self._config.workers)]
        for slot in self._slots:
            self._start_worker(slot)

    def _start_worker(self, slot: _Slot) -> None:
        """Starts a worker, which gets blocks once it is ready."""
        options = {"num_cpus": 1, "num_gpus": self._config.gpus_per_worker, "max_concurrency": 8}
        slot.actor = self._ray.remote(Worker).options(**options).remote(self.plan, self._budgets)
        slot.is_ready, slot.process = False, None
        self._add_pending(slot, slot.actor.ready.remote())

    def _replace(self, slot: _Slot) -> None:
        slot.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > _MOST_DEATHS * self._config.workers:
            raise ProviderError(
                f"{self._deaths_in_a_row} workers died one after another without finishing a block; look at memory,"
                " and at whether a worker can open the model"
            )
        self._start_worker(slot)

    def _report(self, *, has_ended: bool = False) -> None:
        """Reports the state of the workers."""
        names = list(WorkerLine.model_fields)
        self._on_status(
            DistributedStatus(
                ray=self._config.ray,
                at=time.time(),
                workers=tuple(WorkerLine(**{name: getattr(slot, name) for name in names}) for slot in self._slots),
                lost=sum(slot.deaths for slot in self._slots),
                n_blocks_rerun=self._n_rerun,
                has_ended=has_ended,
            )
        )

    async def _stop(self) -> None:
        """Stops workers, which write their responses; blocks that do not finish in time are abandoned."""
        pending_blocks = [future for future, (*_, block) in self._pending.items() if block is not None]
        if not pending_blocks:
            return
        for slot in self._slots:
            with suppress(Exception):  # the worker may be dead
                slot.actor.stop.remote()
        await asyncio.wait(pending_blocks, timeout=_STOP_TIMEOUT)
        for future in pending_blocks:
            future.cancel()
            del self._pending[future]
        await asyncio.gather(*pending_blocks, return_exceptions=True)

    def _kill_workers(self) -> None:
        """Kills the workers; needed if Ray was running before."""
        for actor in [*(slot.actor for slot in self._slots), *([self._budgets] if self._budgets else [])]:
            with suppress(Exception):
                self._ray.kill(actor)


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
    """The pool for a run, which starts Ray with the first request. UsageError for a wrong option.

    `limited`: whether the run has a cost limit; `folded`: shards whose responses are stored.
    """
    check_ray(distributed.ray)
    manifest = folder.manifest()
    named = distributed.shards or ""
    if named and "://" not in named:
        named = str(Path(named).absolute())
    before = store.meta(FOLDER_META)
    if named or before is None:
        if before is not None and before != named:
            raise UsageError(
                f"--shard-dir {distributed.shards}: this run's are in {before or folder.path / OWN_FOLDER};"
                " leave --shard-dir out"
            )
        ResponseShards(named or folder.path / OWN_FOLDER).claim(manifest.created_at)
        store.set_meta(FOLDER_META, named)
    place = named or before or str((folder.path / OWN_FOLDER).absolute())
    options, can = provider_options(manifest.config), provider.capabilities
    # Each worker gets its share of processors and connections; no setting that affects the text is changed.
    if can.max_connections is not None:
        options["max_connections"] = max(1, can.max_connections // distributed.workers)
    shares_processors = can.local and not can.batch_dependent and not distributed.gpus_per_worker
    if shares_processors and "threads" not in options and distributed.ray == "local":
        options["threads"] = max(1, (os.cpu_count() or 1) // distributed.workers)
    reported_at = 0.0

    def keep(status: DistributedStatus) -> None:
        """Stores the status of the workers at intervals."""
        nonlocal reported_at
        if status.has_ended or time.monotonic() - reported_at >= _STATUS_INTERVAL:
            reported_at = time.monotonic()
            store.set_meta(STATUS_META, status.model_dump_json())

    plan = WorkerPlan(manifest.config.model, options, resources, place, limited)
    return WorkerPool(provider, plan, distributed, keep, folded)
