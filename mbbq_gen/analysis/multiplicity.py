"""What is tested together: the p values that are adjusted over, and the intervals that hold all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from mbbq_gen.analysis.comparison_table import Comparison, MetricComparison, PairDifference
from mbbq_gen.statistics.hypothesis_tests import holm
from mbbq_gen.statistics.panel import InferenceSettings

Extent = Literal["pairs", "all"]
"""The pairs of one metric in one group; or all pairs, metrics and groups of a comparison."""
FAMILIES: tuple[Extent, ...] = get_args(Extent)


@dataclass(frozen=True)
class HypothesisFamily:
    """What is held together."""

    extent: Extent = "pairs"
    simultaneous: bool = False
    """Whether the intervals of differences hold all at once (Bonferroni)."""

    def sampling(self, sampling: InferenceSettings, pairs: int, all_differences: int) -> InferenceSettings:
        """The confidence of each difference; `all_differences`: over all pairs, metrics and groups."""
        count = pairs if self.extent == "pairs" else all_differences
        if not self.simultaneous or count < 2:
            return sampling
        return replace(sampling, confidence=1 - (1 - sampling.confidence) / count)


def adjust_p_values(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with the p values of each kind of test adjusted over all their pairs and metrics (Holm)."""
    pairs = [pair for comparison in comparisons for metric in comparison.metrics for pair in metric.pairs]
    if not pairs:
        return list(comparisons)
    kinds = [holm([pair.tests[place].p_value for pair in pairs]) for place in range(len(pairs[0].tests))]
    controlled = holm([pair.adjusted_test.p_value for pair in pairs])
    adjusted = iter(
        pair.model_copy(
            update={
                "tests": tuple(test.adjusted(kinds[place][row]) for place, test in enumerate(pair.tests)),
                "adjusted_test": pair.adjusted_test.adjusted(controlled[row]),
            }
        )
        for row, pair in enumerate(pairs)
    )

    def of_metric(metric: MetricComparison) -> MetricComparison:
        own: list[PairDifference] = [next(adjusted) for _ in metric.pairs]
        return metric.model_copy(update={"pairs": tuple(own)})

    return [
        comparison.model_copy(update={"metrics": tuple(of_metric(metric) for metric in comparison.metrics)})
        for comparison in comparisons
    ]
