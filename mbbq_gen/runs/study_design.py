"""Finds the best study design for an interval width or a maximum cost. Sends and stores nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from mbbq_gen.analysis.design import Components, DesignSearch, DesignSpace, DesignTarget, Price, StudyDesign
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.prompts.render import orders_of
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.prices import token_counter
from mbbq_gen.runs.estimate import cost_estimate, estimate, planned_in_store, price_for
from mbbq_gen.runs.resolve import open_model
from mbbq_gen.scoring.codes import MIN_TEMPLATES, Average, PromptEffects
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
    """In one language and split, that count for the metric."""
    prompt_variants: int
    speaks_of: PromptEffects = "fixed"
    """Whether widths hold for the run's prompt variants, or for all variants like them."""
    average: Average = "questions"
    orders: int
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    prices: tuple[LanguagePrice, ...]
    best: StudyDesign | None
    """None if nothing reaches the width, or the maximum cost buys nothing."""
    as_run: StudyDesign | None
    """The best design for `run --answers-per-template`, which leaves no template out; None as for `best`."""
    others: tuple[StudyDesign, ...]
    """The best of other numbers of prompt variants and orders, best first."""
    everything: StudyDesign
    """All questions: no design has a narrower interval."""
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
    average: Average = "questions",
) -> DesignReport:
    """The design for a width, or for a maximum cost in US dollars; UsageError without the languages or the price."""
    if target != "score" and len(config.languages) < 2:
        raise UsageError(f"--goal {target!r} needs two languages at least; name them with --languages")
    provider = open_model(config, where)
    counter, price = token_counter(provider.kind, provider.model, None), price_for(provider, config)
    with planned_in_store(config, where, pilot) as (draft, store, measured):
        outlines = list(store.outlines())
        store.select_only(balanced_sample(outlines, _COUNTED, config.seed))
        tokens = estimate(draft.prompts(store), counter, draft.kinds, measured)
    prices, costs = [], []
    for language in dict.fromkeys(group.language for group in tokens.groups):
        groups = [group for group in tokens.groups if group.language == language]
        requests = sum(group.requests for group in groups)
        read = sum(group.input_tokens for group in groups) / requests
        written = sum(group.output_tokens for group in groups) / requests
        cost = cost_estimate(price and price.at(tokens.longest_input), read, written)
        costs.append((None, None) if cost is None else (cost.online, cost.batch))
        prices.append(LanguagePrice(language=language, input_tokens=read, output_tokens=written, cost=costs[-1][0]))
    online, batch = (_mean(amounts) for amounts in zip(*costs, strict=True))
    if max_cost is not None and online is None:
        raise UsageError(f"--max-cost: no price is known for {config.model}; give it with --prices, or give --ci-width")
    kinds = needed_kinds([metric])
    cells: dict[tuple[str, str], Counter[tuple[str, str, str]]] = {}
    for outline in outlines:
        if kind_of(outline.condition, outline.alignment) in kinds:
            template = (outline.benchmark, outline.category, outline.template_id)
            cells.setdefault((outline.language, outline.split), Counter())[template] += 1
    stock = max(cells.values(), key=lambda counts: (len(counts), counts.total()), default=Counter())
    variants = len(config.variants) * len(config.label_style)
    offer = DesignSpace(tuple(sorted(stock.values())), variants, orders_of(config.option_order), len(cells))
    offer.check(speaks_of)
    paid = Price(online=online, batch=batch)
    study = DesignSearch(target, components, offer, paid, confidence, speaks_of, average)
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
        unit = "requests are counted in place of money; --prices gives one"
        notes.append(f"no price is known for {config.model}: {unit}")
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
        templates=len(stock),
        questions=stock.total(),
        prompt_variants=variants,
        speaks_of=speaks_of,
        average=average,
        orders=offer.orders,
        languages=tuple(config.languages),
        splits=tuple(dict.fromkeys(split for _, split in cells)),
        prices=tuple(prices),
        best=found[0] if found else None,
        as_run=study.as_run(width=width, requests=most),
        others=tuple(found[1 : _OTHERS + 1]),
        everything=everything,
        notes=tuple(notes),
    )


def _mean(costs: Iterable[float | None]) -> float | None:
    """The mean over the languages, which a design uses alike; None if one is not known."""
    known = list(costs)
    return None if None in known else sum(cost or 0.0 for cost in known) / len(known)
