"""The board as a page for a browser: its tables sort, by mouse and by keyboard, and stand without scripts too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mbbq_gen.report.html.page import page_assets, render
from mbbq_gen.report.html.picture import Dot, Picture, picture
from mbbq_gen.report.html.safe import inert_json
from mbbq_gen.report.leaderboard.board import Board, BoardRow, ScoreName
from mbbq_gen.report.leaderboard.panels import Panel, panels
from mbbq_gen.report.leaderboard.tables import (
    SCORE_TITLES,
    asked_otherwise,
    caution_letters,
    is_bias,
    rank_text,
    row_notes,
    score_text,
)
from mbbq_gen.report.tables import number, share
from mbbq_gen.report.verdicts import MEANS_NOTHING

_STYLES, _SCRIPTS = ("page.css", "picture.css", "board.css"), ("theme.js", "folds.js", "downloads.js", "board.js")


@dataclass(frozen=True)
class BoardCell:
    """A cell of the page's table."""

    text: str
    key: str
    """What it is sorted by: a number where it is one; empty where there is none, which stands last."""
    is_number: bool = True


@dataclass(frozen=True)
class PageRow:
    """A row of the page's table."""

    id: str
    model: str
    language: str
    cells: tuple[BoardCell, ...]
    is_apart: bool
    """Whether it was asked otherwise than most."""


@dataclass(frozen=True)
class Part:
    """One benchmark."""

    id: str
    title: str
    conclusion: str
    picture: Picture | None
    panels: tuple[Panel, ...]
    rows: tuple[PageRow, ...]
    apart: tuple[str, ...]
    """Who was asked otherwise, and how."""


HEAD: tuple[tuple[str, bool, str], ...] = (
    ("language", False, ""),
    ("items", True, ""),
    ("templates", True, ""),
    ("read", True, ""),
    *(column for title in SCORE_TITLES.values() for column in ((title, True, ""), ("rank", True, title))),
    ("notes", False, ""),
)
"""Of every column after the model's: title, whether it holds numbers, what it is a rank by."""


def board_page(board: Board, runs: Sequence[str] = (), names: Mapping[str, str] | None = None) -> str:
    """The page.

    Args:
        board: What is on it.
        runs: The runs' folders, as they were typed, for the command that makes it anew.
        names: Language code → its English name; None: the codes are shown.
    """
    from markupsafe import Markup

    benchmarks = list(dict.fromkeys(row.benchmark for row in board.rows))
    letters = caution_letters(board)
    parts = [_part(place, name, board, names or {}) for place, name in enumerate(benchmarks, start=1)]
    return render(
        "board.html",
        f"Leaderboard: {len(board.models)} models on {', '.join(benchmarks)}",
        page_assets(_STYLES, _SCRIPTS),
        board=board,
        head=HEAD,
        languages=sorted({(code, (names or {}).get(code, code)) for code in (row.language for row in board.rows)}),
        parts=parts,
        tables_json=Markup(inert_json(_tables(parts))),
        cautions=[(letters[code], text) for code, text in board.cautions.items()],
        definitions=[(SCORE_TITLES[name], board.definitions[name]) for name in SCORE_TITLES],
        command=" ".join(["mbbq-gen leaderboard", *runs, "-o board.html"]),
    )


def _tables(parts: Sequence[Part]) -> dict[str, str]:
    """Name of a drawing → its numbers as CSV."""
    drawn = [part.picture for part in parts if part.picture is not None] + [
        one for part in parts for one in part.panels
    ]
    return {one.name: one.table.csv() for one in drawn}


def _part(place: int, benchmark: str, board: Board, names: Mapping[str, str]) -> Part:
    rows = [row for row in board.rows if row.benchmark == benchmark]
    shown = [(row, f"row-{place}-{number}") for number, row in enumerate(rows, start=1)]
    dots = [dot for row, link in shown if (dot := _dot(row, link)) is not None]
    return Part(
        id=f"board-{place}",
        title=benchmark,
        conclusion=board.conclusions[benchmark],
        picture=picture(sorted(dots, key=lambda dot: (dot.model, dot.language)), names, f"picture-{place}"),
        panels=tuple(panels(rows, place, names)),
        rows=tuple(_page_row(row, board, link) for row, link in shown),
        apart=tuple(asked_otherwise(rows)),
    )


def _dot(row: BoardRow, link: str) -> Dot | None:
    """The row in the picture, which leads to its place in the table; None where a score is missing."""
    bias, told = row.scores["mbbq_bias_ambiguous"], row.scores["control_accuracy"]
    if told.value is None:
        told = row.scores["accuracy_disambiguated"]
    if bias.value is None or told.value is None:
        return None
    return Dot(
        model=row.model,
        benchmark=row.benchmark,
        language=row.language,
        standing=row.standing,
        x=told.value,
        y=bias.value,
        x_interval=(told.low, told.high),
        y_interval=(bias.low, bias.high),
        link=f"#{link}",
    )


def _page_row(row: BoardRow, board: Board, row_id: str) -> PageRow:
    cells = [
        BoardCell(row.language, row.language, is_number=False),
        BoardCell(f"{row.n_items:,}", str(row.n_items)),
        BoardCell(str(row.n_templates), str(row.n_templates)),
        BoardCell(share(row.detection_rate), _key(row.detection_rate)),
        *(cell for name in SCORE_TITLES for cell in _score_cells(row, name)),
        BoardCell(row_notes(row, caution_letters(board)), " ".join(row.cautions), is_number=False),
    ]
    return PageRow(row_id, row.model, row.language, tuple(cells), row.asked_alike > 1)


def _score_cells(row: BoardRow, name: ScoreName) -> list[BoardCell]:
    """The score, sorted by its value (a bias by its distance from 0), and its range of ranks, by the best."""
    found = row.scores[name]
    size = abs(found.value) if is_bias(name) and found.value is not None else found.value
    rank = found.rank
    text = rank_text(rank) if rank is None else f"{rank_text(rank)} of {rank.of}"
    empty = is_bias(name) and row.standing in MEANS_NOTHING and found.value is not None
    shown = f"({number(found.value, signed=True)})" if empty else score_text(name, found)
    return [
        BoardCell(shown, _key(size)),
        BoardCell(text, "" if rank is None else f"{rank.best + rank.worst / 1000:.3f}"),
    ]


def _key(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
