"""The files of batches on their way to a service: lines are gathered, cut into batches, and gone once handed over."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_PART: Final = "batch.jsonl.part"


@dataclass(frozen=True, slots=True)
class Line:
    """One request of a batch."""

    key: str
    content: bytes
    """With its line end."""
    most_cost: float
    """The most that it can cost, in US dollars; 0 where there is no limit."""


class Part:
    """The lines of a batch to be, on their way to a file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _PART
        self._stream: BinaryIO | None = None
        self.keys: list[str] = []
        self.costs: list[float] = []
        self.size = 0
        """In bytes."""

    @property
    def most_cost(self) -> float:
        """The most that all of it can cost, in US dollars."""
        return sum(self.costs)

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

    def close(self) -> None:
        """Closes the file; what was written stays for now."""
        if self._stream is not None:
            self._stream.close()


def parts(lines: Iterable[Line], folder: Path, most: Callable[[], int], size: int) -> Generator[Part, None, None]:
    """The lines in parts of at most so many requests and bytes.

    Each part has to be kept, or given up, before the next one is taken.

    Args:
        lines: of all requests.
        folder: where the files stand.
        most: the requests that a part may hold; asked anew for each, since a service may have refused the last one.
        size: the bytes that a part may hold; a single request may be larger.
    """
    part, limit = Part(folder), most()
    try:
        for line in lines:
            if part.keys and (len(part.keys) >= limit or part.size + len(line.content) > size):
                yield part
                part, limit = Part(folder), most()
            part.add(line)
        if part.keys:
            yield part
    finally:
        part.close()


def lines_of(part: Part, path: Path) -> Generator[Line, None, None]:
    """The lines of a part that stands in its file."""
    with path.open("rb") as stream:
        for key, content, cost in zip(part.keys, stream, part.costs, strict=True):
            yield Line(key, content, cost)


def file_of(folder: Path, name: str) -> Path:
    """Where the file of a batch stands."""
    return folder / f"{name}.jsonl"


def clear_files(folder: Path) -> None:
    """Removes what a process left behind that ended while it handed over a batch."""
    for path in [*folder.glob("mbbq-gen-*.jsonl"), folder / _PART]:
        path.unlink(missing_ok=True)
