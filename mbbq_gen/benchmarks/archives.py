"""Unpacks tar and zip archives that may be damaged or hostile: files alone, and none to a path of its own."""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

from mbbq_gen.core.errors import DownloadError

_CHUNK: Final = 1 << 18
_LARGEST_READ: Final = 1 << 22
"""tarfile reads a header's extension in one piece, however long it says it is: not from us."""
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


def is_inside(path: str) -> bool:
    """Whether a path, with `/` between its steps, stays inside the folder that it is taken from."""
    steps = path.replace("\\", "/").split("/")
    return steps[0] != "" and re.match(r"[A-Za-z]:(/|$)", "/".join(steps)) is None and ".." not in steps


@dataclass(frozen=True)
class ArchiveLimits:
    """How large an archive may be; what is larger is no release of text files."""

    members: int = 100_000
    file_bytes: int = 1 << 30
    """Of one file, unpacked."""
    total_bytes: int = 1 << 33
    """Of everything in it, wanted or not, unpacked."""


Member = tuple[str, int, Callable[[], IO[bytes]]]
"""Name and size of a file in an archive, and what opens it; to be read before the next one is requested."""


def unpack(
    archive: Path,
    folder: Path,
    label: str,
    wanted: Callable[[str], bool],
    *,
    limits: ArchiveLimits,
    step: Callable[[int, int], None],
) -> dict[str, Path]:
    """The wanted files of an archive (tar, tar.gz, tar.xz, tar.bz2, zip): path in it → the file that it was written to.

    Args:
        folder: an existing, empty folder; its files are named by numbers.
        label: the archive as the user knows it: a path or an address, for messages.
        step: called with the bytes of the archive read so far and its size.

    Raises:
        DownloadError: where the archive is damaged, or refused because of what it holds.
    """
    found: dict[str, Path] = {}
    total, size = 0, archive.stat().st_size
    try:
        with archive.open("rb") as stream:
            is_zip = stream.read(4) in (b"PK\x03\x04", b"PK\x05\x06")  # is_zipfile also finds one at the end of a tar
            stream.seek(0)
            members = _zip_members(stream) if is_zip else _tar_members(stream, limits.total_bytes, label)
            for number, (name, length, opened) in enumerate(members, 1):
                total += length
                if number > limits.members or length > limits.file_bytes or total > limits.total_bytes:
                    message = f"{name!r} makes it larger than any release ({number:,} files, {total:,} bytes)"
                    raise DownloadError(f"{label}: refused: {message}")
                if not is_inside(name) or "\0" in name:
                    raise DownloadError(f"{label}: refused: the path {name[:200]!r} leads out of the archive")
                step(min(stream.tell(), size), size)
                path = posixpath.normpath(name)
                if path in found:
                    raise DownloadError(f"{label}: refused: it holds {path!r} twice")
                if wanted(path):
                    found[path] = folder / str(number)
                    with opened() as content, found[path].open("xb") as copy:
                        shutil.copyfileobj(content, copy, _CHUNK)
    except _UNREADABLE as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise DownloadError(f"{label}: not a complete tar or zip archive ({reason[0]}); get it again") from error
    return found


def _zip_members(stream: IO[bytes]) -> Iterator[Member]:
    """The files of a zip archive. zipfile gives no more bytes of one than its entry says, so the sizes hold."""
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            if not entry.is_dir() and stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG):
                yield entry.filename, entry.file_size, partial(archive.open, entry)


def _tar_members(stream: IO[bytes], most: int, label: str) -> Iterator[Member]:
    """The files of a tar archive, packed or not; `most` is how many bytes it may unpack to."""
    start = stream.read(6)
    stream.seek(0)
    content = next((opened(stream) for sign, opened in _COMPRESSED.items() if start.startswith(sign)), stream)
    bounded = _Bounded(content, most, label)
    with tarfile.open(fileobj=bounded, mode="r:") as tar:  # type: ignore[call-overload]
        for member in tar:
            if member.isreg():
                yield member.name, member.size, cast(Callable[[], IO[bytes]], partial(tar.extractfile, member))
            tar.members.clear()  # else a long archive stays in memory
    while bounded.read(_CHUNK):
        pass  # the checksum of what was compressed stands at its end


class _Bounded:
    """A stream that refuses to be read further, or in larger pieces, than a valid archive needs."""

    def __init__(self, stream: IO[bytes], most: int, label: str) -> None:
        self._stream, self._most, self._label = stream, most, label
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not 0 <= size <= _LARGEST_READ:
            raise DownloadError(f"{self._label}: refused: one of its headers claims {size:,} bytes")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, place: int) -> int:
        """Goes to a place, counted from the beginning."""
        self._check(place)
        return self._stream.seek(place)

    def _check(self, place: int) -> None:
        if place > self._most:
            raise DownloadError(f"{self._label}: refused: it unpacks to more than {self._most:,} bytes")
