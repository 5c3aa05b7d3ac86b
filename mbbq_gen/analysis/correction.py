"""From observations and labelled answers to corrected scores, error rates and confusion matrices, by any grouping.

The labelled answers are rows of observations with some columns more: `weight`, how many answers each stands for,
`right_role`, `right_index` and `right_outcome`, what it says, and `right_cell`, the cell that it falls into.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import polars as pl

from mbbq_gen.analysis.correction_table import (
    ConfidenceShares,
    ConfusionCell,
    ConfusionMatrix,
    CorrectedDifference,
    CorrectedGroup,
    CorrectedScore,
    Correction,
    ExtractionErrorRate,
    ReadRole,
    gap,
)
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Confidence
from mbbq_gen.scoring.cells import cell_expression
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import (
    TEMPLATE,
    grouping_columns,
    rows_of,
    tally_groups,
    template_expression,
    weight_of_rows,
    weights_of_answers,
)
from mbbq_gen.statistics.estimate import REASONS, InferenceSettings, number
from mbbq_gen.statistics.hypothesis_tests import zero_test
from mbbq_gen.statistics.intervals import proportion
from mbbq_gen.statistics.panel import Panel, panel_of
from mbbq_gen.statistics.ppi import MIN_LABELS, AnnotatedCells, CorrectedEstimate, PPIGroup, correct, usual_error_rate


@dataclass(frozen=True)
class AnnotatedFrame:
    """Labelled answers, and what was left out of them."""

    source: str
    """Who gave the labels."""
    frame: pl.DataFrame
    """The observations as they were extracted, with `prompt_id`, `weight` (answers that each stands for), and of the
    label `right_outcome`, `right_role`, `right_index` and `right_cell`. A label that only says what is wrong makes a
    row for each other answer."""
    labels: int
    """Answers that have one."""
    unsampled_annotations: int
    """Judged answers that are in no sample: they are left out."""
    incomplete_annotations: int
    """Labels that only say what is wrong; the other answers share their weight."""
    stale_annotations: int
    """Labels that only said that an extraction is wrong which has changed since: they are left out."""


def joined(parts: Iterable[AnnotatedFrame]) -> AnnotatedFrame:
    """The labelled answers of several runs, by one source."""
    found = list(parts)
    return AnnotatedFrame(
        source=found[0].source,
        frame=pl.concat([part.frame for part in found]),
        labels=sum(part.labels for part in found),
        unsampled_annotations=sum(part.unsampled_annotations for part in found),
        incomplete_annotations=sum(part.incomplete_annotations for part in found),
        stale_annotations=sum(part.stale_annotations for part in found),
    )


_CLASS = ("class_model", "class_language", "class_kind", "class_confidence")


@dataclass(frozen=True)
class AnnotatedGroup:
    """One group: what is there to correct, or why nothing can be."""

    group: dict[str, str | None]
    n_labels: int
    correctable: PPIGroup | None
    reason: str | None
    panel: Panel
    """The answers of this group alone as they were extracted."""

    def estimate(self, metric: Metric, sampling: InferenceSettings) -> CorrectedEstimate | None:
        """The corrected metric; None where nothing can be corrected."""
        if self.correctable is None:
            return None
        (extracted,) = self.panel.estimates(metric)
        return correct(metric, self.correctable, sampling.unparsed, extracted)


def labelled_groups(
    frame: pl.DataFrame, labelled: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings
) -> list[AnnotatedGroup]:
    """The groups of an observations table, over one list of templates, each with its labelled answers.

    Where answers weigh unequally by design, a label stands for its answers with the weight of its own.
    """
    columns = grouping_columns(by)
    panel = panel_of(list(tally_groups(frame, columns)), sampling)
    sizes, keyed = _keyed(frame, columns), _keyed(labelled, columns)
    keyed = keyed.with_columns(cell_expression(), weight=keyed["weight"] * weights_of_answers(keyed, frame))
    counted = keyed.group_by("class_model", "class_language").agg(pl.col("prompt_id").n_unique())
    annotated = {(model, language): count for model, language, count in counted.rows()}
    wrong = (keyed["cell"] != keyed["right_cell"]).to_numpy()
    rate = usual_error_rate(wrong, keyed["weight"].to_numpy())
    parts = _parts(sizes, columns), _parts(keyed, columns)
    return [
        _labelled_group(
            panel, place, (parts[0].get(key, sizes.clear()), parts[1].get(key, keyed.clear())), annotated, rate
        )
        for place, key in enumerate([tuple(group[name] for name in columns) for group in panel.groups])
    ]


def _keyed(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """The rows that can be labelled, with their template, group and class."""
    outcome = pl.col("outcome").cast(pl.String)
    is_settled = outcome.is_in(sorted(NO_RESPONSE)) | (outcome == "empty")
    # Where the service says so itself, the extractor is certain that an answer was cut off: there is no text to judge.
    is_settled |= (outcome == "truncated") & (pl.col("confidence").cast(pl.String) == "high")
    role = pl.col("chosen_role").cast(pl.String)
    kind = (
        pl.when(~outcome.is_in(sorted(PARSED)))
        .then(pl.lit("none"))
        .otherwise(pl.when(role == "unknown").then(pl.lit("unknown")).otherwise(pl.lit("person")))
    )
    return frame.filter(~is_settled).with_columns(
        template_expression(),
        *(pl.col(column).cast(pl.String).alias(f"by_{name}") for name, column in columns.items()),
        class_model=pl.col("model").cast(pl.String).fill_null(""),
        class_language=pl.col("language").cast(pl.String),
        class_kind=kind,
        class_confidence=pl.col("confidence").cast(pl.String),
    )


def _parts(frame: pl.DataFrame, columns: Mapping[str, str]) -> dict[tuple[Any, ...], pl.DataFrame]:
    names = [f"by_{name}" for name in columns]
    if not names:
        return {(): frame}
    return dict(frame.partition_by(names, as_dict=True))


def _labelled_group(
    panel: Panel,
    place: int,
    parts: tuple[pl.DataFrame, pl.DataFrame],
    annotated: Mapping[tuple[str, str], int],
    rate: float,
) -> AnnotatedGroup:
    rows, labelled = parts
    labels = labelled["prompt_id"].n_unique()
    reason = _why_not(rows, labels, annotated)
    if reason is not None:
        return AnnotatedGroup(panel.groups[place], labels, None, reason, panel.on_groups([place]))
    templates = {name: number for number, name in enumerate(panel.templates)}
    counted = rows.group_by(TEMPLATE, *_CLASS).agg(weight_of_rows(rows))
    classes = sorted({row[1:-1] for row in counted.rows()} | set(labelled.select(_CLASS).unique().rows()))
    class_sizes = np.zeros((len(templates), len(classes)))
    for template, *names, count in counted.rows():
        class_sizes[templates[template], classes.index(tuple(names))] += count
    cells = np.zeros(panel.cells[place].shape)
    for template, cell, count in rows.group_by(TEMPLATE, cell_expression()).agg(weight_of_rows(rows)).rows():
        cells[templates[template], cell] += count
    kinds = [classes.index(row) for row in labelled.select(_CLASS).rows()]
    return AnnotatedGroup(
        panel.groups[place],
        labels,
        PPIGroup(
            cells=cells,
            settled=panel.cells[place] - cells,
            classes=tuple(classes),
            class_sizes=class_sizes,
            labelled=AnnotatedCells(
                read=labelled["cell"].to_numpy().astype(np.int64),
                right=labelled["right_cell"].to_numpy().astype(np.int64),
                template=np.array([templates[name] for name in labelled[TEMPLATE]], dtype=np.int64),
                kind=np.array(kinds, dtype=np.int64),
                weight=labelled["weight"].to_numpy(),
            ),
            error_rate=rate,
        ),
        None,
        panel.on_groups([place]),
    )


def _why_not(rows: pl.DataFrame, labels: int, annotated: Mapping[tuple[str, str], int]) -> str | None:
    """Why a group can't be corrected: labels of one language say nothing of another."""
    for model, language in sorted(set(rows.select("class_model", "class_language").unique().rows())):
        count = annotated.get((model, language), 0)
        if count < MIN_LABELS:
            return f"{count} labels in {language}, {MIN_LABELS} are needed"
    return f"{labels} labels, {MIN_LABELS} are needed" if labels < MIN_LABELS else None


