"""What a run, a judge or a study design costs, before it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Literal

from mbbq_gen.analysis.design import (
    Components,
    DesignSearch,
    DesignSpace,
    DesignTarget,
    StudyDesign,
)
from mbbq_gen.analysis.design import Price as DesignPrice
from mbbq_gen.analysis.power import Question, VarianceAssumptions, half_width, power_table
from mbbq_gen.core.config import FollowUp, RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.prompts.render import orders_of
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.prices import MESSAGE_TOKENS, Price, TokenCounter
from mbbq_gen.runs.follow_up import FollowUpRates
from mbbq_gen.runs.planner import PromptPlan
from mbbq_gen.runs.token_estimate import Cost, Duration, SpeedProbe, TokenEstimate, cost_estimate, duration, estimate
from mbbq_gen.scoring.codes import MIN_TEMPLATES, Average, PromptEffects
from mbbq_gen.scoring.metrics import Metric, kind_of, needed_kinds
from mbbq_gen.storage.store import RunStore

SAMPLE_SIZES: Final = (50, 100, 250, 500, 1000, 2000, 5000)
"""Questions for each language and split; those that a benchmark has more of are looked at."""


class SampleSizeEstimate(FrozenModel):
    """What a balanced sample would cost, and how much it would tell."""

    benchmark: str
    questions: int
    is_all: bool
    requests: int
    cost: Cost | None
    templates: int
    """Templates that its ambiguous questions come from."""
    n_templates_effective: float
    """How many templates of one size tell as much: a score weighs questions alike, so large templates weigh most."""
    half_widths: dict[Question, float] | None
    """Half of a 95 % interval of the bias in ambiguous contexts; None where there are too few templates."""


class CostEstimate(FrozenModel):
    """What a run would take and cost."""

    schema_version: Literal["mbbq-gen.plan/1"] = "mbbq-gen.plan/1"
    model: str
    base_url: str | None
    """The server that would be used; None where there is none, or it is the service's own."""
    settings: RunConfig
    tokens: TokenEstimate
    price: Price | None
    cost: Cost | None
    duration: Duration | None
    samples: tuple[SampleSizeEstimate, ...]
    assumptions: VarianceAssumptions
    """What the widths of the intervals are computed from."""
    notes: tuple[str, ...]
    follow_up: FollowUpEstimate | None = None
    """What follow-ups would take on top; None where none are wanted."""
    probe: SpeedProbe | None = None
    """How fast the model answers on this machine; None where that was not tried."""


FOLLOWED_UP: Final[Mapping[FollowUp, float]] = {"unread": 0.05, "low": 0.05}
"""Share of answers that are followed up, assumed without a pilot run."""
_LABEL_TOKENS: Final = 2


class FollowUpEstimate(FrozenModel):
    """What follow-ups would take beside the first answers."""

    requests: int
    input_tokens: int
    output_tokens: int
    rates: Literal["assumed", "measured"]
    """Where the share of answers that are followed up comes from: a pilot run, or FOLLOWED_UP."""
    cost: Cost | None


def follow_up_estimate(
    settings: RunConfig,
    tokens: TokenEstimate,
    price: Price | None,
    questions: Mapping[str, float],
    rates: Mapping[tuple[str, str], FollowUpRates] | None,
) -> FollowUpEstimate:
    """What follow-ups take: each reads the prompt again, with the first answer and the question about it.

    `questions`: language → tokens of that question; `rates`: language and variant → how often a pilot's answers would
    have been followed up; None: assumed.
    """
    assumed = FollowUpRates(sum(FOLLOWED_UP[kind] for kind in settings.follow_up), None)
    groups = [group for group in tokens.groups if group.method == "generate"]
    read = sum(group.requests for group in groups)
    requests = input_tokens = 0.0
    for group in groups:
        found = (rates or {}).get((group.language, group.variant)) or (rates or {}).get(("", ""), assumed)
        checked = (settings.follow_up_check or 0) * group.requests / read
        written = group.output_tokens / group.requests
        beside = group.input_tokens / group.requests + questions[group.language] + 2 * MESSAGE_TOKENS
        followed = found.share * group.requests
        checked = min(checked, group.requests - followed)
        requests += followed + checked
        input_tokens += followed * (found.answer_tokens or written) + checked * written + (followed + checked) * beside
    output = requests * _LABEL_TOKENS
    cost = None if price is None else cost_estimate(price.at(tokens.longest_input), input_tokens, output, None)
    return FollowUpEstimate(
        requests=round(requests),
        input_tokens=round(input_tokens),
        output_tokens=round(output),
        rates="assumed" if rates is None else "measured",
        cost=cost,
    )


