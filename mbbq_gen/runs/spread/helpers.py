"""Work that asks no model, done by workers of Ray: reading answers, adding up observations.

    parts ─► helpers, what they need loaded once each ─► what came of each part, in the order of the parts

Nothing here is paid for, and a part gives the same whoever does it, so a helper that dies is replaced by Ray itself and
its parts are done again. Two parts a helper are under way at a time: that bounds memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from mbbq_gen.errors import MbbqGenError, RunError
from mbbq_gen.runs.spread.cluster import connected

P = TypeVar("P")
R = TypeVar("R")
_AHEAD: Final = 2
"""Parts that a helper has at a time: it does not wait for the next one."""
_MOST_TRIES: Final = 3
"""Times that a part is done again because its helper died."""


@dataclass(frozen=True)
class Helpers:
    """Where work is done, and by how many."""

    on: str
    """`ray`: started here for this command; else the address of a Ray that is there."""
    number: int

    def each(self, prepare: Callable[[], Callable[[P], R]], parts: Iterable[P]) -> Iterator[R]:
        """What comes of each part, in their order. Each helper calls `prepare` once, and what it gives with parts.

        Raises:
            MbbqGenError: what a helper raised.
            RunError: where Ray can't be had, or helpers die over a part again and again.
        """
        with connected(self.on, self.number) as ray:
            options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": _MOST_TRIES}
            kind = ray.remote(_Helper).options(**options)
            actors = [kind.remote(prepare) for _ in range(self.number)]
            try:
                yield from _results(ray, actors, parts)
            finally:
                for actor in actors:
                    ray.kill(actor)


def _results(ray: Any, actors: list[Any], parts: Iterable[Any]) -> Iterator[Any]:
    under_way: deque[Any] = deque()
    for number, part in enumerate(parts):
        if len(under_way) == _AHEAD * len(actors):
            yield _result(ray, under_way.popleft())
        under_way.append(actors[number % len(actors)].work.remote(part))
    while under_way:
        yield _result(ray, under_way.popleft())


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, MbbqGenError):
            raise error.cause from None
        raise RunError(f"--on: a worker failed: {str(error).strip().splitlines()[-1]}") from error
    except ray.exceptions.RayError as error:
        raise RunError(f"--on: a worker died {_MOST_TRIES + 1} times over one part; look at memory") from error


class _Helper:
    """Made an actor by `Helpers`."""

    def __init__(self, prepare: Callable[[], Callable[[Any], Any]]) -> None:
        self._work = prepare()

    def work(self, part: Any) -> Any:
        """What comes of a part."""
        return self._work(part)
