"""Commands `estimate` and `design`: cost and precision of a run before it starts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from mbbq_gen.cli.analyses import variances_of
from mbbq_gen.cli.config_options import EstimateSettings, expand_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import Json, RunPacks, average_of, prompt_effects_of, resources, runs_frame, say, show_result
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import one_of

if TYPE_CHECKING:
    from mbbq_gen.analysis.design import DesignTarget
    from mbbq_gen.analysis.power import VarianceAssumptions
    from mbbq_gen.core.config import RunConfig
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.providers.prices import Price
    from mbbq_gen.runs.cost_estimate import CostEstimate, JudgeEstimate
    from mbbq_gen.runs.planner import PromptPlan
    from mbbq_gen.storage.store import RunStore


@example(
    "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark mbbq --languages en,nl,es,tr \\\n"
    "      --variants all --splits bias,control --rpm 5000\n"
    "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark starter --pilot pilot --json\n"
    "  mbbq-gen estimate --model transformers:smollm2 --benchmark starter --languages en --probe"
)
@expand_options
def estimate(
    *,
    tokenizer: Annotated[
        Path | None,
        option(
            "Estimate",
            "The model's tokenizer.json, or the folder that holds it. Default: the model's own, if it is on this "
            "machine.",
            metavar="PATH",
        ),
    ] = None,
    pilot: Annotated[
        Path | None,
        option("Estimate", "Take response lengths and variances from this run. Default: assumed.", metavar="RUN"),
    ] = None,
    judge: Annotated[
        str | None,
        option("Estimate", "Also estimate this model as an LLM judge of all responses.", metavar="KIND:MODEL"),
    ] = None,
    probe: Annotated[
        bool, option("Estimate", "Run ten requests on a local model to estimate the time.", "--probe")
    ] = False,
    config: EstimateSettings,
    packs: RunPacks = None,
    as_json: Json = False,
) -> None:
    """Estimates requests, tokens, cost and time of a run.

    Takes the options of `run` that the number and the cost of requests depend on. Shows the cost with and without the
    batch API. Also lists the cost and the interval width of smaller, balanced samples. Sends nothing unless --probe is
    given, writes nothing and needs no key.
    """
    from mbbq_gen.report.run_tables import estimate_blocks
    from mbbq_gen.runs.resolve import resolve

    where = resources(packs)
    found = make_estimate(resolve(config, where), where, tokenizer, pilot, judge, with_probe=probe)
    show_result(found, estimate_blocks, as_json=as_json)


def make_estimate(
    settings: RunConfig,
    where: PackPaths,
    tokenizer: Path | None = None,
    pilot: Path | None = None,
    judge: str | None = None,
    *,
    with_probe: bool = False,
) -> CostEstimate:
    """The estimate of a run with this configuration; uses a temporary folder."""
    from mbbq_gen.providers.prices import price_of, read_prices, token_counter
    from mbbq_gen.runs.cost_estimate import estimate_cost, follow_up_estimate
    from mbbq_gen.runs.follow_up import follow_up_rates, follow_up_text, follows_up
    from mbbq_gen.runs.planner import PromptPlan
    from mbbq_gen.runs.resolve import InstanceSource, open_model
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.runs.token_estimate import estimate, probe
    from mbbq_gen.storage.store import RunStore

    prices = read_prices(settings.prices)
    provider = open_model(settings, where)
    base_url = provider.capabilities.base_url
    counter = token_counter(provider.kind, provider.model, tokenizer)
    measured = {} if pilot is None else measured_lengths(pilot)
    longest = provider.settings.get("max_tokens")
    with TemporaryDirectory(prefix="mbbq-gen-plan-") as folder, RunStore(Path(folder) / "plan.sqlite") as store:
        with Bar("counting", None, "steps", delay=1.0) as bar:
            draft = PromptPlan(settings, where, InstanceSource(settings, where), bar.advance)
            draft.read(store)
            tokens = estimate(
                draft.prompts(store),
                counter,
                draft.kinds,
                measured,
                longest=longest if isinstance(longest, int) else None,
                rooms={level: provider.reasoning_settings(level).room for level in settings.reasoning_effort},
            )
            tried = None
            if with_probe:
                tried = probe(provider, draft.prompts(store), store.instance, tokens.requests, seed=settings.seed)
            second = None if judge is None else _judge(judge, draft, store, tokens.output_tokens, where, prices)

        found = estimate_cost(
            store,
            settings,
            tokens,
            price_of(provider.kind, provider.model, prices, base_url=base_url),
            base_url=base_url,
            limits=(settings.rpm, settings.tpm),
            assumptions=_assumptions(pilot, where),
        )
        again = None
        if follows_up(settings):
            rates = None if pilot is None else follow_up_rates(RunFolder(pilot), settings.follow_up, where)
            asked_in = {code: settings.instruction_language or code for code in settings.languages}
            questions = {code: counter.count(follow_up_text(where, said).text) for code, said in asked_in.items()}
            again = follow_up_estimate(settings, tokens, found.price, questions, rates)
        return found.model_copy(update={"judge": second, "probe": tried, "follow_up": again})


def _assumptions(pilot: Path | None, where: PackPaths) -> VarianceAssumptions:
    """The variances of a pilot; without one, or where too few of its answers were parsed, the assumed ones."""
    from mbbq_gen.analysis.power import DEFAULTS

    if pilot is None:
        return DEFAULTS
    try:
        return variances_of(pilot, "mbbq_bias_ambiguous", where).assumptions
    except UsageError as error:
        say(f"{pilot}: {error}; interval widths use assumed variances")
        return DEFAULTS


def _judge(
    model: str, draft: PromptPlan, store: RunStore, answer_tokens: int, where: PackPaths, prices: tuple[Price, ...]
) -> JudgeEstimate:
    """The estimate of an LLM judge of all responses."""
    from mbbq_gen.annotation.judge_runner import estimate_judge, judge_provider, new_judge, pending_judge_requests
    from mbbq_gen.providers.prices import price_of, token_counter

    found = new_judge(model, {}, where)
    provider = judge_provider(model, {}, found.prompt, where)
    base_url = provider.capabilities.base_url
    longest = provider.settings.get("max_tokens")
    return estimate_judge(
        pending_judge_requests(draft.prompts(store), store.instance, found),
        found,
        token_counter(provider.kind, provider.model),
        price_of(provider.kind, provider.model, prices, base_url=base_url),
        base_url=base_url,
        limits=(None, None),
        longest=longest if isinstance(longest, int) else None,
        unwritten=answer_tokens,
    )


def measured_lengths(pilot: Path) -> dict[str, float]:
    """Prompt variant → tokens of a response in a pilot run."""
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.runs.token_estimate import measured_outputs

    folder = RunFolder(pilot)
    folder.require()
    with folder.open_store(read_only=True) as store:
        return measured_outputs(store)


@example(
    "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr --splits bias \\\n"
    '      --goal "difference between languages" --ci-width 0.15\n'
    "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en --max-cost 20 --pilot my-pilot\n"
    "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en --ci-width 0.1 \\\n"
    "      --average random-effects\n"
    "  mbbq-gen design --model transformers:smollm2 --benchmark starter --languages en --ci-width 0.2 --json"
)
@expand_options
def design(
    *,
    goal: Annotated[
        str, option("Goal", "What to measure: `score` or `difference between languages`.", metavar="TEXT")
    ] = "score",
    ci_width: Annotated[
        float | None, option("Goal", "Width of the confidence interval to reach (upper minus lower end).", metavar="W")
    ] = None,
    max_cost: Annotated[
        float | None,
        option("Goal", "Instead of a width: US dollars to spend; finds the narrowest interval.", metavar="USD"),
    ] = None,
    metric: Annotated[
        str, option("Goal", "Metric to measure; for names: `mbbq-gen score --help`.")
    ] = "mbbq_bias_ambiguous",
    pilot: Annotated[
        Path | None,
        option("Goal", "Take variances and response lengths from this run. Default: assumed.", metavar="RUN"),
    ] = None,
    prompt_effects: Annotated[
        str,
        option("Goal", "Intervals for: fixed (these prompt variants) or random (variants like them).", metavar="TYPE"),
    ] = "fixed",
    average: Annotated[
        str,
        option(
            "Goal",
            "What the score is the mean over: questions or templates (the same here, for a design uses templates "
            "alike), or random-effects.",
        ),
    ] = "questions",
    confidence_level: Annotated[float, option("Goal", "Confidence level of the interval.", min=0.5, max=0.999)] = 0.95,
    config: EstimateSettings,
    packs: RunPacks = None,
    as_json: Json = False,
) -> None:
    """Finds how many questions and prompts give an interval width at the least cost.

    A design is the numbers of templates, questions, prompt variants and option orders. Takes the options of `run`
    that choose questions and prompts. Sends nothing and needs no key. Use the result with `run
    --answers-per-template`, or let `run --stop-at-ci-width` find the number of requests.
    """
    from mbbq_gen.analysis.design import DESIGN_TARGETS, assumed_components, measured_components
    from mbbq_gen.providers.prices import price_of, read_prices, token_counter
    from mbbq_gen.report.run_tables import design_blocks
    from mbbq_gen.runs.cost_estimate import design_report, priced_requests
    from mbbq_gen.runs.planner import PromptPlan
    from mbbq_gen.runs.resolve import InstanceSource, open_model, resolve
    from mbbq_gen.scoring.metrics import METRICS
    from mbbq_gen.storage.store import RunStore

    if (ci_width is None) == (max_cost is None):
        raise UsageError("give --ci-width W or --max-cost USD, one of them")
    for name, amount in (("ci-width", ci_width), ("max-cost", max_cost)):
        if amount is not None and not amount > 0:
            raise UsageError(f"--{name} {amount:g}: give a number above 0")
    if pilot is not None and pilot.name.isdigit() and not pilot.exists():
        raise UsageError(
            f"--pilot {pilot}: give a run folder; make one with `mbbq-gen run RUN … --answers-per-template 4` and"
            " continue the same run afterwards"
        )
    where = resources(packs)
    settings = resolve(config, where)
    wanted: DesignTarget = one_of("goal", goal, DESIGN_TARGETS)
    chosen = METRICS[one_of("metric", metric, METRICS)]
    provider = open_model(settings, where)
    with (
        TemporaryDirectory(prefix="mbbq-gen-design-") as folder,
        RunStore(Path(folder) / "plan.sqlite") as store,
        Bar("counting", None, "steps", delay=1.0) as bar,
    ):
        draft = PromptPlan(settings, where, InstanceSource(settings, where), bar.advance)
        draft.read(store)
        outlines = list(store.outlines())
        measured = {} if pilot is None else measured_lengths(pilot)
        tokens = priced_requests(draft, store, token_counter(provider.kind, provider.model, None), measured)
    found = design_report(
        outlines,
        settings,
        tokens,
        price_of(provider.kind, provider.model, read_prices(settings.prices), base_url=provider.capabilities.base_url),
        target=wanted,
        metric=chosen,
        components=assumed_components(chosen)
        if pilot is None
        else measured_components(runs_frame([pilot], where), chosen, str(pilot)),
        confidence=confidence_level,
        width=ci_width,
        max_cost=max_cost,
        speaks_of=prompt_effects_of(prompt_effects),
        average=average_of(average),
    )
    show_result(found, design_blocks, as_json=as_json)
