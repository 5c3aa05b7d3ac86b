"""Charts of accuracy and bias: ability against bias, by language, by prompt axis, and as bars (EsBBQ Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.analysis.robustness import EffectTable, effect_table
from mbbq_gen.report.assessments import directions
from mbbq_gen.report.charts.catalogue import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    METRIC_TITLES,
    Key,
    Levels,
    ScoreView,
    interval_caption,
    kind_of,
    mark_of,
    metric_of,
    range_text,
    sentences,
    spoken,
    value_of,
)
from mbbq_gen.report.charts.vega import (
    Panel,
    bars,
    dots,
    short_names,
)
from mbbq_gen.report.conclusions import listing
from mbbq_gen.report.tables import Cell, Column, FlaggedNumber, Interval, Table
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    from mbbq_gen.analysis.scores import GroupScore


@dataclass(frozen=True)
class PlainNumber:
    """A number without an interval."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None


SUMMARY = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
"""What our own charts show. MBBQ's bias in disambiguated contexts is not 0 for a perfect model where biased and
counter-biased contexts are not equally many, as in small samples they are not; KoBBQ's is."""
BIAS_OF = {"ambiguous": SUMMARY[2], "disambiguated": SUMMARY[3]}
BIAS_SOURCE = "Bias: MBBQ eq. 1. Diff-bias, in disambiguated contexts: KoBBQ (EsBBQ eq. 4)."
_ESBBQ = ("accuracy_ambiguous", "accuracy_disambiguated", "diff_bias_ambiguous", "diff_bias_disambiguated")


def key_columns(by: Sequence[str]) -> list[Column]:
    """The columns that say whose numbers a row holds."""
    return [Column(name, name.replace("_", " ")) for name in by]


PValues = Mapping[str, Mapping[Key, float | None]]
"""Metric → group → p value, for metrics that were tested against 0."""


def score_table(
    levels: Levels, scores: Mapping[Key, GroupScore], metrics: Sequence[str], tested: PValues | None = None
) -> Table:
    """One row a group: its items and templates, its scores with intervals, and their p values and marks."""
    p_values = tested or {}
    columns = [*key_columns(levels.by), Column("n_answers", "answers", "count")]
    columns.append(Column("n_templates", "templates", "count"))
    for metric in metrics:
        kind = kind_of(metric)
        columns += [Column(metric, METRIC_TITLES[metric], kind), Column(f"{metric}_low", "low", kind)]
        columns.append(Column(f"{metric}_high", "high", kind))
        columns += [Column(f"{metric}_p_adjusted", "p (adjusted)", "p_value")] if metric in p_values else []
    rows = []
    for key in levels.keys:
        group = scores.get(key)
        cells: list[Cell] = [*key, *((None, None) if group is None else (group.n_answers, group.n_templates))]
        for metric in metrics:
            found = metric_of(group, metric)
            value, ends = (None, (None, None)) if found is None else (found.value, (found.ci_low, found.ci_high))
            p_value = p_values.get(metric, {}).get(key)
            cells.append(FlaggedNumber(value, mark_of(p_value)) if metric in p_values else value)
            cells += [*ends, *([p_value] if metric in p_values else [])]
        rows.append(tuple(cells))
    return Table(tuple(columns), tuple(rows))


def command_of(by: Sequence[str], metrics: Sequence[str], extra: str = "") -> str:
    """The command that shows the same scores."""
    return f"mbbq-gen score RUN --group-by {','.join((*by, 'split'))} --metric {','.join(metrics)}{extra}"


def summary_alt(
    answers: ScoreView,
    levels: Levels,
    scores: Mapping[Key, GroupScore],
    metrics: Sequence[str],
    tested: PValues | None = None,
) -> str:
    """The extremes of each score over all groups, and how many of them differ from 0 where that was tested."""
    parts = []
    for metric in metrics:
        named = [(answers.spoken_key(levels.by, key), value_of(scores.get(key), metric)) for key in levels.keys]
        text = range_text(metric, named)
        if tested is not None and metric in tested:
            marked = [answers.spoken_key(levels.by, key) for key, p in tested[metric].items() if mark_of(p)]
            shown = "; ".join(marked[:6]) + ("; …" if len(marked) > 6 else "")
            text += f"; {len(marked)} of {len(named)} differ from 0" + (f" ({shown})" if marked else "")
        parts.append(text)
    return sentences(parts)


def by_place(answers: ScoreView) -> tuple[Levels, dict[Key, GroupScore]]:
    """Every model in every language, and its scores."""
    by = ("model", *answers.place_by)
    return answers.levels(by), answers.scores(by, SUMMARY)


