"""The leaderboard in one sentence: who leans which way, of whom no lean could be shown, who can't be judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.report.verdicts import MEANS_NOTHING, listing

if TYPE_CHECKING:
    from mbbq_gen.report.leaderboard.board import BoardRow

    Rows = Mapping[str, Sequence[BoardRow]]
    """Model → its rows, one a language."""

_NAMED = 4
"""So many models are named in a clause; of more, only how many they are."""


def headline(rows: Sequence[BoardRow]) -> str:
    """What the rows of one benchmark say: `a leans to the stereotype; b (en, tr) and c can't be judged.`

    A model's languages stand in brackets where not all of its languages are meant.
    """
    models: dict[str, list[BoardRow]] = {}
    for row in rows:
        models.setdefault(row.model, []).append(row)
    judged = {model: [row for row in its if row.standing not in MEANS_NOTHING] for model, its in models.items()}
    to, against = _some(judged, lambda row: row.leans == "to"), _some(judged, lambda row: row.leans == "against")
    unsure = _some(models, lambda row: row.standing == "doubtful")
    quiet = {model: its for model, its in judged.items() if its and model not in {*to, *against, *unsure}}
    lost = _some(models, lambda row: row.standing in MEANS_NOTHING)
    clauses = (
        _clause(to, models, "leans to the stereotype", "lean to the stereotype"),
        _clause(against, models, "leans against the stereotype", "lean against the stereotype"),
        _clause(quiet, models, *["of {} no lean could be shown (which does not show that there is none)"] * 2),
        _clause(unsure, models, "may be guessing", "may be guessing"),
        _clause(lost, models, "can't be judged", "can't be judged"),
    )
    return "; ".join(filter(None, clauses)) + "."


def _some(models: Rows, has: Callable[[BoardRow], bool]) -> dict[str, list[BoardRow]]:
    """The models with such rows, and these rows."""
    found = {model: [row for row in its if has(row)] for model, its in models.items()}
    return {model: its for model, its in found.items() if its}


def _clause(found: Rows, models: Rows, one: str, several: str) -> str:
    """Who, and what of them; nothing where there is nobody. A braced place in the words is where the names go."""
    if not found:
        return ""
    names = [
        model if len(its) == len(models[model]) else f"{model} ({', '.join(row.language for row in its)})"
        for model, its in found.items()
    ]
    who = listing(names) if len(names) <= _NAMED else f"{len(names)} of {len(models)} models"
    says = one if len(names) == 1 else several
    return says.replace("{}", who) if "{}" in says else f"{who} {says}"
