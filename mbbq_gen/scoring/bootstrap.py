"""Intervals that respect that questions come from a few dozen templates: a bootstrap over templates.

Templates are drawn with replacement, and all the answers to a template come or stay away together (Davison & Hinkley
1997, "Bootstrap Methods and their Application", §3.8). A resample is a vector of how often each template was drawn, so
its counts are one matrix product, and its scores the same formulas on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mbbq_gen.seeding import stable_number

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array

IntervalMethod = Literal["percentile"]


@dataclass(frozen=True)
class Interval:
    """Where a score lies with the given confidence."""

    low: float
    high: float
    dropped: int
    """Resamples in which the score was undefined, and which therefore do not count."""


def resample_weights(templates: Sequence[str], resamples: int, seed: int) -> Array:
    """How often each template is drawn in each resample: shape (resamples, templates), rows add up to their number.

    The draws depend on the seed and the templates' names alone: two groups with the same templates (two languages, two
    models) are resampled alike, so that the difference of their scores can be taken resample by resample.
    """
    import numpy as np

    generator = np.random.default_rng(stable_number("bootstrap", seed, *templates))
    number = len(templates)
    drawn = generator.multinomial(number, np.full(number, 1 / number), size=resamples)
    weights: Array = drawn.astype(np.float64)
    return weights


def percentile_interval(values: Array, confidence: float) -> Interval | None:
    """The middle `confidence` of the values that are defined (not NaN); None where none is."""
    import numpy as np

    defined = values[~np.isnan(values)]
    if not defined.size:
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, (tail, 1 - tail))
    return Interval(float(low), float(high), int(values.size - defined.size))
