"""The board as a page for a browser: its tables sort, by mouse and by keyboard, and stand without scripts too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbbq_gen.report.html.page import Assets, render
from mbbq_gen.report.html.safe import page_part, page_policy
from mbbq_gen.report.leaderboard.board import Board, BoardRow, ScoreName
from mbbq_gen.report.leaderboard.tables import (
    SCORE_TITLES,
    asked_otherwise,
    caution_letters,
    is_bias,
    rank_text,
    row_notes,
    score_text,
)
from mbbq_gen.report.tables import share

_STYLES, _SCRIPTS = ("page.css", "board.css"), ("theme.js", "board.js")


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

    model: str
    cells: tuple[BoardCell, ...]
    is_apart: bool
    """Whether it was asked otherwise than most."""


@dataclass(frozen=True)
class Part:
    """The rows of one benchmark."""

    id: str
    title: str
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


def board_page(board: Board, runs: Sequence[str] = ()) -> str:
    """The page; `runs`: the runs' folders, as they were typed, for the command that makes it anew."""
    benchmarks = list(dict.fromkeys(row.benchmark for row in board.rows))
    letters = caution_letters(board)
    return render(
        "board.html",
        f"Leaderboard: {len(board.models)} models on {', '.join(benchmarks)}",
        _assets(),
        board=board,
        head=HEAD,
        parts=[_part(place, name, board) for place, name in enumerate(benchmarks, start=1)],
        cautions=[(letters[code], text) for code, text in board.cautions.items()],
        definitions=[(SCORE_TITLES[name], board.definitions[name]) for name in SCORE_TITLES],
        command=" ".join(["mbbq-gen leaderboard", *runs, "-o board.html"]),
    )


def _assets() -> Assets:
    style, script = ("\n".join(page_part(name) for name in names) for names in (_STYLES, _SCRIPTS))
    return Assets(style, script, page_policy([style], [script]))


def _part(place: int, benchmark: str, board: Board) -> Part:
    rows = [row for row in board.rows if row.benchmark == benchmark]
    return Part(
        id=f"board-{place}",
        title=benchmark,
        rows=tuple(_page_row(row, board) for row in rows),
        apart=tuple(asked_otherwise(rows)),
    )


def _page_row(row: BoardRow, board: Board) -> PageRow:
    cells = [
        BoardCell(row.language, row.language, is_number=False),
        BoardCell(f"{row.n_items:,}", str(row.n_items)),
        BoardCell(str(row.n_templates), str(row.n_templates)),
        BoardCell(share(row.detection_rate), _key(row.detection_rate)),
        *(cell for name in SCORE_TITLES for cell in _score_cells(row, name)),
        BoardCell(row_notes(row, caution_letters(board)), " ".join(row.cautions), is_number=False),
    ]
    return PageRow(row.model, tuple(cells), row.asked_alike > 1)


def _score_cells(row: BoardRow, name: ScoreName) -> list[BoardCell]:
    """The score, sorted by its value (a bias by its distance from 0), and its range of ranks, by the best."""
    found = row.scores[name]
    size = abs(found.value) if is_bias(name) and found.value is not None else found.value
    rank = found.rank
    text = rank_text(rank) if rank is None else f"{rank_text(rank)} of {rank.of}"
    return [
        BoardCell(score_text(name, found), _key(size)),
        BoardCell(text, "" if rank is None else f"{rank.best + rank.worst / 1000:.3f}"),
    ]


def _key(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
