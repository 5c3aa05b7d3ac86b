"""Reads answers while others are still asked for, on a thread of its own: the event loop waits for the network only.

    stored answers ──► thread: looked up, read ──► readings ──► store, by the thread that asks

The thread sees the store through a connection of its own, for reading: there is one writer. What is not read when the
asking ends, however it ends, `runs.reading.read_run` reads.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from mbbq_gen.extraction.jsonl import ENGINE
from mbbq_gen.records import Response
from mbbq_gen.resources import Resources
from mbbq_gen.runs.reading import Reading, load_reader, reading_of, store_readings
from mbbq_gen.runs.store import RunStore

_TOGETHER: Final = 500
"""Readings that are stored together: each commit waits for the disk."""

Read = dict[tuple[str, str], list[Reading]]
"""Language and extractor version → readings."""


class ReadingAlong:
    """The readings of one session of asking. Use it as a context; what is under way when it is left is dropped."""

    def __init__(self, store: RunStore, resources: Resources, meanwhile: Callable[[], None] = lambda: None) -> None:
        """
        Args:
            store: Open for writing.
            resources: Where packs are looked for.
            meanwhile: What else the thread may do first, such as imports that the caller needs afterwards.
        """
        self._store = store
        self._resources = resources
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mbbq-gen-reading")
        self._under_way: deque[Future[Read]] = deque()
        self._found: dict[tuple[str, str], list[Reading]] = defaultdict(list)
        self._source: RunStore | None = None
        self._meanwhile = meanwhile

    def __enter__(self) -> Self:
        self._thread.submit(self._meanwhile)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for future in self._under_way:
            future.cancel()
        self._thread.submit(self._close)
        self._thread.shutdown()

    def hear(self, responses: Iterable[Response]) -> None:
        """Takes note of answers that have been stored, and stores the readings that are ready."""
        keys = [response.request_key for response in responses if response.error is None]
        if keys:
            self._under_way.append(self._thread.submit(self._read, keys))
        self._harvest()
        if sum(map(len, self._found.values())) >= _TOGETHER:
            self._keep()

    async def finish(self) -> None:
        """Waits until everything that was heard of is read and stored."""
        while self._under_way:
            await asyncio.wrap_future(self._under_way[0])
            self._harvest()
        self._keep()

    def _harvest(self) -> None:
        """Takes the readings that the thread has finished; raises what it raised."""
        while self._under_way and self._under_way[0].done():
            for where, readings in self._under_way.popleft().result().items():
                self._found[where] += readings

    def _keep(self) -> None:
        """Stores the readings that are ready."""
        for (language, version), readings in self._found.items():
            store_readings(self._store, language, version, readings)
        self._found.clear()

    # --- on the thread ----------------------------------------------------------------------------------------------

    def _read(self, request_keys: Sequence[str]) -> Read:
        if self._source is None:
            self._source = RunStore(self._store.path, read_only=True)
        found: Read = defaultdict(list)
        for answered in self._source.answered(request_keys):
            language = answered.presentation.language
            reader = load_reader(ENGINE, language, self._resources)
            found[language, reader.version].append(reading_of(answered, reader))
        return found

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
