"""The leaderboard as tables, as paragraphs for a terminal, and as a page with a panel a score.

                 en                 tr
    a            ────┼──●──         ──○┼─────
                 +0.39 · 2 of 2     (+0.12)

Every panel has its numbers in it and behind it, so that nothing has to be read off a scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.core.text import counted, visible_text
from mbbq_gen.report.analysis_tables import SPOKEN_OF
from mbbq_gen.report.assessments import NO_CLAIM, UNINTERPRETABLE
from mbbq_gen.report.charts import Chart
from mbbq_gen.report.charts.planes import AbilityPoint, ability_against_bias
from mbbq_gen.report.charts.vega import INK, Spec, interval, series_of, short_names, with_encoding
from mbbq_gen.report.conclusions import listing
from mbbq_gen.report.leaderboard import Leaderboard, LeaderboardRow, LeaderboardScore, ScoreName
from mbbq_gen.report.page import missing_charts, page_assets, render
from mbbq_gen.report.score_tables import BOUNDS_NOTE
from mbbq_gen.report.tables import (
    DASH,
    Block,
    Cell,
    Column,
    ColumnKind,
    Table,
    bounds_text,
    ends_text,
    number,
    rounded_up,
    share,
    text_table,
)
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    from mbbq_gen.report.leaderboard import CautionCode, RankInterval

SCORE_TITLES: dict[ScoreName, str] = {
    "accuracy_ambiguous": METRICS["accuracy_ambiguous"].title,
    "accuracy_disambiguated": METRICS["accuracy_disambiguated"].title,
    "control_accuracy": "accuracy, control",
    "mbbq_bias_ambiguous": METRICS["mbbq_bias_ambiguous"].title,
    "diff_bias_disambiguated": METRICS["diff_bias_disambiguated"].title,
}
_PANELS: tuple[ScoreName, ...] = (
    *("mbbq_bias_ambiguous", "control_accuracy"),
    *("diff_bias_disambiguated", "accuracy_ambiguous", "accuracy_disambiguated"),
)
"""The panels as they stand on the page: first what the board is for, and what tells whether it means anything."""
_OPEN = _PANELS[:2]
"""Those that are not folded."""


# --- tables ----------------------------------------------------------------------------------------------------------


def is_bias(name: ScoreName) -> bool:
    """Whether a score has a sign."""
    return "bias" in name


def rank_text(rank: RankInterval | None) -> str:
    """`2`, or `1–3` for a range; a dash where there is none."""
    if rank is None:
        return DASH
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"


def score_text(name: ScoreName, score: LeaderboardScore) -> str:
    """`+0.12 [+0.03, +0.21]`, and of a bias what it is shown to be smaller than, `|bias| < 0.21 (TOST)`, and bounds."""
    signed = is_bias(name)
    text = number(score.value, signed=signed) + ends_text(score, signed=signed)
    if signed and score.equivalence_bound is not None:
        text += f", |bias| < {rounded_up(score.equivalence_bound)} (TOST)"
    bounds = bounds_text(score.bounds) if signed else ""
    return f"{text}, bounds {bounds}" if bounds else text


def caution_letters(board: Leaderboard) -> dict[CautionCode, str]:
    """Caution → the letter that stands for it in a table."""
    return {code: chr(ord("a") + place) for place, code in enumerate(board.cautions)}


def row_notes(row: LeaderboardRow, letters: dict[CautionCode, str]) -> str:
    """The letters of a row's cautions."""
    return " ".join(letters[code] for code in row.cautions)


_KEYS = (
    *(Column(name, name) for name in ("benchmark", "language", "model")),
    *(Column("n_answers", "answers", "count"), Column("n_templates", "templates", "count")),
)


def _key_cells(row: LeaderboardRow) -> tuple[Cell, ...]:
    return (row.benchmark, row.language, row.model, row.n_answers, row.n_templates)


def board_table(board: Leaderboard) -> Table:
    """Scores with intervals, ranges of ranks and notes, as texts."""
    scores = ((Column(name, title), Column(f"{name}_rank", "rank")) for name, title in SCORE_TITLES.items())
    columns = (
        *_KEYS,
        Column("parse_rate", "parsed"),
        *(one for pair in scores for one in pair),
        Column("notes", "notes"),
    )
    letters = caution_letters(board)
    rows = []
    for row in board.rows:
        texts = [(score_text(name, row.scores[name]), rank_text(row.scores[name].rank)) for name in SCORE_TITLES]
        cells = (text for pair in texts for text in pair)
        rows.append((*_key_cells(row), share(row.parse_rate), *cells, row_notes(row, letters)))
    return Table(columns, tuple(rows))


