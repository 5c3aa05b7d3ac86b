"""The benchmarks by name: their facts, and how their instances are loaded. Readers are imported on first use.

A reader of published files is a function `read(parts)`; see `Parts`. The reader of a benchmark that ships with this
package is `read(language, splits, resources)`. Both yield instances or lazy instances.
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
_FOLDER: Final = files("mbbq_gen.benchmarks")
_STARTER_FILES: Final = {entry.name.removesuffix(".toml") for entry in _FOLDER.joinpath("starter_data").iterdir()}
_STARTER_LANGUAGES: Final = sorted(_STARTER_FILES - {"templates"}, key=lambda code: (code != "en", code))
"""The languages of the starter templates; default for a benchmark whose table lists no languages."""


class BenchmarkInfo(FrozenModel):
    """The facts about a benchmark: a table of `benchmarks.toml`, which explains the fields."""

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
    """Empty if it is derived from the files."""
    needs_data: bool = True
    notice: str | None = None
    confounded_order: bool = False
    categories: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class SplitInfo:
    """Fields that all instances of a category's files share."""

    benchmark: str
    version: str
    language: str
    split: Split
    category: str = ""
    """Slug; empty if each row names its category."""
    published: str = ""
    """Published name of the category."""


Parts = Sequence[tuple[SplitInfo, list[Path]]]
"""The files of each category."""

BENCHMARKS: Final[dict[str, BenchmarkInfo]] = {
    name: BenchmarkInfo(name=name, **{"languages": _STARTER_LANGUAGES, **table})
    for name, table in tomllib.loads(_FOLDER.joinpath("benchmarks.toml").read_text(encoding="utf-8")).items()
}


def benchmark_name(typed: str) -> str:
    """The registered name of a benchmark: `gg_bbq` for `gg-bbq`. An unknown name is returned unchanged."""
    name = typed.replace("-", "_")
    return name if name in BENCHMARKS else typed


def find_benchmark(name: str) -> BenchmarkInfo:
    """The benchmark of that name, with hyphens or underscores; raises UnknownNameError for an unknown name."""
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
    """Yields the instances of a benchmark, ordered by language, then by split.

    Arguments and errors as for `load_lazily`.
    """
    lazy = load_lazily(name, data=data, languages=languages, splits=splits, resources=resources)
    return (instance.build() for instance in lazy)


def load_lazily(
    name: str,
    *,
    data: Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    resources: PackPaths | None = None,
) -> Iterator[LazyInstance]:
    """Yields the instances of a benchmark, in the order of `load_benchmark`; each is built on demand.

    Args:
        data: the folder of the published files; ignored for a benchmark that ships with this package.
        languages: languages in the order of loading; None for all. Likewise `splits`.
        resources: folders of language packs; None for the packs that ship with this package.

    Raises:
        UsageError: on the call, for an unknown name, language or split, or a missing folder or file.
        DataError: during iteration, at the first invalid row; names file, row and field.
    """
    info = find_benchmark(name)
    chosen: dict[str, list[Any]] = {}
    for kind, requested, known in (("language", languages, info.languages), ("split", splits, info.splits)):
        for value in requested or ():
            if value not in known:
                raise UsageError(f"{info.name} has no {kind} {value!r}; it has {', '.join(known)}")
        chosen[kind] = list(dict.fromkeys(requested or known))
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
    inputs = [published_files(info, data, each, split) for each in chosen["language"] for split in chosen["split"]]
    return _lazy(read(parts) for parts in inputs)


def _lazy(loaded: Iterable[Iterator[Instance | LazyInstance]]) -> Iterator[LazyInstance]:
    for instance in chain.from_iterable(loaded):
        yield LazyInstance.of(instance) if isinstance(instance, Instance) else instance


def published_files(info: BenchmarkInfo, folder: Path, language: str, split: Split) -> Parts:
    """The files of each category, from the first subfolder that has any; raises UsageError if one is missing."""

    def shorten(names: list[str]) -> str:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    if not folder.is_dir():
        raise UsageError(f"{info.name}: no folder {folder}; give the benchmark's folder with --data-dir DIR")
    slots = {"language": language, "called": info.called.get(language, language)}
    slots["control"] = "_control" if split == "control" else ""
    by_category = any("{category}" in name for names in info.files for name in names)
    alternatives = {  # category → alternative lists of file names
        category: [[name.format(category=category, **slots) for name in names] for names in info.files]
        for category in (info.categories if by_category else [""])
    }
    roots = [folder / subfolder.format(**slots) for subfolder in info.inside]
    for root in roots:
        names = (name for lists in alternatives.values() for name in chain.from_iterable(lists))
        existing = {name: paths[0] for name in names if (paths := sorted(filter(Path.is_file, root.glob(name))))}
        if existing:
            break
    else:
        raise UsageError(
            f"{info.name}: no {shorten([name for lists in alternatives.values() for name in lists[0]])} in"
            f" {' or '.join(map(str, roots))}; give the folder of the published release with --data-dir DIR"
        )
    parts, missing = [], list[str]()
    for category, lists in alternatives.items():
        chosen = next((names for names in lists if not existing.keys().isdisjoint(names)), lists[0])
        missing += [name for name in chosen if name not in existing]
        if paths := [existing[name] for name in chosen if name in existing]:
            slug = info.categories.get(category, "")
            parts.append((SplitInfo(info.name, info.version, language, split, slug, category), paths))
    if missing and not info.partial:
        raise UsageError(f"{info.name}: {root} lacks {shorten(missing)}; the copy is incomplete, get it again")
    if missing:
        _log.warning("%s: %s lacks %s; continuing with the files that exist", info.name, root, ", ".join(missing))
    return parts
