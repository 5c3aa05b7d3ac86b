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
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mbbq_gen.core.errors import RunError

FOLDER: Final = "shards"
MOST_CHARACTERS: Final = 16_000_000
"""A file holds about no more text than that."""
IS_HERE: Final = "record >= '{'"
"""The condition that a record stands in the SQLite file itself: places begin with a digit."""
_HELD: Final = 8 * MOST_CHARACTERS
"""Characters that a reader holds: a place in the plan and the next, with answers, and questions in all languages."""


class ShardSpec(NamedTuple):
    """How the records of a table go to files."""

    key: str
    order: str
    most: int
    which: str = IS_HERE
    """The condition that a record is still to go."""
    new_rows: bool = False
    """Whether rows are written anew: old ones that only became short would leave pages nearly empty."""


PACKED: Final = {
    # few in a file: where an answer is read, its question is looked up in every language
    "instances": ShardSpec("key", "key", 2_000),
    "prompts": ShardSpec("number", "number", 20_000),
    "responses": ShardSpec("request_key", "received_at", 20_000, f"is_error = 0 AND {IS_HERE}", new_rows=True),
}
LARGE: Final = 1_000_000
"""Runs with more requests keep their records in files."""
_IN_FILES: Final = "records_in_files"
"""Name of the value that says that a run keeps its records in files."""


class RecordFiles:
    """The records of a run's tables, in files or on their way to them."""

    def __init__(
        self, db: sqlite3.Connection, path: Path, folder: Path, writing: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """`writing` makes what is done within it one transaction."""
        self._db, self._path, self._folder, self._writing = db, path, folder / FOLDER, writing
        self.in_files = db.execute("SELECT 1 FROM meta WHERE name = ?", (_IN_FILES,)).fetchone() is not None
        """Whether records go to files."""
        self._new_records = self._new_characters = 0
        self._held: OrderedDict[int, list[str]] = OrderedDict()
        self._characters = 0

    def record(self, place: str) -> str:
        """The record at a place, `NUMBER:ROW`; RunError where its file is missing or damaged."""
        number, row = map(int, place.split(":"))
        if number not in self._held:
            import polars

            name = self._db.execute("SELECT name FROM record_files WHERE number = ?", (number,)).fetchone()
            found: list[str] = polars.read_parquet(io.BytesIO(_bytes_of(self._folder / name[0])))["record"].to_list()
            self._characters += sum(map(len, found))
            while self._held and self._characters > _HELD:
                _, oldest = self._held.popitem(last=False)
                self._characters -= sum(map(len, oldest))
            self._held[number] = found
        self._held.move_to_end(number)
        return self._held[number][row]

    def enable_shards(self) -> None:
        """From now on records go to files; those that are here go at once, and the SQLite file gets small."""
        if not self.in_files:
            with self._writing():
                for table, packed in PACKED.items():
                    where = f"{table} ({packed.order}) WHERE {packed.which}"
                    self._db.execute(f"CREATE INDEX IF NOT EXISTS {table}_here ON {where}")
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, 'yes')", (_IN_FILES,))
            self.in_files = True
        self.pack()
        with (
            suppress(sqlite3.OperationalError),  # no room for a second file, or somebody reads this one
            closing(sqlite3.connect(self._path)) as connection,
        ):
            connection.execute("VACUUM")  # by a connection of its own: the run's keeps what is temporary in memory

    def keep_in_files_if_large(self, requests: int) -> None:
        """The same for a run with so many requests, if they are many."""
        if requests > LARGE:
            self.enable_shards()

    def pack(self) -> None:
        """Moves all records to files, in a run that keeps them there; RunError where they can't be written."""
        if self.in_files:
            for table in PACKED:
                while self._move_some(table):
                    pass

    def hear(self, answers: Sequence[str]) -> None:
        """Takes note of answers (JSON) that were stored, and makes a file where they fill one; raises as `pack`."""
        self._new_records += len(answers)
        self._new_characters += sum(map(len, answers))
        is_full = self._new_records >= PACKED["responses"].most or self._new_characters >= MOST_CHARACTERS
        if self.in_files and is_full:
            self._move_some("responses")
            self._new_records = self._new_characters = 0

    def _move_some(self, table: str) -> bool:
        """Makes one file of the next records of a table; whether there were any."""
        import polars

        spec = PACKED[table]
        records: dict[str | int, str] = {}
        characters = 0
        for key, record in self._db.execute(
            f"SELECT {spec.key}, record FROM {table} INDEXED BY {table}_here"
            f" WHERE {spec.which} ORDER BY {spec.order} LIMIT {spec.most}"
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

    def drop_lost_shards(self) -> int:
        """Makes answers whose files are missing or damaged pending again; returns how many they were."""
        rows = self._db.execute(
            "SELECT number, name, records FROM record_files WHERE name LIKE 'responses-%' AND records"
        ).fetchall()
        lost = 0
        for number, name, records in rows:
            with suppress(RunError):
                _bytes_of(self._folder / name)
                continue
            lost += records
            gone = f"(SELECT request_key FROM responses WHERE record LIKE '{number}:%')"
            shown = f"(SELECT prompt_id FROM prompts WHERE request_key IN {gone})"
            with self._writing():
                for table in ("extractions", "reasoning_extractions", "judgements", "follow_ups"):
                    self._db.execute(f"DELETE FROM {table} WHERE prompt_id IN {shown}")
                self._db.execute(f"UPDATE follow_ups SET version = NULL, outcome = NULL WHERE request_key IN {gone}")
                for table in ("option_scores", "responses"):
                    self._db.execute(f"DELETE FROM {table} WHERE request_key IN {gone}")
                self._db.execute("UPDATE record_files SET records = 0 WHERE number = ?", (number,))
        return lost


def _bytes_of(path: Path) -> bytes:
    """What stands in a file; RunError where it is missing, or not what was written."""
    hint = "put back a copy of it"
    if path.name.startswith("responses-"):
        hint += f", or ask its requests again: mbbq-gen run {path.parent.parent} --rerun-lost"
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
    """What the name of a file says of its bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def write_durably(path: Path, data: bytes) -> None:
    """Writes a file that is there whole or not at all, and lasts when this returns; else OSError."""
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
