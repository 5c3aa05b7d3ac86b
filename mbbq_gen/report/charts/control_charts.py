"""What models can do of the control set: MBBQ Fig. 2, and MBBQ Tables 3 and 5."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from mbbq_gen.analysis.ability import CHANCE, TemplateAbility, keep_templates, select_templates, template_ability
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_view import (
    LEVEL,
    MARK_CAPTION,
    Key,
    PlainNumber,
    ScoreView,
    key_columns,
    kind_of,
)
from mbbq_gen.report.charts.vega import Panel, bars, short_names
from mbbq_gen.report.tables import Cell, Column, FlaggedNumber, Table
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import template_expression
from mbbq_gen.statistics.hypothesis_tests import TestResult, equality_test, holm
from mbbq_gen.statistics.panel import make_panel

_TABLE_3 = {
    "accuracy_disambiguated": "AccD",
    "mbbq_bias_disambiguated": "BiasD",
    "accuracy_ambiguous": "AccA",
    "mbbq_bias_ambiguous": "BiasA",
}
_ACROSS_MARK = "†"
_ACROSS_CAPTION = (
    f"{_ACROSS_MARK}: differs across languages (p < {LEVEL:g}; test over templates, Holm over all models and columns "
    "of the table. MBBQ tests questions with Kruskal and Wallis's test; that takes questions of one template to be "
    "independent, and finds too much)."
)
UNBALANCED = (
    "Where biased and counter-biased contexts are not equally many, as in small samples, eq. 2 is not 0 for a perfect "
    "model."
)


def require_control(answers: ScoreView) -> None:
    """Raises ChartUnavailableError where there are no answers to control questions."""
    if not answers.has_control:
        raise ChartUnavailableError("needs answers to control questions; run with --splits bias,control")


def mbbq_figure_2(answers: ScoreView) -> Chart:
    """Of the control templates: on how many a model is above chance, and how accurate it is on those (MBBQ Fig. 2)."""
    require_control(answers)
    found: dict[Key, list[TemplateAbility]] = {}
    for ability in template_ability(answers.frame, answers.by):
        found.setdefault(tuple(value or "–" for value in ability.group.values()), []).append(ability)
    if not found:
        raise ChartUnavailableError("no answers to disambiguated control questions")
    shares = {key: sum(one.above_chance for one in abilities) / len(abilities) for key, abilities in found.items()}
    accuracy = {key: _accuracy_above(abilities) for key, abilities in found.items()}
    places = list(answers.levels(answers.place_by, "control"))
    # English where it is there, as in MBBQ, else the first.
    first = next((place for place in places if place[-1] == "en"), places[0])
    models = sorted(answers.models, key=lambda model: -(accuracy.get((model, *first)) or 0.0))
    rows, series = short_names(models), short_names([" · ".join(place) for place in places])
    cells = {
        (row, name): (model, *place)
        for row, model in zip(rows, models, strict=True)
        for name, place in zip(series, places, strict=True)
    }
    values = [(*cell, PlainNumber(shares[key])) for cell, key in cells.items() if key in shares]
    diamonds = {cell: accuracy.get(key) for cell, key in cells.items()}
    panel = Panel("Control templates above chance", values, is_signed=False, line=CHANCE, diamonds=diamonds)
    spoken = {key: answers.spoken_key(answers.by, key) for key in shares}
    said = [f"{spoken[key]}: {whole_percent(share)}" for key, share in shares.items()]
    low, high = min(shares, key=lambda key: shares[key]), max(shares, key=lambda key: shares[key])
    ends = [f"{whole_percent(shares[key])} ({spoken[key]})" for key in (low, high)]
    if shares[low] == shares[high]:
        sees = f"Above chance on {whole_percent(shares[low])} of the templates throughout."
    else:
        sees = f"Above chance on {ends[0]} to {ends[1]} of the templates."
    columns = key_columns(
        answers.by,
        n_templates=("control templates", "count"),
        share_above_chance=("share above chance", "share"),
        accuracy_above_chance=("accuracy on those", "share"),
    )
    table = ((*key, len(found[key]), shares[key], accuracy[key]) for key in cells.values() if key in found)
    return Chart(
        title="Control templates above chance (MBBQ Fig. 2)",
        sees=sees,
        alt=f"Bars by model and {answers.where}: share of control templates on which the model is above chance. "
        f"{'; '.join(said[:12])}{'; …' if len(said) > 12 else ''}.",
        caption="The shape of MBBQ Fig. 2: share of the control templates on which a model is above chance (more "
        "than a third right, disambiguated contexts), and, as diamonds, its accuracy on those. Dashed: a third. Models "
        f"in the order of their accuracy in {' · '.join(first)}.",
        table=Table(tuple(columns), tuple(table)),
        spec=bars([panel], rows, series),
        command=f"mbbq-gen score RUN --group-by {','.join((*answers.by, 'split'))} --metric accuracy_disambiguated",
    )


def _accuracy_above(abilities: Sequence[TemplateAbility]) -> float | None:
    """Mean accuracy over questions of the templates above chance; None where there are none."""
    able = [one for one in abilities if one.above_chance]
    n_questions = sum(one.n_questions for one in able)
    return sum(one.accuracy * one.n_questions for one in able) / n_questions if n_questions else None


# --- the templates that a model can do -------------------------------------------------------------------------------


def able_answers(answers: ScoreView) -> tuple[ScoreView, str]:
    """The answers on the templates on which each model is above chance in all its languages; how many those are.

    As `mbbq-gen compare --across language --within model --select above-chance` keeps them (MBBQ §5.2).

    Raises:
        ChartUnavailableError: where there is no control set, or nothing is kept.
    """
    import polars as pl

    require_control(answers)
    kept, counted = [answers.frame.clear()], []
    for model, name in zip(answers.models, short_names(answers.models), strict=True):
        frame = answers.frame.filter(pl.col("model").cast(pl.String) == model)
        bias = frame.filter(pl.col("split").cast(pl.String) == "bias")
        templates = bias.select(template_expression()).to_series().unique().to_list()
        try:
            selection = select_templates(template_ability(frame, answers.place_by), templates)
        except UsageError:
            counted.append(f"{name} has no disambiguated control questions")
            continue
        counted.append(f"{name} {selection.n_kept} of {selection.n_templates}")
        kept.append(keep_templates(frame, selection.kept))
    able = ScoreView(pl.concat(kept), answers.sampling)
    if able.part("bias").is_empty():
        raise ChartUnavailableError(
            "no template of the control set on which a model is above chance in every language (MBBQ §5.2)"
        )
    return able, "; ".join(counted)


def across_languages(answers: ScoreView, model: str, metric: str) -> TestResult | None:
    """Does a score of a model differ across languages? Over templates (`equality_test`).

    None for one language, and where one has fewer templates than a test needs.
    """
    import polars as pl

    frame = answers.frame.filter(pl.col("model").cast(pl.String) == model)
    panel = make_panel(frame, answers.place_by, answers.sampling)
    if len(panel.groups) < 2:
        return None
    hypothesis = f"{metric} does not differ across languages"
    found = equality_test(panel.estimates(METRICS[metric]), hypothesis, answers.sampling)
    return None if found.reason_code == "too_few_templates" else found


def _across_marks(answers: ScoreView, metrics: Sequence[str]) -> dict[tuple[str, str], str]:
    """Model and metric → the mark of a difference across languages; p adjusted over all of them (Holm)."""
    cells = list(product(answers.models, metrics))
    tests = [across_languages(answers, model, metric) for model, metric in cells]
    adjusted = holm([None if test is None else test.p_value for test in tests])
    return {cell: _ACROSS_MARK if p is not None and p < LEVEL else "" for cell, p in zip(cells, adjusted, strict=True)}


def mbbq_table_3(answers: ScoreView) -> Chart:
    """Accuracy and bias by model and language on the templates that each model can do (MBBQ Table 3)."""
    able, counted = able_answers(answers)
    found = able.scored(able.by, list(_TABLE_3), is_tested=True)
    across = _across_marks(ScoreView(able.part("bias"), able.sampling), list(_TABLE_3))
    columns = key_columns(able.by, n_templates=("#T", "count"))
    for metric, title in _TABLE_3.items():
        over = "disambiguated" if title[-1] == "D" else "ambiguous"
        columns.append(Column(metric, title, kind_of(metric), over=over))
    rows: list[tuple[Cell, ...]] = []
    for key, group in found.groups.items():
        marks = {metric: found.mark(key, metric) + across[key[0], metric] for metric in _TABLE_3}
        cells = (FlaggedNumber(found.value(key, metric), mark) for metric, mark in marks.items())
        rows.append((*key, group.n_templates, *cells))
    return Chart(
        title="Accuracy and bias on the templates that a model can do (MBBQ Table 3)",
        sees=found.bias_takeaway("mbbq_bias_ambiguous"),
        alt=f"A table. {found.alt(is_tested=False)}",
        caption="MBBQ Table 3, turned on its side: accuracy and bias in disambiguated (D) and ambiguous (A) contexts, "
        f"on the templates (#T) on which a model is above chance in every language. Templates kept: {counted}. "
        f"{UNBALANCED} {MARK_CAPTION} {_ACROSS_CAPTION}",
        table=Table(tuple(columns), tuple(rows)),
        spec=None,
        command="mbbq-gen report RUN --table mbbq-3",
    )


def mbbq_table_5(answers: ScoreView) -> Chart:
    """Accuracy on the control set by model and language in both conditions (MBBQ Table 5)."""
    require_control(answers)
    metrics = ("accuracy_disambiguated", "accuracy_ambiguous")
    found, parsing = (answers.scored(answers.by, names, "control") for names in (metrics, ("parse_rate",)))
    across = _across_marks(ScoreView(answers.part("control"), answers.sampling), metrics)
    columns = key_columns(
        answers.by,
        n_templates=("templates", "count"),
        accuracy_disambiguated=("AccD", "share"),
        accuracy_ambiguous=("AccA", "share"),
        parse_rate=("parsed", "share"),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *key,
            group.n_templates,
            *(FlaggedNumber(found.value(key, metric), across[key[0], metric]) for metric in metrics),
            parsing.value(key, "parse_rate"),
        )
        for key, group in found.groups.items()
    )
    return Chart(
        title="Accuracy on the control set (MBBQ Table 5)",
        sees=found.extremes(metrics[0]),
        alt=f"A table. {found.alt()}",
        caption="The shape of MBBQ Table 5: accuracy on control questions in disambiguated (D) and ambiguous (A) "
        f"contexts; parsed: answers that could be parsed. {_ACROSS_CAPTION}",
        table=Table(tuple(columns), rows),
        spec=None,
        command="mbbq-gen report RUN --table mbbq-5",
    )
