"""A small run whose answers are of every kind, for the commands that read, explain and audit answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line

SCRIPT = Path(__file__).parents[1] / "data" / "reading" / "script.jsonl"
"""Answers that we made up, hostile ones among them; the presentation's id picks one of its language."""
Capture = pytest.CaptureFixture[str]
STARTER = ("--benchmark", "starter", "--languages", "en,es,nl,tr")
"""What imported logs are about; all 22 languages would take as many seconds as the logs themselves."""


def make_run(folder: Path, sample: int = 24) -> Path:
    """A run over the starter questions in English and Turkish, answered by the script."""
    arguments = ["run", str(folder), "--model", f"scripted:{SCRIPT}", "--benchmark", "starter", "--languages", "en,tr"]
    # Some answers fail on purpose: 1 says that answers are still missing.
    assert run_command_line([*arguments, "--variants", "bare,letters", "--sample", str(sample)]) in {0, 1}
    return folder


def copy_run(run: Path, folder: Path) -> Path:
    """A copy that a test may write into."""
    return Path(shutil.copytree(run, folder / "run"))


def call(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, without what was printed before it."""
    capsys.readouterr()
    code = run_command_line([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def succeed(capsys: Capture, *arguments: object, quiet: bool = False) -> str:
    """Stdout of a command that must succeed, and say nothing on stderr if it is to be `quiet`."""
    code, out, err = call(capsys, *arguments)
    assert (code, err) == (0, "" if quiet else err), err
    return out


def json_of(capsys: Capture, *arguments: object, quiet: bool = False) -> Any:
    """What a command prints with `--json`; it must succeed, and say nothing on stderr if it is to be `quiet`."""
    return json.loads(succeed(capsys, *arguments, "--json", quiet=quiet))


def stderr_of(capsys: Capture, *arguments: object, code: int = 2) -> str:
    """Stderr of a command that must end with `code`; one that is used wrongly prints nothing else."""
    found, out, err = call(capsys, *arguments)
    assert found == code, err
    assert code != 2 or not out
    return err


def start(*arguments: object) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "mbbq_gen", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def listed(capsys: Capture, run: Path, *arguments: object) -> list[dict[str, Any]]:
    """Readings of a run, as `explain RUN` lists them."""
    return list(json_of(capsys, "explain", run, "--limit", 1000, *arguments)["listed"])
