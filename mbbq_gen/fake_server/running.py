"""Runs the fake server: until a signal comes, or in a thread beside whoever wants to talk to it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mbbq_gen.errors import UsageError
from mbbq_gen.fake_server.http import listen
from mbbq_gen.fake_server.service import FakeService


@dataclass(frozen=True)
class Address:
    """Where the server is to be reached."""

    host: str
    port: int

    @property
    def root(self) -> str:
        """The base URL of Anthropic's and Gemini's clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def openai(self) -> str:
        """The base URL of OpenAI's clients."""
        return f"{self.root}/v1"


async def serve(
    service: FakeService, host: str, port: int, on_ready: Callable[[Address], None], stop: asyncio.Event
) -> None:
    """Serves until `stop` is set; `on_ready` hears of the address once it answers.

    Raises:
        UsageError: where the address can't be had.
    """
    try:
        listener = await listen(service.handle, host, port)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"can't listen at {host}:{port}: {reason}; give another --port, or 0 for a free one"
        ) from error
    try:
        on_ready(Address(host, listener.port))
        await stop.wait()
    finally:
        await listener.close()
        service.close()


def serve_until_signal(service: FakeService, host: str, port: int, on_ready: Callable[[Address], None]) -> None:
    """Serves until Ctrl-C or a request to end; raises as `serve` does."""

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(service, host, port, on_ready, stop)

    asyncio.run(run())


@contextmanager
def serving(service: FakeService, host: str = "127.0.0.1", port: int = 0) -> Iterator[Address]:
    """Serves in a thread of its own while the block runs; raises as `serve` does."""
    ready = threading.Event()
    found: list[Address] = []
    failed: list[BaseException] = []
    ending: list[Callable[[], object]] = []

    def on_ready(address: Address) -> None:
        found.append(address)
        ready.set()

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        ending.append(lambda: loop.call_soon_threadsafe(stop.set))
        await serve(service, host, port, on_ready, stop)

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # it is raised again in the thread that waits
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="fake-server", daemon=True)
    thread.start()
    ready.wait()
    try:
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        if thread.is_alive():
            ending[0]()
        thread.join()
