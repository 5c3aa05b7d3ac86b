"""The data dictionary: meaning, type and values of every column of samples and scores.

Every export contains the dictionary of its columns; `python docs/generate.py` writes all columns.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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
        rows = ["| column | type | meaning | values |", "|---|---|---|---|"]
        for column in columns:
            values = ", ".join(f"`{value}`" for value in column.values or ())
            rows.append(f"| `{column.name}` | {column.type} | {_cell(column.meaning)} | {values} |")
        lines += [f"## {name}", "", *rows, ""]
    if dictionary.metrics:
        lines += ["## Metrics", "", "| metric | formula | meaning | sign | source |", "|---|---|---|---|---|"]
        lines += [
            f"| `{name}` | {_cell(what.formula)} | {_cell(what.meaning)} | {_cell(what.sign)} | {_cell(what.source)} |"
            for name, what in dictionary.metrics.items()
        ]
        lines.append("")
    lines += ["## Server and sampling", "", "Keys of `export.json`, and of `runtime_info` in `manifest.json`.", ""]
    lines += [
        "| key | meaning |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in dictionary.run.items()),
        "",
    ]
    lines += ["## Outcomes", "", "| outcome | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in dictionary.outcomes.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text escaped for a table cell."""
    return text.replace("|", "\\|")
