"""Moves records of a run to Parquet files, and leaves in the SQLite file where each stands (`runs.record_files`).

    answers ──► run.sqlite, durable at once ──► when a file's worth is there ──► RUN/records/responses-….parquet
    plan    ──► run.sqlite ──► when it is made ──► RUN/records/instances-….parquet, presentations-….parquet

A file is there before one transaction puts places where its records were: whatever ends the process in between leaves a
file that nothing points to, and loses nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from mbbq_gen.runs.record_files import FOLDER, IS_HERE, MOST_CHARACTERS, Connection, RecordFiles


class Packed(NamedTuple):
    """How the records of a table go to files."""

    key: str
    order: str
    """Their order in the files."""
    most: int
    """Records of a file."""
    which: str = IS_HERE
    """The condition that a record is still to go."""
    place: str = "UPDATE main.{table} SET record = ? WHERE {key} = ?"
    """Puts a place where a record of some key was."""


PACKED: Final = {
    # few in a file: where an answer is read, its question is looked up in every language
    "instances": Packed("key", "key", 2_000),
    "presentations": Packed("number", "number", 20_000),
    "responses": Packed(
        "request_key",
        "received_at",
        20_000,
        f"is_error = 0 AND {IS_HERE}",
        # as a new row: old ones that only became short would leave pages nearly empty, four times the file
        "INSERT OR REPLACE INTO main.responses"
        " SELECT request_key, is_error, received_at, ? FROM main.responses WHERE request_key = ?",
    ),
}
"""Table → how its records go to files."""
LARGE: Final = 1_000_000
"""Runs with more requests keep their records in files."""
_IN_FILES: Final = "records_in_files"
"""Name of the value that says that a run keeps its records in files."""


class PackedRecords:
    """The records of a run's tables, in files or on their way to them."""

    def __init__(self, db: Connection, path: Path, folder: Path, writing: Callable[[], AbstractContextManager[None]]):
        """
        Args:
            db: The run's connection; from now on its statements see records wherever they stand.
            path: The SQLite file.
            folder: The run's folder.
            writing: Makes what is done within it one transaction.
        """
        self._db, self._path, self._writing = db, path, writing
        self._files = RecordFiles(folder / FOLDER, self._file_name)
        db.lay_views(self._files, tuple(PACKED))
        self.in_files = db.execute("SELECT 1 FROM meta WHERE name = ?", (_IN_FILES,)).fetchone() is not None
        """Whether records go to files."""
        self._new_records = self._new_characters = 0

    def keep_in_files(self) -> None:
        """From now on records go to files; those that are here go at once, and the SQLite file gets small."""
        if not self.in_files:
            with self._writing():
                for table, packed in PACKED.items():
                    where = f"{table} ({packed.order}) WHERE {packed.which}"
                    self._db.execute(f"CREATE INDEX IF NOT EXISTS main.{table}_here ON {where}")
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, 'yes')", (_IN_FILES,))
            self.in_files = True
        self.pack()
        self._make_small()

    def _make_small(self) -> None:
        """Gives back what the SQLite file needs no more; where that can't be had now, the file uses it again itself."""
        with (
            suppress(sqlite3.OperationalError),  # no room for a second file, or somebody reads this one
            closing(sqlite3.connect(self._path)) as connection,
        ):
            connection.execute("VACUUM")  # by a connection of its own: the run's keeps what is temporary in memory

    def keep_in_files_if_large(self, requests: int) -> None:
        """The same for a run with so many requests, if they are many."""
        if requests > LARGE:
            self.keep_in_files()

    def pack(self) -> None:
        """Moves to files all records that are not there, in a run that keeps them there.

        Raises:
            RunError: where they can't be written; nothing is lost.
        """
        if self.in_files:
            for table in PACKED:
                while records := self._next_to_pack(table):
                    self._move(table, records)

    def hear(self, answers: Sequence[str]) -> None:
        """Takes note of answers (JSON) that were stored, and makes a file where they fill one; raises as `pack`."""
        self._new_records += len(answers)
        self._new_characters += sum(map(len, answers))
        is_full = self._new_records >= PACKED["responses"].most or self._new_characters >= MOST_CHARACTERS
        if self.in_files and is_full:
            if records := self._next_to_pack("responses"):
                self._move("responses", records)
            self._new_records = self._new_characters = 0

    def _next_to_pack(self, table: str) -> dict[str | int, str]:
        """Key → record of what stands in the next file of a table."""
        packed = PACKED[table]
        found: dict[str | int, str] = {}
        characters = 0
        for key, record in self._db.execute(
            f"SELECT {packed.key}, record FROM main.{table} INDEXED BY {table}_here"
            f" WHERE {packed.which} ORDER BY {packed.order} LIMIT {packed.most}"
        ):
            found[key] = record
            characters += len(record)
            if characters >= MOST_CHARACTERS:
                break
        return found

    def _move(self, table: str, records: Mapping[str | int, str]) -> None:
        """Makes one file of these records."""
        (number,) = self._db.execute("SELECT coalesce(max(number), 0) + 1 FROM record_files").fetchone()
        name = self._files.write(table, number, list(records.values()))
        statement = PACKED[table].place.format(table=table, key=PACKED[table].key)
        with self._writing():
            self._db.execute("INSERT INTO record_files VALUES (?,?,?)", (number, name, len(records)))
            self._db.executemany(statement, ((f"{number}:{row}", key) for row, key in enumerate(records)))

    def _file_name(self, number: int) -> str | None:
        row = self._db.execute("SELECT name FROM record_files WHERE number = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    # --- lost files -------------------------------------------------------------------------------------------------

    def forget_lost(self) -> int:
        """Forgets answers whose files are missing or damaged, with what was read in them; says how many they were.

        They are pending again.
        """
        rows = self._db.execute(
            "SELECT number, name, records FROM record_files WHERE name LIKE 'responses-%' AND records"
        ).fetchall()
        lost = [(number, records) for number, name, records in rows if not self._files.is_whole(name)]
        for number, _ in lost:
            self._forget(number)
        return sum(records for _, records in lost)

    def _forget(self, number: int) -> None:
        """Forgets the answers that stood in a file."""
        gone = f"(SELECT request_key FROM main.responses WHERE record LIKE '{number}:%')"
        shown = f"(SELECT presentation_id FROM main.presentations WHERE request_key IN {gone})"
        with self._writing():
            for table in ("extractions", "thoughts", "judgements"):
                self._db.execute(f"DELETE FROM {table} WHERE presentation_id IN {shown}")
            self._db.execute(f"DELETE FROM option_scores WHERE request_key IN {gone}")
            self._db.execute(f"DELETE FROM main.responses WHERE request_key IN {gone}")
            self._db.execute("UPDATE record_files SET records = 0 WHERE number = ?", (number,))
