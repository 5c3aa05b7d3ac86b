"""`mbbq-gen compare`: does a bias differ between languages, models, wordings, ways of asking or extractors?"""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, example, resources, result_console
from mbbq_gen.cli.statistics_options import (
    CorrectedBy,
    MetricNames,
    RunPaths,
    SmallerThan,
    StatisticsOptions,
    WordingsChoice,
    metrics_of,
    several,
)
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.names import all_of, one_of


@example(
    "  mbbq-gen compare my-run --across language --select above-chance\n"
    "  mbbq-gen compare my-run --across language --by category --adjust all --simultaneous\n"
    "  mbbq-gen compare my-run --across language --wordings random    (over wordings like those asked)\n"
    "  mbbq-gen compare run-a run-b --across model --metric mbbq_bias_ambiguous --json"
)
@expand_options
def compare(
    run_paths: RunPaths,
    across: Annotated[str, typer.Option(help="What is compared: language, model, variant, method or extractor.")],
    metric: MetricNames = None,
    select: Annotated[
        str | None,
        typer.Option(
            help="Only templates that the model can do in all languages (models, …) compared, by its control answers: "
            "above-chance, or above-chance-exact (significantly so)."
        ),
    ] = None,
    smaller_than: SmallerThan = None,
    by: Annotated[
        str | None,
        typer.Option(help="Compare within each of these too, comma-separated: category, …", metavar="NAME,…"),
    ] = None,
    adjust: Annotated[
        str,
        typer.Option(
            help="What p values are adjusted over (Holm): pairs (of one metric), or all (pairs, metrics and groups)."
        ),
    ] = "pairs",
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="Intervals of differences that hold all at once (Bonferroni), over what --adjust says.",
        ),
    ] = False,
    *,
    statistics: StatisticsOptions,
    wordings: WordingsChoice = "fixed",
    corrected_by: CorrectedBy = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Compares a bias across languages, models, wordings, ways of asking or extractors, paired by template.

    Shows each score beside its control score, the tests over all, every pair with its paired difference, and what could
    explain it: ability, control, detection, position. Differences are first minus second; above 0, the first leans more
    to the stereotype. Where there are several models, benchmarks or languages beside what is compared, each is compared
    for itself.
    """
    from mbbq_gen.cli.loading import runs_frame, runs_labels
    from mbbq_gen.report.comparison_tables import print_comparisons
    from mbbq_gen.scoring import GROUPINGS
    from mbbq_gen.statistics.ability import Selection
    from mbbq_gen.statistics.comparison import ACROSS, DEFAULT_METRICS
    from mbbq_gen.statistics.comparison import compare as compute
    from mbbq_gen.statistics.family import FAMILIES, Family

    level = one_of("thing to compare across", across, ACROSS)
    selection = one_of("selection", select, get_args(Selection)) if select else None
    metrics, sampling = metrics_of(metric, DEFAULT_METRICS), statistics.sampling(run_paths, wordings)
    if corrected_by is not None and level == "extractor":
        raise UsageError(f"--corrected-by {corrected_by}: corrected scores of all extractors are one; leave it out")
    where = resources(packs)
    labelled = runs_labels(run_paths, where, corrected_by, statistics.chosen_labels())
    frame = runs_frame(
        run_paths,
        where,
        statistics.chosen_labels(),
        all_extractors=level == "extractor",
    )
    family = one_of("choice for --adjust", adjust, FAMILIES)
    asked = all_of("grouping", by, list(GROUPINGS)) if by else []
    within = [name for name in several(frame, "model", "benchmark", "language") if name != level]
    within += [name for name in asked if name not in within]
    table = compute(
        frame,
        level,
        metrics,
        within=within,
        select=selection,
        sampling=sampling,
        labelled=labelled,
        margin=smaller_than,
        family=Family(family, simultaneous=simultaneous),
        may_leave_out=bool(asked),
    )
    if as_json:
        typer.echo(table.model_dump_json(indent=2))
    else:
        print_comparisons(table, result_console())
