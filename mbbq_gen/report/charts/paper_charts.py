"""Charts after papers and by category: MBBQ Figs. 2 to 4 and Tables 3 and 5, BBQ Fig. 3, BharatBBQ Fig. 7."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE, TemplateAbility, keep_templates, select_templates, template_ability
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    BIAS_SOURCE,
    LEVEL,
    MARK_CAPTION,
    METRIC_TITLES,
    SUMMARY,
    Key,
    PlainNumber,
    ScoreSet,
    ScoreView,
    key_columns,
    key_names,
    kind_of,
    range_text,
    require_control,
    sentences,
)
from mbbq_gen.report.charts.vega import HeatMap, Panel, bars, datum, heat_maps, map_cell, short_names
from mbbq_gen.report.tables import LINK, Cell, FlaggedNumber, Table
from mbbq_gen.scoring.codes import MIN_TEMPLATES
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


# --- heat maps of categories -----------------------------------------------------------------------------------------

_BBQ = ("bbq_s_amb", "bbq_s_dis")
_BHARAT = ("bharat_bs_ambiguous", "bharat_bs_disambiguated", "bharat_sbs_ambiguous", "bharat_sbs_disambiguated")
_MOST_COLUMNS = 30
"""Columns of BBQ's figure up to which prompt variants have their own."""
_THIN = "A dash: undefined; a number without a colour stands on fewer than five templates."
_ABLE = "On the templates of the control set on which each model is above chance in every language (MBBQ §5.2)."


def _categories(answers: ScoreView) -> dict[str, str]:
    """Category → what it is drawn under."""
    found = answers.values("category", "bias")
    if len(found) < 2:
        raise ChartUnavailableError("needs two or more categories")
    return dict(zip(found, short_names(found), strict=True))


def _map(title: str, found: ScoreSet, metric: str, columns: Mapping[str, Key], *, has_links: bool = False) -> HeatMap:
    """The map of a metric: categories × columns, each with its group; cells may lead to their answers."""
    cells = []
    for category, row in _categories(found.answers).items():
        for column, place in columns.items():
            key = (*place, category)
            link = {}
            if has_links:  # the part of the page's address that shows the answers
                group = dict(zip(found.by, key, strict=True)) | {"condition": metric.rpartition("_")[2]}
                link["href"] = LINK + urlencode({**group, "split": "bias"})
            is_thin = key in found.groups and found.groups[key].metrics[metric].n_templates < MIN_TEMPLATES
            more = {"mark": found.mark(key, metric), "bare": is_thin, **link}
            cells.append(map_cell(row, column, found.value(key, metric), **more))
    return HeatMap(title, cells, METRICS[metric].low < 0)


def _chart(found: ScoreSet, title: str, caption: str, panels: Sequence[HeatMap], columns: Sequence[str]) -> Chart:
    """Maps of categories × columns."""
    spec = heat_maps(panels, list(_categories(found.answers).values()), columns, across=len(found.metrics))
    shape, caption = f"Heat map of categories by {' and '.join(found.by[:-1])}", f"{caption} {BIAS_SIGN} {MARK_CAPTION}"
    return found.chart(title, shape, f"{caption} {_THIN}", spec, metric=found.metrics[0], more=" --tests")


def _by_category(
    answers: ScoreView, metrics: Sequence[str], title: str, caption: str, *, has_links: bool = False
) -> Chart:
    """Categories × languages, a map for each model and metric; of several models in one place, models as columns."""
    found, models = answers.scored((*answers.by, "category"), metrics, is_tested=True), answers.models
    places = key_names(key[1:-1] for key in found.groups)
    names = dict(zip(models, short_names(models), strict=True))
    if len(places) == 1:
        maps = {"": {name: (model, *place) for model, name in names.items() for place in places}}
    else:
        maps = {name: {place: (model, *key) for key, place in places.items()} for model, name in names.items()}
    panels = [
        _map(f"{name}: {METRIC_TITLES[metric]}".removeprefix(": "), found, metric, columns, has_links=has_links)
        for name, columns in maps.items()
        for metric in metrics
    ]
    return _chart(found, title, caption, panels, list(next(iter(maps.values()))))


def bias_by_category(answers: ScoreView) -> Chart:
    """Bias by category and language in both conditions, on all templates."""
    title, caption = f"Bias by category and {answers.where}", f"{BIAS_SOURCE} All templates."
    return _by_category(answers, SUMMARY[2:], title, caption, has_links=True)


