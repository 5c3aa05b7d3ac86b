"""`mbbq-gen score`: every metric, by any grouping, with counts and intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from mbbq_gen.cli.options import Json, Packs, all_of, example, one_of, open_lines, resources, result_console, say, words
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    import polars

    from mbbq_gen.resources import Resources
    from mbbq_gen.scoring import Labels, ScoreTable


@example("  mbbq-gen score my-run --by language,category --json\n  mbbq-gen score --jsonl answers.jsonl > scores.json")
def score(
    run_path: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run's folder.")] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(help="Instead of a run: instance records with `option`, `outcome` or `response`.", metavar="FILE"),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Group by these, comma-separated; default: language,split.", metavar="NAME,…")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Only these metrics, comma-separated; default: all.", metavar="NAME,…")
    ] = None,
    labels: Annotated[str, typer.Option(help="Right answers: published or corrected.")] = "published",
    undetected: Annotated[
        str, typer.Option(help="Undetected answers in the denominators of bias: discard or keep.")
    ] = "discard",
    interval: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples over templates.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Scores a run, or answers from anywhere: all metrics with their counts and intervals clustered by template.

    A run's scores are also written to RUN/scores.json. With --jsonl, JSON is always printed.
    """
    from mbbq_gen.scoring import GROUPINGS, METRICS, Labels, Undetected

    where = resources(packs)
    chosen = one_of("labels", labels, get_args(Labels))
    kept = one_of("choice for --undetected", undetected, get_args(Undetected))
    names = all_of("metric", metrics, list(METRICS)) if metrics else list(METRICS)
    wanted = (
        all_of("grouping", by, list(GROUPINGS)) if by and words(by) else ["language", "split"] if by is None else []
    )
    if (run_path is None) == (jsonl is None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    frame = _jsonl_frame(jsonl, where, chosen) if jsonl else _run_frame(run_path, where, chosen)
    if "split" not in wanted and frame["split"].n_unique() > 1:
        say("bias and control questions are kept apart: added split to --by")
        wanted.append("split")
    from mbbq_gen.scoring import score as compute

    table = compute(
        frame, wanted, names, interval=interval, resamples=resamples, seed=seed, undetected=kept, labels=chosen
    )
    if run_path is not None:
        _write(run_path / "scores.json", table)
    if as_json or jsonl:
        typer.echo(table.model_dump_json(indent=2))
    else:
        _show(table, names)


def _run_frame(run_path: Path | None, where: Resources, labels: Labels) -> polars.DataFrame:
    from mbbq_gen.cli.loading import run_frame
    from mbbq_gen.runs.folder import RunFolder

    assert run_path is not None  # the caller made sure that one of both is given
    folder = RunFolder(run_path)
    folder.require()
    frame, progress = run_frame(folder, folder.manifest(), where, labels)
    if progress.pending:
        say(f"{progress.pending:,} of {progress.requests:,} requests have no answer yet: scores of a part")
    return frame


def _jsonl_frame(path: Path, where: Resources, labels: Labels) -> polars.DataFrame:
    from mbbq_gen.scoring import observations_frame
    from mbbq_gen.scoring.lines import observe_lines

    with open_lines(path) as lines:
        return observations_frame(observe_lines(lines, str(path), labels=labels, resources=where))


def _write(path: Path, table: ScoreTable) -> None:
    try:
        path.write_text(table.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        say(f"{path}: not written: {error.strerror or error}")


def _show(table: ScoreTable, names: list[str]) -> None:
    from mbbq_gen.report.tables import Notes, metric_table

    console = result_console()
    notes = Notes(table)
    console.print(metric_table(table, names, notes))
    for line in notes.lines():
        console.print(line)
