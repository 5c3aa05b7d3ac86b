"""Position bias: preferences for positions or labels.

Orders of roles are randomised. Without position bias, the chosen role is independent of the order, and the shares of
positions follow from roles and orders. So the test permutes orders among questions of one kind, without assumptions
about templates (a randomisation test; Fisher 1935, §21; for tables with fixed margins, Patefield 1981).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, Literal

import numpy as np
import polars as pl

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.option_display import LABEL_STYLES
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import (
    CELLS,
    Array,
    Counts,
    cell_expression,
    count_matrix,
    is_parsed,
    question_kinds,
    quotient,
)
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import TEMPLATE, partition, template_expression, weight_of_rows
from mbbq_gen.statistics.estimate import (
    Estimate,
    EstimateResult,
    InferenceSettings,
    influence_values,
    no_score,
    template_shares,
    widening,
)
from mbbq_gen.statistics.hypothesis_tests import PERMUTATIONS, TestResult, Unit, permutation_p
from mbbq_gen.statistics.intervals import effective_number
from mbbq_gen.statistics.panel import Panel, make_panel

ROLES = ("target", "non_target", "unknown")
ORDERS = tuple("-".join(order) for order in permutations(ROLES))
"""The six orders of roles, as in `Observation.option_order`."""
LATIN_SQUARES = ((0, 3, 4), (1, 2, 5))
"""Indices of ORDERS in which every role is at every position once."""
_STRATA = ("language", "condition", "polarity", "alignment")
"""Columns of the strata within which orders are permuted."""
_ONE_QUESTION = ("model", "split", "benchmark", "category", "template_id", "instance_id")
"""Columns that identify a question within a stratum."""


class PositionShare(FrozenModel):
    """The share of answers at one position."""

    label_style: str | None
    place: int
    label: str
    chosen: int
    share: float
    expected: float
    """Share expected from roles and orders without position bias."""
    preference: float
    """Share minus expected; above 0, the position is preferred."""


class BalancedScore(FrozenModel):
    """A score with and without balanced orders of roles."""

    metric: str
    plain: EstimateResult
    balanced: EstimateResult
    """Answers weighted so that all orders have equal weight within a kind of question; None if orders are missing. The
    standard error treats the weights as fixed."""
    difference: EstimateResult
    """Plain minus balanced: the effect of position bias with unbalanced orders."""


class PositionReport(FrozenModel):
    """The position bias of one group."""

    group: dict[str, str | None]
    n_answers: int
    places: tuple[PositionShare, ...]
    test: TestResult
    scores: tuple[BalancedScore, ...]


class PositionTable(FrozenModel):
    """The JSON of `mbbq-gen position-bias`: reports and settings."""

    schema_version: Literal["mbbq-gen.position/1"] = "mbbq-gen.position/1"
    confidence_level: float
    n_resamples: int
    seed: int
    unparsed: str
    signs: dict[str, str]
    preference_sign: str = "above 0: the place is chosen more often than the roles and orders predict"
    groups: tuple[PositionReport, ...]


def position_reports(
    frame: pl.DataFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: InferenceSettings
) -> list[PositionReport]:
    """The position bias of every group, without prompt variants that list no options. Raises UsageError for no rows."""
    frame = frame.filter(pl.col("option_order").is_not_null())
    if not frame.height:
        raise UsageError("the prompts list no options, so no option has a position or a label")
    return [
        PositionReport(
            group=group,
            n_answers=(read := read_answers(part)).height,
            places=tuple(_place_shares(read)),
            test=place_test(read, seed=sampling.seed),
            scores=tuple(balanced_score(part, metric, sampling) for metric in metrics),
        )
        for group, part in partition(frame, by)
    ]


def _place_shares(read: pl.DataFrame) -> Iterator[PositionShare]:
    """The shares of positions by label style."""
    for group, part in partition(read, ["label_style"]):
        style, tables = group["label_style"], [table.answers.T @ table.counts for table in _unit_tables(part)]
        independent = [np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum() for table in tables]
        counts = (_position_counts(np.sum(one, axis=0)) for one in (tables, independent))
        labels = LABEL_STYLES.get(style or "", ("1st", "2nd", "3rd"))
        for place, (chosen, expected) in enumerate(zip(*counts, strict=True)):
            yield PositionShare(
                label_style=style,
                place=place,
                label=labels[place],
                chosen=int(chosen),
                share=float(chosen) / part.height,
                expected=float(expected) / part.height,
                preference=float(chosen - expected) / part.height,
            )


def read_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """The answers with a role to questions whose options all have roles; with order and role as text."""
    return frame.with_columns(pl.col("option_order", "chosen_role", "outcome").cast(pl.String)).filter(
        is_parsed() & pl.col("chosen_role").is_not_null() & pl.col("option_order").is_in(ORDERS)
    )


# --- the test of position bias ---------------------------------------------------------------------------------------


_POSITION_OF: Final[Array] = np.array(
    [[[float(shown == role) for shown in order.split("-")] for order in ORDERS] for role in ROLES]
)
"""Roles × orders × positions: 1 if the role is at the position in the order."""


def _position_counts(tables: Array) -> Array:
    """The number of choices of each position, from tables (…, roles, orders)."""
    counts: Array = np.tensordot(tables, _POSITION_OF, axes=((-2, -1), (0, 1)))
    return counts


def place_test(read: pl.DataFrame, *, seed: int = 0) -> TestResult:
    """Tests that the chosen role is independent of the order, by the statistic Σ (chosen − expected)² / expected.

    Answers to one question in one order (epochs, prompt variants, repetitions) are permuted together, since their order
    was drawn once. The unit is `question` if there are any.
    """
    hypothesis = "no place is preferred: the role chosen does not depend on the order shown"
    tables = _unit_tables(read)
    n = int(sum(table.counts.sum() for table in tables))
    unit: Unit = "answer" if n == read.height else "question"
    result = TestResult(test="randomisation", unit=unit, hypothesis=hypothesis, n=n)
    if not any(min(len(table.counts), int(np.count_nonzero(table.counts.sum(axis=0)))) > 1 for table in tables):
        return result.unavailable("every kind of question was shown in one order, or got one answer")
    generator = np.random.default_rng(stable_number("place_test", seed, read.height))
    permuted, expected, chosen = np.zeros((PERMUTATIONS, len(ROLES))), np.zeros(len(ROLES)), np.zeros(len(ROLES))
    for table in tables:
        rows, columns = table.counts.sum(axis=1), table.counts.sum(axis=0)
        permuted += _permuted_positions(table, generator)
        expected += _position_counts(table.answers.T @ (np.outer(rows, columns) / rows.sum()))
        chosen += _position_counts(table.answers.T @ table.counts)
    safe = np.where(expected > 0, expected, 1.0)
    statistics = ((permuted - expected) ** 2 / safe).sum(axis=1)
    observed = float(((chosen - expected) ** 2 / safe).sum())
    p_value = permutation_p(statistics, observed, is_exact=False)
    effect = float(np.abs(chosen - expected).sum() / 2 / read.height)
    return result.filled(p_value, observed, "chi_squared", effect=effect, effect_name="share_moved")


@dataclass(frozen=True)
class _UnitTable:
    """The questions of one stratum, by answers and order."""

    answers: Array
    """Distinct patterns of answers × roles: numbers of choices of each role."""
    counts: Array
    """Patterns × orders: numbers of questions."""


_BATCH_CELLS = 1_000_000
"""Cells that are drawn together, a trade-off between speed and memory."""
_MAX_SHUFFLED = 1000
"""The most questions for which orders are shuffled directly, which is faster than to import scipy.stats."""


def _permuted_positions(table: _UnitTable, generator: np.random.Generator) -> Array:
    """The number of answers at each position after each permutation (permutations × positions; Patefield 1981)."""
    rows, columns = table.counts.sum(axis=1), table.counts.sum(axis=0)
    n, is_few = int(rows.sum()), rows.sum() <= _MAX_SHUFFLED
    step = max(1, _BATCH_CELLS // (n if is_few else table.counts.size))
    sizes = [min(step, PERMUTATIONS - start) for start in range(0, PERMUTATIONS, step)]
    if is_few:
        answers = np.repeat(table.answers, rows, axis=0)
        by_position = np.einsum("ur,rop->puo", answers, _POSITION_OF).reshape(len(ROLES), -1)
        orders, offsets = np.repeat(np.arange(len(ORDERS)), columns), np.arange(n) * len(ORDERS)
        permuted = (offsets + generator.permuted(np.tile(orders, (size, 1)), axis=1) for size in sizes)
        return np.concatenate([np.stack([one[codes].sum(axis=1) for one in by_position], axis=1) for codes in permuted])
    from scipy import stats  # a slow import

    distribution = stats.random_table(rows, columns[columns > 0])
    drawn = (distribution.rvs(size, random_state=generator) for size in sizes)
    positions = _POSITION_OF[:, columns > 0]
    return np.concatenate(
        [np.einsum("pto,tr,rox->px", tables, table.answers, positions, optimize=True) for tables in drawn]
    )


def _unit_tables(read: pl.DataFrame) -> list[_UnitTable]:
    """The tables of the strata, sorted; a unit is a question in one order with all its answers."""
    texts = [pl.col(name).cast(pl.String) for name in (*_STRATA, *_ONE_QUESTION)]
    units = read.group_by(*texts, "option_order").agg(
        (pl.col("chosen_role") == role).sum().cast(pl.Int64).alias(role) for role in ROLES
    )
    counted = units.group_by(*_STRATA, *ROLES, "option_order").len().sort(pl.all().cast(pl.String))
    tables = []
    for _, part in sorted(counted.partition_by(_STRATA, as_dict=True).items(), key=lambda item: str(item[0])):
        answers, rows = np.unique(part.select(ROLES).to_numpy(), axis=0, return_inverse=True)
        counts = np.zeros((len(answers), len(ORDERS)), dtype=np.int64)
        orders = np.array([ORDERS.index(order) for order in part["option_order"]])
        np.add.at(counts, (rows.ravel(), orders), part["len"].to_numpy())
        tables.append(_UnitTable(answers.astype(np.float64), counts))  # type: ignore[arg-type]
    return tables


# --- a score with balanced orders ------------------------------------------------------------------------------------


def balanced_score(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> BalancedScore:
    """The score with and without equal weights of all orders within context × polarity."""
    panel = make_panel(frame, [], sampling)
    plain = balanced = difference = no_score("no answers")
    if panel.templates:
        (estimate,) = panel.estimates(metric)
        plain = estimate.score(sampling)
        balanced = difference = no_score("some order of roles is missing, so that a role never stands at some place")
        if (other := _balanced_estimate(frame, metric, panel)) is not None:
            balanced, difference = other.score(sampling), estimate.subtract(other).score(sampling)
    return BalancedScore(metric=metric.name, plain=plain, balanced=balanced, difference=difference)


def _balanced_estimate(frame: pl.DataFrame, metric: Metric, panel: Panel) -> Estimate | None:
    """The score with equal weights of orders, over the panel's templates; None if orders are missing."""
    ordered = frame.with_columns(cell_expression(), template_expression(), pl.col("option_order").cast(pl.String))
    ordered = ordered.filter(pl.col("option_order").is_in(ORDERS) & pl.col("cell").is_not_null())
    counted = ordered.group_by("option_order", TEMPLATE, "cell").agg(weight_of_rows(ordered))
    cells = np.zeros((len(ORDERS), len(panel.templates), len(CELLS)))
    row_of = {name: row for row, name in enumerate(panel.templates)}
    for order, template, cell, weight in counted.rows():
        cells[ORDERS.index(order), row_of[template], cell] = weight
    factors = _order_factors(cells.sum(axis=1))
    if np.isnan(factors).any():
        return None
    by_template = Counts((factors[:, None] * cells).sum(axis=0) @ count_matrix(), panel.sampling.unparsed)
    total = Counts(by_template.values.sum(axis=0), by_template.unparsed)
    influences, sizes = influence_values(metric, by_template, total), metric.fractions[0].denominator(by_template)
    resamples = np.tensordot(panel.weights, cells, axes=(1, 1))
    resampled = Counts((_order_factors(resamples) * resamples).sum(axis=1) @ count_matrix(), total.unparsed)
    return Estimate(
        value=float(metric.value(total)),
        influence_values=influences,
        adjusted_influence=influences * widening(effective_number(template_shares(metric, by_template))),
        template_weights=quotient(sizes, sizes.sum(), 0.0),
        bootstrap_values=metric.value(resampled),
        bounds=(metric.low, metric.high),
    )


def _order_factors(totals: Array) -> Array:
    """The weights of answers by order and cell that balance counts (…, orders, cells); NaN if orders are missing.

    Within a kind of question all used orders have equal total weights, which add up to its number of answers. All six
    orders are used if they occur, else a Latin square.
    """
    sizes = totals @ question_kinds()
    factors = np.where(sizes.any(axis=-2, keepdims=True), np.nan, np.zeros(sizes.shape))
    for orders in (*LATIN_SQUARES[::-1], range(len(ORDERS))):
        balanced, used = np.zeros(sizes.shape), list(orders)
        balanced[..., used, :] = quotient(sizes.sum(axis=-2, keepdims=True) / len(used), sizes[..., used, :])
        factors = np.where((sizes[..., used, :] > 0).all(axis=-2, keepdims=True), balanced, factors)
    weights: Array = factors @ question_kinds().T
    return weights
