from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import fake_server
from tests.support.extraction import Capture, json_of
from tests.support.stores import change, rows

COMMANDS = (["score", "{run}", "--json"], ["report", "{run}"], ["status", "{run}"], ["explain", "{run}"])
_SCRIPT = """
import json, sys
from mbbq_gen.cli.main import run_command_line
for words in json.loads(sys.argv[1]):
    code = run_command_line(words)
    print(f"=== {words[0]} {code}", flush=True)
"""


def in_read_only(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command that finds a folder read-only: by its mode, or for root, whom modes don't stop, by a mount."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False)
        finally:
            folder.chmod(0o755)
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, str(folder), *command], capture_output=True, text=True, check=False
    )


def _can_be_read_only() -> bool:
    if sys.platform == "win32":
        return False
    if os.geteuid() != 0:
        return True
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
    )


pytestmark = pytest.mark.skipif(not _can_be_read_only(), reason="a folder can't be made read-only here")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    asked = ["--model", "oracle:stereotyped", "--benchmark", "starter", "--languages", "en", "--sample", "5"]
    assert run_command_line(["run", str(path), *asked, "--json"]) == 0
    return path


def without_readings(run: Path, folder: Path) -> None:
    shutil.copytree(run, folder)
    change(folder, "DELETE FROM extractions")


def killed(run: Path, folder: Path) -> None:
    before = folder.with_name("before")
    shutil.copytree(run, before)
    answers = rows(before, "SELECT * FROM responses")
    change(before, "DELETE FROM responses")
    with closing(sqlite3.connect(before / "run.sqlite")) as store:
        store.executemany(f"INSERT INTO responses VALUES ({','.join('?' * len(answers[0]))})", answers)
        store.commit()
        shutil.copytree(before, folder, ignore=shutil.ignore_patterns("*-shm"))


@pytest.mark.parametrize("state", [without_readings, killed])
def test_what_would_have_to_be_written_is_one_line(
    state: Callable[[Path, Path], None], run: Path, run_path: Path
) -> None:
    state(run, run_path)
    ended = in_read_only(run_path, [sys.executable, "-m", "mbbq_gen", "score", str(run_path)])
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert "copy the folder, and use the copy" in ended.stderr


def test_a_run_is_shown_where_nothing_can_be_written(run: Path, run_path: Path, capsys: Capture) -> None:
    truth = json_of(capsys, "score", run)
    shutil.copytree(run, run_path)
    before = {path.name: path.read_bytes() for path in run_path.iterdir()}
    wanted = [[word.format(run=run_path) for word in command] for command in COMMANDS]
    ended = in_read_only(run_path, [sys.executable, "-c", _SCRIPT, json.dumps(wanted)])
    codes = [line for line in ended.stdout.splitlines() if line.startswith("=== ")]
    assert codes == [f"=== {command[0]} 0" for command in COMMANDS], ended.stderr
    assert json.loads(ended.stdout.partition("=== ")[0])["groups"] == truth["groups"]
    assert {path.name: path.read_bytes() for path in run_path.iterdir()} == before


def test_batches_are_shown_as_they_stood(run_path: Path) -> None:
    asked = ["--benchmark", "starter", "--languages", "en", "--sample", "5", "--batch"]
    with fake_server({"batches": {"delay_s": 3600}}, run=run_path) as server:
        model = ["--model", "openai:m", "--base-url", server.openai]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "any")
            assert run_command_line(["run", str(run_path), *model, *asked]) == 0
        before = {path.name: path.read_bytes() for path in run_path.iterdir()}
        command = [sys.executable, "-m", "mbbq_gen", "status", str(run_path), "--json"]
        ended = in_read_only(run_path, command)
    assert ended.returncode == 0, ended.stderr
    assert [batch["state"] for batch in json.loads(ended.stdout)["batches"]] == ["sent"]
    assert {path.name: path.read_bytes() for path in run_path.iterdir()} == before


def test_what_has_to_write_says_so(run: Path, run_path: Path) -> None:
    shutil.copytree(run, run_path)
    ended = in_read_only(run_path, [sys.executable, "-m", "mbbq_gen", "run", str(run_path)])
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "can't lock the run" in ended.stderr
