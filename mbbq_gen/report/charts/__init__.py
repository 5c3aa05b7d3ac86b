"""Charts of scores, in our shapes and in the papers': Vega-Lite specifications, words, and the tables behind them.

    charts = make_charts(frame)            what the answers allow
    charts.charts[0].spec                  a specification with its data, to change before it is rendered
    write_figures(charts, Path("figures")) SVG, PNG, PDF and specifications; CSV, Markdown and LaTeX

Rendering needs vl-convert (extra `report`); specifications and tables do not.
"""

from mbbq_gen.report.charts.catalogue import (
    CHARTS,
    PAPERS,
    Chart,
    ChartCollection,
    SkippedChart,
    make_charts,
    write_figures,
)

__all__ = ["CHARTS", "PAPERS", "Chart", "ChartCollection", "SkippedChart", "make_charts", "write_figures"]
