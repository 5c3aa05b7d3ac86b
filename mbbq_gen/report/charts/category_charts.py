"""Heat maps of bias: by category and language (MBBQ Figs. 3 and 4), by category and model (BBQ Fig. 3), BharatBBQ's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlencode

from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.control_charts import UNBALANCED, able_answers
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    BIAS_SOURCE,
    MARK_CAPTION,
    METRIC_TITLES,
    SUMMARY,
    Key,
    ScoreSet,
    ScoreView,
    key_columns,
    key_names,
    kind_of,
    range_text,
    sentences,
)
from mbbq_gen.report.charts.vega import HeatMap, heat_maps, map_cell, short_names
from mbbq_gen.report.tables import LINK, Table
from mbbq_gen.scoring.metrics import METRICS

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
            more = {"mark": found.mark(key, metric), "bare": found.is_thin(key, metric), **link}
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
