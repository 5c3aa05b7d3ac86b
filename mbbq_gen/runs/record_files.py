"""Records of large runs, as Parquet files: the run's SQLite file says in which of them a record stands, and where.

    RUN/records/<table>-<number>-<sha256[:16]>.parquet     zstd; record (JSON)
    `record` in the SQLite file                            the JSON itself, or NUMBER:ROW

A file is written beside its place, flushed and renamed before anything says that a record stands in it. Its name holds
the digest of its bytes, so one that was changed is seen. Every connection lays a view over each of the tables in which
`record` is the JSON again, wherever it stands: whoever reads a run needs to know nothing of this
(docs/decisions/0010-storage-and-shards.md).
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from mbbq_gen.errors import RunError

FOLDER: Final = "records"
"""Folder inside the run's."""
MOST_CHARACTERS: Final = 16_000_000
"""A file holds about no more text than that."""
IS_HERE: Final = "record >= '{'"
"""The condition that a record stands in the SQLite file itself: places begin with a digit."""
_HELD: Final = 8 * MOST_CHARACTERS
"""Characters that a reader holds: a place in the plan and the next, with answers, and questions in all languages."""


class RecordFiles:
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
            hint = "mend it and give the same command again, nothing is lost"
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
        hint += f", or ask its requests again: mbbq-gen run {path.parent.parent} --ask-lost"
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise RunError(f"{path}: missing; {hint}") from error
    except OSError as error:
        raise RunError(f"{path}: can't read: {error.strerror or error}") from error
    if not path.name.endswith(f"-{digest(data)}.parquet"):
        raise RunError(f"{path}: damaged (it is not what its name says); {hint}")
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

    files: RecordFiles | None = None

    def execute(self, statement: str, parameters: Any = (), /) -> Rows:
        """As ever, but its rows are `Rows`."""
        return self.cursor(Rows).execute(statement, parameters)

    def lay_views(self, files: RecordFiles, tables: Sequence[str]) -> None:
        """From now on, `record` of these tables is the JSON wherever it stands; they are written to as `main.TABLE`."""
        self.files = files
        self.create_function("kept_record", 1, files.record, deterministic=True)
        for table in tables:
            columns = [name for _, name, *_ in super().execute(f"PRAGMA main.table_info({table})")]
            if columns:
                given = f"CASE WHEN {IS_HERE} THEN record ELSE kept_record(record) END AS record"
                names = ", ".join(given if name == "record" else name for name in columns)
                super().execute(f"CREATE TEMP VIEW {table} AS SELECT {names} FROM main.{table}")


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
