"""The published releases: where each is had, and what its files must be.

    releases.toml ─► Release ─► download ─► unpack ─► collect ─► pull: verified, and put in its place

What is known stands in `mbbq_gen/datasets/releases.toml`; `mbbq_gen.datasets.pull` does the work with the parts here:
`download` fetches an archive and goes on where it was cut off, `archives` takes files out of archives that may be
hostile, `collecting` tells which file of a copy is which file of the release.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.languages import Pack, Slug, Text, validate_pack

_TABLE = "releases.toml"
_PIN = re.compile(r"\s*(?P<size>\d+) (?P<sha256>[0-9a-f]{64}) (?P<path>\S.*)")


def is_inside(path: str) -> bool:
    """Whether a path, with `/` between its steps, stays inside the folder that it is taken from."""
    steps = path.replace("\\", "/").split("/")
    return steps[0] != "" and re.match(r"[A-Za-z]:(/|$)", path.replace("\\", "/")) is None and ".." not in steps


def _check_inside(path: str) -> str:
    if not is_inside(path) or "\\" in path:
        raise ValueError("must be a path inside the repository, with / between its steps")
    return path


def _split_pins(lines: Any) -> Any:
    """The pinned files of a table of lines `bytes sha256 path`; what is no text is left to the schema."""
    if not isinstance(lines, str):
        return lines
    pins = []
    for line in filter(str.strip, lines.splitlines()):
        found = _PIN.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} is not: bytes, sha256, path")
        pins.append(found.groupdict())
    return pins


RepositoryPath = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_inside)]
"""A path in a repository."""
Pattern = RepositoryPath
"""A path in which `*` stands for anything within one step."""


class PinnedFile(Pack):
    """A file of a release whose content is known."""

    path: RepositoryPath
    size: int = Field(ge=0)
    """Bytes."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Release(Pack):
    """One published release."""

    name: Slug
    """The folder that it gets."""
    serves: tuple[Slug, ...] = ()
    """The benchmarks that are read from it; none named: the one that has its name."""
    repository: Text
    """Where it is published."""
    commit: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|\d+(\.\d+)+)$")] | None = None
    """The commit, or the version of a package, that the checksums are of; None if it is had on request alone."""
    archive: Text | None = None
    """Where its archive is, or None: where the archives of all others are."""
    on_request: Text | None = None
    """Why there is no download, or None."""
    licence: Text
    """As its authors state it."""
    required: tuple[Pattern, ...]
    """A pinned file that fits one of these must be in every copy, and each must be met by some file."""
    take: tuple[Pattern, ...]
    """Other files that fit one of these are taken along."""
    unpinned: tuple[RepositoryPath, ...] = ()
    """Files of the release whose names are known and whose checksums are not."""
    files: Annotated[tuple[PinnedFile, ...], BeforeValidator(_split_pins)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.commit is None) == (self.on_request is None):
            raise ValueError(f"{self.name}: give commit or on_request, one of them")
        paths = [pin.path for pin in self.files] + list(self.unpinned)
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice:
            raise ValueError(f"{self.name}: {twice[0]!r} stands twice")
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
        return frozenset(path.rpartition("/")[2] for path in (*self.pins, *self.unpinned))

    def requires(self, path: str) -> bool:
        """Whether a copy without this pinned file is refused."""
        return any(fits(path, pattern) for pattern in self.required)

    def takes(self, path: str) -> bool:
        """Whether a file that stands there is taken along."""
        if path in self.pins or path in self.unpinned:
            return True
        return "\\" not in path and any(fits(path, pattern) for pattern in self.take)


class Catalogue(Pack):
    """The whole of releases.toml."""

    archive: Text
    """Where the archive of a commit is, with `{repository}` and `{commit}` in it; a release may say otherwise."""
    release: tuple[Release, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        served = [benchmark for release in self.release for benchmark in release.benchmarks]
        twice = sorted({benchmark for benchmark in served if served.count(benchmark) > 1})
        if twice:
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
                f"then: mbbq-gen data pull {release.name} --from FOLDER_OR_ARCHIVE"
            )
        return (release.archive or self.archive).format(repository=release.repository, commit=release.commit)


def fits(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern, step by step."""
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatchcase, steps, wanted))


@cache
def shipped_catalogue() -> Catalogue:
    """The releases that we know."""
    text = files("mbbq_gen.datasets").joinpath(_TABLE).read_text(encoding="utf-8")
    return validate_pack(Catalogue, tomllib.loads(text), Path(_TABLE))
