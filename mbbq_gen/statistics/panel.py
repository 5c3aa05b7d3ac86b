"""Scores of several groups over the same templates, so that they can be added, subtracted and tested together.

A panel lays the cells of every group (a language, a model, a prompt variant, a split) over one list of templates. A
score of a group is then an `Estimate`; estimates of one panel share templates and resamples.

The average over questions is the metric of the added counts; that over templates the mean of the templates' own scores
y_t = θ_t + error, θ_t with the variance τ² over templates, the error with v_t. The random-effects mean weighs by
w_t = 1 / (τ² + v_t) (DerSimonian & Laird 1986, Controlled Clinical Trials 7), τ² by restricted maximum likelihood
(Viechtbauer 2005, Journal of Educational and Behavioral Statistics 30). Its interval is that of Hartung and Knapp
(2001, Statistics in Medicine 20; IntHout, Ioannidis & Borm 2014, BMC Medical Research Methodology 14):

    mean ± t · error,   error² = Σ w_t (y_t − mean)² / ((k − 1) Σ w_t),   t with k − 1 degrees of freedom

v_t = σ² / n_t, n_t being the answers of the template and σ² the variance of an answer within its template, pooled over
templates (Berkey, Hoaglin, Mosteller & Colditz 1995, Statistics in Medicine 14): one from the template's own answers
would be 0 at accuracy 1. A template without a scorable answer is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
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
    """Groups × templates × cells, and the resamples that all groups share."""

    groups: tuple[dict[str, str | None], ...]
    tallies: tuple[Tally, ...]
    templates: tuple[str, ...]
    """All templates of any group, sorted."""
    cells: Array
    """Groups × templates × CELLS; zeros where a group does not have a template."""
    sampling: InferenceSettings
    strata: tuple[str, ...] | None = None
    """The stratum that each template is drawn in; None: all templates together."""
    crossed: Array | None = None
    """Groups × templates × prompt variants × CELLS, where prompt variants are random; None: they are fixed."""
    is_resampled: bool = True
    """Whether estimates have bootstrap values: not where only analytic errors are used."""
    unweighted: Array | None = None
    """Groups × templates × CELLS: how many answers `cells` stands for; None: answers weigh alike."""
    imputed_from: Panel | None = None
    """The panel as it was extracted, of one that supposes something of unparsed answers."""

    @cached_property
    def weights(self) -> Array:
        """Resamples × templates."""
        resamples = self.sampling.n_resamples if self.is_resampled else 0
        if self.strata is None:
            return resample_weights(self.templates, resamples, self.sampling.seed)
        weights = np.zeros((resamples, len(self.templates)))
        for stratum in set(self.strata):
            places = [place for place, name in enumerate(self.strata) if name == stratum]
            names = tuple(self.templates[place] for place in places)
            weights[:, places] = resample_weights(names, resamples, self.sampling.seed)
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
        """The metric of every group, as the settings average it; a parse rate is always the share of all answers."""
        if metric not in self._estimates:
            is_whole = self.sampling.average == "questions" or metric.name == "parse_rate"
            self._estimates[metric] = self._over_questions(metric) if is_whole else average_estimates(self, metric)
        return self._estimates[metric]

    @cached_property
    def _resampled(self) -> Counts:
        """Named counts of groups × resamples."""
        groups, templates, names = self.by_template.values.shape
        # By count first: fast to multiply.
        flat = self.by_template.values.transpose(2, 0, 1).reshape(groups * names, templates)
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
        adjusted = [influence * widening(effective_number(own)) for influence, own in pairs]
        found = metric.value(self.total), influences, sizes, metric.value(self._resampled)
        return self.make_estimates(metric, found, adjusted, crossed, is_curved=len(metric.fractions) > 1)

    def make_estimates(
        self,
        metric: Metric,
        found: tuple[Array, Array, Array, Array],
        adjusted: Sequence[Array],
        crossed: Sequence[CrossedEffect] | None,
        **more: Any,
    ) -> list[Estimate]:
        """Estimates of every group from its value, influences, template weights and bootstrap values."""
        read = metric.parse_rate(self.total)
        return [
            Estimate(
                value=float(value),
                influence_values=influences,
                adjusted_influence=adjusted[place],
                template_weights=weights,
                bootstrap_values=drawn,
                bounds=(metric.low, metric.high),
                unseen_deviation=self.sampling.unseen_deviation,
                unseen_stretch=self.sampling.unseen_stretch,
                parse_rate=float(read[place]),
                crossed_effect=None if crossed is None else crossed[place],
                **more,
            )
            for place, (value, influences, weights, drawn) in enumerate(zip(*found, strict=True))
        ]

    def template_scores(self, metric: Metric) -> Array:
        """The metric of every group and template; NaN where undefined."""
        return metric.value(self.by_template)

    def has_even_counts(self, metric: Metric) -> bool:
        """Whether the groups have about as many answers in every template, so that template scores can be ranked."""
        counts = [fraction.denominator(self.by_template) for fraction in metric.fractions]
        return all(float(part.min(axis=0).sum()) >= MIN_COUNT_RATIO * float(part.max(axis=0).sum()) for part in counts)

    def _map_cells(self, change: Callable[[Array], Array], **fields: Any) -> Panel:
        """The panel with its tables of cells changed, and other fields."""
        tables = {"crossed": self.crossed, "unweighted": self.unweighted}
        fields |= {name: None if table is None else change(table) for name, table in tables.items()}
        return replace(self, cells=change(self.cells), **fields)

    def on_templates(self, templates: Sequence[str]) -> Panel:
        """The same groups on some of the templates."""
        kept = [place for place, name in enumerate(self.templates) if name in set(templates)]
        names, strata = (part and tuple(part[place] for place in kept) for part in (self.templates, self.strata))
        return self._map_cells(lambda table: table[:, kept], templates=names, strata=strata, imputed_from=None)

    def on_groups(self, places: Sequence[int] | slice) -> Panel:
        """Some of the groups on the same templates."""
        numbers = list(range(len(self.groups))[places] if isinstance(places, slice) else places)
        groups, tallies = (tuple(part[place] for place in numbers) for part in (self.groups, self.tallies))
        return self._map_cells(lambda table: table[numbers], groups=groups, tallies=tallies, imputed_from=None)

    def imputed(self, scenario: Scenario, share: float = 1.0) -> Panel:
        """The panel if that share of the unparsed answers had been of one kind: without bootstrap values."""
        as_read = np.eye(len(CELLS))
        moved = scenario_matrix(scenario) if share == 1 else as_read + share * (scenario_matrix(scenario) - as_read)
        sampling = replace(self.sampling, unparsed="keep")
        return self._map_cells(lambda table: table @ moved, imputed_from=self, sampling=sampling, is_resampled=False)

    @cached_property
    def _imputed(self) -> dict[Scenario, Panel]:
        return {}

    def extremes(self, metric: Metric) -> tuple[list[Estimate], list[Estimate]] | None:
        """The metric of every group at its lowest and its highest; None if unparsed answers do not bear on it."""
        if metric.extremes is None:
            return None
        for scenario in metric.extremes:  # several metrics suppose the same
            if scenario not in self._imputed:
                self._imputed[scenario] = self.imputed(scenario)
        low, high = (self._imputed[scenario].estimates(metric) for scenario in metric.extremes)
        return low, high


def make_panel(
    frame: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings, *, is_stratified: bool = False
) -> Panel:
    """The panel of an observations table: one group for each value of the groupings `by`, sorted."""
    tallies = list(tally_groups(frame, grouping_columns(by), sampling.prompt_effects))
    return panel_of(tallies, sampling, is_stratified=is_stratified)


def paired_estimates(
    sides: Mapping[str, pl.DataFrame], metrics: Sequence[Metric], sampling: InferenceSettings
) -> dict[str, dict[str, Estimate]]:
    """Metric → side → its estimate, all over the same templates; sides without rows are left out."""
    sides = {name: rows for name, rows in sides.items() if rows.height}
    if not sides:
        return {metric.name: {} for metric in metrics}
    first = next(iter(sides.values()))
    shared = [name for name in first.columns if all(name in rows.columns for rows in sides.values())]
    kind = first.schema["extractor"]
    tables = [rows.select(shared).with_columns(extractor=pl.lit(name).cast(kind)) for name, rows in sides.items()]
    panel = make_panel(pl.concat(tables), ["extractor"], sampling)
    names = [str(group["extractor"]) for group in panel.groups]
    return {metric.name: dict(zip(names, panel.estimates(metric), strict=True)) for metric in metrics}


def panel_of(
    tallies: Sequence[Tally], sampling: InferenceSettings, *, is_stratified: bool = False, is_resampled: bool = True
) -> Panel:
    """The panel of tallies, in their order; stratified: templates are drawn within benchmark and category."""
    templates = tuple(sorted({name for tally in tallies for name in tally.templates}))
    place = {name: number for number, name in enumerate(templates)}
    cells = np.zeros((len(tallies), len(templates), len(CELLS)))
    is_weighted = any(tally.unweighted is not None for tally in tallies)
    unweighted = np.zeros_like(cells) if is_weighted and sampling.average != "questions" else None
    by_variant = [tally.by_prompt_variant for tally in tallies if tally.by_prompt_variant is not None]
    crossed = np.zeros((*cells.shape[:2], by_variant[0].shape[1], len(CELLS))) if by_variant else None
    for row, tally in enumerate(tallies):
        rows = [place[name] for name in tally.templates]
        cells[row, rows] = tally.cells
        if unweighted is not None:
            unweighted[row, rows] = tally.answer_counts
        if crossed is not None:
            crossed[row, rows] = by_variant[row]
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
    """The metric of one group without an interval; `moved`: CELLS × CELLS, where its answers are moved to first."""
    if moved is not None:
        tally = replace(tally, cells=tally.cells @ moved, unweighted=tally.answer_counts @ moved)
    if settings.average == "questions" or metric.name == "parse_rate":
        return number(metric.value(Counts(tally.cells.sum(axis=0) @ count_matrix(), settings.unparsed)))
    return number(panel_of([tally], settings, is_resampled=False).estimates(metric)[0].value)


@lru_cache(maxsize=8)
def resample_weights(templates: tuple[str, ...], resamples: int, seed: int) -> Array:
    """How often each template is drawn in each resample: shape (resamples, templates), shared and read-only.

    The draws depend on the seed and the templates' names alone: groups with the same templates are resampled alike, so
    that their difference can be taken resample by resample.
    """
    number = len(templates)
    generator = np.random.default_rng(stable_number("bootstrap", seed, *templates))
    weights: Array = np.zeros((resamples, number))
    if number:
        weights += generator.multinomial(number, np.full(number, 1 / number), size=resamples)
    weights.flags.writeable = False
    return weights


# --- averages over templates -----------------------------------------------------------------------------------------

_LEAST_VARIANCE = 1e-12
_STEPS = 60
"""Steps of the bisection for τ²."""


def reml_variance(scores: Array, variances: Array) -> Array:
    """τ² of each row of scores (NaN: none) by restricted maximum likelihood; NaN for fewer than two templates."""
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
    whole = w.sum(axis=1)
    typical = quotient((known.sum(axis=1) - 1) * whole, whole**2 - (w**2).sum(axis=1))
    found: Array = tau_squared / (tau_squared + typical)
    return found


@dataclass(frozen=True)
class TemplateScores:
    """The templates' own scores of every group of a panel, with what their random-effects weights are made of."""

    scores: Array
    """Groups × templates; NaN where undefined."""
    variances: Array
    """Within templates, smoothed."""
    tau_squared: Array


