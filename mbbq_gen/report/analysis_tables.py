"""Results of analyses as paragraphs and tables, from the additions of `score` to follow-ups."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, get_args

from mbbq_gen.analysis.correction import ReadRole
from mbbq_gen.analysis.reasoning import STANCES
from mbbq_gen.core.text import counted
from mbbq_gen.report.tables import (
    DASH,
    STANCE_TITLES,
    Block,
    Cell,
    Table,
    bounds_text,
    estimate_text,
    group_name,
    number,
    p_text,
    percent,
    share,
    share_text,
)
from mbbq_gen.scoring.codes import AVERAGES, TOO_FEW
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.intervals import LOW_PARSING_TEXT, TOO_FEW_PROMPT_VARIANTS

if TYPE_CHECKING:
    from mbbq_gen.analysis.agreement import MethodAgreement
    from mbbq_gen.analysis.comparison_table import Comparison, ComparisonTable, MetricComparison, PairDifference
    from mbbq_gen.analysis.correction import ConfusionMatrix, CorrectedScore, Correction
    from mbbq_gen.analysis.follow_up import FollowUpReport
    from mbbq_gen.analysis.position import PositionTable
    from mbbq_gen.analysis.power import PowerTable, VarianceAssumptions
    from mbbq_gen.analysis.reasoning import ReasoningReport
    from mbbq_gen.analysis.robustness import EffectTable, RobustnessTable
    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.core.records import FrozenModel
    from mbbq_gen.statistics.hypothesis_tests import TestResult
    from mbbq_gen.statistics.variance_components import VarianceTable

PROMPTS_COVERED = {
    "fixed": "of these prompt variants, which are held fixed",
    "random": "of prompt variants like these, drawn by chance",
}
"""The prompts that intervals and tests hold for."""


def caution_lines(found: FrozenModel, explained: Container[str] = ()) -> list[str]:
    """A line for each of three common reasons and warnings whose code occurs in the record and is not `explained`."""
    lines = {
        "too_few_templates": f"–: {TOO_FEW}",
        "too_few_prompt_variants": f"–: {TOO_FEW_PROMPT_VARIANTS}",
        "low_parse_rate": f"low_parse_rate: {LOW_PARSING_TEXT}",
    }
    record = found.model_dump_json()
    return [f"\n{line}" for code, line in lines.items() if f'"{code}"' in record and code not in explained]


def describe_test(test: TestResult) -> str:
    """One test in a line: name, unit, statistic, p, effect; or the reason why there is none."""
    name, units = test.test.replace("_", " "), f"{test.n:,} {test.unit}s"
    if test.n_prompt_variants is not None:
        units += f" × {test.n_prompt_variants} prompt variants"
    if test.p_value is None:
        return f"{name} ({test.unit}s): {test.reason}"
    if test.margin is not None:
        return f"smaller than {test.margin:g} ({units}, two one-sided tests): p {p_text(test.p_value)}"
    effect = "" if test.effect is None else f", {test.effect_name} {test.effect:+.2f}"
    exact = ", exact" if test.is_exact else ""
    statistic = "" if test.statistic is None else f"{test.statistic_name} {test.statistic:.3g}, "
    return f"{name} ({units}): {statistic}p {p_text(test.p_value)}{exact}{effect}"


def sign_blocks(signs: Mapping[str, str]) -> Iterator[Block]:
    """The meaning of the metrics' signs, with one line for each meaning."""
    yield ""
    for meaning in dict.fromkeys(signs.values()):
        yield f"{', '.join(name for name, sign in signs.items() if sign == meaning)}: {meaning}"


