"""The SQLite database of a run: tables, connections, transactions and error messages.

    instances              key → question, selected or a few-shot example    written by the planner
    prompts                id → messages, request key                        written by the planner
    responses              request key → response                            written once; only errors are replaced
    option_scores          request key × continuation → loglikelihood        written with the response; not normalised
    extractions            prompt × extractor version                        older versions are kept
    reasoning_extractions  prompt × extractor version                        record is NULL without reasoning
    follow_ups             prompt → second turn, its extraction              written before sending
    record_files           number → Parquet file of records                  written before the records move there
    batches                number → batch                                    written before it is submitted
    batch_requests         request × batch                                   written with the batch
    rounds                 request key → round                               of adaptive runs; written before sending
    judges                 name → judge and its prompt                       written before sending
    judgements             judge × prompt, its request key                   written before sending
    judge_replies          judge × request key → response                    as responses

Queried fields are columns; `record` is the complete record as JSON, here or in a Parquet file (`storage.shards`).
`option_order` has one digit for each position: the index of the option there (`201`). `role_N` and `text_N` belong to
the option of index N. The other columns of `instances` are those of an observation; 2⁶³ is subtracted from
`context_id`, because SQLite's integers are signed. Long rows need a rowid: without it, each takes another page.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.records import Extraction, RecordT, Response, decode
from mbbq_gen.storage.shards import RecordFiles

SCHEMA_VERSION: Final = 3
"""Increased by every change of the columns. A store of another version is refused; there is no migration."""

_RESPONSE: Final = """
    request_key TEXT NOT NULL, is_error INTEGER NOT NULL, received_at TEXT NOT NULL, error TEXT, finish_reason TEXT,
    model TEXT, system_fingerprint TEXT, batch_id TEXT, cached INTEGER NOT NULL, input_tokens INTEGER,
    output_tokens INTEGER, reasoning_tokens INTEGER, cached_input_tokens INTEGER, record TEXT NOT NULL
"""
RESPONSE: Final = tuple(column.split()[0] for column in _RESPONSE.split(","))
"""The columns of a response, in the order of `response_row`; the first is the key, the last the record."""
_META: Final = "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS instances (
    key TEXT PRIMARY KEY, benchmark TEXT NOT NULL, version TEXT NOT NULL, split TEXT NOT NULL, language TEXT NOT NULL,
    category TEXT NOT NULL, subcategory TEXT, template_id TEXT NOT NULL, instance_id TEXT NOT NULL, parallel_id TEXT,
    condition TEXT NOT NULL, polarity TEXT NOT NULL, has_single_target INTEGER NOT NULL, unknown_text TEXT NOT NULL,
    groups_swapped INTEGER NOT NULL, proper_names INTEGER, intersectional_contrast TEXT, target_group TEXT,
    non_target_group TEXT, context_id INTEGER NOT NULL, role_0 TEXT, role_1 TEXT, role_2 TEXT,
    gold_index INTEGER NOT NULL, corrected_gold_role TEXT, alignment TEXT, twin TEXT NOT NULL, text_0 TEXT NOT NULL,
    text_1 TEXT NOT NULL, text_2 TEXT NOT NULL, asked INTEGER NOT NULL, record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS instances_by_twin ON instances (twin);
CREATE TABLE IF NOT EXISTS prompts (
    number INTEGER PRIMARY KEY, prompt_id TEXT NOT NULL UNIQUE, instance_key TEXT NOT NULL REFERENCES instances,
    language TEXT NOT NULL, request_key TEXT NOT NULL, variant TEXT NOT NULL, label_style TEXT NOT NULL,
    option_order TEXT NOT NULL, method TEXT NOT NULL, reasoning_effort TEXT, record TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS prompts_by_request ON prompts (request_key);
CREATE TABLE IF NOT EXISTS responses ({_RESPONSE}, PRIMARY KEY (request_key));
CREATE TABLE IF NOT EXISTS option_scores (
    request_key TEXT NOT NULL, number INTEGER NOT NULL, option INTEGER NOT NULL, text TEXT NOT NULL, logprob REAL,
    tokens INTEGER, characters INTEGER NOT NULL, bytes INTEGER NOT NULL, unconditional_logprob REAL,
    PRIMARY KEY (request_key, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS extractions (
    prompt_id TEXT NOT NULL, extractor TEXT NOT NULL, outcome TEXT NOT NULL, option INTEGER, confidence TEXT NOT NULL,
    rule TEXT NOT NULL, spans TEXT NOT NULL, conflicts TEXT NOT NULL, PRIMARY KEY (prompt_id, extractor)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reasoning_extractions (
    prompt_id TEXT NOT NULL, version TEXT NOT NULL, record TEXT, PRIMARY KEY (prompt_id, version)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS follow_ups (
    prompt_id TEXT PRIMARY KEY, number INTEGER NOT NULL, request_key TEXT NOT NULL, reason TEXT NOT NULL,
    turns TEXT NOT NULL, none TEXT NOT NULL, max_tokens INTEGER, version TEXT, outcome TEXT, option INTEGER,
    confidence TEXT, rule TEXT, spans TEXT, conflicts TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS follow_ups_by_request ON follow_ups (request_key, number);
CREATE INDEX IF NOT EXISTS follow_ups_by_number ON follow_ups (number);
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
    judge TEXT NOT NULL REFERENCES judges, {_RESPONSE}, PRIMARY KEY (judge, request_key)
);
"""

