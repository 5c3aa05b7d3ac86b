"""Comparisons of scores between languages, models, prompt variants, methods or extractors.

For each metric: the score of every level with its interval and tests against 0; tests over all levels; the paired
difference of every pair. With them:

* the same score on the control set, and the control-adjusted score;
* the difference on the templates with ability above chance in all levels (MBBQ §5.2);
* its decomposition into the rate of wrong choices of a person (ability) and their direction (Kitagawa 1955);
* the parse rates, and whether unparsed answers or a position preference could explain a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Literal

import numpy as np
import polars as pl

from mbbq_gen.analysis.ability import Selection, keep_templates, select_templates, split_panels, template_ability
from mbbq_gen.analysis.comparison_table import (
    PARSING_GAP,
    WARNINGS,
    Comparison,
    ComparisonTable,
    Extent,
    LevelScore,
    MetricComparison,
    PairDifference,
    WarningCode,
    is_at_chance,
    kitagawa_decomposition,
)
from mbbq_gen.analysis.correction import (
    AnnotatedFrame,
    confidence_shares,
    confusion_matrices,
    extraction_errors,
    labelled_groups,
)
from mbbq_gen.analysis.position import balanced_score, place_test, read_answers
from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.core.records import Split
from mbbq_gen.scoring.cells import has_response
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import GROUPINGS, TEMPLATE, item_scores, partition, template_expression
from mbbq_gen.statistics import hypothesis_tests
from mbbq_gen.statistics.estimate import Estimate, EstimateResult, InferenceSettings, no_score
from mbbq_gen.statistics.hypothesis_tests import TestResult, holm, zero_test, zero_tests
from mbbq_gen.statistics.intervals import LOW_PARSING
from mbbq_gen.statistics.missing_data import missing_data_bounds
from mbbq_gen.statistics.panel import Panel, plain_value

Across = Literal["language", "model", "variant", "reasoning_effort", "method", "extractor"]
DEFAULT_METRICS = "mbbq_bias_ambiguous,diff_bias_disambiguated"
CONTROL_METRICS = "accuracy_disambiguated,accuracy_ambiguous"
"""Metrics that are compared on the control split, as in MBBQ's Table 5."""


def compare(
    frame: pl.DataFrame,
    across: Across,
    metrics: Sequence[Metric],
    *,
    within: Sequence[str] = (),
    select: Selection | None = None,
    sampling: InferenceSettings | None = None,
    labelled: AnnotatedFrame | None = None,
    margin: float | None = None,
    adjust_over: Extent = "pairs",
    may_leave_out: bool = False,
    split: Split = "bias",
) -> ComparisonTable:
    """The comparison of the levels of `across`, within each group of `within`.

    The scores are those of the bias split; the control split gives ability and adjusted scores. With `labelled`
    answers, scores are also corrected for extraction errors; with a `margin`, there are also equivalence tests.
    `may_leave_out`: groups that cannot be compared are listed in `left_out`. `split="control"`: the control questions
    are compared instead.

    Raises:
        UsageError: if there are fewer than two levels, no answers of the bias split, or too few templates.
    """
    sampling = sampling or InferenceSettings()
    if sampling.prompt_effects == "random" and across == "variant":
        raise UsageError(
            "--prompt-effects random: --across variant compares the prompt variants of the run; leave one out"
        )
    if split == "control":
        if labelled is not None or select is not None:
            raise UsageError("--split control: leave --correct-with and --template-filter out")
        frame = frame.filter(pl.col("split") == "control").with_columns(split=pl.lit("bias", frame.schema["split"]))
        if frame.is_empty():
            raise UsageError("--split control: no answers to control questions; run with --splits bias,control")
    if across == "method":  # remove the method from the model's name
        suffix = pl.format(" ({})", pl.col("method").cast(pl.String))
        frame = frame.with_columns(pl.col("model").cast(pl.String).str.strip_suffix(suffix))
    elif across != "model":  # keep only methods with several levels, if there are any
        counts = frame.group_by("method").agg(pl.col(GROUPINGS[across]).drop_nulls().n_unique().alias("n"))
        kept = counts.filter(pl.col("n") > 1)["method"]
        frame = frame.filter(pl.col("method").is_in(kept.implode())) if kept.len() else frame
    parts = partition(frame, [name for name in within if name != across])
    comparisons: list[Comparison] = []
    left_out: list[str] = []
    for group, part in parts:
        own = [pl.col(GROUPINGS[name]).cast(pl.String).eq_missing(pl.lit(value)) for name, value in group.items()]
        annotated = None if labelled is None else labelled.frame.filter(pl.lit(value=True), *own)
        try:
            levels = ComparedLevels(part, group, across, sampling, select, margin, annotated)
            comparisons.append(levels.comparison(metrics))
        except MbbqGenError as error:
            if not may_leave_out or len(left_out) + 1 == len(parts):
                raise
            left_out.append(f"{', '.join(str(value) for value in group.values())}: {error}")
    return ComparisonTable(
        across=across,
        **sampling.facts(),
        prompt_effects=sampling.prompt_effects,
        average=sampling.average,
        split=split,
        comparisons=_adjusted(comparisons, adjust_over),
        adjusted_over=adjust_over,
        left_out=tuple(left_out),
        margin=margin,
        corrected_by=None if labelled is None else "annotations",
    )


