"""Charts of scores, in our shapes and in the papers': drawings, words, and the tables behind them.

    charts = make_charts(frame)            what the answers allow
    svg(charts.charts[0])                  for the middle of a page
    write_figures(charts, Path("figures")) SVG, PNG and PDF; CSV, Markdown and LaTeX

matplotlib is loaded where PNG or PDF are written, and nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.report.figures.catalogue import CHARTS, PAPERS, make_charts
from mbbq_gen.report.figures.chart import Chart, ChartSet, LeftOut
from mbbq_gen.report.figures.table_text import Cell, Column, DataTable, Marked

if TYPE_CHECKING:
    import matplotlib.figure

__all__ = [
    "CHARTS",
    "PAPERS",
    "Cell",
    "Chart",
    "ChartSet",
    "Column",
    "DataTable",
    "LeftOut",
    "Marked",
    "figure",
    "make_charts",
    "svg",
    "write_figures",
]


def svg(chart: Chart, *, links: bool = False) -> str:
    """See `files.svg`."""
    from mbbq_gen.report.figures import files

    return files.svg(chart, links=links)


def figure(chart: Chart) -> matplotlib.figure.Figure:
    """The chart's drawing as a figure of matplotlib's, to change before it is saved.

    Raises:
        ValueError: for a chart that is a table only.
        MissingExtraError: where matplotlib is not installed.
    """
    from mbbq_gen.report.figures import files

    if chart.drawing is None:
        raise ValueError(f"{chart.name}: is a table, without a drawing")
    return files.figure(chart.drawing)


def write_figures(charts: ChartSet, directory: Path) -> list[Path]:
    """See `files.write_figures`."""
    from mbbq_gen.report.figures import files

    return files.write_figures(charts, directory)
