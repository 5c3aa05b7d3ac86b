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
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from mbbq_gen.benchmarks.archives import ArchiveLimits, unpack
from mbbq_gen.benchmarks.release_catalogue import (
    Release,
    ReleaseCatalogue,
    RepositoryPath,
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


def installed_folder(
    benchmark: str, root: Path | None = None, catalogue: ReleaseCatalogue | None = None
) -> Path | None:
    """The folder that holds a benchmark's release, or None where it is not installed.

    Only the presence of `install.json` is checked.
    """
    try:
        folder = _place((catalogue or shipped_catalogue()).find(benchmark), root)
    except UnknownNameError:
        return None
    return folder if (folder / RECORD_NAME).is_file() else None


def _place(release: Release, root: Path | None) -> Path:
    """Where a release goes: below `root`, else MBBQ_GEN_DATA if it is set, else `benchmarks` in the cache directory."""
    named = root or os.environ.get(DATA_VARIABLE) or cache_directory() / "benchmarks"
    return Path(named).expanduser() / release.name / release.edition


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
    if source is not None and not _is_address(source):
        if "://" in source:
            raise UsageError(f"--from {source}: give an http:// or https:// address, a folder or an archive")
        if not Path(source).expanduser().exists():
            raise UsageError(f"--from {source}: no such file or folder")
    if root is not None and root.exists() and not root.is_dir():
        raise UsageError(f"--to {root}: not a folder")
    folder = _place(release, root)
    damaged: list[str] = []
    outcome: Outcome = "already_there"
    try:
        record = _read_record(folder)
        if record is not None:
            damaged = [file.path for file in record.files if not _is_valid(folder, file, release)]
        if record is None or damaged or _missing(release, record):
            origin = source or tools.catalogue.archive_url(release)
            shown = origin if _is_address(origin) else str(Path(origin).expanduser().resolve())
            if record is None or damaged or record.source != shown:
                outcome = "installed"
                folder.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(_beside(folder, ".lock"), timeout=0):
                    record = _install(release, origin, shown, folder, tools)
    except Timeout as error:
        raise DownloadError(f"{folder}: another process is writing it; wait for it to end") from error
    except OSError as error:
        raise DownloadError(f"{error.filename or folder}: {error.strerror or error}") from error
    return InstallResult(
        benchmark=benchmark,
        outcome=outcome,
        folder=str(folder),
        record=record,
        missing=tuple(_missing(release, record)),
        damaged=tuple(damaged),
    )


def _read_record(folder: Path) -> InstallRecord | None:
    """The record of an earlier installation, None where nothing is there; raises UsageError for anything else."""
    try:
        return InstallRecord.model_validate_json((folder / RECORD_NAME).read_bytes())
    except FileNotFoundError:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            where = f"{folder}: holds no {RECORD_NAME}"
            raise UsageError(f"{where}; move it away, or give another folder with --to") from None
        return None
    except ValidationError as error:
        raise UsageError(f"{folder / RECORD_NAME}: not a valid record; remove {folder} and download again") from error


def _is_valid(folder: Path, file: InstalledFile, release: Release) -> bool:
    """Whether a file is there, unchanged, and still the pinned one."""
    pin, path = release.pins.get(file.path), folder / file.path
    is_unchanged = path.is_file() and path.stat().st_size == file.size and file_digest(path) == file.sha256
    return is_unchanged and (pin is None or pin.sha256 == file.sha256)


def _missing(release: Release, record: InstallRecord) -> list[str]:
    """The known files of the release that are not there."""
    return sorted({*release.pins, *release.unpinned} - {file.path for file in record.files})


def _is_address(origin: str) -> bool:
    return origin.startswith(("http://", "https://"))


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


def _install(release: Release, origin: str, shown: str, folder: Path, tools: InstallTools) -> InstallRecord:
    """Gets the files beside their place, verifies them, and puts them there all at once."""
    fresh, old = _beside(folder, ".new"), _beside(folder, ".old")
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    tree = fresh / "tree"
    for made in (tree, fresh / "raw"):
        made.mkdir(parents=True)
    try:
        files = _verified_files(release, origin, folder, fresh, tools)
        # Valid files of an earlier installation that the new source does not have are kept.
        before = _read_record(folder)
        there = {file.path for file in files}
        for file in before.files if before else ():
            if file.path not in there and _is_valid(folder, file, release):
                _put(folder / file.path, tree / file.path)
                files.append(file)
        record = InstallRecord(
            release=release.name,
            repository=release.repository,
            commit=release.commit,
            licence=release.licence,
            source=shown,
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


def _verified_files(
    release: Release, origin: str, folder: Path, fresh: Path, tools: InstallTools
) -> list[InstalledFile]:
    """Gets the files of the source's copy and puts those of the release into `fresh/tree`, each verified.

    A download that arrived is removed then, right or not.
    """
    path, files, tree = Path(origin).expanduser(), list[InstalledFile](), fresh / "tree"
    arrived: list[Callable[[], None]] = []
    """What removes a download."""
    if _is_address(origin):
        from mbbq_gen.benchmarks.download import Download, new_client

        client, path = tools.client or new_client(), _beside(folder, ".part")
        received = partial(tools.progress, "downloading")
        download = Download(origin, path, client, _LARGEST_ARCHIVE, tools.sleep, received)
        arrived.append(download.discard)
        try:
            download.fetch()
        finally:
            if tools.client is None:
                client.close()
    wanted, step = partial(is_wanted, release=release), partial(tools.progress, "unpacking")
    try:
        if path.is_dir():
            copy = read_folder(path)
        else:
            copy = unpack(path, fresh / "raw", origin, wanted, limits=tools.limits, step=step)
        for name, place, pin in collect(copy, release, origin):
            _put(copy[place], tree / name)
            size, digest = (tree / name).stat().st_size, file_digest(tree / name)
            if pin is not None and (size, digest) != (pin.size, pin.sha256):
                has, wants = (f"{n:,} bytes, sha256 {of[:12]}…" for n, of in ((size, digest), (pin.size, pin.sha256)))
                raise DownloadError(
                    f"{origin}: {place} is not the release's ({has}, not {wants}); get an unchanged copy"
                )
            files.append(InstalledFile(path=name, size=size, sha256=digest, pinned=pin is not None))
    except DownloadError:
        for discard in arrived:
            discard()
        raise
    for discard in arrived:
        discard()
    return files


def _put(source: Path, place: Path) -> None:
    """Copies a file to its place in a folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)
