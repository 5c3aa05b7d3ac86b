"""From observations and labelled answers to corrected scores, error rates and confusion matrices, by any grouping.

The labelled answers are rows of observations with some columns more: `weight`, how many answers each stands for,
`right_role`, `right_index` and `right_outcome`, what it says, and `right_cell`, the cell that it falls into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from mbbq_gen.records import DETECTED, NOT_HAD, Confidence
from mbbq_gen.scoring.cells import cell_expression
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.reasons import MIN_TEMPLATES, TOO_FEW, ReasonCode
from mbbq_gen.scoring.sums import rows_of
from mbbq_gen.scoring.tally import grouping_columns, tally_groups
from mbbq_gen.scoring.weights import weight_of_rows, weights_of_answers
from mbbq_gen.statistics.correction import (
    MIN_LABELS,
    CorrectableGroup,
    CorrectedEstimate,
    LabelledAnswers,
    correct,
    usual_error_rate,
)
from mbbq_gen.statistics.correction_table import (
    ConfidenceShares,
    ConfusionCell,
    ConfusionMatrix,
    CorrectedDifference,
    CorrectedGroup,
    CorrectedScore,
    Correction,
    ReadingError,
    ReadRole,
)
from mbbq_gen.statistics.items import TEMPLATE, template_expression
from mbbq_gen.statistics.labelled import LabelledFrame
from mbbq_gen.statistics.panel import Panel, Sampling, number, panel_of
from mbbq_gen.statistics.proportion import proportion

if TYPE_CHECKING:
    import polars

_CLASS = ("class_model", "class_language", "class_kind", "class_confidence")


@dataclass(frozen=True)
class LabelledGroup:
    """One group: what is there to correct, or why nothing can be."""

    group: dict[str, str | None]
    n_labels: int
    correctable: CorrectableGroup | None
    reason: str | None

    def estimate(self, metric: Metric, sampling: Sampling) -> CorrectedEstimate | None:
        """The corrected metric; None where nothing can be corrected."""
        return None if self.correctable is None else correct(metric, self.correctable, sampling.undetected)


def labelled_groups(
    frame: polars.DataFrame, labelled: polars.DataFrame, by: Sequence[str], sampling: Sampling
) -> list[LabelledGroup]:
    """The groups of an observations table, over one list of templates, each with its labelled answers.

    Where answers weigh unequally by design, a label stands for its answers with the weight of its own.
    """
    columns = grouping_columns(by)
    panel = panel_of(list(tally_groups(frame, columns)), sampling)
    sizes, told = _keyed(frame, columns), _keyed(labelled, columns)
    told = told.with_columns(cell_expression(), weight=told["weight"] * weights_of_answers(told, frame))
    audited = _audited_languages(told)
    rate = _error_rate(told)
    parts = _parts(sizes, columns), _parts(told, columns)
    return [
        _labelled_group(
            panel, place, (parts[0].get(key, sizes.clear()), parts[1].get(key, told.clear())), audited, rate
        )
        for place, key in enumerate(_keys(panel, columns))
    ]


def _keys(panel: Panel, columns: Mapping[str, str]) -> list[tuple[str | None, ...]]:
    return [tuple(group[name] for name in columns) for group in panel.groups]


def _keyed(frame: polars.DataFrame, columns: Mapping[str, str]) -> polars.DataFrame:
    """The rows that can be labelled, with their template, group and class."""
    import polars as pl

    outcome = pl.col("outcome").cast(pl.String)
    is_settled = outcome.is_in(sorted(NOT_HAD)) | (outcome == "empty")
    # Where the service says so itself, the reader is sure that an answer was cut off: there is no text to judge.
    is_settled |= (outcome == "truncated") & (pl.col("confidence").cast(pl.String) == "high")
    role = pl.col("chosen_role").cast(pl.String)
    kind = (
        pl.when(~outcome.is_in(sorted(DETECTED)))
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


def _parts(frame: polars.DataFrame, columns: Mapping[str, str]) -> dict[tuple[Any, ...], polars.DataFrame]:
    names = [f"by_{name}" for name in columns]
    if not names:
        return {(): frame}
    return dict(frame.partition_by(names, as_dict=True))


def _audited_languages(told: polars.DataFrame) -> dict[tuple[str, str], int]:
    """(Model, language) → labels."""
    import polars as pl

    counted = told.group_by("class_model", "class_language").agg(pl.col("presentation_id").n_unique())
    return {(model, language): count for model, language, count in counted.rows()}


def _error_rate(told: polars.DataFrame) -> float:
    wrong = (told["cell"] != told["right_cell"]).to_numpy()
    return usual_error_rate(wrong, told["weight"].to_numpy())


def _labelled_group(
    panel: Panel,
    place: int,
    parts: tuple[polars.DataFrame, polars.DataFrame],
    audited: Mapping[tuple[str, str], int],
    rate: float,
) -> LabelledGroup:
    import numpy as np

    rows, told = parts
    labels = told["presentation_id"].n_unique()
    reason = _why_not(rows, labels, audited)
    if reason is not None:
        return LabelledGroup(panel.groups[place], labels, None, reason)
    templates = {name: number for number, name in enumerate(panel.templates)}
    counted = rows.group_by(TEMPLATE, *_CLASS).agg(weight_of_rows(rows))
    classes = sorted({row[1:-1] for row in counted.rows()} | set(told.select(_CLASS).unique().rows()))
    class_sizes = np.zeros((len(templates), len(classes)))
    for template, *names, count in counted.rows():
        class_sizes[templates[template], classes.index(tuple(names))] += count
    cells = np.zeros(panel.cells[place].shape)
    for template, cell, count in rows.group_by(TEMPLATE, cell_expression()).agg(weight_of_rows(rows)).rows():
        cells[templates[template], cell] += count
    kinds = [classes.index(row) for row in told.select(_CLASS).rows()]
    return LabelledGroup(
        panel.groups[place],
        labels,
        CorrectableGroup(
            cells=cells,
            settled=panel.cells[place] - cells,
            classes=tuple(classes),
            class_sizes=class_sizes,
            labelled=LabelledAnswers(
                read=told["cell"].to_numpy().astype(np.int64),
                right=told["right_cell"].to_numpy().astype(np.int64),
                template=np.array([templates[name] for name in told[TEMPLATE]], dtype=np.int64),
                kind=np.array(kinds, dtype=np.int64),
                weight=told["weight"].to_numpy(),
            ),
            error_rate=rate,
        ),
        None,
    )


def _why_not(rows: polars.DataFrame, labels: int, audited: Mapping[tuple[str, str], int]) -> str | None:
    """Why a group can't be corrected: labels of one language say nothing of another."""
    for model, language in sorted(set(rows.select("class_model", "class_language").unique().rows())):
        count = audited.get((model, language), 0)
        if count < MIN_LABELS:
            return f"{count} labels in {language}, {MIN_LABELS} are needed"
    return f"{labels} labels, {MIN_LABELS} are needed" if labels < MIN_LABELS else None


