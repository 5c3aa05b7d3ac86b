"""The results of a batch on their way from a service, in groups that are stored together.

A line that is no result costs the others nothing: it is counted, and its request, which nobody can name, goes without
an answer. Where two lines answer the same request, the first answer stays and that it was contradicted is counted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from mbbq_gen.errors import ProviderError
from mbbq_gen.providers.batches import BatchAnswer, BatchService, BatchStatus, UnreadLine
from mbbq_gen.providers.remote.faults import PassingError

if TYPE_CHECKING:
    from mbbq_gen.providers.remote.base import RemoteProvider

_TOGETHER: Final = 500
"""Answers of a group."""
_READINGS: Final = 5
"""How often the results of a batch are asked for before that is given up for now."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds that a service may ask to wait before its results are asked for again."""


@dataclass
class Oddities:
    """What was odd about the results of a batch."""

    unread: int = 0
    """Lines that are no result."""
    unread_start: str = ""
    """How the first of them begins."""
    contradicted: set[str] = field(default_factory=set)
    """Keys of the requests that two lines answer, each otherwise."""


@dataclass
class _Seen:
    """The answers that were read so far, so that each is passed on once."""

    oddities: Oddities
    _digests: dict[str, bytes] = field(default_factory=dict)
    """Request → digest of its answer; of a failure, nothing."""

    def is_new(self, answer: BatchAnswer) -> bool:
        """Whether an answer is to be passed on: the first one, or an answer after a failure."""
        digest = _digest(answer)
        before = self._digests.get(answer.request_key)
        if before is None or (not before and digest):
            self._digests[answer.request_key] = digest
            return True
        if digest and digest != before:
            self.oddities.contradicted.add(answer.request_key)
        return False


def _digest(answer: BatchAnswer) -> bytes:
    if answer.outcome != "answered":
        return b""
    return blake2b(json.dumps(answer.payload, sort_keys=True).encode(), digest_size=12).digest()


async def result_groups(
    service: BatchService, provider: RemoteProvider, status: BatchStatus, pause: float, oddities: Oddities
) -> AsyncGenerator[list[BatchAnswer], None]:
    """The results of an ended batch; a connection that breaks on the way is made anew, after `pause` seconds.

    Where lines can't be read, all are asked for once more: what broke on the way may come whole the next time.

    Raises:
        ProviderError: where they can't be had.
    """
    group: list[BatchAnswer] = []
    seen = _Seen(oddities)
    was_read = False
    for left in reversed(range(_READINGS)):
        oddities.unread = 0
        try:
            async with aclosing(service.results(status)) as answers:
                async for answer in answers:
                    if isinstance(answer, UnreadLine):
                        oddities.unread += 1
                        oddities.unread_start = oddities.unread_start or answer.start
                    elif seen.is_new(answer):
                        group.append(answer)
                    if len(group) == _TOGETHER:
                        yield group
                        group = []
        except PassingError as fault:
            if not left:
                raise _in_one_line(provider, fault) from fault
            await asyncio.sleep(max(pause, min(fault.pause or 0.0, _LONGEST_PAUSE)))
        else:
            if was_read or not oddities.unread:
                break
            was_read = True
    yield group


@contextmanager
def one_line(provider: RemoteProvider) -> Iterator[None]:
    """Turns a failure that may pass into one line."""
    try:
        yield
    except PassingError as fault:
        raise _in_one_line(provider, fault) from fault


def _in_one_line(provider: RemoteProvider, fault: PassingError) -> ProviderError:
    return ProviderError(f"{provider.name}: {fault}; nothing is lost, try again later")
