"""Requests in, responses out: as many at a time as the service can take, each tried again as often as makes sense.

    request ─► slot, gate, limits ─► sent ─► reply ─┬─► answer, or filtered: a Response
                  ▲                                 ├─► a parameter refused: learned, sent again without it
                  └── waits, and is counted ◄───────┼─► transient: 429, 5xx, broken connection
                                                    ├─► this request can't be answered: a Response with `error`
                                                    └─► no request can: ProviderError, and all stop

In an outage, where requests fail and none succeeds, the gate lets one probe through at a time. Such failures do not
count as tries: a request is given up only if it fails while others succeed.

The first request goes alone for a moment: what stops them all is refused before a model begins to write. An answer
takes longer, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random, wait_random_exponential

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Request, Response
from mbbq_gen.core.text import duration
from mbbq_gen.providers.http.concurrency import OutageError, ServiceGate
from mbbq_gen.providers.http.errors import ApiError, TransientError, classify_error
from mbbq_gen.providers.http.rate_limits import RateLimiter
from mbbq_gen.providers.http.transport import error_payload
from mbbq_gen.providers.http.usage_bounds import beside, max_usage, times, together

if TYPE_CHECKING:
    from mbbq_gen.providers.api.provider import ApiProvider
    from mbbq_gen.providers.http.transport import HttpResponse


LONGEST_PAUSE: Final = 600.0
"""Seconds to wait for a service, unless the user says otherwise (`--patience`)."""
MOST_REFUSALS: Final = 60
"""Times that one request may have to wait (429) before it counts as failed."""
_CONNECT_TRIES: Final = 3
"""Tries to reach a service that has never answered."""
_STARTING: Final = frozenset({429, 503, 529})
"""Statuses of a service that is starting or busy: before its first answer they do not count as tries."""
_JUST_NOW: Final = 1.0
"""Seconds within which an answer and a failure count as simultaneous."""
_BACKOFF: Final = wait_random_exponential(multiplier=0.5, max=30.0)
_SPREAD: Final = wait_random(0.0, 0.1)
"""Part of a pause that is added to it, so that requests with the same waiting time are not sent together."""


class RetryPolicy:
    """Counts the failures of one request and says when it has had enough of them."""

    def __init__(self, most: int, reached: Callable[[], bool], longest_pause: float = LONGEST_PAUSE) -> None:
        """`reached` tells whether the service has ever answered."""
        self._most = most
        self._reached = reached
        self._longest_pause = longest_pause
        self.failures = 0
        self.refusals = 0
        self.last = TransientError("broken", "not sent yet")
        """The last failure."""

    def stop(self, state: RetryCallState) -> bool:
        """Whether the last failure was one too many (for tenacity)."""
        fault = _fault(state)
        self.last = fault
        if (fault.pause or 0.0) > self._longest_pause:
            return True
        if fault.kind == "rate":
            self.refusals += 1
            return self.refusals >= MOST_REFUSALS
        if fault.kind == "connect" and not self._reached():
            self.failures += 1
            return self.failures >= min(self._most, _CONNECT_TRIES)
        return self.count(fault) >= self._most

    def count(self, fault: TransientError) -> int:
        """Counts a failure, and returns how many have counted."""
        self.failures += 1
        return self.failures

    def wait(self, state: RetryCallState) -> float:
        """Seconds until the next try (for tenacity)."""
        pause = _fault(state).pause
        return _BACKOFF(state) if pause is None else pause * (1 + _SPREAD(state)) + 0.01


class SharedRetryPolicy(RetryPolicy):
    """Tries of a request among others: a failure counts only if others succeed, and tells the gate of an outage."""

    def __init__(self, most: int, reached: Callable[[], bool], longest_pause: float, gate: ServiceGate) -> None:
        super().__init__(most, reached, longest_pause)
        self._gate = gate
        self._last: float | None = None
        self.is_suspect = False
        """Whether another request was sent and answered after this one had failed: then it is not the service."""

    def count(self, fault: TransientError) -> int:
        """Counts the failure before, if others succeeded at the time; the last one counts as long as it is the last."""
        answered = self._gate.last_answer
        if answered is None and fault.status not in _STARTING:
            return super().count(fault)
        if answered is not None and self._last is not None:
            self.is_suspect = self.is_suspect or self._gate.last_sent > self._last
            self.failures += self.is_suspect or answered > self._last - _JUST_NOW
        self._last = self._gate.now()
        return self.failures + 1


def _fault(state: RetryCallState) -> TransientError:
    fault = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(fault, TransientError)
    return fault


def retrying(tries: RetryPolicy, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> AsyncRetrying:
    """Tries again on TransientError, as `tries` says; what can't be fixed comes out as the last TransientError."""
    return AsyncRetrying(
        stop=tries.stop, wait=tries.wait, retry=retry_if_exception_type(TransientError), sleep=sleep, reraise=True
    )


