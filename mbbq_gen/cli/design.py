"""`mbbq-gen design`: the surest number for the least money."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, example, resources, result_console
from mbbq_gen.cli.remote_options import RemoteOptions
from mbbq_gen.cli.selection import SelectionOptions
from mbbq_gen.cli.statistics_options import WordingsChoice, wordings_of
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.names import one_of

if TYPE_CHECKING:
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.designing import DesignReport
    from mbbq_gen.runs.folder import RunSettings
    from mbbq_gen.scoring import Metric
    from mbbq_gen.scoring.wordings import Wordings
    from mbbq_gen.statistics.design import Components, Goal


@example(
    "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr --splits bias \\\n"
    '      --goal "difference between languages" --width 0.15\n'
    "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en --budget 20 --pilot my-pilot\n"
    "  mbbq-gen design --model transformers:smollm2 --benchmark starter --languages en --width 0.2 --json"
)
@expand_options
def design(
    selection: SelectionOptions,
    remote: RemoteOptions,
    goal: Annotated[
        str, typer.Option(help="What is to be known: `score`, or `difference between languages`.", metavar="TEXT")
    ] = "score",
    width: Annotated[
        float | None, typer.Option(help="How wide the interval may be, from its lower to its upper end.", metavar="W")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Instead: the narrowest interval for so many US dollars.", metavar="USD")
    ] = None,
    metric: Annotated[str, typer.Option(help="Which score.")] = "mbbq_bias_ambiguous",
    pilot: Annotated[
        Path | None,
        typer.Option(
            "--pilot", "--from", metavar="RUN", help="Take variances and lengths of answers from this run, made first."
        ),
    ] = None,
    wordings: WordingsChoice = "fixed",
    interval: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the interval.")] = 0.95,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Finds how many templates, questions, wordings and orders reach a width for the least money.

    Takes the options of `run` that say what could be asked. Nothing is asked, and no key is needed. What it proposes is
    asked by `run --until-answers`; `run --until-width` finds out on the way how much is needed.
    """
    from mbbq_gen.report.design_tables import print_design
    from mbbq_gen.scoring import METRICS
    from mbbq_gen.statistics.design import GOALS

    if (width is None) == (budget is None):
        raise UsageError("give --width W or --budget USD, one of them")
    for name, amount in (("width", width), ("budget", budget)):
        if amount is not None and not amount > 0:
            raise UsageError(f"--{name} {amount:g}: give a number above 0")
    if pilot is not None and pilot.name.isdigit() and not pilot.exists():
        raise UsageError(
            f"--pilot {pilot}: give a run, for design asks nothing: ask a few with `run RUN … --until-answers 4`,"
            " give its folder here, and go on with the same run"
        )
    where = resources(packs)
    settings = remote.added_to(selection.settings(where))
    wanted: Goal = one_of("goal", goal, GOALS)
    chosen = METRICS[one_of("metric", metric, METRICS)]
    found = _report(
        settings, where, remote.price_file, pilot, wanted, chosen, interval, width, budget, wordings_of(wordings)
    )
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_design(found, result_console())


def _report(
    settings: RunSettings,
    where: Resources,
    price_file: Path | None,
    pilot: Path | None,
    goal: Goal,
    metric: Metric,
    interval: float,
    width: float | None,
    budget: float | None,
    speaks_of: Wordings,
) -> DesignReport:
    """The report; what it needs on disk is gone again when it is done."""
    from mbbq_gen.cli.plan import measured_lengths
    from mbbq_gen.providers.prices import price_of, read_prices
    from mbbq_gen.providers.registry import open_provider
    from mbbq_gen.providers.tokens import token_counter
    from mbbq_gen.runs.designing import design_report, priced_requests
    from mbbq_gen.runs.draft import Draft
    from mbbq_gen.runs.selection import QuestionSource
    from mbbq_gen.runs.store import RunStore

    prices = read_prices(price_file)
    provider = open_provider(settings.model, settings.model_options, where)
    price = price_of(provider.kind, provider.model, prices, base_url=getattr(provider, "base_url", None))
    measured = {} if pilot is None else measured_lengths(pilot)
    counter = token_counter(provider.kind, provider.model, None)
    with (
        TemporaryDirectory(prefix="mbbq-gen-design-") as folder,
        RunStore(Path(folder) / "plan.sqlite") as store,
        Bar("counting", None, "steps", delay=1.0) as bar,
    ):
        draft = Draft(settings, where, QuestionSource(settings, where), bar.advance)
        draft.read(store)
        outlines = list(store.outlines())
        tokens = priced_requests(draft, store, counter, measured)
    return design_report(
        outlines,
        settings,
        tokens,
        price,
        goal=goal,
        metric=metric,
        components=_components(pilot, metric, where),
        confidence=interval,
        width=width,
        budget=budget,
        speaks_of=speaks_of,
    )


def _components(pilot: Path | None, metric: Metric, where: Resources) -> Components:
    """Those of a run, or the assumed ones."""
    from mbbq_gen.statistics.design import assumed_components

    if pilot is None:
        return assumed_components(metric)
    from mbbq_gen.cli.loading import runs_frame
    from mbbq_gen.statistics.design_pilot import measured_components

    return measured_components(runs_frame([pilot], where), metric, str(pilot))
