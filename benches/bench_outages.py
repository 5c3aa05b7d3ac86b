"""What outages and slow servers cost: a server that fails for a while, or answers only so many requests at a time.

    python benches/bench_outages.py outages [--seconds 1,2,5,30,300] [--concurrency 8,64,256] [--kinds refused,…]
    python benches/bench_outages.py slow [--slots 1,4,16] [--latency 0.2,1,10]

outages  1,500 prompts, 300 ms to an answer; after 300 answers the server fails in one way for some seconds
slow     120 prompts (24 where an answer takes 10 s), default options and --timeout 30; the server works on a few
         requests at a time, and goes on with those whose client has left

The servers run in this process, the commands in processes of their own, `--parallel` cells at a time: they mostly wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from aiohttp import web
from fake_api import ENVIRONMENT, questions, say, table

from mbbq_gen.runs.run_folder import RunFolder

_BEFORE = 300
"""Answers before the outage."""
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"
KINDS = ("refused", "closed", "500", "503", "529", "502 page", "429")


@dataclass
class Server:
    """A server with one fault at a time, and what it counted."""

    latency: float
    slots: int = 10_000
    """Requests that it works on at a time."""
    kind: str | None = None
    """How its outage looks."""
    outage_s: float = 0.0
    answered: int = 0
    """Answers that it worked out, whether or not they arrived."""
    in_flight: int = 0
    peak: int = 0
    """Most requests at a time."""
    by_second: Counter[int] = field(default_factory=Counter)
    """Second of the outage → requests in it."""
    port: int = 0
    _ended: bool = False
    _began: float | None = None
    _gate: asyncio.Semaphore | None = None
    _runner: web.AppRunner | None = None
    _site: web.TCPSite | None = None
    _outage: asyncio.Task[None] | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._gate = asyncio.Semaphore(self.slots)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024, reuse_address=True)
        await self._site.start()
        self.port = self._site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop(self) -> None:
        if self._outage is not None:
            self._outage.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _fail(self) -> None:
        """The outage: after it, everything is as before."""
        if self.kind == "refused":
            assert self._runner is not None
            assert self._site is not None
            await self._site.stop()
            for connection in list(self._runner.server.connections):  # type: ignore[union-attr]
                if connection.transport is not None:
                    connection.transport.abort()
        await asyncio.sleep(self.outage_s)
        self._ended = True
        if self.kind == "refused":
            await self._listen()

    async def _answer(self, request: web.Request) -> web.Response:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await request.read()
            return await self._answer_or_fail(request)
        finally:
            self.in_flight -= 1

    async def _answer_or_fail(self, request: web.Request) -> web.Response:
        if self._began is not None and not self._ended:
            self.by_second[int(time.monotonic() - self._began)] += 1
            if self.kind in ("closed", "refused"):
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            if self.kind == "502 page":
                return web.Response(status=502, text=_PAGE, content_type="text/html")
            return web.json_response({"error": {"message": "not now"}}, status=int(self.kind or 500))
        assert self._gate is not None
        async with self._gate:
            await asyncio.sleep(self.latency)
        self.answered += 1
        if self.kind is not None and self.answered >= _BEFORE and self._began is None:
            self._began = time.monotonic()
            self._outage = asyncio.create_task(self._fail())
        choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 60, "completion_tokens": 1}
        return web.json_response({"id": "1", "model": "fake", "choices": [choice], "usage": usage})


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int
    seconds: float
    answered: int
    requests: int
    sent: int
    """Attempts of the requests that have a response."""
    output: str


async def run(folder: Path, server: Server, *options: str) -> Ended:
    """One run against the server."""
    model = ["--model", "openai:fake", "--base-url", f"http://127.0.0.1:{server.port}/v1"]
    command = [sys.executable, "-m", "mbbq_gen", "run", str(folder), *model, "--benchmark", "starter", "--json"]
    log, began = folder.with_suffix(".log"), time.monotonic()
    with log.open("w", encoding="utf-8") as stream:
        process = await asyncio.create_subprocess_exec(
            *command, *options, stdout=stream, stderr=stream, env={**os.environ, **ENVIRONMENT}
        )
        code = await process.wait()
    seconds = time.monotonic() - began
    with RunFolder(folder).open_store(read_only=True) as store:
        progress = store.progress()
        (sent,) = store.query("SELECT total(json_extract(record, '$.n_attempts')) FROM responses").fetchone()
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Ended(code, seconds, progress.answered, progress.requests, int(sent), next(iter(lines[-1:]), ""))


Row = list[str]


async def outage(folder: Path, kind: str, seconds: float, concurrency: int) -> Row:
    """One cell of the first table."""
    server = Server(0.3, kind=kind, outage_s=seconds)
    await server.start()
    name = folder / f"{kind.replace(' ', '-')}-{seconds:g}-{concurrency}"
    ended = await run(name, server, *questions("en", 375, "bare,letters", "--max-connections", str(concurrency)))
    await server.stop()
    most = max(server.by_second.values(), default=0)
    if kind == "refused":  # nobody can count refused connections but the client: all of them, at most in one second
        most = ended.sent - ended.answered
    lost = ended.requests - ended.answered
    if ended.code:
        say(f"{name.name}: {ended.output}")
    return [kind, f"{seconds:g} s", str(concurrency), str(most), str(lost), str(ended.code), f"{ended.seconds:.0f} s"]


async def slow(folder: Path, slots: int, latency: float) -> Row:
    """One cell of the second table."""
    server = Server(latency, slots=slots)
    await server.start()
    each = 6 if latency >= 10 else 30
    ended = await run(
        folder / f"slow-{slots}-{latency:g}", server, *questions("en", each, "bare,letters", "--timeout", "30")
    )
    await asyncio.sleep(min(latency, 1.0))
    await server.stop()
    ideal = ended.requests * latency / slots
    if ended.code:
        say(f"slow-{slots}-{latency:g}: {ended.output}")
    arrived = f"{ended.answered} of {ended.requests}"
    whole = f"{ended.seconds:.0f} s ({ideal:.0f} s)"
    return [str(slots), f"{latency:g} s", arrived, str(server.answered), str(server.peak), str(ended.code), whole]


async def all_of(cells: list[Callable[[], Awaitable[Row]]], parallel: int) -> list[Row]:
    """All cells, so many at a time, in their order."""
    places = asyncio.Semaphore(parallel)

    async def one(cell: Callable[[], Awaitable[Row]]) -> Row:
        async with places:
            row = await cell()
            say(" | ".join(row))
            return row

    return list(await asyncio.gather(*(one(cell) for cell in cells)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("outages", "slow"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", default="1,2,5,30,300")
    parser.add_argument("--concurrency", default="8,64,256")
    parser.add_argument("--slots", default="1,4,16")
    parser.add_argument("--latency", default="0.2,1,10")
    parser.add_argument("--parallel", type=int, default=6, help="cells at a time")
    parser.add_argument("--folder", type=Path, help="where runs are written; default: a temporary folder")
    given = parser.parse_args()
    numbers: dict[str, list[Any]] = {
        name: [float(text) for text in getattr(given, name).split(",")]
        for name in ("seconds", "concurrency", "slots", "latency")
    }
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        cells: list[Callable[[], Awaitable[Row]]]
        if given.table == "outages":
            titles = ["failure", "for", "at a time", "most in a second", "lost", "exit code", "whole run"]
            triples = product(given.kinds.split(","), numbers["seconds"], numbers["concurrency"])
            cells = [partial(outage, folder, kind, seconds, int(most)) for kind, seconds, most in triples]
        else:
            titles = ["slots", "an answer", "arrived", "worked out", "most in flight", "exit code", "run (ideal)"]
            pairs = product(numbers["slots"], numbers["latency"])
            cells = [partial(slow, folder, int(slots), latency) for slots, latency in pairs]
        print(table(titles, asyncio.run(all_of(cells, given.parallel))))


if __name__ == "__main__":
    main()
