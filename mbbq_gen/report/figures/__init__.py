"""Charts of scores, in our shapes and in the papers': drawings, words, and the tables behind them.

    charts = make_charts(frame)            what the answers allow
    svg(charts.charts[0])                  for the middle of a page
    write_figures(charts, Path("figures")) SVG, PNG and PDF; CSV, Markdown and LaTeX

matplotlib is loaded where something is drawn, not before.
"""

from __future__ import annotations

from pathlib import Path

from mbbq_gen.report.figures.catalogue import CHARTS, PAPERS, make_charts, require_matplotlib
from mbbq_gen.report.figures.chart import Chart, ChartSet, LeftOut
from mbbq_gen.report.figures.table_text import Cell, Column, DataTable, Marked

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
    "make_charts",
    "require_matplotlib",
    "svg",
    "write_figures",
]


def svg(chart: Chart, *, dark: bool = False, links: bool = False) -> str:
    """See `files.svg`."""
    from mbbq_gen.report.figures import files

    return files.svg(chart, dark=dark, links=links)


def write_figures(charts: ChartSet, directory: Path) -> list[Path]:
    """See `files.write_figures`."""
    from mbbq_gen.report.figures import files

    return files.write_figures(charts, directory)