def score_blocks(report: ScoreReport) -> Iterator[Block]:
    """Requested additions to the scores: macro averages, tests, baselines; then the meaning of signs."""
    averages = Table("macro average over", "group", "metric", "mean", "values", "left out")
    for mean in report.macro_averages:
        averages.add_row(mean.over, group_name(mean.group), mean.metric, mean.score, mean.n_levels, mean.undefined)
    adjusted = Table("group", "metric", "bias", "on control", "bias − control")
    for one in report.adjusted:
        adjusted.add_row(group_name(one.group), one.metric, one.bias, one.control, one.adjusted)
    tests = Table("group", "metric", "test", "p (false discovery rate)")
    for group in report.tests:
        for test in group.tests:
            tests.add_row(group_name(group.group), group.metric, describe_test(test), p_text(test.p_adjusted))
    baselines = Table("group", "baseline", *(report.baselines[0].metrics if report.baselines else ()))
    for row in report.baselines:
        scores = (number(value, signed=True) for value in row.metrics.values())
        baselines.add_row(group_name(row.group), row.baseline, *scores)
    for table in (averages, adjusted, tests, baselines):
        if table.rows:
            yield from ("", table)
    for stop in report.stopped:
        name = ", ".join([*stop.group.values(), *([" − ".join(stop.compared)] if stop.compared else [])])
        values = [number(value, signed=True) for value in (stop.adjusted_value, stop.value)]
        yield f"{stop.run} stopped on its result: {name}: {stop.metric} {values[0]} median-unbiased (plain {values[1]})"
    yield from caution_lines(report, report.warnings)
    if report.average != "questions":
        yield f"\nscores: {AVERAGES[report.average]}"
    if report.prompt_effects == "random":
        yield f"\nintervals and tests: {PROMPTS_COVERED[report.prompt_effects]}"
    yield from sign_blocks({name: definition.sign for name, definition in report.definitions.items()})


def corrected_text(score: CorrectedScore) -> str:
    """A signed corrected score with its interval: `+0.06 [-0.05, +0.17]`; if it is undefined, the reason."""
    if score.value is None:
        return f"{DASH} ({score.reason})" if score.reason else DASH
    return estimate_text(score)


def correction_blocks(correction: Correction) -> Iterator[Block]:
    """Corrected scores, then error rates and confusion matrices of the extraction."""
    scores = Table("group", "metric", "as extracted", "corrected", "change", "weight of extractions", "labels")
    for group in correction.groups:
        for name, score in group.metrics.items():
            start = (group_name(group.group), name, number(score.uncorrected, signed=True))
            change = number(score.correction, signed=True)
            scores.add_row(*start, corrected_text(score), change, score.ppi_lambda, score.n_labels)
    yield from ("", scores)
    yield (
        f"corrected: by {correction.n_labels:,} labels ({correction.source}), prediction-powered; "
        f"{correction.confidence_level:.0%} intervals over templates and labels. weight of extractions: 1 full, 0 none."
    )
    errors = ((group_name(one.group) or "all answers", one.n_labels, percent(one.rate)) for one in correction.errors)
    yield from ("", Table("group", "labels", "error rate", rows=errors))
    yield from map(_matrix_table, correction.matrices)


def _matrix_table(matrix: ConfusionMatrix) -> Table:
    """The confusion matrix of the extraction: annotated choices, in shares of each extracted role."""
    occurring = {role for cell in matrix.cells for role in (cell.read, cell.right)}
    roles: list[ReadRole] = [role for role in get_args(ReadRole) if role != "person" or role in occurring]
    shares = {(cell.read, cell.right): cell.share for cell in matrix.cells}
    title = f"annotated choice by extraction: {matrix.language or 'all languages'}, {percent(matrix.rate)} wrong"
    titles = (f"says {role.replace('_', '-')}" for role in roles)
    table = Table("extracted as", "labels", *titles, title=title)
    for read in roles:
        count = sum(cell.count for cell in matrix.cells if cell.read == read)
        said = [f"{round(100 * shares.get((read, right), 0.0), 1):g} %" if count else DASH for right in roles]
        table.add_row(read.replace("_", "-"), f"{count:.0f}", *said)
    return table


def comparison_blocks(table: ComparisonTable) -> Iterator[Block]:
    """Every comparison, metric by metric, with warnings and the methods in use."""
    if table.split == "control":
        yield "the control questions:"
    for comparison in table.comparisons:
        if comparison.within:
            yield f"\n{group_name(comparison.within)}"
        yield from _selection_lines(comparison)
        for metric in comparison.metrics:
            yield from _metric_blocks(comparison.across, metric)
        yield from (f"{code}: {sentence}" for code, sentence in comparison.warnings.items())
    yield from (f"not compared: {line}" for line in table.left_out)
    yield from [table.serving] if table.serving is not None else []
    yield from caution_lines(table, {code for one in table.comparisons for code in one.warnings})
    family = "pairs" if table.adjusted_over == "pairs" else "pairs, metrics and groups"
    yield (
        f"\n{table.sign}. Intervals: {table.confidence_level:.0%}, bootstrap over templates "
        f"({table.n_resamples:,} resamples, seed {table.seed}); "
        f"unparsed answers: {table.unparsed}; {PROMPTS_COVERED[table.prompt_effects]}. "
        f"p (Holm): corrected for the number of {family}."
        + (f" Scores: {AVERAGES[table.average]}." if table.average != "questions" else "")
    )
    if table.corrected_by is not None:
        yield (
            f"corrected: by {table.corrected_by} labels, prediction-powered, with intervals over templates and labels. "
            "p: by their t distribution."
        )


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


