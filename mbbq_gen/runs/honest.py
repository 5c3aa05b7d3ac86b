"""Intervals of runs that stopped on what they saw: as wide as they must be to hold at whatever moment that was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mbbq_gen.runs.folder import RunFolder
from mbbq_gen.runs.goals import ALPHA, Stopping
from mbbq_gen.statistics.panel import Sampling

MOST_TOLD: Final = 0.9999


def honest_sampling(sampling: Sampling, paths: Sequence[Path], tell: Callable[[str], None]) -> Sampling:
    """The settings of intervals over these runs, as `honest_confidence` says; `tell` hears what is other than usual."""
    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    stops = [folder.manifest().stopping for folder in folders if folder.manifest_path.is_file()]
    found = honest_confidence(sampling.confidence, stops)
    if found == sampling.confidence:
        return sampling
    level = ALPHA * (1 - found) / (1 - sampling.confidence)
    told = f"{100 * found:.6g} %" if found < MOST_TOLD else f"more than {100 * MOST_TOLD:.6g} %"
    tell(
        f"asked in rounds: intervals are those for {told}, so that they hold {100 * sampling.confidence:.4g} % at"
        f" whatever round it stopped; p-values are of a fixed sample: hold them to {level:.3g} in place of {ALPHA}"
    )
    return replace(sampling, confidence=found)


def honest_confidence(confidence: float, stops: Iterable[Stopping | None]) -> float:
    """The confidence of intervals over runs that stopped so: a higher one where a run looked before it stopped.

    The error is made smaller in the proportion of the level of the strictest goal at the last look to 5 %. It holds for
    the goals that the run was after; of other scores it is as cautious as for the strictest of them.
    """
    levels = [stop.level for stop in stops if stop is not None and stop.level is not None]
    return 1 - (1 - confidence) * min([*levels, ALPHA]) / ALPHA if levels else confidence
