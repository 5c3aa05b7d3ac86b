"""Scores, position and power as text for a terminal, and what all tables of statistics share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.report.score_tables import DASH, number
from mbbq_gen.scoring.codes import TOO_FEW
from mbbq_gen.statistics.crossed_effects import TOO_FEW_PROMPT_VARIANTS
from mbbq_gen.statistics.intervals import LOW_PARSING_TEXT

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mbbq_gen.analysis.position import PositionTable
    from mbbq_gen.analysis.power import PowerTable
    from mbbq_gen.analysis.robustness import Effect, EffectTable
    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.core.records import FrozenModel
    from mbbq_gen.statistics.hypothesis_tests import TestResult
    from mbbq_gen.statistics.panel import EstimateResult


def estimate(score: EstimateResult) -> str:
    """A signed score with its interval: `+0.08 [-0.02, +0.17]`."""
    text = number(score.value, signed=True)
    if score.ci_low is not None and score.ci_high is not None:
        text += f" [{number(score.ci_low, signed=True)}, {number(score.ci_high, signed=True)}]"
    return text


def caution_lines(table: FrozenModel) -> list[str]:
    """What the scores of a table must be read with, a line each: templates that are too few, answers not read.

    Nothing that the table's own warnings say.
    """
    said = {code for one in getattr(table, "comparisons", (table,)) for code in getattr(one, "warnings", None) or ()}
    found = _codes(table.model_dump())
    lines = {
        "too_few_templates": f"–: {TOO_FEW}",
        "too_few_prompt_variants": f"–: {TOO_FEW_PROMPT_VARIANTS}",
        "low_parse_rate": f"low_parse_rate: {LOW_PARSING_TEXT}",
    }
    return [line for code, line in lines.items() if code in found and code not in said]


def print_cautions(table: FrozenModel, console: Console) -> None:
    """The same on a terminal."""
    for line in caution_lines(table):
        console.print(f"\n{line}")


def _codes(value: object) -> set[object]:
    """Every reason and warning code in a record as it leaves."""
    if isinstance(value, Mapping):
        own = {value.get("reason_code"), *(value.get("warnings") or ())}
        return own.union(*(_codes(inner) for inner in value.values()))
    return set().union(*(_codes(inner) for inner in value)) if isinstance(value, list | tuple) else set()


def p_text(p_value: float | None) -> str:
    """A p value: `0.031`, `<0.001`, or a dash."""
    if p_value is None:
        return DASH
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def describe_test(test: TestResult) -> str:
    """One test in a line: name, unit, statistic, p, effect, or why there is none."""
    name, units = test.test.replace("_", " "), f"{test.n:,} {test.unit}s"
    if test.n_prompt_variants is not None:
        units += f" × {test.n_prompt_variants} wordings"
    if test.p_value is None:
        return f"{name} ({test.unit}s): {test.reason}"
    if test.margin is not None:
        return f"smaller than {test.margin:g} ({units}, two one-sided tests): p {p_text(test.p_value)}"
    effect = "" if test.effect is None else f", {test.effect_name} {test.effect:+.2f}"
    exact = ", exact" if test.is_exact else ""
    statistic = "" if test.statistic is None else f"{test.statistic_name} {test.statistic:.3g}, "
    return f"{name} ({units}): {statistic}p {p_text(test.p_value)}{exact}{effect}"


def plain_table(titles: Iterable[str], *, right: Sequence[str] = ()) -> Table:
    """An empty table with these titles; the columns of `right` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left", overflow="fold")
    return table


def group_name(group: Mapping[str, str | None]) -> str:
    """A group's values in words."""
    return ", ".join(f"{name} {value if value is not None else DASH}" for name, value in group.items())


def print_signs(signs: Mapping[str, str], console: Console) -> None:
    """How the signs of the metrics read, one line for those that read alike."""
    names: dict[str, list[str]] = {}
    for name, sign in signs.items():
        names.setdefault(sign, []).append(name)
    console.print()
    for sign, alike in names.items():
        console.print(f"{', '.join(alike)}: {sign}", soft_wrap=True)


# --- position --------------------------------------------------------------------------------------------------------


def print_positions(found: PositionTable, console: Console) -> None:
    """Places, the score with orders balanced, and wordings of the unknown option, of every group."""
    for report in found.groups:
        console.print(f"\n{group_name(report.group) or 'all answers'}: {report.n_answers:,} answers that were read\n")
        styles = ["labels"] if len({place.label_style for place in report.places}) > 1 else []
        table = plain_table((*styles, "label", "place", "chosen", "share", "expected", "preference"), right=("chosen",))
        for place in report.places:
            table.add_row(
                *(place.label_style or DASH for _ in styles),
                place.label,
                str(place.place + 1),
                f"{place.chosen:,}",
                f"{place.share:.3f}",
                f"{place.expected:.3f}",
                f"{place.preference:+.3f}",
            )
        console.print(table)
        console.print(describe_test(report.test))
        imbalance = DASH if report.imbalance is None else f"{report.imbalance:.3f}"
        console.print(f"imbalance of the orders shown (0: every role at every place equally often): {imbalance}\n")
        scores = plain_table(("metric", "score", "with orders balanced", "difference"))
        for score in report.scores:
            balanced = score.balanced.reason if score.balanced.value is None else estimate(score.balanced)
            scores.add_row(score.metric, estimate(score.plain), balanced, estimate(score.difference))
        console.print(scores)
        variants = plain_table(
            ("unknown option", "shown", "chosen", "rate", "share", "expected"), right=("shown", "chosen")
        )
        for variant in report.unknown_texts:
            variants.add_row(
                variant.text,
                f"{variant.shown:,}",
                f"{variant.chosen:,}",
                estimate(variant.rate),
                number(variant.share),
                number(variant.share_expected),
            )
        console.print(variants)
    print_cautions(found, console)
    console.print(f"\npreference: {found.preference_sign}")
    print_signs(found.signs, console)


