"""Charts of accuracy and bias: against each other, by language, and as bars (EsBBQ Fig. 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.analysis.robustness import EffectTable, effect_table
from mbbq_gen.report.charts.catalogue import Chart, ChartUnavailableError
from mbbq_gen.report.charts.drawing import (
    FONT_SIZE,
    MARGIN,
    SHARES,
    TICK,
    TITLE,
    Drawing,
    Key,
    Plane,
    about_zero,
    colour,
    half_range,
    legend_height,
    legend_width,
    marker,
    plain,
    short_names,
    signed,
    text_width,
)
from mbbq_gen.report.charts.marks import BarPanel, DotPanel, bias_takeaway, draw_bars, draw_dots
from mbbq_gen.report.conclusions import Interval
from mbbq_gen.report.tables import Cell, Column, DataTable
from mbbq_gen.report.view_model import (
    BIAS_SIGN,
    METRIC_TITLES,
    Levels,
    ScoreView,
    interval_caption,
    kind_of,
    metric_of,
    range_text,
    sentences,
    spoken,
    value_of,
)
from mbbq_gen.report.view_model import (
    Key as ScoreKey,
)
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    from mbbq_gen.analysis.score_table import GroupScore

NAMED = 36
"""Points in a panel up to which they are named."""
_LEFT, _ACROSS, _DOWN, _GAP = 50.0, 190.0, 170.0, 16.0
"""Room for the numbers beside the first panel, width and height of each, and the room between them."""


@dataclass(frozen=True)
class Point:
    """One language of one model."""

    name: str
    series: int
    accuracy: Interval
    bias: Interval


@dataclass(frozen=True)
class ScatterPanel:
    """One condition."""

    title: str
    points: Sequence[Point]
    has_bound: bool
    """Whether |bias| ≤ 1 − accuracy holds, and is drawn."""


def draw_scatter(panels: Sequence[ScatterPanel], series: Sequence[str]) -> Drawing:
    """The panels side by side, their biases on one scale."""
    keys = [Key(name, colour(place), marker(place)) for place, name in enumerate(series)] if len(series) > 1 else []
    step = _ACROSS + _GAP
    width = max(_LEFT + step * len(panels), legend_width(keys))
    drawing = Drawing(width, MARGIN + TITLE + _DOWN + 2 * TICK + 2 + legend_height(keys, width))
    ends = [
        end
        for panel in panels
        for point in panel.points
        for end in (point.bias.value, point.bias.ci_low, point.bias.ci_high)
    ]
    reach = half_range(ends)
    for place, panel in enumerate(panels):
        scales = (-0.02, 1.02), (reach * 1.04, -reach * 1.04)
        plane = Plane(drawing, _LEFT + step * place, MARGIN + TITLE, _ACROSS, _DOWN, *scales)
        is_first = place == 0
        if panel.has_bound:
            for side in (1, -1):
                plane.area(_without_room(side, plane.y[0]), "#8a8a8a", 0.16)
        plane.x_scale(SHARES, plain)
        plane.y_scale(about_zero(reach), signed, is_named=is_first)
        plane.level(0)
        for point in panel.points:
            x, y = point.accuracy, point.bias
            assert x.value is not None
            assert y.value is not None
            shade = colour(point.series)
            if x.ci_low is not None and x.ci_high is not None:
                plane.line((x.ci_low, y.value), (x.ci_high, y.value), shade, 0.9)
            if y.ci_low is not None and y.ci_high is not None:
                plane.line((x.value, y.ci_low), (x.value, y.ci_high), shade, 0.9)
            plane.mark((x.value, y.value), point.series, shade, 4.5)
        plane.title(panel.title)
        plane.edges()
        plane.drawing.text(plane.left + plane.width / 2, plane.bottom + 1.5 * TICK, "accuracy", "middle")
        if is_first:
            plane.drawing.turned_text(MARGIN + FONT_SIZE / 2, plane.top + plane.height / 2, "bias")
        if len(panel.points) <= NAMED:
            _name_points(plane, panel.points, reach)
    drawing.legend(keys)
    return drawing


def _without_room(side: int, edge: float) -> list[tuple[float, float]]:
    """Where |bias| would be above 1 − accuracy, as far as the plane reaches: above the line at 0 or (-1) below it."""
    if edge < 1:
        return [(1 - edge, side * edge), (1, 0), (1, side * edge)]
    return [(0, side), (1, 0), (1, side * edge), (0, side * edge)]


# --- names beside points ---------------------------------------------------------------------------------------------

_Box = tuple[float, float, float, float]


def _name_points(plane: Plane, points: Sequence[Point], reach: float) -> None:
    """A name at the first place round each point where it covers no other name or point, and no bar if that can be.

    A point without such a place stays unnamed; the table has it.
    """
    per_inch = 1.04 / _ACROSS * 72, 2.08 * reach / _DOWN * 72
    taken: list[_Box] = [_box(point, (0.0, 0.0), (0.09, 0.09), per_inch) for point in points]
    bars = [bar for point in points for bar in _bars(point)]
    for point in points:
        if not point.name:
            continue
        width, height = text_width([point.name], FONT_SIZE - 1) + 0.02, 0.11
        boxes = [_box(point, offset, (width, height), per_inch) for offset in _places_round(width, height)]
        free = [
            box
            for box in boxes
            if box[0] >= 0
            and box[2] <= 1.02
            and max(-box[1], box[3]) <= reach
            and not any(_overlap(box, other) for other in taken)
        ]
        clear = [box for box in free if not any(_overlap(box, bar) for bar in bars)]
        if free:
            box = (clear or free)[0]
            taken.append(box)
            x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            plane.drawing.text(*plane.at(x, y), point.name, "middle", size=FONT_SIZE - 1)


def _bars(point: Point) -> list[_Box]:
    """What the bars of a point's intervals cover."""
    assert point.accuracy.value is not None
    assert point.bias.value is not None
    found = []
    if point.accuracy.ci_low is not None and point.accuracy.ci_high is not None:
        found.append((point.accuracy.ci_low, point.bias.value, point.accuracy.ci_high, point.bias.value))
    if point.bias.ci_low is not None and point.bias.ci_high is not None:
        found.append((point.accuracy.value, point.bias.ci_low, point.accuracy.value, point.bias.ci_high))
    return found


