"""Times a few requests to a local model and scales the time up to the run."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel, Instance, Prompt, Request, Response
from mbbq_gen.providers.base import Provider, prompt_key

PROBED: Final = 10
"""Questions that are asked."""


class SpeedProbe(FrozenModel):
    """What came of asking a few questions."""

    questions: int
    """That were timed; one more was asked first, which loads the model."""
    loading_seconds: float
    """Until the first answer."""
    seconds: float
    """For the others."""
    input_tokens: int | None
    """Mean of a question; None where the model doesn't count them."""
    output_tokens: float | None
    """Mean of an answer."""
    hours: float
    """What all requests would take."""


def probe(
    provider: Provider,
    prompts: Iterable[Prompt],
    instance: Callable[[str], Instance],
    requests: int,
    *,
    seed: int,
    clock: Callable[[], float] = time.perf_counter,
) -> SpeedProbe:
    """Asks ten questions that are drawn at random, and one before them.

    Args:
        provider: a model on this machine; it is freed afterwards.
        prompts: what would be sent.
        instance: the question of a prompt, by its key.
        requests: how many different requests there would be.
        seed: of the draw.
        clock: seconds, for tests.

    Raises:
        UsageError: where the model is not on this machine, or no request is pending.
        ProviderError: where it can't be loaded, or a question fails.
    """
    name = f"{provider.kind}:{provider.model}"
    if not getattr(provider, "is_local", False):
        raise UsageError(f"--probe: {name} is not a local model; leave --probe out, and give --rpm and --tpm")
    asked = [_request(provider, shown, instance) for shown in _draw(prompts, seed)]
    if not asked:
        raise UsageError("--probe: no request is pending")
    return asyncio.run(_time(provider, asked, requests, clock))


def _draw(prompts: Iterable[Prompt], seed: int) -> list[Prompt]:
    """A random few, the same each time."""
    return heapq.nsmallest(PROBED + 1, prompts, key=lambda shown: stable_number(seed, shown.prompt_id))


def _request(provider: Provider, shown: Prompt, instance: Callable[[str], Instance]) -> Request:
    return Request(
        request_key=prompt_key(provider, shown),
        messages=shown.messages,
        prompt=shown,
        instance=instance(shown.instance_key),
    )


async def _time(provider: Provider, asked: Sequence[Request], requests: int, clock: Callable[[], float]) -> SpeedProbe:
    rest = asked[1:] or asked
    try:
        started = clock()
        await _answers(provider.generate(asked[:1]))
        loaded = clock()
        responses = await _answers(provider.generate(rest))
        ended = clock()
    finally:
        await provider.aclose()
    read = [response.usage.input_tokens for response in responses if response.usage.input_tokens is not None]
    written = [response.usage.output_tokens for response in responses if response.usage.output_tokens is not None]
    return SpeedProbe(
        questions=len(rest),
        loading_seconds=loaded - started,
        seconds=ended - loaded,
        input_tokens=round(sum(read) / len(read)) if read else None,
        output_tokens=round(sum(written) / len(written), 1) if written else None,
        hours=(ended - loaded) / len(rest) * requests / 3600,
    )


async def _answers(responses: AsyncGenerator[Response, None]) -> list[Response]:
    found = []
    async with aclosing(responses):
        async for response in responses:
            if response.error is not None:
                raise ProviderError(f"--probe: a question failed: {response.error}")
            found.append(response)
    return found