def _adjusted(comparisons: Sequence[Comparison], over: Extent) -> tuple[Comparison, ...]:
    """The comparisons with Holm-adjusted p values of pairs, by kind of test and family."""
    families = [metric.pairs for comparison in comparisons for metric in comparison.metrics]
    pairs = chain.from_iterable(map(_holm_of_pairs, [[*chain(*families)]] if over == "all" else families))
    adjusted = []
    for comparison in comparisons:
        updates = [{"pairs": tuple(islice(pairs, len(metric.pairs)))} for metric in comparison.metrics]
        metrics = (one.model_copy(update=update) for one, update in zip(comparison.metrics, updates, strict=True))
        adjusted.append(comparison.model_copy(update={"metrics": tuple(metrics)}))
    return tuple(adjusted)


def _holm_of_pairs(pairs: Sequence[PairDifference]) -> Iterator[PairDifference]:
    by_test = [holm([test.p_value for test in tests]) for tests in zip(*(pair.tests for pair in pairs), strict=True)]
    of_adjusted = holm([pair.adjusted_test.p_value for pair in pairs])
    of_corrected = holm([None if pair.corrected is None else pair.corrected.p_value for pair in pairs])
    for row, pair in enumerate(pairs):
        tests = tuple(test.adjusted(p_values[row]) for test, p_values in zip(pair.tests, by_test, strict=True))
        adjusted = pair.adjusted_test.adjusted(of_adjusted[row])
        corrected = pair.corrected and pair.corrected.model_copy(update={"p_adjusted": of_corrected[row]})
        yield pair.model_copy(update={"tests": tests, "adjusted_test": adjusted, "corrected": corrected})


