"""How much of a score each factor makes: variance components over category, template, language, prompt variant and
order.

The score of a cell (template × language × prompt variant × order) is taken as a sum of effects of the factors and of
all their combinations, templates being nested in categories. The components are estimated by the method of moments from
symmetric sums (Koch 1967, "A General Approach to the Estimation of Variance Components", Technometrics 9): for every
combination S of factors, the sum of y_i · y_j over all pairs of cells that share S has an expectation that is linear in
the components,

    E Σ_{i,j share S} w_i w_j y_i y_j = μ² · P(S) + Σ_A σ²(A) · P(S ∪ A),        P(S): Σ w_i w_j of pairs that share S,

which is solved for all S at once. Where cells hold unlike numbers n of answers, w = n / (n + κ), κ being the variance
of one answer over that of cells within templates, from a first pass without weights: about the inverse variance of a
cell, as restricted maximum likelihood weighs it (Searle, Casella & McCulloch 1992, "Variance Components", §6.6). No
balance is needed; on a balanced design it is the analysis of variance, and a test holds it to that. Estimates may come
out below 0; they are reported as they are, and their standard deviation is 0.

Intervals: the mean square of a factor over its expectation is taken to be distributed as in a parametric bootstrap with
normal effects (as χ² over its degrees of freedom, on a balanced design), so few prompt variants give the wide interval
that they must. `benches/simulate_all.py` holds them to what they promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import TEMPLATE, answer_scores
from mbbq_gen.statistics.estimate import InferenceSettings

Codes = NDArray[np.int64]

AXES = ("language", "variant", "option_order", "label_style", "reasoning_effort")
"""Crossed factors, by the columns that hold them. Category and template, nested in it, come beside."""
_ROUNDING = 1e-12
"""A variance below this is one of rounding, and has no shares."""
DRAWS = 300
"""Of the parametric bootstrap."""
Term = tuple[str, ...]
"""A combination of factors; `template` implies `category`."""


class VarianceComponent(FrozenModel):
    """The variance that one factor, or one combination of factors, gives to the score of a cell."""

    factor: str
    """`template`, `variant`, `template × language`…"""
    n_levels: int
    """How many different ones there were."""
    variance: float
    """As estimated; may be below 0 by chance."""
    sd: float
    """Its root, 0 for a negative variance: in units of the score."""
    sd_low: float | None
    """Interval of the sd; None where it could not be estimated, and over fewer than MIN_TEMPLATES templates."""
    sd_high: float | None
    share: float | None
    """Of all components' variance, negative ones counted as 0."""


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
    """Of one answer among those to one kind of question; a cell's mean has this divided by its number of answers.
    None where no kind was sampled twice: chance is then in the combination of all factors."""
    is_balanced: bool
    """Whether every combination has the same number of answers: then this is the exact analysis of variance."""


@dataclass(frozen=True)
class Cells:
    """The cells of a design."""

    scores: Array
    """The mean score of each cell."""
    codes: dict[Term, Codes]
    """For each term: the number of each cell's combination."""
    chance: float | None
    """Variance of one answer within a cell; None where it can't be estimated from the combination of all factors."""
    answers: Array
    """For each cell: its number of answers."""

    @property
    def chance_of_cells(self) -> Array:
        """For each cell: the variance that chance gives to its mean."""
        found: Array = (self.chance or 0.0) / self.answers
        return found


