"""A Ray worker, which sends the requests of blocks to one provider and writes shards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.files import PackPaths, stable_digest
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import ExecutionContext, Provider
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.distributed.storage import ResponseShards

MOST_REQUESTS: Final = 256
"""Largest number of requests of a block, which limits the loss if a worker dies."""
_BLOCKS_PER_SHARE: Final = 2
"""Divides a worker's share of the remaining requests into blocks, so that all end at about the same time."""
_FEWEST: Final = 16
"""Fewest requests of a block, for efficient files and shared prompt prefixes."""


@dataclass(frozen=True)
class Block:
    """Requests for one worker, whose responses become one shard."""

    name: str
    """Hexadecimal; unique to the session, so that a shard belongs to one block."""
    requests: tuple[Request, ...]


def block_of(requests: Iterable[Request], session: str) -> Block:
    """Creates a block with its name."""
    kept = tuple(requests)
    return Block(stable_digest("\n".join([session, *(request.request_key for request in kept)]))[:16], kept)


def pack(requests: Sequence[Request], workers: int, session: str) -> list[Block]:
    """The blocks of a window of requests, large ones first.

    Requests of one template, and within it of one question, stay together to share prompt prefixes; the templates with
    the longest requests come first.
    """
    templates: dict[str, dict[str, list[Request]]] = {}
    for request in requests:
        instance = request.instance
        questions = templates.setdefault(f"{instance.benchmark}/{instance.language}/{instance.template_id}", {})
        questions.setdefault(instance.key, []).append(request)
    groups = [[request for question in found.values() for request in question] for found in templates.values()]
    groups.sort(key=lambda group: (-max(map(_length, group)), group[0].request_key))
    left = sum(map(_length, requests))
    blocks: list[Block] = []
    current: list[Request] = []
    length = 0
    for request in (request for group in groups for request in group):
        is_enough = len(current) >= _FEWEST and length * workers * _BLOCKS_PER_SHARE >= left
        if is_enough or len(current) == MOST_REQUESTS:
            blocks.append(block_of(current, session))
            current, left, length = [], left - length, 0
        current.append(request)
        length += _length(request)
    return [*blocks, block_of(current, session)] if current else blocks


def _length(request: Request) -> int:
    """Characters of a request, used in place of tokens."""
    return sum(len(message.content) for message in request.messages)


@dataclass(frozen=True)
class WorkerPlan:
    """The settings of a worker, which may be on another machine."""

    model: str
    options: Mapping[str, JsonValue]
    resources: PackPaths
    shards: str
    """Folder or address of the shards, accessible to the worker."""
    has_limit: bool
    """Whether the run has a cost limit; then workers never resend requests that may be charged."""


@dataclass(frozen=True)
class BlockResult:
    """The result of a block, whose responses are in the shard."""

    shard: str | None
    answered: int
    process: int
    fatal: str | None = None
    runtime_info: Mapping[str, JsonValue] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


class RemoteBudgets:
    """The rate limits of all workers together, in an actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def take(self, tokens: float) -> float:
        """Takes a request with these tokens; returns 0, or the seconds to wait if it can't."""
        return float(await self._actor.take.remote(tokens))

    def correct(self, tokens: float) -> None:
        """Returns unused tokens."""
        self._actor.correct.remote(tokens)


class Worker:
    """The actor of a worker. Its blocks may overlap, so that none waits for the last responses of another."""

    def __init__(self, plan: WorkerPlan, budgets: Any = None) -> None:
        """`budgets`: the actor with the rate limits of all workers together; None: no limits."""
        self._plan = plan
        self._provider: Provider | None = None
        self._notices: list[str] = []
        self._context = ExecutionContext(
            notify=self._notices.append,
            may_resend=(lambda _: False) if plan.has_limit else None,
            shared_limits=None if budgets is None else RemoteBudgets(budgets),
        )
        self._running: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Returns when the worker has started; the model is opened with the first block."""

    async def answer(self, block: Block) -> BlockResult:
        """Sends a block and writes its shard; after `stop`, with the responses received until then."""
        fatal = None
        arrived: list[tuple[Response, str]] = []
        task = asyncio.create_task(self._send(block.requests, arrived))
        self._running.add(task)
        try:
            with suppress(asyncio.CancelledError):
                await task
        except MbbqGenError as error:
            fatal = str(error)
        finally:
            self._running.discard(task)
        name = None
        if arrived:
            name = await asyncio.to_thread(ResponseShards(self._plan.shards).write, block.name, arrived)
        notices = tuple(self._notices)
        self._notices.clear()
        facts = self._provider.runtime_info() if self._provider is not None else {}
        return BlockResult(name, len(arrived), os.getpid(), fatal, facts, notices)

    async def stop(self) -> None:
        """Cancels the running blocks."""
        for task in list(self._running):
            task.cancel()

    async def _send(self, requests: tuple[Request, ...], arrived: list[tuple[Response, str]]) -> None:
        if self._provider is None:
            self._provider = open_provider(self._plan.model, self._plan.options, self._plan.resources)
        # a local model runs similar requests together: generation first, then loglikelihoods
        in_order = sorted(requests, key=lambda request: request.prompt.method != "generate")
        async with aclosing(self._provider.generate(in_order, self._context)) as responses:
            async for response in responses:
                arrived.append((response, datetime.now(UTC).isoformat(timespec="milliseconds")))
