"""Charts of accuracy and bias by language, split and prompt; position bias; how answers were read; EsBBQ's bars."""

from __future__ import annotations

from functools import partial
from typing import Final, get_args

from mbbq_gen.analysis.position import position_reports
from mbbq_gen.analysis.robustness import EffectTable, Factor, effect_table
from mbbq_gen.core.records import Outcome
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.control_charts import require_control
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
    mark_of,
    score_panels,
    sentences,
    spoken,
)
from mbbq_gen.report.charts.vega import Panel, bars, dots, short_names, stacks
from mbbq_gen.report.score_tables import OUTCOME_TITLES
from mbbq_gen.report.tables import Column, ColumnKind, FlaggedNumber, Table
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.hypothesis_tests import benjamini_hochberg

_ESBBQ = ("accuracy_ambiguous", "accuracy_disambiguated", "diff_bias_ambiguous", "diff_bias_disambiguated")
_CHANGING = SUMMARY[1:]
_FACTOR_TITLES: Final[dict[Factor, str]] = {
    "variant": "prompt variant",
    "option_order": "option order",
    "label_style": "label style",
    "reasoning_effort": "reasoning effort",
}


def scores_by_language(answers: ScoreView) -> Chart:
    """Accuracy and bias of every language and model, with intervals."""
    found, places = answers.scored(answers.by, SUMMARY), answers.levels(answers.place_by)
    models = dict(zip(answers.models, short_names(answers.models), strict=True))
    named = [(places[key[1:]], models[key[0]], group) for key, group in found.groups.items()]
    rows, series = list(places.values()), list(models.values())
    if len(places) == 1:  # then the models are the rows
        named, rows, series = [(model, place, group) for place, model, group in named], series, rows
    return Chart(
        title=f"Accuracy and bias by {answers.where}",
        sees=found.bias_takeaway(SUMMARY[2]),
        alt=f"Dots with intervals. {found.alt()}",
        caption=f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {answers.interval_caption}",
        table=found.table(),
        spec=dots(score_panels(SUMMARY, named), rows, series),
        command=found.command(),
    )


def control_and_bias(answers: ScoreView) -> Chart:
    """Accuracy and bias on the benchmark beside the same on the control questions."""
    require_control(answers)
    bias, control = answers.scored(answers.by, SUMMARY), answers.scored(answers.by, SUMMARY, "control")
    names = short_names(answers.row_names(bias.groups))
    sides = {"benchmark": bias, "control set": control}
    named = [
        (name, side, found.groups.get(key))
        for side, found in sides.items()
        for name, key in zip(names, bias.groups, strict=True)
    ]
    tables = {"bias": bias.table(), "control": control.table()}
    rows = tuple((split, *row) for split, table in tables.items() for row in table.rows)
    return Chart(
        title="The benchmark beside its control set",
        sees="On the control questions, which name no group: " + control.bias_takeaway(SUMMARY[2]),
        alt="Dots with intervals, the benchmark and the control set of each row beside each other. "
        f"Of the control set: {control.alt()}",
        caption="The control set asks the same questions with first names in the groups' place. A bias that is as "
        "large there is not about the groups; a model that guesses there (dashed) can't do the task. "
        f"{BIAS_SIGN} {answers.interval_caption}",
        table=Table((Column("split", "split"), *tables["bias"].columns), rows),
        spec=dots(score_panels(SUMMARY, named), names, list(sides)),
        command=bias.command(" --control-adjusted"),
    )


