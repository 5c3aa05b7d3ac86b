"""Installs a published release: downloads or copies it, verifies it, and then moves it into place.

    DATA/mbbq/adaa40172cdc/             the files as they stand in the repository
    DATA/mbbq/adaa40172cdc/install.json    what was put there, from where, with every checksum
    DATA/mbbq/adaa40172cdc.part         a download that is not whole yet (and .part.json: where it comes from)
    DATA/mbbq/adaa40172cdc.new/         files that are being verified; gone when the command ends
    DATA/mbbq/adaa40172cdc.lock         held by the one process that may write

A file with a checksum in `releases.toml` must match it. Other files of the release are installed too and reported as
`not pinned`; for them, later checks only find changes since the installation.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from mbbq_gen.benchmarks.archives import ArchiveLimits, Unpacking, unpack
from mbbq_gen.benchmarks.release_catalogue import (
    MatchedFile,
    PinnedFile,
    Release,
    ReleaseCatalogue,
    RepositoryPath,
    SourceTree,
    collect,
    is_wanted,
    read_folder,
    shipped_catalogue,
)
from mbbq_gen.core.errors import DownloadError, UnknownNameError, UsageError
from mbbq_gen.core.files import cache_directory, file_digest
from mbbq_gen.core.records import FrozenModel

if TYPE_CHECKING:
    import httpx

Outcome = Literal["installed", "already_there"]
Stage = Literal["downloading", "unpacking"]
Progress = Callable[[Stage, int, int | None], None]
"""Called with the stage, the bytes done, which may go back to 0, and the total (None: not known)."""

DATA_VARIABLE: Final = "MBBQ_GEN_DATA"
RECORD_NAME: Final = "install.json"
_LARGEST_ARCHIVE: Final = 1 << 32
"""Bytes, packed."""


class InstalledFile(FrozenModel):
    """A file that was put in its place."""

    path: RepositoryPath
    """In the release, with `/` between its steps."""
    size: int
    """Bytes."""
    sha256: str
    pinned: bool
    """Whether this content is known to be the release's; False: it is what the source held."""


class InstallRecord(FrozenModel):
    """What stands in the folder of a release; `install.json` holds it."""

    release: str
    repository: str
    commit: str | None
    """The commit that the release is pinned to; None for one that is had on request."""
    licence: str
    source: str
    """Where the files were taken from: an address, a folder or an archive."""
    files: tuple[InstalledFile, ...]


class InstallResult(FrozenModel):
    """The result of `install_release`."""

    benchmark: str
    outcome: Outcome
    folder: str
    """Where the release is: what `--data-dir` takes."""
    record: InstallRecord
    missing: tuple[str, ...]
    """Files of the release that the source did not have; none that is required."""
    damaged: tuple[str, ...] = ()
    """Files of an earlier installation that were changed or missing, and were replaced."""


@dataclass(frozen=True)
class InstallTools:
    """The parts that `install_release` works with; tests pass their own."""

    catalogue: ReleaseCatalogue = field(default_factory=shipped_catalogue)
    client: httpx.Client | None = None
    """None: one of its own."""
    limits: ArchiveLimits = field(default_factory=ArchiveLimits)
    sleep: Callable[[float], None] = time.sleep
    progress: Progress = lambda _stage, _done, _total: None


