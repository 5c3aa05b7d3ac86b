"""The report as a page for a browser: one file that holds all it needs and asks nothing of any server."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.text import visible_text
from mbbq_gen.report.annotation_tables import percent
from mbbq_gen.report.charts.overview_chart import dots_of, picture
from mbbq_gen.report.conclusions import CAUTIONS, GroupAssessment, assess_groups, conclusion_sentence
from mbbq_gen.report.correction_tables import (
    ROLE_TITLES,
    corrected_text,
    correction_note,
    flag_sentences,
    matrix_roles,
    matrix_rows,
)
from mbbq_gen.report.escaping import LINK, inert_json, packed_json, page_part, page_policy
from mbbq_gen.report.score_tables import DASH, Notes, number, share, with_interval
from mbbq_gen.report.view_model import SCORES, ReportView, RunFacts
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    from jinja2 import Environment

    from mbbq_gen.analysis.score_table import GroupScore, MetricScore
    from mbbq_gen.report.charts.catalogue import Chart

STYLES = ("page.css", "picture.css", "items.css")
SCRIPTS = ("theme.js", "folds.js", "downloads.js", "items.js")
FIELD_TITLES = (
    ("language", "language"),
    ("category", "category"),
    ("template", "template"),
    ("variant", "prompt variant"),
    ("outcome", "outcome"),
    ("role", "chosen role"),
    ("correct", "correct"),
    ("confidence", "confidence of the extraction"),
    ("reasoning_effort", "reasoning effort"),
    ("flipped", "flipped"),
    ("split", "split"),
    ("condition", "context"),
    ("benchmark", "benchmark"),
)
"""What items are filtered by, and how the filter is called on the page."""
_SECTIONS = {
    "scores": ("scores", "Accuracy and bias by language"),
    "categories": ("categories", "Bias by category and language"),
    "control": ("control", "Bias beside the control questions"),
    "robustness": ("robustness", "Spread over prompt variants and option orders"),
    "position": ("position", "Position bias"),
    "outcomes": ("outcomes", "Outcomes of the extraction"),
    "papers": ("papers", "Figures and tables of the papers"),
}
"""Section of a chart → id and heading on the page."""


@dataclass(frozen=True)
class ScoreRow:
    """One group of the score table."""

    names: tuple[str, ...]
    cells: tuple[str, ...]
    link: str
    """The part of the page's address that shows its items."""


@dataclass(frozen=True)
class ChartView:
    """A chart as the template takes it."""

    chart: Chart
    drawing: str
    """SVG; empty for a table only."""
    command: str


@dataclass(frozen=True)
class Section:
    """A part of the page with its charts."""

    id: str
    title: str
    charts: tuple[ChartView, ...]


