"""Reads and changes the SQLite file of a run, past the package's own code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def rows(run: Path, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """All rows of a query."""
    with closing(sqlite3.connect(run / "run.sqlite")) as store:
        return store.execute(statement, values).fetchall()


def column(run: Path, statement: str, *values: object) -> list[Any]:
    """The first column of a query's rows."""
    return [row[0] for row in rows(run, statement, *values)]


def change(run: Path, *statements: str) -> None:
    """Executes statements, all or none."""
    with closing(sqlite3.connect(run / "run.sqlite")) as store, store:
        for statement in statements:
            store.execute(statement)