def template_scores(panel: Panel, metric: Metric) -> TemplateScores:
    """The templates' own scores, with τ² and the variances within templates.

    These are Σ_kl g_k g_l σ_kl / √(n_k n_l) over the metric's fractions, g being the metric's slopes, σ_kl the
    covariance of what one answer adds to two fractions, pooled within templates, and n_k the answers in the denominator
    of a fraction, without sampling weights. In a panel that supposes something of unparsed answers, σ² and τ² are those
    of the panel as it was extracted, so that the lower and the upper bound have the same weights.
    """
    scores, own = panel.template_scores(metric), panel.imputed_from or panel
    tables = [one.cells if one.unweighted is None else one.unweighted for one in (own, panel)]
    cells, single = tables[0], Counts(count_matrix(), own.sampling.unparsed)
    pairs = zip((own, panel), tables, strict=True)
    counts, sized = (replace(one.total, values=table @ count_matrix()) for one, table in pairs)
    residuals, freedom = [], []
    for fraction in metric.fractions:
        value = np.nan_to_num(fraction.value(counts))[..., None]
        residuals.append(fraction.numerator(single) - value * fraction.denominator(single))
        freedom.append(np.maximum(fraction.denominator(counts) - 1, 0.0).sum(axis=1))
    slopes = metric_slopes(metric, own.total)
    sizes = [np.maximum(fraction.denominator(sized), 1.0) for fraction in metric.fractions]
    found = np.zeros(panel.cells.shape[:2])
    for k, one in enumerate(residuals):
        for other, of_other in enumerate(residuals):
            squares = (cells * one * of_other).sum(axis=(1, 2))
            pooled = quotient(squares, np.sqrt(freedom[k] * freedom[other]), 0.0)
            found += (slopes[k] * slopes[other] * pooled)[:, None] / np.sqrt(sizes[k] * sizes[other])
    variances = np.maximum(found, 0.0)
    if own is panel:
        return TemplateScores(scores, variances, reml_variance(scores, variances))
    return TemplateScores(scores, variances, template_scores(own, metric).tau_squared)


