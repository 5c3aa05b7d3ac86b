"""Options that the commands on statistics share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from mbbq_gen.cli.options import say
from mbbq_gen.runs.names import all_of, one_of

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring import Labels, Metric, Undetected
    from mbbq_gen.scoring.wordings import Wordings
    from mbbq_gen.statistics.panel import Sampling


def studied(paths: list[Path] | None) -> list[Path] | None:
    """The run folders that are meant: a study's file or folder stands for its runs."""
    if not paths:
        return paths
    from mbbq_gen.runs.meant import runs_in

    return runs_in(paths)


RunPaths = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", callback=studied, help="The runs' folders, or a study's file or folder."),
]
MetricNames = Annotated[str | None, typer.Option("--metric", help="Metrics, comma-separated.", metavar="NAME,…")]
ReaderChoice = Annotated[
    str,
    typer.Option(
        "--extractor",
        help="Whose reading of the answers: engine, strict-letter, first-letter, mbbq-like, answer-form, judge:NAME, "
        "or a stored version.",
        metavar="NAME",
    ),
]
CorrectedBy = Annotated[
    str | None,
    typer.Option(
        "--corrected-by",
        help="Also correct for errors of reading, by labels: audit (the verdicts of `mbbq-gen audit`).",
        metavar="SOURCE",
    ),
]


SmallerThan = Annotated[
    float | None,
    typer.Option(
        min=0.0001,
        max=0.9999,
        help="Also test whether each bias (in compare differences too) is shown to be smaller than this, either way.",
        metavar="MARGIN",
    ),
]


WordingsChoice = Annotated[
    str,
    typer.Option(
        "--wordings",
        help="What intervals and tests speak of: fixed (the wordings asked), or random (wordings like them; three or "
        "more are needed).",
    ),
]


@dataclass(frozen=True)
class StatisticsOptions:
    """What every score with an interval depends on."""

    labels: Annotated[str, typer.Option(help="Right answers: published or corrected.")] = "published"
    undetected: Annotated[
        str, typer.Option(help="Undetected answers in the denominators of bias: discard or keep.")
    ] = "discard"
    interval: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")] = 0.95
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples over templates.")] = 2000
    seed: Annotated[int, typer.Option(min=0, help="Seed of resamples and permutations.")] = 0

    def chosen_labels(self) -> Labels:
        """Which right answers hold."""
        from mbbq_gen.scoring import Labels

        return one_of("labels", self.labels, get_args(Labels))

    def chosen_undetected(self) -> Undetected:
        """What is done with answers that were not understood."""
        from mbbq_gen.scoring import Undetected

        return one_of("choice for --undetected", self.undetected, get_args(Undetected))

    def sampling(self, runs: Sequence[Path] = (), wordings: str = "fixed") -> Sampling:
        """The settings of intervals and tests; of runs that looked before they stopped, with wider intervals."""
        from mbbq_gen.runs.honest import honest_sampling
        from mbbq_gen.statistics.panel import Sampling

        given = Sampling(self.interval, self.resamples, self.seed, self.chosen_undetected(), wordings_of(wordings))
        return honest_sampling(given, runs, say)


def usual_sampling(runs: Sequence[Path], wordings: str, seed: int = 0) -> Sampling:
    """The usual intervals, about the wordings asked or wordings like them; wider ones of runs that looked."""
    from mbbq_gen.runs.honest import honest_sampling
    from mbbq_gen.statistics.panel import Sampling

    return honest_sampling(Sampling(seed=seed, wordings=wordings_of(wordings)), runs, say)


def wordings_of(wordings: str) -> Wordings:
    """What intervals and tests speak of."""
    from mbbq_gen.scoring.wordings import Wordings

    return one_of("choice for --wordings", wordings, get_args(Wordings))


def metrics_of(names: str | None, usual: tuple[str, ...]) -> list[Metric]:
    """The metrics of a comma-separated list, or the usual ones."""
    from mbbq_gen.scoring import METRICS

    return [METRICS[name] for name in (all_of("metric", names, list(METRICS)) if names else usual)]


def several(frame: polars.DataFrame, *groupings: str) -> list[str]:
    """Those of the groupings that have several values in the table."""
    from mbbq_gen.scoring import GROUPINGS

    return [name for name in groupings if frame[GROUPINGS[name]].n_unique() > 1]