def scores_by_language(answers: ScoreView) -> Chart:
    """Accuracy and bias of every language and model, with intervals."""
    levels, scores = by_place(answers)
    places, models = answers.levels(answers.place_by), answers.models
    is_one_place = len(places) == 1  # then the models are the rows
    values: dict[str, dict[tuple[int, int], Interval]] = {
        metric: {
            (models.index(key[0]), 0) if is_one_place else (places.keys.index(key[1:]), models.index(key[0])): found
            for key in levels.keys
            if (found := metric_of(scores.get(key), metric))
        }
        for metric in SUMMARY
    }
    model_names = short_names(models)
    rows, series = (model_names, places.names) if is_one_place else (places.names, model_names)
    panels = [score_panel(metric, values[metric]) for metric in SUMMARY]
    return Chart(
        name="scores_by_language",
        section="scores",
        title=f"Accuracy and bias by {answers.where}",
        sees=bias_takeaway(answers, levels.by, scores, SUMMARY[2]),
        alt=f"Dots with intervals. {summary_alt(answers, levels, scores, SUMMARY)}",
        caption=f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=score_table(levels, scores, SUMMARY),
        spec=dots(panels, rows, series),
        command=command_of(levels.by, SUMMARY),
    )


def score_panel(metric: str, values: Mapping[tuple[int, int], Interval]) -> Panel:
    """A score of dots: a bias about 0, a rate with a line at chance."""
    is_signed = METRICS[metric].low < 0
    return Panel(METRIC_TITLES[metric].capitalize(), values, is_signed, None if is_signed else CHANCE)


def esbbq_bars(answers: ScoreView) -> Chart:
    """Accuracy and bias as bars side by side, in both conditions (EsBBQ Fig. 3)."""
    by = ("model", *answers.place_by)
    levels, scores = answers.levels(by), answers.scores(by, _ESBBQ)
    panels = [
        Panel(
            title,
            {
                (row, place): found
                for row, key in enumerate(levels.keys)
                for place, condition in enumerate(_CONDITIONS)
                if (found := metric_of(scores.get(key), f"{kind}_{condition}"))
            },
            is_signed=kind == "diff_bias",
        )
        for kind, title in (("accuracy", "Accuracy"), ("diff_bias", "Bias"))
    ]
    several_models = len(answers.models) > 1
    names = [" · ".join(key if several_models else key[1:]) for key in levels.keys]
    return Chart(
        name="esbbq_bars",
        section="papers",
        title="Accuracy and bias as bars",
        sees=bias_takeaway(answers, levels.by, scores, _ESBBQ[2]),
        alt=f"Bars of accuracy above bars of bias. {summary_alt(answers, levels, scores, _ESBBQ)}",
        caption=f"The shape of EsBBQ Fig. 3: accuracy (EsBBQ eqs. 1 and 2) and bias (eqs. 3 and 4). {BIAS_SIGN} "
        f"{interval_caption(answers.sampling)}",
        table=score_table(levels, scores, _ESBBQ),
        spec=bars(panels, short_names(names), ["ambiguous contexts", "disambiguated contexts"]),
        command=command_of(by, _ESBBQ),
    )


_CONDITIONS = ("ambiguous", "disambiguated")


_METRICS = SUMMARY[1:]
ALL = "all languages"


def effects_of_axes(answers: ScoreView) -> Chart:
    """The main effect of every level of every axis, a colour for each language."""
    if len(answers.models) != 1:
        raise ChartUnavailableError("shows one model; make it for each run separately")
    tables = [_table(answers, metric) for metric in _METRICS]
    rows = [(*effect.axes, *effect.levels, *effect.against) for effect in tables[0].main]
    languages = [ALL, *dict.fromkeys(str(effect.language) for effect in tables[0].by_language)]
    panels = []
    for metric, table in zip(_METRICS, tables, strict=True):
        values: dict[tuple[int, int], Interval] = {
            (rows.index((*effect.axes, *effect.levels, *effect.against)), languages.index(effect.language or ALL)): (
                effect.difference
            )
            for effect in [*table.main, *table.by_language]
        }
        panels.append(Panel(METRIC_TITLES[metric].capitalize(), values, is_signed=True))
    return Chart(
        name="effects_of_axes",
        section="robustness",
        title="Effects of the prompt axes",
        sees=sentences([_strongest(_METRICS[1], tables[1])]),
        alt=f"Dots with intervals, a row for each level of {', '.join(dict.fromkeys(row[0] for row in rows))}. "
        + sentences([_strongest(metric, table) for metric, table in zip(_METRICS, tables, strict=True)]),
        caption="How much each score changes with a level of an axis, against the first level of that axis, over all "
        f"levels of the others. {BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=_numbers(tables),
        spec=dots(panels, short_names([f"{row[0]}: {row[1]}" for row in rows]), short_names(languages)),
        command="mbbq-gen robustness RUN",
    )


