"""What a new reading of the same answers changed, as text for a terminal.

language  before        now               answers  for example
nl        unreadable    option                 12  3fa085e2c1b7a90d44e1, …
          option        another option          2  …
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mbbq_gen.report.statistics_tables import plain_table
from mbbq_gen.report.tables import OUTCOME_TITLES

if TYPE_CHECKING:
    from rich.table import Table

    from mbbq_gen.runs.lookup import Change

_EXAMPLES = 2


def changes_table(changes: Iterable[Change]) -> Table:
    """One row for each kind of change in a language, most frequent first; readings that agree are one row each."""
    table = plain_table(("language", "before", "now", "answers", "for example"), right=("answers",))
    above = None
    for change in changes:
        now = f"another {OUTCOME_TITLES[change.new]}" if change.other_option else OUTCOME_TITLES[change.new]
        table.add_row(
            "" if change.language == above else change.language,
            OUTCOME_TITLES[change.old],
            now if change.is_change else "the same",
            f"{change.count:,}",
            ", ".join(change.examples[:_EXAMPLES]) if change.is_change else "",
        )
        above = change.language
    return table