# --- as records ------------------------------------------------------------------------------------------------------


def correction(
    frame: polars.DataFrame, labelled: LabelledFrame, by: Sequence[str], metrics: Sequence[Metric], sampling: Sampling
) -> Correction:
    """Corrected scores by any grouping, beside how the reader errs by the same groups and by language."""
    return Correction(
        source=labelled.source,
        interval=sampling.confidence,
        n_labels=labelled.labels,
        undrawn=labelled.undrawn,
        half_told=labelled.half_told,
        outdated=labelled.outdated,
        groups=tuple(corrected_groups(frame, labelled.frame, by, metrics, sampling)),
        errors=tuple(reading_errors(labelled.frame, by, sampling.confidence)),
        matrices=tuple(confusion_matrices(labelled.frame, sampling.confidence)),
    )


def corrected_groups(
    frame: polars.DataFrame,
    labelled: polars.DataFrame,
    by: Sequence[str],
    metrics: Sequence[Metric],
    sampling: Sampling,
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


def corrected_metric(group: LabelledGroup, metric: Metric, sampling: Sampling) -> CorrectedScore:
    """One corrected metric of a group, as it leaves."""
    estimate = group.estimate(metric, sampling)
    if estimate is None:
        return _nothing(group.n_labels, group.reason)
    return CorrectedScore(**_numbers(estimate, group.n_labels, sampling, (metric.low, metric.high)))


def corrected_difference(
    first: LabelledGroup, second: LabelledGroup, metric: Metric, sampling: Sampling
) -> CorrectedDifference:
    """The corrected difference of two groups over one list of templates."""
    from scipy import special

    one, other = first.estimate(metric, sampling), second.estimate(metric, sampling)
    labels = first.n_labels + second.n_labels
    if one is None or other is None:
        return CorrectedDifference(**dict(_nothing(labels, first.reason or second.reason)), p_value=None)
    difference = one.minus(other)
    is_testable = difference.error > 0 and difference.n_templates >= MIN_TEMPLATES
    statistic = abs(difference.value) / difference.error if is_testable else float("nan")
    return CorrectedDifference(
        **_numbers(difference, labels, sampling, (metric.low - metric.high, metric.high - metric.low)),
        p_value=number(float(2 * special.stdtr(difference.degrees, -statistic))),
    )


def _nothing(labels: int, reason: str | None, code: ReasonCode = "undefined") -> CorrectedScore:
    return CorrectedScore(
        **dict.fromkeys(
            ("value", "low", "high", "standard_error", "uncorrected", "correction", "readings_weight"), None
        ),
        degrees_of_freedom=None,
        n_labels=labels,
        reason=reason,
        reason_code=code,
    )


def _numbers(
    estimate: CorrectedEstimate, labels: int, sampling: Sampling, bounds: tuple[float, float]
) -> dict[str, Any]:
    """The fields of a corrected score; value and interval are cut off where the score can't go."""
    found, plain = number(estimate.value), number(estimate.plain)
    is_enough = estimate.n_templates >= MIN_TEMPLATES
    margin = number(estimate.margin(sampling.confidence)) if found is not None and is_enough else None
    reason, code = None, None
    if found is None:
        reason, code = "a denominator is 0", "undefined"
    elif margin is None:
        reason, code = TOO_FEW, "too_few_templates"
    value = None if found is None else _within(found, bounds)
    return {
        "value": value,
        "low": None if found is None or margin is None else _within(found - margin, bounds),
        "high": None if found is None or margin is None else _within(found + margin, bounds),
        "standard_error": None if found is None or margin is None else number(estimate.error),
        "uncorrected": plain,
        "correction": None if value is None or plain is None else value - plain,
        "readings_weight": number(estimate.weight_of_readings),
        "degrees_of_freedom": None if margin is None else number(estimate.degrees),
        "n_labels": labels,
        "reason": reason,
        "reason_code": code,
    }


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])


