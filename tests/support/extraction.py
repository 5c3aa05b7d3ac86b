"""A small run whose answers are of every kind, for the commands that read, explain and audit answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line

SCRIPT = Path(__file__).parents[1] / "data" / "reading" / "script.jsonl"
"""Answers that we made up, hostile ones among them; the presentation's id picks one of its language."""
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


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, without what was printed before it."""
    capsys.readouterr()
    code = run_command_line([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def listed(capsys: pytest.CaptureFixture[str], run: Path, *arguments: object) -> list[dict[str, Any]]:
    """Readings of a run, as `explain RUN` lists them."""
    code, out, err = call(capsys, "explain", run, "--limit", 1000, "--json", *arguments)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["listed"]
    return found
