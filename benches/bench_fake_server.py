"""What a request costs the fake server, over its own HTTP/1.1 and over aiohttp's server.

    python benches/bench_fake_server.py [--requests 20000] [--rounds 5] [--connections 64]

The same service answers the same questions behind three servers: ours, aiohttp's low-level server, and aiohttp's
application with one route. Each is a process of its own, asked by the same plain client over kept connections, in turn;
what is measured is the processor time of the server's process, so that neither the client nor others count. Faults and
delays, which aiohttp's side would need more code for, are left out in its favour.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fake_api import ENVIRONMENT, say, table

from mbbq_gen.fake_server.http import HttpRequest, listen
from mbbq_gen.fake_server.scenario import read_scenario
from mbbq_gen.fake_server.service import FakeService

BODY = json.dumps(
    {"model": "fake", "messages": [{"role": "user", "content": "Who was it, the first? " * 20}], "max_tokens": 16}
).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer fake\r\naccept: */*\r\n"
REQUEST = HEAD + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


async def _ours(service: FakeService) -> int:
    return (await listen(service.handle, "127.0.0.1", 0)).port


async def _aiohttp(service: FakeService, *, application: bool) -> int:
    from aiohttp import web

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = await request.read()
        reply = service.handle(HttpRequest(request.method, request.path, {}, headers, body, is_local=True))
        if reply.on_end is not None:
            reply.on_end(True)
        return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)

    runner: web.BaseRunner
    if application:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", handle)
        runner = web.AppRunner(app, access_log=None)
    else:
        runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return int(runner.addresses[0][1])


SERVERS: dict[str, Callable[[FakeService], object]] = {
    "ours": _ours,
    "aiohttp, web.Server": lambda service: _aiohttp(service, application=False),
    "aiohttp, web.Application": lambda service: _aiohttp(service, application=True),
}


async def serve(name: str) -> None:
    """Serves until it is killed; says its port."""
    port = await SERVERS[name](FakeService(read_scenario({}, "bench")))  # type: ignore[misc]
    print(port, flush=True)
    await asyncio.Event().wait()


async def ask(port: int, requests: int, connections: int) -> None:
    """Asks so often over so many connections that stay."""

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // connections):
            writer.write(REQUEST)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))


def processor_seconds(process: int) -> float:
    """What a process has used of processors."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost(name: str, requests: int, connections: int) -> float:
    """Microseconds of a processor a request; the first tenth is not counted."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", name], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        asyncio.run(ask(port, requests // 10, connections))
        before = processor_seconds(process.pid)
        asyncio.run(ask(port, requests, connections))
        return (processor_seconds(process.pid) - before) / (requests // connections * connections) * 1e6
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--serve", choices=list(SERVERS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve))
        return
    found: dict[str, list[float]] = {name: [] for name in SERVERS}
    for _ in range(given.rounds):
        for name, costs in found.items():
            costs.append(cost(name, given.requests, given.connections))
            say(f"  {name}: {costs[-1]:.0f} µs")
    costs_of = {name: statistics.median(costs) for name, costs in found.items()}
    rows = [
        (name, f"{each:.0f} µs", f"{1e6 / each:,.0f}", f"{each / costs_of['ours']:.2f} ×")
        for name, each in costs_of.items()
    ]
    print(table(("server", "of a processor a request", "requests a second of one core", "beside ours"), rows))


if __name__ == "__main__":
    main()