def variance_components(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> VarianceTable:
    """The components of a metric over the factors that vary in the table: one split, one model.

    Raises:
        UsageError: for a metric that is no mean over answers, or where fewer than two factors vary.
    """
    cells = _cells(frame, metric, sampling)
    estimated = estimate_components(cells, sampling)
    whole = sum(max(part[0], 0.0) for term, part in estimated.items() if term) + float(cells.chance_of_cells.mean())
    components = [
        _component(" × ".join(_shown(term)), _levels(cells.codes[term]), variance, whole, (low, high))
        for term, (variance, low, high) in estimated.items()
        if term
    ]
    ordered = sorted(components, key=lambda component: component.factor.count("×"))
    sizes = cells.answers
    return VarianceTable(
        metric=metric.name,
        n_cells=int(cells.scores.size),
        answers_per_cell=float(sizes.mean()),
        mean=float(cells.scores.mean()),
        components=tuple(ordered),
        chance=None if cells.chance is None else _component("chance", int(sizes.sum()), cells.chance, None, None),
        is_balanced=bool((sizes == sizes[0]).all()) and _is_complete(cells.codes),
    )


def estimate_components(
    cells: Cells, sampling: InferenceSettings
) -> dict[Term, tuple[float, float | None, float | None]]:
    """Term → its variance, and the interval of its sd; the term of no factor holds the squared mean."""
    moments = _Moments(cells, _weights(cells))
    estimated = moments.solve(cells.scores)
    templates = max((_levels(codes) for term, codes in cells.codes.items() if term[-1:] == ("template",)), default=1)
    nothing: list[tuple[float | None, float | None]] = [(None, None)] * len(estimated)
    intervals = nothing if templates < MIN_TEMPLATES else _intervals(cells, moments, estimated, sampling)
    return {
        term: (float(variance), *interval)
        for term, variance, interval in zip(cells.codes, estimated, intervals, strict=True)
    }


def _component(
    factor: str, n_levels: int, variance: float, whole: float | None, interval: tuple[float | None, float | None] | None
) -> VarianceComponent:
    low, high = interval or (None, None)
    return VarianceComponent(
        factor=factor,
        n_levels=n_levels,
        variance=variance,
        sd=max(variance, 0.0) ** 0.5,
        sd_low=low,
        sd_high=high,
        share=max(variance, 0.0) / whole if whole and whole > _ROUNDING else None,
    )


def _shown(term: Term) -> Term:
    """A term's factors as they are named: a template is in its category anyway."""
    return tuple(factor for factor in term if factor != "category" or "template" not in term)


def _levels(codes: Codes) -> int:
    return int(codes.max()) + 1


def _is_complete(codes: dict[Term, Codes]) -> bool:
    """Whether every combination of the single factors occurs."""
    single = [term for term in codes if len(_shown(term)) == 1 and _shown(term) != ("category",)]
    expected = math.prod(_levels(codes[term]) for term in single)
    return expected == max(_levels(found) for found in codes.values())


# --- the cells -------------------------------------------------------------------------------------------------------


def _cells(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> Cells:
    answers = answer_scores(frame, metric, sampling.unparsed)
    varying = [name for name in AXES if answers[name].n_unique() > 1]
    nested = [
        name for name, column in (("category", "category"), ("template", TEMPLATE)) if answers[column].n_unique() > 1
    ]
    if len(varying) + ("template" in nested) < 2:
        raise UsageError(f"{metric.name}: fewer than two of template, {', '.join(AXES)} vary; nothing to decompose")
    keys = ["category", TEMPLATE, *varying]
    table = (
        answers.with_columns(pl.col(key).cast(pl.String) for key in keys)
        .group_by(keys)
        .agg(pl.col("score").mean(), pl.len().alias("n"))
        .sort(keys)
    )
    sizes = table["n"].to_numpy().astype(np.float64)
    chance = _chance(answers, keys)
    return Cells(
        scores=table["score"].to_numpy(),
        codes=_codes(table, nested, varying),
        chance=chance,
        answers=sizes,
    )


def _chance(answers: pl.DataFrame, keys: Sequence[str]) -> float | None:
    """The variance of one answer about the mean of its kind of question in its cell; None where it can't be estimated.

    A cell asks the same kinds of questions (context × polarity) as any other, so differences between kinds are no
    chance. Where too few cells ask a kind twice, cells that differ in the order only are taken together.
    """
    kind = ("condition", "polarity", "alignment")
    for inside in (list(keys), [key for key in keys if key != "option_order"]):
        groups = answers.select(pl.struct(*inside, *kind).n_unique()).item()
        if answers.height >= 1.5 * groups:
            gaps = answers.select((pl.col("score") - pl.col("score").mean().over(*inside, *kind)) ** 2)
            return float(gaps["score"].sum()) / float(answers.height - groups)
    return None


def _codes(table: pl.DataFrame, nested: Sequence[str], varying: Sequence[str]) -> dict[Term, Codes]:
    """Term → the number of each cell's combination; from nothing to everything."""
    chain: list[Term] = [(), *(tuple(nested[: depth + 1]) for depth in range(len(nested)))]
    found: dict[Term, Codes] = {}
    for above, *chosen in product(chain, *(((), (name,)) for name in varying)):
        term = (*above, *(name for part in chosen for name in part))
        keys = [TEMPLATE if name == "template" else name for name in term]
        if not keys:
            found[term] = np.zeros(table.height, dtype=np.int64)
            continue
        combined = table.select(pl.concat_str(keys, separator="\x1f").rank("dense").alias("code"))
        found[term] = combined["code"].to_numpy().astype(np.int64) - 1
    return dict(sorted(found.items(), key=lambda item: len(item[0])))


# --- the moments -----------------------------------------------------------------------------------------------------


def _weights(cells: Cells) -> Array:
    """The weight of each cell: 1 where all hold as many answers, or chance is unknown."""
    alike = np.ones(cells.scores.size)
    if cells.chance is None or (cells.answers == cells.answers[0]).all():
        return alike
    first = dict(zip(cells.codes, _Moments(cells, alike).solve(cells.scores), strict=True))
    within = sum(max(float(variance), 0.0) for term, variance in first.items() if len(_shown(term)) > 1)
    weights: Array = cells.answers * within / (cells.answers * within + cells.chance) if within > 0 else cells.answers
    return weights / float(weights.mean())


class _Moments:
    """The equations of a design: made once, solved for many sets of scores."""

    def __init__(self, cells: Cells, weights: Array) -> None:
        codes = cells.codes
        self._codes, self._weights = list(codes.values()), weights
        self._levels = [_levels(found) for found in self._codes]
        terms = list(codes)
        order = {frozenset(term): row for row, term in enumerate(terms)}
        self.pairs = np.array([float((np.bincount(found, weights) ** 2).sum()) for found in self._codes])
        """For each term: the pairs of cells that share it, by weight."""
        self.chance = float(weights**2 @ cells.chance_of_cells) / float(weights @ weights)
        """What chance adds to the combination of all factors."""
        union = [[order[frozenset(one) | frozenset(other)] for other in terms] for one in terms]
        self.matrix = self.pairs[np.array(union)]
        self.terms = terms

    def solve(self, scores: Array) -> Array:
        """The component of every term, without chance; the first, of no factor, is the squared mean."""
        sums = [
            float((np.bincount(codes, scores * self._weights, levels) ** 2).sum())
            for codes, levels in zip(self._codes, self._levels, strict=True)
        ]
        # Rows are scaled, for sums over few and over many pairs differ by orders of magnitude.
        found: Array = np.linalg.lstsq(self.matrix / self.pairs[:, None], np.array(sums) / self.pairs, rcond=None)[0]
        found[-1] -= self.chance
        return found

    def above(self) -> Array:
        """Terms × terms: how much each term's mean square holds of each component; its own has the factor 1.

        The mean square of A, by the number of cells to each of its combinations, is Σ σ²(B) · P(B) / P(A) over all B
        that contain A: exactly so on a balanced design.
        """
        sets = [frozenset(term) for term in self.terms]
        return np.array(
            [
                [self.pairs[column] / self.pairs[row] if other >= one else 0.0 for column, other in enumerate(sets)]
                for row, one in enumerate(sets)
            ]
        )


def _intervals(
    cells: Cells, moments: _Moments, estimated: Array, sampling: InferenceSettings
) -> list[tuple[float | None, float | None]]:
    """The interval of each component's sd."""
    held = np.maximum(estimated, 0.0)
    chance = np.zeros(len(held))
    chance[-1] = moments.chance
    above = moments.above()
    generator = np.random.default_rng(stable_number("components", sampling.seed, cells.scores.size))
    drawn = np.array([_redraw(cells, moments, held, generator) for _ in range(DRAWS)])
    observed, expected, squares = ((part + chance) @ above.T for part in (estimated, held, drawn))
    tail = (1 - sampling.confidence) / 2
    found: list[tuple[float | None, float | None]] = []
    for row in range(len(estimated)):
        if row == 0 or expected[row] <= 0 or observed[row] <= 0:
            found.append((None, None))
            continue
        least, most = np.quantile(squares[:, row] / expected[row], (tail, 1 - tail))
        rest = expected[row] - held[row]  # of the mean square, what is not the component
        low, high = (observed[row] / ratio - rest if ratio > 0 else float("nan") for ratio in (most, least))
        found.append((_root(low), _root(high)))
    return found


def _root(variance: float) -> float | None:
    """The sd of a variance, 0 for one below 0; None where it is not a number."""
    return None if math.isnan(variance) else max(variance, 0.0) ** 0.5


def _redraw(cells: Cells, moments: _Moments, held: Array, generator: np.random.Generator) -> Array:
    """The components of scores drawn from the estimated ones."""
    scores = generator.normal(0.0, 1.0, cells.scores.size) * cells.chance_of_cells**0.5
    for term, variance in zip(moments.terms[1:], held[1:], strict=True):
        if variance > 0:
            codes = cells.codes[term]
            scores = scores + generator.normal(0.0, variance**0.5, _levels(codes))[codes]
    return moments.solve(scores)
