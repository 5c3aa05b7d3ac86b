"""Scores of single questions, for everything that pairs them: languages, control twins, wordings.

An item is a question over all its wordings, orders and label styles; its score is the mean over its answers that
stand in the metric's denominator, as MBBQ §4.2 averages over prompts. Only metrics that are means over answers have
item scores (`Metric.is_mean`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mbbq_gen.errors import UsageError
from mbbq_gen.scoring.cells import COUNT_NAMES, Undetected, cell_expression, count_matrix, resolve_base
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import CLUSTER

if TYPE_CHECKING:
    import polars

QUESTION = "question"
"""Column: what makes a question the same across languages and splits: its parallel id, else language and own id."""
TEMPLATE = "cluster"
"""Column: benchmark, category and template, as in `scoring.tally`."""


def question_expression() -> polars.Expr:
    """The column `question`: equal for parallel questions, unique where there is none."""
    import polars as pl

    own = pl.concat_str(
        pl.col("split").cast(pl.String),
        pl.col("language").cast(pl.String),
        pl.col("instance_id").cast(pl.String),
        separator="/",
    )
    shared = pl.col("parallel_id").cast(pl.String)
    return pl.when(shared.is_null()).then("own/" + own).otherwise("parallel/" + shared).alias(QUESTION)


def template_expression() -> polars.Expr:
    """The column `cluster`: the template's full name."""
    import polars as pl

    parts = [pl.col(column).cast(pl.String) for column in CLUSTER]
    return pl.concat_str(parts, separator=" / ").alias(TEMPLATE)


def answer_scores(frame: polars.DataFrame, metric: Metric, undetected: Undetected) -> polars.DataFrame:
    """The rows that stand in the metric's denominator, with `score`, `question` and `cluster` added.

    Raises:
        UsageError: for a metric that is no mean over answers.
    """
    import numpy as np
    import polars as pl

    if not metric.is_mean:
        raise UsageError(f"metric {metric.name!r} is no mean over answers: single questions have no score of it")
    (fraction,) = metric.fractions
    matrix = count_matrix()

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        found: np.ndarray[tuple[int], np.dtype[np.float64]] = matrix[
            :, COUNT_NAMES.index(resolve_base(name, undetected))
        ]
        return found

    values = column(fraction.plus) - (column(fraction.minus) if fraction.minus else 0.0)
    counted = column(fraction.over) > 0
    codes = [code for code in range(len(values)) if counted[code]]
    return (
        frame.with_columns(cell_expression())
        .filter(pl.col("cell").is_in(codes))
        .with_columns(
            pl.col("cell")
            .replace_strict(codes, [values[code] for code in codes], return_dtype=pl.Float64)
            .alias("score"),
            question_expression(),
            template_expression(),
        )
    )


def item_scores(
    frame: polars.DataFrame, metric: Metric, undetected: Undetected, by: Sequence[str] = ()
) -> polars.DataFrame:
    """One row for each of `by` (columns) × template × question, with `score`, the mean over its answers.

    Raises:
        UsageError: for a metric that is no mean over answers.
    """
    import polars as pl

    keys = [*dict.fromkeys(by), TEMPLATE, QUESTION]
    answers = answer_scores(frame, metric, undetected)
    texts = [pl.col(name).cast(pl.String) for name in by]
    return answers.with_columns(texts).group_by(keys).agg(pl.col("score").mean()).sort(keys)