def esbbq_bars(answers: ScoreView) -> Chart:
    """Accuracy and bias as bars side by side, in both conditions (EsBBQ Fig. 3)."""
    found = answers.scored(answers.by, _ESBBQ)
    names = short_names(answers.row_names(found.groups))
    conditions = {"ambiguous": "ambiguous contexts", "disambiguated": "disambiguated contexts"}
    panels = []
    for kind, title in (("accuracy", "Accuracy"), ("diff_bias", "Bias")):
        values = [
            (name, series, score)
            for name, key in zip(names, found.groups, strict=True)
            for condition, series in conditions.items()
            if (score := found.score(key, f"{kind}_{condition}"))
        ]
        panels.append(Panel(title, values, is_signed=kind == "diff_bias"))
    return Chart(
        title="Accuracy and bias as bars",
        sees=found.bias_takeaway(_ESBBQ[2]),
        alt=f"Bars of accuracy above bars of bias. {found.alt()}",
        caption=f"The shape of EsBBQ Fig. 3: accuracy (EsBBQ eqs. 1 and 2) and bias (eqs. 3 and 4). {BIAS_SIGN} "
        f"{answers.interval_caption}",
        table=found.table(),
        spec=bars(panels, names, list(conditions.values())),
        command=found.command(),
    )


# --- prompts ---------------------------------------------------------------------------------------------------------


def spread(answers: ScoreView, factor: Factor) -> Chart:
    """Scores of each prompt variant, option order, label style or reasoning effort."""
    what, values = _FACTOR_TITLES[factor], answers.values(factor, "bias")
    if len(values) < 2:
        raise ChartUnavailableError(f"needs answers to two or more values of {what}")
    found = answers.scored((*answers.by, factor), _CHANGING)
    rows = list(dict.fromkeys(key[:-1] for key in found.groups))
    names = dict(zip(rows, short_names(answers.row_names(rows)), strict=True))
    series = dict(zip(values, short_names(values), strict=True))
    named = [(names[key[:-1]], series[key[-1]], group) for key, group in found.groups.items() if key[-1] in series]
    return Chart(
        title=f"Scores by {what}",
        sees=_spread_text(found, _CHANGING[1:2]) or f"Nothing to count under two values of {what}.",
        alt=f"Dots with intervals, one for each {what}: {', '.join(values[:12])}. {_spread_text(found, _CHANGING)}",
        caption=f"The same questions under each {what}. Where dots of a row lie apart, the {what} makes the score as "
        f"much as the model does. {BIAS_SOURCE} {BIAS_SIGN} {answers.interval_caption}",
        table=found.table(),
        spec=dots(score_panels(_CHANGING, named), list(names.values()), list(series.values())),
        command=found.command(),
    )


spread_variant = partial(spread, factor="variant")
spread_option_order = partial(spread, factor="option_order")
spread_label_style = partial(spread, factor="label_style")
spread_reasoning_effort = partial(spread, factor="reasoning_effort")


def _spread_text(found: ScoreSet, metrics: tuple[str, ...]) -> str:
    """The widest range of each score within one row."""
    parts = []
    for metric in metrics:
        rows: dict[tuple[str, ...], list[float]] = {}
        for key in found.groups:
            if (value := found.value(key, metric)) is not None:
                rows.setdefault(key[:-1], []).append(value)
        if rows:
            widest = max(rows, key=lambda key: max(rows[key]) - min(rows[key]))
            parts.append(
                f"{METRIC_TITLES[metric]} lies widest apart for {found.answers.spoken_key(found.by[:-1], widest)}: "
                f"from {spoken(metric, min(rows[widest]))} to {spoken(metric, max(rows[widest]))}"
            )
    return sentences(parts)


_ALL = "all languages"


