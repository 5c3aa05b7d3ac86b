"""Options that several commands take, and how their texts are read."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from mbbq_gen.errors import DataError, RunError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.resources import Resources

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")]
Packs = Annotated[
    Path | None, typer.Option("--packs", metavar="DIR", help="Your own language packs; they come before ours.")
]
PriceFile = Annotated[
    Path | None,
    typer.Option("--price-file", metavar="TOML", help="Your own prices; they come before those of genai-prices."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show both splits, every footnote, and how the answers were read.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def resources(packs: Path | None) -> Resources:
    """Where language packs are looked for."""
    from mbbq_gen.resources import Resources

    return Resources(packs=packs)


def data_folder(benchmark: str, data: Path | None) -> Path | None:
    """The folder of a benchmark's files: what the user gave, else the release that `data pull` put on this machine."""
    from mbbq_gen.datasets.pull import benchmark_folder

    return benchmark_folder(benchmark, data)


@contextmanager
def open_lines(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a UTF-8 text file, or of stdin for `-`.

    Raises:
        UsageError: where it can't be opened.
        DataError: where it is not UTF-8; names the line.
    """
    if str(path) == "-":
        yield iter(sys.stdin)
        return
    try:
        stream = path.open(encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    with stream:
        yield _decoded(stream, path)


def _decoded(stream: TextIO, path: Path) -> Iterator[str]:
    read = 0
    try:
        for line in stream:
            read += 1
            yield line
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 after line {read} ({error.reason}); save the file as UTF-8") from error


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines to a file that appears only once it is whole.

    Raises:
        RunError: where it can't be written.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(f"{line}\n" for line in lines)
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


_ACTING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that JSON may hold as they are and that a terminal would obey, or that have no UTF-8."""


def print_json(value: Any) -> None:
    """Prints a value as JSON on stdout; what a terminal would obey is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    typer.echo(_ACTING.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def result_console() -> Console:
    """Where tables go: stdout, as wide as the terminal, and wide enough for any table where it is not one."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    return Console(markup=False, highlight=False, width=width)


def say(text: str) -> None:
    """Says something beside the result, on stderr."""
    typer.echo(text, err=True)


def example(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds an example to a command's help."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command.__doc__ = f"{inspect.getdoc(command) or ''}\n\n\b\nExample:\n{text.rstrip()}\n"
        return command

    return add
