"""`mbbq-gen leaderboard`: several models beside each other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, example, resources, result_console, say, write_lines
from mbbq_gen.cli.statistics_options import RunPaths, StatisticsOptions, WordingsChoice
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.report.leaderboard import Board


@example(
    "  mbbq-gen leaderboard run-a run-b\n"
    "  mbbq-gen leaderboard run-a run-b run-c -o board.html\n"
    "  mbbq-gen leaderboard run-a run-b --csv board.csv"
)
@expand_options
def leaderboard(
    run_paths: RunPaths,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a page for a browser.", metavar="FILE.html")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write one row a model, benchmark and language.", metavar="FILE")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    *,
    statistics: StatisticsOptions,
    wordings: WordingsChoice = "fixed",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Puts models beside each other: accuracy and bias by benchmark and language, with intervals and ranges of ranks.

    Says which models were not asked the same wordings, orders and questions as the others, and ranks those apart. There
    is no overall rank. Bias above 0 leans to the stereotype, below 0 against it; it is ranked by its distance from 0.
    """
    if markdown and as_json:
        raise UsageError("--markdown and --json: choose one of the two")
    if output is not None and output.is_dir():
        raise UsageError(f"-o {output}: is a folder; name a file, such as {output / 'board.html'}")
    board = _board(run_paths, packs, statistics, wordings)
    if output is not None:
        from mbbq_gen.report.html.contents import language_names
        from mbbq_gen.report.leaderboard.page import board_page

        names = language_names((row.language for row in board.rows), resources(packs))
        write_lines(output, [board_page(board, [shlex.quote(str(path)) for path in run_paths], names)])
        say(f"written: {output}")
    if csv is not None:
        from mbbq_gen.report.leaderboard import full_table

        write_lines(csv, full_table(board).csv().splitlines())
        say(f"written: {csv}")
    if as_json:
        typer.echo(board.model_dump_json(indent=2))
    elif markdown or (output is None and csv is None):
        _show(board, is_markdown=markdown)


def _board(run_paths: list[Path], packs: Path | None, statistics: StatisticsOptions, wordings: str) -> Board:
    """The board of these runs."""
    from mbbq_gen.cli.loading import runs_frame
    from mbbq_gen.report.leaderboard import make_board
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.frames import model_names

    frame = runs_frame(run_paths, resources(packs), statistics.chosen_labels())
    folders = [RunFolder(path) for path in dict.fromkeys(run_paths)]
    manifests = [folder.manifest() for folder in folders]
    named = {
        (name, choice.name): manifest
        for name, manifest in zip(model_names(folders, manifests), manifests, strict=True)
        for choice in manifest.settings.benchmarks
    }
    return make_board(frame, named, statistics.sampling(run_paths, wordings))


def _show(board: Board, *, is_markdown: bool) -> None:
    """Prints the table and what it is read with."""
    from mbbq_gen.report.leaderboard import board_table
    from mbbq_gen.report.leaderboard.tables import board_notes, terminal_table
    from mbbq_gen.report.plain_text import visible

    if is_markdown:
        from mbbq_gen.report.figures.table_text import markdown_escaped

        typer.echo(board_table(board).markdown())
        typer.echo("\n".join(f"- {markdown_escaped(note)}" for note in board_notes(board)))
        return
    console = result_console()
    for benchmark, sentence in board.conclusions.items():
        console.print(f"{visible(benchmark)}: {visible(sentence)}")
    console.print()
    console.print(terminal_table(board))
    for note in board_notes(board):
        console.print(note)