_LESSONS: Final = 4
"""Refused parameters that one request may run into."""
_MANY_TOLD: Final = 20
"""Requests in a row that get a waiting time before all others wait as well."""
_MOST_WAITING: Final = 4096
"""Requests that may wait for another try while others are sent: what is known of them is held in memory."""
_BYTES_A_TOKEN: Final = 5
"""More bytes than that to a token are rare: a longer text was not kept to the longest answer."""
_LAST_CALL: Final = 10.0
"""Seconds that answers under way are waited for when the rest is stopped: they are paid for."""


_ALONE: Final = 0.3
"""Seconds that the first request is alone: services refuse a key or a parameter within them, answers take longer."""


class _LessonError(Exception):
    """A parameter was refused and is left out from now on: send again at once."""


class TokenEstimator:
    """How many tokens a request will take, from the answers so far."""

    def __init__(self) -> None:
        self._characters = 0
        self._read = 0.0
        self._written = 0.0
        self._squares = 0.0
        self._answers = 0

    def expect(self, characters: int, most: int, at_once: int) -> float:
        """Tokens in and out of a request.

        Before the first answer, the longest one is expected. Later the mean of the answers, with what makes the sum of
        those under way exceed it rarely (two standard errors).

        Args:
            characters: of the request.
            most: tokens that it may write at most.
            at_once: requests under way.
        """
        if not self._answers:
            return characters * 0.5 + most
        mean = (self._written + most) / (self._answers + 1)
        spread = math.sqrt(max(0.0, self._squares / self._answers - (self._written / self._answers) ** 2))
        wrote = min(most, mean + 2 * spread / math.sqrt(max(1, at_once)))
        return characters * self._read / self._characters + wrote

    def learn(self, characters: int, response: Response) -> float:
        """Takes note of an answer, and returns its tokens; estimated from the text where the service reported none."""
        usage, text = response.usage, len(response.text or "") + len(response.reasoning or "")
        read = usage.input_tokens or characters * 0.5
        written = text * 0.5 if usage.output_tokens is None else usage.output_tokens
        self._characters += max(1, characters)
        self._read += read
        self._written += written
        self._squares += written * written
        self._answers += 1
        return read + written