_NUMBERS = {
    **{"ci_low": "CI low", "ci_high": "CI high", "bound_low": "lower bound", "bound_high": "upper bound"},
    **{"equivalence_bound": "equivalence bound", "rank_best": "best rank", "rank_worst": "worst rank"},
    "ranked": "models ranked",
}
"""Numbers beside a score → their titles."""


def _number_columns(name: ScoreName, parts: Sequence[str], prefix: str = "") -> list[Column]:
    """A score and numbers beside it."""
    kind: ColumnKind = "score" if is_bias(name) else "share"
    others = (Column(prefix + part, _NUMBERS[part], "count" if "rank" in part else kind) for part in parts)
    return [Column(name, SCORE_TITLES[name], kind), *others]


def _number_cells(score: LeaderboardScore, parts: Sequence[str]) -> list[Cell]:
    rank, bounds = score.rank, score.bounds
    found = {"ci_low": score.ci_low, "ci_high": score.ci_high, "equivalence_bound": score.equivalence_bound}
    found |= {} if bounds is None else {"bound_low": bounds.low, "bound_high": bounds.high}
    found |= {} if rank is None else {"rank_best": rank.best, "rank_worst": rank.worst, "ranked": rank.of}
    return [score.value, *map(found.get, parts)]


def full_table(board: Leaderboard) -> Table:
    """Every number in a cell of its own."""
    columns = [*_KEYS, Column("parse_rate", "parsed", "share")]
    for name in SCORE_TITLES:
        columns += _number_columns(name, list(_NUMBERS), f"{name}_")
    columns += [Column("same_prompts", "same prompts", "count")]
    columns += [Column(name, name) for name in ("differences", "average", "cautions")]
    rows = []
    for row in board.rows:
        scores = (cell for name in SCORE_TITLES for cell in _number_cells(row.scores[name], list(_NUMBERS)))
        texts = ("; ".join(row.differences), board.average, " ".join(row.cautions))
        rows.append((*_key_cells(row), row.parse_rate, *scores, row.same_prompts, *texts))
    return Table(tuple(columns), tuple(rows))


def board_notes(board: Leaderboard) -> list[str]:
    """What stands under the table: cautions by letter, whose prompts differ and how, what a rank is."""
    letters = caution_letters(board)
    notes = [f"{letters[code]}: {text}" for code, text in board.cautions.items()]
    for benchmark in dict.fromkeys(row.benchmark for row in board.rows):
        rows = [row for row in board.rows if row.benchmark == benchmark]
        notes += [f"other prompts on {visible_text(benchmark)}: {line}" for line in prompts_differ(rows)]
    notes += [visible_text(board.serving)] if board.serving is not None else []
    notes.append(f"|bias| < … (TOST): {board.equivalence_bound}.")
    if any(bounds_text(score.bounds) for row in board.rows for score in row.scores.values()):
        notes.append(f"bounds: {BOUNDS_NOTE}.")
    notes.append(f"rank: {board.ranks}.")
    if board.average != "questions":
        notes.append(f"scores: {AVERAGES[board.average]}.")
    if board.prompt_effects == "random":
        notes.append(f"intervals and ranks: {SPOKEN_OF[board.prompt_effects]}.")
    notes.append(board.no_overall_rank)
    return notes


