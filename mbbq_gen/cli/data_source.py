"""The questions of a command: a benchmark by name, or the user's file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import model_validator

from mbbq_gen.cli.command import Options, Packs, argument, option
from mbbq_gen.cli.options import Languages
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.core.text import words

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


class QuestionOptions(Options):
    """A benchmark and where its files are, or a file."""

    benchmark: str | None = argument("BENCHMARK", "Benchmark, see `mbbq-gen data list`.")
    data_dir: Data = None
    instances: Instances = None
    instances_field_map: FieldMap = None
    languages: Languages = None
    packs: Packs = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        from mbbq_gen.runs.resolve import check_own_data

        check_own_data(self.benchmark, self.data_dir, self.instances, self.instances_field_map)
        return self

    def load(self, splits: list[Split] | None = None) -> Iterator[Instance]:
        """The questions in the languages and these splits, one by one; None for all there are.

        Raises:
            UsageError: where there is nothing to read, or no such language.
            DataError: while reading, at the first row that is wrong.
        """
        from mbbq_gen.benchmarks.own_file import read_instances
        from mbbq_gen.benchmarks.registry import load_benchmark
        from mbbq_gen.benchmarks.releases import benchmark_folder

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
            data=benchmark_folder(self.benchmark, self.data_dir),
            languages=languages,
            splits=splits,
            resources=PackPaths(packs=self.packs),
        )


def with_bar(instances: Iterable[Instance], title: str = "reading") -> Iterator[Instance]:
    """The same questions, with a bar on a terminal once it takes longer than a second."""
    with Bar(title, None, "questions") as bar:
        for instance in instances:
            bar.advance()
            yield instance


def counted(instances: Iterable[Instance], counts: Counter[tuple[str, str, str, str]]) -> Iterator[Instance]:
    """The same questions, counted by benchmark, language, split and category as they pass."""
    for instance in instances:
        counts[instance.benchmark, instance.language, instance.split, instance.category] += 1
        yield instance
