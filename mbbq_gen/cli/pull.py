"""`mbbq-gen data pull`: gets the published files of a benchmark."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from mbbq_gen.cli.options import Json, example, print_json, say
from mbbq_gen.runs.bars import Bar

if TYPE_CHECKING:
    from mbbq_gen.datasets.pull import Pulled

_SHOWN = 5


@example(
    "  mbbq-gen data pull mbbq\n"
    "  mbbq-gen data pull bbq --from BBQ-main.zip --to data\n"
    "  mbbq-gen data pull kobbq --from ~/checkouts/KoBBQ --json"
)
def pull(
    benchmark: Annotated[str, typer.Argument(help="The benchmark's name.", metavar="BENCHMARK")],
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Instead of the authors' repository: an archive or a folder.", metavar="URL|FOLDER|ARCHIVE"
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Where releases are kept; none: $MBBQ_GEN_DATA or the cache directory.", metavar="DIR"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Gets the published files of a benchmark, pinned by commit and checksum, and says where they are.

    A download that was cut off goes on where it stopped. Files that differ from the release are refused, and nothing is
    put in place then. Nothing is done where the release is there already, unchanged. In the default place, --data can
    be left out afterwards.
    """
    from mbbq_gen.datasets.pull import Tools
    from mbbq_gen.datasets.pull import pull as pull_release

    with _Bars() as bars:
        done = pull_release(benchmark, source, to, Tools(progress=bars.step))
    if as_json:
        print_json(_described(done))
        return
    for line in _told(done):
        say(line)
    typer.echo(done.folder)


def _described(done: Pulled) -> dict[str, object]:
    """What was done, as JSON shows it: the record's entries beside the rest."""
    fields = done.model_dump(mode="json")
    record = fields.pop("record")
    return {**fields, **record}


def _told(done: Pulled) -> list[str]:
    """What was done, as a person reads it."""
    files = done.record.files
    size = sum(file.size for file in files)
    pinned = sum(file.pinned for file in files)
    state = "already there and unchanged" if done.outcome == "already_there" else "verified"
    lines = [f"{done.benchmark}: {pinned} of {len(files)} files pinned and {state} ({size / 1e6:.1f} MB)"]
    lines.append(f"licence: {done.record.licence}; from {done.record.source}")
    loose = [file.path for file in files if not file.pinned]
    for what, paths in (
        ("replaced, they had changed since the last pull", done.damaged),
        ("not pinned (no checksum is known, the source is believed)", loose),
        ("not in this source", done.missing),
    ):
        if paths:
            lines.append(f"{what}: {_listed(paths)}")
    return lines


def _listed(paths: list[str] | tuple[str, ...]) -> str:
    return ", ".join(paths[:_SHOWN]) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")


class _Bars:
    """A bar for each stage, in kilobytes; it begins when the stage does, for only then its length is known."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._stage = ""
        self._shown = 0
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def step(self, stage: str, done: int, total: int | None) -> None:
        """Shows how far a stage is."""
        if self._bar is None or stage != self._stage:
            self._stack.close()
            self._bar = self._stack.enter_context(Bar(stage, total and total // 1000, "kB", delay=1.0))
            self._stage, self._shown = stage, 0
        self._bar.advance(done // 1000 - self._shown)
        self._shown = done // 1000