def _places_round(width: float, height: float) -> list[tuple[float, float]]:
    """Where a name's middle may stand, in inches from the point: near places first."""
    found = []
    for away in (0.07, 0.15):
        right, up = away + width / 2, away + height / 2
        found += [(right, up * 0.8), (-right, up * 0.8), (right, -up * 0.8), (-right, -up * 0.8), (0.0, up), (0.0, -up)]
    return found


def _box(point: Point, offset: tuple[float, float], size: tuple[float, float], per_inch: tuple[float, float]) -> _Box:
    """A box round a point in the plane's own numbers; offsets and sizes are in inches."""
    assert point.accuracy.value is not None
    assert point.bias.value is not None
    (scale_x, scale_y), (width, height) = per_inch, size
    x, y = point.accuracy.value + offset[0] * scale_x, point.bias.value + offset[1] * scale_y
    return x - width / 2 * scale_x, y - height / 2 * scale_y, x + width / 2 * scale_x, y + height / 2 * scale_y


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


SUMMARY = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
"""What our own charts show. MBBQ's bias in disambiguated contexts is not 0 for a perfect model where biased and
counter-biased contexts are not equally many, as in small samples they are not; KoBBQ's is."""
_BIAS_OF = {"ambiguous": SUMMARY[2], "disambiguated": SUMMARY[3]}
BIAS_SOURCE = "Bias: MBBQ eq. 1. Diff-bias, in disambiguated contexts: KoBBQ (EsBBQ eq. 4)."
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
    return [None, None, None] if found is None else [found.value, found.ci_low, found.ci_high]


