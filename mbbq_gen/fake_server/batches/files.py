"""OpenAI's files: what is uploaded for a batch, and what a batch leaves behind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from mbbq_gen.fake_server.asked import Failure, FailureError
from mbbq_gen.fake_server.dialects.base import Body
from mbbq_gen.seeding import stable_number


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file."""

    file_id: str
    name: str
    purpose: str
    content: bytes
    created_at: int
    """Seconds since 1970."""

    def describe(self) -> Body:
        """The file object."""
        return {
            "id": self.file_id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
        }


class FileStore:
    """All files."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._made = 0

    def add(self, name: str, purpose: str, content: bytes) -> StoredFile:
        """A new file."""
        self._made += 1
        file_id = f"file-{self._made:06d}{stable_number('file', self._made):016x}"
        self._files[file_id] = StoredFile(file_id, name, purpose, content, int(time.time()))
        return self._files[file_id]

    def get(self, file_id: str) -> StoredFile:
        """The file of that id.

        Raises:
            FailureError: where there is none.
        """
        if file_id not in self._files:
            raise FailureError(Failure("not_found", f"no such file: {file_id}", "id"))
        return self._files[file_id]

    def delete(self, file_id: str) -> None:
        """Forgets a file; raises as `get` does."""
        self.get(file_id)
        del self._files[file_id]

    def ids(self) -> list[str]:
        """The ids of all files, the newest first."""
        return list(reversed(self._files))


@dataclass(frozen=True, slots=True)
class FormPart:
    """One field of an uploaded form."""

    filename: str | None
    content: bytes


def parse_form(headers: Mapping[str, str], body: bytes) -> dict[str, FormPart]:
    """The fields of a multipart form (RFC 7578), by name.

    Raises:
        FailureError: where it is none.
    """
    kind, _, parameters = headers.get("content-type", "").partition(";")
    boundary = _parameter(parameters, "boundary")
    if kind.strip().lower() != "multipart/form-data" or not boundary:
        raise FailureError(Failure("invalid", "expected multipart/form-data with a boundary"))
    parts: dict[str, FormPart] = {}
    for piece in (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"))[1:-1]:
        head, _, content = piece.partition(b"\r\n\r\n")
        for line in head.decode("utf-8", errors="replace").split("\r\n"):
            name, _, value = line.partition(":")
            if name.strip().lower() == "content-disposition":
                parts[_parameter(value, "name") or ""] = FormPart(_parameter(value, "filename"), content)
    return parts


def _parameter(text: str, name: str) -> str | None:
    """The value of `name="…"` among the parameters of a header."""
    for part in text.split(";"):
        key, equals, value = part.strip().partition("=")
        if equals and key.lower() == name:
            return value.strip().strip('"')
    return None