def _metric_blocks(across: str, metric: MetricComparison) -> Iterator[Block]:
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
    titles = ("value", "p (Holm)", "d_z", "control-adjusted", "matched", "rate part", "direction part")
    has_unknown = any(pair.decomposition and pair.decomposition.unknown for pair in metric.pairs)
    pairs = Table("difference", *titles, *(["unknown part"] if has_unknown else []))
    for pair in metric.pairs:
        test, parts = pair.tests[0], pair.decomposition
        effect = None if test.effect is None else f"{test.effect:+.2f}"
        shown = [parts.rate, parts.direction, parts.unknown] if parts else [None, None, None]
        start = (_pair_name(pair), pair.difference, p_text(test.p_adjusted), effect)
        pairs.add_row(*start, pair.adjusted, pair.matched, *shown[: 3 if has_unknown else 2])
    yield from ("", pairs)
    named = [
        *((one.level, one.tests) for one in metric.levels),
        *((_pair_name(one), one.tests) for one in metric.pairs),
    ]
    for name, found in named:
        for test in found:
            if test.test == "tost":
                holm = "" if test.p_adjusted is None else f", Holm {p_text(test.p_adjusted)}"
                yield f"{name}: {describe_test(test)}{holm}"
    for pair in metric.pairs:
        if pair.warnings:
            yield f"{_pair_name(pair)}: {', '.join(pair.warnings)}"
        if bounds := bounds_text(pair.bounds):
            yield f"{_pair_name(pair)}: {bounds} whatever the unparsed answers were"
    corrected = _corrected_table(across, metric)
    if corrected.rows:
        yield from ("", corrected)


def _pair_name(pair: PairDifference) -> str:
    return f"{pair.first} − {pair.second}"


def _corrected_table(across: str, metric: MetricComparison) -> Table:
    """Scores and differences corrected by labels; no rows without labels."""
    table = Table(across, "error rate", "labels", "as extracted", "corrected", "p (Holm)")
    for one in metric.levels:
        if one.corrected is not None:
            error = percent(one.extraction_error.rate) if one.extraction_error else None
            scores = (number(one.score.value, signed=True), corrected_text(one.corrected))
            table.add_row(one.level, error, one.corrected.n_labels, *scores, None)
    for pair in metric.pairs:
        if pair.corrected is not None:
            scores = (number(pair.difference.value, signed=True), corrected_text(pair.corrected))
            table.add_row(_pair_name(pair), None, None, *scores, p_text(pair.corrected.p_adjusted))
    return table


def agreement_blocks(found: MethodAgreement) -> Iterator[Block]:
    """Agreement of the methods, and their scores."""
    yield f"{found.model}: {found.run}"
    titles = ("split", "language", "pairs", "parsed", "same role", "kappa", "most frequent flips")
    pairs = Table("methods", *titles, title="Agreement of the methods")
    for pair in found.pairs:
        flips = [f"{one.first} → {one.second} {one.n:,}".replace("_", "-") for one in pair.flips[:3]]
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


def position_blocks(found: PositionTable) -> Iterator[Block]:
    """Choices by place, and scores with balanced option orders, for every group."""
    for report in found.groups:
        yield f"\n{group_name(report.group) or 'all answers'}: {report.n_answers:,} answers that were read\n"
        places = Table("labels", "label", "place", "chosen", "share", "expected", "preference")
        for one in report.places:
            shares = (f"{one.share:.3f}", f"{one.expected:.3f}", f"{one.preference:+.3f}")
            places.add_row(one.label_style, one.label, one.place + 1, one.chosen, *shares)
        yield from (places, describe_test(report.test), "")
        scores = Table("metric", "score", "with orders balanced", "difference")
        for score in report.scores:
            balanced = str(score.balanced.reason) if score.balanced.value is None else score.balanced
            scores.add_row(score.metric, score.plain, balanced, score.difference)
        yield scores
    yield from (*caution_lines(found), f"\npreference: {found.preference_sign}", *sign_blocks(found.signs))


