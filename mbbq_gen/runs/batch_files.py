"""Request files of batches on their way to a service, and the results of a batch in groups that are stored together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.api.batches import BatchApi, BatchResult, BatchStatus, MalformedLine
from mbbq_gen.providers.http.errors import TransientError

_TOGETHER: Final = 500
"""Answers of a group."""
_TRIES: Final = 5
"""How often the results of a batch are requested before that is given up for now."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds that a service may ask to wait before its results are requested again."""
PART: Final = "batch.jsonl.part"
"""Name of the file that is being written."""


@dataclass
class ResultProblems:
    """What was odd about the results of a batch."""

    unparsed: int = 0
    """Lines that are no result."""
    unparsed_start: str = ""
    """How the first of them begins."""
    contradicted: set[str] = field(default_factory=set)
    """Keys of the requests that two lines answer, each otherwise; the first answer is kept."""


async def result_groups(
    service: BatchApi, status: BatchStatus, pause: float, problems: ResultProblems
) -> AsyncGenerator[list[BatchResult], None]:
    """The results of an ended batch, each once; after `pause` seconds again where the connection breaks on the way.

    Where lines can't be read, all are requested once more: what broke on the way may come whole the next time. Raises
    ProviderError where they can't be had.
    """
    group: list[BatchResult] = []
    digests: dict[str, bytes] = {}  # request → digest of its answer; of a failure, nothing
    was_read = False
    for left in reversed(range(_TRIES)):
        problems.unparsed = 0
        try:
            async with aclosing(service.results(status)) as answers:
                async for answer in answers:
                    if isinstance(answer, MalformedLine):
                        problems.unparsed += 1
                        problems.unparsed_start = problems.unparsed_start or answer.start
                        continue
                    digest, before = b"", digests.get(answer.request_key)
                    if answer.outcome == "answered":
                        payload = json.dumps(answer.payload, sort_keys=True).encode()
                        digest = blake2b(payload, digest_size=12).digest()
                    if before is None or (not before and digest):  # the first one, or an answer after a failure
                        digests[answer.request_key] = digest
                        group.append(answer)
                    elif digest and digest != before:
                        problems.contradicted.add(answer.request_key)
                    if len(group) == _TOGETHER:
                        yield group
                        group = []
        except TransientError as fault:
            if not left:
                with one_line(service):
                    raise
            await asyncio.sleep(max(pause, min(fault.pause or 0.0, _LONGEST_PAUSE)))
        else:
            if was_read or not problems.unparsed:
                break
            was_read = True
    yield group


@contextmanager
def one_line(service: BatchApi) -> Iterator[None]:
    """Turns a transient failure into one line."""
    try:
        yield
    except TransientError as fault:
        raise ProviderError(f"{service.provider.name}: {fault}; nothing is lost, try again later") from fault


class Line(NamedTuple):
    """One request of a batch."""

    key: str
    content: bytes
    most_cost: float
    """The most that it can cost, in US dollars; 0 where there is no limit."""


class RequestFile:
    """The lines of a batch, on their way to a file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PART
        self._stream: BinaryIO | None = None
        self.keys: list[str] = []
        self.costs: list[float] = []
        self.size = 0

    def add(self, line: Line) -> None:
        """One more request."""
        if self._stream is None:
            self._stream = self._path.open("wb")
        self._stream.write(line.content)
        self.keys.append(line.key)
        self.costs.append(line.most_cost)
        self.size += len(line.content)

    def keep(self, path: Path) -> None:
        """Gives the file its name."""
        self.close()
        self._path.replace(path)

    def lines(self, path: Path) -> Generator[Line, None, None]:
        """The lines, once they stand in a file of that name."""
        with path.open("rb") as stream:
            for key, content, cost in zip(self.keys, stream, self.costs, strict=True):
                yield Line(key, content, cost)

    def close(self) -> None:
        """Closes the file; what was written stays for now."""
        if self._stream is not None:
            self._stream.close()


def parts(
    lines: Iterable[Line], folder: Path, most: Callable[[], int], size: int
) -> Generator[RequestFile, None, None]:
    """The lines in parts of at most `most()` requests and `size` bytes, but one request at least.

    Keep or drop each part before the next one is taken. `most` is called for each part, since a service may have
    refused the last one.
    """
    part, limit = RequestFile(folder), most()
    try:
        for line in lines:
            if part.keys and (len(part.keys) >= limit or part.size + len(line.content) > size):
                yield part
                part, limit = RequestFile(folder), most()
            part.add(line)
        if part.keys:
            yield part
    finally:
        part.close()
