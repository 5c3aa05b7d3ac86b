"""From observations and labelled answers to corrected scores, error rates and confusion matrices, by any grouping.

The labelled answers are rows of observations with some columns more: `weight`, how many answers each stands for,
`right_role`, `right_index` and `right_outcome`, what it says, and `right_cell`, the cell that it falls into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from mbbq_gen.core.records import NO_RESPONSE, PARSED, Confidence, FrozenModel
from mbbq_gen.scoring.cells import cell_expression
from mbbq_gen.scoring.codes import ReasonCode
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import (
    TEMPLATE,
    grouping_columns,
    partition,
    rows_of,
    tally_groups,
    template_expression,
    weight_of_rows,
    weights_of_answers,
)
from mbbq_gen.statistics.estimate import REASONS, EstimateResult, InferenceSettings, number
from mbbq_gen.statistics.intervals import Proportion, proportion
from mbbq_gen.statistics.panel import Panel, make_panel, panel_of
from mbbq_gen.statistics.ppi import MIN_LABELS, AnnotatedCells, CorrectedEstimate, PPIGroup, correct, usual_error_rate

Flag = Literal["parse_rate_gap_exceeds_difference", "extraction_error_exceeds_difference"]
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
    flags: tuple[Flag, ...]


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

    def estimate(self, metric: Metric) -> CorrectedEstimate | None:
        """The corrected metric; None where nothing can be corrected."""
        if self.correctable is None:
            return None
        (extracted,) = self.panel.estimates(metric)
        return correct(metric, self.correctable, self.panel.sampling.unparsed, extracted)

    def score(self, metric: Metric) -> CorrectedScore:
        """The corrected metric, or why there is none."""
        estimate = self.estimate(metric)
        if estimate is None:
            return CorrectedScore(value=None, n_labels=self.n_labels, reason=self.reason, reason_code="undefined")
        return CorrectedScore(**corrected_numbers(estimate, self.n_labels, self.panel.sampling))


def labelled_groups(
    frame: pl.DataFrame, labelled: pl.DataFrame, by: Sequence[str], sampling: InferenceSettings
) -> list[AnnotatedGroup]:
    """The groups of an observations table, over one list of templates, each with its labelled answers.

    Where answers weigh unequally by design, a label stands for its answers with the weight of its own. Labels of one
    language say nothing of another.
    """
    panel = panel_of(list(tally_groups(frame, grouping_columns(by))), sampling)
    sizes, keyed = _keyed(frame), _keyed(labelled)
    keyed = keyed.with_columns(cell_expression(), weight=keyed["weight"] * weights_of_answers(keyed, frame))
    counted = keyed.group_by("class_model", "class_language").agg(pl.col("prompt_id").n_unique())
    annotated = {(model, language): count for model, language, count in counted.rows()}
    rate = usual_error_rate((keyed["cell"] != keyed["right_cell"]).to_numpy(), keyed["weight"].to_numpy())
    all_rows, all_labels = (
        {tuple(group.values()): part for group, part in partition(table, by)} for table in (sizes, keyed)
    )
    templates = {name: number for number, name in enumerate(panel.templates)}
    found = []
    for place, group in enumerate(panel.groups):
        key = tuple(group.values())
        rows, labels = all_rows.get(key, sizes.clear()), all_labels.get(key, keyed.clear())
        n_labels, reason = labels["prompt_id"].n_unique(), None
        few = [
            f"{annotated.get((model, language), 0)} labels in {language}"
            for model, language in sorted(set(rows.select("class_model", "class_language").unique().rows()))
            if annotated.get((model, language), 0) < MIN_LABELS
        ]
        if few or n_labels < MIN_LABELS:
            reason = f"{few[0] if few else f'{n_labels} labels'}, {MIN_LABELS} are needed"
            found.append(AnnotatedGroup(group, n_labels, None, reason, panel.on_groups([place])))
            continue
        by_class = rows.group_by(TEMPLATE, *_CLASS).agg(weight_of_rows(rows))
        classes = sorted({row[1:-1] for row in by_class.rows()} | set(labels.select(_CLASS).unique().rows()))
        class_sizes, cells = np.zeros((len(templates), len(classes))), np.zeros(panel.cells[place].shape)
        for template, *names, count in by_class.rows():
            class_sizes[templates[template], classes.index(tuple(names))] += count
        for template, cell, count in rows.group_by(TEMPLATE, cell_expression()).agg(weight_of_rows(rows)).rows():
            cells[templates[template], cell] += count
        correctable = PPIGroup(
            cells=cells,
            settled=panel.cells[place] - cells,
            classes=tuple(classes),
            class_sizes=class_sizes,
            labelled=AnnotatedCells(
                read=labels["cell"].to_numpy().astype(np.int64),
                right=labels["right_cell"].to_numpy().astype(np.int64),
                template=np.array([templates[name] for name in labels[TEMPLATE]], dtype=np.int64),
                kind=np.array([classes.index(row) for row in labels.select(_CLASS).rows()], dtype=np.int64),
                weight=labels["weight"].to_numpy(),
            ),
            error_rate=rate,
        )
        found.append(AnnotatedGroup(group, n_labels, correctable, None, panel.on_groups([place])))
    return found


def _keyed(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that can be labelled, with their template and class."""
    outcome = pl.col("outcome").cast(pl.String)
    is_settled = outcome.is_in(sorted(NO_RESPONSE)) | (outcome == "empty")
    # Where the service says so itself, the extractor is certain that an answer was cut off: there is no text to judge.
    is_settled |= (outcome == "truncated") & (pl.col("confidence").cast(pl.String) == "high")
    role = pl.col("chosen_role").cast(pl.String)
    kind = pl.when(~outcome.is_in(sorted(PARSED))).then(pl.lit("none")).when(role == "unknown").then(pl.lit("unknown"))
    return frame.filter(~is_settled).with_columns(
        template_expression(),
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
    """Corrected scores by any grouping, beside how the extractor errs by the same groups and by language."""
    return Correction(
        source=labelled.source,
        confidence_level=sampling.confidence,
        n_labels=labelled.labels,
        unsampled_annotations=labelled.unsampled_annotations,
        incomplete_annotations=labelled.incomplete_annotations,
        stale_annotations=labelled.stale_annotations,
        groups=tuple(
            CorrectedGroup(
                group=group.group,
                n_labels=group.n_labels,
                metrics={metric.name: group.score(metric) for metric in metrics},
            )
            for group in labelled_groups(frame, labelled.frame, by, sampling)
        ),
        errors=tuple(extraction_errors(labelled.frame, by, sampling.confidence)),
        matrices=tuple(confusion_matrices(labelled.frame, sampling.confidence)),
    )


def corrected_numbers(estimate: CorrectedEstimate, labels: int, sampling: InferenceSettings) -> dict[str, Any]:
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


def _judged(labelled: pl.DataFrame) -> pl.DataFrame:
    """Labelled answers with what was read, what is right, and whether these are one."""

    def role(name: str, outcome: str) -> pl.Expr:
        is_read = pl.col(outcome).cast(pl.String).is_in(sorted(PARSED))
        return pl.when(~is_read).then(pl.lit("none")).otherwise(pl.col(name).cast(pl.String).fill_null("person"))

    return labelled.with_columns(
        read=role("chosen_role", "outcome"),
        right=role("right_role", "right_outcome"),
        part=1 / pl.len().over("model", "prompt_id"),
        is_right=pl.col("right_index").eq_missing(pl.col("chosen_index")),
    )


def extraction_errors(labelled: pl.DataFrame, by: Sequence[str], confidence: float = 0.95) -> list[ExtractionErrorRate]:
    """How often answers are extracted wrongly, by group."""
    return [
        ExtractionErrorRate(
            group=group,
            n_labels=part["prompt_id"].n_unique(),
            n_wrong=float(part.filter(~pl.col("is_right"))["part"].sum()),
            rate=proportion(zip(~part["is_right"], part["weight"], strict=True), confidence),
        )
        for group, part in partition(_judged(labelled), by)
    ]


def confusion_matrices(labelled: pl.DataFrame, confidence: float = 0.95) -> list[ConfusionMatrix]:
    """What answers say by how they are read: of all languages, then of each."""
    rows, order, found = _judged(labelled), get_args(ReadRole), []
    languages: Sequence[str | None] = sorted(str(language) for language in rows["language"].unique())
    for language in [None, *languages] if len(languages) > 1 else languages:
        part = rows if language is None else rows.filter(pl.col("language").cast(pl.String) == language)
        counted = part.group_by("read", "right", maintain_order=True).agg(pl.col("part").sum(), pl.col("weight").sum())
        wholes = dict(counted.group_by("read").agg(pl.col("weight").sum()).rows())
        cells = [
            ConfusionCell(read=read, right=right, count=count, share=weight / wholes[read])
            for read, right, count, weight in counted.rows()
        ]
        matrix = ConfusionMatrix(
            language=language,
            n_labels=part["prompt_id"].n_unique(),
            rate=proportion(zip(~part["is_right"], part["weight"], strict=True), confidence),
            cells=tuple(sorted(cells, key=lambda cell: (order.index(cell.read), order.index(cell.right)))),
        )
        found.append(matrix)
    return found


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


# --- differences that extraction could have caused --------------------------------------------------------------------


def flags_of(difference: EstimateResult, read_gap: float, error_gap: float | None) -> Iterator[Flag]:
    """What is larger than a difference that was found; nothing where its interval holds 0.

    `read_gap`, `error_gap`: how far the shares of answers parsed, and of those extracted wrongly, lie apart; None: not
    known.
    """
    if difference.value is None or not difference.excludes_zero:
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
        panel = make_panel(part, ["language"], sampling)
        languages = [str(one["language"]) for one in panel.groups]
        read = METRICS["parse_rate"].value(panel.total)
        for metric in metrics:
            estimates = panel.estimates(metric)
            for one, other in combinations(range(len(languages)), 2):
                difference = estimates[one].subtract(estimates[other]).score(sampling)
                rates = [errors.get((*group.values(), languages[place])) for place in (one, other)]
                error_gap = gap(*(rate.rate.value if rate else None for rate in rates))
                read_gap = float(read[one] - read[other])
                flags = tuple(flags_of(difference, read_gap, error_gap))
                if flags and difference.value is not None:
                    flag = ExtractionFlag(
                        group=group,
                        metric=metric.name,
                        first=languages[one],
                        second=languages[other],
                        difference=difference.value,
                        read_gap=read_gap,
                        error_gap=error_gap,
                        flags=flags,
                    )
                    found.append(flag)
    return found
