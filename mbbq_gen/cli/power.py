"""`mbbq-gen power`: the smallest difference that a run could find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from mbbq_gen.cli.options import Json, Packs, example, resources, result_console
from mbbq_gen.runs.names import one_of

if TYPE_CHECKING:
    from mbbq_gen.resources import Resources
    from mbbq_gen.statistics.power import VarianceAssumptions


@example(
    "  mbbq-gen power --benchmark mbbq --templates 98 --variants 5\n"
    "  mbbq-gen power --benchmark mbbq --templates 40 --variants 3 --from my-run --json"
)
def power(
    benchmark: Annotated[str, typer.Option(help="What will be asked: mbbq, esbbq, kobbq, starter, …")],
    templates: Annotated[int, typer.Option(min=1, help="Templates of the run.")],
    variants: Annotated[int, typer.Option(min=1, help="Wordings of the run.")],
    questions: Annotated[
        float | None,
        typer.Option(help="Ambiguous questions to a template, on average; default: as many as the benchmark has."),
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Take the variances from this run instead of assuming them."),
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric whose variances --from takes.")] = "mbbq_bias_ambiguous",
    wordings: Annotated[
        str,
        typer.Option(help="What is spoken of: fixed (the wordings asked), or random (wordings like them)."),
    ] = "fixed",
    level: Annotated[float, typer.Option(min=0.0001, max=0.5, help="Level of the two-sided test.")] = 0.05,
    target: Annotated[float, typer.Option("--power", min=0.5, max=0.999, help="Chance of finding it.")] = 0.8,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Tells the smallest score, or difference of scores, that a run of some size could find.

    In units of the score, whatever its sign. The variances are assumed, and printed; --from RUN takes those of a run of
    your own, such as a small one made first.
    """
    from mbbq_gen.datasets.registry import benchmark_name, find_benchmark
    from mbbq_gen.report.statistics_tables import print_power
    from mbbq_gen.scoring import METRICS
    from mbbq_gen.scoring.wordings import Wordings
    from mbbq_gen.statistics.power import DEFAULTS, SHAPES, power_table

    name = one_of("metric", metric, METRICS)
    benchmark = benchmark_name(benchmark)
    if benchmark not in SHAPES and questions is None:
        find_benchmark(benchmark)
    assumptions = DEFAULTS if from_run is None else variances_of(from_run, name, resources(packs))
    table = power_table(
        benchmark,
        templates,
        variants,
        questions=questions,
        level=level,
        power=target,
        assumptions=assumptions,
        metric=name,
        wordings=one_of("choice for --wordings", wordings, get_args(Wordings)),
        effective_share=None if from_run is None or questions is None else 1.0,
    )
    if as_json:
        typer.echo(table.model_dump_json(indent=2))
    else:
        print_power(table, result_console())


def variances_of(path: Path, metric: str, where: Resources) -> VarianceAssumptions:
    """The variances of a run's bias split."""
    import polars as pl

    from mbbq_gen.cli.loading import runs_frame
    from mbbq_gen.scoring import METRICS
    from mbbq_gen.statistics.design_pilot import measured_assumptions

    frame = runs_frame([path], where).filter(pl.col("split") == "bias")
    return measured_assumptions(frame, METRICS[metric], str(path))
