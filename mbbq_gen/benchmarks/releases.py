"""The catalogue of published releases, and their installation.

`releases.toml` has the address of each release and the checksums of its files. `install_release` downloads or copies a
release, verifies it, and then moves it into place.

    DATA/mbbq/adaa40172cdc/                the files, with the paths that they have in the repository
    DATA/mbbq/adaa40172cdc/install.json    installed files, their source and their checksums
    DATA/mbbq/adaa40172cdc.new/            files before they are verified; removed at the end of the command
    DATA/mbbq/adaa40172cdc.lock            lock of the process that writes

A file with a checksum in `releases.toml` must match it. Other files of the release are installed too and reported as
`not pinned`; for them, later checks only find changes since the installation.
"""

from __future__ import annotations

import os
import shutil
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from filelock import FileLock, Timeout
from pydantic import BeforeValidator, Field, ValidationError

from mbbq_gen.core.errors import DownloadError, UnknownNameError, UsageError
from mbbq_gen.core.files import cache_directory, file_digest
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.languages.packs import Pack, Slug, Text, validate_pack

if TYPE_CHECKING:
    import httpx

    from mbbq_gen.benchmarks.download import ArchiveLimits


_TABLE = "releases.toml"
_MAX_FILES: Final = 100_000
_SHOWN: Final = 3
Outcome = Literal["installed", "already_there"]
Stage = Literal["downloading", "unpacking"]
Progress = Callable[[Stage, int, int | None], None]
"""Called with the stage, the bytes done (may restart at 0) and the total (None: unknown)."""
DATA_VARIABLE: Final = "MBBQ_GEN_DATA"
RECORD_NAME: Final = "install.json"
_MAX_ARCHIVE: Final = 1 << 32


def _split_pins(lines: str) -> list[dict[str, str]]:
    """Parses the pinned files: lines of `bytes sha256 path`."""
    return [dict(zip(("size", "sha256", "path"), line.split(maxsplit=2), strict=True)) for line in lines.splitlines()]


class PinnedFile(Pack):
    """A file of a release, with its checksum."""

    path: Text
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Release(Pack):
    """One published release: a table of `releases.toml`, which explains the fields."""

    name: Slug
    serves: tuple[Slug, ...] = ()
    repository: Text
    commit: str | None = None
    """The commit or package version of the checksums; None for a release that is only sent on request."""
    archive: Text | None = None
    on_request: Text | None = None
    licence: Text
    required: tuple[Text, ...]
    take: tuple[Text, ...]
    unpinned: tuple[Text, ...] = ()
    files: Annotated[tuple[PinnedFile, ...], BeforeValidator(_split_pins)] = ()

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks whose files are in this release."""
        return self.serves or (self.name,)

    @property
    def edition(self) -> str:
        """The folder name: the short commit, or `on-request`."""
        return self.commit[:12] if self.commit else "on-request"

    @cached_property
    def pins(self) -> dict[str, PinnedFile]:
        """The pinned files by their path."""
        return {pin.path: pin for pin in self.files}

    def includes(self, path: str) -> bool:
        """Whether a file at this path is installed."""
        is_known = path in self.pins or path in self.unpinned
        return is_known or ("\\" not in path and any(matches(path, pattern) for pattern in self.take))

    def may_include(self, path: str) -> bool:
        """Whether a file of an archive may belong to the release, by the end of its path."""
        return any(self.includes(path[len(folder) :]) for folder in _parent_folders(path))


class ReleaseCatalogue(Pack):
    """The content of releases.toml."""

    archive: Text
    """URL of a commit's archive, with `{repository}` and `{commit}`; a release may have its own."""
    release: tuple[Release, ...]

    def find(self, benchmark: str) -> Release:
        """The release of a benchmark; raises UnknownNameError if there is none."""
        releases = {name: release for release in self.release for name in release.benchmarks}
        name = benchmark.replace("-", "_")
        if name not in releases:
            raise UnknownNameError("published benchmark", benchmark, releases)
        return releases[name]

    def archive_url(self, release: Release) -> str:
        """URL of the release's archive; raises UsageError for a release that is only sent on request."""
        if release.commit is None:
            raise UsageError(
                f"{release.name}: no download: {release.on_request} ({release.repository}); "
                f"then: mbbq-gen data download {release.name} --from FOLDER_OR_ARCHIVE"
            )
        return (release.archive or self.archive).format(repository=release.repository, commit=release.commit)


