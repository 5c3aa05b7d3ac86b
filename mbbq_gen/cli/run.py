"""Commands `run`, `status` and `batch …`: run models, and show how runs stand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.config_options import (
    ApiOptions,
    BatchOptions,
    DistributedOptions,
    ExecutionOptions,
    SelectionOptions,
    StoppingOptions,
    StorageOptions,
    check_goes_on,
    expand_options,
)
from mbbq_gen.cli.help import HelpCommand, example
from mbbq_gen.cli.options import (
    Json,
    Packs,
    PriceFile,
    RunPath,
    Verbose,
    load_report,
    print_json,
    resources,
    result_console,
    say,
    show_result,
    terminal,
)
from mbbq_gen.core.errors import MbbqGenError, RunError, UsageError

if TYPE_CHECKING:
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.runs.batch_runner import BatchRunner
    from mbbq_gen.runs.executor import Session
    from mbbq_gen.runs.job import JobResult
    from mbbq_gen.runs.run_folder import Manifest, RunFolder
    from mbbq_gen.runs.status import RunStatus
    from mbbq_gen.runs.study import StudyModel, StudyRun
    from mbbq_gen.storage.ledgers import StoredBatch
    from mbbq_gen.storage.store import RunStore


batch_app = typer.Typer(
    help="Shows, collects and cancels the batches of a run.", no_args_is_help=True, rich_markup_mode=None
)


@contextmanager
def _opened(path: Path, packs: Path | None) -> Iterator[Session]:
    """A run with batches, locked.

    Raises:
        UsageError: there is no run, or it has no batches.
    """
    from mbbq_gen.providers.registry import open_provider
    from mbbq_gen.runs.executor import Session, check_access
    from mbbq_gen.runs.run_folder import RunFolder, load_execution_config

    folder = RunFolder(path)
    folder.require()
    settings = folder.manifest().config
    provider = open_provider(settings.model, settings.model_args, resources(packs))
    with folder.locked(), folder.open_store() as store:
        _require_batches(path, store)
        check_access(provider)
        yield Session(folder, store, provider, load_execution_config(store), terminal())


def _require_batches(path: Path, store: RunStore) -> None:
    """Raises UsageError for a run without batches."""
    from mbbq_gen.runs.batch_session import mode_of

    if mode_of(store) == "off":
        raise UsageError(f"{path}: this run has no batches; to use them: mbbq-gen run {path} --batch")


def _as_they_stood(path: Path) -> list[StoredBatch]:
    """The stored batches of a read-only run, where the service is not called."""
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.ledgers import BatchTable

    folder = RunFolder(path)
    folder.require()
    with folder.open_store(read_only=True) as store:
        _require_batches(path, store)
        say(f"{path}: the folder is read-only, so the service is not called: batches as last stored")
        return BatchTable(store).batches()


@batch_app.command("status", cls=HelpCommand)
@example("  mbbq-gen batch status my-run\n  mbbq-gen batch status my-run --json")
def batch_status(run_path: RunPath, packs: Packs = None, as_json: Json = False) -> None:
    """Asks the service for the status of the batches."""
    from mbbq_gen.runs.batch_session import in_session
    from mbbq_gen.storage.ledgers import BatchTable
    from mbbq_gen.storage.read_only import is_writable

    async def work(batching: BatchRunner) -> None:
        await batching.recover()
        await batching.refresh()

    if not is_writable(run_path):
        _show(_as_they_stood(run_path), as_json)
        return
    with _opened(run_path, packs) as run:
        asyncio.run(in_session(run, work, spends=False))
        batches = BatchTable(run.store).batches()
    _show(batches, as_json)


@batch_app.command("collect", cls=HelpCommand)
@example("  mbbq-gen batch collect my-run\n  mbbq-gen batch collect my-run --wait")
def collect(
    run_path: RunPath,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all batches are done.")] = False,
    every: Annotated[float, typer.Option(min=1, help="Seconds between two checks.", metavar="SECONDS")] = 60.0,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Stores the results of finished batches.

    Submits expired or failed requests again. `mbbq-gen run RUN --resume` does the same, then extracts, scores and
    reports.
    """
    from mbbq_gen.runs.batch_session import mode_of, run_batches
    from mbbq_gen.storage.ledgers import BatchTable

    with _opened(run_path, packs) as run:
        while True:
            mode = mode_of(run.store)
            under_way = asyncio.run(run_batches(run, mode, again=False))
            if not (wait and under_way):
                break
            time.sleep(every)
        batches, progress = BatchTable(run.store).batches(), run.store.progress()
    if not under_way:
        say(f"{progress.answered:,} of {progress.requests:,} requests answered; next: mbbq-gen run {run_path} --resume")
    _show(batches, as_json)