def estimate_cost(
    store: RunStore,
    settings: RunConfig,
    tokens: TokenEstimate,
    price: Price | None,
    *,
    base_url: str | None,
    limits: tuple[float | None, float | None],
    assumptions: VarianceAssumptions,
) -> CostEstimate:
    """The forecast for a draft whose questions are in `store`; `limits` are requests and tokens a minute."""
    cost = None
    if price is not None:
        price = price.at(tokens.longest_input)
        cost = cost_estimate(price, tokens.input_tokens, tokens.output_tokens, tokens.most_output_tokens)
    samples = tuple(_samples(list(store.outlines()), settings, tokens, price, assumptions))
    return CostEstimate(
        model=settings.model,
        base_url=base_url,
        settings=settings,
        tokens=tokens,
        price=price,
        cost=cost,
        duration=duration(tokens.requests, tokens.input_tokens + tokens.output_tokens, *limits),
        samples=samples,
        assumptions=assumptions,
        notes=(*_notes(settings, tokens, price, base_url), *_notes_on_size(samples)),
    )


def _samples(
    outlines: list[SamplingUnit],
    settings: RunConfig,
    tokens: TokenEstimate,
    price: Price | None,
    assumptions: VarianceAssumptions,
) -> Iterator[SampleSizeEstimate]:
    """Sample after sample of each benchmark, smallest first."""
    variants = len(settings.variants) * len(settings.label_style) * max(1, len(settings.reasoning_effort))
    shown = tokens.prompts / tokens.questions
    benchmarks: dict[str, dict[tuple[str, str], list[SamplingUnit]]] = {}
    for outline in outlines:
        place = (outline.language, outline.split)
        benchmarks.setdefault(outline.benchmark, {}).setdefault(place, []).append(outline)
    for benchmark, cells in benchmarks.items():
        largest = max(cells.values(), key=len)
        for size in [*(size for size in SAMPLE_SIZES if size < len(largest)), len(largest)]:
            part = sum(min(size, len(cell)) for cell in cells.values()) * shown / tokens.prompts
            chosen = balanced_sample(largest, size, settings.seed)
            # ambiguous questions of each template
            ambiguous = (unit for unit in largest if unit.key in chosen and unit.condition == "ambiguous")
            sizes = list(Counter(unit.template_id for unit in ambiguous).values())
            # Kish's effective number of templates of these sizes
            effective = sum(sizes) ** 2 / sum(size**2 for size in sizes) if sizes else 0.0
            cost = None
            if price is not None:
                most = None if tokens.most_output_tokens is None else tokens.most_output_tokens * part
                cost = cost_estimate(price, tokens.input_tokens * part, tokens.output_tokens * part, most)
            half_widths = None
            with suppress(UsageError):  # too few templates
                table = power_table(
                    benchmark,
                    len(sizes),
                    variants,
                    questions=sum(sizes) / max(len(sizes), 1),
                    orders=shown / variants,
                    effective_share=effective / max(len(sizes), 1),
                    assumptions=assumptions,
                )
                half_widths = {
                    entry.question: half_width(entry.standard_error, effective) for entry in table.detectable
                }
            yield SampleSizeEstimate(
                benchmark=benchmark,
                questions=size,
                is_all=size == len(largest),
                requests=round(tokens.requests * part),
                cost=cost,
                templates=len(sizes),
                n_templates_effective=effective,
                half_widths=half_widths,
            )


