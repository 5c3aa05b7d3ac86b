"""The records that corrected scores leave in: what `--correct-with` adds to the JSON of the commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Literal

import polars as pl

from mbbq_gen.core.records import Confidence, FrozenModel
from mbbq_gen.scoring.codes import ReasonCode
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import partition
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings
from mbbq_gen.statistics.intervals import Proportion
from mbbq_gen.statistics.panel import make_panel

ReadRole = Literal["target", "non_target", "unknown", "none", "person"]
"""What an answer chooses: the role of the option, or `none`; `person` is one of a question without a single target."""


class CorrectedScore(FrozenModel):
    """A score with extraction errors removed."""

    value: float | None
    """None where it is undefined, or there are too few labels; `reason` says which."""
    ci_low: float | None = None
    """Lower end of the interval: over templates, and over which answers were labelled."""
    ci_high: float | None = None
    standard_error: float | None = None
    uncorrected: float | None = None
    """The score by the extractions alone."""
    correction: float | None = None
    """Value minus uncorrected."""
    ppi_lambda: float | None = None
    """λ: 1 where the extractions count fully, 0 where the labels alone do; None of a difference."""
    degrees_of_freedom: float | None = None
    n_labels: int
    reason: str | None = None
    reason_code: ReasonCode | None = None
    """Code of the reason."""


class CorrectedGroup(FrozenModel):
    """The corrected scores of one group, by metric."""

    group: dict[str, str | None]
    n_labels: int
    metrics: dict[str, CorrectedScore]


class CorrectedDifference(CorrectedScore):
    """A corrected difference of two levels, first minus second, with its test against 0."""

    p_value: float | None = None
    """The least level at which the interval excludes 0."""
    p_adjusted: float | None = None
    """Holm's over all pairs."""


class ExtractionErrorRate(FrozenModel):
    """How often the answers of a group are extracted wrongly, by the labels."""

    group: dict[str, str | None]
    n_labels: int
    n_wrong: float
    """Of the labels."""
    rate: Proportion
    """Each label weighing as many answers as it stands for; unparsed answers without a text are not among them."""


class ConfusionCell(FrozenModel):
    """How many of the answers parsed in one way say another thing."""

    read: ReadRole
    right: ReadRole
    count: float
    """Labels; parts of one where a label only says what is wrong."""
    share: float
    """Of the answers parsed so, by weight."""


class ConfusionMatrix(FrozenModel):
    """What answers say, by how they are read."""

    language: str | None
    """None: all languages."""
    n_labels: int
    rate: Proportion
    """Of the answers extracted wrongly, by weight."""
    cells: tuple[ConfusionCell, ...]
    """Rows with a label; combinations that do not occur are left out."""


class Correction(FrozenModel):
    """What labels say of the scores and of the extractions."""

    source: str
    """Source of the labels: `annotations`."""
    confidence_level: float
    n_labels: int
    unsampled_annotations: int
    """Annotations outside of every drawn sample; left out."""
    incomplete_annotations: int
    """Annotations that only reject an extraction: every other answer counts as equally likely."""
    stale_annotations: int
    """Annotations that rejected an extraction which has changed since; left out."""
    groups: tuple[CorrectedGroup, ...]
    errors: tuple[ExtractionErrorRate, ...]
    matrices: tuple[ConfusionMatrix, ...]


class ConfidenceShares(FrozenModel):
    """The extractor's confidence in the answers of a group."""

    group: dict[str, str | None]
    n_answers: int
    """Answers with a response."""
    shares: dict[Confidence, float]


class ExtractionFlag(FrozenModel):
    """A difference of two languages that extraction could have caused."""

    group: dict[str, str | None]
    metric: str
    first: str
    second: str
    difference: float
    """Of the scores as they were extracted, first minus second; its interval excludes 0."""
    read_gap: float
    """Difference of the parse rates."""
    error_gap: float | None
    """Of the shares of answers extracted wrongly, by the labels; None without them."""
    flags: tuple[Literal["parse_rate_gap_exceeds_difference", "extraction_error_exceeds_difference"], ...]


Flag = Literal["parse_rate_gap_exceeds_difference", "extraction_error_exceeds_difference"]


def flags_of(difference: EstimateResult, read_gap: float, error_gap: float | None) -> Iterator[Flag]:
    """What is larger than a difference that was found; nothing where its interval holds 0.

    `read_gap`, `error_gap`: how far the shares of answers parsed, and of those extracted wrongly, lie apart; None: not
    known.
    """
    if difference.value is None or difference.ci_low is None or difference.ci_high is None:
        return
    if difference.ci_low <= 0 <= difference.ci_high:
        return
    if abs(read_gap) > abs(difference.value):
        yield "parse_rate_gap_exceeds_difference"
    if error_gap is not None and abs(error_gap) > abs(difference.value):
        yield "extraction_error_exceeds_difference"


def gap(first: float | None, second: float | None) -> float | None:
    """First minus second; None where one is not known."""
    return None if first is None or second is None else first - second


def extraction_flags(
    frame: pl.DataFrame,
    within: Sequence[str],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
    errors: Mapping[tuple[str | None, ...], ExtractionErrorRate],
) -> list[ExtractionFlag]:
    """The differences of languages on the bias split that extraction could have caused.

    `within`: what is compared within, such as model and benchmark. `errors`: by the values of `within` and language.
    """
    found: list[ExtractionFlag] = []
    for group, part in partition(frame.filter(pl.col("split") == "bias"), within):
        found += _flags_within(part, group, metrics, sampling, errors)
    return found


def _flags_within(
    frame: pl.DataFrame,
    group: dict[str, str | None],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
    errors: Mapping[tuple[str | None, ...], ExtractionErrorRate],
) -> Iterator[ExtractionFlag]:
    panel = make_panel(frame, ["language"], sampling)
    languages = [str(one["language"]) for one in panel.groups]
    read = METRICS["parse_rate"].value(panel.total)
    for metric in metrics:
        estimates = panel.estimates(metric)
        for one, other in combinations(range(len(languages)), 2):
            difference = estimates[one].subtract(estimates[other]).score(sampling)
            read_gap = float(read[one] - read[other])
            rates = [errors.get((*group.values(), languages[place])) for place in (one, other)]
            error_gap = gap(*(rate.rate.value if rate else None for rate in rates))
            flags = tuple(flags_of(difference, read_gap, error_gap))
            if flags and difference.value is not None:
                yield ExtractionFlag(
                    group=group,
                    metric=metric.name,
                    first=languages[one],
                    second=languages[other],
                    difference=difference.value,
                    read_gap=read_gap,
                    error_gap=error_gap,
                    flags=flags,
                )
