"""The levels of one comparison over the same templates: their scores, their differences, and what explains these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from mbbq_gen.records import Condition
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import grouping_columns
from mbbq_gen.statistics.ability import Selection, TemplateSelection, split_panels
from mbbq_gen.statistics.agreement import PairAgreement, choices, pair_agreement
from mbbq_gen.statistics.comparison_table import LevelScore, MetricComparison, PairDifference
from mbbq_gen.statistics.comparison_warnings import Doubts
from mbbq_gen.statistics.corrected_levels import CorrectedLevels
from mbbq_gen.statistics.corrected_scores import confidence_shares
from mbbq_gen.statistics.level_tests import LevelTests
from mbbq_gen.statistics.naming_and_lean import parts_of
from mbbq_gen.statistics.panel import Estimate, EstimateScore, Panel, Sampling, excludes_zero, no_score, number
from mbbq_gen.statistics.significance import TestResult, holm
from mbbq_gen.statistics.unread import TippingPoint, UnreadBounds, UnreadPanels, unread_bounds

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class How:
    """How everything is compared."""

    sampling: Sampling
    wide: Sampling
    """Of differences: wider where several must hold at once."""
    margin: float | None
    """What scores and differences are tested to be smaller than."""
    select: Selection | None


class ComparedLevels:
    """The panels of one comparison, made once for all its metrics."""

    def __init__(
        self,
        frame: polars.DataFrame,
        across: str,
        levels: Sequence[str],
        matched: TemplateSelection | None,
        how: How,
        *,
        corrected: CorrectedLevels | None,
        is_cut: bool,
    ) -> None:
        import polars as pl

        self._column, self._levels = grouping_columns([across])[across], list(levels)
        self._sampling, self._wide, self._corrected = how.sampling, how.wide, corrected
        self._frame = frame.filter(pl.col("split") == "bias")
        self._bias, self._control = split_panels(frame, [across], how.sampling)
        self._unread = UnreadPanels(self._bias)
        kept = [name for name in (matched.kept if matched else ()) if name in set(self._bias.templates)]
        self._matched = self._bias.restricted(kept) if len(kept) > 1 else None
        self._why_unmatched = _why_unmatched(matched)
        self._confidences = {found.group[across]: found.shares for found in confidence_shares(self._frame, [across])}
        self._tests = LevelTests(self._bias, self._frame, across, self._column, self._levels, how.margin)
        self._doubts = Doubts(self._bias, self._frame, self._column, self._levels, corrected, is_cut)

    def compare(self, metric: Metric) -> MetricComparison:
        """One metric over all levels."""
        scores, controls = self._bias.estimates(metric), self._control.estimates(metric)
        pairs = self._pairs(metric, scores, controls)
        return MetricComparison(
            metric=metric.name,
            sign=metric.sign,
            n_templates=len(self._bias.templates),
            levels=tuple(self._level(metric, place, scores, controls) for place in range(len(self._levels))),
            overall=tuple(self._tests.overall(metric, scores)),
            left_out=self._tests.left_out(scores),
            pairs=tuple(pairs),
        )

    def agreements(self) -> Iterable[PairAgreement]:
        """How far the levels choose the same roles."""
        answers = choices(self._frame)
        conditions: tuple[Condition, ...] = ("ambiguous", "disambiguated")
        for pair in combinations(self._levels, 2):
            for condition in conditions:
                yield pair_agreement(answers, self._column, pair, condition, self._sampling)

    # --- one level ---

    def _level(
        self, metric: Metric, place: int, scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> LevelScore:
        return LevelScore(
            level=self._levels[place],
            n_items=sum(self._bias.tallies[place].outcomes.values()),
            detection_rate=_plain("detection_rate", self._bias, place),
            accuracy=_plain(f"accuracy_{metric.condition or 'ambiguous'}", self._bias, place),
            control_accuracy=_plain("accuracy_disambiguated", self._control, place),
            score=scores[place].score(self._sampling),
            control=controls[place].score(self._sampling),
            adjusted=scores[place].minus(controls[place]).score(self._sampling),
            bounds=self._bounds(metric, place, scores[place]),
            tests=tuple(self._tests.against_zero(metric, place, scores[place])),
            confidences=self._confidences.get(self._levels[place], {}),
            corrected=self._corrected.score(metric, place) if self._corrected else None,
            reading_error=self._corrected.errors[place] if self._corrected else None,
        )

    def _bounds(self, metric: Metric, place: int, score: Estimate) -> UnreadBounds | None:
        ends = self._unread.ends(metric)
        return None if ends is None else unread_bounds(ends[0][place], ends[1][place], score, self._sampling)

    # --- pairs ---

    def _pairs(self, metric: Metric, scores: Sequence[Estimate], controls: Sequence[Estimate]) -> list[PairDifference]:
        found = [self._pair(metric, pair, scores, controls) for pair in combinations(range(len(self._levels)), 2)]
        adjusted = [holm([pair.tests[number].p_value for pair in found]) for number in range(len(found[0].tests))]
        again = holm([pair.adjusted_test.p_value for pair in found])
        corrected = holm([pair.corrected.p_value if pair.corrected else None for pair in found])
        return [
            pair.model_copy(
                update={
                    "tests": tuple(_holmed(test, adjusted[number][row]) for number, test in enumerate(pair.tests)),
                    "adjusted_test": _holmed(pair.adjusted_test, again[row]),
                    "corrected": pair.corrected and pair.corrected.model_copy(update={"p_adjusted": corrected[row]}),
                }
            )
            for row, pair in enumerate(found)
        ]

    def _pair(
        self, metric: Metric, pair: tuple[int, int], scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> PairDifference:
        one, other = pair
        difference = scores[one].minus(scores[other])
        controlled = controls[one].minus(controls[other])
        adjusted = difference.minus(controlled)
        parts = parts_of(self._bias, metric, pair, difference)
        found = difference.score(self._wide)
        return PairDifference(
            first=self._levels[one],
            second=self._levels[other],
            difference=found,
            bounds=self._pair_bounds(metric, pair, difference),
            tipping_point=self._tipping_point(metric, pair, found),
            tests=tuple(self._tests.of_pair(metric, pair, scores, difference)),
            adjusted=adjusted.score(self._wide),
            adjusted_test=self._tests.adjusted(metric, pair, adjusted),
            matched=self._matched_difference(metric, pair),
            parts=parts,
            warnings=tuple(self._doubts.of_pair(metric, pair, found, controlled, parts)),
            corrected=self._corrected.difference(metric, pair) if self._corrected else None,
        )

    def _pair_bounds(self, metric: Metric, pair: tuple[int, int], difference: Estimate) -> UnreadBounds | None:
        ends = self._unread.ends(metric)
        if ends is None:
            return None
        (low, high), (one, other) = ends, pair
        lowest, highest = low[one].minus(high[other]), high[one].minus(low[other])
        return unread_bounds(lowest, highest, difference, self._wide)

    def _tipping_point(self, metric: Metric, pair: tuple[int, int], found: EstimateScore) -> TippingPoint | None:
        if not excludes_zero(found):
            return None
        return self._unread.tipping_point(metric, pair, first_is_higher=(found.value or 0.0) > 0)

    def _matched_difference(self, metric: Metric, pair: tuple[int, int]) -> EstimateScore:
        if self._matched is None:
            return no_score(self._why_unmatched)
        scores = self._matched.estimates(metric)
        return scores[pair[0]].minus(scores[pair[1]]).score(self._wide)


def _plain(name: str, panel: Panel, place: int) -> float | None:
    return number(float(METRICS[name].value(panel.total)[place]))


def _why_unmatched(matched: TemplateSelection | None) -> str:
    if matched is None:
        return "no answers to disambiguated control questions"
    return f"{matched.n_kept} of {matched.n_templates} templates are above chance in all levels; two are needed"


def _holmed(test: TestResult, p_adjusted: float | None) -> TestResult:
    return test.model_copy(update={"p_adjusted": p_adjusted, "adjustment": "holm"})
