"""A provider backed by several Ray workers: sends them blocks, and yields the responses of their shards.

    requests ─► window ─► blocks ─┬─► worker 0 ─► shard ─┬─► responses
                                  ├─► worker 1 ─► shard ─┤
                                  └─► …                  ┘     a worker that dies is replaced; its blocks are sent
                                                               again, unless their shards exist

Because it is a provider, the store, cost guard, cache, extraction and Ctrl-C work the same with Ray and without.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Message, Request, Response, Usage
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider
from mbbq_gen.providers.http.rate_limits import RateLimits
from mbbq_gen.runs.distributed.cluster import HERE, connected
from mbbq_gen.runs.distributed.storage import (
    STATUS,
    DistributedStatus,
    ResponseShards,
    WorkerLine,
    claim_shards,
)
from mbbq_gen.runs.distributed.worker import Block, BlockResult, Worker, WorkerPlan, block_of, pack
from mbbq_gen.runs.resolve import provider_options
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import RunStore

_WINDOW: Final = 20_000
"""Requests that are packed together; what bounds the driver's memory."""
_PAID_WINDOW: Final = 32
"""The same for each worker, where there is a cost limit: all of a window counts as spent if the driver dies."""
_AHEAD: Final = 2
"""Blocks that a worker has at a time: it does not wait for the next one."""
_MOST_TRIES: Final = 4
"""Workers that may die over one block before its requests count as failed."""
_MOST_DEATHS: Final = 5
"""Deaths for each worker, without a block finished between them, after which the run stops."""
_NO_PLACE: Final = 30.0
"""Seconds after which it is said that workers have no place in Ray."""
_STORED_EVERY: Final = 2.0
"""Seconds between two storings of the status: each waits for the disk."""
_LAST_CALL: Final = 10.0
"""Seconds in which workers may write what they have when the run is stopped."""


@dataclass
class _Seat:
    """The place of one worker; whoever dies in it is replaced."""

    line: WorkerLine
    begun: float
    actor: Any = None
    is_ready: bool = False
    """Whether its worker is there: Ray may have no place for one, after a node has died say."""
    under_way: int = 0


_Flight = tuple[_Seat, Any, Block]
"""A block on its way: the seat, the worker that was in it, and the block."""


