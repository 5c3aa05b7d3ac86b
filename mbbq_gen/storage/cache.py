"""Responses shared between runs: `--cache-dir DIR` stores them by request key, so that none is paid for twice.

    DIR/responses.sqlite    request key → response

The key covers the provider's kind, the model, every setting that shapes the text, and the messages. Errors are not
stored. Several runs may use one cache at the same time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.records import Response

_FILE: Final = "responses.sqlite"
_VERSION: Final = 1
_WAIT_SECONDS: Final = 60.0
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS responses (
    request_key TEXT PRIMARY KEY, received_at TEXT NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID
"""


class ResponseCache:
    """The answers in a folder."""

    def __init__(self, folder: Path) -> None:
        """Opens the cache, or makes one; UsageError where the folder can't be one, or is of another version."""
        self.path = folder / _FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--cache-dir {folder}: {error.strerror or error}; name a folder") from error
        with self._plain_errors():
            self._db = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_SCHEMA)
            (found,) = self._db.execute("PRAGMA user_version").fetchone()
            if found == 0:
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        if found not in (0, _VERSION):
            raise UsageError(f"{self.path}: version {found}, this mbbq-gen reads {_VERSION}; name another --cache-dir")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def find(self, request_keys: Sequence[str]) -> Mapping[str, Response]:
        """The answers that are there, by request key, marked as copied."""
        marks = ", ".join("?" * len(request_keys))
        with self._plain_errors():
            rows = self._db.execute(
                f"SELECT request_key, record FROM responses WHERE request_key IN ({marks})", list(request_keys)
            ).fetchall()
        return {key: Response.model_validate_json(record).model_copy(update={"cached": True}) for key, record in rows}

    def keep(self, responses: Sequence[tuple[Response, str]]) -> None:
        """Adds answers, each with the time at which it came; what is there already stays."""
        rows = [
            (response.request_key, received_at, response.model_dump_json())
            for response, received_at in responses
            if response.error is None and not response.cached
        ]
        with self._plain_errors(), self._db:
            self._db.executemany("INSERT OR IGNORE INTO responses VALUES (?,?,?)", rows)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RunError(f"{self.path}: {error}; name another --cache-dir, nothing of the run is lost") from error