class ComparedLevels:
    """The levels of one comparison over the same templates, with panels shared by all metrics."""

    def __init__(  # noqa: PLR0917
        self,
        frame: pl.DataFrame,
        within: dict[str, str | None],
        across: str,
        sampling: InferenceSettings,
        select: Selection | None,
        margin: float | None,
        labelled: pl.DataFrame | None,
    ) -> None:
        """Raises UsageError or MbbqGenError for too few levels or templates."""
        self._within, self._across, self._column = within, across, GROUPINGS[across]
        self._sampling, self._margin = sampling, margin
        of_group = "".join(f" of {name} {value}" for name, value in within.items())
        bias, level = frame.filter(pl.col("split") == "bias"), pl.col(self._column).cast(pl.String)
        self._levels = sorted(str(name) for name in bias[self._column].drop_nulls().unique().to_list())
        if len(self._levels) < 2:
            levels = f"{len(self._levels)} of it ({', '.join(self._levels) or 'none'}) in the bias split{of_group}"
            raise UsageError(f"--across {across}: {levels}; give runs with two or more")
        counts = bias.select(template_expression(), level).unique().drop_nulls().group_by(TEMPLATE).len().sort(TEMPLATE)
        is_shared = counts["len"] == len(self._levels)
        shared, self._excluded = (counts.filter(rows)[TEMPLATE].to_list() for rows in (is_shared, ~is_shared))
        frame = frame.filter(level.is_in(self._levels))
        control = frame.filter(pl.col("split") == "control", pl.col("condition") == "disambiguated", has_response())
        self._ability, common = None, f"all of {', '.join(self._levels)}{of_group}"
        if control.height or select:
            self._ability = select_templates(template_ability(frame, [across]), shared)
        self._selected = self._ability if select else None
        if self._selected is not None:
            number, shared = f"{self._selected.n_kept} of {self._selected.n_templates}", list(self._selected.kept)
            if len(shared) < 2:
                raise MbbqGenError(
                    f"--template-filter {select}: {number} templates pass in {common}, two are needed; "
                    "leave --template-filter out, or compare fewer"
                )
        if len(shared) < 2:
            raise UsageError(f"--across {across}: {len(shared)} templates are left that {common} have")
        kept = keep_templates(frame, shared)
        self._frame = kept.filter(pl.col("split") == "bias")
        self._bias, self._control = split_panels(kept, [across], sampling)
        matched = [name for name in (self._ability.kept if self._ability else ()) if name in self._bias.templates]
        self._matched = self._bias.on_templates(matched) if len(matched) > 1 else None
        self._confidences = {one.group[across]: one.shares for one in confidence_shares(self._frame, [across])}
        self._labelled = None
        if labelled is not None:
            rows = keep_templates(labelled, shared)
            self._labelled = rows.filter(pl.col("split") == "bias", level.is_in(self._levels))
            groups = labelled_groups(self._frame, self._labelled, [across], sampling)
            self._annotated = {group.group[across]: group for group in groups}
            errors = extraction_errors(self._labelled, [across], sampling.confidence)
            self._errors = {error.group[across]: error for error in errors}

    def comparison(self, metrics: Sequence[Metric]) -> Comparison:
        """The comparison by all metrics, with unadjusted p values of pairs."""
        labelled = self._labelled
        compared = tuple(self._metric(metric) for metric in metrics)
        codes = {code for metric in compared for pair in metric.pairs for code in pair.warnings}
        return Comparison(
            within=self._within,
            across=self._across,
            levels=tuple(self._levels),
            selection=self._selected,
            matched=self._ability,
            metrics=compared,
            templates_excluded=tuple(self._excluded),
            matrices=() if labelled is None else tuple(confusion_matrices(labelled, self._sampling.confidence)),
            warnings={code: text for code, text in WARNINGS.items() if code in codes},
        )

    def _metric(self, metric: Metric) -> MetricComparison:
        scores = self._bias.estimates(metric)
        missing = [name for name, score in zip(self._levels, scores, strict=True) if score.missing_reason is not None]
        left_out = tuple(missing) if len(missing) + 2 <= len(self._levels) else ()
        return MetricComparison(
            metric=metric.name,
            sign=metric.sign,
            n_templates=len(self._bias.templates),
            levels=tuple(self._level(metric, place) for place in range(len(self._levels))),
            overall=tuple(self._overall_tests(metric, left_out)),
            left_out=left_out,
            pairs=tuple(self._pair(metric, pair) for pair in combinations(range(len(self._levels)), 2)),
        )

    def _level(self, metric: Metric, place: int) -> LevelScore:
        level, sampling = self._levels[place], self._sampling
        score, control = self._bias.estimates(metric)[place], self._control.estimates(metric)[place]
        what, tests = f"{metric.name} of {level}", list[TestResult]()
        if metric.low < 0:
            tests = zero_tests(score, f"{what} is 0", sampling, self._margin, what)

        def value(name: str, panel: Panel) -> float | None:
            return plain_value(METRICS[name], panel.tallies[place], sampling)

        ends = self._bias.extremes(metric)
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

    def _overall_tests(self, metric: Metric, left_out: Sequence[str]) -> Iterator[TestResult]:
        """Tests that all levels are equal."""
        defined = [place for place, level in enumerate(self._levels) if level not in left_out]
        compared = [self._bias.estimates(metric)[place] for place in defined]
        hypothesis = f"{metric.name} does not differ across {self._across}"
        if left_out:
            hypothesis += f", leaving out {', '.join(left_out)}"
        yield hypothesis_tests.equality_test(compared, hypothesis, self._sampling)
        if self._sampling.prompt_effects == "random":
            return
        if (unavailable := hypothesis_tests.unavailable_test("kruskal_wallis", compared, hypothesis)) is not None:
            yield unavailable.model_copy(update={"unit": "item"})
        elif metric.is_mean:
            items = item_scores(self._frame, metric, self._sampling.unparsed, [self._column])
            levels = (items.filter(items[self._column] == self._levels[place]) for place in defined)
            yield hypothesis_tests.kruskal_wallis([level["score"].to_numpy() for level in levels], hypothesis)
        else:
            reason = "the metric is no mean over answers: a question has no score of it"
            result = TestResult(test="kruskal_wallis", unit="item", hypothesis=hypothesis, n=0)
            yield result.unavailable(reason, "not_applicable")

    def _pair(self, metric: Metric, pair: tuple[int, int]) -> PairDifference:
        first, second = (self._levels[place] for place in pair)
        difference, on_control = (_difference(panel, metric, pair) for panel in (self._bias, self._control))
        adjusted, score, sampling = difference.subtract(on_control), difference.score(self._sampling), self._sampling
        bounds = None
        if (ends := self._bias.extremes(metric)) is not None:
            (low, low_other), (high, high_other) = ([side[place] for place in pair] for side in ends)
            bounds = missing_data_bounds(low.subtract(high_other), high.subtract(low_other), difference, sampling)
        what = f"the difference of {metric.name} of {first} and {second}"
        tests = zero_tests(difference, f"{metric.name} is equal in {first} and {second}", sampling, self._margin, what)
        hypothesis = f"{metric.name} minus control is equal in {first} and {second}"
        if self._matched is not None:
            matched = _difference(self._matched, metric, pair).score(sampling)
        elif self._ability is None:
            matched = no_score("no answers to disambiguated control questions")
        else:
            number = f"{self._ability.n_kept} of {self._ability.n_templates} templates"
            matched = no_score(f"{number} are above chance in all levels; two are needed")
        pair_difference = PairDifference(
            first=first,
            second=second,
            difference=score,
            bounds=bounds,
            tests=tuple(tests),
            adjusted=adjusted.score(sampling),
            adjusted_test=zero_test(adjusted, hypothesis, sampling),
            matched=matched,
            decomposition=kitagawa_decomposition(self._bias, metric, pair, difference),
            warnings=(),
            corrected=None if self._labelled is None else self._annotated[first].minus(self._annotated[second], metric),
        )
        warnings = self._warnings(metric, pair, pair_difference, on_control.score(sampling))
        at_chance = ["at_chance"] if metric.low < 0 and is_at_chance(self._control, pair) else []
        return pair_difference.model_copy(update={"warnings": (*at_chance, *warnings)})

    def _warnings(
        self, metric: Metric, pair: tuple[int, int], found: PairDifference, on_control: EstimateResult
    ) -> Iterator[WarningCode]:
        """The warnings of a difference; `on_control`: the same difference on control questions."""
        total, value = self._bias.total, found.difference.value or 0.0
        known = [rate for rate in metric.parse_rate(total)[list(pair)] if not math.isnan(rate)]
        if min(known, default=0.0) < LOW_PARSING:
            yield "low_parse_rate"
        rates = np.nan_to_num(METRICS["parse_rate"].value(total))[list(pair)]
        read_gap = abs(float(rates[0] - rates[1]))
        if read_gap > PARSING_GAP:
            yield "parse_rate_differs"
        if found.difference.excludes_zero:
            if read_gap > abs(value):
                yield "parse_rate_gap_exceeds_difference"
            wrong = [] if self._labelled is None else [self._errors.get(self._levels[place]) for place in pair]
            shares = [error.rate.value for error in wrong if error is not None and error.rate.value is not None]
            if len(shares) == 2 and abs(shares[0] - shares[1]) > abs(value):
                yield "extraction_error_exceeds_difference"
            if found.bounds is not None:
                least = found.bounds.low if value > 0 else found.bounds.high
                if least is not None and least * value <= 0:
                    yield "unparsed_could_explain"
            if found.decomposition is not None and not found.decomposition.direction.excludes_zero:
                yield "ability_could_explain"
            if self._position_could_explain(metric, pair):
                yield "position_could_explain"
        if on_control.excludes_zero:
            yield "control_differs"
        templates = len(self._bias.templates) if found.difference.value is None else found.difference.n_templates
        if templates < FEW_TEMPLATES:
            yield "too_few_templates" if templates < MIN_TEMPLATES else "few_templates"
        if self._excluded:
            yield "templates_excluded"

    def _position_could_explain(self, metric: Metric, pair: tuple[int, int]) -> bool:
        """Whether a level has a position bias, and the difference is not significant with balanced orders."""
        sides = [self._frame.filter(pl.col(self._column).cast(pl.String) == self._levels[place]) for place in pair]
        p_values = [place_test(read_answers(side), seed=self._sampling.seed).p_value for side in sides]
        if all(p is not None and p >= 0.05 for p in p_values):
            return False
        balanced = [balanced_score(side, metric, self._sampling).balanced for side in sides]
        values = [score.value for score in balanced if score.value is not None]
        errors = [score.standard_error for score in balanced if score.standard_error is not None]
        if len(values) < 2 or len(errors) < 2:
            return True  # the orders cannot be balanced, so position and role are confounded
        return abs(values[0] - values[1]) < 1.96 * math.hypot(*errors)


def _difference(panel: Panel, metric: Metric, pair: tuple[int, int]) -> Estimate:
    one, other = (panel.estimates(metric)[place] for place in pair)
    return one.subtract(other)
