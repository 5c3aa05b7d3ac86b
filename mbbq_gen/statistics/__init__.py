"""From scores to statements: ability, comparisons, tests, robustness, position, power. Pure, like scoring."""

from __future__ import annotations

from mbbq_gen.statistics.ability import adjusted_scores, select_templates, template_ability
from mbbq_gen.statistics.comparison import compare
from mbbq_gen.statistics.panel import Sampling, make_panel
from mbbq_gen.statistics.position import position_reports
from mbbq_gen.statistics.power import power_table
from mbbq_gen.statistics.robustness import rank_stability, robustness_reports

__all__ = [
    "Sampling",
    "adjusted_scores",
    "compare",
    "make_panel",
    "position_reports",
    "power_table",
    "rank_stability",
    "robustness_reports",
    "select_templates",
    "template_ability",
]
