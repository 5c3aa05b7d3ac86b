"""Position bias: does the model prefer a position, a label or a text of the unknown option?

The roles were dealt out to the places by chance. If the model does not care for places, the role that
it chooses has nothing to do with the order it was shown, and the places that it chooses are what the roles it chooses
and the orders shown predict. So the expected shares come from the design itself, balanced or not, and the test needs
no assumption about templates: it deals out the orders anew among questions of one kind (a randomisation test; Fisher
1935, §21; for the tables with fixed margins, Patefield 1981).
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
from mbbq_gen.core.records import NO_RESPONSE, PARSED, FrozenModel
from mbbq_gen.scoring.cells import CELLS, Array, Counts, cell_expression, count_matrix, question_kinds, quotient
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import TEMPLATE, partition, template_expression, weight_of_rows
from mbbq_gen.statistics.estimate import (
    Estimate,
    EstimateResult,
    InferenceSettings,
    influence_values,
    no_score,
    ratio_of,
    template_shares,
    widening,
)
from mbbq_gen.statistics.hypothesis_tests import PERMUTATIONS, TestResult, Unit, permutation_p, untestable
from mbbq_gen.statistics.intervals import effective_number
from mbbq_gen.statistics.panel import make_panel, resample_weights

ROLES = ("target", "non_target", "unknown")
ORDERS = tuple("-".join(order) for order in permutations(ROLES))
"""The six orders in which the roles can stand, as `Observation.option_order` writes them."""
LATIN_SQUARES = (
    ("target-non_target-unknown", "non_target-unknown-target", "unknown-target-non_target"),
    ("target-unknown-non_target", "non_target-target-unknown", "unknown-non_target-target"),
)
"""Sets of orders in which every role stands at every place once."""
_STRATA = ("language", "condition", "polarity", "alignment")
"""Orders are dealt out anew among the questions that are alike in these."""
_ONE_QUESTION = ("model", "split", "benchmark", "category", "template_id", "instance_id")
"""What makes a question one, within a stratum."""


class PositionShare(FrozenModel):
    """How often one place was chosen."""

    label_style: str | None
    place: int
    """From 0."""
    label: str
    chosen: int
    share: float
    """Of the answers that were read."""
    expected: float
    """Share that the roles chosen and the orders shown predict for a model that does not care for places."""
    preference: float
    """Share minus expected: above 0, the place is liked."""


class UnknownTextRates(FrozenModel):
    """How often the unknown option was chosen by its text (BBQ App. G)."""

    text: str
    shown: int
    """Answers that were read to questions that showed it."""
    chosen: int
    rate: EstimateResult
    share: float | None
    """Of all unknown answers."""
    share_expected: float | None
    """Of all that was shown: what `share` would be if the text did not matter."""


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
    """Preferences for positions, labels and texts of one group."""

    group: dict[str, str | None]
    n_answers: int
    places: tuple[PositionShare, ...]
    test: TestResult
    imbalance: float | None
    """How far the share of any role at any place is from a third, at most: 0 for balanced orders."""
    scores: tuple[BalancedScore, ...]
    unknown_texts: tuple[UnknownTextRates, ...]


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
    """The preferences of every group, sorted by the group's values; answers to prompt variants without places are left
    out.

    Raises:
        UsageError: where no others are left.
    """
    frame = frame.filter(pl.col("option_order").is_not_null())
    if not frame.height:
        raise UsageError("the prompts list no options, so no option has a position or a label")
    return [_report(part, group, metrics, sampling) for group, part in partition(frame, by)]


def _report(
    frame: pl.DataFrame, group: dict[str, str | None], metrics: Sequence[Metric], sampling: InferenceSettings
) -> PositionReport:
    read, found = read_answers(frame), []
    styles = read.with_columns(pl.col("label_style").cast(pl.String)).partition_by("label_style", as_dict=True)
    for (style,), part in sorted(styles.items(), key=lambda item: str(item[0])):
        tables = _tables(part)
        independent = [np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum() for table in tables]
        chosen, expected, whole = _places(np.sum(tables, axis=0)), _places(np.sum(independent, axis=0)), part.height
        labels = LABEL_STYLES.get(str(style), ("1st", "2nd", "3rd"))
        found += [
            PositionShare(
                label_style=None if style is None else str(style),
                place=place,
                label=labels[place],
                chosen=int(chosen[place]),
                share=float(chosen[place]) / whole,
                expected=float(expected[place]) / whole,
                preference=float(chosen[place] - expected[place]) / whole,
            )
            for place in range(len(ROLES))
        ]
    # of each kind of question: how often each role was shown at each place
    shown = [np.tensordot(table.sum(axis=0), _PLACE_OF, axes=(0, 1)) for table in _tables(read)]
    away = [np.abs(counts / counts.sum() * len(ROLES) - 1 / len(ROLES)).max() for counts in shown]
    return PositionReport(
        group=group,
        n_answers=read.height,
        places=tuple(found),
        test=place_test(read, seed=sampling.seed),
        imbalance=float(max(away)) if away else None,
        scores=tuple(balanced_score(frame, metric, sampling) for metric in metrics),
        unknown_texts=tuple(unknown_text_rates(frame, sampling)),
    )


def read_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """The answers that chose a role, to questions whose options all have one; order and role as text."""
    return frame.with_columns(pl.col("option_order", "chosen_role", "outcome").cast(pl.String)).filter(
        pl.col("outcome").is_in(sorted(PARSED))
        & pl.col("chosen_role").is_not_null()
        & pl.col("option_order").is_in(ORDERS)
    )


# --- places ----------------------------------------------------------------------------------------------------------


def _tables(read: pl.DataFrame) -> list[Array]:
    """Chosen role × order, a table for each stratum."""
    return [table.answers.T @ table.counts for table in _unit_tables(read)]


_PLACE_OF: Final[Array] = np.array(
    [[[float(shown == role) for shown in order.split("-")] for order in ORDERS] for role in ROLES]
)
"""Roles × orders × places: 1 where the role stands at the place."""


def _places(tables: Array) -> Array:
    """From tables (…, roles, orders) to how often each place was chosen."""
    counted: Array = np.tensordot(tables, _PLACE_OF, axes=((-2, -1), (0, 1)))
    return counted


def place_test(read: pl.DataFrame, *, seed: int = 0) -> TestResult:
    """Does the role chosen not depend on the order shown? The statistic is Σ (chosen − expected)² / expected.

    Answers to one question in one order (several epochs, prompt variants, repeats) stay together: their order was dealt
    once. So what changes places is the whole question with all its answers, and the unit is `question` where any
    repeats.
    """
    hypothesis = "no place is preferred: the role chosen does not depend on the order shown"
    tables = _unit_tables(read)
    n = int(sum(table.counts.sum() for table in tables))
    unit: Unit = "answer" if n == read.height else "question"
    usable = [table.counts[:, table.counts.sum(axis=0) > 0] for table in tables]
    if not any(min(counts.shape) > 1 for counts in usable):
        reason = "every kind of question was shown in one order, or got one answer"
        return untestable("randomisation", unit, hypothesis, n, reason)
    generator = np.random.default_rng(stable_number("place_test", seed, read.height))
    drawn, expected = np.zeros((PERMUTATIONS, len(ROLES))), np.zeros(len(ROLES))
    for table in tables:
        rows, columns = table.counts.sum(axis=1), table.counts.sum(axis=0)
        few = table.counts.sum() <= _SHUFFLED and (table.counts.sum(axis=1) @ table.answers).sum() <= _LOWEST
        step = max(1, _AT_ONCE // int(table.counts.sum() if few else table.counts.size))
        sizes = [min(step, PERMUTATIONS - start) for start in range(0, PERMUTATIONS, step)]
        dealt = _shuffled if few else _tables_drawn
        drawn += np.concatenate(list(dealt(table, sizes, generator)))
        expected += _places(table.answers.T @ (np.outer(rows, columns) / rows.sum()))
    safe = np.where(expected > 0, expected, 1.0)
    statistics = ((drawn - expected) ** 2 / safe).sum(axis=1)
    chosen = sum((_places(table.answers.T @ table.counts) for table in tables), start=np.zeros(len(ROLES)))
    observed = float(((chosen - expected) ** 2 / safe).sum())
    return TestResult(
        test="randomisation",
        unit=unit,
        hypothesis=hypothesis,
        statistic=observed,
        statistic_name="chi_squared",
        p_value=permutation_p(statistics, observed, is_exact=False),
        effect=float(np.abs(chosen - expected).sum() / 2 / read.height),
        effect_name="share_moved",
        n=n,
    )


@dataclass(frozen=True)
class _UnitTable:
    """The questions of one kind, by what was answered to each and the order in which it was shown."""

    answers: Array
    """Each pattern of answers × roles: how often each role was chosen."""
    counts: Array
    """Patterns × orders: how many questions."""


_AT_ONCE = 1_000_000
"""Cells that are drawn together: enough to be fast, few enough to stay small in memory."""
_SHUFFLED = 1000
"""Questions of one kind up to which orders are shuffled one by one, which is done before scipy.stats is loaded."""


def _shuffled(table: _UnitTable, sizes: Sequence[int], generator: np.random.Generator) -> Iterator[Array]:
    """So many deals × places, the orders shuffled among the questions.

    What a question gives each place in each order is looked up; the three places share one whole number.
    """
    answers = np.repeat(table.answers, table.counts.sum(axis=1), axis=0)
    orders = np.repeat(np.arange(len(ORDERS), dtype=np.int16), table.counts.sum(axis=0))
    given = np.einsum("ur,rop->uop", answers, _PLACE_OF).astype(np.int64)
    packed = (given << _SHIFTS).sum(axis=-1).ravel()
    first = np.arange(len(answers), dtype=np.int16) * len(ORDERS)
    for size in sizes:
        shown = generator.permuted(np.tile(orders, (size, 1)), axis=1)
        whole = packed[first + shown].sum(axis=1)
        yield ((whole[:, None] >> _SHIFTS) & _LOWEST).astype(float)


_SHIFTS, _LOWEST = (0, 20, 40), (1 << 20) - 1
"""Where the count of each place stands in a whole number, and the lowest of them: a million answers at most."""


def _tables_drawn(table: _UnitTable, sizes: Sequence[int], generator: np.random.Generator) -> Iterator[Array]:
    """As `_shuffled`, by the law of such tables: faster for many questions."""
    from scipy import stats

    shown = table.counts.sum(axis=0) > 0
    law = stats.random_table(table.counts.sum(axis=1), table.counts.sum(axis=0)[shown])
    for size in sizes:
        orders = np.zeros((size, len(table.counts), len(ORDERS)))
        orders[:, :, shown] = law.rvs(size, random_state=generator)
        yield _places(np.einsum("pto,tr->pro", orders, table.answers))


def _unit_tables(read: pl.DataFrame) -> list[_UnitTable]:
    """The tables of the strata, sorted; a unit is a question in one order with all its answers."""
    texts = [pl.col(name).cast(pl.String) for name in (*_STRATA, *_ONE_QUESTION)]
    units = (
        read.group_by(*texts, "option_order")
        .agg((pl.col("chosen_role") == role).sum().cast(pl.Int64).alias(role) for role in ROLES)
        .group_by(*_STRATA, *ROLES, "option_order")
        .len()
        .sort(pl.all().cast(pl.String))
    )
    found = []
    for _, part in sorted(units.partition_by(_STRATA, as_dict=True).items(), key=lambda item: str(item[0])):
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
    if not panel.templates:
        nothing = no_score("no answers")
        return BalancedScore(metric=metric.name, plain=nothing, balanced=nothing, difference=nothing)
    (plain,) = panel.estimates(metric)
    ordered = frame.filter(pl.col("option_order").cast(pl.String).is_in(ORDERS))
    cells = np.zeros((len(ORDERS), len(panel.templates), len(CELLS)))
    place = {name: row for row, name in enumerate(panel.templates)}
    counted = (
        ordered.filter(~pl.col("outcome").cast(pl.String).is_in(sorted(NO_RESPONSE)))
        .with_columns(cell_expression(), template_expression(), pl.col("option_order").cast(pl.String))
        .group_by("option_order", TEMPLATE, "cell")
        .agg(weight_of_rows(ordered))
    )
    for order, template, cell, weight in counted.rows():
        cells[ORDERS.index(order), place[template], cell] = weight
    factors = _order_factors(cells.sum(axis=1))
    if factors is None:
        nothing = no_score("some order of roles is missing, so that a role never stands at some place")
        return BalancedScore(metric=metric.name, plain=plain.score(sampling), balanced=nothing, difference=nothing)
    by_template = Counts((factors[:, None] * cells).sum(axis=0) @ count_matrix(), sampling.unparsed)
    total = Counts(by_template.values.sum(axis=0), by_template.unparsed)
    influences, sizes = influence_values(metric, by_template, total), metric.fractions[0].denominator(by_template)
    drawn = np.full(len(panel.weights), np.nan)
    for number, totals in enumerate(np.tensordot(panel.weights, cells, axes=(1, 1))):
        if (factors := _order_factors(totals)) is not None:  # NaN where an order went missing
            counts = Counts((factors * totals).sum(axis=0) @ count_matrix(), sampling.unparsed)
            drawn[number] = float(metric.value(counts))
    balanced = Estimate(
        value=float(metric.value(total)),
        influence_values=influences,
        adjusted_influence=influences * widening(effective_number(template_shares(metric, by_template))),
        template_weights=quotient(sizes, sizes.sum(), 0.0),
        bootstrap_values=drawn,
        bounds=(metric.low, metric.high),
    )
    return BalancedScore(
        metric=metric.name,
        plain=plain.score(sampling),
        balanced=balanced.score(sampling),
        difference=plain.subtract(balanced).score(sampling),
    )


def _order_factors(totals: Array) -> Array | None:
    """From orders × cells (any axes before) to the factor of every answer, orders × cells; None where none balances.

    Within a kind of question every order used weighs the same, and all together as much as the kind has answers. All
    six orders are used where they are there, else a Latin square that is.
    """
    kinds = question_kinds()
    sizes = totals @ kinds
    factors = np.zeros((*totals.shape[:-2], len(ORDERS), kinds.shape[1]))
    for kind in range(kinds.shape[1]):
        counts_of_kind = sizes[..., kind]
        if not counts_of_kind.any():
            continue
        least = counts_of_kind.reshape(-1, len(ORDERS)).min(axis=0)
        present = {order for order, size in zip(ORDERS, least, strict=True) if size > 0}
        balancing = next((orders for orders in (ORDERS, *LATIN_SQUARES) if set(orders) <= present), None)
        if balancing is None:
            return None
        used = [ORDERS.index(order) for order in balancing]
        whole = counts_of_kind.sum(axis=-1, keepdims=True)
        factors[..., used, kind] = whole / len(used) / counts_of_kind[..., used]
    found: Array = factors @ kinds.T
    return found


# --- texts of the unknown option -------------------------------------------------------------------------------------


def unknown_text_rates(frame: pl.DataFrame, sampling: InferenceSettings) -> list[UnknownTextRates]:
    """How often each text of the unknown option was chosen, most often shown first (BBQ App. G)."""
    read = frame.filter(pl.col("outcome").cast(pl.String).is_in(sorted(PARSED))).with_columns(
        template_expression(),
        pl.col("unknown_text").cast(pl.String),
        is_unknown=(pl.col("chosen_role").cast(pl.String) == "unknown").fill_null(False),
    )
    counted = read.group_by("unknown_text", TEMPLATE).agg(pl.len().alias("shown"), pl.col("is_unknown").sum())
    templates = tuple(counted[TEMPLATE].unique().sort().to_list())
    weights = resample_weights(templates, sampling.n_resamples, sampling.seed)
    place = {name: row for row, name in enumerate(templates)}
    all_shown, all_chosen = read.height, int(read["is_unknown"].sum())
    found = []
    for (text,), part in counted.partition_by("unknown_text", as_dict=True).items():
        shown, chosen = np.zeros(len(templates)), np.zeros(len(templates))
        rows = [place[name] for name in part[TEMPLATE]]
        shown[rows], chosen[rows] = part["shown"].to_numpy(), part["is_unknown"].to_numpy()
        found.append(
            UnknownTextRates(
                text=str(text),
                shown=int(shown.sum()),
                chosen=int(chosen.sum()),
                rate=ratio_of(chosen, shown, weights).score(sampling),
                share=float(chosen.sum()) / all_chosen if all_chosen else None,
                share_expected=float(shown.sum()) / all_shown if all_shown else None,
            )
        )
    return sorted(found, key=lambda variant: (-variant.shown, variant.text))
