"""The tests of a comparison: every level against 0, all levels at once, every pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.crossed import crossed, crossed_groups
from mbbq_gen.statistics.equivalence import smaller_than
from mbbq_gen.statistics.items import item_scores
from mbbq_gen.statistics.panel import Estimate, Panel, number
from mbbq_gen.statistics.significance import (
    TestResult,
    friedman,
    kruskal_wallis,
    untestable,
    wilcoxon,
)
from mbbq_gen.statistics.zero_tests import are_equal, is_zero, missing

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array


@dataclass(frozen=True)
class LevelTests:
    """Tests of levels over the same templates."""

    bias: Panel
    """A group a level: the bias split."""
    frame: polars.DataFrame
    """Its answers."""
    across: str
    column: str
    """The column of what the levels are levels of."""
    levels: Sequence[str]
    margin: float | None
    """What scores and differences are tested to be smaller than."""

    @property
    def _is_crossed(self) -> bool:
        return self.bias.sampling.wordings == "random"

    @property
    def _seed(self) -> int:
        return self.bias.sampling.seed

    def against_zero(self, metric: Metric, place: int, score: Estimate) -> Iterable[TestResult]:
        """Is a level's score 0?"""
        if metric.low >= 0:
            return
        hypothesis = f"{metric.name} of {self.levels[place]} is 0"
        if self._is_crossed:
            yield crossed(score, hypothesis, seed=self._seed)
        else:
            yield is_zero(score, hypothesis, seed=self._seed)
            yield wilcoxon(self.bias.template_scores(metric)[place], f"{hypothesis} in the middle of the templates")
        if self.margin is not None:
            what = f"{metric.name} of {self.levels[place]}"
            yield smaller_than(score, self.margin, what, self.bias.sampling)

    def left_out(self, scores: Sequence[Estimate]) -> tuple[str, ...]:
        """Levels whose score has no interval, where at least two have one."""
        found = [level for level, score in zip(self.levels, scores, strict=True) if score.missing is not None]
        return tuple(found) if len(found) + 2 <= len(self.levels) else ()

    def overall(self, metric: Metric, scores: Sequence[Estimate]) -> Iterable[TestResult]:
        """Do the levels differ?"""
        left_out = self.left_out(scores)
        defined = [place for place, level in enumerate(self.levels) if level not in left_out]
        told = [scores[place] for place in defined]
        hypothesis = f"{metric.name} does not differ across {self.across}"
        if left_out:
            hypothesis += f", leaving out {', '.join(left_out)}"
        if self._is_crossed:
            yield crossed_groups(told, hypothesis, seed=self._seed)
            return
        by_template = self.bias.template_scores(metric)[defined]
        yield are_equal(told, hypothesis, seed=self._seed)
        yield friedman(by_template.T, hypothesis)
        yield kruskal_wallis(list(by_template), hypothesis, "template")
        if (nothing := missing("kruskal_wallis", told, hypothesis)) is not None:
            yield nothing.model_copy(update={"unit": "item"})
        elif metric.is_mean:
            yield kruskal_wallis(self._items(metric, defined), hypothesis, "item")
        else:
            reason = "the metric is no mean over answers: a question has no score of it"
            yield untestable("kruskal_wallis", "item", hypothesis, 0, reason, "not_applicable")

    def _items(self, metric: Metric, places: Sequence[int]) -> list[Array]:
        items = item_scores(self.frame, metric, self.bias.sampling.undetected, [self.column])
        return [items.filter(items[self.column] == self.levels[place])["score"].to_numpy() for place in places]

    def of_pair(
        self, metric: Metric, pair: tuple[int, int], scores: Sequence[Estimate], difference: Estimate
    ) -> Iterable[TestResult]:
        """Have two levels the same score?"""
        one, other = pair
        hypothesis = f"{metric.name} is equal in {self.levels[one]} and {self.levels[other]}"
        if self._is_crossed:
            yield crossed(difference, hypothesis, seed=self._seed)
        else:
            flipped = are_equal([scores[one], scores[other]], hypothesis, seed=self._seed)
            spread = difference.error * difference.effective**0.5
            effect = number(difference.value / spread) if spread > 0 else None
            yield flipped.model_copy(update={"effect": effect, "effect_name": "d_z"})
            by_template = self.bias.template_scores(metric)
            yield wilcoxon(by_template[one] - by_template[other], f"{hypothesis} in the middle of the templates")
        if self.margin is not None:
            what = f"the difference of {metric.name} of {self.levels[one]} and {self.levels[other]}"
            yield smaller_than(difference, self.margin, what, self.bias.sampling)

    def adjusted(self, metric: Metric, pair: tuple[int, int], adjusted: Estimate) -> TestResult:
        """Have two levels the same score, the control questions' taken off?"""
        one, other = (self.levels[place] for place in pair)
        hypothesis = f"{metric.name} minus control is equal in {one} and {other}"
        if self._is_crossed:
            return crossed(adjusted, hypothesis, seed=self._seed)
        return is_zero(adjusted, hypothesis, seed=self._seed)
