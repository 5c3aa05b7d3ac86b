"""Counts what stands in a table of observations: cells by group and template, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.records import Outcome
from mbbq_gen.scoring.cells import CELLS, Array, Counts, UnparsedPolicy, cell_expression, count_matrix, is_parsed
from mbbq_gen.scoring.codes import PromptEffects
from mbbq_gen.scoring.metrics import Metric

ROWS: Final = "rows"
"""The column that says how many answers a row stands for; a table without it has a row an answer."""
QUESTIONS: Final = "questions"
"""The column that says how many questions of its group a row is the first of."""
QUESTION_KEYS: Final = ("benchmark", "split", "language", "instance_id")
"""Columns that identify a question."""
_AGGREGATE_KEYS: Final = (
    *("model", "method", "split", "benchmark", "category", "template_id", "language", "extractor"),
    *("outcome", "confidence", "condition", "polarity", "alignment", "has_single_target", "correct"),
    *("chosen_role", "chosen_index", "gold_role", "biased", "counter_biased", "target_chosen"),
    *("published_gold_role", "published_index", "corrected_gold_role", "corrected_index", "groups_swapped", "gold"),
)
"""Columns that cells, templates, relabelling and the groups that are never pooled unasked depend on."""


def rows_of(frame: pl.DataFrame) -> pl.Expr:
    """The number of answers of a group of rows."""
    return pl.col(ROWS).sum() if ROWS in frame.columns else pl.len()


def answers_of(frame: pl.DataFrame) -> int:
    """The number of answers of the table."""
    return int(frame.select(rows_of(frame)).item() or 0)


def sums(frame: pl.DataFrame, groups: Sequence[str], beside: Sequence[str] = ()) -> pl.DataFrame:
    """A table of observations added up, for scores by the columns `groups`, whose questions are counted.

    `beside`: columns that other scores of the same table are grouped by. Methods and splits are kept apart anyway.
    """
    first = pl.struct(*dict.fromkeys((*QUESTION_KEYS, *groups, "method"))).is_first_distinct()
    kept = list(dict.fromkeys((*groups, *beside, *_AGGREGATE_KEYS)))
    return (
        frame.lazy()
        .select(*kept, first.alias(QUESTIONS))
        .group_by(kept)
        .agg(pl.len().cast(pl.Int64).alias(ROWS), pl.col(QUESTIONS).sum().cast(pl.Int64))
        .collect()
    )


def added(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The sum of added-up tables with the same columns; two in memory at a time. Raises ValueError for none."""
    whole: pl.DataFrame | None = None
    for part in parts:
        both = part if whole is None else pl.concat([whole, part])
        whole = both.group_by(pl.all().exclude(ROWS, QUESTIONS)).agg(pl.col(ROWS, QUESTIONS).sum())
    if whole is None:
        raise ValueError("nothing to add up")
    return whole


Subset = Literal["all", "bharat_pairs"]


def subset(frame: pl.DataFrame, name: Subset) -> pl.DataFrame:
    """The rows of a subset, in their order.

    `bharat_pairs` (BharatBBQ's released scoring) leaves out questions that call people by name, and the pairs of
    disambiguated questions that were answered with the same person or both with unknown. A pair is a negative and a
    non-negative question about one context with the same two people, in one prompt variant of one model. Questions
    without a partner, or whose partner's answer could not be parsed, stay.
    """
    if name == "all":
        return frame
    is_disambiguated = pl.col("condition") == "disambiguated"
    role = pl.when(is_disambiguated & is_parsed()).then(pl.col("chosen_role").cast(pl.String))
    polarity = pl.when(is_disambiguated).then(pl.col("polarity").cast(pl.String))
    alike = ("context_id", "variant", "label_style", "extractor", "method", "reasoning_effort")
    pair = [pl.col(column) for column in ("model", *STRATA[2:7], *alike)]
    marked = frame.filter(~pl.col("proper_names").fill_null(False)).with_columns(
        both_put=polarity.n_unique().over(pair) == 2,
        all_read=role.is_not_null().all().over([*pair, "condition"]),
        one_answer=role.n_unique().over([*pair, "condition"]) == 1,
    )
    is_equal = is_disambiguated & pl.col("both_put") & pl.col("all_read") & pl.col("one_answer")
    return marked.filter(~is_equal).drop("both_put", "all_read", "one_answer")


WEIGHT: Final = "sampling_weight"
"""The column that holds them; a table without it weighs answers alike."""
STRATA: Final = ("method", "extractor", "benchmark", "split", "language", "category", "template_id", "condition")
"""Columns in which answers of one weight are equal."""


def weight_of_rows(frame: pl.DataFrame) -> pl.Expr:
    """The weight of a group of rows: the number of answers, if the design gives no weights."""
    return pl.col(WEIGHT).sum() if WEIGHT in frame.columns else rows_of(frame).cast(pl.Float64)