Value = str | int | float | None
BATCH: Final = 500
"""Rows of one page of `Database.paged`."""
EXTRACTION: Final = ("outcome", "option", "confidence", "rule", "spans", "conflicts")


class Database:
    """The database of one run. Open it for writing only while holding the run's lock."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Opens the file; UsageError for a store of another version, RunError if it can't be opened or is no store."""
        self.path = path
        self._db: sqlite3.Connection
        with _plain_errors(path):
            if read_only:
                self._db = connect_read_only(path)
            else:
                self._db = sqlite3.connect(path, isolation_level=None)
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute(_META)
                self._db.execute("INSERT OR IGNORE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
            self._db.executescript("PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000")
            found = self.meta("schema_version")
            if found != str(SCHEMA_VERSION):
                self._db.close()
                known = f"store version {found}, this mbbq-gen reads version {SCHEMA_VERSION}"
                raise UsageError(f"{path}: {known}; use the version that made it, or make the run again elsewhere")
            if not read_only:
                self._db.executescript(f"BEGIN;{_SCHEMA}COMMIT")
        self.records = RecordFiles(self._db, path, self._writing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def meta(self, name: str) -> str | None:
        """A value of the table `meta`, or None."""
        found: str | None = self.value("SELECT value FROM meta WHERE name = ?", name)
        return found

    def set_meta(self, name: str, value: str) -> None:
        """Stores a value in the table `meta`."""
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def change(self, *changes: tuple[str, Iterable[Sequence[Value] | Mapping[str, Value]]]) -> None:
        """Runs statements, each once for every row of its parameters, as one transaction; durable when this returns."""
        with self._writing():
            for statement, rows in changes:
                self._db.executemany(statement, rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, rolled back on an error."""
        with _plain_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def text(self, record: str) -> str:
        """The JSON of a stored record, from its table or a file."""
        return record if record.startswith("{") else self.records.record(record)

    def read(self, kind: type[RecordT], record: str) -> RecordT:
        """A stored record, as an object of a class."""
        return decode(kind, self.text(record))

    def query(self, statement: str, parameters: Sequence[str | int] = ()) -> sqlite3.Cursor:
        """The rows of a SELECT."""
        with _plain_errors(self.path):
            return self._db.execute(statement, parameters)

    def extraction_rows(
        self,
        columns: str,
        versions: Mapping[str, Sequence[str]],
        joined: str = "",
        where: str = "",
        parameters: Sequence[str | int] = (),
    ) -> sqlite3.Cursor:
        """Columns of prompts `p` and extractions `e`, in plan order; `versions`: language → extractor versions.

        `joined`: JOIN clauses of further tables; `where`, `parameters`: a further condition.
        """
        wanted = [(language, version) for language, found in versions.items() for version in found]
        pairs = ", ".join(["(?, ?)"] * len(wanted)) or "(NULL, NULL)"
        return self.query(
            f"SELECT {columns} FROM prompts p JOIN extractions e ON e.prompt_id = p.prompt_id {joined}"
            f" WHERE (p.language, e.extractor) IN (VALUES {pairs}) {where} ORDER BY p.number, e.extractor",
            [*(text for pair in wanted for text in pair), *parameters],
        )

    def value(self, statement: str, *parameters: str | int) -> Any:
        """The first column of the first row of a SELECT; None without rows."""
        row = self.query(statement, parameters).fetchone()
        return None if row is None else row[0]

    def paged(
        self, statement: str, *parameters: str | int, add_rows: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a SELECT, read in pages, so that rows may be written meanwhile.

        The last two placeholders of the statement are the number of the last row read and the size of a page; its first
        column is that number. `add_rows` is called when there are no more rows; it adds rows, or returns False.
        """
        last_number, has_more = -1, True
        while has_more:
            rows = self.query(statement, (*parameters, last_number, BATCH)).fetchall()
            yield from rows
            last_number = rows[-1][0] if rows else last_number
            has_more = bool(rows) or add_rows()


@contextmanager
def _plain_errors(path: Path, hint: str = "") -> Iterator[None]:
    """Turns errors of SQLite and the disk into a RunError of one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name, line = getattr(error, "sqlite_errorname", ""), f"{path}: {error}"
        if hint:
            line += f"; {hint}"
        elif name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR"):
            line = f"{path}: can't write ({error}); free some space and repeat the command, nothing is lost"
        elif name in {"SQLITE_NOTADB", "SQLITE_CORRUPT"}:
            line = f"{path}: not a run store ({error}); name another run folder"
        raise RunError(line) from error
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}; fix this and repeat the command") from error


def response_row(response: Response, received_at: str) -> tuple[Value, ...]:
    """A response as a row of `responses` (RESPONSE), without loglikelihoods (table `option_scores`)."""
    usage = response.usage
    record = response if response.scores is None else response.model_copy(update={"scores": ()})
    return (
        *(response.request_key, int(response.error is not None), received_at, response.error, response.finish_reason),
        *(response.model, response.system_fingerprint, response.batch, int(response.cached)),
        *(usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cached_input_tokens),
        record.model_dump_json(),
    )


def extraction_row(found: Extraction) -> tuple[Value, ...]:
    """The columns of an extraction (EXTRACTION)."""
    spans, conflicts = (msgspec.json.encode(part).decode() for part in (found.spans, found.conflicts))
    return found.outcome, found.option, found.confidence, found.rule, spans, conflicts


def read_extraction(row: Sequence[Any]) -> Extraction:
    """The extraction of a row (EXTRACTION)."""
    *values, spans, conflicts = row
    lists = {"spans": json.loads(spans), "conflicts": json.loads(conflicts)}
    return Extraction(**dict(zip(EXTRACTION, values, strict=False)), **lists)


def replace_error(table: str) -> str:
    """The ON CONFLICT action that replaces an error, and never a response."""
    changes = ", ".join(f"{name} = excluded.{name}" for name in RESPONSE[1:])
    return f"DO UPDATE SET {changes} WHERE {table}.is_error = 1"


def marks(number: int) -> str:
    """Placeholders of an SQL statement, separated by commas."""
    return ", ".join("?" * number)


def is_writable(folder: Path) -> bool:
    """Whether files can be created in a folder."""
    return os.access(folder, os.W_OK | os.X_OK)


def connect_read_only(path: Path) -> sqlite3.Connection:
    """A read-only connection, also on read-only disks and in folders of other users.

    SQLite needs a file beside a database even to read it. Where it can't create one, the database is opened as
    immutable; RunError if a killed process left changes that were not merged into it.
    """
    connection = _connect(path, "mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if is_writable(path.parent) or not path.is_file():
            return connection  # its first query raises the error
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size:
            message = "a killed process left changes, and the folder is read-only; copy the folder, and use the copy"
            raise RunError(f"{path.parent}: {message}") from None
        return _connect(path, "mode=ro&immutable=1")
    return connection


def _connect(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)


# --- responses shared between runs -----------------------------------------------------------------------------------

_CACHE_HINT: Final = "name another --cache-dir, nothing of the run is lost"
_CACHE_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS responses (
    request_key TEXT PRIMARY KEY, received_at TEXT NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID
"""


class ResponseCache:
    """The responses in `--cache-dir DIR` (DIR/responses.sqlite), by request key; several runs may use it at once.

    The key covers the provider's kind, the model, every setting that shapes the text, and the messages. Errors are not
    stored.
    """

    def __init__(self, folder: Path) -> None:
        """Opens or creates the cache; UsageError if the folder can't be created."""
        self.path = folder / "responses.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--cache-dir {folder}: {error.strerror or error}; name a folder") from error
        with _plain_errors(self.path, _CACHE_HINT):
            self._db = sqlite3.connect(self.path, timeout=60)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_CACHE_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def find(self, request_keys: Sequence[str]) -> dict[str, Response]:
        """Request key → its cached response, marked as cached."""
        statement = f"SELECT request_key, record FROM responses WHERE request_key IN ({marks(len(request_keys))})"
        with _plain_errors(self.path, _CACHE_HINT):
            rows = self._db.execute(statement, request_keys).fetchall()
        return {key: Response.model_validate_json(record).model_copy(update={"cached": True}) for key, record in rows}

    def keep(self, responses: Sequence[tuple[Response, str]]) -> None:
        """Adds responses with their times (ISO 8601, UTC); existing ones are kept."""
        rows = [
            (response.request_key, received_at, response.model_dump_json())
            for response, received_at in responses
            if response.error is None and not response.cached
        ]
        with _plain_errors(self.path, _CACHE_HINT), self._db:
            self._db.executemany("INSERT OR IGNORE INTO responses VALUES (?,?,?)", rows)
