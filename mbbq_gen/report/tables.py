"""The table of everything that a chart shows, and as text: for a person, as CSV, as Markdown, as LaTeX with booktabs.

Names come from models, data and wordings: each form escapes what could act in it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from mbbq_gen.core.files import output_file
from mbbq_gen.core.text import spreadsheet_safe, visible_text
from mbbq_gen.report.score_tables import DASH

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.scores import ScoreTable


ColumnKind = Literal["text", "count", "share", "score", "p_value"]
"""How a column's numbers are written: as counts, as rates from 0 to 1, as scores with their sign, as p values."""


class FlaggedNumber(NamedTuple):
    """A number with a mark behind it."""

    value: float | None
    mark: str
    """`*` or the like; empty for none. The chart's caption says what it means."""


Cell = str | int | float | FlaggedNumber | None
"""None: there is no number, or it is undefined."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    """Key, as in the heading of a CSV file."""
    title: str
    """Heading for a person."""
    kind: ColumnKind = "text"
    over: str | None = None
    """Heading that it shares with its neighbours; None: none."""


@dataclass(frozen=True)
class DataTable:
    """Everything that a chart draws. Texts are as in the data: who shows them escapes them."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.columns), (row, self.columns)

    def texts(self) -> list[list[str]]:
        """The rows as a person reads them; a dash where there is no number."""
        return [
            [cell_text(cell, column.kind) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows
        ]

    def csv(self) -> str:
        """As CSV: full numbers, marks in columns of their own, nothing that a spreadsheet takes for a formula."""
        # Full numbers; a column with marks is followed by one that holds them.
        marked = [any(isinstance(row[place], FlaggedNumber) for row in self.rows) for place in range(len(self.columns))]
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        heading = []
        for column, has_marks in zip(self.columns, marked, strict=True):
            heading += [column.name, f"{column.name}_mark"] if has_marks else [column.name]
        writer.writerow(spreadsheet_safe(name) for name in heading)
        for row in self.rows:
            cells: list[object] = []
            for cell, has_marks in zip(row, marked, strict=True):
                plain = cell.value if isinstance(cell, FlaggedNumber) else cell
                cells.append(spreadsheet_safe(plain) if isinstance(plain, str) else plain)
                if has_marks:
                    cells.append(cell.mark if isinstance(cell, FlaggedNumber) else "")
            writer.writerow(cells)
        return stream.getvalue()

    def markdown(self) -> str:
        """As a Markdown table."""
        # One row of headings; a shared heading stands before each of its columns.
        titles = [
            markdown_escaped(f"{column.over} {column.title}" if column.over else column.title)
            for column in self.columns
        ]
        lines = ["| " + " | ".join(titles) + " |"]
        lines.append("|" + "|".join("---:" if column.kind != "text" else "---" for column in self.columns) + "|")
        for row in self.texts():
            cells = [
                text.replace("*", "\\*") if column.kind != "text" else markdown_escaped(text)
                for text, column in zip(row, self.columns, strict=True)
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def latex(self, caption: str, label: str) -> str:
        """As a LaTeX table (booktabs)."""
        # A `table` environment; a heading that columns share spans them.
        shape = "".join("r" if column.kind != "text" else "l" for column in self.columns)
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_escaped(caption)}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{{shape}}}",
            r"\toprule",
            *_latex_shared(self.columns),
            " & ".join(latex_escaped(column.title) for column in self.columns) + r" \\",
            r"\midrule",
        ]
        for row in self.texts():
            cells = [
                _latex_number(text) if column.kind != "text" else latex_escaped(text)
                for text, column in zip(row, self.columns, strict=True)
            ]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def cell_text(cell: Cell, kind: ColumnKind) -> str:
    """A cell as a person reads it: `+0.123*`, `0.45`, `1,200`, `<0.001`, a dash for no number."""
    if isinstance(cell, FlaggedNumber):
        return cell_text(cell.value, kind) + cell.mark
    if cell is None:
        return DASH
    if isinstance(cell, str):
        return visible_text(cell)
    if kind == "count":
        return f"{cell:,}"
    if kind == "p_value":
        return "<0.001" if cell < 0.001 else f"{cell:.3f}"
    text = f"{cell:+.3f}" if kind == "score" else f"{cell:.3f}"
    return text.replace("-0.000", "+0.000" if kind == "score" else "0.000")


_MARKDOWN_ACTS = frozenset("\\`*_{}[]<>()#+!|~$&")


def markdown_escaped(text: str) -> str:
    """The text in Markdown, nothing in it a mark; in one line."""
    escaped = "".join(f"\\{sign}" if sign in _MARKDOWN_ACTS else sign for sign in visible_text(text))
    return escaped.replace("\n", " ")


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": r"$-$",
    "–": "--",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "·": r"\textperiodcentered{}",
    "†": r"$\dagger$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "→": r"$\to$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    "\n": " ",
}