def average_estimates(panel: Panel, metric: Metric) -> list[Estimate]:
    """The metric of every group, averaged over its templates; `panel.sampling.average` says how."""
    sampling, is_random = panel.sampling, panel.sampling.average == "random-effects"
    found = template_scores(panel, metric)
    known, scores = ~np.isnan(found.scores), np.nan_to_num(found.scores)
    weights = known.astype(float)
    if is_random:
        tau = np.nan_to_num(found.tau_squared)[:, None]
        weights = np.where(known, 1 / (np.maximum(found.variances, _LEAST_VARIANCE) + tau), 0.0)
        weights = quotient(weights, weights.max(axis=1, keepdims=True, initial=0.0), 0.0)  # equal ones exactly equal
    whole = weights.sum(axis=1)
    values = quotient((weights * scores).sum(axis=1), whole)
    weights = weights / np.where(whole > 0, whole, 1.0)[:, None]
    numbers = (weights > 0).sum(axis=1)
    away = np.where(weights > 0, scores - np.nan_to_num(values)[:, None], 0.0)
    influences = np.where(numbers[:, None] > 0, weights * away, np.nan)
    crossed = None
    if panel.crossed is not None:
        groups, templates, variants, cells = panel.crossed.shape
        flat = Counts(panel.crossed.reshape(-1, variants, cells) @ count_matrix(), sampling.unparsed)
        each = Counts(panel.by_template.values.reshape(groups * templates, -1), sampling.unparsed)
        shares = template_shares(metric, flat).reshape(groups, templates, variants) * weights[..., None]
        pulls = np.nan_to_num(influence_values(metric, flat, each)).reshape(shares.shape) * weights[..., None]
        crossed = [*map(CrossedEffect, pulls + shares * away[..., None], shares)]
    if is_random:
        adjusted = np.sqrt(quotient(weights, numbers[:, None] - 1.0)) * away
    else:
        adjusted = influences * np.array([widening(number) for number in numbers])[:, None]
    pairs = zip(weights, scores, strict=True)
    drawn = np.array([quotient(panel.weights @ (own * score), panel.weights @ own) for own, score in pairs])
    estimates = panel.make_estimates(metric, (values, influences, weights, drawn), [*adjusted], crossed)
    if is_random:
        return [replace(one, df=number - 1.0, is_analytic=True) for one, number in zip(estimates, numbers, strict=True)]
    return estimates
