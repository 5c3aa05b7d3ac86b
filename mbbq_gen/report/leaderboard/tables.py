"""The board as tables: short for a person, whole for a spreadsheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mbbq_gen.report.figures.table_text import Cell, Column, ColumnKind, DataTable
from mbbq_gen.report.plain_text import visible
from mbbq_gen.report.statistics_tables import SPOKEN_OF
from mbbq_gen.report.tables import BOUNDS_NOTE, DASH, bounds_text, number, rounded_up, share
from mbbq_gen.scoring import METRICS

if TYPE_CHECKING:
    from rich.table import Table

    from mbbq_gen.report.leaderboard.board import Board, BoardRow, BoardScore, CautionCode, ScoreName
    from mbbq_gen.report.leaderboard.ranks import RankRange

SCORE_TITLES: dict[ScoreName, str] = {
    "accuracy_ambiguous": METRICS["accuracy_ambiguous"].title,
    "accuracy_disambiguated": METRICS["accuracy_disambiguated"].title,
    "control_accuracy": "accuracy, control",
    "mbbq_bias_ambiguous": METRICS["mbbq_bias_ambiguous"].title,
    "diff_bias_disambiguated": METRICS["diff_bias_disambiguated"].title,
}


def is_bias(name: ScoreName) -> bool:
    """Whether a score has a sign."""
    return "bias" in name


def rank_text(rank: RankRange | None) -> str:
    """`2`, or `1–3` for a range; a dash where there is none."""
    if rank is None:
        return DASH
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"


def score_text(name: ScoreName, score: BoardScore) -> str:
    """`+0.12 [+0.03, +0.21]`, and of a bias what it is shown to be smaller than, `lean < 0.21`, and bounds."""
    signed = is_bias(name)
    text = number(score.value, signed=signed)
    if score.low is not None and score.high is not None:
        text += f" [{number(score.low, signed=signed)}, {number(score.high, signed=signed)}]"
    if signed and score.smaller_than is not None:
        text += f", lean < {rounded_up(score.smaller_than)}"
    bounds = bounds_text(score.bounds) if signed else ""
    return f"{text}, bounds {bounds}" if bounds else text


def caution_letters(board: Board) -> dict[CautionCode, str]:
    """Caution → the letter that stands for it in a table."""
    return {code: chr(ord("a") + place) for place, code in enumerate(board.cautions)}


def row_notes(row: BoardRow, letters: dict[CautionCode, str]) -> str:
    """The letters of a row's cautions."""
    return " ".join(letters[code] for code in row.cautions)


def board_table(board: Board) -> DataTable:
    """Scores with intervals, ranges of ranks and notes, as texts."""
    columns = [Column(name, name) for name in ("benchmark", "language", "model")]
    columns += [
        Column("n_items", "items", "count"),
        Column("n_templates", "templates", "count"),
        Column("read", "read"),
    ]
    for name, title in SCORE_TITLES.items():
        columns += [Column(name, title), Column(f"{name}_rank", "rank")]
    columns.append(Column("notes", "notes"))
    letters = caution_letters(board)
    rows: list[tuple[Cell, ...]] = [
        (
            *(row.benchmark, row.language, row.model, row.n_items, row.n_templates, share(row.detection_rate)),
            *(
                text
                for name in SCORE_TITLES
                for text in (score_text(name, row.scores[name]), rank_text(row.scores[name].rank))
            ),
            row_notes(row, letters),
        )
        for row in board.rows
    ]
    return DataTable(tuple(columns), tuple(rows))


def full_table(board: Board) -> DataTable:
    """Every number in a cell of its own."""
    columns = [Column(name, name) for name in ("benchmark", "language", "model")]
    columns += [
        Column("n_items", "items", "count"),
        Column("n_templates", "templates", "count"),
        Column("detection_rate", "read", "share"),
    ]
    for name, title in SCORE_TITLES.items():
        kind: ColumnKind = "score" if is_bias(name) else "share"
        columns += [
            Column(name, title, kind),
            Column(f"{name}_low", "low", kind),
            Column(f"{name}_high", "high", kind),
            Column(f"{name}_bound_low", "lower bound", kind),
            Column(f"{name}_bound_high", "upper bound", kind),
            Column(f"{name}_smaller_than", "smaller than", kind),
            Column(f"{name}_rank_best", "best rank", "count"),
            Column(f"{name}_rank_worst", "worst rank", "count"),
            Column(f"{name}_ranked", "models ranked", "count"),
        ]
    columns += [Column("asked_alike", "asked alike", "count"), Column("differences", "differences")]
    columns.append(Column("cautions", "cautions"))
    return DataTable(tuple(columns), tuple(_full_row(row) for row in board.rows))


def _full_row(row: BoardRow) -> tuple[Cell, ...]:
    cells: list[Cell] = [row.benchmark, row.language, row.model, row.n_items, row.n_templates, row.detection_rate]
    for name in SCORE_TITLES:
        found = row.scores[name]
        rank = found.rank
        bounds = found.bounds
        cells += [found.value, found.low, found.high]
        cells += [bounds.low if bounds else None, bounds.high if bounds else None, found.smaller_than]
        cells += [None, None, None] if rank is None else [rank.best, rank.worst, rank.of]
    return (*cells, row.asked_alike, "; ".join(row.differences), " ".join(row.cautions))


def board_notes(board: Board) -> list[str]:
    """What stands under the table: cautions by letter, who was asked otherwise and how, what a rank is."""
    letters = caution_letters(board)
    notes = [f"{letters[code]}: {text}" for code, text in board.cautions.items()]
    for benchmark in dict.fromkeys(row.benchmark for row in board.rows):
        rows = [row for row in board.rows if row.benchmark == benchmark]
        notes += [f"asked otherwise on {visible(benchmark)}: {line}" for line in asked_otherwise(rows)]
    notes.append(f"lean < …: {board.smaller_than}.")
    if any(bounds_text(score.bounds) for row in board.rows for score in row.scores.values()):
        notes.append(f"bounds: {BOUNDS_NOTE}.")
    notes.append(f"rank: {board.ranks}.")
    if board.wordings == "random":
        notes.append(f"intervals and ranks: {SPOKEN_OF[board.wordings]}.")
    notes.append(board.no_total)
    return notes


def asked_otherwise(rows: Sequence[BoardRow]) -> list[str]:
    """Who was asked otherwise, in which languages, and how: `model (en, tr): wordings: bare instead of polite`."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        if row.differences:
            found.setdefault((row.model, row.differences), []).append(row.language)
    return [
        f"{visible(model)} ({', '.join(languages)}): {visible('; '.join(differences))}"
        for (model, differences), languages in found.items()
    ]


def terminal_table(board: Board) -> Table:
    """The board for a terminal: intervals and ranks under their scores, so that it is not too wide."""
    from mbbq_gen.report.statistics_tables import plain_table

    titles = [title.replace(", ", ",\n") for title in SCORE_TITLES.values()]
    table = plain_table(["benchmark", "language", "model", "items", "templ.", "read", *titles, "notes"])
    letters = caution_letters(board)
    for row in board.rows:
        scores = []
        for name in SCORE_TITLES:
            rank = row.scores[name].rank
            ranked = "" if rank is None else f"\nrank {rank_text(rank)} of {rank.of}"
            scores.append(score_text(name, row.scores[name]) + ranked)
        start = (row.benchmark, row.language, visible(row.model), f"{row.n_items:,}", f"{row.n_templates:,}")
        table.add_row(*start, share(row.detection_rate), *scores, row_notes(row, letters))
    return table
