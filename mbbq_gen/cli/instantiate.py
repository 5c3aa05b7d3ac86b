"""`mbbq-gen data instantiate`: questions from a folder of templates."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.options import Json, Packs, example, print_json, resources, say, write_lines
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.names import one_of, splits_of, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mbbq_gen.records import Instance


@example(
    "  mbbq-gen data instantiate EsBBQ-CaBBQ --language es -o esbbq.jsonl\n"
    "  mbbq-gen data instantiate my-templates --split bias,control -o mine.jsonl"
)
def instantiate(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Templates, or a checkout that holds them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the questions go.", metavar="FILE")],
    language: Annotated[
        str | None, typer.Option(help="Only these languages, comma-separated; none: all.", metavar="XX")
    ] = None,
    form: Annotated[
        str | None, typer.Option(help="starter or esbbq; none: found out from the folder.", metavar="FORM")
    ] = None,
    split: Annotated[str, typer.Option(help="bias, control or both; control only for the form starter.")] = "bias",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Fills templates and writes the questions as JSON Lines, for `run --instances`; the same ones every time.

    Two forms are known: ours (templates.toml and a TOML file a language) and EsBBQ's (workbooks with a vocabulary).
    Says how many questions came of it, by language, split and category.
    """
    from mbbq_gen.datasets.template_folders import FORMS, load_template_folder
    from mbbq_gen.records import to_jsonl

    instances = load_template_folder(
        folder,
        form=one_of("form", form, FORMS) if form else None,
        languages=_languages(language),
        splits=splits_of(split),
        resources=resources(packs),
    )
    counts: Counter[tuple[str, str, str, str]] = Counter()
    with Bar("filling", None, "questions", delay=1.0) as bar:
        write_lines(output, to_jsonl(_counted(instances, counts, bar)))
    if as_json:
        print_json(_summary(output, counts))
    else:
        _tell(output, counts)


def _languages(text: str | None) -> list[str] | None:
    """The languages of a comma-separated list; None where there is no list."""
    found = None if text is None else words(text)
    if found == []:
        raise UsageError("name at least one language, such as --language es")
    return found


def _counted(instances: Iterable[Instance], counts: Counter[tuple[str, str, str, str]], bar: Bar) -> Iterator[Instance]:
    """The instances, counted as they pass."""
    for instance in instances:
        counts[instance.benchmark, instance.language, instance.split, instance.category] += 1
        bar.advance()
        yield instance


def _summary(output: Path, counts: Counter[tuple[str, str, str, str]]) -> dict[str, Any]:
    keys = ("benchmark", "language", "split", "category")
    rows = [dict(zip(keys, about, strict=True)) | {"questions": count} for about, count in counts.items()]
    return {"output": str(output), "questions": counts.total(), "counts": rows}


def _tell(output: Path, counts: Counter[tuple[str, str, str, str]]) -> None:
    """Prints how many questions there are, by category, and says where they are."""
    for (benchmark, language, split, category), count in counts.items():
        typer.echo(f"{benchmark}  {language}  {split}  {category:<24}{count:>8,}")
    say(f"{counts.total():,} questions written to {output}")