def matches(path: str, pattern: str) -> bool:
    """Whether a path matches a glob pattern; `*` does not match `/`."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


@cache
def shipped_catalogue() -> ReleaseCatalogue:
    """The releases of `releases.toml`."""
    text = files("mbbq_gen.benchmarks").joinpath(_TABLE).read_text(encoding="utf-8")
    return validate_pack(ReleaseCatalogue, tomllib.loads(text), Path(_TABLE))


def read_folder(folder: Path) -> dict[str, Path]:
    """The files of a folder by relative path, without hidden folders such as `.git`.

    Raises UsageError if there are more files than any release has.
    """
    found: dict[str, Path] = {}
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(root) / name for name in sorted(names))
        found |= {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
        if len(found) > _MAX_FILES:
            raise UsageError(f"{folder}: more than {_MAX_FILES:,} files; give the folder of the release itself")
    return found


def collect(files: Mapping[str, Path], release: Release, label: str) -> dict[str, str]:
    """The files of a copy that belong to a release: path in the release → path in the copy.

    The root of the release is the folder below which most paths match it.

    Args:
        files: path in the copy → readable file.
        label: name of the copy in messages.

    Raises:
        DownloadError: if a required file is missing.
    """
    counts = Counter[str]()
    for source in files:
        for folder in _parent_folders(source):
            counts[folder] += release.includes(source[len(folder) :])
    root = min({"", *counts}, key=lambda folder: (-counts[folder], folder.count("/"), folder))
    inside = {source[len(root) :]: source for source in files if source.startswith(root)}
    found = {path: source for path, source in inside.items() if release.includes(path)}
    required = release.required
    missing = [path for path in release.pins if path not in found and any(matches(path, each) for each in required)]
    missing += [each for each in required if not any(matches(path, each) for path in (*found, *release.pins))]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        raise DownloadError(f"{label}: lacks {shown} of {release.name}; give a whole copy with --from")
    return dict(sorted(found.items()))


def _parent_folders(path: str) -> Iterator[str]:
    """The parent folders of a path, outermost first: `""`, `a/`, `a/b/` for `a/b/c`."""
    parts = path.split("/")
    return ("".join(f"{part}/" for part in parts[:count]) for count in range(len(parts)))


class InstalledFile(FrozenModel):
    """An installed file."""

    path: str
    size: int
    sha256: str
    pinned: bool
    """Whether its checksum is in `releases.toml`; False: its content was not verified."""


class InstallRecord(FrozenModel):
    """The content of a release's folder, as stored in `install.json`."""

    release: str
    repository: str
    commit: str | None
    """The pinned commit; None for a release that is sent on request."""
    licence: str
    source: str
    files: tuple[InstalledFile, ...]


class InstallResult(FrozenModel):
    """The result of `install_release`."""

    benchmark: str
    outcome: Outcome
    folder: str
    """Folder of the release, for `--data-dir`."""
    record: InstallRecord
    missing: tuple[str, ...]
    """Optional files of the release that are not in the source."""
    damaged: tuple[str, ...] = ()
    """Files of an earlier installation that were changed or missing, and were replaced."""


@dataclass(frozen=True)
class InstallTools:
    """Dependencies of `install_release`; tests pass their own."""

    catalogue: ReleaseCatalogue = field(default_factory=shipped_catalogue)
    client: httpx.Client | None = None
    limits: ArchiveLimits | None = None
    sleep: Callable[[float], None] = time.sleep
    progress: Progress = lambda _stage, _done, _total: None


def installed_folder(
    benchmark: str, root: Path | None = None, catalogue: ReleaseCatalogue | None = None
) -> Path | None:
    """The folder of a benchmark's installed release; None if it is not installed."""
    try:
        folder = _release_folder((catalogue or shipped_catalogue()).find(benchmark), root)
    except UnknownNameError:
        return None
    return folder if (folder / RECORD_NAME).is_file() else None


def _release_folder(release: Release, root: Path | None) -> Path:
    """A release's folder below `root`, or MBBQ_GEN_DATA if set, or `benchmarks` in the cache directory."""
    base = root or os.environ.get(DATA_VARIABLE) or cache_directory() / "benchmarks"
    return Path(base).expanduser() / release.name / release.edition


def benchmark_folder(benchmark: str, data: Path | None = None) -> Path | None:
    """The folder of a benchmark's files: `data` if given, else the installed release; None without either."""
    from mbbq_gen.benchmarks.registry import find_benchmark

    return data if data is not None or not find_benchmark(benchmark).needs_data else installed_folder(benchmark)


