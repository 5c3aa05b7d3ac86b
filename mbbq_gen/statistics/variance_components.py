"""Variance components of a score over category, template, language, prompt variant and order.

The score of a cell (template × language × prompt variant × order) is the sum of random effects of all factors and their
interactions, with templates nested in categories, and of the residual of its answers ("chance"):

    y = μ + Σ_A Z_A u_A + e,        u_A ~ N(0, σ²(A)),        e ~ N(0, chance / answers of the cell)

The components are estimated by restricted maximum likelihood (Patterson & Thompson 1971, Biometrika 58; Searle, Casella
& McCulloch 1992, "Variance Components", §6.6), by average information (Gilmour, Thompson & Cullis 1995, Biometrics 51).
The covariance has a block for each level of the largest factor, plus low-rank terms of the others (Woodbury identity).
With P the REML projection and V_A = Z_A Z_A′, the mean square of A is distributed as σ²(A) + rest times χ²/df, where
σ²(A) + rest = tr(P V_A) / tr(P V_A P V_A) and df = tr(P V_A)² / tr(P V_A P V_A) (Satterthwaite 1946, Biometrics
Bulletin 2). So few prompt variants give a wide interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import TEMPLATE, answer_scores
from mbbq_gen.statistics.estimate import InferenceSettings

Codes = NDArray[np.int64]

AXES = ("language", "variant", "option_order", "label_style", "reasoning_effort")
"""Columns of the crossed factors. Category, and template nested in it, are the other factors."""
_COLUMNS = {"template": TEMPLATE}
"""Columns of factors with another name."""
_ROUNDING = 1e-12
"""Variances below this are rounding errors."""
_STEPS, _HALVINGS, _CLOSE, _MOST = 100, 20, 1e-7, 10.0
"""Limits of the search: steps and halvings of a step; tolerance and largest component relative to the variance."""
_LEAST_CHANCE = 1e-9
"""Least residual variance of a cell, so that the covariance can be inverted."""
Term = tuple[str, ...]
"""A factor or an interaction; `template` includes `category`."""


class TooFewCellsError(UsageError):
    """There are too few cells to estimate variance components."""


class VarianceComponent(FrozenModel):
    """The variance of the score of a cell due to one factor or interaction."""

    factor: str
    """`template`, `variant`, `template × language`…"""
    n_levels: int
    variance: float
    sd: float
    sd_low: float | None
    """None if it cannot be estimated, or with fewer than MIN_TEMPLATES templates."""
    sd_high: float | None
    share: float | None


class VarianceTable(FrozenModel):
    """The components of one metric."""

    metric: str
    n_cells: int
    """Cells with answers."""
    answers_per_cell: float
    mean: float
    components: tuple[VarianceComponent, ...]
    """Single factors, then interactions."""
    chance: VarianceComponent | None
    """The residual variance of one answer within kinds of question; None if no kind was sampled twice."""
    is_balanced: bool


@dataclass(frozen=True)
class Cells:
    """The cells of a design."""

    scores: Array
    codes: dict[Term, Codes]
    """The level of each cell, by term."""
    chance: float | None
    """Residual variance of one answer; None if it cannot be separated from the interaction of all factors."""
    answers: Array

    @property
    def residual_variances(self) -> Array:
        """The residual variance of each cell's mean."""
        variances: Array = (self.chance or 0.0) / self.answers
        return variances


