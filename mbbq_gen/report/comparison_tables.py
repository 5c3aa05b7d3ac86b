"""Comparisons as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from mbbq_gen.core.records import Confidence
from mbbq_gen.core.text import counted, whole_percent
from mbbq_gen.report.analysis_tables import (
    SPOKEN_OF,
    caution_lines,
    describe_test,
    estimate,
    group_name,
    p_text,
    plain_table,
    print_cautions,
    print_effects,
    print_signs,
)
from mbbq_gen.report.annotation_tables import percent
from mbbq_gen.report.correction_tables import corrected_text, print_matrix
from mbbq_gen.report.page import page_assets, render
from mbbq_gen.report.score_tables import DASH, bounds_text, number, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mbbq_gen.analysis.agreement import MethodAgreement, MethodPair
    from mbbq_gen.analysis.comparison_table import Comparison, ComparisonTable, MetricComparison, PairDifference
    from mbbq_gen.analysis.robustness import RobustnessTable
    from mbbq_gen.statistics.estimate import EstimateResult
    from mbbq_gen.statistics.hypothesis_tests import TestResult
    from mbbq_gen.statistics.variance_components import VarianceTable


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
            console.print(
                "\n".join(smaller_lines(metric, 1 - table.confidence_level)), end="\n" if table.margin else ""
            )
            for pair in metric.pairs:
                if pair.warnings:
                    console.print(f"{pair.first} − {pair.second}: {', '.join(pair.warnings)}")
                if (line := unparsed_line(pair)) is not None:
                    console.print(line)
            console.print()
            console.print(_extraction_table(comparison.across, metric))
            if any(pair.corrected for pair in metric.pairs):
                console.print()
                console.print(_corrected_pairs(metric.pairs))
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
        f"\n{table.sign}. Intervals: {table.confidence_level:.0%}, bootstrap over templates ({table.n_resamples:,} "
        f"resamples, seed {table.seed}); unparsed answers: {table.unparsed}; {SPOKEN_OF[table.prompt_effects]}. "
        f"p (Holm): {_P_BY[table.prompt_effects]}, corrected for the number of {family}."
        + (f" Intervals of differences hold at once over all {family}." if table.simultaneous else "")
    )
    if table.corrected_by is not None:
        console.print(
            f"corrected: by {table.corrected_by} labels, prediction-powered, with intervals over templates and labels. "
            "p: by their t distribution."
        )


def _overall_line(test: TestResult) -> str:
    return (
        test.reason or ""
        if test.reason_code in {"too_few_templates", "too_few_prompt_variants"}
        else describe_test(test)
    )


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


def unparsed_line(pair: PairDifference) -> str | None:
    """What the unread answers could have made of a difference; None where all was read."""
    between = bounds_text(pair.bounds)
    if not between or pair.bounds is None:
        return None
    line = f"{pair.first} − {pair.second}: {between} whatever the unparsed answers were"
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


def _print_selection(comparison: Comparison, console: Console) -> None:
    found, what = comparison.matched, "matched: on"
    if comparison.selection is not None:
        found, what = comparison.selection, "compared on"
    if found is not None:
        each = ", ".join(f"{level} {count}" for level, count in found.above_chance)
        console.print(
            f"{what} {found.n_kept} of {found.n_templates} templates: {found.selection} on disambiguated control "
            f"questions in all ({each}); by luck alone, were every answer guessed: {found.expected_by_chance:.1f} "
            f"({', '.join(f'{level} {count:.1f}' for level, count in found.expected_by_chance_in_one)})"
        )
    if comparison.templates_excluded:
        console.print(f"{len(comparison.templates_excluded)} templates are not in all of them and left out")


def _extraction_table(across: str, metric: MetricComparison) -> Table:
    levels = get_args(Confidence)
    is_corrected = any(level.corrected for level in metric.levels)
    more = ("error rate", "labels", "score as extracted", "corrected") if is_corrected else ()
    table = plain_table(
        (across, *(f"parsed: {name}" for name in levels), *more), right=("labels", "score as extracted")
    )
    for level in metric.levels:
        cells = [share(level.confidences.get(name)) for name in levels]
        if level.corrected is not None:
            error = percent(level.extraction_error.rate) if level.extraction_error else DASH
            score = level.corrected
            cells += [error, f"{score.n_labels:,}", number(level.score.value, signed=True), corrected_text(score)]
        table.add_row(level.level, *cells)
    return table


def _corrected_pairs(pairs: Sequence[PairDifference]) -> Table:
    table = plain_table(("difference", "as extracted", "corrected", "p (Holm)"), right=("as extracted", "p (Holm)"))
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
        "answers",
        "parsed",
        "acc.",
        "control\nacc.",
        "score",
        "bounds",
        "p ≠ 0",
        "on control",
        "score − control",
    )
    table = plain_table(titles, right=("answers", "parsed", "acc.", "control\nacc.", "p ≠ 0"))
    for level in metric.levels:
        table.add_row(
            level.level,
            f"{level.n_answers:,}",
            share(level.parse_rate),
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
    titles = ("difference", "value", "p (Holm)", "d_z", "control-adjusted", "matched", "rate part", "direction part")
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
            estimate(pair.decomposition.rate) if pair.decomposition else DASH,
            estimate(pair.decomposition.direction) if pair.decomposition else DASH,
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


_CHOICE_TITLES = {"target": "target", "non_target": "other", "unknown": "unknown", "unparsed": "nobody"}
_MOST_FLIPS = 3
"""Kinds of flips that a line of the table names."""


@dataclass(frozen=True)
class TextTable:
    """A table whose cells are text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str]
    """The columns that hold numbers alone."""


