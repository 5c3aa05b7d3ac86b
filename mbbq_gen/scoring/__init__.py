"""Extractions to scores: observations → counts → metrics with bounds and intervals. Pure; sees no model and no run."""

from __future__ import annotations

from mbbq_gen.scoring.cells import Undetected
from mbbq_gen.scoring.lines import observe_lines
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.observations import Labels, Observation, observations_frame, observe, relabel
from mbbq_gen.scoring.scorer import score
from mbbq_gen.scoring.table import GroupScore, LabelDifference, MetricScore, ScoreTable
from mbbq_gen.scoring.tally import GROUPINGS

__all__ = [
    "GROUPINGS",
    "METRICS",
    "GroupScore",
    "LabelDifference",
    "Labels",
    "Metric",
    "MetricScore",
    "Observation",
    "ScoreTable",
    "Undetected",
    "observations_frame",
    "observe",
    "observe_lines",
    "relabel",
    "score",
]
