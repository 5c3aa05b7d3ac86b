"""A Ray worker: an actor with a provider of its own, which sends the requests that the driver gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import ExecutionContext, Provider
from mbbq_gen.providers.registry import open_provider

_COLLECT: Final = 0.02
"""Seconds from the first response of a reply until it is sent; others that arrive meanwhile are sent with it."""


@dataclass(frozen=True)
class WorkerReply:
    """What has arrived at a worker since its previous reply."""

    responses: Sequence[Response]
    notices: Sequence[str]
    """Lines for the user."""
    runtime_info: Mapping[str, JsonValue]
    """With the first responses, and when none is expected."""
    fatal: str | None
    """Why no further request can succeed."""
    in_doubt: Mapping[str, int]
    """With `fatal`: request key → attempts that may have been charged, as in `ExecutionContext`."""


class RemoteLimits:
    """The rate limits of all workers together, which an actor counts."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def take(self, tokens: float) -> float:
        """As `RateLimits.take`."""
        return float(await self._actor.take.remote(tokens))

    def correct(self, tokens: float) -> None:
        """Returns unused tokens."""
        self._actor.correct.remote(tokens)


@dataclass
class Worker:
    """The actor of a worker, which may be on another machine."""

    model: str
    options: Mapping[str, JsonValue]
    resources: PackPaths
    has_limit: bool
    """Whether the run has a cost limit; then a worker never repeats a request that may have been charged."""
    limits: Any = None
    """The actor with the rate limits of all workers together; None: no limits."""
    _provider: Provider | None = None
    _context: ExecutionContext = field(init=False)
    _notices: list[str] = field(default_factory=list)
    _arrived: list[Response] = field(default_factory=list)
    _has_answered: bool = False
    _fatal: str | None = None
    _sending: set[asyncio.Task[None] | None] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a response has arrived or a task has ended."""

    def __post_init__(self) -> None:
        self._context = ExecutionContext(
            notify=self._notices.append,
            may_resend=(lambda _: False) if self.has_limit else None,
            shared_limits=None if self.limits is None else RemoteLimits(self.limits),
        )

    async def exchange(self, requests: Sequence[Request]) -> WorkerReply:
        """Starts to send these requests, and returns what has arrived; waits for a response if one is expected."""
        if requests:
            self._sending.add(asyncio.create_task(self._send(requests)))
        while self._sending and not self._arrived and self._fatal is None:
            self._changed.clear()
            await self._changed.wait()
        if self._sending:
            await asyncio.sleep(_COLLECT)
        facts: dict[str, JsonValue] = {}
        if self._provider is not None and not (self._has_answered and self._sending):  # they take milliseconds
            facts = self._provider.runtime_info()
        self._has_answered |= bool(self._arrived)
        in_doubt = {} if self._fatal is None else dict(self._context.in_doubt)
        reply = WorkerReply(self._arrived.copy(), self._notices.copy(), facts, self._fatal, in_doubt)
        self._arrived.clear()
        self._notices.clear()
        return reply

    async def _send(self, requests: Sequence[Request]) -> None:
        try:
            if self._provider is None:
                self._provider = open_provider(self.model, self.options, self.resources)
            async with aclosing(self._provider.generate(requests, self._context)) as responses:
                async for response in responses:
                    self._arrived.append(response)
                    self._changed.set()
        except Exception as error:  # an error of the package too must reach the driver
            self._fatal = str(error) if isinstance(error, MbbqGenError) else f"a worker failed: {error!r}"
        finally:
            self._sending.discard(asyncio.current_task())
            self._changed.set()
