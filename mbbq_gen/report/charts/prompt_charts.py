"""What the presentation makes of scores, which places are liked, and how answers were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from mbbq_gen.analysis.position import PositionReport, position_reports
from mbbq_gen.analysis.robustness import Factor
from mbbq_gen.analysis.score_table import GroupScore
from mbbq_gen.core.records import Outcome, Split
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts.catalogue import Chart, ChartUnavailableError
from mbbq_gen.report.charts.drawing import short_names
from mbbq_gen.report.charts.marks import BarPanel, DotPanel, PlainNumber, draw_bars, draw_dots, draw_stacks
from mbbq_gen.report.charts.score_charts import BIAS_SOURCE, SUMMARY, command_of, key_columns, score_table
from mbbq_gen.report.conclusions import Interval
from mbbq_gen.report.score_tables import OUTCOME_TITLES
from mbbq_gen.report.tables import Cell, Column, DataTable, FlaggedNumber
from mbbq_gen.report.view_model import (
    BIAS_SIGN,
    MARK,
    METRIC_TITLES,
    Key,
    ScoreView,
    interval_caption,
    mark_of,
    metric_of,
    sentences,
    spoken,
)
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.hypothesis_tests import benjamini_hochberg

_METRICS = SUMMARY[1:]
_FACTOR_TITLES: dict[Factor, str] = {
    "variant": "prompt variant",
    "option_order": "option order",
    "label_style": "label style",
    "reasoning_effort": "reasoning effort",
    "language": "language",
}


def spread(answers: ScoreView, factor: Factor) -> Chart:
    """Scores under each wording, order or label style, beside each other."""
    what = _FACTOR_TITLES[factor]
    values = answers.values(factor, "bias")
    if len(values) < 2:
        raise ChartUnavailableError(f"needs answers to two or more values of {what}")
    rows_by = ("model", *answers.place_by)
    rows, by = answers.levels(rows_by), (*rows_by, factor)
    scores, levels = answers.scores(by, _METRICS), answers.levels(by)
    drawn = rows_by if len(answers.models) > 1 else answers.place_by
    panels = []
    for metric in _METRICS:
        dots: dict[tuple[int, int], Interval] = {
            (rows.keys.index(key[:-1]), values.index(key[-1])): found
            for key in levels.keys
            if key[-1] in values and (found := metric_of(scores.get(key), metric))
        }
        is_signed = METRICS[metric].low < 0
        panels.append(DotPanel(METRIC_TITLES[metric].capitalize(), is_signed, dots, None if is_signed else 1 / 3))
    return Chart(
        name=f"spread_{factor}",
        section="robustness",
        title=f"Scores by {what}",
        sees=_spread_text(answers, rows_by, scores, _METRICS[1:2]) or f"Nothing to count under two values of {what}.",
        alt=f"Dots with intervals, one for each {what}: {', '.join(values[:12])}. "
        f"{_spread_text(answers, rows_by, scores)}",
        caption=f"The same questions under each {what}. Where dots of a row lie apart, the {what} makes the score as "
        f"much as the model does. {BIAS_SOURCE} {BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=score_table(levels, scores, _METRICS),
        drawing=draw_dots(
            panels, short_names([" · ".join(key[-len(drawn) :]) for key in rows.keys]), short_names(values)
        ),
        command=command_of(by, _METRICS),
    )


def _spread_text(
    answers: ScoreView, rows_by: Sequence[str], scores: Mapping[Key, GroupScore], metrics: Sequence[str] = _METRICS
) -> str:
    """The widest range of each score within one row."""
    parts = []
    for metric in metrics:
        rows: dict[Key, list[float]] = {}
        for key, group in scores.items():
            value = group.metrics[metric].value
            if value is not None:
                rows.setdefault(key[:-1], []).append(value)
        if rows:
            widest = max(rows, key=lambda key: max(rows[key]) - min(rows[key]))
            low, high = min(rows[widest]), max(rows[widest])
            parts.append(
                f"{METRIC_TITLES[metric]} lies widest apart for {answers.spoken_key(rows_by, widest)}: "
                f"from {spoken(metric, low)} to {spoken(metric, high)}"
            )
    return sentences(parts)


def spread_variant(answers: ScoreView) -> Chart:
    """Scores by wording."""
    return spread(answers, "variant")


def spread_option_order(answers: ScoreView) -> Chart:
    """Scores by option order."""
    return spread(answers, "option_order")


def spread_label_style(answers: ScoreView) -> Chart:
    """Scores by label style."""
    return spread(answers, "label_style")


def spread_reasoning(answers: ScoreView) -> Chart:
    """Scores by how much the model was to think first."""
    return spread(answers, "reasoning_effort")


# --- places ----------------------------------------------------------------------------------------------------------


def position_preference(answers: ScoreView) -> Chart:
    """How much more often each place is chosen than the roles and the orders predict."""
    by = ("model", *answers.place_by)
    reports = [
        report for report in position_reports(answers.part("bias"), by, [], answers.sampling) if report.n_answers
    ]
    if not reports:
        raise ChartUnavailableError("no parsed answer chose a role")
    adjusted = benjamini_hochberg([report.test.p_value for report in reports])
    drawn = by if len(answers.models) > 1 else answers.place_by
    names = short_names([" · ".join(str(report.group[name]) for name in drawn) for report in reports])
    names = [f"{name} {mark_of(p_value)}".strip() for name, p_value in zip(names, adjusted, strict=True)]
    styles = _styles(reports)
    panels = []
    for style in styles:
        values: list[list[Interval | None]] = []
        for place in range(3):
            found = [
                next((one for one in report.places if (one.label_style, one.place) == (style, place)), None)
                for report in reports
            ]
            values.append([None if one is None else PlainNumber(one.preference) for one in found])
        title = "Preference" if len(styles) == 1 else f"Preference, labels {short_names([str(style)])[0]}"
        panels.append(BarPanel(title, values, is_signed=True))
    # Where places matter, and the place that is liked most of all.
    n_marked = sum(bool(mark_of(p_value)) for p_value in adjusted)
    whole, liked = max(((report, one) for report in reports for one in report.places), key=lambda it: it[1].preference)
    where = ", ".join(str(whole.group[part]) for part in drawn)
    return Chart(
        name="position_preference",
        section="position",
        title="Preference for a place among the options",
        sees=f"Places matter for sure in {n_marked} of {len(reports)}; liked most: place {liked.place + 1} in {where} "
        f"({liked.preference:+.2f}).",
        alt=f"Bars for each place. {_liked_text(reports, drawn)}",
        caption="Share of answers that chose each place, minus the share that the roles chosen and the orders shown "
        f"predict. Above 0: the place is liked, whatever stands there. {MARK}: places matter (p < 0.05; randomisation "
        "test, false discovery rate held over groups).",
        table=_place_table(by, reports, adjusted),
        drawing=draw_bars(panels, names, _place_names(reports)),
        command=f"mbbq-gen position-bias RUN --group-by {','.join((*by, 'split'))}",
    )


def _styles(reports: list[PositionReport]) -> list[str | None]:
    return list(dict.fromkeys(place.label_style for report in reports for place in report.places))


def _place_names(reports: list[PositionReport]) -> list[str]:
    """The places, with their labels where all answers had the same."""
    labels = {place.place: place.label for report in reports for place in report.places}
    order = ("1st", "2nd", "3rd")
    if len(_styles(reports)) > 1:
        return list(order)
    return [f"{order[place]}: {labels[place]}" if labels[place] != order[place] else order[place] for place in range(3)]


def _place_table(by: tuple[str, ...], reports: list[PositionReport], adjusted: list[float | None]) -> DataTable:
    columns = (
        *key_columns(by),
        Column("label_style", "label style"),
        Column("position", "position", "count"),
        Column("label", "label"),
        Column("chosen", "chosen", "count"),
        Column("share", "share", "share"),
        Column("expected", "expected", "share"),
        Column("preference", "preference", "score"),
        Column("p_adjusted", "p (adjusted)", "p_value"),
    )
    rows: list[tuple[Cell, ...]] = []
    for report, p_value in zip(reports, adjusted, strict=True):
        for one in report.places:
            rows.append(
                (
                    *(report.group[name] for name in by),
                    one.label_style,
                    one.place + 1,
                    one.label,
                    one.chosen,
                    one.share,
                    one.expected,
                    FlaggedNumber(one.preference, mark_of(p_value)),
                    p_value,
                )
            )
    return DataTable(columns, tuple(rows))


def _liked_text(reports: list[PositionReport], drawn: tuple[str, ...]) -> str:
    parts = []
    for report in reports[:12]:
        liked = max(report.places, key=lambda one: one.preference)
        name = ", ".join(str(report.group[part]) for part in drawn)
        parts.append(f"{name}: place {liked.place + 1} is liked most ({liked.preference:+.2f})")
    return "; ".join(parts) + ("; …" if len(reports) > 12 else "") + "."


# --- outcomes --------------------------------------------------------------------------------------------------------


def _least_read(worst: float | None, name: str) -> str:
    """Whether the answers could be read, and where least."""
    if worst is None:
        return "No response was had."
    if worst == 1:
        return "Every response was read."
    return f"Least was read of {name}: {whole_percent(worst)} of the responses."


def outcomes_by_language(answers: ScoreView) -> Chart:
    """How the answers were read, as stacks that add up to all answers."""
    by = ("model", *answers.place_by)
    splits: tuple[Split, ...] = ("bias", "control") if answers.has_control else ("bias",)
    outcome_groups = [
        (split, key, group)
        for split in splits
        for key, group in answers.scores(by, ("parse_rate",), split).items()
        if group.n_answers
    ]
    groups = sorted(outcome_groups, key=lambda found: (found[1], found[0]))
    if not groups:
        raise ChartUnavailableError("no answers")
    order: list[Outcome] = [outcome for outcome in OUTCOME_TITLES if outcome in get_args(Outcome)]
    shares = [[group.outcomes[outcome] / group.n_answers for outcome in order] for _, _, group in groups]
    drawn = by if len(answers.models) > 1 else answers.place_by
    names = [
        " · ".join((*key[-len(drawn) :], *(("control",) if split == "control" else ()))) for split, key, _ in groups
    ]
    gaps = [
        place for place in range(1, len(groups)) if groups[place][1] != groups[place - 1][1] and answers.has_control
    ]
    titles = [OUTCOME_TITLES[name] for name in order]
    used = [place for place in range(len(order)) if any(row[place] for row in shares)]
    read = [(name, group.metrics["parse_rate"].value) for name, (_, _, group) in zip(names, groups, strict=True)]
    worst = min((rate for _, rate in read if rate is not None), default=None)
    worst_name = next((name for name, rate in read if rate == worst), "")
    # Every outcome's count beside the share that was read.
    columns = (
        *key_columns(by),
        Column("split", "split"),
        Column("n_answers", "answers", "count"),
        Column("parse_rate", "parsed", "share"),
        *(Column(outcome, OUTCOME_TITLES[outcome], "count") for outcome in order),
    )
    rows = tuple(
        (*key, split, group.n_answers, group.metrics["parse_rate"].value, *(group.outcomes[name] for name in order))
        for split, key, group in groups
    )
    return Chart(
        name="outcomes_by_language",
        section="outcomes",
        title=f"How the answers were read, by {answers.where}",
        sees=_least_read(worst, worst_name),
        alt="Stacked bars of outcomes. "
        + ("" if worst is None else f"Least was read of {worst_name}: {whole_percent(worst)} of the responses. ")
        + f"Outcomes that occur: {', '.join(OUTCOME_TITLES[order[place]] for place in used)}.",
        caption="Share of the prompts by outcome. Option, says unknown and refuses are answers that were read; "
        "the others count as wrong for accuracy and, as a rule, not at all for bias.",
        table=DataTable(columns, rows),
        drawing=draw_stacks(shares, short_names(names, 36), titles, gaps=gaps, used=used),
        command=command_of(by, ("parse_rate",)) + " --json",
    )