def score_table(levels: Levels, scores: Mapping[ScoreKey, GroupScore], metrics: Sequence[str]) -> DataTable:
    """One row a group: its scores with intervals, its items and templates."""
    counts = (Column("n_answers", "answers", "count"), Column("n_templates", "templates", "count"))
    columns = (*key_columns(levels.by), *counts, *(column for metric in metrics for column in score_columns(metric)))
    rows = []
    for key in levels.keys:
        group = scores.get(key)
        sizes: list[Cell] = [None, None] if group is None else [group.n_answers, group.n_templates]
        rows.append((*key, *sizes, *(cell for metric in metrics for cell in score_cells(group, metric))))
    return DataTable(columns, tuple(rows))


def command_of(by: Sequence[str], metrics: Sequence[str], extra: str = "") -> str:
    """The command that shows the same scores."""
    return f"mbbq-gen score RUN --group-by {','.join((*by, 'split'))} --metrics {','.join(metrics)}{extra}"


def summary_alt(
    answers: ScoreView, levels: Levels, scores: Mapping[ScoreKey, GroupScore], metrics: Sequence[str]
) -> str:
    """The extremes of each score over all groups."""
    parts = [
        range_text(
            metric, [(answers.spoken_key(levels.by, key), value_of(scores.get(key), metric)) for key in levels.keys]
        )
        for metric in metrics
    ]
    return sentences(parts)


def _splitting(answers: ScoreView) -> tuple[Levels, dict[ScoreKey, GroupScore]]:
    by = ("model", *answers.place_by)
    return answers.levels(by), answers.scores(by, SUMMARY)


def scores_by_language(answers: ScoreView) -> Chart:
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
        sees=bias_takeaway(answers, levels.by, scores, SUMMARY[2]),
        alt=f"Dots with intervals. {summary_alt(answers, levels, scores, SUMMARY)}",
        caption=f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=score_table(levels, scores, SUMMARY),
        drawing=draw_dots(panels, rows, series),
        command=command_of(levels.by, SUMMARY),
    )


def accuracy_against_bias(answers: ScoreView) -> Chart:
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
        title = f"{condition.capitalize()} contexts" + (" (diff-bias)" if condition == "disambiguated" else "")
        panels.append(ScatterPanel(title, points, has_bound=condition == "ambiguous"))
    return Chart(
        name="accuracy_against_bias",
        section="scores",
        title=f"Accuracy against bias by {answers.where}",
        sees=bias_takeaway(answers, levels.by, scores, SUMMARY[2]),
        alt=f"Two planes of points, accuracy to the right and bias upwards. "
        f"{summary_alt(answers, levels, scores, SUMMARY)}",
        caption=f"{BIAS_SOURCE} {BIAS_SIGN} Grey: the largest bias that the accuracy leaves room for; "
        "a model without bias stands on the line at 0, and a good one at its right end. "
        f"{interval_caption(answers.sampling)}",
        table=score_table(levels, scores, SUMMARY),
        drawing=draw_scatter(panels, short_names(models)),
        command=command_of(levels.by, SUMMARY),
    )


def esbbq_bars(answers: ScoreView) -> Chart:
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
        sees=bias_takeaway(answers, levels.by, scores, _ESBBQ[2]),
        alt=f"Bars of accuracy above bars of bias. {summary_alt(answers, levels, scores, _ESBBQ)}",
        caption=f"The shape of EsBBQ Fig. 3: accuracy (EsBBQ eqs. 1 and 2) and bias (eqs. 3 and 4). {BIAS_SIGN} "
        f"{interval_caption(answers.sampling)}",
        table=score_table(levels, scores, _ESBBQ),
        drawing=draw_bars(panels, short_names(names), ["ambiguous contexts", "disambiguated contexts"]),
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
        dots: dict[tuple[int, int], Interval] = {
            (rows.index((*effect.axes, *effect.levels, *effect.against)), languages.index(effect.language or ALL)): (
                effect.difference
            )
            for effect in [*table.main, *table.by_language]
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
            effect.language or ALL,
            effect.difference.value,
            effect.difference.ci_low,
            effect.difference.ci_high,
            effect.test.p_adjusted,
        )
        for table in tables
        for effect in [*table.main, *table.by_language]
    ]
    return DataTable(columns, tuple(rows))
