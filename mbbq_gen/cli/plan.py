"""`mbbq-gen plan`: what a run would take and cost, before anything is asked."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, example, resources, result_console
from mbbq_gen.cli.power import variances_of
from mbbq_gen.cli.remote_options import RemoteOptions
from mbbq_gen.cli.selection import SelectionOptions
from mbbq_gen.runs.bars import Bar

if TYPE_CHECKING:
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.providers.prices import Price
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.draft import Draft
    from mbbq_gen.runs.folder import RunSettings
    from mbbq_gen.runs.forecast import Forecast
    from mbbq_gen.runs.judging.forecast import JudgeForecast
    from mbbq_gen.runs.probe import Probe
    from mbbq_gen.runs.store import RunStore
    from mbbq_gen.statistics.power import VarianceAssumptions


@example(
    "  mbbq-gen plan --model openai:gpt-4o-mini --benchmark mbbq --languages en,nl,es,tr \\\n"
    "      --variants all --splits bias,control --rpm 5000\n"
    "  mbbq-gen plan --model openai:gpt-4o-mini --benchmark starter --from pilot --json\n"
    "  mbbq-gen plan --model transformers:smollm2 --benchmark starter --languages en --probe"
)
@expand_options
def plan(
    selection: SelectionOptions,
    remote: RemoteOptions,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="The model's tokenizer.json, or its folder; none: the model's own if it is here.", metavar="PATH"
        ),
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="Take the length of answers and the variances from this run, made first."
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(help="Also tell what this model would cost as a second reader of all answers (kind:model)."),
    ] = None,
    try_it: Annotated[
        bool,
        typer.Option("--probe", help="Ask a model on this machine ten of the questions, to tell how long all take."),
    ] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Tells what a run would take and cost: requests, tokens, price with and without batches, time at the rate limits.

    Takes the options of `run`. Below stands what smaller, balanced samples would cost and how wide their intervals
    would be. Without --probe nothing is asked; nothing is written, and no key is needed.
    """
    from mbbq_gen.report.money_tables import print_forecast

    where = resources(packs)
    settings = remote.added_to(selection.settings(where))
    found = make_forecast(settings, where, remote.price_file, tokenizer, from_run, judge, try_it=try_it)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_forecast(found, result_console())


def make_forecast(
    settings: RunSettings,
    where: Resources,
    price_file: Path | None = None,
    tokenizer: Path | None = None,
    from_run: Path | None = None,
    judge: str | None = None,
    *,
    try_it: bool = False,
) -> Forecast:
    """The forecast of a run with these settings; what it needs on disk is gone again when it is done."""
    from mbbq_gen.providers.base import thinking_at
    from mbbq_gen.providers.prices import price_of, read_prices
    from mbbq_gen.providers.registry import open_provider
    from mbbq_gen.providers.tokens import token_counter
    from mbbq_gen.runs.draft import Draft
    from mbbq_gen.runs.estimate import estimate
    from mbbq_gen.runs.forecast import forecast
    from mbbq_gen.runs.selection import QuestionSource
    from mbbq_gen.runs.store import RunStore

    prices = read_prices(price_file)
    provider = open_provider(settings.model, settings.model_options, where)
    base_url: str | None = getattr(provider, "base_url", None)
    counter = token_counter(provider.kind, provider.model, tokenizer)
    measured = {} if from_run is None else measured_lengths(from_run)
    longest = provider.settings.get("max_new_tokens")
    with TemporaryDirectory(prefix="mbbq-gen-plan-") as folder, RunStore(Path(folder) / "plan.sqlite") as store:
        with Bar("counting", None, "steps", delay=1.0) as bar:
            draft = Draft(settings, where, QuestionSource(settings, where), bar.advance)
            draft.read(store)
            tokens = estimate(
                draft.presentations(store),
                counter,
                draft.kinds,
                measured,
                longest=longest if isinstance(longest, int) else None,
                rooms={level: told.room for level, told in thinking_at(provider, settings.reasoning).items()},
            )
            tried = _probe(provider, draft, store, tokens.requests, settings.seed) if try_it else None
            second = None if judge is None else _judge(judge, draft, store, tokens.output_tokens, where, prices)
        found = forecast(
            store,
            settings,
            tokens,
            price_of(provider.kind, provider.model, prices, base_url=base_url),
            base_url=base_url,
            limits=(_limit(settings, "rpm"), _limit(settings, "tpm")),
            assumptions=_assumptions(from_run, where),
        )
        return found.model_copy(update={"judge": second, "probe": tried})


def _probe(provider: Provider, draft: Draft, store: RunStore, requests: int, seed: int) -> Probe:
    """How fast the model answers here."""
    from mbbq_gen.runs.probe import probe

    return probe(provider, draft.presentations(store), store.instance, requests, seed=seed)


def _judge(
    model: str, draft: Draft, store: RunStore, answer_tokens: int, where: Resources, prices: tuple[Price, ...]
) -> JudgeForecast:
    """What a second reader of all answers would take."""
    from mbbq_gen.providers.prices import price_of
    from mbbq_gen.providers.tokens import token_counter
    from mbbq_gen.runs.judging.forecast import judge_forecast, unanswered_asks
    from mbbq_gen.runs.judging.opening import judge_provider, new_judge

    found = new_judge(model, {}, where)
    provider = judge_provider(model, {}, found.prompt, where)
    base_url: str | None = getattr(provider, "base_url", None)
    longest = provider.settings.get("max_new_tokens")
    return judge_forecast(
        unanswered_asks(draft.presentations(store), store.instance, found),
        found,
        token_counter(provider.kind, provider.model),
        price_of(provider.kind, provider.model, prices, base_url=base_url),
        base_url=base_url,
        limits=(None, None),
        longest=longest if isinstance(longest, int) else None,
        unwritten=answer_tokens,
    )


def _limit(settings: RunSettings, name: str) -> float | None:
    """What the model's options allow a minute."""
    value = settings.model_options.get(name)
    return float(value) if isinstance(value, int | float | str) else None


def measured_lengths(from_run: Path) -> dict[str, float]:
    """Wording → tokens of an answer in a run made before."""
    from mbbq_gen.runs.estimate import measured_outputs
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(from_run)
    folder.require()
    with folder.open_store(read_only=True) as store:
        return measured_outputs(store)


def _assumptions(from_run: Path | None, where: Resources) -> VarianceAssumptions:
    from mbbq_gen.statistics.power import DEFAULTS

    return DEFAULTS if from_run is None else variances_of(from_run, "mbbq_bias_ambiguous", where)
