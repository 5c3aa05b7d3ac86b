"""Reads files that anybody may have written: bounded in size, never unpacked to disk, every fault one line.

Nothing here trusts what a file says of itself: the size of a zip member is what comes out of it, not what its header
claims, and a member's name is only ever compared, never opened as a path.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from mbbq_gen.errors import DataError, MissingExtraError, UsageError

MEGABYTE: Final = 1 << 20
MOST_LINE: Final = 64 * MEGABYTE
"""The longest line of a JSON Lines file that is read."""
MOST_JSON: Final = 1024 * MEGABYTE
"""The largest JSON file that is read whole."""
MOST_MEMBER: Final = 128 * MEGABYTE
"""The most that may come out of one member of a zip file."""
MOST_MEMBERS: Final = 2_000_000
"""The most members of a zip file."""
_CHUNK: Final = MEGABYTE
_ZSTANDARD: Final = 93
"""The method number of Zstandard in zip files; Python knows it from 3.14 on."""
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_ENCRYPTED: Final = 0x1


class UnreadableError(Exception):
    """One row or member can't be read; the others may be."""


def require_file(path: Path, what: str) -> None:
    """Makes sure that there is a file.

    Raises:
        UsageError: where there is none.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give {what}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def json_value(text: bytes | str) -> Any:
    """What a piece of JSON holds.

    Raises:
        UnreadableError: where it is not UTF-8, cut off, nested too deeply or otherwise no JSON; says so in a few words.
    """
    try:
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        cut = " (cut off)" if error.pos >= len(error.doc.rstrip()) or "Unterminated" in error.msg else ""
        raise UnreadableError(f"not JSON: {error.msg} at character {error.pos + 1}{cut}") from error
    except RecursionError as error:
        raise UnreadableError("nested too deeply") from error
    except ValueError as error:
        raise UnreadableError(f"not JSON: {error}") from error


def json_object(text: bytes | str) -> dict[str, Any]:
    """The object that a piece of JSON holds; raises as `json_value`, and where it is something else."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise UnreadableError(f"a JSON object is needed, found {type(value).__name__}")
    return value


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        UsageError: where it can't be opened.
        DataError: where it is too large or no JSON.
    """
    with _opened(path) as stream:
        text = stream.read(MOST_JSON + 1)
    if len(text) > MOST_JSON:
        raise DataError(f"{path}: larger than {MOST_JSON // MEGABYTE:,} MB; split it")
    try:
        return json_value(text)
    except UnreadableError as error:
        raise DataError(f"{path}: {error}") from error


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, each with its number counted from 1.

    Raises:
        UsageError: where it can't be opened.
        DataError: where a line is too long to be a row.
    """
    with _opened(path) as stream:
        number = 0
        while line := stream.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise DataError(f"{path}:{number}: a line of more than {MOST_LINE // MEGABYTE} MB; this is no log")
            if line.strip():
                yield number, line


class Archive:
    """The members of a zip file, read one by one."""

    def __init__(self, path: Path) -> None:
        """Opens it.

        Raises:
            UsageError: where it can't be opened.
            DataError: where it is no zip file, is damaged or cut off, or has too many members.
        """
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, NotImplementedError) as error:
            raise DataError(f"{path}: not a zip file, or cut off: {error}") from error
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS:
            self._zip.close()
            raise DataError(f"{path}: {len(members):,} members; at most {MOST_MEMBERS:,} are read")
        self._members = {member.filename: member for member in members}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of the members, in file order."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """What a member holds.

        Raises:
            UnreadableError: where it is damaged, encrypted, or more comes out of it than is allowed.
            MissingExtraError: where it is compressed with Zstandard and nothing that reads that is installed.
        """
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise UnreadableError("encrypted")
        try:
            if member.compress_type == _ZSTANDARD:
                return self._read_zstandard(member)
            with self._zip.open(member) as stream:
                return _bounded(stream)
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError) as error:
            raise UnreadableError(f"damaged: {error}") from error
        except (NotImplementedError, RuntimeError) as error:
            raise UnreadableError(str(error)) from error

    def _read_zstandard(self, member: zipfile.ZipInfo) -> bytes:
        """The same for a method that Python's own zipfile does not know before 3.14."""
        zstandard = _zstandard()
        with self.path.open("rb") as stream:
            stream.seek(member.header_offset)
            header = stream.read(_LOCAL_HEADER.size)
            signature, *_, name_length, extra_length = _LOCAL_HEADER.unpack(header)
            if signature != b"PK\x03\x04":
                raise UnreadableError("damaged: no member begins where the directory says")
            stream.seek(name_length + extra_length, 1)
            packed = _Part(stream, member.compress_size)
            try:
                # Several frames may follow each other in one member.
                with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
                    packed, read_across_frames=True
                ) as unpacked:
                    whole = _bounded(unpacked)
            except zstandard.ZstdError as error:
                raise UnreadableError(f"damaged: {error}") from error
        if zlib.crc32(whole) != member.CRC:
            raise UnreadableError("damaged: the checksum is another one")
        return whole


class _Part:
    """The next `length` bytes of a file, as something that can be read."""

    def __init__(self, stream: IO[bytes], length: int) -> None:
        self._stream = stream
        self._left = length

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, and none once the part ends."""
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._stream.read(wanted)
        self._left -= len(data)
        return data


def _bounded(stream: IO[bytes]) -> bytes:
    """All that comes out of a stream.

    Raises:
        UnreadableError: where it is more than MOST_MEMBER; no more than that is ever held.
    """
    chunks, size = [], 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if size > MOST_MEMBER:
            raise UnreadableError(f"more than {MOST_MEMBER // MEGABYTE} MB come out of it")
        chunks.append(chunk)
    return b"".join(chunks)


def _zstandard() -> Any:
    """The module that reads Zstandard.

    Raises:
        MissingExtraError: where it is not installed.
    """
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtraError(
            "this log is compressed with Zstandard; install what reads it: pip install zstandard"
            " (it comes with 'mbbq-gen[inspect]')"
        ) from error
    return zstandard
