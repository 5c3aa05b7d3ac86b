"""The leaderboard as tables, as paragraphs for a terminal, and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mbbq_gen.core.text import counted, visible_text
from mbbq_gen.report.analysis_tables import PROMPTS_COVERED
from mbbq_gen.report.charts.planes import AbilityPoint, ability_against_bias
from mbbq_gen.report.conclusions import UNINTERPRETABLE
from mbbq_gen.report.leaderboard import BOARD_METRICS, Leaderboard, LeaderboardRow, LeaderboardScore, RankInterval
from mbbq_gen.report.page import missing_charts, page_assets, render
from mbbq_gen.report.score_tables import BOUNDS_NOTE
from mbbq_gen.report.tables import (
    DASH,
    Block,
    Column,
    Table,
    bounds_text,
    interval_text,
    number,
    rounded_up,
    share,
)
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS

SCORE_TITLES = {
    name: METRICS[metric].title if split == "bias" else "accuracy, control"
    for name, (split, metric) in BOARD_METRICS.items()
}


# --- tables ----------------------------------------------------------------------------------------------------------


def is_bias(name: str) -> bool:
    """Whether a score of the leaderboard is a bias, which has a sign."""
    return "bias" in name


def rank_text(rank: RankInterval | None) -> str:
    """A rank interval: `2`, `1–3`; a dash for None."""
    if rank is None:
        return DASH
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"


def ranked_text(name: str, row: LeaderboardRow) -> str:
    """A score, `+0.12 [+0.03, +0.21]`, with its rank below; for a bias also equivalence bound and bounds.

    An uninterpretable bias is in brackets, without an interval.
    """
    score, signed = row.scores[name], is_bias(name)
    text = number(score.value, signed=signed)
    if signed and row.assessment in UNINTERPRETABLE and score.value is not None:
        return f"({text})"
    text += interval_text(score, signed=signed)
    if signed and score.equivalence_bound is not None:
        text += f", |bias| < {rounded_up(score.equivalence_bound)} (TOST)"
    if signed and (bounds := bounds_text(score.bounds)):
        text += f", bounds {bounds}"
    return text + (f"\nrank {rank_text(score.rank)} of {score.rank.of}" if score.rank else "")


def _cells(row: LeaderboardRow, board: Leaderboard) -> list[str]:
    """The cells of a row after its names: counts, scores, and letters of its cautions, of which `a` is the first."""
    letters = " ".join(chr(ord("a") + list(board.cautions).index(code)) for code in row.cautions)
    scores = (ranked_text(name, row) for name in SCORE_TITLES)
    return [f"{row.n_answers:,}", str(row.n_templates), share(row.parse_rate), *scores, letters]


def board_blocks(board: Leaderboard) -> Iterator[Block]:
    """Conclusions, the table, and notes: cautions by letter, differing prompts, definitions."""
    yield from (f"{benchmark}: {sentence}" for benchmark, sentence in board.conclusions.items())
    titles = (title.replace(", ", ",\n") for title in SCORE_TITLES.values())
    table = Table("benchmark", "language", "model", "answers", "templ.", "parsed", *titles, "notes")
    for row in board.rows:
        table.add_row(row.benchmark, row.language, row.model, *_cells(row, board))
    yield from ("", table)
    yield from (f"{chr(ord('a') + place)}: {text}" for place, text in enumerate(board.cautions.values()))
    for benchmark in board.conclusions:
        lines = _prompt_lines([row for row in board.rows if row.benchmark == benchmark])
        yield from (f"other prompts on {visible_text(benchmark)}: {line}" for line in lines)
    yield from [visible_text(board.serving)] if board.serving is not None else []
    yield f"|bias| < … (TOST): {board.equivalence_bound}."
    shown = [row for row in board.rows if row.assessment not in UNINTERPRETABLE]
    if any(bounds_text(score.bounds) for row in shown for score in row.scores.values()):
        yield f"bounds: {BOUNDS_NOTE}."
    yield f"rank: {board.ranks}."
    if board.average != "questions":
        yield f"scores: {AVERAGES[board.average]}."
    if board.prompt_effects == "random":
        yield f"intervals and ranks: {PROMPTS_COVERED[board.prompt_effects]}."
    yield board.no_overall_rank


def _prompt_lines(rows: Sequence[LeaderboardRow]) -> list[str]:
    """Models with differing prompts: `model (en, tr): prompt variants: bare instead of polite`."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.differences:
            found.setdefault((row.model, "; ".join(row.differences)), []).append(row.language)
    return [
        visible_text(f"{model} ({', '.join(languages)}): {differences}")
        for (model, differences), languages in found.items()
    ]


