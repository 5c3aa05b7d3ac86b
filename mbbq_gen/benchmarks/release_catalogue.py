"""The published releases: the address of each, the checksums of its files, and which file of a copy is which.

releases.toml ─► Release ─► download ─► unpack ─► collect ─► install: verified, and put in its place
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, NoReturn

from pydantic import BeforeValidator, Field

from mbbq_gen.core.errors import DownloadError, UnknownNameError, UsageError
from mbbq_gen.core.files import file_digest
from mbbq_gen.languages.packs import Pack, Slug, Text, validate_pack

_TABLE = "releases.toml"
_MOST_FILES: Final = 100_000
_SHOWN: Final = 3


def is_inside(path: str) -> bool:
    """Whether a path, with `/` between its steps, stays inside the folder that it is taken from."""
    steps = path.replace("\\", "/").split("/")
    return steps[0] != "" and re.match(r"[A-Za-z]:(/|$)", "/".join(steps)) is None and ".." not in steps


def _split_pins(lines: str) -> list[dict[str, str]]:
    """The pinned files of a table of lines `bytes sha256 path`."""
    return [dict(zip(("size", "sha256", "path"), line.split(maxsplit=2), strict=True)) for line in lines.splitlines()]


class PinnedFile(Pack):
    """A file of a release whose content is known."""

    path: Text
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Release(Pack):
    """One published release: a table of `releases.toml`, which explains the fields."""

    name: Slug
    serves: tuple[Slug, ...] = ()
    repository: Text
    commit: str | None = None
    """The commit, or the version of a package, that the checksums are of; None if it is had on request alone."""
    archive: Text | None = None
    on_request: Text | None = None
    licence: Text
    required: tuple[Text, ...]
    take: tuple[Text, ...]
    unpinned: tuple[Text, ...] = ()
    files: Annotated[tuple[PinnedFile, ...], BeforeValidator(_split_pins)] = ()

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks that are read from it."""
        return self.serves or (self.name,)

    @property
    def edition(self) -> str:
        """The commit in short, as folders are named; `on-request` where there is none."""
        return self.commit[:12] if self.commit else "on-request"

    @cached_property
    def pins(self) -> dict[str, PinnedFile]:
        """The pinned files by their path."""
        return {pin.path: pin for pin in self.files}

    @cached_property
    def pinned_names(self) -> frozenset[str]:
        """The names, without folders, of the pinned files."""
        return frozenset(map(_name, self.pins))

    def takes(self, path: str) -> bool:
        """Whether a file that stands there is taken along."""
        is_known = path in self.pins or path in self.unpinned
        return is_known or ("\\" not in path and any(fits(path, pattern) for pattern in self.take))

    def wants(self, path: str) -> bool:
        """Whether a file of an archive can be one of it: by its path from some step on, or by a pinned file's name."""
        return _name(path) in self.pinned_names or any(self.takes(path[len(folder) :]) for folder in _folders(path))


class ReleaseCatalogue(Pack):
    """The whole of releases.toml."""

    archive: Text
    """Where the archive of a commit is, with `{repository}` and `{commit}` in it; a release may say otherwise."""
    release: tuple[Release, ...]

    def find(self, benchmark: str) -> Release:
        """The release that a benchmark is read from; raises UnknownNameError where there is none."""
        served = {name: release for release in self.release for name in release.benchmarks}
        written = benchmark.replace("-", "_")
        if written not in served:
            raise UnknownNameError("published benchmark", benchmark, served)
        return served[written]

    def archive_url(self, release: Release) -> str:
        """Where the archive of the release's commit is; raises UsageError where the release is had on request alone."""
        if release.commit is None:
            raise UsageError(
                f"{release.name}: no download: {release.on_request} ({release.repository}); "
                f"then: mbbq-gen data download {release.name} --from FOLDER_OR_ARCHIVE"
            )
        return (release.archive or self.archive).format(repository=release.repository, commit=release.commit)


def fits(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern, step by step: `*` stands for anything within one step."""
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatchcase, steps, wanted))


@cache
def shipped_catalogue() -> ReleaseCatalogue:
    """The releases that we know."""
    text = files("mbbq_gen.benchmarks").joinpath(_TABLE).read_text(encoding="utf-8")
    return validate_pack(ReleaseCatalogue, tomllib.loads(text), Path(_TABLE))


def read_folder(folder: Path) -> dict[str, Path]:
    """The files of a folder by their paths in it; folders whose names begin with a dot (`.git`) are passed over.

    Raises UsageError where it holds more files than a release can have.
    """

    def stop(error: OSError) -> NoReturn:
        raise error

    found: dict[str, Path] = {}
    for root, folders, names in os.walk(folder, onerror=stop):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(root) / name for name in sorted(names))
        found |= {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
        if len(found) > _MOST_FILES:
            raise UsageError(f"{folder}: more than {_MOST_FILES:,} files; give the folder of the release itself")
    return found


def collect(files: Mapping[str, Path], release: Release, label: str) -> dict[str, str]:
    """The files of a copy that belong to a release: path in the release → path in the copy.

    Paths count from the folder from which on most of them are those of the release. A pinned file that is not at its
    place is a file of its name and content elsewhere.

    Args:
        files: path in the copy → where the file can be read.
        label: the copy as the user knows it, for messages.

    Raises:
        DownloadError: where a required file is missing.
    """
    counts, by_name = Counter[str](), defaultdict[str, list[str]](list)
    for place in files:
        by_name[_name(place)].append(place)
        for folder in _folders(place):
            counts[folder] += release.takes(place[len(folder) :])
    root = min({"", *counts}, key=lambda folder: (-counts[folder], folder.count("/"), folder))
    inside = {place[len(root) :]: place for place in files if place.startswith(root)}
    found = {path: place for path, place in inside.items() if release.takes(path)}
    for path, pin in release.pins.items():
        for place in by_name[_name(path)] if path not in found else ():
            if files[place].stat().st_size == pin.size and file_digest(files[place]) == pin.sha256:
                found[path] = place
    missing = [path for path in release.pins if path not in found and any(fits(path, one) for one in release.required)]
    missing += [one for one in release.required if not any(fits(path, one) for path in (*found, *release.pins))]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        raise DownloadError(f"{label}: lacks {shown} of {release.name}; give a whole copy with --from")
    return dict(sorted(found.items()))


def _folders(path: str) -> Iterator[str]:
    """The folders that a path stands in, from none (empty) on, each with `/` at its end."""
    steps = path.split("/")
    return ("".join(f"{step}/" for step in steps[:count]) for count in range(len(steps)))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
