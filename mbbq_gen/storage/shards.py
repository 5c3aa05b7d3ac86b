"""Moves the records of large runs from SQLite to Parquet files, and reads them back.

    RUN/shards/<table>-<number>-<sha256[:16]>.parquet     zstd; record (JSON)
    `record` in the SQLite file                           the JSON itself, or NUMBER:ROW

A file is written under a temporary name, flushed and renamed before any row refers to it. Its name holds the digest of
its bytes, so that a changed file is detected (docs/decisions/0010-storage-and-shards.md).
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from mbbq_gen.core.errors import RunError

FOLDER: Final = "shards"
MOST_CHARACTERS: Final = 16_000_000
"""Approximate limit of the text in one file."""
IS_HERE: Final = "record >= '{'"
"""The condition that a record is in SQLite; references to files begin with a digit."""
_CACHED_FILES: Final = 16
"""Files in memory: two of prompts, their responses, and questions in all languages."""


class ShardSpec(NamedTuple):
    """How the records of a table are moved to files."""

    key: str
    order: str
    max_records: int
    condition: str = IS_HERE
    """The condition that a record is not in a file yet."""
    new_rows: bool = False
    """Whether rows are inserted again; rows that are only shortened leave pages nearly empty."""


PACKED: Final = {
    # few in a file: every response that is extracted needs its question in all languages
    "instances": ShardSpec("key", "key", 2_000),
    "prompts": ShardSpec("number", "number", 20_000),
    "responses": ShardSpec("request_key", "received_at", 20_000, f"is_error = 0 AND {IS_HERE}", new_rows=True),
}
LARGE: Final = 1_000_000
"""Runs with more requests store their records in files."""
_IN_FILES: Final = "records_in_files"
"""Name in `meta` that marks runs whose records are in files."""


class RecordFiles:
    """The records of a run that are in Parquet files; moves them there."""

    def __init__(self, db: sqlite3.Connection, path: Path, writing: Callable[[], AbstractContextManager[None]]) -> None:
        """`writing`: context manager of one transaction."""
        self._db, self._path, self._folder, self._writing = db, path, path.parent / FOLDER, writing
        self.in_files = db.execute("SELECT 1 FROM meta WHERE name = ?", (_IN_FILES,)).fetchone() is not None
        """Whether this run stores its records in files."""
        self._new_records = self._new_characters = 0
        self._file = lru_cache(_CACHED_FILES)(self._read_file)

    def record(self, place: str) -> str:
        """The record at a place, `NUMBER:ROW`; RunError if its file is missing or damaged."""
        number, row = map(int, place.split(":"))
        return self._file(number)[row]

    def _read_file(self, number: int) -> list[str]:
        """The records of a file."""
        import polars

        (name,) = self._db.execute("SELECT name FROM record_files WHERE number = ?", (number,)).fetchone()
        found: list[str] = polars.read_parquet(io.BytesIO(_content(self._folder / name)))["record"].to_list()
        return found

    def enable_shards(self) -> None:
        """Moves all records to files, now and from now on, and shrinks the SQLite file."""
        if not self.in_files:
            with self._writing():
                for table, packed in PACKED.items():
                    where = f"{table} ({packed.order}) WHERE {packed.condition}"
                    self._db.execute(f"CREATE INDEX IF NOT EXISTS {table}_here ON {where}")
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, 'yes')", (_IN_FILES,))
            self.in_files = True
        self.pack()
        with (
            suppress(sqlite3.OperationalError),  # no space for a second file, or another process reads this one
            closing(sqlite3.connect(self._path)) as connection,
        ):
            connection.execute("VACUUM")  # on a new connection: that of the run keeps temporary data in memory

    def keep_in_files_if_large(self, requests: int) -> None:
        """Calls `enable_shards` for a run with more than LARGE requests."""
        if requests > LARGE:
            self.enable_shards()

    def pack(self) -> None:
        """Moves all records to files, if the run uses files; RunError if they can't be written."""
        if self.in_files:
            for table in PACKED:
                while self._write_file(table):
                    pass

    def pack_if_full(self, records: Sequence[str]) -> None:
        """Counts newly stored responses (JSON), and moves them to a file once they fill one; raises as `pack`."""
        self._new_records += len(records)
        self._new_characters += sum(map(len, records))
        is_full = self._new_records >= PACKED["responses"].max_records or self._new_characters >= MOST_CHARACTERS
        if self.in_files and is_full:
            self._write_file("responses")
            self._new_records = self._new_characters = 0

    def _write_file(self, table: str) -> bool:
        """Moves the next records of a table to one file; False if there are none."""
        import polars

        spec = PACKED[table]
        records: dict[str | int, str] = {}
        characters = 0
        for key, record in self._db.execute(
            f"SELECT {spec.key}, record FROM {table} INDEXED BY {table}_here"
            f" WHERE {spec.condition} ORDER BY {spec.order} LIMIT {spec.max_records}"
        ):
            records[key] = record
            characters += len(record)
            if characters >= MOST_CHARACTERS:
                break
        if not records:
            return False
        (number,) = self._db.execute("SELECT coalesce(max(number), 0) + 1 FROM record_files").fetchone()
        content = io.BytesIO()
        polars.DataFrame({"record": [*records.values()]}, schema={"record": polars.String}).write_parquet(content)
        name = f"{table}-{number:06}-{digest(content.getvalue())}.parquet"
        try:
            self._folder.mkdir(exist_ok=True)
            write_durably(self._folder / name, content.getvalue())
        except OSError as error:
            hint = "fix this and repeat the command, nothing is lost"
            raise RunError(f"{self._folder / name}: can't write ({error.strerror or error}); {hint}") from error
        statement = f"UPDATE {table} SET record = ? WHERE {spec.key} = ?"
        if spec.new_rows:
            names = [column for _, column, *_ in self._db.execute(f"PRAGMA table_info({table})")]
            columns = ", ".join("?" if column == "record" else column for column in names)
            statement = f"INSERT OR REPLACE INTO {table} SELECT {columns} FROM {table} WHERE {spec.key} = ?"
        with self._writing():
            self._db.execute("INSERT INTO record_files VALUES (?,?,?)", (number, name, len(records)))
            self._db.executemany(statement, ((f"{number}:{row}", key) for row, key in enumerate(records)))
        return True


def _content(path: Path) -> bytes:
    """The content of a file; RunError if it is missing or its digest is wrong."""
    hint = "put back a copy of it, or make the run again in another folder"
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise RunError(f"{path}: missing; {hint}") from error
    except OSError as error:
        raise RunError(f"{path}: can't read: {error.strerror or error}") from error
    if not path.name.endswith(f"-{digest(data)}.parquet"):
        raise RunError(f"{path}: damaged (its digest differs from its name); {hint}")
    return data


def digest(data: bytes) -> str:
    """The digest in the name of a file: 16 hex digits of its sha256."""
    return hashlib.sha256(data).hexdigest()[:16]


def write_durably(path: Path, data: bytes) -> None:
    """Writes a file atomically; durable when this returns. Raises OSError."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # makes the rename last
        finally:
            os.close(handle)
    except OSError:
        part.unlink(missing_ok=True)
        raise