# --- how the reader errs ---------------------------------------------------------------------------------------------


def _role_column(role: polars.Expr, outcome: polars.Expr) -> polars.Expr:
    import polars as pl

    return (
        pl.when(~outcome.cast(pl.String).is_in(sorted(DETECTED)))
        .then(pl.lit("none"))
        .otherwise(role.cast(pl.String).fill_null("person"))
    )


def _judged(labelled: polars.DataFrame) -> polars.DataFrame:
    """Labelled answers with what was read, what is right, and whether these are one."""
    import polars as pl

    rows = labelled.with_columns(
        read=_role_column(pl.col("chosen_role"), pl.col("outcome")),
        right=_role_column(pl.col("right_role"), pl.col("right_outcome")),
        part=1 / pl.len().over("model", "presentation_id"),
    )
    return rows.with_columns(is_right=pl.col("right_index").eq_missing(pl.col("chosen_index")))


def reading_errors(labelled: polars.DataFrame, by: Sequence[str], confidence: float = 0.95) -> list[ReadingError]:
    """How often answers are read wrong, by group."""
    import polars as pl

    columns = grouping_columns(by)
    rows = _judged(labelled).with_columns(
        pl.col(column).cast(pl.String).alias(f"by_{name}") for name, column in columns.items()
    )
    return [
        ReadingError(
            group=dict(zip(columns, key, strict=True)),
            n_labels=part["presentation_id"].n_unique(),
            n_wrong=float(part.filter(~pl.col("is_right"))["part"].sum()),
            rate=proportion(zip(~part["is_right"], part["weight"], strict=True), confidence),
        )
        for key, part in sorted(_parts(rows, columns).items(), key=lambda item: [str(value) for value in item[0]])
    ]


def confusion_matrices(labelled: polars.DataFrame, confidence: float = 0.95) -> list[ConfusionMatrix]:
    """What answers say by how they are read: of all languages, then of each."""
    import polars as pl

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


def _matrix(language: str | None, rows: polars.DataFrame, confidence: float) -> ConfusionMatrix:
    import polars as pl

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
        n_labels=rows["presentation_id"].n_unique(),
        rate=proportion(zip(~rows["is_right"], rows["weight"], strict=True), confidence),
        cells=tuple(sorted(cells, key=lambda cell: (order.index(cell.read), order.index(cell.right)))),
    )


def confidence_shares(frame: polars.DataFrame, by: Sequence[str]) -> list[ConfidenceShares]:
    """How sure the reader was of the answers that came back, by group, sorted by the group's values."""
    import polars as pl

    columns = grouping_columns(by)
    had = frame.filter(~pl.col("outcome").cast(pl.String).is_in(sorted(NOT_HAD)))
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
