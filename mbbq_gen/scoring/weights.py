"""Weights by design: what an answer counts where some templates, languages or categories were asked more than others.

A run in rounds (`runs.rounds`) asks more where its intervals are still too wide. Post-stratified (Cochran 1977, §5A.9;
Holt & Smith 1979, JRSS A 142), every template counts alike in each language, split and condition, however much it was
asked: an answer weighs 1 / answers of its stratum. A score is then about the same thing at every moment of the run, and
the same as that of a balanced sample. Weights have a mean of 1 in each condition, so that counts keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mbbq_gen.scoring.sums import rows_of

if TYPE_CHECKING:
    import polars

WEIGHT: Final = "weight"
"""The column that holds them; a table without it weighs answers alike."""
STRATA: Final = ("method", "extractor", "benchmark", "split", "language", "category", "template_id", "condition")


def weight_of_rows(frame: polars.DataFrame) -> polars.Expr:
    """What a group of rows of the table weighs: their number where no design says otherwise."""
    import polars as pl

    return pl.col(WEIGHT).sum() if WEIGHT in frame.columns else rows_of(frame).cast(pl.Float64)


def weighted_by_design(frame: polars.DataFrame) -> polars.DataFrame:
    """The table with weights; as it is where all strata were asked alike."""
    import polars as pl

    if frame.is_empty():
        return frame
    strata = pl.struct(*STRATA).n_unique().over("condition")
    weight = pl.len().over("condition") / strata / pl.len().over(*STRATA)
    weighted = frame.with_columns(weight.cast(pl.Float64).alias(WEIGHT))
    return weighted if weighted[WEIGHT].min() != weighted[WEIGHT].max() else frame


def strata_weights(frame: polars.DataFrame) -> polars.DataFrame | None:
    """What an answer of each stratum weighs, strata as texts; None where all answers weigh alike."""
    import polars as pl

    if WEIGHT not in frame.columns:
        return None
    return frame.select(pl.col(name).cast(pl.String) for name in STRATA).with_columns(frame[WEIGHT]).unique()


def weights_of_answers(rows: polars.DataFrame, frame: polars.DataFrame) -> polars.Series:
    """What some answers, such as labelled ones, weigh in a table that they are of: by model and stratum.

    1 where the table weighs answers alike, and for an answer to what it does not hold.
    """
    import polars as pl

    if WEIGHT not in frame.columns:
        return pl.repeat(1.0, rows.height, eager=True)
    keys = [pl.col(name).cast(pl.String) for name in ("model", *STRATA[2:])]
    strata = frame.group_by(keys).agg(pl.col(WEIGHT).mean().alias("design"))
    told = rows.select(keys).join(
        strata, on=[key.meta.output_name() for key in keys], how="left", maintain_order="left"
    )
    return told["design"].fill_null(1.0)


def alike(frames: Sequence[polars.DataFrame]) -> list[polars.DataFrame]:
    """The tables with the same columns: a weight of 1 in those that have none, if any has one."""
    import polars as pl

    if not any(WEIGHT in frame.columns for frame in frames):
        return list(frames)
    return [frame if WEIGHT in frame.columns else frame.with_columns(pl.lit(1.0).alias(WEIGHT)) for frame in frames]
