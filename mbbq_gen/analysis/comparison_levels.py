"""The levels of one comparison over the same templates: their scores, their differences, and what explains these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

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
from mbbq_gen.analysis.correction import (
    ConfusionMatrix,
    CorrectedDifference,
    CorrectedScore,
    confidence_shares,
    confusion_matrices,
    corrected_numbers,
    extraction_errors,
    flags_of,
    gap,
    labelled_groups,
)
from mbbq_gen.analysis.position import balanced_score, place_test, read_answers
from mbbq_gen.core.records import Condition
from mbbq_gen.scoring.cells import Counts, count_matrix, quotient, scenario_matrix
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
    MissingDataPanels,
    missing_data_bounds,
)
from mbbq_gen.statistics.panel import Panel, plain_value


def _rate(name: str, *fractions: Fraction, **combine: Any) -> Metric:
    """A metric that is only ever a part of another."""
    return Metric(name, name, "", "BBQ §5", "", fractions, extremes=None, **combine)


_MISLED = Fraction("counter_biased_contexts_biased", "counter_biased_contexts_denominator")
"""Where the truth goes against the stereotype: how often the stereotype is answered."""
_CONTRARY = Fraction(
    "disambiguated_counter_biased", "biased_contexts_denominator", minus="counter_biased_contexts_correct"
)
"""Where the truth fits the stereotype: how often the other person is answered."""


_AMBIGUOUS = (
    _rate("rate", Fraction("ambiguous_person_choices", "ambiguous_denominator")),
    _rate("direction", Fraction("ambiguous_biased", "ambiguous_person_choices", minus="ambiguous_counter_biased")),
)
_DISAMBIGUATED = (
    _rate("rate", _MISLED, _CONTRARY, combine=lambda misled, contrary: misled + contrary),
    _rate("direction", _MISLED, _CONTRARY, combine=lambda one, other: quotient(one - other, one + other)),
)
FACTORS = {
    "mbbq_bias_ambiguous": _AMBIGUOUS,
    "diff_bias_ambiguous": _AMBIGUOUS,
    "diff_bias_disambiguated": _DISAMBIGUATED,
}
"""Metric → a bias as a product: how often a person is chosen wrongly, and how one-sidedly (biased − counter-biased over
both). In disambiguated contexts a third part is left over: "unknown" in one kind of context more."""


def kitagawa_decomposition(
    panel: Panel, metric: Metric, pair: tuple[int, int], difference: Estimate
) -> DifferenceDecomposition | None:
    """Kitagawa's parts of the difference of two groups, and what is left; None where the score is no product.

    A mean over templates is none: it is the mean of the templates' products.
    """
    if metric.name not in FACTORS or panel.sampling.average != "questions":
        return None
    sampling = panel.sampling
    rate, direction = ([panel.estimates(part)[place] for place in pair] for part in FACTORS[metric.name])
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
        unknown=rest.score(sampling) if metric.condition == "disambiguated" else None,
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
        return self._groups[place].score(metric)

    def difference(self, metric: Metric, pair: tuple[int, int]) -> CorrectedDifference:
        """The corrected difference of two levels."""
        first, second = (self._groups[place] for place in pair)
        one, other = first.estimate(metric), second.estimate(metric)
        labels = first.n_labels + second.n_labels
        if one is None or other is None:
            reason = first.reason or second.reason
            return CorrectedDifference(value=None, n_labels=labels, reason=reason, reason_code="undefined")
        difference = one.minus(other)
        return CorrectedDifference(
            **corrected_numbers(difference, labels, self._sampling),
            p_value=zero_test(difference, "the corrected scores are equal", self._sampling).p_value,
        )

    def error_gap(self, pair: tuple[int, int]) -> float | None:
        """How much more often answers of the first level are extracted wrongly; None where that is not known."""
        first, second = (error.rate.value if (error := self.errors[place]) else None for place in pair)
        return gap(first, second)

    def matrices(self) -> tuple[ConfusionMatrix, ...]:
        """What answers say by how they are read."""
        return tuple(confusion_matrices(self._labelled, self._sampling.confidence)) if self._labelled.height else ()


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
        self._why_unmatched = "no answers to disambiguated control questions"
        if matched is not None:
            found = f"{matched.n_kept} of {matched.n_templates} templates are above chance in all levels"
            self._why_unmatched = f"{found}; two are needed"
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

    def _level(
        self, metric: Metric, place: int, scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> LevelScore:
        ends, level = self._unread.ends(metric), self._levels[place]
        hypothesis, tests = f"{metric.name} of {level} is 0", []
        if metric.low < 0:
            tests.append(zero_test(scores[place], hypothesis, self._sampling))
            if not self._is_crossed:
                alone = self._bias.template_scores(metric)[place]
                tests.append(wilcoxon(alone, f"{hypothesis} in the middle of the templates"))
            if self._margin is not None:
                tests.append(tost(scores[place], self._margin, f"{metric.name} of {level}", self._sampling))

        def value(name: str, panel: Panel) -> float | None:
            return plain_value(METRICS[name], panel.tallies[place], self._sampling)

        return LevelScore(
            level=level,
            n_answers=sum(self._bias.tallies[place].outcomes.values()),
            parse_rate=value("parse_rate", self._bias),
            accuracy=value(f"accuracy_{metric.condition or 'ambiguous'}", self._bias),
            control_accuracy=value("accuracy_disambiguated", self._control),
            score=scores[place].score(self._sampling),
            control=controls[place].score(self._sampling),
            adjusted=scores[place].subtract(controls[place]).score(self._sampling),
            bounds=None
            if ends is None
            else missing_data_bounds(ends[0][place], ends[1][place], scores[place], self._sampling),
            tests=tuple(tests),
            confidences=self._confidences.get(level, {}),
            corrected=self._corrected.score(metric, place) if self._corrected else None,
            extraction_error=self._corrected.errors[place] if self._corrected else None,
        )

    def _pair(
        self, metric: Metric, pair: tuple[int, int], scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> PairDifference:
        (one, other), (first, second) = pair, (self._levels[place] for place in pair)
        difference = scores[one].subtract(scores[other])
        controlled = controls[one].subtract(controls[other])
        adjusted = difference.subtract(controlled)
        parts = kitagawa_decomposition(self._bias, metric, pair, difference)
        found, bounds = difference.score(self._wide), None
        if (ends := self._unread.ends(metric)) is not None:
            low, high = ends
            lowest, highest = low[one].subtract(high[other]), high[one].subtract(low[other])
            bounds = missing_data_bounds(lowest, highest, difference, self._wide)
        if self._matched is None:
            matched = no_score(self._why_unmatched)
        else:
            measured = self._matched.estimates(metric)
            matched = measured[one].subtract(measured[other]).score(self._wide)
        hypothesis = f"{metric.name} is equal in {first} and {second}"
        tests = [zero_test(difference, hypothesis, self._sampling)]
        if not self._is_crossed:
            panel = self._bias.on_groups(pair)
            ours, theirs = panel.template_scores(metric)
            middle = f"{hypothesis} in the middle of the templates"
            tests.append(wilcoxon(ours - theirs, middle, is_even=panel.has_even_counts(metric)))
        if self._margin is not None:
            what = f"the difference of {metric.name} of {first} and {second}"
            tests.append(tost(difference, self._margin, what, self._sampling))
        hypothesis = f"{metric.name} minus control is equal in {first} and {second}"
        return PairDifference(
            first=first,
            second=second,
            difference=found,
            bounds=bounds,
            tipping_point=self._unread.tipping_point(metric, pair, first_is_higher=(found.value or 0.0) > 0)
            if found.excludes_zero
            else None,
            tests=tuple(tests),
            adjusted=adjusted.score(self._wide),
            adjusted_test=zero_test(adjusted, hypothesis, self._sampling),
            matched=matched,
            decomposition=parts,
            warnings=tuple(self._warnings_of_pair(metric, pair, found, controlled, parts)),
            corrected=self._corrected.difference(metric, pair) if self._corrected else None,
        )

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

    def _warnings_of_pair(
        self,
        metric: Metric,
        pair: tuple[int, int],
        found: EstimateResult,
        controlled: Estimate,
        parts: DifferenceDecomposition | None,
    ) -> Iterable[WarningCode]:
        """What a difference must be read with; `controlled`: the same difference on the control questions."""
        shares = [number(metric.parse_rate(self._bias.total)[place]) for place in pair]
        if min((share for share in shares if share is not None), default=0.0) < LOW_PARSING:
            yield "low_parse_rate"
        rates = [number(METRICS["parse_rate"].value(self._bias.total)[place]) for place in pair]
        if abs((rates[0] or 0.0) - (rates[1] or 0.0)) > PARSING_GAP:
            yield "parse_rate_differs"
        read_gap = gap(*rates) or 0.0
        yield from flags_of(found, read_gap, self._corrected.error_gap(pair) if self._corrected else None)
        is_found = found.excludes_zero
        if is_found and metric.extremes is not None and found.value is not None:
            upper, lower = pair if found.value > 0 else pair[::-1]
            totals = self._bias.cells.sum(axis=1)
            least, most = (
                metric.value(Counts(totals @ scenario_matrix(scenario) @ count_matrix(), "keep"))
                for scenario in metric.extremes
            )
            if least[upper] <= most[lower]:  # unparsed answers that were most against it would turn its sign
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
