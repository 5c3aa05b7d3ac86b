"""Asks what is pending and stores what comes back: group commits, one writer, stops cleanly.

While one commit runs, the answers that arrive wait; they go together into the next. So an answer is durable within
a moment of its arrival, and thousands a second are no more commits than the disk can take.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime

from mbbq_gen.providers.base import Provider
from mbbq_gen.records import Response
from mbbq_gen.runs.store import RunStore

OnStored = Callable[[list[Response]], None]


def answer_pending(store: RunStore, provider: Provider, on_stored: OnStored) -> None:
    """Asks the provider everything that has no answer yet; `on_stored` hears of answers once they are durable.

    Raises:
        ProviderError: where no further request can succeed; what had arrived is stored.
        KeyboardInterrupt: on Ctrl-C; what had arrived is stored.
    """
    asyncio.run(_answer_pending(store, provider, on_stored))


async def _answer_pending(store: RunStore, provider: Provider, on_stored: OnStored) -> None:
    try:
        async with aclosing(provider.generate(store.pending())) as responses:
            await _store_all(responses, store, on_stored)
    finally:
        await provider.aclose()


async def _store_all(responses: AsyncGenerator[Response, None], store: RunStore, on_stored: OnStored) -> None:
    """Moves responses from the provider to the store until there are no more."""
    arrived: list[tuple[Response, str]] = []
    wake = asyncio.Event()

    async def receive() -> None:
        try:
            async for response in responses:
                arrived.append((response, datetime.now(UTC).isoformat(timespec="milliseconds")))
                wake.set()
        finally:
            wake.set()

    receiver = asyncio.create_task(receive())
    try:
        while not receiver.done() or arrived:
            await wake.wait()
            wake.clear()
            _commit(arrived, store, on_stored)
        await receiver
    finally:
        receiver.cancel()
        await asyncio.gather(receiver, return_exceptions=True)
        _commit(arrived, store, on_stored)


def _commit(arrived: list[tuple[Response, str]], store: RunStore, on_stored: OnStored) -> None:
    """Stores and empties what has arrived."""
    if not arrived:
        return
    batch = arrived.copy()
    store.add_responses(batch)
    del arrived[: len(batch)]
    on_stored([response for response, _ in batch])
