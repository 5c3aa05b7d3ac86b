"""What a run, a judge or a study design costs, before it is sent: plans it in a temporary store and counts tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from mbbq_gen.analysis.design import (
    Components,
    DesignSearch,
    DesignSpace,
    DesignTarget,
    StudyDesign,
)
from mbbq_gen.analysis.design import Price as DesignPrice
from mbbq_gen.analysis.power import Question, VarianceAssumptions, power_table
from mbbq_gen.core.config import FollowUp, RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.prompts.render import orders_of
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import MESSAGE_TOKENS, Price, TokenCounter, price_of, read_prices, token_counter
from mbbq_gen.runs.follow_up import follow_up_rates, follow_up_text, follows_up
from mbbq_gen.runs.planner import PromptPlan
from mbbq_gen.runs.resolve import InstanceSource, open_model
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.token_estimate import (
    Cost,
    Duration,
    TokenEstimate,
    cost_estimate,
    duration,
    estimate,
    measured_outputs,
)
from mbbq_gen.scoring.codes import MIN_TEMPLATES, Average, PromptEffects
from mbbq_gen.scoring.metrics import Metric, kind_of, needed_kinds
from mbbq_gen.statistics.intervals import t_quantile
from mbbq_gen.storage.store import RunStore

SAMPLE_SIZES: Final = (50, 100, 250, 500, 1000, 2000, 5000)
"""Questions for each language and split; those that a benchmark has more of are looked at."""
FOLLOWED_UP: Final[Mapping[FollowUp, float]] = {"unread": 0.05, "low": 0.05}
"""Share of answers that are followed up, assumed without a pilot run."""
_LABEL_TOKENS: Final = 2
PRICED: Final = 40
"""Questions of each language and split whose tokens are counted for a design."""
SHOWN: Final = 6


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


class FollowUpEstimate(FrozenModel):
    """What follow-ups would take beside the first answers."""

    requests: int
    input_tokens: int
    output_tokens: int
    rates: Literal["assumed", "measured"]
    """Where the share of answers that are followed up comes from: a pilot run, or FOLLOWED_UP."""
    cost: Cost | None


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
    notes: tuple[str, ...]
    follow_up: FollowUpEstimate | None = None


def run_estimate(
    config: RunConfig,
    where: PackPaths,
    assumptions: VarianceAssumptions,
    *,
    tokenizer: Path | None = None,
    pilot: Path | None = None,
) -> CostEstimate:
    """The estimate of a run.

    Args:
        config: the run's, resolved.
        where: the language packs.
        assumptions: variances that interval widths are computed from.
        tokenizer: the model's tokenizer.json or its folder; None: the model's own where it is here.
        pilot: a run whose response lengths count; None: assumed.
    """
    provider, longest = open_model(config, where), None
    counter, price = token_counter(provider.kind, provider.model, tokenizer), _price(provider, config)
    if isinstance(limit := provider.settings.get("max_tokens"), int):
        longest = limit
    again = None
    with _draft(config, where, pilot) as (draft, store, measured):
        tokens = estimate(
            *(draft.prompts(store), counter, draft.kinds, measured),
            longest=longest,
            rooms={level: provider.reasoning_settings(level).room for level in config.reasoning_effort},
        )
        price = price and price.at(tokens.longest_input)
        samples = tuple(_samples(list(store.outlines()), config, tokens, price, assumptions))
    if follows_up(config):
        again = _follow_up_estimate(config, where, tokens, price, counter, pilot=pilot)
    base_url = provider.capabilities.base_url
    return CostEstimate(
        model=config.model,
        base_url=base_url,
        settings=config,
        tokens=tokens,
        price=price,
        cost=cost_estimate(price, tokens.input_tokens, tokens.output_tokens, tokens.most_output_tokens),
        duration=duration(tokens.requests, tokens.input_tokens + tokens.output_tokens, config.rpm, config.tpm),
        samples=samples,
        assumptions=assumptions,
        notes=tuple(_notes(config, tokens, price, base_url)),
        follow_up=again,
    )


def _price(provider: Provider, config: RunConfig) -> Price | None:
    """The price of a run's model; None where it is not known."""
    return price_of(provider.kind, provider.model, read_prices(config.prices), base_url=provider.capabilities.base_url)


@contextmanager
def _draft(
    config: RunConfig, where: PackPaths, pilot: Path | None
) -> Iterator[tuple[PromptPlan, RunStore, dict[str, float]]]:
    """The plan of a run, its questions in a temporary store, and prompt variant → tokens of a response in a pilot."""
    measured: dict[str, float] = {}
    if pilot is not None:
        with RunFolder(pilot).require().open_store(read_only=True) as store:
            measured = measured_outputs(store)
    with (
        TemporaryDirectory(prefix="mbbq-gen-plan-") as folder,
        RunStore(Path(folder) / "plan.sqlite") as store,
        Bar("counting", None, "steps") as bar,
    ):
        draft = PromptPlan(config, where, InstanceSource(config, where), bar.advance)
        draft.read(store)
        yield draft, store, measured


