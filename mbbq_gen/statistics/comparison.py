"""Does a bias differ between languages, models, wordings, ways of asking or extractors, and what could explain it?

For each metric: the score of every level with its interval and its tests against 0; tests over all levels at once;
every pair with its paired difference. Beside each number stands what a reader needs in order not to be misled by it:

* the same score on the control set, and the score with it taken off;
* the difference on the templates that the model can do in all levels (MBBQ §5.2);
* how much of the difference is that the model names a person more often where that is wrong (ability), and how much
  that the persons it wrongly names lean more to the stereotype: bias = naming · lean, so its difference is
  Δnaming · mean lean + mean naming · Δlean (Kitagawa 1955);
* how many answers could be read, and whether those that could not, or a liking for a place, could explain a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

from mbbq_gen.errors import MbbqGenError, UsageError
from mbbq_gen.records import NOT_HAD
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import grouping_columns
from mbbq_gen.statistics.ability import (
    Selection,
    TemplateSelection,
    keep_templates,
    select_templates,
    template_ability,
)
from mbbq_gen.statistics.compared_levels import ComparedLevels, How
from mbbq_gen.statistics.comparison_table import WARNINGS, Comparison, ComparisonTable
from mbbq_gen.statistics.corrected_levels import CorrectedLevels
from mbbq_gen.statistics.family import Family, adjusted_over_all
from mbbq_gen.statistics.items import TEMPLATE, template_expression
from mbbq_gen.statistics.panel import Sampling

if TYPE_CHECKING:
    import polars

    from mbbq_gen.statistics.labelled import LabelledFrame

Across = Literal["language", "model", "variant", "thinking", "method", "extractor"]
ACROSS: tuple[Across, ...] = get_args(Across)
DEFAULT_METRICS = ("mbbq_bias_ambiguous", "diff_bias_disambiguated")


def compare(
    frame: polars.DataFrame,
    across: Across,
    metrics: Sequence[Metric],
    *,
    within: Sequence[str] = (),
    select: Selection | None = None,
    sampling: Sampling | None = None,
    labelled: LabelledFrame | None = None,
    margin: float | None = None,
    family: Family | None = None,
    may_leave_out: bool = False,
) -> ComparisonTable:
    """The levels of `across` against each other, within each group of `within`.

    Bias is measured on the bias split; the control split, where it is there, tells ability and is taken off. With
    labelled answers, scores and differences are also given with the errors of reading taken off; with a margin, it is
    also tested whether they are smaller than it. `may_leave_out`: groups that can't be compared are left out and named.

    Raises:
        UsageError: where there are fewer than two levels, no answers of the bias split, or templates to select from.
    """
    import polars as pl

    sampling, family = sampling or Sampling(), family or Family()
    if sampling.wordings == "random" and across == "variant":
        raise UsageError("--wordings random: --across variant compares the wordings that were asked; leave one out")
    if sampling.wordings == "random" and labelled is not None:
        raise UsageError("--wordings random: corrected scores hold wordings fixed; leave --corrected-by out")
    frame = _comparable(frame, across)
    columns = grouping_columns([name for name in within if name != across])
    keyed = frame.with_columns(pl.col(column).cast(pl.String) for column in columns.values())
    parts = keyed.partition_by(list(columns.values()), as_dict=True) if columns else {(): keyed}
    ordered = sorted(parts.items(), key=lambda item: [(value is None, str(value)) for value in item[0]])
    differences = len(metrics) * sum(_count_pairs(part, across) for _, part in ordered)
    found: list[Comparison] = []
    left_out: list[str] = []
    for values, part in ordered:
        inside = dict(zip(columns, values, strict=True))
        wide = family.sampling(sampling, _count_pairs(part, across), differences)
        told = None if labelled is None else _within(labelled.frame, inside)
        try:
            how = How(sampling, wide, margin, select)
            found.append(_compare_group(part, inside, across, metrics, how=how, labelled=told))
        except MbbqGenError as error:
            if not may_leave_out or (len(left_out) + 1 == len(ordered)):
                raise
            left_out.append(f"{', '.join(str(value) for value in values)}: {error}")
    return ComparisonTable(
        across=across,
        interval=sampling.confidence,
        resamples=sampling.resamples,
        seed=sampling.seed,
        undetected=sampling.undetected,
        wordings=sampling.wordings,
        comparisons=tuple(found if family.extent == "pairs" else adjusted_over_all(found)),
        adjusted_over=family.extent,
        simultaneous=family.simultaneous,
        left_out=tuple(left_out),
        margin=margin,
        corrected_by=None if labelled is None else labelled.source,
    )


def _count_pairs(frame: polars.DataFrame, across: Across) -> int:
    """How many pairs of levels the bias split of a group has."""
    import polars as pl

    column = grouping_columns([across])[across]
    return math.comb(frame.filter(pl.col("split") == "bias")[column].drop_nulls().n_unique(), 2)


def _comparable(frame: polars.DataFrame, across: Across) -> polars.DataFrame:
    """The answers that can be compared: those of the ways of asking that have several levels, where any have.

    Across ways of asking, a model is one whatever way it was asked.
    """
    import polars as pl

    if across == "method":
        way = pl.format(" ({})", pl.col("method").cast(pl.String))
        return frame.with_columns(pl.col("model").cast(pl.String).str.strip_suffix(way))
    if across == "model":
        return frame
    (column,) = grouping_columns([across]).values()
    counts = frame.group_by("method").agg(pl.col(column).drop_nulls().n_unique())
    kept = counts.filter(pl.col(column) > 1)["method"]
    return frame.filter(pl.col("method").is_in(kept.implode())) if kept.len() else frame


def _within(frame: polars.DataFrame, inside: dict[str, str | None]) -> polars.DataFrame:
    """The rows of one group of groupings."""
    import polars as pl

    for name, column in grouping_columns(list(inside)).items():
        frame = frame.filter(pl.col(column).cast(pl.String).eq_missing(pl.lit(inside[name])))
    return frame


def _compare_group(
    frame: polars.DataFrame,
    within: dict[str, str | None],
    across: Across,
    metrics: Sequence[Metric],
    *,
    how: How,
    labelled: polars.DataFrame | None,
) -> Comparison:
    import polars as pl

    select, sampling = how.select, how.sampling

    column = grouping_columns([across])[across]
    bias = frame.filter(pl.col("split") == "bias")
    levels = sorted(str(level) for level in bias[column].drop_nulls().unique().to_list())
    inside = "".join(f" of {name} {value}" for name, value in within.items())
    if len(levels) < 2:
        found = f"{len(levels)} of it ({', '.join(levels) or 'none'}) in the bias split{inside}"
        raise UsageError(f"--across {across}: {found}; give runs with two or more")
    frame = frame.filter(pl.col(column).cast(pl.String).is_in(levels))
    shared, left_out = _shared_templates(bias, column, levels)
    matched = _selection(frame, across, shared, select or "above-chance") if _has_control(frame) or select else None
    if select and matched:
        shared = list(matched.kept)
    if len(shared) < 2:
        common = f"all of {', '.join(levels)}{inside}"
        if select and matched:
            raise MbbqGenError(
                f"--select {select}: {matched.n_kept} of {matched.n_templates} templates pass in {common}, "
                "two are needed; leave --select out, or compare fewer"
            )
        raise UsageError(f"--across {across}: {len(shared)} templates are left that {common} have")
    kept = keep_templates(frame, shared)
    corrected = (
        None if labelled is None else CorrectedLevels(kept, keep_templates(labelled, shared), across, levels, sampling)
    )
    side_by_side = ComparedLevels(kept, across, levels, matched, how, corrected=corrected, is_cut=bool(left_out))
    compared = tuple(side_by_side.compare(metric) for metric in metrics)
    codes = [code for metric in compared for pair in metric.pairs for code in pair.warnings]
    return Comparison(
        within=within,
        across=across,
        levels=tuple(levels),
        selection=matched if select else None,
        matched=matched,
        metrics=compared,
        agreement=tuple(side_by_side.agreements()),
        templates_left_out=tuple(left_out),
        matrices=corrected.matrices() if corrected else (),
        warnings={code: text for code, text in WARNINGS.items() if code in codes},
    )


def _has_control(frame: polars.DataFrame) -> bool:
    """Whether there are answers to disambiguated control questions; failures are none."""
    import polars as pl

    had = ~pl.col("outcome").cast(pl.String).is_in(sorted(NOT_HAD))
    return bool(frame.filter((pl.col("split") == "control") & (pl.col("condition") == "disambiguated") & had).height)


def _selection(frame: polars.DataFrame, across: Across, shared: Sequence[str], kind: Selection) -> TemplateSelection:
    return select_templates(template_ability(frame, [across]), shared, kind)


def _shared_templates(bias: polars.DataFrame, column: str, levels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Templates that every level has answers to, and the others."""
    import polars as pl

    seen = bias.select(template_expression(), pl.col(column).cast(pl.String)).unique().drop_nulls()
    counted = seen.group_by(TEMPLATE).len().sort(TEMPLATE)
    is_shared = counted["len"] == len(levels)
    return counted.filter(is_shared)[TEMPLATE].to_list(), counted.filter(~is_shared)[TEMPLATE].to_list()
