"""Unpacks tar and zip archives that may be damaged or hostile."""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from mbbq_gen.benchmarks.release_catalogue import is_inside
from mbbq_gen.core.errors import DownloadError

_CHUNK: Final = 1 << 18
_LARGEST_READ: Final = 1 << 22
"""tarfile reads a header's extension in one piece, however long it says it is: not from us."""
_LONGEST_LINK: Final = 4096
_UNREADABLE: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile,
    NotImplementedError, RuntimeError, ValueError, OverflowError,
)  # fmt: skip
"""What the readers of archives raise for one that is damaged, encrypted or of a kind that they can't read."""
_COMPRESSED: Final[dict[bytes, Callable[..., Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
"""How a compressed tar begins → what opens it."""


@dataclass(frozen=True)
class ArchiveLimits:
    """How large an archive may be; what is larger is no release of text files."""

    members: int = 100_000
    file_bytes: int = 1 << 30
    """Of one file, unpacked."""
    total_bytes: int = 1 << 33
    """Of everything in it, wanted or not, unpacked."""


class _Member(NamedTuple):
    """A member of an archive, of either kind."""

    name: str
    size: int
    kind: int
    """A file, folder, link or something else, as `stat` numbers them."""
    target: str
    """Of a link: where it leads, from the root of the archive."""
    content: Callable[[], IO[bytes]]
    """Opens it; to be read before the next member is requested."""


def unpack(
    archive: Path,
    folder: Path,
    label: str,
    wanted: Callable[[str], bool],
    *,
    limits: ArchiveLimits,
    step: Callable[[int, int], None],
) -> dict[str, Path]:
    """The wanted files of an archive (tar, tar.gz, tar.xz, tar.bz2, zip), recognised by its content, put into a folder.

    Args:
        folder: an existing, empty folder; its files are named by numbers.
        label: the archive as the user knows it: a path or an address, for messages.
        wanted: whether the file at a path in the archive is wanted.
        step: called with the bytes of the archive read so far and its size.

    Returns:
        Path in the archive → the file that it was written to.

    Raises:
        DownloadError: where the archive is damaged, or refused because of what it holds.
        OSError: where the folder can't be written.
    """

    def refusal(why: str) -> DownloadError:
        return DownloadError(f"{label}: refused: {why}")

    found: dict[str, Path] = {}
    total, size = 0, archive.stat().st_size
    try:
        with archive.open("rb") as stream:
            is_zip = stream.read(4) in (b"PK\x03\x04", b"PK\x05\x06")  # is_zipfile also finds one at the end of a tar
            stream.seek(0)
            members = _zip_members(stream) if is_zip else _tar_members(stream, limits.total_bytes, refusal)
            for number, one in enumerate(members):
                if number >= limits.members:
                    raise refusal(f"it holds more than {limits.members:,} files")
                if not is_inside(one.name) or "\0" in one.name:
                    raise refusal(f"the path {one.name[:200]!r} leads out of the archive")
                total += one.size
                if one.size > limits.file_bytes or total > limits.total_bytes:
                    raise refusal(f"{one.name!r} makes it larger than any release ({total:,} bytes)")
                path = posixpath.normpath(one.name)
                step(min(stream.tell(), size), size)
                if one.kind == stat.S_IFLNK and not is_inside(posixpath.normpath(one.target)):
                    raise refusal(f"the link {path!r} leads out of the archive, to {one.target[:200]!r}")
                if one.kind not in (stat.S_IFLNK, stat.S_IFDIR, stat.S_IFREG):
                    raise refusal(f"{path!r} is no file, folder or link")
                if one.kind == stat.S_IFREG and wanted(path):
                    if path in found:
                        raise refusal(f"it holds {path!r} twice")
                    found[path] = folder / str(len(found))
                    with one.content() as content, found[path].open("xb") as copy:
                        shutil.copyfileobj(content, copy, _CHUNK)
    except _UNREADABLE as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise DownloadError(f"{label}: not a complete tar or zip archive ({reason[0]}); get it again") from error
    return found


def _zip_members(stream: IO[bytes]) -> Iterator[_Member]:
    """The members of a zip archive. zipfile gives no more bytes of one than its entry says, so the sizes hold."""
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            kind, target = stat.S_IFMT(entry.external_attr >> 16), ""
            if kind == stat.S_IFLNK:
                with archive.open(entry) as content:
                    target = content.read(_LONGEST_LINK).decode("utf-8", "replace")
                target = posixpath.join(posixpath.dirname(entry.filename), target)
            elif kind in (0, stat.S_IFREG, stat.S_IFDIR):
                kind = stat.S_IFDIR if entry.is_dir() else stat.S_IFREG
            yield _Member(entry.filename, entry.file_size, kind, target, partial(archive.open, entry))


def _tar_members(stream: IO[bytes], most: int, refusal: Callable[[str], DownloadError]) -> Iterator[_Member]:
    """The members of a tar archive, packed or not; `most` is how many bytes it may unpack to."""
    start = stream.read(6)
    stream.seek(0)
    content = next((opened(stream) for sign, opened in _COMPRESSED.items() if start.startswith(sign)), stream)
    bounded = _Bounded(content, most, refusal)
    with tarfile.open(fileobj=bounded, mode="r:") as tar:  # type: ignore[call-overload]
        for member in tar:
            kind = stat.S_IFREG if member.isreg() else stat.S_IFDIR if member.isdir() else 0
            kind = stat.S_IFLNK if member.issym() or member.islnk() else kind
            target = posixpath.join(posixpath.dirname(member.name) if member.issym() else "", member.linkname)
            opened = cast(Callable[[], IO[bytes]], partial(tar.extractfile, member))
            yield _Member(member.name, member.size, kind, target, opened)
            tar.members.clear()  # else a long archive stays in memory
    while bounded.read(_CHUNK):
        pass  # the checksum of what was compressed stands at its end


class _Bounded:
    """A stream that refuses to be read further, or in larger pieces, than a valid archive needs."""

    def __init__(self, stream: IO[bytes], most: int, refusal: Callable[[str], DownloadError]) -> None:
        self._stream, self._most, self._refusal = stream, most, refusal
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not 0 <= size <= _LARGEST_READ:
            raise self._refusal(f"one of its headers claims {size:,} bytes")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, place: int) -> int:
        """Goes to a place, counted from the beginning."""
        self._check(place)
        return self._stream.seek(place)

    def _check(self, place: int) -> None:
        if place > self._most:
            raise self._refusal(f"it unpacks to more than {self._most:,} bytes")