# --- as records ------------------------------------------------------------------------------------------------------


def correction(
    frame: pl.DataFrame,
    labelled: AnnotatedFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
) -> Correction:
    """Corrected scores by any grouping, beside how the extractor errs by the same groups and by language."""
    return Correction(
        source=labelled.source,
        confidence_level=sampling.confidence,
        n_labels=labelled.labels,
        unsampled_annotations=labelled.unsampled_annotations,
        incomplete_annotations=labelled.incomplete_annotations,
        stale_annotations=labelled.stale_annotations,
        groups=tuple(corrected_groups(frame, labelled.frame, by, metrics, sampling)),
        errors=tuple(extraction_errors(labelled.frame, by, sampling.confidence)),
        matrices=tuple(confusion_matrices(labelled.frame, sampling.confidence)),
    )


def corrected_groups(
    frame: pl.DataFrame,
    labelled: pl.DataFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: InferenceSettings,
) -> list[CorrectedGroup]:
    """The corrected metrics of every group, in the order of `score`."""
    return [
        CorrectedGroup(
            group=group.group,
            n_labels=group.n_labels,
            metrics={metric.name: corrected_metric(group, metric, sampling) for metric in metrics},
        )
        for group in labelled_groups(frame, labelled, by, sampling)
    ]


def corrected_metric(group: AnnotatedGroup, metric: Metric, sampling: InferenceSettings) -> CorrectedScore:
    """One corrected metric of a group."""
    estimate = group.estimate(metric, sampling)
    if estimate is None:
        return CorrectedScore(value=None, n_labels=group.n_labels, reason=group.reason, reason_code="undefined")
    return CorrectedScore(**_numbers(estimate, group.n_labels, sampling))


