"""Moves the records of large runs from SQLite to Parquet files, and reads them back.

    RUN/shards/<table>-<number>-<sha256[:16]>.parquet     zstd; record (JSON)
    `record` in the SQLite file                           the JSON itself, or NUMBER:ROW

A file is written under a temporary name, flushed and renamed before any row refers to it. Its name holds the digest of
its bytes, so that a changed file is detected. Every connection has views of the tables in which `record` is always the
JSON, so that readers need not know where it is stored (docs/decisions/0010-storage-and-shards.md).
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from mbbq_gen.core.errors import RunError

FOLDER: Final = "shards"
"""Folder inside the run's."""
MOST_CHARACTERS: Final = 16_000_000
"""A file holds about no more text than that."""
IS_HERE: Final = "record >= '{'"
"""The condition that a record stands in the SQLite file itself: places begin with a digit."""
_HELD: Final = 8 * MOST_CHARACTERS
"""Characters that a reader holds: a place in the plan and the next, with answers, and questions in all languages."""


class ShardFiles:
    """The record files of one run."""

    def __init__(self, folder: Path, name_of: Callable[[int], str | None]) -> None:
        """
        Args:
            folder: Where they are; it need not be there.
            name_of: The name of the file of a number; None where there is none.
        """
        self.folder = folder
        self._name_of = name_of
        self._held: OrderedDict[int, list[str]] = OrderedDict()
        self._characters = 0
        self.fault: BaseException | None = None
        """What stopped the last statement, if a record could not be had: SQLite passes no reasons on."""

    def record(self, place: str) -> str:
        """The record at a place, `NUMBER:ROW`.

        Raises:
            RunError: where its file is missing, or is not what was written.
        """
        try:
            number, _, row = place.partition(":")
            return self._records(int(number))[int(row)]
        except BaseException as error:
            self.fault = error
            raise

    def _records(self, number: int) -> list[str]:
        """The records of a file; the files read last are held."""
        if number not in self._held:
            name = self._name_of(number)
            if name is None:
                raise RunError(f"{self.folder}: no file has the number {number}")
            found = _read(self.folder / name)
            self._characters += sum(map(len, found))
            while self._held and self._characters > _HELD:
                _, oldest = self._held.popitem(last=False)
                self._characters -= sum(map(len, oldest))
            self._held[number] = found
        self._held.move_to_end(number)
        return self._held[number]

    def write(self, table: str, number: int, records: Sequence[str]) -> str:
        """Writes the records (JSON) of one file, and says its name; durable when this returns.

        Raises:
            RunError: where it can't be written.
        """
        import polars

        content = io.BytesIO()
        polars.DataFrame({"record": records}, schema={"record": polars.String}).write_parquet(content)
        data = content.getvalue()
        name = f"{table}-{number:06}-{digest(data)}.parquet"
        try:
            self.folder.mkdir(exist_ok=True)
            write_durably(self.folder / name, data)
        except OSError as error:
            hint = "fix this and repeat the command, nothing is lost"
            raise RunError(f"{self.folder / name}: can't write ({error.strerror or error}); {hint}") from error
        return name

    def is_whole(self, name: str) -> bool:
        """Whether a file is there and is what was written."""
        try:
            _bytes_of(self.folder / name)
        except RunError:
            return False
        return True


def _read(path: Path) -> list[str]:
    import polars

    found: list[str] = polars.read_parquet(io.BytesIO(_bytes_of(path)))["record"].to_list()
    return found


def _bytes_of(path: Path) -> bytes:
    """What stands in a file.

    Raises:
        RunError: where it is missing, or not what was written.
    """
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
    """Writes a file that is there whole or not at all, and lasts when this returns.

    Raises:
        OSError: where it can't be written; nothing of it is left.
    """
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


# --- connections -----------------------------------------------------------------------------------------------------


class Connection(sqlite3.Connection):
    """A connection whose statements say why a record could not be had."""

    files: ShardFiles | None = None

    def execute(self, statement: str, parameters: Any = (), /) -> Rows:
        """As ever, but its rows are `Rows`."""
        return self.cursor(Rows).execute(statement, parameters)

    def lay_views(self, files: ShardFiles, tables: Sequence[str]) -> None:
        """From now on, `record` of these tables is the JSON wherever it stands; they are written to as `main.TABLE`."""
        self.files = files
        self.create_function("kept_record", 1, files.record, deterministic=True)
        for table in tables:
            given = f"CASE WHEN {IS_HERE} THEN record ELSE kept_record(record) END AS record"
            super().execute(f"CREATE TEMP VIEW {table} AS SELECT {self.columns(table, given)} FROM main.{table}")

    def columns(self, table: str, record: str) -> str:
        """The columns of a table for a SELECT, with an expression in the place of `record`."""
        names = [name for _, name, *_ in super().execute(f"PRAGMA main.table_info({table})")]
        return ", ".join(record if name == "record" else name for name in names)


