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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import polars as pl

from mbbq_gen.analysis.ability import Selection, keep_templates, select_templates, template_ability
from mbbq_gen.analysis.comparison_levels import ComparedLevels, ComparisonSettings, CorrectedLevels, holm_adjusted
from mbbq_gen.analysis.comparison_table import WARNINGS, Comparison, ComparisonTable
from mbbq_gen.analysis.correction import AnnotatedFrame
from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.core.records import NO_RESPONSE, Split
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import GROUPINGS, TEMPLATE, partition, template_expression
from mbbq_gen.statistics.estimate import InferenceSettings

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
    family: HypothesisFamily | None = None,
    may_leave_out: bool = False,
    split: Split = "bias",
) -> ComparisonTable:
    """The levels of `across` against each other, within each group of `within`.

    Bias is measured on the bias split; the control split, where it is there, tells ability and is taken off. With
    labelled answers, scores and differences are also given with extraction errors removed; with a margin, it is
    also tested whether they are smaller than it. `may_leave_out`: groups that can't be compared are left out and named.
    `split` control: the control questions are compared, and nothing is taken off.

    Raises:
        UsageError: where there are fewer than two levels, no answers of the bias split, or templates to select from.
    """
    sampling, family = sampling or InferenceSettings(), family or HypothesisFamily()
    if sampling.prompt_effects == "random" and across == "variant":
        raise UsageError(
            "--prompt-effects random: --across variant compares the prompt variants of the run; leave one out"
        )
    if sampling.prompt_effects == "random" and labelled is not None:
        raise UsageError(
            "--prompt-effects random: corrected scores need fixed prompt effects; leave --correct-with out"
        )
    if sampling.average != "questions" and labelled is not None:
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
        own = [pl.col(GROUPINGS[name]).cast(pl.String).eq_missing(pl.lit(value)) for name, value in group.items()]
        annotated = None if labelled is None else labelled.frame.filter(pl.lit(value=True), *own)
        wide = family.sampling(sampling, own_pairs, len(metrics) * sum(pairs))
        how = ComparisonSettings(sampling, wide, margin, select)
        try:
            found.append(_compare_group(part, group, across, metrics, how=how, labelled=annotated))
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
        comparisons=tuple(found if family.extent == "pairs" else adjust_p_values(found)),
        adjusted_over=family.extent,
        simultaneous=family.simultaneous,
        left_out=tuple(left_out),
        margin=margin,
        corrected_by=None if labelled is None else labelled.source,
    )


def _compare_group(
    frame: pl.DataFrame,
    within: dict[str, str | None],
    across: Across,
    metrics: Sequence[Metric],
    *,
    how: ComparisonSettings,
    labelled: pl.DataFrame | None,
) -> Comparison:
    select, sampling = how.select, how.sampling
    column = GROUPINGS[across]
    bias = frame.filter(pl.col("split") == "bias")
    levels = sorted(str(level) for level in bias[column].drop_nulls().unique().to_list())
    inside = "".join(f" of {name} {value}" for name, value in within.items())
    if len(levels) < 2:
        found = f"{len(levels)} of it ({', '.join(levels) or 'none'}) in the bias split{inside}"
        raise UsageError(f"--across {across}: {found}; give runs with two or more")
    frame = frame.filter(pl.col(column).cast(pl.String).is_in(levels))
    seen = bias.select(template_expression(), pl.col(column).cast(pl.String)).unique().drop_nulls()
    counted = seen.group_by(TEMPLATE).len().sort(TEMPLATE)
    shared, left_out = (
        counted.filter(is_it)[TEMPLATE].to_list()
        for is_it in (pl.col("len") == len(levels), pl.col("len") != len(levels))
    )
    is_answer = ~pl.col("outcome").cast(pl.String).is_in(sorted(NO_RESPONSE))
    control = frame.filter((pl.col("split") == "control") & (pl.col("condition") == "disambiguated") & is_answer)
    matched = (
        select_templates(template_ability(frame, [across]), shared, select or "above-chance")
        if control.height or select
        else None
    )
    if select and matched:
        shared = list(matched.kept)
    if len(shared) < 2:
        common = f"all of {', '.join(levels)}{inside}"
        if select and matched:
            raise MbbqGenError(
                f"--template-filter {select}: {matched.n_kept} of {matched.n_templates} templates pass in {common}, "
                "two are needed; leave --template-filter out, or compare fewer"
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
        templates_excluded=tuple(left_out),
        matrices=corrected.matrices() if corrected else (),
        warnings={code: text for code, text in WARNINGS.items() if code in codes},
    )


Extent = Literal["pairs", "all"]
"""The pairs of one metric in one group; or all pairs, metrics and groups of a comparison."""
FAMILIES: tuple[Extent, ...] = get_args(Extent)


@dataclass(frozen=True)
class HypothesisFamily:
    """What is held together."""

    extent: Extent = "pairs"
    simultaneous: bool = False
    """Whether the intervals of differences hold all at once (Bonferroni)."""

    def sampling(self, sampling: InferenceSettings, pairs: int, all_differences: int) -> InferenceSettings:
        """The confidence of each difference; `all_differences`: over all pairs, metrics and groups."""
        count = pairs if self.extent == "pairs" else all_differences
        if not self.simultaneous or count < 2:
            return sampling
        return replace(sampling, confidence=1 - (1 - sampling.confidence) / count)


def adjust_p_values(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with the p values of each kind of test adjusted over all their pairs and metrics (Holm)."""
    pairs = [pair for comparison in comparisons for metric in comparison.metrics for pair in metric.pairs]
    adjusted = iter(holm_adjusted(pairs) if pairs else ())
    found = []
    for comparison in comparisons:
        metrics = tuple(
            metric.model_copy(update={"pairs": tuple(next(adjusted) for _ in metric.pairs)})
            for metric in comparison.metrics
        )
        found.append(comparison.model_copy(update={"metrics": metrics}))
    return found
