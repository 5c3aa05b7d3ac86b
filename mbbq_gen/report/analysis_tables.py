"""Results of analyses as paragraphs and tables: scores, corrections, position, power, robustness, reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, get_args

from mbbq_gen.analysis.correction import ReadRole
from mbbq_gen.analysis.reasoning import STANCES
from mbbq_gen.core.text import counted
from mbbq_gen.report.tables import (
    DASH,
    STANCE_TITLES,
    Block,
    Cell,
    Table,
    Unwrapped,
    estimate_text,
    group_name,
    number,
    p_text,
    percent,
    share,
    share_text,
)
from mbbq_gen.scoring.codes import AVERAGES, TOO_FEW
from mbbq_gen.statistics.intervals import LOW_PARSING_TEXT, TOO_FEW_PROMPT_VARIANTS

if TYPE_CHECKING:
    from mbbq_gen.analysis.correction import ConfusionMatrix, CorrectedScore, Correction
    from mbbq_gen.analysis.follow_up import FollowUpReport
    from mbbq_gen.analysis.position import PositionTable
    from mbbq_gen.analysis.power import PowerTable, VarianceAssumptions
    from mbbq_gen.analysis.reasoning import ReasoningReport
    from mbbq_gen.analysis.robustness import EffectTable, RobustnessTable
    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.benchmarks.control.coverage import TemplateRefusal
    from mbbq_gen.core.records import FrozenModel
    from mbbq_gen.statistics.hypothesis_tests import TestResult
    from mbbq_gen.statistics.variance_components import VarianceTable

PROMPTS_COVERED = {
    "fixed": "of these prompt variants, which are held fixed",
    "random": "of prompt variants like these, drawn by chance",
}
"""The prompts that intervals and tests hold for."""


# --- cautions, tests, signs ------------------------------------------------------------------------------------------


def caution_lines(table: FrozenModel) -> list[str]:
    """Cautions on the scores of a table, one in each line, except for those in the table's own warnings."""
    own = {code for one in getattr(table, "comparisons", (table,)) for code in getattr(one, "warnings", None) or ()}
    lines = {
        "too_few_templates": f"–: {TOO_FEW}",
        "too_few_prompt_variants": f"–: {TOO_FEW_PROMPT_VARIANTS}",
        "low_parse_rate": f"low_parse_rate: {LOW_PARSING_TEXT}",
    }
    record = table.model_dump_json()
    return [f"\n{line}" for code, line in lines.items() if f'"{code}"' in record and code not in own]


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
        yield Unwrapped(f"{', '.join(name for name, sign in signs.items() if sign == meaning)}: {meaning}")


# --- scores ----------------------------------------------------------------------------------------------------------


def score_blocks(report: ScoreReport) -> Iterator[Block]:
    """Requested additions to the scores: macro averages, tests, baselines; then the meaning of signs."""
    averages = Table("macro average over", "group", "metric", "mean", "values", "left out")
    for mean in report.macro_averages:
        averages.add_row(mean.over, group_name(mean.group), mean.metric, mean.score, mean.n_levels, mean.undefined)
    differences = ((group_name(one.group), one.metric, one.bias, one.control, one.adjusted) for one in report.adjusted)
    adjusted = Table("group", "metric", "bias", "on control", "bias − control", rows=differences)
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
    yield from caution_lines(report)
    if report.average != "questions":
        yield f"\nscores: {AVERAGES[report.average]}"
    if report.prompt_effects == "random":
        yield f"\nintervals and tests: {PROMPTS_COVERED[report.prompt_effects]}"
    yield from sign_blocks({name: definition.sign for name, definition in report.definitions.items()})


# --- corrections by annotations --------------------------------------------------------------------------------------

_ROLE_TITLES = {"target": "target", "non_target": "non-target", "unknown": "unknown"}
_ROLE_TITLES |= {"none": "no option", "person": "a person"}


def corrected_text(score: CorrectedScore) -> str:
    """A signed corrected score with its interval: `+0.06 [-0.05, +0.17]`; if it is undefined, the reason."""
    if score.value is None:
        return f"{DASH} ({score.reason})" if score.reason else DASH
    return estimate_text(score)


