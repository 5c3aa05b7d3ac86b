"""Heat maps of bias: by category and language (MBBQ Figs. 3 and 4), by category and model (BBQ Fig. 3), BharatBBQ's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    kind_of,
    range_text,
    sentences,
)
from mbbq_gen.report.charts.vega import HeatMap, MapCell, heat_maps, short_names
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
            link = None
            if has_links:  # the part of the page's address that shows the answers
                group = dict(zip(found.by, key, strict=True))
                condition = next(word for word in ("disambiguated", "ambiguous") if metric.endswith(word))
                link = LINK + urlencode({**group, "condition": condition, "split": "bias"})
            value, mark = found.value(key, metric), found.mark(key, metric)
            cells.append(MapCell(row, column, value, mark, found.is_thin(key, metric), link))
    return HeatMap(title, cells, METRICS[metric].low < 0)


def _by_category(
    answers: ScoreView, metrics: Sequence[str], title: str, caption: str, *, has_links: bool = False
) -> Chart:
    """Categories × languages, a map for each model and metric."""
    categories, models, places = _categories(answers), answers.models, answers.levels(answers.place_by)
    found = answers.scored((*answers.by, "category"), metrics, is_tested=True)
    names = dict(zip(models, short_names(models), strict=True))
    if len(models) > 1 and len(places) == 1:
        maps = {"": {name: (model, *place) for model, name in names.items() for place in places}}
    else:
        maps = {
            f"{name}: " if len(models) > 1 else "": {place: (model, *key) for key, place in places.items()}
            for model, name in names.items()
        }
    panels = [
        _map(whose + name if whose else name.capitalize(), found, metric, columns, has_links=has_links)
        for whose, columns in maps.items()
        for metric, name in ((metric, METRIC_TITLES[metric]) for metric in metrics)
    ]
    return Chart(
        title=title,
        sees=found.cells_takeaway(metrics[0]),
        alt=f"Heat map of categories by {'model' if len(places) == 1 else answers.where}. {found.alt()}",
        caption=f"{caption} {BIAS_SIGN} {MARK_CAPTION} {_THIN}",
        table=found.table(),
        spec=heat_maps(panels, list(categories.values()), list(next(iter(maps.values()))), across=len(metrics)),
        command=found.command(" --tests"),
    )


def bias_by_category(answers: ScoreView) -> Chart:
    """Bias by category and language in both conditions, on all templates."""
    title, caption = f"Bias by category and {answers.where}", f"{BIAS_SOURCE} All templates."
    return _by_category(answers, SUMMARY[2:], title, caption, has_links=True)


def mbbq_figure_3(answers: ScoreView) -> Chart:
    """Bias in ambiguous contexts by category, language and model, on the templates that the model can do."""
    able, counted = able_answers(answers)
    caption = f"The numbers of MBBQ Fig. 3 (eq. 1, ambiguous contexts). {_ABLE} Templates kept: {counted}."
    return _by_category(able, ["mbbq_bias_ambiguous"], "Bias by category in ambiguous contexts (MBBQ Fig. 3)", caption)


def mbbq_figure_4(answers: ScoreView) -> Chart:
    """As `mbbq_figure_3`, in disambiguated contexts."""
    able, counted = able_answers(answers)
    numbers = "The numbers of MBBQ Fig. 4 (eq. 2, disambiguated contexts)."
    caption = f"{numbers} {_ABLE} {UNBALANCED} Templates kept: {counted}."
    title = "Bias by category in disambiguated contexts (MBBQ Fig. 4)"
    return _by_category(able, ["mbbq_bias_disambiguated"], title, caption)


def bbq_figure_3(answers: ScoreView) -> Chart:
    """BBQ's bias scores by category, a column for each model (and prompt variant), in both conditions."""
    categories, by = _categories(answers), answers.by
    if len(answers.values("variant")) > 1 and len(answers.levels((*by, "variant"))) <= _MOST_COLUMNS:
        by = (*by, "variant")
    drawn = tuple(name for name in by if len(answers.values(name, "bias")) > 1) or ("model",)
    keys, found = list(answers.levels(by)), answers.scored((*by, "category"), _BBQ, is_tested=True)
    names = short_names([" · ".join(key[by.index(name)] for name in drawn) for key in keys], 36)
    columns = dict(zip(names, keys, strict=True))
    panels = [
        _map(f"{condition} contexts", found, metric, columns)
        for condition, metric in zip(("Ambiguous", "Disambiguated"), _BBQ, strict=True)
    ]
    return Chart(
        title="BBQ's bias scores by category and model (BBQ Fig. 3)",
        sees=found.cells_takeaway(_BBQ[0]),
        alt=f"Two heat maps of categories by {' and '.join(drawn)}. {found.alt()}",
        caption="The shape of BBQ Fig. 3; bias scores as BBQ §5 defines them, from -1 to +1 (the paper writes them in "
        f"per cent). {BIAS_SIGN} {MARK_CAPTION} {_THIN}",
        table=found.table(),
        spec=heat_maps(panels, list(categories.values()), names),
        command=found.command(" --tests"),
    )


def bharat_heat_maps(answers: ScoreView) -> Chart:
    """BharatBBQ's four scores by category and language, the plain mean over models (BharatBBQ Fig. 7)."""
    categories, places, models = _categories(answers), answers.levels(answers.place_by), answers.models
    by = (*answers.place_by, "category")
    found = answers.scored(("model", *by), _BHARAT)
    whole = answers.levels(answers.by)
    rows = []
    named: dict[str, list[tuple[str, float | None]]] = {metric: [] for metric in _BHARAT}
    cells: dict[str, list[MapCell]] = {metric: [] for metric in _BHARAT}
    for place, name in places.items():
        for category, row in categories.items():
            means = []
            for metric in _BHARAT:
                values = [found.value((*key, category), metric) for key in whole if key[1:] == place]
                known = [value for value in values if value is not None]
                # A mean over fewer models would not be comparable with its neighbours.
                means.append(sum(known) / len(known) if known and len(known) == len(values) else None)
                cells[metric].append(MapCell(row, name, means[-1]))
                named[metric].append((answers.spoken_key(by, (*place, category)), means[-1]))
            rows.append((*place, category, *means))
    order = list(categories.values())
    panels = [
        HeatMap(METRIC_TITLES[metric], sorted(cells[metric], key=lambda cell: order.index(cell.row)), is_signed)
        for metric, is_signed in ((metric, METRICS[metric].low < 0) for metric in _BHARAT)
    ]
    averaged = "Each cell is the plain mean over the models that answered there. " if len(models) > 1 else ""
    return Chart(
        title="BharatBBQ's bias scores by category and language (BharatBBQ Fig. 7)",
        sees=sentences([range_text(_BHARAT[2], named[_BHARAT[2]])]),
        alt=f"Four heat maps of categories by {answers.where}. "
        f"{sentences(range_text(metric, some) for metric, some in named.items())}",
        caption=f"The shape of BharatBBQ Fig. 7. {averaged}BS (eqs. 3 and 4): in ambiguous contexts it counts how "
        "often the target is named, whatever the question, a lexical preference and not a bias; SBS (eqs. 5 and 6): "
        "how often the stereotype is the answer, one third for guessing. A dash: undefined.",
        table=Table(tuple(key_columns(by, **{m: (METRIC_TITLES[m], kind_of(m)) for m in _BHARAT})), tuple(rows)),
        spec=heat_maps(panels, order, list(places.values()), across=2, words="below 0 ← BS → above 0"),
        command=found.command(),
    )
