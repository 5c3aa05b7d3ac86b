"""Every command line in README.md and docs/ names commands and options that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from mbbq_gen.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "reference")]


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Yields page and words of each command line."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for found in re.finditer(r"\bmbbq-gen +([^`\n#]+)", text):
            yield page.name, found[1].split()


def problems(root: Any, words: list[str]) -> list[str]:
    """Returns what is wrong with a command line."""
    command = root
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    options = [re.split(r"[=,.;:)]", word)[0] for word in words if word.startswith("--")]
    return [f"{command.name}: {option}" for option in options if option not in known]


def test_documented_options_exist() -> None:
    root = typer.main.get_command(app)
    found = [(page, problem) for page, words in command_lines() for problem in problems(root, words)]
    assert found == []


def test_an_unknown_option_is_found() -> None:
    root = typer.main.get_command(app)
    assert problems(root, ["data", "show", "--limit", "3", "--many"]) == ["show: --many"]
