"""Comparisons of levels and of methods, as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

from mbbq_gen.core.records import Confidence
from mbbq_gen.report.analysis_tables import PROMPTS_COVERED, caution_lines, corrected_text, describe_test, matrix_table
from mbbq_gen.report.tables import (
    DASH,
    Block,
    Table,
    bounds_text,
    group_name,
    number,
    p_text,
    percent,
    share,
    share_text,
)
from mbbq_gen.scoring.codes import AVERAGES

if TYPE_CHECKING:
    from mbbq_gen.analysis.agreement import MethodAgreement
    from mbbq_gen.analysis.comparison_table import Comparison, ComparisonTable, MetricComparison, PairDifference

_P_VALUE_METHODS = {
    "fixed": "signs of template differences flipped",
    "random": "by templates and prompt variants (t of each), no less than with signs of template differences flipped",
}


def comparison_blocks(table: ComparisonTable) -> Iterator[Block]:
    """Every comparison, metric by metric, with warnings and the methods in use."""
    if table.split == "control":
        yield "the control questions:"
    for comparison in table.comparisons:
        if comparison.within:
            yield f"\n{group_name(comparison.within)}"
        yield from _selection_lines(comparison)
        for metric in comparison.metrics:
            yield from _metric_blocks(comparison.across, metric, 1 - table.confidence_level)
        yield from map(matrix_table, comparison.matrices)
        yield from (f"{code}: {sentence}" for code, sentence in comparison.warnings.items())
    yield from (f"not compared: {line}" for line in table.left_out)
    yield from [table.serving] if table.serving is not None else []
    yield from caution_lines(table)
    family = "pairs" if table.adjusted_over == "pairs" else "pairs, metrics and groups"
    yield (
        f"\n{table.sign}. Intervals: {table.confidence_level:.0%}, bootstrap over templates "
        f"({table.n_resamples:,} resamples, seed {table.seed}); "
        f"unparsed answers: {table.unparsed}; {PROMPTS_COVERED[table.prompt_effects]}. "
        f"p (Holm): {_P_VALUE_METHODS[table.prompt_effects]}, corrected for the number of {family}."
        + (f" Scores: {AVERAGES[table.average]}." if table.average != "questions" else "")
    )
    if table.corrected_by is not None:
        yield (
            f"corrected: by {table.corrected_by} labels, prediction-powered, with intervals over templates and labels. "
            "p: by their t distribution."
        )


def _metric_blocks(across: str, metric: MetricComparison, level: float) -> Iterator[Block]:
    """Levels, tests over all of them, pairs, equivalence tests, unparsed answers, and corrections."""
    yield f"\n{metric.metric} across {across}: {metric.n_templates} templates in all of them"
    yield f"({metric.sign})\n"
    titles: tuple[str, ...] = ("answers", "parsed", "acc.", "control\nacc.", "score", "bounds", "p ≠ 0", "on control")
    levels = Table(across, *titles, "score − control")
    for one in metric.levels:
        rates = (share(one.parse_rate), one.accuracy, one.control_accuracy)
        p_value = p_text(one.tests[0].p_value) if one.tests else None
        score = (one.score, bounds_text(one.bounds) or None, p_value, one.control, one.adjusted)
        levels.add_row(one.level, one.n_answers, *rates, *score)
    yield levels
    codes = {"too_few_templates", "too_few_prompt_variants"}
    tests = [(test.reason or "") if test.reason_code in codes else describe_test(test) for test in metric.overall]
    yield "\n".join(dict.fromkeys(f"all: {text}" for text in tests))
    if metric.left_out:
        yield f"     (all but {', '.join(metric.left_out)}: no score)"
    pairs = Table(
        "difference", "value", "p (Holm)", "d_z", "control-adjusted", "matched", "rate part", "direction part"
    )
    for pair in metric.pairs:
        test, parts = pair.tests[0], pair.decomposition
        effect = None if test.effect is None else f"{test.effect:+.2f}"
        rate_and_direction = (parts.rate, parts.direction) if parts else (None, None)
        start = (_pair_name(pair), pair.difference, p_text(test.p_adjusted), effect)
        pairs.add_row(*start, pair.adjusted, pair.matched, *rate_and_direction)
    yield from ("", pairs)
    yield from _equivalence_lines(metric, level)
    for pair in metric.pairs:
        if pair.warnings:
            yield f"{_pair_name(pair)}: {', '.join(pair.warnings)}"
        yield from _unparsed_lines(pair)
    yield from ("", *_correction_blocks(across, metric))


def _pair_name(pair: PairDifference) -> str:
    return f"{pair.first} − {pair.second}"


def _equivalence_lines(metric: MetricComparison, level: float) -> Iterator[str]:
    """Results of the requested equivalence tests of scores and differences."""
    named = [(one.level, one.tests) for one in metric.levels]
    for name, tests in (*named, *((_pair_name(pair), pair.tests) for pair in metric.pairs)):
        for test in tests:
            if test.test == "tost" and test.p_value is not None:
                p_value = test.p_value if test.p_adjusted is None else test.p_adjusted
                shown = "shown" if p_value < level + 1e-12 else "not shown"
                text = p_text(p_value) + ("" if test.p_adjusted is None else ", Holm")
                yield f"{name}: {shown} to be smaller than {test.margin:g}, either way (p {text})"


def _unparsed_lines(pair: PairDifference) -> Iterator[str]:
    """Bounds of a difference over all possible unparsed answers; nothing if all were parsed."""
    between, bounds = bounds_text(pair.bounds), pair.bounds
    if not between or bounds is None:
        return
    line = f"{_pair_name(pair)}: {between} whatever the unparsed answers were"
    if bounds.interval_low is not None:
        line += f" (with sampling: {number(bounds.interval_low, signed=True)} … "
        line += f"{number(bounds.interval_high, signed=True)})"
    yield line


def _selection_lines(comparison: Comparison) -> Iterator[str]:
    """The templates that a comparison is restricted to."""
    found, purpose = comparison.matched, "matched: on"
    if comparison.selection is not None:
        found, purpose = comparison.selection, "compared on"
    if found is not None:
        each = ", ".join(f"{level} {count}" for level, count in found.above_chance)
        yield (
            f"{purpose} {found.n_kept} of {found.n_templates} templates: above-chance on disambiguated control "
            f"questions in all ({each})"
        )
    if comparison.templates_excluded:
        yield f"{len(comparison.templates_excluded)} templates are not in all of them and left out"


def _correction_blocks(across: str, metric: MetricComparison) -> Iterator[Block]:
    """Confidence of the extraction by level, and corrected scores and differences if there are labels."""
    names = get_args(Confidence)
    confidences = Table(across, *(f"parsed: {name}" for name in names))
    levels = Table(across, "error rate", "labels", "as extracted", "corrected")
    for one in metric.levels:
        confidences.add_row(one.level, *(share(one.confidences.get(name)) for name in names))
        if one.corrected is not None:
            error = percent(one.extraction_error.rate) if one.extraction_error else DASH
            scores = (number(one.score.value, signed=True), corrected_text(one.corrected))
            levels.add_row(one.level, error, one.corrected.n_labels, *scores)
    pairs = Table("difference", "as extracted", "corrected", "p (Holm)")
    for pair in metric.pairs:
        if pair.corrected is not None:
            values = (number(pair.difference.value, signed=True), corrected_text(pair.corrected))
            pairs.add_row(_pair_name(pair), *values, p_text(pair.corrected.p_adjusted))
    yield confidences
    for table in (levels, pairs):
        if table.rows:
            yield from ("", table)


# --- methods ---------------------------------------------------------------------------------------------------------

_CHOICE_TITLES = {"target": "target", "non_target": "other", "unknown": "unknown", "unparsed": "nobody"}
_MAX_FLIPS = 3
"""The most kinds of flips in a cell."""


def agreement_blocks(found: MethodAgreement) -> Iterator[Block]:
    """Agreement of the methods, and their scores."""
    yield f"{found.model}: {found.run}"
    titles = ("split", "language", "pairs", "parsed", "same role", "kappa", "most frequent flips")
    pairs = Table("methods", *titles, title="Agreement of the methods")
    for pair in found.pairs:
        flips = [
            f"{_CHOICE_TITLES[flip.first]} → {_CHOICE_TITLES[flip.second]} {flip.n:,}"
            for flip in pair.flips[:_MAX_FLIPS]
        ]
        counts = (pair.split, pair.language, pair.n_pairs, pair.n_read)
        pairs.add_row(f"{pair.first} / {pair.second}", *counts, share_text(pair.equal_share), pair.kappa, flips)
    titles = ("score", "split", "language", "method", "answers", "value", f"minus {found.methods[0]}")
    scores = Table(*titles, title="Scores by method")
    for one in found.scores:
        names = (one.metric, one.split, one.language, one.method)
        scores.add_row(*names, one.n_answers, one.score, one.minus_first)
    yield from (pairs, scores)
    yield from ("", *caution_lines(found))
    yield (
        "pairs: the same question by both methods; parsed: both chose a role, and shares and kappa are of these. "
        f"Intervals: {found.confidence_level:.0%}, bootstrap over templates ({found.n_resamples:,} resamples, seed "
        f"{found.seed}); unparsed answers: {found.unparsed}. Differences are paired by template."
    )
