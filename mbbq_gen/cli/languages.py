"""`mbbq-gen languages`: for which languages there are packs."""

from __future__ import annotations

from dataclasses import asdict

from mbbq_gen.cli.options import Json, Packs, example, print_json, resources, result_console


@example("  mbbq-gen languages\n  mbbq-gen languages --packs my-packs --json")
def languages(packs: Packs = None, as_json: Json = False) -> None:
    """Lists the languages and which of their three packs are there."""
    from mbbq_gen.languages import list_languages
    from mbbq_gen.resources import PACK_KINDS

    found = list_languages(resources(packs))
    if as_json:
        print_json([{**asdict(status), "complete": status.is_complete} for status in found])
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("code", "language", "own name", *PACK_KINDS):
        table.add_column(title)
    for status in found:
        marks = ["yes" if kind in status.packs else "missing" for kind in PACK_KINDS]
        table.add_row(status.language, status.name, status.native_name, *marks)
    result_console().print(table)
