"""How much of a score each factor makes: variance components over category, template, language, wording and order.

The score of a cell (template × language × wording × order) is taken as a sum of effects of the factors and of all
their combinations, templates being nested in categories. The components are estimated by the method of moments from
symmetric sums (Koch 1967, "A General Approach to the Estimation of Variance Components", Technometrics 9): for every
combination S of factors, the sum of y_i · y_j over all pairs of cells that share S has an expectation that is linear
in the components,

    E Σ_{i,j share S} y_i y_j = μ² · P(S) + Σ_A σ²(A) · P(S ∪ A),        P(S): the number of pairs that share S,

which is solved for all S at once. No balance is needed; on a balanced design it is the analysis of variance, and a
test holds it to that. Estimates may come out below 0; they are reported as they are, and their standard deviation is 0.

Intervals: the estimate plus its noise (what its mean square holds beside it) over its expectation is taken to be
distributed as in a parametric bootstrap with normal effects, so few wordings give the wide interval that they must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from mbbq_gen.errors import UsageError
from mbbq_gen.records import Record
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.seeding import stable_number
from mbbq_gen.statistics.items import TEMPLATE, answer_scores
from mbbq_gen.statistics.panel import Sampling

if TYPE_CHECKING:
    import numpy
    import polars
    from numpy.typing import NDArray

    from mbbq_gen.scoring.cells import Array

    Codes = NDArray[numpy.int64]

AXES: dict[str, str] = {
    "language": "language",
    "wording": "variant",
    "order": "order",
    "label style": "label_style",
}
"""Crossed factor → the column that holds it. Category and template, nested in it, come beside."""
DRAWS = 300
"""Of the parametric bootstrap."""
Term = tuple[str, ...]
"""A combination of factors; `template` implies `category`."""


class VarianceComponent(Record):
    """The variance that one factor, or one combination of factors, gives to the score of a cell."""

    factor: str
    """`template`, `wording`, `template × language`…"""
    n_levels: int
    """How many different ones there were."""
    variance: float
    """As estimated; may be below 0 by chance."""
    sd: float
    """Its root, 0 for a negative variance: in units of the score."""
    sd_low: float | None
    """Interval of the sd; None where it could not be told."""
    sd_high: float | None
    share: float | None
    """Of all components' variance, negative ones counted as 0."""


class VarianceTable(Record):
    """The components of one metric."""

    metric: str
    n_cells: int
    """Template × language × wording × order, as far as there are answers."""
    answers_per_cell: float
    mean: float
    components: tuple[VarianceComponent, ...]
    """Single factors first, then combinations, then chance."""
    chance: VarianceComponent | None
    """Of one answer among those to one kind of question; a cell's mean has this divided by its number of answers.
    None where no kind was asked twice: chance is then in the combination of all factors."""
    is_balanced: bool
    """Whether every combination has the same number of answers: then this is the exact analysis of variance."""


@dataclass(frozen=True)
class _Cells:
    """The cells of a design."""

    scores: Array
    codes: dict[Term, Codes]
    """For each term: the number of each cell's combination."""
    chance: float | None
    """Variance of one answer within a cell; None where it can't be told from the combination of all factors."""
    chance_of_means: float
    """What chance gives to the mean of a cell, on average."""
    answers: Array
    """For each cell: its number of answers."""


def variance_components(frame: polars.DataFrame, metric: Metric, sampling: Sampling) -> VarianceTable:
    """The components of a metric over the factors that vary in the table: one split, one model.

    Raises:
        UsageError: for a metric that is no mean over answers, or where fewer than two factors vary.
    """
    cells = _cells(frame, metric, sampling)
    estimated = _Moments(cells.codes).solve(cells.scores)
    estimated[-1] -= cells.chance_of_means
    intervals = _intervals(cells, estimated, sampling)
    whole = sum(max(variance, 0.0) for variance in estimated[1:]) + cells.chance_of_means
    terms = list(cells.codes)
    components = [
        _component(" × ".join(_shown(term)), _levels(cells.codes[term]), float(estimated[row]), whole, intervals[row])
        for row, term in enumerate(terms)
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
        share=max(variance, 0.0) / whole if whole else None,
    )


def _shown(term: Term) -> Term:
    """A term's factors as they are named: a template is in its category anyway."""
    return tuple(factor for factor in term if factor != "category" or "template" not in term)


def _levels(codes: Codes) -> int:
    return int(codes.max()) + 1


def _is_complete(codes: dict[Term, Codes]) -> bool:
    """Whether every combination of the single factors occurs."""
    single = [term for term in codes if len(_shown(term)) == 1 and _shown(term) != ("category",)]
    expected = 1
    for term in single:
        expected *= _levels(codes[term])
    return expected == max(_levels(found) for found in codes.values())


# --- the cells -------------------------------------------------------------------------------------------------------


def _cells(frame: polars.DataFrame, metric: Metric, sampling: Sampling) -> _Cells:
    import numpy as np
    import polars as pl

    answers = answer_scores(frame, metric, sampling.undetected)
    varying = [name for name, column in AXES.items() if answers[column].n_unique() > 1]
    nested = [
        name for name, column in (("category", "category"), ("template", TEMPLATE)) if answers[column].n_unique() > 1
    ]
    if len(varying) + ("template" in nested) < 2:
        raise UsageError(f"{metric.name}: fewer than two of template, {', '.join(AXES)} vary; nothing to take apart")
    keys = ["category", TEMPLATE, *(AXES[name] for name in varying)]
    table = (
        answers.with_columns(pl.col(key).cast(pl.String) for key in keys)
        .group_by(keys)
        .agg(pl.col("score").mean(), pl.len().alias("n"))
        .sort(keys)
    )
    sizes = table["n"].to_numpy().astype(np.float64)
    chance = _chance(answers, keys)
    return _Cells(
        scores=table["score"].to_numpy(),
        codes=_codes(table, nested, varying),
        chance=chance,
        chance_of_means=(chance or 0.0) * float((1 / sizes).mean()),
        answers=sizes,
    )


