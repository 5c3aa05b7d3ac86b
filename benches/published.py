"""Which benchmarks a bench reads: the starter benchmark, and published files that its user names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from mbbq_gen.datasets.registry import find_benchmark, load_benchmark
from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.records import Instance


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Takes BENCHMARK=FOLDER any number of times."""
    parser.add_argument("published", nargs="*", metavar="BENCHMARK=FOLDER")


def sources_of(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> list[tuple[str, Path | None]]:
    """The starter benchmark and those named, each with its folder; stops with a line where one is not there."""
    for given in chosen.published:
        if not Path(given.partition("=")[2]).is_dir() or "=" not in given:
            parser.error(f"{given!r} is no BENCHMARK=FOLDER with a folder that is there")
    named = [given.partition("=") for given in chosen.published]
    for name, _, _ in named:
        try:
            find_benchmark(name)
        except UnknownNameError as error:
            parser.error(str(error))
    return [("starter", None), *((name, Path(folder)) for name, _, folder in named)]


def instances_of(benchmark: str, folder: Path | None) -> Iterator[Instance]:
    """The instances of every language whose files are there; the others are told of."""
    if folder is None:
        yield from load_benchmark(benchmark)
        return
    for language in find_benchmark(benchmark).languages:
        try:
            yield from load_benchmark(benchmark, data=folder, languages=[language])
        except UsageError as error:
            print(f"left out: {error}", file=sys.stderr)
