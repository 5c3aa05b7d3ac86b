"""What the control set tells: bias beside it, MBBQ Fig. 2, and MBBQ Tables 3 and 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from mbbq_gen.analysis.ability import CHANCE, TemplateAbility, keep_templates, select_templates, template_ability
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts.catalogue import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_charts import (
    SUMMARY,
    PlainNumber,
    bias_takeaway,
    command_of,
    extremes,
    key_columns,
    score_panel,
    score_table,
    summary_alt,
)
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    LEVEL,
    MARK_CAPTION,
    Key,
    ScoreView,
    interval_caption,
    kind_of,
    mark_of,
    metric_of,
    value_of,
)
from mbbq_gen.report.charts.vega import Panel, bars, dots, short_names
from mbbq_gen.report.tables import Cell, Column, FlaggedNumber, Table
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import template_expression
from mbbq_gen.statistics.hypothesis_tests import TestResult, equality_test, holm
from mbbq_gen.statistics.panel import make_panel

NEEDS_CONTROL = "needs answers to control questions; run with --splits bias,control"


def _require_control(answers: ScoreView) -> None:
    if not answers.has_control:
        raise ChartUnavailableError(NEEDS_CONTROL)


def control_and_bias(answers: ScoreView) -> Chart:
    """Accuracy and bias on the benchmark beside the same on the control questions."""
    _require_control(answers)
    by = ("model", *answers.place_by)
    splits = {"bias": answers.scores(by, SUMMARY), "control": answers.scores(by, SUMMARY, "control")}
    levels = answers.levels(by)
    panels = [
        score_panel(
            metric,
            {
                (row, place): found
                for place, scores in enumerate(splits.values())
                for row, key in enumerate(levels.keys)
                if (found := metric_of(scores.get(key), metric))
            },
        )
        for metric in SUMMARY
    ]
    tables = {split: score_table(levels, scores, SUMMARY) for split, scores in splits.items()}
    columns = (Column("split", "split"), *tables["bias"].columns)
    rows = tuple((split, *row) for split, table in tables.items() for row in table.rows)
    return Chart(
        name="control_and_bias",
        section="control",
        title="The benchmark beside its control set",
        sees="On the control questions, which name no group: "
        + bias_takeaway(answers, by, splits["control"], SUMMARY[2]),
        alt=f"Dots with intervals, the benchmark and the control set of each row beside each other. "
        f"Of the control set: {summary_alt(answers, levels, splits['control'], SUMMARY)}",
        caption="The control set asks the same questions with first names in the groups' place. A bias that is as "
        "large there is not about the groups; a model that guesses there (dashed) can't do the task. "
        f"{BIAS_SIGN} {interval_caption(answers.sampling)}",
        table=Table(columns, rows),
        spec=dots(panels, short_names(answers.row_names(levels.keys)), ["benchmark", "control set"]),
        command=command_of(by, SUMMARY, " --control-adjusted"),
    )


# --- MBBQ Fig. 2 -----------------------------------------------------------------------------------------------------


def mbbq_figure_2(answers: ScoreView) -> Chart:
    """Of the control templates: on how many a model is above chance, and how accurate it is on those (MBBQ Fig. 2)."""
    _require_control(answers)
    by = ("model", *answers.place_by)
    found: dict[Key, list[TemplateAbility]] = {}
    for ability in template_ability(answers.frame, by):
        found.setdefault(tuple(value or "–" for value in ability.group.values()), []).append(ability)
    if not found:
        raise ChartUnavailableError("no answers to disambiguated control questions")
    places = list(answers.levels(answers.place_by, "control").keys)
    shares = {key: sum(one.above_chance for one in abilities) / len(abilities) for key, abilities in found.items()}
    accuracy = {key: _accuracy_above(abilities) for key, abilities in found.items()}
    models = sorted(answers.models, key=lambda model: -_order_of(model, places, accuracy))
    rows = [
        (model, *place, len(found[model, *place]), shares[model, *place], accuracy[model, *place])
        for model in models
        for place in places
        if (model, *place) in found
    ]
    cells = {(row, column): (model, *place) for row, model in enumerate(models) for column, place in enumerate(places)}
    values = {cell: PlainNumber(shares[key]) for cell, key in cells.items() if key in shares}
    diamonds = {cell: accuracy.get(key) for cell, key in cells.items()}
    panel = Panel("Control templates above chance", values, is_signed=False, line=CHANCE, diamonds=diamonds)
    spoken = [f"{answers.spoken_key(by, key)}: {whole_percent(share)}" for key, share in shares.items()]
    names = short_names([" · ".join(place) for place in places])
    columns = (
        *key_columns(by),
        Column("n_templates", "control templates", "count"),
        Column("share_above_chance", "share above chance", "share"),
        Column("accuracy_above_chance", "accuracy on those", "share"),
    )
    return Chart(
        name="mbbq_figure_2",
        section="control",
        title="Control templates above chance (MBBQ Fig. 2)",
        sees=_fewest(answers, by, shares),
        alt=f"Bars by model and {answers.where}: share of control templates on which the model is above chance. "
        f"{'; '.join(spoken[:12])}{'; …' if len(spoken) > 12 else ''}.",
        caption="The shape of MBBQ Fig. 2: share of the control templates on which a model is above chance (more "
        "than a third right, disambiguated contexts), and, as diamonds, its accuracy on those. Dashed: a third. Models "
        f"in the order of their accuracy in {_first_place(places)}.",
        table=Table(columns, tuple(rows)),
        spec=bars([panel], short_names(models), names),
        command=command_of(by, ("accuracy_disambiguated",)),
    )


def _accuracy_above(abilities: Sequence[TemplateAbility]) -> float | None:
    """Mean accuracy over questions of the templates above chance; None where there are none."""
    able = [one for one in abilities if one.above_chance]
    n_questions = sum(one.n_questions for one in able)
    return sum(one.accuracy * one.n_questions for one in able) / n_questions if n_questions else None


def _first_place(places: Sequence[Key]) -> str:
    """English where it is there, as in MBBQ, else the first."""
    english = [place for place in places if place[-1] == "en"]
    return " · ".join((english or list(places))[0])


def _order_of(model: str, places: Sequence[Key], accuracy: Mapping[Key, float | None]) -> float:
    wanted = next(place for place in places if " · ".join(place) == _first_place(places))
    return accuracy.get((model, *wanted)) or 0.0


# --- the templates that a model can do -------------------------------------------------------------------------------


def able_answers(answers: ScoreView) -> tuple[ScoreView, str]:
    """The answers on the templates on which each model is above chance in all its languages; how many those are.

    As `mbbq-gen compare --across language --within model --select above-chance` keeps them (MBBQ §5.2).

    Raises:
        ChartUnavailableError: where there is no control set, or nothing is kept.
    """
    import polars as pl

    _require_control(answers)
    kept_frames, counted = [], []
    for model, name in zip(answers.models, short_names(answers.models), strict=True):
        frame = answers.frame.filter(pl.col("model").cast(pl.String) == model)
        bias = frame.filter(pl.col("split").cast(pl.String) == "bias")
        templates = bias.select(template_expression()).to_series().unique().to_list()
        try:
            selection = select_templates(template_ability(frame, answers.place_by), templates, "above-chance")
        except UsageError:
            counted.append(f"{name} has no disambiguated control questions")
            continue
        counted.append(f"{name} {selection.n_kept} of {selection.n_templates}")
        kept_frames.append(keep_templates(frame, selection.kept))
    kept = pl.concat(kept_frames) if kept_frames else answers.frame.clear()
    if not kept.filter(pl.col("split").cast(pl.String) == "bias").height:
        raise ChartUnavailableError(
            "no template of the control set on which a model is above chance in every language (MBBQ §5.2)"
        )
    return ScoreView(kept, answers.sampling), "; ".join(counted)


# --- MBBQ's tables ---------------------------------------------------------------------------------------------------

_TABLE_3 = (
    ("AccD", "accuracy_disambiguated"),
    ("BiasD", "mbbq_bias_disambiguated"),
    ("AccA", "accuracy_ambiguous"),
    ("BiasA", "mbbq_bias_ambiguous"),
)
_CONDITIONS = {"D": "disambiguated", "A": "ambiguous"}
ACROSS_MARK = "†"
UNBALANCED = (
    "Where biased and counter-biased contexts are not equally many, as in small samples, eq. 2 is not 0 for a perfect "
    "model."
)


def _fewest(answers: ScoreView, by: Sequence[str], shares: Mapping[Key, float]) -> str:
    """Between which shares the models can do the templates."""
    low, high = min(shares, key=lambda key: shares[key]), max(shares, key=lambda key: shares[key])
    if shares[low] == shares[high]:
        return f"Above chance on {whole_percent(shares[low])} of the templates throughout."
    named = [f"{whole_percent(shares[key])} ({answers.spoken_key(by, key)})" for key in (low, high)]
    return f"Above chance on {named[0]} to {named[1]} of the templates."


def across_languages(answers: ScoreView, model: str, metric: str) -> TestResult | None:
    """Does a score of a model differ across languages? Over templates (`equality_test`).

    None for one language, and where one has fewer templates than a test needs.
    """
    import polars as pl

    frame = answers.frame.filter(pl.col("model").cast(pl.String) == model)
    panel = make_panel(frame, answers.place_by, answers.sampling)
    if len(panel.groups) < 2:
        return None
    found = equality_test(
        panel.estimates(METRICS[metric]), f"{metric} does not differ across languages", answers.sampling
    )
    return None if found.reason_code == "too_few_templates" else found


def _across_marks(answers: ScoreView, metrics: Sequence[str]) -> dict[tuple[str, str], str]:
    """Model and metric → the mark of a difference across languages; p adjusted over all of them (Holm)."""
    cells = list(product(answers.models, metrics))
    tests = [across_languages(answers, model, metric) for model, metric in cells]
    adjusted = holm([None if test is None else test.p_value for test in tests])
    return {cell: ACROSS_MARK if p is not None and p < LEVEL else "" for cell, p in zip(cells, adjusted, strict=True)}


_ACROSS_CAPTION = (
    f"{ACROSS_MARK}: differs across languages (p < {LEVEL:g}; test over templates, Holm over all models and columns of "
    "the table. MBBQ tests questions with Kruskal and Wallis's test; that takes questions of one template to be "
    "independent, and finds too much)."
)


def mbbq_table_3(answers: ScoreView) -> Chart:
    """Accuracy and bias by model and language on the templates that each model can do (MBBQ Table 3)."""
    able, counted = able_answers(answers)
    by = ("model", *able.place_by)
    metrics = tuple(metric for _, metric in _TABLE_3)
    scores = able.scores(by, metrics)
    levels = able.levels(by)
    bias = ScoreView(able.part("bias"), able.sampling)
    across = _across_marks(bias, metrics)
    tests = {metric: able.p_values(by, metric) for metric in metrics if METRICS[metric].low < 0}
    columns = [*key_columns(by), Column("n_templates", "#T", "count")]
    for title, metric in _TABLE_3:
        columns.append(Column(metric, title, kind_of(metric), over=_CONDITIONS[title[-1]]))
    rows: list[tuple[Cell, ...]] = []
    for key in levels.keys:
        cells: list[Cell] = [
            FlaggedNumber(value_of(scores[key], m), mark_of(tests.get(m, {}).get(key)) + across[key[0], m])
            for m in metrics
        ]
        rows.append((*key, scores[key].n_templates, *cells))
    return Chart(
        name="mbbq_table_3",
        section="papers",
        title="Accuracy and bias on the templates that a model can do (MBBQ Table 3)",
        sees=bias_takeaway(answers, by, scores, _TABLE_3[-1][1]),
        alt=f"A table. {summary_alt(answers, levels, scores, metrics)}",
        caption="MBBQ Table 3, turned on its side: accuracy and bias in disambiguated (D) and ambiguous (A) contexts, "
        f"on the templates (#T) on which a model is above chance in every language. Templates kept: {counted}. "
        f"{UNBALANCED} {MARK_CAPTION} {_ACROSS_CAPTION}",
        table=Table(tuple(columns), tuple(rows)),
        spec=None,
        command="mbbq-gen report RUN --table mbbq-3",
    )


def mbbq_table_5(answers: ScoreView) -> Chart:
    """Accuracy on the control set by model and language in both conditions (MBBQ Table 5)."""
    _require_control(answers)
    metrics = ("accuracy_disambiguated", "accuracy_ambiguous")
    by = ("model", *answers.place_by)
    scores, levels = answers.scores(by, metrics, "control"), answers.levels(by, "control")
    control = ScoreView(answers.part("control"), answers.sampling)
    across = _across_marks(control, metrics)
    columns = [
        *key_columns(by),
        Column("n_templates", "templates", "count"),
        Column(metrics[0], "AccD", "share"),
        Column(metrics[1], "AccA", "share"),
        Column("parse_rate", "parsed", "share"),
    ]
    parsing = answers.scores(by, ("parse_rate",), "control")
    rows = [
        (
            *key,
            scores[key].n_templates,
            *(FlaggedNumber(value_of(scores[key], metric), across[key[0], metric]) for metric in metrics),
            value_of(parsing[key], "parse_rate"),
        )
        for key in levels.keys
    ]
    return Chart(
        name="mbbq_table_5",
        section="papers",
        title="Accuracy on the control set (MBBQ Table 5)",
        sees=extremes(answers, by, {key: value_of(scores[key], metrics[0]) for key in levels.keys}, metrics[0]),
        alt=f"A table. {summary_alt(answers, levels, scores, metrics)}",
        caption="The shape of MBBQ Table 5: accuracy on control questions in disambiguated (D) and ambiguous (A) "
        f"contexts; parsed: answers that could be parsed. {_ACROSS_CAPTION}",
        table=Table(tuple(columns), tuple(rows)),
        spec=None,
        command="mbbq-gen report RUN --table mbbq-5",
    )
