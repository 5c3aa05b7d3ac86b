"""Charts of accuracy and bias: against each other, by language, and as bars (EsBBQ Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.report.figures.answers import (
    BIAS_SIGN,
    METRIC_TITLES,
    Answers,
    Key,
    Levels,
    interval_caption,
    kind_of,
    metric_of,
    range_text,
    sentences,
    value_of,
)
from mbbq_gen.report.figures.bars import BarPanel, draw_bars
from mbbq_gen.report.figures.chart import Chart
from mbbq_gen.report.figures.dots import DotPanel, draw_dots
from mbbq_gen.report.figures.scatter import Point, ScatterPanel, draw_scatter
from mbbq_gen.report.figures.sees import leaning
from mbbq_gen.report.figures.style import short_names
from mbbq_gen.report.figures.table_text import Cell, Column, DataTable
from mbbq_gen.scoring import METRICS

if TYPE_CHECKING:
    from mbbq_gen.scoring import GroupScore

SUMMARY = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
"""What our own charts show. MBBQ's bias in disambiguated contexts is not 0 for a perfect model where biased and
counter-biased contexts are not equally many, as in small samples they are not; KoBBQ's is."""
_BIAS_OF = {"ambiguous": SUMMARY[2], "disambiguated": SUMMARY[3]}
BIAS_SOURCE = "Bias after MBBQ eq. 1 and, in disambiguated contexts, KoBBQ (EsBBQ eq. 4)."
_ESBBQ = ("accuracy_ambiguous", "accuracy_disambiguated", "diff_bias_ambiguous", "diff_bias_disambiguated")


def key_columns(by: Sequence[str]) -> list[Column]:
    """The columns that say whose numbers a row holds."""
    return [Column(name, name.replace("_", " ")) for name in by]


def score_columns(metric: str) -> list[Column]:
    """A score with its interval."""
    kind = kind_of(metric)
    title = METRIC_TITLES.get(metric, metric)
    return [
        Column(metric, title, kind),
        Column(f"{metric}_low", "low", kind),
        Column(f"{metric}_high", "high", kind),
    ]


def score_cells(group: GroupScore | None, metric: str) -> list[Cell]:
    """The cells of `score_columns`."""
    found = metric_of(group, metric)
    return [None, None, None] if found is None else [found.value, found.low, found.high]


def score_table(levels: Levels, scores: Mapping[Key, GroupScore], metrics: Sequence[str]) -> DataTable:
    """One row a group: its scores with intervals, its items and templates."""
    counts = (Column("n_items", "items", "count"), Column("n_templates", "templates", "count"))
    columns = (*key_columns(levels.by), *counts, *(column for metric in metrics for column in score_columns(metric)))
    rows = []
    for key in levels.keys:
        group = scores.get(key)
        sizes: list[Cell] = [None, None] if group is None else [group.n_items, group.n_templates]
        rows.append((*key, *sizes, *(cell for metric in metrics for cell in score_cells(group, metric))))
    return DataTable(columns, tuple(rows))


def command_of(by: Sequence[str], metrics: Sequence[str], extra: str = "") -> str:
    """The command that shows the same scores."""
    return f"mbbq-gen score RUN --by {','.join((*by, 'split'))} --metrics {','.join(metrics)}{extra}"


def summary_alt(answers: Answers, levels: Levels, scores: Mapping[Key, GroupScore], metrics: Sequence[str]) -> str:
    """The extremes of each score over all groups."""
    parts = [
        range_text(
            metric, [(answers.spoken_key(levels.by, key), value_of(scores.get(key), metric)) for key in levels.keys]
        )
        for metric in metrics
    ]
    return sentences(parts)


def _splitting(answers: Answers) -> tuple[Levels, dict[Key, GroupScore]]:
    by = ("model", *answers.place_by)
    return answers.levels(by), answers.scores(by, SUMMARY)


