"""Every chart there is, their making, and their files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from mbbq_gen.core.errors import MissingExtraError, UnknownNameError, UsageError
from mbbq_gen.core.files import output_file, write_errors
from mbbq_gen.report.charts.drawing import FONT, FONT_SIZE, INK, Area, Disc, Drawing, Line, Point, Shape
from mbbq_gen.report.escaping import LINK, escaped
from mbbq_gen.report.tables import DataTable, markdown_escaped

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        raise UsageError("no answers to draw; get some with: mbbq-gen run RUN")
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
        message = "figures as files need matplotlib, which is not installed; run: pip install 'mbbq-gen[report]'"
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
    from matplotlib import rc_context

    for chart in charts.charts:
        if chart.drawing is not None:
            yield f"{chart.name}.svg", svg(chart, is_alone=True).encode()
            made = figure(chart.drawing)
            for kind in ("png", "pdf"):
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
    yield "index.md", _index(charts).encode()


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
