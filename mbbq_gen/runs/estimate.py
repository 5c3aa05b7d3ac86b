"""Estimates the tokens, cost and time of a run, without sending or storing anything.

The run is planned in a temporary store. Characters are counted in every request, tokens in a random sample of the
requests of each language and prompt variant.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.reasoning import expected_tokens
from mbbq_gen.core.records import FrozenModel, Method, Prompt
from mbbq_gen.languages.prompt_pack import VariantKind
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import MESSAGE_TOKENS, MILLION, Price, estimate_tokens, price_of, read_prices
from mbbq_gen.runs.planner import PromptPlan
from mbbq_gen.runs.resolve import InstanceSource, open_model
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import WORDS, RunStore

_SAMPLE: Final = 60
"""Requests of each language and prompt variant whose tokens are counted."""
_OUTPUT_TOKENS: Final[Mapping[VariantKind, int]] = {
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
"""Kind of prompt variant → assumed tokens of a response, without a pilot run."""
EstimateSource = Literal["assumed", "measured"]


# --- tokens, cost and time -------------------------------------------------------------------------------------------


class GroupEstimate(FrozenModel):
    """The requests of one language, prompt variant, method and reasoning effort."""

    language: str
    variant: str
    method: Method = "generate"
    reasoning: str | None = None
    requests: int
    input_tokens: int
    output_tokens: int


class TokenEstimate(FrozenModel):
    """The size of a run."""

    questions: int
    prompts: int
    requests: int
    """Distinct requests; equal ones are sent once."""
    input_tokens: int
    output_tokens: int
    most_output_tokens: int | None
    """If every response had the maximum length; None if no limit is known."""
    outputs: EstimateSource
    """Source of the length of responses."""
    groups: tuple[GroupEstimate, ...]


class Cost(FrozenModel):
    """A cost in US dollars."""

    online: float
    online_at_most: float | None
    """If every response had the maximum length."""
    batch: float | None
    """With the batch API; None if its price is unknown or there is none."""
    batch_at_most: float | None


@dataclass
class _Group:
    requests: int = 0
    characters: int = 0
    messages: int = 0
    sample: list[tuple[int, str]] = field(default_factory=list)
    """A heap of _SAMPLE random texts, as pairs of negative digest and text."""


def estimate(
    prompts: Iterable[Prompt],
    kinds: Mapping[str, VariantKind],
    measured: Mapping[str, float] | None = None,
    *,
    max_tokens: int | None = None,
    reasoning_tokens: Mapping[str, int] | None = None,
) -> TokenEstimate:
    """The estimated tokens of prompts.

    `kinds`: prompt variant → kind, which determines the assumed length of responses. `measured`: prompt variant, with
    its reasoning effort → mean tokens of a response. `max_tokens`: limit of a response. `reasoning_tokens`: reasoning
    effort → tokens beyond that limit.
    """
    groups: dict[tuple[str, str, Method, str], _Group] = {}
    seen, questions = set[bytes](), set[str]()
    n_prompts = 0
    for prompt in prompts:
        n_prompts += 1
        questions.add(prompt.instance_key)
        method, effort = prompt.method, prompt.reasoning_effort or ""
        texts = [message.content for message in prompt.messages]
        if method in ("loglikelihood", "label-loglikelihood"):  # the continuations are input tokens too
            texts += [answer.text for answer in prompt.continuations]
        text = "\n".join(texts)
        person = f"{method} {effort}".strip().encode()[:16]
        digest = hashlib.blake2b(text.encode(), digest_size=12, person=person).digest()
        if digest in seen:
            continue
        seen.add(digest)
        group = groups.setdefault((prompt.language, prompt.variant, method, effort), _Group())
        group.requests, group.characters = group.requests + 1, group.characters + len(text)
        group.messages += len(prompt.messages)
        heapq.heappush(group.sample, (-int.from_bytes(digest), text))
        if len(group.sample) > _SAMPLE:
            heapq.heappop(group.sample)
    known = measured or {}
    outputs = {name: float(_OUTPUT_TOKENS[kind]) for name, kind in kinds.items() if kind != OPEN_VARIANT} | {**known}
    parts, most_output, is_measured = [], 0.0, bool(known)
    for (language, variant, method, effort), group in sorted(groups.items()):
        if method == "generate":  # the response and the reasoning before it
            limit = None if max_tokens is None else max_tokens + (reasoning_tokens or {}).get(effort, 0)
            name, expected = _length_key(variant, effort), outputs.get(variant, 0.0) + expected_tokens(effort or None)
            expected = known.get(name, expected) if effort else expected
            written, most = min(expected, limit or expected), float(limit or 0)
            is_measured &= name in known
        else:  # one token, or none for loglikelihoods of continuations
            written = most = 1.0 if method == "first-token-logprobs" else 0.0
        most_output += group.requests * most
        characters = sum(len(text) for _, text in group.sample) or 1
        tokens = sum(estimate_tokens(text) for _, text in group.sample) * group.characters / characters
        parts.append(
            GroupEstimate(
                language=language,
                variant=variant,
                method=method,
                reasoning=effort or None,
                requests=group.requests,
                input_tokens=round(tokens + (group.messages + group.requests) * MESSAGE_TOKENS),
                output_tokens=round(group.requests * written),
            )
        )
    return TokenEstimate(
        questions=len(questions),
        prompts=n_prompts,
        requests=len(seen),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        most_output_tokens=None if max_tokens is None else round(most_output),
        outputs="measured" if is_measured else "assumed",
        groups=tuple(parts),
    )


def _length_key(variant: str, effort: str | None) -> str:
    return f"{variant} [{effort}]" if effort else variant


def cost_estimate(
    price: Price | None, input_tokens: float, output_tokens: float, most_output: float | None = None
) -> Cost | None:
    """The cost of tokens; None without a price."""
    if price is None:
        return None

    def dollars(input_price: float | None, output_price: float | None, tokens: float | None) -> float | None:
        if input_price is None or output_price is None or tokens is None:
            return None
        return (input_tokens * input_price + tokens * output_price) / MILLION

    return Cost(
        online=(input_tokens * price.input + output_tokens * price.output) / MILLION,
        online_at_most=dollars(price.input, price.output, most_output),
        batch=dollars(price.batch_input, price.batch_output, output_tokens),
        batch_at_most=dollars(price.batch_input, price.batch_output, most_output),
    )


def hours_at(requests: int, tokens: int, rpm: float | None, tpm: float | None) -> float | None:
    """The hours that a run takes at limits of requests (`rpm`) and tokens (`tpm`) a minute; None without limits."""
    return max((amount / limit / 60 for amount, limit in ((requests, rpm), (tokens, tpm)) if limit), default=None)


# --- a run -----------------------------------------------------------------------------------------------------------


class CostEstimate(FrozenModel):
    """The size and cost of a run."""

    schema_version: Literal["mbbq-gen.plan/1"] = "mbbq-gen.plan/1"
    model: str
    base_url: str | None
    """The server; None if there is none, or it is the service's own."""
    settings: RunConfig
    tokens: TokenEstimate
    price: Price | None
    cost: Cost | None
    hours: float | None
    """Its duration without batches, at the limits of requests and tokens; None without limits."""
    notes: tuple[str, ...]


