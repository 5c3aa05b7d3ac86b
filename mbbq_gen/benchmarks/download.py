"""Downloads a file, and unpacks archives that may be damaged or hostile.

Only regular files are unpacked, never links or devices, and under numbered names instead of their own paths.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import re
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, cast

import httpx
import tenacity

from mbbq_gen.core.errors import DownloadError
from mbbq_gen.core.text import parse_seconds

ATTEMPTS: Final = 5
MAX_WAIT: Final = 120.0
"""Seconds. A server that asks for a longer pause ends the download with an error."""
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_PAUSES: Final = tenacity.wait_exponential(multiplier=0.5, max=20.0) + tenacity.wait_random(0.0, 0.5)
_CHUNK: Final = 1 << 18
_MAX_READ: Final = 1 << 22
"""Maximum bytes of one read: tarfile reads a header extension of any declared length at once."""
_UNREADABLE: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile,
    NotImplementedError, RuntimeError, ValueError, OverflowError,
)  # fmt: skip
"""Errors of the standard library for an archive that is damaged, encrypted or of an unknown kind."""
_COMPRESSED: Final[dict[bytes, Callable[..., Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"BZh": bz2.open,
}
"""First bytes of a compressed tar → function that opens it."""
Member = tuple[str, int, Callable[[], IO[bytes]]]
"""Name, size and opener of a file in an archive; to be read before the next one is requested."""


class _TransientError(Exception):
    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause


def download(
    url: str,
    target: Path,
    client: httpx.Client,
    largest: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
    step: Callable[[int, int | None], None] = lambda _done, _total: None,
) -> None:
    """Downloads a file; raises DownloadError after a few attempts.

    Args:
        largest: maximum size in bytes.
        sleep: waits for that many seconds before the next attempt.
        step: called with the bytes received and the total; None: unknown.
    """
    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=_pause,
        retry=tenacity.retry_if_exception_type(_TransientError),
        sleep=sleep,
        reraise=True,
    )
    try:
        retrying(_try, url, target, client, largest, step)
    except _TransientError as error:
        raise DownloadError(f"{url}: {error}, {ATTEMPTS} times; try again later") from error


def _try(url: str, target: Path, client: httpx.Client, largest: int, step: Callable[[int, int | None], None]) -> None:
    """Downloads a file once."""
    try:
        with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response, target.open("wb") as file:
            _check_status(url, response)
            length, have = response.headers.get("Content-Length", ""), 0
            total = int(length) if length.isdigit() else None
            for piece in response.iter_raw():
                have += len(piece)
                if (size := max(have, total or 0)) > largest:
                    raise DownloadError(f"{url}: {size:,} bytes or more, larger than any release; not downloaded")
                file.write(piece)
                step(have, total)
    except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise _TransientError(_first_line(error)) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise DownloadError(f"{url}: {_first_line(error)}") from error


def _check_status(url: str, response: httpx.Response) -> None:
    """Raises an error for any answer but the file, a transient one if the same request may succeed later."""
    if response.status_code == httpx.codes.OK:
        return
    status = f"{response.status_code} {response.reason_phrase}".strip()
    if response.status_code not in _TRANSIENT:
        raise DownloadError(f"{url}: the server answers {status}; give another source with --from")
    pause = parse_seconds(response.headers.get("Retry-After", ""))
    if pause is not None and pause > MAX_WAIT:
        raise DownloadError(f"{url}: the server answers {status} and asks to wait {pause:.0f} s; try then")
    raise _TransientError(f"the server answers {status}", pause)


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds before the next attempt: Retry-After, else exponential backoff."""
    error = state.outcome.exception() if state.outcome is not None else None
    pause = error.pause if isinstance(error, _TransientError) else None
    return _PAUSES(state) if pause is None else pause


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def is_inside(path: str) -> bool:
    """Whether a path is relative and stays inside its folder."""
    parts = path.replace("\\", "/").split("/")
    return parts[0] != "" and re.match(r"[A-Za-z]:(/|$)", "/".join(parts)) is None and ".." not in parts


@dataclass(frozen=True)
class ArchiveLimits:
    """Maximum size of an archive; no release of text files is larger."""

    members: int = 100_000
    file_bytes: int = 1 << 30
    """Size of one unpacked file."""
    total_bytes: int = 1 << 33
    """Size of all unpacked files, including those that are not extracted."""


def unpack(
    archive: Path,
    folder: Path,
    label: str,
    wanted: Callable[[str], bool],
    *,
    limits: ArchiveLimits | None,
    step: Callable[[int, int], None],
) -> dict[str, Path]:
    """Extracts the wanted files of an archive (tar, tar.gz, tar.xz, tar.bz2, zip): path in it → extracted file.

    Args:
        folder: an existing, empty folder; the extracted files are named by numbers.
        label: path or URL of the archive, for messages.
        limits: None for `ArchiveLimits()`.
        step: called with the bytes of the archive read so far and its size.

    Raises:
        DownloadError: if the archive is damaged, too large, or has unsafe or duplicate paths.
    """
    found: dict[str, Path] = {}
    total, size, limits = 0, archive.stat().st_size, limits or ArchiveLimits()
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
        reason = _first_line(error)
        raise DownloadError(f"{label}: not a complete tar or zip archive ({reason}); get it again") from error
    return found


def _zip_members(stream: IO[bytes]) -> Iterator[Member]:
    """The files of a zip archive. Their sizes are reliable: zipfile reads no more bytes than the entry declares."""
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            if not entry.is_dir() and stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG):
                yield entry.filename, entry.file_size, partial(archive.open, entry)


def _tar_members(stream: IO[bytes], most: int, label: str) -> Iterator[Member]:
    """The files of a tar archive, compressed or not, of at most `most` unpacked bytes."""
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
        pass  # reads to the end, where the checksum of the compressed data is verified


class _Bounded:
    """A stream with a maximum position and a maximum size of one read."""

    def __init__(self, stream: IO[bytes], most: int, label: str) -> None:
        self._stream, self._most, self._label = stream, most, label
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not 0 <= size <= _MAX_READ:
            raise DownloadError(f"{self._label}: refused: one of its headers claims {size:,} bytes")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, place: int) -> int:
        """Sets the position, counted from the beginning."""
        self._check(place)
        return self._stream.seek(place)

    def _check(self, place: int) -> None:
        if place > self._most:
            raise DownloadError(f"{self._label}: refused: it unpacks to more than {self._most:,} bytes")
