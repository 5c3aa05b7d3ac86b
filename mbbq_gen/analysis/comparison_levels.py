"""The levels of one comparison over the same templates: their scores, their differences, and what explains these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from mbbq_gen.analysis.ability import (
    Selection,
    TemplateSelection,
    keep_templates,
    select_templates,
    split_panels,
    template_ability,
)
from mbbq_gen.analysis.agreement import choices, pair_agreement
from mbbq_gen.analysis.comparison_table import (
    PARSING_GAP,
    WARNINGS,
    Comparison,
    DifferenceDecomposition,
    LevelScore,
    MetricComparison,
    PairDifference,
    WarningCode,
)
from mbbq_gen.analysis.correction import (
    ConfusionMatrix,
    CorrectedDifference,
    confidence_shares,
    confusion_matrices,
    corrected_numbers,
    extraction_errors,
    labelled_groups,
)
from mbbq_gen.analysis.position import balanced_score, place_test, read_answers
from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.core.records import NO_RESPONSE, Condition
from mbbq_gen.scoring.cells import Counts, count_matrix, quotient, scenario_matrix
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS, Fraction, Metric
from mbbq_gen.scoring.tally import GROUPINGS, TEMPLATE, item_scores, template_expression
from mbbq_gen.statistics.estimate import Estimate, EstimateResult, InferenceSettings, delta_method, no_score
from mbbq_gen.statistics.hypothesis_tests import (
    TestResult,
    equality_test,
    friedman,
    kruskal_wallis,
    missing,
    tost,
    wilcoxon,
    zero_test,
)
from mbbq_gen.statistics.intervals import LOW_PARSING
from mbbq_gen.statistics.missing_data import MissingDataPanels, missing_data_bounds
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
    (n1, n2), (l1, l2) = four = [[panel.estimates(part)[place] for place in pair] for part in FACTORS[metric.name]]
    operands = [estimate for part in four for estimate in part]
    rate, direction = (n1.value + n2.value) / 2, (l1.value + l2.value) / 2
    half_rate, half_direction = (n1.value - n2.value) / 2, (l1.value - l2.value) / 2
    by_rate = delta_method(
        operands,
        lambda rate1, rate2, direction1, direction2: (rate1 - rate2) * (direction1 + direction2) / 2,
        (direction, -direction, half_rate, half_rate),
    )
    by_direction = delta_method(
        operands,
        lambda rate1, rate2, direction1, direction2: (rate1 + rate2) / 2 * (direction1 - direction2),
        (half_direction, half_direction, rate, -rate),
    )
    rest = difference.subtract(by_rate).subtract(by_direction)
    return DifferenceDecomposition(
        rate=by_rate.score(panel.sampling),
        direction=by_direction.score(panel.sampling),
        unknown=rest.score(panel.sampling) if metric.condition == "disambiguated" else None,
    )


class ComparedLevels:
    """The levels of one comparison over the same templates, its panels made once for all metrics."""

    def __init__(  # noqa: PLR0917
        self,
        frame: pl.DataFrame,
        within: dict[str, str | None],
        across: str,
        sampling: InferenceSettings,
        wide: InferenceSettings,
        select: Selection | None,
        margin: float | None,
        labelled: pl.DataFrame | None,
    ) -> None:
        """Raises UsageError or MbbqGenError where there is too little to compare; `wide`: of differences."""
        self._within, self._across, self._column = within, across, GROUPINGS[across]
        self._sampling, self._wide, self._select, self._margin = sampling, wide, select, margin
        self._levels, frame, shared, self._excluded = self._shared_templates(frame)
        is_answer = ~pl.col("outcome").cast(pl.String).is_in(sorted(NO_RESPONSE))
        control = frame.filter((pl.col("split") == "control") & (pl.col("condition") == "disambiguated") & is_answer)
        self._selection: TemplateSelection | None = None
        if control.height or select:
            self._selection = select_templates(template_ability(frame, [across]), shared)
        if select and self._selection:
            shared = list(self._selection.kept)
        if len(shared) < 2:
            common = f"all of {', '.join(self._levels)}{self._inside}"
            if select and self._selection:
                raise MbbqGenError(
                    f"--template-filter {select}: {len(shared)} of {self._selection.n_templates} templates pass in "
                    f"{common}, two are needed; leave --template-filter out, or compare fewer"
                )
            raise UsageError(f"--across {across}: {len(shared)} templates are left that {common} have")
        kept = keep_templates(frame, shared)
        self._frame = kept.filter(pl.col("split") == "bias")
        self._bias, self._control = split_panels(kept, [across], sampling)
        self._unread = MissingDataPanels(self._bias)
        able = [name for name in (self._selection.kept if self._selection else ()) if name in self._bias.templates]
        self._matched = self._bias.on_templates(able) if len(able) > 1 else None
        self._confidences = {found.group[across]: found.shares for found in confidence_shares(self._frame, [across])}
        self._is_crossed = sampling.prompt_effects == "random"
        self._labelled = None
        if labelled is not None:
            is_level = pl.col(self._column).cast(pl.String).is_in(self._levels)
            self._labelled = keep_templates(labelled, shared).filter((pl.col("split") == "bias") & is_level)
            groups = labelled_groups(self._frame, self._labelled, [across], sampling)
            self._annotated = {group.group[across]: group for group in groups}
            errors = extraction_errors(self._labelled, [across], sampling.confidence)
            self._errors = {found.group[across]: found for found in errors}

    @property
    def _inside(self) -> str:
        return "".join(f" of {name} {value}" for name, value in self._within.items())

    def _shared_templates(self, frame: pl.DataFrame) -> tuple[list[str], pl.DataFrame, list[str], list[str]]:
        """The levels, their rows, the templates that all of them have, and those that some lack."""
        bias, level = frame.filter(pl.col("split") == "bias"), pl.col(self._column).cast(pl.String)
        levels = sorted(str(name) for name in bias[self._column].drop_nulls().unique().to_list())
        if len(levels) < 2:
            found = f"{len(levels)} of it ({', '.join(levels) or 'none'}) in the bias split{self._inside}"
            raise UsageError(f"--across {self._across}: {found}; give runs with two or more")
        seen = bias.select(template_expression(), level).unique().drop_nulls().group_by(TEMPLATE).len().sort(TEMPLATE)
        is_shared = seen["len"] == len(levels)
        shared, lacking = (seen.filter(rows)[TEMPLATE].to_list() for rows in (is_shared, ~is_shared))
        return levels, frame.filter(level.is_in(levels)), shared, lacking

    def comparison(self, metrics: Sequence[Metric]) -> Comparison:
        """All metrics over all levels; p values are not yet adjusted."""
        answers, selection = choices(self._frame), self._selection
        compared = tuple(self._metric(metric) for metric in metrics)
        codes = {code for metric in compared for pair in metric.pairs for code in pair.warnings}
        conditions: tuple[Condition, ...] = ("ambiguous", "disambiguated")
        matrices: tuple[ConfusionMatrix, ...] = ()
        if self._labelled is not None and self._labelled.height:
            matrices = tuple(confusion_matrices(self._labelled, self._sampling.confidence))
        return Comparison(
            within=self._within,
            across=self._across,
            levels=tuple(self._levels),
            selection=selection if self._select else None,
            matched=selection,
            metrics=compared,
            agreement=tuple(
                pair_agreement(answers, self._column, pair, condition, self._sampling)
                for pair in combinations(self._levels, 2)
                for condition in conditions
            ),
            templates_excluded=tuple(self._excluded),
            matrices=matrices,
            warnings={code: text for code, text in WARNINGS.items() if code in codes},
        )

    def _metric(self, metric: Metric) -> MetricComparison:
        scores, controls = self._bias.estimates(metric), self._control.estimates(metric)
        lacking = [name for name, score in zip(self._levels, scores, strict=True) if score.missing_reason is not None]
        left_out = tuple(lacking) if len(lacking) + 2 <= len(self._levels) else ()
        places = range(len(self._levels))
        return MetricComparison(
            metric=metric.name,
            sign=metric.sign,
            n_templates=len(self._bias.templates),
            levels=tuple(self._level(metric, place, scores[place], controls[place]) for place in places),
            overall=tuple(self._overall_tests(metric, scores, left_out)),
            left_out=left_out,
            pairs=tuple(self._pair(metric, pair, scores, controls) for pair in combinations(places, 2)),
        )

    def _level(self, metric: Metric, place: int, score: Estimate, control: Estimate) -> LevelScore:
        ends, level, sampling = self._unread.ends(metric), self._levels[place], self._sampling
        hypothesis, tests = f"{metric.name} of {level} is 0", []
        if metric.low < 0:
            tests.append(zero_test(score, hypothesis, sampling))
            if not self._is_crossed:
                alone = self._bias.template_scores(metric)[place]
                tests.append(wilcoxon(alone, f"{hypothesis} in the middle of the templates"))
            if self._margin is not None:
                tests.append(tost(score, self._margin, f"{metric.name} of {level}", sampling))

        def value(name: str, panel: Panel) -> float | None:
            return plain_value(METRICS[name], panel.tallies[place], sampling)

        return LevelScore(
            level=level,
            n_answers=sum(self._bias.tallies[place].outcomes.values()),
            parse_rate=value("parse_rate", self._bias),
            accuracy=value(f"accuracy_{metric.condition or 'ambiguous'}", self._bias),
            control_accuracy=value("accuracy_disambiguated", self._control),
            score=score.score(sampling),
            control=control.score(sampling),
            adjusted=score.subtract(control).score(sampling),
            bounds=ends and missing_data_bounds(ends[0][place], ends[1][place], score, sampling),
            tests=tuple(tests),
            confidences=self._confidences.get(level, {}),
            corrected=None if self._labelled is None else self._annotated[level].score(metric),
            extraction_error=None if self._labelled is None else self._errors.get(level),
        )

    def _overall_tests(
        self, metric: Metric, scores: Sequence[Estimate], left_out: Sequence[str]
    ) -> Iterable[TestResult]:
        """Do the levels differ?"""
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
            levels = (items.filter(items[self._column] == self._levels[place]) for place in defined)
            yield kruskal_wallis([level["score"].to_numpy() for level in levels], hypothesis, "item")
        else:
            reason = "the metric is no mean over answers: a question has no score of it"
            result = TestResult(test="kruskal_wallis", unit="item", hypothesis=hypothesis, n=0)
            yield result.missing(reason, "not_applicable")

    def _pair(
        self, metric: Metric, pair: tuple[int, int], scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> PairDifference:
        (one, other), (first, second) = pair, (self._levels[place] for place in pair)
        difference, controlled = scores[one].subtract(scores[other]), controls[one].subtract(controls[other])
        adjusted, found = difference.subtract(controlled), difference.score(self._wide)
        parts = kitagawa_decomposition(self._bias, metric, pair, difference)
        bounds = tipping = None
        if (ends := self._unread.ends(metric)) is not None:
            low, high = ends
            lowest, highest = low[one].subtract(high[other]), high[one].subtract(low[other])
            bounds = missing_data_bounds(lowest, highest, difference, self._wide)
        if found.excludes_zero:
            tipping = self._unread.tipping_point(metric, pair, first_is_higher=(found.value or 0.0) > 0)
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
            tipping_point=tipping,
            tests=tuple(tests),
            adjusted=adjusted.score(self._wide),
            adjusted_test=zero_test(adjusted, hypothesis, self._sampling),
            matched=self._matched_difference(metric, pair),
            decomposition=parts,
            warnings=tuple(self._warnings(metric, pair, found, controlled, parts)),
            corrected=None if self._labelled is None else self._corrected_difference(metric, first, second),
        )

    def _matched_difference(self, metric: Metric, pair: tuple[int, int]) -> EstimateResult:
        """The difference on the templates that are above chance in all levels."""
        if self._matched is not None:
            one, other = (self._matched.estimates(metric)[place] for place in pair)
            return one.subtract(other).score(self._wide)
        if self._selection is None:
            return no_score("no answers to disambiguated control questions")
        found = f"{self._selection.n_kept} of {self._selection.n_templates} templates"
        return no_score(f"{found} are above chance in all levels; two are needed")

    def _corrected_difference(self, metric: Metric, first: str, second: str) -> CorrectedDifference:
        groups = [self._annotated[level] for level in (first, second)]
        one, other = (group.estimate(metric) for group in groups)
        labels = sum(group.n_labels for group in groups)
        if one is None or other is None:
            reason = groups[0].reason or groups[1].reason
            return CorrectedDifference(value=None, n_labels=labels, reason=reason, reason_code="undefined")
        difference = one.minus(other)
        return CorrectedDifference(
            **corrected_numbers(difference, labels, self._sampling),
            p_value=zero_test(difference, "the corrected scores are equal", self._sampling).p_value,
        )

    def _warnings(
        self,
        metric: Metric,
        pair: tuple[int, int],
        found: EstimateResult,
        controlled: Estimate,
        parts: DifferenceDecomposition | None,
    ) -> Iterator[WarningCode]:
        """What a difference must be read with; `controlled`: the same difference on the control questions."""
        total, is_found = self._bias.total, found.excludes_zero
        known = [rate for rate in metric.parse_rate(total)[list(pair)] if not math.isnan(rate)]
        if min(known, default=0.0) < LOW_PARSING:
            yield "low_parse_rate"
        rates = np.nan_to_num(METRICS["parse_rate"].value(total))[list(pair)]
        read_gap = float(rates[0] - rates[1])
        if abs(read_gap) > PARSING_GAP:
            yield "parse_rate_differs"
        wrong = [] if self._labelled is None else [self._errors.get(self._levels[place]) for place in pair]
        shares = [error.rate.value for error in wrong if error is not None and error.rate.value is not None]
        yield from flags_of(found, read_gap, shares[0] - shares[1] if len(shares) == 2 else None)
        if is_found and self._could_turn(metric, pair if (found.value or 0.0) > 0 else pair[::-1]):
            yield "unparsed_could_explain"
        if is_found and parts is not None and not parts.direction.excludes_zero:
            yield "ability_could_explain"
        if is_found and self._position_could_explain(metric, pair):
            yield "position_could_explain"
        if controlled.score(self._sampling).excludes_zero:
            yield "control_differs"
        templates = len(self._bias.templates) if found.value is None else found.n_templates
        if templates < FEW_TEMPLATES:
            yield "too_few_templates" if templates < MIN_TEMPLATES else "few_templates"
        if self._excluded:
            yield "templates_excluded"

    def _could_turn(self, metric: Metric, pair: tuple[int, int]) -> bool:
        """Whether unparsed answers that were most against a difference would turn its sign; the higher level first."""
        if metric.extremes is None:
            return False
        totals = self._bias.cells.sum(axis=1)
        least, most = (
            metric.value(Counts(totals @ scenario_matrix(scenario) @ count_matrix(), "keep"))
            for scenario in metric.extremes
        )
        return bool(least[pair[0]] <= most[pair[1]])

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


def flags_of(difference: EstimateResult, read_gap: float, error_gap: float | None) -> Iterator[WarningCode]:
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