def _able_figure(answers: ScoreView, number: int, equation: int, condition: str) -> Chart:
    """Bias by category, language and model, on the templates that the model can do."""
    able, counted = able_answers(answers)
    caption = f"The numbers of MBBQ Fig. {number} (eq. {equation}, {condition} contexts). {_ABLE} "
    caption += f"{UNBALANCED} " if equation == 2 else ""
    title = f"Bias by category in {condition} contexts (MBBQ Fig. {number})"
    return _by_category(able, [f"mbbq_bias_{condition}"], title, f"{caption}Templates kept: {counted}.")


mbbq_figure_3 = partial(_able_figure, number=3, equation=1, condition="ambiguous")
mbbq_figure_4 = partial(_able_figure, number=4, equation=2, condition="disambiguated")


def bbq_figure_3(answers: ScoreView) -> Chart:
    """BBQ's bias scores by category, a column for each model (and prompt variant), in both conditions."""
    by, n_variants = answers.by, len(answers.values("variant", "bias"))
    n_columns = n_variants * len(answers.scored((*by, "category"), _BBQ).groups) / len(_categories(answers))
    if n_variants > 1 and n_columns <= _MOST_COLUMNS:
        by = (*by, "variant")
    drawn = [place for place, name in enumerate(by) if len(answers.values(name, "bias")) > 1] or [0]
    found = answers.scored((*by, "category"), _BBQ, is_tested=True)
    keys = sorted({key[:-1] for key in found.groups})
    names = short_names([" · ".join(key[place] for place in drawn) for key in keys], 36)
    columns = dict(zip(names, keys, strict=True))
    panels = [
        _map(f"{condition} contexts", found, metric, columns)
        for condition, metric in zip(("Ambiguous", "Disambiguated"), _BBQ, strict=True)
    ]
    caption = "The shape of BBQ Fig. 3; bias scores as BBQ §5 defines them, from -1 to +1 (in per cent in the paper)."
    return _chart(found, "BBQ's bias scores by category and model (BBQ Fig. 3)", caption, panels, names)


def bharat_heat_maps(answers: ScoreView) -> Chart:
    """BharatBBQ's four scores by category and language, the plain mean over models (BharatBBQ Fig. 7)."""
    categories, by = _categories(answers), (*answers.place_by, "category")
    found = answers.scored(("model", *by), _BHARAT)
    places = key_names(key[1:-1] for key in found.groups)
    whole = sorted({key[:-1] for key in found.groups})
    means: dict[Key, list[float | None]] = {}
    for place in places:
        for category in categories:
            keys = [(*key, category) for key in whole if key[1:] == place]
            for metric in _BHARAT:
                known = [value for key in keys if (value := found.value(key, metric)) is not None]
                # A mean over fewer models would not be comparable with its neighbours.
                mean = sum(known) / len(known) if known and len(known) == len(keys) else None
                means.setdefault((*place, category), []).append(mean)
    panels, said = [], []
    for number, metric in enumerate(_BHARAT):
        cells = [
            map_cell(row, name, means[*place, category][number])
            for category, row in categories.items()
            for place, name in places.items()
        ]
        panels.append(HeatMap(METRIC_TITLES[metric], cells, METRICS[metric].low < 0))
        said.append(range_text(metric, [(answers.spoken_key(by, key), some[number]) for key, some in means.items()]))
    averaged = "Each cell is the plain mean over the models that answered there. " if len(answers.models) > 1 else ""
    return Chart(
        title="BharatBBQ's bias scores by category and language (BharatBBQ Fig. 7)",
        sees=sentences(said[2:3]),
        alt=f"Four heat maps of categories by {answers.where}. {sentences(said)}",
        caption=f"The shape of BharatBBQ Fig. 7. {averaged}BS (eqs. 3 and 4): in ambiguous contexts it counts how "
        "often the target is named, whatever the question, a lexical preference and not a bias; SBS (eqs. 5 and 6): "
        "how often the stereotype is the answer, one third for guessing. A dash: undefined.",
        table=Table(
            tuple(key_columns(by, **{metric: (METRIC_TITLES[metric], kind_of(metric)) for metric in _BHARAT})),
            tuple((*key, *some) for key, some in means.items()),
        ),
        spec=heat_maps(panels, list(categories.values()), list(places.values()), words="below 0 ← BS → above 0"),
        command=found.command(),
    )
