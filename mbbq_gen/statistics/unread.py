"""What the unread answers could have changed: bounds with an interval, and the tipping point of a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mbbq_gen.records import Record
from mbbq_gen.scoring.cells import Scenario, scenario_matrix
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.missing import OneEnd, missing_interval
from mbbq_gen.statistics.panel import Estimate, Panel, Sampling, number

_STEPS = 12
"""Of the bisection for the tipping point: 2⁻¹² of the unread answers."""


class UnreadBounds(Record):
    """A number, had all unread answers been of the kind that makes it lowest, or highest."""

    low: float | None
    high: float | None
    interval_low: float | None
    """Lower end of an interval for sampling and for what was not read (Imbens & Manski 2004); None: no interval."""
    interval_high: float | None


class TippingPoint(Record):
    """How many of the unread answers must have been against a difference for it to be no longer found."""

    share: float | None
    """Share of the unread answers of both levels, the others being like those read; None: all would not be enough."""
    read_rate: float | None
    """The same as a rate: answers read, of these and of the ones that must have been against it."""


class UnreadPanels:
    """The groups of a panel, had their unread answers been something."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._supposed: dict[Scenario, Panel] = {}

    def ends(self, metric: Metric) -> tuple[list[Estimate], list[Estimate]] | None:
        """The metric of every group at its lowest and at its highest; None for one that unread answers don't touch."""
        if metric.extremes is None:
            return None
        low, high = (self._all(scenario).estimates(metric) for scenario in metric.extremes)
        return low, high

    def _all(self, scenario: Scenario) -> Panel:
        if scenario not in self._supposed:
            sampling = replace(self._panel.sampling, undetected="keep", resamples=1)
            matrices = [scenario_matrix(scenario)] * len(self._panel.groups)
            self._supposed[scenario] = self._panel.moved(matrices, sampling)
        return self._supposed[scenario]

    def tipping_point(self, metric: Metric, pair: tuple[int, int], *, first_is_higher: bool) -> TippingPoint | None:
        """Where the difference of two groups is no longer found; None where there is nothing unread."""
        if metric.extremes is None:
            return None
        counts = self._panel.total
        stem = "answered" if metric.condition is None else f"{metric.condition}_all"
        asked = float(sum(counts[stem][place] for place in pair))
        read = float(sum((metric.share_read(counts) * counts[stem])[place] for place in pair))
        if not asked > read:
            return None
        pair = pair if first_is_higher else pair[::-1]
        if self._is_found(metric, pair, metric.extremes, 1.0):
            return TippingPoint(share=None, read_rate=None)
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._is_found(metric, pair, metric.extremes, middle) else (low, middle)
        return TippingPoint(share=high, read_rate=read / (read + high * (asked - read)))

    def _is_found(self, metric: Metric, pair: tuple[int, int], scenarios: tuple[Scenario, ...], share: float) -> bool:
        """Whether the first is higher for sure, that share of the unread answers being against it."""
        import numpy as np

        as_read = np.eye(self._panel.cells.shape[-1])
        matrices = [as_read + share * (scenario_matrix(scenario) - as_read) for scenario in scenarios]
        part = self._panel.of_groups(pair).moved(matrices, replace(self._panel.sampling, resamples=1))
        one, other = part.estimates(metric)
        found = one.minus(other).score(part.sampling)
        return found.analytic_low is not None and found.analytic_low > 0


def unread_bounds(low: Estimate, high: Estimate, sampling: Sampling) -> UnreadBounds:
    """The bounds of a number whose lowest and highest values are these estimates."""
    import numpy as np

    effective = np.array(min(low.effective, high.effective))
    ends = [OneEnd(np.array(end.value), np.array(end.error)) for end in (low, high)]
    below, above = missing_interval(ends[0], ends[1], effective, sampling.confidence)
    rooms = [end.room(sampling.confidence) for end in (low, high)]
    lowest = number(float(below)) if rooms[0] is None else number(min(float(below), rooms[0].low))
    highest = number(float(above)) if rooms[1] is None else number(max(float(above), rooms[1].high))
    if lowest is not None and highest is not None:
        lowest = number(low.over_wordings((lowest, low.value), sampling.confidence)[0])
        highest = number(high.over_wordings((high.value, highest), sampling.confidence)[1])
    return UnreadBounds(
        low=number(low.value),
        high=number(high.value),
        interval_low=None if lowest is None else max(lowest, low.ends[0]),
        interval_high=None if highest is None else min(highest, high.ends[1]),
    )


def share_read(panel: Panel, metric: Metric, places: Sequence[int]) -> float | None:
    """The least share of the answers in the metric's contexts that could be read in any of these groups."""
    shares = [number(float(metric.share_read(panel.total)[place])) for place in places]
    return min((share for share in shares if share is not None), default=None)
