"""Prices and stock for the design search: what a run could contain and cost. Sends and stores nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, Literal

from mbbq_gen.analysis.design import (
    Components,
    DesignSearch,
    DesignSpace,
    DesignTarget,
    Price,
    StudyDesign,
    check_offer,
)
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, SamplingUnit
from mbbq_gen.prompts.render import orders_of
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.prices import Price as PriceOfTokens
from mbbq_gen.providers.prices import TokenCounter
from mbbq_gen.runs.estimate import TokenEstimate, cost_estimate, estimate
from mbbq_gen.runs.planner import PromptPlan
from mbbq_gen.scoring.baselines import kind_of, needed_kinds
from mbbq_gen.scoring.codes import MIN_TEMPLATES, PromptEffects
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.storage.store import RunStore

PRICED: Final = 40
"""Questions of each language and split whose tokens are counted."""
SHOWN: Final = 6
"""Other designs that are told."""


class LanguagePrice(FrozenModel):
    """What a request in a language takes on average, over the prompt variants."""

    language: str
    input_tokens: float
    output_tokens: float
    cost: float | None
    """US dollars, one by one; None where no price is known."""


class DesignReport(FrozenModel):
    """The best design for a target, what it stands on, and the next best ones."""

    schema_version: Literal["mbbq-gen.design/1"] = "mbbq-gen.design/1"
    model: str
    target: DesignTarget
    metric: str
    confidence: float
    wanted_width: float | None
    """None where a budget was given."""
    budget: float | None
    """US dollars; None where a width was given."""
    components: Components
    templates: int
    """That there are."""
    questions: int
    """That there are in one language and split, and count for the metric."""
    prompt_variants: int
    speaks_of: PromptEffects = "fixed"
    """What the widths speak of: the prompt variants asked, or prompt variants like them."""
    orders: int
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    prices: tuple[LanguagePrice, ...]
    best: StudyDesign | None
    """None where nothing reaches the width, or the budget buys nothing."""
    as_run: StudyDesign | None
    """The best that `run --answers-per-template` can ask, which leaves no template out; None as for `best`."""
    others: tuple[StudyDesign, ...]
    """The best of other numbers of prompt variants and orders, best first."""
    everything: StudyDesign
    """All of it: no budget buys a narrower interval."""
    notes: tuple[str, ...]


def priced_requests(
    draft: PromptPlan, store: RunStore, counter: TokenCounter, measured: dict[str, float]
) -> TokenEstimate:
    """What a balanced part of the requests takes; the questions of the draft are in `store`, and are fewer after it."""
    outlines = list(store.outlines())
    store.keep_only(balanced_sample(outlines, PRICED, draft.settings.seed), {outline.key for outline in outlines})
    return estimate(draft.prompts(store), counter, draft.kinds, measured)


def language_prices(tokens: TokenEstimate, price: PriceOfTokens | None) -> list[LanguagePrice]:
    """The average request of each language."""
    found = []
    for language in dict.fromkeys(group.language for group in tokens.groups):
        groups = [group for group in tokens.groups if group.language == language]
        requests = sum(group.requests for group in groups)
        read = sum(group.input_tokens for group in groups) / requests
        written = sum(group.output_tokens for group in groups) / requests
        cost = None if price is None else cost_estimate(price, read, written, None).online
        found.append(LanguagePrice(language=language, input_tokens=read, output_tokens=written, cost=cost))
    return found


def price_of_request(prices: list[LanguagePrice], price: PriceOfTokens | None) -> Price:
    """The average over the languages, which a design asks alike."""
    if price is None:
        return Price(online=None, batch=None)
    costs = [cost_estimate(price, each.input_tokens, each.output_tokens, None) for each in prices]
    batches = [cost.batch for cost in costs if cost.batch is not None]
    return Price(
        online=sum(cost.online for cost in costs) / len(costs),
        batch=sum(batches) / len(batches) if len(batches) == len(costs) else None,
    )


def design_report(
    outlines: list[SamplingUnit],
    settings: RunConfig,
    tokens: TokenEstimate,
    price: PriceOfTokens | None,
    *,
    target: DesignTarget,
    metric: Metric,
    components: Components,
    confidence: float,
    width: float | None,
    budget: float | None,
    speaks_of: PromptEffects = "fixed",
) -> DesignReport:
    """The design for a width, or for a budget in US dollars.

    Raises:
        UsageError: where the target needs more languages, or the budget a price.
    """
    if target != "score" and len(settings.languages) < 2:
        raise UsageError(f"--goal {target!r} needs two languages at least; name them with --languages")
    price = None if price is None else price.at(tokens.longest_input)
    prices = language_prices(tokens, price)
    each = price_of_request(prices, price)
    if budget is not None and each.online is None:
        raise UsageError(f"--budget: no price is known for {settings.model}; give it with --prices, or give --ci-width")
    kinds = needed_kinds([metric])
    cells: dict[tuple[str, str], Counter[tuple[str, str, str]]] = {}
    for outline in outlines:
        if kind_of(outline.condition, outline.alignment) in kinds:
            template = (outline.benchmark, outline.category, outline.template_id)
            cells.setdefault((outline.language, outline.split), Counter())[template] += 1
    stock = max(cells.values(), key=lambda counts: (len(counts), counts.total()), default=Counter())
    variants = len(settings.variants) * len(settings.label_styles)
    offer = DesignSpace(tuple(sorted(stock.values())), variants, orders_of(settings.option_order), len(cells))
    check_offer(offer, speaks_of)
    study = DesignSearch(target, components, offer, each, confidence, speaks_of)
    requests = None if budget is None or each.online is None else budget / each.online
    best = study.cheapest(width) if width is not None else study.narrowest(requests or 0.0)
    others = [] if best is None else study.next_best(best, width=width, requests=requests)
    return DesignReport(
        model=settings.model,
        target=target,
        metric=metric.name,
        confidence=confidence,
        wanted_width=width,
        budget=budget,
        components=components,
        templates=len(stock),
        questions=stock.total(),
        prompt_variants=variants,
        speaks_of=speaks_of,
        orders=offer.orders,
        languages=tuple(settings.languages),
        splits=tuple(dict.fromkeys(split for _, split in cells)),
        prices=tuple(prices),
        best=best,
        as_run=study.as_run(width=width, requests=requests),
        others=tuple(others[:SHOWN]),
        everything=study.everything(),
        notes=(*_reached(best, study.everything(), width, speaks_of), *_prices_told(settings, tokens, each)),
    )


def _reached(
    best: StudyDesign | None, everything: StudyDesign, width: float | None, speaks_of: PromptEffects
) -> Iterator[str]:
    """Why there is no design."""
    if best is None and width is not None:
        yield (
            f"no money buys a width of {width:g}: all {everything.requests:,} requests reach {everything.width:.3f};"
            f" ask {'in more wordings, or ' if speaks_of == 'random' else ''}a benchmark with more templates"
        )
    elif best is None:
        yield f"the budget buys no interval: {MIN_TEMPLATES} templates at least have to be asked"


def _prices_told(settings: RunConfig, tokens: TokenEstimate, each: Price) -> Iterator[str]:
    """What is not known of the price."""
    if each.online is None:
        yield f"no price is known for {settings.model}: requests are counted in place of money; --prices gives one"
    if tokens.outputs == "assumed":
        yield "the length of answers is assumed; --pilot RUN measures it"
