"""`mbbq-gen models`: what can be asked."""

from __future__ import annotations

from mbbq_gen.cli.options import Json, example, print_json, result_console


@example("  mbbq-gen models\n  mbbq-gen models --json")
def models(as_json: Json = False) -> None:
    """Lists what can be asked: kinds of models, models with a name of their own, oracles."""
    from mbbq_gen.providers.registry import list_models

    entries = list_models()
    if as_json:
        print_json([entry.model_dump() for entry in entries])
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("model", "ready", "what it is"):
        table.add_column(title, overflow="fold")
    for entry in entries:
        ready = "yes" if entry.installed else f"no: {entry.install}"
        table.add_row(entry.name, ready, entry.summary)
    result_console().print(table)