def variance_components(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> VarianceTable:
    """The components of a metric over the factors that vary in a table of one split and model.

    Raises UsageError for a metric that is not a mean over answers or for fewer than two factors, TooFewCellsError.
    """
    cells = _cells(frame, metric, sampling)
    try:
        estimated = estimate_components(cells, sampling.confidence)
    except TooFewCellsError as error:
        raise TooFewCellsError(f"{metric.name}: {error}") from error
    total = sum(part[0] for part in estimated.values()) + float(cells.residual_variances.mean())

    def component(factor: str, n_levels: int, variance: float, *ends: float | None) -> VarianceComponent:
        share = variance / total if ends and total > _ROUNDING else None
        low, high = ends or (None, None)
        return VarianceComponent(
            factor=factor, n_levels=n_levels, variance=variance, sd=variance**0.5, sd_low=low, sd_high=high, share=share
        )

    levels = {_names(term): _levels(codes) for term, codes in cells.codes.items()}
    components = [component(" × ".join(_names(term)), levels[_names(term)], *one) for term, one in estimated.items()]
    expected = math.prod(number for factors, number in levels.items() if len(factors) == 1 and factors != ("category",))
    sizes = cells.answers
    return VarianceTable(
        metric=metric.name,
        n_cells=int(cells.scores.size),
        answers_per_cell=float(sizes.mean()),
        mean=float(cells.scores.mean()),
        components=tuple(sorted(components, key=lambda one: one.factor.count("×"))),
        chance=None if cells.chance is None else component("chance", int(sizes.sum()), cells.chance),
        is_balanced=bool((sizes == sizes[0]).all()) and expected == max(levels.values()),
    )


def _names(term: Term) -> Term:
    """The factors of a term, without the category of a template."""
    return tuple(factor for factor in term if factor != "category" or "template" not in term)


def _levels(codes: Codes) -> int:
    return int(codes.max()) + 1


# --- the cells -------------------------------------------------------------------------------------------------------


def _cells(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> Cells:
    answers = answer_scores(frame, metric, sampling.unparsed)
    varying = [name for name in AXES if answers[name].n_unique() > 1]
    nested = [name for name in ("category", "template") if answers[_COLUMNS.get(name, name)].n_unique() > 1]
    if len(varying) + ("template" in nested) < 2:
        raise UsageError(f"{metric.name}: fewer than two of template, {', '.join(AXES)} vary; nothing to decompose")
    keys = ["category", TEMPLATE, *varying]
    texts = answers.with_columns(pl.col(key).cast(pl.String) for key in keys)
    table = texts.group_by(keys).agg(pl.col("score").mean(), pl.len().alias("n")).sort(keys)
    codes: dict[Term, Codes] = {}
    for above, *chosen in product([nested[:depth] for depth in range(len(nested) + 1)], *(((), (n,)) for n in varying)):
        term = (*above, *(name for part in chosen for name in part))
        if term:
            combined = pl.concat_str([_COLUMNS.get(name, name) for name in term], separator="\x1f").rank("dense")
            codes[term] = table.select(combined).to_series().to_numpy().astype(np.int64) - 1
    return Cells(
        scores=table["score"].to_numpy(),
        codes=dict(sorted(codes.items(), key=lambda item: len(item[0]))),  # from single factors to all together
        chance=_chance(answers, keys),
        answers=table["n"].to_numpy().astype(np.float64),
    )


def _chance(answers: pl.DataFrame, keys: Sequence[str]) -> float | None:
    """The residual variance of one answer within cell and kind of question; None if it cannot be estimated.

    If too few kinds have two answers in a cell, cells that differ only in the order are pooled.
    """
    kind = ("condition", "polarity", "alignment")
    for cell in (list(keys), [key for key in keys if key != "option_order"]):
        groups = answers.select(pl.struct(*cell, *kind).n_unique()).item()
        if answers.height >= 1.5 * groups:
            squares = answers.select((pl.col("score") - pl.col("score").mean().over(*cell, *kind)) ** 2)
            return float(squares["score"].sum()) / float(answers.height - groups)
    return None


# --- restricted maximum likelihood ------------------------------------------------------------------------------------


def estimate_components(cells: Cells, confidence: float = 0.95) -> dict[Term, tuple[float, float | None, float | None]]:
    """The REML variance and the interval of the sd by term; TooFewCellsError if the search does not converge."""
    likelihood = _Likelihood(cells)
    number, scale = len(likelihood.terms), float(cells.scores.var())
    if scale <= _ROUNDING:
        zero: tuple[float, float | None, float | None] = (0.0, None, None)
        return dict.fromkeys(likelihood.terms, zero)
    now = likelihood.at(np.full(number, scale / number))
    few = TooFewCellsError(f"{number} variance components need more than {cells.scores.size} cells; ask more questions")
    for _ in range(_STEPS):
        gradient, step = now.squares - now.traces, np.zeros(number)
        free = (now.variances > 0) | (gradient > 0)
        step[free] = np.linalg.lstsq(now.information[np.ix_(free, free)], gradient[free], rcond=None)[0]
        for _halved in range(_HALVINGS):
            new = likelihood.at(np.clip(now.variances + step, 0.0, _MOST * scale))
            if new.log_likelihood >= now.log_likelihood - _ROUNDING * abs(now.log_likelihood):
                break
            step = step / 2
        else:
            raise few
        change, now = float(np.abs(new.variances - now.variances).max()), new
        if change < _CLOSE * scale:
            break
    else:
        raise few
    templates = max((_levels(codes) for term, codes in cells.codes.items() if term[-1:] == ("template",)), default=1)
    result: dict[Term, tuple[float, float | None, float | None]] = {}
    columns = (now.variances, now.traces, now.squares, likelihood.spread(now))
    for term, variance, trace, square, twice in zip(likelihood.terms, *columns, strict=True):
        ends: tuple[float | None, float | None] = (None, None)
        if templates >= MIN_TEMPLATES and twice > 0 and square > 0:
            degrees, expected = trace**2 / twice, trace / twice
            tails = special.chdtri(degrees, [(1 - confidence) / 2, (1 + confidence) / 2])
            if tails.min() > 0:
                low, high = expected * square / trace * degrees / tails - (expected - variance)
                ends = float(max(low, 0.0) ** 0.5), float(max(high, 0.0) ** 0.5)
        result[term] = float(variance), *ends
    return result


@dataclass(frozen=True)
class _Point:
    """The restricted likelihood at given variances; P is its projection, V_A the derivative for component A."""

    variances: Array
    log_likelihood: float
    traces: Array
    """tr(P V_A)."""
    squares: Array
    """y′ P V_A P y; equal to the trace at the maximum."""
    information: Array
    """y′ P V_A P V_B P y: twice the average information."""
    inverse: Array
    scaled: Array
    between: Array
    grams: Array


class _Likelihood:
    """The restricted likelihood of a design, with a block for each level of the largest factor.

    Cells are arranged as blocks × positions; empty positions have the score 0, variance 1 and no effect.
    """

    def __init__(self, cells: Cells) -> None:
        self.terms = list(cells.codes)
        largest = max((t for t in self.terms if len(_names(t)) == 1), key=lambda term: _levels(cells.codes[term]))
        order = np.argsort(cells.codes[largest], kind="stable")
        block = cells.codes[largest][order]
        position = np.arange(block.size) - np.searchsorted(block, block)
        shape = (_levels(block), int(position.max()) + 1)

        def by_block(values: Array, empty: float) -> Array:
            arranged = np.full((*shape, *values.shape[1:]), empty)
            arranged[block, position] = values[order]
            return arranged

        self._scores, self._residual = by_block(cells.scores, 0.0), by_block(cells.residual_variances, 1.0)
        self._within: dict[int, Array] = {}
        """Component within blocks → blocks × positions × positions: 1 if both cells have the same level."""
        owners, columns = [np.array([-1])], [np.ones((block.size, 1))]
        for number, (term, codes) in enumerate(cells.codes.items()):
            if largest[-1] in term:
                own = by_block(codes.astype(float), -1.0)
                self._within[number] = ((own[:, :, None] == own[:, None, :]) & (own[:, :, None] >= 0)).astype(float)
            else:
                columns.append(np.eye(_levels(codes))[codes])
                owners.append(np.full(_levels(codes), number))
        self._columns, self._owner = by_block(np.hstack(columns), 0.0), np.concatenate(owners)
        """The design matrix of the other components, and the component of each column; −1 for the mean."""

        used, kind = np.unique((self._columns != 0).any(axis=1), axis=0, return_inverse=True)
        self._parts = [(np.flatnonzero(kind.reshape(-1) == row), np.flatnonzero(own)) for row, own in enumerate(used)]
        """Blocks, and their columns that are not 0; columns of a category are 0 in other categories."""

    def at(self, variances: Array) -> _Point:
        """The likelihood and its derivatives."""
        roots = np.where(self._owner < 0, 1.0, variances[self._owner] ** 0.5)
        diagonal = np.arange(self._scores.shape[1])
        covariance = np.zeros((*self._scores.shape, diagonal.size))
        for number, same in self._within.items():
            covariance += variances[number] * same
        covariance[:, diagonal, diagonal] += np.maximum(self._residual, _LEAST_CHANCE)
        inverse = np.linalg.inv(covariance)
        solved = inverse @ self._columns
        scaled, plain = solved * roots, self._column_products(self._columns, solved)
        inner = plain * roots * roots[:, None] + np.diag((self._owner >= 0).astype(float))
        between: Array = np.asarray(np.linalg.inv(inner), dtype=np.float64)
        grams = plain - plain * roots @ between @ (plain * roots).T

        def project(values: Array) -> Array:
            sums = values.reshape(-1) @ scaled.reshape(-1, scaled.shape[-1])
            projected: Array = (inverse @ values[..., None])[..., 0] - scaled @ (between @ sums)
            return projected

        residual = project(self._scores)
        sums = residual.reshape(-1) @ self._columns.reshape(-1, self._columns.shape[-1])
        traces, squares = np.zeros(len(self.terms)), np.zeros(len(self.terms))
        derivatives: list[Array] = []  # V_A P y
        inside = inverse - self._times_between(scaled, between) @ scaled.swapaxes(1, 2)  # P within blocks
        for number in range(len(self.terms)):
            if number in self._within:
                traces[number] = np.sum(inside * self._within[number])
                derivatives.append((self._within[number] @ residual[..., None])[..., 0])
            else:
                own = self._owner == number
                traces[number] = np.diag(grams)[own].sum()
                derivatives.append(self._columns[..., own] @ sums[own])
            squares[number] = np.sum(residual * derivatives[-1])
        projections = np.array([project(derivative) for derivative in derivatives])
        information = np.einsum("atn,btn->ab", np.array(derivatives), projections)
        logs = np.linalg.slogdet(covariance)[1].sum() + np.linalg.slogdet(inner)[1]
        likelihood = -0.5 * float(logs + np.sum(self._scores * residual))
        return _Point(variances, likelihood, traces, squares, information, inverse, scaled, between, grams)

    def spread(self, point: _Point) -> Array:
        """tr(P V_A P V_A) of each component."""
        traces = np.zeros(len(self.terms))
        for number in set(self._owner[1:].tolist()):
            own = self._owner == number
            traces[number] = np.sum(point.grams[np.ix_(own, own)] ** 2)
        for number, same in self._within.items():
            product, effects = point.inverse @ same, same @ point.scaled
            joint = point.between @ self._column_products(point.scaled, effects)
            mixed = np.sum((same @ self._times_between(point.scaled, point.between)) * (point.inverse @ effects))
            traces[number] = np.sum(product * product.swapaxes(1, 2)) - 2 * mixed + np.sum(joint * joint.T)
        return traces

    def _column_products(self, one: Array, other: Array) -> Array:
        """The products of columns, summed over blocks and positions."""
        products = np.zeros((one.shape[-1], other.shape[-1]))
        for blocks, used in self._parts:
            first, second = (part[np.ix_(blocks, np.arange(part.shape[1]), used)] for part in (one, other))
            products[np.ix_(used, used)] += first.reshape(-1, used.size).T @ second.reshape(-1, used.size)
        return products

    def _times_between(self, scaled: Array, between: Array) -> Array:
        """The product scaled · between, computed only for columns that are not 0."""
        result = np.zeros_like(scaled)
        for blocks, used in self._parts:
            part = np.ix_(blocks, np.arange(scaled.shape[1]), used)
            result[part] = scaled[part] @ between[np.ix_(used, used)]
        return result
