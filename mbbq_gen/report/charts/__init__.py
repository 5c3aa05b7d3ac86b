"""Charts of scores, in our shapes and in the papers': drawings, words, and the tables behind them.

    charts = make_charts(frame)            what the answers allow
    svg(charts.charts[0])                  for the middle of a page
    write_figures(charts, Path("figures")) SVG, PNG and PDF; CSV, Markdown and LaTeX

matplotlib is loaded where PNG or PDF are written, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.report.charts.catalogue import (
    CHARTS,
    PAPERS,
    Chart,
    ChartCollection,
    SkippedChart,
    make_charts,
    svg,
    write_figures,
)
from mbbq_gen.report.charts.catalogue import figure as drawn_figure
from mbbq_gen.report.tables import Cell, Column, DataTable, FlaggedNumber

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = [
    "CHARTS",
    "PAPERS",
    "Cell",
    "Chart",
    "ChartCollection",
    "Column",
    "DataTable",
    "FlaggedNumber",
    "SkippedChart",
    "figure",
    "make_charts",
    "svg",
    "write_figures",
]


def figure(chart: Chart) -> matplotlib.figure.Figure:
    """The chart's drawing as a figure of matplotlib's, to change before it is saved.

    Raises:
        ValueError: for a chart that is a table only.
        MissingExtraError: where matplotlib is not installed.
    """
    if chart.drawing is None:
        raise ValueError(f"{chart.name}: is a table, without a drawing")
    return drawn_figure(chart.drawing)
