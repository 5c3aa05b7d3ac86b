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
from typing import Annotated, Final, NamedTuple, NoReturn, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from mbbq_gen.core.errors import DownloadError, UnknownNameError, UsageError
from mbbq_gen.core.files import file_digest
from mbbq_gen.languages.packs import Pack, Slug, Text, validate_pack

_TABLE = "releases.toml"
_PIN = re.compile(r"\s*(?P<size>\d+) (?P<sha256>[0-9a-f]{64}) (?P<path>\S.*)")
_MOST_FILES: Final = 100_000
_SHOWN: Final = 3


def is_inside(path: str) -> bool:
    """Whether a path, with `/` between its steps, stays inside the folder that it is taken from."""
    steps = path.replace("\\", "/").split("/")
    return steps[0] != "" and re.match(r"[A-Za-z]:(/|$)", "/".join(steps)) is None and ".." not in steps


def _check_inside(path: str) -> str:
    if not is_inside(path) or "\\" in path:
        raise ValueError("must be a path inside the repository, with / between its parts")
    return path


def _split_pins(lines: str) -> list[dict[str, str]]:
    """The pinned files of a table of lines `bytes sha256 path`."""
    pins = []
    for line in filter(str.strip, lines.splitlines()):
        found = _PIN.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} is not: bytes, sha256, path")
        pins.append(found.groupdict())
    return pins


RepositoryPath = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_inside)]
"""A path in a repository; in a pattern, `*` stands for anything within one step."""


