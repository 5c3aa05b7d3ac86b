"""Scores corrected for extraction errors, from a sample of answers that somebody read without error.

Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, Science 382, 669; with a tuned λ:
Angelopoulos, Duchi & Zrnic 2023, "PPI++", arXiv:2311.01453) of the cells that metrics count. With f an answer's cell as
it was extracted, y the cell by its label, b the mean cell of what was read in answers to questions of its kind (context
and polarity), and w how many answers a label stands for,

    predicted  g = λ · f + (1 − λ) · b            λ = 1: the extraction, 0: the labels alone
    corrected  Σ_all g  +  Σ_labelled w · (y − g)

whose expectation is the count of the true cells for any λ. w is the inverse of the probability with which the answer
was drawn, scaled within classes (language, kind of extraction, confidence) to the answers that there are. λ is tuned
for each score so that the labels' part of its variance is least. The error clusters by template:

    u_t = Σ_{i in t} (ψ·g_i + r̄_class(i))  +  Σ_{labelled i in t} w_i · (r_i − r̄_class(i)),    r = ψ·(y − g)

ψ being the score's linear part. Σ u² holds the sampling of templates and of labels (two-phase sampling: Särndal,
Swensson & Wretman 1992, ch. 9), with Satterthwaite's degrees of freedom (1946). Errors may be too rare to be seen in a
class: the variance takes one more there, wrong as often as labels of the whole run are, but no more than one in as many
labels as the class has and one more.
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
"""Labels of a group below which its scores are not corrected."""
CLASS_LABELS = 10
"""Labels of a class below which it is joined with its neighbours."""

AnswerClass = tuple[str, ...]
"""The stratum that labels are weighted in, most important part first: language, kind of extraction, confidence."""
_REST = "(rest)"
USUAL_ERRORS = 1.0
"""Weight of the usual error rate in each class, as a number of wrong extractions."""
RARE_SHARE = 0.5
"""Share of the variance of unseen errors that is added: they are not in all classes at once (docs/evidence.md)."""


@dataclass(frozen=True)
class AnnotatedCells:
    """Answers of one group that somebody has read; arrays of one length."""

    read: Places
    right: Places
    """Codes of the cells as they were extracted, and by the labels."""
    template: Places
    kind: Places
    """Places in the templates and in the classes."""
    weight: Array
    """The inverse of the probability with which each was drawn."""


@dataclass(frozen=True)
class PPIGroup:
    """The answers of one group as they were extracted, and those of them that are labelled."""

    cells: Array
    """Templates × CELLS: answers that could have been labelled, as they were extracted."""
    settled: Array
    """Templates × CELLS: answers that need no extraction, such as empty ones."""
    classes: tuple[AnswerClass, ...]
    class_sizes: Array
    """Templates × classes: answers that could have been labelled, once more."""
    labelled: AnnotatedCells
    error_rate: float
    """The extraction error rate by all labels: the estimate for a class with few."""

    @cached_property
    def _blocks(self) -> Array:
        """CELLS × CELLS: from an answer's cell to the mean cell of what was read in answers to its kind of question."""
        totals, kinds = self.cells.sum(axis=0), question_kinds()
        found: Array = kinds @ quotient(totals[:, None] * kinds, totals @ kinds, 0.0).T
        return found

    @cached_property
    def _joined(self) -> tuple[Places, Array]:
        """By label: its class after joining; and templates × joined classes."""
        names = join_classes(self.classes, np.bincount(self.labelled.kind, minlength=len(self.classes)).tolist())
        distinct = sorted(set(names))
        places = np.array([distinct.index(name) for name in names], dtype=np.int64)
        return places[self.labelled.kind], self.class_sizes @ np.eye(len(distinct))[places]

    @cached_property
    def _weights(self) -> Array:
        """By label: how many answers of its class it stands for."""
        joined, sizes = self._joined
        drawn = np.bincount(joined, self.labelled.weight, sizes.shape[1])
        found: Array = self.labelled.weight * sizes.sum(axis=0)[joined] / drawn[joined]
        return found

    def totals(self, weight: float) -> Array:
        """The corrected cells, the extractions counting with a weight from 0 to 1."""
        labelled, eye = self.labelled, np.eye(len(CELLS))
        predicted = weight * eye[labelled.read] + (1 - weight) * self._blocks[labelled.read]
        found: Array = (self.cells + self.settled).sum(axis=0) + self._weights @ (eye[labelled.right] - predicted)
        return found

    def best_weight(self, linear: Array) -> float:
        """The weight with which the labels' part of the variance is least; 1 where none is better."""
        labelled = self.labelled
        base = (self._blocks @ linear)[labelled.read]
        outcome, extraction = (
            self._by_template(self._deviations(linear[codes] - base)[1]) for codes in (labelled.right, labelled.read)
        )
        squares = float(extraction @ extraction)
        best = float(outcome @ extraction) / squares if squares > 0 else 1.0
        return float(np.clip(best, 0.0, 1.0)) if np.isfinite(best) else 1.0

    def _deviations(self, scores: Array) -> tuple[Array, Array]:
        """The mean score of each class, and by label: how far it is off that, times its weight."""
        (joined, sizes), weights = self._joined, self._weights
        parts = (weights * scores, weights)
        above, below = (np.bincount(joined, part, sizes.shape[1]).astype(np.float64) for part in parts)
        means = quotient(above, below, 0.0)
        return means, weights * (scores - means[joined])

    def _by_template(self, scores: Array) -> Array:
        return np.bincount(self.labelled.template, scores, len(self.cells)).astype(np.float64)

    def influences(self, linear: Array, weight: float) -> tuple[Array, Array, float]:
        """By template: of its predicted cells and what labels say of its classes, of its own labels; and `rare`."""
        labelled, (joined, sizes) = self.labelled, self._joined
        predicted = weight * linear + (1 - weight) * (self._blocks @ linear)
        means, off = self._deviations(linear[labelled.right] - predicted[labelled.read])
        counts = np.bincount(joined, minlength=sizes.shape[1])
        off = off * np.sqrt(counts / np.maximum(counts - 1, 1))[joined]
        same = question_kinds() @ question_kinds().T
        squares = ((linear[:, None] - linear[None, :]) ** 2 * same).sum(axis=1)
        swing = (squares / np.maximum(same.sum(axis=1) - 1, 1))[labelled.read]
        wrong, seen, usual = (
            np.bincount(joined, part, sizes.shape[1])
            for part in ((swing > 0) & (labelled.read != labelled.right), off**2, self._weights**2 * swing)
        )
        usual = usual * np.minimum(self.error_rate, 1 / (counts + 1))
        mixed = (wrong * seen + USUAL_ERRORS * usual) / (wrong + USUAL_ERRORS)
        rare = RARE_SHARE * max(0.0, float((mixed - seen).sum()))
        return self.cells @ predicted + self.settled @ linear + sizes @ means, self._by_template(off), rare


