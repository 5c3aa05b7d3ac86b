"""`mbbq-gen status`: how a run stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mbbq_gen.cli.options import Json, PriceFile, RunPath, example, result_console

if TYPE_CHECKING:
    from mbbq_gen.runs.folder import Manifest, RunFolder
    from mbbq_gen.runs.status import RunStatus


@example("  mbbq-gen status my-run\n  mbbq-gen status my-run --json")
def status(run_path: RunPath, price_file: PriceFile = None, as_json: Json = False) -> None:
    """Shows how a run stands: done, failed by kind, cost so far, rate, time left, batches.

    Reads the run's folder only, also while another process works on it; `mbbq-gen batch status RUN` asks the service.
    """
    from mbbq_gen.report.money_tables import print_status
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    found = status_of(folder, price_file)
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_status(found, result_console())


def status_of(folder: RunFolder, price_file: Path | None = None) -> RunStatus:
    """How a run stands; its own price file is used where none is given."""
    from mbbq_gen.providers.prices import read_prices
    from mbbq_gen.runs.asking import load_asking
    from mbbq_gen.runs.status import run_status

    manifest = folder.manifest()
    with folder.open_store(read_only=True) as store:
        own = read_prices(price_file or load_asking(store).price_file)
        return run_status(store, manifest, str(folder.path), own, asked_server(manifest))


def asked_server(manifest: Manifest) -> str | None:
    """The server that a run asks, as its manifest says; None for the service's own, or none."""
    address = manifest.provider_facts.get("base_url")
    return address if isinstance(address, str) else None