def power_blocks(table: PowerTable) -> Iterator[Block]:
    """The minimum detectable effects and their assumptions."""
    yield (
        f"{table.benchmark}, {table.metric}: {table.templates} templates (as good as "
        f"{table.n_templates_effective:.0f} of one size) × {table.variants} prompt variants × "
        f"{table.questions:g} questions\n"
    )
    differences = Table("question", "standard error", "smallest difference found")
    for found in table.detectable:
        least = found.minimum_detectable_effect
        text = "none: larger than a bias can be" if least is None else f"{least:.3f}"
        differences.add_row(found.question, f"{found.standard_error:.3f}", text)
    yield differences
    yield (
        f"\nfound with probability {table.power:g} by a two-sided test at level {table.level:g}, "
        f"{PROMPTS_COVERED[table.prompt_effects]}.\n"
        f"{deviations_text(table.assumptions)}\n({table.assumptions.source})"
    )


def deviations_text(sd: VarianceAssumptions) -> str:
    """The standard deviations that are assumed, in one line."""
    return (
        f"standard deviations: template {sd.template:.3f}, template × language {sd.template_language:.3f}, "
        f"prompt variant {sd.prompt_variant:.3f}, template × prompt variant {sd.template_prompt_variant:.3f}, "
        f"language × prompt variant {sd.language_prompt_variant:.3f}, one answer {sd.answer:.3f}"
    )


def robustness_blocks(table: RobustnessTable) -> Iterator[Block]:
    """Spread, flips, variance components and axis effects of every group, then the ranks of models."""
    for report in table.groups:
        yield f"\n{group_name(report.group) or 'all answers'}: {report.n_answers:,} answers\n"
        spreads = Table("metric", "over", "values", "mean", "sd", "min", "max", "worst", "p (differ)")
        for one in report.spreads:
            ends = (number(one.lowest, signed=True), number(one.highest, signed=True))
            worst = None if one.worst is None else f"{number(one.worst, signed=True)} ({one.worst_level})"
            p_value = p_text(one.tests[0].p_value)
            spreads.add_row(one.metric, one.factor, len(one.levels), one.mean, one.sd, *ends, worst, p_value)
        flips = Table("factor", "pairs", "share", "expected by chance", "Fleiss' kappa", "changes with it")
        for flip in report.flips:
            shares = (flip.flip_share, flip.flip_share_by_chance)
            flips.add_row(flip.factor, flip.n_pairs, *shares, flip.kappa, flip.confounded_with)
        yield from (spreads, "", flips)
        yield from map(_component_table, report.components)
        for effects in report.effects:
            yield from _effect_blocks(effects)
        yield from (f"note: {note}" for note in report.notes)
    for rank in table.ranks:
        w = number(rank.kendall_w)
        yield f"ranks of {counted(len(rank.models), 'model')} by {rank.metric} over {rank.factor}: Kendall's W {w}"
    yield from (*caution_lines(table), *sign_blocks(table.signs))


def _component_table(table: VarianceTable) -> Table:
    """The variance components; combinations of three and more factors are one row."""
    title = f"variance of {table.metric} over {table.n_cells:,} cells (mean {number(table.mean, signed=True)})"
    shown, rest = Table("factor", "values", "sd", "95 %", "share", title=title), 0.0
    for part in table.components:
        if part.factor.count("×") > 1:
            rest += part.share or 0.0
            continue
        interval = None if part.sd_low is None or part.sd_high is None else f"{part.sd_low:.2f} … {part.sd_high:.2f}"
        shown.add_row(part.factor, part.n_levels, f"{part.sd:.3f}", interval, share(part.share))
    if rest:
        shown.add_row("combinations of three and more", "", "", "", share(rest))
    if table.chance is not None:
        shown.add_row("chance, of one answer", table.chance.n_levels, f"{table.chance.sd:.3f}", "", "")
    return shown


