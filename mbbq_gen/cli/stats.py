"""`mbbq-gen data stats`: how many questions of each kind there are, beside what the paper says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, example, print_json, resources, result_console
from mbbq_gen.cli.questions import Choice, Data, FieldMap, Instances, Named, with_bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from mbbq_gen.datasets.stats import CategoryCount
    from mbbq_gen.records import Instance
    from mbbq_gen.substitution import Coverage

_COLUMNS = (
    ("templates", "templates"),
    ("ambiguous", "amb."),
    ("disambiguated", "dis."),
    ("negative", "neg."),
    ("non_negative", "non-neg."),
    ("biased", "biased"),
    ("counter_biased", "counter"),
    ("unscorable", "unscor."),
    ("wrong_labels", "wrong"),
)
"""Field of a count → its column."""
_LEGEND = (
    "biased, counter: disambiguated questions whose right answer fits the stereotype, or contradicts it;"
    " unscor.: without a single target; wrong: published label known to be wrong"
)


@example(
    "  mbbq-gen data stats mbbq\n"
    "  mbbq-gen data stats kobbq --data KoBBQ --json\n"
    "  mbbq-gen data stats kobbq --control\n"
    "  mbbq-gen data stats --instances mine.parquet"
)
def stats(
    benchmark: Named = None,
    data: Data = None,
    instances: Instances = None,
    field_map: FieldMap = None,
    language: Annotated[str | None, typer.Option(help="Only this language.", metavar="XX")] = None,
    control: Annotated[
        bool, typer.Option("--control", help="Also count for which questions no control question can be made, and why.")
    ] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Counts the questions by language, split, category, condition, polarity and alignment, beside the paper's table.

    Where the files hold another number than the paper, the difference is explained below the table. With --control,
    control questions are made of the bias questions in every language that has a grammar for it, and those that can't
    be made are counted by reason and template.
    """
    from mbbq_gen.datasets.stats import count_instances
    from mbbq_gen.substitution import Coverage

    choice = Choice(benchmark, data, instances, field_map, packs)
    questions: Iterable[Instance] = with_bar(choice.load([language] if language else None))
    made = Coverage()
    counts = count_instances(_with_twins(questions, made, packs) if control else questions)
    if not counts:
        raise UsageError("no question is there to count")
    if as_json:
        rows = [{**count.model_dump(), "agrees": count.agrees} for count in counts]
        print_json({"counts": rows, "control": made.summary()} if control else rows)
        return
    console = result_console()
    for _, part in groupby(counts, key=lambda count: (count.benchmark, count.language, count.split)):
        alike = list(part)
        console.print(_table(alike))
        for line in _differences(alike):
            console.print(line, soft_wrap=True)
        console.print()
    console.print(_LEGEND, soft_wrap=True)
    if control:
        console.print()
        console.print(_refusals(made))
        console.print(f"control questions: {made.counts().sentence}", soft_wrap=True)


def _with_twins(questions: Iterable[Instance], made: Coverage, packs: Path | None) -> Iterator[Instance]:
    """The questions; what becomes of the bias questions when control questions are made of them is counted."""
    from mbbq_gen.substitution import ControlMakers, makeable_languages

    where = resources(packs)
    makers, known = ControlMakers(where), makeable_languages(where)
    for question in questions:
        if question.split == "bias" and question.language in known:
            made.add(question, makers.make(question))
        yield question


def _refusals(made: Coverage) -> Table:
    """The questions that no control question can be made of, by template and reason."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = "no control question"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("template", "language", "reason"):
        table.add_column(name)
    for name in ("questions", "of"):
        table.add_column(name, justify="right")
    for part in made.refusals():
        table.add_row(part.template_id, part.language, part.reason, f"{part.questions:,}", f"{part.of:,}")
    return table


def _table(rows: Sequence[CategoryCount]) -> Table:
    """The counts of a language and split."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    first = rows[0]
    table = Table(
        title=f"{first.benchmark}  {first.language}  {first.split}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("category")
    for title in ("rows", "paper", *(title for _, title in _COLUMNS)):
        table.add_column(title, justify="right")
    for row in rows:
        paper = "–" if row.published_rows is None else f"{row.published_rows:,}"
        numbers = [f"{getattr(row, field):,}" for field, _ in _COLUMNS]
        table.add_row(row.category, f"{row.rows:,}", paper, *numbers)
    return table


def _differences(rows: Iterable[CategoryCount]) -> list[str]:
    """What is said of every row that is not as the paper has it."""
    differing = [row for row in rows if row.agrees is False]
    explained = all(row.note for row in differing if row.category != "all")
    lines = []
    for row in differing:
        summed = "the sum of the above" if explained and len(differing) > 1 else "see docs/datasets.md"
        note = row.note or (summed if row.category == "all" else "see docs/datasets.md")
        lines.append(f"{row.category}: {row.rows:,} for {row.published_rows:,}: {note}")
    return lines
