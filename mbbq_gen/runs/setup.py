"""Study designs (`mbbq-gen design`), and checks of servers (`doctor`, `init`)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import JsonValue

from mbbq_gen.analysis.design import Components, DesignSearch, DesignSpace, DesignTarget, Price, StudyDesign
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel, Request
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import PromptSettings, orders_of, render_prompt
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers import prices as pricing
from mbbq_gen.providers.api.openai import OpenAIProvider
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.prices import token_counter
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.estimate import TokenEstimate, cost_estimate, estimate, planned_in_store, price_for
from mbbq_gen.runs.resolve import open_model
from mbbq_gen.scoring.codes import MIN_TEMPLATES, PromptEffects
from mbbq_gen.scoring.metrics import Metric, kind_of, needed_kinds

_COUNTED: Final = 40
"""Questions of each language and split whose tokens are counted."""
_OTHERS: Final = 6


class LanguagePrice(FrozenModel):
    """Mean size and cost of a request in a language, over the prompt variants."""

    language: str
    input_tokens: float
    output_tokens: float
    cost: float | None


class DesignReport(FrozenModel):
    """The best design for a target, its assumptions, and the next best ones."""

    schema_version: Literal["mbbq-gen.design/1"] = "mbbq-gen.design/1"
    model: str
    target: DesignTarget
    metric: str
    confidence: float
    wanted_width: float | None
    max_cost: float | None
    components: Components
    templates: int
    questions: int
    """Questions of one language and split that count for the metric."""
    prompt_variants: int
    speaks_of: PromptEffects = "fixed"
    """Whether widths apply to the prompt variants of the run, or to all similar variants."""
    orders: int
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    prices: tuple[LanguagePrice, ...]
    best: StudyDesign | None
    """None if no design reaches the width, or is within the maximum cost."""
    as_run: StudyDesign | None
    """The best design for `run --answers-per-template`, which uses all templates; None as for `best`."""
    others: tuple[StudyDesign, ...]
    """The best designs with other numbers of prompt variants and orders, best first."""
    everything: StudyDesign
    """The design with all questions, which has the narrowest interval."""
    notes: tuple[str, ...]


def design_report(
    config: RunConfig,
    where: PackPaths,
    *,
    target: DesignTarget,
    metric: Metric,
    components: Components,
    pilot: Path | None,
    confidence: float,
    width: float | None,
    max_cost: float | None,
    speaks_of: PromptEffects = "fixed",
) -> DesignReport:
    """The best design for a width or a maximum cost in US dollars; UsageError without two languages or a price."""
    if target != "score" and len(config.languages) < 2:
        raise UsageError(f"--goal {target!r} needs two languages at least; name them with --languages")
    provider = open_model(config, where)
    counter, price = token_counter(provider.kind, provider.model, None), price_for(provider, config)
    with planned_in_store(config, where, pilot) as (prompt_plan, store, measured):
        units = list(store.sampling_units())
        store.select_only(balanced_sample(units, _COUNTED, config.seed))
        tokens = estimate(prompt_plan.prompts(store), counter, prompt_plan.kinds, measured)
    prices, mean_price = _request_prices(tokens, price)
    online = mean_price.online
    if max_cost is not None and online is None:
        raise UsageError(f"--max-cost: no price is known for {config.model}; give it with --prices, or give --ci-width")
    kinds = needed_kinds([metric])
    cells: dict[tuple[str, str], Counter[tuple[str, str, str]]] = {}
    for unit in units:
        if kind_of(unit.condition, unit.alignment) in kinds:
            template = (unit.benchmark, unit.category, unit.template_id)
            cells.setdefault((unit.language, unit.split), Counter())[template] += 1
    template_sizes = max(cells.values(), key=lambda counts: (len(counts), counts.total()), default=Counter())
    variants = len(config.variants) * len(config.label_style)
    space = DesignSpace(tuple(sorted(template_sizes.values())), variants, orders_of(config.option_order), len(cells))
    space.check(speaks_of)
    study = DesignSearch(target, components, space, mean_price, confidence, speaks_of)
    most = None if max_cost is None or online is None else max_cost / online
    found, everything = study.ranked(width=width, requests=most), study.everything()
    notes = []
    if not found and width is not None:
        more = "a benchmark with more templates" if speaks_of == "fixed" else "more prompt variants or templates"
        reached = f"all {everything.requests:,} requests reach {everything.width:.3f}"
        notes.append(f"no money buys a width of {width:g}: {reached}; ask {more}")
    elif not found:
        notes.append(f"the maximum cost buys no interval: {MIN_TEMPLATES} templates at least are needed")
    if online is None:
        hint = "requests are counted in place of money; --prices gives one"
        notes.append(f"no price is known for {config.model}: {hint}")
    if tokens.outputs == "assumed":
        notes.append("the length of answers is assumed; --pilot RUN measures it")
    return DesignReport(
        model=config.model,
        target=target,
        metric=metric.name,
        confidence=confidence,
        wanted_width=width,
        max_cost=max_cost,
        components=components,
        templates=len(template_sizes),
        questions=template_sizes.total(),
        prompt_variants=variants,
        speaks_of=speaks_of,
        orders=space.orders,
        languages=tuple(config.languages),
        splits=tuple(dict.fromkeys(split for _, split in cells)),
        prices=tuple(prices),
        best=found[0] if found else None,
        as_run=study.as_run(width=width, requests=most),
        others=tuple(found[1 : _OTHERS + 1]),
        everything=everything,
        notes=tuple(notes),
    )


def _request_prices(tokens: TokenEstimate, price: pricing.Price | None) -> tuple[list[LanguagePrice], Price]:
    """The price of a request in each language, and the mean over languages."""
    prices, costs = [], []
    for language in dict.fromkeys(group.language for group in tokens.groups):
        groups = [group for group in tokens.groups if group.language == language]
        requests = sum(group.requests for group in groups)
        read = sum(group.input_tokens for group in groups) / requests
        written = sum(group.output_tokens for group in groups) / requests
        cost = cost_estimate(price, read, written)
        costs.append((None, None) if cost is None else (cost.online, cost.batch))
        prices.append(LanguagePrice(language=language, input_tokens=read, output_tokens=written, cost=costs[-1][0]))
    online, batch = (_mean(amounts) for amounts in zip(*costs, strict=True))
    return prices, Price(online=online, batch=batch)


def _mean(costs: Iterable[float | None]) -> float | None:
    """The mean over the languages, which a design uses equally; None if one is not known."""
    known = list(costs)
    return None if None in known else sum(cost or 0.0 for cost in known) / len(known)


# --- servers ---------------------------------------------------------------------------------------------------------


class ServerReport(FrozenModel):
    """A server, its models, and the answer of one to a question."""

    base_url: str
    """The value for `--base-url`."""
    server: str
    facts: dict[str, JsonValue]
    sampling_sent: dict[str, JsonValue]
    unpinned: str | None
    models: tuple[str, ...]
    model: str | None
    """The tested model; None if there are several and none was named."""
    answer: str | None = None
    error: str | None = None
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def model_option(self) -> str:
        """The model as kind:model; Ollama has its own kind, because its OpenAI-compatible API truncates prompts."""
        name = self.model or (self.models[0] if self.models else "NAME")
        return f"{'ollama' if self.server == 'ollama' else 'openai'}:{name}"

    @property
    def command(self) -> str:
        """An example `run` command."""
        address = "" if self.server == "ollama" else f" --base-url {self.base_url}"
        return f"mbbq-gen run my-run --model {self.model_option}{address} --benchmark starter"


def check_server(base_url: str, model: str | None, model_args: Mapping[str, Any], resources: PackPaths) -> ServerReport:
    """Identifies a server and asks it one question.

    `base_url`: of its OpenAI-compatible API, with or without `/v1`; `model`: None for the only one that it lists;
    `model_args`: further options of `openai:`. UsageError for a wrong option, ProviderError if it is unreachable.
    """
    given = {"max_tokens": 64, "patience": 0.0, **model_args, "base_url": base_url}
    return asyncio.run(_check(model, given, resources))


async def _check(model: str | None, given: Mapping[str, Any], resources: PackPaths) -> ServerReport:
    provider = open_provider(f"openai:{model or 'any'}", given, resources)
    assert isinstance(provider, OpenAIProvider)
    answer: dict[str, Any] = {}
    try:
        names = await provider.list_models()
        chosen = model or (names[0] if len(names) == 1 else None)
        if chosen is not None:
            provider.model = chosen
            answer = await _ask(provider, resources)
        facts: Any = provider.runtime_info()
    finally:
        await provider.aclose()
    server = dict(facts.get("server", {"name": "unknown"}))
    return ServerReport(
        base_url=provider.api_url,
        server=server.pop("name"),
        facts=server,
        sampling_sent=facts.get("sampling_sent", {}),
        unpinned=provider.unpinned,
        models=tuple(names),
        model=chosen,
        **answer,
    )


async def _ask(provider: OpenAIProvider, resources: PackPaths) -> dict[str, Any]:
    """The answer to a question of `starter`, with its time and tokens, or the error."""
    instance = next(load_benchmark("starter", languages=["en"], splits=["bias"], resources=resources))
    variant = next(found for found in read_prompts(resources, "en").variant if found.id == "letters")
    prompt = render_prompt(instance, PromptSettings(variant), (0, 1, 2))
    key = provider.request_key(prompt.messages, prompt.prompt_id)
    request = Request(request_key=key, messages=prompt.messages, prompt=prompt, instance=instance)
    try:
        response = await provider.learn(request, ExecutionContext())
    except MbbqGenError as error:
        return {"error": str(error)}
    counts = {name: getattr(response.usage, name) for name in ("input_tokens", "output_tokens")}
    return {"answer": response.text, "error": response.error, "seconds": response.latency_s, **counts}