def matrix_table(matrix: ConfusionMatrix) -> Table:
    """The confusion matrix of the extraction: annotated choices, in shares of each extracted role."""
    occurring = {role for cell in matrix.cells for role in (cell.read, cell.right)}
    roles: list[ReadRole] = [role for role in get_args(ReadRole) if role != "person" or role in occurring]
    shares = {(cell.read, cell.right): cell.share for cell in matrix.cells}
    title = f"annotated choice by extraction: {matrix.language or 'all languages'}, {percent(matrix.rate)} wrong"
    table = Table("extracted as", "labels", *(f"says {_ROLE_TITLES[role]}" for role in roles), title=title)
    for read in roles:
        count = sum(cell.count for cell in matrix.cells if cell.read == read)
        said = [f"{round(100 * shares.get((read, right), 0.0), 1):g} %" if count else DASH for right in roles]
        table.add_row(_ROLE_TITLES[read], f"{count:.0f}", *said)
    return table


def correction_blocks(correction: Correction) -> Iterator[Block]:
    """Corrected scores, then error rates and confusion matrices of the extraction."""
    scores = Table("group", "metric", "as extracted", "corrected", "change", "weight of extractions", "labels")
    for group in correction.groups:
        for place, (name, score) in enumerate(group.metrics.items()):
            start = (group_name(group.group) if place == 0 else "", name, number(score.uncorrected, signed=True))
            change = number(score.correction, signed=True)
            scores.add_row(*start, corrected_text(score), change, score.ppi_lambda, score.n_labels)
    yield from ("", scores)
    yield (
        f"corrected: by {correction.n_labels:,} labels ({correction.source}), prediction-powered; "
        f"{correction.confidence_level:.0%} intervals over templates and labels. weight of extractions: 1 full, 0 none."
    )
    errors = ((group_name(one.group) or "all answers", one.n_labels, percent(one.rate)) for one in correction.errors)
    yield from ("", Table("group", "labels", "error rate", rows=errors))
    yield from map(matrix_table, correction.matrices)


# --- position --------------------------------------------------------------------------------------------------------


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


# --- power -----------------------------------------------------------------------------------------------------------


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


# --- robustness ------------------------------------------------------------------------------------------------------


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
    """The effects of the axes' levels on a metric, then interactions of two."""
    yield f"\n{effects.metric}: effects of the axes ({effects.n_cells} cells, {effects.n_templates} templates)"
    languages = list(dict.fromkeys(effect.language for effect in effects.by_language))
    found = {
        (effect.axes[0], effect.levels[0], effect.language): effect for effect in (*effects.main, *effects.by_language)
    }
    titles = ("axis", "level", "score", "against", "difference", "p (Holm)", *(f"in {code}" for code in languages))
    levels = Table(*titles)
    for mean in effects.means:
        key = (mean.axis, mean.level)
        change: list[Cell] = ["(base)", "", "", *("" for _ in languages)]
        if effect := found.get((*key, None)):
            change = [*effect.against, effect.difference, p_text(effect.test.p_adjusted)]
            change += [found[*key, language].difference for language in languages]
        levels.add_row(*key, mean.score, *change)
    yield levels
    if effects.interactions:
        rows = (
            (" × ".join(two.axes), " × ".join(two.levels), two.difference, p_text(two.test.p_adjusted))
            for two in effects.interactions
        )
        both = Table("axes", "levels", "difference", "p (Holm)", rows=rows)
        yield from ("\ntwo levels together, beyond what each does", both)
    for one, other in sorted(
        {(effect.axes, other) for effect in effects.interactions for other in effect.aliased_with}
    ):
        if one < other:
            yield f"{' × '.join(one)} and {' × '.join(other)} can't be separated in this design"


# --- reasoning -------------------------------------------------------------------------------------------------------

_TRANSITIONS: Final = {
    "consistent": "consistent",
    "switched_to_unknown": "to unknown",
    "switched_to_stereotype": "to the stereotype",
    "switched_to_other": "to the other person",
}


