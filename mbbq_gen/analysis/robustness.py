"""Sensitivity of scores to the prompt variant, the option order, the label style and the language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from mbbq_gen.analysis.agreement import Flips, choices, flips
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.reasoning import sort_levels
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.languages.axes import confounded_interactions, is_orthogonal, parse_variant_name, varied_axes
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import partition
from mbbq_gen.statistics.estimate import Estimate, EstimateResult, InferenceSettings, combine, mean, no_score, number
from mbbq_gen.statistics.hypothesis_tests import TestResult, equality_test, holm, kendall_w, zero_test
from mbbq_gen.statistics.panel import make_panel
from mbbq_gen.statistics.variance_components import VarianceTable, variance_components

Levels = Mapping[str, str]
_Scored = tuple[str, Levels, Estimate]
"""Language, level of each axis, and score of a cell."""
REASONING_EFFORT: Final = "reasoning_effort"


class LevelMean(FrozenModel):
    """The mean score of a level of an axis over the levels of other axes."""

    axis: str
    level: str
    score: EstimateResult


class Effect(FrozenModel):
    """The effect of a level against the first level of its axis, or an interaction of levels of two axes."""

    axes: tuple[str, ...]
    levels: tuple[str, ...]
    against: tuple[str, ...]
    language: str | None = None
    """None: the mean over languages."""
    difference: EstimateResult
    test: TestResult
    """The p value is adjusted over all effects of the metric (Holm), except for single languages."""
    aliased_with: tuple[tuple[str, str], ...] = ()
    """Pairs of axes whose interaction is aliased with this one."""


class EffectTable(FrozenModel):
    """The effects of all axes on one metric."""

    metric: str
    n_cells: int
    n_templates: int
    means: tuple[LevelMean, ...]
    main: tuple[Effect, ...]
    interactions: tuple[Effect, ...]
    by_language: tuple[Effect, ...]


def effect_table(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> EffectTable | str | None:
    """The effects of the axes of prompt variants and of reasoning effort; a text with the reason if not possible."""
    variants = [str(variant) for variant in frame["variant"].unique().sort()]
    levels = sort_levels([str(level) for level in frame["reasoning_effort"].drop_nulls().unique()])
    axes = varied_axes(variants)
    if len(levels) > 1:
        axes = {**axes, REASONING_EFFORT: tuple(levels)}
    if not axes:
        return None
    if not is_orthogonal(variants):
        return "main effects: the prompt variants are no balanced design over their axes; run all variants of --axes"
    panel = make_panel(frame, ["language", "variant", REASONING_EFFORT], sampling)
    estimates, cells = panel.estimates(metric), list[_Scored]()
    for group, estimate in zip(panel.groups, estimates, strict=True):
        effort = {REASONING_EFFORT: str(group[REASONING_EFFORT] or "")}
        own_levels = {**(parse_variant_name(str(group["variant"])) or {}), **effort}
        cells.append((str(group["language"]), own_levels, estimate))
    languages, n_cells = sorted({language for language, *_ in cells}), len(variants) * max(1, len(levels))
    if len(cells) < len(languages) * n_cells:
        return "main effects: some prompt variants or reasoning efforts were not run in all languages"
    contrasts = _Contrasts(axes, metric, sampling, confounded_interactions(variants))
    effects = [effect for order in (1, 2) for effect in contrasts.effects(cells, order)]
    adjusted = holm([effect.test.p_value for effect in effects])
    pairs = zip(effects, adjusted, strict=True)
    effects = [effect.model_copy(update={"test": effect.test.adjusted(p)}) for effect, p in pairs]
    by_language = [
        effect
        for language in (languages if len(languages) > 1 else ())
        for effect in contrasts.effects([cell for cell in cells if cell[0] == language], 1, language)
    ]
    means = []
    for axis, level in ((axis, level) for axis, levels_of_axis in axes.items() for level in levels_of_axis):
        score = combine(estimates, _shares(cells, {axis: level}).tolist()).score(sampling)
        means.append(LevelMean(axis=axis, level=level, score=score))
    return EffectTable(
        metric=metric.name,
        n_cells=n_cells,
        n_templates=len(panel.templates),
        means=tuple(means),
        main=tuple(effect for effect in effects if len(effect.axes) == 1),
        interactions=tuple(effect for effect in effects if len(effect.axes) == 2),
        by_language=tuple(by_language),
    )


def _shares(cells: Sequence[_Scored], wanted: Levels) -> Array:
    """The weights of a mean over the cells with these levels."""
    matches = np.array([all(levels[axis] == level for axis, level in wanted.items()) for _, levels, _ in cells])
    weights: Array = matches / matches.sum()
    return weights


@dataclass(frozen=True)
class _Contrasts:
    """Contrasts of means over cells."""

    axes: Mapping[str, Sequence[str]]
    metric: Metric
    sampling: InferenceSettings
    aliased: Sequence[tuple[tuple[str, str], tuple[str, str]]]
    """Pairs of aliased interactions."""

    def effects(self, cells: Sequence[_Scored], order: int, language: str | None = None) -> Iterator[Effect]:
        """The main effects (order 1) or two-way interactions (order 2), against the first level of each axis."""
        for axes in combinations(self.axes, order):
            against = tuple(self.axes[axis][0] for axis in axes)
            aliases = tuple(two if one == axes else one for one, two in self.aliased if axes in (one, two))
            for levels in product(*(self.axes[axis][1:] for axis in axes)):
                weights = np.zeros(len(cells))
                for chosen in product(*zip(levels, against, strict=True)):
                    sign = (-1) ** sum(map(str.__ne__, chosen, levels))
                    weights += sign * _shares(cells, dict(zip(axes, chosen, strict=True)))
                used = [(cell[2], float(weight)) for cell, weight in zip(cells, weights, strict=True) if weight]
                difference = combine(*zip(*used, strict=True))
                what = " × ".join(f"{axis}={level}" for axis, level in zip(axes, levels, strict=True))
                yield Effect(
                    axes=axes,
                    levels=levels,
                    against=against,
                    language=language,
                    difference=difference.score(self.sampling),
                    test=zero_test(difference, f"{what} does nothing to {self.metric.name}", self.sampling),
                    aliased_with=aliases,
                )


Factor = Literal["variant", "option_order", "label_style", "reasoning_effort", "language"]
FACTORS: tuple[Factor, ...] = get_args(Factor)


class FactorLevel(FrozenModel):
    """The score at one level of a factor."""

    level: str | None
    score: EstimateResult
    parse_rate: float | None


class MetricSpread(FrozenModel):
    """A metric over the levels of one factor."""

    metric: str
    factor: Factor
    levels: tuple[FactorLevel, ...]
    mean: EstimateResult
    """The macro average over levels with a defined score."""
    sd: float | None
    """The sd of the levels' scores, which includes sampling error; see `components` for the sd without it."""
    lowest: float | None
    highest: float | None
    worst: float | None
    """For a bias, the score farthest from 0; for an accuracy or rate, the lowest."""
    worst_level: str | None
    tests: tuple[TestResult, ...]


