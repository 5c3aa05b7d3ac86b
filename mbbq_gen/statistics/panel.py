"""Panels: the scores of several groups over the same templates, so that they can be added, subtracted and tested.

A panel has the cells of every group (a language, a model, a prompt variant, a split) over one list of templates. A
score of a group is an `Estimate`; estimates of one panel share templates and resamples.

The average over questions is the metric of summed counts. The average over templates is the mean of template scores
y_t = θ_t + error, with the variance τ² of θ_t and v_t of the error. The random-effects mean has the weights
w_t = 1 / (τ² + v_t) (DerSimonian & Laird 1986, Controlled Clinical Trials 7), with τ² by restricted maximum likelihood
(Viechtbauer 2005, Journal of Educational and Behavioral Statistics 30). Its interval is that of Hartung and Knapp
(2001, Statistics in Medicine 20; IntHout, Ioannidis & Borm 2014, BMC Medical Research Methodology 14):

    mean ± t · error,   error² = Σ w_t (y_t − mean)² / ((k − 1) Σ w_t),   t with k − 1 degrees of freedom

v_t = σ² / n_t, with n_t answers of the template and the variance σ² of an answer within templates, pooled over
templates (Berkey, Hoaglin, Mosteller & Colditz 1995, Statistics in Medicine 14), since the variance within one template
would be 0 at accuracy 1. Templates without a scorable answer are excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from mbbq_gen.core.files import stable_number
from mbbq_gen.scoring.cells import CELLS, Array, Counts, Scenario, count_matrix, quotient, scenario_matrix
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import Tally, grouping_columns, tally_groups
from mbbq_gen.statistics.estimate import (
    Estimate,
    InferenceSettings,
    influence_values,
    metric_slopes,
    number,
    template_shares,
    widening,
)
from mbbq_gen.statistics.hypothesis_tests import MIN_COUNT_RATIO
from mbbq_gen.statistics.intervals import CrossedEffect, effective_number


@dataclass(frozen=True)
class Panel:
    """The cells of groups over the same templates, with shared resamples."""

    groups: tuple[dict[str, str | None], ...]
    tallies: tuple[Tally, ...]
    templates: tuple[str, ...]
    """The templates of all groups, sorted."""
    cells: Array
    """Groups × templates × CELLS; zeros for templates without answers."""
    sampling: InferenceSettings
    strata: tuple[str, ...] | None = None
    """The stratum of each template; None: not stratified."""
    crossed: Array | None = None
    """Groups × templates × prompt variants × CELLS; None if prompt variants are fixed."""
    is_resampled: bool = True
    """Whether estimates have bootstrap values; False if only analytic errors are used."""
    unweighted: Array | None = None
    """Groups × templates × CELLS: the numbers of answers; None if all have equal weights."""
    imputed_from: Panel | None = None
    """The original panel; None if no unparsed answers were imputed."""

    @cached_property
    def weights(self) -> Array:
        """Resample weights: resamples × templates."""
        resamples = self.sampling.n_resamples if self.is_resampled else 0
        if self.strata is None:
            return resample_weights(self.templates, resamples, self.sampling.seed)
        weights = np.zeros((resamples, len(self.templates)))
        for stratum in set(self.strata):
            columns = [column for column, name in enumerate(self.strata) if name == stratum]
            names = tuple(self.templates[column] for column in columns)
            weights[:, columns] = resample_weights(names, resamples, self.sampling.seed)
        return weights

    @cached_property
    def by_template(self) -> Counts:
        """Named counts of groups × templates."""
        return Counts(self.cells @ count_matrix(), self.sampling.unparsed)

    @cached_property
    def total(self) -> Counts:
        """Named counts of groups."""
        return Counts(self.by_template.values.sum(axis=1), self.sampling.unparsed)

    @cached_property
    def _estimates(self) -> dict[Metric, list[Estimate]]:
        return {}

    def estimates(self, metric: Metric) -> list[Estimate]:
        """The metric of every group, by `sampling.average`; a parse rate is always over all answers."""
        if metric not in self._estimates:
            is_pooled = self.sampling.average == "questions" or metric.name == "parse_rate"
            self._estimates[metric] = self._over_questions(metric) if is_pooled else average_estimates(self, metric)
        return self._estimates[metric]

    @cached_property
    def _resampled(self) -> Counts:
        """Named counts of groups × resamples."""
        groups, templates, names = self.by_template.values.shape
        flat = self.by_template.values.transpose(2, 0, 1).reshape(groups * names, templates)  # a fast matrix product
        drawn = (flat @ self.weights.T).reshape(names, groups, -1)
        return Counts(drawn.transpose(1, 2, 0), self.sampling.unparsed)

    def _over_questions(self, metric: Metric) -> list[Estimate]:
        influences = influence_values(metric, self.by_template, self.total)
        sizes, crossed = template_shares(metric, self.by_template), None
        if self.crossed is not None:
            shape = self.crossed.shape[:-1]
            flat = Counts(self.crossed.reshape(shape[0], shape[1] * shape[2], -1) @ count_matrix(), self.total.unparsed)
            parts = influence_values(metric, flat, self.total), template_shares(metric, flat)
            crossed = [*map(CrossedEffect, *(part.reshape(shape) for part in parts))]
        pairs = zip(influences, sizes, strict=True)
        adjusted = [influence * widening(effective_number(size)) for influence, size in pairs]
        columns = metric.value(self.total), influences, sizes, metric.value(self._resampled)
        return self.make_estimates(metric, columns, adjusted, crossed, is_curved=len(metric.fractions) > 1)

    def make_estimates(
        self,
        metric: Metric,
        columns: tuple[Array, Array, Array, Array],
        adjusted: Sequence[Array],
        crossed: Sequence[CrossedEffect] | None,
        **more: Any,
    ) -> list[Estimate]:
        """Estimates of every group from its value, influences, template weights and bootstrap values."""
        parse_rates = metric.parse_rate(self.total)
        return [
            Estimate(
                value=float(value),
                influence_values=influences,
                adjusted_influence=adjusted[row],
                template_weights=weights,
                bootstrap_values=resampled,
                bounds=(metric.low, metric.high),
                unseen_deviation=self.sampling.unseen_deviation,
                unseen_stretch=self.sampling.unseen_stretch,
                parse_rate=float(parse_rates[row]),
                crossed_effect=None if crossed is None else crossed[row],
                **more,
            )
            for row, (value, influences, weights, resampled) in enumerate(zip(*columns, strict=True))
        ]

    def template_scores(self, metric: Metric) -> Array:
        """The metric of every group and template; NaN if undefined."""
        return metric.value(self.by_template)

    def has_even_counts(self, metric: Metric) -> bool:
        """Whether the groups have similar numbers of answers in every template, so that scores can be ranked."""
        counts = [fraction.denominator(self.by_template) for fraction in metric.fractions]
        return all(float(part.min(axis=0).sum()) >= MIN_COUNT_RATIO * float(part.max(axis=0).sum()) for part in counts)

    def _map_cells(self, change: Callable[[Array], Array], **fields: Any) -> Panel:
        """A copy with a function applied to all tables of cells, and other fields changed."""
        tables = {"crossed": self.crossed, "unweighted": self.unweighted}
        fields |= {name: None if table is None else change(table) for name, table in tables.items()}
        return replace(self, cells=change(self.cells), **fields)

    def on_templates(self, templates: Sequence[str]) -> Panel:
        """The panel of some of the templates."""
        kept = [column for column, name in enumerate(self.templates) if name in set(templates)]
        names, strata = (part and tuple(part[column] for column in kept) for part in (self.templates, self.strata))
        return self._map_cells(lambda table: table[:, kept], templates=names, strata=strata, imputed_from=None)

    def on_groups(self, rows: Sequence[int] | slice) -> Panel:
        """The panel of some of the groups."""
        kept = list(range(len(self.groups))[rows] if isinstance(rows, slice) else rows)
        groups, tallies = (tuple(part[row] for row in kept) for part in (self.groups, self.tallies))
        return self._map_cells(lambda table: table[kept], groups=groups, tallies=tallies, imputed_from=None)

    def imputed(self, scenario: Scenario, share: float = 1.0) -> Panel:
        """The panel with a share of the unparsed answers imputed, without bootstrap values."""
        same = np.eye(len(CELLS))
        moves = scenario_matrix(scenario) if share == 1 else same + share * (scenario_matrix(scenario) - same)
        sampling = replace(self.sampling, unparsed="keep")
        return self._map_cells(lambda table: table @ moves, imputed_from=self, sampling=sampling, is_resampled=False)

    @cached_property
    def _imputed(self) -> dict[Scenario, Panel]:
        return {}

    def extremes(self, metric: Metric) -> tuple[list[Estimate], list[Estimate]] | None:
        """The metric of every group with unparsed answers imputed for the lowest and highest value; None: no bounds."""
        if metric.extremes is None:
            return None
        for scenario in metric.extremes:
            if scenario not in self._imputed:
                self._imputed[scenario] = self.imputed(scenario)
        low, high = (self._imputed[scenario].estimates(metric) for scenario in metric.extremes)
        return low, high


def make_panel(
    frame: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings, *, is_stratified: bool = False
) -> Panel:
    """The panel of an observations table by the groupings `by`, sorted."""
    tallies = list(tally_groups(frame, grouping_columns(by), sampling.prompt_effects))
    return panel_of(tallies, sampling, is_stratified=is_stratified)


def paired_estimates(
    sides: Mapping[str, pl.DataFrame], metrics: Sequence[Metric], sampling: InferenceSettings
) -> dict[str, dict[str, Estimate]]:
    """Estimates over the same templates by metric and side; sides without rows are excluded."""
    sides = {name: rows for name, rows in sides.items() if rows.height}
    if not sides:
        return {metric.name: {} for metric in metrics}
    first = next(iter(sides.values()))
    shared = [name for name in first.columns if all(name in rows.columns for rows in sides.values())]
    dtype = first.schema["extractor"]
    tables = [rows.select(shared).with_columns(extractor=pl.lit(name).cast(dtype)) for name, rows in sides.items()]
    panel = make_panel(pl.concat(tables), ["extractor"], sampling)
    names = [str(group["extractor"]) for group in panel.groups]
    return {metric.name: dict(zip(names, panel.estimates(metric), strict=True)) for metric in metrics}


def panel_of(
    tallies: Sequence[Tally], sampling: InferenceSettings, *, is_stratified: bool = False, is_resampled: bool = True
) -> Panel:
    """The panel of tallies in their order; stratified: resampled within benchmark and category."""
    templates = tuple(sorted({name for tally in tallies for name in tally.templates}))
    column_of = {name: column for column, name in enumerate(templates)}
    cells = np.zeros((len(tallies), len(templates), len(CELLS)))
    is_weighted = any(tally.unweighted is not None for tally in tallies)
    unweighted = np.zeros_like(cells) if is_weighted and sampling.average != "questions" else None
    by_variant = [tally.by_prompt_variant for tally in tallies if tally.by_prompt_variant is not None]
    crossed = np.zeros((*cells.shape[:2], by_variant[0].shape[1], len(CELLS))) if by_variant else None
    for row, tally in enumerate(tallies):
        columns = [column_of[name] for name in tally.templates]
        cells[row, columns] = tally.cells
        if unweighted is not None:
            unweighted[row, columns] = tally.answer_counts
        if crossed is not None:
            crossed[row, columns] = by_variant[row]
    strata = tuple(" / ".join(name.split(" / ")[:2]) for name in templates)
    return Panel(
        groups=tuple(tally.group for tally in tallies),
        tallies=tuple(tallies),
        templates=templates,
        cells=cells,
        sampling=sampling,
        strata=strata if is_stratified else None,
        crossed=crossed,
        is_resampled=is_resampled,
        unweighted=unweighted,
    )


def plain_value(metric: Metric, tally: Tally, settings: InferenceSettings, moved: Array | None = None) -> float | None:
    """The metric of one group without an interval, after the optional matrix `moved` (CELLS × CELLS) is applied."""
    if moved is not None:
        tally = replace(tally, cells=tally.cells @ moved, unweighted=tally.answer_counts @ moved)
    if settings.average == "questions" or metric.name == "parse_rate":
        return number(metric.value(Counts(tally.cells.sum(axis=0) @ count_matrix(), settings.unparsed)))
    return number(panel_of([tally], settings, is_resampled=False).estimates(metric)[0].value)


@lru_cache(maxsize=8)
def resample_weights(templates: tuple[str, ...], resamples: int, seed: int) -> Array:
    """The frequency of each template in each resample: a read-only array (resamples, templates).

    It depends only on the seed and the templates' names, so groups with the same templates have the same resamples.
    """
    n = len(templates)
    generator = np.random.default_rng(stable_number("bootstrap", seed, *templates))
    weights: Array = np.zeros((resamples, n))
    if n:
        weights += generator.multinomial(n, np.full(n, 1 / n), size=resamples)
    weights.flags.writeable = False
    return weights


# --- averages over templates -----------------------------------------------------------------------------------------

_LEAST_VARIANCE = 1e-12
_STEPS = 60
"""Steps of the bisection for τ²."""


def reml_variance(scores: Array, variances: Array) -> Array:
    """τ² of each row of scores by restricted maximum likelihood; NaN scores are ignored, NaN for fewer than two."""
    known = ~np.isnan(scores)
    y, v = np.where(known, scores, 0.0), np.maximum(variances, _LEAST_VARIANCE)

    def slope(tau: Array) -> Array:
        w = np.where(known, 1 / (v + tau[:, None]), 0.0)
        total = np.maximum(w.sum(axis=1), _LEAST_VARIANCE)
        deviations, squares = y - ((w * y).sum(axis=1) / total)[:, None], w**2
        derivative: Array = (squares * deviations**2).sum(axis=1) - total + squares.sum(axis=1) / total
        return derivative

    spread = np.where(known, y, -2.0).max(axis=1, initial=-2.0) - np.where(known, y, 2.0).min(axis=1, initial=2.0)
    low, high = np.zeros(len(y)), 4 * spread**2 + np.where(known, v, 0.0).max(axis=1, initial=0.0)
    is_positive = slope(low) > 0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        is_below = slope(middle) > 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    tau_squared: Array = np.where(known.sum(axis=1) < 2, np.nan, np.where(is_positive, (low + high) / 2, 0.0))
    return tau_squared


def i_squared(tau_squared: Array, variances: Array, known: Array) -> Array:
    """I², the share of τ² in the variance of scores (Higgins & Thompson 2002); NaN for fewer than two."""
    w = np.where(known, 1 / np.maximum(variances, _LEAST_VARIANCE), 0.0)
    total = w.sum(axis=1)
    typical = quotient((known.sum(axis=1) - 1) * total, total**2 - (w**2).sum(axis=1))
    share: Array = tau_squared / (tau_squared + typical)
    return share


@dataclass(frozen=True)
class TemplateScores:
    """The template scores of every group of a panel, with the parameters of their random-effects weights."""

    scores: Array
    """Groups × templates; NaN if undefined."""
    variances: Array
    """Variances within templates, pooled."""
    tau_squared: Array


def template_scores(panel: Panel, metric: Metric) -> TemplateScores:
    """The template scores, with τ² and the variances within templates.

    The variances are Σ_kl g_k g_l σ_kl / √(n_k n_l) over the metric's fractions, with g the metric's slopes, σ_kl the
    covariance of one answer's contributions to two fractions, pooled within templates, and n_k the answers in the
    denominator of a fraction, without sampling weights. For an imputed panel, σ² and τ² are those of the original, so
    that the lower and upper bound have the same weights.
    """
    scores, original = panel.template_scores(metric), panel.imputed_from or panel
    tables = [one.cells if one.unweighted is None else one.unweighted for one in (original, panel)]
    cells, single = tables[0], Counts(count_matrix(), original.sampling.unparsed)
    pairs = zip((original, panel), tables, strict=True)
    original_counts, counts = (replace(one.total, values=table @ count_matrix()) for one, table in pairs)
    residuals, degrees = [], []
    for fraction in metric.fractions:
        value = np.nan_to_num(fraction.value(original_counts))[..., None]
        residuals.append(fraction.numerator(single) - value * fraction.denominator(single))
        degrees.append(np.maximum(fraction.denominator(original_counts) - 1, 0.0).sum(axis=1))
    slopes = metric_slopes(metric, original.total)
    sizes = [np.maximum(fraction.denominator(counts), 1.0) for fraction in metric.fractions]
    variances = np.zeros(panel.cells.shape[:2])
    for (k, one), (m, other) in product(enumerate(residuals), repeat=2):
        squares = (cells * one * other).sum(axis=(1, 2))
        pooled = quotient(squares, np.sqrt(degrees[k] * degrees[m]), 0.0)
        variances += (slopes[k] * slopes[m] * pooled)[:, None] / np.sqrt(sizes[k] * sizes[m])
    variances = np.maximum(variances, 0.0)
    if original is panel:
        return TemplateScores(scores, variances, reml_variance(scores, variances))
    return TemplateScores(scores, variances, template_scores(original, metric).tau_squared)


def average_estimates(panel: Panel, metric: Metric) -> list[Estimate]:
    """The metric of every group, averaged over templates, with or without random-effects weights."""
    sampling, is_random = panel.sampling, panel.sampling.average == "random-effects"
    parameters = template_scores(panel, metric)
    known, scores = ~np.isnan(parameters.scores), np.nan_to_num(parameters.scores)
    weights = known.astype(float)
    if is_random:
        tau_squared = np.nan_to_num(parameters.tau_squared)[:, None]
        weights = np.where(known, 1 / (np.maximum(parameters.variances, _LEAST_VARIANCE) + tau_squared), 0.0)
        weights = quotient(weights, weights.max(axis=1, keepdims=True, initial=0.0), 0.0)  # equal ones exactly equal
    totals = weights.sum(axis=1)
    values = quotient((weights * scores).sum(axis=1), totals)
    weights = weights / np.where(totals > 0, totals, 1.0)[:, None]
    sizes = (weights > 0).sum(axis=1)
    deviations = np.where(weights > 0, scores - np.nan_to_num(values)[:, None], 0.0)
    influences = np.where(sizes[:, None] > 0, weights * deviations, np.nan)
    crossed = None
    if panel.crossed is not None:
        groups, templates, variants, cells = panel.crossed.shape
        flat = Counts(panel.crossed.reshape(-1, variants, cells) @ count_matrix(), sampling.unparsed)
        each = Counts(panel.by_template.values.reshape(groups * templates, -1), sampling.unparsed)
        shares = template_shares(metric, flat).reshape(groups, templates, variants) * weights[..., None]
        within = np.nan_to_num(influence_values(metric, flat, each)).reshape(shares.shape) * weights[..., None]
        crossed = [*map(CrossedEffect, within + shares * deviations[..., None], shares)]
    if is_random:
        adjusted = np.sqrt(quotient(weights, sizes[:, None] - 1.0)) * deviations
    else:
        adjusted = influences * np.array([widening(size) for size in sizes])[:, None]
    pairs = zip(weights, scores, strict=True)
    resampled = np.array([quotient(panel.weights @ (w * y), panel.weights @ w) for w, y in pairs])
    estimates = panel.make_estimates(metric, (values, influences, weights, resampled), [*adjusted], crossed)
    if is_random:
        return [replace(one, df=size - 1.0, is_analytic=True) for one, size in zip(estimates, sizes, strict=True)]
    return estimates
