"""The board's scores as drawings, one panel a score: models below each other, languages side by side.

                 en                 tr
    a            ────┼──●──         ──○┼─────
                 +0.39 · 2 of 2     (+0.12)

Every drawing has its numbers in it and behind it, so that nothing has to be read off a scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mbbq_gen.report.figures.table_text import Cell, Column, ColumnKind, DataTable
from mbbq_gen.report.html.picture import COLOURS, drawn_text, mark
from mbbq_gen.report.html.safe import escaped
from mbbq_gen.report.leaderboard.board import BoardRow, BoardScore, ScoreName
from mbbq_gen.report.leaderboard.tables import SCORE_TITLES, is_bias, rank_text
from mbbq_gen.report.tables import number
from mbbq_gen.report.verdicts import MEANS_NOTHING, listing
from mbbq_gen.statistics.ability import CHANCE

ORDER: tuple[ScoreName, ...] = (
    "mbbq_bias_ambiguous",
    "control_accuracy",
    "diff_bias_disambiguated",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
)
"""The panels as they stand on the page: first what the board is for, and what tells whether it means anything."""
OPEN = ORDER[:2]
"""Those that are not folded."""
_NAMES, _CELL, _ROW, _TOP = 190, 150, 46, 30
"""Width of the models' names and of a cell, height of a row and of the heading, in the drawing's units."""
_LONGEST = 26
"""Letters of a model's name in a drawing; of a longer one, its beginning and its end."""


@dataclass(frozen=True)
class Panel:
    """One score of one benchmark."""

    name: str
    """Its id on the page, and its file's name."""
    title: str
    sees: str
    """What to see in it, in a line."""
    drawing: str
    """SVG for the middle of a page."""
    table: DataTable
    is_open: bool


def panels(rows: Sequence[BoardRow], place: int, names: Mapping[str, str]) -> list[Panel]:
    """The panels of one benchmark's rows; those without any score are left out.

    Args:
        rows: The benchmark's.
        place: Number of the benchmark on its page.
        names: Language code → its name.
    """
    return [
        Panel(
            name=f"panel-{place}-{name}",
            title=SCORE_TITLES[name],
            sees=_sees(rows, name),
            drawing=_drawing(rows, name, f"panel-{place}-{name}", names),
            table=_table(rows, name),
            is_open=name in OPEN,
        )
        for name in ORDER
        if any(row.scores[name].value is not None for row in rows)
    ]


def _sees(rows: Sequence[BoardRow], name: ScoreName) -> str:
    """Which side is better, and who is surely ahead of another model there."""
    better = "Nearer to the line at 0 is better" if is_bias(name) else "Further right is better; the line is guessing"
    ranked = [(row, rank) for row in rows if (rank := row.scores[name].rank) is not None]
    ahead: dict[str, list[str]] = {}
    for row, rank in ranked:
        if rank.worst < rank.of:
            ahead.setdefault(row.model, []).append(row.language)
    if not ranked:
        return f"{better}. Nothing is ranked: fewer than two models were asked alike and can do the task."
    if not ahead:
        return f"{better}. No two models are surely apart."
    counts = {model: sum(row.model == model for row, _ in ranked) for model in ahead}
    said = [model if len(codes) == counts[model] else f"{model} ({', '.join(codes)})" for model, codes in ahead.items()]
    return f"{better}. Surely ahead of another model: {listing(said)}."


def _table(rows: Sequence[BoardRow], name: ScoreName) -> DataTable:
    kind: ColumnKind = "score" if is_bias(name) else "share"
    columns = (
        *(Column("model", "model"), Column("language", "language")),
        *(Column(name, SCORE_TITLES[name], kind), Column("low", "low", kind), Column("high", "high", kind)),
        *(Column("rank_best", "best rank", "count"), Column("rank_worst", "worst rank", "count")),
        *(Column("ranked", "models ranked", "count"), Column("standing", "standing")),
    )
    return DataTable(columns, tuple(_numbers(row, row.scores[name]) for row in rows))


