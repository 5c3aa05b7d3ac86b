"""`mbbq-gen batch …`: what is under way in batches, collected or cancelled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.asking import check_access
from mbbq_gen.cli.batching import ask_in_batches, in_session, mode_of, set_mode, tell_batches
from mbbq_gen.cli.options import Json, Packs, RunPath, example, print_json, resources, result_console, say
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mbbq_gen.providers.base import Provider
    from mbbq_gen.runs.asking import AskingSettings
    from mbbq_gen.runs.batch_ledger import StoredBatch
    from mbbq_gen.runs.batches import Batching
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.store import RunStore

app = typer.Typer(
    help="Batches of a run: how they stand, collect them, cancel them.", no_args_is_help=True, rich_markup_mode=None
)


@dataclass(frozen=True)
class _Opened:
    """A run that is asked in batches, with all that work on them needs."""

    folder: RunFolder
    store: RunStore
    provider: Provider
    rules: AskingSettings


@contextmanager
def _opened(path: Path, packs: Path | None) -> Iterator[_Opened]:
    """A run, locked.

    Raises:
        UsageError: where there is no run, or it was never asked in batches.
    """
    from mbbq_gen.providers.registry import open_provider
    from mbbq_gen.runs.asking import load_asking
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(path)
    folder.require()
    settings = folder.manifest().settings
    provider = open_provider(settings.model, settings.model_options, resources(packs))
    with folder.locked(), folder.open_store() as store:
        if mode_of(store) == "off":
            raise UsageError(f"{path}: this run is not asked in batches; to do so: mbbq-gen run {path} --batch")
        check_access(provider)
        yield _Opened(folder, store, provider, load_asking(store))


@app.command("status")
@example("  mbbq-gen batch status my-run\n  mbbq-gen batch status my-run --json")
def status(run_path: RunPath, packs: Packs = None, as_json: Json = False) -> None:
    """Asks the service how the batches of a run stand; collects nothing."""
    from mbbq_gen.runs.batch_ledger import BatchLedger

    async def work(batching: Batching) -> None:
        await batching.recover()
        await batching.refresh()

    with _opened(run_path, packs) as run:
        in_session(run.folder, run.store, run.provider, run.rules, work, spends=False)
        batches = BatchLedger(run.store).batches()
    _show(batches, as_json)


@app.command("collect")
@example("  mbbq-gen batch collect my-run\n  mbbq-gen batch collect my-run --wait")
def collect(
    run_path: RunPath,
    wait: Annotated[bool, typer.Option("--wait", help="Come back until everything is answered.")] = False,
    every: Annotated[float, typer.Option(min=1, help="Seconds between two looks.", metavar="S")] = 60.0,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Stores what has come back, and hands over anew what expired or failed on the way.

    `mbbq-gen run RUN --resume` does the same, then reads, scores and shows the answers.
    """
    from mbbq_gen.runs.batch_ledger import BatchLedger

    with _opened(run_path, packs) as run:
        while True:
            mode = mode_of(run.store)
            under_way = ask_in_batches(run.folder, run.store, run.provider, run.rules, mode, again=False)
            if not (wait and under_way):
                break
            time.sleep(every)
        batches, progress = BatchLedger(run.store).batches(), run.store.progress()
    if not under_way:
        say(f"{progress.answered:,} of {progress.requests:,} requests answered; next: mbbq-gen run {run_path} --resume")
    _show(batches, as_json)


@app.command("cancel")
@example("  mbbq-gen batch cancel my-run")
def cancel(run_path: RunPath, packs: Packs = None, as_json: Json = False) -> None:
    """Asks the service to stop the batches of a run; what they have answered by then can still be collected.

    No more batches are made until you say `mbbq-gen run RUN --batch`.
    """
    from mbbq_gen.runs.batch_ledger import BatchLedger

    counts: list[int] = []

    async def work(batching: Batching) -> None:
        counts.append(await batching.cancel())
        await batching.refresh()

    with _opened(run_path, packs) as run:
        set_mode(run.store, "stopped")
        in_session(run.folder, run.store, run.provider, run.rules, work, spends=False)
        say(f"{sum(counts)} batches asked to stop")
        tell_batches(run.folder, run.store)
        batches = BatchLedger(run.store).batches()
    _show(batches, as_json)


def _show(batches: list[StoredBatch], as_json: bool) -> None:
    """The batches as JSON or as a table."""
    from mbbq_gen.report.money_tables import print_batches
    from mbbq_gen.runs.status import batch_lines

    lines = batch_lines(batches)
    if as_json:
        print_json([line.model_dump(mode="json") for line in lines])
    else:
        print_batches(lines, result_console())
