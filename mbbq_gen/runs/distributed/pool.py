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
from mbbq_gen.runs.distributed.cluster import check_on, connected
from mbbq_gen.runs.distributed.storage import (
    META,
    OWN_FOLDER,
    STATUS,
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
"""Requests that are packed together; bounds the driver's memory."""
_PAID_WINDOW: Final = 32
"""The same for each worker under a cost limit: a whole window counts as spent if the driver dies."""
_AHEAD: Final = 2
"""Blocks that a worker has at a time, so that it never waits for the next one."""
_MOST_TRIES: Final = 4
"""Workers that may die over one block before its requests count as failed."""
_MOST_DEATHS: Final = 5
"""Deaths for each worker, without a block finished between them, after which the run stops."""
_NO_PLACE: Final = 30.0
"""Seconds before a message that workers have no place in Ray."""
_STORED_EVERY: Final = 2.0
"""Seconds between two storings of the status: each waits for the disk."""
_LAST_CALL: Final = 10.0
"""Seconds in which workers may write what they have when the run is stopped."""


@dataclass
class _Seat:
    """The place of one worker; a worker that dies is replaced."""

    number: int
    begun: float
    actor: Any = None
    is_ready: bool = False
    """Whether its worker runs: Ray may have no place for one, for example after a node has died."""
    answered: int = 0
    blocks: int = 0
    deaths: int = 0
    process: int | None = None
    last: float = 0.0

    @property
    def per_minute(self) -> float | None:
        """Answers per minute; None before its first block."""
        seconds = self.last - self.begun
        return 60 * self.answered / seconds if self.blocks and seconds > 0 else None


class WorkerPool(Provider):
    """The workers, as one provider."""

    def __init__(
        self,
        inner: Provider,
        plan: WorkerPlan,
        distributed: DistributedConfig,
        on_status: Callable[[DistributedStatus], None] = lambda _: None,
        folded: Iterable[str] = (),
    ) -> None:
        """`inner` is what each worker opens, and is never called; `on_status` is called whenever a block has ended."""
        self._inner, self.plan, self._config, self._on_status = inner, plan, distributed, on_status
        self.kind, self.model = inner.kind, inner.model
        self._context = ExecutionContext()
        self._folder = ResponseShards(plan.shards)
        self._seen = set(folded)
        """Known shards; any other is a late one, of a worker that outlived its driver."""
        self._late: dict[str, Response] = {}
        self._session = secrets.token_hex(8)
        self._open = ExitStack()
        self._ray: Any = None
        self._budgets: Any = None
        self._seats: list[_Seat] = []
        self._waiting: dict[asyncio.Future[BlockResult | None], tuple[_Seat, Any, Block | None]] = {}
        """Replies that are awaited: seat, its worker then, and the block; None: until the worker runs."""
        self._again: deque[Block] = deque()
        self._tries: Counter[str] = Counter()
        self._n_rerun = 0
        self._deaths_in_a_row = 0
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
        """Those of the provider in the workers, and how it was distributed."""
        distributed: dict[str, JsonValue] = {"ray": self._config.ray, "workers": self._config.workers}
        return {**self._inner.runtime_info(), **self._facts, "distributed": distributed}

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """That of the provider in each worker."""
        return self._inner.request_key(messages, prompt_id)

    async def aclose(self) -> None:
        """Ends the workers, and the Ray that was started for them."""
        for future in self._waiting:
            future.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        self._waiting.clear()
        await asyncio.to_thread(self._open.close)
        self._seats, self._ray, self._budgets = [], None, None
        await self._inner.aclose()

    # --- blocks out, shards in --------------------------------------------------------------------------------------

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """The responses of all workers, a shard at a time; ProviderError if no further request can succeed."""
        self._context = context
        blocks = self._blocks(requests)
        self._again.clear()
        try:
            while True:
                for response in self._hand_out(blocks):
                    yield response
                if not self._again and all(block is None for *_, block in self._waiting.values()):
                    return
                n_starting = sum(block is None for *_, block in self._waiting.values())
                seconds = _NO_PLACE if n_starting else None
                done, _ = await asyncio.wait(self._waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    self._notice(
                        f"{n_starting} of {self._config.workers} workers wait for a place in Ray (processors, GPUs);"
                        " the others go on"
                    )
                for future in done:
                    for response in self._ended(future, *self._waiting.pop(future)):
                        context.in_doubt.pop(response.request_key, None)
                        yield response
        finally:
            await self._stop()
            if self._seats:
                self._report(has_ended=True)

    def _notice(self, text: str) -> None:
        """Says it once."""
        if text not in self._said:
            self._said.add(text)
            self._context.notify(text)

    def _blocks(self, requests: Iterable[Request]) -> Iterator[Block]:
        """The requests in blocks, a window after another."""
        remaining, workers = iter(requests), self._config.workers
        window = _WINDOW if self._context.may_resend is None else _PAID_WINDOW * workers
        while ahead := list(islice(remaining, window)):
            yield from pack(ahead, workers, self._session)

    def _under_way(self, seat: _Seat) -> int:
        """The number of blocks that a seat's worker has."""
        return sum(actor is seat.actor and block is not None for _, actor, block in self._waiting.values())

    def _hand_out(self, blocks: Iterator[Block]) -> Iterator[Response]:
        """Gives every worker as many blocks as it may have; yields answers in late shards at once."""
        while True:
            seat = min((seat for seat in self._seats if seat.is_ready), key=self._under_way, default=None)
            if seat is not None and self._under_way(seat) >= _AHEAD:
                return
            block = self._again.popleft() if self._again else next(blocks, None)
            if block is None:
                return
            if seat is None:
                self._again.appendleft(block)
                if not self._seats:
                    self._start()
                return
            own = {sent.name for *_, sent in self._waiting.values() if sent is not None}
            for name in self._folder.names():
                if name not in self._seen and name.partition("-")[0] not in own:
                    self._late.update((found.request_key, found) for found in self._read(name) if found.error is None)
            late = [key for request in block.requests if (key := request.request_key) in self._late]
            if late:
                yield from (self._late[key] for key in late)
                kept = [request for request in block.requests if request.request_key not in self._late]
                block = block_of(kept, self._session)
            if block.requests:
                self._context.in_doubt.update(request.request_key for request in block.requests)
                self._await(seat, seat.actor.answer.remote(block), block)

    def _await(self, seat: _Seat, reply: Any, block: Block | None = None) -> None:
        self._waiting[asyncio.wrap_future(reply.future())] = (seat, seat.actor, block)

    def _ended(
        self, future: asyncio.Future[BlockResult | None], seat: _Seat, actor: Any, block: Block | None
    ) -> Iterator[Response]:
        """The responses of a block, or nothing if a worker has started; ProviderError if no request can succeed."""
        is_current = actor is seat.actor
        try:
            finished = future.result()
        except self._ray.exceptions.RayActorError:
            if is_current:
                self._replace(seat)
            if block is not None:
                yield from self._lost(block)
            return
        except self._ray.exceptions.RayError as error:
            raise ProviderError(f"a worker failed: {str(error).strip().splitlines()[-1]}") from error
        if finished is None:
            if is_current:
                seat.is_ready, seat.begun = True, seat.begun if seat.blocks else time.monotonic()
            return
        seat.answered, seat.blocks, seat.last = seat.answered + finished.answered, seat.blocks + 1, time.monotonic()
        if is_current:
            seat.process = finished.process
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
        self._seen.add(shard)
        return (response for response, _ in self._folder.read(shard))

    def _lost(self, block: Block) -> Iterator[Response]:
        """The responses of a block whose worker died, if it wrote its shard; else the block is sent again."""
        may_resend, shards = self._context.may_resend, self._folder.names(block.name)
        for shard in shards:
            yield from self._read(shard)
        if not shards:
            self._n_rerun += 1
            self._tries[block.name] += 1
            kept = []
            for request in block.requests:
                if self._tries[block.name] >= _MOST_TRIES:
                    why = f"its worker died, {_MOST_TRIES} times"
                elif may_resend is not None and not may_resend(request):
                    why = "its worker died, and there is no money to ask it again"
                else:
                    kept.append(request)
                    continue
                yield Response(request_key=request.request_key, error=why, model=self.model)
            if kept:
                retried = block if len(kept) == len(block.requests) else block_of(kept, self._session)
                self._tries[retried.name] = self._tries[block.name]
                self._again.append(retried)
        self._report()

    # --- workers ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._ray = self._open.enter_context(connected(self._config.ray, self._config.workers))
        self._open.callback(self._end)
        limits = (self.capabilities.rpm, self.capabilities.tpm)
        if any(limits):
            keeper = self._ray.remote(RateLimits)
            self._budgets = keeper.options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote(*limits)
        self._seats = [_Seat(number, time.monotonic()) for number in range(self._config.workers)]
        for seat in self._seats:
            self._seat_worker(seat)

    def _seat_worker(self, seat: _Seat) -> None:
        """Starts a worker; it gets blocks once it runs."""
        options = {"num_cpus": 1, "num_gpus": self._config.gpus_per_worker, "max_concurrency": 8}
        seat.actor = self._ray.remote(Worker).options(**options).remote(self.plan, self._budgets)
        seat.is_ready, seat.process = False, None
        self._await(seat, seat.actor.ready.remote())

    def _replace(self, seat: _Seat) -> None:
        seat.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > _MOST_DEATHS * self._config.workers:
            raise ProviderError(
                f"{self._deaths_in_a_row} workers died one after another without finishing a block; look at memory,"
                " and at whether a worker can open the model"
            )
        self._seat_worker(seat)

    def _report(self, *, has_ended: bool = False) -> None:
        """Reports the state of the workers."""
        names = list(WorkerLine.model_fields)
        self._on_status(
            DistributedStatus(
                ray=self._config.ray,
                at=time.time(),
                workers=tuple(WorkerLine(**{name: getattr(seat, name) for name in names}) for seat in self._seats),
                lost=sum(seat.deaths for seat in self._seats),
                n_blocks_rerun=self._n_rerun,
                has_ended=has_ended,
            )
        )

    async def _stop(self) -> None:
        """Lets workers write the responses that they have; blocks that are not back in time are given up."""
        flights = [future for future, (*_, block) in self._waiting.items() if block is not None]
        if not flights:
            return
        for seat in self._seats:
            with suppress(Exception):  # a worker that is gone needs no stopping
                seat.actor.stop.remote()
        await asyncio.wait(flights, timeout=_LAST_CALL)
        for future in flights:
            future.cancel()
            del self._waiting[future]
        await asyncio.gather(*flights, return_exceptions=True)

    def _end(self) -> None:
        """Ends the workers: a Ray that was running before does not."""
        for actor in [*(seat.actor for seat in self._seats), *([self._budgets] if self._budgets else [])]:
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
    """The pool that sends a run's requests; starts Ray with the first one. UsageError for a wrong option.

    `limited`: whether the run has a cost limit; `folded`: shards whose answers are stored.
    """
    check_on(distributed.ray)
    manifest = folder.manifest()
    named = distributed.shards or ""
    if named and "://" not in named:
        named = str(Path(named).absolute())
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
    options, can = provider_options(manifest.config), provider.capabilities
    # Each worker has its share of the machine, and of the requests at a time; only what shapes no text is changed.
    if can.max_connections is not None:
        options["max_connections"] = max(1, can.max_connections // distributed.workers)
    shares_processors = can.local and not can.batch_dependent and not distributed.gpus_per_worker
    if shares_processors and "threads" not in options and distributed.ray == "local":
        options["threads"] = max(1, (os.cpu_count() or 1) // distributed.workers)
    reported_at = 0.0

    def keep(status: DistributedStatus) -> None:
        """Stores how the workers stand, now and then."""
        nonlocal reported_at
        if status.has_ended or time.monotonic() - reported_at >= _STORED_EVERY:
            reported_at = time.monotonic()
            store.set_meta(STATUS, status.model_dump_json())

    plan = WorkerPlan(manifest.config.model, options, resources, place, limited)
    return WorkerPool(provider, plan, distributed, keep, folded)
