"""Charts as files for a paper, and as SVG for the middle of a page.

The same answers give the same bytes: no dates, no random ids.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.errors import RunError
from mbbq_gen.report.figures.chart import Chart, ChartSet
from mbbq_gen.report.figures.style import INK, drawing
from mbbq_gen.report.figures.table_text import markdown_escaped
from mbbq_gen.report.html.safe import escaped, inert_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 200
_MARGIN = 0.05
"""Inches of ground around what is drawn."""
_SCALE = 1.5
"""Pixels of a page for a point of print: letters of 8 points stand as 12 pixels."""
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def svg(chart: Chart, *, dark: bool = False, links: bool = False) -> str:
    """The chart's drawing for the middle of a page, with its title and alternative text inside.

    Ink is `currentColor` and the ground is transparent, so that it follows the page into the dark; `dark`: for a page
    that is always dark and sets no colour itself; `links`: for a page with
    items, to which cells lead. It holds no style, no script, no link outward.

    Raises:
        ValueError: for a chart that is a table only.
    """
    if chart.figure is None:
        raise ValueError(f"{chart.name}: is a table, without a drawing")
    plain = _rendered(chart.figure, "svg", is_transparent=True).decode()
    drawn = inert_svg(plain[plain.index("<svg") :], prefix=f"{chart.name}-", links=links)
    drawn = drawn.replace(f'"{INK}"', '"currentColor"')
    drawn = re.sub(r' font-family="[^"]*"', "", drawn)
    width, height = (float(number) * _SCALE for number in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
    view = re.search(r'viewBox="[^"]*"', drawn)
    assert view is not None
    ink = ' color="#e8e8e8"' if dark else ""
    role = "group" if "<a " in drawn else "img"  # what has links in it is no image
    heading = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {view[0]} width="{width:.0f}" height="{height:.0f}" class="chart" '
        f'role="{role}" aria-labelledby="{chart.name}-title {chart.name}-desc" fill="currentColor" '
        f'font-family="{_FONTS}" stroke-linejoin="round" stroke-linecap="butt"{ink}>'
        f'<title id="{chart.name}-title">{escaped(chart.title)}</title>'
        f'<desc id="{chart.name}-desc">{escaped(chart.alt)}</desc>'
    )
    return heading + drawn[drawn.index(">") + 1 :]


def _rendered(figure: Figure, kind: str, *, is_transparent: bool) -> bytes:
    """The figure's bytes, cut to what is drawn."""
    stream = io.BytesIO()
    undated: dict[str, dict[str, str | None]] = {
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Software": None},
    }
    with drawing():
        figure.savefig(
            stream,
            format=kind,
            dpi=DPI if kind == "png" else 72,
            bbox_inches=figure.get_tightbbox().padded(_MARGIN),  # "tight" would draw everything once more
            transparent=is_transparent,
            metadata=undated[kind],
        )
    return stream.getvalue()


def write_figures(charts: ChartSet, directory: Path) -> list[Path]:
    """Writes each chart as SVG, PNG and PDF and its table as CSV, Markdown and LaTeX; and index.md about them.

    Files of these names are replaced. Returns what was written, in order.

    Raises:
        RunError: where the folder can't be made or a file can't be written.
    """
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for chart in charts.charts:
            for name, content in _contents(chart):
                path = directory / name
                path.write_bytes(content)
                written.append(path)
        index = directory / "index.md"
        index.write_text(_index(charts), encoding="utf-8", newline="\n")
    except OSError as error:
        raise RunError(f"{directory}: can't write: {error.strerror or error}") from error
    return [*written, index]


def _contents(chart: Chart) -> Iterator[tuple[str, bytes]]:
    if chart.figure is not None:
        for kind in ("svg", "png", "pdf"):
            yield f"{chart.name}.{kind}", _rendered(chart.figure, kind, is_transparent=False)
    yield f"{chart.name}.csv", chart.table.csv().encode()
    yield f"{chart.name}.md", chart.table.markdown().encode()
    yield f"{chart.name}.tex", chart.table.latex(f"{chart.title}. {chart.caption}", chart.name).encode()


def _index(charts: ChartSet) -> str:
    """What each chart is, how it is read, and what is not there."""
    lines = ["# Figures and tables", ""]
    for chart in charts.charts:
        kinds = ("svg", "png", "pdf", "csv", "md", "tex") if chart.figure is not None else ("csv", "md", "tex")
        links = ", ".join(f"[{kind}]({chart.name}.{kind})" for kind in kinds)
        lines += [f"## {markdown_escaped(chart.title)}", ""]
        if chart.figure is not None:
            lines += [f"![{markdown_escaped(chart.alt)}]({chart.name}.png)", ""]
        lines += [markdown_escaped(chart.caption), "", f"{links}. Recompute: `{chart.command}`", ""]
    if charts.left_out:
        lines += ["## Not made", "", *(f"- {one.title}: {markdown_escaped(one.reason)}" for one in charts.left_out), ""]
    return "\n".join(lines)
