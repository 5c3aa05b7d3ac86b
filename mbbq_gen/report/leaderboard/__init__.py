"""Several models beside each other: scores with intervals, ranges of ranks where intervals allow, who was asked alike.

board = make_board(frame, manifests, sampling)      records, which leave as JSON
board_table(board), full_table(board)               tables for a person, and for a spreadsheet
page.board_page(board)                              a page for a browser
"""

from __future__ import annotations

from mbbq_gen.report.leaderboard.board import BOARD_METRICS, Board, BoardRow, BoardScore, make_board
from mbbq_gen.report.leaderboard.ranks import RankRange
from mbbq_gen.report.leaderboard.tables import board_table, full_table

__all__ = [
    "BOARD_METRICS",
    "Board",
    "BoardRow",
    "BoardScore",
    "RankRange",
    "board_table",
    "full_table",
    "make_board",
]
