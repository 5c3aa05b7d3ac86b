"""Variance components of a score over category, template, language, prompt variant and order.

The score of a cell (template × language × prompt variant × order) is a sum of random effects of the factors and of all
their combinations, templates being nested in categories, and of the chance of its answers:

    y = μ + Σ_A Z_A u_A + e,        u_A ~ N(0, σ²(A)),        e ~ N(0, chance / answers of the cell)

The components are estimated by restricted maximum likelihood (Patterson & Thompson 1971, Biometrika 58; Searle, Casella
& McCulloch 1992, "Variance Components", §6.6), by average information (Gilmour, Thompson & Cullis 1995, Biometrics 51).
The likelihood is that of blocks, one for each level of the factor with the most levels, joined by the few levels of the
others (Woodbury). With P its projection and V_A = Z_A Z_A′, the mean square of A is distributed as σ²(A) + rest times
χ²/df, where σ²(A) + rest = tr(P V_A) / tr(P V_A P V_A) and df = tr(P V_A)² / tr(P V_A P V_A) (Satterthwaite 1946,
Biometrics Bulletin 2): so few prompt variants give the wide interval that they must.
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
"""Crossed factors, by the columns that hold them. Category and template, nested in it, come beside."""
_COLUMNS = {"template": TEMPLATE}
"""Factor → its column, where that has another name."""
_ROUNDING = 1e-12
"""A variance below this is one of rounding, and has no shares."""
_STEPS, _HALVINGS, _CLOSE, _MOST = 100, 20, 1e-7, 10.0
"""Of the search: most steps, halvings of one, and the change at which it ends and the largest component, in shares of
the cells' variance."""
_LEAST_CHANCE = 1e-9
"""The least variance of a cell's chance, so that its matrix can be inverted."""
Term = tuple[str, ...]
"""A combination of factors; `template` implies `category`."""


class TooFewCellsError(UsageError):
    """Variance components can't be estimated from so few cells."""


class VarianceComponent(FrozenModel):
    """The variance that one factor, or one combination of factors, gives to the score of a cell."""

    factor: str
    """`template`, `variant`, `template × language`…"""
    n_levels: int
    variance: float
    sd: float
    sd_low: float | None
    """None where it could not be estimated, and over fewer than MIN_TEMPLATES templates."""
    sd_high: float | None
    share: float | None


class VarianceTable(FrozenModel):
    """The components of one metric."""

    metric: str
    n_cells: int
    """Template × language × prompt variant × order, as far as there are answers."""
    answers_per_cell: float
    mean: float
    components: tuple[VarianceComponent, ...]
    """Single factors first, then combinations, then chance."""
    chance: VarianceComponent | None
    """The variance of one answer among those to one kind of question; None where no kind was sampled twice."""
    is_balanced: bool


@dataclass(frozen=True)
class Cells:
    """The cells of a design."""

    scores: Array
    codes: dict[Term, Codes]
    """For each term: the number of each cell's combination."""
    chance: float | None
    """Variance of one answer within a cell; None where it can't be separated from the combination of all factors."""
    answers: Array

    @property
    def chance_of_cells(self) -> Array:
        """For each cell: the variance that chance gives to its mean."""
        found: Array = (self.chance or 0.0) / self.answers
        return found


