"""The records that scores leave in: what `mbbq-gen score` writes as JSON (docs/scores.md draws it)."""

from __future__ import annotations

from typing import Literal

from mbbq_gen.records import Outcome, Record
from mbbq_gen.scoring.bootstrap import IntervalMethod
from mbbq_gen.scoring.cells import Scenario, Undetected
from mbbq_gen.scoring.edge import STRETCH, UNSEEN
from mbbq_gen.scoring.missing import LOW_DETECTION_TEXT
from mbbq_gen.scoring.observations import Labels
from mbbq_gen.scoring.reasons import FEW_TEMPLATES, TOO_FEW, ReasonCode
from mbbq_gen.scoring.wordings import TOO_FEW_WORDINGS, Wordings

WarningCode = Literal[
    "too_few_templates",
    "too_few_wordings",
    "few_templates",
    "edge",
    "low_detection",
    "template_sizes",
    "undefined_resamples",
    "mixed_splits",
    "mixed_models",
    "mixed_benchmarks",
    "mixed_methods",
    "not_had",
    "unbalanced_contexts",
    "wrong_labels",
]
WARNINGS: dict[WarningCode, str] = {
    "too_few_templates": TOO_FEW,
    "too_few_wordings": TOO_FEW_WORDINGS,
    "few_templates": f"fewer than {FEW_TEMPLATES} templates: the interval is a rough one",
    "edge": "nearly all templates have the same score, few lie far off the others, or the scale ends near: the "
    f"interval allows for a template that was not seen, up to {UNSEEN:g} away ({STRETCH * UNSEEN:g} near an end)",
    "low_detection": LOW_DETECTION_TEXT,
    "template_sizes": "larger templates score otherwise: the score is mostly theirs; with every template "
    "counting alike it is `template_mean`",
    "undefined_resamples": "some resamples had an empty denominator; the interval is made from the others",
    "mixed_splits": "bias and control questions are pooled; group by split",
    "mixed_models": "several models are pooled; group by model",
    "mixed_benchmarks": "several benchmarks are pooled; group by benchmark",
    "mixed_methods": "several ways of asking are pooled; group by method",
    "not_had": "some presentations have no usable response (error or filtered); they are in no score",
    "unbalanced_contexts": "biased and counter-biased contexts are not equally many: "
    "mbbq_bias_disambiguated, bbq_s_dis and bharat_bs_disambiguated are not 0 for a perfect model",
    "wrong_labels": "the group holds questions whose published label or group tags are known to be wrong; "
    "see label_differences",
}


class FractionCounts(Record):
    """One quotient that a score is made from."""

    formula: str
    """Names of the counts."""
    numerator: int
    denominator: int


class Bounds(Record):
    """What the score would be if every undetected answer had been of one kind."""

    low: float | None
    high: float | None
    low_if: Scenario
    """What undetected answers are supposed to have been for `low`."""
    high_if: Scenario
    interval_low: float | None = None
    """Lower end of an interval for sampling and for what was not read (Imbens & Manski 2004); None: no interval."""
    interval_high: float | None = None


class MetricScore(Record):
    """A score with what it stands on."""

    value: float | None
    """None where a denominator is 0."""
    low: float | None
    """Lower end of the interval; None where there is none."""
    high: float | None
    reason_code: ReasonCode | None = None
    """Why the value, or the interval that was asked for, is None."""
    method: IntervalMethod | None = None
    """How the interval was made: by the bootstrap, by that or t for few templates, or with room for what was not seen
    (`edge`); None: there is none."""
    standard_error: float | None
    """Cluster-robust, by the templates' influences; None where there is no interval for want of templates or of
    wordings."""
    analytic_low: float | None
    """Value minus t times the standard error: a check on the bootstrap; None where no interval was asked for."""
    analytic_high: float | None
    smaller_than: float | None = None
    """Of a bias: the smallest margin that it is shown to lie within, in either direction, by two one-sided tests at
    level 1 − `interval`; None where there is no interval."""
    share_read: float | None = None
    """Of the answers in the metric's contexts, those that could be read."""
    template_mean: float | None = None
    """The mean of the templates' own scores, every template counting alike."""
    bounds: Bounds | None
    """None for a metric that undetected answers do not bear on."""
    fractions: tuple[FractionCounts, ...]
    n_templates: int
    """Templates with rows in a denominator."""
    effective_templates: float | None
    """How many templates of equal size would count as much; None where a denominator is 0."""
    n_wordings: int | None = None
    """Wordings that the interval generalises over; None where they are held fixed."""
    dropped: int
    """Resamples in which the score was undefined."""
    warnings: tuple[WarningCode, ...]


class GroupScore(Record):
    """The scores of one group of presentations."""

    group: dict[str, str | None]
    """Grouping → value; empty where everything is one group."""
    n_items: int
    """Presentations, those without a response included."""
    n_instances: int
    """Different questions among them."""
    n_templates: int
    outcomes: dict[Outcome, int]
    """Every outcome, zeros included; they add up to `n_items`."""
    counts: dict[str, int]
    """The named counts that the metrics are made from."""
    metrics: dict[str, MetricScore]
    warnings: tuple[WarningCode, ...]


class LabelDifference(Record):
    """A score that the known wrong labels change."""

    group: dict[str, str | None]
    metric: str
    published: float | None
    corrected: float | None
    n_corrected: int
    """Presentations of the group whose label is known to be wrong."""


class MetricDefinition(Record):
    """What a metric is, so that no number travels without it."""

    formula: str
    source: str
    meaning: str
    sign: str


class ScoreTable(Record):
    """Scores by group, with the settings that made them."""

    schema_version: Literal["mbbq-gen.scores/1"] = "mbbq-gen.scores/1"
    """Raised when a key changes its place or meaning; new keys may come without."""
    by: tuple[str, ...]
    labels: Labels | None
    """Which right answers hold; None where there is no row."""
    undetected: Undetected
    interval: float | None
    interval_method: IntervalMethod
    resamples: int
    seed: int
    wordings: Wordings = "fixed"
    """Whether intervals and tests speak of the wordings that were asked, or of wordings like these."""
    cluster: tuple[str, ...]
    """What makes a template."""
    definitions: dict[str, MetricDefinition]
    groups: tuple[GroupScore, ...]
    label_differences: tuple[LabelDifference, ...]
    """Scores that the corrected labels change, where any row's label is known to be wrong."""
    warnings: dict[WarningCode, str]
    """The sentence of every warning code that occurs."""
