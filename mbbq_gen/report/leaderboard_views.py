"""The leaderboard as paragraphs and a table for a terminal or a page, and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mbbq_gen.core.text import counted
from mbbq_gen.report.analysis_tables import PROMPTS_COVERED
from mbbq_gen.report.charts.planes import AbilityPoint, ability_against_bias
from mbbq_gen.report.conclusions import UNINTERPRETABLE
from mbbq_gen.report.leaderboard import BOARD_METRICS, Leaderboard, LeaderboardRow, RankInterval
from mbbq_gen.report.page import html_page
from mbbq_gen.report.tables import DASH, Block, Column, Command, Table, interval_text, number, share
from mbbq_gen.report.view_model import PageSection
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS

SCORE_TITLES = {
    name: METRICS[metric].title if split == "bias" else "accuracy, control"
    for name, (split, metric) in BOARD_METRICS.items()
}


def rank_text(rank: RankInterval | None) -> str:
    """A rank interval: `2`, `1–3`; a dash for None."""
    if rank is None:
        return DASH
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"


def _score_text(name: str, row: LeaderboardRow) -> str:
    """A score with interval and rank below; an uninterpretable bias in brackets, without interval."""
    score, signed = row.scores.get(name), "bias" in name
    if score is None:
        return DASH
    text = number(score.value, signed=signed)
    if signed and row.assessment in UNINTERPRETABLE and score.value is not None:
        return f"({text})"
    rank = "" if score.rank is None else f"\nrank {rank_text(score.rank)} of {score.rank.of}"
    return text + interval_text(score, signed=signed, before="\n") + rank


def notices(board: Leaderboard) -> Iterator[str]:
    """Runs that are not comparable with the others, and differences in server or sampling."""
    differing: dict[tuple[str, str], list[str]] = {}
    for row in board.rows:
        if row.differences:
            key = f"{row.model} on {row.benchmark}", "; ".join(row.differences)
            differing.setdefault(key, []).append(row.language)
    for (name, differences), languages in differing.items():
        yield f"Other prompts, not comparable: {name} ({', '.join(languages)}): {differences}."
    if board.serving is not None:
        yield board.serving


def board_blocks(board: Leaderboard) -> Iterator[Block]:
    """The leaderboard for a terminal: conclusions, notices, and scores."""
    yield from (f"{name}: {sentence}" for name, sentence in board.conclusions.items())
    yield from notices(board)
    yield ""
    yield from score_blocks(board)


def score_blocks(board: Leaderboard) -> Iterator[Block]:
    """The table, and the meaning of its notes, ranks and intervals."""
    letters = dict(zip(board.cautions, "abcdefgh", strict=False))
    titles = (Column(name, title.replace(", ", ",\n"), "number") for name, title in SCORE_TITLES.items())
    table = Table("model", "benchmark", "language", "answers", "templ.", "parsed", *titles, "notes")
    for row in board.rows:
        counts = (row.n_answers, row.n_templates, share(row.parse_rate))
        scores = (_score_text(name, row) for name in SCORE_TITLES)
        notes = " ".join(letters[code] for code in row.cautions)
        table.add_row(row.model, row.benchmark, row.language, *counts, *scores, notes)
    yield table
    yield from (f"{letters[code]}: {text}" for code, text in board.cautions.items())
    yield f"rank: {board.ranks}."
    if board.average != "questions":
        yield f"scores: {AVERAGES[board.average]}."
    if board.prompt_effects == "random":
        yield f"intervals and ranks: {PROMPTS_COVERED[board.prompt_effects]}."
    yield board.no_overall_rank


def full_table(board: Leaderboard) -> Table:
    """A table for CSV: a row for each score, with one number in each cell."""
    numbers = ("value", "ci_low", "ci_high", "rank_best", "rank_worst", "ranked")
    table = Table("benchmark", "language", "model", "score", *numbers, "average", "cautions")
    for row in board.rows:
        for name, score in row.scores.items():
            ranks = (None, None, None) if score.rank is None else tuple(score.rank.model_dump().values())
            values = (score.value, score.ci_low, score.ci_high, *ranks, board.average, " ".join(row.cautions))
            table.add_row(row.benchmark, row.language, row.model, name, *values)
    return table


def board_page(board: Leaderboard, runs: Sequence[str] = ()) -> str:
    """The page of the leaderboard; `runs`: folders as typed, for its command."""
    points = []
    for row in sorted(board.rows, key=lambda row: (row.model, row.language)):
        accuracy = row.scores.get("control_accuracy", row.scores["accuracy_disambiguated"])
        bias = row.scores["mbbq_bias_ambiguous"]
        points.append(AbilityPoint(row.model, row.benchmark, row.language, row.assessment, accuracy, bias))
    intro = (
        f"Scores with {board.confidence_level:.0%} intervals over templates. Bias above 0 is stereotypical, below 0 "
        "anti-stereotypical; in round brackets, and without an interval: a bias that can't be interpreted. No score "
        "shows that a model is free of bias: a benchmark covers only its own stereotypes and prompts."
    )
    definitions = Table("score", "formula", "source", "meaning")
    for name, one in board.definitions.items():
        definitions.add_row(SCORE_TITLES[name], one.formula, one.source, one.meaning)
    command = Command(" ".join(["mbbq-gen leaderboard", *runs, "-o board.html"]))
    return html_page(
        f"Leaderboard: {counted(len(board.models), 'model')} on {', '.join({row.benchmark: 0 for row in board.rows})}",
        conclusions=list(board.conclusions.items()),
        notices=list(notices(board)),
        ability=ability_against_bias(points, {}),
        sections=[
            PageSection("scores", "Scores and ranks", (intro, *score_blocks(board), command), is_open=True),
            PageSection("about", "About the scores", (definitions,)),
        ],
    )
