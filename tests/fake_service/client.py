"""Starts the fake service in a thread, or in this process as a command, and talks to it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.fake_service.app import Service, Stats


@dataclass(frozen=True)
class FakeServer:
    """A service that runs."""

    root: str  # base URL of Anthropic, Gemini, Azure

    @property
    def openai(self) -> str:
        """Base URL of OpenAI and compatible services."""
        return f"{self.root}/v1"

    def change(self, changes: Mapping[str, Any]) -> None:
        """Changes settings while it runs; tables are merged."""
        self._admin("settings", changes)

    def reset(self) -> None:
        self._admin("reset", {})

    def stats(self) -> Stats:
        found: dict[str, Any] = self._admin("stats")
        found = {name: Counter(value) if isinstance(value, dict) else value for name, value in found.items()}
        return Stats(**found)

    def _admin(self, action: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.root}/admin/{action}", data=data) as reply:
            return json.load(reply)


async def listen(service: Service) -> tuple[web.AppRunner, str]:
    """Starts a service; what stops it, and its root."""
    runner = web.AppRunner(service.app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


@contextmanager
def fake_server(settings: Mapping[str, Any] | None = None, run: Path | None = None) -> Iterator[FakeServer]:
    """A service in a thread; `run` names the run folder whose questions it knows (it may be planned later)."""
    service, loop = Service(dict(settings or {}), run), asyncio.new_event_loop()
    runner, root = loop.run_until_complete(listen(service))
    thread = threading.Thread(target=loop.run_forever, name="fake-service")
    thread.start()
    try:
        yield FakeServer(root)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve() -> None:
    settings, *run = sys.argv[1:]  # JSON, and the folder of the run whose questions it knows
    _, root = await listen(Service(json.loads(settings), Path(run[0]) if run else None))
    os.write(sys.stdout.fileno(), f"{root}\n".encode())
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
