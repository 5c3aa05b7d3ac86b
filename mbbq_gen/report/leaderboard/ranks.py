"""Ranges of ranks: how high and how low a model may stand, by what its intervals allow.

A model surely stands above another where the difference of their scores, paired by template, is farther from 0 than
chance explains, over all pairs of a table at once (Bonferroni). Its best rank is then one more than the number of
models surely above it, its worst the number of models less those surely below it (as the rank confidence sets of
Mogstad, Romano, Shaikh & Wilhelm 2024, with a simpler correction). Models that nothing tells apart share a range.

An accuracy is better the higher it is. A bias is better the nearer it is to 0, whichever side it is on: |a| < |b| is
sure where b − a and b + a both are on one side of 0 for sure, since b² − a² is their product.
"""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.records import Record
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.panel import Estimate, combine


class RankRange(Record):
    """The ranks that a model may have."""

    best: int
    """From 1."""
    worst: int
    of: int
    """Models that are ranked."""


def rank_ranges(metric: Metric, estimates: Sequence[Estimate], confidence: float) -> list[RankRange | None]:
    """The range of each estimate of one panel; None for undefined ones, and where fewer than two are defined."""
    defined = [place for place, estimate in enumerate(estimates) if estimate.value == estimate.value]
    n = len(defined)
    if n < 2:
        return [None] * len(estimates)
    level = 1 - (1 - confidence) / (n * (n - 1) / 2)
    above = {
        (first, second): _is_above(metric, estimates[first], estimates[second], level)
        for first in defined
        for second in defined
        if first != second
    }
    return [
        RankRange(
            best=1 + sum(above[other, place] for other in defined if other != place),
            worst=n - sum(above[place, other] for other in defined if other != place),
            of=n,
        )
        if place in defined
        else None
        for place in range(len(estimates))
    ]


def _is_above(metric: Metric, first: Estimate, second: Estimate, level: float) -> bool:
    """Whether the first is better for sure."""
    difference = _sure_sign(combine((second, first), (1.0, -1.0)), level)
    if metric.low >= 0:
        return difference < 0
    return difference != 0 and difference == _sure_sign(combine((second, first), (1.0, 1.0)), level)


def _sure_sign(estimate: Estimate, level: float) -> int:
    """The side of 0 that the number is on for sure; 0 where that is open, or templates or wordings are too few."""
    margin = estimate.analytic_reach(level)
    if not abs(estimate.value) > margin:  # NaN too
        return 0
    return 1 if estimate.value > 0 else -1
