"""The questions of a `data` command: a benchmark by name, or the user's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import data_folder, resources
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar

if TYPE_CHECKING:
    from mbbq_gen.core.records import Instance, Split

Named = Annotated[str | None, typer.Argument(metavar="BENCHMARK", help="Benchmark, see `mbbq-gen data list`.")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder of the benchmark's published files. Default: the release from `mbbq-gen data download`.",
    ),
]
Instances = Annotated[
    Path | None,
    typer.Option(
        "--instances", metavar="FILE", help="Your own questions instead: a JSON Lines, CSV, TSV or Parquet file."
    ),
]
FieldMap = Annotated[
    Path | None,
    typer.Option("--field-map", metavar="TOML", help="TOML file that maps the fields of your file to ours."),
]


@dataclass(frozen=True)
class Choice:
    """A benchmark and where its files are, or a file."""

    benchmark: str | None
    data: Path | None = None
    instances: Path | None = None
    field_map: Path | None = None
    packs: Path | None = None

    def __post_init__(self) -> None:
        from mbbq_gen.runs.resolve import check_own_data

        check_own_data(self.benchmark, self.data, self.instances, self.field_map)

    def load(self, languages: list[str] | None = None, splits: list[Split] | None = None) -> Iterator[Instance]:
        """The questions in these languages and splits, one by one; None for all there are.

        Raises:
            UsageError: where there is nothing to read, or no such language.
            DataError: while reading, at the first row that is wrong.
        """
        if self.instances is not None:
            return self._own(self.instances, languages, splits)
        if self.benchmark is None:
            raise UsageError("name a benchmark (see `mbbq-gen data list`) or give --instances FILE")
        from mbbq_gen.benchmarks.registry import load_benchmark

        return load_benchmark(
            self.benchmark,
            data=data_folder(self.benchmark, self.data),
            languages=languages,
            splits=splits,
            resources=resources(self.packs),
        )

    def _own(self, path: Path, languages: list[str] | None, splits: list[Split] | None) -> Iterator[Instance]:
        """The questions of the user's file."""
        from mbbq_gen.benchmarks.own_file import read_instances

        for instance in read_instances(path, self.field_map):
            if (languages is None or instance.language in languages) and (splits is None or instance.split in splits):
                yield instance


def with_bar(instances: Iterable[Instance]) -> Iterator[Instance]:
    """The same questions, with a bar on a terminal once it takes longer than a second."""
    with Bar("reading", None, "questions", delay=1.0) as bar:
        for instance in instances:
            bar.advance()
            yield instance
