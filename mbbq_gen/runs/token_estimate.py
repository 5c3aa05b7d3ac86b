"""Estimates the size of a run: requests, input and output tokens, hours at given rate limits. Sends and stores nothing.

Characters are counted in every request, tokens in a random sample of the requests of each language and prompt variant.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.core.reasoning import expected_tokens
from mbbq_gen.core.records import FrozenModel, Method, Prompt
from mbbq_gen.languages.prompt_pack import VariantKind
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
    counted: list[tuple[int, str]] = field(default_factory=list)
    """A heap of COUNTED random texts, each after its negative digest."""

    def tokens(self, counter: TokenCounter, messages: int) -> int:
        counted = sum(counter.count(text) for _, text in self.counted)
        read = counted * self.characters / (sum(len(text) for _, text in self.counted) or 1)
        return round(read + self.requests * (messages + 1) * MESSAGE_TOKENS)


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
        prompts, counter: what would be sent, and what counts the tokens of a text.
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
        method, level = prompt.method, prompt.reasoning_effort or ""
        texts = [message.content for message in prompt.messages]
        if method in ("loglikelihood", "label-loglikelihood"):  # the model reads the answers too
            texts += [answer.text for answer in prompt.continuations]
        text = "\n".join(texts)
        person = f"{method} {level}".strip().encode()[:16]
        digest = hashlib.blake2b(text.encode(), digest_size=12, person=person).digest()
        if digest in seen:
            continue
        seen.add(digest)
        turns = len(prompt.messages)
        longest_input = max(longest_input, len(text.encode()) + MESSAGE_TOKENS * (turns + 1))
        group = groups.setdefault((prompt.language, prompt.variant, method, level), _Group())
        group.requests, group.characters = group.requests + 1, group.characters + len(text)
        heapq.heappush(group.counted, (-int.from_bytes(digest), text))
        if len(group.counted) > COUNTED:
            heapq.heappop(group.counted)
    parts, most_output, is_measured = [], 0.0, bool(known)
    for (language, variant, method, level), group in sorted(groups.items()):
        if method == "generate":  # the answer, and the reasoning before it
            limit = None if longest is None else longest + rooms.get(level, 0)
            name = measured_name(variant, level)
            expected = outputs.get(variant, 0.0) + expected_tokens(level or None)
            expected = known.get(name, expected) if level else expected
            written, most = min(expected, limit or expected), float(limit or 0)
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


def cost_estimate(
    price: Price | None, input_tokens: float, output_tokens: float, most_output: float | None = None
) -> Cost | None:
    """What so many tokens cost, at the price of the longest request (`Price.at`); None without a price."""
    if price is None:
        return None

    def dollars(read: float | None, written: float | None, output: float) -> float | None:
        return None if read is None or written is None else (input_tokens * read + output * written) / MILLION

    online, batch = (price.input, price.output), (price.batch_input, price.batch_output)
    return Cost(
        online=(input_tokens * price.input + output_tokens * price.output) / MILLION,
        online_at_most=None if most_output is None else dollars(*online, most_output),
        batch=dollars(*batch, output_tokens),
        batch_at_most=None if most_output is None else dollars(*batch, most_output),
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
