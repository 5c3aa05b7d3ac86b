"""Influence functions: the linear part of a score, by template.

For a fraction F = Σ a / Σ b over templates, the influence of template t is (a_t − F · b_t) / Σ b; for a metric that
combines fractions, the chain rule. The influences of a score add up to 0, and their sum of squares is the variance of
the score over samples of templates, except for a small-sample factor (Cameron & Miller 2015, "A
Practitioner's Guide to Cluster-Robust Inference", §II; Davison & Hinkley 1997, §2.7). Everything analytic stands on
them: standard errors, intervals, tests, and sums and differences of scores over the same templates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mbbq_gen.scoring.cells import Array, Counts
from mbbq_gen.scoring.metrics import Metric

_STEP = 1e-6
"""Of the numeric slope; the metrics are products and sums of fractions, so a central difference is exact but for it."""


def influence(metric: Metric, by_template: Counts, total: Counts) -> Array:
    """The influence of every template: shape (…, templates); NaN where the score is undefined.

    `by_template` has one axis more than `total`, templates, at its end.
    """
    values = [fraction.value(total) for fraction in metric.fractions]
    influences = np.zeros(by_template.values.shape[:-1])
    for place, fraction in enumerate(metric.fractions):
        above = [value + (_STEP if number == place else 0) for number, value in enumerate(values)]
        below = [value - (_STEP if number == place else 0) for number, value in enumerate(values)]
        slope = np.nan_to_num((metric.combine(*above) - metric.combine(*below)) / (2 * _STEP))[..., None]
        value = np.nan_to_num(values[place])[..., None]
        base = np.maximum(fraction.denominator(total), 1.0)[..., None]
        influences += slope * (fraction.numerator(by_template) - value * fraction.denominator(by_template)) / base
    undefined = np.isnan(metric.value(total))[..., None]
    found: Array = np.where(undefined, np.nan, influences)
    return found


def n_templates_effective(metric: Metric, by_template: Counts) -> Array:
    """How many templates of equal size would count as much as these: (Σ n)² / Σ n², the least over the denominators.

    NaN where no row stands in a denominator (Kish 1965, "Survey Sampling", §8.2).
    """
    found = []
    for fraction in metric.fractions:
        sizes = fraction.denominator(by_template)
        squares = (sizes**2).sum(axis=-1)
        empty = np.full(squares.shape, np.inf)
        found.append(np.divide(sizes.sum(axis=-1) ** 2, squares, out=empty, where=squares > 0))
    least: Array = np.min(found, axis=0)
    return np.where(np.isinf(least), np.nan, least)


def standard_error(influences: Array, effective: Array) -> Array:
    """The standard error from influences; NaN for fewer than two (effective) templates."""
    factor = np.divide(effective, effective - 1, out=np.full(np.shape(effective), np.nan), where=effective > 1)
    error: Array = np.sqrt(factor * (influences**2).sum(axis=-1))
    return error


def least_even(shares: Sequence[Array]) -> Array:
    """The shares that fewest templates make, along the last axis: what a score of several fractions stands on."""
    squares = np.stack([(share**2).sum(axis=-1) for share in shares])
    found: Array = np.take_along_axis(np.stack(shares), squares.argmax(axis=0)[None, ..., None], axis=0)[0]
    return found


def share_of(sizes: Array) -> Array:
    """Sizes over their sum along the last axis; zeros where there is none."""
    whole = sizes.sum(axis=-1, keepdims=True)
    share: Array = np.divide(sizes, whole, out=np.zeros_like(sizes), where=whole > 0)
    return share
