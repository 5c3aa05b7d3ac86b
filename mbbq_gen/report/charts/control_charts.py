"""What models can do of the control set: MBBQ Fig. 2, and MBBQ Tables 3 and 5."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from mbbq_gen.analysis.ability import CHANCE, TemplateAbility, keep_templates, select_templates, template_ability
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_view import (
    LEVEL,
    MARK_CAPTION,
    Key,
    PlainNumber,
    ScoreSet,
    ScoreView,
    key_columns,
    key_names,
    kind_of,
)
from mbbq_gen.report.charts.vega import Panel, bars, datum, short_names
from mbbq_gen.report.tables import Cell, FlaggedNumber, Table
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import template_expression
from mbbq_gen.statistics.hypothesis_tests import TestResult, equality_test, holm
from mbbq_gen.statistics.panel import make_panel

if TYPE_CHECKING:
    import polars

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
    shares, accuracy = {}, {}
    for key, abilities in found.items():
        above = [one for one in abilities if one.above_chance]
        shares[key], n_questions = len(above) / len(abilities), sum(one.n_questions for one in above)
        right = sum(one.accuracy * one.n_questions for one in above)
        accuracy[key] = right / n_questions if n_questions else None
    places = key_names(key[1:] for key in found)
    # English where it is there, as in MBBQ, else the first.
    first = next((place for place in places if place[-1] == "en"), next(iter(places)))
    models = sorted(answers.models, key=lambda model: -(accuracy.get((model, *first)) or 0.0))
    rows = dict(zip(models, short_names(models), strict=True))
    keys = [key for model in models for place in places if (key := (model, *place)) in found]
    values = [datum(rows[key[0]], places[key[1:]], PlainNumber(shares[key]), diamond=accuracy[key]) for key in keys]
    spoken = sorted((shares[key], answers.spoken_key(answers.by, key)) for key in keys)
    sees = " to ".join(f"{whole_percent(share)} ({name})" for share, name in dict.fromkeys((spoken[0], spoken[-1])))
    columns = key_columns(
        answers.by,
        n_templates=("control templates", "count"),
        share_above_chance=("share above chance", "share"),
        accuracy_above_chance=("accuracy on those", "share"),
    )
    return Chart(
        title="Control templates above chance (MBBQ Fig. 2)",
        sees=f"Above chance on {sees} of the templates.",
        alt=f"Bars by model and {answers.where}, the share of control templates above chance: {sees}.",
        caption="The shape of MBBQ Fig. 2: share of the control templates on which a model is above chance (more "
        "than a third right, disambiguated contexts), and, as diamonds, its accuracy on those. Dashed: a third. Models "
        f"in the order of their accuracy in {' · '.join(first)}.",
        table=Table(tuple(columns), tuple((*key, len(found[key]), shares[key], accuracy[key]) for key in keys)),
        spec=bars(
            [Panel("Control templates above chance", values, line=CHANCE)], list(rows.values()), [*places.values()]
        ),
        command=f"mbbq-gen score RUN --group-by {','.join((*answers.by, 'split'))} --metric accuracy_disambiguated",
    )


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


def mbbq_table_3(answers: ScoreView) -> Chart:
    """Accuracy and bias by model and language on the templates that each model can do (MBBQ Table 3)."""
    able, counted = able_answers(answers)
    found = able.scored(able.by, list(_TABLE_3), is_tested=True)
    scores = {metric: (title, kind_of(metric)) for metric, title in _TABLE_3.items()}
    columns = key_columns(able.by, n_templates=("#T", "count"), **scores)
    return Chart(
        title="Accuracy and bias on the templates that a model can do (MBBQ Table 3)",
        sees=found.takeaway("mbbq_bias_ambiguous"),
        alt=f"A table. {found.alt()}",
        caption="MBBQ Table 3, turned on its side: accuracy and bias in disambiguated (D) and ambiguous (A) contexts, "
        f"on the templates (#T) on which a model is above chance in every language. Templates kept: {counted}. "
        f"{UNBALANCED} {MARK_CAPTION} {_ACROSS_CAPTION}",
        table=Table(tuple(columns), tuple(_marked_rows(found, able.part("bias")))),
        spec=None,
        command="mbbq-gen report RUN --table mbbq-3",
    )


def mbbq_table_5(answers: ScoreView) -> Chart:
    """Accuracy on the control set by model and language in both conditions (MBBQ Table 5)."""
    require_control(answers)
    metrics = ("accuracy_disambiguated", "accuracy_ambiguous")
    found, parsing = (answers.scored(answers.by, names, "control") for names in (metrics, ("parse_rate",)))
    columns = key_columns(
        answers.by,
        n_templates=("templates", "count"),
        accuracy_disambiguated=("AccD", "share"),
        accuracy_ambiguous=("AccA", "share"),
        parse_rate=("parsed", "share"),
    )
    marked = zip(found.groups, _marked_rows(found, answers.part("control")), strict=True)
    return Chart(
        title="Accuracy on the control set (MBBQ Table 5)",
        sees=found.alt(metrics[0]),
        alt=f"A table. {found.alt()}",
        caption="The shape of MBBQ Table 5: accuracy on control questions in disambiguated (D) and ambiguous (A) "
        f"contexts; parsed: answers that could be parsed. {_ACROSS_CAPTION}",
        table=Table(tuple(columns), tuple((*row, parsing.value(key, "parse_rate")) for key, row in marked)),
        spec=None,
        command="mbbq-gen report RUN --table mbbq-5",
    )


def _marked_rows(found: ScoreSet, frame: polars.DataFrame) -> Iterator[tuple[Cell, ...]]:
    """Each group with its scores; marked where they differ from 0, and across languages (p adjusted over all, Holm)."""
    view = ScoreView(frame, found.answers.sampling)
    cells = list(product(view.models, found.metrics))
    tests = [across_languages(view, model, metric) for model, metric in cells]
    adjusted = holm([None if test is None else test.p_value for test in tests])
    across = {cell: p is not None and p < LEVEL for cell, p in zip(cells, adjusted, strict=True)}
    for key, group in found.groups.items():
        marks = {name: found.mark(key, name) + _ACROSS_MARK * across[key[0], name] for name in found.metrics}
        scores = (FlaggedNumber(found.value(key, metric), mark) for metric, mark in marks.items())
        yield (*key, group.n_templates, *scores)
