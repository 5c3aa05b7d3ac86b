"""Gets a published release onto this machine: downloaded or copied, verified, and only then put in its place.

    DATA/mbbq/adaa40172cdc/             the files as they stand in the repository
    DATA/mbbq/adaa40172cdc/pull.json    what was put there, from where, with every checksum
    DATA/mbbq/adaa40172cdc.part         a download that is not whole yet (and .part.json: where it comes from)
    DATA/mbbq/adaa40172cdc.new/         files that are being verified; gone when the command ends
    DATA/mbbq/adaa40172cdc.lock         held by the one process that may write

A file whose checksum we know (`releases.toml`) must have it. Files of the release that we have no checksum of are
taken along and said to be `not pinned`: their content is the source's word alone. What is verified later is, for them,
that they have not changed since.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from mbbq_gen.datasets.releases import Catalogue, PinnedFile, Release, RepositoryPath, shipped_catalogue
from mbbq_gen.datasets.releases.archives import Limits, Unpacking, unpack
from mbbq_gen.datasets.releases.collecting import Collected, Copy, collect, is_wanted, read_folder
from mbbq_gen.errors import DownloadError, UnknownNameError, UsageError
from mbbq_gen.records import Record
from mbbq_gen.resources import cache_directory, file_digest

if TYPE_CHECKING:
    import httpx

Outcome = Literal["installed", "already_there"]
Stage = Literal["downloading", "unpacking"]
Progress = Callable[[Stage, int, int | None], None]
"""Told how many bytes of a stage are done, and how many there are (None: not known). They may go back to 0."""

DATA_VARIABLE: Final = "MBBQ_GEN_DATA"
RECORD_NAME: Final = "pull.json"
_LARGEST_ARCHIVE: Final = 1 << 32
"""Bytes, packed."""


class PulledFile(Record):
    """A file that was put in its place."""

    path: RepositoryPath
    """In the release, with `/` between its steps."""
    size: int
    """Bytes."""
    sha256: str
    pinned: bool
    """Whether this content is known to be the release's; False: it is what the source held."""


class PullRecord(Record):
    """What stands in the folder of a release; `pull.json` holds it."""

    release: str
    repository: str
    commit: str | None
    """The commit that the release is pinned to; None for one that is had on request."""
    licence: str
    source: str
    """Where the files were taken from: an address, a folder or an archive."""
    files: tuple[PulledFile, ...]


class Pulled(Record):
    """What a pull did."""

    benchmark: str
    outcome: Outcome
    folder: str
    """Where the release is: what `--data` takes."""
    record: PullRecord
    missing: tuple[str, ...]
    """Files of the release that the source did not have; none that is required."""
    damaged: tuple[str, ...] = ()
    """Files of an earlier pull that had changed or vanished since, and were replaced."""


@dataclass(frozen=True)
class Tools:
    """What a pull works with; tests pass their own."""

    catalogue: Catalogue = field(default_factory=shipped_catalogue)
    client: httpx.Client | None = None
    """None: one of its own."""
    limits: Limits = field(default_factory=Limits)
    sleep: Callable[[float], None] = time.sleep
    progress: Progress = lambda _stage, _done, _total: None


