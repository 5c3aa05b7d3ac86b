"""What responders that are no model share: they answer at once, each presentation by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final

from pydantic import JsonValue

from mbbq_gen.providers.base import request_key
from mbbq_gen.records import Message, Request, Response

_YIELD_EVERY: Final = 256
"""Answers between two breaths: the event loop must be able to do something else."""


class Responder:
    """The part of a provider that is the same for all of them."""

    kind: ClassVar[str]
    model: str
    settings: Mapping[str, JsonValue]

    def request_key(self, messages: Sequence[Message], presentation_id: str) -> str:
        """The key, which holds the presentation's id: the answer depends on what stands at which place."""
        return request_key(self.kind, self.model, self.settings, messages, presentation_id)

    async def aclose(self) -> None:
        """Nothing to free."""


async def in_turn(
    requests: Iterable[Request], respond: Callable[[Request], Response]
) -> AsyncGenerator[Response, None]:
    """A response to each request, in their order."""
    for number, request in enumerate(requests):
        if number % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
        yield respond(request)