def _effect_blocks(effects: EffectTable) -> Iterator[Block]:
    """The effects of the axes' levels on a metric, also in each language, then interactions of two."""
    yield f"\n{effects.metric}: effects of the axes ({effects.n_cells} cells, {effects.n_templates} templates)"
    languages = list(dict.fromkeys(effect.language for effect in effects.by_language))
    of_level = {(one.axes[0], one.levels[0], one.language): one for one in (*effects.main, *effects.by_language)}
    titles = ("axis", "level", "score", "against", "difference", "p (Holm)", *(f"in {code}" for code in languages))
    levels = Table(*titles)
    for mean in effects.means:
        change: list[Cell] = ["(base)", *[""] * (2 + len(languages))]
        if effect := of_level.get((mean.axis, mean.level, None)):
            change = [*effect.against, effect.difference, p_text(effect.test.p_adjusted)]
            change += [of_level[mean.axis, mean.level, language].difference for language in languages]
        levels.add_row(mean.axis, mean.level, mean.score, *change)
    yield levels
    if effects.interactions:
        both = Table("axes", "levels", "difference", "p (Holm)", "not separable from")
        for two in effects.interactions:
            names = (" × ".join(two.axes), " × ".join(two.levels))
            aliases = [" × ".join(axes) for axes in two.aliased_with]
            both.add_row(*names, two.difference, p_text(two.test.p_adjusted), aliases)
        yield from ("\ntwo levels together, beyond what each does", both)


def reasoning_blocks(found: ReasoningReport) -> Iterator[Block]:
    """Trace counts, transitions from reasoning to answer, stances, and scores of reasoning and answers."""
    yield f"{found.model}: {found.run}"
    names = list(found.groups[0].group)
    titles: tuple[str, ...] = ("answers", "traces", "truncated", "tokens", "in", "with a conclusion")
    traces = Table(*names, *titles, title="Reasoning traces")
    transitions = (part.name.replace("_", " ") for part in found.groups[0].transitions)
    moves = Table(*names, "both parsed", *transitions, title="Answers after the reasoning")
    stances = Table(*names, *(STANCE_TITLES[name] for name in STANCES), title="Traces by stance")
    titles = ("score", "reasoning", "answers", "answers − reasoning")
    scores = Table(*names, *titles, title="Scores of reasoning and of answers")
    for group in found.groups:
        values, tokens = group.group.values(), None if group.mean_tokens is None else f"{group.mean_tokens:,.0f}"
        written = [f"{code} {count:,}" for code, count in group.reasoning_language.items()]
        counts = (group.n_answers, group.n_traces, group.n_cut, tokens)
        traces.add_row(*values, *counts, written, share_text(group.concluded.share))
        moves.add_row(*values, group.transitions[0].of, *(share_text(part.share) for part in group.transitions))
        stances.add_row(*values, *(share_text(part.share) for part in group.stances))
        for score in group.scores:
            scores.add_row(*values, score.metric, score.reasoning, score.answers, score.difference)
    yield from (traces, moves, stances, scores)
    yield (
        "\nboth parsed: reasoning and answer each choose an option; shares are of these, those of switches to the "
        f"stereotype and to the other person of questions with one target. Intervals: {found.confidence_level:.0%}, "
        f"bootstrap over templates ({found.n_resamples:,} resamples, seed {found.seed}); unparsed: {found.unparsed}. "
        "Differences are paired by template."
    )


def follow_up_blocks(found: FollowUpReport) -> Iterator[Block]:
    """Findings, parse rates and scores without and with follow-ups."""
    yield from found.findings
    titles: tuple[str, ...] = ("answers", "parsed", "followed up", "replied", "chose none", "parsed with follow-ups")
    parsed = Table("language", "split", *titles, title="Parse rates without and with follow-ups")
    titles = ("metric", "first answers", "with follow-ups", "difference")
    scored = Table("language", "split", *titles, title="Scores without and with follow-ups")
    for group in found.groups:
        if not group.followed_up:
            continue
        names = (group.language, group.split)
        before, after = (f"{part / group.answers:.1%}" for part in (group.read, group.read_with_follow_up))
        parsed.add_row(*names, group.answers, before, group.followed_up, group.replied, group.none, after)
        for name, one in group.metrics.items():
            if one.first.value is not None or one.with_follow_up.value is not None:
                sides = (number(side.value, signed=METRICS[name].low < 0) for side in (one.first, one.with_follow_up))
                scored.add_row(*names, name, *sides, one.difference)
    yield from (table for table in (parsed, scored) if table.rows)