def reasoning_blocks(found: ReasoningReport) -> Iterator[Block]:
    """Trace counts, transitions from reasoning to answer, stances, and scores of reasoning and answers."""
    yield f"{found.model}: {found.run}"
    names = list(found.groups[0].group) if found.groups else []
    titles = (*names, "answers", "traces", "truncated", "tokens", "in", "with a conclusion")
    traces = Table(*titles, title="Reasoning traces")
    moves = Table(*names, "both parsed", *_TRANSITIONS.values(), title="Answers after the reasoning")
    stances = Table(*names, *(STANCE_TITLES[name] for name in STANCES), title="Traces by stance")
    for group in found.groups:
        values, tokens = group.group.values(), None if group.mean_tokens is None else f"{group.mean_tokens:,.0f}"
        written = [f"{code} {count:,}" for code, count in group.reasoning_language.items()]
        counts = (group.n_answers, group.n_traces, group.n_cut, tokens)
        traces.add_row(*values, *counts, written, share_text(group.concluded.share))
        shares = [share_text(part.share) for part in group.transitions if part.name in _TRANSITIONS]
        moves.add_row(*values, group.transitions[0].of, *shares)
        stances.add_row(*values, *(share_text(part.share) for part in group.stances))
    titles = ("score", *names, "reasoning", "answers", "answers − reasoning")
    scores = Table(*titles, title="Scores of reasoning and of answers")
    for place in range(max((len(group.scores) for group in found.groups), default=0)):
        for group in found.groups:
            for score in group.scores[place : place + 1]:
                scores.add_row(score.metric, *group.group.values(), score.reasoning, score.answers, score.difference)
    yield from (traces, moves, stances, scores)
    yield (
        "\nboth parsed: reasoning and answer each choose an option; shares are of these, the last two of questions "
        f"with one target. Intervals: {found.confidence_level:.0%}, bootstrap over templates ({found.n_resamples:,} "
        f"resamples, seed {found.seed}); unparsed: {found.unparsed}. Differences are paired by template."
    )
    if cut := sum(group.n_cut for group in found.groups):
        yield (
            f"{cut:,} traces reached the token limit, so their answers are truncated; raise --max-tokens, or ask for "
            "less --reasoning-effort, in a new run."
        )


# --- follow-ups -------------------------------------------------------------------------------------------------------


def follow_up_blocks(found: FollowUpReport) -> Iterator[Block]:
    """Findings, parse rates and scores with and without follow-ups, and choices."""
    groups = [group for group in found.groups if group.followed_up]
    yield from found.findings
    titles: tuple[str, ...] = ("answers", "parsed", "followed up", "replied", "chose none", "parsed with follow-ups")
    parsed = Table("language", "split", *titles, title="Parse rates without and with follow-ups")
    titles = ("metric", "first answers", "with follow-ups", "difference")
    scored = Table("language", "split", *titles, title="Scores without and with follow-ups")
    titles = ("answers", "number", "biased", "counter-biased", "unknown")
    chosen = Table("language", "split", *titles, title="What was chosen")
    for group in groups:
        names, after = (group.language, group.split), _part(group.read_with_follow_up, group.answers)
        first = (group.answers, _part(group.read, group.answers), group.followed_up, group.replied, group.none)
        parsed.add_row(*names, *first, after)
        for place, (name, one) in enumerate(group.metrics.items()):
            if one.first.value is not None or one.with_follow_up.value is not None:
                sides = (number(side.value, signed=name[0] != "a") for side in (one.first, one.with_follow_up))
                scored.add_row(*(names if place == 0 else ("", "")), name, *sides, one.difference)
        for choice in group.choices:
            if choice.n:
                shares = (percent(part) for part in (choice.biased, choice.counter_biased, choice.unknown))
                chosen.add_row(*names, choice.source, choice.n, *shares)
    if groups:
        yield from (parsed, scored, chosen)
        yield (
            "first: first answers that were parsed. follow-up: replies to follow-ups that take the place of first "
            "answers. Intervals of shares treat answers as independent; those of differences are clustered by template."
        )


def _part(part: int, whole: int) -> str | None:
    return f"{100 * part / whole:.1f}%" if whole else None


def refusal_table(refusals: Iterable[TemplateRefusal], title: str = "") -> Table:
    """Questions without a control question, by template and reason."""
    rows = ((one.language, one.template_id, one.reason, one.questions, one.of, one.what) for one in refusals)
    return Table("language", "template", "reason", "questions", "of", "failed at", rows=rows, title=title)