def _numbers(estimate: CorrectedEstimate, labels: int, sampling: InferenceSettings) -> dict[str, Any]:
    """The fields of a corrected score; value and interval are cut off where the score can't go."""
    found, plain = number(estimate.value), number(estimate.plain)
    interval, code = estimate.interval(sampling.confidence), estimate.missing_reason
    value = None if found is None else min(max(found, estimate.bounds[0]), estimate.bounds[1])
    return {
        "value": value,
        "ci_low": None if interval is None else min(interval[0], estimate.bounds[1]),
        "ci_high": None if interval is None else max(interval[1], estimate.bounds[0]),
        "standard_error": None if interval is None else number(estimate.standard_error),
        "uncorrected": plain,
        "correction": None if value is None or plain is None else value - plain,
        "ppi_lambda": number(estimate.ppi_lambda),
        "degrees_of_freedom": None if interval is None else number(estimate.units - 1),
        "n_labels": labels,
        "reason": None if code is None else REASONS[code],
        "reason_code": code,
    }


# --- extraction errors ----------------------------------------------------------------------------------------------


def _role_column(role: pl.Expr, outcome: pl.Expr) -> pl.Expr:
    return (
        pl.when(~outcome.cast(pl.String).is_in(sorted(PARSED)))
        .then(pl.lit("none"))
        .otherwise(role.cast(pl.String).fill_null("person"))
    )


def _judged(labelled: pl.DataFrame) -> pl.DataFrame:
    """Labelled answers with what was read, what is right, and whether these are one."""
    rows = labelled.with_columns(
        read=_role_column(pl.col("chosen_role"), pl.col("outcome")),
        right=_role_column(pl.col("right_role"), pl.col("right_outcome")),
        part=1 / pl.len().over("model", "prompt_id"),
    )
    return rows.with_columns(is_right=pl.col("right_index").eq_missing(pl.col("chosen_index")))


def extraction_errors(labelled: pl.DataFrame, by: Sequence[str], confidence: float = 0.95) -> list[ExtractionErrorRate]:
    """How often answers are extracted wrongly, by group."""
    columns = grouping_columns(by)
    rows = _judged(labelled).with_columns(
        pl.col(column).cast(pl.String).alias(f"by_{name}") for name, column in columns.items()
    )
    return [
        ExtractionErrorRate(
            group=dict(zip(columns, key, strict=True)),
            n_labels=part["prompt_id"].n_unique(),
            n_wrong=float(part.filter(~pl.col("is_right"))["part"].sum()),
            rate=proportion(zip(~part["is_right"], part["weight"], strict=True), confidence),
        )
        for key, part in sorted(_parts(rows, columns).items(), key=lambda item: [str(value) for value in item[0]])
    ]


def confusion_matrices(labelled: pl.DataFrame, confidence: float = 0.95) -> list[ConfusionMatrix]:
    """What answers say by how they are read: of all languages, then of each."""
    rows = _judged(labelled)
    languages = sorted(str(language) for language in rows["language"].unique())
    found = [_matrix(None, rows, confidence)]
    if len(languages) > 1:
        found += [
            _matrix(name, rows.filter(pl.col("language").cast(pl.String) == name), confidence) for name in languages
        ]
    else:
        found[0] = _matrix(languages[0], rows, confidence)
    return found