class RobustnessReport(FrozenModel):
    """The effects of prompts on the scores of one group."""

    group: dict[str, str | None]
    n_answers: int
    spreads: tuple[MetricSpread, ...]
    flips: tuple[Flips, ...]
    components: tuple[VarianceTable, ...]
    effects: tuple[EffectTable, ...] = ()
    """Effects of the axes of composed prompt variants."""
    notes: tuple[str, ...]


class RankStability(FrozenModel):
    """The agreement of model rankings between the levels of a factor."""

    metric: str
    factor: Factor
    models: tuple[str, ...]
    levels: tuple[str, ...]
    kendall_w: float | None
    """1: all levels have the same ranking; 0: no agreement; None: no complete level."""


class RobustnessTable(FrozenModel):
    """The JSON of `mbbq-gen robustness`: reports and settings."""

    schema_version: Literal["mbbq-gen.robustness/1"] = "mbbq-gen.robustness/1"
    confidence_level: float
    n_resamples: int
    seed: int
    unparsed: str
    signs: dict[str, str]
    groups: tuple[RobustnessReport, ...]
    ranks: tuple[RankStability, ...]


def robustness_reports(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> list[RobustnessReport]:
    """A report for each group; `by` should include model and split if there are several."""
    reports = []
    for group, part in partition(frame, by):
        factors = [factor for factor in FACTORS if part[factor].n_unique() > 1]
        notes, components, answers = [], [], choices(part)
        for metric in metrics:
            try:
                components.append(variance_components(part, metric, sampling))
            except UsageError as error:
                notes.append(str(error))
        tables = [effect_table(part, metric, sampling) for metric in metrics]
        notes += dict.fromkeys(table for table in tables if isinstance(table, str))
        report = RobustnessReport(
            group=group,
            n_answers=part.height,
            spreads=tuple(spread(part, metric, factor, sampling) for metric in metrics for factor in factors),
            flips=tuple(found for factor in factors if (found := flips(answers, factor, sampling))),
            components=tuple(components),
            effects=tuple(table for table in tables if isinstance(table, EffectTable)),
            notes=tuple(notes),
        )
        reports.append(report)
    return reports


def spread(frame: pl.DataFrame, metric: Metric, factor: Factor, sampling: InferenceSettings) -> MetricSpread:
    """A metric over the levels of a factor."""
    panel = make_panel(frame, [factor], sampling)
    estimates = {group[factor]: one for group, one in zip(panel.groups, panel.estimates(metric), strict=True)}
    rates = METRICS["parse_rate"].value(panel.total)
    values = {name: estimate.value for name, estimate in estimates.items() if not np.isnan(estimate.value)}
    worst = min(values, key=lambda name: -abs(values[name]) if metric.low < 0 else values[name]) if values else None
    hypothesis = f"{metric.name} does not differ between values of {factor}"
    is_shared = (panel.by_template.values.sum(axis=2) > 0).all(axis=0)
    shared = panel.on_templates([panel.templates[column] for column in np.flatnonzero(is_shared)])
    return MetricSpread(
        metric=metric.name,
        factor=factor,
        levels=tuple(
            FactorLevel(level=name, score=estimate.score(sampling), parse_rate=number(rate))
            for (name, estimate), rate in zip(estimates.items(), rates, strict=True)
        ),
        mean=mean([estimates[name] for name in values]).score(sampling) if values else no_score("undefined throughout"),
        sd=float(np.std([*values.values()], ddof=1)) if len(values) > 1 else None,
        lowest=min(values.values(), default=None),
        highest=max(values.values(), default=None),
        worst=values[worst] if values else None,
        worst_level=worst,
        tests=(equality_test(shared.estimates(metric), hypothesis, sampling),),
    )


def rank_stability(
    frame: pl.DataFrame, metric: Metric, factor: Factor, sampling: InferenceSettings
) -> RankStability | None:
    """Kendall's W of the models' ranks over the levels of a factor; None for one model or one level."""
    panel = make_panel(frame, ["model", factor], sampling)
    models, levels = (sorted({str(group[name]) for group in panel.groups}) for name in ("model", factor))
    if len(models) < 2 or len(levels) < 2:
        return None
    table = np.full((len(levels), len(models)), np.nan)
    for group, value in zip(panel.groups, metric.value(panel.total), strict=True):
        table[levels.index(str(group[factor])), models.index(str(group["model"]))] = value
    complete = table[~np.isnan(table).any(axis=1)]
    return RankStability(
        metric=metric.name,
        factor=factor,
        models=tuple(models),
        levels=tuple(levels),
        kendall_w=kendall_w(complete) if complete.size else None,
    )
