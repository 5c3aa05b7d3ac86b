"""Charts of scores: Vega-Lite specifications, texts, and tables of their data.

Rendering needs vl-convert (extra `report`); specifications and tables do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import output_file, write_errors
from mbbq_gen.report.charts.vega import Spec, require_vl_convert, spec_json, svg
from mbbq_gen.report.tables import Table

if TYPE_CHECKING:
    import polars

    from mbbq_gen.statistics.estimate import InferenceSettings


@dataclass(frozen=True)
class Chart:
    """A chart with its texts."""

    title: str
    """One line of text."""
    finding: str
    """The main result in one line with its numbers; shown above the chart."""
    caption: str
    """Explanation of the chart and its marks."""
    table: Table
    spec: Spec
    """Its Vega-Lite specification."""
    command: str = ""
    """The command that recomputes its numbers; RUN stands for the runs."""
    name: str = ""
    """File name and prefix of the ids in its SVG; for CHARTS set by `make_charts`."""
    section: str = ""
    """The section of the page that it belongs to; set by `make_charts`."""

    @property
    def alt(self) -> str:
        """Text alternative: the finding and the explanation."""
        return f"{self.finding} {self.caption}".strip()


@dataclass(frozen=True)
class ChartCollection:
    """Charts of some answers, and those that could not be made."""

    charts: tuple[Chart, ...]
    left_out: Mapping[str, str]
    """Name of a chart → the reason."""


class ChartUnavailableError(Exception):
    """The data do not allow a chart; its text is the reason."""


CHARTS: dict[str, tuple[str, str]] = {
    "scores_by_language": ("scores", "accuracy and bias by language"),
    "bias_by_category": ("categories", "bias by category and language"),
    "control_and_bias": ("control", "the benchmark beside its control set"),
    "spread_variant": ("robustness", "scores by prompt variant"),
    "spread_option_order": ("robustness", "scores by option order"),
    "spread_label_style": ("robustness", "scores by label style"),
    "spread_reasoning_effort": ("robustness", "scores by reasoning effort"),
    "effects_of_axes": ("robustness", "effects of the prompt axes, by language"),
    "position_preference": ("position", "position bias among the options"),
    "outcomes_by_language": ("outcomes", "outcomes of the extraction"),
}
"""Chart → its section and its title in lists; in the order of the page."""


def make_charts(
    frame: polars.DataFrame,
    sampling: InferenceSettings | None = None,
    names: Sequence[str] | None = None,
    tick: Callable[[str], None] = lambda _: None,
) -> ChartCollection:
    """The charts of a table of observations, of one run or of several.

    `names` None: all of CHARTS. `tick` is called with the name of each chart before it is made.

    Raises:
        UsageError: for an empty table.
        UnknownNameError: for an unknown chart.
    """
    requested = list(CHARTS) if names is None else list(dict.fromkeys(names))
    for name in requested:
        if name not in CHARTS:
            raise UnknownNameError("chart", name, CHARTS)
    if frame.is_empty():
        raise UsageError("no answers to draw; ask some first: mbbq-gen run RUN")
    from mbbq_gen.report.charts import score_charts
    from mbbq_gen.report.charts.score_view import ScoreView

    view = ScoreView(frame, sampling)
    charts: list[Chart] = []
    left_out: dict[str, str] = {}
    for name in requested:
        tick(name)
        try:
            made: Chart = getattr(score_charts, name)(view)
            charts.append(replace(made, name=name, section=CHARTS[name][0]))
        except (ChartUnavailableError, UsageError) as reason:
            left_out[name] = str(reason)
    return ChartCollection(tuple(charts), left_out)


def write_figures(charts: ChartCollection, directory: Path) -> list[Path]:
    """Writes each chart as SVG, PNG, PDF and specification, its table as CSV and LaTeX.

    Returns the written files, in order.

    Raises:
        MissingExtraError: if vl-convert is not installed.
        UsageError: as `core.files.output_file`; RunError likewise.
    """
    vl_convert = require_vl_convert()
    written = []
    with write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    for chart in charts.charts:
        drawing = svg(chart.spec, chart.name, chart.title, chart.alt, is_file=True)
        contents = {
            "svg": drawing.encode(),
            "png": vl_convert.svg_to_png(drawing, scale=2),
            "pdf": vl_convert.svg_to_pdf(drawing),
            "vl.json": spec_json(chart.spec, chart.alt).encode(),
            "csv": chart.table.csv().encode(),
            "tex": chart.table.latex(f"{chart.title}. {chart.caption}", chart.name).encode(),
        }
        for ending, content in contents.items():
            path = directory / f"{chart.name}.{ending}"
            with output_file(path) as temporary:
                temporary.write_bytes(content)
            written.append(path)
    return written
