"""What the axes of composed wordings do to a score: main effects, and interactions of two axes.

Cells are the wordings of a design (`mbbq_gen.axes`), crossed with the levels of thinking where several were asked. A
level's score is the plain mean of its cells; a main effect is its difference from the axis's first level, over all
other axes alike; an interaction is how much the effect of one axis changes with the level of another: (ab − a) −
(b − base). All are paired by template: intervals resample templates, tests flip the signs of what each template adds.
Wordings are held fixed: the sentences that were asked, not all that could say the same.
Design: docs/decisions/0016-prompt-variants.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TYPE_CHECKING, Final

from mbbq_gen.axes import aliases, is_orthogonal, parse_cell, varied_axes
from mbbq_gen.reasoning import in_order
from mbbq_gen.records import Record
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.panel import Estimate, EstimateScore, Sampling, combine, make_panel
from mbbq_gen.statistics.significance import TestResult, holm
from mbbq_gen.statistics.zero_tests import is_zero

if TYPE_CHECKING:
    import polars

Levels = Mapping[str, str]
"""Axis → level of a cell."""
_Cell = tuple[str, str, str]
"""Language, wording, level of thinking."""
THINKING: Final = "thinking"
"""The axis of how much a model was to think first, which crosses all wordings."""


class LevelMean(Record):
    """The score of a level of an axis, over all levels of the others."""

    axis: str
    level: str
    score: EstimateScore


class Effect(Record):
    """What a level does, against the first level of its axis; or two levels of two axes beyond what each does."""

    axes: tuple[str, ...]
    levels: tuple[str, ...]
    against: tuple[str, ...]
    """The first level of each of the axes."""
    language: str | None = None
    """None: the mean over languages."""
    difference: EstimateScore
    test: TestResult
    """With its p value adjusted over all effects of the metric (Holm); alone for a single language."""
    aliased_with: tuple[tuple[str, str], ...] = ()
    """Pairs of axes whose interaction these cells can't tell from this one."""


class EffectTable(Record):
    """The effects of all axes on one metric."""

    metric: str
    n_cells: int
    n_templates: int
    means: tuple[LevelMean, ...]
    main: tuple[Effect, ...]
    interactions: tuple[Effect, ...]
    by_language: tuple[Effect, ...]
    """Main effects in each language, where there are several."""


def effect_table(frame: polars.DataFrame, metric: Metric, sampling: Sampling) -> EffectTable | str | None:
    """The effects of the axes in which a group's wordings differ, and of thinking.

    Returns:
        None where the wordings are not composed, or all alike, and thinking too; why not, where their effects can't be
        told apart.
    """
    variants = [str(variant) for variant in frame["variant"].unique().sort()]
    levels = in_order([str(level) for level in frame["thinking"].drop_nulls().unique()])
    axes = varied_axes(variants)
    if len(levels) > 1:
        axes = {**axes, THINKING: tuple(levels)}
    if not axes:
        return None
    if not is_orthogonal(variants):
        return "main effects: the wordings are no balanced design over their axes; ask all cells of --axes"
    panel = make_panel(frame, ["language", "variant", "thinking"], sampling)
    found = {
        (str(group["language"]), str(group["variant"]), str(group["thinking"] or "")): estimate
        for group, estimate in zip(panel.groups, panel.estimates(metric), strict=True)
    }
    languages = sorted({language for language, _, _ in found})
    if len(found) < len(languages) * len(variants) * max(1, len(levels)):
        return "main effects: some wordings or levels of thinking were not asked in all languages"
    cells = {
        (variant, level): {**(parse_cell(variant) or {}), THINKING: level}
        for variant in variants
        for level in levels or [""]
    }
    whole = _Contrasts({key: cells[key[1:]] for key in found}, found, axes, metric, sampling)
    main, interactions = list(whole.main()), list(whole.interactions(aliases(variants)))
    adjusted = holm([effect.test.p_value for effect in (*main, *interactions)])
    told = [_holmed(effect, p) for effect, p in zip((*main, *interactions), adjusted, strict=True)]
    return EffectTable(
        metric=metric.name,
        n_cells=len(cells),
        n_templates=len(panel.templates),
        means=tuple(whole.means()),
        main=tuple(told[: len(main)]),
        interactions=tuple(told[len(main) :]),
        by_language=tuple(
            effect
            for language in (languages if len(languages) > 1 else ())
            for effect in _Contrasts(
                {key: cells[key[1:]] for key in found if key[0] == language}, found, axes, metric, sampling
            ).main(language)
        ),
    )


