"""The one thread that a local model lives on; calls that wait for it are answered together with the one at work.

A model writes many answers at a time, and the last of a call's answers leave it little to do: a step for three rows
takes half of what one for thirty takes. So a call at work takes in the requests of those that wait, when rows are free:


    rows │ call 1: ███████████████▆▅▃▂▁
         │ call 2:                ▁▂▃▅▆███████████   each ends when its own last answer is there
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mbbq_gen.records import Request, Response

Stop = Callable[[], bool]
"""Says whether to stop."""
More = Callable[[], Sequence[Request]]
"""Gives further requests, where there are any."""
Work = Callable[[Sequence[Request], Stop, More], Iterator[Response]]
"""What a model makes of requests; it may ask for more of them when it has room."""


@dataclass(eq=False)
class _Call:
    """Some requests, and whoever waits for their responses."""

    requests: Sequence[Request]
    joins: bool
    """Whether it may be answered together with others."""
    arrived: asyncio.Queue[Response | None] = field(default_factory=asyncio.Queue)
    """Its responses, then None."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    unanswered: int = 0
    is_taken: bool = False
    is_closed: bool = False
    """Whether nobody waits for it any more."""
    has_ended: bool = False
    failure: BaseException | None = None

    def give(self, response: Response) -> None:
        """Hands a response over; the last one ends the call."""
        self.loop.call_soon_threadsafe(self.arrived.put_nowait, response)
        self.unanswered -= 1
        if not self.unanswered:
            self.end()

    def end(self, failure: BaseException | None = None) -> None:
        """Says that nothing more comes, and why; once."""
        if not self.has_ended:
            self.has_ended, self.failure = True, failure
            self.loop.call_soon_threadsafe(self.arrived.put_nowait, None)


class JointWork:
    """The thread, and the calls that wait for it."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._waiting: deque[_Call] = deque()
        self._lock = threading.Lock()

    async def respond(self, requests: Sequence[Request], work: Work, *, joins: bool) -> AsyncGenerator[Response, None]:
        """What the work makes of the requests, on the thread; closing the generator stops it after the current step.

        `joins`: calls that join are answered together, by the work of the first of them.
        """
        call = _Call(requests, joins, unanswered=len(requests))
        self._waiting.append(call)
        if self._executor is None:  # one, since torch keeps its thread count a thread
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mbbq-model")
        asyncio.get_running_loop().run_in_executor(self._executor, self._serve, call, work)
        try:
            while (response := await call.arrived.get()) is not None:
                yield response
            if call.failure is not None:
                raise call.failure
        finally:
            if not self._take(call) and not call.has_ended:
                call.is_closed = True
                while await call.arrived.get() is not None:
                    pass

    def close(self) -> None:
        """Ends the thread when its work is done."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    # --- on the thread -----------------------------------------------------------------------------------------------

    def _serve(self, first: _Call, work: Work) -> None:
        """Answers a call, and those that join it; nothing, where it was answered with an earlier one or closed."""
        if not self._take(first):
            return
        served = _Served([first])
        try:
            for response in work(first.requests, served.is_closed, lambda: served.join(self._joining(first))):
                served.give(response)
        except BaseException as error:  # whoever waits has to hear of it, in every call
            served.end(error)
        else:
            served.end()

    def _take(self, call: _Call) -> bool:
        """Whether the call was waiting; it is not any more."""
        with self._lock:
            was_waiting, call.is_taken = not call.is_taken, True
            if was_waiting:
                self._waiting.remove(call)
        return was_waiting

    def _joining(self, first: _Call) -> Iterator[_Call]:
        """The next call that may be answered together with the one at work, if there is one."""
        with self._lock:
            call = next((call for call in self._waiting if first.joins and call.joins), None)
        if call is not None and self._take(call):
            yield call


class _Served:
    """The calls that one piece of work answers."""

    def __init__(self, calls: Sequence[_Call]) -> None:
        self._calls: list[_Call] = []
        self._askers: defaultdict[str, deque[_Call]] = defaultdict(deque)
        self.join(calls)

    def join(self, calls: Sequence[_Call] | Iterator[_Call]) -> list[Request]:
        """Takes calls in; their requests."""
        added = [*calls]
        for call in added:
            self._calls.append(call)
            for request in call.requests:
                self._askers[request.request_key].append(call)
        return [request for call in added for request in call.requests]

    def give(self, response: Response) -> None:
        """Hands a response to the call that waits for it."""
        self._askers[response.request_key].popleft().give(response)

    def end(self, failure: BaseException | None = None) -> None:
        """Says to all that nothing more comes."""
        for call in self._calls:
            call.end(failure)

    def is_closed(self) -> bool:
        """Whether some were closed and none is left that anybody waits for."""
        closed = [call for call in self._calls if call.is_closed]
        for call in closed:
            call.end()
        return bool(closed) and all(call.has_ended for call in self._calls)
