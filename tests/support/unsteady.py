"""A server that fails in one way for a while, or answers only so many requests at a time."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from mbbq_gen.core.records import Request
from tests.support.cases import known

PAGE = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def text_for(request: Request) -> str:
    """What the server answers: a digest of the question, so that a mixed-up answer shows."""
    return hashlib.sha256(request.messages[-1].content.encode()).hexdigest()


@dataclass
class Unsteady:
    """How the server behaves, and what it counted. May be changed while it runs."""

    fault: str | None = None
    """How it fails now: closed, page, hang, loading, or a status; None: not."""
    after: int | None = None
    """Answers after which an outage begins."""
    outage: str = "500"
    seconds: float = 0.5
    """How it looks, and how long it lasts."""
    latency: float = 0.0
    slots: int = 10_000
    """Requests that it works on at a time; it goes on with those whose client has left."""
    poison: frozenset[str] = frozenset()
    """Texts for which it always fails with 500."""
    answered: int = 0
    in_outage: int = 0
    """Requests that came in the outage."""
    by_second: Counter[int] = field(default_factory=Counter)
    """Second of the outage → requests in it."""
    in_flight: int = 0
    peak: int = 0
    root: str = ""
    _port: int = 0
    _began: float = 0.0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _gate: asyncio.Semaphore | None = None
    _runner: web.AppRunner | None = None
    _site: web.TCPSite | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._reply)
        self._gate = asyncio.Semaphore(self.slots)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()
        self.root = f"http://127.0.0.1:{self._port}/v1"

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await known(self._runner).cleanup()

    async def _listen(self) -> None:
        self._site = web.TCPSite(known(self._runner), "127.0.0.1", self._port, backlog=1024, reuse_address=True)
        await self._site.start()
        self._port = self._site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def _fail_for_a_while(self) -> None:
        self.fault, self._began = self.outage, time.monotonic()
        if self.outage == "refused":
            assert self._runner is not None
            await known(self._site).stop()
            for connection in list(self._runner.server.connections):  # type: ignore[union-attr]
                if connection.transport is not None:
                    connection.transport.abort()
        await asyncio.sleep(self.seconds)
        self.fault = None
        if self.outage == "refused":
            await self._listen()

    async def _reply(self, request: web.Request) -> web.Response:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            body = await request.json()
            return await self._failure(request) or await self._answer(body)
        finally:
            self.in_flight -= 1

    async def _failure(self, request: web.Request) -> web.Response | None:
        fault = self.fault
        if fault is None:
            return None
        self.in_outage += 1
        self.by_second[int(time.monotonic() - self._began)] += 1
        if fault in ("closed", "refused"):
            known(request.transport).abort()
            return web.Response()
        if fault == "page":
            return web.Response(status=502, text=PAGE, content_type="text/html")
        if fault == "loading":
            return web.json_response({"error": {"message": "Loading model", "code": 503}}, status=503)
        return web.json_response({"error": {"message": "not now"}}, status=int(fault))

    async def _answer(self, body: Any) -> web.Response:
        question = body["messages"][-1]["content"]
        text = hashlib.sha256(question.encode()).hexdigest()
        if text in self.poison:
            return web.json_response({"error": {"message": "this one never works"}}, status=500)
        async with known(self._gate):
            await asyncio.sleep(self.latency)
        self.answered += 1
        if self.answered == self.after:
            task = asyncio.create_task(self._fail_for_a_while())
            self._tasks.add(task)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 3}
        return web.json_response({"id": "1", "model": "fake", "choices": [choice], "usage": usage})


@contextmanager
def unsteady(**settings: Any) -> Iterator[Unsteady]:
    """A server on this machine, on a thread with an event loop of its own."""
    server, loop, ready = Unsteady(**settings), asyncio.new_event_loop(), threading.Event()

    def serve() -> None:
        loop.run_until_complete(server.start())
        ready.set()
        loop.run_forever()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(10)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
