"""The reference of all commands as a Markdown page, made of their own help texts.

python -m mbbq_gen.cli.reference > docs/commands.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.testing import CliRunner

from mbbq_gen.cli.app import app

WIDTH = 100
"""Columns of a help text on the page."""

_HEAD = """\
# Commands

Every command with its help, as `mbbq-gen COMMAND --help` prints it. Exit codes: 0 done; 1 the work failed, or a check
found something; 2 wrong use or bad input; 130 stopped with Ctrl-C. Results go to stdout, everything else to stderr.
"""


def reference() -> str:
    """The page: a heading and a help text for each command."""
    parts = [_HEAD]
    for names in _commands(typer.main.get_command(app), ()):
        shown = CliRunner().invoke(app, [*names, "--help"], prog_name="mbbq-gen", terminal_width=WIDTH, color=False)
        parts.append(f"## `{' '.join(('mbbq-gen', *names))}`\n\n```text\n{shown.stdout.strip()}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words that call each command that does something, in the order of the help."""
    children: dict[str, Any] | None = getattr(command, "commands", None)
    if children is None:
        yield names
        return
    for name, child in children.items():
        yield from _commands(child, (*names, name))


if __name__ == "__main__":
    sys.stdout.write(reference())
