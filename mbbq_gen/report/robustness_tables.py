"""How robust scores are, as text for a terminal: spread, flips, variance components, effects of axes, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.report.effect_tables import print_effects
from mbbq_gen.report.statistics_tables import (
    describe_test,
    estimate,
    group_name,
    p_text,
    plain_table,
    print_cautions,
    print_signs,
)
from mbbq_gen.report.tables import DASH, number, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mbbq_gen.statistics.components import VarianceTable
    from mbbq_gen.statistics.robustness import RobustnessReport, RobustnessTable


def print_robustness(table: RobustnessTable, console: Console) -> None:
    """Spread, flips and variance components of every group, then the ranks of models."""
    for report in table.groups:
        console.print(f"\n{group_name(report.group) or 'all answers'}: {report.n_items:,} items\n")
        console.print(_spread_table(report))
        console.print()
        console.print(_flip_table(report))
        for components in report.components:
            _print_components(components, console)
        for effects in report.effects:
            print_effects(effects, console)
        for note in report.notes:
            console.print(f"note: {note}")
    for rank in table.ranks:
        w = DASH if rank.kendall_w is None else f"{rank.kendall_w:.2f}"
        console.print(f"ranks of {len(rank.models)} models by {rank.metric} over {rank.factor}: Kendall's W {w}")
        console.print(f"  {describe_test(rank.test)}")
    print_cautions(table, console)
    print_signs(table.signs, console)


def _spread_table(report: RobustnessReport) -> Table:
    titles = ("metric", "over", "values", "mean", "sd", "min", "max", "worst", "p (differ)")
    table = plain_table(titles, right=("values", "sd", "min", "max", "p (differ)"))
    for spread in report.spreads:
        table.add_row(
            spread.metric,
            spread.factor,
            str(len(spread.levels)),
            estimate(spread.mean),
            number(spread.sd),
            number(spread.lowest, signed=True),
            number(spread.highest, signed=True),
            DASH if spread.worst is None else f"{number(spread.worst, signed=True)} ({spread.worst_level})",
            p_text(spread.tests[0].p_value),
        )
    return table


def _flip_table(report: RobustnessReport) -> Table:
    titles = ("answers that flip with", "pairs", "share", "by chance", "Fleiss' kappa", "changes with it")
    table = plain_table(titles, right=("pairs", "by chance"))
    for flip in report.flips:
        table.add_row(
            flip.factor,
            f"{flip.n_pairs:,}",
            estimate(flip.flip_share),
            number(flip.flip_share_by_chance),
            estimate(flip.kappa),
            ", ".join(flip.confounded_with) or DASH,
        )
    return table


def _print_components(table: VarianceTable, console: Console) -> None:
    """Single factors and pairs of them; combinations of three and more as one line."""
    console.print(
        f"\nvariance of {table.metric} over {table.n_cells:,} cells (mean {number(table.mean, signed=True)})\n"
    )
    shown = plain_table(("factor", "values", "sd", "95 %", "share"), right=("values", "sd", "share"))
    rest = 0.0
    for part in table.components:
        if part.factor.count("×") > 1:
            rest += part.share or 0.0
            continue
        interval = DASH if part.sd_low is None or part.sd_high is None else f"{part.sd_low:.2f} … {part.sd_high:.2f}"
        shown.add_row(part.factor, str(part.n_levels), f"{part.sd:.3f}", interval, share(part.share))
    if rest:
        shown.add_row("combinations of three and more", "", "", "", share(rest))
    if table.chance is not None:
        shown.add_row("chance, of one answer", str(table.chance.n_levels), f"{table.chance.sd:.3f}", "", "")
    console.print(shown)
