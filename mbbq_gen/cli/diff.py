"""`mbbq-gen diff`: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, example, resources, result_console, say
from mbbq_gen.cli.statistics_options import (
    MetricNames,
    ReaderChoice,
    StatisticsOptions,
    metrics_of,
)
from mbbq_gen.runs.bars import Bar


@example(
    "  mbbq-gen diff run-march run-june\n  mbbq-gen diff run-a run-b --metric mbbq_bias_ambiguous --examples 20 --json"
)
@expand_options
def diff(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="The first run's folder.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="The second run's folder.")],
    metric: MetricNames = None,
    examples: Annotated[int, typer.Option(min=1, help="Examples of each kind of flip, in --json.")] = 3,
    extractor: ReaderChoice = "engine",
    *,
    statistics: StatisticsOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows what changed from one run to another: settings, packs, model version, scores, answers that flipped.

    Items are paired by what was sent, then by question, wording and order. Scores are compared over the paired items,
    with the change (second minus first) paired by template. Flips are counted by what was answered before and after.
    """
    from mbbq_gen.report.difference_tables import print_difference
    from mbbq_gen.runs.difference import DEFAULT_METRICS, Choice, compare_runs
    from mbbq_gen.runs.folder import RunFolder

    with Bar("reading", None, "items", delay=1.0) as bar:
        choice = Choice(
            metrics=tuple(chosen.name for chosen in metrics_of(metric, DEFAULT_METRICS)),
            labels=statistics.chosen_labels(),
            extractor=extractor,
            sampling=statistics.sampling([first, second]),
            examples=examples,
            step=bar.advance,
        )
        found = compare_runs(RunFolder(first), RunFolder(second), resources(packs), choice)
    for side in (found.first, found.second):
        if side.answered < side.requests:
            say(f"{side.run}: {side.requests - side.answered:,} of {side.requests:,} requests have no answer yet")
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_difference(found, result_console())