def _table(answers: ScoreView, metric: str) -> EffectTable:
    found = effect_table(answers.part("bias"), METRICS[metric], answers.sampling)
    if found is None:
        raise ChartUnavailableError("needs prompt variants composed with run --axes")
    if isinstance(found, str):
        raise ChartUnavailableError(found)
    return found


def _strongest(metric: str, table: EffectTable) -> str:
    """The largest main effect on a score, over all languages."""
    known = [(abs(effect.difference.value), effect) for effect in table.main if effect.difference.value is not None]
    if not known:
        return ""
    effect = max(known, key=lambda pair: pair[0])[1]
    value = effect.difference.value
    return f"{METRIC_TITLES[metric]} changes most with {effect.axes[0]} {effect.levels[0]}: {spoken(metric, value)}"


def _numbers(tables: list[EffectTable]) -> Table:
    columns = (
        Column("metric", "score"),
        Column("axis", "axis"),
        Column("level", "level"),
        Column("against", "against"),
        Column("language", "language"),
        Column("difference", "difference", kind_of("mbbq_bias_ambiguous")),
        Column("low", "low", kind_of("mbbq_bias_ambiguous")),
        Column("high", "high", kind_of("mbbq_bias_ambiguous")),
        Column("p_adjusted", "p (Holm)", "p_value"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            table.metric,
            effect.axes[0],
            effect.levels[0],
            effect.against[0],
            effect.language or ALL,
            effect.difference.value,
            effect.difference.ci_low,
            effect.difference.ci_high,
            effect.test.p_adjusted,
        )
        for table in tables
        for effect in [*table.main, *table.by_language]
    ]
    return Table(columns, tuple(rows))


# --- what to see -----------------------------------------------------------------------------------------------------

_MODELS_NAMED = 4
"""So many models are named; of more, only how many they are."""


def bias_takeaway(answers: ScoreView, by: Sequence[str], scores: Mapping[Key, GroupScore], metric: str) -> str:
    """Where a bias is off 0 after Holm's adjustment: `Bias, ambiguous: off 0 in 2 of 4, above in en and nl.`"""
    known = {key: group.metrics[metric] for key, group in scores.items() if group.metrics[metric].value is not None}
    title = METRIC_TITLES[metric].capitalize()
    if not known:
        return f"{title}: nothing to count."
    off = directions(known, answers.sampling.confidence)
    sides = {
        side: [key for key, found in off.items() if found == side] for side in ("stereotypical", "anti_stereotypical")
    }
    n_off = sum(map(len, sides.values()))
    if not n_off:
        return f"{title}: none is certainly different from 0, which does not show that there is no bias."
    words = {"stereotypical": "above (to the stereotype)", "anti_stereotypical": "below (against it)"}
    named = [f"{words[side]} {_where(answers, by, keys)}".rstrip() for side, keys in sides.items() if keys]
    return f"{title}: off 0 in {n_off} of {len(known)}, {'; '.join(named)}."


def _where(answers: ScoreView, by: Sequence[str], keys: Sequence[Key]) -> str:
    """`for a (en, tr) and b (nl)`: the groups by model; of many models, how many groups they are."""
    models: dict[str, list[str]] = {}
    for key in keys:
        models.setdefault(answers.spoken_key(by[:1], key[:1]), []).append(answers.spoken_key(by[1:], key[1:]))
    if len(models) > _MODELS_NAMED:
        return f"for {len(models)} models"
    if list(models) == [""]:
        places = [place for place in models[""] if place]
        return f"in {listing(places)}" if places else ""
    named = [
        f"{model} ({', '.join(found)})" if (found := [p for p in its if p]) else model for model, its in models.items()
    ]
    return f"for {listing(named)}"


def extremes(answers: ScoreView, by: Sequence[str], values: Mapping[Key, float | None], metric: str) -> str:
    """`Accuracy, ambiguous from 0.21 (tr) to 0.93 (en).`"""
    return sentences([range_text(metric, [(answers.spoken_key(by, key), value) for key, value in values.items()])])
