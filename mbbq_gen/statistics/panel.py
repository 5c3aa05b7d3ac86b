"""Panels: the scores of several groups over the same templates, so that they can be added, subtracted and tested.

A panel has the cells of every group (a language, a model, a prompt variant, a split) over one list of templates. A
score of a group is an `Estimate`; estimates of one panel share templates and resamples. The average over questions is
the metric of summed counts; the average over templates is the plain mean of template scores.
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
    number,
    template_shares,
    widening,
)
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
            self._estimates[metric] = self._over_questions(metric) if is_pooled else self._over_templates(metric)
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
        return self._make_estimates(metric, columns, adjusted, crossed, is_curved=len(metric.fractions) > 1)

    def _over_templates(self, metric: Metric) -> list[Estimate]:
        """The plain mean of the template scores, without templates where the score is undefined."""
        scores = self.template_scores(metric)
        known, scores = ~np.isnan(scores), np.nan_to_num(scores)
        sizes = known.sum(axis=1)
        values = quotient((known * scores).sum(axis=1), sizes)
        weights = known / np.where(sizes > 0, sizes, 1)[:, None]
        deviations = np.where(known, scores - np.nan_to_num(values)[:, None], 0.0)
        influences = np.where(sizes[:, None] > 0, weights * deviations, np.nan)
        adjusted = influences * np.array([widening(size) for size in sizes])[:, None]
        crossed = None
        if self.crossed is not None:
            groups, templates, variants, cells = self.crossed.shape
            flat = Counts(self.crossed.reshape(-1, variants, cells) @ count_matrix(), self.total.unparsed)
            each = Counts(self.by_template.values.reshape(groups * templates, -1), self.total.unparsed)
            shares = template_shares(metric, flat).reshape(groups, templates, variants) * weights[..., None]
            within = np.nan_to_num(influence_values(metric, flat, each)).reshape(shares.shape) * weights[..., None]
            crossed = [*map(CrossedEffect, within + shares * deviations[..., None], shares)]
        pairs = zip(weights, scores, strict=True)
        resampled = np.array([quotient(self.weights @ (w * y), self.weights @ w) for w, y in pairs])
        return self._make_estimates(metric, (values, influences, weights, resampled), [*adjusted], crossed)

    def _make_estimates(
        self,
        metric: Metric,
        columns: tuple[Array, Array, Array, Array],
        adjusted: Sequence[Array],
        crossed: Sequence[CrossedEffect] | None,
        *,
        is_curved: bool = False,
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
                parse_rate=float(parse_rates[row]),
                crossed_effect=None if crossed is None else crossed[row],
                is_curved=is_curved,
            )
            for row, (value, influences, weights, resampled) in enumerate(zip(*columns, strict=True))
        ]

    def template_scores(self, metric: Metric) -> Array:
        """The metric of every group and template; NaN if undefined."""
        return metric.value(self.by_template)

    def _map_cells(self, change: Callable[[Array], Array], **fields: Any) -> Panel:
        """A copy with a function applied to all tables of cells, and other fields changed."""
        crossed = None if self.crossed is None else change(self.crossed)
        return replace(self, cells=change(self.cells), crossed=crossed, **fields)

    def on_templates(self, templates: Sequence[str]) -> Panel:
        """The panel of some of the templates."""
        kept = [column for column, name in enumerate(self.templates) if name in set(templates)]
        names, strata = (part and tuple(part[column] for column in kept) for part in (self.templates, self.strata))
        return self._map_cells(lambda table: table[:, kept], templates=names, strata=strata)

    def on_groups(self, rows: Sequence[int]) -> Panel:
        """The panel of some of the groups."""
        groups, tallies = (tuple(part[row] for row in rows) for part in (self.groups, self.tallies))
        return self._map_cells(lambda table: table[list(rows)], groups=groups, tallies=tallies)

    @cached_property
    def _imputed(self) -> dict[Scenario, Panel]:
        return {}

    def extremes(self, metric: Metric) -> tuple[list[Estimate], list[Estimate]] | None:
        """The metric of every group with unparsed answers imputed for the lowest and highest value; None: no bounds."""
        if metric.extremes is None:
            return None
        low, high = (self._with_imputed(scenario).estimates(metric) for scenario in metric.extremes)
        return low, high

    def _with_imputed(self, scenario: Scenario) -> Panel:
        """The panel with its unparsed answers imputed, without bootstrap values."""
        if scenario not in self._imputed:
            moves, sampling = scenario_matrix(scenario), replace(self.sampling, unparsed="keep")
            panel = self._map_cells(lambda table: table @ moves, sampling=sampling, is_resampled=False)
            self._imputed[scenario] = panel
        return self._imputed[scenario]


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
    by_variant = [tally.by_prompt_variant for tally in tallies if tally.by_prompt_variant is not None]
    crossed = np.zeros((*cells.shape[:2], by_variant[0].shape[1], len(CELLS))) if by_variant else None
    for row, tally in enumerate(tallies):
        columns = [column_of[name] for name in tally.templates]
        cells[row, columns] = tally.cells
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
    )


def plain_value(metric: Metric, tally: Tally, settings: InferenceSettings, moved: Array | None = None) -> float | None:
    """The metric of one group without an interval, after the optional matrix `moved` (CELLS × CELLS) is applied."""
    if moved is not None:
        tally = replace(tally, cells=tally.cells @ moved)
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
