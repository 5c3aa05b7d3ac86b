"""Every chart there is, and the making of those that some answers allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.report.figures.chart import Chart, ChartSet, LeftOut, NotDrawableError

if TYPE_CHECKING:
    import polars

    from mbbq_gen.report.figures.answers import Answers
    from mbbq_gen.statistics.panel import Sampling

CHARTS: dict[str, tuple[str, str]] = {
    "accuracy_against_bias": ("score_charts", "accuracy against bias by language"),
    "scores_by_language": ("score_charts", "accuracy and bias by language"),
    "bias_by_category": ("category_charts", "bias by category and language"),
    "control_and_bias": ("control_charts", "the benchmark beside its control set"),
    "mbbq_figure_2": ("control_charts", "control templates above chance (MBBQ Fig. 2)"),
    "spread_variant": ("presentation_charts", "scores by wording"),
    "spread_order": ("presentation_charts", "scores by option order"),
    "spread_label_style": ("presentation_charts", "scores by label style"),
    "spread_thinking": ("presentation_charts", "scores by level of thinking"),
    "effects_of_axes": ("effect_chart", "what the axes of composed wordings do, by language"),
    "position_preference": ("presentation_charts", "preference for a place among the options"),
    "outcomes_by_language": ("presentation_charts", "how the answers were read"),
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


def _builder(name: str) -> Callable[[Answers], Chart]:
    from importlib import import_module

    found: Callable[[Answers], Chart] = getattr(import_module(f"mbbq_gen.report.figures.{CHARTS[name][0]}"), name)
    return found


def make_charts(
    frame: polars.DataFrame,
    sampling: Sampling | None = None,
    names: Sequence[str] | None = None,
    tick: Callable[[str], None] | None = None,
) -> ChartSet:
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
    from mbbq_gen.report.figures.answers import Answers
    from mbbq_gen.statistics.panel import Sampling

    answers = Answers(_named_models(frame), sampling or Sampling())
    charts: list[Chart] = []
    left_out: list[LeftOut] = []
    for name in wanted:
        if tick is not None:
            tick(name)
        try:
            charts.append(_builder(name)(answers))
        except NotDrawableError as reason:
            left_out.append(LeftOut(name, CHARTS[name][1], str(reason)))
    return ChartSet(tuple(charts), tuple(left_out))


def _named_models(frame: polars.DataFrame) -> polars.DataFrame:
    """The table with a dash for models that were not named: answers from anywhere may lack it."""
    import polars as pl

    return frame.with_columns(pl.col("model").cast(pl.String).fill_null("–"))
