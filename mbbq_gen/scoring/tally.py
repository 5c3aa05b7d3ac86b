"""Counts of cells by group and template in a table of observations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.records import Outcome
from mbbq_gen.scoring.cells import CELLS, Array, Counts, UnparsedPolicy, cell_expression, count_matrix, is_parsed
from mbbq_gen.scoring.codes import PromptEffects
from mbbq_gen.scoring.metrics import Metric

QUESTION_KEYS: Final = ("benchmark", "split", "language", "instance_id")
"""Columns that identify a question."""
Subset = Literal["all", "bharat_pairs"]


def subset(frame: pl.DataFrame, name: Subset) -> pl.DataFrame:
    """The rows of a subset, in their order.

    `bharat_pairs` (BharatBBQ's released scoring) excludes questions with proper names, and pairs of disambiguated
    questions with the same answer (the same person, or unknown). A pair is a negative and a non-negative question about
    one context with the same two people, in one prompt variant of one model. Questions without a pair, or with an
    unparsed answer in the pair, are kept.
    """
    if name == "all":
        return frame
    is_disambiguated = pl.col("condition") == "disambiguated"
    role = pl.when(is_disambiguated & is_parsed()).then(pl.col("chosen_role").cast(pl.String))
    polarity = pl.when(is_disambiguated).then(pl.col("polarity").cast(pl.String))
    alike = ("context_id", "variant", "label_style", "extractor", "method", "reasoning_effort")
    pair = [pl.col(column) for column in ("model", *STRATA[2:7], *alike)]
    marked = frame.filter(~pl.col("proper_names").fill_null(False)).with_columns(
        is_pair=polarity.n_unique().over(pair) == 2,
        is_read=role.is_not_null().all().over([*pair, "condition"]),
        is_same=role.n_unique().over([*pair, "condition"]) == 1,
    )
    is_equal = is_disambiguated & pl.col("is_pair") & pl.col("is_read") & pl.col("is_same")
    return marked.filter(~is_equal).drop("is_pair", "is_read", "is_same")


WEIGHT: Final = "sampling_weight"
"""Column with sampling weights; in a table without it, all answers have the weight 1."""
STRATA: Final = ("method", "extractor", "benchmark", "split", "language", "category", "template_id", "condition")
"""Columns of the sampling strata; answers of one stratum have the same weight."""


def weight_of_rows(frame: pl.DataFrame) -> pl.Expr:
    """The sum of the weights of a group of rows."""
    return pl.col(WEIGHT).sum() if WEIGHT in frame.columns else pl.len().cast(pl.Float64)


def weighted_by_design(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with sampling weights; unchanged if all strata have the same sampling rate."""
    if frame.is_empty():
        return frame
    strata = pl.struct(*STRATA).n_unique().over("condition")
    weight = pl.len().over("condition") / strata / pl.len().over(*STRATA)
    weighted = frame.with_columns(weight.cast(pl.Float64).alias(WEIGHT))
    return weighted if weighted[WEIGHT].min() != weighted[WEIGHT].max() else frame


def strata_weights(frame: pl.DataFrame) -> pl.DataFrame | None:
    """The weight of each stratum, with strata as text; None for equal weights."""
    if WEIGHT not in frame.columns:
        return None
    return frame.select(pl.col(name).cast(pl.String) for name in STRATA).with_columns(frame[WEIGHT]).unique()


def weights_of_answers(rows: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
    """The weights of some answers of a table, such as labelled ones."""
    if WEIGHT not in frame.columns:
        return pl.repeat(1.0, rows.height, eager=True)
    names = ["model", *STRATA[2:]]
    keys = [pl.col(name).cast(pl.String) for name in names]
    strata = frame.group_by(keys).agg(pl.col(WEIGHT).mean())
    joined = rows.select(keys).join(strata, on=names, how="left", maintain_order="left")
    return joined[WEIGHT].fill_null(1.0)


def alike(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """The tables with a weight column in all of them, or in none; missing weights are 1."""
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
"""Columns that identify a template, over all languages, splits, prompt variants and orders."""
PROMPT_VARIANT = "variant"
"""Column with the id of the prompt variant, over all languages."""


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
    """Templates × CELLS: the weighted numbers of answers."""
    unweighted: Array | None = None
    """Templates × CELLS without weights; None if all answers have the weight 1."""
    by_prompt_variant: Array | None = None
    """Templates × prompt variants of the whole table × CELLS; None for fixed prompt effects."""

    def without_answers(self) -> Tally:
        """The same group without templates."""
        by_variant = None if self.by_prompt_variant is None else self.by_prompt_variant[:0]
        empty = self.cells[:0]
        return replace(self, templates=(), cells=empty, unweighted=empty, by_prompt_variant=by_variant)

    @property
    def answer_counts(self) -> Array:
        """Templates × CELLS: the numbers of answers, without weights."""
        return self.cells if self.unweighted is None else self.unweighted


def grouping_columns(by: Sequence[str]) -> dict[str, str]:
    """The columns of groupings, in order; `template_id` is accepted for `template`. Raises UnknownNameError."""
    chosen = ["template" if name == "template_id" else name for name in by]
    for name in chosen:
        if name not in GROUPINGS:
            raise UnknownNameError("grouping", name, GROUPINGS)
    return {name: GROUPINGS[name] for name in chosen}


def partition(frame: pl.DataFrame, by: Sequence[str]) -> list[tuple[dict[str, str | None], pl.DataFrame]]:
    """The rows of every group, sorted by the group's values; grouping columns are cast to text."""
    columns = grouping_columns(by)
    keyed = frame.with_columns(pl.col(column).cast(pl.String) for column in columns.values())
    parts = keyed.partition_by(list(columns.values()), as_dict=True) if columns else {(): keyed}
    ordered = sorted(parts.items(), key=lambda item: _order(item[0]))
    return [(dict(zip(columns, values, strict=True)), part) for values, part in ordered]


def tally_groups(frame: pl.DataFrame, columns: dict[str, str], variants: PromptEffects = "fixed") -> Iterator[Tally]:
    """The counts of every group, sorted by its values; for random prompt variants also by variant."""
    crossed = [PROMPT_VARIANT] if variants == "random" else []
    keys = {f"by_{name}": pl.col(column).cast(pl.String) for name, column in columns.items()}
    kept = dict.fromkeys((*columns.values(), *CLUSTER, "model", "split", "method", *crossed, "outcome", "cell"))
    counted = (
        frame.lazy()
        .with_columns(cell_expression(), was_corrected=pl.col("corrected_index").is_not_null())
        .group_by(*kept, "was_corrected")
        .agg(pl.len().alias("rows"), weight_of_rows(frame).alias("weight"))
        .with_columns(**keys, cluster=template_expression(), everything=pl.lit(0))
        .collect()
    )
    names = ["everything", *keys]
    questions = frame.lazy().with_columns(**keys, everything=pl.lit(0)).select(*QUESTION_KEYS, *names).unique()
    instances = {row[:-1]: row[-1] for row in questions.group_by(names).agg(pl.len().alias("n")).collect().rows()}
    clusters = counted["cluster"].unique().sort()
    coded = counted.with_columns(
        pl.col("cluster").replace_strict(clusters, range(len(clusters)), return_dtype=pl.Int32).alias("template"),
        *((pl.col(name).cast(pl.String).fill_null("").rank("dense") - 1).alias("variant_code") for name in crossed),
    )
    for values, part in sorted(coded.partition_by(names, as_dict=True).items(), key=lambda item: _order(item[0])):
        rows, weights = part["rows"].to_numpy(), part["weight"].to_numpy()
        outcomes = np.bincount(part["outcome"].to_physical().to_numpy(), rows, len(get_args(Outcome))).astype(int)
        answered = part["cell"].is_not_null().to_numpy()
        numbers, row = np.unique(part["template"].to_numpy()[answered], return_inverse=True)
        column = part["cell"].fill_null(0).to_numpy()[answered]
        cells = np.zeros((len(numbers), len(CELLS)))
        unweighted, by_variant = np.zeros_like(cells), None
        np.add.at(cells, (row, column), weights[answered])
        np.add.at(unweighted, (row, column), rows[answered])
        if crossed:
            by_variant = np.zeros((len(numbers), coded["variant_code"].n_unique(), len(CELLS)))
            np.add.at(by_variant, (row, part["variant_code"].to_numpy()[answered], column), weights[answered])
        yield Tally(
            group=dict(zip(columns, values[1:], strict=True)),
            n_instances=instances[values],
            outcomes=dict(zip(get_args(Outcome), outcomes.tolist(), strict=True)),
            pooled_over={name: part[name].n_unique() for name in ("model", "split", "benchmark", "method")},
            n_corrected=int(rows[part["was_corrected"].to_numpy()].sum()),
            templates=tuple(clusters[int(number)] for number in numbers),
            cells=cells,
            unweighted=unweighted,
            by_prompt_variant=by_variant,
        )


def _order(values: tuple[object, ...]) -> list[tuple[bool, str]]:
    """Sorts group values as text, None last."""
    return [(value is None, str(value)) for value in values]


QUESTION = "question"
"""Column that identifies a question across languages and splits."""
TEMPLATE = "cluster"


def question_expression() -> pl.Expr:
    """The column `question`: the parallel id, or else split, language and own id."""
    own = pl.concat_str(pl.col("split", "language", "instance_id").cast(pl.String), separator="/")
    shared = pl.col("parallel_id").cast(pl.String)
    return pl.when(shared.is_null()).then("own/" + own).otherwise("parallel/" + shared).alias(QUESTION)


def template_expression() -> pl.Expr:
    """The column `cluster`: the template's full name."""
    return pl.concat_str(pl.col(CLUSTER).cast(pl.String), separator=" / ").alias(TEMPLATE)


def answer_scores(frame: pl.DataFrame, metric: Metric, unparsed: UnparsedPolicy) -> pl.DataFrame:
    """The rows in the metric's denominator, with `score`. Raises UsageError if it is not a mean over answers."""
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
    """The mean `score` and number of `answers` of every question, by the columns `by`, template and question."""
    keys = [*dict.fromkeys(by), TEMPLATE, QUESTION]
    answers = answer_scores(frame, metric, unparsed).with_columns(pl.col(name).cast(pl.String) for name in by)
    return answers.group_by(keys).agg(pl.col("score").mean(), pl.len().alias("answers")).sort(keys)