def run_estimate(config: RunConfig, where: PackPaths, *, pilot: Path | None = None) -> CostEstimate:
    """The estimate of a run with a resolved configuration.

    `pilot`: a run whose response lengths are used; None: assumed lengths.
    """
    provider = open_model(config, where)
    price = price_for(provider, config)
    max_tokens, base_url = provider.settings.get("max_tokens"), provider.capabilities.base_url
    with planned_in_store(config, where, pilot) as (prompt_plan, store, measured):
        tokens = estimate(
            *(prompt_plan.prompts(store), prompt_plan.kinds, measured),
            max_tokens=max_tokens if isinstance(max_tokens, int) else None,
            reasoning_tokens={effort: provider.reasoning_settings(effort).room for effort in config.reasoning_effort},
        )
    return CostEstimate(
        model=config.model,
        base_url=base_url,
        settings=config,
        tokens=tokens,
        price=price,
        cost=cost_estimate(price, tokens.input_tokens, tokens.output_tokens, tokens.most_output_tokens),
        hours=hours_at(tokens.requests, tokens.input_tokens + tokens.output_tokens, config.rpm, config.tpm),
        notes=tuple(_notes(config, tokens, price, base_url)),
    )


def price_for(provider: Provider, config: RunConfig) -> Price | None:
    """The price of a run's model; None if it is not known."""
    return price_of(provider.kind, provider.model, read_prices(config.prices), base_url=provider.capabilities.base_url)


@contextmanager
def planned_in_store(
    config: RunConfig, where: PackPaths, pilot: Path | None
) -> Iterator[tuple[PromptPlan, RunStore, dict[str, float]]]:
    """The plan of a run, a temporary store, and prompt variant → mean tokens in the pilot."""
    measured: dict[str, float] = {}
    if pilot is not None:
        with RunFolder(pilot).require().open_store(read_only=True) as store:
            rows = store.query(
                "SELECT p.variant, p.reasoning_effort, avg(r.output_tokens) AS mean"
                " FROM prompts p JOIN responses r ON r.request_key = p.request_key"
                f" WHERE r.is_error = 0{WORDS} GROUP BY 1, 2 HAVING mean IS NOT NULL"
            )
            measured = {_length_key(variant, effort): mean for variant, effort, mean in rows}
    with (
        TemporaryDirectory(prefix="mbbq-gen-plan-") as folder,
        RunStore(Path(folder) / "plan.sqlite") as store,
        Bar("counting", None, "steps") as bar,
    ):
        prompt_plan = PromptPlan(InstanceSource(config, where), bar.advance)
        prompt_plan.read(store)
        yield prompt_plan, store, measured


def price_note(model: str, price: Price | None, base_url: str | None) -> str:
    """A sentence about the price of a model."""
    if price is not None:
        return f"price of {price.version}" + (f": {price.note}" if price.note else "")
    where = f" at {base_url}" if base_url else ""
    return f"no price is known for {model}{where}: nothing is guessed; give it with --prices"


def _notes(settings: RunConfig, tokens: TokenEstimate, price: Price | None, base_url: str | None) -> Iterator[str]:
    yield price_note(settings.model, price, base_url)
    if price is not None and (price.batch_input is None or price.batch_output is None):
        yield "the price of batches is not known, or there are none"
    yield "questions: tokens are estimated from the characters, mostly within a tenth for OpenAI's newer models"
    if tokens.outputs == "assumed":
        yield (
            "answers: lengths are assumed, and reasoning comes on top; make a small run first (--sample 20) and give it"
            " with --pilot RUN"
        )
    if settings.follow_up:
        yield "follow-ups are not counted: often one answer in twenty is asked again"