def effects_of_axes(answers: ScoreView) -> Chart:
    """The main effect of every level of every axis, a colour for each language."""
    if len(answers.models) != 1:
        raise ChartUnavailableError("shows one model; make it for each run separately")
    tables = []
    for metric in _CHANGING:
        table = effect_table(answers.part("bias"), METRICS[metric], answers.sampling)
        if not isinstance(table, EffectTable):
            raise ChartUnavailableError(table or "needs prompt variants composed with run --axes")
        tables.append(table)
    effects = [[*table.main, *table.by_language] for table in tables]
    rows = [(*effect.axes, *effect.levels, *effect.against) for effect in tables[0].main]
    names = dict(zip(rows, short_names([f"{axis}: {level}" for axis, level, _ in rows]), strict=True))
    languages = list(dict.fromkeys([_ALL, *(str(effect.language) for effect in tables[0].by_language)]))
    series = dict(zip(languages, short_names(languages), strict=True))
    panels = [
        Panel(
            METRIC_TITLES[metric].capitalize(),
            [
                (
                    names[*effect.axes, *effect.levels, *effect.against],
                    series[effect.language or _ALL],
                    effect.difference,
                )
                for effect in some
            ],
            is_signed=True,
        )
        for metric, some in zip(_CHANGING, effects, strict=True)
    ]
    cells = (
        (
            *(table.metric, effect.axes[0], effect.levels[0], effect.against[0], effect.language or _ALL),
            *(effect.difference.value, effect.difference.ci_low, effect.difference.ci_high, effect.test.p_adjusted),
        )
        for table, some in zip(tables, effects, strict=True)
        for effect in some
    )
    columns = key_columns(
        ("metric", "axis", "level", "against", "language"),
        **{name: (name, "score") for name in ("difference", "low", "high")},
        p_adjusted=("p (Holm)", "p_value"),
    )
    columns[0] = Column("metric", "score")
    strongest = [_strongest(metric, table) for metric, table in zip(_CHANGING, tables, strict=True)]
    return Chart(
        title="Effects of the prompt axes",
        sees=sentences(strongest[1:2]),
        alt=f"Dots with intervals, a row for each level of {', '.join(dict.fromkeys(row[0] for row in rows))}. "
        + sentences(strongest),
        caption="How much each score changes with a level of an axis, against the first level of that axis, over all "
        f"levels of the others. {BIAS_SIGN} {answers.interval_caption}",
        table=Table(tuple(columns), tuple(cells)),
        spec=dots(panels, list(names.values()), list(series.values())),
        command="mbbq-gen robustness RUN",
    )


def _strongest(metric: str, table: EffectTable) -> str:
    """The largest main effect on a score, over all languages."""
    known = [(abs(effect.difference.value), effect) for effect in table.main if effect.difference.value is not None]
    if not known:
        return ""
    effect = max(known, key=lambda pair: pair[0])[1]
    value = spoken(metric, effect.difference.value)
    return f"{METRIC_TITLES[metric]} changes most with {effect.axes[0]} {effect.levels[0]}: {value}"


# --- places ----------------------------------------------------------------------------------------------------------


def position_preference(answers: ScoreView) -> Chart:
    """How much more often each place is chosen than the roles and the orders predict."""
    by = answers.by
    reports = [one for one in position_reports(answers.part("bias"), by, [], answers.sampling) if one.n_answers]
    if not reports:
        raise ChartUnavailableError("no parsed answer chose a role")
    adjusted = benjamini_hochberg([report.test.p_value for report in reports])
    keys = [tuple(str(report.group[name]) for name in by) for report in reports]
    names = [
        f"{name} {mark_of(p_value)}".strip()
        for name, p_value in zip(short_names(answers.row_names(keys)), adjusted, strict=True)
    ]
    places = [(name, one) for name, report in zip(names, reports, strict=True) for one in report.places]
    styles = list(dict.fromkeys(one.label_style for _, one in places))
    labels = {one.place: one.label for _, one in places} if len(styles) == 1 else {}
    order = ("1st", "2nd", "3rd")
    series = [
        name if labels.get(place, name) == name else f"{name}: {labels[place]}" for place, name in enumerate(order)
    ]
    panels = []
    for style in styles:
        title = "Preference" if len(styles) == 1 else f"Preference, labels {short_names([str(style)])[0]}"
        values = [(n, series[one.place], PlainNumber(one.preference)) for n, one in places if one.label_style == style]
        panels.append(Panel(title, values, is_signed=True))
    drawn = [", ".join(key if len(answers.models) > 1 else key[1:]) for key in keys]
    liked = [max(report.places, key=lambda one: one.preference) for report in reports]
    most = max(range(len(liked)), key=lambda place: liked[place].preference)
    said = [
        f"{name}: place {one.place + 1} is liked most ({one.preference:+.2f})"
        for name, one in zip(drawn[:12], liked, strict=False)
    ]
    others: dict[str, tuple[str, ColumnKind]] = {
        **{"position": ("position", "count"), "label": ("label", "text"), "chosen": ("chosen", "count")},
        **{"share": ("share", "share"), "expected": ("expected", "share"), "preference": ("preference", "score")},
        "p_adjusted": ("p (adjusted)", "p_value"),
    }
    columns = key_columns((*by, "label_style"), **others)
    rows = tuple(
        (
            *(*(report.group[name] for name in by), one.label_style, one.place + 1, one.label, one.chosen),
            *(one.share, one.expected, FlaggedNumber(one.preference, mark_of(p_value)), p_value),
        )
        for report, p_value in zip(reports, adjusted, strict=True)
        for one in report.places
    )
    n_marked = sum(bool(mark_of(p_value)) for p_value in adjusted)
    return Chart(
        title="Preference for a place among the options",
        sees=f"Places matter for sure in {n_marked} of {len(reports)}; liked most: place {liked[most].place + 1} in "
        f"{drawn[most]} ({liked[most].preference:+.2f}).",
        alt=f"Bars for each place. {'; '.join(said)}{'; …' if len(reports) > 12 else ''}.",
        caption="Share of answers that chose each place, minus the share that the roles chosen and the orders shown "
        f"predict. Above 0: the place is liked, whatever stands there. {MARK}: places matter (p < 0.05; randomisation "
        "test, false discovery rate held over groups).",
        table=Table(tuple(columns), rows),
        spec=bars(panels, names, series),
        command=f"mbbq-gen position-bias RUN --group-by {','.join((*by, 'split'))}",
    )


