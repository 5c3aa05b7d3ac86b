"""Options that the commands on statistics share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from mbbq_gen.cli.options import all_of, one_of

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring import Metric
    from mbbq_gen.statistics.panel import Sampling

RunPaths = Annotated[list[Path], typer.Argument(metavar="RUN...", help="The runs' folders.")]
MetricNames = Annotated[str | None, typer.Option("--metric", help="Metrics, comma-separated.", metavar="NAME,…")]
LabelChoice = Annotated[str, typer.Option("--labels", help="Right answers: published or corrected.")]
UndetectedChoice = Annotated[
    str, typer.Option("--undetected", help="Undetected answers in the denominators of bias: discard or keep.")
]
Interval = Annotated[float, typer.Option("--interval", min=0.5, max=0.999, help="Confidence of the intervals.")]
Resamples = Annotated[int, typer.Option("--resamples", min=100, help="Bootstrap resamples over templates.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of resamples and permutations.")]


def metrics_of(names: str | None, usual: tuple[str, ...]) -> list[Metric]:
    """The metrics of a comma-separated list, or the usual ones."""
    from mbbq_gen.scoring import METRICS

    return [METRICS[name] for name in (all_of("metric", names, list(METRICS)) if names else usual)]


def sampling_of(interval: float, resamples: int, seed: int, undetected: str) -> Sampling:
    """The settings of intervals and tests."""
    from mbbq_gen.scoring import Undetected
    from mbbq_gen.statistics.panel import Sampling

    return Sampling(interval, resamples, seed, one_of("choice for --undetected", undetected, get_args(Undetected)))


def several(frame: polars.DataFrame, *groupings: str) -> list[str]:
    """Those of the groupings that have several values in the table."""
    from mbbq_gen.scoring import GROUPINGS

    return [name for name in groupings if frame[GROUPINGS[name]].n_unique() > 1]