def agreement_tables(found: MethodAgreement) -> Iterator[TextTable]:
    """How often the ways agree, what each scores, and how often each chose nobody."""
    pairs = tuple(
        (
            f"{pair.first} / {pair.second}",
            pair.split,
            pair.language,
            f"{pair.n_pairs:,}",
            f"{pair.n_read:,}",
            share_text(pair.equal_share),
            estimate(pair.kappa),
            _flips(pair),
        )
        for pair in found.pairs
    )
    head = ("methods", "split", "language", "pairs", "parsed", "same role", "kappa", "most frequent flips")
    yield TextTable("Agreement of the methods", head, pairs, frozenset({"pairs", "parsed"}))
    scores = tuple(
        (
            row.metric,
            row.split,
            row.language,
            row.method,
            f"{row.n_answers:,}",
            estimate(row.score),
            DASH if row.minus_first is None else estimate(row.minus_first),
        )
        for row in found.scores
    )
    columns = ("score", "split", "language", "method", "answers", "value", f"minus {found.methods[0]}")
    yield TextTable("Scores by method", columns, scores, frozenset({"answers"}))
    nobody = tuple((row.method, f"{row.n_answers:,}", f"{row.unparsed:,}", f"{row.ties:,}") for row in found.tie_rates)
    titles = ("method", "answers", "no choice", "of these multiple or tied")
    yield TextTable("Answers without a choice", titles, nobody, frozenset(titles[1:]))


def share_text(score: EstimateResult) -> str:
    """A share with its interval: `62% [55%, 70%]`."""
    if score.ci_low is None or score.ci_high is None:
        return share(score.value)
    return f"{share(score.value)} [{share(score.ci_low)}, {share(score.ci_high)}]"


def _flips(pair: MethodPair) -> str:
    """The most frequent flips: `target → unknown 12, other → target 3`."""
    named = [
        f"{_CHOICE_TITLES[flip.first]} → {_CHOICE_TITLES[flip.second]} {flip.n:,}" for flip in pair.flips[:_MOST_FLIPS]
    ]
    return ", ".join(named) or DASH


def agreement_notes(found: MethodAgreement) -> list[str]:
    """What the tables are read by."""
    return [
        *caution_lines(found),
        "pairs: the same question by both methods; parsed: both chose a role, and shares and kappa are of these. "
        "Roles: the target of the stereotype, the other person, unknown; none: unparsed, or a tie.",
        f"Intervals: {found.confidence_level:.0%}, bootstrap over templates ({found.n_resamples:,} resamples, seed "
        f"{found.seed}); unparsed answers: {found.unparsed}. Differences are paired by template.",
    ]


