"""Downloads a large file, resumes an interrupted download, and unpacks archives that may be damaged or hostile.

    NAME.part        the bytes received so far
    NAME.part.json   their URL and validator (ETag or Last-Modified)

The rest is requested with Range and If-Range, so that two versions are never mixed: the download restarts if the file
has changed, or if the server sends no validator or does not support ranges. Only regular files are unpacked, never
links or devices, and under numbered names instead of their own paths.
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
from pydantic import ValidationError

from mbbq_gen.core.errors import DownloadError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.core.text import parse_seconds

ATTEMPTS: Final = 5
MAX_WAIT: Final = 120.0
"""Seconds. A server that asks for a longer pause ends the download with an error."""
_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_PAUSES: Final = tenacity.wait_exponential(multiplier=0.5, max=20.0) + tenacity.wait_random(0.0, 0.5)
_RANGE: Final = re.compile(r"bytes (?:(?P<start>\d+)-\d+|\*)/(?P<total>\d+|\*)")


class _TransientError(Exception):
    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause


class _Origin(FrozenModel):
    url: str
    mark: str | None
    """The validator of this version of the file: a strong ETag or a Last-Modified date."""


@dataclass(frozen=True)
class Download:
    """A resumable download of a URL to a file."""

    url: str
    part: Path
    """The destination; kept after a failure, to be resumed."""
    client: httpx.Client
    largest: int
    """Maximum size in bytes."""
    sleep: Callable[[float], None] = time.sleep
    step: Callable[[int, int | None], None] = lambda _done, _total: None
    """Called with the bytes received and the total; None: unknown."""

    def fetch(self) -> None:
        """Downloads the whole file to `part`; raises DownloadError after a few attempts."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=_pause,
            retry=tenacity.retry_if_exception_type(_TransientError),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            retrying(self._try)
        except _TransientError as error:
            size = self.part.stat().st_size if self._partial_mark() else 0
            kept = f"{size:,} bytes are kept, the same command goes on from there" if size else "try again later"
            raise DownloadError(f"{self.url}: {error}, {ATTEMPTS} times; {kept}") from error

    def discard(self) -> None:
        """Removes the partial file."""
        self.part.unlink(missing_ok=True)
        self._origin_path.unlink(missing_ok=True)

    @property
    def _origin_path(self) -> Path:
        return self.part.with_name(self.part.name + ".json")

    def _partial_mark(self) -> str | None:
        """The validator of the partial file; None if it can't be resumed."""
        try:
            origin = _Origin.model_validate_json(self._origin_path.read_bytes())
        except (OSError, ValidationError):
            return None
        return origin.mark if origin.url == self.url and self.part.is_file() else None

    def _try(self) -> None:
        mark = self._partial_mark()
        have = self.part.stat().st_size if mark else 0
        headers = {"Accept-Encoding": "identity"}
        if mark and have:
            headers |= {"Range": f"bytes={have}-", "If-Range": mark}
        try:
            with self.client.stream("GET", self.url, headers=headers) as response:
                self._handle(response, have, mark)
        except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise _TransientError(_first_line(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DownloadError(f"{self.url}: {_first_line(error)}") from error

    def _handle(self, response: httpx.Response, have: int, mark: str | None) -> None:
        """Appends the content of a response to the first `have` bytes; raises for error responses."""
        found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        start = int(found["start"]) if found and found["start"] else None
        total = int(found["total"]) if found and found["total"] != "*" else None
        status = f"{response.status_code} {response.reason_phrase}".strip()
        if response.status_code == httpx.codes.OK:
            self._receive(response, 0)
        elif response.status_code == httpx.codes.PARTIAL_CONTENT:
            if have == 0 or start != have or _mark(response) not in (None, mark):
                self.discard()
                raise _TransientError("the server sent another part than requested")
            if self._receive(response, have) != (total or self.part.stat().st_size):
                raise _TransientError("the server sent fewer bytes than requested")
        elif response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            if have == 0 or (start, total) != (None, have):
                self.discard()
                raise _TransientError("the server's file has changed")
        elif response.status_code not in _TRANSIENT:
            raise DownloadError(f"{self.url}: the server answers {status}; give another source with --from")
        else:
            pause = parse_seconds(response.headers.get("Retry-After", ""))
            if pause is not None and pause > MAX_WAIT:
                raise DownloadError(f"{self.url}: the server answers {status} and asks to wait {pause:.0f} s; try then")
            raise _TransientError(f"the server answers {status}", pause)

    def _receive(self, response: httpx.Response, have: int) -> int:
        """Appends the content to the first `have` bytes; returns the new size."""
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        self._check_size(total or have)
        if not have:
            self.discard()  # before the new validator is written: it must never describe bytes of another version
            self._origin_path.write_text(_Origin(url=self.url, mark=_mark(response)).model_dump_json(), "utf-8")
        with self.part.open("ab" if have else "wb") as stream:
            self.step(have, total)
            for piece in response.iter_raw():
                have += len(piece)
                self._check_size(have)
                stream.write(piece)
                self.step(have, total)
        return have

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            self.discard()
            raise DownloadError(f"{self.url}: {size:,} bytes or more, larger than any release; not downloaded")


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds before the next attempt: Retry-After, else exponential backoff."""
    error = state.outcome.exception() if state.outcome is not None else None
    pause = error.pause if isinstance(error, _TransientError) else None
    return _PAUSES(state) if pause is None else pause


def _mark(response: httpx.Response) -> str | None:
    """The value for If-Range: a strong ETag, else the date of the last change, else None."""
    etag: str = response.headers.get("ETag", "")
    date: str | None = response.headers.get("Last-Modified")
    return etag if etag.startswith('"') else date


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


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


Member = tuple[str, int, Callable[[], IO[bytes]]]
"""Name, size and opener of a file in an archive; to be read before the next one is requested."""


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