def latex_escaped(text: str) -> str:
    """The text for LaTeX; nothing in it is a command. Letters of all scripts stay: use XeLaTeX or LuaLaTeX for them."""
    return "".join(_LATEX.get(sign, sign) for sign in visible_text(text))


def _latex_number(text: str) -> str:
    """A number with a true minus sign; a mark behind it is raised."""
    plain = text.rstrip("*†")
    mark = "".join(r"\dagger" if sign == "†" else "*" for sign in text[len(plain) :])
    raised = f"^{{{mark}}}" if mark else ""
    if plain[:1] in ("+", "-"):
        return f"${plain}{raised}$"
    return latex_escaped(plain) + (f"${raised}$" if raised else "")


def _latex_shared(columns: Sequence[Column]) -> list[str]:
    """The line of shared headings and the rules under them; nothing where there are none."""
    if not any(column.over for column in columns):
        return []
    heads, rules, place = [], [], 1
    for over, group in groupby(columns, key=lambda column: column.over):
        size = len(list(group))
        heads.append(rf"\multicolumn{{{size}}}{{c}}{{{latex_escaped(over or '')}}}")
        if over:
            rules.append(rf"\cmidrule(lr){{{place}-{place + size - 1}}}")
        place += size
    return [" & ".join(heads) + r" \\", " ".join(rules)]


UTF8_MARK = "\ufeff"
"""At the beginning of a file, tells spreadsheets that it is UTF-8."""


def csv_cells(frame: polars.DataFrame) -> polars.DataFrame:
    """The same table with cells that CSV can hold and a spreadsheet does not obey."""

    return frame.with_columns(
        _texts(series) for series in frame.get_columns() if series.dtype.is_nested() or _is_text(series.dtype)
    ).rename({name: spreadsheet_safe(name) for name in frame.columns if spreadsheet_safe(name) != name})


def _is_text(kind: polars.DataType) -> bool:
    import polars as pl

    return isinstance(kind, pl.String | pl.Categorical | pl.Enum)


def _texts(series: polars.Series) -> polars.Series:
    """A column's cells as harmless text; each different one is looked at once."""
    import polars as pl

    if series.dtype.is_nested():
        cells = [None if cell is None else json.dumps(cell, ensure_ascii=False) for cell in series.to_list()]
    else:
        cells = series.cast(pl.String).to_list()
    seen = {cell: spreadsheet_safe(cell) for cell in set(cells) if cell is not None}
    return pl.Series(series.name, [None if cell is None else seen[cell] for cell in cells], pl.String)


def score_rows(table: ScoreTable) -> polars.DataFrame:
    """One row for each group and metric: group, metric, value, intervals, bounds, templates, warnings, settings."""
    import polars as pl

    rows = [
        {
            **group.group,
            "metric": name,
            "value": found.value,
            "ci_low": found.ci_low,
            "ci_high": found.ci_high,
            "reason_code": found.reason_code,
            "standard_error": found.standard_error,
            "t_ci_low": found.t_ci_low,
            "t_ci_high": found.t_ci_high,
            "bound_low": found.bounds.low if found.bounds else None,
            "bound_high": found.bounds.high if found.bounds else None,
            "bound_interval_low": found.bounds.interval_low if found.bounds else None,
            "bound_interval_high": found.bounds.interval_high if found.bounds else None,
            "equivalence_bound": found.equivalence_bound,
            "parse_rate": found.parse_rate,
            "mean_over_templates": found.mean_over_templates,
            "n_answers": group.n_answers,
            "n_instances": group.n_instances,
            "n_templates": found.n_templates,
            "n_templates_effective": found.n_templates_effective,
            "n_prompt_variants": found.n_prompt_variants,
            "warnings": " ".join((*group.warnings, *found.warnings)),
            "sign": table.definitions[name].sign,
            "gold": table.gold,
            "unparsed": table.unparsed,
            "confidence_level": table.confidence_level,
            "prompt_effects": table.prompt_effects,
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
    names = (
        "standard_error",
        "t_ci_low",
        "t_ci_high",
        *bounds,
        "equivalence_bound",
        "parse_rate",
        "mean_over_templates",
    )
    return {
        **dict.fromkeys((*by, "metric"), text),
        **dict.fromkeys(("value", "ci_low", "ci_high"), number),
        "reason_code": text,
        **dict.fromkeys(names, number),
        **dict.fromkeys(("n_answers", "n_instances", "n_templates"), count),
        "n_templates_effective": number,
        "n_prompt_variants": count,
        **dict.fromkeys(("warnings", "sign", "gold", "unparsed"), text),
        "confidence_level": number,
        "prompt_effects": text,
    }


def write_scores(table: ScoreTable, path: Path, kind: str) -> None:
    """Writes the rows as `csv` (for a spreadsheet: `csv_cells`) or `parquet`.

    Raises as `core.files.output_file`.
    """
    rows = score_rows(table)
    with output_file(path) as temporary, temporary.open("wb") as stream:
        if kind == "csv":
            csv_cells(rows).write_csv(stream)
        else:
            rows.write_parquet(stream)