def prompts_differ(rows: Sequence[LeaderboardRow]) -> list[str]:
    """Whose prompts differ, in which languages, and how: `model (en, tr): prompt variants: bare instead of polite`."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        if row.differences:
            found.setdefault((row.model, row.differences), []).append(row.language)
    return [
        f"{visible_text(model)} ({', '.join(languages)}): {visible_text('; '.join(differences))}"
        for (model, differences), languages in found.items()
    ]


def board_blocks(board: Leaderboard) -> Iterator[Block]:
    """Conclusions, the table with intervals and ranks under their scores, so that it is not too wide, and the notes."""
    yield from (f"{benchmark}: {sentence}" for benchmark, sentence in board.conclusions.items())
    yield ""
    letters = caution_letters(board)
    rows = []
    for row in board.rows:
        scores = []
        for name in SCORE_TITLES:
            rank = row.scores[name].rank
            ranked = "" if rank is None else f"\nrank {rank_text(rank)} of {rank.of}"
            scores.append(score_text(name, row.scores[name]) + ranked)
        start = (row.benchmark, row.language, row.model, f"{row.n_answers:,}", f"{row.n_templates:,}")
        rows.append((*start, share(row.parse_rate), *scores, row_notes(row, letters)))
    titles = [title.replace(", ", ",\n") for title in SCORE_TITLES.values()]
    yield text_table(["benchmark", "language", "model", "answers", "templ.", "parsed", *titles, "notes"], rows)
    yield from board_notes(board)


# --- panels --------------------------------------------------------------------------------------------------------


def panels(rows: Sequence[LeaderboardRow], place: int, names: Mapping[str, str]) -> list[Chart]:
    """The panels of the rows of the benchmark at a place on its page; those without any score are left out."""
    return [
        Chart(
            name=f"panel-{place}-{name}",
            title=SCORE_TITLES[name],
            sees=f"{_sees(rows, name)} Its rank interval stands beside each score.",
            alt=f"{_sees(rows, name)} The numbers are in the table below.",
            caption="",
            table=_panel_table(rows, name),
            spec=_panel_spec(rows, name, names),
        )
        for name in _PANELS
        if any(row.scores[name].value is not None for row in rows)
    ]


def _sees(rows: Sequence[LeaderboardRow], name: ScoreName) -> str:
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


def _panel_table(rows: Sequence[LeaderboardRow], name: ScoreName) -> Table:
    parts = ("ci_low", "ci_high", "rank_best", "rank_worst", "ranked")
    columns = (Column("model", "model"), Column("language", "language"), *_number_columns(name, parts))
    cells = ((row.model, row.language, *_number_cells(row.scores[name], parts), row.assessment) for row in rows)
    return Table((*columns, Column("assessment", "assessment")), tuple(cells))


def _panel_spec(rows: Sequence[LeaderboardRow], name: ScoreName, names: Mapping[str, str]) -> Spec:
    """The scores' numbers for their strips.

    A bias that says nothing is hollow and in brackets, without an interval, for that would invite to read it.
    """
    models, languages = (sorted({getattr(row, field) for row in rows}) for field in ("model", "language"))
    called = dict(zip(models, short_names(models), strict=True))
    values: list[Spec] = []
    for row in rows:
        score = row.scores[name]
        means_nothing = is_bias(name) and row.assessment in UNINTERPRETABLE
        text = number(score.value, signed=is_bias(name))
        ranked = "" if score.rank is None else f" · {rank_text(score.rank)} of {score.rank.of}"
        cell: Spec = {"row": called[row.model], "column": names.get(row.language, row.language), "value": score.value}
        cell |= {"text": f"({text})" if means_nothing else text + ranked}
        cell |= {"hollow": is_bias(name) and row.assessment in NO_CLAIM}
        cell |= {} if means_nothing else {"low": score.ci_low, "high": score.ci_high}
        values += [cell] if score.value is not None else []
    # Room for every score and interval of a bias, in quarters, at least a half.
    scores = [row.scores[name] for row in rows]
    ends = [abs(end) for score in scores for end in (score.value, score.ci_low, score.ci_high) if end is not None]
    reach = max(0.5, min(1.0, math.ceil(max(ends) * 4) / 4)) if is_bias(name) else None
    return _strips(values, list(called.values()), [names.get(code, code) for code in languages], reach)


_STRIP = 130
"""Pixels of a strip's width."""


def _strips(values: list[Spec], rows: Sequence[str], columns: Sequence[str], reach: float | None) -> Spec:
    """Scores on lines, a row and a column each: biases about 0, accuracies beside that of guessing (`reach` None)."""
    low, high = (0.0, 1.0) if reach is None else (-reach, reach)
    scale = {"domain": [low, high], "clamp": True}
    place = {"type": "quantitative", "scale": scale, "axis": None}
    series = series_of(rows, 0, field="row")
    shown = {channel: {**encoding, "legend": None} for channel, encoding in series.items()}
    inked = {"condition": {"test": "datum.hollow", "value": INK}, **shown["color"]}
    filled = {"condition": {"test": "datum.hollow", "value": "transparent"}, **shown["color"]}
    ends = {"x": {"datum": low, **place}, "x2": {"datum": high}}
    against = {"x": {"datum": CHANCE if reach is None else 0, **place}}
    mark = {"x": {"field": "value", **place}, "fill": filled, "stroke": inked, "shape": shown["shape"]}
    middle = {"x": {"value": _STRIP / 2}, "text": {"field": "text"}}
    row = {"field": "row", "type": "nominal", "scale": {"domain": rows}, "axis": {"domain": False, "ticks": False}}
    return {
        "data": {"values": values},
        "spacing": 20,
        "facet": {"column": {"field": "column", "type": "nominal", "sort": columns, "header": {"orient": "top"}}},
        "spec": {
            "width": _STRIP,
            "height": {"step": 46},
            "encoding": {"y": row},
            "layer": [
                {"mark": {"type": "rule", "opacity": 0.3}, "encoding": ends},
                {
                    "mark": {"type": "tick", "color": INK, "size": 18, "thickness": 1, "opacity": 0.7},
                    "encoding": against,
                },
                with_encoding(interval("x", {"scale": scale, "axis": None}, strokeWidth=3), color=inked),
                {"mark": {"type": "point", "size": 90, "strokeWidth": 1.5}, "encoding": mark},
                {"mark": {"type": "text", "dy": 17, "fontSize": 11, "opacity": 0.85}, "encoding": middle},
            ],
        },
    }


