"""`mbbq-gen data audit`: what is odd in a benchmark, and what is done about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, example, print_json, say
from mbbq_gen.cli.questions import Choice, Data, FieldMap, Instances, Named, with_bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.datasets.audit import Finding
    from mbbq_gen.records import Instance

_SHOWN = 6
"""Parts of a benchmark that are listed for a finding; JSON has them all."""


@example(
    "  mbbq-gen data audit mbbq\n"
    "  mbbq-gen data audit esbbq --data EsBBQ-CaBBQ --json\n"
    "  mbbq-gen data audit --instances mine.csv --map map.toml --strict"
)
def audit(
    benchmark: Named = None,
    data: Data = None,
    instances: Instances = None,
    field_map: FieldMap = None,
    language: Annotated[str | None, typer.Option(help="Only this language.", metavar="XX")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is found.")] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Lists what is odd in the questions, with stable codes, counts, examples, and what the loader does about it.

    A problem may move a score, a note is worth knowing. Rows that can't be understood at all stop the command with
    file, row and field.
    """
    from mbbq_gen.datasets.audit import audit as look_over

    choice = Choice(benchmark, data, instances, field_map, packs)
    read = _Counter(choice.load([language] if language else None))
    findings = look_over(with_bar(read))
    if not read.count:
        raise UsageError("no question is there to look over")
    if as_json:
        print_json({"questions": read.count, "findings": [finding.model_dump() for finding in findings]})
    else:
        for _, same in groupby(findings, key=lambda finding: finding.code):
            typer.echo(_told(list(same)))
        codes = len({finding.code for finding in findings})
        say(f"{read.count:,} questions; {codes} kinds of oddity" if codes else f"{read.count:,} questions; nothing odd")
    if strict and findings:
        raise typer.Exit(1)


class _Counter:
    """Counts questions as they pass."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._instances = instances
        self.count = 0

    def __iter__(self) -> Iterator[Instance]:
        for instance in self._instances:
            self.count += 1
            yield instance


def _told(same: Sequence[Finding]) -> str:
    """All findings of a code, as a person reads them."""
    first = same[0]
    total = sum(finding.count for finding in same)
    lines = [f"{first.code}  ({first.level}, {total:,})", f"  {first.what}: {first.action}"]
    for finding in same[:_SHOWN]:
        part = " ".join(text for text in (finding.split, finding.language, finding.category) if text)
        lines.append(f"    {finding.count:>7,}  {part or finding.benchmark}: {'; '.join(finding.examples)}")
    if len(same) > _SHOWN:
        lines.append(f"             and {len(same) - _SHOWN} more parts, see --json")
    return "\n".join(lines) + "\n"
