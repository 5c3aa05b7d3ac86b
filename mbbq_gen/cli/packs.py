"""`mbbq-gen check`: every pack and starter file against its schema, and every example in them."""

from __future__ import annotations

from typing import Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, example, print_json, resources
from mbbq_gen.runs.names import all_of


@example("  mbbq-gen check\n  mbbq-gen check --packs my-packs --language sv")
def check(
    language: Annotated[str, typer.Option(help="Languages, comma-separated, or `all`.", metavar="XX,…")] = "all",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Checks every language pack and every starter template; ends with exit code 1 where something is wrong."""
    from mbbq_gen.checking import check_everything
    from mbbq_gen.languages import list_languages

    where = resources(packs)
    known = [status.language for status in list_languages(where)]
    chosen = known if language == "all" else all_of("language", language, known)
    report = check_everything(where, chosen)
    if as_json:
        print_json(report.model_dump())
    else:
        for finding in report.findings:
            typer.echo(f"{finding.file}: {finding.what}")
        for code, missing in report.incomplete.items():
            typer.echo(f"{code}: can't be asked in yet; missing: {', '.join(missing)}")
        state = f"{len(report.findings)} findings" if report.findings else "nothing wrong"
        typer.echo(f"{len(report.checked)} files checked: {state}")
    if report.findings:
        raise typer.Exit(1)
