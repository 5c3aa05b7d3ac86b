"""Whether a run is spread over workers by Ray: the options, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.runs.spread.helpers import Helpers
    from mbbq_gen.runs.spread.pool import Spread

_WORKERS = 2
"""Workers where nobody says how many."""


@dataclass(frozen=True)
class HelperOptions:
    """Where stored answers are read and counted, as it was typed."""

    on: Annotated[
        str | None,
        typer.Option(
            help="Read and count by workers of Ray: `ray` starts one here; ray://HOST:PORT or HOST:PORT is there.",
            metavar="WHERE",
        ),
    ] = None
    workers: Annotated[int | None, typer.Option(min=1, help="--on: workers. Default 2.", metavar="N")] = None

    def helpers(self) -> Helpers | None:
        """Who does it; None: this process.

        Raises:
            UsageError: where something is said of workers that there are none of.
            MissingExtraError: where Ray is not installed.
        """
        if self.on is None:
            if self.workers is not None:
                raise UsageError("--workers: goes with --on ray")
            return None
        from mbbq_gen.runs.spread.cluster import check_on
        from mbbq_gen.runs.spread.helpers import Helpers

        check_on(self.on)
        return Helpers(self.on, self.workers or _WORKERS)


@dataclass(frozen=True)
class SpreadOptions:
    """Where a run is asked, as it was typed."""

    on: Annotated[
        str | None,
        typer.Option(
            help="Ask by workers of Ray: `ray` starts one here; ray://HOST:PORT or HOST:PORT is one that is there.",
            metavar="WHERE",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="--on: workers, each with a model of its own. Default 2.", metavar="N")
    ] = None
    gpus_per_worker: Annotated[
        float | None, typer.Option(min=0, help="--on: GPUs that each worker has to itself.", metavar="N")
    ] = None
    shards: Annotated[
        str | None,
        typer.Option(
            help="--on: folder or s3://… that all workers write answers to. Default: in RUN.", metavar="PLACE"
        ),
    ] = None

    def spread(self) -> Spread | None:
        """Where the run is asked; None: in this process.

        Raises:
            UsageError: where something is said of workers that there are none of.
            MissingExtraError: where Ray is not installed.
        """
        if self.on is None:
            for name in ("workers", "gpus_per_worker", "shards"):
                if getattr(self, name) is not None:
                    raise UsageError(f"--{name.replace('_', '-')}: goes with --on ray")
            return None
        from mbbq_gen.runs.spread.cluster import check_on
        from mbbq_gen.runs.spread.pool import Spread

        check_on(self.on)
        return Spread(self.on, self.workers or _WORKERS, self.gpus_per_worker or 0.0, self.shards)
