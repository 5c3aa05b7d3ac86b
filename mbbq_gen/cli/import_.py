"""`mbbq-gen import`: makes a run of answers that another program asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, data_folder, example, resources, say
from mbbq_gen.cli.questions import Choice
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.names import one_of, splits_of, words

if TYPE_CHECKING:
    from mbbq_gen.imports.writing import ImportSummary
    from mbbq_gen.records import Instance
    from mbbq_gen.runs.folder import BenchmarkChoice


@example(
    "  mbbq-gen import --from lm-eval out/my-model -o my-run --benchmark bbq --data BBQ\n"
    "  mbbq-gen import --from inspect logs/2026-01-31_mbbq.eval -o my-run --benchmark mbbq\n"
    "  mbbq-gen import --from helm runs/suite/bbq:model=m -o my-run --benchmark bbq\n"
    "  mbbq-gen import --from lighteval out -o my-run --benchmark bbq\n"
    "  mbbq-gen import --from euroeval MODEL-DATASET-model-outputs.json -o my-run --benchmark mbbq\n"
    "  mbbq-gen import --from csv answers.csv --map map.toml -o my-run --benchmark starter"
)
def import_answers(
    source: Annotated[Path, typer.Argument(metavar="LOG", help="The log: a file, or its folder.")],
    tool: Annotated[
        str,
        typer.Option("--from", help="lm-eval, inspect, helm, lighteval, euroeval or csv.", metavar="NAME"),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the new run.", metavar="RUN")],
    benchmark: Annotated[
        str | None, typer.Option(help="The benchmarks that the answers are about, comma-separated.", metavar="NAME,…")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the benchmark's published files.", metavar="DIR")] = None,
    instances: Annotated[
        Path | None, typer.Option(help="Instead of a benchmark: your own questions.", metavar="FILE")
    ] = None,
    instances_map: Annotated[
        Path | None, typer.Option(help="Which of their fields is which of ours (TOML).", metavar="TOML")
    ] = None,
    map_path: Annotated[
        Path | None,
        typer.Option(
            "--map", help="With --from csv: which column is what (TOML), see docs/imports.md.", metavar="TOML"
        ),
    ] = None,
    languages: Annotated[str | None, typer.Option(help="Only questions in these languages.", metavar="XX,…")] = None,
    splits: Annotated[str | None, typer.Option(help="Only questions of these splits.", metavar="SPLIT,…")] = None,
    model: Annotated[
        str | None, typer.Option(help="What to call the model; none: as the log does.", metavar="NAME")
    ] = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Makes a run of answers that lm-eval, inspect-ai, HELM, lighteval, EuroEval or any other program asked for.

    Each answer is matched to a question of the benchmark, with its options in the order in which they were shown, and
    keeps the log's own ids. Rows that can't be matched are counted under the reason why. What the answers mean and what
    they score is then decided here: report, score, explain and every other command take the run as any other.
    """
    from mbbq_gen.imports.answers import TOOLS
    from mbbq_gen.imports.opening import open_source
    from mbbq_gen.imports.writing import Importer
    from mbbq_gen.runs.folder import RunFolder

    where = resources(packs)
    opened = open_source(one_of("program", tool, TOOLS), source, map_path)
    chosen = _Questions(benchmark, data, instances, instances_map, languages, splits, packs)
    importer = Importer(
        folder=RunFolder(output),
        source=opened,
        choices=tuple(chosen.choices()),
        instances=chosen.load(),
        resources=where,
        model=model,
    )
    with Bar("reading", None, "questions", delay=1.0) as bar:
        importer.read_questions(bar.advance)
    with Bar("importing", None, "answers", delay=1.0) as bar:
        summary = importer.run(bar.advance)
    if as_json:
        typer.echo(summary.model_dump_json(indent=2))
    else:
        _show(summary)


class _Questions:
    """The questions that answers may be about, as they were named on the command line."""

    def __init__(
        self,
        benchmark: str | None,
        data: Path | None,
        instances: Path | None,
        instances_map: Path | None,
        languages: str | None,
        splits: str | None,
        packs: Path | None,
    ) -> None:
        from mbbq_gen.runs.selection import check_own_data

        check_own_data(benchmark, data, instances, None)
        if instances_map is not None and instances is None:
            raise UsageError("--instances-map says what the fields of --instances FILE are; give that file too")
        if instances is None and benchmark is None:
            raise UsageError("name what was asked: --benchmark NAME (see `mbbq-gen data list`) or --instances FILE")
        self._names = words(benchmark or "")
        self._data, self._instances, self._instances_map = data, instances, instances_map
        self._languages = words(languages) if languages else None
        self._splits = splits_of(splits) if splits else None
        self._packs = packs

    def choices(self) -> Iterator[BenchmarkChoice]:
        """What the manifest says of them."""
        from mbbq_gen.datasets.registry import benchmark_name
        from mbbq_gen.runs.folder import OWN_DATA, BenchmarkChoice

        if self._instances is not None:
            field_map = str(self._instances_map) if self._instances_map else None
            yield BenchmarkChoice(name=OWN_DATA, data=str(self._instances), field_map=field_map)
        for name in map(benchmark_name, self._names):
            folder = data_folder(name, self._data)
            yield BenchmarkChoice(name=name, data=str(folder) if folder else None)

    def load(self) -> Iterator[tuple[BenchmarkChoice, Iterable[Instance]]]:
        """The questions of each."""
        from mbbq_gen.datasets.registry import find_benchmark
        from mbbq_gen.runs.folder import OWN_DATA

        for choice in self.choices():
            folder = Path(choice.data) if choice.data else None
            if choice.name == OWN_DATA:
                own = Choice(None, None, folder, self._instances_map, self._packs)
                yield choice, own.load(self._languages, self._splits)
                continue
            info = find_benchmark(choice.name)
            several = len(self._names) > 1
            wanted = self._languages
            if wanted is not None and several:
                wanted = [code for code in wanted if code in info.languages]
            parts = self._splits
            if parts is not None and several:
                parts = [split for split in parts if split in info.splits]
            if wanted != [] and parts != []:
                yield choice, Choice(choice.name, folder, packs=self._packs).load(wanted, parts)


def _show(summary: ImportSummary) -> None:
    """What was imported on stdout, what was not on stderr."""
    for note in summary.notes:
        say(note)
    typer.echo(f"{summary.imported:,} of {summary.rows:,} answers of {summary.model} imported into {summary.run}")
    for part in summary.covered:
        typer.echo(
            f"  {part.benchmark} {part.split} {part.language}: {part.answered:,} of {part.questions:,} questions"
            + (f", {part.answers:,} answers" if part.answers != part.answered else "")
        )
    for count, what in (
        (summary.failed, "are errors instead of answers"),
        (summary.unlabelled, "were asked without labels: a letter alone means no option there"),
        (summary.reworded, "had the unknown option in other words than the benchmark's"),
    ):
        if count:
            typer.echo(f"  {count:,} {what}")
    for entry in summary.left_out:
        say(f"left out: {entry.count:,}: {entry.meaning}")
        for shown in entry.examples:
            say(f"    {shown}")
    say(f"next: mbbq-gen report {summary.run}")
