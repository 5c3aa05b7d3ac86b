"""Charts of accuracy and bias by language, split and prompt; position bias; how answers were read; EsBBQ's bars."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from mbbq_gen.analysis.position import position_reports
from mbbq_gen.analysis.robustness import EffectTable, Factor, effect_table
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    BIAS_SOURCE,
    MARK,
    METRIC_TITLES,
    SUMMARY,
    PlainNumber,
    ScoreSet,
    ScoreView,
    key_columns,
    key_names,
    mark_of,
    require_control,
    sentences,
    spoken,
)
from mbbq_gen.report.charts.vega import Panel, bars, datum, dots, reach_of, short_names, stacks
from mbbq_gen.report.tables import OUTCOME_TITLES, Column, FlaggedNumber, Table
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.hypothesis_tests import benjamini_hochberg

_ESBBQ = ("accuracy_ambiguous", "accuracy_disambiguated", "diff_bias_ambiguous", "diff_bias_disambiguated")
_CHANGING, _BIAS = SUMMARY[1:], SUMMARY[2]
_FACTOR_TITLES: Final[dict[Factor, str]] = {
    "variant": "prompt variant",
    "option_order": "option order",
    "label_style": "label style",
    "reasoning_effort": "reasoning effort",
}


def scores_by_language(answers: ScoreView) -> Chart:
    """Accuracy and bias of every language and model, with intervals."""
    found = answers.scored(answers.by, SUMMARY)
    places = key_names(key[1:] for key in found.groups)
    models = dict(zip(answers.models, short_names(answers.models), strict=True))
    names = {key: (places[key[1:]], models[key[0]]) for key in found.groups}
    rows, series = list(places.values()), list(models.values())
    if len(places) == 1:  # then the models are the rows
        names, rows, series = {key: (model, place) for key, (place, model) in names.items()}, series, rows
    caption = f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {answers.interval_caption}"
    title, spec = f"Accuracy and bias by {answers.where}", dots(found.panels(names), rows, series)
    return found.chart(title, "Dots with intervals", caption, spec, metric=SUMMARY[2])


def control_and_bias(answers: ScoreView) -> Chart:
    """Accuracy and bias on the benchmark beside the same on the control questions."""
    require_control(answers)
    bias, control = answers.scored(answers.by, SUMMARY), answers.scored(answers.by, SUMMARY, "control")
    names = dict(zip(bias.groups, answers.row_names(bias.groups), strict=True))
    sides = {"benchmark": bias, "control set": control}
    parts = [found.panels({key: (name, side) for key, name in names.items()}) for side, found in sides.items()]
    panels = [
        Panel(one.title, values := [*one.values, *other.values], one.reach and reach_of(values), one.line)
        for one, other in zip(*parts, strict=True)
    ]
    tables = {"bias": bias.table(), "control": control.table()}
    rows = tuple((split, *row) for split, table in tables.items() for row in table.rows)
    return Chart(
        title="The benchmark beside its control set",
        sees="On the control questions, which name no group: " + control.takeaway(SUMMARY[2]),
        alt="Dots with intervals, the benchmark and the control set of each row beside each other. "
        f"Of the control set: {control.alt()}",
        caption="The control set asks the same questions with first names in the groups' place. A bias that is as "
        "large there is not about the groups; a model that guesses there (dashed) can't do the task. "
        f"{BIAS_SIGN} {answers.interval_caption}",
        table=Table((Column("split", "split"), *tables["bias"].columns), rows),
        spec=dots(panels, list(names.values()), list(sides)),
        command=bias.command(" --control-adjusted"),
    )


def esbbq_bars(answers: ScoreView) -> Chart:
    """Accuracy and bias as bars side by side, in both conditions (EsBBQ Fig. 3)."""
    found, panels = answers.scored(answers.by, _ESBBQ), []
    names = dict(zip(found.groups, answers.row_names(found.groups), strict=True))
    for title, metrics in (("Accuracy", _ESBBQ[:2]), ("Bias", _ESBBQ[2:])):
        values = [
            datum(name, f"{metric.rpartition('_')[2]} contexts", score)
            for key, name in names.items()
            for metric in metrics
            if (score := found.score(key, metric))
        ]
        panels.append(Panel(title, values, reach_of(values) if title == "Bias" else None))
    caption = f"The shape of EsBBQ Fig. 3: accuracy (EsBBQ eqs. 1 and 2) and bias (eqs. 3 and 4). {BIAS_SIGN} "
    spec = bars(panels, list(names.values()), ["ambiguous contexts", "disambiguated contexts"])
    shape = "Bars of accuracy above bars of bias"
    return found.chart("Accuracy and bias as bars", shape, caption + answers.interval_caption, spec, metric=_ESBBQ[2])


# --- prompts ---------------------------------------------------------------------------------------------------------


def spread(answers: ScoreView, factor: Factor) -> Chart:
    """Scores of each prompt variant, option order, label style or reasoning effort."""
    what, values = _FACTOR_TITLES[factor], answers.values(factor, "bias")
    if len(values) < 2:
        raise ChartUnavailableError(f"needs answers to two or more values of {what}")
    found = answers.scored((*answers.by, factor), _CHANGING)
    keys = list(dict.fromkeys(key[:-1] for key in found.groups))
    rows = dict(zip(keys, answers.row_names(keys), strict=True))
    series = dict(zip(values, short_names(values), strict=True))
    names = {key: (rows[key[:-1]], series[key[-1]]) for key in found.groups if key[-1] in series}
    caption = (
        f"The same questions under each {what}. Where dots of a row lie apart, the {what} makes the score as "
        f"much as the model does. {BIAS_SOURCE} {BIAS_SIGN} {answers.interval_caption}"
    )
    spec = dots(found.panels(names), list(rows.values()), list(series.values()))
    chart = found.chart(f"Scores by {what}", f"Dots with intervals, one for each {what}", caption, spec, metric=_BIAS)
    return replace(chart, sees=_spread_text(found, _BIAS) or f"Nothing to count under two values of {what}.")


spread_variant = partial(spread, factor="variant")
spread_option_order = partial(spread, factor="option_order")
spread_label_style = partial(spread, factor="label_style")
spread_reasoning_effort = partial(spread, factor="reasoning_effort")


def _spread_text(found: ScoreSet, metric: str) -> str:
    """The widest range of a score within one row."""
    rows: dict[tuple[str, ...], list[float]] = {}
    for key in found.groups:
        if (value := found.value(key, metric)) is not None:
            rows.setdefault(key[:-1], []).append(value)
    if not rows:
        return ""
    widest = max(rows, key=lambda key: max(rows[key]) - min(rows[key]))
    name, low, high = found.answers.spoken_key(found.by[:-1], widest), min(rows[widest]), max(rows[widest])
    title = METRIC_TITLES[metric].capitalize()
    return f"{title} lies widest apart for {name}: from {spoken(metric, low)} to {spoken(metric, high)}."


_ALL = "all languages"


def effects_of_axes(answers: ScoreView) -> Chart:
    """The main effect of every level of every axis, a colour for each language."""
    if len(answers.models) != 1:
        raise ChartUnavailableError("shows one model; make it for each run separately")
    panels, cells, strongest = [], [], []
    for metric in _CHANGING:
        table = effect_table(answers.part("bias"), METRICS[metric], answers.sampling)
        if not isinstance(table, EffectTable):
            raise ChartUnavailableError(table or "needs prompt variants composed with run --axes")
        rows = [f"{effect.axes[0]}: {effect.levels[0]}" for effect in table.main]
        names = dict(zip(rows, short_names(rows), strict=True))
        languages = list(dict.fromkeys([_ALL, *(str(effect.language) for effect in table.by_language)]))
        values = []
        for effect in (*table.main, *table.by_language):
            axis, level, language, change = *effect.axes, *effect.levels, effect.language or _ALL, effect.difference
            values.append(datum(names[f"{axis}: {level}"], language, change))
            ends = (change.value, change.ci_low, change.ci_high)
            cells.append((metric, axis, level, *effect.against, language, *ends, effect.test.p_adjusted))
        panels.append(Panel(METRIC_TITLES[metric].capitalize(), values, reach_of(values)))
        largest = max(table.main, key=lambda effect: abs(effect.difference.value or 0.0))
        if largest.difference.value is not None:
            size = spoken(metric, largest.difference.value)
            said = f"{METRIC_TITLES[metric]} changes most with {largest.axes[0]} {largest.levels[0]}: {size}"
            strongest.append(said)
    columns = key_columns(
        ("metric", "axis", "level", "against", "language"),
        **{name: (name, "score") for name in ("difference", "low", "high")},
        p_adjusted=("p (Holm)", "p_value"),
    )
    return Chart(
        title="Effects of the prompt axes",
        sees=sentences(strongest[1:2]),
        alt=f"Dots with intervals, a row for each level of the axes. {sentences(strongest)}".strip(),
        caption="How much each score changes with a level of an axis, against the first level of that axis, over all "
        f"levels of the others. {BIAS_SIGN} {answers.interval_caption}",
        table=Table(tuple(columns), tuple(cells)),
        spec=dots(panels, list(names.values()), languages),
        command="mbbq-gen robustness RUN",
    )


# --- places ----------------------------------------------------------------------------------------------------------


def position_preference(answers: ScoreView) -> Chart:
    """How much more often each place is chosen than the roles and the orders predict."""
    by = answers.by
    reports = [one for one in position_reports(answers.part("bias"), by, [], answers.sampling) if one.n_answers]
    if not reports:
        raise ChartUnavailableError("no parsed answer chose a role")
    adjusted = benjamini_hochberg([report.test.p_value for report in reports])
    keys = [tuple(str(report.group[name]) for name in by) for report in reports]
    order, values, rows, names = ("1st", "2nd", "3rd"), [], [], []
    shown = zip(keys, reports, answers.row_names(keys), map(mark_of, adjusted), adjusted, strict=True)
    for key, report, row, mark, p_value in shown:
        several = len({one.label_style for one in report.places}) > 1
        for one in report.places:
            name = f"{row}{f' · {one.label_style}' if several else ''} {mark}".strip()
            names.append(name)
            values.append(datum(name, order[one.place], PlainNumber(one.preference)))
            cells = (one.label_style, one.place + 1, one.label, one.chosen, one.share, one.expected)
            rows.append((*key, *cells, FlaggedNumber(one.preference, mark), p_value))
    columns = key_columns(
        (*by, "label_style"),
        position=("position", "count"),
        label=("label", "text"),
        chosen=("chosen", "count"),
        share=("share", "share"),
        expected=("expected", "share"),
        preference=("preference", "score"),
        p_adjusted=("p (adjusted)", "p_value"),
    )
    liked = max(values, key=lambda one: one["value"])
    n_marked = sum(bool(mark_of(p_value)) for p_value in adjusted)
    most = f"{liked['series']} place in {liked['row'].removesuffix(f' {MARK}')} ({liked['value']:+.2f})"
    return Chart(
        title="Preference for a place among the options",
        sees=f"Places matter for sure in {n_marked} of {len(reports)}; liked most: {most}.",
        alt=f"Bars for each place. Liked most: {most}.",
        caption="Share of answers that chose each place, minus the share that the roles chosen and the orders shown "
        f"predict. Above 0: the place is liked, whatever stands there. {MARK}: places matter (p < 0.05; randomisation "
        "test, false discovery rate held over groups).",
        table=Table(tuple(columns), tuple(rows)),
        spec=bars([Panel("Preference", values, reach_of(values))], list(dict.fromkeys(names)), order),
        command=f"mbbq-gen position-bias RUN --group-by {','.join((*by, 'split'))}",
    )


# --- outcomes --------------------------------------------------------------------------------------------------------


def outcomes_by_language(answers: ScoreView) -> Chart:
    """How the answers were read, as stacks that add up to all answers."""
    splits = [split for split in ("bias", "control") if split in answers.values("split")]
    sets = {split: answers.scored(answers.by, ("parse_rate",), split) for split in splits}
    groups = sorted((key, split) for split, found in sets.items() for key in found.groups)
    counts = {(key, split): sets[split].groups[key] for key, split in groups if sets[split].groups[key].n_answers}
    if not counts:
        raise ChartUnavailableError("no answers")
    order, keys = list(OUTCOME_TITLES), list(dict.fromkeys(key for key, _ in counts))
    shares = [[group.outcomes[outcome] / group.n_answers for outcome in order] for group in counts.values()]
    rows = dict(zip(keys, answers.row_names(keys, 26), strict=True))
    names = [rows[key] + (" · control" if split == "control" else "") for key, split in counts]
    titles = list(OUTCOME_TITLES.values())
    used = [title for place, title in enumerate(titles) if any(row[place] for row in shares)]
    sees = next(iter(sets.values())).alt("parse_rate")
    columns = key_columns(
        (*answers.by, "split"),
        n_answers=("answers", "count"),
        parse_rate=("parsed", "share"),
        **{outcome: (OUTCOME_TITLES[outcome], "count") for outcome in order},
    )
    cells = (
        (*key, split, group.n_answers, group.metrics["parse_rate"].value, *(group.outcomes[name] for name in order))
        for (key, split), group in counts.items()
    )
    return Chart(
        title=f"How the answers were read, by {answers.where}",
        sees=sees,
        alt=f"Stacked bars of outcomes. {sees} Outcomes that occur: {', '.join(used)}.",
        caption="Share of the prompts by outcome. Option, says unknown and refuses are answers that were read; "
        "the others count as wrong for accuracy and, as a rule, not at all for bias.",
        table=Table(tuple(columns), tuple(cells)),
        spec=stacks(shares, names, titles),
        command=next(iter(sets.values())).command(" --json"),
    )
