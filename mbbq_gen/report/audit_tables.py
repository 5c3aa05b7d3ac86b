"""What an audit found, as text for a terminal: rates with their intervals, and the readings that were called wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.report.plain_text import shortened
from mbbq_gen.report.statistics_tables import plain_table
from mbbq_gen.report.tables import DASH, OUTCOME_TITLES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mbbq_gen.runs.audit import AuditReport, Disagreement, Mistake, Share
    from mbbq_gen.statistics.proportion import Proportion

MISTAKE_TITLES: dict[Mistake, str] = {
    "wrong_option": "another option is right",
    "no_answer_there": "an option read where there is no answer",
    "missed": "an answer that was not read",
    "unknown_kind": "wrong, not said how",
}
_LISTED = 40


def print_audit(report: AuditReport, console: Console) -> None:
    """Prints the whole report."""
    console.print(_share_table(report))
    covered = "" if report.covered is None else f"; the strata judged hold {report.covered:.0%} of the run's readings"
    console.print(
        f"\nright: the reading says what the response chooses. in the run: each verdict weighs as much as the readings "
        f"of its stratum ({', '.join(report.by) or 'one stratum'}) that it stands for{covered}. Intervals: Wilson, "
        f"{report.interval:.0%}, on the effective number of verdicts."
    )
    if report.untold:
        console.print(f"{report.untold:,} verdicts were on earlier readings that have changed since: judge them again")
    if not report.disagreements:
        return
    counts = [f"{MISTAKE_TITLES[kind]}: {count}" for kind, count in report.mistakes.items() if count]
    console.print(f"\nreadings called wrong ({'; '.join(counts)})\n")
    console.print(_disagreement_table(report.disagreements[:_LISTED]))
    if len(report.disagreements) > _LISTED:
        console.print(f"and {len(report.disagreements) - _LISTED:,} more; --json has them all")


def _share_table(report: AuditReport) -> Table:
    table = plain_table(
        ("language", "readings", "judged", "right", "right, of those judged", "right, in the run"),
        right=("readings", "judged", "right"),
    )
    for share in (*report.by_language, report.overall):
        table.add_row(
            share.group,
            f"{share.readings:,}",
            f"{share.judged.n:,}",
            f"{_right(share):,}",
            percent(share.judged),
            percent(share.weighted),
        )
    return table


def _right(share: Share) -> int:
    return round((share.judged.value or 0.0) * share.judged.n)


def percent(found: Proportion) -> str:
    """A share with its interval: `97.5% [94.1%, 99.0%]`."""
    if found.value is None or found.low is None or found.high is None:
        return DASH
    return f"{found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"


def _disagreement_table(found: tuple[Disagreement, ...]) -> Table:
    table = plain_table(("id", "language", "read as", "rule", "right", "note"))
    for one in found:
        right = (
            DASH if one.mistake == "unknown_kind" else "no answer" if one.right is None else f"option {one.right + 1}"
        )
        read = OUTCOME_TITLES[one.outcome] + ("" if one.option is None else f" {one.option + 1}")
        table.add_row(one.presentation_id, one.language, read, one.rule, right, shortened(one.note, 60))
    return table
