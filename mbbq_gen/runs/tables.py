"""The tables of a run's SQLite file: how it is opened, changed whole or not at all, and what its errors say.

    instances      key → the question, asked or an example  written by the plan
    presentations  id → what is sent, its request key      written by the plan
    responses      request key → what came back            written once; replaced only where it was an error
    option_scores  request key × answer → its likelihood   written with the response; sums, not normalised
    extractions    presentation × extractor version        written beside, never over, an older reading
    thoughts       presentation × reader's version         what was thought before the answer; NULL: nothing was
    record_files   number → a file that records stand in   written before they do, in runs that keep shards
    batches        number → what was sent as one batch     written before it is sent (`runs.batch_ledger`)
    batch_requests request × batch                         written with it
    rounds         request key → the round that asks it    written before it is asked, in runs in rounds (`runs.rounds`)
    judges         name → the second reader, its prompt    written before it is asked (`runs.judging.ledger`)
    judgements     judge × presentation, its request key   written before it is asked
    judge_replies  judge × request key → what came back    as responses are

Records of instances, presentations and responses may stand in Parquet files (`runs.packing`). All statements here and
elsewhere read views of these tables that hold the records wherever they stand; what changes a table says `main.TABLE`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from mbbq_gen.errors import RunError
from mbbq_gen.runs.packing import PackedRecords
from mbbq_gen.runs.read_only import connect_read_only
from mbbq_gen.runs.record_files import Connection

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS instances (
    key TEXT PRIMARY KEY, benchmark TEXT NOT NULL, split TEXT NOT NULL, language TEXT NOT NULL, category TEXT NOT NULL,
    template_id TEXT NOT NULL, condition TEXT NOT NULL, polarity TEXT NOT NULL, alignment TEXT, twin TEXT NOT NULL,
    asked INTEGER NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS instances_by_twin ON instances (twin);
CREATE TABLE IF NOT EXISTS presentations (
    number INTEGER PRIMARY KEY, presentation_id TEXT NOT NULL UNIQUE, instance_key TEXT NOT NULL REFERENCES instances,
    language TEXT NOT NULL, request_key TEXT NOT NULL, record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS presentations_by_request ON presentations (request_key);
CREATE TABLE IF NOT EXISTS responses (
    request_key TEXT PRIMARY KEY, is_error INTEGER NOT NULL, received_at TEXT NOT NULL, record TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS option_scores (
    request_key TEXT NOT NULL, number INTEGER NOT NULL, option INTEGER NOT NULL, text TEXT NOT NULL, logprob REAL,
    tokens INTEGER, characters INTEGER NOT NULL, bytes INTEGER NOT NULL, unconditional REAL,
    PRIMARY KEY (request_key, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS extractions (
    presentation_id TEXT NOT NULL, extractor TEXT NOT NULL, outcome TEXT NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (presentation_id, extractor)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS thoughts (
    presentation_id TEXT NOT NULL, version TEXT NOT NULL, record TEXT, PRIMARY KEY (presentation_id, version)
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
    judge TEXT NOT NULL REFERENCES judges, number INTEGER NOT NULL, presentation_id TEXT NOT NULL,
    request_key TEXT NOT NULL, shown TEXT NOT NULL, chosen_by TEXT NOT NULL, PRIMARY KEY (judge, presentation_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS judgements_by_number ON judgements (judge, number);
CREATE INDEX IF NOT EXISTS judgements_by_request ON judgements (judge, request_key, number);
CREATE TABLE IF NOT EXISTS judge_replies (
    judge TEXT NOT NULL REFERENCES judges, request_key TEXT NOT NULL, is_error INTEGER NOT NULL,
    received_at TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (judge, request_key)
) WITHOUT ROWID;
"""


class RunTables:
    """The tables of one run. Open it for writing under the run's lock only."""

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
        self.records = PackedRecords(self._db, path, folder or path.parent, self._writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def meta(self, name: str) -> str | None:
        """A value kept beside the tables, or None."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, name: str, value: str) -> None:
        """Keeps a value beside the tables."""
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def has_table(self, name: str) -> bool:
        """Whether the file has a table: one that an older version made, opened for reading, may lack the newer ones."""
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
        """The rows that a SELECT gives: what looks things up in a run without a place here (`runs.lookup`)."""
        with _plain_errors(self.path):
            return self._db.execute(statement, parameters)


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite and the disk say into one line that a user can act on."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise RunError(_describe(error, path)) from error
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}; mend it and give the same command again") from error


def _describe(error: sqlite3.DatabaseError, path: Path) -> str:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
        return f"{path}: can't write ({error}); free some space and give the same command again, nothing is lost"
    if name in {"SQLITE_NOTADB", "SQLITE_CORRUPT"}:
        return f"{path}: not a run store ({error}); name another run folder"
    return f"{path}: {error}"
