"""Comparisons as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from mbbq_gen.records import Confidence
from mbbq_gen.report.audit_tables import percent
from mbbq_gen.report.correction_tables import corrected_text, print_matrix
from mbbq_gen.report.statistics_tables import (
    SPOKEN_OF,
    describe_test,
    estimate,
    group_name,
    p_text,
    plain_table,
    print_cautions,
)
from mbbq_gen.report.tables import DASH, bounds_text, number, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mbbq_gen.statistics.comparison_table import Comparison, ComparisonTable, MetricComparison, PairDifference
    from mbbq_gen.statistics.significance import TestResult


_P_BY = {
    "fixed": "signs of template differences flipped",
    "random": "by templates and wordings (t of each), no less than with signs of template differences flipped",
}


def print_comparisons(table: ComparisonTable, console: Console) -> None:
    """Every comparison, one metric after the other, with what it is read beside."""
    for comparison in table.comparisons:
        if comparison.within:
            console.print(f"\n{group_name(comparison.within)}")
        _print_selection(comparison, console)
        for metric in comparison.metrics:
            console.print(
                f"\n{metric.metric} across {comparison.across}: {metric.n_templates} templates in all of them"
            )
            console.print(f"({metric.sign})\n")
            console.print(_level_table(comparison.across, metric))
            console.print("\n".join(dict.fromkeys(f"all: {_overall_line(test)}" for test in metric.overall)))
            if metric.left_out:
                console.print(f"     (all but {', '.join(metric.left_out)}: no score)")
            console.print()
            console.print(_pair_table(metric.pairs))
            console.print("\n".join(smaller_lines(metric, 1 - table.interval)), end="\n" if table.margin else "")
            for pair in metric.pairs:
                if pair.warnings:
                    console.print(f"{pair.first} − {pair.second}: {', '.join(pair.warnings)}")
                if (line := unread_line(pair)) is not None:
                    console.print(line)
            _print_reading(comparison.across, metric, console)
        _print_agreement(comparison, console)
        for matrix in comparison.matrices:
            print_matrix(matrix, console)
        for code, sentence in comparison.warnings.items():
            console.print(f"{code}: {sentence}")
    for line in table.left_out:
        console.print(f"not compared: {line}")
    print_cautions(table, console)
    family = "pairs" if table.adjusted_over == "pairs" else "pairs, metrics and groups"
    console.print(
        f"\n{table.sign}. Intervals: {table.interval:.0%}, bootstrap over templates ({table.resamples:,} resamples, "
        f"seed {table.seed}); undetected answers: {table.undetected}; {SPOKEN_OF[table.wordings]}. p (Holm): "
        f"{_P_BY[table.wordings]}, corrected for the number of {family}."
        + (f" Intervals of differences hold at once over all {family}." if table.simultaneous else "")
    )
    if table.corrected_by is not None:
        console.print(
            f"corrected: by {table.corrected_by} labels, prediction-powered, with intervals over templates and labels. "
            "p: by their t distribution."
        )


def _overall_line(test: TestResult) -> str:
    return test.reason or "" if test.reason_code in {"too_few_templates", "too_few_wordings"} else describe_test(test)


def smaller_lines(metric: MetricComparison, level: float) -> Iterator[str]:
    """What each score and difference is shown to be smaller than, where that was asked."""
    named = [(level.level, level.tests) for level in metric.levels]
    named += [(f"{pair.first} − {pair.second}", pair.tests) for pair in metric.pairs]
    for name, tests in named:
        for test in tests:
            if test.test == "tost" and test.p_value is not None:
                holm = "" if test.p_adjusted is None else ", Holm"
                p_value = test.p_value if test.p_adjusted is None else test.p_adjusted
                shown = "shown" if p_value < level + 1e-12 else "not shown"
                yield f"{name}: {shown} to be smaller than {test.margin:g}, either way (p {p_text(p_value)}{holm})"


def unread_line(pair: PairDifference) -> str | None:
    """What the unread answers could have made of a difference; None where all was read."""
    between = bounds_text(pair.bounds)
    if not between or pair.bounds is None:
        return None
    line = f"{pair.first} − {pair.second}: {between} whatever the unread answers were"
    if pair.bounds.interval_low is not None and pair.bounds.interval_high is not None:
        ends = f"{number(pair.bounds.interval_low, signed=True)} … {number(pair.bounds.interval_high, signed=True)}"
        line += f" (with sampling: {ends})"
    tipping = pair.tipping_point
    if tipping is None:
        return line
    if tipping.share is None or tipping.read_rate is None:
        return f"{line}; found even if all of them were against it"
    return (
        f"{line}; no longer found if {tipping.share:.0%} of them were against it (as if {tipping.read_rate:.0%} "
        "had been read)"
    )


def _print_selection(comparison: Comparison, console: Console) -> None:
    found, what = comparison.matched, "matched: on"
    if comparison.selection is not None:
        found, what = comparison.selection, "compared on"
    if found is not None:
        each = ", ".join(f"{level} {count}" for level, count in found.above_chance)
        console.print(
            f"{what} {found.n_kept} of {found.n_templates} templates: {found.selection} on disambiguated control "
            f"questions in all ({each}); by luck alone, were every answer guessed: {found.by_luck:.1f} "
            f"({', '.join(f'{level} {count:.1f}' for level, count in found.by_luck_in_one)})"
        )
    if comparison.templates_left_out:
        console.print(f"{len(comparison.templates_left_out)} templates are not in all of them and left out")


def _print_reading(across: str, metric: MetricComparison, console: Console) -> None:
    """How the answers of each level were read, and what labels make of the scores."""
    console.print()
    console.print(_reading_table(across, metric))
    if any(pair.corrected for pair in metric.pairs):
        console.print()
        console.print(_corrected_pairs(metric.pairs))


def _reading_table(across: str, metric: MetricComparison) -> Table:
    levels = get_args(Confidence)
    is_corrected = any(level.corrected for level in metric.levels)
    more = ("read wrong", "labels", "score as read", "corrected") if is_corrected else ()
    table = plain_table((across, *(f"read: {name}" for name in levels), *more), right=("labels", "score as read"))
    for level in metric.levels:
        cells = [share(level.confidences.get(name)) for name in levels]
        if level.corrected is not None:
            error = percent(level.reading_error.rate) if level.reading_error else DASH
            score = level.corrected
            cells += [error, f"{score.n_labels:,}", number(level.score.value, signed=True), corrected_text(score)]
        table.add_row(level.level, *cells)
    return table


def _corrected_pairs(pairs: Sequence[PairDifference]) -> Table:
    table = plain_table(("difference", "as read", "corrected for reading", "p (Holm)"), right=("as read", "p (Holm)"))
    for pair in pairs:
        if pair.corrected is not None:
            table.add_row(
                f"{pair.first} − {pair.second}",
                number(pair.difference.value, signed=True),
                corrected_text(pair.corrected),
                p_text(pair.corrected.p_adjusted),
            )
    return table


def _level_table(across: str, metric: MetricComparison) -> Table:
    titles = (
        across,
        "items",
        "read",
        "acc.",
        "control\nacc.",
        "score",
        "bounds",
        "p ≠ 0",
        "on control",
        "score − control",
    )
    table = plain_table(titles, right=("items", "read", "acc.", "control\nacc.", "p ≠ 0"))
    for level in metric.levels:
        table.add_row(
            level.level,
            f"{level.n_items:,}",
            share(level.detection_rate),
            number(level.accuracy),
            number(level.control_accuracy),
            estimate(level.score),
            bounds_text(level.bounds) or DASH,
            p_text(level.tests[0].p_value) if level.tests else DASH,
            estimate(level.control),
            estimate(level.adjusted),
        )
    return table


def _pair_table(pairs: Sequence[PairDifference]) -> Table:
    titles = ("difference", "value", "p (Holm)", "d_z", "minus control", "matched", "naming part", "lean part")
    table = plain_table(titles, right=("p (Holm)", "d_z"))
    table.columns[0].no_wrap = True
    for pair in pairs:
        permutation = pair.tests[0]
        table.add_row(
            f"{pair.first} − {pair.second}",
            estimate(pair.difference),
            p_text(permutation.p_adjusted),
            DASH if permutation.effect is None else f"{permutation.effect:+.2f}",
            estimate(pair.adjusted),
            estimate(pair.matched),
            estimate(pair.parts.naming) if pair.parts else DASH,
            estimate(pair.parts.lean) if pair.parts else DASH,
        )
    return table


def _print_agreement(comparison: Comparison, console: Console) -> None:
    table = plain_table(("same questions", "context", "pairs", "same role", "Cohen's kappa"), right=("pairs",))
    for pair in comparison.agreement:
        if pair.n_pairs:
            name = f"{pair.first}, {pair.second}" + (" (other orders)" if pair.orders_differ else "")
            table.add_row(name, pair.condition, f"{pair.n_pairs:,}", estimate(pair.equal_share), estimate(pair.kappa))
    if table.row_count:
        console.print()
        console.print(table)