@batch_app.command("cancel", cls=HelpCommand)
@example("  mbbq-gen batch cancel my-run")
def cancel(run_path: RunPath, packs: Packs = None, as_json: Json = False) -> None:
    """Cancels the batches of a run.

    Results that are there can still be collected. No more batches are submitted until `mbbq-gen run RUN --batch`.
    """
    from mbbq_gen.runs.batch_session import in_session, report_batches, set_mode
    from mbbq_gen.storage.ledgers import BatchTable

    counts: list[int] = []

    async def work(batching: BatchRunner) -> None:
        counts.append(await batching.cancel())
        await batching.refresh()

    with _opened(run_path, packs) as run:
        set_mode(run.store, "stopped")
        asyncio.run(in_session(run, work, spends=False))
        say(f"{sum(counts)} batches cancelled")
        report_batches(run)
        batches = BatchTable(run.store).batches()
    _show(batches, as_json)


def _show(batches: list[StoredBatch], as_json: bool) -> None:
    """The batches as JSON or as a table."""
    from mbbq_gen.report.run_tables import print_batches
    from mbbq_gen.runs.status import batch_lines

    lines = batch_lines(batches)
    if as_json:
        print_json([line.model_dump(mode="json") for line in lines])
    else:
        print_batches(lines, result_console())


@example("  mbbq-gen status my-run\n  mbbq-gen status my-run --json")
def status(run_path: RunPath, price_file: PriceFile = None, as_json: Json = False) -> None:
    """Shows progress, failures and cost of a run.

    Also shows rate, time left and batches. Reads the run folder only, also while another process runs it; `mbbq-gen
    batch status RUN` asks the service.
    """
    from mbbq_gen.report.run_tables import print_status
    from mbbq_gen.runs.run_folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    found = status_of(folder, price_file)
    show_result(found, print_status, as_json=as_json)


def status_of(folder: RunFolder, price_file: Path | None = None) -> RunStatus:
    """The status of a run; without a price file, with that of the run."""
    from mbbq_gen.annotation.judge_runner import judge_lines
    from mbbq_gen.providers.prices import read_prices
    from mbbq_gen.runs.run_folder import load_execution_config
    from mbbq_gen.runs.status import run_status

    manifest = folder.manifest()
    with folder.open_store(read_only=True) as store:
        own = read_prices(price_file or load_execution_config(store).prices)
        judges = judge_lines(store, own)
        return run_status(store, manifest, str(folder.path), own, base_url_of(manifest), judges=judges)


def base_url_of(manifest: Manifest) -> str | None:
    """The server address in the manifest; None for the service's own, or none."""
    address = manifest.runtime_info.get("base_url")
    return address if isinstance(address, str) else None


