"""What could explain a difference, other than a lean: what it must be read with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.scoring.cells import Counts, count_matrix, scenario_matrix
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.missing import LOW_DETECTION
from mbbq_gen.scoring.reasons import FEW_TEMPLATES, MIN_TEMPLATES
from mbbq_gen.statistics.comparison_table import DETECTION_GAP, Parts, WarningCode
from mbbq_gen.statistics.corrected_levels import CorrectedLevels
from mbbq_gen.statistics.panel import Estimate, EstimateScore, Panel, excludes_zero, number
from mbbq_gen.statistics.position import balanced_score, place_test, read_answers
from mbbq_gen.statistics.reading_flags import flags_of, gap
from mbbq_gen.statistics.unread import share_read

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Doubts:
    """The levels of a comparison, asked what else their differences could come from."""

    bias: Panel
    """A group a level: the bias split."""
    frame: polars.DataFrame
    """Its answers."""
    column: str
    """What the levels are levels of."""
    levels: Sequence[str]
    corrected: CorrectedLevels | None
    is_cut: bool
    """Whether templates are left out that some level does not have."""

    def of_pair(
        self, metric: Metric, pair: tuple[int, int], found: EstimateScore, controlled: Estimate, parts: Parts | None
    ) -> Iterable[WarningCode]:
        """What a difference must be read with; `controlled`: the same difference on the control questions."""
        if (share_read(self.bias, metric, pair) or 0.0) < LOW_DETECTION:
            yield "low_detection"
        rates = [self._read(place) for place in pair]
        if abs((rates[0] or 0.0) - (rates[1] or 0.0)) > DETECTION_GAP:
            yield "detection_differs"
        read_gap = gap(*rates) or 0.0
        yield from flags_of(found, read_gap, self.corrected.error_gap(pair) if self.corrected else None)
        is_found = excludes_zero(found)
        if is_found and self._undetected_could_explain(metric, pair, found):
            yield "undetected_could_explain"
        if is_found and parts is not None and not excludes_zero(parts.lean):
            yield "ability_could_explain"
        if is_found and self._position_could_explain(metric, pair):
            yield "position_could_explain"
        if excludes_zero(controlled.score(self.bias.sampling)):
            yield "control_differs"
        templates = len(self.bias.templates) if found.value is None else found.n_templates
        if templates < MIN_TEMPLATES:
            yield "too_few_templates"
        elif templates < FEW_TEMPLATES:
            yield "few_templates"
        if self.is_cut:
            yield "templates_left_out"

    def _read(self, place: int) -> float | None:
        return number(float(METRICS["detection_rate"].value(self.bias.total)[place]))

    def _undetected_could_explain(self, metric: Metric, pair: tuple[int, int], found: EstimateScore) -> bool:
        """Whether the difference loses its sign if unread answers had been most against it."""
        if metric.extremes is None or found.value is None:
            return False
        upper, lower = pair if found.value > 0 else pair[::-1]
        totals = self.bias.cells.sum(axis=1)
        least, most = (
            metric.value(Counts(totals @ scenario_matrix(scenario) @ count_matrix(), "keep"))
            for scenario in metric.extremes
        )
        return bool(least[upper] <= most[lower])

    def _position_could_explain(self, metric: Metric, pair: tuple[int, int]) -> bool:
        """Whether places are preferred in a level, and the difference is not sure once orders are balanced."""
        import polars as pl

        sampling = self.bias.sampling
        halves = [self.frame.filter(pl.col(self.column).cast(pl.String) == self.levels[place]) for place in pair]
        p_values = [place_test(read_answers(half), seed=sampling.seed).p_value for half in halves]
        if all(p is not None and p >= 0.05 for p in p_values):
            return False
        balanced = [balanced_score(half, metric, sampling).balanced for half in halves]
        values = [score.value for score in balanced if score.value is not None]
        errors = [score.standard_error for score in balanced if score.standard_error is not None]
        if len(values) < 2 or len(errors) < 2:
            return True  # orders that can't be balanced: the design itself puts some role in some place
        return abs(values[0] - values[1]) < 1.96 * math.hypot(*errors)
