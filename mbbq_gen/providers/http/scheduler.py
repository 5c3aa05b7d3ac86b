"""Runs requests concurrently, as many at a time as the service can take, with bounded retries.

    request ─► slot, gate, limits ─► attempt ─┬─► answer, or content filter: a Response
                  ▲                           ├─► ParametersChangedError: sent again at once with other parameters
                  └── backoff, counted ◄──────┼─► TransientError: 429, 5xx, broken connection
                                              ├─► this request can't be answered: a Response with `error`
                                              └─► ProviderError: no request can be answered; all stop

In an outage, when requests fail and none succeeds, the gate admits one probe at a time. Failures during an outage do
not count as attempts: a request fails only if others succeed meanwhile. Unless --max-connections is given, the first
request runs alone for a moment: a wrong key or parameter then costs one request, not many.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Request, Response
from mbbq_gen.core.text import duration
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.errors import TransientError, with_lost
from mbbq_gen.providers.http.rate_limits import OutageError, RateLimiter, ServiceGate

if TYPE_CHECKING:
    from mbbq_gen.providers.api.provider import ApiProvider

MOST_REFUSALS: Final = 60
"""Maximum replies with status 429 to one request before it counts as failed."""
_CONNECT_TRIES: Final = 3
"""Attempts to connect to a service that has never answered."""
_MALFORMED_TRIES: Final = 2
"""Attempts of a request whose answers are malformed, since they may be billed."""
_STARTING: Final = frozenset({429, 503, 529})
"""Statuses of a service that is starting or busy: before its first answer they do not count as attempts."""
_JUST_NOW: Final = 1.0
"""Seconds within which an answer and a failure count as simultaneous."""
_BACKOFF: Final = (0.5, 30.0)
"""Maximum backoff after the first failure, and after any: doubled each time, with full jitter."""
_SPREAD: Final = 0.05
"""Jitter, as a share of a pause, so that requests with the same waiting time are not sent together."""
_MOST_CHANGES: Final = 4
"""Maximum refused parameters of one request."""
_MANY_PAUSES: Final = 20
"""Consecutive requests with a waiting time after which the gate closes."""
_LAST_CALL: Final = 10.0
"""Seconds to wait for requests in flight after a fatal error, since their answers are billed."""
_CHARACTERS_A_TOKEN: Final = 2
"""Characters of a token, where the service counts none."""
_ALONE: Final = 0.3
"""Seconds that the first request runs alone; services refuse a key or a parameter in less."""


class ParametersChangedError(Exception):
    """A parameter was refused and is not sent any more: the request must be sent again."""


class RetryPolicy:
    """Counts the failures of one request, each kind up to a maximum; with a `gate`, not those during an outage."""

    def __init__(
        self, most: int, reached: Callable[[], bool], longest_pause: float = 600.0, gate: ServiceGate | None = None
    ) -> None:
        """`most`: maximum attempts. `reached` returns whether the service has ever answered."""
        self._most, self._reached, self._longest_pause, self._gate = most, reached, longest_pause, gate
        self._failures = self._refusals = self._malformed = 0
        self._n_faults = 0
        """Failures of all kinds, counted or not; the backoff grows with them."""
        self._failed_at: float | None = None
        self.last: TransientError
        self.is_suspect = False
        """Whether this request is the cause: another one was sent and answered after it failed."""

    def next_pause(self, fault: TransientError) -> float | None:
        """Seconds until the next attempt after this failure; None if there is none left."""
        self.last = fault
        self._n_faults += 1
        if self._is_last(fault) or (fault.pause or 0.0) > self._longest_pause:
            return None
        if fault.pause is not None:
            return fault.pause * (1 + random.uniform(0.0, _SPREAD)) + 0.01
        first, longest = _BACKOFF
        return random.uniform(0.0, min(longest, first * 2 ** (self._n_faults - 1)))

    def _is_last(self, fault: TransientError) -> bool:
        """Counts a failure; returns whether no attempt is left."""
        if fault.kind == "rate":
            self._refusals += 1
            return self._refusals >= MOST_REFUSALS
        if fault.kind == "malformed":
            self.is_suspect = True  # the service answers, so this request is the cause
            self._malformed += 1
            return self._malformed >= min(self._most, _MALFORMED_TRIES)
        if fault.kind == "connect" and not self._reached():
            self._failures += 1
            return self._failures >= min(self._most, _CONNECT_TRIES)
        gate = self._gate
        if gate is None or (gate.last_answer is None and fault.status not in _STARTING):
            self._failures += 1
            return self._failures >= self._most
        self._count_previous(gate)
        return self._failures + 1 >= self._most  # whether this failure is part of an outage, the next attempt shows

    def _count_previous(self, gate: ServiceGate) -> None:
        """Counts the previous failure if other requests were answered at that time or later: it was no outage."""
        answered = gate.last_answer
        if answered is not None and self._failed_at is not None:
            self.is_suspect = self.is_suspect or gate.last_sent > self._failed_at
            self._failures += self.is_suspect or answered > self._failed_at - _JUST_NOW
        self._failed_at = gate.clock()


class Scheduler:
    """One run over requests; the rate limiter and the adapted parameters belong to the provider."""

    def __init__(self, service: ApiProvider, limiter: RateLimiter, context: ExecutionContext) -> None:
        self._service, self._limiter, self._context = service, limiter, context
        self._attempts, self._patience = service.options.attempts, service.options.patience
        self._done: deque[Response] = deque()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[Response]] = set()
        self._asleep: set[asyncio.Task[Response]] = set()
        """Tasks that wait for another attempt."""
        self._suspects: set[str] = set()
        """Keys of requests that failed while others succeeded."""
        self._requests: Iterator[Request] = iter(())
        self._exhausted = False
        self._fatal: BaseException | None = None

    async def run(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """Yields the responses as they arrive; raises ProviderError if no further request can succeed."""
        self._requests = iter(requests)
        alone = asyncio.get_running_loop().call_later(_ALONE, self._let_others_in)
        try:
            self._start_more()
            while self._tasks or self._done:
                if not self._done:
                    await self._wake.wait()
                    self._wake.clear()
                while self._done:
                    response = self._done.popleft()
                    self._context.in_doubt.pop(response.request_key, None)  # the caller now records its usage
                    yield response
            if self._fatal is not None:
                raise self._fatal
        finally:
            alone.cancel()
            self._exhausted = True  # so that a finished task starts no other
            self._cancel_all()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fail(self, error: BaseException) -> None:
        """Ends the run: sleeping tasks are cancelled at once, requests in flight a little later."""
        if self._fatal is None:
            self._fatal = error
            for task in self._asleep:
                task.cancel()
            asyncio.get_running_loop().call_later(_LAST_CALL, self._cancel_all)

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _let_others_in(self) -> None:
        """Allows concurrent requests, unless the first one has failed and waits."""
        if self._fatal is None and not self._asleep and not self._limiter.gate.is_closed:
            self._limiter.slots.open()
            self._start_more()

    def _start_more(self) -> None:
        """Starts requests while slots are free; no more of them wait for another attempt than may be in flight."""
        slots, asleep = self._limiter.slots, len(self._asleep)
        while (
            self._fatal is None
            and not self._exhausted
            and (not self._limiter.gate.is_closed or not self._tasks)
            and len(self._tasks) - asleep < slots.limit
            and asleep < slots.limit
        ):
            try:
                request = next(self._requests, None)
            except Exception as error:  # the caller's iterator may raise anything
                self._fail(error)
                break
            if request is None:
                self._exhausted = True
                break
            task = asyncio.get_running_loop().create_task(self.answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[Response]) -> None:
        """Stores the result of a task, and starts other requests."""
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is None:
                self._done.append(task.result())
            else:
                self._fail(error)
        self._start_more()
        self._wake.set()

    async def answer(self, request: Request) -> Response:
        """The final response to one request; raises ProviderError if no further request can succeed."""
        service, may_resend = self._service, self._context.may_resend
        tries = RetryPolicy(self._attempts, lambda: service.reached, self._patience, self._limiter.gate)
        sent = 0
        response: Response | None = None
        try:
            while response is None:
                sent += 1
                try:
                    response = await self._send(request, sent)
                except TransientError as fault:
                    if (pause := tries.next_pause(fault)) is None:
                        break
                    self._report_failure(request, tries)
                    await self._sleep(pause, tries)
                    if fault.may_be_paid and may_resend is not None and not may_resend(request):
                        break
        except OutageError as outage:  # the attempt `sent` was not made
            if sent <= self._attempts:
                raise ProviderError(
                    f"{service.name}: no answer from {service.base_url} for {duration(outage.seconds)}: {outage};"
                    " received responses are kept, continue with the same command (--patience sets how long to wait)"
                ) from outage
            sent -= 1
        finally:
            self._suspects.discard(request.request_key)
        # Attempts that may be charged without an answer: an answered one is in doubt until its answer is stored.
        lost = self._context.in_doubt[request.request_key] - (response is not None)
        if response is None:
            response = self._give_up(request, tries.last, sent)
        most = service.max_usage(request) if lost > 0 else None
        return response if most is None else with_lost(response, most, lost)

    async def _sleep(self, seconds: float, tries: RetryPolicy) -> None:
        """Waits for the next attempt without a slot; in an outage, the gate does the waiting."""
        if self._limiter.gate.is_closed and tries.last.pause is None:
            return
        task = asyncio.current_task()
        assert task is not None  # a coroutine always runs in a task
        self._asleep.add(task)
        self._start_more()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._asleep.discard(task)

    def _report_failure(self, request: Request, tries: RetryPolicy) -> None:
        """Tells the gate of a failed request, unless the request is the cause; enough of them close the gate."""
        if tries.is_suspect:
            self._suspects.add(request.request_key)
            return
        limit = self._limiter.slots.limit
        if tries.last.pause is None:
            enough = min(max(3, limit // 4), len(self._tasks) - len(self._suspects))
        else:
            enough = max(_MANY_PAUSES, limit)
        self._limiter.gate.failed(request.request_key, tries.last, max(1, enough))

    def _give_up(self, request: Request, fault: TransientError, sent: int) -> Response:
        """The response of a request without attempts left; raises ProviderError if the service is unavailable."""
        service = self._service
        if fault.kind == "connect" and not service.reached:
            raise ProviderError(
                f"{service.name}: can't reach {service.base_url}: {fault}; check the address and the network"
            )
        if (fault.pause or 0.0) > self._patience:
            raise ProviderError(
                f"{service.name}: {service.base_url} asks to wait {duration(fault.pause or 0.0)} ({fault});"
                " received responses are kept, continue then with the same command (--patience sets the longest wait)"
            )
        self._limiter.slots.open()
        often = f"{sent} times" if sent > 1 else "once"
        return Response(request_key=request.request_key, error=f"sent {often}, last: {fault}", n_attempts=sent)

    async def _send(self, request: Request, number: int) -> Response:
        """Sends a request when the limiter admits it, again at once after a change of parameters."""
        service, limiter, in_doubt, key = self._service, self._limiter, self._context.in_doubt, request.request_key
        size = sum([len(message.content) for message in request.messages])
        for _ in range(_MOST_CHANGES):
            ticket = await limiter.enter(size // _CHARACTERS_A_TOKEN + service.longest_answer(request))
            in_doubt[key] += 1
            try:
                response = await service.attempt(request, number)
                if response.latency_s is not None:
                    usage, text = response.usage, len(response.text or "") + len(response.reasoning or "")
                    written = text // _CHARACTERS_A_TOKEN if usage.output_tokens is None else usage.output_tokens
                    tokens = (usage.input_tokens or size // _CHARACTERS_A_TOKEN) + written
                    limiter.note_answer(ticket, response.latency_s, tokens)
                else:
                    limiter.slots.open()
                    limiter.gate.answered(ticket.sent_at)
                return response
            except ParametersChangedError:
                in_doubt[key] -= 1
            except TransientError as fault:
                limiter.slots.record(ticket.sent_in, time.monotonic() - ticket.sent_at, fault)
                in_doubt[key] -= not fault.may_be_paid
                raise
            except ProviderError:
                in_doubt[key] -= 1
                raise
            finally:
                limiter.slots.release()
        raise ProviderError(f"{service.name}: rejects several settings; see the run's manifest")
