"""The benchmarks by name: what they are, and how their instances are had. Readers are imported when they are used.

A reader of published files is a function `loader(folder, language, split)`; a benchmark that ships with us is
`loader(language, splits, resources)`. Both give instances one by one and raise for a missing file before the first one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.records import Instance, Split
from mbbq_gen.resources import Resources


@dataclass(frozen=True)
class BenchmarkInfo:
    """What a benchmark is, without reading it."""

    name: str
    """What `--benchmark` takes."""
    title: str
    """One line for lists."""
    languages: tuple[str, ...]
    """ISO 639-1 codes, the original first."""
    splits: tuple[Split, ...]
    licence: str
    """As its authors state it."""
    citation: str
    """Authors, year, title, venue."""
    link: str
    """Where the data is published."""
    loader: str
    """`module:function`."""
    needs_data: bool = True
    """Whether the user must have the published files."""
    notice: str | None = None
    """What everyone who reports a result of it should know."""


_BENCHMARKS: Final = (
    BenchmarkInfo(
        name="starter",
        title="Our own small parallel templates, for trying the tool",
        languages=("en", "nl", "es", "tr"),
        splits=("bias", "control"),
        licence="Apache-2.0",
        citation="The mbbq-gen authors: starter templates",
        link="ships with mbbq-gen",
        loader="mbbq_gen.datasets.starter:load_starter",
        needs_data=False,
        notice="for trying the tool; not a validated instrument",
    ),
    BenchmarkInfo(
        name="mbbq",
        title="Multilingual BBQ: 98 templates whose stereotypes hold in four languages, with a control set",
        languages=("en", "nl", "es", "tr"),
        splits=("bias", "control"),
        licence="none stated (derived from BBQ, CC BY 4.0)",
        citation="Neplenbroek, Bisazza, Fernández (2024): MBBQ: A Dataset for Cross-Lingual Comparison of Stereotypes "
        "in Generative LLMs. COLM",
        link="https://github.com/Veranep/MBBQ",
        loader="mbbq_gen.datasets.mbbq:load_mbbq",
        notice="62 of the 588 disambiguated Physical_appearance rows of each language and split have a wrong label",
    ),
)

BENCHMARKS: Final[dict[str, BenchmarkInfo]] = {info.name: info for info in _BENCHMARKS}


def find_benchmark(name: str) -> BenchmarkInfo:
    """The benchmark of that name.

    Raises:
        UnknownNameError: where there is none; it offers the nearest names.
    """
    try:
        return BENCHMARKS[name]
    except KeyError:
        raise UnknownNameError("benchmark", name, BENCHMARKS) from None


def load_benchmark(
    name: str,
    *,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    resources: Resources | None = None,
) -> Iterator[Instance]:
    """The instances of a benchmark, one by one: language by language, and in each split by split.

    Args:
        name: the benchmark's name.
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
    loader = _import_loader(info)
    if not info.needs_data:
        packs = resources or Resources()
        return chain.from_iterable([loader(language, wanted_splits, packs) for language in wanted_languages])
    if data is None:
        raise UsageError(f"{name}: its published files are needed; get them from {info.link} and give --data DIR")
    parts = [loader(data, language, split) for language in wanted_languages for split in wanted_splits]
    return chain.from_iterable(parts)


def _choose(info: BenchmarkInfo, what: str, wanted: Sequence[Any] | None, known: Sequence[Any]) -> list[Any]:
    """The wanted ones if the benchmark has them all, each once; all of its own where none are named."""
    for one in wanted or ():
        if one not in known:
            raise UsageError(f"{info.name} has no {what} {one!r}; it has {', '.join(known)}")
    return list(dict.fromkeys(wanted or known))


def _import_loader(info: BenchmarkInfo) -> Callable[..., Iterator[Instance]]:
    """The function that reads the benchmark."""
    module, function = info.loader.split(":")
    loader: Callable[..., Iterator[Instance]] = getattr(importlib.import_module(module), function)
    return loader