def _numbers(row: BoardRow, score: BoardScore) -> tuple[Cell, ...]:
    rank = score.rank
    ranks: tuple[Cell, ...] = (None, None, None) if rank is None else (rank.best, rank.worst, rank.of)
    return (row.model, row.language, score.value, score.low, score.high, *ranks, row.standing)


# --- the drawing -----------------------------------------------------------------------------------------------------


def _drawing(rows: Sequence[BoardRow], name: ScoreName, panel: str, names: Mapping[str, str]) -> str:
    languages = sorted({row.language for row in rows})
    models = sorted({row.model for row in rows})
    width, height = _NAMES + _CELL * len(languages), _TOP + _ROW * len(models)
    parts = [
        f'<svg class="panel" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-labelledby="{panel}-title {panel}-desc">',
        f'<title id="{panel}-title">{escaped(SCORE_TITLES[name])} by model and language</title>',
        f'<desc id="{panel}-desc">{escaped(_sees(rows, name))} The numbers are in the table below.</desc>',
    ]
    for place, code in enumerate(languages):
        parts += drawn_text("head", _NAMES + _CELL * (place + 0.5), 18, names.get(code, code), anchor="middle")
    for place, model in enumerate(models):
        parts += drawn_text("model", 0, _TOP + _ROW * place + 20, _short(model))
    reach = _reach(rows, name)
    for row in rows:
        parts += _cell(row, name, reach, models.index(row.model), languages.index(row.language))
    return "\n".join([*parts, "</svg>"])


def _short(model: str) -> str:
    half = _LONGEST // 2
    return model if len(model) <= _LONGEST else f"{model[: half - 1]}…{model[-half:]}"


def _reach(rows: Sequence[BoardRow], name: ScoreName) -> float:
    """Half of the range of a bias: room for every score and interval, in quarters, at least a half."""
    scores = [row.scores[name] for row in rows]
    ends = [abs(end) for score in scores for end in (score.value, score.low, score.high) if end is not None]
    return max(0.5, min(1.0, math.ceil(max(ends) * 4) / 4))


def _cell(row: BoardRow, name: ScoreName, reach: float, series: int, column: int) -> Iterator[str]:
    """A score on its line with its interval, what it is held against, its number and its range of ranks.

    A bias that says nothing is hollow and in brackets, without an interval, for that would invite to read it.
    """
    score = row.scores[name]
    if score.value is None:
        return
    nothing = is_bias(name) and row.standing in MEANS_NOTHING
    left, middle = _NAMES + _CELL * column, _TOP + _ROW * series + 14.0
    low, high = (-reach, reach) if is_bias(name) else (0.0, 1.0)

    def at(value: float) -> float:
        return left + 12 + (min(high, max(low, value)) - low) / (high - low) * (_CELL - 24)

    against = at(0.0 if is_bias(name) else CHANCE)
    yield f'<line class="rail" x1="{at(low):.1f}" x2="{at(high):.1f}" y1="{middle}" y2="{middle}"></line>'
    yield f'<line class="against" x1="{against:.1f}" x2="{against:.1f}" y1="{middle - 9}" y2="{middle + 9}"></line>'
    yield f'<g class="{"hollow" if nothing else f"series-{series % COLOURS}"}">'
    if not nothing and score.low is not None and score.high is not None:
        ends = f'x1="{at(score.low):.1f}" x2="{at(score.high):.1f}"'
        yield f'<line class="interval" {ends} y1="{middle}" y2="{middle}"></line>'
    yield mark(series, at(score.value), middle)
    yield "</g>"
    text = number(score.value, signed=is_bias(name))
    ranked = "" if score.rank is None else f" · {rank_text(score.rank)} of {score.rank.of}"
    yield from drawn_text(
        "nothing" if nothing else "value",
        left + _CELL / 2,
        middle + 24,
        f"({text})" if nothing else text + ranked,
        anchor="middle",
    )