def _notes_on_size(samples: Iterable[SampleSizeEstimate]) -> Iterator[str]:
    """Where asking everything tells less than a balanced sample, and why."""
    of_benchmark: dict[str, list[SampleSizeEstimate]] = {}
    for sample in samples:
        of_benchmark.setdefault(sample.benchmark, []).append(sample)
    for benchmark, sizes in of_benchmark.items():
        widths = [(found.half_widths["one score against 0"], found) for found in sizes if found.half_widths]
        best = min(widths, key=lambda entry: entry[0], default=(0.0, sizes[-1]))[1]
        whole = sizes[-1]
        if best.questions < whole.questions:
            yield (
                f"{benchmark}: a score over {best.questions:,} balanced questions has a narrower interval than one over"
                f" all {whole.questions:,}: the templates differ in size, and the largest carry a score over all of"
                f" them ({whole.templates} templates tell as much as {whole.n_templates_effective:.0f} of one size;"
                f" in the sample, as {best.n_templates_effective:.0f})"
            )


def _notes(settings: RunConfig, tokens: TokenEstimate, price: Price | None, base_url: str | None) -> Iterator[str]:
    if price is None:
        where = f" at {base_url}" if base_url else ""
        yield f"no price is known for {settings.model}{where}: nothing is guessed; give it with --prices"
    else:
        yield f"price of {price.version}" + (f": {price.note}" if price.note else "")
        if not price.has_batch:
            yield "the price of batches is not known, or there are none"
    if not tokens.exact:
        yield "questions: tokens are estimated from the characters, mostly within a tenth for OpenAI's newer models"
    if tokens.outputs == "assumed":
        yield (
            "answers: lengths are assumed, and reasoning comes on top; make a small run first (--sample 20) and give it"
            " with --pilot RUN"
        )


class JudgeEstimate(FrozenModel):
    """What asking a judge would take and cost; `tokens.prompts` are the answers to be read."""

    schema_version: Literal["mbbq-gen.judge-plan/1"] = "mbbq-gen.judge-plan/1"
    judge: str
    model: str
    base_url: str | None
    prompt_version: int
    prompt_sha256: str
    answered: int
    """Answers of the choice whose reply is there already: they cost nothing, and are not among the tokens."""
    tokens: TokenEstimate
    price: Price | None
    cost: Cost | None
    duration: Duration | None
    notes: tuple[str, ...]


PRICED: Final = 40
"""Questions of each language and split whose tokens are counted."""
SHOWN: Final = 6


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
    """None where a cost was given."""
    max_cost: float | None
    """US dollars; None where a width was given."""
    components: Components
    templates: int
    questions: int
    """That there are in one language and split, and count for the metric."""
    prompt_variants: int
    speaks_of: PromptEffects = "fixed"
    """What the widths speak of: the run's prompt variants, or variants like them."""
    average: Average = "questions"
    orders: int
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    prices: tuple[LanguagePrice, ...]
    best: StudyDesign | None
    """None where nothing reaches the width, or the maximum cost buys nothing."""
    as_run: StudyDesign | None
    """The best that `run --answers-per-template` can ask, which leaves no template out; None as for `best`."""
    others: tuple[StudyDesign, ...]
    """The best of other numbers of prompt variants and orders, best first."""
    everything: StudyDesign
    """All of it: no amount buys a narrower interval."""
    notes: tuple[str, ...]


def priced_requests(
    draft: PromptPlan, store: RunStore, counter: TokenCounter, measured: dict[str, float]
) -> TokenEstimate:
    """What a balanced part of the requests takes; the questions of the draft are in `store`, and are fewer after it."""
    store.select_only(balanced_sample(store.outlines(), PRICED, draft.settings.seed))
    return estimate(draft.prompts(store), counter, draft.kinds, measured)