class Scheduler:
    """One go at answering requests. Made anew for each; the pace and what was learned outlive it."""

    def __init__(self, provider: ApiProvider, pace: RateLimiter) -> None:
        self._provider = provider
        self._pace = pace
        self._guess = TokenEstimator()
        self._done: deque[Response] = deque()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._asleep: dict[asyncio.Task[None], bool] = {}
        """Tasks that wait for another try, and whether the service said how long."""
        self._suspects: set[str] = set()
        """Requests that failed while others succeeded."""
        self._requests: Iterator[Request] = iter(())
        self._exhausted = False
        self._fatal: BaseException | None = None

    async def answers(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """The responses as they come.

        Raises:
            ProviderError: where no further request can succeed; answers that were under way come before it.
        """
        self._requests = iter(requests)
        self._provider.prepare()
        alone = asyncio.get_running_loop().call_later(_ALONE, self._let_others_in)
        try:
            self._start_more()
            while self._tasks and self._fatal is None:
                await self._wake.wait()
                self._wake.clear()
                while self._done:
                    yield self._next_done()
            if self._fatal is not None:
                await self._last_call()
            while self._done:
                yield self._next_done()
            if self._fatal is not None:
                raise self._fatal
        finally:
            alone.cancel()
            await self._stop()

    def _let_others_in(self) -> None:
        """Ends the time in which the first request is alone, unless it has failed already and waits."""
        if self._fatal is None and not self._asleep and not self._pace.gate.is_closed:
            self._pace.slots.open()
            self._start_more()

    def _next_done(self) -> Response:
        """A response that goes to the caller: from now on it is for the caller to say what it took."""
        response = self._done.popleft()
        self._provider.in_doubt.pop(response.request_key, None)
        return response

    async def _last_call(self) -> None:
        """Waits a little for what is under way; what sleeps until another try is given up."""
        for task in self._asleep:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_CALL)

    async def _stop(self) -> None:
        """Ends all that is under way; whoever ends makes room, which nobody must take any more."""
        self._exhausted = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_more(self) -> None:
        """Takes requests while there is room for them; those that wait for another try take room as well.

        Only those with a waiting time from the service do not: it answers others meanwhile.
        """
        slots, told = self._pace.slots, sum(self._asleep.values())
        while (
            self._fatal is None
            and not self._exhausted
            and (not self._pace.gate.is_closed or not self._tasks)
            and len(self._tasks) - len(self._asleep) < slots.limit
            and len(self._asleep) - told < slots.limit
            and len(self._tasks) < slots.most + _MOST_WAITING
        ):
            try:
                request = next(self._requests, None)
            except Exception as error:  # whatever the caller's requests come from
                self._fatal = error
                break
            if request is None:
                self._exhausted = True
                break
            task = asyncio.get_running_loop().create_task(self._answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._fatal is None:
            self._fatal = error
        self._start_more()
        self._wake.set()

    async def _answer(self, request: Request) -> None:
        self._done.append(await self.answer(request))
        self._wake.set()

    async def answer(self, request: Request) -> Response:
        """What comes back for one request in the end.

        Raises:
            ProviderError: where no further request can succeed.
        """
        try:
            return await self._send(request, 1)
        except TransientError as first:
            fault = first
        except OutageError as outage:
            raise self._away(outage) from outage
        options, doubts, sent = self._provider.options, self._provider.in_doubt, 1
        tries = SharedRetryPolicy(options.attempts, lambda: self._provider.reached, options.patience, self._pace.gate)
        try:
            async for attempt in retrying(tries, lambda seconds: self._sleep(seconds, request, tries)):
                with attempt:
                    if sent == 1 and attempt.retry_state.attempt_number == 1:
                        raise fault
                    if fault.may_be_paid and not self._provider.may_resend(request):
                        break
                    sent += 1
                    try:
                        response = await self._send(request, sent)
                    except TransientError as again:
                        fault = again
                        raise
                    return self._with_lost(request, response, doubts[request.request_key] - 1)
        except TransientError:
            pass  # the last fault is at hand
        except OutageError as outage:
            if sent <= options.attempts:
                raise self._away(outage) from outage
            sent -= 1
        finally:
            self._suspects.discard(request.request_key)
        return self._with_lost(request, self._gave_up(request, fault, sent), doubts[request.request_key])

    def _with_lost(self, request: Request, response: Response, lost: int) -> Response:
        """The response, with the tokens of so many tries before it that may have been paid."""
        most = self._provider.max_usage(request) if lost > 0 else None
        if most is None:
            return response
        return response.model_copy(update={"unmetered_usage": together(response.unmetered_usage, times(most, lost))})

    async def _sleep(self, seconds: float, request: Request, tries: SharedRetryPolicy) -> None:
        """Waits for another try without a slot; in an outage at the gate instead."""
        task, gate, limit = asyncio.current_task(), self._pace.gate, self._pace.slots.limit
        is_told = tries.last.pause is not None
        if tries.is_suspect:
            self._suspects.add(request.request_key)
        else:
            others = len(self._tasks) - len(self._suspects)
            enough = max(_MANY_TOLD, limit) if is_told else min(max(3, limit // 4), others)
            gate.failed(request.request_key, tries.last, max(1, enough))
        if task not in self._tasks or task is None:
            await asyncio.sleep(seconds)
            return
        if gate.is_closed and not is_told:
            return
        self._asleep[task] = is_told
        self._start_more()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._asleep.pop(task, None)

    def _away(self, outage: OutageError) -> ProviderError:
        provider = self._provider
        return ProviderError(
            f"{provider.name}: no answer from {provider.base_url} for {duration(outage.seconds)}: {outage}; received"
            " responses are kept, continue with the same command (--patience sets how long to wait)"
        )

    def _gave_up(self, request: Request, fault: TransientError, sent: int) -> Response:
        """A request that failed once too often: recorded, or fatal where the service can't be had at all."""
        provider = self._provider
        if fault.kind == "connect" and not provider.reached:
            raise ProviderError(
                f"{provider.name}: can't reach {provider.base_url}: {fault}; check the address and the network"
            )
        if (fault.pause or 0.0) > provider.options.patience:
            raise ProviderError(
                f"{provider.name}: {provider.base_url} asks to wait {duration(fault.pause or 0.0)} ({fault});"
                " received responses are kept, continue then with the same command (--patience sets the longest wait)"
            )
        self._pace.slots.open()
        times = f"{sent} times" if sent > 1 else "once"
        return Response(request_key=request.request_key, error=f"sent {times}, last: {fault}", n_attempts=sent)

    async def _send(self, request: Request, attempt: int) -> Response:
        doubts = self._provider.in_doubt
        for _ in range(_LESSONS):
            try:
                return await self._send_once(request, attempt)
            except _LessonError:
                doubts[request.request_key] -= 1
            except TransientError as fault:
                doubts[request.request_key] -= not fault.may_be_paid
                raise
            except ProviderError:
                doubts[request.request_key] -= 1
                raise
        raise ProviderError(f"{self._provider.name}: rejects several settings; see the run's manifest")

    async def _send_once(self, request: Request, attempt: int) -> Response:
        provider, pace = self._provider, self._pace
        body = provider.body_of(request)
        characters = sum(len(message.content) for message in request.messages)
        expected = self._guess.expect(characters, provider.longest_answer(request), pace.slots.in_use)
        ticket = await pace.enter(expected)
        started = time.perf_counter()
        provider.in_doubt[request.request_key] += 1
        try:
            reply = await provider.post(body)
            latency = round(time.perf_counter() - started, 4)
            provider.reached = True
            payload, error = self._read(reply)
            pace.note_limits(reply.headers)
            if error is not None:
                response = await self._handle(request, body, error, attempt, reply)
                pace.gate.answered(ticket.sent_at)
                return response
            response = provider.read(
                request,
                payload,
                reply.headers,
                truncated_at=len(reply.body) if reply.is_cut else None,
                latency_s=latency,
                n_attempts=attempt,
            )
            pace.note_answer(ticket, latency, self._guess.learn(characters, response))
        except TransientError as fault:
            pace.slots.record(ticket.sent_in, time.perf_counter() - started, fault)
            raise
        finally:
            pace.leave()
        provider.answered = True
        response = self._with_uncounted(response, body)
        provider.notice(response)
        return response

    def _read(self, reply: HttpResponse) -> tuple[Any, ApiError | None]:
        """The JSON of a reply, and what failed where it is no answer."""
        is_answer = reply.status == 200 and not reply.is_page
        payload = reply.json() if is_answer else error_payload(reply)
        return payload, self._provider.error_in(reply, payload)

    def _with_uncounted(self, response: Response, body: Mapping[str, JsonValue]) -> Response:
        """The response, with the most that it can have taken where the service did not count it."""
        usage = response.usage
        if usage.input_tokens and usage.output_tokens:
            return response
        most = max_usage(body, self._provider.length_names)
        written = len(f"{response.text or ''}{response.reasoning or ''}".encode())
        if most and written > _BYTES_A_TOKEN * (most.output_tokens or 0):  # longer than the request allows
            most = most.model_copy(update={"output_tokens": written})
        missing = most and beside(usage, most, has_text=bool(response.text))
        return response.model_copy(update={"unmetered_usage": missing}) if missing else response

    async def _handle(
        self, request: Request, body: Mapping[str, JsonValue], error: ApiError, attempt: int, reply: HttpResponse
    ) -> Response:
        """What a failure comes to: a response, a lesson, another try or the end."""
        provider = self._provider
        verdict = classify_error(error)
        if provider.may_pass(error, verdict):
            raise provider.fault_of(error)
        if verdict in {"unsupported_parameter", "other_api"} and (
            provider.body_of(request) != body or provider.learn_from(error, body)
        ):
            raise _LessonError
        if verdict in {"key", "model", "quota_exhausted", "other_api", "not_the_service"}:
            raise await provider.lasting(error, verdict)
        self._pace.slots.open()
        return provider.failure(request.request_key, error, reply.headers).model_copy(update={"n_attempts": attempt})
