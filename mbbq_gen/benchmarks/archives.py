"""Unpacks tar and zip archives that may be damaged or hostile."""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from mbbq_gen.benchmarks.release_catalogue import is_inside
from mbbq_gen.core.errors import DownloadError

ArchiveStep = Callable[[int, int], None]
"""Called with the bytes of the archive read so far and its size."""

_CHUNK: Final = 1 << 18
_LARGEST_READ: Final = 1 << 22
"""tarfile reads a header's extension in one piece, however long it says it is: not from us."""
_LONGEST_LINK: Final = 4096
_UNREADABLE: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile,
    NotImplementedError, RuntimeError, ValueError, OverflowError,
)  # fmt: skip
"""What the readers of archives raise for one that is damaged, encrypted or of a kind that they can't read."""


@dataclass(frozen=True)
class ArchiveLimits:
    """How large an archive may be; what is larger is no release of text files."""

    members: int = 100_000
    file_bytes: int = 1 << 30
    """Of one file, unpacked."""
    total_bytes: int = 1 << 33
    """Of everything in it, wanted or not, unpacked."""


@dataclass(frozen=True)
class Unpacking:
    """What an archive is unpacked with."""

    label: str
    """The archive as the user knows it: a path or an address, for messages."""
    wanted: Callable[[str], bool]
    """Whether the file at a path in the archive is wanted."""
    limits: ArchiveLimits = ArchiveLimits()
    step: ArchiveStep = lambda _done, _total: None

    def refuse(self, why: str) -> DownloadError:
        """The error that says why the archive is refused."""
        return DownloadError(f"{self.label}: refused: {why}")

    def checked(self, name: str, size: int, so_far: int) -> str:
        """The path of a member in one form, after its place and size were found harmless."""
        if not is_inside(name) or "\0" in name:
            raise self.refuse(f"the path {name[:200]!r} leads out of the archive")
        if size > self.limits.file_bytes or so_far + size > self.limits.total_bytes:
            raise self.refuse(f"{name!r} makes it larger than any release ({so_far + size:,} bytes)")
        return posixpath.normpath(name)

    def check_link(self, path: str, target: str, start: str) -> None:
        """Refuses a link that leads out; `start` is the folder that its target is seen from."""
        if not is_inside(posixpath.normpath(posixpath.join(start, target))):
            raise self.refuse(f"the link {path!r} leads out of the archive, to {target[:200]!r}")


def unpack(archive: Path, folder: Path, how: Unpacking) -> dict[str, Path]:
    """The wanted files of an archive (tar, tar.gz, tar.xz, tar.bz2, zip), recognised by its content, put into a folder.

    Args:
        folder: an existing, empty folder; what comes to stand there has numbers for names.

    Returns:
        Path in the archive → the file that it was written to.

    Raises:
        DownloadError: where the archive is damaged, or refused because of what it holds.
        OSError: where the folder can't be written.
    """
    found: dict[str, Path] = {}
    with archive.open("rb") as stream:
        is_zip = stream.read(4) in (b"PK\x03\x04", b"PK\x05\x06")  # is_zipfile also finds one at the end of a tar
        stream.seek(0)
        members = _zip_members if is_zip else _tar_members
        with _reading(how):
            for path, content in members(stream, archive.stat().st_size, how):
                if path in found:
                    raise how.refuse(f"it holds {path!r} twice")
                found[path] = folder / str(len(found))
                _write(content, found[path])
    return found


@contextmanager
def _reading(how: Unpacking) -> Iterator[None]:
    """Turns what a reader raises for a bad archive into one line."""
    try:
        yield
    except _UNREADABLE as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise DownloadError(f"{how.label}: not a complete tar or zip archive ({reason[0]}); get it again") from error


def _write(content: IO[bytes], path: Path) -> None:
    with path.open("xb") as stream:
        while chunk := content.read(_CHUNK):
            stream.write(chunk)


# --- tar -------------------------------------------------------------------------------------------------------------


class _Bounded:
    """A stream that refuses to be read further, or in larger pieces, than a valid archive needs."""

    def __init__(self, stream: IO[bytes], how: Unpacking) -> None:
        self._stream = stream
        self._how = how

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not 0 <= size <= _LARGEST_READ:
            raise self._how.refuse(f"one of its headers claims {size:,} bytes")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        """Goes to a place, counted from the beginning."""
        self._check(place)
        return self._stream.seek(place, whence)

    def tell(self) -> int:
        """The place."""
        return self._stream.tell()

    def _check(self, place: int) -> None:
        if place > self._how.limits.total_bytes:
            raise self._how.refuse(f"it unpacks to more than {self._how.limits.total_bytes:,} bytes")


def _decompressed(stream: IO[bytes]) -> IO[bytes]:
    """The bytes of the tar inside, by what the first bytes say."""
    start = stream.read(6)
    stream.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(stream))
    if start.startswith(b"\xfd7zXZ\x00"):
        return lzma.open(stream)
    if start.startswith(b"BZh"):
        return bz2.open(stream)
    return stream


def _tar_members(stream: IO[bytes], size: int, how: Unpacking) -> Iterator[tuple[str, IO[bytes]]]:
    """Path and content of the wanted files, in the archive's order; each is to be read before the next is requested."""
    so_far = 0
    bounded = _Bounded(_decompressed(stream), how)
    with tarfile.open(fileobj=bounded, mode="r:") as tar:  # type: ignore[call-overload]
        for number, member in enumerate(tar):
            if number >= how.limits.members:
                raise how.refuse(f"it holds more than {how.limits.members:,} files")
            path = how.checked(member.name, member.size, so_far)
            so_far += member.size
            how.step(min(stream.tell(), size), size)
            if member.issym() or member.islnk():
                how.check_link(path, member.linkname, posixpath.dirname(path) if member.issym() else "")
            elif not member.isdir() and not member.isreg():
                raise how.refuse(f"{path!r} is no file, folder or link")
            elif member.isreg() and how.wanted(path):
                content = tar.extractfile(member)
                assert content is not None
                yield path, content
            tar.members.clear()  # else a long archive stays in memory
    while bounded.read(_CHUNK):
        pass  # the checksum of what was compressed stands at its end


# --- zip -------------------------------------------------------------------------------------------------------------


def _zip_members(stream: IO[bytes], size: int, how: Unpacking) -> Iterator[tuple[str, IO[bytes]]]:
    """The same of a zip archive. zipfile gives no more bytes of a member than its entry says, so the sums hold."""
    so_far = 0
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
        if len(entries) > how.limits.members:
            raise how.refuse(f"it holds more than {how.limits.members:,} files")
        for entry in entries:
            path = how.checked(entry.filename, entry.file_size, so_far)
            so_far += entry.file_size
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind == stat.S_IFLNK:
                with archive.open(entry) as content:
                    target = content.read(_LONGEST_LINK).decode("utf-8", "replace")
                how.check_link(path, target, posixpath.dirname(path))
            elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise how.refuse(f"{path!r} is no file, folder or link")
            elif not entry.is_dir() and how.wanted(path):
                how.step(min(stream.tell(), size), size)
                with archive.open(entry) as content:
                    yield path, content