def print_agreement(found: MethodAgreement, console: Console) -> None:
    """The tables on a terminal."""
    print_tables(f"{found.model}: {found.run}", agreement_tables(found), agreement_notes(found), console)


def print_tables(title: str, tables: Iterable[TextTable], notes: Iterable[str], console: Console) -> None:
    """Tables under a title on a terminal, and what they are read by below."""
    console.print(title)
    for table in tables:
        console.print(f"\n{table.title}\n")
        shown = plain_table(table.head, right=tuple(table.numbers))
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    console.print()
    for line in notes:
        console.print(line)


def agreement_page(found: MethodAgreement) -> str:
    """The tables as a page that holds all it needs."""
    title = f"Ways of asking: {found.model}"
    return tables_page(title, agreement_tables(found), agreement_notes(found), found.run)


def tables_page(title: str, tables: Iterable[TextTable], notes: Iterable[str], run: str) -> str:
    """Tables of a run as a page that holds all it needs."""
    return render(
        "agreement.html",
        title,
        page_assets(("page.css",), ("theme.js",)),
        tables=list(tables),
        notes=list(notes),
        run=run,
    )


def print_robustness(table: RobustnessTable, console: Console) -> None:
    """Spread, flips and variance components of every group, then the ranks of models."""
    for report in table.groups:
        console.print(f"\n{group_name(report.group) or 'all answers'}: {report.n_answers:,} answers\n")
        spread_titles = ("metric", "over", "values", "mean", "sd", "min", "max", "worst", "p (differ)")
        spreads = plain_table(spread_titles, right=("values", "sd", "min", "max", "p (differ)"))
        for spread in report.spreads:
            spreads.add_row(
                spread.metric,
                spread.factor,
                str(len(spread.levels)),
                estimate(spread.mean),
                number(spread.sd),
                number(spread.lowest, signed=True),
                number(spread.highest, signed=True),
                DASH if spread.worst is None else f"{number(spread.worst, signed=True)} ({spread.worst_level})",
                p_text(spread.tests[0].p_value),
            )
        console.print(spreads)
        console.print()
        flip_titles = ("factor", "pairs", "share", "expected by chance", "Fleiss' kappa", "changes with it")
        flips = plain_table(flip_titles, right=("pairs", "expected by chance"))
        for flip in report.flips:
            flips.add_row(
                flip.factor,
                f"{flip.n_pairs:,}",
                estimate(flip.flip_share),
                number(flip.flip_share_by_chance),
                estimate(flip.kappa),
                ", ".join(flip.confounded_with) or DASH,
            )
        console.print(flips)
        for components in report.components:
            _print_components(components, console)
        for effects in report.effects:
            print_effects(effects, console)
        for note in report.notes:
            console.print(f"note: {note}")
    for rank in table.ranks:
        w = DASH if rank.kendall_w is None else f"{rank.kendall_w:.2f}"
        console.print(
            f"ranks of {counted(len(rank.models), 'model')} by {rank.metric} over {rank.factor}: Kendall's W {w}"
        )
        console.print(f"  {describe_test(rank.test)}")
    print_cautions(table, console)
    print_signs(table.signs, console)


def _print_components(table: VarianceTable, console: Console) -> None:
    """Single factors and pairs of them; combinations of three and more as one line."""
    console.print(
        f"\nvariance of {table.metric} over {table.n_cells:,} cells (mean {number(table.mean, signed=True)})\n"
    )
    shown = plain_table(("factor", "values", "sd", "95 %", "share"), right=("values", "sd", "share"))
    rest = 0.0
    for part in table.components:
        if part.factor.count("×") > 1:
            rest += part.share or 0.0
            continue
        interval = DASH if part.sd_low is None or part.sd_high is None else f"{part.sd_low:.2f} … {part.sd_high:.2f}"
        shown.add_row(part.factor, str(part.n_levels), f"{part.sd:.3f}", interval, share(part.share))
    if rest:
        shown.add_row("combinations of three and more", "", "", "", share(rest))
    if table.chance is not None:
        shown.add_row("chance, of one answer", str(table.chance.n_levels), f"{table.chance.sd:.3f}", "", "")
    console.print(shown)
