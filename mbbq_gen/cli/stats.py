"""`mbbq-gen data stats`: how many questions of each kind there are, beside what the paper says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, example, print_json, result_console
from mbbq_gen.cli.questions import Choice, Data, FieldMap, Instances, Named, with_bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from mbbq_gen.datasets.stats import CategoryCount

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
    "  mbbq-gen data stats --instances mine.parquet"
)
def stats(
    benchmark: Named = None,
    data: Data = None,
    instances: Instances = None,
    field_map: FieldMap = None,
    language: Annotated[str | None, typer.Option(help="Only this language.", metavar="XX")] = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Counts the questions by language, split, category, condition, polarity and alignment, beside the paper's table.

    Where the files hold another number than the paper, the difference is explained below the table.
    """
    from mbbq_gen.datasets.stats import count_instances

    choice = Choice(benchmark, data, instances, field_map, packs)
    counts = count_instances(with_bar(choice.load([language] if language else None)))
    if not counts:
        raise UsageError("no question is there to count")
    if as_json:
        print_json([{**count.model_dump(), "agrees": count.agrees} for count in counts])
        return
    console = result_console()
    for _, part in groupby(counts, key=lambda count: (count.benchmark, count.language, count.split)):
        rows = list(part)
        console.print(_table(rows))
        for line in _differences(rows):
            console.print(line, soft_wrap=True)
        console.print()
    console.print(_LEGEND, soft_wrap=True)


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
