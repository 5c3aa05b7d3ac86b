"""The results of a batch on their way from a service, in groups that are stored together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Final

from mbbq_gen.errors import ProviderError
from mbbq_gen.providers.batches import BatchAnswer, BatchService, BatchStatus
from mbbq_gen.providers.remote.faults import PassingError

if TYPE_CHECKING:
    from mbbq_gen.providers.remote.base import RemoteProvider

_TOGETHER: Final = 500
"""Answers of a group."""
_READINGS: Final = 5
"""How often the results of a batch are asked for before that is given up for now."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds that a service may ask to wait before its results are asked for again."""


async def result_groups(
    service: BatchService, provider: RemoteProvider, status: BatchStatus, pause: float
) -> AsyncGenerator[list[BatchAnswer], None]:
    """The results of an ended batch; a connection that breaks on the way is made anew, after `pause` seconds.

    Raises:
        ProviderError: where they can't be had.
    """
    group: list[BatchAnswer] = []
    seen: set[str] = set()
    for left in reversed(range(_READINGS)):
        try:
            async with aclosing(service.results(status)) as answers:
                async for answer in answers:
                    if answer.request_key in seen:
                        continue
                    seen.add(answer.request_key)
                    group.append(answer)
                    if len(group) == _TOGETHER:
                        yield group
                        group = []
            break
        except PassingError as fault:
            if not left:
                raise _in_one_line(provider, fault) from fault
            await asyncio.sleep(max(pause, min(fault.pause or 0.0, _LONGEST_PAUSE)))
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
