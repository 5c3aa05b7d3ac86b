"""Heat maps of bias: by category and language (MBBQ Figs. 3 and 4), by category and model (BBQ Fig. 3), BharatBBQ's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from mbbq_gen.report.charts.catalogue import Chart, ChartUnavailableError
from mbbq_gen.report.charts.control_charts import UNBALANCED, able_answers
from mbbq_gen.report.charts.score_charts import (
    BIAS_SOURCE,
    SUMMARY,
    command_of,
    extremes,
    key_columns,
    score_table,
    summary_alt,
)
from mbbq_gen.report.charts.score_view import (
    BIAS_SIGN,
    MARK_CAPTION,
    METRIC_TITLES,
    Key,
    Levels,
    ScoreView,
    kind_of,
    mark_of,
    range_text,
    sentences,
    spoken,
    value_of,
)
from mbbq_gen.report.charts.vega import HeatMap, heat_maps, short_names
from mbbq_gen.report.tables import LINK, Column, Table
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    from mbbq_gen.analysis.scores import GroupScore

_MBBQ = ("mbbq_bias_ambiguous", "mbbq_bias_disambiguated")
_BBQ = ("bbq_s_amb", "bbq_s_dis")
_BHARAT = (
    "bharat_bs_ambiguous",
    "bharat_bs_disambiguated",
    "bharat_sbs_ambiguous",
    "bharat_sbs_disambiguated",
)
MOST_COLUMNS = 30
"""Columns of BBQ's figure up to which prompt variants have their own."""


def _categories(answers: ScoreView) -> list[str]:
    found = answers.values("category", "bias")
    if len(found) < 2:
        raise ChartUnavailableError("needs two or more categories")
    return found


def _marked(
    answers: ScoreView,
    by: Sequence[str],
    metric: str,
    scores: Mapping[Key, GroupScore],
    p_values: Mapping[str, Mapping[Key, float | None]],
) -> str:
    """How many cells of a map differ from 0, and the farthest of them."""
    marked = [key for key, p_value in p_values[metric].items() if mark_of(p_value)]
    known = {key: value for key, group in scores.items() if (value := value_of(group, metric)) is not None}
    title = METRIC_TITLES[metric].capitalize()
    if not known:
        return f"{title}: nothing to count."
    if not marked:
        return f"{title}: of {len(known)} cells none differs from 0 for sure."
    farthest = max(marked, key=lambda key: abs(known[key]))
    verb = "differs" if len(marked) == 1 else "differ"
    return (
        f"{title}: {len(marked)} of {len(known)} cells {verb} from 0 (starred), farthest "
        f"{answers.spoken_key(by, farthest)} ({spoken(metric, known[farthest])})."
    )


def _map(
    title: str,
    keys: Sequence[Sequence[Key]],
    metric: str,
    scores: Mapping[Key, GroupScore],
    p_values: Mapping[Key, float | None] | None,
    *,
    by: Sequence[str] = (),
) -> HeatMap:
    """One map of a metric; `keys` are the groups of rows × columns, by these groupings where cells lead to items."""
    values = [[value_of(scores.get(key), metric) for key in row] for row in keys]
    marks = [["" if p_values is None else mark_of(p_values.get(key)) for key in row] for row in keys]
    bare = [[_is_thin(scores.get(key), metric) for key in row] for row in keys]
    links = [[items_link(dict(zip(by, key, strict=True)), metric) for key in row] for row in keys] if by else None
    return HeatMap(title, values, METRICS[metric].low < 0, marks, bare, links)


def items_link(group: Mapping[str, str | None], metric: str) -> str:
    """The part of a page's address that shows the answers that a score stands on."""
    condition = next(word for word in ("disambiguated", "ambiguous") if metric.endswith(word))
    named = {name: value for name, value in group.items() if value is not None}
    return LINK + urlencode({**named, "condition": condition, "split": "bias"})


def _is_thin(group: GroupScore | None, metric: str) -> bool:
    """Whether a score stands on too few templates to have an interval."""
    return group is not None and group.metrics[metric].n_templates < MIN_TEMPLATES


