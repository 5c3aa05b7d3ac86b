"""Study designs (`mbbq-gen design`), and checks of servers (`mbbq-gen doctor`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import JsonValue

from mbbq_gen.analysis.design import Components, DesignSearch, DesignSpace, DesignTarget, Price, StudyDesign
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.prompts.render import orders_of
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.api.openai import OpenAIProvider
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.estimate import cost_estimate, estimate, planned_in_store, price_for
from mbbq_gen.runs.resolve import open_model
from mbbq_gen.scoring.codes import MIN_TEMPLATES, PromptEffects
from mbbq_gen.scoring.metrics import Metric, kind_of, needed_kinds

_COUNTED: Final = 40
"""Questions of each language and split whose tokens are counted."""
_OTHERS: Final = 6


class DesignReport(FrozenModel):
    """The best design for a target, its assumptions, and the next best ones."""

    schema_version: Literal["mbbq-gen.design/1"] = "mbbq-gen.design/1"
    model: str
    target: DesignTarget
    metric: str
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
    request_cost: float | None
    """Mean cost of a request, in US dollars; None without a price."""
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
    price = price_for(provider, config)
    with planned_in_store(config, where, pilot) as (prompt_plan, store, measured):
        units = list(store.sampling_units())
        store.select_only(balanced_sample(units, _COUNTED, config.seed))
        tokens = estimate(prompt_plan.prompts(store), prompt_plan.kinds, measured)
    read, written = tokens.input_tokens / tokens.requests, tokens.output_tokens / tokens.requests
    cost = cost_estimate(price, read, written)
    mean_price = Price(online=cost and cost.online, batch=cost and cost.batch)
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
        reached = f"all {everything.requests:,} requests give {everything.width:.3f}"
        notes.append(f"a width of {width:g} cannot be reached: {reached}; use {more}")
    elif not found:
        notes.append(f"the maximum cost is too low for an interval, which needs at least {MIN_TEMPLATES} templates")
    if online is None:
        hint = "requests are counted in place of money; --prices gives one"
        notes.append(f"no price is known for {config.model}: {hint}")
    if tokens.outputs == "assumed":
        notes.append("the length of answers is assumed; --pilot RUN measures it")
    return DesignReport(
        model=config.model,
        target=target,
        metric=metric.name,
        components=components,
        templates=len(template_sizes),
        questions=template_sizes.total(),
        prompt_variants=variants,
        speaks_of=speaks_of,
        orders=space.orders,
        languages=tuple(config.languages),
        splits=tuple(dict.fromkeys(split for _, split in cells)),
        request_cost=online,
        best=found[0] if found else None,
        as_run=study.as_run(width=width, requests=most),
        others=tuple(found[1 : _OTHERS + 1]),
        everything=everything,
        notes=tuple(notes),
    )


# --- servers ---------------------------------------------------------------------------------------------------------


class ServerReport(FrozenModel):
    """A server, its models and its sampling."""

    base_url: str
    """The value for `--base-url`."""
    server: str
    facts: dict[str, JsonValue]
    sampling_sent: dict[str, JsonValue]
    unpinned: str | None
    models: tuple[str, ...]

    @property
    def command(self) -> str:
        """An example `run` command. Ollama has its own kind, because its OpenAI-compatible API truncates prompts."""
        name = self.models[0] if self.models else "NAME"
        model = f"ollama:{name}" if self.server == "ollama" else f"openai:{name} --base-url {self.base_url}"
        return f"mbbq-gen run my-run --model {model} --benchmark starter --sample 1"


async def check_server(base_url: str, model_args: Mapping[str, Any], resources: PackPaths) -> ServerReport:
    """Identifies a server; no prompt is sent.

    `base_url`: of its OpenAI-compatible API, with or without `/v1`; `model_args`: further options of `openai:`.
    UsageError for a wrong option, ProviderError if the server is unreachable.
    """
    provider = open_provider("openai:any", {"patience": 0.0, **model_args, "base_url": base_url}, resources)
    assert isinstance(provider, OpenAIProvider)
    try:
        models = await provider.list_models()
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
        models=tuple(models),
    )
