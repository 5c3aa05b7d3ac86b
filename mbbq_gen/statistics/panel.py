"""Scores of several groups over the same templates, so that they can be added, subtracted and tested together.

A panel lays the cells of every group (a language, a model, a prompt variant, a split) over one list of templates. A
score of a group is then an `Estimate`. Estimates of one panel share templates and resamples, so a difference of two is
the paired one, and a mean of several is a macro average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import polars as pl

from mbbq_gen.core.files import stable_number
from mbbq_gen.scoring.cells import CELLS, Array, Counts, Scenario, count_matrix, scenario_matrix
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import Tally, grouping_columns, tally_groups
from mbbq_gen.statistics.averages import average_estimates
from mbbq_gen.statistics.crossed_effects import CrossedEffect
from mbbq_gen.statistics.estimate import (
    Estimate,
    InferenceSettings,
    influence_values,
    number,
    template_shares,
    widening,
)
from mbbq_gen.statistics.hypothesis_tests import EVEN
from mbbq_gen.statistics.intervals import effective_number


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
    """What each template is drawn within; None: all templates together."""
    crossed: Array | None = None
    """Groups × templates × prompt variants × CELLS, where prompt variants are random; None: they are fixed."""
    is_resampled: bool = True
    """Whether estimates have bootstrap values: not where only analytic errors are used."""
    without_weights: Array | None = None
    """Groups × templates × CELLS: how many answers `cells` stands for; None: answers weigh alike."""
    supposed_of: Panel | None = None
    """The panel as it was extracted, of one that supposes something of unparsed answers."""

    @cached_property
    def weights(self) -> Array:
        """Resamples × templates."""
        resamples = self.sampling.n_resamples if self.is_resampled else 0
        if self.strata is None:
            return resample_weights(self.templates, resamples, self.sampling.seed)
        weights = np.zeros((resamples, len(self.templates)))
        for stratum in sorted(set(self.strata)):
            places = [place for place, name in enumerate(self.strata) if name == stratum]
            names = tuple(self.templates[place] for place in places)
            weights[:, places] = resample_weights(names, resamples, self.sampling.seed)
        return weights

    @cached_property
    def by_template(self) -> Counts:
        """Named counts of groups × templates."""
        return Counts(self.cells @ count_matrix(), self.sampling.unparsed)

    @property
    def counted(self) -> Array:
        """Groups × templates × CELLS: answers, whatever they weigh."""
        return self.cells if self.without_weights is None else self.without_weights

    @cached_property
    def counted_by_template(self) -> Counts:
        """Named counts of groups × templates, whatever the answers weigh."""
        return Counts(self.counted @ count_matrix(), self.sampling.unparsed)

    @cached_property
    def total(self) -> Counts:
        """Named counts of groups."""
        return Counts(self.by_template.values.sum(axis=1), self.sampling.unparsed)

    @cached_property
    def _resampled(self) -> Counts:
        """Named counts of groups × resamples."""
        groups, templates, names = self.by_template.values.shape
        # By count first: fast to multiply.
        flat = self.by_template.values.transpose(2, 0, 1).reshape(groups * names, templates)
        drawn = (flat @ self.weights.T).reshape(names, groups, -1)
        return Counts(drawn.transpose(1, 2, 0), self.sampling.unparsed)

    def estimates(self, metric: Metric) -> list[Estimate]:
        """The metric of every group, as the settings average it; a parse rate is always the share of all answers."""
        if self.sampling.average != "questions" and metric.name != "parse_rate":
            return average_estimates(self, metric)
        values, drawn = metric.value(self.total), metric.value(self._resampled)
        read = metric.parse_rate(self.total)
        influences = influence_values(metric, self.by_template, self.total)
        sizes = template_shares(metric, self.by_template)
        crossed = self._crossed_effects(metric)
        return [
            Estimate(
                value=float(values[place]),
                influence_values=influences[place],
                adjusted_influence=influences[place] * widening(effective_number(sizes[place])),
                template_weights=sizes[place],
                bootstrap_values=drawn[place],
                bounds=(metric.low, metric.high),
                unseen_deviation=self.sampling.unseen_deviation,
                unseen_stretch=self.sampling.unseen_stretch,
                parse_rate=float(read[place]),
                crossed_effect=crossed[place] if crossed else None,
                is_curved=len(metric.fractions) > 1,
            )
            for place in range(len(self.groups))
        ]

    def _crossed_effects(self, metric: Metric) -> list[CrossedEffect]:
        """What prompt variants make of the metric of every group; nothing where they are fixed."""
        if self.crossed is None:
            return []
        groups, templates, variants, cells = self.crossed.shape
        flat = Counts(
            self.crossed.reshape(groups, templates * variants, cells) @ count_matrix(), self.sampling.unparsed
        )
        influences, sizes = influence_values(metric, flat, self.total), template_shares(metric, flat)
        shape = (templates, variants)
        return [CrossedEffect(influences[place].reshape(shape), sizes[place].reshape(shape)) for place in range(groups)]

    def template_scores(self, metric: Metric) -> Array:
        """The metric of every group and template; NaN where undefined."""
        return metric.value(self.by_template)

    def has_even_counts(self, metric: Metric) -> bool:
        """Whether the groups have about as many answers in every template, so that template scores can be ranked."""
        counts = [fraction.denominator(self.by_template) for fraction in metric.fractions]
        return all(float(part.min(axis=0).sum()) >= EVEN * float(part.max(axis=0).sum()) for part in counts)

    def on_templates(self, templates: Sequence[str]) -> Panel:
        """The same groups on some of the templates."""
        kept = [place for place, name in enumerate(self.templates) if name in set(templates)]
        return replace(
            self,
            templates=tuple(self.templates[place] for place in kept),
            cells=self.cells[:, kept],
            strata=None if self.strata is None else tuple(self.strata[place] for place in kept),
            crossed=None if self.crossed is None else self.crossed[:, kept],
            without_weights=None if self.without_weights is None else self.without_weights[:, kept],
            supposed_of=None,
        )

    def on_groups(self, places: Sequence[int] | slice) -> Panel:
        """Some of the groups on the same templates."""
        numbers = range(len(self.groups))[places] if isinstance(places, slice) else places
        return replace(
            self,
            groups=tuple(self.groups[place] for place in numbers),
            tallies=tuple(self.tallies[place] for place in numbers),
            cells=self.cells[list(numbers)],
            crossed=None if self.crossed is None else self.crossed[list(numbers)],
            without_weights=None if self.without_weights is None else self.without_weights[list(numbers)],
            supposed_of=None,
        )

    def supposing(self, scenario: Scenario, share: float = 1.0) -> Panel:
        """The panel if that share of the unparsed answers had been of one kind: without bootstrap values."""
        as_read = np.eye(len(CELLS))
        moved = scenario_matrix(scenario) if share == 1 else as_read + share * (scenario_matrix(scenario) - as_read)
        return replace(
            self,
            cells=self.cells @ moved,
            crossed=None if self.crossed is None else self.crossed @ moved,
            without_weights=None if self.without_weights is None else self.without_weights @ moved,
            supposed_of=self,
            sampling=replace(self.sampling, unparsed="keep"),
            is_resampled=False,
        )


def make_panel(
    frame: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings, *, is_stratified: bool = False
) -> Panel:
    """The panel of an observations table: one group for each value of the groupings `by`, sorted."""
    tallies = list(tally_groups(frame, grouping_columns(by), sampling.prompt_effects))
    return panel_of(tallies, sampling, is_stratified=is_stratified)


def panel_of(
    tallies: Sequence[Tally], sampling: InferenceSettings, *, is_stratified: bool = False, is_resampled: bool = True
) -> Panel:
    """The panel of tallies, in their order; stratified: templates are drawn within benchmark and category."""
    templates = tuple(sorted({name for tally in tallies for name in tally.templates}))
    place = {name: number for number, name in enumerate(templates)}
    cells = np.zeros((len(tallies), len(templates), len(CELLS)))
    is_weighted = any(tally.without_weights is not None for tally in tallies)
    unweighted = np.zeros_like(cells) if is_weighted and sampling.average != "questions" else None
    for row, tally in enumerate(tallies):
        cells[row, [place[name] for name in tally.templates]] = tally.cells
        if unweighted is not None:
            unweighted[row, [place[name] for name in tally.templates]] = tally.n_requested
    strata = tuple(" / ".join(name.split(" / ")[:2]) for name in templates)
    by_variant = [tally.by_prompt_variant for tally in tallies if tally.by_prompt_variant is not None]
    crossed = None
    if by_variant:
        crossed = np.zeros((len(tallies), len(templates), by_variant[0].shape[1], len(CELLS)))
        for row, (tally, counted) in enumerate(zip(tallies, by_variant, strict=True)):
            crossed[row, [place[name] for name in tally.templates]] = counted
    return Panel(
        groups=tuple(tally.group for tally in tallies),
        tallies=tuple(tallies),
        templates=templates,
        cells=cells,
        sampling=sampling,
        strata=strata if is_stratified else None,
        crossed=crossed,
        is_resampled=is_resampled,
        without_weights=unweighted,
    )


def plain_value(metric: Metric, tally: Tally, settings: InferenceSettings, moved: Array | None = None) -> float | None:
    """The metric of one group, averaged as the settings say, without an interval.

    `moved`: CELLS × CELLS, where the answers are moved to first; None: they stay.
    """
    if settings.average == "questions" or metric.name == "parse_rate":
        return number(
            metric.value(tally.counts(settings.unparsed, tally.total if moved is None else tally.total @ moved))
        )
    if moved is not None:
        tally = replace(tally, cells=tally.cells @ moved, without_weights=tally.n_requested @ moved)
    return number(panel_of([tally], settings, is_resampled=False).estimates(metric)[0].value)


def resample_weights(templates: Sequence[str], resamples: int, seed: int) -> Array:
    """How often each template is drawn in each resample: shape (resamples, templates), rows add up to their number.

    The draws depend on the seed and the templates' names alone: two groups with the same templates (two languages, two
    models) are resampled alike, so that the difference of their scores can be taken resample by resample. The array is
    shared and read-only.
    """
    return _resample_weights(tuple(templates), resamples, seed)


@lru_cache(maxsize=8)
def _resample_weights(templates: tuple[str, ...], resamples: int, seed: int) -> Array:
    number = len(templates)
    generator = np.random.default_rng(stable_number("bootstrap", seed, *templates))
    weights: Array = np.zeros((resamples, number))
    if number:
        weights += generator.multinomial(number, np.full(number, 1 / number), size=resamples)
    weights.flags.writeable = False
    return weights
