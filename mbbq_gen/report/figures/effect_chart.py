"""What the axes of composed wordings do to scores, by language."""

from __future__ import annotations

from mbbq_gen.report.figures.answers import (
    BIAS_SIGN,
    METRIC_TITLES,
    Answers,
    interval_caption,
    kind_of,
    sentences,
    spoken,
)
from mbbq_gen.report.figures.chart import Chart, NotDrawableError
from mbbq_gen.report.figures.dots import DotPanel, Interval, draw_dots
from mbbq_gen.report.figures.score_charts import SUMMARY
from mbbq_gen.report.figures.style import short_names
from mbbq_gen.report.figures.table_text import Cell, Column, DataTable
from mbbq_gen.scoring import METRICS
from mbbq_gen.statistics.effects import Effect, EffectTable, effect_table

_METRICS = SUMMARY[1:]
ALL = "all languages"


def effects_of_axes(answers: Answers) -> Chart:
    """The main effect of every level of every axis, a colour for each language."""
    if len(answers.models) != 1:
        raise NotDrawableError("draws one model; make it of each run by itself")
    tables = [_table(answers, metric) for metric in _METRICS]
    rows = [(*effect.axes, *effect.levels, *effect.against) for effect in tables[0].main]
    languages = [ALL, *dict.fromkeys(str(effect.language) for effect in tables[0].by_language)]
    panels = []
    for metric, table in zip(_METRICS, tables, strict=True):
        dots: dict[tuple[int, int], Interval] = {
            (rows.index((*effect.axes, *effect.levels, *effect.against)), languages.index(_language(effect))): (
                effect.difference
            )
            for effect in _effects(table)
        }
        panels.append(DotPanel(METRIC_TITLES[metric].capitalize(), is_signed=True, dots=dots))
    return Chart(
        name="effects_of_axes",
        section="robustness",
        title="What the axes of the wordings do",
        sees=sentences([_strongest(_METRICS[1], tables[1])]),
        alt=f"Dots with intervals, a row for each level of {', '.join(dict.fromkeys(row[0] for row in rows))}. "
        + sentences([_strongest(metric, table) for metric, table in zip(_METRICS, tables, strict=True)]),
        caption="How much each score changes with a level of an axis, against the first level of that axis, over all "
        f"levels of the others. {BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=_numbers(tables),
        drawing=draw_dots(panels, short_names([f"{row[0]}: {row[1]}" for row in rows]), short_names(languages)),
        command="mbbq-gen robustness RUN",
    )


def _table(answers: Answers, metric: str) -> EffectTable:
    found = effect_table(answers.part("bias"), METRICS[metric], answers.sampling)
    if found is None:
        raise NotDrawableError("needs wordings composed from axes: run … --axes")
    if isinstance(found, str):
        raise NotDrawableError(found)
    return found


def _effects(table: EffectTable) -> list[Effect]:
    return [*table.main, *table.by_language]


def _language(effect: Effect) -> str:
    return effect.language or ALL


def _strongest(metric: str, table: EffectTable) -> str:
    """The largest main effect on a score, over all languages."""
    known = [(abs(effect.difference.value), effect) for effect in table.main if effect.difference.value is not None]
    if not known:
        return ""
    effect = max(known, key=lambda pair: pair[0])[1]
    value = effect.difference.value
    return f"{METRIC_TITLES[metric]} changes most with {effect.axes[0]} {effect.levels[0]}: {spoken(metric, value)}"


def _numbers(tables: list[EffectTable]) -> DataTable:
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
            _language(effect),
            effect.difference.value,
            effect.difference.low,
            effect.difference.high,
            effect.test.p_adjusted,
        )
        for table in tables
        for effect in _effects(table)
    ]
    return DataTable(columns, tuple(rows))
