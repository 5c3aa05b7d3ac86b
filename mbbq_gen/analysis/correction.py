"""Corrected scores, extraction error rates and confusion matrices from labelled answers, by any grouping.

Labelled answers are observations with further columns: `weight`, the number of answers that a label represents;
`right_role`, `right_index` and `right_outcome`, the label; and `right_cell`, its cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from mbbq_gen.core.records import Confidence, FrozenModel
from mbbq_gen.scoring import tally
from mbbq_gen.scoring.cells import Array, cell_expression, has_response, is_parsed
from mbbq_gen.scoring.codes import ReasonCode
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import TEMPLATE, partition, weight_of_rows
from mbbq_gen.statistics.estimate import REASONS, InferenceSettings, number
from mbbq_gen.statistics.hypothesis_tests import zero_test
from mbbq_gen.statistics.intervals import Proportion, proportion
from mbbq_gen.statistics.panel import Panel, panel_of
from mbbq_gen.statistics.ppi import MIN_LABELS, AnnotatedCells, CorrectedEstimate, PPIGroup, correct, usual_error_rate

ReadRole = Literal["target", "non_target", "unknown", "none", "person"]
"""The role of the chosen option, or `none`; `person` for questions without a single target."""


class CorrectedScore(FrozenModel):
    """A score corrected for extraction errors."""

    value: float | None
    """None if undefined, or for too few labels."""
    ci_low: float | None = None
    """Lower end of the interval over templates and labels."""
    ci_high: float | None = None
    standard_error: float | None = None
    uncorrected: float | None = None
    correction: float | None = None
    ppi_lambda: float | None = None
    """λ, from 0 (labels only) to 1 (full weight of extractions); None for a difference."""
    degrees_of_freedom: float | None = None
    n_labels: int
    reason: str | None = None
    reason_code: ReasonCode | None = None


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
    """Adjusted over all pairs (Holm)."""


class ExtractionErrorRate(FrozenModel):
    """The extraction error rate of a group."""

    group: dict[str, str | None]
    n_labels: int
    n_wrong: int
    rate: Proportion
    """Weighted by the answers that each label represents, without empty answers."""


class ConfusionCell(FrozenModel):
    """The number of labels with one extracted role and one right role."""

    read: ReadRole
    right: ReadRole
    count: int
    share: float
    """Weighted share of the answers with this extracted role."""


class ConfusionMatrix(FrozenModel):
    """The right roles of answers by their extracted roles."""

    language: str | None
    """None: all languages."""
    n_labels: int
    rate: Proportion
    """Weighted extraction error rate."""
    cells: tuple[ConfusionCell, ...]
    """Cells with labels."""


class Correction(FrozenModel):
    """Corrected scores and extraction errors."""

    source: str = "annotations"
    confidence_level: float
    n_labels: int
    unsampled_annotations: int
    """Annotations outside of all samples, which are excluded."""
    groups: tuple[CorrectedGroup, ...]
    errors: tuple[ExtractionErrorRate, ...]
    matrices: tuple[ConfusionMatrix, ...]


class ConfidenceShares(FrozenModel):
    """The shares of the extractor's confidence levels in a group."""

    group: dict[str, str | None]
    n_answers: int
    """Answers with a response."""
    shares: dict[Confidence, float]


@dataclass(frozen=True)
class AnnotatedFrame:
    """Labelled answers, with the number of excluded annotations."""

    frame: pl.DataFrame
    """Observations with `prompt_id`, `weight`, `right_outcome`, `right_role`, `right_index` and `right_cell`."""
    unsampled_annotations: int


def joined(parts: Sequence[AnnotatedFrame]) -> AnnotatedFrame:
    """The labelled answers of several runs."""
    return AnnotatedFrame(pl.concat([part.frame for part in parts]), sum(part.unsampled_annotations for part in parts))


_CLASS = ("class_model", "class_language", "class_kind", "class_confidence")


