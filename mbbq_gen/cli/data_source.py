"""The questions of a `data` command: a benchmark by name, or the user's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.help import option
from mbbq_gen.cli.options import Languages, Packs, data_folder, resources
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import words

if TYPE_CHECKING:
    from mbbq_gen.core.records import Instance, Split

Named = Annotated[str | None, typer.Argument(metavar="BENCHMARK", help="Benchmark, see `mbbq-gen data list`.")]
Data = Annotated[
    Path | None,
    option(
        "Questions",
        "Folder of the benchmark's published files. Default: the release from `mbbq-gen data download`.",
        metavar="DIR",
    ),
]
Instances = Annotated[
    Path | None,
    option("Questions", "Your own questions instead: a JSON Lines, CSV, TSV or Parquet file.", metavar="FILE"),
]
FieldMap = Annotated[
    Path | None,
    option("Questions", "TOML file that maps the fields of --instances to those of mbbq-gen.", metavar="TOML"),
]


Splits = Annotated[str, option("Questions", "Splits, comma-separated: bias, control, or both.", metavar="SPLIT,…")]


@dataclass(frozen=True)
class Choice:
    """A benchmark and where its files are, or a file, as typed."""

    benchmark: Named = None
    data_dir: Data = None
    instances: Instances = None
    instances_field_map: FieldMap = None
    languages: Languages = None
    packs: Packs = None

    def __post_init__(self) -> None:
        from mbbq_gen.runs.resolve import check_own_data

        check_own_data(self.benchmark, self.data_dir, self.instances, self.instances_field_map)

    def load(self, splits: list[Split] | None = None) -> Iterator[Instance]:
        """The questions in the languages and these splits, one by one; None for all there are.

        Raises:
            UsageError: where there is nothing to read, or no such language.
            DataError: while reading, at the first row that is wrong.
        """
        from mbbq_gen.benchmarks.own_file import read_instances
        from mbbq_gen.benchmarks.registry import load_benchmark

        languages = words(self.languages) if self.languages else None
        if self.instances is not None:
            return (
                found
                for found in read_instances(self.instances, self.instances_field_map)
                if (languages is None or found.language in languages) and (splits is None or found.split in splits)
            )
        if self.benchmark is None:
            raise UsageError("name a benchmark (see `mbbq-gen data list`) or give --instances FILE")
        return load_benchmark(
            self.benchmark,
            data=data_folder(self.benchmark, self.data_dir),
            languages=languages,
            splits=splits,
            resources=resources(self.packs),
        )


def with_bar(instances: Iterable[Instance]) -> Iterator[Instance]:
    """The same questions, with a bar on a terminal once it takes longer than a second."""
    with Bar("reading", None, "questions", delay=1.0) as bar:
        for instance in instances:
            bar.advance()
            yield instance
