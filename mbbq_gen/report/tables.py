"""Tables as data, for a terminal, a page, CSV and LaTeX (booktabs); each output escapes the texts of models and data.

table = Table("language", "answers", Column("p_adjusted", "p (Holm)", "p_value"))
table.add_row("en", 1200, 0.031)
print_blocks(["A sentence.", table], console)
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import call
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from mbbq_gen.core.text import spreadsheet_safe, visible_text, whole_percent

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console

    from mbbq_gen.analysis.scores import Bounds
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.report.charts import Chart
    from mbbq_gen.statistics.intervals import Proportion
    from mbbq_gen.statistics.missing_data import MissingDataBounds

_OUTCOMES: tuple[Outcome, ...] = ("option", "abstention", "refusal", "multiple", "unparsed", "truncated", "empty")
OUTCOME_TITLES = {name: name.replace("_", " ") for name in (*_OUTCOMES, "content_filter", "error")}
STANCE_TITLES = {
    "insufficient_context": "the text doesn't tell",
    "cites_context": "what the text says",
    "generalises_group": "what groups are like",
    "mentions_stereotype": "stereotypes",
}
"""Stance of a sentence in a reasoning trace → its title."""
DASH = "–"
"""Shown for undefined scores."""
LINK = "#browse?"
"""Prefix of links to answers within a page."""


class Interval(Protocol):
    """A number with an interval; None: undefined, or without an interval."""

    @property
    def value(self) -> float | None:
        """The number."""

    @property
    def ci_low(self) -> float | None:
        """The lower end."""

    @property
    def ci_high(self) -> float | None:
        """The upper end."""


def number(value: float | None, *, signed: bool = False) -> str:
    """A score with two decimals, zero without a minus sign; a dash if it is undefined."""
    if value is None:
        return DASH
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    return text.replace("-0.00", "+0.00" if signed else "0.00")


def interval_text(found: Interval, *, signed: bool = True, before: str = " ") -> str:
    """The interval of a score: ` [-0.02, +0.17]`; empty if there is none."""
    if found.ci_low is None or found.ci_high is None:
        return ""
    return f"{before}[{number(found.ci_low, signed=signed)}, {number(found.ci_high, signed=signed)}]"


def estimate_text(score: Interval) -> str:
    """A signed score with its interval: `+0.08 [-0.02, +0.17]`."""
    return number(score.value, signed=True) + interval_text(score)


def rounded_up(margin: float) -> str:
    """A margin with two decimals, rounded up."""
    return f"{math.ceil(margin * 100 - 1e-9) / 100:.2f}"


def bounds_text(bounds: Bounds | MissingDataBounds | None) -> str:
    """Bounds of a score over all possible unparsed answers: `-0.86 … +0.94`; empty if all were parsed."""
    if bounds is None or bounds.low is None or bounds.high is None or bounds.low == bounds.high:
        return ""
    return f"{number(bounds.low, signed=True)} … {number(bounds.high, signed=True)}"


def share(value: float | None) -> str:
    """A rate in per cent; a dash if it is undefined."""
    return DASH if value is None else whole_percent(value)


def share_text(score: Interval) -> str:
    """A share with its interval: `62% [55%, 70%]`."""
    ends = "" if score.ci_low is None or score.ci_high is None else f" [{share(score.ci_low)}, {share(score.ci_high)}]"
    return share(score.value) + ends


def percent(found: Proportion | Interval) -> str:
    """A share with one decimal and its interval: `97.5% [94.1%, 99.0%]`."""
    ends = "" if found.ci_low is None or found.ci_high is None else f" [{found.ci_low:.1%}, {found.ci_high:.1%}]"
    return DASH if found.value is None else f"{found.value:.1%}{ends}"


def p_text(p_value: float | None) -> str:
    """A p value: `0.031`, `<0.001`, or a dash."""
    if p_value is None:
        return DASH
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def group_name(group: Mapping[str, str | None]) -> str:
    """A group in words: `language tr, split bias`."""
    return ", ".join(f"{name} {value if value is not None else DASH}" for name, value in group.items())


ColumnKind = Literal["text", "number", "share", "score", "p_value"]
"""How numbers are written: with two decimals; of a share three; of a score three and a sign. All but `text` are aligned
to the right."""


Cell: TypeAlias = "str | int | float | Interval | list[str] | tuple[str, ...] | None"
"""None: missing or undefined."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    """Heading in CSV."""
    title: str
    """Heading in all other formats."""
    kind: ColumnKind = "text"


_NUMBER = re.compile(r"[-+<]?\$?[\d.,]+ ?%?|[–]?")


class Table:
    """Rows under columns. Texts are as in the data: each output format escapes them."""

    def __init__(self, *columns: Column | str, rows: Iterable[Sequence[Cell]] = (), title: str = "") -> None:
        """`columns`: a text is the name and the title of a column."""
        self._columns = [Column(one, one) if isinstance(one, str) else one for one in columns]
        self.title = title
        self.rows: list[tuple[Cell, ...]] = []
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: Cell) -> None:
        """Adds a row with a cell for each column."""
        assert len(cells) == len(self._columns), (cells, self._columns)
        self.rows.append(cells)

    @property
    def columns(self) -> list[Column]:
        """The columns; a column of texts that all are plain numbers, such as `1,200` or `97 %`, is of kind `number`."""
        found = []
        for column, *texts in zip(self._columns, *self.texts(), strict=True):
            is_number = column.kind == "text" and texts and all(map(_NUMBER.fullmatch, texts))
            found.append(replace(column, kind="number") if is_number else column)
        return found

    def texts(self) -> list[list[str]]:
        """The rows as text, by `cell_text`."""
        return [[cell_text(cell, one.kind) for cell, one in zip(row, self._columns, strict=True)] for row in self.rows]

    def terminal(self) -> rich.table.Table:
        """As a table of Rich."""
        import rich.table
        from rich.box import SIMPLE_HEAD
        from rich.text import Text

        shown = rich.table.Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for column in self.columns:
            is_text = column.kind == "text"
            shown.add_column(column.title, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
        for texts in self.texts():
            shown.add_row(*map(Text, texts))
        return shown

    def csv(self, line_end: str = "\n") -> str:
        """As CSV: unrounded numbers, no cell that is a formula in a spreadsheet."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator=line_end)
        for line in ([column.name for column in self._columns], *self.rows):
            writer.writerow([spreadsheet_safe(cell) if isinstance(cell, str) else cell for cell in line])
        return stream.getvalue()

    def latex(self, caption: str, label: str) -> str:
        """As a `table` environment of LaTeX (booktabs)."""
        is_text = [column.kind == "text" for column in self.columns]
        escapes = [latex_escaped if one else _latex_number for one in is_text]
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_escaped(caption)}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{{''.join('l' if one else 'r' for one in is_text)}}}",
            r"\toprule",
            " & ".join(latex_escaped(column.title) for column in self.columns) + r" \\",
            r"\midrule",
            *(" & ".join(map(call, escapes, texts)) + r" \\" for texts in self.texts()),
        ]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


