"""Batches: many requests handed over at once, answered within a day, at about half the price.

A service that takes them is a `BatchApi`. The network can fail at any point of handing a batch over, so a batch can be
found again by the name that we gave it, or where a service keeps no names, by when it was made and how many requests it
holds.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import FrozenModel, Request
from mbbq_gen.core.text import storable_text
from mbbq_gen.providers.http.errors import RejectedError, RetriesExhaustedError, TransientError, is_too_large
from mbbq_gen.providers.http.transport import Line, table_of, tables_of

if TYPE_CHECKING:
    from mbbq_gen.providers.api.provider import ApiProvider

BatchPhase = Literal[
    "running",
    "ended",  # its results, whole or in part, can be had
    "refused",  # the service would not take it: nothing in it was answered or paid
]
PASSED_ON: Final = 1_000_000
"""Bytes that whatever stands between us and a service accepts by default (nginx: 1 MB)."""
SHOWN: Final = 80
_MOST_PAGES: Final = 50
"""Pages of a service's list that are looked through for one of our batches."""


class TooLargeError(ProviderError):
    """The service takes fewer requests or bytes in one batch; nothing in it was answered or paid."""


def is_cut_off(fault: TransientError, size: int) -> bool:
    """Whether sending so many bytes failed as it does where something on the way takes fewer."""
    return fault.kind in {"broken", "timeout"} and size > PASSED_ON


@contextmanager
def explain_if_too_large(size: int = 0) -> Iterator[None]:
    """Turns a refusal for size into a TooLargeError, and the sending of so many bytes that breaks off each time."""
    try:
        yield
    except RetriesExhaustedError as error:
        if is_cut_off(error.fault, size):
            raise TooLargeError(f"{size:,} bytes do not get through: {error.fault}") from error
        raise
    except RejectedError as refusal:
        if is_too_large(refusal.error):
            raise TooLargeError(str(refusal)) from refusal
        raise


class BatchLimits(FrozenModel):
    """What one batch may hold."""

    requests: int
    size: int
    """In bytes."""


class BatchStatus(FrozenModel):
    """How a batch stands at the service."""

    service_id: str
    phase: BatchPhase
    state: str
    """In the service's own word."""
    total: int | None = None
    done: int | None = None
    """Requests that are answered; None where the service does not tell before the end."""
    failed: int | None = None
    reason: str | None = None
    """Why it was refused."""
    waits: bool = False
    """Whether it was refused only because too much is waiting already: it may be taken later."""
    too_large: bool = False
    """Whether it was refused for the number of its requests or bytes."""
    results: tuple[str, ...] = ()
    """Where its results are, below the service's address."""
    seconds: float | None = None
    """From its making to its end; None before."""


@dataclass(frozen=True)
class BatchRef:
    """What a batch can be found by."""

    name: str
    """Ours, and no other batch's."""
    requests: int
    planned_at: datetime


@dataclass(frozen=True)
class BatchResult:
    """What came of one request of a batch."""

    request_key: str
    outcome: Literal["answered", "failed", "undone"]
    """`undone`: nobody tried, because the batch expired or was cancelled."""
    payload: Any = None
    """The answer's or the error's JSON."""
    status: int = 200
    headers: Mapping[str, str] | None = None
    truncated_at: int | None = None
    """Bytes after which its line was no longer taken; None: it is whole."""


@dataclass(frozen=True)
class MalformedLine:
    """A line of a batch's results that is no result: broken, cut off, or of another shape."""

    start: str
    """How it begins."""


def read_line(line: Line, read: Callable[[Any], BatchResult]) -> BatchResult | MalformedLine:
    """What came of the request of one line; `read` takes its JSON apart."""
    try:
        answer = read(line.json())
    except (ValueError, KeyError, TypeError, AttributeError):
        return MalformedLine(storable_text(line.content[:SHOWN].decode("utf-8", "replace")))
    return replace(answer, truncated_at=len(line.content)) if line.is_cut else answer


class BatchApi(ABC):
    """A service that takes batches."""

    limits: BatchLimits
    path: str = "/batches"
    """Where its batches are."""
    cancels: ClassVar[str] = "/cancel"
    """What stands behind a batch's address to stop it."""
    refused_on_vertex: ClassVar[str] = ""
    """What to do instead on Vertex AI, whose batches are made of files in a bucket; empty where that can't be."""

    def __init__(self, provider: Any) -> None:
        """`provider`: the ApiProvider of this service.

        Raises:
            UsageError: where it is asked on Vertex AI.
        """
        if self.refused_on_vertex and provider.is_vertex:
            raise UsageError(
                f"--batch: {provider.name}: Vertex AI takes batches from buckets only; {self.refused_on_vertex}"
            )
        self.provider: ApiProvider = provider
        """Builds and reads the requests."""
        self.own = provider
        """The same, for what only its kind of service has."""

    @abstractmethod
    def row(self, request: Request) -> dict[str, Any]:
        """One request as the service takes it in a batch."""

    @abstractmethod
    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Hands over the batch whose lines are in a file; the service's id of it.

        Raises:
            TooLargeError: where the service takes smaller ones only.
            ProviderError: where the service will not take it.
            TransientError: where it is not known whether it did.
        """

    @abstractmethod
    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The id of the batch that was handed over under that mark, if there is one that is not `known`.

        Raises:
            ProviderError: where the service does not tell.
        """

    @abstractmethod
    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands.

        Raises:
            ProviderError: where the service does not know it.
        """

    @staticmethod
    @abstractmethod
    def read(row: Any) -> BatchResult:
        """What came of the request of one line of the results."""

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file, with its line end."""
        return json.dumps(self.row(request), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """What came of the requests of an ended batch, in any order, and the lines that tell of none.

        Raises:
            ProviderError: where they can't be had.
            TransientError: where the connection broke on the way.
        """
        for path in status.results:
            async for line in self.provider.stream(path):
                if line.content.strip():
                    yield read_line(line, self.read)

    async def cancel(self, service_id: str) -> None:
        """Asks the service to stop a batch; what it has answered by then stays. One that has ended can't be stopped."""
        await self.provider.call("POST", f"{self.path}/{service_id}{self.cancels}", accept=(400, 409))

    async def submit_whole(self, path: str, body: JsonValue, name: str) -> str:
        """Sends a batch in one piece; the service's id of it, which is in a field of its reply."""
        with explain_if_too_large():
            reply = await self.provider.call("POST", path, body=body, repeat=False)
        found = table_of(reply.json()).get(name)
        if not found:
            raise ProviderError(f"{self.provider.name}: the server answered a batch without {name!r}")
        return str(found)

    async def listed(
        self, path: str, name: str, next_page: Callable[[Any], str | None]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The entries of a service's list, a page after another.

        Args:
            path: Of the list, with its query.
            name: Of the field with the entries.
            next_page: Page → what is added to the query for the next one, or None.
        """
        query: str | None = ""
        for _ in range(_MOST_PAGES):
            page = table_of((await self.provider.call("GET", f"{path}{query}")).json())
            for entry in tables_of(page.get(name)):
                yield entry
            query = next_page(page)
            if query is None:
                return
