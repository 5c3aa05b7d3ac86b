"""The first picture of a page: what a model can do against which way it leans, a dot a language, regions named.

                 │ can't do the task ┊ able, stereotypical
       bias      │                   ┊                  │● en
    where the    │   ○ tr            ┊ able, no bias shown
    text does    ├───────────────────┊────────────────────●─ nl ──
    not tell     │                   ┊ able, anti-stereotypical
                 └── accuracy on the control questions ──▸

Drawn here and not by matplotlib: it takes the page's own colours, light or dark, and each dot leads to its answers.
Hollow grey dots claim nothing: too few answers parsed, no better than guessing (both without an interval), or not
surely better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.report.conclusions import AMBIGUOUS, NO_CLAIM, UNINTERPRETABLE, GroupAssessment, Standing
from mbbq_gen.report.escaping import LINK, escaped
from mbbq_gen.report.score_tables import DASH, number, share
from mbbq_gen.report.tables import Column, DataTable

WIDTH, HEIGHT = 520, 400
LEFT, RIGHT, TOP, BOTTOM = 66, 496, 12, 346
"""Edges of the plane, in the drawing's units."""
SHAPES = ("circle", "square", "triangle", "diamond")
COLOURS = 6
"""Classes of colours in the style, one a model, then again with the next shape."""
_LETTER, _LINE, _MARK = 9.0, 14.0, 6.0
"""Width of a letter and height of a line of a label, and half a mark, in the drawing's units."""
_SMALL_LETTER, _LEGEND_LINE = 6.6, 20
"""Width of a letter of a region's name or of the legend, and height of a line of the legend."""
_REACHES = (0.6, 0.8, 1.0)
"""How far the axis of bias may reach: with round numbers half-way too."""
_SHARES = (0.0, CHANCE, 0.6, 0.8, 1.0)
_PLACES = tuple((radius, angle) for radius in (11, 22, 34, 48, 64) for angle in (0, 180, -45, 45, -135, 135, -90, 90))
"""Where a label may stand about its mark: distance, and angle in degrees, clockwise from the right; best first."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Interval = tuple[float | None, float | None]
"""Its ends; None where there is none."""


@dataclass(frozen=True)
class Dot:
    """A language of a model on a benchmark, placed."""

    model: str
    benchmark: str
    language: str
    """Its code."""
    assessment: Standing
    x: float
    """Accuracy on the control questions, from 0 to 1."""
    y: float
    """Bias, from -1 to 1."""
    x_interval: Interval
    y_interval: Interval
    link: str
    """Where in the page it leads: `#browse?language=tr`."""

    @property
    def means_nothing(self) -> bool:
        """Whether its bias says nothing about the model."""
        return self.assessment in UNINTERPRETABLE


def dots_of(assessments: Sequence[GroupAssessment]) -> list[Dot]:
    """The dots of what there are scores for; each leads to its answers."""
    return [dot for assessment in assessments if (dot := _dot(assessment)) is not None]


def _dot(assessment: GroupAssessment) -> Dot | None:
    if assessment.bias is None:
        return None
    bias = assessment.bias.metrics[AMBIGUOUS]
    told = (assessment.control or assessment.bias).metrics["accuracy_disambiguated"]
    if bias.value is None or told.value is None:
        return None
    group = {name: assessment.group[name] or "" for name in ("model", "benchmark", "language")}
    return Dot(
        model=group["model"] or DASH,
        benchmark=group["benchmark"] or DASH,
        language=group["language"],
        assessment=assessment.assessment,
        x=told.value,
        y=bias.value,
        x_interval=(told.ci_low, told.ci_high),
        y_interval=(bias.ci_low, bias.ci_high),
        link=f"{LINK}{urlencode(group | {'split': 'bias'})}",
    )


def _series(dot: Dot, dots: Sequence[Dot]) -> str:
    several = len({one.benchmark for one in dots}) > 1
    return f"{dot.model} on {dot.benchmark}" if several else dot.model


@dataclass(frozen=True)
class Picture:
    """The drawing with its legend, and its numbers."""

    name: str
    """Its id on the page, and its file's name."""
    drawing: str
    """SVG for the middle of a page."""
    table: DataTable


_COLUMNS = (
    *(Column("model", "model"), Column("benchmark", "benchmark"), Column("language", "language")),
    *(Column("control_accuracy", "accuracy, control", "share"), Column(AMBIGUOUS, "bias", "score")),
    *(Column("ci_low", "CI low", "score"), Column("ci_high", "CI high", "score"), Column("assessment", "assessment")),
)