@dataclass(frozen=True)
class CorrectedEstimate(Estimate):
    """A corrected number; `influence_values` are the u_t above, and there are no bootstrap values."""

    extracted: Estimate | None = None
    """The same number as it was extracted, with its interval over templates; None: nothing is known of it."""
    plain: float = math.nan
    annotation_influence: Array = field(default_factory=lambda: np.zeros(0))
    """The part of the influences that labels are off their class."""
    rare_variance: float = 0.0
    """Variance for wrong extractions that are too rare to be among so few labels."""
    ppi_lambda: float = math.nan
    """λ; NaN of a difference."""

    @cached_property
    def standard_error(self) -> float:
        """The standard error over templates and labels; NaN for fewer than two effective templates."""
        whole = float(self.adjusted_influence @ self.adjusted_influence)
        return math.sqrt(whole + self.rare_variance) if self.n_effective > 1 else math.nan

    @property
    def units(self) -> float:
        """Satterthwaite's degrees of freedom, of the templates and of the labels that are off, plus one."""
        off = self.annotation_influence
        whole, by_labels = float((self.influence_values**2).sum()), float((off**2).sum())
        spread = max(0.0, whole - by_labels) ** 2 / (self.n_effective - 1) + float((off**4).sum()) / 2
        degrees = max(1.0, (whole + self.rare_variance) ** 2 / spread) if spread > 0 else self.n_effective - 1
        return degrees + 1

    def _template_interval(self, confidence: float) -> Ends:
        """The interval as extracted, to whose variance that of the labels is added; value ± t · error without one.

        An unseen template can lie as far off the corrected score as off the extracted one. So the variance of templates
        is, on either side, (the reach of the interval as extracted / t)². Labels add their own, or all by which the
        corrected score's is larger. No end is nearer than as extracted.
        """
        reaches = [self.analytic_half_width(confidence)] * 2
        plain = None if self.extracted is None else self.extracted.template_interval(confidence)
        if self.extracted is not None and plain is not None:
            degrees, off = self.extracted.units - 1, self.annotation_influence
            corrected, read = self.influence_values, self.extracted.influence_values
            labels = max(float(off @ off), float(corrected @ corrected - read @ read)) + self.rare_variance
            spread = float((off**4).sum()) / 2
            for side, reach in enumerate((self.extracted.value - plain[0], plain[1] - self.extracted.value)):
                templates = (reach / t_quantile(confidence, degrees + 1)) ** 2
                shares = templates**2 / degrees + spread
                joint = max(1.0, (templates + labels) ** 2 / shares) if shares > 0 else degrees
                reaches[side] = max(reach, t_quantile(confidence, joint + 1) * math.sqrt(templates + labels))
        return max(self.value - reaches[0], self.bounds[0]), min(self.value + reaches[1], self.bounds[1])

    def minus(self, other: CorrectedEstimate) -> CorrectedEstimate:
        """The difference, paired by template; it stands on the templates of the side that has fewer."""
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
    """The corrected metric of a group with labels; `extracted`: as it was extracted, over the same templates."""

    def counted(cells: Array) -> Counts:
        return Counts(cells @ count_matrix(), unparsed)

    def linear_part(weight: float) -> Array:
        """What one answer more in each cell would change in the score, by cell."""
        return influence_values(metric, counted(np.eye(len(CELLS))), counted(group.totals(weight)))

    weight = 1.0
    for _ in range(2):  # the score's linear part depends on the score, and so does the best weight of the extractions
        weight = group.best_weight(linear_part(weight))
    own, off, rare = group.influences(linear_part(weight), weight)
    counts, influences = counted(group.cells + group.settled), own + off
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
        annotation_influence=off,
        rare_variance=rare,
        ppi_lambda=weight,
    )


def usual_error_rate(wrong: Array, weight: Array) -> float:
    """The extraction error rate by labels of these weights, as if half an error more had been seen."""
    whole = float(weight.sum())
    typical = whole / max(len(weight), 1)
    return (float((np.asarray(wrong) * weight).sum()) + typical / 2) / (whole + typical) if whole else 0.5


def join_classes(classes: Sequence[AnswerClass], labels: Sequence[int]) -> list[AnswerClass]:
    """What each class is joined into, so that each has at least CLASS_LABELS labels where there are as many.

    Small classes become a rest of those that share their first names, the last name being given up first; a rest that
    stays small is joined with the largest class.
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
