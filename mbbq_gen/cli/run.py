"""Commands `run`, `status` and `batch …`: run models and show the progress of runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import typer

from mbbq_gen.cli.command import PackCommand, RunCommand, argument, command_group, flag, option, settings
from mbbq_gen.cli.options import InferenceOptions, varying
from mbbq_gen.cli.output import print_json, result_console, say, show, show_result
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import FILE, ConfigError, MbbqGenError, MissingExtraError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import ProgressBars

if TYPE_CHECKING:
    from mbbq_gen.runs.executor import Session
    from mbbq_gen.runs.helper_process import HelperProcess
    from mbbq_gen.runs.job import Job, JobResult


class BatchCommand(RunCommand):
    """A command for the batches of a run."""

    @contextmanager
    def opened(self) -> Iterator[Session]:
        """Opens and locks the run, and prints its batches at the end."""
        from mbbq_gen.report.run_tables import batch_blocks
        from mbbq_gen.runs.executor import Session
        from mbbq_gen.runs.resolve import open_model
        from mbbq_gen.storage.ledgers import BatchTable, mode_of

        path, folder = self.run_path, self.folder
        config = folder.manifest().config
        provider = open_model(config, self.resources)
        with folder.locked(), folder.open_store() as store:
            if mode_of(store) == "off":
                raise UsageError(f"{path}: this run has no batches; to use them: mbbq-gen run {path} --batch")
            provider.check_access()
            yield Session(folder, store, provider, config, ProgressBars(say))
            batches = BatchTable(store).batches()
            if self.as_json:
                print_json([batch.model_dump(mode="json") for batch in batches])
            else:
                show(batch_blocks(batches))


class BatchCollect(BatchCommand):
    """Stores the results of finished batches.

    Submits expired or failed requests again, and shows the batches. `mbbq-gen run RUN` does the same, then extracts,
    scores and reports.
    """

    help_examples = "  mbbq-gen batch collect my-run --wait"
    wait: bool = flag("", "Wait until all batches are done.")
    every: float = option("", "Seconds between two checks.", default=60.0, min=1, metavar="SECONDS")

    def _run(self) -> None:
        from mbbq_gen.runs.batch_runner import run_batches
        from mbbq_gen.storage.ledgers import mode_of

        with self.opened() as run:
            while (under_way := asyncio.run(run_batches(run, mode_of(run.store), retry_failed=False))) and self.wait:
                time.sleep(self.every)
            if not under_way:
                progress = run.store.progress()
                answered = f"{progress.answered:,} of {progress.requests:,} requests answered"
                say(f"{answered}; next: mbbq-gen run {self.run_path}")


class BatchCancel(BatchCommand):
    """Cancels the batches of a run.

    Results that are there can still be collected. No more batches are submitted until `mbbq-gen run RUN --batch`.
    """

    help_examples = "  mbbq-gen batch cancel my-run"

    def _run(self) -> None:
        from mbbq_gen.runs.batch_runner import batch_runner, report_batches
        from mbbq_gen.storage.ledgers import set_mode

        async def cancel(run: Session) -> int:
            async with batch_runner(run, spends=False) as batching:
                count = await batching.cancel()
                await batching.refresh()
            return count

        with self.opened() as run:
            set_mode(run.store, "stopped")
            say(f"{asyncio.run(cancel(run))} batches cancelled")
            report_batches(run)


batch_app = command_group(
    "Collects and cancels the batches of a run.",
    "  mbbq-gen batch collect my-run --wait",
    {"collect": BatchCollect, "cancel": BatchCancel},
)


class Status(RunCommand):
    """Shows progress, failures and cost of a run.

    Also shows rate, time left and batches. Reads the run folder only, also while another process runs it; `mbbq-gen
    batch collect RUN` asks the service.
    """

    help_examples = "  mbbq-gen status my-run --json"
    config: RunConfig = settings(["prices"])

    def _run(self) -> None:
        from mbbq_gen.providers.prices import read_prices
        from mbbq_gen.report.run_tables import status_blocks
        from mbbq_gen.runs.status import run_status

        folder = self.folder
        manifest = folder.manifest()
        address = manifest.runtime_info.get("base_url")
        own = read_prices(self.config.prices or manifest.config.prices)
        base_url = address if isinstance(address, str) else None
        with folder.open_store(read_only=True) as store:
            found = run_status(store, manifest, str(folder.path), own, base_url)
        show_result(found, status_blocks, as_json=self.as_json)


def _is_remote(model: str) -> bool:
    """True for a model behind an API; raises as `options_class`."""
    from mbbq_gen.providers.api.options import RemoteOptions
    from mbbq_gen.providers.registry import IMPORTED, options_class

    return not model.startswith(f"{IMPORTED}:") and issubclass(options_class(model), RemoteOptions)


_EXTRACTION = ("mbbq_gen.extraction.engine",)
_REPORT = (
    *("scipy.special", "rich.console", "rich.table", "mbbq_gen.runs.observations", "mbbq_gen.analysis.score_extras"),
    "mbbq_gen.report.score_tables",
)
"""Modules that are imported while the model works, because their import is slow."""
_TRANSPORT = "mbbq_gen.providers.http.transport"
"""Imported on another thread while the run is planned, because planning also waits for the database and the disk."""


def _helper_process(*names: str) -> HelperProcess:
    """A process that imports some modules when it starts."""
    from mbbq_gen.runs.helper_process import HelperProcess

    def load() -> None:
        for name in names:
            import_module(name)

    return HelperProcess(load)


def _study_jobs(path: Path, runs: dict[Path, RunConfig], resources: PackPaths, helper: HelperProcess) -> list[Job]:
    """The job of each run of a study; ConfigError for wrong settings before any request."""
    from mbbq_gen.runs.job import Job
    from mbbq_gen.runs.resolve import resolve
    from mbbq_gen.runs.run_folder import RunFolder

    jobs: list[Job] = []
    for run, config in runs.items():
        try:
            jobs.append(Job(RunFolder(run), resolve(config, resources), resources, ProgressBars(say), helper))
            jobs[-1].merged()
        except ConfigError as error:
            raise error.spelled(FILE, f"{path}: ") from None
        except MissingExtraError:
            continue  # the other models run; this one is reported by `execute`
    return jobs


def _run_study(path: Path, resources: PackPaths, *, as_json: bool) -> None:
    """Runs the remaining parts of a study and shows its results; RunError if a run failed."""
    from mbbq_gen.runs.study import read_study, resolve_run_paths

    (folder, runs), helper = read_study(path), _helper_process(*_EXTRACTION, *_REPORT)
    jobs = _study_jobs(path, runs, resources, helper)
    if any(_is_remote(job.config.model) for job in jobs):
        helper.start()
    failed: dict[Path, MbbqGenError] = {}
    results: list[JobResult] = []
    for number, job in enumerate(jobs, start=1):
        run, names = job.folder.path, ", ".join(choice.name for choice in job.config.benchmarks)
        say(f"[{number}/{len(jobs)}] {job.config.model} on {names}")
        try:
            run.parent.mkdir(parents=True, exist_ok=True)
            results.append(job.execute())
        except MbbqGenError as error:
            failed[run] = error.spelled(FILE) if isinstance(error, ConfigError) else error
            say(f"error: {error}")
    helper.close()
    if as_json:
        print_json([asdict(result) for result in results])
    else:
        finished = [run for run in resolve_run_paths([folder]) if run not in failed and run != folder]
        if finished:
            _show_runs(finished, resources)
            console = result_console()
            console.print(f"\nthe runs: {folder}")
            console.print(f"with ranks: mbbq-gen leaderboard {path}    as a page: mbbq-gen report {path} -o page.html")
    if failed:
        first = next(iter(failed))
        raise RunError(
            f"{len(failed)} of {len(jobs)} runs failed, {first.name} among them: {failed[first]}; "
            "the same command continues with what is missing"
        )


def _show_runs(paths: list[Path], resources: PackPaths) -> None:
    """Prints the conclusions for each model and benchmark, and one table."""
    from mbbq_gen.analysis.score_extras import reported
    from mbbq_gen.report.score_tables import BRIEF_METRICS, brief_blocks
    from mbbq_gen.report.tables import print_blocks
    from mbbq_gen.runs.run_folder import RunFolder

    frame = InferenceOptions().frame(paths, resources)
    by = ["model", *varying(frame, "benchmark"), *varying(frame, "method"), "language", "split"]
    console = result_console()
    scores = reported(frame, by, BRIEF_METRICS, InferenceOptions().sampling(paths))
    print_blocks(brief_blocks(scores), console)
    for notice in dict.fromkeys(line for path in paths for line in RunFolder(path).manifest().notices):
        console.print(notice)


class RunModel(PackCommand):
    """Runs a model on a benchmark and shows its scores.

    Sends the prompts, extracts the answers from the responses and scores them. Every response is stored in the folder
    RUN at once. The same command, or `mbbq-gen run RUN`, continues where the last one stopped; no request is sent
    twice.
    """

    help_examples = (
        "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter --languages en,tr\n"
        "  mbbq-gen run my-run                                   (continues where it stopped)\n"
        "  mbbq-gen run my-run --model openai:gpt-4o-mini --benchmark starter --batch   (later: run my-run)\n"
        "  mbbq-gen run study.toml                               (several models and benchmarks; see `mbbq-gen init`)\n"
        "\n"
        "A server on this machine (no key; the model has the name that the server gives it):\n"
        "  mbbq-gen run r --model openai:NAME --base-url http://127.0.0.1:11434/v1 --benchmark starter"
    )
    run_path: Path = argument(
        "RUN",
        "Folder of the run, made if it is new; or a study file (.toml) of `mbbq-gen init`, which takes only "
        "--packs and --json.",
        default=...,
    )
    config: RunConfig = settings(RunConfig.model_fields)

    def _run(self) -> None:
        from mbbq_gen.cli.report import report_text
        from mbbq_gen.runs.job import Job
        from mbbq_gen.runs.resolve import resolve_for
        from mbbq_gen.runs.run_folder import RunFolder

        config, resources, folder = self.config, self.resources, RunFolder(self.run_path)
        if self.run_path.suffix == ".toml" and not self.run_path.is_dir():
            if given := sorted(config.model_fields_set):
                raise ConfigError(given[0], None, f"not with a study; set it in {self.run_path}, or name one run")
            _run_study(self.run_path, resources, as_json=self.as_json)
            return
        before = None if config.is_whole else folder.require().manifest().config
        config = resolve_for(config, before, resources)
        is_remote = _is_remote(config.model or folder.manifest().config.model)
        # Two processes, because a large run takes much memory to extract and to report.
        reporting = _helper_process(*_REPORT)
        extracting = _helper_process(*_EXTRACTION, *(() if is_remote else _REPORT))
        try:
            if is_remote:
                extracting.start()
                if not self.as_json:
                    reporting.start()
                Thread(target=import_module, args=(_TRANSPORT,), daemon=True).start()
            result = Job(folder, config, resources, ProgressBars(say), extracting).execute()
            if self.as_json:
                print_json(asdict(result))
            elif not result.batches_under_way:
                typer.echo(reporting.call(report_text, folder, resources), nl=False)
        finally:
            reporting.close()
            extracting.close()
