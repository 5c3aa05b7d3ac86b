"""The benchmarks by name: what they are, and how their instances are had. Readers are imported when they are used.

A reader of published files is a function `loader(folder, language, split)`; a benchmark that ships with us is
`loader(language, splits, resources)`. Both give instances one by one and raise for a missing file before the first one.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel, Instance, Split


class BenchmarkInfo(FrozenModel):
    """What a benchmark is, without reading it: a table of `benchmarks.toml`, which explains the fields."""

    name: str
    """Value of `--benchmark`."""
    title: str
    languages: tuple[str, ...]
    splits: tuple[Split, ...]
    licence: str
    citation: str
    link: str
    loader: str
    version: str = ""
    """Empty where the loader derives it from the files."""
    needs_data: bool = True
    notice: str | None = None
    confounded_order: bool = False
    categories: dict[str, str] = Field(default_factory=dict)


_FOLDER: Final = files("mbbq_gen.benchmarks")
_STARTER: Final = {entry.name.removesuffix(".toml") for entry in _FOLDER.joinpath("starter_data").iterdir()}
_SHIPPED: Final = sorted(_STARTER - {"templates"}, key=lambda code: (code != "en", code))
"""The languages of the starter templates: those of a benchmark whose table names none."""
BENCHMARKS: Final[dict[str, BenchmarkInfo]] = {
    name: BenchmarkInfo(name=name, **{"languages": _SHIPPED, **table})
    for name, table in tomllib.loads(_FOLDER.joinpath("benchmarks.toml").read_text(encoding="utf-8")).items()
}


def benchmark_name(typed: str) -> str:
    """A benchmark's name as it is written here: `gg_bbq`, where `gg-bbq` was typed; what none has, as it was typed."""
    written = typed.replace("-", "_")
    return written if written in BENCHMARKS else typed


def find_benchmark(name: str) -> BenchmarkInfo:
    """The benchmark of that name, hyphens taken for underscores.

    Raises:
        UnknownNameError: where there is none; it offers the nearest names.
    """
    try:
        return BENCHMARKS[benchmark_name(name)]
    except KeyError:
        raise UnknownNameError("benchmark", name, BENCHMARKS) from None


def load_benchmark(
    name: str,
    *,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    resources: PackPaths | None = None,
) -> Iterator[Instance]:
    """The instances of a benchmark, one by one: language by language, and in each split by split.

    Args:
        data: the folder of its published files; not used for a benchmark that ships with us.
        languages: which languages, in that order; None for all it has.
        splits: which splits, in that order; None for all it has.
        resources: where language packs are found; None for those that ship.

    Raises:
        UnknownNameError: for a name that no benchmark has.
        UsageError: at once, for a language or split that it does not have, or a missing folder or file.
        DataError: while reading, at the first row that is wrong; file, row and field.
    """
    info = find_benchmark(name)
    wanted_languages = _choose(info, "language", languages, info.languages)
    wanted_splits = _choose(info, "split", splits, info.splits)
    module, function = info.loader.split(":")
    loader: Callable[..., Iterator[Instance]] = getattr(importlib.import_module(module), function)
    if not info.needs_data:
        packs = resources or PackPaths()
        return chain.from_iterable([loader(language, wanted_splits, packs) for language in wanted_languages])
    if data is None:
        raise UsageError(
            f"{info.name}: its published files are needed; get them with `mbbq-gen data download {info.name}`,"
            f" or from {info.link} and give --data-dir DIR"
        )
    parts = [loader(data, language, split) for language in wanted_languages for split in wanted_splits]
    return chain.from_iterable(parts)


def _choose(info: BenchmarkInfo, what: str, wanted: Sequence[Any] | None, known: Sequence[Any]) -> list[Any]:
    """The wanted ones if the benchmark has them all, each once; all of its own where none are named."""
    for one in wanted or ():
        if one not in known:
            raise UsageError(f"{info.name} has no {what} {one!r}; it has {', '.join(known)}")
    return list(dict.fromkeys(wanted or known))
