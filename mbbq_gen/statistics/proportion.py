"""Shares with their intervals: Wilson (1927), and the same for a sample in which some count for more than others.

    centre = (p + z²/2n) / (1 + z²/n),  half width = z/(1 + z²/n) · √(p(1 − p)/n + z²/4n²)

A weighted share uses Kish's (1965, § 11.7) effective size n = (Σw)² / Σw² in place of the size: what is known by
stratifying is not made use of, so the interval is rather too wide than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

from mbbq_gen.records import Record


class Proportion(Record):
    """A share with its Wilson interval."""

    value: float | None
    """None where nothing was counted; so are the ends of the interval."""
    low: float | None
    high: float | None
    n: int
    """How many were counted."""
    effective_n: float
    """As how many they count: fewer than `n` where some weigh more than others."""


def wilson(share: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """The ends of Wilson's interval of a share of `n`, which need not be whole."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    return low, 1.0 if share == 1 else min(1.0, centre + half)


def proportion(counted: Iterable[tuple[bool, float]], confidence: float = 0.95) -> Proportion:
    """The share of what holds among (holds, weight), each weight above 0."""
    rows = list(counted)
    total = sum(weight for _, weight in rows)
    if not rows:
        return Proportion(value=None, low=None, high=None, n=0, effective_n=0.0)
    holding = sum(weight for holds, weight in rows if holds)
    share = 1.0 if all(holds for holds, _ in rows) else holding / total
    effective = total * total / sum(weight * weight for _, weight in rows)
    low, high = wilson(share, effective, confidence)
    return Proportion(value=share, low=low, high=high, n=len(rows), effective_n=effective)