# --- power -----------------------------------------------------------------------------------------------------------


SPOKEN_OF = {
    "fixed": "of these wordings, which are held fixed",
    "random": "of wordings like these, drawn by chance",
}
"""What statements are about."""


def print_power(table: PowerTable, console: Console) -> None:
    """The smallest differences, and what they stand on."""
    console.print(
        f"{table.benchmark}, {table.metric}: {table.templates} templates (as good as "
        f"{table.n_templates_effective:.0f} of one size) × {table.variants} wordings × {table.questions:g} questions\n"
    )
    shown = plain_table(("question", "standard error", "smallest difference found"), right=("standard error",))
    for found in table.detectable:
        least = found.minimum_detectable_effect
        text = "none: larger than a bias can be" if least is None else f"{least:.3f}"
        shown.add_row(found.question, f"{found.standard_error:.3f}", text)
    console.print(shown)
    sd = table.assumptions
    console.print(
        f"\nfound with probability {table.power:g} by a two-sided test at level {table.level:g}, "
        f"{SPOKEN_OF[table.prompt_effects]}.\n"
        f"standard deviations: template {sd.template:.3f}, template × language {sd.template_language:.3f}, "
        f"wording {sd.prompt_variant:.3f}, template × wording {sd.template_prompt_variant:.3f}, "
        f"language × wording {sd.language_prompt_variant:.3f}, one answer {sd.answer:.3f}\n({sd.source})"
    )


# --- score -----------------------------------------------------------------------------------------------------------


def print_tables(report: ScoreReport, console: Console) -> None:
    """Macro averages, tests and baselines, where they were requested; then how the signs read."""
    if report.macro_averages:
        table = plain_table(("macro average over", "group", "metric", "mean", "values", "left out"), right=("values",))
        for average in report.macro_averages:
            name, left_out = group_name(average.group), ", ".join(average.undefined) or DASH
            table.add_row(average.over, name, average.metric, estimate(average.score), str(average.n_levels), left_out)
        console.print()
        console.print(table)
    if report.adjusted:
        table = plain_table(("group", "metric", "bias", "on control", "bias − control", "question − twin", "twins"))
        for row in report.adjusted:
            scores = (row.bias, row.control, row.adjusted, row.twins)
            table.add_row(group_name(row.group), row.metric, *map(estimate, scores), f"{row.n_twins:,}")
        console.print()
        console.print(table)
    if report.tests:
        table = plain_table(("group", "metric", "test", "p (false discovery rate)"))
        for group in report.tests:
            for test in group.tests:
                table.add_row(group_name(group.group), group.metric, describe_test(test), p_text(test.p_adjusted))
        console.print()
        console.print(table)
    if report.baselines:
        metrics = list(report.baselines[0].metrics)
        table = plain_table(("group", "baseline", *metrics), right=metrics)
        for baseline in report.baselines:
            values = [number(baseline.metrics[name], signed=True) for name in metrics]
            table.add_row(group_name(baseline.group), baseline.baseline, *values)
        console.print()
        console.print(table)
    print_cautions(report, console)
    if report.prompt_effects == "random":
        console.print(f"\nintervals and tests: {SPOKEN_OF[report.prompt_effects]}")
    print_signs({name: definition.sign for name, definition in report.definitions.items()}, console)


def print_effects(effects: EffectTable, console: Console) -> None:
    """What each level of each axis does to a metric, then what two do beyond that."""
    console.print(f"\n{effects.metric}: effects of the axes ({effects.n_cells} cells, {effects.n_templates} templates)")
    languages = list(dict.fromkeys(effect.language for effect in effects.by_language))
    table = plain_table(
        ("axis", "level", "score", "against", "difference", "p (Holm)", *(f"in {language}" for language in languages)),
        right=("p (Holm)",),
    )
    found = {(effect.axes[0], effect.levels[0]): effect for effect in effects.main}
    inside = {(effect.axes[0], effect.levels[0], effect.language): effect for effect in effects.by_language}
    for mean in effects.means:
        key = (mean.axis, mean.level)
        effect = found.get(key)
        told = ("(base)", "", "") if effect is None else (*effect.against, estimate(effect.difference), _p(effect))
        own = (estimate(inside[*key, language].difference) if effect else "" for language in languages)
        table.add_row(mean.axis, mean.level, estimate(mean.score), *told, *own)
    console.print(table)
    if effects.interactions:
        console.print("\ntwo levels together, beyond what each does")
        table = plain_table(("axes", "levels", "difference", "p (Holm)"), right=("p (Holm)",))
        for effect in effects.interactions:
            table.add_row(" × ".join(effect.axes), " × ".join(effect.levels), estimate(effect.difference), _p(effect))
        console.print(table)
    aliased = {(effect.axes, other) for effect in effects.interactions for other in effect.aliased_with}
    for one, other in sorted(aliased):
        if one < other:
            console.print(f"{' × '.join(one)} and {' × '.join(other)} can't be told apart in this design")


def _p(effect: Effect) -> str:
    return p_text(effect.test.p_adjusted)
