"""Scores corrected for extraction errors by a labelled sample of answers.

Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, Science 382, 669; with a tuned λ:
Angelopoulos, Duchi & Zrnic 2023, "PPI++", arXiv:2311.01453) of the cells that metrics count. With f the extracted cell
of an answer, y the labelled cell, b the mean extracted cell of answers to the same kind of question (context and
polarity), and w the weight of a label,

    predicted  g = λ · f + (1 − λ) · b            λ = 1: the extraction, 0: the labels alone
    corrected  Σ_all g  +  Σ_labelled w · (y − g)

which is unbiased for the true counts for any λ. w is the inverse sampling probability, scaled within classes (language,
kind of extraction, confidence) to the number of answers. λ minimises the variance due to labels, for each score. The
error is clustered by template:

    u_t = Σ_{i in t} (ψ·g_i + r̄_class(i))  +  Σ_{labelled i in t} w_i · (r_i − r̄_class(i)),    r = ψ·(y − g)

with ψ the influence of an answer in each cell. Σ u² covers the sampling of templates and of labels (two-phase sampling:
Särndal, Swensson & Wretman 1992, ch. 9), with Satterthwaite's degrees of freedom (1946). Errors may be too rare to
occur among the labels of a class. So the variance includes a prior of one label per class with the error rate of all
labels, at most 1 / (n + 1) for n labels of the class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mbbq_gen.scoring.cells import CELLS, Array, Counts, UnparsedPolicy, count_matrix, question_kinds, quotient
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.estimate import Estimate, influence_values, template_shares, widening
from mbbq_gen.statistics.intervals import Ends, effective_number, t_quantile

Places = NDArray[np.int64]

MIN_LABELS = 20
"""Least number of labels to correct the scores of a group."""
CLASS_LABELS = 10
"""Least number of labels of a class; smaller classes are joined."""

AnswerClass = tuple[str, ...]
"""The stratum in which labels are weighted, most important part first: language, kind of extraction, confidence."""
_REST = "(rest)"
USUAL_ERRORS = 1.0
"""Weight of the prior error rate in each class, as a number of wrong extractions."""
RARE_SHARE = 0.5
"""Share of the variance of unseen errors that is added, since not all classes have them (docs/evidence.md)."""


@dataclass(frozen=True)
class AnnotatedCells:
    """The labelled answers of one group, as arrays of equal length."""

    read: Places
    right: Places
    """Codes of the extracted and labelled cells."""
    template: Places
    kind: Places
    """Indices of templates and classes."""
    weight: Array
    """Inverse sampling probabilities."""


@dataclass(frozen=True)
class PPIGroup:
    """The extracted and the labelled answers of one group."""

    cells: Array
    """Templates × CELLS: answers that could be labelled, by extracted cell."""
    settled: Array
    """Templates × CELLS: answers that need no extraction, such as empty ones."""
    classes: tuple[AnswerClass, ...]
    class_sizes: Array
    """Templates × classes: answers that could be labelled."""
    labelled: AnnotatedCells
    error_rate: float
    """The extraction error rate of all labels, the prior for each class."""

    @cached_property
    def _mean_cells(self) -> Array:
        """CELLS × CELLS: the mean extracted cell of answers to the same kind of question."""
        totals, kinds = self.cells.sum(axis=0), question_kinds()
        means: Array = kinds @ quotient(totals[:, None] * kinds, totals @ kinds, 0.0).T
        return means

    @cached_property
    def _joined(self) -> tuple[Places, Array]:
        """The joined class of each label, and answers by templates × joined classes."""
        names = join_classes(self.classes, np.bincount(self.labelled.kind, minlength=len(self.classes)).tolist())
        distinct = sorted(set(names))
        codes = np.array([distinct.index(name) for name in names], dtype=np.int64)
        return codes[self.labelled.kind], self.class_sizes @ np.eye(len(distinct))[codes]

    @cached_property
    def _weights(self) -> Array:
        """The number of answers of its class that each label represents."""
        joined, sizes = self._joined
        weight = self.labelled.weight
        scaled: Array = weight * sizes.sum(axis=0)[joined] / np.bincount(joined, weight, sizes.shape[1])[joined]
        return scaled

    def totals(self, weight: float) -> Array:
        """The corrected counts of cells with λ = `weight`."""
        labelled, eye = self.labelled, np.eye(len(CELLS))
        predicted = weight * eye[labelled.read] + (1 - weight) * self._mean_cells[labelled.read]
        counts: Array = (self.cells + self.settled).sum(axis=0) + self._weights @ (eye[labelled.right] - predicted)
        return counts

    def best_weight(self, linear: Array) -> float:
        """The λ from 0 to 1 with the least variance due to labels; 1 if undefined."""
        labelled = self.labelled
        base = (self._mean_cells @ linear)[labelled.read]
        outcome, extraction = (
            self._by_template(self._deviations(linear[codes] - base)[1]) for codes in (labelled.right, labelled.read)
        )
        squares = float(extraction @ extraction)
        best = float(outcome @ extraction) / squares if squares > 0 else 1.0
        return float(np.clip(best, 0.0, 1.0)) if np.isfinite(best) else 1.0

    def _deviations(self, scores: Array) -> tuple[Array, Array]:
        """The mean score of each class, and the weighted deviation of each label from it."""
        (joined, sizes), weights = self._joined, self._weights
        parts = (weights * scores, weights)
        sums, totals = (np.bincount(joined, part, sizes.shape[1]).astype(np.float64) for part in parts)
        means = quotient(sums, totals, 0.0)
        return means, weights * (scores - means[joined])

    def _by_template(self, scores: Array) -> Array:
        return np.bincount(self.labelled.template, scores, len(self.cells)).astype(np.float64)

    def influences(self, linear: Array, weight: float) -> tuple[Array, Array, float]:
        """Influences by template of extractions and class means, and of label deviations; variance of rare errors."""
        labelled, (joined, sizes) = self.labelled, self._joined
        predicted = weight * linear + (1 - weight) * (self._mean_cells @ linear)
        means, deviations = self._deviations(linear[labelled.right] - predicted[labelled.read])
        counts = np.bincount(joined, minlength=sizes.shape[1])
        deviations = deviations * np.sqrt(counts / np.maximum(counts - 1, 1))[joined]
        same = question_kinds() @ question_kinds().T
        squares = ((linear[:, None] - linear[None, :]) ** 2 * same).sum(axis=1)
        error_square = (squares / np.maximum(same.sum(axis=1) - 1, 1))[labelled.read]  # mean over possible errors
        is_wrong = (error_square > 0) & (labelled.read != labelled.right)
        parts = is_wrong, deviations**2, self._weights**2 * error_square
        wrong, observed, prior = (np.bincount(joined, part, sizes.shape[1]) for part in parts)
        prior = prior * np.minimum(self.error_rate, 1 / (counts + 1))
        posterior = (wrong * observed + USUAL_ERRORS * prior) / (wrong + USUAL_ERRORS)
        rare = RARE_SHARE * max(0.0, float((posterior - observed).sum()))
        return self.cells @ predicted + self.settled @ linear + sizes @ means, self._by_template(deviations), rare


@dataclass(frozen=True)
class CorrectedEstimate(Estimate):
    """A corrected estimate. `influence_values` are the u_t above; there are no bootstrap values."""

    extracted: Estimate | None = None
    """The uncorrected estimate, for the interval."""
    plain: float = math.nan
    annotation_influence: Array = field(default_factory=lambda: np.zeros(0))
    """The part of the influences due to deviations of labels from their class mean."""
    rare_variance: float = 0.0
    """Variance of extraction errors too rare to occur in the labels."""
    ppi_lambda: float = math.nan
    """λ; NaN for a difference."""

    @cached_property
    def standard_error(self) -> float:
        """The standard error over templates and labels; NaN for fewer than two effective templates."""
        variance = float(self.adjusted_influence @ self.adjusted_influence) + self.rare_variance
        return math.sqrt(variance) if self.n_effective > 1 else math.nan

    @property
    def units(self) -> float:
        """Satterthwaite's degrees of freedom, pooled over templates and labels, plus 1."""
        of_labels = self.annotation_influence
        total, by_labels = float((self.influence_values**2).sum()), float((of_labels**2).sum())
        spread = max(0.0, total - by_labels) ** 2 / (self.n_effective - 1) + float((of_labels**4).sum()) / 2
        degrees = max(1.0, (total + self.rare_variance) ** 2 / spread) if spread > 0 else self.n_effective - 1
        return degrees + 1

    def _template_interval(self, confidence: float) -> Ends:
        """The uncorrected interval, widened by the variance due to labels; without one, value ± t · error.

        The variance of templates, on each side, is (half-width of the uncorrected interval / t)², so that it allows for
        unseen templates. Labels add their own variance, or the difference of the corrected and uncorrected variance if
        that is more. Each side is at least as wide as the uncorrected one.
        """
        widths = [self.analytic_half_width(confidence)] * 2
        plain = None if self.extracted is None else self.extracted.template_interval(confidence)
        if self.extracted is not None and plain is not None:
            degrees, of_labels = self.extracted.units - 1, self.annotation_influence
            corrected, read = self.influence_values, self.extracted.influence_values
            by_labels = max(float(of_labels @ of_labels), float(corrected @ corrected - read @ read))
            by_labels, spread = by_labels + self.rare_variance, float((of_labels**4).sum()) / 2
            for side, width in enumerate((self.extracted.value - plain[0], plain[1] - self.extracted.value)):
                by_templates = (width / t_quantile(confidence, degrees + 1)) ** 2
                shares = by_templates**2 / degrees + spread
                pooled = max(1.0, (by_templates + by_labels) ** 2 / shares) if shares > 0 else degrees
                error = math.sqrt(by_templates + by_labels)
                widths[side] = max(width, t_quantile(confidence, pooled + 1) * error)
        return max(self.value - widths[0], self.bounds[0]), min(self.value + widths[1], self.bounds[1])

    def minus(self, other: CorrectedEstimate) -> CorrectedEstimate:
        """The difference, paired by template, with the template weights of the side that has fewer."""
        influences = self.influence_values - other.influence_values
        fewer = min(self, other, key=lambda side: side.n_effective)
        return replace(
            self,
            value=self.value - other.value,
            extracted=self.extracted.subtract(other.extracted) if self.extracted and other.extracted else None,
            plain=self.plain - other.plain,
            influence_values=influences,
            adjusted_influence=influences * widening(fewer.n_effective),
            annotation_influence=self.annotation_influence - other.annotation_influence,
            rare_variance=self.rare_variance + other.rare_variance,
            template_weights=fewer.template_weights,
            bounds=(self.bounds[0] - other.bounds[1], self.bounds[1] - other.bounds[0]),
            ppi_lambda=math.nan,
            support=min(self.n_templates, other.n_templates),
        )