def template_environment() -> Environment:
    """Templates that escape everything, with every character visible.

    Raises:
        MissingExtraError: where jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("pages need jinja2; run: pip install 'mbbq-gen[report]'") from error
    return Environment(
        loader=FunctionLoader(page_part),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_text(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@dataclass(frozen=True)
class Assets:
    """What is inside every page: its style, its script, and the policy that allows just these."""

    style: str
    script: str
    policy: str


def page_assets(styles: Sequence[str] = STYLES, scripts: Sequence[str] = SCRIPTS, *, connects: bool = False) -> Assets:
    """The assets; `connects`: for a page that asks the server it came from."""
    style, script = ("\n".join(page_part(name) for name in names) for names in (styles, scripts))
    return Assets(style, script, page_policy([style], [script], connects=connects))


def render(template: str, title: str, assets: Assets, **values: Any) -> str:
    """A page of ours: its assets, and a template with its values."""
    from markupsafe import Markup

    page = template_environment().get_template(template)
    own = {"policy": assets.policy, "style": assets.style, "script": assets.script}
    return page.render(title=title, **{name: Markup(text) for name, text in own.items()}, **values)


def viewer_page(facts: RunFacts, n_answers: int, names: Mapping[str, str], assets: Assets) -> str:
    """The page of `mbbq-gen view`, whose items come from its server."""
    from markupsafe import Markup

    return render(
        "viewer.html",
        f"Items of {facts.folder}: {facts.name}",
        assets,
        runs=(facts,),
        n_answers=n_answers,
        fields=FIELD_TITLES,
        server_json=Markup(inert_json(browser_data([facts], names))),
    )


def report_page(found: ReportView) -> str:
    """The whole page."""
    from markupsafe import Markup

    notes = Notes(found.scores)
    by = _shown_groupings(found)
    judged = assess_groups(found.scores)
    empty = {_place(assessment.group) for assessment in judged if assessment.means_nothing}
    rows = [_score_row(group, by, notes, is_empty=_place(group.group) in empty) for group in found.scores.groups]
    sections = list(_sections(found))
    drawn = picture(dots_of(judged), found.names)
    tables = {chart.name: chart.table.csv() for chart in found.charts.charts}
    if drawn is not None:
        tables[drawn.name] = drawn.table.csv()
    # What the figures and tables in the papers' shapes are, where they were left for when they are requested.
    from mbbq_gen.report.charts.catalogue import CHARTS, PAPERS

    made = {chart.name for chart in found.charts.charts} | {chart.name for chart in found.charts.left_out}
    return render(
        "report.html",
        f"Report: {_subject(found)}",
        page_assets(),
        found=found,
        conclusions=_conclusions(judged, found),
        picture=drawn,
        notices=list(dict.fromkeys(notice for run in found.runs for notice in run.notices)),
        cautions=CAUTIONS,
        score_head=(*by, "answers", "templates", *map(_title, SCORES)),
        n_names=len(by),
        score_rows=rows,
        score_notes=notes.lines(),
        score_command=_command("score", found, "--group-by", ",".join(found.scores.by), "--metrics", ",".join(SCORES)),
        confidences=[
            (_of_group(one.group, found), f"{one.n_answers:,}", *(share(value) for value in one.shares.values()))
            for one in found.scores.confidences
        ],
        reading_flags=flag_sentences(found.scores.extraction_flags),
        corrected=_corrected_view(found),
        sections=sections,
        papers_not_drawn=[] if made & set(PAPERS) else [CHARTS[name][1] for name in PAPERS],
        papers_command=_command("report", found, "-o", "report.html", "--paper-figures"),
        runs_typed=_runs_typed(found),
        fields=FIELD_TITLES,
        tables_json=Markup(inert_json(tables)),
        page_json=Markup(inert_json(browser_data(found.runs, found.names))),
        items_packed=Markup(packed_json(found.items)),
        definitions=[(name, found.scores.definitions[name]) for name in SCORES],
    )


def _conclusions(judged: Sequence[GroupAssessment], found: ReportView) -> list[tuple[str, str]]:
    """Model and benchmark, and the sentence on them."""
    groups = groupby(judged, lambda one: (one.group["model"] or DASH, one.group["benchmark"] or DASH))
    several = len({one.group["benchmark"] for one in judged}) > 1
    said = [(model, benchmark, conclusion_sentence(list(group), found.names)) for (model, benchmark), group in groups]
    return [
        (f"{model} on {benchmark}" if several else model, text[:1].upper() + text[1:])
        for model, benchmark, text in said
    ]


def browser_data(runs: Sequence[RunFacts], names: Mapping[str, str]) -> dict[str, Any]:
    """What the browser of items has to know beside the items."""
    return {"runs": [{"name": visible_text(run.name), "folder": run.folder} for run in runs], "languages": names}


def _title(name: str) -> str:
    """A metric as the head of a column names it: a bias with the equation that it is."""
    metric = METRICS[name]
    return f"{metric.title} ({metric.source})" if metric.low < 0 else metric.title


def _subject(found: ReportView) -> str:
    models = list(dict.fromkeys(run.name for run in found.runs))
    benchmarks = list(dict.fromkeys(group.group["benchmark"] or "" for group in found.scores.groups))
    shown = ", ".join(models) if len(models) <= 3 else f"{len(models)} models"
    return f"{shown} on {', '.join(benchmarks)}" if benchmarks else shown


def _runs_typed(found: ReportView) -> str:
    """The runs' folders as they are typed in a shell."""
    return " ".join(shlex.quote(run.folder) for run in found.runs)


def _command(name: str, found: ReportView, *options: str) -> str:
    return " ".join(["mbbq-gen", name, _runs_typed(found), *options])


