"""Sets the confidence level of runs that stopped on interim results, so that intervals hold at any stopping time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.stopping import ALPHA, StoppingRecord
from mbbq_gen.statistics.panel import InferenceSettings

MAX_LISTED: Final = 0.9999


def sequential_inference(
    sampling: InferenceSettings, paths: Sequence[Path], tell: Callable[[str], None]
) -> InferenceSettings:
    """The inference settings of these runs, by `sequential_confidence_level`; `tell` gets a message if they differ."""
    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    stops = [folder.manifest().adaptive for folder in folders if folder.manifest_path.is_file()]
    found = sequential_confidence_level(sampling.confidence, stops)
    if found == sampling.confidence:
        return sampling
    level = ALPHA * (1 - found) / (1 - sampling.confidence)
    told = f"{100 * found:.6g} %" if found < MAX_LISTED else f"more than {100 * MAX_LISTED:.6g} %"
    tell(
        f"asked in rounds: intervals are those for {told}, so that they hold {100 * sampling.confidence:.4g} % at"
        f" whatever round it stopped; p-values are of a fixed sample: hold them to {level:.3g} in place of {ALPHA}"
    )
    return replace(sampling, confidence=found)


def sequential_confidence_level(confidence: float, stops: Iterable[StoppingRecord | None]) -> float:
    """The confidence of intervals over runs that stopped so: a higher one where a run looked before it stopped.

    The error is scaled by the level of the strictest target at the last look over 5 %. This is exact for the targets
    of the run; for other scores it is as cautious as for the strictest target.
    """
    levels = [stop.level for stop in stops if stop is not None and stop.level is not None]
    return 1 - (1 - confidence) * min([*levels, ALPHA]) / ALPHA if levels else confidence
