"""A local aiohttp server that gives prepared replies in turn: status, headers, JSON, text or bytes."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.api import PROBED


@dataclass
class ReplyServer:
    """The server's address, and the paths and bodies that it was sent."""

    root: str = ""
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)


@contextmanager
def replying(replies: Sequence[Mapping[str, Any]], tls: ssl.SSLContext | None = None) -> Iterator[ReplyServer]:
    """A server whose replies are `status` (200), `headers`, and `body` (JSON) or `text`; the last one is repeated.

    A reply with `path` is given for every request to that path instead.
    """
    server, left = ReplyServer(), [reply for reply in replies if "path" not in reply]
    by_path = {reply["path"]: reply for reply in replies if "path" in reply}
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def answer(request: web.Request) -> web.Response:
        if request.method == "GET" and request.path in PROBED and request.path not in by_path:
            return web.Response(status=404)
        server.paths.append(request.path)
        server.bodies.append(json.loads(await request.text() or "null"))
        reply = by_path.get(request.path) or (left.pop(0) if len(left) > 1 else left[0])
        text = reply["text"] if "text" in reply else json.dumps(reply["body"])
        headers = {"Content-Type": "application/json", **reply.get("headers", {})}
        return web.Response(status=reply.get("status", 200), body=text.encode(), headers=headers)

    async def serve() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        server.root = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def run() -> None:
        runner = loop.run_until_complete(serve())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
