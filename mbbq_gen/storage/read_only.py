"""Opens runs that can't be written: on read-only disks, in archives, in folders of other users.

SQLite needs a file beside a database even to read it. Where it can't create one, the database is opened as immutable;
where that is not enough (a killed process left a write-ahead log, or extractions are to be added), a copy in the
temporary folder is used, which ends with the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Final

from mbbq_gen.storage.shards import Connection

_copies: Final[dict[Path, Path]] = {}
"""Database → its copy, of this process: whoever opens it later sees what was added."""


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder."""
    return os.access(folder, os.W_OK | os.X_OK)


def connect_read_only(path: Path) -> Connection:
    """A connection that only reads a database, wherever it stands.

    Raises:
        sqlite3.Error: where it can't be read.
    """
    copy = _copies.get(path.absolute())
    if copy is not None:
        return _connect(copy, "mode=ro")
    connection = _connect(path, "mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        if is_writable(path.parent) or not path.is_file():
            return connection  # whoever asks it first hears what is wrong
        connection.close()
        if _log_of(path).is_file() and _log_of(path).stat().st_size:
            return _connect(copy_elsewhere(path), "mode=ro")
        return _connect(path, "mode=ro&immutable=1")
    return connection


def copy_elsewhere(path: Path) -> Path:
    """The copy of a database that is used instead of it until the process ends.

    Raises:
        OSError: where there is no room for it.
    """
    key = path.absolute()
    if key not in _copies:
        folder = Path(tempfile.mkdtemp(prefix="mbbq-gen-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for file in (path, _log_of(path)):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
        _copies[key] = folder / path.name
    return _copies[key]


def _log_of(path: Path) -> Path:
    """Where SQLite keeps what was written last."""
    return path.with_name(f"{path.name}-wal")


def _connect(path: Path, how: str) -> Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(address, uri=True, isolation_level=None, factory=Connection)
