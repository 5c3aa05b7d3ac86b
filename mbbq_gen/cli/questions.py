"""Whose questions a `data` command is about: a benchmark by name, or a file of the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import data_folder, resources
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar

if TYPE_CHECKING:
    from mbbq_gen.records import Instance, Split

Named = Annotated[
    str | None, typer.Argument(metavar="BENCHMARK", help="The benchmark's name, see `mbbq-gen data list`.")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of its published files; none: the release that was pulled."),
]
Instances = Annotated[
    Path | None,
    typer.Option(
        "--instances", metavar="FILE", help="Your own questions instead: JSON Lines, CSV, TSV or Parquet by its name."
    ),
]
FieldMap = Annotated[
    Path | None, typer.Option("--map", metavar="TOML", help="Which of your file's fields is which of ours.")
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
        from mbbq_gen.runs.selection import check_own_data

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
        from mbbq_gen.datasets.registry import load_benchmark

        return load_benchmark(
            self.benchmark,
            data=data_folder(self.benchmark, self.data),
            languages=languages,
            splits=splits,
            resources=resources(self.packs),
        )

    def _own(self, path: Path, languages: list[str] | None, splits: list[Split] | None) -> Iterator[Instance]:
        """The questions of the user's file."""
        from mbbq_gen.datasets.canonical import read_instances

        for instance in read_instances(path, self.field_map):
            if (languages is None or instance.language in languages) and (splits is None or instance.split in splits):
                yield instance


def with_bar(instances: Iterable[Instance]) -> Iterator[Instance]:
    """The same questions, with a bar on a terminal once it takes longer than a second."""
    with Bar("reading", None, "questions", delay=1.0) as bar:
        for instance in instances:
            bar.advance()
            yield instance
