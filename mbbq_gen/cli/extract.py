"""`mbbq-gen extract`: reads answers; never asks a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.options import Json, Packs, example, open_lines, print_json, resources, say, write_lines
from mbbq_gen.cli.progress import Bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mbbq_gen.resources import Resources


@example("  mbbq-gen extract my-run\n  mbbq-gen extract --jsonl answers.jsonl -o read.jsonl")
def extract(
    run_path: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run's folder.")] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(help="Instead of a run: lines with id, language, options, labels, response.", metavar="FILE"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the lines go; none: stdout.", metavar="FILE")
    ] = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Reads the chosen option out of answers: those of a run, with the packs of today, or any JSON Lines.

    Each line of --jsonl comes back with outcome, option (an index into its options, or null), confidence, rule and
    spans added. Readings of a run are stored beside earlier ones; the answers stay as they are.
    """
    where = resources(packs)
    if (run_path is None) == (jsonl is None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    if jsonl is not None:
        _extract_lines(jsonl, output, where)
    elif run_path is not None:
        _extract_run(run_path, where, as_json)


def _extract_run(path: Path, where: Resources, as_json: bool) -> None:
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.reading import read_run

    folder = RunFolder(path)
    folder.require()
    count = 0
    with Bar("reading", None, "answers", delay=1.0) as bar, folder.locked(), folder.open_store() as store:

        def step(batch: int) -> None:
            nonlocal count
            count += batch
            bar.advance(batch)

        versions = read_run(store, where, step)
    if as_json:
        print_json({"run": str(path), "read": count, "extractors": versions})
    else:
        say(f"{count:,} answers read" if count else "every answer has been read with these packs already")


def _extract_lines(path: Path, output: Path | None, where: Resources) -> None:
    from mbbq_gen.extraction.jsonl import extract_lines

    with open_lines(path) as stream, Bar("reading", None, "answers", delay=1.0) as bar:
        lines = _written(extract_lines(stream, str(path), resources=where), bar)
        if output is None:
            for line in lines:
                typer.echo(line)
        else:
            write_lines(output, lines)


def _written(lines: Iterable[dict[str, Any]], bar: Bar) -> Iterator[str]:
    """The lines as JSON, counted."""
    for line in lines:
        bar.advance()
        yield json.dumps(line, ensure_ascii=False)