def _holmed(effect: Effect, p_adjusted: float | None) -> Effect:
    test = effect.test.model_copy(update={"p_adjusted": p_adjusted, "adjustment": "holm"})
    return effect.model_copy(update={"test": test})


class _Contrasts:
    """Differences of means over cells."""

    def __init__(
        self,
        cells: Mapping[_Cell, Levels],
        estimates: Mapping[_Cell, Estimate],
        axes: Mapping[str, Sequence[str]],
        metric: Metric,
        sampling: Sampling,
    ) -> None:
        self._cells = list(cells.values())
        self._estimates = [estimates[key] for key in cells]
        self._axes = axes
        self._metric = metric
        self._sampling = sampling

    def means(self) -> Iterator[LevelMean]:
        """Every level of every axis."""
        for axis, levels in self._axes.items():
            for level in levels:
                mean = combine(self._estimates, self._shares({axis: level}))
                yield LevelMean(axis=axis, level=level, score=mean.score(self._sampling))

    def main(self, language: str | None = None) -> Iterator[Effect]:
        """Every level against its axis's first one."""
        for axis, (first, *others) in self._axes.items():
            for level in others:
                weights = _minus(self._shares({axis: level}), self._shares({axis: first}))
                yield self._effect((axis,), (level,), (first,), weights, language=language)

    def interactions(self, aliased: Sequence[tuple[tuple[str, str], tuple[str, str]]]) -> Iterator[Effect]:
        """Every two levels of two axes, beyond what each does."""
        for one, other in combinations(self._axes, 2):
            (base, *levels), (its_base, *its_levels) = self._axes[one], self._axes[other]
            alike = [
                second if first == (one, other) else first
                for first, second in aliased
                if (one, other) in (first, second)
            ]
            for level, its in product(levels, its_levels):
                together = _minus(self._shares({one: level, other: its}), self._shares({one: base, other: its}))
                alone = _minus(self._shares({one: level, other: its_base}), self._shares({one: base, other: its_base}))
                yield self._effect(
                    (one, other), (level, its), (base, its_base), _minus(together, alone), aliased_with=tuple(alike)
                )

    def _shares(self, wanted: Levels) -> list[float]:
        """The weights of a plain mean over the cells that have these levels."""
        fits = [all(cell[axis] == level for axis, level in wanted.items()) for cell in self._cells]
        return [fit / sum(fits) for fit in fits]

    def _effect(
        self,
        axes: tuple[str, ...],
        levels: tuple[str, ...],
        against: tuple[str, ...],
        weights: Sequence[float],
        *,
        language: str | None = None,
        aliased_with: tuple[tuple[str, str], ...] = (),
    ) -> Effect:
        used = [(estimate, weight) for estimate, weight in zip(self._estimates, weights, strict=True) if weight]
        difference = combine([estimate for estimate, _ in used], [weight for _, weight in used])
        what = " × ".join(f"{axis}={level}" for axis, level in zip(axes, levels, strict=True))
        return Effect(
            axes=axes,
            levels=levels,
            against=against,
            language=language,
            difference=difference.score(self._sampling),
            test=is_zero(
                difference,
                f"{what} does nothing to {self._metric.name}",
                seed=self._sampling.seed,
            ),
            aliased_with=aliased_with,
        )


def _minus(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [mine - theirs for mine, theirs in zip(one, other, strict=True)]
