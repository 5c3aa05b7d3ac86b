"""A worker of Ray: one provider, and the shards of the blocks that it has completed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import Provider, loglikelihood_provider
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.distributed.blocks import Block
from mbbq_gen.runs.distributed.storage import ResponseShards


@dataclass(frozen=True)
class WorkerPlan:
    """What a worker has to know: it may be on another machine."""

    model: str
    options: Mapping[str, JsonValue]
    resources: PackPaths
    shards: str
    """Folder or address that the worker reaches under that name."""
    has_limit: bool
    """Whether the run has a cost limit: then nothing that may have been paid is sent twice by a worker."""


@dataclass(frozen=True)
class BlockResult:
    """What a worker tells of a block. The answers are in its shard."""

    shard: str | None
    """None where there was nothing to write."""
    answered: int
    seconds: float
    process: int
    fatal: str | None = None
    """Why no further request can succeed, in a line."""
    runtime_info: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the provider knows of itself."""
    notices: tuple[str, ...] = ()


class RemoteBudgets:
    """The budgets of all workers, kept by an actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def take(self, tokens: float) -> float:
        """Takes a request of so many tokens and returns 0, or takes nothing and returns the seconds to wait."""
        return float(await self._actor.take.remote(tokens))

    def correct(self, tokens: float, age: float) -> None:
        """Gives back tokens that were taken `age` seconds ago and not used."""
        self._actor.correct.remote(tokens, age)


class Worker:
    """One provider. Made an actor by `pool`; its blocks may overlap, so that none waits for another's last answers."""

    def __init__(self, plan: WorkerPlan, budgets: Any = None) -> None:
        """`budgets`: the actor that holds the limits of all workers together; None: there are none."""
        self._plan = plan
        self._budgets = budgets
        self._provider: Provider | None = None
        self._notices: list[str] = []
        self._at_work: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Returns when the worker is there; the model is opened with the first block."""

    async def answer(self, block: Block, scored: bool) -> BlockResult:
        """Asks a block and writes what comes back; after `stop`, what had come by then."""
        begin, fatal = time.monotonic(), None
        arrived: list[tuple[Response, str]] = []
        task = asyncio.create_task(self._ask(block.requests, scored, arrived))
        self._at_work.add(task)
        try:
            await task
        except asyncio.CancelledError:
            pass
        except MbbqGenError as error:
            fatal = str(error)
        finally:
            self._at_work.discard(task)
        name = None
        if arrived:
            name = await asyncio.to_thread(ResponseShards(self._plan.shards).write, block.name, arrived)
        notices = tuple(self._notices)
        self._notices.clear()
        facts = self._provider.runtime_info() if self._provider is not None else {}
        return BlockResult(name, len(arrived), time.monotonic() - begin, os.getpid(), fatal, facts, notices)

    async def stop(self) -> None:
        """Ends what is under way."""
        for task in list(self._at_work):
            task.cancel()

    async def _ask(self, requests: tuple[Request, ...], scored: bool, arrived: list[tuple[Response, str]]) -> None:
        provider = self._opened()
        scoring = loglikelihood_provider(provider) if scored else None
        respond = provider.generate if scoring is None else scoring.score_options
        async with aclosing(respond(requests)) as responses:
            async for response in responses:
                arrived.append((response, datetime.now(UTC).isoformat(timespec="milliseconds")))

    def _opened(self) -> Provider:
        if self._provider is None:
            plan = self._plan
            provider = open_provider(plan.model, plan.options, plan.resources)
            hooks: dict[str, Any] = {"notify": self._notices.append}
            if plan.has_limit:
                hooks["may_resend"] = lambda _: False
            if self._budgets is not None:
                hooks["shared_budgets"] = RemoteBudgets(self._budgets)
            for name, hook in hooks.items():
                if hasattr(provider, name):
                    setattr(provider, name, hook)
            self._provider = provider
        return self._provider