@dataclass(frozen=True)
class AnnotatedGroup:
    """The labelled answers of one group, or the reason why they are too few."""

    group: dict[str, str | None]
    n_labels: int
    correctable: PPIGroup | None
    reason: str | None
    panel: Panel
    """The extracted answers of this group."""

    def estimate(self, metric: Metric) -> CorrectedEstimate | None:
        """The corrected metric; None for too few labels."""
        if self.correctable is None:
            return None
        return correct(metric, self.correctable, self.panel.sampling.unparsed, *self.panel.estimates(metric))

    def score(self, metric: Metric) -> CorrectedScore:
        """The corrected metric, or the reason why there is none."""
        return CorrectedScore(**self.numbers(self.estimate(metric)))

    def numbers(self, estimate: CorrectedEstimate | None) -> dict[str, Any]:
        """The fields of a corrected score; value and interval are clipped to the range of the metric."""
        if estimate is None:
            return {"value": None, "n_labels": self.n_labels, "reason": self.reason, "reason_code": "undefined"}
        raw, plain, (low, high) = number(estimate.value), number(estimate.plain), estimate.bounds
        interval, code = estimate.interval(self.panel.sampling.confidence), estimate.missing_reason
        value = None if raw is None else min(max(raw, low), high)
        return {
            "value": value,
            "ci_low": interval and min(interval[0], high),
            "ci_high": interval and max(interval[1], low),
            "standard_error": interval and number(estimate.standard_error),
            "uncorrected": plain,
            "correction": None if value is None or plain is None else value - plain,
            "ppi_lambda": number(estimate.ppi_lambda),
            "degrees_of_freedom": interval and number(estimate.units - 1),
            "n_labels": self.n_labels,
            "reason": code and REASONS[code],
            "reason_code": code,
        }

    def minus(self, other: AnnotatedGroup, metric: Metric) -> CorrectedDifference:
        """The difference of the corrected metric of two groups, with its test against 0."""
        minuend, subtrahend = self.estimate(metric), other.estimate(metric)
        both = replace(self, n_labels=self.n_labels + other.n_labels, reason=self.reason or other.reason)
        if minuend is None or subtrahend is None:
            return CorrectedDifference(**both.numbers(None))
        difference = minuend.minus(subtrahend)
        p_value = zero_test(difference, "the corrected scores are equal", self.panel.sampling).p_value
        return CorrectedDifference(**both.numbers(difference), p_value=p_value)


def labelled_groups(
    frame: pl.DataFrame, labelled: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings
) -> list[AnnotatedGroup]:
    """The groups of an observations table over the same templates, with their labelled answers.

    With sampling weights, the weight of a label is multiplied by that of its answer. Every language needs enough
    labels of its own.
    """
    panel = panel_of(list(tally.tally_groups(frame, tally.grouping_columns(by))), sampling)
    sizes, keyed = _keyed(frame), _keyed(labelled)
    keyed = keyed.with_columns(weight=keyed["weight"] * tally.weights_of_answers(keyed, frame))
    counted = keyed.group_by(_CLASS[:2]).agg(pl.col("prompt_id").n_unique()).rows()
    by_language = {(model, language): n for model, language, n in counted}
    rate = usual_error_rate((keyed["cell"] != keyed["right_cell"]).to_numpy(), keyed["weight"].to_numpy())
    all_rows, all_labels = ({str(group): part for group, part in partition(table, by)} for table in (sizes, keyed))
    annotated = []
    for place, group in enumerate(panel.groups):
        rows, labels = all_rows.get(str(group), sizes.clear()), all_labels.get(str(group), keyed.clear())
        n_labels, correctable = labels["prompt_id"].n_unique(), None
        languages = sorted(rows.select(_CLASS[:2]).unique().rows())
        counts = [(f" in {pair[1]}", by_language.get(pair, 0)) for pair in languages] + [("", n_labels)]
        reason = next((f"{n} labels{where}, {MIN_LABELS} are needed" for where, n in counts if n < MIN_LABELS), None)
        if reason is None:
            correctable = _correctable(rows, labels, panel.templates, panel.cells[place], rate)
        annotated.append(AnnotatedGroup(group, n_labels, correctable, reason, panel.on_groups([place])))
    return annotated


def _correctable(
    rows: pl.DataFrame, labels: pl.DataFrame, templates: Sequence[str], all_cells: Array, error_rate: float
) -> PPIGroup:
    """The answers of one group that can be labelled, and its labels; `all_cells`: the cells of all its answers."""
    row_of = {name: row for row, name in enumerate(templates)}
    classes = sorted(set(rows.select(_CLASS).unique().rows()) | set(labels.select(_CLASS).unique().rows()))
    class_sizes, cells = np.zeros((len(templates), len(classes))), np.zeros(all_cells.shape)
    for template, cell, *names, count in rows.group_by(TEMPLATE, "cell", *_CLASS).agg(weight_of_rows(rows)).rows():
        class_sizes[row_of[template], classes.index(tuple(names))] += count
        cells[row_of[template], cell] += count
    read, right = (labels[name].to_numpy().astype(np.int64) for name in ("cell", "right_cell"))
    template = np.array([row_of[name] for name in labels[TEMPLATE]], dtype=np.int64)
    kind = np.array([classes.index(row) for row in labels.select(_CLASS).rows()], dtype=np.int64)
    annotated = AnnotatedCells(read, right, template, kind, labels["weight"].to_numpy())
    return PPIGroup(cells, all_cells - cells, tuple(classes), class_sizes, annotated, error_rate)