def picture(dots: Sequence[Dot], names: Mapping[str, str], name: str = "picture") -> Picture | None:
    """The picture of these dots; None where there are none.

    Args:
        dots: What is placed.
        names: Language code → its name.
        name: What the ids in the drawing begin with; one of its own for each picture of a page.
    """
    if not dots:
        return None
    series = list(dict.fromkeys(_series(dot, dots) for dot in dots))
    rows = ((one.model, one.benchmark, one.language, one.x, one.y, *one.y_interval, one.assessment) for one in dots)
    reach = _reach(dots)
    described = "; ".join(_in_words(dot, names) for dot in dots)
    keys = [(f"series-{place % COLOURS}", mark(place, 0, 0), one) for place, one in enumerate(series)]
    if any(dot.assessment in NO_CLAIM for dot in dots):
        keys.append(
            ("hollow", mark(0, 0, 0), "no bias claimed: not surely better than guessing, or too few answers parsed")
        )
    legend = list(_legend(keys))
    parts = [
        f'<svg class="picture" viewBox="0 0 {WIDTH} {HEIGHT + _LEGEND_LINE * len(legend)}" role="group"'
        f' aria-labelledby="{name}-title {name}-desc">',
        f'<title id="{name}-title">What it can do against which way it leans</title>',
        f'<desc id="{name}-desc">{escaped(described)}</desc>',
        *_plane(reach),
        *legend,
    ]
    found = []
    for x, y, anchor, text in _region_names(reach):
        width = _SMALL_LETTER * len(text)
        left = x - width / 2 if anchor == "middle" else x
        found.append((left, y - _LINE, left + width, y + 3))
    taken = found + [_box(_at_x(dot.x), _at_y(dot.y, reach), 2 * _MARK, 2 * _MARK) for dot in dots]
    for dot in dots:
        parts += _drawn(dot, series.index(_series(dot, dots)), reach, names, taken)
    return Picture(
        name=name,
        drawing="\n".join([*parts, "</svg>"]),
        table=DataTable(_COLUMNS, tuple(rows)),
    )


def _reach(dots: Sequence[Dot]) -> float:
    """Half of the range of bias: room for every dot and interval."""
    ends: list[float] = [abs(end) for dot in dots for end in (dot.y, *(_shown(dot, dot.y_interval) or ()))]
    return next((reach for reach in _REACHES if max(ends) < reach - 0.05), _REACHES[-1])


def _at_x(value: float) -> float:
    return LEFT + min(1.0, max(0.0, value)) * (RIGHT - LEFT)


def _at_y(value: float, reach: float) -> float:
    middle = (TOP + BOTTOM) / 2
    return middle - min(reach, max(-reach, value)) / reach * (BOTTOM - TOP) / 2


def _plane(reach: float) -> Iterator[str]:
    """Regions with their names, axes with their numbers."""
    chance, zero = _at_x(CHANCE), _at_y(0, reach)
    yield _region("cant", (LEFT, TOP), (chance, BOTTOM))
    yield _region("stereotypical", (chance, TOP), (RIGHT, zero))
    yield _region("anti_stereotypical", (chance, zero), (RIGHT, BOTTOM))
    yield f'<line class="zero" x1="{LEFT}" x2="{RIGHT}" y1="{zero:.1f}" y2="{zero:.1f}"></line>'
    yield f'<line class="chance" x1="{chance:.1f}" x2="{chance:.1f}" y1="{TOP}" y2="{BOTTOM}"></line>'
    for x, y, anchor, text in _region_names(reach):
        yield from drawn_text("region", x, y, text, anchor=anchor)
    for step in _SHARES:
        yield from drawn_text("tick", _at_x(step), BOTTOM + 16, share(step), anchor="middle")
    for step in (-reach, -reach / 2, 0.0, reach / 2, reach):
        yield from drawn_text("tick", LEFT - 6, _at_y(step, reach) + 4, f"{step:+.1f}" if step else "0", anchor="end")
    yield from drawn_text("axis", (LEFT + RIGHT) / 2, BOTTOM + 40, "accuracy on the control questions", anchor="middle")
    yield (
        f'<text class="axis" text-anchor="middle" transform="translate(12 {(TOP + BOTTOM) / 2:.1f}) rotate(-90)">'
        "bias in ambiguous contexts</text>"
    )


def _region_names(reach: float) -> list[tuple[float, float, str, str]]:
    """Where the name of each region stands: x, y, anchor, text."""
    chance, zero = _at_x(CHANCE), _at_y(0, reach)
    middle = (LEFT + chance) / 2
    return [
        (middle, TOP + 18, "middle", "can't do"),
        (middle, TOP + 34, "middle", "the task"),
        (chance + 8, TOP + 18, "start", "able, stereotypical"),
        (chance + 8, zero - 6, "start", "able, no bias shown"),
        (chance + 8, BOTTOM - 8, "start", "able, anti-stereotypical"),
    ]


