"""The functions of `CHARTS`, which have the charts' names."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

from mbbq_gen.analysis.position import position_reports
from mbbq_gen.analysis.robustness import EffectTable, Factor, effect_table
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts import Chart, ChartUnavailableError, vega
from mbbq_gen.report.charts.score_view import BIAS_SIGN, BIAS_SOURCE, MARK, SUMMARY, ScoreView, mark_of
from mbbq_gen.report.charts.vega import Row, dots, fields_of, number_text, row_names, table_of, title_of
from mbbq_gen.report.conclusions import AMBIGUOUS
from mbbq_gen.report.tables import DASH, LINK, OUTCOME_TITLES
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.hypothesis_tests import benjamini_hochberg

# --- languages and splits --------------------------------------------------------------------------------------------


def scores_by_language(view: ScoreView) -> Chart:
    """Accuracy and bias of every language and model, with intervals."""
    found = view.scored(view.by, SUMMARY)
    caption = f"Accuracy (dashed: guessing) and bias. {BIAS_SOURCE} {BIAS_SIGN} {view.interval_caption}"
    lines, series = (["model"], "language") if view.has_one_place else (view.place_by, "model")
    spec = dots(found.rows, SUMMARY, lines, series)
    return found.chart(f"Accuracy and bias by {view.where}", caption, spec)


def control_and_bias(view: ScoreView) -> Chart:
    """Accuracy and bias on the benchmark and on the control questions."""
    view.require_control()
    bias, control = view.scored(view.by, SUMMARY), view.scored(view.by, SUMMARY, "control")
    rows = [{"split": split, **row} for split, found in (("bias", bias), ("control", control)) for row in found.rows]
    return Chart(
        title="The benchmark beside its control set",
        finding=f"On the control questions, which name no group: {control.finding()}",
        caption="The control set asks the same questions with first names in the groups' place. A bias that is as "
        "large there is not about the groups; a model that guesses there (dashed) can't do the task. "
        f"{BIAS_SIGN} {view.interval_caption}",
        table=table_of(rows),
        spec=dots(rows, SUMMARY, view.by, "split"),
        command=bias.command(" --control-adjusted"),
    )


# --- prompts ---------------------------------------------------------------------------------------------------------

_CHANGING = SUMMARY[1:]


def spread(view: ScoreView, factor: Factor) -> Chart:
    """Scores of each prompt variant, option order, label style or reasoning effort."""
    title = factor.replace("_", " ")
    if len(view.values(factor, "bias")) < 2:
        raise ChartUnavailableError(f"needs answers to two or more values of {title}")
    found = view.scored((*view.by, factor), _CHANGING)
    rows, ranges = found.rows, dict[str, list[float]]()
    for name, row in zip(row_names(rows, view.by), rows, strict=True):
        if row[AMBIGUOUS] is not None:
            ranges.setdefault(name, []).append(row[AMBIGUOUS])
    finding = f"Nothing to count under two values of {title}."
    if ranges:
        widest = max(ranges, key=lambda name: max(ranges[name]) - min(ranges[name]))
        low, high = (number_text(AMBIGUOUS, end(ranges[widest])) for end in (min, max))
        finding = f"{title_of(AMBIGUOUS)} lies widest apart for {widest}: from {low} to {high}."
    caption = (
        f"The same questions under each {title}. Where dots of a row lie apart, the {title} makes the "
        f"score as much as the model does. {BIAS_SOURCE} {BIAS_SIGN} {view.interval_caption}"
    )
    return found.chart(f"Scores by {title}", caption, dots(rows, _CHANGING, view.by, factor), finding=finding)


spread_variant = partial(spread, factor="variant")
spread_option_order = partial(spread, factor="option_order")
spread_label_style = partial(spread, factor="label_style")
spread_reasoning_effort = partial(spread, factor="reasoning_effort")


def effects_of_axes(view: ScoreView) -> Chart:
    """The main effect of every level of every prompt axis, with a colour for each language."""
    if len(view.models) != 1:
        raise ChartUnavailableError("shows one model; make it for each run separately")
    rows: dict[tuple[str, ...], Row] = {}
    strongest: list[str] = []
    for metric in _CHANGING:
        found = effect_table(view.part("bias"), METRICS[metric], view.sampling)
        if not isinstance(found, EffectTable):
            raise ChartUnavailableError(found or "needs prompt variants composed with run --axes")
        field = f"{vega.CHANGE}{metric}"
        for effect in (*found.main, *found.by_language):
            key = (*effect.axes, *effect.levels, *effect.against, effect.language or "all languages")
            row = rows.setdefault(key, dict(zip(("axis", "level", "against", "language"), key, strict=True)))
            row |= fields_of(field, effect.difference) | {f"{field}_p_adjusted": effect.test.p_adjusted}
        largest = max(found.main, key=lambda effect: abs(effect.difference.value or 0.0))
        size, cause = number_text(field, largest.difference.value), f"{largest.axes[0]} {largest.levels[0]}"
        strongest.append(f"{title_of(metric)} changes most with {cause}: {size}.")
    data = list(rows.values())
    return Chart(
        title="Effects of the prompt axes",
        finding=" ".join(strongest),
        caption="How much each score changes with a level of an axis, against the first level of that axis, over all "
        f"levels of the others. {BIAS_SIGN} {view.interval_caption}",
        table=table_of(data),
        spec=dots(data, [f"{vega.CHANGE}{name}" for name in _CHANGING], ("axis", "level"), "language"),
        command="mbbq-gen robustness RUN",
    )


# --- positions and outcomes ------------------------------------------------------------------------------------------


def position_preference(view: ScoreView) -> Chart:
    """Position bias: the share of each place minus the share that roles and option orders predict."""
    reports = [one for one in position_reports(view.part("bias"), view.by, [], view.sampling) if one.n_answers]
    if not reports:
        raise ChartUnavailableError("no parsed answer chose a role")
    adjusted = benjamini_hochberg([report.test.p_value for report in reports])
    rows: list[Row] = []
    for report, p_value in zip(reports, adjusted, strict=True):
        for one in report.places:
            fields = {**report.group, **one.model_dump(), "place": ("1st", "2nd", "3rd")[one.place]}
            row: Row = {name: DASH if value is None else value for name, value in fields.items()}
            rows.append(row | {"p_adjusted": p_value, "differs": mark_of(p_value)})
    lines = (*view.by, "label_style", "differs")
    largest, name = max(zip(rows, row_names(rows, lines[:-1]), strict=True), key=lambda pair: pair[0]["preference"])
    most = f"{largest['place']} place in {name} ({number_text('preference', largest['preference'])})"
    n_marked = sum(bool(mark_of(p_value)) for p_value in adjusted)
    return Chart(
        title="Preference for a place among the options",
        finding=f"Places matter for sure in {n_marked} of {len(reports)}; liked most: {most}.",
        caption="Share of answers that chose each place, minus the share that the roles chosen and the orders shown "
        f"predict. Above 0: the place is liked, whatever stands there. {MARK}: places matter (p < 0.05; randomisation "
        "test, false discovery rate held over groups).",
        table=table_of(rows),
        spec=dots(rows, ["preference"], lines, "place"),
        command=f"mbbq-gen position-bias RUN --group-by {','.join((*view.by, 'split'))}",
    )


def outcomes_by_language(view: ScoreView) -> Chart:
    """Shares of the outcomes of the extraction, as stacked bars."""
    rows: list[Row] = []
    for split in ("bias", "control"):
        if split in view.values("split"):
            found = view.scored(view.by, ("parse_rate",), split)
            for row, group in zip(found.rows, found.groups, strict=True):
                if group.n_answers:
                    rows.append({"split": split, **row, **{name: group.outcomes[name] for name in OUTCOME_TITLES}})
    if not rows:
        raise ChartUnavailableError("no answers")
    rows.sort(key=lambda row: [row[name] for name in view.by])
    lines = (*view.by, "split")
    least, name = min(zip(rows, row_names(rows, lines), strict=True), key=lambda pair: pair[0]["parse_rate"])
    return Chart(
        title=f"How the answers were read, by {view.where}",
        finding=f"Least often read: {name}, {whole_percent(least['parse_rate'])} of the answers.",
        caption="Share of the prompts by outcome. Option, abstention and refusal are answers that were read; "
        "the others count as wrong for accuracy and, as a rule, not at all for bias.",
        table=table_of(rows),
        spec=vega.stacked_shares(rows, lines),
        command=found.command(" --json"),
    )


# --- categories ------------------------------------------------------------------------------------------------------


def bias_by_category(view: ScoreView) -> Chart:
    """Heat maps of bias by category and language for each model and condition; if there is one language, by model."""
    if len(view.values("category", "bias")) < 2:
        raise ChartUnavailableError("needs two or more categories")
    metrics = SUMMARY[2:]
    found = view.scored((*view.by, "category"), metrics, is_tested=True)
    cells: list[Row] = []
    for row, group in zip(found.rows, found.groups, strict=True):
        for metric in metrics:
            fields = {name: row[name] for name in found.by} | {"split": "bias", "condition": metric.rpartition("_")[2]}
            cell = {**fields, "metric": title_of(metric), "value": row[metric]}
            cell["text"] = number_text(metric, row[metric]) + mark_of(row[f"{metric}_p_adjusted"])
            cell["has_few"] = group.metrics[metric].n_templates < MIN_TEMPLATES
            cell |= {"href": LINK + urlencode(fields), "label": f"Answers of {', '.join(fields.values())}"}
            cells.append(cell)
    caption = (
        f"{BIAS_SOURCE} All templates. {BIAS_SIGN} {MARK}: differs from 0 (p < 0.05 by the interval over templates; "
        "false discovery rate held over all cells). A dash: undefined; a number without a colour stands on fewer than "
        f"{MIN_TEMPLATES} templates."
    )
    columns, maps = (["model"], view.place_by) if view.has_one_place else (view.place_by, ["model"])
    title = f"Bias by category and {view.where}"
    return found.chart(title, caption, vega.heat_maps(cells, columns, maps), more=" --tests")