def install_release(
    benchmark: str, source: str | None = None, root: Path | None = None, tools: InstallTools | None = None
) -> InstallResult:
    """Installs the verified release of a benchmark, unless it is installed already and unchanged.

    Args:
        source: an http(s) URL of an archive, a folder, or an archive; None for the release's own URL.

    Raises:
        UsageError: if the name, the source or the destination is invalid.
        DownloadError: if the release can't be downloaded or does not match its checksums. Nothing is installed then.
    """
    tools = tools or InstallTools()
    release = tools.catalogue.find(benchmark)
    if source is not None and not _is_url(source):
        if "://" in source:
            raise UsageError(f"--from {source}: give an http:// or https:// address, a folder or an archive")
        if not Path(source).expanduser().exists():
            raise UsageError(f"--from {source}: no such file or folder")
    if root is not None and root.exists() and not root.is_dir():
        raise UsageError(f"--to {root}: not a folder")
    folder = _release_folder(release, root)
    damaged: list[str] = []
    outcome: Outcome = "already_there"
    try:
        record = _read_record(folder)
        if record is not None:
            damaged = [file.path for file in record.files if not _is_unchanged(folder / file.path, file)]
        if record is None or damaged:
            outcome, origin = "installed", source or tools.catalogue.archive_url(release)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(_beside(folder, ".lock"), timeout=0):
                record = _install(release, origin, folder, tools)
    except Timeout as error:
        raise DownloadError(f"{folder}: another process is writing it; wait for it to end") from error
    except OSError as error:
        raise DownloadError(f"{error.filename or folder}: {error.strerror or error}") from error
    return InstallResult(
        benchmark=benchmark,
        outcome=outcome,
        folder=str(folder),
        record=record,
        missing=tuple(sorted({*release.pins, *release.unpinned} - {file.path for file in record.files})),
        damaged=tuple(damaged),
    )


def _read_record(folder: Path) -> InstallRecord | None:
    """The record of an earlier installation, None for a new or empty folder; raises UsageError for anything else."""
    try:
        return InstallRecord.model_validate_json((folder / RECORD_NAME).read_bytes())
    except FileNotFoundError:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            where = f"{folder}: holds no {RECORD_NAME}"
            raise UsageError(f"{where}; move it away, or give another folder with --to") from None
        return None
    except ValidationError as error:
        raise UsageError(f"{folder / RECORD_NAME}: not a valid record; remove {folder} and download again") from error


def _is_unchanged(path: Path, file: InstalledFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and file_digest(path) == file.sha256


def _is_url(origin: str) -> bool:
    return origin.startswith(("http://", "https://"))


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


def _install(release: Release, origin: str, folder: Path, tools: InstallTools) -> InstallRecord:
    """Collects and verifies the files in a temporary folder, then renames it."""
    fresh, old = _beside(folder, ".new"), _beside(folder, ".old")
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    tree = fresh / "tree"
    tree.mkdir(parents=True)
    try:
        copy = _copy_of(release, origin, fresh, tools)
        files = [
            _put(copy[path], tree / name, name, f"{origin}: {path}", release)
            for name, path in collect(copy, release, origin).items()
        ]
        record = InstallRecord(
            release=release.name,
            repository=release.repository,
            commit=release.commit,
            licence=release.licence,
            source=origin if _is_url(origin) else str(Path(origin).expanduser().resolve()),
            files=tuple(files),
        )
        (tree / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            folder.rename(old)
        tree.rename(folder)
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return record


def _copy_of(release: Release, origin: str, folder: Path, tools: InstallTools) -> Mapping[str, Path]:
    """The files of a source by relative path; an archive is downloaded and unpacked into a folder."""
    import httpx

    from mbbq_gen.benchmarks.download import download, unpack

    archive, raw = Path(origin).expanduser(), folder / "raw"
    if not _is_url(origin) and archive.is_dir():
        return read_folder(archive)
    raw.mkdir()
    if _is_url(origin):
        archive, received = folder / "archive", partial(tools.progress, "downloading")
        with httpx.Client(follow_redirects=True, timeout=httpx.Timeout(30.0, connect=15.0)) as own:
            download(origin, archive, tools.client or own, _MAX_ARCHIVE, sleep=tools.sleep, step=received)
    step = partial(tools.progress, "unpacking")
    return unpack(archive, raw, origin, release.may_include, limits=tools.limits, step=step)


def _put(source: Path, target: Path, name: str, shown: str, release: Release) -> InstalledFile:
    """Copies a file and verifies it; `shown` names the source in the error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    pin, size, digest = release.pins.get(name), target.stat().st_size, file_digest(target)
    if pin is not None and (size, digest) != (pin.size, pin.sha256):
        found, expected = (f"{n:,} bytes, sha256 {of[:12]}…" for n, of in ((size, digest), (pin.size, pin.sha256)))
        raise DownloadError(f"{shown} is not the release's ({found}, not {expected}); get an unchanged copy")
    return InstalledFile(path=name, size=size, sha256=digest, pinned=pin is not None)
