"""What a run would take and cost, and what a smaller one would: everything to know before anything is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from mbbq_gen.analysis.power import Question, VarianceAssumptions, half_width, power_table
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, SamplingUnit
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.prices import Price
from mbbq_gen.runs.estimate import Cost, Duration, TokenEstimate, cost_estimate, duration
from mbbq_gen.runs.speed_probe import SpeedProbe
from mbbq_gen.storage.store import RunStore

SAMPLE_SIZES: Final = (50, 100, 250, 500, 1000, 2000, 5000)
"""Questions for each language and split; those that a benchmark has more of are looked at."""


class SampleSizeEstimate(FrozenModel):
    """What a balanced sample would cost, and how much it would tell."""

    benchmark: str
    questions: int
    """For each language and split."""
    is_all: bool
    """Whether that is all there are in the selection."""
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
    """The server that would be asked; None where there is none, or it is the service's own."""
    settings: RunConfig
    tokens: TokenEstimate
    price: Price | None
    """None where no table tells it."""
    cost: Cost | None
    duration: Duration | None
    """Asking one by one; None where no limit was given."""
    samples: tuple[SampleSizeEstimate, ...]
    assumptions: VarianceAssumptions
    """What the widths of the intervals are computed from."""
    notes: tuple[str, ...]
    """What every reader of these numbers has to know."""
    judge: JudgeEstimate | None = None
    """What a second reader of all answers would take on top; None where none was asked for."""
    probe: SpeedProbe | None = None
    """How fast the model answers on this machine; None where that was not tried."""


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
    variants = len(settings.variants) * len(settings.label_styles) * max(1, len(settings.reasoning_effort))
    shown = tokens.prompts / tokens.questions
    for benchmark in dict.fromkeys(outline.benchmark for outline in outlines):
        cells = _cells(outline for outline in outlines if outline.benchmark == benchmark)
        largest = max(cells, key=len)
        sizes = [size for size in SAMPLE_SIZES if size < len(largest)]
        for size in [*sizes, len(largest)]:
            asked = sum(min(size, len(cell)) for cell in cells)
            part = asked * shown / tokens.prompts
            chosen = balanced_sample(largest, size, settings.seed)
            sizes = _template_sizes(outline for outline in largest if outline.key in chosen)
            yield SampleSizeEstimate(
                benchmark=benchmark,
                questions=size,
                is_all=size == len(largest),
                requests=round(tokens.requests * part),
                cost=None if price is None else _part_of(tokens, price, part),
                templates=len(sizes),
                n_templates_effective=_effective(sizes),
                half_widths=_half_widths(
                    benchmark, sizes, variants=variants, orders=shown / variants, assumptions=assumptions
                ),
            )


def _cells(outlines: Iterable[SamplingUnit]) -> list[list[SamplingUnit]]:
    """The questions of each language and split."""
    cells: dict[tuple[str, str], list[SamplingUnit]] = {}
    for outline in outlines:
        cells.setdefault((outline.language, outline.split), []).append(outline)
    return list(cells.values())


def _part_of(tokens: TokenEstimate, price: Price, part: float) -> Cost:
    most = None if tokens.most_output_tokens is None else tokens.most_output_tokens * part
    return cost_estimate(price, tokens.input_tokens * part, tokens.output_tokens * part, most)


def _template_sizes(asked: Iterable[SamplingUnit]) -> list[int]:
    """Ambiguous questions of each template."""
    return list(Counter(outline.template_id for outline in asked if outline.condition == "ambiguous").values())


def _effective(sizes: Sequence[int]) -> float:
    """Kish's effective number of templates of these sizes."""
    return sum(sizes) ** 2 / sum(size**2 for size in sizes) if sizes else 0.0


def _half_widths(
    benchmark: str, sizes: Sequence[int], *, variants: int, orders: float, assumptions: VarianceAssumptions
) -> dict[Question, float] | None:
    """Half the width of the intervals that these questions would give; None where they come from too few templates."""
    templates, effective = len(sizes), _effective(sizes)
    try:
        table = power_table(
            benchmark,
            templates,
            variants,
            questions=sum(sizes) * orders / max(templates, 1),
            effective_share=effective / max(templates, 1),
            assumptions=assumptions,
        )
    except UsageError:
        return None
    return {entry.question: half_width(entry.standard_error, effective) for entry in table.detectable}


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
            " with --from RUN"
        )


class JudgeEstimate(FrozenModel):
    """What asking a judge would take and cost; `tokens.prompts` are the answers to be read."""

    schema_version: Literal["mbbq-gen.judge-plan/1"] = "mbbq-gen.judge-plan/1"
    judge: str
    model: str
    base_url: str | None
    """The server that would be asked; None where there is none."""
    prompt_version: int
    prompt_sha256: str
    answered: int
    """Answers of the choice whose reply is there already: they cost nothing, and are not among the tokens."""
    tokens: TokenEstimate
    price: Price | None
    """None where no table tells it."""
    cost: Cost | None
    duration: Duration | None
    """None where no limit was given."""
    notes: tuple[str, ...]