def _keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that can be labelled, with their template, cell and class."""
    outcome, role = pl.col("outcome").cast(pl.String), pl.col("chosen_role").cast(pl.String)
    is_settled = ~has_response() | (outcome == "empty")
    # High confidence: the service itself reports the truncation, so there is no text to label.
    is_settled |= (outcome == "truncated") & (pl.col("confidence").cast(pl.String) == "high")
    kind = pl.when(~is_parsed()).then(pl.lit("none")).when(role == "unknown").then(pl.lit("unknown"))
    return frame.filter(~is_settled).with_columns(
        tally.template_expression(),
        cell_expression(),
        class_model=pl.col("model").cast(pl.String).fill_null(""),
        class_language=pl.col("language").cast(pl.String),
        class_kind=kind.otherwise(pl.lit("person")),
        class_confidence=pl.col("confidence").cast(pl.String),
    )


# --- as records ------------------------------------------------------------------------------------------------------


def correction(
    frame: pl.DataFrame,
    labelled: AnnotatedFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
) -> Correction:
    """Corrected scores and extraction error rates by any grouping, and confusion matrices by language."""
    return Correction(
        confidence_level=sampling.confidence,
        n_labels=labelled.frame.height,
        unsampled_annotations=labelled.unsampled_annotations,
        groups=tuple(
            CorrectedGroup(group=one.group, n_labels=one.n_labels, metrics={m.name: one.score(m) for m in metrics})
            for one in labelled_groups(frame, labelled.frame, by, sampling)
        ),
        errors=tuple(extraction_errors(labelled.frame, by, sampling.confidence)),
        matrices=tuple(confusion_matrices(labelled.frame, sampling.confidence)),
    )


# --- extraction errors ----------------------------------------------------------------------------------------------


def _judged(labelled: pl.DataFrame) -> pl.DataFrame:
    """Labelled answers with the extracted and the right role, and whether the extraction is wrong."""

    def role(name: str, outcome: str) -> pl.Expr:
        return (
            pl.when(~is_parsed(outcome))
            .then(pl.lit("none"))
            .otherwise(pl.col(name).cast(pl.String).fill_null("person"))
        )

    return labelled.with_columns(
        read=role("chosen_role", "outcome"),
        right=role("right_role", "right_outcome"),
        is_wrong=pl.col("right_index").ne_missing(pl.col("chosen_index")),
    )


def extraction_errors(labelled: pl.DataFrame, by: Sequence[str], confidence: float = 0.95) -> list[ExtractionErrorRate]:
    """The extraction error rate of every group."""
    return [
        ExtractionErrorRate(
            group=group,
            n_labels=part["prompt_id"].n_unique(),
            n_wrong=int(part["is_wrong"].sum()),
            rate=proportion(zip(part["is_wrong"], part["weight"], strict=True), confidence),
        )
        for group, part in partition(_judged(labelled), by)
    ]


def confusion_matrices(labelled: pl.DataFrame, confidence: float = 0.95) -> list[ConfusionMatrix]:
    """The confusion matrices of all languages together, and of each."""
    rows, order, matrices = _judged(labelled), get_args(ReadRole), []
    parts = [(group["language"], part) for group, part in partition(rows, ["language"])]
    for language, part in [(None, rows), *parts] if len(parts) > 1 else parts:
        counted = part.group_by("read", "right").agg(pl.len(), pl.col("weight").sum())
        counted = counted.with_columns(share=pl.col("weight") / pl.col("weight").sum().over("read"))
        cells = [
            ConfusionCell(read=row["read"], right=row["right"], count=row["len"], share=row["share"])
            for row in counted.sort(*(pl.col(name).cast(pl.Enum(order)) for name in ("read", "right"))).rows(named=True)
        ]
        rate = proportion(zip(part["is_wrong"], part["weight"], strict=True), confidence)
        n_labels = part["prompt_id"].n_unique()
        matrices.append(ConfusionMatrix(language=language, n_labels=n_labels, rate=rate, cells=tuple(cells)))
    return matrices


def confidence_shares(frame: pl.DataFrame, by: Sequence[str]) -> list[ConfidenceShares]:
    """The shares of the extractor's confidence levels among responses, by group."""
    answered = frame.filter(has_response())
    keys = dict.fromkeys((*tally.grouping_columns(by).values(), "confidence"))
    counted = answered.group_by(*keys).agg(pl.len().alias("rows"))
    groups = []
    for group, part in partition(counted, by) if counted.height else ():
        counts, total = dict(part.select(pl.col("confidence").cast(pl.String), "rows").rows()), part["rows"].sum()
        shares = {level: counts.get(level, 0) / total for level in get_args(Confidence)}
        groups.append(ConfidenceShares(group=group, n_answers=total, shares=shares))
    return groups