def _chance(answers: polars.DataFrame, keys: Sequence[str]) -> float | None:
    """The variance of one answer about the mean of its kind of question in its cell; None where it can't be told.

    A cell asks the same kinds of questions (context × polarity) as any other, so differences between kinds are no
    chance. Where too few cells ask a kind twice, cells that differ in the order only are taken together.
    """
    import polars as pl

    kind = ("condition", "polarity", "alignment")
    for inside in (list(keys), [key for key in keys if key != "order"]):
        groups = answers.select(pl.struct(*inside, *kind).n_unique()).item()
        if answers.height >= 1.5 * groups:
            gaps = answers.select((pl.col("score") - pl.col("score").mean().over(*inside, *kind)) ** 2)
            return float(gaps["score"].sum()) / float(answers.height - groups)
    return None


def _codes(table: polars.DataFrame, nested: Sequence[str], varying: Sequence[str]) -> dict[Term, Codes]:
    """Term → the number of each cell's combination; from nothing to everything."""
    import numpy as np
    import polars as pl

    columns = {"category": "category", "template": TEMPLATE, **AXES}
    chain: list[Term] = [(), *(tuple(nested[: depth + 1]) for depth in range(len(nested)))]
    found: dict[Term, Codes] = {}
    for above, *chosen in product(chain, *(((), (name,)) for name in varying)):
        term = (*above, *(name for part in chosen for name in part))
        keys = [columns[name] for name in term]
        if not keys:
            found[term] = np.zeros(table.height, dtype=np.int64)
            continue
        combined = table.select(pl.concat_str(keys, separator="\x1f").rank("dense").alias("code"))
        found[term] = combined["code"].to_numpy().astype(np.int64) - 1
    return dict(sorted(found.items(), key=lambda item: len(item[0])))


# --- the moments -----------------------------------------------------------------------------------------------------


class _Moments:
    """The equations of a design: made once, solved for many sets of scores."""

    def __init__(self, codes: dict[Term, Codes]) -> None:
        import numpy as np

        self._codes = list(codes.values())
        self._levels = [_levels(found) for found in self._codes]
        terms = list(codes)
        order = {frozenset(term): row for row, term in enumerate(terms)}
        pairs = [float((np.bincount(found) ** 2).sum()) for found in self._codes]
        self.pairs = np.array(pairs)
        """For each term: the number of pairs of cells that share it."""
        union = [[order[frozenset(one) | frozenset(other)] for other in terms] for one in terms]
        self.matrix = self.pairs[np.array(union)]
        self.terms = terms

    def solve(self, scores: Array) -> Array:
        """The component of every term; the first, of no factor, is the squared mean."""
        import numpy as np

        sums = [
            float((np.bincount(codes, scores, levels) ** 2).sum())
            for codes, levels in zip(self._codes, self._levels, strict=True)
        ]
        # Rows are scaled, for sums over few and over many pairs differ by orders of magnitude.
        found: Array = np.linalg.lstsq(self.matrix / self.pairs[:, None], np.array(sums) / self.pairs, rcond=None)[0]
        return found

    def noise(self, variances: Array) -> Array:
        """What the mean square of each term holds beside its own component: those of the terms that contain it."""
        import numpy as np

        sets = [frozenset(term) for term in self.terms]
        held = np.maximum(variances, 0.0)
        return np.array(
            [
                sum(
                    held[other] * self.pairs[other] / self.pairs[row] for other in range(len(sets)) if sets[other] > one
                )
                for row, one in enumerate(sets)
            ]
        )


def _intervals(cells: _Cells, estimated: Array, sampling: Sampling) -> list[tuple[float | None, float | None]]:
    """The interval of each component's sd."""
    import numpy as np

    moments = _Moments(cells.codes)
    held = np.maximum(estimated, 0.0)
    noise = moments.noise(held)
    noise = noise + cells.chance_of_means * moments.pairs[-1] / moments.pairs
    generator = np.random.default_rng(stable_number("components", sampling.seed, cells.scores.size))
    drawn = np.array([_redraw(cells, moments, held, generator) for _ in range(DRAWS)])
    tail = (1 - sampling.confidence) / 2
    found: list[tuple[float | None, float | None]] = []
    for row in range(len(estimated)):
        expected, observed = held[row] + noise[row], estimated[row] + noise[row]
        if expected <= 0 or row == 0:
            found.append((None, None))
            continue
        low_ratio, high_ratio = np.quantile((drawn[:, row] + noise[row]) / expected, (tail, 1 - tail))
        low = observed / high_ratio - noise[row]
        # Where the noise itself is uncertain the ratio may be no positive number; the plain percentile is then taken.
        high = observed / low_ratio - noise[row] if low_ratio > 0.01 else float(np.quantile(drawn[:, row], 1 - tail))
        found.append((max(low, 0.0) ** 0.5, max(high, 0.0) ** 0.5))
    return found


def _redraw(cells: _Cells, moments: _Moments, held: Array, generator: numpy.random.Generator) -> Array:
    """The components of scores drawn from the estimated ones."""
    scores = generator.normal(0.0, 1.0, cells.scores.size) * (cells.chance_of_means**0.5)
    for term, variance in zip(moments.terms[1:], held[1:], strict=True):
        if variance > 0:
            codes = cells.codes[term]
            scores = scores + generator.normal(0.0, variance**0.5, _levels(codes))[codes]
    found = moments.solve(scores)
    found[-1] -= cells.chance_of_means
    return found
