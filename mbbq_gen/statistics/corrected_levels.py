"""The levels of a comparison with the errors of reading taken off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import grouping_columns
from mbbq_gen.statistics.corrected_scores import (
    confusion_matrices,
    corrected_difference,
    corrected_metric,
    labelled_groups,
    reading_errors,
)
from mbbq_gen.statistics.correction_table import ConfusionMatrix, CorrectedDifference, CorrectedScore
from mbbq_gen.statistics.panel import Sampling
from mbbq_gen.statistics.reading_flags import gap

if TYPE_CHECKING:
    import polars


class CorrectedLevels:
    """Scores and differences of the levels with the errors of reading taken off, on the bias split."""

    def __init__(
        self,
        frame: polars.DataFrame,
        labelled: polars.DataFrame,
        across: str,
        levels: Sequence[str],
        sampling: Sampling,
    ) -> None:
        import polars as pl

        column = grouping_columns([across])[across]
        told = labelled.filter((pl.col("split") == "bias") & pl.col(column).cast(pl.String).is_in(list(levels)))
        groups = labelled_groups(frame.filter(pl.col("split") == "bias"), told, [across], sampling)
        by_level = {group.group[across]: group for group in groups}
        errors = {found.group[across]: found for found in reading_errors(told, [across], sampling.confidence)}
        self._groups = [by_level[level] for level in levels]
        self.errors = [errors.get(level) for level in levels]
        """How often answers of each level are read wrong; None for one without labels."""
        self._told, self._sampling = told, sampling

    def score(self, metric: Metric, place: int) -> CorrectedScore:
        """The corrected score of a level."""
        return corrected_metric(self._groups[place], metric, self._sampling)

    def difference(self, metric: Metric, pair: tuple[int, int]) -> CorrectedDifference:
        """The corrected difference of two levels."""
        return corrected_difference(self._groups[pair[0]], self._groups[pair[1]], metric, self._sampling)

    def error_gap(self, pair: tuple[int, int]) -> float | None:
        """How much more often answers of the first level are read wrong; None where that is not known."""
        first, second = (error.rate.value if (error := self.errors[place]) else None for place in pair)
        return gap(first, second)

    def matrices(self) -> tuple[ConfusionMatrix, ...]:
        """What answers say by how they are read."""
        return tuple(confusion_matrices(self._told, self._sampling.confidence)) if self._told.height else ()
