"""Charts as files for a paper, and as SVG for the middle of a page.

The same answers give the same bytes: no dates, no random ids. What a page gets holds no style, no script and no link
outward: its policy lets it pass, and nothing in a name acts.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.files import output_file, write_errors
from mbbq_gen.report.charts.catalogue import Chart, ChartCollection
from mbbq_gen.report.charts.drawing import FONT, FONT_SIZE, INK, Area, Disc, Drawing, Line, Point, Shape
from mbbq_gen.report.escaping import LINK, escaped
from mbbq_gen.report.tables import markdown_escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 200
_SCALE = 1.5
"""Pixels of a page for a point of print: letters of 8 points stand as 12 pixels."""
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def svg(chart: Chart, *, links: bool = False, is_alone: bool = False) -> str:
    """The chart's drawing for the middle of a page, with its title and alternative text inside.

    Ink is `currentColor` and the ground is transparent, so that it follows the page into the dark.

    Args:
        chart: One with a drawing.
        links: For a page with items, to which cells lead.
        is_alone: For a file: black on white.

    Raises:
        ValueError: for a chart that is a table only.
    """
    found = chart.drawing
    if found is None:
        raise ValueError(f"{chart.name}: is a table, without a drawing")
    ink = INK if is_alone else "currentColor"
    parts = list(_written(found, ink, links=links))
    role = "group" if any(part.startswith("<a ") for part in parts) else "img"  # what has links in it is no image
    ground = f'<rect width="{found.width:.0f}" height="{found.height:.0f}" fill="#ffffff"></rect>' if is_alone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {found.width:.0f} {found.height:.0f}" '
        f'width="{found.width * _SCALE:.0f}" height="{found.height * _SCALE:.0f}" class="chart" role="{role}" '
        f'aria-labelledby="{chart.name}-title {chart.name}-desc" fill="{ink}" font-family="{_FONTS}" '
        f'font-size="{FONT_SIZE:g}"><title id="{chart.name}-title">{escaped(chart.title)}</title>'
        f'<desc id="{chart.name}-desc">{escaped(chart.alt)}</desc>{ground}{"".join(parts)}</svg>'
    )


def _written(drawing: Drawing, ink: str, *, links: bool) -> Iterator[str]:
    """The shapes; neighbours that lead to the same place in one link."""
    for link, shapes in groupby(drawing.shapes, lambda shape: getattr(shape, "link", None) if links else None):
        inside = "".join(_element(shape, ink) for shape in shapes)
        if link is None:
            yield inside
        else:
            said = "Answers of " + ", ".join(value for _, value in parse_qsl(link.removeprefix(LINK)))
            yield f'<a class="to-items" href="{escaped(link)}" aria-label="{escaped(said)}">{inside}</a>'


def _element(shape: Shape, ink: str) -> str:
    colour = ink if shape.colour == INK else shape.colour
    filled = "" if colour == ink else f' fill="{colour}"'
    if isinstance(shape, Line):
        faint = f' stroke-opacity="{shape.opacity:g}"' if shape.opacity < 1 else ""
        dashed = ' stroke-dasharray="2.4 1.6"' if shape.is_dashed else ""
        path = f"M{_place(shape.start)}L{_place(shape.end)}"
        return f'<path d="{path}" stroke="{colour}" stroke-width="{shape.width:g}"{faint}{dashed}></path>'
    if isinstance(shape, Area):
        faint = f' fill-opacity="{shape.opacity:g}"' if shape.opacity < 1 else ""
        return f'<path d="M{"L".join(map(_place, shape.corners))}z"{filled}{faint}></path>'
    if isinstance(shape, Disc):
        x, y = shape.middle
        return f'<circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(shape.radius)}"{filled}></circle>'
    left, foot = map(_number, shape.foot)
    placed = f'transform="translate({left} {foot}) rotate(-90)"' if shape.is_turned else f'x="{left}" y="{foot}"'
    anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    size = "" if shape.size == FONT_SIZE else f' font-size="{shape.size:g}"'
    bold = ' font-weight="700"' if shape.is_bold else ""
    return f"<text {placed}{anchor}{size}{bold}{filled}>{escaped(shape.text)}</text>"


def _place(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    """A hundredth of a point is near enough."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


# --- matplotlib's ----------------------------------------------------------------------------------------------------


