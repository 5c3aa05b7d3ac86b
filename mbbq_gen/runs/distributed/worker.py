"""A worker of Ray: one provider, and the shards of the blocks that it has completed."""

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
"""Requests of one block at most: what is lost with a worker."""
_BLOCKS_AHEAD: Final = 2
"""A block is its worker's share of what is left, divided by this: so all end at about the same time."""
_FEWEST: Final = 16
"""Requests for which a block is worth a file, and worth that a model reads their common prefix."""


@dataclass(frozen=True)
class Block:
    """Requests that one worker answers, and writes as one shard."""

    name: str
    """Hexadecimal; differs between sessions, so that a shard tells whether this block was finished."""
    requests: tuple[Request, ...]


def block_of(requests: Iterable[Request], session: str) -> Block:
    """A block with its name."""
    kept = tuple(requests)
    return Block(stable_digest("\n".join([session, *(request.request_key for request in kept)]))[:16], kept)


def pack(requests: Sequence[Request], workers: int, session: str) -> list[Block]:
    """The blocks of a window of requests, in the order in which they should be sent, large ones first.

    Requests of one template, and in it of one question, stay together, so that a model reads their common beginning
    once; the templates with the longest requests come first.
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
        is_enough = len(current) >= _FEWEST and length * workers * _BLOCKS_AHEAD >= left
        if is_enough or len(current) == MOST_REQUESTS:
            blocks.append(block_of(current, session))
            current, left, length = [], left - length, 0
        current.append(request)
        length += _length(request)
    return [*blocks, block_of(current, session)] if current else blocks


def _length(request: Request) -> int:
    """Characters that are read: they stand for tokens, which only the model's own tokeniser could count."""
    return sum(len(message.content) for message in request.messages)


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
    """The result of a block; its responses are in the shard."""

    shard: str | None
    answered: int
    process: int
    fatal: str | None = None
    runtime_info: Mapping[str, JsonValue] = field(default_factory=dict)
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
        self._provider: Provider | None = None
        self._notices: list[str] = []
        self._context = ExecutionContext(
            notify=self._notices.append,
            may_resend=(lambda _: False) if plan.has_limit else None,
            shared_limits=None if budgets is None else RemoteBudgets(budgets),
        )
        self._at_work: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Returns when the worker is there; the model is opened with the first block."""

    async def answer(self, block: Block) -> BlockResult:
        """Asks a block and writes what comes back; after `stop`, what had come by then."""
        fatal = None
        arrived: list[tuple[Response, str]] = []
        task = asyncio.create_task(self._ask(block.requests, arrived))
        self._at_work.add(task)
        try:
            with suppress(asyncio.CancelledError):
                await task
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
        return BlockResult(name, len(arrived), os.getpid(), fatal, facts, notices)

    async def stop(self) -> None:
        """Ends what is under way."""
        for task in list(self._at_work):
            task.cancel()

    async def _ask(self, requests: tuple[Request, ...], arrived: list[tuple[Response, str]]) -> None:
        if self._provider is None:
            self._provider = open_provider(self._plan.model, self._plan.options, self._plan.resources)
        # a model on this machine answers what is alike together: text first, then loglikelihoods
        in_order = sorted(requests, key=lambda request: request.prompt.method != "generate")
        async with aclosing(self._provider.generate(in_order, self._context)) as responses:
            async for response in responses:
                arrived.append((response, datetime.now(UTC).isoformat(timespec="milliseconds")))
