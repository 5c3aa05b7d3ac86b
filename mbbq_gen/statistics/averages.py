"""Averages over templates: the plain mean of the templates' own scores, and their random-effects mean.

The score of template t is y_t = θ_t + error: θ_t has the variance τ² over templates, the error the variance v_t. The
plain mean weighs templates alike; the random-effects mean by w_t = 1 / (τ² + v_t) (DerSimonian & Laird 1986, Controlled
Clinical Trials 7). τ² is the restricted maximum likelihood estimate (Viechtbauer 2005, Journal of Educational and
Behavioral Statistics 30). The interval of the random-effects mean is that of Hartung and Knapp (2001, Statistics in
Medicine 20; IntHout, Ioannidis & Borm 2014, BMC Medical Research Methodology 14):

    mean ± t · error,   error² = Σ w_t (y_t − mean)² / ((k − 1) Σ w_t),   t with k − 1 degrees of freedom

v_t = σ² / n_t, n_t being the answers of the template and σ² the variance of an answer within its template, pooled over
templates (Berkey, Hoaglin, Mosteller & Colditz 1995, Statistics in Medicine 14). A variance from the template's own
answers would be 0 at accuracy 1, so that the weight would depend on the score and draw the mean to an end of the scale.

A template in which the score is undefined (no scorable answer) has no y_t and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mbbq_gen.scoring.cells import Array, Counts, count_matrix
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.crossed_effects import CrossedEffect
from mbbq_gen.statistics.estimate import Estimate, influence_values, metric_slopes, template_shares, widening

if TYPE_CHECKING:
    from mbbq_gen.statistics.panel import Panel

_LEAST_VARIANCE = 1e-12
_STEPS = 60
"""Of the bisection for τ²."""


def reml_variance(scores: Array, variances: Array) -> Array:
    """τ² of each row by restricted maximum likelihood, 0 or more: the root of the restricted score function.

    Args:
        scores: rows × templates; NaN for none.
        variances: within templates, of the same shape.

    Returns:
        One for each row; NaN for fewer than two templates.
    """
    known = ~np.isnan(scores)
    y, v = np.where(known, scores, 0.0), np.maximum(variances, _LEAST_VARIANCE)

    def slope(tau: Array) -> Array:
        w = np.where(known, 1 / (v + tau[:, None]), 0.0)
        whole = np.maximum(w.sum(axis=1), _LEAST_VARIANCE)
        away = y - ((w * y).sum(axis=1) / whole)[:, None]
        squares = w**2
        found: Array = (squares * away**2).sum(axis=1) - whole + squares.sum(axis=1) / whole
        return found

    spread = np.where(known, y, -2.0).max(axis=1, initial=-2.0) - np.where(known, y, 2.0).min(axis=1, initial=2.0)
    low, high = np.zeros(len(y)), 4 * spread**2 + np.where(known, v, 0.0).max(axis=1, initial=0.0)
    is_positive = slope(low) > 0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        is_below = slope(middle) > 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    found: Array = np.where(known.sum(axis=1) < 2, np.nan, np.where(is_positive, (low + high) / 2, 0.0))
    return found


def i_squared(tau_squared: Array, variances: Array, known: Array) -> Array:
    """I²: the part of the variance of scores that is τ² (Higgins & Thompson 2002); NaN for fewer than two."""
    w = np.where(known, 1 / np.maximum(variances, _LEAST_VARIANCE), 0.0)
    whole, number = w.sum(axis=1), known.sum(axis=1)
    below = whole**2 - (w**2).sum(axis=1)
    typical = np.divide((number - 1) * whole, below, out=np.full(len(w), np.nan), where=(number > 1) & (below > 0))
    found: Array = tau_squared / (tau_squared + typical)
    return found


@dataclass(frozen=True)
class TemplateScores:
    """The templates' own scores of every group of a panel, with what their weights are made of."""

    scores: Array
    """Groups × templates; NaN where undefined."""
    variances: Array
    """Within templates, smoothed."""
    tau_squared: Array
    """Of every group."""

    @property
    def i_squared(self) -> Array:
        """Of every group."""
        return i_squared(self.tau_squared, self.variances, ~np.isnan(self.scores))

    def weights(self, *, is_random: bool) -> Array:
        """Groups × templates, at most 1; 0 where there is no score; `is_random`: of the random-effects mean."""
        known = ~np.isnan(self.scores)
        raw = known.astype(float)
        if is_random:
            tau = np.nan_to_num(self.tau_squared)[:, None]
            raw = np.where(known, 1 / (np.maximum(self.variances, _LEAST_VARIANCE) + tau), 0.0)
            most = raw.max(axis=1, keepdims=True)
            raw = np.divide(raw, most, out=np.zeros_like(raw), where=most > 0)  # equal weights are exactly equal
        return raw


