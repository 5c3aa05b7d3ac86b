"""Does a bias differ between languages, models, prompt variants, methods or extractors, and what could explain it?

For each metric: the score of every level with its interval and its tests against 0; tests over all levels at once;
every pair with its paired difference. Each number comes with what is needed to interpret it:

* the same score on the control set, and the score minus it;
* the difference on the templates that the model can do in all levels (MBBQ §5.2);
* its decomposition: the rate at which a person is chosen wrongly (ability), and the direction of these choices.
  bias = rate · direction, so its difference is Δrate · mean direction + mean rate · Δdirection (Kitagawa 1955);
* how many answers could be parsed, and whether those that could not, or a position preference, could explain a
  difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

import polars as pl

from mbbq_gen.analysis.ability import Selection
from mbbq_gen.analysis.comparison_levels import ComparedLevels
from mbbq_gen.analysis.comparison_table import Comparison, ComparisonTable, Extent, MetricComparison, PairDifference
from mbbq_gen.analysis.correction import AnnotatedFrame
from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.core.records import Split
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import GROUPINGS, partition
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import holm

Across = Literal["language", "model", "variant", "reasoning_effort", "method", "extractor"]
ACROSS: tuple[Across, ...] = get_args(Across)
DEFAULT_METRICS = "mbbq_bias_ambiguous,diff_bias_disambiguated"
CONTROL_METRICS = "accuracy_disambiguated,accuracy_ambiguous"
"""What is compared of the control split, as in MBBQ's Table 5."""


def compare(
    frame: pl.DataFrame,
    across: Across,
    metrics: Sequence[Metric],
    *,
    within: Sequence[str] = (),
    select: Selection | None = None,
    sampling: InferenceSettings | None = None,
    labelled: AnnotatedFrame | None = None,
    margin: float | None = None,
    adjust_over: Extent = "pairs",
    simultaneous: bool = False,
    may_leave_out: bool = False,
    split: Split = "bias",
) -> ComparisonTable:
    """The levels of `across` against each other, within each group of `within`.

    Bias is measured on the bias split; the control split, where it is there, tells ability and is taken off. With
    labelled answers, scores and differences are also given with extraction errors removed; with a margin, it is
    also tested whether they are smaller than it. `simultaneous`: the intervals of differences hold all at once, over
    what p values are adjusted over (Bonferroni). `may_leave_out`: groups that can't be compared are left out and named.
    `split` control: the control questions are compared, and nothing is taken off.

    Raises:
        UsageError: where there are fewer than two levels, no answers of the bias split, or templates to select from.
    """
    sampling = sampling or InferenceSettings()
    if sampling.prompt_effects == "random" and across == "variant":
        raise UsageError(
            "--prompt-effects random: --across variant compares the prompt variants of the run; leave one out"
        )
    if labelled is not None and sampling.prompt_effects == "random":
        raise UsageError(
            "--prompt-effects random: corrected scores need fixed prompt effects; leave --correct-with out"
        )
    if labelled is not None and sampling.average != "questions":
        raise UsageError(f"--average {sampling.average}: corrected scores are over questions; leave --correct-with out")
    if split == "control":
        if labelled is not None or select is not None:
            raise UsageError("--split control: leave --correct-with and --template-filter out")
        frame = frame.filter(pl.col("split") == "control").with_columns(split=pl.lit("bias", frame.schema["split"]))
        if frame.is_empty():
            raise UsageError("--split control: no answers to control questions; run with --splits bias,control")
    if across == "method":  # there a model counts as one
        way = pl.format(" ({})", pl.col("method").cast(pl.String))
        frame = frame.with_columns(pl.col("model").cast(pl.String).str.strip_suffix(way))
    elif across != "model":  # the answers of the methods that have several levels, where any have
        counts = frame.group_by("method").agg(pl.col(GROUPINGS[across]).drop_nulls().n_unique().alias("n"))
        kept = counts.filter(pl.col("n") > 1)["method"]
        frame = frame.filter(pl.col("method").is_in(kept.implode())) if kept.len() else frame
    parts = partition(frame, [name for name in within if name != across])
    levels = [part.filter(pl.col("split") == "bias")[GROUPINGS[across]].drop_nulls().n_unique() for _, part in parts]
    pairs = [math.comb(count, 2) for count in levels]
    found: list[Comparison] = []
    left_out: list[str] = []
    for (group, part), own_pairs in zip(parts, pairs, strict=True):
        count = max(1, own_pairs if adjust_over == "pairs" else len(metrics) * sum(pairs)) if simultaneous else 1
        wide = replace(sampling, confidence=1 - (1 - sampling.confidence) / count) if count > 1 else sampling
        own = [pl.col(GROUPINGS[name]).cast(pl.String).eq_missing(pl.lit(value)) for name, value in group.items()]
        annotated = None if labelled is None else labelled.frame.filter(pl.lit(value=True), *own)
        try:
            levels_of = ComparedLevels(part, group, across, sampling, wide, select, margin, annotated)
            found.append(levels_of.comparison(metrics))
        except MbbqGenError as error:
            if not may_leave_out or len(left_out) + 1 == len(parts):
                raise
            left_out.append(f"{', '.join(str(value) for value in group.values())}: {error}")
    return ComparisonTable(
        across=across,
        confidence_level=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        unparsed=sampling.unparsed,
        prompt_effects=sampling.prompt_effects,
        average=sampling.average,
        split=split,
        comparisons=_adjusted(found, adjust_over),
        adjusted_over=adjust_over,
        simultaneous=simultaneous,
        left_out=tuple(left_out),
        margin=margin,
        corrected_by=None if labelled is None else labelled.source,
    )


def _adjusted(comparisons: Sequence[Comparison], over: Extent) -> tuple[Comparison, ...]:
    """The comparisons with the p values of each kind of test of their pairs adjusted over the family (Holm)."""
    families = [metric.pairs for comparison in comparisons for metric in comparison.metrics]
    corrected = iter(
        [p for pairs in families for p in holm([one.corrected.p_value if one.corrected else None for one in pairs])]
    )
    if over == "all":
        families = [tuple(pair for pairs in families for pair in pairs)]
    adjusted = iter([pair for pairs in families if pairs for pair in _holm_of_pairs(pairs)])

    def of_metric(metric: MetricComparison) -> MetricComparison:
        pairs = []
        for _ in metric.pairs:
            pair, p_adjusted = next(adjusted), next(corrected)
            own = pair.corrected and pair.corrected.model_copy(update={"p_adjusted": p_adjusted})
            pairs.append(pair.model_copy(update={"corrected": own}))
        return metric.model_copy(update={"pairs": tuple(pairs)})

    return tuple(
        comparison.model_copy(update={"metrics": tuple(map(of_metric, comparison.metrics))})
        for comparison in comparisons
    )


def _holm_of_pairs(pairs: Sequence[PairDifference]) -> Iterator[PairDifference]:
    kinds = [holm([test.p_value for test in tests]) for tests in zip(*(pair.tests for pair in pairs), strict=True)]
    controlled = holm([pair.adjusted_test.p_value for pair in pairs])
    for row, pair in enumerate(pairs):
        tests = tuple(test.adjusted(kind[row]) for test, kind in zip(pair.tests, kinds, strict=True))
        adjusted = pair.adjusted_test.adjusted(controlled[row])
        yield pair.model_copy(update={"tests": tests, "adjusted_test": adjusted})