def _language_prices(
    tokens: TokenEstimate, price: Price | None
) -> tuple[list[LanguagePrice], float | None, float | None]:
    """What a request costs in each language, and the means over the languages, which a design uses alike: online and
    in batches; None where no price is known."""
    prices, costs = [], list[Cost]()
    for language in dict.fromkeys(group.language for group in tokens.groups):
        groups = [group for group in tokens.groups if group.language == language]
        requests = sum(group.requests for group in groups)
        read = sum(group.input_tokens for group in groups) / requests
        written = sum(group.output_tokens for group in groups) / requests
        costs += [] if price is None else [cost_estimate(price, read, written, None)]
        cost = costs[-1].online if costs else None
        prices.append(LanguagePrice(language=language, input_tokens=read, output_tokens=written, cost=cost))
    online = sum(cost.online for cost in costs) / len(costs) if costs else None
    batches = [cost.batch for cost in costs if cost.batch is not None]
    batch = sum(batches) / len(batches) if batches and len(batches) == len(costs) else None
    return prices, online, batch


def design_report(
    outlines: list[SamplingUnit],
    settings: RunConfig,
    tokens: TokenEstimate,
    price: Price | None,
    *,
    target: DesignTarget,
    metric: Metric,
    components: Components,
    confidence: float,
    width: float | None,
    max_cost: float | None,
    speaks_of: PromptEffects = "fixed",
    average: Average = "questions",
) -> DesignReport:
    """The design for a width, or for a maximum cost in US dollars; UsageError without the languages or the price."""
    if target != "score" and len(settings.languages) < 2:
        raise UsageError(f"--goal {target!r} needs two languages at least; name them with --languages")
    prices, online, batch = _language_prices(tokens, None if price is None else price.at(tokens.longest_input))
    if max_cost is not None and online is None:
        raise UsageError(
            f"--max-cost: no price is known for {settings.model}; give it with --prices, or give --ci-width"
        )
    kinds = needed_kinds([metric])
    cells: dict[tuple[str, str], Counter[tuple[str, str, str]]] = {}
    for outline in outlines:
        if kind_of(outline.condition, outline.alignment) in kinds:
            template = (outline.benchmark, outline.category, outline.template_id)
            cells.setdefault((outline.language, outline.split), Counter())[template] += 1
    stock = max(cells.values(), key=lambda counts: (len(counts), counts.total()), default=Counter())
    variants = len(settings.variants) * len(settings.label_style)
    offer = DesignSpace(tuple(sorted(stock.values())), variants, orders_of(settings.option_order), len(cells))
    offer.check(speaks_of)
    study = DesignSearch(
        target, components, offer, DesignPrice(online=online, batch=batch), confidence, speaks_of, average
    )
    most = None if max_cost is None or online is None else max_cost / online
    best, everything = study.narrowest(most or 0.0) if width is None else study.cheapest(width), study.everything()
    others = [] if best is None else study.next_best(best, width=width, requests=most)
    notes = []
    if best is None and width is not None:
        variant_hint = "in more prompt variants, or " if speaks_of == "random" else ""
        notes.append(
            f"no money buys a width of {width:g}: all {everything.requests:,} requests reach {everything.width:.3f};"
            f" ask {variant_hint}a benchmark with more templates"
        )
    elif best is None:
        notes.append(f"the maximum cost buys no interval: {MIN_TEMPLATES} templates at least are needed")
    if online is None:
        notes.append(
            f"no price is known for {settings.model}: requests are counted in place of money; --prices gives one"
        )
    if tokens.outputs == "assumed":
        notes.append("the length of answers is assumed; --pilot RUN measures it")
    return DesignReport(
        model=settings.model,
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
        languages=tuple(settings.languages),
        splits=tuple(dict.fromkeys(split for _, split in cells)),
        prices=tuple(prices),
        best=best,
        as_run=study.as_run(width=width, requests=most),
        others=tuple(others[:SHOWN]),
        everything=everything,
        notes=tuple(notes),
    )