def variance_components(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> VarianceTable:
    """The components of a metric over the factors that vary in the table: one split, one model.

    Raises UsageError for a metric that is no mean over answers or fewer than two such factors, TooFewCellsError.
    """
    cells = _cells(frame, metric, sampling)
    try:
        estimated = estimate_components(cells, sampling.confidence)
    except TooFewCellsError as error:
        raise TooFewCellsError(f"{metric.name}: {error}") from error
    whole = sum(part[0] for part in estimated.values()) + float(cells.chance_of_cells.mean())

    def component(factor: str, n_levels: int, variance: float, *ends: float | None) -> VarianceComponent:
        share = variance / whole if ends and whole > _ROUNDING else None
        low, high = ends or (None, None)
        return VarianceComponent(
            factor=factor, n_levels=n_levels, variance=variance, sd=variance**0.5, sd_low=low, sd_high=high, share=share
        )

    levels = {_displayed(term): _levels(codes) for term, codes in cells.codes.items()}
    components = [
        component(" × ".join(_displayed(term)), levels[_displayed(term)], *one) for term, one in estimated.items()
    ]
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


def _displayed(term: Term) -> Term:
    """A term's factors as they are named: a template is in its category anyway."""
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
    """The variance of one answer about the mean of its kind of question in its cell; None where it can't be estimated.

    Where too few cells ask a kind twice, cells that differ in the order only are taken together.
    """
    kind = ("condition", "polarity", "alignment")
    for inside in (list(keys), [key for key in keys if key != "option_order"]):
        groups = answers.select(pl.struct(*inside, *kind).n_unique()).item()
        if answers.height >= 1.5 * groups:
            gaps = answers.select((pl.col("score") - pl.col("score").mean().over(*inside, *kind)) ** 2)
            return float(gaps["score"].sum()) / float(answers.height - groups)
    return None


# --- restricted maximum likelihood ------------------------------------------------------------------------------------


def estimate_components(cells: Cells, confidence: float = 0.95) -> dict[Term, tuple[float, float | None, float | None]]:
    """Term → its variance by REML, and the interval of its sd; TooFewCellsError where the likelihood has no maximum."""
    likelihood = _Likelihood(cells)
    number, scale = len(likelihood.terms), float(cells.scores.var())
    if scale <= _ROUNDING:
        nothing: tuple[float, float | None, float | None] = (0.0, None, None)
        return dict.fromkeys(likelihood.terms, nothing)
    now = likelihood.at(np.full(number, scale / number))
    few = TooFewCellsError(f"{number} variance components need more than {cells.scores.size} cells; ask more questions")
    for _ in range(_STEPS):
        gain, step = now.squares - now.traces, np.zeros(number)
        free = (now.variances > 0) | (gain > 0)
        step[free] = np.linalg.lstsq(now.information[np.ix_(free, free)], gain[free], rcond=None)[0]
        for _halved in range(_HALVINGS):
            found = likelihood.at(np.clip(now.variances + step, 0.0, _MOST * scale))
            if found.log_likelihood >= now.log_likelihood - _ROUNDING * abs(now.log_likelihood):
                break
            step = step / 2
        else:
            raise few
        moved, now = float(np.abs(found.variances - now.variances).max()), found
        if moved < _CLOSE * scale:
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
    """The restricted likelihood at some variances, with P its projection and V_A the derivative for component A."""

    variances: Array
    log_likelihood: float
    traces: Array
    """tr(P V_A)."""
    squares: Array
    """y′ P V_A P y; equal to the trace where the likelihood is greatest."""
    information: Array
    """y′ P V_A P V_B P y: twice the average information."""
    inverse: Array
    scaled: Array
    between: Array
    grams: Array


class _Likelihood:
    """The restricted likelihood of a design: blocks are the levels of the factor with the most levels.

    Cells are laid out in blocks × places; places without a cell have the score 0, variance 1 and no effect.
    """

    def __init__(self, cells: Cells) -> None:
        self.terms = list(cells.codes)
        most = max((t for t in self.terms if len(_displayed(t)) == 1), key=lambda term: _levels(cells.codes[term]))
        order = np.argsort(cells.codes[most], kind="stable")
        block = cells.codes[most][order]
        place = np.arange(block.size) - np.searchsorted(block, block)
        shape = (_levels(block), int(place.max()) + 1)

        def laid(values: Array, nothing: float) -> Array:
            found = np.full((*shape, *values.shape[1:]), nothing)
            found[block, place] = values[order]
            return found

        self._scores, self._chance = laid(cells.scores, 0.0), laid(cells.chance_of_cells, 1.0)
        self._inner: dict[int, Array] = {}
        """Component within blocks → blocks × places × places: 1 where both cells have its level."""
        owners, columns = [np.array([-1])], [np.ones((block.size, 1))]
        for number, (term, codes) in enumerate(cells.codes.items()):
            if most[-1] in term:
                own = laid(codes.astype(float), -1.0)
                self._inner[number] = ((own[:, :, None] == own[:, None, :]) & (own[:, :, None] >= 0)).astype(float)
            else:
                columns.append(np.eye(_levels(codes))[codes])
                owners.append(np.full(_levels(codes), number))
        self._columns, self._owner = laid(np.hstack(columns), 0.0), np.concatenate(owners)
        """Of each column: its component; −1 for the mean."""

        used, alike = np.unique((self._columns != 0).any(axis=1), axis=0, return_inverse=True)
        self._parts = [
            (np.flatnonzero(alike.reshape(-1) == number), np.flatnonzero(own)) for number, own in enumerate(used)
        ]
        """Blocks, and the columns that are not 0 there: those of a category are 0 in the others."""

    def at(self, variances: Array) -> _Point:
        """The likelihood and its derivatives."""
        places, roots = np.arange(self._scores.shape[1]), np.where(self._owner < 0, 1.0, variances[self._owner] ** 0.5)
        covariance = np.zeros((*self._scores.shape, places.size))
        for number, same in self._inner.items():
            covariance += variances[number] * same
        covariance[:, places, places] += np.maximum(self._chance, _LEAST_CHANCE)
        inverse = np.linalg.inv(covariance)
        solved = inverse @ self._columns
        scaled, plain = solved * roots, self._column_products(self._columns, solved)
        inner = plain * roots * roots[:, None] + np.diag((self._owner >= 0).astype(float))
        between: Array = np.asarray(np.linalg.inv(inner), dtype=np.float64)
        grams = plain - plain * roots @ between @ (plain * roots).T

        def project(values: Array) -> Array:
            found = (inverse @ values[..., None])[..., 0]
            lost: Array = found - scaled @ (between @ (values.reshape(-1) @ scaled.reshape(-1, scaled.shape[-1])))
            return lost

        residual = project(self._scores)
        pulls = residual.reshape(-1) @ self._columns.reshape(-1, self._columns.shape[-1])
        traces, squares = np.zeros(len(self.terms)), np.zeros(len(self.terms))
        moved: list[Array] = []
        inside = inverse - self._times_between(scaled, between) @ scaled.swapaxes(1, 2)  # P within blocks
        for number in range(len(self.terms)):
            if number in self._inner:
                traces[number] = np.sum(inside * self._inner[number])
                moved.append((self._inner[number] @ residual[..., None])[..., 0])
            else:
                own = self._owner == number
                traces[number] = np.diag(grams)[own].sum()
                moved.append(self._columns[..., own] @ pulls[own])
            squares[number] = np.sum(residual * moved[-1])
        projected = np.array([project(part) for part in moved])
        information = np.einsum("atn,btn->ab", np.array(moved), projected)
        logs = np.linalg.slogdet(covariance)[1].sum() + np.linalg.slogdet(inner)[1]
        likelihood = -0.5 * float(logs + np.sum(self._scores * residual))
        return _Point(variances, likelihood, traces, squares, information, inverse, scaled, between, grams)

    def spread(self, point: _Point) -> Array:
        """tr(P V_A P V_A) of each component."""
        found = np.zeros(len(self.terms))
        for number in set(self._owner[1:].tolist()):
            own = self._owner == number
            found[number] = np.sum(point.grams[np.ix_(own, own)] ** 2)
        for number, same in self._inner.items():
            product, effects = point.inverse @ same, same @ point.scaled
            whole = point.between @ self._column_products(point.scaled, effects)
            mixed = np.sum((same @ self._times_between(point.scaled, point.between)) * (point.inverse @ effects))
            found[number] = np.sum(product * product.swapaxes(1, 2)) - 2 * mixed + np.sum(whole * whole.T)
        return found

    def _column_products(self, one: Array, other: Array) -> Array:
        """The products of columns, summed over blocks and places."""
        found = np.zeros((one.shape[-1], other.shape[-1]))
        for blocks, used in self._parts:
            first, second = (part[np.ix_(blocks, np.arange(part.shape[1]), used)] for part in (one, other))
            found[np.ix_(used, used)] += first.reshape(-1, used.size).T @ second.reshape(-1, used.size)
        return found

    def _times_between(self, scaled: Array, between: Array) -> Array:
        """scaled · between, where the columns are not 0."""
        found = np.zeros_like(scaled)
        for blocks, used in self._parts:
            part = np.ix_(blocks, np.arange(scaled.shape[1]), used)
            found[part] = scaled[part] @ between[np.ix_(used, used)]
        return found