def run_study(
    path: Path,
    selection: SelectionOptions,
    remote: ApiOptions,
    asking: ExecutionOptions,
    batching: BatchOptions,
    where: PackPaths,
    *,
    as_json: bool,
) -> None:
    """Runs what is left of a study and shows its results.

    Raises:
        UsageError, PackError: the file or an option is wrong.
        RunError: some of the runs failed; the others are done and shown.
    """
    from mbbq_gen.runs.study import read_study, resolve_run_paths, study_folder, study_runs

    study = read_study(path)
    base_url = remote.base_url if selection.model is None else None
    others = remote if base_url is None else replace(remote, base_url=None)
    runs = study_runs(path, study, _added(selection, others, asking, batching))
    if base_url is not None:
        runs = _at_server(runs, base_url)
    settings = [(run, run.selection.settings(where)) for run in runs]  # errors before any request
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
        there = [found for found in resolve_run_paths([folder]) if found not in failed and found != folder]
        if there:
            show_runs(there, where)
            console = result_console()
            console.print(f"\nthe runs: {folder}")
            console.print(f"with ranks: mbbq-gen leaderboard {path}    as a page: mbbq-gen report {path} -o page.html")
            console.print(f"add your own model: mbbq-gen run {path} --model kind:model    (mbbq-gen models)")
    if failed:
        first = next(iter(failed))
        raise RunError(
            f"{len(failed)} of {len(runs)} runs failed, {first.name} among them: {failed[first]}; "
            "the same command continues with what is missing"
        )


def _at_server(runs: list[StudyRun], base_url: str) -> list[StudyRun]:
    """The runs with the `openai:` models at another server.

    Raises:
        UsageError: no model of the study is used as `openai:`.
    """
    asked = [run for run in runs if run.model.startswith("openai:")]
    if not asked:
        raise UsageError("--base-url: no model of the study is openai:…; write base_url in the model_args of a model")
    for run in asked:
        options = {**run.selection.model_args, "base_url": base_url}
        runs[runs.index(run)] = replace(run, selection=replace(run.selection, model_args=options))
    return runs


def _execute(run: StudyRun, settings: Any, where: PackPaths) -> JobResult:
    from mbbq_gen.runs.batch_session import BatchSettings
    from mbbq_gen.runs.job import Job
    from mbbq_gen.runs.run_folder import RunFolder

    run.path.parent.mkdir(parents=True, exist_ok=True)
    return Job(RunFolder(run.path), settings, where, run.changes, BatchSettings(), terminal(), load_report).execute()


def _added(
    selection: SelectionOptions, remote: ApiOptions, asking: ExecutionOptions, batching: BatchOptions
) -> list[StudyModel]:
    """The model and its options that the command line adds to the study."""
    from mbbq_gen.runs.study import RunOverrides, StudyModel

    if batching.batch is not None or batching.resume:
        raise UsageError("--batch, --resume: for one run; name its folder instead of the study")
    known = {"model", *RunOverrides.model_fields}
    given = {
        field.name: value
        for group in (selection, remote, asking)
        for field in fields(group)
        if (value := getattr(group, field.name)) != field.default
    }
    options = {**selection.provider_options(), **remote.provider_options(), **asking.provider_options()}
    other = sorted(given.keys() - known - options.keys() - {"model_arg"})
    if given and (other or "model" not in given):
        name = (other or sorted(given))[0].replace("_", "-")
        raise UsageError(f"--{name}: set it in the study's file; only --model, with its options, goes here")
    if not given:
        return []
    values = {name: value for name, value in given.items() if name in RunOverrides.model_fields}
    for name in ("cache_dir", "prices"):
        if name in values:
            values[name] = str(values[name].absolute())
    return [StudyModel(name=given["model"], model_args=options, **values)]


def show_runs(paths: list[Path], where: PackPaths) -> None:
    """Prints the conclusions for every model and benchmark, with one table."""
    from mbbq_gen.analysis.score_extras import reported
    from mbbq_gen.cli.options import InferenceOptions, runs_frame, several
    from mbbq_gen.report.brief import BRIEF_METRICS, render_brief
    from mbbq_gen.runs.run_folder import RunFolder

    frame = runs_frame(paths, where)
    by = ["model", *several(frame, "benchmark"), *several(frame, "method"), "language", "split"]
    console = result_console()
    render_brief(reported(frame, by, BRIEF_METRICS, InferenceOptions().sampling(paths)), console)
    for notice in dict.fromkeys(line for path in paths for line in RunFolder(path).manifest().notices):
        console.print(notice)