def scores_by_language(answers: Answers) -> Chart:
    """Accuracy and bias of every language and model, with intervals."""
    levels, scores = _splitting(answers)
    places, models = answers.levels(answers.place_by), answers.models
    is_one_place = len(places) == 1  # then the models are the rows
    dots = {
        metric: {
            (models.index(key[0]), 0) if is_one_place else (places.keys.index(key[1:]), models.index(key[0])): found
            for key in levels.keys
            if (found := metric_of(scores.get(key), metric))
        }
        for metric in SUMMARY
    }
    model_names = short_names(models)
    rows, series = (model_names, places.names) if is_one_place else (places.names, model_names)
    panels = [
        DotPanel(
            METRIC_TITLES[metric].capitalize(),
            METRICS[metric].low < 0,
            dots[metric],
            None if METRICS[metric].low < 0 else 1 / 3,
        )
        for metric in SUMMARY
    ]
    return Chart(
        name="scores_by_language",
        section="scores",
        title=f"Accuracy and bias by {answers.where}",
        sees=leaning(answers, levels.by, scores, SUMMARY[2]),
        alt=f"Dots with intervals. {summary_alt(answers, levels, scores, SUMMARY)}",
        caption=f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=score_table(levels, scores, SUMMARY),
        drawing=draw_dots(panels, rows, series),
        command=command_of(levels.by, SUMMARY),
    )


def accuracy_against_bias(answers: Answers) -> Chart:
    """Accuracy and bias as the two axes of a plane: a point for each language and model."""
    levels, scores = _splitting(answers)
    models = answers.models
    found = answers.levels(answers.place_by)
    places = dict(zip(found.keys, found.names, strict=True))
    if len(places) == 1 and len(models) > 1:
        places = dict.fromkeys(places, "")  # colours tell the models apart, and all points are of one language
    panels = []
    for condition in ("ambiguous", "disambiguated"):
        points = [
            Point(places[key[1:]], models.index(key[0]), accuracy, bias)
            for key in levels.keys
            if (accuracy := metric_of(scores.get(key), f"accuracy_{condition}"))
            and (bias := metric_of(scores.get(key), _BIAS_OF[condition]))
        ]
        panels.append(ScatterPanel(f"{condition.capitalize()} contexts", points, has_bound=condition == "ambiguous"))
    return Chart(
        name="accuracy_against_bias",
        section="scores",
        title=f"Accuracy against bias by {answers.where}",
        sees=leaning(answers, levels.by, scores, SUMMARY[2]),
        alt=f"Two planes of points, accuracy to the right and bias upwards. "
        f"{summary_alt(answers, levels, scores, SUMMARY)}",
        caption=f"{BIAS_SOURCE} {BIAS_SIGN} Grey: the largest bias that the accuracy leaves room for; "
        "a model without bias stands on the line at 0, and a good one at its right end. "
        f"{interval_caption(answers.sampling)}",
        table=score_table(levels, scores, SUMMARY),
        drawing=draw_scatter(panels, short_names(models)),
        command=command_of(levels.by, SUMMARY),
    )


def esbbq_bars(answers: Answers) -> Chart:
    """Accuracy and bias as bars side by side, in both conditions (EsBBQ Fig. 3)."""
    by = ("model", *answers.place_by)
    levels, scores = answers.levels(by), answers.scores(by, _ESBBQ)
    panels = [
        BarPanel(
            title,
            [[metric_of(scores.get(key), f"{kind}_{condition}") for key in levels.keys] for condition in _CONDITIONS],
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
        sees=leaning(answers, levels.by, scores, _ESBBQ[2]),
        alt=f"Bars of accuracy above bars of bias. {summary_alt(answers, levels, scores, _ESBBQ)}",
        caption=f"The shape of EsBBQ Fig. 3: accuracy (EsBBQ eqs. 1 and 2) and bias (eqs. 3 and 4). {BIAS_SIGN} "
        f"{interval_caption(answers.sampling)}",
        table=score_table(levels, scores, _ESBBQ),
        drawing=draw_bars(panels, short_names(names), ["ambiguous contexts", "disambiguated contexts"]),
        command=command_of(by, _ESBBQ),
    )


_CONDITIONS = ("ambiguous", "disambiguated")
