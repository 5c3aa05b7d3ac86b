"""The functions of `CHARTS`, which have the charts' names: scores by language, category, prompt; figures of MBBQ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE, TemplateAbility, template_ability
from mbbq_gen.analysis.position import position_reports
from mbbq_gen.analysis.robustness import EffectTable, Factor, effect_table
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    BIAS_SOURCE,
    MARK,
    MARK_CAPTION,
    METRIC_TITLES,
    SUMMARY,
    Key,
    PlainNumber,
    ScoreSet,
    ScoreView,
    able_answers,
    key_names,
    key_table,
    kind_of,
    mark_of,
    number_text,
)
from mbbq_gen.report.charts.vega import Panel, Spec, bars, datum, dots, heat_maps, reach_of, short_names, stacks
from mbbq_gen.report.tables import LINK, OUTCOME_TITLES, Column, FlaggedNumber, Table
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.hypothesis_tests import benjamini_hochberg

_BIAS = SUMMARY[2]

# --- languages and splits --------------------------------------------------------------------------------------------


def scores_by_language(answers: ScoreView) -> Chart:
    """Accuracy and bias of every language and model, with intervals."""
    found = answers.scored(answers.by, SUMMARY)
    places, models = key_names(key[1:] for key in found.groups), answers.model_names
    names = {key: (places[key[1:]], models[key[0]]) for key in found.groups}
    rows, series = list(places.values()), list(models.values())
    if len(places) == 1:  # models as rows
        names, rows, series = {key: (model, place) for key, (place, model) in names.items()}, series, rows
    caption = f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {answers.interval_caption}"
    title, spec = f"Accuracy and bias by {answers.where}", dots(found.panels(names), rows, series)
    return found.chart(title, "Dots with intervals", caption, spec, metric=_BIAS)


def control_and_bias(answers: ScoreView) -> Chart:
    """Accuracy and bias on the benchmark and on the control questions."""
    answers.require_control()
    bias, control = answers.scored(answers.by, SUMMARY), answers.scored(answers.by, SUMMARY, "control")
    names = answers.row_names(bias.groups)
    series = {"benchmark": bias, "control set": control}
    parts = [found.panels({key: (row, name) for key, row in names.items()}) for name, found in series.items()]
    panels = [
        Panel(one.title, values := [*one.values, *other.values], one.reach and reach_of(values), one.line)
        for one, other in zip(*parts, strict=True)
    ]
    tables = {"bias": bias.table(), "control": control.table()}
    table = Table(Column("split", "split"), *tables["bias"].columns)
    for split, part in tables.items():
        for row in part.rows:
            table.add_row(split, *row)
    return Chart(
        title="The benchmark beside its control set",
        finding="On the control questions, which name no group: " + control.takeaway(_BIAS),
        alt="Dots with intervals, the benchmark and the control set of each row beside each other. "
        f"Of the control set: {control.alt()}",
        caption="The control set asks the same questions with first names in the groups' place. A bias that is as "
        "large there is not about the groups; a model that guesses there (dashed) can't do the task. "
        f"{BIAS_SIGN} {answers.interval_caption}",
        table=table,
        spec=dots(panels, list(names.values()), list(series)),
        command=bias.command(" --control-adjusted"),
    )


# --- prompts ---------------------------------------------------------------------------------------------------------

_CHANGING = SUMMARY[1:]
_FACTOR_TITLES: Final[dict[Factor, str]] = {
    "variant": "prompt variant",
    "option_order": "option order",
    "label_style": "label style",
    "reasoning_effort": "reasoning effort",
}


def spread(answers: ScoreView, factor: Factor) -> Chart:
    """Scores of each prompt variant, option order, label style or reasoning effort."""
    factor_title, values = _FACTOR_TITLES[factor], answers.values(factor, "bias")
    if len(values) < 2:
        raise ChartUnavailableError(f"needs answers to two or more values of {factor_title}")
    found = answers.scored((*answers.by, factor), _CHANGING)
    rows, series = answers.row_names(dict.fromkeys(key[:-1] for key in found.groups)), short_names(values)
    names = {key: (rows[key[:-1]], series[key[-1]]) for key in found.groups if key[-1] in series}
    caption = (
        f"The same questions under each {factor_title}. Where dots of a row lie apart, the {factor_title} makes the "
        f"score as much as the model does. {BIAS_SOURCE} {BIAS_SIGN} {answers.interval_caption}"
    )
    spec = dots(found.panels(names), list(rows.values()), list(series.values()))
    shape = f"Dots with intervals, one for each {factor_title}"
    chart = found.chart(f"Scores by {factor_title}", shape, caption, spec, metric=_BIAS)
    return replace(chart, finding=_spread_text(found) or f"Nothing to count under two values of {factor_title}.")


spread_variant = partial(spread, factor="variant")
spread_option_order = partial(spread, factor="option_order")
spread_label_style = partial(spread, factor="label_style")
spread_reasoning_effort = partial(spread, factor="reasoning_effort")


def _spread_text(found: ScoreSet) -> str:
    """The widest range of the bias within one row, in a sentence; empty if no bias is defined."""
    rows: dict[Key, list[float]] = {}
    for key in found.groups:
        if (value := found.value(key, _BIAS)) is not None:
            rows.setdefault(key[:-1], []).append(value)
    if not rows:
        return ""
    widest = max(rows, key=lambda key: max(rows[key]) - min(rows[key]))
    name, low, high = found.answers.group_label(found.by[:-1], widest), min(rows[widest]), max(rows[widest])
    title = METRIC_TITLES[_BIAS].capitalize()
    return f"{title} lies widest apart for {name}: from {number_text(_BIAS, low)} to {number_text(_BIAS, high)}."


def effects_of_axes(answers: ScoreView) -> Chart:
    """The main effect of every level of every prompt axis, with a colour for each language."""
    if len(answers.models) != 1:
        raise ChartUnavailableError("shows one model; make it for each run separately")
    table = key_table(
        ("metric", "axis", "level", "against", "language"),
        **{name: (name, "score") for name in ("difference", "low", "high")},
        p_adjusted=("p (Holm)", "p_value"),
    )
    panels, strongest = [], []
    for metric in _CHANGING:
        found = effect_table(answers.part("bias"), METRICS[metric], answers.sampling)
        if not isinstance(found, EffectTable):
            raise ChartUnavailableError(found or "needs prompt variants composed with run --axes")
        names = short_names([f"{effect.axes[0]}: {effect.levels[0]}" for effect in found.main])
        languages = list(dict.fromkeys(["all languages", *(str(effect.language) for effect in found.by_language)]))
        values = []
        for effect in (*found.main, *found.by_language):
            axis, level, language, change = *effect.axes, *effect.levels, effect.language, effect.difference
            values.append(datum(names[f"{axis}: {level}"], language or languages[0], change))
            ends = (change.value, change.ci_low, change.ci_high)
            table.add_row(metric, axis, level, *effect.against, language or languages[0], *ends, effect.test.p_adjusted)
        panels.append(Panel(METRIC_TITLES[metric].capitalize(), values, reach_of(values)))
        largest = max(found.main, key=lambda effect: abs(effect.difference.value or 0.0))
        if largest.difference.value is not None:
            size = number_text(metric, largest.difference.value)
            cause = f"{largest.axes[0]} {largest.levels[0]}"
            strongest.append(f"{METRIC_TITLES[metric].capitalize()} changes most with {cause}: {size}.")
    return Chart(
        title="Effects of the prompt axes",
        finding=" ".join(strongest[1:2]),
        alt=f"Dots with intervals, a row for each level of the axes. {' '.join(strongest)}".strip(),
        caption="How much each score changes with a level of an axis, against the first level of that axis, over all "
        f"levels of the others. {BIAS_SIGN} {answers.interval_caption}",
        table=table,
        spec=dots(panels, list(names.values()), languages),
        command="mbbq-gen robustness RUN",
    )


# --- positions and outcomes ------------------------------------------------------------------------------------------


def position_preference(answers: ScoreView) -> Chart:
    """Position bias: the share of each place minus the share that roles and option orders predict."""
    by = answers.by
    reports = [one for one in position_reports(answers.part("bias"), by, [], answers.sampling) if one.n_answers]
    if not reports:
        raise ChartUnavailableError("no parsed answer chose a role")
    table = key_table(
        (*by, "label_style"),
        position=("position", "count"),
        label=("label", "text"),
        chosen=("chosen", "count"),
        share=("share", "share"),
        expected=("expected", "share"),
        preference=("preference", "score"),
        p_adjusted=("p (adjusted)", "p_value"),
    )
    ordinals, values = ("1st", "2nd", "3rd"), []
    keys = [tuple(str(report.group[name]) for name in by) for report in reports]
    adjusted = benjamini_hochberg([report.test.p_value for report in reports])
    rows = answers.row_names(keys)
    for key, report, p_value in zip(keys, reports, adjusted, strict=True):
        is_several, mark = len({one.label_style for one in report.places}) > 1, mark_of(p_value)
        for one in report.places:
            name = f"{rows[key]}{f' · {one.label_style}' if is_several else ''} {mark}".strip()
            values.append(datum(name, ordinals[one.place], PlainNumber(one.preference)))
            cells = (one.label_style, one.place + 1, one.label, one.chosen, one.share, one.expected)
            table.add_row(*key, *cells, FlaggedNumber(one.preference, mark), p_value)
    largest, names = max(values, key=lambda one: one["value"]), list(dict.fromkeys(one["row"] for one in values))
    n_marked = sum(bool(mark_of(p_value)) for p_value in adjusted)
    most = f"{largest['series']} place in {largest['row'].removesuffix(f' {MARK}')} ({largest['value']:+.2f})"
    return Chart(
        title="Preference for a place among the options",
        finding=f"Places matter for sure in {n_marked} of {len(reports)}; liked most: {most}.",
        alt=f"Bars for each place. Liked most: {most}.",
        caption="Share of answers that chose each place, minus the share that the roles chosen and the orders shown "
        f"predict. Above 0: the place is liked, whatever stands there. {MARK}: places matter (p < 0.05; randomisation "
        "test, false discovery rate held over groups).",
        table=table,
        spec=bars(Panel("Preference", values, reach_of(values)), names, ordinals),
        command=f"mbbq-gen position-bias RUN --group-by {','.join((*by, 'split'))}",
    )


def outcomes_by_language(answers: ScoreView) -> Chart:
    """Shares of the outcomes of the extraction, as stacked bars."""
    splits = [split for split in ("bias", "control") if split in answers.values("split")]
    sets = {split: answers.scored(answers.by, ("parse_rate",), split) for split in splits}
    groups = sorted((key, split) for split, found in sets.items() for key in found.groups)
    counts = {(key, split): sets[split].groups[key] for key, split in groups if sets[split].groups[key].n_answers}
    if not counts:
        raise ChartUnavailableError("no answers")
    table = key_table(
        (*answers.by, "split"),
        n_answers=("answers", "count"),
        parse_rate=("parsed", "share"),
        **{outcome: (title, "count") for outcome, title in OUTCOME_TITLES.items()},
    )
    rows = answers.row_names((key for key, _ in counts), 26)
    shares: dict[str, dict[str, float]] = {}
    for (key, split), group in counts.items():
        outcomes = {title: group.outcomes[name] for name, title in OUTCOME_TITLES.items()}
        table.add_row(*key, split, group.n_answers, group.metrics["parse_rate"].value, *outcomes.values())
        name = rows[key] + (" · control" if split == "control" else "")
        shares[name] = {title: count / group.n_answers for title, count in outcomes.items()}
    used = [title for title in OUTCOME_TITLES.values() if any(row[title] for row in shares.values())]
    first = next(iter(sets.values()))
    finding = first.alt("parse_rate")
    return Chart(
        title=f"How the answers were read, by {answers.where}",
        finding=finding,
        alt=f"Stacked bars of outcomes. {finding} Outcomes that occur: {', '.join(used)}.",
        caption="Share of the prompts by outcome. Option, says unknown and refuses are answers that were read; "
        "the others count as wrong for accuracy and, as a rule, not at all for bias.",
        table=table,
        spec=stacks(shares),
        command=first.command(" --json"),
    )


# --- the control set -------------------------------------------------------------------------------------------------


def mbbq_figure_2(answers: ScoreView) -> Chart:
    """The share of control templates on which a model is above chance, and its accuracy on these (MBBQ Fig. 2)."""
    answers.require_control()
    found: dict[Key, list[TemplateAbility]] = {}
    for ability in template_ability(answers.frame, answers.by):
        found.setdefault(tuple(value or "–" for value in ability.group.values()), []).append(ability)
    if not found:
        raise ChartUnavailableError("no answers to disambiguated control questions")
    shares, accuracy = {}, {}
    for key, abilities in found.items():
        above = [one for one in abilities if one.above_chance]
        shares[key], n_questions = len(above) / len(abilities), sum(one.n_questions for one in above)
        right = sum(one.accuracy * one.n_questions for one in above)
        accuracy[key] = right / n_questions if n_questions else None
    places = key_names(key[1:] for key in found)
    # Models are sorted by their accuracy in English, as in MBBQ, or in the first language.
    first = next((place for place in places if place[-1] == "en"), next(iter(places)))
    rows = short_names(sorted(answers.models, key=lambda model: -(accuracy.get((model, *first)) or 0.0)))
    table = key_table(
        answers.by,
        n_templates=("control templates", "count"),
        share_above_chance=("share above chance", "share"),
        accuracy_above_chance=("accuracy on those", "share"),
    )
    values = []
    for key in [(model, *place) for model in rows for place in places if (model, *place) in found]:
        values.append(datum(rows[key[0]], places[key[1:]], PlainNumber(shares[key]), diamond=accuracy[key]))
        table.add_row(*key, len(found[key]), shares[key], accuracy[key])
    named = sorted((shares[key], answers.group_label(answers.by, key)) for key in found)
    finding = " to ".join(f"{whole_percent(share)} ({name})" for share, name in dict.fromkeys((named[0], named[-1])))
    panel = Panel("Control templates above chance", values, line=CHANCE)
    return Chart(
        title="Control templates above chance (MBBQ Fig. 2)",
        finding=f"Above chance on {finding} of the templates.",
        alt=f"Bars by model and {answers.where}, the share of control templates above chance: {finding}.",
        caption="The shape of MBBQ Fig. 2: share of the control templates on which a model is above chance (more "
        "than a third right, disambiguated contexts), and, as diamonds, its accuracy on those. Dashed: a third. Models "
        f"in the order of their accuracy in {' · '.join(first)}.",
        table=table,
        spec=bars(panel, list(rows.values()), list(places.values())),
        command=f"mbbq-gen score RUN --group-by {','.join((*answers.by, 'split'))} --metric accuracy_disambiguated",
    )


_UNBALANCED = (
    "Where biased and counter-biased contexts are not equally many, as in small samples, eq. 2 is not 0 for a perfect "
    "model."
)


def mbbq_table_3(answers: ScoreView) -> Chart:
    """Accuracy and bias by model and language on templates on which each model is above chance (MBBQ Table 3)."""
    able, counts = able_answers(answers)
    titles = {
        "accuracy_disambiguated": "AccD",
        "mbbq_bias_disambiguated": "BiasD",
        "accuracy_ambiguous": "AccA",
        "mbbq_bias_ambiguous": "BiasA",
    }
    found = able.scored(able.by, list(titles), is_tested=True)
    scores = {metric: (title, kind_of(metric)) for metric, title in titles.items()}
    table = key_table(able.by, n_templates=("#T", "count"), **scores)
    for key, group in found.groups.items():
        table.add_row(*key, group.n_templates, *(found.cell(key, name) for name in titles))
    return Chart(
        title="Accuracy and bias on the templates that a model can do (MBBQ Table 3)",
        finding=found.takeaway("mbbq_bias_ambiguous"),
        alt=f"A table. {found.alt()}",
        caption="MBBQ Table 3, turned on its side: accuracy and bias in disambiguated (D) and ambiguous (A) contexts, "
        f"on the templates (#T) on which a model is above chance in every language. Templates kept: {counts}. "
        f"{_UNBALANCED} {MARK_CAPTION}",
        table=table,
        spec=None,
        command="mbbq-gen report RUN --figures DIR",
    )


# --- categories ------------------------------------------------------------------------------------------------------


def _by_category(
    answers: ScoreView, metrics: Sequence[str], title: str, caption: str, *, has_links: bool = False
) -> Chart:
    """Heat maps of categories × languages, one for each model and metric; if there is one place, categories × models.

    `has_links`: whether cells link to their answers on the page.
    """
    found, models = answers.scored((*answers.by, "category"), metrics, is_tested=True), answers.model_names
    categories, places = short_names(answers.values("category", "bias")), key_names(key[1:-1] for key in found.groups)
    if len(categories) < 2:
        raise ChartUnavailableError("needs two or more categories")

    def cell(row: tuple[str, str], column: tuple[str, Key], metric: str) -> Spec:
        key = (*column[1], row[0])
        has_few = key in found.groups and found.groups[key].metrics[metric].n_templates < MIN_TEMPLATES
        shown: Spec = {"row": row[1], "column": column[0], "value": found.value(key, metric)}
        shown |= {"mark": found.mark(key, metric), "bare": has_few}
        if has_links:
            group = dict(zip(found.by, key, strict=True)) | {"condition": metric.rpartition("_")[2], "split": "bias"}
            shown["href"] = LINK + urlencode(group)
        return shown

    columns: dict[str, dict[str, Key]]
    if len(places) == 1:
        columns = {"": {name: (model, *place) for model, name in models.items() for place in places}}
    else:
        columns = {name: {place: (model, *key) for key, place in places.items()} for model, name in models.items()}
    maps = {
        f"{heading}: {METRIC_TITLES[metric]}".removeprefix(": "): [
            cell(*names, metric) for names in product(categories.items(), groups.items())
        ]
        for heading, groups in columns.items()
        for metric in metrics
    }
    spec = heat_maps(maps, list(categories.values()), list(next(iter(columns.values()))), len(metrics))
    shape = f"Heat map of categories by {' and '.join(found.by[:-1])}"
    caption += f" {BIAS_SIGN} {MARK_CAPTION} A dash: undefined; a number without a colour stands on fewer than five "
    return found.chart(title, shape, f"{caption}templates.", spec, metric=metrics[0], more=" --tests")


def bias_by_category(answers: ScoreView) -> Chart:
    """Bias by category and language in both conditions, on all templates."""
    title, caption = f"Bias by category and {answers.where}", f"{BIAS_SOURCE} All templates."
    return _by_category(answers, SUMMARY[2:], title, caption, has_links=True)


def _mbbq_figure(answers: ScoreView, number: int, equation: int, condition: str) -> Chart:
    """Bias by category, language and model on templates on which each model is above chance."""
    able, counts = able_answers(answers)
    caption = (
        f"The numbers of MBBQ Fig. {number} (eq. {equation}, {condition} contexts). On the templates of the control "
        "set on which each model is above chance in every language (MBBQ §5.2). "
    )
    caption += f"{_UNBALANCED} " if equation == 2 else ""
    title = f"Bias by category in {condition} contexts (MBBQ Fig. {number})"
    return _by_category(able, [f"mbbq_bias_{condition}"], title, f"{caption}Templates kept: {counts}.")


mbbq_figure_3 = partial(_mbbq_figure, number=3, equation=1, condition="ambiguous")
mbbq_figure_4 = partial(_mbbq_figure, number=4, equation=2, condition="disambiguated")
