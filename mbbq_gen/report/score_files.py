"""Scores as flat tables, for spreadsheets and data frames: one row for each group and metric."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.errors import RunError
from mbbq_gen.report.csv_cells import csv_cells

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
            "reason_code": found.reason_code,
            "standard_error": found.standard_error,
            "analytic_low": found.analytic_low,
            "analytic_high": found.analytic_high,
            "bound_low": found.bounds.low if found.bounds else None,
            "bound_high": found.bounds.high if found.bounds else None,
            "bound_interval_low": found.bounds.interval_low if found.bounds else None,
            "bound_interval_high": found.bounds.interval_high if found.bounds else None,
            "smaller_than": found.smaller_than,
            "share_read": found.share_read,
            "template_mean": found.template_mean,
            "n_items": group.n_items,
            "n_instances": group.n_instances,
            "n_templates": found.n_templates,
            "effective_templates": found.effective_templates,
            "n_wordings": found.n_wordings,
            "warnings": " ".join((*group.warnings, *found.warnings)),
            "sign": table.definitions[name].sign,
            "labels": table.labels,
            "undetected": table.undetected,
            "interval": table.interval,
            "wordings": table.wordings,
        }
        for group in table.groups
        for name, found in group.metrics.items()
    ]
    return pl.DataFrame(rows, schema=score_columns(table.by))


def score_columns(by: Sequence[str]) -> dict[str, polars.DataType]:
    """The columns of the rows of scores by these groupings, and their types."""
    import polars as pl

    text, count, number = pl.String(), pl.Int64(), pl.Float64()
    bounds = ("bound_low", "bound_high", "bound_interval_low", "bound_interval_high")
    names = ("standard_error", "analytic_low", "analytic_high", *bounds, "smaller_than", "share_read", "template_mean")
    return {
        **dict.fromkeys((*by, "metric"), text),
        **dict.fromkeys(("value", "low", "high"), number),
        "reason_code": text,
        **dict.fromkeys(names, number),
        **dict.fromkeys(("n_items", "n_instances", "n_templates"), count),
        "effective_templates": number,
        "n_wordings": count,
        **dict.fromkeys(("warnings", "sign", "labels", "undetected"), text),
        "interval": number,
        "wordings": text,
    }


def write_scores(table: ScoreTable, path: Path, kind: str) -> None:
    """Writes the rows as `csv` (for a spreadsheet: `csv_cells`) or `parquet`.

    Raises:
        RunError: where the file can't be written.
    """
    rows = score_rows(table)
    try:
        if kind == "csv":
            csv_cells(rows).write_csv(path)
        else:
            rows.write_parquet(path)
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}") from error
