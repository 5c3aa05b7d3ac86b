"""`mbbq-gen language …`: begins the packs of a language, and shows how they read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, example, open_lines, print_json, resources, result_console
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar

if TYPE_CHECKING:
    from mbbq_gen.extraction.pack_report import PackReport

Code = Annotated[str, typer.Argument(metavar="XX", help="The language's ISO 639 code.", show_default=False)]
_SHOWN = 12

app = typer.Typer(help="Adds a language, and shows how its pack reads.", no_args_is_help=True, rich_markup_mode=None)


@app.command("new")
@example('  mbbq-gen language new nb --name "Norwegian Bokmål" --own-name "norsk bokmål" --packs my-packs')
def new(
    language: Code,
    name: Annotated[str, typer.Option(help="What English calls it.")],
    own_name: Annotated[str, typer.Option("--own-name", metavar="NAME", help="What it calls itself.")],
    packs: Annotated[Path, typer.Option("--packs", metavar="DIR", help="The folder for your own packs.")] = Path(
        "packs"
    ),
    as_json: Json = False,
) -> None:
    """Writes the three packs of a language for a speaker to fill in, and says in which order it pays.

    prompts/XX.toml: how a question is asked. extractors/XX.toml: the words by which answers are read.
    control_sets/XX.toml: first names. Each has ours in English beside what is to be written.
    """
    import re

    from mbbq_gen.extraction.jsonl import LANGUAGE
    from mbbq_gen.skeletons import FIRST, write_skeletons

    if not re.fullmatch(LANGUAGE, language):
        raise UsageError(f"{language!r}: no language code; write one such as nb or pt-br")
    paths = write_skeletons(packs, language, name, own_name)
    if as_json:
        print_json({"files": [str(path) for path in paths], "fill_in_first": [key for key, _ in FIRST]})
        return
    for path in paths:
        typer.echo(path)
    typer.echo(f"\nFill in {paths[1]} in this order; before that, answers are read by labels and option texts alone:")
    for number, (key, what) in enumerate(FIRST[:_SHOWN], 1):
        typer.echo(f"  {number:2}. {key:15} {what}")
    typer.echo("\nthen    the wordings and example answers, the first names, and [[example]]s")
    typer.echo(f"check   mbbq-gen check --packs {packs} --language {language}")
    typer.echo(f"measure mbbq-gen language report {language} --packs {packs} --cases labelled.jsonl")


@app.command("report")
@example(
    "  mbbq-gen language report nl\n"
    "  mbbq-gen language report nb --packs my-packs --cases labelled.jsonl\n"
    "  mbbq-gen language report nl --cases labelled.jsonl --no-classes --json"
)
def report(
    language: Code,
    cases: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Labelled responses: lines as for extract --jsonl, with gold_option; - for stdin."
        ),
    ] = None,
    classes: Annotated[
        bool, typer.Option("--classes/--no-classes", help="Also read without each class of words.")
    ] = True,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows how a pack reads labelled responses, by confidence, and what each of its classes of words does for that.

    gold_option is the index of the option that a careful reader sees in the response, null where there is none. Without
    --cases the pack's own examples are read.
    """
    from mbbq_gen.extraction.engine import read_grammar
    from mbbq_gen.extraction.pack_report import labelled_responses, own_examples, report_pack

    where = resources(packs)
    read_grammar(language, where)
    if cases is None:
        responses = own_examples(language, where)
    else:
        with open_lines(cases) as lines:
            responses = list(labelled_responses(lines, str(cases), language))
    with Bar("reading", None, "classes", delay=1.0) as bar:
        found = report_pack(language, responses, where, with_classes=classes, on_class=lambda _: bar.advance())
    if as_json:
        print_json(found.model_dump())
        return
    _print(found)


def _print(found: PackReport) -> None:
    """The report in the terminal."""
    from rich.table import Table

    total = found.responses
    typer.echo(f"{total:,} labelled responses in {found.language}")
    parts = (
        ("right", found.right),
        ("another option", found.wrong),
        ("missed", found.missed),
        ("invented", found.invented),
    )
    typer.echo(", ".join(f"{name} {count:,} ({count / total:.1%})" for name, count in parts))
    shares = found.by_confidence.items()
    typer.echo("; ".join(f"{name}: {share.right:,} of {share.readings:,} right" for name, share in shares))
    if not found.classes:
        return
    table = Table(box=None, pad_edge=False)
    for title in ("class", "entries", "right only with it", "right only without it"):
        table.add_column(title, justify="left" if title == "class" else "right")
    for gain in found.classes:
        table.add_row(gain.name, str(gain.entries), str(gain.needed), str(gain.harmed))
    result_console().print(table)
