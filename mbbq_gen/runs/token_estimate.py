"""Estimates the size of a run: requests, input and output tokens, hours at given rate limits. Sends and stores nothing.

Characters are counted in every request. Tokens are counted in a random sample of the requests of each language and
prompt variant, so that half a million requests take no longer than a thousand.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.core.reasoning import expected_tokens
from mbbq_gen.core.records import FrozenModel, Instance, Method, Prompt, Request, Response
from mbbq_gen.languages.prompt_pack import VariantKind
from mbbq_gen.providers.base import ExecutionContext, Provider, prompt_key
from mbbq_gen.providers.prices import MESSAGE_TOKENS, MILLION, Price, TokenCounter
from mbbq_gen.storage.queries import mean_output_tokens
from mbbq_gen.storage.store import RunStore

COUNTED: Final = 60
"""Requests of each language and prompt variant whose tokens are counted."""
OUTPUT_TOKENS: Final[Mapping[VariantKind, int]] = {
    "single_letter": 2,
    "letters": 6,
    "published": 10,
    "json": 12,
    "polite": 25,
    "plain": 25,
    "line": 40,
    "bare": 40,
    "reasoned": 150,
}
"""Kind of prompt variant → tokens of an answer, assumed; a run made first tells better (`measured_outputs`)."""
OutputSource = Literal["assumed", "measured"]


class GroupEstimate(FrozenModel):
    """What the requests of one language, prompt variant and way of asking take."""

    language: str
    variant: str
    method: Method = "generate"
    reasoning: str | None = None
    """Reasoning effort that is requested."""
    requests: int
    input_tokens: int
    output_tokens: int


class TokenEstimate(FrozenModel):
    """What a run would take."""

    questions: int
    prompts: int
    requests: int
    """Different ones: equal requests are sent once."""
    input_tokens: int
    longest_input: int
    """Bytes of the longest request, which has no more tokens than that."""
    output_tokens: int
    most_output_tokens: int | None
    """If every answer were as long as the longest allowed; None where no limit is known."""
    tokenizer: str
    """Name of the tokenizer."""
    exact: bool
    """Whether it is the model's own tokenizer."""
    outputs: OutputSource
    """Where the length of the answers comes from."""
    groups: tuple[GroupEstimate, ...]


@dataclass
class _Group:
    """The requests of one language and prompt variant."""

    requests: int = 0
    characters: int = 0
    kept: list[tuple[bytes, str]] = field(default_factory=list)
    """A heap of COUNTED random ones: digest with every bit turned (so that the largest leaves first), and text."""

    def add(self, digest: bytes, text: str) -> None:
        self.requests, self.characters = self.requests + 1, self.characters + len(text)
        entry = (bytes(255 - byte for byte in digest), text)
        if len(self.kept) < COUNTED:
            heapq.heappush(self.kept, entry)
        elif entry > self.kept[0]:
            heapq.heapreplace(self.kept, entry)

    def tokens(self, counter: TokenCounter, messages: int) -> int:
        counted = sum(counter.count(text) for _, text in self.kept)
        characters = sum(len(text) for _, text in self.kept)
        texts = counted * self.characters / characters if characters else 0
        return round(texts + self.requests * (messages + 1) * MESSAGE_TOKENS)


def estimate(
    prompts: Iterable[Prompt],
    counter: TokenCounter,
    kinds: Mapping[str, VariantKind],
    measured: Mapping[str, float] | None = None,
    *,
    longest: int | None = None,
    rooms: Mapping[str, int] | None = None,
) -> TokenEstimate:
    """What sending these prompts takes.

    Args:
        prompts: what would be sent.
        counter: counts the tokens of a text.
        kinds: prompt variant → its kind, which the length of its answers is assumed from.
        measured: prompt variant → tokens of an answer in an earlier run; prompt variants that it lacks are assumed.
        longest: the most tokens of an answer, or None.
        rooms: reasoning effort → tokens that it has beside those of the answer.
    """
    known, rooms = measured or {}, rooms or {}
    outputs = {name: float(OUTPUT_TOKENS[kind]) for name, kind in kinds.items() if kind != OPEN_VARIANT} | {**known}
    groups: dict[tuple[str, str, Method, str], _Group] = {}
    seen: set[bytes] = set()
    questions: set[str] = set()
    shown, turns, longest_input = 0, 1, 0
    for prompt in prompts:
        shown += 1
        questions.add(prompt.instance_key)
        method = prompt.method
        text = "\n".join(message.content for message in prompt.messages)
        if method in ("loglikelihood", "label-loglikelihood"):  # the model reads the answers too
            text = "\n".join((text, *(answer.text for answer in prompt.continuations)))
        level = prompt.reasoning_effort or ""
        person = f"{method} {level}".strip().encode()[:16]
        digest = hashlib.blake2b(text.encode(), digest_size=12, person=person).digest()
        if digest in seen:
            continue
        seen.add(digest)
        longest_input = max(longest_input, len(text.encode()) + MESSAGE_TOKENS * (len(prompt.messages) + 1))
        turns = len(prompt.messages)
        groups.setdefault((prompt.language, prompt.variant, method, level), _Group()).add(digest, text)
    most: float
    parts, most_output, is_measured = [], 0.0, bool(known)
    for (language, variant, method, level), group in sorted(groups.items()):
        limit = None if longest is None else longest + rooms.get(level, 0)
        name = measured_name(variant, level)
        if method == "generate":  # the answer, and the reasoning before it
            expected = outputs.get(variant, 0.0) + expected_tokens(level or None)
            expected = known.get(name, expected) if level else expected
            written, most = min(expected, limit or expected), limit or 0
            is_measured &= name in known
        else:  # the first token alone, or none where loglikelihoods are computed
            written = most = 1.0 if method == "first-token-logprobs" else 0.0
        most_output += group.requests * most
        part = GroupEstimate(
            language=language,
            variant=variant,
            method=method,
            reasoning=level or None,
            requests=group.requests,
            input_tokens=group.tokens(counter, turns),
            output_tokens=round(group.requests * written),
        )
        parts.append(part)
    return TokenEstimate(
        questions=len(questions),
        prompts=shown,
        requests=len(seen),
        input_tokens=sum(part.input_tokens for part in parts),
        longest_input=longest_input,
        output_tokens=sum(part.output_tokens for part in parts),
        most_output_tokens=None if longest is None else round(most_output),
        tokenizer=counter.name,
        exact=counter.exact,
        outputs="measured" if is_measured else "assumed",
        groups=tuple(parts),
    )