class PinnedFile(Pack):
    """A file of a release whose content is known."""

    path: RepositoryPath
    size: int = Field(ge=0)
    """Bytes."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Release(Pack):
    """One published release: a table of `releases.toml`, which explains the fields."""

    name: Slug
    serves: tuple[Slug, ...] = ()
    repository: Text
    commit: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|\d+(\.\d+)+)$")] | None = None
    """The commit, or the version of a package, that the checksums are of; None if it is had on request alone."""
    archive: Text | None = None
    on_request: Text | None = None
    licence: Text
    required: tuple[RepositoryPath, ...]
    take: tuple[RepositoryPath, ...]
    unpinned: tuple[RepositoryPath, ...] = ()
    files: Annotated[tuple[PinnedFile, ...], BeforeValidator(_split_pins)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.commit is None) == (self.on_request is None):
            raise ValueError(f"{self.name}: give commit or on_request, one of them")
        if twice := _repeated([*(pin.path for pin in self.files), *self.unpinned]):
            raise ValueError(f"{self.name}: {twice[0]!r} is listed twice")
        idle = [pattern for pattern in self.required if not any(fits(pin.path, pattern) for pin in self.files)]
        if idle and self.files:
            raise ValueError(f"{self.name}: required: no pinned file fits {idle[0]!r}")
        return self

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
    def known_names(self) -> frozenset[str]:
        """The names, without folders, of all files that are known."""
        return frozenset(_name(path) for path in (*self.pins, *self.unpinned))

    def takes(self, path: str) -> bool:
        """Whether a file that stands there is taken along."""
        is_known = path in self.pins or path in self.unpinned
        return is_known or ("\\" not in path and any(fits(path, pattern) for pattern in self.take))


class ReleaseCatalogue(Pack):
    """The whole of releases.toml."""

    archive: Text
    """Where the archive of a commit is, with `{repository}` and `{commit}` in it; a release may say otherwise."""
    release: tuple[Release, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if twice := _repeated([benchmark for release in self.release for benchmark in release.benchmarks]):
            raise ValueError(f"benchmark {twice[0]!r} is served twice")
        return self

    def find(self, benchmark: str) -> Release:
        """The release that a benchmark is read from, hyphens in its name taken for underscores.

        Raises:
            UnknownNameError: where there is none; it offers the nearest names.
        """
        served = {name: release for release in self.release for name in release.benchmarks}
        written = benchmark.replace("-", "_")
        if written not in served:
            raise UnknownNameError("published benchmark", benchmark, served)
        return served[written]

    def archive_url(self, release: Release) -> str:
        """Where the archive of the release's commit is.

        Raises:
            UsageError: where the release is had on request alone.
        """
        if release.commit is None:
            raise UsageError(
                f"{release.name}: no download: {release.on_request} ({release.repository}); "
                f"then: mbbq-gen data download {release.name} --from FOLDER_OR_ARCHIVE"
            )
        return (release.archive or self.archive).format(repository=release.repository, commit=release.commit)


def _repeated(names: list[str]) -> list[str]:
    """The names that stand twice, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def fits(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern, step by step."""
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatchcase, steps, wanted))


@cache
def shipped_catalogue() -> ReleaseCatalogue:
    """The releases that we know."""
    text = files("mbbq_gen.benchmarks").joinpath(_TABLE).read_text(encoding="utf-8")
    return validate_pack(ReleaseCatalogue, tomllib.loads(text), Path(_TABLE))


class MatchedFile(NamedTuple):
    """A file of somebody's copy of a release that is taken, and what it is."""

    path: str
    """Its path in the release."""
    place: str
    """Its path in the copy, with `/` between its steps."""
    pin: PinnedFile | None
    """What it must be, or None where that is not known."""


def read_folder(folder: Path) -> dict[str, Path]:
    """The files of a folder by their paths in it; folders whose names begin with a dot (`.git`) are passed over.

    Raises:
        UsageError: where it holds more files than a release can have.
        OSError: where it can't be read.
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


def _rests(path: str) -> Iterator[tuple[str, str]]:
    """A path from each of its steps on, with the folder before, which ends in `/` or is empty."""
    steps = path.split("/")
    for start in range(len(steps)):
        yield "/".join(steps[start:]), "".join(f"{step}/" for step in steps[:start])


def is_wanted(path: str, release: Release) -> bool:
    """Whether a file of an archive can be one of the release: by its path from some step on, or by its name."""
    return _name(path) in release.known_names or any(release.takes(rest) for rest, _ in _rests(path))


def collect(files: Mapping[str, Path], release: Release, label: str) -> list[MatchedFile]:
    """The files of a copy that belong to a release, in the order of their paths.

    A pinned file is what stands at its place, else the file of that name and content; or the sole file of its name,
    which is another one, as is found out, and said, when it is checked. Of files that are not pinned nothing is known
    but their path; where no path is as released, a name that is unique does.

    Args:
        files: path in the copy → where the file can be read.
        label: the copy as the user knows it, for messages.

    Raises:
        DownloadError: where a required file is missing.
    """
    pinned, takes = Counter[str](), Counter[str]()
    for path in files:
        for rest, before in _rests(path):
            pinned[before] += rest in release.pins
            takes[before] += rest not in release.pins and release.takes(rest)
    # The folder from which on most paths are those of the release: pinned ones first.
    root = min({"", *pinned}, key=lambda folder: (-pinned[folder], -takes[folder], folder.count("/"), folder))
    by_name = defaultdict[str, list[str]](list)
    for place in files:
        by_name[_name(place)].append(place)
    names = Counter(_name(path) for path in release.pins)
    places: dict[str, str] = {}
    for pin in release.files:
        named = [root + pin.path] if root + pin.path in files else by_name[_name(pin.path)]
        same = (place for place in named if place == root + pin.path or _is_pinned(files[place], pin))
        is_sole = len(named) == 1 and names[_name(pin.path)] == 1 and "/" in pin.path
        if (at := next(same, named[0] if is_sole else None)) is not None:
            places[pin.path] = at
    other: dict[str, str] = {}
    if not any(root + path in files for path in release.pins):
        other = {path: by_name[_name(path)][0] for path in release.unpinned if len(by_name[_name(path)]) == 1}
    for place in files:
        path = place.removeprefix(root)
        if place.startswith(root) and path not in release.pins and release.takes(path):
            other[path] = place
    used = {*places.values()}
    places |= {path: place for path, place in other.items() if place not in used}
    missing = [path for path in release.pins if path not in places and any(fits(path, one) for one in release.required)]
    missing += [pattern for pattern in release.required if not any(fits(path, pattern) for path in (*places, *missing))]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        raise DownloadError(f"{label}: lacks {shown} of {release.name}; give a whole copy with --from")
    return [MatchedFile(path, place, release.pins.get(path)) for path, place in sorted(places.items())]


def _is_pinned(path: Path, pin: PinnedFile) -> bool:
    """Whether a file has the pinned content."""
    return path.stat().st_size == pin.size and file_digest(path) == pin.sha256


def _name(path: str) -> str:
    """The last step of a path."""
    return path.rpartition("/")[2]
