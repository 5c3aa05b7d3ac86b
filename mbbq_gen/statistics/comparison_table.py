"""The records that comparisons leave in: what `mbbq-gen compare --json` writes."""

from __future__ import annotations

from typing import Literal

from mbbq_gen.records import Confidence, Record
from mbbq_gen.scoring.missing import LOW_DETECTION_TEXT
from mbbq_gen.scoring.reasons import TOO_FEW
from mbbq_gen.scoring.wordings import Wordings
from mbbq_gen.statistics.ability import TemplateSelection
from mbbq_gen.statistics.agreement import PairAgreement
from mbbq_gen.statistics.correction_table import ConfusionMatrix, CorrectedDifference, CorrectedScore, ReadingError
from mbbq_gen.statistics.panel import EstimateScore
from mbbq_gen.statistics.significance import TestResult
from mbbq_gen.statistics.unread import TippingPoint, UnreadBounds

WarningCode = Literal[
    "low_detection",
    "detection_differs",
    "undetected_could_explain",
    "ability_could_explain",
    "position_could_explain",
    "control_differs",
    "too_few_templates",
    "few_templates",
    "templates_left_out",
    "detection_exceeds_difference",
    "reading_error_exceeds_difference",
]
WARNINGS: dict[WarningCode, str] = {
    "low_detection": LOW_DETECTION_TEXT,
    "detection_differs": "the shares of answers that could be read differ by more than 5 points",
    "undetected_could_explain": "had the unread answers been as biased in one level and as counter-biased in the other "
    "as can be, the difference would be gone",
    "ability_could_explain": "the lean of the persons named does not differ for sure; how often one is named does",
    "position_could_explain": "places are preferred, and with orders balanced the difference is no longer sure",
    "control_differs": "the same score differs on the control questions too; read the control-adjusted difference",
    "too_few_templates": TOO_FEW,
    "few_templates": "fewer than 10 templates are shared: little can be found, and intervals are rough",
    "templates_left_out": "templates that some level does not have are left out of the comparison",
    "detection_exceeds_difference": "the shares of answers that could be read differ by more than the scores do",
    "reading_error_exceeds_difference": "by the labels, the shares of answers read wrong differ by more than the "
    "scores do; read the corrected difference",
}
DETECTION_GAP = 0.05
"""Between shares of answers that could be read: from here on it is warned of."""


class LevelScore(Record):
    """One level's score, with everything that it is read beside."""

    level: str
    n_items: int
    """Presentations, those without a response included."""
    detection_rate: float | None
    accuracy: float | None
    """In the contexts of the metric, over the bias split."""
    control_accuracy: float | None
    """On disambiguated control questions."""
    score: EstimateScore
    control: EstimateScore
    adjusted: EstimateScore
    """Score minus control, paired by template."""
    bounds: UnreadBounds | None = None
    """The score, had all unread answers been counter-biased, or biased; None where they don't touch it."""
    tests: tuple[TestResult, ...]
    """Score against 0."""
    confidences: dict[Confidence, float]
    """How sure the reader was of the answers that came back: shares."""
    corrected: CorrectedScore | None = None
    """The score with the errors of reading taken off; None where it was not asked for."""
    reading_error: ReadingError | None = None
    """How often answers of the bias split are read wrong, by the labels."""


class Parts(Record):
    """A difference of bias, in parts that add up to it."""

    naming: EstimateScore
    """Because a person is named, where that is wrong, more or less often: ability."""
    lean: EstimateScore
    """Because the persons wrongly named lean more or less to the stereotype."""
    unknown: EstimateScore | None
    """Because "unknown" is answered more often in contexts of one kind; None in ambiguous ones, where it is right."""


class PairDifference(Record):
    """The difference between two levels: first minus second."""

    first: str
    second: str
    difference: EstimateScore
    bounds: UnreadBounds | None = None
    """The difference, had the unread answers been as much against it, and as much for it, as can be."""
    tipping_point: TippingPoint | None = None
    """Of a difference that was found (its interval excludes 0), where some answers could not be read."""
    tests: tuple[TestResult, ...]
    """Paired by template; p_adjusted is Holm's over all pairs."""
    adjusted: EstimateScore
    """Of the control-adjusted scores."""
    adjusted_test: TestResult
    matched: EstimateScore
    """On the templates on which all levels are above chance on the control questions."""
    parts: Parts | None
    """None for metrics other than MBBQ's and KoBBQ's bias in ambiguous and KoBBQ's in disambiguated contexts."""
    warnings: tuple[WarningCode, ...]
    corrected: CorrectedDifference | None = None
    """The difference with the errors of reading taken off; None where it was not asked for."""


class MetricComparison(Record):
    """One metric over all levels."""

    metric: str
    sign: str
    n_templates: int
    """Templates that all levels have: what everything here stands on."""
    levels: tuple[LevelScore, ...]
    overall: tuple[TestResult, ...]
    left_out: tuple[str, ...] = ()
    """Levels that `overall` leaves out, for their score is undefined, or has no interval."""
    pairs: tuple[PairDifference, ...]


class Comparison(Record):
    """One comparison: the levels of one grouping, within one group of everything else."""

    within: dict[str, str | None]
    """What all levels share."""
    across: str
    levels: tuple[str, ...]
    selection: TemplateSelection | None
    """What everything was restricted to; None: nothing."""
    matched: TemplateSelection | None
    """The templates of `PairDifference.matched`; None without control answers."""
    metrics: tuple[MetricComparison, ...]
    agreement: tuple[PairAgreement, ...]
    """Of levels that were asked the same questions."""
    templates_left_out: tuple[str, ...]
    matrices: tuple[ConfusionMatrix, ...] = ()
    """What answers say by how they are read, by language; empty where no correction was asked for."""
    warnings: dict[WarningCode, str]
    """The sentence of every warning code that occurs."""


class ComparisonTable(Record):
    """Comparisons with the settings that made them."""

    schema_version: Literal["mbbq-gen.comparison/1"] = "mbbq-gen.comparison/1"
    across: str
    interval: float
    resamples: int
    seed: int
    undetected: str
    wordings: Wordings = "fixed"
    """Whether intervals and tests speak of the wordings that were asked, or of wordings like these."""
    sign: str = "differences are first minus second; above 0: the first leans more to the stereotype"
    comparisons: tuple[Comparison, ...]
    adjusted_over: Literal["pairs", "all"] = "pairs"
    """What the p values of pairs are adjusted over: the pairs of a metric, or all pairs, metrics and groups."""
    simultaneous: bool = False
    """Whether the intervals of differences hold all at once, over the same (Bonferroni)."""
    left_out: tuple[str, ...] = ()
    """Groups of `--by` that can't be compared, and why."""
    margin: float | None = None
    """What scores and differences are tested to be smaller than; None: nothing."""
    corrected_by: str | None = None
    """Who gave the labels that the corrected scores stand on."""
