"""The levels of one comparison over the same templates: their scores, their differences, and what explains these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from mbbq_gen.analysis.ability import Selection, TemplateSelection, split_panels
from mbbq_gen.analysis.agreement import PairAgreement, choices, pair_agreement
from mbbq_gen.analysis.comparison_table import (
    PARSING_GAP,
    DifferenceDecomposition,
    LevelScore,
    MetricComparison,
    PairDifference,
    WarningCode,
)
from mbbq_gen.analysis.correction import CorrectedLevels, confidence_shares
from mbbq_gen.analysis.correction_table import flags_of, gap
from mbbq_gen.analysis.position import balanced_score, place_test, read_answers
from mbbq_gen.core.records import Condition
from mbbq_gen.scoring.cells import Array, Counts, count_matrix, scenario_matrix
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS, Fraction, Metric
from mbbq_gen.scoring.tally import grouping_columns, item_scores
from mbbq_gen.statistics.estimate import Estimate, EstimateResult, InferenceSettings, delta_method, no_score, number
from mbbq_gen.statistics.hypothesis_tests import (
    TestResult,
    equality_test,
    friedman,
    holm,
    kruskal_wallis,
    missing,
    tost,
    untestable,
    wilcoxon,
    zero_test,
)
from mbbq_gen.statistics.intervals import LOW_PARSING
from mbbq_gen.statistics.missing_data import (
    MissingDataBounds,
    MissingDataPanels,
    TippingPoint,
    missing_data_bounds,
    parse_rate,
)
from mbbq_gen.statistics.panel import Panel


def _rate(name: str, *fractions: Fraction, combine: Callable[..., Any] | None = None) -> Metric:
    """A metric that is only ever a part of another."""
    metric = Metric(name, name, "", "BBQ §5", "", fractions, extremes=None)
    return metric if combine is None else replace(metric, combine=combine)


_MISLED = Fraction("counter_biased_contexts_biased", "counter_biased_contexts_denominator")
"""Where the truth goes against the stereotype: how often the stereotype is answered."""
_CONTRARY = Fraction(
    "disambiguated_counter_biased", "biased_contexts_denominator", minus="counter_biased_contexts_correct"
)
"""Where the truth fits the stereotype: how often the other person is answered."""


@dataclass(frozen=True)
class RateDirectionFactors:
    """A bias as a product: how often a person is chosen wrongly, times how one-sidedly."""

    rate: Metric
    direction: Metric
    """(Biased − counter-biased) / both, of the wrong choices of a person."""


def _one_sided(misled: Array, contrary: Array) -> Array:
    both = misled + contrary
    found: Array = np.divide(misled - contrary, both, out=np.full(np.shape(both), np.nan), where=np.asarray(both > 0))
    return found


AMBIGUOUS_FACTORS = RateDirectionFactors(
    rate=_rate("rate", Fraction("ambiguous_person_choices", "ambiguous_denominator")),
    direction=_rate(
        "direction", Fraction("ambiguous_biased", "ambiguous_person_choices", minus="ambiguous_counter_biased")
    ),
)
DISAMBIGUATED_FACTORS = RateDirectionFactors(
    rate=_rate("rate", _MISLED, _CONTRARY, combine=lambda misled, contrary: misled + contrary),
    direction=_rate("direction", _MISLED, _CONTRARY, combine=_one_sided),
)
FACTORS = {
    "mbbq_bias_ambiguous": AMBIGUOUS_FACTORS,
    "diff_bias_ambiguous": AMBIGUOUS_FACTORS,
    "diff_bias_disambiguated": DISAMBIGUATED_FACTORS,
}
"""Metric → its factors. In disambiguated contexts a third part is left over: "unknown" in one kind of context more."""


def kitagawa_decomposition(
    panel: Panel, metric: Metric, pair: tuple[int, int], difference: Estimate
) -> DifferenceDecomposition | None:
    """Kitagawa's parts of the difference of two groups, and what is left; None where the score is no product.

    A mean over templates is none: it is the mean of the templates' products.
    """
    if metric.name not in FACTORS or panel.sampling.average != "questions":
        return None
    factors, sampling = FACTORS[metric.name], panel.sampling
    rate = [panel.estimates(factors.rate)[place] for place in pair]
    direction = [panel.estimates(factors.direction)[place] for place in pair]
    four = [*rate, *direction]
    gap_rate, gap_direction = rate[0].value - rate[1].value, direction[0].value - direction[1].value
    mean_rate, mean_direction = (rate[0].value + rate[1].value) / 2, (direction[0].value + direction[1].value) / 2
    by_rate = delta_method(
        four,
        lambda n1, n2, l1, l2: (n1 - n2) * (l1 + l2) / 2,
        (mean_direction, -mean_direction, gap_rate / 2, gap_rate / 2),
    )
    by_direction = delta_method(
        four,
        lambda n1, n2, l1, l2: (n1 + n2) / 2 * (l1 - l2),
        (gap_direction / 2, gap_direction / 2, mean_rate, -mean_rate),
    )
    rest = difference.subtract(by_rate).subtract(by_direction)
    return DifferenceDecomposition(
        rate=by_rate.score(sampling),
        direction=by_direction.score(sampling),
        unknown=None if factors is AMBIGUOUS_FACTORS else rest.score(sampling),
    )


@dataclass(frozen=True)
class ComparisonSettings:
    """How everything is compared."""

    sampling: InferenceSettings
    wide: InferenceSettings
    """Of differences: wider where several must hold at once."""
    margin: float | None
    """What scores and differences are tested to be smaller than."""
    select: Selection | None


class ComparedLevels:
    """The panels of one comparison, made once for all its metrics."""

    def __init__(
        self,
        frame: pl.DataFrame,
        across: str,
        levels: Sequence[str],
        matched: TemplateSelection | None,
        how: ComparisonSettings,
        *,
        corrected: CorrectedLevels | None,
        is_cut: bool,
    ) -> None:
        self._column, self._levels = grouping_columns([across])[across], list(levels)
        self._sampling, self._wide, self._corrected = how.sampling, how.wide, corrected
        self._frame = frame.filter(pl.col("split") == "bias")
        self._bias, self._control = split_panels(frame, [across], how.sampling)
        self._unread = MissingDataPanels(self._bias)
        kept = [name for name in (matched.kept if matched else ()) if name in set(self._bias.templates)]
        self._matched = self._bias.on_templates(kept) if len(kept) > 1 else None
        self._why_unmatched = _why_unmatched(matched)
        self._confidences = {found.group[across]: found.shares for found in confidence_shares(self._frame, [across])}
        self._across, self._margin, self._is_cut = across, how.margin, is_cut
        self._is_crossed = how.sampling.prompt_effects == "random"

    def compare(self, metric: Metric) -> MetricComparison:
        """One metric over all levels."""
        scores, controls = self._bias.estimates(metric), self._control.estimates(metric)
        found = [self._pair(metric, pair, scores, controls) for pair in combinations(range(len(self._levels)), 2)]
        corrected = holm([pair.corrected.p_value if pair.corrected else None for pair in found])
        pairs = [
            pair.model_copy(
                update={"corrected": pair.corrected and pair.corrected.model_copy(update={"p_adjusted": p_adjusted})}
            )
            for pair, p_adjusted in zip(holm_adjusted(found), corrected, strict=True)
        ]
        return MetricComparison(
            metric=metric.name,
            sign=metric.sign,
            n_templates=len(self._bias.templates),
            levels=tuple(self._level(metric, place, scores, controls) for place in range(len(self._levels))),
            overall=tuple(self._overall_tests(metric, scores)),
            left_out=self._left_out(scores),
            pairs=tuple(pairs),
        )

    def agreements(self) -> Iterable[PairAgreement]:
        """How far the levels choose the same roles."""
        answers = choices(self._frame)
        conditions: tuple[Condition, ...] = ("ambiguous", "disambiguated")
        for pair in combinations(self._levels, 2):
            for condition in conditions:
                yield pair_agreement(answers, self._column, pair, condition, self._sampling)

    # --- one level ---

    def _level(
        self, metric: Metric, place: int, scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> LevelScore:
        ends = self._unread.ends(metric)
        return LevelScore(
            level=self._levels[place],
            n_answers=sum(self._bias.tallies[place].outcomes.values()),
            parse_rate=_value("parse_rate", self._bias, place),
            accuracy=_value(f"accuracy_{metric.condition or 'ambiguous'}", self._bias, place),
            control_accuracy=_value("accuracy_disambiguated", self._control, place),
            score=scores[place].score(self._sampling),
            control=controls[place].score(self._sampling),
            adjusted=scores[place].subtract(controls[place]).score(self._sampling),
            bounds=None
            if ends is None
            else missing_data_bounds(ends[0][place], ends[1][place], scores[place], self._sampling),
            tests=tuple(self._against_zero(metric, place, scores[place])),
            confidences=self._confidences.get(self._levels[place], {}),
            corrected=self._corrected.score(metric, place) if self._corrected else None,
            extraction_error=self._corrected.errors[place] if self._corrected else None,
        )

    # --- pairs ---

    def _pair(
        self, metric: Metric, pair: tuple[int, int], scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> PairDifference:
        one, other = pair
        difference = scores[one].subtract(scores[other])
        controlled = controls[one].subtract(controls[other])
        adjusted = difference.subtract(controlled)
        parts = kitagawa_decomposition(self._bias, metric, pair, difference)
        found = difference.score(self._wide)
        return PairDifference(
            first=self._levels[one],
            second=self._levels[other],
            difference=found,
            bounds=self._pair_bounds(metric, pair, difference),
            tipping_point=self._tipping_point(metric, pair, found),
            tests=tuple(self._tests_of_pair(metric, pair, difference)),
            adjusted=adjusted.score(self._wide),
            adjusted_test=self._adjusted_test(metric, pair, adjusted),
            matched=self._matched_difference(metric, pair),
            decomposition=parts,
            warnings=tuple(self._warnings_of_pair(metric, pair, found, controlled, parts)),
            corrected=self._corrected.difference(metric, pair) if self._corrected else None,
        )

    def _pair_bounds(self, metric: Metric, pair: tuple[int, int], difference: Estimate) -> MissingDataBounds | None:
        ends = self._unread.ends(metric)
        if ends is None:
            return None
        (low, high), (one, other) = ends, pair
        lowest, highest = low[one].subtract(high[other]), high[one].subtract(low[other])
        return missing_data_bounds(lowest, highest, difference, self._wide)

    def _tipping_point(self, metric: Metric, pair: tuple[int, int], found: EstimateResult) -> TippingPoint | None:
        if not found.excludes_zero:
            return None
        return self._unread.tipping_point(metric, pair, first_is_higher=(found.value or 0.0) > 0)

    def _matched_difference(self, metric: Metric, pair: tuple[int, int]) -> EstimateResult:
        if self._matched is None:
            return no_score(self._why_unmatched)
        scores = self._matched.estimates(metric)
        return scores[pair[0]].subtract(scores[pair[1]]).score(self._wide)

    # --- tests ---

    def _against_zero(self, metric: Metric, place: int, score: Estimate) -> Iterable[TestResult]:
        """Is a level's score 0?"""
        if metric.low >= 0:
            return
        hypothesis = f"{metric.name} of {self._levels[place]} is 0"
        yield zero_test(score, hypothesis, self._sampling)
        if not self._is_crossed:
            yield wilcoxon(self._bias.template_scores(metric)[place], f"{hypothesis} in the middle of the templates")
        if self._margin is not None:
            what = f"{metric.name} of {self._levels[place]}"
            yield tost(score, self._margin, what, self._sampling)

    def _left_out(self, scores: Sequence[Estimate]) -> tuple[str, ...]:
        """Levels whose score has no interval, where at least two have one."""
        found = [level for level, score in zip(self._levels, scores, strict=True) if score.missing_reason is not None]
        return tuple(found) if len(found) + 2 <= len(self._levels) else ()

    def _overall_tests(self, metric: Metric, scores: Sequence[Estimate]) -> Iterable[TestResult]:
        """Do the levels differ?"""
        left_out = self._left_out(scores)
        defined = [place for place, level in enumerate(self._levels) if level not in left_out]
        compared = [scores[place] for place in defined]
        hypothesis = f"{metric.name} does not differ across {self._across}"
        if left_out:
            hypothesis += f", leaving out {', '.join(left_out)}"
        yield equality_test(compared, hypothesis, self._sampling)
        if self._is_crossed:
            return
        panel = self._bias.on_groups(defined)
        by_template, is_even = panel.template_scores(metric), panel.has_even_counts(metric)
        yield friedman(by_template.T, hypothesis, is_even=is_even)
        yield kruskal_wallis(list(by_template), hypothesis, "template", is_even=is_even)
        if (nothing := missing("kruskal_wallis", compared, hypothesis)) is not None:
            yield nothing.model_copy(update={"unit": "item"})
        elif metric.is_mean:
            items = item_scores(self._frame, metric, self._sampling.unparsed, [self._column])
            yield kruskal_wallis(
                [items.filter(items[self._column] == self._levels[place])["score"].to_numpy() for place in defined],
                hypothesis,
                "item",
            )
        else:
            reason = "the metric is no mean over answers: a question has no score of it"
            yield untestable("kruskal_wallis", "item", hypothesis, 0, reason, "not_applicable")

    def _tests_of_pair(self, metric: Metric, pair: tuple[int, int], difference: Estimate) -> Iterable[TestResult]:
        """Have two levels the same score?"""
        one, other = pair
        hypothesis = f"{metric.name} is equal in {self._levels[one]} and {self._levels[other]}"
        yield zero_test(difference, hypothesis, self._sampling)
        if not self._is_crossed:
            panel = self._bias.on_groups(pair)
            first, second = panel.template_scores(metric)
            middle = f"{hypothesis} in the middle of the templates"
            yield wilcoxon(first - second, middle, is_even=panel.has_even_counts(metric))
        if self._margin is not None:
            what = f"the difference of {metric.name} of {self._levels[one]} and {self._levels[other]}"
            yield tost(difference, self._margin, what, self._sampling)

    def _adjusted_test(self, metric: Metric, pair: tuple[int, int], adjusted: Estimate) -> TestResult:
        """Have two levels the same score, the control questions' taken off?"""
        one, other = (self._levels[place] for place in pair)
        hypothesis = f"{metric.name} minus control is equal in {one} and {other}"
        return zero_test(adjusted, hypothesis, self._sampling)

    # --- warnings: what else the differences could come from ---

    def _warnings_of_pair(
        self,
        metric: Metric,
        pair: tuple[int, int],
        found: EstimateResult,
        controlled: Estimate,
        parts: DifferenceDecomposition | None,
    ) -> Iterable[WarningCode]:
        """What a difference must be read with; `controlled`: the same difference on the control questions."""
        if (parse_rate(self._bias, metric, pair) or 0.0) < LOW_PARSING:
            yield "low_parse_rate"
        rates = [number(float(METRICS["parse_rate"].value(self._bias.total)[place])) for place in pair]
        if abs((rates[0] or 0.0) - (rates[1] or 0.0)) > PARSING_GAP:
            yield "parse_rate_differs"
        read_gap = gap(*rates) or 0.0
        yield from flags_of(found, read_gap, self._corrected.error_gap(pair) if self._corrected else None)
        is_found = found.excludes_zero
        if is_found and self._unparsed_could_explain(metric, pair, found):
            yield "unparsed_could_explain"
        if is_found and parts is not None and not parts.direction.excludes_zero:
            yield "ability_could_explain"
        if is_found and self._position_could_explain(metric, pair):
            yield "position_could_explain"
        if controlled.score(self._sampling).excludes_zero:
            yield "control_differs"
        templates = len(self._bias.templates) if found.value is None else found.n_templates
        if templates < MIN_TEMPLATES:
            yield "too_few_templates"
        elif templates < FEW_TEMPLATES:
            yield "few_templates"
        if self._is_cut:
            yield "templates_excluded"

    def _unparsed_could_explain(self, metric: Metric, pair: tuple[int, int], found: EstimateResult) -> bool:
        """Whether the difference loses its sign if unparsed answers had been most against it."""
        if metric.extremes is None or found.value is None:
            return False
        upper, lower = pair if found.value > 0 else pair[::-1]
        totals = self._bias.cells.sum(axis=1)
        least, most = (
            metric.value(Counts(totals @ scenario_matrix(scenario) @ count_matrix(), "keep"))
            for scenario in metric.extremes
        )
        return bool(least[upper] <= most[lower])

    def _position_could_explain(self, metric: Metric, pair: tuple[int, int]) -> bool:
        """Whether places are preferred in a level, and the difference is not sure once orders are balanced."""
        sampling = self._sampling
        halves = [self._frame.filter(pl.col(self._column).cast(pl.String) == self._levels[place]) for place in pair]
        p_values = [place_test(read_answers(half), seed=sampling.seed).p_value for half in halves]
        if all(p is not None and p >= 0.05 for p in p_values):
            return False
        balanced = [balanced_score(half, metric, sampling).balanced for half in halves]
        values = [score.value for score in balanced if score.value is not None]
        errors = [score.standard_error for score in balanced if score.standard_error is not None]
        if len(values) < 2 or len(errors) < 2:
            return True  # orders that can't be balanced: the design itself puts some role in some place
        return abs(values[0] - values[1]) < 1.96 * math.hypot(*errors)


def holm_adjusted(pairs: Sequence[PairDifference]) -> list[PairDifference]:
    """The pairs with the p values of each kind of test adjusted over all of them (Holm)."""
    kinds = [holm([pair.tests[number].p_value for pair in pairs]) for number in range(len(pairs[0].tests))]
    controlled = holm([pair.adjusted_test.p_value for pair in pairs])
    return [
        pair.model_copy(
            update={
                "tests": tuple(test.adjusted(kinds[number][row]) for number, test in enumerate(pair.tests)),
                "adjusted_test": pair.adjusted_test.adjusted(controlled[row]),
            }
        )
        for row, pair in enumerate(pairs)
    ]


def _value(name: str, panel: Panel, place: int) -> float | None:
    if panel.sampling.average == "questions":
        return number(float(METRICS[name].value(panel.total)[place]))
    return number(replace(panel, is_resampled=False).estimates(METRICS[name])[place].value)


def _why_unmatched(matched: TemplateSelection | None) -> str:
    if matched is None:
        return "no answers to disambiguated control questions"
    return f"{matched.n_kept} of {matched.n_templates} templates are above chance in all levels; two are needed"