def data_root() -> Path:
    """The folder of all releases: MBBQ_GEN_DATA if it is set, else `benchmarks` in the cache directory."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else cache_directory() / "benchmarks"


def installed_folder(
    benchmark: str, root: Path | None = None, catalogue: ReleaseCatalogue | None = None
) -> Path | None:
    """The folder that holds a benchmark's release, or None where it is not installed.

    Only the presence of `install.json` is checked.
    """
    try:
        release = (catalogue or shipped_catalogue()).find(benchmark)
    except UnknownNameError:
        return None
    folder = _place(release, root)
    return folder if (folder / RECORD_NAME).is_file() else None


def benchmark_folder(benchmark: str, data: Path | None = None) -> Path | None:
    """The folder of a benchmark's files: the one that was given, else the installed release.

    None for a benchmark that ships with us, and where there is none.

    Raises:
        UnknownNameError: for a name that no benchmark has.
    """
    from mbbq_gen.benchmarks.registry import find_benchmark

    return data if data is not None or not find_benchmark(benchmark).needs_data else installed_folder(benchmark)


def install_release(
    benchmark: str, source: str | None = None, root: Path | None = None, tools: InstallTools | None = None
) -> InstallResult:
    """Makes sure that the release of a benchmark is on this machine, verified.

    Where it is already, nothing is done, unless files of it are missing that another source may have: they are added.

    Args:
        source: an http(s) address of an archive, a folder, or an archive; None for the release's own address.

    Raises:
        UnknownNameError: for a name that no published benchmark has.
        UsageError: where the source or the place is invalid.
        DownloadError: where the release can't be had or put there, or is not what it should be. Nothing is left in
            place then; a download that was cut off is kept, an archive that is wrong is removed.
    """
    tools = tools or InstallTools()
    release = tools.catalogue.find(benchmark)
    if source is not None:
        _check_origin(source)
    if root is not None and root.exists() and not root.is_dir():
        raise UsageError(f"--to {root}: not a folder")
    folder = _place(release, root)
    damaged: list[str] = []
    outcome: Outcome = "already_there"
    with _one_line_errors(folder):
        record = _read_record(folder)
        if record is not None:
            damaged = [file.path for file in record.files if not _is_valid(folder, file, release)]
        if record is None or damaged or _missing(release, record):
            origin = source or tools.catalogue.archive_url(release)
            if record is None or damaged or record.source != _shown(origin):
                outcome = "installed"
                folder.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(_beside(folder, ".lock"), timeout=0):
                    record = _install(release, origin, folder, tools)
    return InstallResult(
        benchmark=benchmark,
        outcome=outcome,
        folder=str(folder),
        record=record,
        missing=tuple(_missing(release, record)),
        damaged=tuple(damaged),
    )


# --- what is there ---------------------------------------------------------------------------------------------------


def _place(release: Release, root: Path | None) -> Path:
    """Where the release goes."""
    return (root or data_root()).expanduser() / release.name / release.edition


def _read_record(folder: Path) -> InstallRecord | None:
    """The record of an earlier installation; None where nothing is there.

    Raises:
        UsageError: where something else is there.
    """
    try:
        return InstallRecord.model_validate_json((folder / RECORD_NAME).read_bytes())
    except FileNotFoundError:
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        if folder.exists():
            raise UsageError(
                f"{folder}: holds no {RECORD_NAME}; move it away, or give another folder with --to"
            ) from None
        return None
    except ValidationError as error:
        raise UsageError(f"{folder / RECORD_NAME}: not a valid record; remove {folder} and download again") from error


def _is_valid(folder: Path, file: InstalledFile, release: Release) -> bool:
    """Whether a file is there, unchanged, and still the pinned one."""
    pin = release.pins.get(file.path)
    path = folder / file.path
    return (
        path.is_file()
        and path.stat().st_size == file.size
        and file_digest(path) == file.sha256
        and (pin is None or pin.sha256 == file.sha256)
    )


def _missing(release: Release, record: InstallRecord) -> list[str]:
    """The known files of the release that are not there."""
    there = {file.path for file in record.files}
    return sorted({*release.pins, *release.unpinned} - there)


# --- installation ----------------------------------------------------------------------------------------------------


def _is_address(origin: str) -> bool:
    return origin.startswith(("http://", "https://"))


def _shown(origin: str) -> str:
    """The source as the record keeps it."""
    return origin if _is_address(origin) else str(Path(origin).expanduser().resolve())


def _check_origin(origin: str) -> None:
    """Raises UsageError for a source that is neither an address that we can ask nor there."""
    if _is_address(origin):
        return
    if "://" in origin:
        raise UsageError(f"--from {origin}: give an http:// or https:// address, a folder or an archive")
    if not Path(origin).expanduser().exists():
        raise UsageError(f"--from {origin}: no such file or folder")


def _install(release: Release, origin: str, folder: Path, tools: InstallTools) -> InstallRecord:
    """Gets the files beside their place, verifies them, and puts them there all at once."""
    fresh, old = _beside(folder, ".new"), _beside(folder, ".old")
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    tree, raw = fresh / "tree", fresh / "raw"
    tree.mkdir(parents=True)
    raw.mkdir()
    try:
        with _copy(release, origin, folder, raw, tools) as copy:
            files = [_put(one, tree, copy.label) for one in collect(copy, release)]
        files += _kept_files(folder, tree, release, {file.path for file in files})
        record = InstallRecord(
            release=release.name,
            repository=release.repository,
            commit=release.commit,
            licence=release.licence,
            source=_shown(origin),
            files=tuple(sorted(files, key=lambda file: file.path)),
        )
        (tree / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            folder.rename(old)
        tree.rename(folder)
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
    return record


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


@contextmanager
def _copy(release: Release, origin: str, folder: Path, raw: Path, tools: InstallTools) -> Iterator[SourceTree]:
    """The source's copy of the release; a download that arrived is removed at the end, whether it was right or not."""
    path = Path(origin).expanduser()
    if not _is_address(origin):
        yield read_folder(path) if path.is_dir() else _unpacked(path, str(path), release, raw, tools)
        return
    from mbbq_gen.benchmarks.download import Download, new_client

    client = tools.client or new_client()
    step = partial(tools.progress, "downloading")
    download = Download(origin, _beside(folder, ".part"), client, _LARGEST_ARCHIVE, tools.sleep, step)
    try:
        download.fetch()
    finally:
        if tools.client is None:
            client.close()
    try:
        yield _unpacked(download.part, origin, release, raw, tools)
    except DownloadError:
        download.discard()
        raise
    download.discard()


