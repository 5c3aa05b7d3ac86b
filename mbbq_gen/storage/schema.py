"""The SQLite database of a run: tables, transactions and error messages.

    instances              key → question, selected or a few-shot example    written by the planner
    prompts                id → messages, request key                        written by the planner
    responses              request key → response                            written once; only errors are replaced
    option_scores          request key × continuation → loglikelihood        written with the response; not normalised
    extractions            prompt × extractor version                        older versions are kept
    reasoning_extractions  prompt × extractor version                        record is NULL where no reasoning was given
    record_files           number → Parquet file of records                  written before the records move there
    batches                number → batch                                    written before it is submitted
    batch_requests         request × batch                                   written with the batch
    rounds                 request key → round                               of adaptive runs; written before sending
    judges                 name → judge and its prompt                       written before sending
    judgements             judge × prompt, its request key                   written before sending
    judge_replies          judge × request key → response                    as responses

Records of instances, prompts and responses may be in Parquet files (`storage.shards`). All statements read views of
these tables that include those records; statements that change a table name it `main.TABLE`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from mbbq_gen.core.errors import RunError
from mbbq_gen.storage.read_only import connect_read_only
from mbbq_gen.storage.shards import Connection, ShardedTables

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS instances (
    key TEXT PRIMARY KEY, benchmark TEXT NOT NULL, split TEXT NOT NULL, language TEXT NOT NULL, category TEXT NOT NULL,
    template_id TEXT NOT NULL, condition TEXT NOT NULL, polarity TEXT NOT NULL, alignment TEXT, twin TEXT NOT NULL,
    asked INTEGER NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS instances_by_twin ON instances (twin);
CREATE TABLE IF NOT EXISTS prompts (
    number INTEGER PRIMARY KEY, prompt_id TEXT NOT NULL UNIQUE, instance_key TEXT NOT NULL REFERENCES instances,
    language TEXT NOT NULL, request_key TEXT NOT NULL, record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS prompts_by_request ON prompts (request_key);
CREATE TABLE IF NOT EXISTS responses (
    request_key TEXT PRIMARY KEY, is_error INTEGER NOT NULL, received_at TEXT NOT NULL, record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS option_scores (
    request_key TEXT NOT NULL, number INTEGER NOT NULL, option INTEGER NOT NULL, text TEXT NOT NULL, logprob REAL,
    tokens INTEGER, characters INTEGER NOT NULL, bytes INTEGER NOT NULL, unconditional_logprob REAL,
    PRIMARY KEY (request_key, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS extractions (
    prompt_id TEXT NOT NULL, extractor TEXT NOT NULL, outcome TEXT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (prompt_id, extractor)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reasoning_extractions (
    prompt_id TEXT NOT NULL, version TEXT NOT NULL, record TEXT, PRIMARY KEY (prompt_id, version)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record_files (number INTEGER PRIMARY KEY, name TEXT NOT NULL, records INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, service_id TEXT, record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS batch_requests (
    request_key TEXT NOT NULL, batch INTEGER NOT NULL REFERENCES batches, PRIMARY KEY (request_key, batch)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rounds (request_key TEXT PRIMARY KEY, round INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS judges (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS judgements (
    judge TEXT NOT NULL REFERENCES judges, number INTEGER NOT NULL, prompt_id TEXT NOT NULL,
    request_key TEXT NOT NULL, shown TEXT NOT NULL, chosen_by TEXT NOT NULL, PRIMARY KEY (judge, prompt_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS judgements_by_number ON judgements (judge, number);
CREATE INDEX IF NOT EXISTS judgements_by_request ON judgements (judge, request_key, number);
CREATE TABLE IF NOT EXISTS judge_replies (
    judge TEXT NOT NULL REFERENCES judges, request_key TEXT NOT NULL, is_error INTEGER NOT NULL,
    received_at TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (judge, request_key)
) WITHOUT ROWID;
"""


class Database:
    """The database of one run. Open it for writing only while holding the run's lock."""

    def __init__(self, path: Path, *, read_only: bool = False, folder: Path | None = None) -> None:
        """Opens the file; `folder`: the run's, where the file is a copy outside it."""
        self.path = path
        self._db: Connection
        with _plain_errors(path):
            if read_only:
                self._db = connect_read_only(path)
            else:
                self._db = sqlite3.connect(path, isolation_level=None, factory=Connection)
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.executescript(_SCHEMA)
                self._db.execute("INSERT OR IGNORE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
            self._db.execute("PRAGMA temp_store = MEMORY")
            found = self.meta("schema_version")
        if found != str(SCHEMA_VERSION):
            raise RunError(f"{path}: store version {found}, this mbbq-gen reads version {SCHEMA_VERSION}")
        self.records = ShardedTables(self._db, path, folder or path.parent, self._writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def meta(self, name: str) -> str | None:
        """The value of that name in the table `meta`, or None."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, name: str, value: str) -> None:
        """Stores a value in the table `meta`."""
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def has_table(self, name: str) -> bool:
        """Whether the table exists: a read-only database of an older version may lack newer ones."""
        found = self._db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
        return found.fetchone() is not None

    def change(self, *changes: tuple[str, Iterable[Sequence[str | int | None]]]) -> None:
        """Runs statements, each once for every row of its parameters, as one transaction; durable when this returns."""
        with self._writing():
            for statement, rows in changes:
                self._db.executemany(statement, rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction: all of it or nothing."""
        with _plain_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._roll_back()
                raise
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def query(self, statement: str, parameters: Sequence[str | int] = ()) -> sqlite3.Cursor:
        """The rows of a SELECT."""
        with _plain_errors(self.path):
            return self._db.execute(statement, parameters)


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turns errors of SQLite and the disk into a RunError of one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise RunError(_describe(error, path)) from error
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}; fix this and repeat the command") from error


def _describe(error: sqlite3.DatabaseError, path: Path) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return f"{path}: can't write ({error}); free some space and repeat the command, nothing is lost"
    if name in {"SQLITE_NOTADB", "SQLITE_CORRUPT"}:
        return f"{path}: not a run store ({error}); name another run folder"
    return f"{path}: {error}"