def _maps(models: Sequence[str], places: Levels) -> tuple[list[str], list[tuple[str, list[Key]]]]:
    """What the columns are called, and of each map the beginning of its title and the groups of its columns."""
    names = short_names(models)
    if len(models) == 1:
        return list(places.names), [("", [(models[0], *place) for place in places.keys])]
    if len(places) == 1:
        return names, [("", [(model, *places.keys[0]) for model in models])]
    maps = [
        (f"{name}: ", [(model, *place) for place in places.keys]) for model, name in zip(models, names, strict=True)
    ]
    return list(places.names), maps


def _by_category(answers: ScoreView, metrics: Sequence[str], name: str, title: str, caption: str) -> Chart:
    """Categories × languages, a map for each model and metric."""
    categories, models, places = _categories(answers), answers.models, answers.levels(answers.place_by)
    by = ("model", *answers.place_by, "category")
    scores = answers.scores(by, metrics)
    groups, p_values = Levels(by, tuple(scores), ()), {metric: answers.p_values(by, metric) for metric in metrics}
    columns, maps = _maps(models, places)
    panels = [
        _map(
            f"{whose}{METRIC_TITLES[metric]}" if whose else METRIC_TITLES[metric].capitalize(),
            [[(*key, category) for key in keys] for category in categories],
            metric,
            scores,
            p_values[metric],
            by=by if name == "bias_by_category" else (),
        )
        for whose, keys in maps
        for metric in metrics
    ]
    return Chart(
        name=name,
        section="categories" if name == "bias_by_category" else "papers",
        title=title,
        sees=_marked(answers, by, metrics[0], scores, p_values),
        alt=f"Heat map of categories by {'model' if len(places) == 1 else answers.where}. "
        f"{summary_alt(answers, groups, scores, metrics, p_values)}",
        caption=f"{caption} {BIAS_SIGN} {MARK_CAPTION} {_THIN}",
        table=score_table(groups, scores, metrics, p_values),
        spec=heat_maps(panels, short_names(categories), columns, across=len(metrics)),
        command=command_of(by, metrics, " --tests"),
    )


def bias_by_category(answers: ScoreView) -> Chart:
    """Bias by category and language in both conditions, on all templates."""
    return _by_category(
        answers,
        SUMMARY[2:],
        "bias_by_category",
        f"Bias by category and {answers.where}",
        f"{BIAS_SOURCE} All templates.",
    )


_THIN = "A dash: undefined; a number without a colour stands on fewer than five templates."
_ABLE = "On the templates of the control set on which each model is above chance in every language (MBBQ §5.2)."


def mbbq_figure_3(answers: ScoreView) -> Chart:
    """Bias in ambiguous contexts by category, language and model, on the templates that the model can do."""
    able, counted = able_answers(answers)
    caption = f"The numbers of MBBQ Fig. 3 (eq. 1, ambiguous contexts). {_ABLE} Templates kept: {counted}."
    title = "Bias by category in ambiguous contexts (MBBQ Fig. 3)"
    return _by_category(able, _MBBQ[:1], "mbbq_figure_3", title, caption)


def mbbq_figure_4(answers: ScoreView) -> Chart:
    """As `mbbq_figure_3`, in disambiguated contexts."""
    able, counted = able_answers(answers)
    numbers = "The numbers of MBBQ Fig. 4 (eq. 2, disambiguated contexts)."
    caption = f"{numbers} {_ABLE} {UNBALANCED} Templates kept: {counted}."
    title = "Bias by category in disambiguated contexts (MBBQ Fig. 4)"
    return _by_category(able, _MBBQ[1:], "mbbq_figure_4", title, caption)