def _matrix(language: str | None, rows: pl.DataFrame, confidence: float) -> ConfusionMatrix:
    counted = rows.group_by("read", "right", maintain_order=True).agg(pl.col("part").sum(), pl.col("weight").sum())
    wholes: dict[str, float] = {}
    for read, _, _, weight in counted.rows():
        wholes[read] = wholes.get(read, 0.0) + weight
    order = get_args(ReadRole)
    cells = [
        ConfusionCell(read=read, right=right, count=count, share=weight / wholes[read])
        for read, right, count, weight in counted.rows()
    ]
    return ConfusionMatrix(
        language=language,
        n_labels=rows["prompt_id"].n_unique(),
        rate=proportion(zip(~rows["is_right"], rows["weight"], strict=True), confidence),
        cells=tuple(sorted(cells, key=lambda cell: (order.index(cell.read), order.index(cell.right)))),
    )


def confidence_shares(frame: pl.DataFrame, by: Sequence[str]) -> list[ConfidenceShares]:
    """The extractor's confidence in the answers with a response, by group, sorted by the group's values."""
    columns = grouping_columns(by)
    had = frame.filter(~pl.col("outcome").cast(pl.String).is_in(sorted(NO_RESPONSE)))
    keys = {f"by_{name}": pl.col(column).cast(pl.String) for name, column in columns.items()}
    rows = rows_of(had).alias("rows")
    counted = had.group_by(*dict.fromkeys(columns.values()), "confidence").agg(rows).with_columns(**keys)
    counts: dict[tuple[str | None, ...], dict[str, int]] = {}
    for *key, level, count in counted.select(*keys, pl.col("confidence").cast(pl.String), "rows").rows():
        counts.setdefault(tuple(key), {})[level] = count
    return [
        ConfidenceShares(
            group=dict(zip(columns, key, strict=True)),
            n_answers=sum(found.values()),
            shares={level: found.get(level, 0) / sum(found.values()) for level in get_args(Confidence)},
        )
        for key, found in sorted(counts.items(), key=lambda item: [(value is None, str(value)) for value in item[0]])
    ]


class CorrectedLevels:
    """Scores and differences of the levels with extraction errors removed, on the bias split."""

    def __init__(
        self,
        frame: pl.DataFrame,
        labelled: pl.DataFrame,
        across: str,
        levels: Sequence[str],
        sampling: InferenceSettings,
    ) -> None:
        column = grouping_columns([across])[across]
        kept = labelled.filter((pl.col("split") == "bias") & pl.col(column).cast(pl.String).is_in(list(levels)))
        groups = labelled_groups(frame.filter(pl.col("split") == "bias"), kept, [across], sampling)
        by_level = {group.group[across]: group for group in groups}
        errors = {found.group[across]: found for found in extraction_errors(kept, [across], sampling.confidence)}
        self._groups = [by_level[level] for level in levels]
        self.errors = [errors.get(level) for level in levels]
        """How often answers of each level are extracted wrongly; None for one without labels."""
        self._labelled, self._sampling = kept, sampling

    def score(self, metric: Metric, place: int) -> CorrectedScore:
        """The corrected score of a level."""
        return corrected_metric(self._groups[place], metric, self._sampling)

    def difference(self, metric: Metric, pair: tuple[int, int]) -> CorrectedDifference:
        """The corrected difference of two levels."""
        first = self._groups[pair[0]]
        second = self._groups[pair[1]]
        one, other = first.estimate(metric, self._sampling), second.estimate(metric, self._sampling)
        labels = first.n_labels + second.n_labels
        if one is None or other is None:
            reason = first.reason or second.reason
            return CorrectedDifference(value=None, n_labels=labels, reason=reason, reason_code="undefined")
        difference = one.minus(other)
        return CorrectedDifference(
            **_numbers(difference, labels, self._sampling),
            p_value=zero_test(difference, "the corrected scores are equal", self._sampling).p_value,
        )

    def error_gap(self, pair: tuple[int, int]) -> float | None:
        """How much more often answers of the first level are extracted wrongly; None where that is not known."""
        first, second = (error.rate.value if (error := self.errors[place]) else None for place in pair)
        return gap(first, second)

    def matrices(self) -> tuple[ConfusionMatrix, ...]:
        """What answers say by how they are read."""
        return tuple(confusion_matrices(self._labelled, self._sampling.confidence)) if self._labelled.height else ()
