from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_terminal_escapes import ESCAPE, check
from tests.support.extraction import Capture, call


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe not UTF-8",
        b"[" * 100_000,
        b'{"schema_version": ' + b"9" * 200_000 + b"}",
        b'{"mbbq_gen": "' + ESCAPE.encode("unicode-escape").replace(b"\\x", b"\\u00") + b'", "config": 1}',
        b"{}",
        b"",
    ],
)
def test_a_hostile_manifest(capsys: Capture, run: Path, tmp_path: Path, content: bytes) -> None:
    (run / "manifest.json").write_bytes(content)
    for command in ("status", "score", "report", "export"):
        options = ["--csv", tmp_path / "tables"] if command == "export" else []
        code, _, err = call(capsys, command, run, *options)
        assert (code, err.count("\n")) == (1, 1), err
        check(err)
