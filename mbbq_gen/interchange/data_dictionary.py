"""The data dictionary: meaning, type and values of every column of samples and scores.

Every export contains the dictionary of its columns; `python docs/generate.py` writes all columns.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.analysis.scores import MetricDefinition
from mbbq_gen.core.records import FrozenModel

if TYPE_CHECKING:
    import polars

_TEXTS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
ITEM_COLUMNS, DESIGN_COLUMNS = _TEXTS["samples"], _TEXTS["samples_of_some_runs"]
"""Column of samples → meaning; the second has those that only some runs have."""
GROUP_COLUMN = "The group's value of this grouping."
SCORE_COLUMNS, RUN_KEYS, OUTCOMES = _TEXTS["scores"], _TEXTS["run"], _TEXTS["outcomes"]
"""Column of scores, key of export.json, and outcome, → meaning."""


class Column(FrozenModel):
    """One column of a table."""

    name: str
    type: str
    """text, whole number, number, true/false, or a list of one of them."""
    meaning: str
    values: tuple[str, ...] | None = None
    """All possible values, if few."""


class DataDictionary(FrozenModel):
    """The columns of the tables of an export."""

    schema_version: Literal["mbbq-gen.samples/1"] = "mbbq-gen.samples/1"
    """Raised when a column changes its name or meaning; new columns may come without."""
    tables: dict[str, tuple[Column, ...]]
    metrics: dict[str, MetricDefinition]
    """Metric → definition."""
    run: dict[str, str]
    """Key of export.json, and of `runtime_info` in manifest.json → meaning."""
    outcomes: dict[str, str]
    """Outcome → meaning."""


def data_dictionary(
    items: Mapping[str, polars.DataType],
    scores: Mapping[str, polars.DataType],
    metrics: Mapping[str, MetricDefinition],
) -> DataDictionary:
    """The dictionary of tables with these columns; items as of `Run.samples`."""
    tables = {
        "samples": tuple(_column(name, kind, (ITEM_COLUMNS | DESIGN_COLUMNS)[name]) for name, kind in items.items()),
        "scores": tuple(_column(name, kind, SCORE_COLUMNS.get(name, GROUP_COLUMN)) for name, kind in scores.items()),
    }
    return DataDictionary(tables=tables, metrics=dict(metrics), run=RUN_KEYS, outcomes=OUTCOMES)


def _column(name: str, kind: polars.DataType, meaning: str) -> Column:
    import polars as pl

    inner = kind
    while isinstance(inner, pl.List):
        inner = inner.inner  # type: ignore[assignment]
    values = tuple(inner.categories) if isinstance(inner, pl.Enum) else None
    return Column(name=name, type="text" if name == "context_id" else _type_name(kind), meaning=meaning, values=values)


def _type_name(kind: polars.DataType) -> str:
    import polars as pl

    if isinstance(kind, pl.List):
        return f"list of {_type_name(kind.inner)}"  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return "{" + ", ".join(field.name for field in kind.fields) + "}"
    if kind.is_integer():
        return "whole number"
    return "number" if kind.is_float() else "true/false" if kind == pl.Boolean() else "text"


def dictionary_page(dictionary: DataDictionary, lead: str = "") -> str:
    """The dictionary as Markdown."""
    lines = ["# Data dictionary", "", *([lead, ""] if lead else []), f"Schema: `{dictionary.schema_version}`.", ""]
    for name, columns in dictionary.tables.items():
        rows = [
            (f"`{one.name}`", one.type, one.meaning, ", ".join(f"`{value}`" for value in one.values or ()))
            for one in columns
        ]
        lines += _section(name, ("column", "type", "meaning", "values"), rows)
    if dictionary.metrics:
        found = [
            (f"`{name}`", one.formula, one.meaning, one.sign, one.source) for name, one in dictionary.metrics.items()
        ]
        lines += _section("Metrics", ("metric", "formula", "meaning", "sign", "source"), found)
    keys = [(f"`{name}`", meaning) for name, meaning in dictionary.run.items()]
    lead = "Keys of `export.json`, and of `runtime_info` in `manifest.json`."
    lines += _section("Server and sampling", ("key", "meaning"), keys, lead)
    outcomes = [(f"`{name}`", meaning) for name, meaning in dictionary.outcomes.items()]
    return "\n".join([*lines, *_section("Outcomes", ("outcome", "meaning"), outcomes)])


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], lead: str = "") -> list[str]:
    """A heading and a table, whose cells are escaped."""
    cells = ((cell.replace("|", "\\|") for cell in row) for row in rows)
    return [
        *(f"## {title}", "", *([lead, ""] if lead else [])),
        *(f"| {' | '.join(head)} |", "|" + "---|" * len(head)),
        *(f"| {' | '.join(row)} |" for row in cells),
        "",
    ]