@example(
    "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter \\\n"
    "      --languages en,nl,es,tr --variants all --splits bias,control\n"
    "  mbbq-gen run my-run                                   (continues where it stopped)\n"
    "  mbbq-gen run my-run --model openai:gpt-4o-mini --benchmark starter --languages en,tr --stop-at-ci-width 0.2\n"
    "  mbbq-gen run my-run --model openai:gpt-4o-mini --benchmark starter --batch    (and later: run my-run --resume)\n"
    "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter --ray local --workers 2\n"
    "  mbbq-gen run my-run --storage parquet                     (stores responses as Parquet files)\n"
    "  mbbq-gen run study.toml                               (several models and benchmarks; see `mbbq-gen init`)\n"
    "\n"
    "A server on this machine (no key; the model has the name that the server gives it):\n"
    "  llama.cpp: mbbq-gen run r --model openai:NAME --base-url http://127.0.0.1:8080/v1 --benchmark starter\n"
    "  Ollama:    mbbq-gen run r --model openai:NAME --base-url http://127.0.0.1:11434/v1 --benchmark starter\n"
    "  LM Studio: mbbq-gen run r --model openai:NAME --base-url http://127.0.0.1:1234/v1 --benchmark starter\n"
    "  vLLM:      mbbq-gen run r --model openai:NAME --base-url http://127.0.0.1:8000/v1 --benchmark starter"
)
@expand_options
def run(
    context: typer.Context,
    run_path: RunPath,
    selection: SelectionOptions,
    remote: ApiOptions,
    asking: ExecutionOptions,
    batching: BatchOptions,
    target: StoppingOptions,
    spreading: DistributedOptions,
    keeping: StorageOptions,
    verbose: Verbose = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Runs a model on a benchmark and shows its scores.

    Sends the prompts, extracts the answers and scores them. Every response is stored in the folder RUN at once. The
    same command, or `mbbq-gen run RUN`, continues where the last one stopped; no request is sent twice.
    """
    from mbbq_gen.runs.batch_session import BatchSettings
    from mbbq_gen.runs.job import Job
    from mbbq_gen.runs.run_folder import RunFolder

    where, distributed = resources(packs), spreading.distributed()
    if run_path.suffix == ".toml" and not run_path.is_dir():
        if distributed is not None:
            raise UsageError("--ray: a study runs in this process; use --ray with one run at a time")
        if keeping != StorageOptions():
            raise UsageError("--storage, --rerun-lost: for one run; name its folder instead of the study")
        run_study(run_path, selection, remote, asking, batching, where, as_json=as_json)
        return
    folder = RunFolder(run_path)
    if batching.resume and not selection.is_empty:
        raise UsageError("--resume continues a run as planned; leave --model, --benchmark and the like out")
    if selection.is_empty:
        folder.require()
        check_goes_on(context)
        settings = folder.manifest().config
    else:
        settings = selection.settings(where)
    given = [selection.provider_options(settings.model), remote.provider_options(), asking.provider_options()]
    options = dict(settings.model_args)
    for changed in given:
        options |= changed
    settings = settings.model_copy(update={"model_args": options})
    wish = BatchSettings(batching.batch, selection.requests_in_batch(settings.model))
    changes = asking.changes(remote.prices)
    job = Job(
        *(folder, settings, where, changes, wish, terminal(), load_report, target.rule(settings), distributed),
        keep_shards=keeping.storage is not None,
        rerun_lost=keeping.rerun_lost,
    )
    result = job.execute()
    if as_json:
        print_json(asdict(result))
    elif not result.batches_under_way:
        from mbbq_gen.cli.report import show_report

        show_report(folder, where, verbose=verbose)