def data_root() -> Path:
    """The folder of all releases: MBBQ_GEN_DATA if it is set, else `benchmarks` in the cache directory."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named).expanduser() if named else cache_directory() / "benchmarks"


def installed_folder(benchmark: str, root: Path | None = None, catalogue: Catalogue | None = None) -> Path | None:
    """The folder that holds a benchmark's release, or None where it was not pulled, or can't be.

    Quick: nothing is verified but that a pull ended there.

    Args:
        benchmark: its name.
        root: the folder of all releases; None for `data_root()`.
        catalogue: the releases; None for those that we know.
    """
    try:
        release = (catalogue or shipped_catalogue()).find(benchmark)
    except UnknownNameError:
        return None
    folder = _place(release, root)
    return folder if (folder / RECORD_NAME).is_file() else None


def benchmark_folder(benchmark: str, data: Path | None = None) -> Path | None:
    """The folder of a benchmark's files: the one that was given, else the release that was pulled onto this machine.

    None for a benchmark that ships with us, and where there is none.

    Raises:
        UnknownNameError: for a name that no benchmark has.
    """
    from mbbq_gen.datasets.registry import find_benchmark

    return data if data is not None or not find_benchmark(benchmark).needs_data else installed_folder(benchmark)


def pull(benchmark: str, source: str | None = None, root: Path | None = None, tools: Tools | None = None) -> Pulled:
    """Makes sure that the release of a benchmark is on this machine, verified.

    Where it is already, nothing is done, unless files of it are missing that another source may have: they are added.

    Args:
        benchmark: its name.
        source: an http(s) address of an archive, a folder, or an archive; None for the release's own address.
        root: the folder of all releases; None for `data_root()`.
        tools: what to work with; None for the real thing.

    Raises:
        UnknownNameError: for a name that no published benchmark has.
        UsageError: where the source or the place can't be meant.
        DownloadError: where the release can't be had or put there, or is not what it should be. Nothing is left in
            place then; a download that was cut off is kept, an archive that is wrong is removed.
    """
    tools = tools or Tools()
    release = tools.catalogue.find(benchmark)
    if source is not None:
        _check_origin(source)
    if root is not None and root.exists() and not root.is_dir():
        raise UsageError(f"--to {root}: not a folder")
    folder = _place(release, root)
    damaged: list[str] = []
    outcome: Outcome = "already_there"
    with _told(folder):
        record = _read_record(folder)
        if record is not None:
            damaged = _damaged(folder, record, release)
        if record is None or damaged or _missing(release, record):
            origin = source or tools.catalogue.archive_url(release)
            if record is None or damaged or record.source != _shown(origin):
                outcome = "installed"
                with _locked(folder):
                    record = _install(release, origin, folder, tools)
    return Pulled(
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


def _read_record(folder: Path) -> PullRecord | None:
    """What an earlier pull put there; None where nothing is.

    Raises:
        UsageError: where something else is there.
    """
    try:
        return PullRecord.model_validate_json((folder / RECORD_NAME).read_bytes())
    except FileNotFoundError:
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        if folder.exists():
            raise UsageError(f"{folder}: not made by a pull; move it away, or give another folder with --to") from None
        return None
    except ValidationError as error:
        raise UsageError(f"{folder / RECORD_NAME}: not as a pull wrote it; remove {folder} and pull again") from error


def _damaged(folder: Path, record: PullRecord, release: Release) -> list[str]:
    """The files that are gone, have changed since they were put there, or are not the pinned ones (any more)."""
    return [file.path for file in record.files if not _is_sound(folder, file, release)]


def _is_sound(folder: Path, file: PulledFile, release: Release) -> bool:
    pin = release.pins.get(file.path)
    path = folder / file.path
    return (
        path.is_file()
        and path.stat().st_size == file.size
        and file_digest(path) == file.sha256
        and (pin is None or pin.sha256 == file.sha256)
    )


def _missing(release: Release, record: PullRecord) -> list[str]:
    """The known files of the release that are not there."""
    there = {file.path for file in record.files}
    return sorted({*release.pins, *release.unpinned} - there)


# --- getting it ------------------------------------------------------------------------------------------------------


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
        raise UsageError(
            f"--from {origin}: only http:// and https:// addresses, folders and archives can be pulled from"
        )
    if not Path(origin).expanduser().exists():
        raise UsageError(f"--from {origin}: no such file or folder")


def _install(release: Release, origin: str, folder: Path, tools: Tools) -> PullRecord:
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
        files += _carried_over(folder, tree, release, {file.path for file in files})
        record = _record(release, _shown(origin), files)
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
def _copy(release: Release, origin: str, folder: Path, raw: Path, tools: Tools) -> Iterator[Copy]:
    """The source's copy of the release; a download that arrived is removed at the end, whether it was right or not."""
    path = Path(origin).expanduser()
    if not _is_address(origin):
        yield read_folder(path) if path.is_dir() else _unpacked(path, str(path), release, raw, tools)
        return
    from mbbq_gen.datasets.releases.download import Download, new_client

    client = tools.client or new_client()
    step = _step(tools, "downloading")
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


def _step(tools: Tools, stage: Stage) -> Callable[[int, int | None], None]:
    return lambda done, total: tools.progress(stage, done, total)


def _unpacked(archive: Path, label: str, release: Release, raw: Path, tools: Tools) -> Copy:
    """What an archive holds of the release."""
    step = _step(tools, "unpacking")
    return Copy(
        label, unpack(archive, raw, Unpacking(label, lambda path: is_wanted(path, release), tools.limits, step))
    )


def _put(one: Collected, tree: Path, label: str) -> PulledFile:
    """Puts a file where it belongs and verifies what stands there then.

    Raises:
        DownloadError: where it is not the file that the release has.
    """
    path = tree / one.path
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(one.source, path)
    file = PulledFile(path=one.path, size=path.stat().st_size, sha256=file_digest(path), pinned=one.pin is not None)
    if one.pin is not None and (file.size, file.sha256) != (one.pin.size, one.pin.sha256):
        contents = f"{_content(file)}, not {_content(one.pin)}"
        raise DownloadError(f"{label}: {one.place} is not the release's ({contents}); get an unchanged copy")
    return file


def _content(file: PulledFile | PinnedFile) -> str:
    """What a file holds, in short."""
    return f"{file.size:,} bytes, sha256 {file.sha256[:12]}…"


def _carried_over(folder: Path, tree: Path, release: Release, there: set[str]) -> list[PulledFile]:
    """Files of an earlier pull that the new source does not have, if they are sound: nothing that was had is lost."""
    record = _read_record(folder)
    kept = [file for file in record.files if file.path not in there] if record else []
    kept = [file for file in kept if _is_sound(folder, file, release)]
    for file in kept:
        (tree / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file.path, tree / file.path)
    return kept


def _record(release: Release, source: str, files: list[PulledFile]) -> PullRecord:
    return PullRecord(
        release=release.name,
        repository=release.repository,
        commit=release.commit,
        licence=release.licence,
        source=source,
        files=tuple(sorted(files, key=lambda file: file.path)),
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a release's place.

    Raises:
        DownloadError: where another process holds it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(_beside(folder, ".lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise DownloadError(f"{folder}: another process is pulling into it; wait for it to end") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Makes one line of a disk that is full, or a folder that can't be read or written."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise DownloadError(f"{where}: {error.strerror or error}") from error