# --- the score table -------------------------------------------------------------------------------------------------


def _shown_groupings(found: ReportView) -> list[str]:
    """Groupings with several values, and language and split always."""
    values = {name: {group.group[name] for group in found.scores.groups} for name in found.scores.by}
    return [name for name in found.scores.by if len(values[name]) > 1 or name in {"language", "split"}]


def _place(group: Mapping[str, str | None]) -> tuple[str | None, ...]:
    return tuple(group[name] for name in ("model", "benchmark", "language"))


def _score_row(group: GroupScore, by: Sequence[str], notes: Notes, *, is_empty: bool) -> ScoreRow:
    """The row of a group; `is_empty`: its bias scores say nothing, and are put in brackets without an interval."""
    scores = group.metrics
    numbers = {
        "parse_rate": share(scores["parse_rate"].value),
        **{name: number(scores[name].value) for name in SCORES if name.startswith("accuracy")},
        **{name: _bias_cell(scores[name], notes, is_empty=is_empty) for name in SCORES if "bias" in name},
    }
    filters = {name: group.group[name] or "" for name in ("model", "benchmark", "language", "split")}
    return ScoreRow(
        names=tuple(group.group[name] or DASH for name in by),
        cells=(f"{group.n_answers:,}", f"{group.n_templates:,}", *(numbers[name] for name in SCORES)),
        link=f"{LINK}{urlencode(filters)}",
    )


def _bias_cell(score: MetricScore, notes: Notes, *, is_empty: bool) -> str:
    if is_empty and score.value is not None:
        return f"({number(score.value, signed=True)})"
    return with_interval(score, notes)


# --- how well the answers were read ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixView:
    """What answers say, by how they are read."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CorrectedView:
    """Scores with the errors of reading taken off, as the template takes them."""

    note: str
    rows: tuple[tuple[str, ...], ...]
    """Group, score, as read, corrected, change, labels."""
    errors: tuple[tuple[str, ...], ...]
    """Group, labels, read wrong."""
    matrices: tuple[MatrixView, ...]
    command: str


def _of_group(group: Mapping[str, str | None], found: ReportView) -> str:
    return ", ".join(group[name] or DASH for name in _shown_groupings(found))


def _corrected_view(found: ReportView) -> CorrectedView | None:
    correction = found.scores.correction
    if correction is None:
        return None
    return CorrectedView(
        note=correction_note(correction),
        rows=tuple(
            (
                _of_group(group.group, found),
                _title(name),
                number(score.uncorrected, signed=True),
                corrected_text(score),
                number(score.correction, signed=True),
                f"{score.n_labels:,}",
            )
            for group in correction.groups
            for name, score in group.metrics.items()
        ),
        errors=tuple(
            (_of_group(error.group, found), f"{error.n_labels:,}", percent(error.rate)) for error in correction.errors
        ),
        matrices=tuple(
            MatrixView(
                f"{_language(matrix.language, found)}: {percent(matrix.rate)} extracted wrongly",
                ("extracted as", "annotated", *(f"says {ROLE_TITLES[role]}" for role in matrix_roles(matrix))),
                tuple(matrix_rows(matrix)),
            )
            for matrix in correction.matrices
        ),
        command=_command("score", found, "--group-by", ",".join(found.scores.by), "--correct-with", correction.source),
    )


def _language(code: str | None, found: ReportView) -> str:
    return "All languages" if code is None else found.names.get(code, code)


# --- charts ----------------------------------------------------------------------------------------------------------


def _sections(found: ReportView) -> Iterator[Section]:
    for section, (place, title) in _SECTIONS.items():
        charts = [_chart_view(chart, found) for chart in found.charts.charts if chart.section == section]
        if charts or section in {"scores", "outcomes"}:
            yield Section(place, title, tuple(charts))


def _chart_view(chart: Chart, found: ReportView) -> ChartView:
    from markupsafe import Markup

    from mbbq_gen.report.charts import svg

    drawing = Markup(svg(chart, links=True)) if chart.drawing is not None else ""
    return ChartView(
        chart=chart,
        drawing=drawing,
        command=chart.command.replace(" RUN", f" {_runs_typed(found)}", 1),
    )