def _numbers(score: LeaderboardScore) -> dict[str, float | None]:
    """Suffix of a column's name → the score or one of the numbers that belong to it."""
    bounds, rank = score.bounds, score.rank
    return {
        "": score.value,
        "_ci_low": score.ci_low,
        "_ci_high": score.ci_high,
        "_bound_low": None if bounds is None else bounds.low,
        "_bound_high": None if bounds is None else bounds.high,
        "_equivalence_bound": score.equivalence_bound,
        "_rank_best": None if rank is None else rank.best,
        "_rank_worst": None if rank is None else rank.worst,
        "_ranked": None if rank is None else rank.of,
    }


def full_table(board: Leaderboard) -> Table:
    """A table for CSV, with one number in each cell."""
    columns = [Column(name, name) for name in ("benchmark", "language", "model", "n_answers", "n_templates")]
    columns.append(Column("parse_rate", "parse_rate"))
    columns += [Column(f"{name}{end}", name) for name in SCORE_TITLES for end in _numbers(LeaderboardScore())]
    table = Table(*columns, *(Column(name, name) for name in ("same_prompts", "differences", "average", "cautions")))
    for row in board.rows:
        start = (row.benchmark, row.language, row.model, row.n_answers, row.n_templates, row.parse_rate)
        scores = [one for name in SCORE_TITLES for one in _numbers(row.scores[name]).values()]
        end = (row.same_prompts, "; ".join(row.differences), board.average, " ".join(row.cautions))
        table.add_row(*start, *scores, *end)
    return table


# --- the page --------------------------------------------------------------------------------------------------------

_STYLES, _SCRIPTS = ("page.css", "picture.css", "board.css"), ("theme.js", "folds.js", "downloads.js", "board.js")


def board_page(board: Leaderboard, runs: Sequence[str] = (), names: Mapping[str, str] | None = None) -> str:
    """The page of the leaderboard; `runs`: folders as typed, for its command; `names`: language code → name."""
    parts = [_part(place, name, board, names or {}) for place, name in enumerate(board.conclusions, start=1)]
    return render(
        "board.html",
        f"Leaderboard: {counted(len(board.models), 'model')} on {', '.join(board.conclusions)}",
        page_assets(_STYLES, _SCRIPTS),
        [part["ability"] for part in parts if part["ability"] is not None],
        board=board,
        no_charts=missing_charts(),
        head=["language", "answers", "templates", "parsed", *SCORE_TITLES.values(), "notes"],
        parts=parts,
        cautions=[(chr(ord("a") + place), text) for place, text in enumerate(board.cautions.values())],
        definitions=[(SCORE_TITLES[name], board.definitions[name]) for name in SCORE_TITLES],
        command=" ".join(["mbbq-gen leaderboard", *runs, "-o board.html"]),
    )


def _part(place: int, benchmark: str, board: Leaderboard, names: Mapping[str, str]) -> dict[str, Any]:
    """The values of the template for one benchmark."""
    rows = [row for row in board.rows if row.benchmark == benchmark]
    shown = [(f"row-{place}-{number}", row) for number, row in enumerate(rows, start=1)]
    points = []
    for link, row in sorted(shown, key=lambda pair: (pair[1].model, pair[1].language)):
        control, bias = row.scores["control_accuracy"], row.scores["mbbq_bias_ambiguous"]
        accuracy = row.scores["accuracy_disambiguated"] if control.value is None else control
        points.append(AbilityPoint(row.model, benchmark, row.language, row.assessment, accuracy, bias, f"#{link}"))
    return {
        "id": f"board-{place}",
        "title": benchmark,
        "conclusion": board.conclusions[benchmark],
        "ability": ability_against_bias(points, names, f"picture-{place}"),
        "rows": [(link, row, [row.language, *_cells(row, board)]) for link, row in shown],
        "apart": _prompt_lines(rows),
    }
