"""Score tables as text for a terminal.

                                accuracy          bias (MBBQ eqs. 1 and 2)
language  split    items  read  amb.   disamb.   ambiguous              disambiguated
en        bias       200   98%  0.41   0.52      +0.08 [-0.02, +0.17]   +0.03 [-0.06, +0.11]
          control    200   97%  0.40   0.55      -0.01 [-0.10, +0.09]   +0.00 [-0.08, +0.08]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from mbbq_gen.records import Outcome
    from mbbq_gen.scoring import GroupScore, MetricScore, ScoreTable

DASH = "–"
"""What stands for an undefined score."""

OUTCOME_TITLES: dict[Outcome, str] = {
    "option": "option",
    "unknown_statement": "says unknown",
    "refusal": "refuses",
    "multiple": "several",
    "no_answer": "unreadable",
    "truncated": "cut off",
    "empty": "empty",
    "filtered": "filtered",
    "error": "error",
}

SUMMARY_METRICS = (
    "detection_rate",
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


def with_interval(score: MetricScore) -> str:
    """A signed score with its interval: `+0.08 [-0.02, +0.17]`."""
    value = number(score.value, signed=True)
    if score.low is None or score.high is None:
        return value
    return f"{value} [{number(score.low, signed=True)}, {number(score.high, signed=True)}]"


def share(value: float | None) -> str:
    """A rate in per cent; rounded down so that 100% means all."""
    return DASH if value is None else f"{int(value * 1000) / 10:g}%"


def summary_table(scores: ScoreTable) -> Table:
    """Items, detection rate, accuracy and bias by group."""
    table = _table(scores.by)
    for title in ("items", "templates", "read", "accuracy\namb.", "accuracy\ndisamb."):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("bias ambiguous\n(MBBQ eq. 1)", "bias disambiguated\n(MBBQ eq. 2)"):
        table.add_column(title, no_wrap=True)
    for names, group in _rows(scores):
        metrics = group.metrics
        table.add_row(
            *names,
            f"{group.n_items:,}",
            str(group.n_templates),
            share(metrics["detection_rate"].value),
            number(metrics["accuracy_ambiguous"].value),
            number(metrics["accuracy_disambiguated"].value),
            with_interval(metrics["mbbq_bias_ambiguous"]),
            with_interval(metrics["mbbq_bias_disambiguated"]),
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


def metric_table(scores: ScoreTable, metrics: Sequence[str]) -> Table:
    """One row for each group and metric, with interval, counts and templates."""
    table = _table(scores.by)
    table.add_column("metric", no_wrap=True)
    for title in ("value", "interval", "counts", "templates"):
        table.add_column(title, justify="right", no_wrap=True)
    for names, group in _rows(scores):
        for place, name in enumerate(metrics):
            row = group.metrics[name]
            counts = ", ".join(f"{fraction.numerator}/{fraction.denominator}" for fraction in row.fractions)
            interval = DASH if row.low is None else f"{number(row.low, signed=True)} … {number(row.high, signed=True)}"
            shown = names if place == 0 else [""] * len(names)
            table.add_row(*shown, name, f"{row.value:+.4f}" if row.value is not None else DASH, interval, counts,
                          str(row.n_templates))  # fmt: skip
    return table


def warning_lines(scores: ScoreTable) -> list[str]:
    """The warnings of a table, one sentence each."""
    return [f"note: {sentence}" for sentence in scores.warnings.values()]


def _table(by: Iterable[str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in by:
        table.add_column(name, no_wrap=True)
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