def weighted_by_design(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with weights; as it is where all strata were sampled alike."""
    if frame.is_empty():
        return frame
    strata = pl.struct(*STRATA).n_unique().over("condition")
    weight = pl.len().over("condition") / strata / pl.len().over(*STRATA)
    weighted = frame.with_columns(weight.cast(pl.Float64).alias(WEIGHT))
    return weighted if weighted[WEIGHT].min() != weighted[WEIGHT].max() else frame


def strata_weights(frame: pl.DataFrame) -> pl.DataFrame | None:
    """The weight of an answer of each stratum, strata as texts; None where all answers weigh alike."""
    if WEIGHT not in frame.columns:
        return None
    return frame.select(pl.col(name).cast(pl.String) for name in STRATA).with_columns(frame[WEIGHT]).unique()


def weights_of_answers(rows: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
    """The weights of some answers of a table, such as labelled ones; 1 where all weigh alike."""
    if WEIGHT not in frame.columns:
        return pl.repeat(1.0, rows.height, eager=True)
    names = ["model", *STRATA[2:]]
    keys = [pl.col(name).cast(pl.String) for name in names]
    strata = frame.group_by(keys).agg(pl.col(WEIGHT).mean())
    joined = rows.select(keys).join(strata, on=names, how="left", maintain_order="left")
    return joined[WEIGHT].fill_null(1.0)


def alike(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """The tables with the same columns: a weight of 1 in those that have none, if any has one."""
    if not any(WEIGHT in frame.columns for frame in frames):
        return list(frames)
    return [frame if WEIGHT in frame.columns else frame.with_columns(pl.lit(1.0).alias(WEIGHT)) for frame in frames]


GROUPINGS: dict[str, str] = {
    name: "template_id" if name == "template" else name
    for name in (
        *("model", "method", "benchmark", "version", "split", "language", "category", "subcategory", "template"),
        *("variant", "option_order", "label_style", "reasoning_effort", "polarity", "unknown_text", "extractor"),
        *("proper_names", "intersectional_contrast", "target_group", "non_target_group"),
    )
}
"""Grouping of scores → its column."""

CLUSTER = ("benchmark", "category", "template_id")
"""Columns that identify a template: its languages, splits, prompt variants and orders are one cluster."""
PROMPT_VARIANT = "variant"
"""The column that tells prompt variants apart: one id is one prompt variant, whatever the language."""


@dataclass(frozen=True)
class Tally:
    """The counts of one group."""

    group: dict[str, str | None]
    n_instances: int
    outcomes: dict[Outcome, int]
    pooled_over: dict[str, int]
    """The number of models, splits, benchmarks and methods in the group."""
    n_corrected: int
    templates: tuple[str, ...]
    """Names of the clusters, sorted: the rows of `cells`."""
    cells: Array
    """Templates × CELLS: how many answers fell into each cell; by their weights, where the design gave some."""
    unweighted: Array | None = None
    """The same without weights; None: `cells` has none."""
    by_prompt_variant: Array | None = None
    """Templates × prompt variants × CELLS, prompt variants being those of the whole table; None: not requested."""

    def without_answers(self) -> Tally:
        """The same group without templates."""
        by_variant = None if self.by_prompt_variant is None else self.by_prompt_variant[:0]
        none = self.cells[:0]
        return replace(self, templates=(), cells=none, unweighted=none, by_prompt_variant=by_variant)

    @property
    def answer_counts(self) -> Array:
        """Templates × CELLS: how many answers fell into each cell, whatever they weigh."""
        return self.cells if self.unweighted is None else self.unweighted


def grouping_columns(by: Sequence[str]) -> dict[str, str]:
    """The groupings → their columns, in order; a column's own name is understood too; or UnknownNameError."""
    chosen = ["template" if name == "template_id" else name for name in by]
    for name in chosen:
        if name not in GROUPINGS:
            raise UnknownNameError("grouping", name, GROUPINGS)
    return {name: GROUPINGS[name] for name in chosen}


def partition(frame: pl.DataFrame, by: Sequence[str]) -> list[tuple[dict[str, str | None], pl.DataFrame]]:
    """The rows of every group, sorted by the group's values; the columns of the groupings become texts."""
    columns = grouping_columns(by)
    keyed = frame.with_columns(pl.col(column).cast(pl.String) for column in columns.values())
    parts = keyed.partition_by(list(columns.values()), as_dict=True) if columns else {(): keyed}
    ordered = sorted(parts.items(), key=lambda item: _order(item[0]))
    return [(dict(zip(columns, values, strict=True)), part) for values, part in ordered]


def tally_groups(frame: pl.DataFrame, columns: dict[str, str], variants: PromptEffects = "fixed") -> Iterator[Tally]:
    """The counts of every group, sorted by its values; with `random` variants also by prompt variant."""
    crossed = [PROMPT_VARIANT] if variants == "random" else []
    keys = {f"by_{name}": pl.col(column).cast(pl.String) for name, column in columns.items()}
    kept = dict.fromkeys((*columns.values(), *CLUSTER, "model", "split", "method", *crossed, "outcome", "cell"))
    counted = (
        frame.lazy()
        .with_columns(cell_expression(), was_corrected=pl.col("corrected_index").is_not_null())
        .group_by(*kept, "was_corrected")
        .agg(rows_of(frame).alias("rows"), weight_of_rows(frame).alias("weight"))
        .with_columns(**keys, cluster=template_expression(), everything=pl.lit(0))
        .collect()
    )
    names = ["everything", *keys]
    # Of a table that is added up, by the groups that it was added up for.
    is_added, questions = QUESTIONS in frame.columns, frame.lazy().with_columns(**keys, everything=pl.lit(0))
    if not is_added:
        questions = questions.select(*QUESTION_KEYS, *names).unique()
    number = pl.col(QUESTIONS).sum() if is_added else pl.len()
    instances = {row[:-1]: row[-1] for row in questions.group_by(names).agg(number.alias("n")).collect().rows()}
    clusters = counted["cluster"].unique().sort()
    coded = counted.with_columns(
        pl.col("cluster").replace_strict(clusters, range(len(clusters)), return_dtype=pl.Int32).alias("template"),
        *((pl.col(name).cast(pl.String).fill_null("").rank("dense") - 1).alias("variant_code") for name in crossed),
    )
    for values, part in sorted(coded.partition_by(names, as_dict=True).items(), key=lambda item: _order(item[0])):
        rows, weights = part["rows"].to_numpy(), part["weight"].to_numpy()
        outcomes = np.bincount(part["outcome"].to_physical().to_numpy(), rows, len(get_args(Outcome))).astype(int)
        answered = part["cell"].is_not_null().to_numpy()
        numbers, where = np.unique(part["template"].to_numpy()[answered], return_inverse=True)
        cells, plain, by_variant = np.zeros((len(numbers), len(CELLS))), np.zeros((len(numbers), len(CELLS))), None
        places = (where, part["cell"].fill_null(0).to_numpy()[answered])
        np.add.at(cells, places, weights[answered])
        np.add.at(plain, places, rows[answered])
        if crossed:
            by_variant = np.zeros((len(numbers), coded["variant_code"].n_unique(), len(CELLS)))
            np.add.at(by_variant, (where, part["variant_code"].to_numpy()[answered], places[1]), weights[answered])
        yield Tally(
            group=dict(zip(columns, values[1:], strict=True)),
            n_instances=instances[values],
            outcomes=dict(zip(get_args(Outcome), outcomes.tolist(), strict=True)),
            pooled_over={name: part[name].n_unique() for name in ("model", "split", "benchmark", "method")},
            n_corrected=int(rows[part["was_corrected"].to_numpy()].sum()),
            templates=tuple(clusters[int(number)] for number in numbers),
            cells=cells,
            unweighted=plain,
            by_prompt_variant=by_variant,
        )


def _order(values: tuple[object, ...]) -> list[tuple[bool, str]]:
    """Sorts group values as text, None last."""
    return [(value is None, str(value)) for value in values]


QUESTION = "question"
"""Column: what makes a question the same across languages and splits: its parallel id, else language and own id."""
TEMPLATE = "cluster"


def question_expression() -> pl.Expr:
    """The column `question`: equal for parallel questions, unique where there is none."""
    own = pl.concat_str(pl.col("split", "language", "instance_id").cast(pl.String), separator="/")
    shared = pl.col("parallel_id").cast(pl.String)
    return pl.when(shared.is_null()).then("own/" + own).otherwise("parallel/" + shared).alias(QUESTION)


def template_expression() -> pl.Expr:
    """The column `cluster`: the template's full name."""
    return pl.concat_str(pl.col(CLUSTER).cast(pl.String), separator=" / ").alias(TEMPLATE)


def answer_scores(frame: pl.DataFrame, metric: Metric, unparsed: UnparsedPolicy) -> pl.DataFrame:
    """The rows in the metric's denominator, with `score`; UsageError if it is no mean over answers."""
    if not metric.is_mean:
        raise UsageError(f"metric {metric.name!r} is not a mean over answers, so single questions have no score")
    (fraction,), each = metric.fractions, Counts(count_matrix(), unparsed)
    codes = np.flatnonzero(fraction.denominator(each) > 0)
    values = fraction.numerator(each)[codes]
    score = pl.col("cell").replace_strict(codes.tolist(), values.tolist(), return_dtype=pl.Float64)
    return (
        frame.with_columns(cell_expression())
        .filter(pl.col("cell").is_in(codes.tolist()))
        .with_columns(score.alias("score"), question_expression(), template_expression())
    )


def item_scores(frame: pl.DataFrame, metric: Metric, unparsed: UnparsedPolicy, by: Sequence[str] = ()) -> pl.DataFrame:
    """One row for each of `by` (columns) × template × question: `score`, the mean over its `answers`."""
    keys = [*dict.fromkeys(by), TEMPLATE, QUESTION]
    answers = answer_scores(frame, metric, unparsed).with_columns(pl.col(name).cast(pl.String) for name in by)
    return answers.group_by(keys).agg(pl.col("score").mean(), pl.len().alias("answers")).sort(keys)