def correct(
    metric: Metric, group: PPIGroup, unparsed: UnparsedPolicy, extracted: Estimate | None = None
) -> CorrectedEstimate:
    """The corrected metric of a group; `extracted` is the uncorrected estimate over the same templates."""

    def counted(cells: Array) -> Counts:
        return Counts(cells @ count_matrix(), unparsed)

    def linear_part(weight: float) -> Array:
        """The influence of one more answer in each cell."""
        return influence_values(metric, counted(np.eye(len(CELLS))), counted(group.totals(weight)))

    weight = 1.0
    for _ in range(2):  # the influence depends on the score, and the best λ on the influence
        weight = group.best_weight(linear_part(weight))
    of_answers, of_labels, rare = group.influences(linear_part(weight), weight)
    counts, influences = counted(group.cells + group.settled), of_answers + of_labels
    shares = template_shares(metric, counts)
    return CorrectedEstimate(
        value=float(metric.value(counted(group.totals(weight)))),
        influence_values=influences,
        adjusted_influence=influences * widening(effective_number(shares)),
        template_weights=shares,
        bootstrap_values=np.zeros(0),
        bounds=(metric.low, metric.high),
        support=int(metric.has_rows(counts).sum()),
        extracted=extracted,
        plain=float(metric.value(Counts(counts.values.sum(axis=0), unparsed))),
        annotation_influence=of_labels,
        rare_variance=rare,
        ppi_lambda=weight,
    )


def usual_error_rate(wrong: Array, weight: Array) -> float:
    """The weighted extraction error rate, with half an error and one label of mean weight added."""
    total = float(weight.sum())
    typical = total / max(len(weight), 1)
    return (float((np.asarray(wrong) * weight).sum()) + typical / 2) / (total + typical) if total else 0.5


def join_classes(classes: Sequence[AnswerClass], labels: Sequence[int]) -> list[AnswerClass]:
    """The joined class of each class, with at least CLASS_LABELS labels if possible.

    Small classes with the same first parts are joined into a rest, the last part being dropped first. A rest that is
    still small is joined with the largest class.
    """
    names, depth = list(classes), len(classes[0]) if classes else 0

    def counted() -> dict[AnswerClass, int]:
        return {name: sum(n for own, n in zip(names, labels, strict=True) if own == name) for name in names}

    for kept in range(depth - 1, -1, -1):
        counts = counted()
        names = [(*name[:kept], *[_REST] * (depth - kept)) if counts[name] < CLASS_LABELS else name for name in names]
    counts = counted()
    largest = max(counts, key=lambda name: (counts[name], name), default=())
    return [largest if counts[name] < CLASS_LABELS else name for name in names]