def _unpacked(archive: Path, label: str, release: Release, raw: Path, tools: InstallTools) -> SourceTree:
    """What an archive holds of the release."""
    step = partial(tools.progress, "unpacking")
    return SourceTree(
        label, unpack(archive, raw, Unpacking(label, lambda path: is_wanted(path, release), tools.limits, step))
    )


def _put(one: MatchedFile, tree: Path, label: str) -> InstalledFile:
    """Puts a file where it belongs and verifies what stands there then.

    Raises:
        DownloadError: where it is not the file that the release has.
    """
    path = tree / one.path
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(one.source, path)
    file = InstalledFile(path=one.path, size=path.stat().st_size, sha256=file_digest(path), pinned=one.pin is not None)
    if one.pin is not None and (file.size, file.sha256) != (one.pin.size, one.pin.sha256):
        contents = f"{_content(file)}, not {_content(one.pin)}"
        raise DownloadError(f"{label}: {one.place} is not the release's ({contents}); get an unchanged copy")
    return file


def _content(file: InstalledFile | PinnedFile) -> str:
    """What a file holds, in short."""
    return f"{file.size:,} bytes, sha256 {file.sha256[:12]}…"


def _kept_files(folder: Path, tree: Path, release: Release, there: set[str]) -> list[InstalledFile]:
    """Valid files of an earlier installation that the new source does not have: they are kept."""
    record = _read_record(folder)
    kept = [file for file in record.files if file.path not in there] if record else []
    kept = [file for file in kept if _is_valid(folder, file, release)]
    for file in kept:
        (tree / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file.path, tree / file.path)
    return kept


@contextmanager
def _one_line_errors(folder: Path) -> Iterator[None]:
    """Turns an OSError into a DownloadError of one line."""
    try:
        yield
    except Timeout as error:
        raise DownloadError(f"{folder}: another process is writing it; wait for it to end") from error
    except OSError as error:
        where = error.filename or folder
        raise DownloadError(f"{where}: {error.strerror or error}") from error
