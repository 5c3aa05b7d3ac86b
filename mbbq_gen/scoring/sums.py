"""Observations added up: one row for all answers that scores can't tell apart, with their number.

Scores are made of counts by template and cell, so they need no row an answer. A table that is added up has the columns
that tell cells, templates and groups apart, and two more: how many answers a row stands for, and how many questions are
met there first. Sums of parts of a run add up to the sum of the run, whatever the parts, as long as no question is in
two of them; so a hundred million answers need no table in one memory, and the scores are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

ROWS: Final = "rows"
"""The column that says how many answers a row stands for; a table without it has a row an answer."""
QUESTIONS: Final = "questions"
"""The column that says how many questions of its group a row is the first of."""
QUESTION_KEYS: Final = ("benchmark", "split", "language", "instance_id")
"""What tells questions apart."""
_TOLD_APART: Final = (
    *("model", "method", "split", "benchmark", "category", "template_id", "language", "extractor"),
    *("outcome", "confidence", "condition", "polarity", "alignment", "has_single_target", "correct"),
    *("chosen_role", "chosen_index", "gold_role", "biased", "counter_biased", "target_chosen"),
    *("published_gold_role", "published_index", "corrected_gold_role", "corrected_index", "groups_swapped", "gold"),
)
"""Columns that cells, templates, relabelling and the groups that are never pooled unasked depend on."""


def rows_of(frame: pl.DataFrame) -> pl.Expr:
    """How many answers a group of rows of the table stands for."""
    return pl.col(ROWS).sum() if ROWS in frame.columns else pl.len()


def answers_of(frame: pl.DataFrame) -> int:
    """How many answers the table stands for."""
    return int(frame.select(rows_of(frame)).item() or 0)


def questions_by(frame: pl.DataFrame, **keys: pl.Expr) -> pl.DataFrame:
    """How many different questions there are for each combination of the keys' values: those, and `questions`.

    Of a table that is added up, by the groups that it was added up for.
    """
    if QUESTIONS in frame.columns:
        return frame.lazy().select(QUESTIONS, **keys).group_by(*keys).agg(pl.col(QUESTIONS).sum()).collect()
    questions = frame.lazy().select(*QUESTION_KEYS, **keys).unique()
    return questions.group_by(*keys).agg(pl.len().alias(QUESTIONS)).collect()


def sums(frame: pl.DataFrame, groups: Sequence[str], beside: Sequence[str] = ()) -> pl.DataFrame:
    """A table of observations added up, for scores by the columns `groups`.

    Args:
        frame: A row an answer.
        groups: Columns of the groups whose questions are counted; methods and splits are kept apart anyway.
        beside: Columns that other scores of the same table are grouped by.
    """
    first = pl.struct(
        *QUESTION_KEYS, *(name for name in (*groups, "method") if name not in QUESTION_KEYS)
    ).is_first_distinct()
    kept = list(dict.fromkeys((*groups, *beside, *_TOLD_APART)))
    return (
        frame.lazy()
        .select(*kept, first.alias(QUESTIONS))
        .group_by(kept)
        .agg(pl.len().cast(pl.Int64).alias(ROWS), pl.col(QUESTIONS).sum().cast(pl.Int64))
        .collect()
    )


def added(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The sum of added-up tables with the same columns; two in memory at a time.

    Raises:
        ValueError: where there are none.
    """
    whole: pl.DataFrame | None = None
    for part in parts:
        keys = [name for name in part.columns if name not in {ROWS, QUESTIONS}]
        both = part if whole is None else pl.concat([whole, part])
        whole = both.group_by(keys).agg(pl.col(ROWS).sum(), pl.col(QUESTIONS).sum())
    if whole is None:
        raise ValueError("nothing to add up")
    return whole