class WorkerPool(Provider):
    """The workers, as one provider."""

    def __init__(
        self,
        inner: Provider,
        plan: WorkerPlan,
        config: RunConfig,
        on_status: Callable[[DistributedStatus], None] = lambda _: None,
    ) -> None:
        """`inner` is what each worker opens, and is never called; `on_status` is called whenever a block has ended."""
        self._inner, self.plan, self._on_status = inner, plan, on_status
        self._address, self._n_workers = config.ray or HERE, config.workers or 2
        self._gpus = config.gpus_per_worker or 0.0
        self.kind, self.model = inner.kind, inner.model
        self._context = ExecutionContext()
        self._folder = ResponseShards(plan.shards)
        self._session = secrets.token_hex(8)
        self._open = ExitStack()
        self._ray: Any = None
        self._budgets: Any = None
        self._seats: list[_Seat] = []
        self._flights: dict[asyncio.Future[BlockResult], _Flight] = {}
        self._arrivals: dict[asyncio.Future[None], tuple[_Seat, Any]] = {}
        self._again: deque[Block] = deque()
        """Blocks whose worker died."""
        self._n_rerun = self._deaths_in_a_row = 0
        self._facts: dict[str, JsonValue] = {}
        self._said: set[str] = set()

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
        """Those of the provider in the workers, and how it was spread."""
        distributed: dict[str, JsonValue] = {"ray": self._address, "workers": self._n_workers}
        return {**self._inner.runtime_info(), **self._facts, "distributed": distributed}

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """That of the provider in each worker."""
        return self._inner.request_key(messages, prompt_id)

    async def aclose(self) -> None:
        """Ends the workers, and the Ray that was started for them."""
        for future in self._arrivals:
            future.cancel()
        await asyncio.gather(*self._arrivals, return_exceptions=True)
        self._arrivals.clear()
        await asyncio.to_thread(self._open.close)
        self._seats, self._ray, self._budgets = [], None, None
        await self._inner.aclose()

    # --- blocks out, shards in --------------------------------------------------------------------------------------

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """The responses of all workers, a shard at a time; ProviderError where no further request can succeed."""
        self._context = context
        self._again.clear()
        n_workers, remaining = self._n_workers, iter(requests)
        window = _WINDOW if context.may_resend is None else _PAID_WINDOW * n_workers
        windows = iter(lambda: list(islice(remaining, window)), [])
        blocks = (block for ahead in windows for block in pack(ahead, n_workers, self._session))
        try:
            while True:
                self._hand_out(blocks)
                if not self._flights and not self._again:
                    return
                await self._wait()
                for future in [future for future in self._flights if future.done()]:
                    for response in self._landed(future, *self._flights.pop(future)):
                        context.in_doubt.pop(response.request_key, None)
                        yield response
        finally:
            await self._stop()
            if self._seats:
                self._report(has_ended=True)

    async def _wait(self) -> None:
        """Waits until a block has ended or a worker is there; says where workers have no place."""
        waiting: list[asyncio.Future[Any]] = [*self._flights, *self._arrivals]
        seconds = _NO_PLACE if self._arrivals else None
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            self._notice(
                f"{len(self._arrivals)} of {self._n_workers} workers wait for a place in Ray (processors, GPUs);"
                " the others go on"
            )
        for future in [future for future in self._arrivals if future.done()]:
            seat, actor = self._arrivals.pop(future)
            if seat.actor is not actor:
                continue
            try:
                future.result()
            except self._ray.exceptions.RayError:
                self._replace(seat)
            else:
                seat.is_ready = True
                if not seat.line.blocks:
                    seat.begun = time.monotonic()

    def _notice(self, text: str) -> None:
        """Says it once."""
        if text not in self._said:
            self._said.add(text)
            self._context.notify(text)

    def _hand_out(self, blocks: Iterator[Block]) -> None:
        """Gives every worker that is there as many blocks as it may have; Ray is started for the first one."""
        while True:
            seat = min(filter(lambda seat: seat.is_ready, self._seats), key=lambda seat: seat.under_way, default=None)
            if seat is not None and seat.under_way >= _AHEAD:
                return
            block = self._again.popleft() if self._again else next(blocks, None)
            if block is None:
                return
            if seat is None:
                self._again.appendleft(block)
                if not self._seats:
                    self._start()
                return
            self._context.in_doubt.update(request.request_key for request in block.requests)
            seat.under_way += 1
            self._flights[asyncio.wrap_future(seat.actor.answer.remote(block).future())] = (seat, seat.actor, block)

    def _landed(self, future: asyncio.Future[BlockResult], seat: _Seat, actor: Any, block: Block) -> Iterator[Response]:
        """The responses of a block; ProviderError where no further request can succeed."""
        is_current = actor is seat.actor
        seat.under_way -= is_current
        try:
            finished = future.result()
        except self._ray.exceptions.RayActorError:
            if is_current:
                self._replace(seat)
            yield from self._lost(block)
            self._report()
            return
        except self._ray.exceptions.RayError as error:
            raise ProviderError(f"a worker failed: {str(error).strip().splitlines()[-1]}") from error
        line = seat.line
        line.answered, line.blocks = line.answered + finished.answered, line.blocks + 1
        line.per_minute = 60 * line.answered / max(time.monotonic() - seat.begun, 1e-9)
        if is_current:
            line.process = finished.process
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
        return (response for response, _ in self._folder.read(shard))

    def _lost(self, block: Block) -> Iterator[Response]:
        """A worker died with a block under way: its shard, if it was written; else the block is requested again."""
        if shards := self._folder.names(block.name):
            for shard in shards:
                yield from self._read(shard)
            return
        self._n_rerun += 1
        kept, may_resend = list[Request](), self._context.may_resend
        for request in block.requests:
            if block.deaths + 1 >= _MOST_TRIES:
                why = f"its worker died, {_MOST_TRIES} times"
            elif may_resend is not None and not may_resend(request):
                why = "its worker died, and there is no money to ask it again"
            else:
                kept.append(request)
                continue
            yield Response(request_key=request.request_key, error=why, model=self.model)
        if kept:
            self._again.append(block_of(kept, self._session, block.deaths + 1))

    # --- workers ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._ray = self._open.enter_context(connected(self._address, self._n_workers))
        self._open.callback(self._end)
        self._actor_class = self._ray.remote(Worker)
        limits = (self.capabilities.rpm, self.capabilities.tpm)
        if any(limits):
            keeper = self._ray.remote(RateLimits)
            self._budgets = keeper.options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote(*limits)
        self._seats = [_Seat(WorkerLine(number), time.monotonic()) for number in range(self._n_workers)]
        for seat in self._seats:
            self._seat_worker(seat)

    def _seat_worker(self, seat: _Seat) -> None:
        """Has a worker started; it is given blocks when it is there."""
        wish = {"num_cpus": 1, "num_gpus": self._gpus, "max_concurrency": 8}
        seat.actor = self._actor_class.options(**wish).remote(self.plan, self._budgets)
        seat.is_ready, seat.under_way, seat.line.process = False, 0, None
        self._arrivals[asyncio.wrap_future(seat.actor.ready.remote().future())] = (seat, seat.actor)

    def _replace(self, seat: _Seat) -> None:
        seat.line.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > _MOST_DEATHS * self._n_workers:
            raise ProviderError(
                f"{self._deaths_in_a_row} workers died one after another without finishing a block; look at memory,"
                " and at whether a worker can open the model"
            )
        self._seat_worker(seat)

    def _report(self, *, has_ended: bool = False) -> None:
        """Reports how the workers stand."""
        lines = tuple(replace(seat.line) for seat in self._seats)
        status = DistributedStatus(
            ray=self._address,
            at=time.time(),
            workers=lines,
            lost=sum(line.deaths for line in lines),
            n_blocks_rerun=self._n_rerun,
            has_ended=has_ended,
        )
        self._on_status(status)

    async def _stop(self) -> None:
        """Lets workers write what they have; what is not back in time is given up."""
        if not self._flights:
            return
        for seat in self._seats:
            with suppress(Exception):  # a worker that is gone needs no stopping
                seat.actor.stop.remote()
        await asyncio.wait(self._flights, timeout=_LAST_CALL)
        for future in self._flights:
            future.cancel()
        await asyncio.gather(*self._flights, return_exceptions=True)
        self._flights.clear()
        for seat in self._seats:
            seat.under_way = 0

    def _end(self) -> None:
        """Ends the workers: in a Ray that is there nobody else does."""
        for actor in [*(seat.actor for seat in self._seats), *([self._budgets] if self._budgets else [])]:
            with suppress(Exception):
                self._ray.kill(actor)


