"""A provider that gives requests to Ray workers and yields their responses as they arrive.

    requests ─┬─► worker 0 ─┬─► responses
              ├─► worker 1 ─┤
              └─► …         ┘     a worker that dies is replaced; its unanswered requests are sent again

As it is a provider, the store, cost guard, cache, extraction and Ctrl-C work as without Ray. A worker has at most one
pending call: it takes requests to the worker, and brings back what has arrived there.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Message, Request, Response, Usage
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider
from mbbq_gen.providers.http.errors import with_lost
from mbbq_gen.providers.http.rate_limits import RateLimits
from mbbq_gen.runs.distributed.cluster import connected
from mbbq_gen.runs.distributed.worker import Worker, WorkerReply
from mbbq_gen.runs.resolve import provider_options

_BLOCK: Final = 256
"""Most requests that a model in the worker gets at a time, so that it can answer them in large batches."""
_RESERVE: Final = 16
"""Requests that wait in a worker for a free connection; fewest requests that a worker gets at a time."""
_MOST_TRIES: Final = 4
"""Deaths of workers after which a request that they had counts as failed."""
_MOST_DEATHS: Final = 5
"""Deaths per worker, without a response in between, after which the run stops."""
_START_NOTICE: Final = 30.0
"""Seconds before a message that Ray has not started all workers."""
_LAST_CALL: Final = 10.0
"""Seconds to wait for requests in flight after a fatal error, since their responses are charged."""


@dataclass
class _Slot:
    """The place of a worker and those that replace it."""

    number: int
    actor: Any = None
    call: asyncio.Future[WorkerReply] | None = None
    """The pending call to the worker; the first one returns when Ray has started it."""
    is_started: bool = False
    unanswered: dict[str, Request] = field(default_factory=dict)
    """Request key → request that the worker has."""


class WorkerPool(Provider):
    """All workers as one provider. Ray is started with the first request."""

    def __init__(self, inner: Provider, config: RunConfig, resources: PackPaths) -> None:
        """`inner`: the provider that each worker opens."""
        self._inner, self.kind, self.model = inner, inner.kind, inner.model
        self._address, self._n_workers = config.ray or "local", config.workers or 2
        self._n_gpus = config.gpus_per_worker or 0.0
        # Each worker gets its share of processors and connections; no setting that affects the text is changed.
        options, can = provider_options(config), inner.capabilities
        self._is_local = can.max_connections is None
        self._most, self._fewest = 2 * _BLOCK, _BLOCK
        if can.max_connections is not None:
            options["max_connections"] = connections = max(1, can.max_connections // self._n_workers)
            self._most, self._fewest = connections + _RESERVE, _RESERVE
        shares_processors = can.local and not can.batch_dependent and not self._n_gpus
        if shares_processors and "threads" not in options and self._address == "local":
            options["threads"] = max(1, (os.cpu_count() or 1) // self._n_workers)
        self._opens = (config.model, options, resources, config.max_cost is not None)
        """The first arguments of `Worker`."""
        self._context = ExecutionContext()
        self._requests: Iterator[Request] = iter(())
        self._waiting: deque[Request] = deque()
        """Requests to give out next."""
        self._open = ExitStack()
        self._ray: Any = None
        self._limits: Any = None
        self._slots: list[_Slot] = []
        self._deaths_by_request: Counter[str] = Counter()
        self.deaths = self._deaths_in_a_row = 0
        self._fatal: str | None = None
        """Why no further request can succeed; then no more are sent until `_end`."""
        self._end = math.inf
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

    def check_dialogue(self) -> None:
        """That of the provider in each worker."""
        self._inner.check_dialogue()

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """That of the provider in each worker."""
        return self._inner.request_key(messages, prompt_id)

    def runtime_info(self) -> dict[str, JsonValue]:
        """The runtime info of the provider in the workers, and of the distribution."""
        distributed: dict[str, JsonValue] = {"ray": self._address, "workers": self._n_workers}
        return {**self._inner.runtime_info(), **self._facts, "distributed": distributed}

    async def aclose(self) -> None:
        """Stops the workers, and Ray if it was started for them."""
        calls = [slot.call for slot in self._slots if slot.call is not None]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        self._kill([*(slot.actor for slot in self._slots), self._limits])  # they outlive this if Ray ran before
        await asyncio.to_thread(self._open.close)
        self._slots, self._limits = [], None
        await self._inner.aclose()

    # --- requests out, responses in ---------------------------------------------------------------------------------

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """The responses of all workers; ProviderError if no further request can succeed."""
        self._context, self._requests, self._fatal, self._end = context, iter(requests), None, math.inf
        self._waiting.clear()
        while self._is_unfinished():
            if not self._slots:
                self._start()
            for slot in self._slots:
                block = [] if slot.call or self._fatal else self._next_block(slot)
                if slot.call is None and (block or slot.unanswered):
                    self._call(slot, block)
            for slot in await self._finished_calls():
                for response in self._responses(slot):
                    yield response
        if self._fatal:
            raise ProviderError(self._fatal)

    def _is_unfinished(self) -> bool:
        """Whether requests are left; after a fatal error, whether some are in flight, for a while."""
        is_in_flight = any(slot.unanswered for slot in self._slots)
        if self._fatal:
            return is_in_flight and time.monotonic() < self._end
        if not is_in_flight and not self._waiting:
            self._waiting.extend(islice(self._requests, 1))
        return is_in_flight or bool(self._waiting)

    async def _finished_calls(self) -> list[_Slot]:
        """The workers that have replied or died; waits for the first one, and says so if Ray has not started all."""
        calls = {slot.call: slot for slot in self._slots if slot.call is not None}
        seconds = min(_START_NOTICE, max(0.0, self._end - time.monotonic()))
        done, _ = await asyncio.wait(calls, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        n_starting = sum(not slot.is_started for slot in self._slots)
        if not done and n_starting:
            wanted = f"{n_starting} of {self._n_workers} workers wait for a place in Ray (processors, GPUs)"
            self._notice(f"{wanted}; the others go on")
        return [calls[call] for call in done]

    def _next_block(self, slot: _Slot) -> list[Request]:
        """The next requests for a worker.

        A model in the worker gets smaller blocks at the end, so that all workers end at about the same time. Of
        requests to a service, none is taken before it can be given out: until then it costs nothing.
        """
        room = self._most - len(slot.unanswered)
        if room < self._fewest:
            return []
        ahead = self._most * self._n_workers if self._is_local else room
        self._waiting.extend(islice(self._requests, max(0, ahead - len(self._waiting))))
        if self._is_local:
            room = min(room, max(_RESERVE, len(self._waiting) // (2 * self._n_workers)), _BLOCK)
        return [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]

    def _call(self, slot: _Slot, block: Sequence[Request]) -> None:
        """Gives requests to a worker, and asks for its responses."""
        slot.unanswered.update((request.request_key, request) for request in block)
        self._context.in_doubt.update(request.request_key for request in block)
        slot.call = asyncio.wrap_future(slot.actor.exchange.remote(block).future())

    def _responses(self, slot: _Slot) -> Iterator[Response]:
        """The responses of a finished call; if the worker has died, errors for requests that can't be sent again."""
        assert slot.call is not None  # it has finished
        call, slot.call = slot.call, None
        try:
            reply = call.result()
        except self._ray.exceptions.RayActorError:
            yield from self._give_up_or_repeat(slot)
            self._replace(slot)
            return
        except self._ray.exceptions.RayError as error:
            raise ProviderError(f"a worker failed: {str(error).strip().splitlines()[-1]}") from error
        slot.is_started = True
        self._facts.update(reply.runtime_info)
        for notice in reply.notices:
            self._notice(notice)
        for response in reply.responses:
            self._deaths_in_a_row = 0
            request = slot.unanswered.pop(response.request_key)
            yield self._with_lost(response, request, self._context.in_doubt.pop(response.request_key) - 1)
        if reply.fatal is not None:
            if self._fatal is None:
                self._fatal, self._end = reply.fatal, time.monotonic() + _LAST_CALL
            for key in slot.unanswered:  # the worker knows which of them may have been charged
                self._context.in_doubt[key] += reply.in_doubt.get(key, 0) - 1
            slot.unanswered.clear()

    def _give_up_or_repeat(self, slot: _Slot) -> Iterator[Response]:
        """Puts requests of a dead worker first in line; yields errors for those that must not be sent again."""
        may_resend, repeated = self._context.may_resend, []
        for key, request in slot.unanswered.items():
            self._deaths_by_request[key] += 1
            if self._deaths_by_request[key] >= _MOST_TRIES:
                why = f"its worker died, {_MOST_TRIES} times"
            elif may_resend is not None and not may_resend(request):
                why = "its worker died, and there is no money to ask it again"
            else:
                repeated.append(request)
                continue
            failed = Response(request_key=key, error=why, model=self.model)
            yield self._with_lost(failed, request, self._context.in_doubt.pop(key))
        self._waiting.extendleft(reversed(repeated))
        slot.unanswered = {}

    def _with_lost(self, response: Response, request: Request, lost: int) -> Response:
        """The response with the highest usage of so many attempts that died with their workers."""
        most = self.max_usage(request) if lost > 0 else None
        return response if most is None else with_lost(response, most, lost)

    # --- workers ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._ray = self._open.enter_context(connected(self._address, self._n_workers))
        limits = (self.capabilities.rpm, self.capabilities.tpm)
        if any(limits):
            counter = self._ray.remote(RateLimits)
            self._limits = counter.options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote(*limits)
        self._slots = [_Slot(number) for number in range(self._n_workers)]
        for slot in self._slots:
            self._start_worker(slot)

    def _start_worker(self, slot: _Slot) -> None:
        options = {"num_cpus": 1, "num_gpus": self._n_gpus}
        slot.actor = self._ray.remote(Worker).options(**options).remote(*self._opens, self._limits)
        slot.is_started = False
        self._call(slot, [])

    def _replace(self, slot: _Slot) -> None:
        self.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > _MOST_DEATHS * self._n_workers:
            raise ProviderError(
                f"{self._deaths_in_a_row} workers died one after another without a response; look at memory, and at"
                " whether a worker can open the model"
            )
        self._notice(f"a worker died and is replaced ({self.deaths} so far)")
        self._kill([slot.actor])  # Ray may have lost only the connection to it
        self._start_worker(slot)

    def _kill(self, actors: Iterable[Any]) -> None:
        for actor in actors:
            with suppress(Exception):
                self._ray.kill(actor)

    def _notice(self, text: str) -> None:
        """Notifies the user, once for each text."""
        if text not in self._shown:
            self._shown.add(text)
            self._context.notify(text)
