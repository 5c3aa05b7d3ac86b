"""Comparisons, of levels and of methods, as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from mbbq_gen.core.records import Confidence
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.analysis_tables import (
    SPOKEN_OF,
    caution_blocks,
    caution_lines,
    corrected_text,
    describe_test,
    matrix_table,
)
from mbbq_gen.report.tables import (
    DASH,
    Block,
    Note,
    Table,
    bounds_text,
    group_name,
    number,
    p_text,
    percent,
    share,
    share_text,
    text_table,
)
from mbbq_gen.scoring.codes import AVERAGES

if TYPE_CHECKING:
    from mbbq_gen.analysis.agreement import MethodAgreement, MethodPair
    from mbbq_gen.analysis.comparison_table import Comparison, ComparisonTable, MetricComparison, PairDifference

_P_BY = {
    "fixed": "signs of template differences flipped",
    "random": "by templates and wordings (t of each), no less than with signs of template differences flipped",
}


def comparison_blocks(table: ComparisonTable) -> Iterator[Block]:
    """Every comparison, one metric after the other, with what it is read beside."""
    if table.split == "control":
        yield "the control questions:"
    for comparison in table.comparisons:
        if comparison.within:
            yield f"\n{group_name(comparison.within)}"
        yield from _selection_lines(comparison)
        for metric in comparison.metrics:
            yield from _metric_blocks(table, comparison, metric)
        agreement = [
            (
                f"{pair.first}, {pair.second}" + (" (other orders)" if pair.orders_differ else ""),
                *(pair.condition, pair.n_pairs, pair.equal_share, pair.kappa),
            )
            for pair in comparison.agreement
            if pair.n_pairs
        ]
        if agreement:
            titles = ("same questions", "context", "pairs", "same role", "Cohen's kappa")
            yield from ("", text_table(titles, agreement))
        yield from map(matrix_table, comparison.matrices)
        yield from (f"{code}: {sentence}" for code, sentence in comparison.warnings.items())
    yield from (f"not compared: {line}" for line in table.left_out)
    yield from [table.serving] if table.serving is not None else []
    yield from caution_blocks(table)
    family = "pairs" if table.adjusted_over == "pairs" else "pairs, metrics and groups"
    how = f"bootstrap over templates ({table.n_resamples:,} resamples, seed {table.seed})"
    how = "Hartung-Knapp" if table.average == "random-effects" else how
    yield (
        f"\n{table.sign}. Intervals: {table.confidence_level:.0%}, {how}; "
        f"unparsed answers: {table.unparsed}; {SPOKEN_OF[table.prompt_effects]}. "
        f"p (Holm): {_P_BY[table.prompt_effects]}, corrected for the number of {family}."
        + (f" Scores: {AVERAGES[table.average]}." if table.average != "questions" else "")
        + (f" Intervals of differences hold at once over all {family}." if table.simultaneous else "")
    )
    if table.corrected_by is not None:
        yield (
            f"corrected: by {table.corrected_by} labels, prediction-powered, with intervals over templates and labels. "
            "p: by their t distribution."
        )


def _metric_blocks(table: ComparisonTable, comparison: Comparison, metric: MetricComparison) -> Iterator[Block]:
    """Levels, tests over all of them, pairs, what they are shown to be smaller than, and how they were read."""
    across = comparison.across
    yield f"\n{metric.metric} across {across}: {metric.n_templates} templates in all of them"
    yield f"({metric.sign})\n"
    right = ("answers", "parsed", "acc.", "control\nacc.", "p ≠ 0")
    levels = (
        (
            *(level.level, level.n_answers, share(level.parse_rate), number(level.accuracy)),
            *(number(level.control_accuracy), level.score, bounds_text(level.bounds) or None),
            *(p_text(level.tests[0].p_value) if level.tests else None, level.control, level.adjusted),
        )
        for level in metric.levels
    )
    titles: tuple[str, ...] = (across, *right[:4], "score", "bounds", "p ≠ 0", "on control", "score − control")
    yield text_table(titles, levels, right=right)
    codes = {"too_few_templates", "too_few_prompt_variants"}
    tests = [(test.reason or "") if test.reason_code in codes else describe_test(test) for test in metric.overall]
    yield "\n".join(dict.fromkeys(f"all: {text}" for text in tests))
    if metric.left_out:
        yield f"     (all but {', '.join(metric.left_out)}: no score)"
    yield ""
    yield _pair_table(metric.pairs)
    if smaller := list(smaller_lines(metric, 1 - table.confidence_level)):
        yield "\n".join(smaller)
    for pair in metric.pairs:
        if pair.warnings:
            yield f"{_name(pair)}: {', '.join(pair.warnings)}"
        if (line := unparsed_line(pair)) is not None:
            yield line
    yield ""
    yield _extraction_table(across, metric)
    corrected = [
        (
            *(_name(pair), number(pair.difference.value, signed=True), corrected_text(pair.corrected)),
            p_text(pair.corrected.p_adjusted),
        )
        for pair in metric.pairs
        if pair.corrected is not None
    ]
    if corrected:
        titles = ("difference", "as extracted", "corrected", "p (Holm)")
        yield from ("", text_table(titles, corrected, right=("as extracted", "p (Holm)")))


def _name(pair: PairDifference) -> str:
    return f"{pair.first} − {pair.second}"


def smaller_lines(metric: MetricComparison, level: float) -> Iterator[str]:
    """What each score and difference is shown to be smaller than, where that was requested."""
    named = [(level.level, level.tests) for level in metric.levels]
    named += [(_name(pair), pair.tests) for pair in metric.pairs]
    for name, tests in named:
        for test in tests:
            if test.test == "tost" and test.p_value is not None:
                holm = "" if test.p_adjusted is None else ", Holm"
                p_value = test.p_value if test.p_adjusted is None else test.p_adjusted
                shown = "shown" if p_value < level + 1e-12 else "not shown"
                yield f"{name}: {shown} to be smaller than {test.margin:g}, either way (p {p_text(p_value)}{holm})"


def unparsed_line(pair: PairDifference) -> str | None:
    """What the unread answers could have made of a difference; None where all was read."""
    between = bounds_text(pair.bounds)
    if not between or pair.bounds is None:
        return None
    line = f"{_name(pair)}: {between} whatever the unparsed answers were"
    if pair.bounds.interval_low is not None and pair.bounds.interval_high is not None:
        ends = f"{number(pair.bounds.interval_low, signed=True)} … {number(pair.bounds.interval_high, signed=True)}"
        line += f" (with sampling: {ends})"
    tipping = pair.tipping_point
    if tipping is None:
        return line
    if tipping.share is None or tipping.read_rate is None:
        return f"{line}; found even if all of them were against it"
    return (
        f"{line}; no longer found if {whole_percent(tipping.share)} of them were against it "
        f"(as if {whole_percent(tipping.read_rate)} had been read)"
    )


def _selection_lines(comparison: Comparison) -> Iterator[str]:
    found, what = comparison.matched, "matched: on"
    if comparison.selection is not None:
        found, what = comparison.selection, "compared on"
    if found is not None:
        each = ", ".join(f"{level} {count}" for level, count in found.above_chance)
        yield (
            f"{what} {found.n_kept} of {found.n_templates} templates: above-chance on disambiguated control "
            f"questions in all ({each}); by luck alone, were every answer guessed: {found.expected_by_chance:.1f} "
            f"({', '.join(f'{level} {count:.1f}' for level, count in found.expected_by_chance_in_one)})"
        )
    if comparison.templates_excluded:
        yield f"{len(comparison.templates_excluded)} templates are not in all of them and left out"


def _extraction_table(across: str, metric: MetricComparison) -> Table:
    levels = get_args(Confidence)
    is_corrected = any(level.corrected for level in metric.levels)
    more = ("error rate", "labels", "score as extracted", "corrected") if is_corrected else ()
    rows = []
    for level in metric.levels:
        cells = [level.level, *(share(level.confidences.get(name)) for name in levels)]
        if level.corrected is not None:
            error = percent(level.extraction_error.rate) if level.extraction_error else DASH
            labels = f"{level.corrected.n_labels:,}"
            cells += [error, labels, number(level.score.value, signed=True), corrected_text(level.corrected)]
        rows.append([*cells, *[""] * (1 + len(levels) + len(more) - len(cells))])
    titles = (across, *(f"parsed: {name}" for name in levels), *more)
    return text_table(titles, rows, right=("labels", "score as extracted"))


def _pair_table(pairs: Sequence[PairDifference]) -> Table:
    titles = ("difference", "value", "p (Holm)", "d_z", "control-adjusted", "matched", "rate part", "direction part")
    rows = []
    for pair in pairs:
        permutation, parts = pair.tests[0], pair.decomposition
        effect = None if permutation.effect is None else f"{permutation.effect:+.2f}"
        two = (parts.rate, parts.direction) if parts else (None, None)
        rows.append(
            (_name(pair), pair.difference, p_text(permutation.p_adjusted), effect, pair.adjusted, pair.matched, *two)
        )
    found = text_table(titles, rows, right=("p (Holm)", "d_z"))
    return replace(found, columns=(replace(found.columns[0], is_whole=True), *found.columns[1:]))


# --- methods ---------------------------------------------------------------------------------------------------------

_CHOICE_TITLES = {"target": "target", "non_target": "other", "unknown": "unknown", "unparsed": "nobody"}
_MOST_FLIPS = 3
"""Kinds of flips that a line of the table names."""


def agreement_blocks(found: MethodAgreement) -> Iterator[Block]:
    """How often the methods agree, and what each scores."""
    yield Note(f"{found.model}: {found.run}")
    titles: tuple[str, ...] = ("methods", "split", "language", "pairs", "parsed", "same role", "kappa")
    pairs = (
        (
            *(f"{pair.first} / {pair.second}", pair.split, pair.language, pair.n_pairs, pair.n_read),
            *(share_text(pair.equal_share), pair.kappa, _flips(pair)),
        )
        for pair in found.pairs
    )
    yield text_table((*titles, "most frequent flips"), pairs, title="Agreement of the methods")
    titles = ("score", "split", "language", "method", "answers", "value", f"minus {found.methods[0]}")
    scores = (
        (one.metric, one.split, one.language, one.method, one.n_answers, one.score, one.minus_first)
        for one in found.scores
    )
    yield text_table(titles, scores, title="Scores by method")
    yield ""
    yield from caution_lines(found)
    yield (
        "pairs: the same question by both methods; parsed: both chose a role, and shares and kappa are of these. "
        "Roles: the target of the stereotype, the other person, unknown; none: unparsed, or a tie."
    )
    yield (
        f"Intervals: {found.confidence_level:.0%}, bootstrap over templates ({found.n_resamples:,} resamples, seed "
        f"{found.seed}); unparsed answers: {found.unparsed}. Differences are paired by template."
    )


def _flips(pair: MethodPair) -> str | None:
    """The most frequent flips: `target → unknown 12, other → target 3`."""
    named = [
        f"{_CHOICE_TITLES[flip.first]} → {_CHOICE_TITLES[flip.second]} {flip.n:,}" for flip in pair.flips[:_MOST_FLIPS]
    ]
    return ", ".join(named) or None
