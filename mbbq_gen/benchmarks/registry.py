"""The benchmarks by name: what they are, and how their instances are had. Readers are imported when they are used.

A reader of published files is a function `read(parts)`, of the files of each category with what their instances share;
a benchmark that ships with us is `read(language, splits, resources)`. Both give instances one by one, or lazy ones.
"""

from __future__ import annotations

import importlib
import logging
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from mbbq_gen.benchmarks.rows import LazyInstance
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel, Instance, Split

_log = logging.getLogger(__name__)


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
    reader: str
    files: tuple[tuple[str, ...], ...] = ()
    inside: tuple[str, ...] = ("",)
    called: dict[str, str] = Field(default_factory=dict)
    partial: bool = False
    version: str = ""
    """Empty where it is derived from the files."""
    needs_data: bool = True
    notice: str | None = None
    confounded_order: bool = False
    categories: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class SplitInfo:
    """What all instances of a category's files share."""

    benchmark: str
    version: str
    language: str
    split: Split
    category: str = ""
    """Slug; empty where the rows tell."""
    published: str = ""


Parts = Sequence[tuple[SplitInfo, list[Path]]]
"""The files of each category."""

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
    """The benchmark of that name, hyphens taken for underscores; raises UnknownNameError where there is none."""
    if (info := BENCHMARKS.get(benchmark_name(name))) is None:
        raise UnknownNameError("benchmark", name, BENCHMARKS)
    return info


def load_benchmark(
    name: str,
    *,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    resources: PackPaths | None = None,
) -> Iterator[Instance]:
    """The instances of a benchmark, one by one: language by language, and in each split by split.

    Arguments and errors as for `load_lazily`.
    """
    lazy = load_lazily(name, data=data, languages=languages, splits=splits, resources=resources)
    return (one.build() for one in lazy)


def load_lazily(
    name: str,
    *,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    resources: PackPaths | None = None,
) -> Iterator[LazyInstance]:
    """The instances of a benchmark, in the order of `load_benchmark`, each of which is built when it is needed.

    Args:
        data: the folder of its published files; not used for a benchmark that ships with us.
        languages: which languages, in that order; None for all it has; likewise `splits`.
        resources: where language packs are found; None for those that ship.

    Raises:
        UsageError: at once, for a name, language or split that there is not, or a missing folder or file.
        DataError: while reading, at the first row that is wrong; file, row and field.
    """
    info = find_benchmark(name)
    chosen: dict[str, list[Any]] = {}
    for what, wanted, known in (("language", languages, info.languages), ("split", splits, info.splits)):
        for one in wanted or ():
            if one not in known:
                raise UsageError(f"{info.name} has no {what} {one!r}; it has {', '.join(known)}")
        chosen[what] = list(dict.fromkeys(wanted or known))
    module, function = info.reader.split(":")
    read: Callable[..., Iterator[Instance | LazyInstance]] = getattr(importlib.import_module(module), function)
    if not info.needs_data:
        packs = resources or PackPaths()
        return _lazy(read(language, chosen["split"], packs) for language in chosen["language"])
    if data is None:
        raise UsageError(
            f"{info.name}: its published files are needed; get them with `mbbq-gen data download {info.name}`,"
            f" or from {info.link} and give --data-dir DIR"
        )
    found = [published_files(info, data, each, split) for each in chosen["language"] for split in chosen["split"]]
    return _lazy(read(parts) for parts in found)


def _lazy(parts: Iterable[Iterator[Instance | LazyInstance]]) -> Iterator[LazyInstance]:
    for one in chain.from_iterable(parts):
        yield LazyInstance.of(one) if isinstance(one, Instance) else one


def published_files(info: BenchmarkInfo, folder: Path, language: str, split: Split) -> Parts:
    """The files of each category, from the first subfolder that has one; raises UsageError where one is missing."""

    def listed(some: list[str]) -> str:
        return ", ".join(some[:3]) + (f" and {len(some) - 3} more" if len(some) > 3 else "")

    if not folder.is_dir():
        raise UsageError(f"{info.name}: no folder {folder}; give the benchmark's folder with --data-dir DIR")
    slots = {"language": language, "called": info.called.get(language, language)}
    slots["control"] = "_control" if split == "control" else ""
    by_category = any("{category}" in name for names in info.files for name in names)
    wanted = {
        category: [[name.format(category=category, **slots) for name in names] for names in info.files]
        for category in (info.categories if by_category else [""])
    }
    roots = [folder / step.format(**slots) for step in info.inside]
    for root in roots:
        every = (name for lists in wanted.values() for name in chain.from_iterable(lists))
        there = {name: paths[0] for name in every if (paths := sorted(filter(Path.is_file, root.glob(name))))}
        if there:
            break
    else:
        raise UsageError(
            f"{info.name}: no {listed([name for lists in wanted.values() for name in lists[0]])} in"
            f" {' or '.join(map(str, roots))}; give the folder of the published release with --data-dir DIR"
        )
    parts, missing = [], list[str]()
    for category, lists in wanted.items():
        chosen = next((names for names in lists if not there.keys().isdisjoint(names)), lists[0])
        missing += [name for name in chosen if name not in there]
        if paths := [there[name] for name in chosen if name in there]:
            slug = info.categories.get(category, "")
            parts.append((SplitInfo(info.name, info.version, language, split, slug, category), paths))
    if missing and not info.partial:
        raise UsageError(f"{info.name}: {root} lacks {listed(missing)}; the copy is incomplete, get it again")
    if missing:
        _log.warning("%s: %s lacks %s; continuing with the files that exist", info.name, root, ", ".join(missing))
    return parts