def require_matplotlib() -> None:
    """Makes sure that matplotlib is there.

    Raises:
        MissingExtraError: where it is not; says how to install it.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        message = "figures as files need matplotlib, not installed here; run: pip install 'mbbq-gen[report]'"
        raise MissingExtraError(message) from error


def figure(drawing: Drawing) -> Figure:
    """The drawing as a figure of matplotlib's, for PNG and PDF, or to change before it is saved.

    Raises:
        MissingExtraError: where matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        made = Figure(figsize=(drawing.width / 72, drawing.height / 72))
        axes = made.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, drawing.width)
        axes.set_ylim(drawing.height, 0)
        for place, shape in enumerate(drawing.shapes):
            _draw(axes, shape, place)
    return made


_SETTINGS: dict[Any, Any] = {
    "font.family": FONT,
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a dollar in a model's name is a dollar
    "path.simplify": False,
}


def _draw(axes: Axes, shape: Shape, order: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon

    if isinstance(shape, Line):
        xs, ys = zip(shape.start, shape.end, strict=True)
        line = Line2D(xs, ys, color=shape.colour, linewidth=shape.width, alpha=shape.opacity)
        line.set_solid_capstyle("butt")
        if shape.is_dashed:
            line.set_dashes((3, 2))
        axes.add_artist(line).set_zorder(order)
    elif isinstance(shape, Area):
        patch = Polygon(shape.corners, facecolor=shape.colour, alpha=shape.opacity, linewidth=0)
        axes.add_artist(patch).set_zorder(order)
    elif isinstance(shape, Disc):
        axes.add_artist(Circle(shape.middle, shape.radius, facecolor=shape.colour, linewidth=0)).set_zorder(order)
    else:
        anchor = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
        across, along = ("right", {"left": "bottom", "center": "center", "right": "top"}[anchor])
        axes.text(
            *shape.foot,
            shape.text,
            ha=across if shape.is_turned else anchor,
            va=along if shape.is_turned else "baseline",
            rotation=90 if shape.is_turned else 0,
            fontsize=shape.size,
            fontweight="bold" if shape.is_bold else "normal",
            color=shape.colour,
            zorder=order,
        )


def write_figures(charts: ChartCollection, directory: Path) -> list[Path]:
    """Writes each chart as SVG, PNG and PDF and its table as CSV, Markdown and LaTeX; and index.md about them.

    Returns what was written, in order.

    Raises:
        MissingExtraError: where matplotlib is not installed.
        UsageError: as `core.files.output_file`; RunError too.
    """
    require_matplotlib()
    written = []
    with write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    for name, content in _files(charts):
        path = directory / name
        with output_file(path) as temporary:
            temporary.write_bytes(content)
        written.append(path)
    return written


def _files(charts: ChartCollection) -> Iterator[tuple[str, bytes]]:
    for chart in charts.charts:
        yield from _contents(chart)
    yield "index.md", _index(charts).encode()


def _contents(chart: Chart) -> Iterator[tuple[str, bytes]]:
    if chart.drawing is not None:
        yield f"{chart.name}.svg", svg(chart, is_alone=True).encode()
        made = figure(chart.drawing)
        for kind in ("png", "pdf"):
            # The figure's bytes.
            from matplotlib import rc_context

            stream = io.BytesIO()
            undated: dict[str, dict[str, str | None]] = {
                "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
                "png": {"Software": None},
            }
            with rc_context(_SETTINGS):
                made.savefig(stream, format=kind, dpi=DPI, metadata=undated[kind])
            yield f"{chart.name}.{kind}", stream.getvalue()
    yield f"{chart.name}.csv", chart.table.csv().encode()
    yield f"{chart.name}.md", chart.table.markdown().encode()
    yield f"{chart.name}.tex", chart.table.latex(f"{chart.title}. {chart.caption}", chart.name).encode()


def _index(charts: ChartCollection) -> str:
    """What each chart is, how it is read, and what is not there."""
    lines = ["# Figures and tables", ""]
    for chart in charts.charts:
        kinds = ("svg", "png", "pdf", "csv", "md", "tex") if chart.drawing is not None else ("csv", "md", "tex")
        links = ", ".join(f"[{kind}]({chart.name}.{kind})" for kind in kinds)
        lines += [f"## {markdown_escaped(chart.title)}", ""]
        if chart.drawing is not None:
            lines += [f"![{markdown_escaped(chart.alt)}]({chart.name}.png)", ""]
        lines += [markdown_escaped(chart.caption), "", f"{links}. Recompute: `{chart.command}`", ""]
    if charts.left_out:
        lines += ["## Not made", "", *(f"- {one.title}: {markdown_escaped(one.reason)}" for one in charts.left_out), ""]
    return "\n".join(lines)
