"""Output of commands: results on stdout as text, tables or JSON, messages on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from mbbq_gen.core.files import write_text
from mbbq_gen.core.tables import decoded_lines
from mbbq_gen.core.text import visible_text

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.report.tables import Block

Result = TypeVar("Result", bound=BaseModel)
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that JSON allows but that affect a terminal, or that UTF-8 can't encode."""


def echo(text: str) -> None:
    """Prints text on stdout, with control characters made visible."""
    typer.echo(visible_text(text))


def say(text: str) -> None:
    """Prints a message on stderr, with control characters made visible."""
    typer.echo(visible_text(text), err=True)


def echo_json(text: str) -> None:
    """Prints JSON on stdout, with control characters escaped as JSON does."""
    typer.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def print_json(value: Any) -> None:
    """Prints a value or a model as JSON on stdout; text that UTF-8 can't encode is escaped."""
    if isinstance(value, BaseModel):
        try:
            echo_json(value.model_dump_json(indent=2))
            return
        except PydanticSerializationError:
            value = value.model_dump(mode="json")
    echo_json(json.dumps(value, ensure_ascii=False, indent=2))


def result_console() -> Console:
    """The console for tables: as wide as the terminal, else 160 columns."""
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        """A console that makes control characters in text visible."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            """The segments of an object; Rich adds its styles later."""
            for piece in super().render(renderable, options):
                yield piece if piece.control else Segment(visible_text(piece.text), piece.style)

    return VisibleConsole(markup=False, highlight=False, width=None if sys.stdout.isatty() else 160)


def show_result(found: Result, blocks: Callable[[Result], Iterable[Block]], *, as_json: bool) -> None:
    """Prints a result as JSON, or as paragraphs and tables."""
    if as_json:
        print_json(found)
    else:
        show(blocks(found))


def show(blocks: Iterable[Block]) -> None:
    """Prints paragraphs and tables on stdout."""
    from mbbq_gen.report.tables import print_blocks

    print_blocks(blocks, result_console())


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool = False, title: str = "") -> None:
    """Prints rows as JSON, or as a table with their keys as columns."""
    from mbbq_gen.report.tables import Table

    if as_json:
        print_json(list(rows))
        return
    names = [name.replace("_", " ") for name in (rows[0] if rows else ())]
    words = {True: "yes", False: "no"}
    cells = ([words[cell] if isinstance(cell, bool) else cell for cell in row.values()] for row in rows)
    show([Table(*names, rows=cells, title=title)])


def open_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, or of stdin for `-`; raises as `decoded_lines`."""
    return decoded_lines(path, sys.stdin.buffer if str(path) == "-" else None)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines to an output file; raises as `output_file`."""
    write_text(path, (f"{line}\n" for line in lines))