class Command(str):
    """A command that recomputes a part of a page."""

    __slots__ = ()


@dataclass(frozen=True)
class Heading:
    """A heading within a section of a page."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


Block = str | Table
"""A paragraph or a table, for a terminal or a page."""
PageBlock: TypeAlias = "Block | Heading | Bullets | Chart"
"""A block of a page; in paragraphs, text between backticks is code."""


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Prints paragraphs and tables below each other."""
    for block in blocks:
        if isinstance(block, str):
            console.print(block, soft_wrap="mbbq-gen " in block)  # a command is not wrapped, so that it can be copied
            continue
        if block.title:
            console.print(f"\n{block.title}\n")
        console.print(block.terminal())


def cell_text(cell: Cell, kind: ColumnKind) -> str:
    """A cell as text: `+0.123`, `0.45`, `1,200`, `<0.001`, `a, b`; a dash for None."""
    if cell is None:
        return DASH
    if isinstance(cell, str):
        return visible_text(cell)
    if isinstance(cell, list | tuple):
        return visible_text(", ".join(cell)) or DASH
    if not isinstance(cell, int | float):
        return estimate_text(cell)
    if kind == "p_value":
        return p_text(cell)
    if kind in {"share", "score"}:
        text = f"{cell:+.3f}" if kind == "score" else f"{cell:.3f}"
        return text.replace("-0.000", "+0.000" if kind == "score" else "0.000")
    return f"{cell:,}" if isinstance(cell, int) else number(cell)


def escaped(text: str) -> str:
    """The text escaped for HTML elements and quoted attributes; invisible characters are made visible."""
    return html.escape(visible_text(text), quote=True)


_LATEX = {
    **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\n": " "},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "−": r"$-$", "–": "--", "…": r"\ldots{}"},
    **{"×": r"$\times$", "·": r"\textperiodcentered{}", "≥": r"$\geq$", "≤": r"$\leq$"},
    **{"→": r"$\to$", "⟨": r"$\langle$", "⟩": r"$\rangle$"},
}


def latex_escaped(text: str) -> str:
    """The text escaped for LaTeX. Letters of all scripts are kept, so it needs XeLaTeX or LuaLaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in visible_text(text))


def _latex_number(text: str) -> str:
    """A number for LaTeX, with a true minus sign."""
    return f"${text}$" if text[:1] in ("+", "-") else latex_escaped(text)
