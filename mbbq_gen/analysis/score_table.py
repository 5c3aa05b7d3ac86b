"""The records of scores: what `mbbq-gen score` writes as JSON."""

from __future__ import annotations

from typing import Literal

from mbbq_gen.core.records import FrozenModel, Outcome
from mbbq_gen.scoring.cells import Scenario, UnparsedPolicy
from mbbq_gen.scoring.codes import FEW_TEMPLATES, TOO_FEW, PromptEffects, ReasonCode
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.statistics.crossed_effects import TOO_FEW_PROMPT_VARIANTS
from mbbq_gen.statistics.intervals import LOW_PARSING_TEXT, STRETCH, UNSEEN_TEMPLATE_DEVIATION, IntervalMethod

WarningCode = Literal[
    "too_few_templates",
    "too_few_prompt_variants",
    "few_templates",
    "near_boundary",
    "low_parse_rate",
    "template_size_effect",
    "undefined_resamples",
    "mixed_splits",
    "mixed_models",
    "mixed_benchmarks",
    "mixed_methods",
    "missing_responses",
    "unbalanced_contexts",
    "mislabeled_instances",
]
WARNINGS: dict[WarningCode, str] = {
    "too_few_templates": TOO_FEW,
    "too_few_prompt_variants": TOO_FEW_PROMPT_VARIANTS,
    "few_templates": f"fewer than {FEW_TEMPLATES} templates: the interval is rough",
    "near_boundary": "nearly all templates have the same score, a few differ much, or the score is near an end of its "
    f"scale: the interval allows for an unseen template, up to {UNSEEN_TEMPLATE_DEVIATION:g} away "
    f"({STRETCH * UNSEEN_TEMPLATE_DEVIATION:g} near an end)",
    "low_parse_rate": LOW_PARSING_TEXT,
    "template_size_effect": "larger templates have other scores than small ones and dominate: with equal template "
    "weights the score is `mean_over_templates`",
    "undefined_resamples": "some resamples had an empty denominator; the interval is made from the others",
    "mixed_splits": "bias and control questions are pooled; group by split",
    "mixed_models": "several models are pooled; group by model",
    "mixed_benchmarks": "several benchmarks are pooled; group by benchmark",
    "mixed_methods": "several methods are pooled; group by method",
    "missing_responses": "some prompts have no response (error or content_filter); no score counts them",
    "unbalanced_contexts": "the numbers of biased and counter-biased contexts differ: "
    "mbbq_bias_disambiguated, bbq_s_dis and bharat_bs_disambiguated are not 0 for a perfect model",
    "mislabeled_instances": "the group has questions whose published gold label or group tags are known to be wrong; "
    "see gold_differences",
}


class FractionCounts(FrozenModel):
    """One quotient that a score is made from."""

    formula: str
    """Names of the counts."""
    numerator: int
    denominator: int


class Bounds(FrozenModel):
    """What the score would be if every unparsed answer had been of one kind."""

    low: float | None
    high: float | None
    low_scenario: Scenario
    """Assumption about unparsed answers for `low`."""
    high_scenario: Scenario
    interval_low: float | None = None
    """Lower end of an interval for sampling and unparsed answers (Imbens & Manski 2004); None: no interval."""
    interval_high: float | None = None


class MetricScore(FrozenModel):
    """A score with what it stands on."""

    value: float | None
    """None where a denominator is 0."""
    ci_low: float | None
    """Lower end of the interval; None where there is none."""
    ci_high: float | None
    reason_code: ReasonCode | None = None
    """Why the value, or the interval that was requested, is None."""
    method: IntervalMethod | None = None
    """How the interval was made: by the bootstrap, by that or t for few templates, or with room for what was not seen
    (`near_boundary`); None: there is none."""
    standard_error: float | None
    """Cluster-robust, by the templates' influences; None if there are too few templates or
    prompt variants."""
    t_ci_low: float | None
    """Value minus t times the standard error: a check on the bootstrap; None where no interval was requested."""
    t_ci_high: float | None
    equivalence_bound: float | None = None
    """Of a bias: the smallest margin that it is shown to lie within, in either direction, by two one-sided tests at
    level 1 − `interval`; None where there is no interval."""
    parse_rate: float | None = None
    """Of the answers in the metric's contexts, those that could be parsed."""
    mean_over_templates: float | None = None
    """The mean of the templates' own scores, every template counting alike."""
    bounds: Bounds | None
    """None for metrics that unparsed answers do not affect."""
    fractions: tuple[FractionCounts, ...]
    n_templates: int
    """Templates with rows in a denominator."""
    n_templates_effective: float | None
    """How many templates of equal size would count as much; None where a denominator is 0."""
    n_prompt_variants: int | None = None
    """Prompt variants that the interval generalises over; None where they are fixed."""
    n_resamples_dropped: int
    """Resamples in which the score was undefined."""
    warnings: tuple[WarningCode, ...]


class GroupScore(FrozenModel):
    """The scores of one group of prompts."""

    group: dict[str, str | None]
    """Grouping → value; empty where everything is one group."""
    n_answers: int
    """Prompts, those without a response included."""
    n_instances: int
    """Different questions among them."""
    n_templates: int
    outcomes: dict[Outcome, int]
    """Every outcome, zeros included; they add up to `n_answers`."""
    counts: dict[str, int]
    """The named counts that the metrics are made from."""
    metrics: dict[str, MetricScore]
    warnings: tuple[WarningCode, ...]


class GoldDifference(FrozenModel):
    """A score that the known wrong labels change."""

    group: dict[str, str | None]
    metric: str
    published: float | None
    corrected: float | None
    n_corrected: int
    """Prompts of the group whose label is known to be wrong."""


class MetricDefinition(FrozenModel):
    """What a metric is, so that no number travels without it."""

    formula: str
    source: str
    meaning: str
    sign: str


class ScoreTable(FrozenModel):
    """Scores by group, with the settings that made them."""

    schema_version: Literal["mbbq-gen.scores/1"] = "mbbq-gen.scores/1"
    """Raised when a key changes its place or meaning; new keys do not raise it."""
    by: tuple[str, ...]
    gold: GoldLabels | None
    """Gold labels in use: published or corrected; None if there are no rows."""
    unparsed: UnparsedPolicy
    confidence_level: float | None
    interval_method: IntervalMethod
    n_resamples: int
    seed: int
    prompt_effects: PromptEffects = "fixed"
    """Whether intervals and tests hold for the prompt variants of the run only, or for others like them."""
    cluster: tuple[str, ...]
    """Columns that identify a template."""
    definitions: dict[str, MetricDefinition]
    groups: tuple[GroupScore, ...]
    gold_differences: tuple[GoldDifference, ...]
    """Scores that the corrected labels change, where any row's label is known to be wrong."""
    warnings: dict[WarningCode, str]
    """Warning code → its text, for every code that occurs."""
