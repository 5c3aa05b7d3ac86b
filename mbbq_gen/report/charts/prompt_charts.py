"""Scores by prompt variant, option order and label style; position bias; how answers were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import get_args

from mbbq_gen.analysis.position import PositionReport, position_reports
from mbbq_gen.analysis.robustness import Factor
from mbbq_gen.analysis.scores import GroupScore
from mbbq_gen.core.records import Outcome, Split
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts.catalogue import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_charts import (
    BIAS_SOURCE,
    SUMMARY,
    PlainNumber,
    command_of,
    key_columns,
    score_panel,
    score_table,
)
from mbbq_gen.report.charts.score_view import (
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
from mbbq_gen.report.charts.vega import Panel, bars, dots, short_names, stacks
from mbbq_gen.report.score_tables import OUTCOME_TITLES
from mbbq_gen.report.tables import Cell, Column, FlaggedNumber, Interval, Table
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
    """Scores of each prompt variant, option order or label style."""
    what = _FACTOR_TITLES[factor]
    values = answers.values(factor, "bias")
    if len(values) < 2:
        raise ChartUnavailableError(f"needs answers to two or more values of {what}")
    rows_by = ("model", *answers.place_by)
    rows, by = answers.levels(rows_by), (*rows_by, factor)
    scores, levels = answers.scores(by, _METRICS), answers.levels(by)
    panels = [
        score_panel(
            metric,
            {
                (rows.keys.index(key[:-1]), values.index(key[-1])): found
                for key in levels.keys
                if key[-1] in values and (found := metric_of(scores.get(key), metric))
            },
        )
        for metric in _METRICS
    ]
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
        spec=dots(panels, short_names(answers.row_names(rows.keys)), short_names(values)),
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


spread_variant = partial(spread, factor="variant")
spread_option_order = partial(spread, factor="option_order")
spread_label_style = partial(spread, factor="label_style")
spread_reasoning = partial(spread, factor="reasoning_effort")


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
    keys = [tuple(str(report.group[name]) for name in by) for report in reports]
    names = short_names(answers.row_names(keys))
    names = [f"{name} {mark_of(p_value)}".strip() for name, p_value in zip(names, adjusted, strict=True)]
    styles = _styles(reports)
    panels = []
    for style in styles:
        values: dict[tuple[int, int], Interval] = {
            (row, one.place): PlainNumber(one.preference)
            for row, report in enumerate(reports)
            for one in report.places
            if one.label_style == style
        }
        title = "Preference" if len(styles) == 1 else f"Preference, labels {short_names([str(style)])[0]}"
        panels.append(Panel(title, values, is_signed=True))
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
        spec=bars(panels, names, _place_names(reports)),
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


def _place_table(by: tuple[str, ...], reports: list[PositionReport], adjusted: list[float | None]) -> Table:
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
    return Table(columns, tuple(rows))


def _liked_text(reports: list[PositionReport], drawn: tuple[str, ...]) -> str:
    parts = []
    for report in reports[:12]:
        liked = max(report.places, key=lambda one: one.preference)
        name = ", ".join(str(report.group[part]) for part in drawn)
        parts.append(f"{name}: place {liked.place + 1} is liked most ({liked.preference:+.2f})")
    return "; ".join(parts) + ("; …" if len(reports) > 12 else "") + "."


# --- outcomes --------------------------------------------------------------------------------------------------------


def outcomes_by_language(answers: ScoreView) -> Chart:
    """How the answers were read, as stacks that add up to all answers."""
    by = ("model", *answers.place_by)
    splits: tuple[Split, ...] = ("bias", "control") if answers.has_control else ("bias",)
    found = [
        (key, split, group)
        for split in splits
        for key, group in answers.scores(by, ("parse_rate",), split).items()
        if group.n_answers
    ]
    groups = sorted(found, key=lambda one: one[:2])
    if not groups:
        raise ChartUnavailableError("no answers")
    order: list[Outcome] = [outcome for outcome in OUTCOME_TITLES if outcome in get_args(Outcome)]
    shares = [[group.outcomes[outcome] / group.n_answers for outcome in order] for _, _, group in groups]
    whole = answers.row_names([key for key, _, _ in groups])
    ends = [" · control" if split == "control" else "" for _, split, _ in groups]
    names = [name + end for name, end in zip(whole, ends, strict=True)]
    rates = [(group.metrics["parse_rate"].value, name) for name, (_, _, group) in zip(names, groups, strict=True)]
    read = [(rate, name) for rate, name in rates if rate is not None]
    worst, worst_name = min(read, key=lambda pair: pair[0], default=(None, ""))
    titles = [OUTCOME_TITLES[name] for name in order]
    used = [title for place, title in enumerate(titles) if any(row[place] for row in shares)]
    least = "" if worst is None else f"Least was read of {worst_name}: {whole_percent(worst)} of the responses."
    return Chart(
        name="outcomes_by_language",
        section="outcomes",
        title=f"How the answers were read, by {answers.where}",
        sees="Every response was read." if worst == 1 else least or "No response was had.",
        alt=f"Stacked bars of outcomes. {least} Outcomes that occur: {', '.join(used)}.".replace("  ", " "),
        caption="Share of the prompts by outcome. Option, says unknown and refuses are answers that were read; "
        "the others count as wrong for accuracy and, as a rule, not at all for bias.",
        table=_outcome_table(by, groups, order),
        spec=stacks(shares, short_names(names, 36), titles),
        command=command_of(by, ("parse_rate",)) + " --json",
    )


def _outcome_table(
    by: Sequence[str], groups: Sequence[tuple[Key, Split, GroupScore]], order: Sequence[Outcome]
) -> Table:
    """Every outcome's count beside the share that was read."""
    columns = (
        *key_columns(by),
        Column("split", "split"),
        Column("n_answers", "answers", "count"),
        Column("parse_rate", "parsed", "share"),
        *(Column(outcome, OUTCOME_TITLES[outcome], "count") for outcome in order),
    )
    rows = tuple(
        (*key, split, group.n_answers, group.metrics["parse_rate"].value, *(group.outcomes[name] for name in order))
        for key, split, group in groups
    )
    return Table(columns, rows)
