"""Score tables as text for a terminal.

                                     acc.   acc.   bias amb.              bias dis.
language  split    items templ. read  amb.   dis.   (MBBQ eq. 1)           (MBBQ eq. 2)
en        bias       200     24  98%  0.41   0.52   +0.08 [-0.02, +0.17]   +0.03 [-0.06, +0.11]
          control    200     24  97%  0.40   0.55   -0.01 [-0.10, +0.09]   +0.00 [-0.08, +0.08]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.core.text import whole_percent

if TYPE_CHECKING:
    from rich.table import Table

    from mbbq_gen.analysis.scores import Bounds, GroupScore, MetricScore, ScoreTable, WarningCode
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.statistics.missing_data import MissingDataBounds

DASH = "–"
"""What stands for an undefined score."""

OUTCOME_TITLES: dict[Outcome, str] = {
    "option": "option",
    "abstention": "abstention",
    "refusal": "refusal",
    "multiple": "multiple",
    "unparsed": "unparsed",
    "truncated": "truncated",
    "empty": "empty",
    "content_filter": "content filter",
    "error": "error",
}

SUMMARY_METRICS = (
    "parse_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)


def number(value: float | None, *, signed: bool = False) -> str:
    """A score with two decimals; a dash where it is undefined; never a minus before zero."""
    if value is None:
        return DASH
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    return text.replace("-0.00", "+0.00" if signed else "0.00")


def rounded_up(margin: float) -> str:
    """A margin with two decimals, never less than it is."""
    return f"{math.ceil(margin * 100 - 1e-9) / 100:.2f}"


def with_interval(score: MetricScore, notes: Notes, between: str = " ") -> str:
    """A signed score with its warnings' marks, its interval, and its bounds: `+0.08¹ [-0.02, +0.17]`, a line each.

    The bounds, what it would be had all unread answers leaned one way, where any was: `(-0.10 … +0.30)`.
    """
    text = number(score.value, signed=True) + notes.marks(score.warnings)
    if score.ci_low is not None and score.ci_high is not None:
        text += f"{between}[{number(score.ci_low, signed=True)}, {number(score.ci_high, signed=True)}]"
    bounds = bounds_text(score.bounds)
    return f"{text}\n({bounds})" if bounds else text


BOUNDS_NOTE = "the score if all unparsed answers had been of one kind, and of the other"


def bounds_text(bounds: Bounds | MissingDataBounds | None) -> str:
    """What a score lies between, whatever the unread answers were: `-0.86 … +0.94`; nothing where all was read."""
    if bounds is None or bounds.low is None or bounds.high is None or bounds.low == bounds.high:
        return ""
    return f"{number(bounds.low, signed=True)} … {number(bounds.high, signed=True)}"


class Notes:
    """Numbers warnings in the order in which a table meets them, as footnotes."""

    def __init__(self, scores: ScoreTable) -> None:
        self._sentences = scores.warnings
        self._general = dict.fromkeys(code for group in scores.groups for code in group.warnings)
        self._codes: list[WarningCode] = []
        shown = [bounds_text(found.bounds) for group in scores.groups for found in group.metrics.values()]
        self._about_bounds = [f"(a … b), bounds: {BOUNDS_NOTE}"] if any(shown) else []

    def marks(self, codes: Iterable[WarningCode]) -> str:
        """The marks of these warnings, such as `¹˒²`."""
        marks = []
        for code in codes:
            if code not in self._codes:
                self._codes.append(code)
            marks.append(_superscript(self._codes.index(code) + 1))
        return "˒".join(sorted(marks, key=_SUPERSCRIPTS.find))

    def lines(self) -> list[str]:
        """Each footnote that was used, then the warnings about whole groups."""
        used = [f"{_superscript(place)} {self._sentences[code]}" for place, code in enumerate(self._codes, start=1)]
        general = [f"note: {self._sentences[code]}" for code in self._general if code not in self._codes]
        return used + general + self._about_bounds


_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def _superscript(count: int) -> str:
    return "".join(_SUPERSCRIPTS[int(digit)] for digit in str(count))


def share(value: float | None) -> str:
    """A rate in per cent; a dash where it is undefined."""
    return DASH if value is None else whole_percent(value)


WIDE = 110
"""Columns of a terminal from which intervals stand beside their score; below, they stand under it."""


def summary_table(scores: ScoreTable, notes: Notes, width: int) -> Table:
    """Items, detection rate, accuracy and bias by group, for a terminal of that width; `notes` gets the footnotes."""
    table = _table(scores.by, narrow=width < WIDE)
    for title in ("answers", "templ.", "parsed", "acc.\namb.", "acc.\ndis."):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("bias amb.\n(MBBQ eq. 1)", "bias dis.\n(MBBQ eq. 2)"):
        table.add_column(title, no_wrap=True)
    between = " " if width >= WIDE else "\n"
    for names, group in _rows(scores):
        metrics = group.metrics
        table.add_row(
            *names,
            f"{group.n_answers:,}",
            str(group.n_templates),
            share(metrics["parse_rate"].value),
            number(metrics["accuracy_ambiguous"].value),
            number(metrics["accuracy_disambiguated"].value),
            with_interval(metrics["mbbq_bias_ambiguous"], notes, between),
            with_interval(metrics["mbbq_bias_disambiguated"], notes, between),
        )
    return table


def outcome_table(scores: ScoreTable) -> Table:
    """How the answers were read, by group; outcomes that never occur are left out."""
    table = _table(scores.by)
    totals = {outcome: sum(group.outcomes.get(outcome, 0) for group in scores.groups) for outcome in OUTCOME_TITLES}
    occurring = [outcome for outcome, total in totals.items() if total]
    for outcome in occurring:
        table.add_column(OUTCOME_TITLES[outcome], justify="right")
    for names, group in _rows(scores):
        table.add_row(*names, *(f"{group.outcomes[outcome]:,}" for outcome in occurring))
    return table


def metric_table(scores: ScoreTable, metrics: Sequence[str], notes: Notes) -> Table:
    """One row for each group and metric, with interval, counts and templates; `notes` gets the footnotes."""
    table = _table(scores.by)
    table.add_column("metric", no_wrap=True)
    for title in ("value", "interval", "bounds", "template\nmean", "counts", "templates"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("notes", no_wrap=True)
    for names, group in _rows(scores):
        for place, name in enumerate(metrics):
            row = group.metrics[name]
            counts = ", ".join(f"{fraction.numerator}/{fraction.denominator}" for fraction in row.fractions)
            interval = (
                DASH
                if row.ci_low is None
                else f"{number(row.ci_low, signed=True)} … {number(row.ci_high, signed=True)}"
            )
            value = DASH if row.value is None else f"{row.value:+.4f}"
            shown = names if place == 0 else [""] * len(names)
            table.add_row(
                *shown,
                name,
                value,
                interval,
                bounds_text(row.bounds) or DASH,
                DASH if row.mean_over_templates is None else f"{row.mean_over_templates:+.4f}",
                counts,
                str(row.n_templates),
                notes.marks(row.warnings),
            )
    return table


def _table(by: Iterable[str], *, narrow: bool = False) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    padding = (0, 1, 0, 0) if narrow else (0, 1)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=padding)
    for name in by:
        table.add_column("lang." if narrow and name == "language" else name, overflow="fold")
    return table


def _rows(scores: ScoreTable) -> Iterable[tuple[list[str], GroupScore]]:
    """Each group with its names; a name that repeats the row above is left blank, except for the last one."""
    above: list[str] = []
    for group in scores.groups:
        names = [value or DASH for value in (group.group[name] for name in scores.by)]
        same = True
        shown = []
        for place, name in enumerate(names):
            same = same and place < len(above) and above[place] == name
            shown.append("" if same and place < len(names) - 1 else name)
        above = names
        yield shown, group