class Rows(sqlite3.Cursor):
    """The rows of a statement; a record that can't be had raises what is wrong with its file."""

    def execute(self, statement: str, parameters: Any = (), /) -> Self:
        """As ever."""
        with _Reasons(self.connection):
            return super().execute(statement, parameters)

    def fetchone(self) -> Any:
        """As ever."""
        with _Reasons(self.connection):
            return super().fetchone()

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        """As ever."""
        with _Reasons(self.connection):
            return super().fetchmany(size)

    def fetchall(self) -> list[Any]:
        """As ever."""
        with _Reasons(self.connection):
            return super().fetchall()

    def __next__(self) -> Any:
        with _Reasons(self.connection):
            return super().__next__()


class _Reasons:
    """Within it, SQLite's word that a function of ours failed becomes what that function raised."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._files = connection.files if isinstance(connection, Connection) else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, sqlite3.OperationalError) and self._files is not None and self._files.fault is not None:
            fault, self._files.fault = self._files.fault, None
            raise fault from None


class ShardSpec(NamedTuple):
    """How the records of a table go to files."""

    key: str
    order: str
    """Their order in the files."""
    most: int
    """Records of a file."""
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
"""Table → how its records go to files."""
LARGE: Final = 1_000_000
"""Runs with more requests keep their records in files."""
_IN_FILES: Final = "records_in_files"
"""Name of the value that says that a run keeps its records in files."""


class ShardedTables:
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
        self._files = ShardFiles(folder / FOLDER, self._file_name)
        db.lay_views(self._files, tuple(PACKED))
        self.in_files = db.execute("SELECT 1 FROM meta WHERE name = ?", (_IN_FILES,)).fetchone() is not None
        """Whether records go to files."""
        self._new_records = self._new_characters = 0

    def enable_shards(self) -> None:
        """From now on records go to files; those that are here go at once, and the SQLite file gets small."""
        if not self.in_files:
            with self._writing():
                for table, packed in PACKED.items():
                    where = f"{table} ({packed.order}) WHERE {packed.which}"
                    self._db.execute(f"CREATE INDEX IF NOT EXISTS main.{table}_here ON {where}")
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, 'yes')", (_IN_FILES,))
            self.in_files = True
        self.pack()
        self.shrink()

    def shrink(self) -> None:
        """Gives back what the SQLite file needs no more; where that can't be had now, the file uses it again itself."""
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
        name, spec = self._files.write(table, number, list(records.values())), PACKED[table]
        statement = f"UPDATE main.{table} SET record = ? WHERE {spec.key} = ?"
        if spec.new_rows:
            columns = self._db.columns(table, "?")
            statement = f"INSERT OR REPLACE INTO main.{table} SELECT {columns} FROM main.{table} WHERE {spec.key} = ?"
        with self._writing():
            self._db.execute("INSERT INTO record_files VALUES (?,?,?)", (number, name, len(records)))
            self._db.executemany(statement, ((f"{number}:{row}", key) for row, key in enumerate(records)))

    def _file_name(self, number: int) -> str | None:
        row = self._db.execute("SELECT name FROM record_files WHERE number = ?", (number,)).fetchone()
        return None if row is None else str(row[0])

    # --- lost files -------------------------------------------------------------------------------------------------

    def drop_lost_shards(self) -> int:
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
        shown = f"(SELECT prompt_id FROM main.prompts WHERE request_key IN {gone})"
        with self._writing():
            for table in ("extractions", "reasoning_extractions", "judgements", "follow_ups"):
                self._db.execute(f"DELETE FROM {table} WHERE prompt_id IN {shown}")
            self._db.execute(f"UPDATE follow_ups SET version = NULL, outcome = NULL WHERE request_key IN {gone}")
            self._db.execute(f"DELETE FROM option_scores WHERE request_key IN {gone}")
            self._db.execute(f"DELETE FROM main.responses WHERE request_key IN {gone}")
            self._db.execute("UPDATE record_files SET records = 0 WHERE number = ?", (number,))