def measured_name(variant: str, level: str | None) -> str:
    """What a prompt variant at a reasoning effort is called among the lengths that were measured."""
    return f"{variant} [{level}]" if level else variant


def measured_outputs(store: RunStore) -> dict[str, float]:
    """Prompt variant (`measured_name`) → mean tokens of an answer, reasoning included, so far in a run."""
    return {measured_name(variant, level): mean for variant, level, mean in mean_output_tokens(store)}


class Cost(FrozenModel):
    """What a run would cost, in US dollars."""

    online: float
    online_at_most: float | None
    """If every answer were as long as the longest allowed."""
    batch: float | None
    """Through the batch API; None where its price is unknown or there is none."""
    batch_at_most: float | None


def cost_estimate(price: Price, input_tokens: float, output_tokens: float, most_output: float | None) -> Cost:
    """What so many tokens cost, at the price of the longest request (`Price.at`)."""

    def dollars(read: float | None, written: float | None, output: float | None) -> float | None:
        if read is None or written is None or output is None:
            return None
        return (input_tokens * read + output * written) / MILLION

    online = dollars(price.input, price.output, output_tokens)
    assert online is not None  # a price has both
    return Cost(
        online=online,
        online_at_most=dollars(price.input, price.output, most_output),
        batch=dollars(price.batch_input, price.batch_output, output_tokens),
        batch_at_most=dollars(price.batch_input, price.batch_output, most_output),
    )


class Duration(FrozenModel):
    """How long asking one by one takes at the service's limits."""

    hours: float
    limit: Literal["requests a minute", "tokens a minute"]
    """The limit that determines the duration."""


def duration(requests: int, tokens: int, rpm: float | None, tpm: float | None) -> Duration | None:
    """The time at so many requests and tokens a minute; None where no limit is known."""
    times: list[Duration] = []
    if rpm:
        times.append(Duration(hours=requests / rpm / 60, limit="requests a minute"))
    if tpm:
        times.append(Duration(hours=tokens / tpm / 60, limit="tokens a minute"))
    return max(times, key=lambda time: time.hours, default=None)


PROBED: Final = 10


class SpeedProbe(FrozenModel):
    """What came of asking a few questions."""

    questions: int
    """That were timed; one more was sent first, which loads the model."""
    loading_seconds: float
    """Until the first answer."""
    seconds: float
    input_tokens: int | None
    """Mean of a question; None where the model doesn't count them."""
    output_tokens: float | None
    hours: float


def probe(
    provider: Provider,
    prompts: Iterable[Prompt],
    instance: Callable[[str], Instance],
    requests: int,
    *,
    seed: int,
) -> SpeedProbe:
    """Sends ten questions that are drawn at random, and one before them, which loads the model; frees it afterwards.

    `requests`: how many different requests there would be. UsageError where the model is not on this machine,
    ProviderError where it can't be loaded or a question fails.
    """
    if not provider.capabilities.local:
        raise UsageError(f"--probe: {provider.name} is not a local model; leave --probe out, and give --rpm and --tpm")
    drawn = heapq.nsmallest(PROBED + 1, prompts, key=lambda prompt: stable_number(seed, prompt.prompt_id))
    if not drawn:
        raise UsageError("--probe: no request is pending")
    sent = [
        Request(
            request_key=prompt_key(provider, prompt),
            messages=prompt.messages,
            prompt=prompt,
            instance=instance(prompt.instance_key),
        )
        for prompt in drawn
    ]
    return asyncio.run(_time(provider, sent, requests))


async def _time(provider: Provider, sent: Sequence[Request], requests: int) -> SpeedProbe:
    async def answers(some: Sequence[Request]) -> list[Response]:
        async with aclosing(provider.generate(some, ExecutionContext())) as responses:
            found = [response async for response in responses]
        if error := next((response.error for response in found if response.error is not None), None):
            raise ProviderError(f"--probe: a question failed: {error}")
        return found

    rest = sent[1:] or sent
    try:
        started = time.perf_counter()
        await answers(sent[:1])
        loaded = time.perf_counter()
        responses = await answers(rest)
        ended = time.perf_counter()
    finally:
        await provider.aclose()
    read = [count for response in responses if (count := response.usage.input_tokens) is not None]
    written = [count for response in responses if (count := response.usage.output_tokens) is not None]
    return SpeedProbe(
        questions=len(rest),
        loading_seconds=loaded - started,
        seconds=ended - loaded,
        input_tokens=round(sum(read) / len(read)) if read else None,
        output_tokens=round(sum(written) / len(written), 1) if written else None,
        hours=(ended - loaded) / len(rest) * requests / 3600,
    )
