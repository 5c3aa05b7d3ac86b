"""The data dictionary: meaning, type and values of every column of samples and scores.

Every export contains the dictionary of its columns; `python docs/generate.py` writes all columns.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.scores import MetricDefinition

_TEXTS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
ITEM_COLUMNS, DESIGN_COLUMNS = _TEXTS["samples"], _TEXTS["samples_of_some_runs"]
"""Column of samples → meaning; the second has those that only some runs have."""
SCHEMA_VERSION: Final = "mbbq-gen.samples/1"
"""Raised when a column changes its name or meaning; new columns may come without."""
GROUP_COLUMN = "The group's value of this grouping."
SCORE_COLUMNS, RUN_KEYS, OUTCOMES = _TEXTS["scores"], _TEXTS["run"], _TEXTS["outcomes"]
"""Column of scores, key of export.json, and outcome, → meaning."""


def data_dictionary(
    items: Mapping[str, polars.DataType],
    scores: Mapping[str, polars.DataType],
    metrics: Mapping[str, MetricDefinition],
    lead: str = "",
) -> str:
    """The meaning of these columns and metrics as Markdown; items as of `Run.samples`."""
    meanings = ITEM_COLUMNS | DESIGN_COLUMNS
    lines = ["# Data dictionary", "", *([lead, ""] if lead else []), f"Schema: `{SCHEMA_VERSION}`.", ""]
    head = ("column", "type", "meaning", "values")
    lines += _section("samples", head, [_row(name, kind, meanings[name]) for name, kind in items.items()])
    found = [_row(name, kind, SCORE_COLUMNS.get(name, GROUP_COLUMN)) for name, kind in scores.items()]
    lines += _section("scores", head, found)
    if metrics:
        defined = [(f"`{name}`", one.formula, one.meaning, one.sign, one.source) for name, one in metrics.items()]
        lines += _section("Metrics", ("metric", "formula", "meaning", "sign", "source"), defined)
    keys = [(f"`{name}`", meaning) for name, meaning in RUN_KEYS.items()]
    where = "Keys of `export.json`, and of `runtime_info` in `manifest.json`."
    lines += _section("Server and sampling", ("key", "meaning"), keys, where)
    outcomes = [(f"`{name}`", meaning) for name, meaning in OUTCOMES.items()]
    return "\n".join([*lines, *_section("Outcomes", ("outcome", "meaning"), outcomes)])


def _row(name: str, kind: polars.DataType, meaning: str) -> tuple[str, str, str, str]:
    """Name, type, meaning and, if they are few, the possible values of a column."""
    import polars as pl

    inner = kind
    while isinstance(inner, pl.List):
        inner = inner.inner  # type: ignore[assignment]
    values = ", ".join(f"`{value}`" for value in inner.categories) if isinstance(inner, pl.Enum) else ""
    return f"`{name}`", "text" if name == "context_id" else _type_name(kind), meaning, values


def _type_name(kind: polars.DataType) -> str:
    import polars as pl

    if isinstance(kind, pl.List):
        return f"list of {_type_name(kind.inner)}"  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return "{" + ", ".join(field.name for field in kind.fields) + "}"
    if kind.is_integer():
        return "whole number"
    return "number" if kind.is_float() else "true/false" if kind == pl.Boolean() else "text"


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], lead: str = "") -> list[str]:
    """A heading and a table, whose cells are escaped."""
    cells = ((cell.replace("|", "\\|") for cell in row) for row in rows)
    return [
        *(f"## {title}", "", *([lead, ""] if lead else [])),
        *(f"| {' | '.join(head)} |", "|" + "---|" * len(head)),
        *(f"| {' | '.join(row)} |" for row in cells),
        "",
    ]