def template_scores(panel: Panel, metric: Metric) -> TemplateScores:
    """The templates' own scores, with τ².

    In a panel that supposes something of unparsed answers, σ² and τ² are those of the panel as it was extracted, so
    that the lower and the upper bound have the same weights.
    """
    scores, own = panel.template_scores(metric), panel.supposed_of or panel
    variances = _smoothed_variances(panel, own, metric)
    if own is panel:
        return TemplateScores(scores, variances, reml_variance(scores, variances))
    return TemplateScores(scores, variances, template_scores(own, metric).tau_squared)


def _smoothed_variances(panel: Panel, own: Panel, metric: Metric) -> Array:
    """Groups × templates: Σ_kl g_k g_l σ_kl / √(n_k n_l) over the metric's fractions, g being the metric's slopes.

    σ_kl is the covariance of what one answer adds to two fractions, pooled within templates, of `own`; n_k are the
    answers in the denominator of a fraction, without sampling weights, of `panel`.
    """
    counts, cells = own.counted_by_template, own.counted
    single = Counts(count_matrix(), own.sampling.unparsed)
    residuals, freedom = [], []
    for fraction in metric.fractions:
        value = np.nan_to_num(fraction.value(counts))[..., None]
        residuals.append(fraction.numerator(single) - value * fraction.denominator(single))
        freedom.append(np.maximum(fraction.denominator(counts) - 1, 0.0).sum(axis=1))
    slopes = metric_slopes(metric, own.total)
    sizes = [np.maximum(fraction.denominator(panel.counted_by_template), 1.0) for fraction in metric.fractions]
    found = np.zeros(panel.cells.shape[:2])
    for k, one in enumerate(residuals):
        for other, of_other in enumerate(residuals):
            squares = (cells * one * of_other).sum(axis=(1, 2))
            below = np.sqrt(freedom[k] * freedom[other])
            pooled = np.divide(squares, below, out=np.zeros_like(squares), where=below > 0)
            found += (slopes[k] * slopes[other] * pooled)[:, None] / np.sqrt(sizes[k] * sizes[other])
    return np.maximum(found, 0.0)


def average_estimates(panel: Panel, metric: Metric) -> list[Estimate]:
    """The metric of every group, averaged over its templates; `panel.sampling.average` says how."""
    sampling, is_random = panel.sampling, panel.sampling.average == "random-effects"
    found = template_scores(panel, metric)
    scores, weights = np.nan_to_num(found.scores), found.weights(is_random=is_random)
    whole = weights.sum(axis=1)
    values = np.divide((weights * scores).sum(axis=1), whole, out=np.full(len(whole), np.nan), where=whole > 0)
    weights = weights / np.where(whole > 0, whole, 1.0)[:, None]
    numbers = (weights > 0).sum(axis=1)
    away = np.where(weights > 0, scores - np.nan_to_num(values)[:, None], 0.0)
    read = metric.parse_rate(panel.total)
    crossed = _crossed_effects(panel, metric, weights, away)
    estimates = []
    for place in range(len(panel.groups)):
        number, influences = int(numbers[place]), weights[place] * away[place]
        if is_random:
            adjusted = np.sqrt(weights[place] / (number - 1)) * away[place] if number > 1 else influences * np.nan
        else:
            adjusted = influences * widening(number)
        drawn_below = panel.weights @ weights[place]
        drawn = np.divide(
            panel.weights @ (weights[place] * scores[place]),
            drawn_below,
            out=np.full(drawn_below.shape, np.nan),
            where=drawn_below > 0,
        )
        estimates.append(
            Estimate(
                value=float(values[place]),
                influence_values=influences if number else np.full(influences.shape, np.nan),
                adjusted_influence=adjusted,
                template_weights=weights[place],
                bootstrap_values=drawn,
                bounds=(metric.low, metric.high),
                unseen_deviation=sampling.unseen_deviation,
                unseen_stretch=sampling.unseen_stretch,
                df=number - 1.0 if is_random else np.nan,
                parse_rate=float(read[place]),
                crossed_effect=crossed[place] if crossed else None,
                is_analytic=is_random,
            )
        )
    return estimates


def _crossed_effects(panel: Panel, metric: Metric, weights: Array, away: Array) -> list[CrossedEffect]:
    """What prompt variants make of the average of every group; nothing where they are fixed."""
    if panel.crossed is None:
        return []
    groups, templates, variants, cells = panel.crossed.shape
    flat = Counts(panel.crossed.reshape(-1, variants, cells) @ count_matrix(), panel.sampling.unparsed)
    whole = Counts(panel.by_template.values.reshape(groups * templates, -1), panel.sampling.unparsed)
    shape = (groups, templates, variants)
    shares = template_shares(metric, flat).reshape(shape) * weights[..., None]
    influences = np.nan_to_num(influence_values(metric, flat, whole)).reshape(shape) * weights[..., None]
    influences = influences + shares * away[..., None]
    return [CrossedEffect(influences[place], shares[place]) for place in range(groups)]
