"""Position bias: does the model prefer a position or a label?

Roles are dealt out to places by chance. If the model does not care for places, the role that it chooses has nothing to
do with the order shown, and the places that it chooses are what roles and orders predict. So the expected shares come
from the design itself, and the test needs no assumption about templates: it deals out the orders anew among questions
of one kind (a randomisation test; Fisher 1935, §21; for the tables with fixed margins, Patefield 1981).
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
"""The six orders in which the roles can stand, as `Observation.option_order` writes them."""
LATIN_SQUARES = ((0, 3, 4), (1, 2, 5))
"""Sets of ORDERS in which every role stands at every place once."""
_STRATA = ("language", "condition", "polarity", "alignment")
"""Orders are dealt out anew among the questions that are alike in these."""
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
    """Share that the roles chosen and the orders shown predict for a model that does not care for places."""
    preference: float
    """Share minus expected: above 0, the place is liked."""


class BalancedScore(FrozenModel):
    """A score as it is, and with every order of roles counting the same."""

    metric: str
    plain: EstimateResult
    balanced: EstimateResult
    """Answers weighted so that every order weighs the same within a kind of question; None where orders are missing.
    Its standard error takes the weights as given."""
    difference: EstimateResult
    """Plain minus balanced: what position preference adds through unbalanced orders."""


class PositionReport(FrozenModel):
    """Preferences for positions and labels of one group."""

    group: dict[str, str | None]
    n_answers: int
    places: tuple[PositionShare, ...]
    test: TestResult
    scores: tuple[BalancedScore, ...]


class PositionTable(FrozenModel):
    """Reports with the settings that made them: what `mbbq-gen position-bias --json` writes."""

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
    """The preferences of every group; prompt variants without places are left out, UsageError if that leaves none."""
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
    """Every place, by label style."""
    for group, part in partition(read, ["label_style"]):
        style, tables = group["label_style"], [table.answers.T @ table.counts for table in _unit_tables(part)]
        independent = [np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum() for table in tables]
        chosen, expected = _position_counts(np.sum(tables, axis=0)), _position_counts(np.sum(independent, axis=0))
        labels = LABEL_STYLES.get(style or "", ("1st", "2nd", "3rd"))
        for place, (found, foreseen) in enumerate(zip(chosen, expected, strict=True)):
            yield PositionShare(
                label_style=style,
                place=place,
                label=labels[place],
                chosen=int(found),
                share=float(found) / part.height,
                expected=float(foreseen) / part.height,
                preference=float(found - foreseen) / part.height,
            )


def read_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """The answers that chose a role, to questions whose options all have one; order and role as text."""
    return frame.with_columns(pl.col("option_order", "chosen_role", "outcome").cast(pl.String)).filter(
        is_parsed() & pl.col("chosen_role").is_not_null() & pl.col("option_order").is_in(ORDERS)
    )


# --- places ----------------------------------------------------------------------------------------------------------


_PLACE_OF: Final[Array] = np.array(
    [[[float(shown == role) for shown in order.split("-")] for order in ORDERS] for role in ROLES]
)
"""Roles × orders × places: 1 where the role stands at the place."""


def _position_counts(tables: Array) -> Array:
    """From tables (…, roles, orders) to how often each place was chosen."""
    counted: Array = np.tensordot(tables, _PLACE_OF, axes=((-2, -1), (0, 1)))
    return counted


def place_test(read: pl.DataFrame, *, seed: int = 0) -> TestResult:
    """Does the role chosen not depend on the order shown? The statistic is Σ (chosen − expected)² / expected.

    Answers to one question in one order (several epochs, prompt variants, repeats) stay together: their order was dealt
    once, and the unit is `question` where any repeats.
    """
    hypothesis = "no place is preferred: the role chosen does not depend on the order shown"
    tables = _unit_tables(read)
    n = int(sum(table.counts.sum() for table in tables))
    unit: Unit = "answer" if n == read.height else "question"
    result = TestResult(test="randomisation", unit=unit, hypothesis=hypothesis, n=n)
    if not any(min(len(table.counts), int(np.count_nonzero(table.counts.sum(axis=0)))) > 1 for table in tables):
        return result.unavailable("every kind of question was shown in one order, or got one answer")
    generator = np.random.default_rng(stable_number("place_test", seed, read.height))
    drawn, expected, chosen = np.zeros((PERMUTATIONS, len(ROLES))), np.zeros(len(ROLES)), np.zeros(len(ROLES))
    for table in tables:
        rows, columns = table.counts.sum(axis=1), table.counts.sum(axis=0)
        drawn += _permuted_positions(table, generator)
        expected += _position_counts(table.answers.T @ (np.outer(rows, columns) / rows.sum()))
        chosen += _position_counts(table.answers.T @ table.counts)
    safe = np.where(expected > 0, expected, 1.0)
    statistics = ((drawn - expected) ** 2 / safe).sum(axis=1)
    observed = float(((chosen - expected) ** 2 / safe).sum())
    p_value = permutation_p(statistics, observed, is_exact=False)
    effect = float(np.abs(chosen - expected).sum() / 2 / read.height)
    return result.filled(p_value, observed, "chi_squared", effect=effect, effect_name="share_moved")


@dataclass(frozen=True)
class _UnitTable:
    """The questions of one kind, by what was answered to each and the order in which it was shown."""

    answers: Array
    """Each pattern of answers × roles: how often each role was chosen."""
    counts: Array
    """Patterns × orders: how many questions."""


_BATCH_CELLS = 1_000_000
"""Cells that are drawn together: enough to be fast, few enough to stay small in memory."""
_MAX_SHUFFLED = 1000
"""Questions of one kind up to which orders are shuffled one by one, which is done before scipy.stats is loaded."""


def _permuted_positions(table: _UnitTable, generator: np.random.Generator) -> Array:
    """PERMUTATIONS × places: answers at each place, the orders dealt out anew (Patefield 1981)."""
    rows, columns = table.counts.sum(axis=1), table.counts.sum(axis=0)
    n, is_few = int(rows.sum()), rows.sum() <= _MAX_SHUFFLED
    step = max(1, _BATCH_CELLS // (n if is_few else table.counts.size))
    sizes = [min(step, PERMUTATIONS - start) for start in range(0, PERMUTATIONS, step)]
    if is_few:  # what a question gives each place in each order is looked up
        given = np.einsum("ur,rop->puo", np.repeat(table.answers, rows, axis=0), _PLACE_OF).reshape(len(ROLES), -1)
        orders, first = np.repeat(np.arange(len(ORDERS)), columns), np.arange(n) * len(ORDERS)
        deals = (first + generator.permuted(np.tile(orders, (size, 1)), axis=1) for size in sizes)
        return np.concatenate([np.stack([part[deal].sum(axis=1) for part in given], axis=1) for deal in deals])
    from scipy import stats  # a slow import

    law = stats.random_table(rows, columns[columns > 0])
    drawn = (law.rvs(size, random_state=generator) for size in sizes)
    shown = _PLACE_OF[:, columns > 0]
    return np.concatenate(
        [np.einsum("pto,tr,rox->px", tables, table.answers, shown, optimize=True) for tables in drawn]
    )


def _unit_tables(read: pl.DataFrame) -> list[_UnitTable]:
    """The tables of the strata, sorted; a unit is a question in one order with all its answers."""
    texts = [pl.col(name).cast(pl.String) for name in (*_STRATA, *_ONE_QUESTION)]
    units = read.group_by(*texts, "option_order").agg(
        (pl.col("chosen_role") == role).sum().cast(pl.Int64).alias(role) for role in ROLES
    )
    counted = units.group_by(*_STRATA, *ROLES, "option_order").len().sort(pl.all().cast(pl.String))
    found = []
    for _, part in sorted(counted.partition_by(_STRATA, as_dict=True).items(), key=lambda item: str(item[0])):
        answers, places = np.unique(part.select(ROLES).to_numpy(), axis=0, return_inverse=True)
        counts = np.zeros((len(answers), len(ORDERS)), dtype=np.int64)
        orders = np.array([ORDERS.index(order) for order in part["option_order"]])
        np.add.at(counts, (places.ravel(), orders), part["len"].to_numpy())
        found.append(_UnitTable(answers.astype(np.float64), counts))  # type: ignore[arg-type]
    return found


# --- a score with orders balanced ------------------------------------------------------------------------------------


def balanced_score(frame: pl.DataFrame, metric: Metric, sampling: InferenceSettings) -> BalancedScore:
    """The score as it is and with every order weighing the same within context × polarity."""
    panel = make_panel(frame, [], sampling)
    plain = balanced = difference = no_score("no answers")
    if panel.templates:
        (estimate,) = panel.estimates(metric)
        plain = estimate.score(sampling)
        balanced = difference = no_score("some order of roles is missing, so that a role never stands at some place")
        if (found := _balanced_estimate(frame, metric, panel)) is not None:
            balanced, difference = found.score(sampling), estimate.subtract(found).score(sampling)
    return BalancedScore(metric=metric.name, plain=plain, balanced=balanced, difference=difference)


def _balanced_estimate(frame: pl.DataFrame, metric: Metric, panel: Panel) -> Estimate | None:
    """The score with every order weighing the same, over the panel's templates; None where orders are missing."""
    ordered = frame.with_columns(cell_expression(), template_expression(), pl.col("option_order").cast(pl.String))
    ordered = ordered.filter(pl.col("option_order").is_in(ORDERS) & pl.col("cell").is_not_null())
    counted = ordered.group_by("option_order", TEMPLATE, "cell").agg(weight_of_rows(ordered))
    cells = np.zeros((len(ORDERS), len(panel.templates), len(CELLS)))
    place = {name: row for row, name in enumerate(panel.templates)}
    for order, template, cell, weight in counted.rows():
        cells[ORDERS.index(order), place[template], cell] = weight
    factors = _order_factors(cells.sum(axis=1))
    if np.isnan(factors).any():
        return None
    by_template = Counts((factors[:, None] * cells).sum(axis=0) @ count_matrix(), panel.sampling.unparsed)
    total = Counts(by_template.values.sum(axis=0), by_template.unparsed)
    influences, sizes = influence_values(metric, by_template, total), metric.fractions[0].denominator(by_template)
    drawn = np.tensordot(panel.weights, cells, axes=(1, 1))
    resampled = Counts((_order_factors(drawn) * drawn).sum(axis=1) @ count_matrix(), total.unparsed)
    return Estimate(
        value=float(metric.value(total)),
        influence_values=influences,
        adjusted_influence=influences * widening(effective_number(template_shares(metric, by_template))),
        template_weights=quotient(sizes, sizes.sum(), 0.0),
        bootstrap_values=metric.value(resampled),
        bounds=(metric.low, metric.high),
    )


def _order_factors(totals: Array) -> Array:
    """From counts (…, orders, cells) to the factor of every answer of an order and cell; NaN where none balances.

    Within a kind of question every order used weighs the same, and all together as much as the kind has answers. All
    six orders are used where they are there, else a Latin square that is.
    """
    sizes = totals @ question_kinds()
    factors = np.where(sizes.any(axis=-2, keepdims=True), np.nan, np.zeros(sizes.shape))
    for orders in (*LATIN_SQUARES[::-1], range(len(ORDERS))):
        own, used = np.zeros(sizes.shape), list(orders)
        own[..., used, :] = quotient(sizes.sum(axis=-2, keepdims=True) / len(used), sizes[..., used, :])
        factors = np.where((sizes[..., used, :] > 0).all(axis=-2, keepdims=True), own, factors)
    found: Array = factors @ question_kinds().T
    return found
