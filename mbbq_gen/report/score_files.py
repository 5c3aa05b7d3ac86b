"""Scores as flat tables, for spreadsheets and data frames: one row for each group and metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.errors import RunError

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring import ScoreTable


def score_rows(table: ScoreTable) -> polars.DataFrame:
    """One row for each group and metric: group, metric, value, intervals, bounds, templates, warnings, settings."""
    import polars as pl

    rows = [
        {
            **group.group,
            "metric": name,
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "standard_error": found.standard_error,
            "analytic_low": found.analytic_low,
            "analytic_high": found.analytic_high,
            "bound_low": found.bounds.low if found.bounds else None,
            "bound_high": found.bounds.high if found.bounds else None,
            "n_items": group.n_items,
            "n_instances": group.n_instances,
            "n_templates": found.n_templates,
            "effective_templates": found.effective_templates,
            "warnings": " ".join((*group.warnings, *found.warnings)),
            "sign": table.definitions[name].sign,
            "labels": table.labels,
            "undetected": table.undetected,
            "interval": table.interval,
        }
        for group in table.groups
        for name, found in group.metrics.items()
    ]
    texts = (*table.by, "metric", "warnings", "sign", "labels", "undetected")
    counts = ("n_items", "n_instances", "n_templates")
    names = list(rows[0]) if rows else []
    schema = {name: pl.String if name in texts else pl.Int64 if name in counts else pl.Float64 for name in names}
    return pl.DataFrame(rows, schema=schema)


def write_scores(table: ScoreTable, path: Path, kind: str) -> None:
    """Writes the rows as `csv` or `parquet`.

    Raises:
        RunError: where the file can't be written.
    """
    rows = score_rows(table)
    try:
        if kind == "csv":
            rows.write_csv(path)
        else:
            rows.write_parquet(path)
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}") from error
