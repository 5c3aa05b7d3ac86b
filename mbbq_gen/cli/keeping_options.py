"""Where a run keeps what it has: the options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from mbbq_gen.errors import UsageError


@dataclass(frozen=True)
class KeepingOptions:
    """How plan and answers are kept, as it was typed."""

    keep: Annotated[
        str | None,
        typer.Option(
            help="shards: keep plan and answers in Parquet files in RUN; runs of over a million requests do anyway.",
            metavar="shards",
        ),
    ] = None
    ask_lost: Annotated[
        bool, typer.Option("--ask-lost", help="Ask again what stood in Parquet files that are missing or damaged.")
    ] = False

    def __post_init__(self) -> None:
        """Refuses other ways of keeping.

        Raises:
            UsageError: where there is no such way.
        """
        if self.keep not in {None, "shards"}:
            raise UsageError(
                f"--keep {self.keep}: unknown; only `shards` can be said, and without it small runs have none"
            )