def _follow_up_estimate(
    config: RunConfig,
    where: PackPaths,
    tokens: TokenEstimate,
    price: Price | None,
    counter: TokenCounter,
    *,
    pilot: Path | None,
) -> FollowUpEstimate:
    """What follow-ups take: each reads the prompt again, with the first answer and the question about it."""
    measured = None if pilot is None else follow_up_rates(RunFolder(pilot), config.follow_up, where)
    share, answer_tokens = measured or (sum(FOLLOWED_UP[kind] for kind in config.follow_up), None)
    groups = [group for group in tokens.groups if group.method == "generate"]
    checked_share = (config.follow_up_check or 0) / sum(group.requests for group in groups)
    requests = input_tokens = 0.0
    for group in groups:
        question = follow_up_text(where, config.instruction_language or group.language).text
        written = group.output_tokens / group.requests
        beside = group.input_tokens / group.requests + counter.count(question) + 2 * MESSAGE_TOKENS
        followed = share * group.requests
        checked = min(checked_share * group.requests, group.requests - followed)
        requests += followed + checked
        input_tokens += followed * (answer_tokens or written) + checked * written + (followed + checked) * beside
    output = requests * _LABEL_TOKENS
    return FollowUpEstimate(
        requests=round(requests),
        input_tokens=round(input_tokens),
        output_tokens=round(output),
        rates="assumed" if pilot is None else "measured",
        cost=cost_estimate(price, input_tokens, output),
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
            most = None if tokens.most_output_tokens is None else tokens.most_output_tokens * part
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
                reach = t_quantile(0.95, effective)
                half_widths = {entry.question: entry.standard_error * reach for entry in table.detectable}
            yield SampleSizeEstimate(
                benchmark=benchmark,
                questions=size,
                is_all=size == len(largest),
                requests=round(tokens.requests * part),
                cost=cost_estimate(price, tokens.input_tokens * part, tokens.output_tokens * part, most),
                templates=len(sizes),
                n_templates_effective=effective,
                half_widths=half_widths,
            )


def _notes(settings: RunConfig, tokens: TokenEstimate, price: Price | None, base_url: str | None) -> Iterator[str]:
    if price is None:
        where = f" at {base_url}" if base_url else ""
        yield f"no price is known for {settings.model}{where}: nothing is guessed; give it with --prices"
    else:
        yield f"price of {price.version}" + (f": {price.note}" if price.note else "")
        if price.batch_input is None or price.batch_output is None:
            yield "the price of batches is not known, or there are none"
    if not tokens.exact:
        yield "questions: tokens are estimated from the characters, mostly within a tenth for OpenAI's newer models"
    if tokens.outputs == "assumed":
        yield (
            "answers: lengths are assumed, and reasoning comes on top; make a small run first (--sample 20) and give it"
            " with --pilot RUN"
        )


class LanguagePrice(FrozenModel):
    """What a request in a language takes on average, over the prompt variants."""

    language: str
    input_tokens: float
    output_tokens: float
    cost: float | None


class DesignReport(FrozenModel):
    """The best design for a target, what it stands on, and the next best ones."""

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
    """The design for a width, or for a maximum cost in US dollars; UsageError without the languages or the price.

    `config` is resolved; `pilot`: a run whose response lengths count.
    """
    if target != "score" and len(config.languages) < 2:
        raise UsageError(f"--goal {target!r} needs two languages at least; name them with --languages")
    provider = open_model(config, where)
    counter, price = token_counter(provider.kind, provider.model, None), _price(provider, config)
    with _draft(config, where, pilot) as (draft, store, measured):
        outlines = list(store.outlines())
        store.select_only(balanced_sample(outlines, PRICED, config.seed))
        tokens = estimate(draft.prompts(store), counter, draft.kinds, measured)
    prices = _language_prices(tokens, price and price.at(tokens.longest_input))
    online = _mean([None if cost is None else cost.online for _, cost in prices])
    batch = _mean([None if cost is None else cost.batch for _, cost in prices])
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
    study = DesignSearch(
        target, components, offer, DesignPrice(online=online, batch=batch), confidence, speaks_of, average
    )
    most = None if max_cost is None or online is None else max_cost / online
    found, everything = study.ranked(width=width, requests=most), study.everything()
    best = found[0] if found else None
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
        prices=tuple(found for found, _ in prices),
        best=best,
        as_run=study.as_run(width=width, requests=most),
        others=tuple(found[1 : SHOWN + 1]),
        everything=everything,
        notes=tuple(_design_notes(config, tokens, online, best, everything, width=width, speaks_of=speaks_of)),
    )


def _design_notes(
    config: RunConfig,
    tokens: TokenEstimate,
    online: float | None,
    best: StudyDesign | None,
    everything: StudyDesign,
    *,
    width: float | None,
    speaks_of: PromptEffects,
) -> Iterator[str]:
    if best is None and width is not None:
        more = "a benchmark with more templates" if speaks_of == "fixed" else "more prompt variants or templates"
        reached = f"all {everything.requests:,} requests reach {everything.width:.3f}"
        yield f"no money buys a width of {width:g}: {reached}; ask {more}"
    elif best is None:
        yield f"the maximum cost buys no interval: {MIN_TEMPLATES} templates at least are needed"
    if online is None:
        yield f"no price is known for {config.model}: requests are counted in place of money; --prices gives one"
    if tokens.outputs == "assumed":
        yield "the length of answers is assumed; --pilot RUN measures it"


def _language_prices(tokens: TokenEstimate, price: Price | None) -> list[tuple[LanguagePrice, Cost | None]]:
    """What a request costs in each language."""
    prices = []
    for language in dict.fromkeys(group.language for group in tokens.groups):
        groups = [group for group in tokens.groups if group.language == language]
        requests = sum(group.requests for group in groups)
        read = sum(group.input_tokens for group in groups) / requests
        written = sum(group.output_tokens for group in groups) / requests
        cost = cost_estimate(price, read, written)
        online = None if cost is None else cost.online
        prices.append((LanguagePrice(language=language, input_tokens=read, output_tokens=written, cost=online), cost))
    return prices


def _mean(costs: list[float | None]) -> float | None:
    """The mean over the languages, which a design uses alike; None where one is not known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(known) if known and len(known) == len(costs) else None
