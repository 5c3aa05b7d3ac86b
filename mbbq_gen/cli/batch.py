"""`mbbq-gen batch …`: what is under way in batches, collected or cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, RunPath, example, print_json, resources, result_console, say
from mbbq_gen.cli.progress import terminal
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mbbq_gen.runs.batch_ledger import StoredBatch
    from mbbq_gen.runs.batches import Batching
    from mbbq_gen.runs.session import Session
    from mbbq_gen.runs.store import RunStore

app = typer.Typer(
    help="Batches of a run: how they stand, collect them, cancel them.", no_args_is_help=True, rich_markup_mode=None
)


@contextmanager
def _opened(path: Path, packs: Path | None) -> Iterator[Session]:
    """A run that is asked in batches, locked.

    Raises:
        UsageError: where there is no run, or it was never asked in batches.
    """
    from mbbq_gen.providers.registry import open_provider
    from mbbq_gen.runs.asking import load_asking
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.session import Session, check_access

    folder = RunFolder(path)
    folder.require()
    settings = folder.manifest().settings
    provider = open_provider(settings.model, settings.model_options, resources(packs))
    with folder.locked(), folder.open_store() as store:
        _require_batches(path, store)
        check_access(provider)
        yield Session(folder, store, provider, load_asking(store), terminal())


def _require_batches(path: Path, store: RunStore) -> None:
    """Raises UsageError where a run was never asked in batches."""
    from mbbq_gen.runs.batch_session import mode_of

    if mode_of(store) == "off":
        raise UsageError(f"{path}: this run is not asked in batches; to do so: mbbq-gen run {path} --batch")


def _as_they_stood(path: Path) -> list[StoredBatch]:
    """The batches of a run that can't be written to, where nothing of what the service says could be kept."""
    from mbbq_gen.runs.batch_ledger import BatchLedger
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(path)
    folder.require()
    with folder.open_store(read_only=True) as store:
        _require_batches(path, store)
        say(f"{path}: nothing can be written here, so the service is not asked: the batches as they stood last")
        return BatchLedger(store).batches()


@app.command("status")
@example("  mbbq-gen batch status my-run\n  mbbq-gen batch status my-run --json")
def status(run_path: RunPath, packs: Packs = None, as_json: Json = False) -> None:
    """Asks the service how the batches of a run stand; collects nothing."""
    from mbbq_gen.runs.batch_ledger import BatchLedger
    from mbbq_gen.runs.batch_session import in_session
    from mbbq_gen.runs.read_only import is_writable

    async def work(batching: Batching) -> None:
        await batching.recover()
        await batching.refresh()

    if not is_writable(run_path):
        _show(_as_they_stood(run_path), as_json)
        return
    with _opened(run_path, packs) as run:
        asyncio.run(in_session(run, work, spends=False))
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
    from mbbq_gen.runs.batch_session import ask_in_batches, mode_of

    with _opened(run_path, packs) as run:
        while True:
            mode = mode_of(run.store)
            under_way = asyncio.run(ask_in_batches(run, mode, again=False))
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
    from mbbq_gen.runs.batch_session import in_session, set_mode, tell_batches

    counts: list[int] = []

    async def work(batching: Batching) -> None:
        counts.append(await batching.cancel())
        await batching.refresh()

    with _opened(run_path, packs) as run:
        set_mode(run.store, "stopped")
        asyncio.run(in_session(run, work, spends=False))
        say(f"{sum(counts)} batches asked to stop")
        tell_batches(run)
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