# --- the page --------------------------------------------------------------------------------------------------------

_STYLES, _SCRIPTS = ("page.css", "picture.css", "board.css"), ("theme.js", "folds.js", "downloads.js", "board.js")
_HEAD: tuple[tuple[str, bool, str], ...] = (
    *(("language", False, ""), ("answers", True, ""), ("templates", True, ""), ("parsed", True, "")),
    *(column for title in SCORE_TITLES.values() for column in ((title, True, ""), ("rank", True, title))),
    ("notes", False, ""),
)
"""Of every column after the model's: title, whether it holds numbers, what it is a rank by."""


def board_page(board: Leaderboard, runs: Sequence[str] = (), names: Mapping[str, str] | None = None) -> str:
    """The page, with the command that makes it anew of the runs as they were typed; `names`: language code → name."""
    benchmarks = list(dict.fromkeys(row.benchmark for row in board.rows))
    letters = caution_letters(board)
    parts = [_part(place, name, board, names or {}) for place, name in enumerate(benchmarks, start=1)]
    return render(
        "board.html",
        f"Leaderboard: {counted(len(board.models), 'model')} on {', '.join(benchmarks)}",
        page_assets(_STYLES, _SCRIPTS),
        [chart for part in parts for chart in (part["ability"], *part["panels"]) if chart is not None],
        board=board,
        no_charts=missing_charts(),
        open=[SCORE_TITLES[name] for name in _OPEN],
        head=_HEAD,
        languages=sorted({(code, (names or {}).get(code, code)) for code in (row.language for row in board.rows)}),
        parts=parts,
        cautions=[(letters[code], text) for code, text in board.cautions.items()],
        definitions=[(SCORE_TITLES[name], board.definitions[name]) for name in SCORE_TITLES],
        command=" ".join(["mbbq-gen leaderboard", *runs, "-o board.html"]),
    )


def _part(place: int, benchmark: str, board: Leaderboard, names: Mapping[str, str]) -> dict[str, Any]:
    """What is shown of one benchmark."""
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
        "panels": panels(rows, place, names),
        "rows": [(link, row, _page_cells(row, board)) for link, row in shown],
        "apart": prompts_differ(rows),
    }


def _page_cells(row: LeaderboardRow, board: Leaderboard) -> list[tuple[str, str]]:
    """The cells of a row, each with what it is sorted by: a number where it is one; empty, which stands last.

    A bias is sorted by its distance from 0, a range of ranks by the best.
    """
    cells = [
        (row.language, row.language),
        (f"{row.n_answers:,}", str(row.n_answers)),
        (str(row.n_templates), str(row.n_templates)),
        (share(row.parse_rate), "" if row.parse_rate is None else f"{row.parse_rate:.6f}"),
    ]
    for name in SCORE_TITLES:
        found, rank = row.scores[name], row.scores[name].rank
        empty = is_bias(name) and row.assessment in UNINTERPRETABLE and found.value is not None
        shown = f"({number(found.value, signed=True)})" if empty else score_text(name, found)
        size = abs(found.value) if is_bias(name) and found.value is not None else found.value
        cells.append((shown, "" if size is None else f"{size:.6f}"))
        best_first = "" if rank is None else f"{rank.best + rank.worst / 1000:.3f}"
        cells.append((rank_text(rank) + (f" of {rank.of}" if rank else ""), best_first))
    return [*cells, (row_notes(row, caution_letters(board)), " ".join(row.cautions))]
