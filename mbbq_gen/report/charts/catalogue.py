"""Every chart there is, and the making of those that some answers allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.report.charts.drawing import Drawing
from mbbq_gen.report.tables import DataTable

if TYPE_CHECKING:
    import polars

    from mbbq_gen.statistics.panel import InferenceSettings


Section = Literal["scores", "categories", "control", "robustness", "position", "outcomes", "papers"]
"""What a chart is about."""


@dataclass(frozen=True)
class Chart:
    """A chart with its words."""

    name: str
    """File name, and the beginning of the ids in its SVG."""
    section: Section
    title: str
    """One line."""
    sees: str
    """What to see in it, in one line with its own numbers; stands above it."""
    alt: str
    """What is to be seen, with numbers, for who does not see it."""
    caption: str
    """How to read it, what its marks mean, whose figure it is shaped after."""
    table: DataTable
    drawing: Drawing | None
    """None: a table only."""
    command: str
    """Recomputes its numbers; RUN stands for the runs."""


@dataclass(frozen=True)
class SkippedChart:
    """A chart that the data do not allow."""

    name: str
    title: str
    reason: str


@dataclass(frozen=True)
class ChartCollection:
    """What could be made of some answers, and what could not."""

    charts: tuple[Chart, ...]
    left_out: tuple[SkippedChart, ...]


class ChartUnavailableError(Exception):
    """The data do not allow a chart; the text says why. Stays within this package: it becomes a `RefusedInstance`."""


CHARTS: dict[str, tuple[str, str]] = {
    "accuracy_against_bias": ("score_charts", "accuracy against bias by language"),
    "scores_by_language": ("score_charts", "accuracy and bias by language"),
    "bias_by_category": ("category_charts", "bias by category and language"),
    "control_and_bias": ("control_charts", "the benchmark beside its control set"),
    "mbbq_figure_2": ("control_charts", "control templates above chance (MBBQ Fig. 2)"),
    "spread_variant": ("prompt_charts", "scores by prompt variant"),
    "spread_option_order": ("prompt_charts", "scores by option order"),
    "spread_label_style": ("prompt_charts", "scores by label style"),
    "spread_reasoning": ("prompt_charts", "scores by reasoning effort"),
    "effects_of_axes": ("score_charts", "effects of the prompt axes, by language"),
    "position_preference": ("prompt_charts", "position bias among the options"),
    "outcomes_by_language": ("prompt_charts", "outcomes of the extraction"),
    "mbbq_figure_3": ("category_charts", "bias by category in ambiguous contexts (MBBQ Fig. 3)"),
    "mbbq_figure_4": ("category_charts", "bias by category in disambiguated contexts (MBBQ Fig. 4)"),
    "mbbq_table_3": ("control_charts", "accuracy and bias on the templates that a model can do (MBBQ Table 3)"),
    "mbbq_table_5": ("control_charts", "accuracy on the control set (MBBQ Table 5)"),
    "bbq_figure_3": ("category_charts", "BBQ's bias scores by category and model (BBQ Fig. 3)"),
    "esbbq_bars": ("score_charts", "accuracy and bias as bars (EsBBQ Fig. 3)"),
    "bharat_heat_maps": ("category_charts", "BharatBBQ's bias scores by category and language (BharatBBQ Fig. 7)"),
}
"""Chart → module of its function, and what it shows; in the order in which they are shown."""

PAPERS = (
    "mbbq_figure_3",
    "mbbq_figure_4",
    "mbbq_table_3",
    "mbbq_table_5",
    "bbq_figure_3",
    "esbbq_bars",
    "bharat_heat_maps",
)
"""Charts that show the numbers of others once more, as a paper does; they take a third of a page's time."""


def make_charts(
    frame: polars.DataFrame,
    sampling: InferenceSettings | None = None,
    names: Sequence[str] | None = None,
    tick: Callable[[str], None] | None = None,
) -> ChartCollection:
    """The charts of a table of observations, of one run or of several.

    `names` None: all of CHARTS. `tick` is called with the name of each chart before it is made.

    Raises:
        UsageError: for an empty table.
        UnknownNameError: where there is no chart of a name.
    """
    wanted = list(CHARTS) if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name not in CHARTS:
            raise UnknownNameError("chart", name, CHARTS)
    if frame.is_empty():
        raise UsageError("no answers to draw; ask some first: mbbq-gen run RUN")
    from mbbq_gen.report.view_model import ScoreView
    from mbbq_gen.statistics.panel import InferenceSettings

    answers = ScoreView(_named_models(frame), sampling or InferenceSettings())
    charts: list[Chart] = []
    left_out: list[SkippedChart] = []
    for name in wanted:
        if tick is not None:
            tick(name)
        try:
            charts.append(getattr(import_module(f"mbbq_gen.report.charts.{CHARTS[name][0]}"), name)(answers))
        except ChartUnavailableError as reason:
            left_out.append(SkippedChart(name, CHARTS[name][1], str(reason)))
    return ChartCollection(tuple(charts), tuple(left_out))


def _named_models(frame: polars.DataFrame) -> polars.DataFrame:
    """The table with a dash for models that were not named: answers from anywhere may lack it."""
    import polars as pl

    return frame.with_columns(pl.col("model").cast(pl.String).fill_null("–"))