# --- outcomes --------------------------------------------------------------------------------------------------------


def outcomes_by_language(answers: ScoreView) -> Chart:
    """How the answers were read, as stacks that add up to all answers."""
    metric = ("parse_rate",)
    splits = [split for split in ("bias", "control") if split in answers.values("split")]
    sets = {split: answers.scored(answers.by, metric, split) for split in splits}
    groups = [(key, split, group) for split, found in sets.items() for key, group in found.groups.items()]
    groups = sorted((one for one in groups if one[2].n_answers), key=lambda one: one[:2])
    if not groups:
        raise ChartUnavailableError("no answers")
    order = [outcome for outcome in OUTCOME_TITLES if outcome in get_args(Outcome)]
    shares = [[group.outcomes[outcome] / group.n_answers for outcome in order] for _, _, group in groups]
    whole = answers.row_names([key for key, _, _ in groups])
    names = [
        name + (" · control" if split == "control" else "") for name, (_, split, _) in zip(whole, groups, strict=True)
    ]
    rates = [(group.metrics[metric[0]].value, name) for name, (_, _, group) in zip(names, groups, strict=True)]
    read = [(rate, name) for rate, name in rates if rate is not None]
    worst, worst_name = min(read, key=lambda pair: pair[0], default=(None, ""))
    titles = [OUTCOME_TITLES[name] for name in order]
    used = [title for place, title in enumerate(titles) if any(row[place] for row in shares)]
    least = "" if worst is None else f"Least was read of {worst_name}: {whole_percent(worst)} of the responses."
    others: dict[str, tuple[str, ColumnKind]] = {"n_answers": ("answers", "count"), "parse_rate": ("parsed", "share")}
    others |= {outcome: (OUTCOME_TITLES[outcome], "count") for outcome in order}
    columns = key_columns((*answers.by, "split"), **others)
    rows = (
        (*key, split, group.n_answers, group.metrics[metric[0]].value, *(group.outcomes[name] for name in order))
        for key, split, group in groups
    )
    return Chart(
        title=f"How the answers were read, by {answers.where}",
        sees="Every response was read." if worst == 1 else least or "No response was had.",
        alt=f"Stacked bars of outcomes. {least} Outcomes that occur: {', '.join(used)}.".replace("  ", " "),
        caption="Share of the prompts by outcome. Option, says unknown and refuses are answers that were read; "
        "the others count as wrong for accuracy and, as a rule, not at all for bias.",
        table=Table(tuple(columns), tuple(rows)),
        spec=stacks(shares, short_names(names, 36), titles),
        command=next(iter(sets.values())).command(" --json"),
    )