def bbq_figure_3(answers: ScoreView) -> Chart:
    """BBQ's bias scores by category, a column for each model (and prompt variant), in both conditions."""
    categories = _categories(answers)
    by: tuple[str, ...] = ("model", *answers.place_by)
    if len(answers.values("variant")) > 1 and len(answers.levels((*by, "variant"))) <= MOST_COLUMNS:
        by = (*by, "variant")
    drawn = tuple(name for name in by if len(answers.values(name, "bias")) > 1) or ("model",)
    levels = answers.levels(by)
    grouped = (*by, "category")
    scores = answers.scores(grouped, _BBQ)
    groups, p_values = Levels(grouped, tuple(scores), ()), {one: answers.p_values(grouped, one) for one in _BBQ}
    names = short_names([" · ".join(key[by.index(name)] for name in drawn) for key in levels.keys], 36)
    panels = [
        _map(
            f"{condition.capitalize()} contexts",
            [[(*key, category) for key in levels.keys] for category in categories],
            metric,
            scores,
            p_values[metric],
        )
        for condition, metric in zip(("ambiguous", "disambiguated"), _BBQ, strict=True)
    ]
    return Chart(
        name="bbq_figure_3",
        section="papers",
        title="BBQ's bias scores by category and model (BBQ Fig. 3)",
        sees=_marked(answers, grouped, _BBQ[0], scores, p_values),
        alt=f"Two heat maps of categories by {' and '.join(drawn)}. "
        f"{summary_alt(answers, groups, scores, _BBQ, p_values)}",
        caption=f"The shape of BBQ Fig. 3; bias scores as BBQ §5 defines them, from -1 to +1 (the paper writes them in "
        f"per cent). {BIAS_SIGN} {MARK_CAPTION} {_THIN}",
        table=score_table(groups, scores, _BBQ, p_values),
        spec=heat_maps(panels, short_names(categories), names),
        command=command_of(grouped, _BBQ, " --tests"),
    )


def bharat_heat_maps(answers: ScoreView) -> Chart:
    """BharatBBQ's four scores by category and language, the plain mean over models (BharatBBQ Fig. 7)."""
    categories, places, models = _categories(answers), answers.levels(answers.place_by), answers.models
    by = (*answers.place_by, "category")
    scores = answers.scores(("model", *by), _BHARAT)
    whole = answers.levels(("model", *answers.place_by))
    keys_at = {place: [key for key in whole.keys if key[1:] == place] for place in places.keys}
    means = {
        metric: {
            (*place, category): _mean([value_of(scores.get((*who, category)), metric) for who in keys_at[place]])
            for place in places.keys
            for category in categories
        }
        for metric in _BHARAT
    }
    panels = [
        HeatMap(
            METRIC_TITLES[metric],
            [[means[metric][*place, category] for place in places.keys] for category in categories],
            METRICS[metric].low < 0,
        )
        for metric in _BHARAT
    ]
    rows = [
        (*place, category, *(means[metric][*place, category] for metric in _BHARAT))
        for place in places.keys
        for category in categories
    ]
    columns = [
        *key_columns(by),
        *(Column(m, METRIC_TITLES[m], kind_of(m)) for m in _BHARAT),
    ]
    averaged = "Each cell is the plain mean over the models that answered there. " if len(models) > 1 else ""
    parts = [range_text(m, [(answers.spoken_key(by, key), value) for key, value in means[m].items()]) for m in _BHARAT]
    return Chart(
        name="bharat_heat_maps",
        section="papers",
        title="BharatBBQ's bias scores by category and language (BharatBBQ Fig. 7)",
        sees=extremes(answers, by, means[_BHARAT[2]], _BHARAT[2]),
        alt=f"Four heat maps of categories by {answers.where}. {sentences(parts)}",
        caption=f"The shape of BharatBBQ Fig. 7. {averaged}BS (eqs. 3 and 4): in ambiguous contexts it counts how "
        "often the target is named, whatever the question, a lexical preference and not a bias; SBS (eqs. 5 and 6): "
        "how often the stereotype is the answer, one third for guessing. A dash: undefined.",
        table=Table(tuple(columns), tuple(rows)),
        spec=heat_maps(panels, short_names(categories), places.names, across=2, words="below 0 ← BS → above 0"),
        command=command_of(("model", *by), _BHARAT),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean, if no model lacks a score: one over fewer models would not be comparable with its neighbours."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
