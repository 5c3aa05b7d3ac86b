"""`mbbq-gen run FILE.toml`: every model on every benchmark of a study, then all of them beside each other."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbbq_gen.cli.options import print_json, result_console, say
from mbbq_gen.cli.progress import load_report, terminal
from mbbq_gen.errors import MbbqGenError, RunError, UsageError

if TYPE_CHECKING:
    from mbbq_gen.cli.remote_options import AskingOptions, BatchOptions, RemoteOptions
    from mbbq_gen.cli.selection import SelectionOptions
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.job import JobResult
    from mbbq_gen.runs.study import StudyModel, StudyRun


def run_study(
    path: Path,
    selection: SelectionOptions,
    remote: RemoteOptions,
    asking: AskingOptions,
    batching: BatchOptions,
    where: Resources,
    *,
    as_json: bool,
) -> None:
    """Does what is left of a study and shows its results.

    Raises:
        UsageError, PackError: where the file or an option is wrong.
        RunError: where some of the runs failed; the others are done and shown.
    """
    from mbbq_gen.runs.meant import runs_in
    from mbbq_gen.runs.study import read_study, study_folder, study_runs

    study = read_study(path)
    runs = study_runs(path, study, _added(selection, remote, asking, batching))
    settings = [(run, run.selection.settings(where)) for run in runs]  # what is wrong is said before anything is asked
    failed: dict[Path, MbbqGenError] = {}
    results: list[JobResult] = []
    for number, (run, chosen) in enumerate(settings, start=1):
        say(f"[{number}/{len(runs)}] {run.model} on {run.benchmark}")
        try:
            results.append(_execute(run, chosen, where))
        except MbbqGenError as error:
            failed[run.path] = error
            say(f"error: {error}")
    if as_json:
        print_json([asdict(result) for result in results])
    else:
        folder = study_folder(path, study)
        there = [found for found in runs_in([folder]) if found not in failed and found != folder]
        if there:
            show_runs(there, where)
            console = result_console()
            console.print(f"\nthe runs: {folder}")
            console.print(f"with ranks: mbbq-gen leaderboard {path}    as a page: mbbq-gen report {path} -o page.html")
            console.print(f"your own model beside them: mbbq-gen run {path} --model kind:model    (mbbq-gen models)")
    if failed:
        first = next(iter(failed))
        raise RunError(
            f"{len(failed)} of {len(runs)} runs failed, {first.name} among them: {failed[first]}; "
            "the same command goes on with what is missing"
        )


def _execute(run: StudyRun, settings: Any, where: Resources) -> JobResult:
    from mbbq_gen.runs.batch_session import BatchWish
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.job import Job

    run.path.parent.mkdir(parents=True, exist_ok=True)
    return Job(RunFolder(run.path), settings, where, run.changes, BatchWish(), terminal(), load_report).execute()


def _added(
    selection: SelectionOptions, remote: RemoteOptions, asking: AskingOptions, batching: BatchOptions
) -> list[StudyModel]:
    """The model that the command line adds to the study, with the options that stand beside it."""
    from mbbq_gen.runs.study import StudyModel, StudyOptions

    if batching.batch is not None or batching.resume:
        raise UsageError("--batch, --resume: belong to one run; name its folder instead of the study")
    known = {"model", *StudyOptions.model_fields}
    given = {
        field.name: value
        for group in (selection, remote, asking)
        for field in fields(group)
        if (value := getattr(group, field.name)) != field.default
    }
    options = {**selection.provider_options(), **remote.provider_options(), **asking.provider_options()}
    other = sorted(given.keys() - known - options.keys() - {"option"})
    if given and (other or "model" not in given):
        name = (other or sorted(given))[0].replace("_", "-")
        raise UsageError(f"--{name}: what a study asks stands in its file; only --model, with its options, goes here")
    if not given:
        return []
    values = {name: value for name, value in given.items() if name in StudyOptions.model_fields}
    for name in ("cache", "price_file"):
        if name in values:
            values[name] = str(values[name].absolute())
    return [StudyModel(name=given["model"], options=options, **values)]


def show_runs(paths: list[Path], where: Resources) -> None:
    """Prints what can be said of every model on every benchmark, with one table."""
    from mbbq_gen.cli.loading import runs_frame
    from mbbq_gen.cli.statistics_options import several
    from mbbq_gen.report.brief import BRIEF_METRICS, print_brief
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.honest import honest_sampling
    from mbbq_gen.statistics.panel import Sampling
    from mbbq_gen.statistics.score_report import reported

    frame = runs_frame(paths, where)
    by = ["model", *several(frame, "benchmark"), *several(frame, "method"), "language", "split"]
    console = result_console()
    print_brief(reported(frame, by, BRIEF_METRICS, honest_sampling(Sampling(), paths, say)), console)
    for notice in dict.fromkeys(line for path in paths for line in RunFolder(path).manifest().notices):
        console.print(notice)
