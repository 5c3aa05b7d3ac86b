from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.extraction import Capture, call
from tests.support.stores import rows

OLD = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES ('schema_version', '1');
CREATE TABLE instances (key TEXT PRIMARY KEY, record TEXT NOT NULL);
"""


@pytest.mark.parametrize("command", ["run", "status", "score", "extract"])
def test_a_store_of_another_version_is_refused(capsys: Capture, run_path: Path, command: str) -> None:
    given = ["--model", "oracle:perfect", "--benchmark", "starter", "--languages", "en", "--sample", "4"]
    assert call(capsys, "run", run_path, *given)[0] == 0
    (run_path / "run.sqlite").unlink()
    with closing(sqlite3.connect(run_path / "run.sqlite")) as store:
        store.executescript(OLD)
    code, out, err = call(capsys, command, run_path, *(given if command == "run" else []))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(run_path / "run.sqlite") in err
    assert rows(run_path, "SELECT count(*) FROM sqlite_master WHERE type = 'table'") == [(2,)]
