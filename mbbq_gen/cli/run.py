"""`mbbq-gen run`: the main job: plan, ask, read, score, show."""

from __future__ import annotations

from dataclasses import asdict

import typer

from mbbq_gen.cli.goal_options import GoalOptions
from mbbq_gen.cli.keeping_options import KeepingOptions
from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, RunPath, Verbose, example, print_json, resources
from mbbq_gen.cli.progress import load_report, terminal
from mbbq_gen.cli.remote_options import AskingOptions, BatchOptions, RemoteOptions
from mbbq_gen.cli.selection import SelectionOptions, check_goes_on
from mbbq_gen.cli.spread_options import SpreadOptions
from mbbq_gen.errors import UsageError


@example(
    "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter \\\n"
    "      --languages en,nl,es,tr --variants all --splits bias,control\n"
    "  mbbq-gen run my-run                                   (goes on where it stopped)\n"
    "  mbbq-gen run my-run --model openai:gpt-4o-mini --benchmark starter --languages en,tr --until-width 0.2\n"
    "  mbbq-gen run my-run --model openai:gpt-4o-mini --benchmark starter --batch    (and later: run my-run --resume)\n"
    "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter --on ray --workers 2\n"
    "  mbbq-gen run my-run --keep shards                     (its answers go to Parquet files, its folder gets small)\n"
    "  mbbq-gen run study.toml                               (several models and benchmarks; `mbbq-gen init` writes it)"
)
@expand_options
def run(
    context: typer.Context,
    run_path: RunPath,
    selection: SelectionOptions,
    remote: RemoteOptions,
    asking: AskingOptions,
    batching: BatchOptions,
    goal: GoalOptions,
    spreading: SpreadOptions,
    keeping: KeepingOptions,
    verbose: Verbose = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Asks a model the questions of a benchmark, reads its answers, scores them and shows the result.

    Everything that arrives is stored in the folder RUN at once. The same command again, or `mbbq-gen run RUN`, goes on
    where the last one stopped, whatever ended it; nothing is asked twice.
    """
    from mbbq_gen.runs.batch_session import BatchWish
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.job import Job

    where, spread = resources(packs), spreading.spread()
    if run_path.suffix == ".toml" and not run_path.is_dir():
        from mbbq_gen.cli.study import run_study

        if spread is not None:
            raise UsageError("--on: a study is asked in this process; spread its runs one by one")
        if keeping != KeepingOptions():
            raise UsageError("--keep, --ask-lost: belong to one run; name its folder instead of the study")
        run_study(run_path, selection, remote, asking, batching, where, as_json=as_json)
        return
    folder = RunFolder(run_path)
    if batching.resume and not selection.is_empty:
        raise UsageError("--resume goes on with a run as it was planned; leave --model, --benchmark and the like out")
    if selection.is_empty:
        folder.require()
        check_goes_on(context)
        settings = folder.manifest().settings
    else:
        settings = selection.settings(where)
    given = [selection.provider_options(settings.model), remote.provider_options(), asking.provider_options()]
    options = dict(settings.model_options)
    for changed in given:
        options |= changed
    settings = settings.model_copy(update={"model_options": options})
    wish = BatchWish(batching.batch, selection.requests_in_batch(settings.model))
    changes = asking.changes(remote.price_file)
    job = Job(
        *(folder, settings, where, changes, wish, terminal(), load_report, goal.rule(settings), spread),
        keep_shards=keeping.keep is not None,
        ask_lost=keeping.ask_lost,
    )
    result = job.execute()
    if as_json:
        print_json(asdict(result))
    elif not result.batches_under_way:
        from mbbq_gen.cli.report import show_report

        show_report(folder, where, verbose=verbose)