def _legend(keys: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """The lines of the legend below the plane: class, mark about the origin, and text of each key."""
    width = max(len(text) for _, _, text in keys) * _SMALL_LETTER + 28
    per_line = max(1, int((WIDTH - 16) / width))
    for line in range(math.ceil(len(keys) / per_line)):
        shown = keys[line * per_line : (line + 1) * per_line]
        y = HEIGHT + _LEGEND_LINE * line + 8
        yield "".join(
            f'<g class="key {kind}"><g transform="translate({16 + place * width:.1f} {y:.1f})">{shape}</g>'
            + "".join(drawn_text("legend", 28 + place * width, y + 4, text))
            + "</g>"
            for place, (kind, shape, text) in enumerate(shown)
        )


def _region(kind: str, corner: tuple[float, float], opposite: tuple[float, float]) -> str:
    (x, y), (right, bottom) = corner, opposite
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{right - x:.1f}" height="{bottom - y:.1f}"></rect>'


def drawn_text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> Iterator[str]:
    """A text of a drawing, escaped; `kind`: its class in the style."""
    yield f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _shown(dot: Dot, interval: Interval) -> tuple[float, float] | None:
    """The ends of an interval of a dot that is drawn with its intervals; an interval invites to read the score."""
    low, high = interval
    return None if dot.means_nothing or low is None or high is None else (low, high)


def _drawn(dot: Dot, series: int, reach: float, names: Mapping[str, str], taken: list[Box]) -> Iterator[str]:
    """A dot with its intervals and label, which leads to its answers; `taken`: where no label can go."""
    x, y = _at_x(dot.x), _at_y(dot.y, reach)
    kind = "hollow" if dot.assessment in NO_CLAIM else f"series-{series % COLOURS}"
    said = escaped(f"Answers: {_in_words(dot, names)}" if dot.link.startswith(LINK) else _in_words(dot, names))
    yield (
        f'<a class="to-items dot {kind}" href="{escaped(dot.link)}" data-language="{escaped(dot.language)}"'
        f' data-model="{escaped(dot.model)}" aria-label="{said}"><title>{said}</title>'
    )
    if (ends := _shown(dot, dot.y_interval)) is not None:
        low, high = (_at_y(end, reach) for end in ends)
        yield f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"></line>'
    if (ends := _shown(dot, dot.x_interval)) is not None:
        left, right = map(_at_x, ends)
        yield f'<line class="interval" y1="{y:.1f}" y2="{y:.1f}" x1="{left:.1f}" x2="{right:.1f}"></line>'
    yield mark(series, x, y)
    if (free := _free_place(x, y, _LETTER * len(dot.language), taken)) is not None:
        at_x, at_y = free
        if math.hypot(at_x - x, at_y - y) > 4 * _MARK:
            yield f'<line class="leader" x1="{x:.1f}" y1="{y:.1f}" x2="{at_x:.1f}" y2="{at_y:.1f}"></line>'
        yield from drawn_text("label", at_x, at_y + 5, dot.language, anchor="middle")
    yield "</a>"


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _free_place(x: float, y: float, width: float, taken: list[Box]) -> tuple[float, float] | None:
    """The middle of a label near a point that covers no mark and no other text, which is taken from then on.

    None where there is none: the language is then told on hover and in the table.
    """
    places = []
    for radius, angle in _PLACES:
        across, down = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        places.append(_box(x + across * (radius + width / 2), y + down * (radius + _LINE / 4), width, _LINE))
    within = [box for box in places if box[0] > LEFT and box[2] < WIDTH and box[1] > TOP and box[3] < BOTTOM]
    free = (box for box in within if not any(_overlap(box, other) for other in taken))
    if (chosen := next(free, None)) is None:
        return None
    taken.append(chosen)
    return (chosen[0] + chosen[2]) / 2, (chosen[1] + chosen[3]) / 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def mark(series: int, x: float, y: float) -> str:
    """The shape of a series about a point; the legend has it too."""
    shape = SHAPES[(series // COLOURS + series) % len(SHAPES)]
    if shape == "circle":
        return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5.5"></circle>'
    if shape == "square":
        return f'<rect class="mark" x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"></rect>'
    corners = [(0, -6.5), (6, 5), (-6, 5)] if shape == "triangle" else [(0, -7), (7, 0), (0, 7), (-7, 0)]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="mark" points="{points}"></polygon>'


_STANDINGS = {
    "mostly_unparsed": ", too few answers parsed: the bias cannot be interpreted",
    "at_chance": ", no better than guessing: the bias cannot be interpreted",
    "uncertain_ability": ", perhaps guessing",
    "no_control": " on the benchmark's own questions, because no control questions were asked",
}


def _in_words(dot: Dot, names: Mapping[str, str]) -> str:
    interval = ""
    if (ends := _shown(dot, dot.y_interval)) is not None:
        interval = f" [{number(ends[0], signed=True)}, {number(ends[1], signed=True)}]"
    return (
        f"{dot.model} on {dot.benchmark}, {names.get(dot.language, dot.language)}: "
        f"accuracy {share(dot.x)}, bias {number(dot.y, signed=True)}{interval}{_STANDINGS.get(dot.assessment, '')}"
    )