def distribute(
    config: RunConfig, folder: RunFolder, store: RunStore, provider: Provider, resources: PackPaths
) -> WorkerPool:
    """The pool that sends a run's requests; Ray is started when the first one is. UsageError for a wrong option."""
    manifest = folder.manifest()
    place = claim_shards(store, folder, config.shard_dir, manifest.created_at)
    options, can, number = provider_options(manifest.config), provider.capabilities, config.workers or 2
    # Each worker has its share of the machine, and of the requests at a time; only what shapes no text is changed.
    if can.max_connections is not None:
        options["max_connections"] = max(1, can.max_connections // number)
    shares_processors = can.local and not can.batch_dependent and not config.gpus_per_worker
    if shares_processors and "threads" not in options and config.ray == HERE:
        options["threads"] = max(1, (os.cpu_count() or 1) // number)
    reported_at = 0.0

    def keep(status: DistributedStatus) -> None:
        """Stores how the workers stand, now and then."""
        nonlocal reported_at
        if status.has_ended or time.monotonic() - reported_at >= _STORED_EVERY:
            reported_at = time.monotonic()
            store.set_meta(STATUS, status.model_dump_json())

    plan = WorkerPlan(manifest.config.model, options, resources, place, config.max_cost is not None)
    return WorkerPool(provider, plan, config, keep)
