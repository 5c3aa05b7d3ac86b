"""Does a bias differ between languages, models, wordings, ways of asking or extractors, and what could explain it?

For each metric: the score of every level with its interval and its tests against 0; tests over all levels at once;
every pair with its paired difference. Beside each number stands what a reader needs in order not to be misled by it:

* the same score on the control set, and the score with it taken off;
* the difference on the templates that the model can do in all levels (MBBQ §5.2);
* how much of the difference is that the model names a person more often where that is wrong (ability), and how much
  that the persons it wrongly names lean more to the stereotype: bias = naming · lean, so its difference is
  Δnaming · mean lean + mean naming · Δlean (Kitagawa 1955);
* how many answers could be read, and whether those that could not, or a liking for a place, could explain a difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

from mbbq_gen.errors import MbbqGenError, UsageError
from mbbq_gen.records import Condition
from mbbq_gen.scoring.cells import Counts, count_matrix, scenario_matrix
from mbbq_gen.scoring.metrics import METRICS, Fraction, Metric
from mbbq_gen.scoring.missing import LOW_DETECTION
from mbbq_gen.scoring.reasons import FEW_TEMPLATES, MIN_TEMPLATES
from mbbq_gen.scoring.tally import grouping_columns
from mbbq_gen.statistics.ability import (
    Selection,
    TemplateSelection,
    keep_templates,
    select_templates,
    split_panels,
    template_ability,
)
from mbbq_gen.statistics.agreement import PairAgreement, choices, pair_agreement
from mbbq_gen.statistics.comparison_table import (
    DETECTION_GAP,
    WARNINGS,
    Comparison,
    ComparisonTable,
    LevelScore,
    MetricComparison,
    PairDifference,
    Parts,
    WarningCode,
)
from mbbq_gen.statistics.corrected_scores import (
    confidence_shares,
    confusion_matrices,
    corrected_difference,
    corrected_metric,
    labelled_groups,
    reading_errors,
)
from mbbq_gen.statistics.correction_table import ConfusionMatrix, CorrectedDifference, CorrectedScore
from mbbq_gen.statistics.crossed import crossed, crossed_groups
from mbbq_gen.statistics.equivalence import smaller_than
from mbbq_gen.statistics.family import Family, adjusted_over_all
from mbbq_gen.statistics.items import TEMPLATE, item_scores, template_expression
from mbbq_gen.statistics.panel import (
    Estimate,
    EstimateScore,
    Panel,
    Sampling,
    contributions,
    no_score,
    number,
    shares,
    smooth,
)
from mbbq_gen.statistics.position import balanced_score, place_test, read_answers
from mbbq_gen.statistics.reading_flags import flags_of, gap
from mbbq_gen.statistics.significance import (
    TestResult,
    friedman,
    holm,
    kruskal_wallis,
    sign_flip,
    sign_flip_groups,
    too_few,
    untestable,
    wilcoxon,
)
from mbbq_gen.statistics.unread import TippingPoint, UnreadBounds, UnreadPanels, share_read, unread_bounds

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array
    from mbbq_gen.statistics.labelled import LabelledFrame

Across = Literal["language", "model", "variant", "thinking", "method", "extractor"]
ACROSS: tuple[Across, ...] = get_args(Across)
DEFAULT_METRICS = ("mbbq_bias_ambiguous", "diff_bias_disambiguated")


# --- bias = naming · lean --------------------------------------------------------------------------------------------


def _rate(name: str, *fractions: Fraction, combine: Callable[..., Any] | None = None) -> Metric:
    """A metric that is only ever a part of another."""
    metric = Metric(name, name, "", "BBQ §5", "", "", low=-1, high=1, fractions=fractions)
    return metric if combine is None else replace(metric, combine=combine)


_MISLED = Fraction("counter_biased_contexts_biased", "counter_biased_contexts_base")
"""Where the truth goes against the stereotype: how often the stereotype is answered."""
_CONTRARY = Fraction("disambiguated_counter_biased", "biased_contexts_base", minus="counter_biased_contexts_correct")
"""Where the truth fits the stereotype: how often the other person is answered."""


@dataclass(frozen=True)
class Factors:
    """How a bias is a product: how often a person is wrongly named, times how one-sidedly."""

    naming: Metric
    lean: Metric
    """(Biased − counter-biased) / both, of the persons wrongly named."""


def _one_sided(misled: Array, contrary: Array) -> Array:
    import numpy as np

    both = misled + contrary
    found: Array = np.divide(misled - contrary, both, out=np.full(np.shape(both), np.nan), where=np.asarray(both > 0))
    return found


AMBIGUOUS_FACTORS = Factors(
    naming=_rate("naming", Fraction("ambiguous_persons", "ambiguous_base")),
    lean=_rate("lean", Fraction("ambiguous_biased", "ambiguous_persons", minus="ambiguous_counter_biased")),
)
DISAMBIGUATED_FACTORS = Factors(
    naming=_rate("naming", _MISLED, _CONTRARY, combine=lambda misled, contrary: misled + contrary),
    lean=_rate("lean", _MISLED, _CONTRARY, combine=_one_sided),
)
FACTORS = {
    "mbbq_bias_ambiguous": AMBIGUOUS_FACTORS,
    "diff_bias_ambiguous": AMBIGUOUS_FACTORS,
    "diff_bias_disambiguated": DISAMBIGUATED_FACTORS,
}
"""Metric → its factors. In disambiguated contexts a third part is left over: "unknown" in one kind of context more."""


# --- comparing -------------------------------------------------------------------------------------------------------


def compare(
    frame: polars.DataFrame,
    across: Across,
    metrics: Sequence[Metric],
    *,
    within: Sequence[str] = (),
    select: Selection | None = None,
    sampling: Sampling | None = None,
    labelled: LabelledFrame | None = None,
    margin: float | None = None,
    family: Family | None = None,
    may_leave_out: bool = False,
) -> ComparisonTable:
    """The levels of `across` against each other, within each group of `within`.

    Bias is measured on the bias split; the control split, where it is there, tells ability and is taken off. With
    labelled answers, scores and differences are also given with the errors of reading taken off; with a margin, it is
    also tested whether they are smaller than it. `may_leave_out`: groups that can't be compared are left out and named.

    Raises:
        UsageError: where there are fewer than two levels, no answers of the bias split, or templates to select from.
    """
    import polars as pl

    sampling, family = sampling or Sampling(), family or Family()
    if sampling.wordings == "random" and across == "variant":
        raise UsageError("--wordings random: --across variant compares the wordings that were asked; leave one out")
    if sampling.wordings == "random" and labelled is not None:
        raise UsageError("--wordings random: corrected scores hold wordings fixed; leave --corrected-by out")
    frame = _comparable(frame, across)
    columns = grouping_columns([name for name in within if name != across])
    keyed = frame.with_columns(pl.col(column).cast(pl.String) for column in columns.values())
    parts = keyed.partition_by(list(columns.values()), as_dict=True) if columns else {(): keyed}
    ordered = sorted(parts.items(), key=lambda item: [(value is None, str(value)) for value in item[0]])
    differences = len(metrics) * sum(_count_pairs(part, across) for _, part in ordered)
    found: list[Comparison] = []
    left_out: list[str] = []
    for values, part in ordered:
        inside = dict(zip(columns, values, strict=True))
        wide = family.sampling(sampling, _count_pairs(part, across), differences)
        told = None if labelled is None else _within(labelled.frame, inside)
        try:
            how = _How(sampling, wide, margin, select)
            found.append(_compare_group(part, inside, across, metrics, how=how, labelled=told))
        except MbbqGenError as error:
            if not may_leave_out or (len(left_out) + 1 == len(ordered)):
                raise
            left_out.append(f"{', '.join(str(value) for value in values)}: {error}")
    return ComparisonTable(
        across=across,
        interval=sampling.confidence,
        resamples=sampling.resamples,
        seed=sampling.seed,
        undetected=sampling.undetected,
        wordings=sampling.wordings,
        comparisons=tuple(found if family.extent == "pairs" else adjusted_over_all(found)),
        adjusted_over=family.extent,
        simultaneous=family.simultaneous,
        left_out=tuple(left_out),
        margin=margin,
        corrected_by=None if labelled is None else labelled.source,
    )


@dataclass(frozen=True)
class _How:
    """How everything is compared."""

    sampling: Sampling
    wide: Sampling
    """Of differences: wider where several must hold at once."""
    margin: float | None
    """What scores and differences are tested to be smaller than."""
    select: Selection | None


def _count_pairs(frame: polars.DataFrame, across: Across) -> int:
    """How many pairs of levels the bias split of a group has."""
    import polars as pl

    column = grouping_columns([across])[across]
    return math.comb(frame.filter(pl.col("split") == "bias")[column].drop_nulls().n_unique(), 2)


def _comparable(frame: polars.DataFrame, across: Across) -> polars.DataFrame:
    """The answers that can be compared: those of the ways of asking that have several levels, where any have.

    Across ways of asking, a model is one whatever way it was asked.
    """
    import polars as pl

    if across == "method":
        way = pl.format(" ({})", pl.col("method").cast(pl.String))
        return frame.with_columns(pl.col("model").cast(pl.String).str.strip_suffix(way))
    if across == "model":
        return frame
    (column,) = grouping_columns([across]).values()
    counts = frame.group_by("method").agg(pl.col(column).drop_nulls().n_unique())
    kept = counts.filter(pl.col(column) > 1)["method"]
    return frame.filter(pl.col("method").is_in(kept.implode())) if kept.len() else frame


def _within(frame: polars.DataFrame, inside: dict[str, str | None]) -> polars.DataFrame:
    """The rows of one group of groupings."""
    import polars as pl

    for name, column in grouping_columns(list(inside)).items():
        frame = frame.filter(pl.col(column).cast(pl.String).eq_missing(pl.lit(inside[name])))
    return frame


def _compare_group(
    frame: polars.DataFrame,
    within: dict[str, str | None],
    across: Across,
    metrics: Sequence[Metric],
    *,
    how: _How,
    labelled: polars.DataFrame | None,
) -> Comparison:
    import polars as pl

    select, sampling = how.select, how.sampling

    column = grouping_columns([across])[across]
    bias = frame.filter(pl.col("split") == "bias")
    levels = sorted(str(level) for level in bias[column].drop_nulls().unique().to_list())
    inside = "".join(f" of {name} {value}" for name, value in within.items())
    if len(levels) < 2:
        found = f"{len(levels)} of it ({', '.join(levels) or 'none'}) in the bias split{inside}"
        raise UsageError(f"--across {across}: {found}; give runs with two or more")
    frame = frame.filter(pl.col(column).cast(pl.String).is_in(levels))
    shared, left_out = _shared_templates(bias, column, levels)
    matched = _selection(frame, across, shared, select or "above-chance") if _has_control(frame) or select else None
    if select and matched:
        shared = list(matched.kept)
    if len(shared) < 2:
        common = f"all of {', '.join(levels)}{inside}"
        if select and matched:
            raise MbbqGenError(
                f"--select {select}: {matched.n_kept} of {matched.n_templates} templates pass in {common}, "
                "two are needed; leave --select out, or compare fewer"
            )
        raise UsageError(f"--across {across}: {len(shared)} templates are left that {common} have")
    kept = keep_templates(frame, shared)
    corrector = (
        None if labelled is None else _Corrector(kept, keep_templates(labelled, shared), across, levels, sampling)
    )
    workbench = _Workbench(kept, across, levels, matched, how, corrector=corrector)
    compared = tuple(workbench.compare(metric, is_cut=bool(left_out)) for metric in metrics)
    codes = [code for metric in compared for pair in metric.pairs for code in pair.warnings]
    return Comparison(
        within=within,
        across=across,
        levels=tuple(levels),
        selection=matched if select else None,
        matched=matched,
        metrics=compared,
        agreement=tuple(workbench.agreements()),
        templates_left_out=tuple(left_out),
        matrices=corrector.matrices() if corrector else (),
        warnings={code: text for code, text in WARNINGS.items() if code in codes},
    )


def _has_control(frame: polars.DataFrame) -> bool:
    import polars as pl

    return bool(frame.filter((pl.col("split") == "control") & (pl.col("condition") == "disambiguated")).height)


def _selection(frame: polars.DataFrame, across: Across, shared: Sequence[str], kind: Selection) -> TemplateSelection:
    return select_templates(template_ability(frame, [across]), shared, kind)


def _shared_templates(bias: polars.DataFrame, column: str, levels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Templates that every level has answers to, and the others."""
    import polars as pl

    seen = bias.select(template_expression(), pl.col(column).cast(pl.String)).unique().drop_nulls()
    counted = seen.group_by(TEMPLATE).len().sort(TEMPLATE)
    is_shared = counted["len"] == len(levels)
    return counted.filter(is_shared)[TEMPLATE].to_list(), counted.filter(~is_shared)[TEMPLATE].to_list()


class _Corrector:
    """Scores and differences of the levels with the errors of reading taken off, on the bias split."""

    def __init__(
        self,
        frame: polars.DataFrame,
        labelled: polars.DataFrame,
        across: Across,
        levels: Sequence[str],
        sampling: Sampling,
    ) -> None:
        import polars as pl

        column = grouping_columns([across])[across]
        told = labelled.filter((pl.col("split") == "bias") & pl.col(column).cast(pl.String).is_in(list(levels)))
        groups = labelled_groups(frame.filter(pl.col("split") == "bias"), told, [across], sampling)
        by_level = {group.group[across]: group for group in groups}
        errors = {found.group[across]: found for found in reading_errors(told, [across], sampling.confidence)}
        self._groups = [by_level[level] for level in levels]
        self.errors = [errors.get(level) for level in levels]
        """How often answers of each level are read wrong; None for one without labels."""
        self._told, self._sampling = told, sampling

    def score(self, metric: Metric, place: int) -> CorrectedScore:
        """The corrected score of a level."""
        return corrected_metric(self._groups[place], metric, self._sampling)

    def difference(self, metric: Metric, pair: tuple[int, int]) -> CorrectedDifference:
        """The corrected difference of two levels."""
        return corrected_difference(self._groups[pair[0]], self._groups[pair[1]], metric, self._sampling)

    def error_gap(self, pair: tuple[int, int]) -> float | None:
        """How much more often answers of the first level are read wrong; None where that is not known."""
        first, second = (error.rate.value if (error := self.errors[place]) else None for place in pair)
        return gap(first, second)

    def matrices(self) -> tuple[ConfusionMatrix, ...]:
        """What answers say by how they are read."""
        return tuple(confusion_matrices(self._told, self._sampling.confidence)) if self._told.height else ()


class _Workbench:
    """The panels of one comparison, made once for all its metrics."""

    def __init__(
        self,
        frame: polars.DataFrame,
        across: Across,
        levels: Sequence[str],
        matched: TemplateSelection | None,
        how: _How,
        *,
        corrector: _Corrector | None,
    ) -> None:
        import polars as pl

        sampling = how.sampling
        self._corrector, self._margin, self._wide = corrector, how.margin, how.wide
        self._is_crossed = sampling.wordings == "random"
        self._column, self._levels, self._sampling = grouping_columns([across])[across], list(levels), sampling
        self._bias_frame = frame.filter(pl.col("split") == "bias")
        self._across = across
        self._bias, self._control = split_panels(frame, [across], sampling)
        kept = [name for name in (matched.kept if matched else ()) if name in set(self._bias.templates)]
        self._matched = self._bias.restricted(kept) if len(kept) > 1 else None
        self._unread = UnreadPanels(self._bias)
        self._why_unmatched = _why_unmatched(matched)
        self._confidences = {
            found.group[across]: found.shares for found in confidence_shares(self._bias_frame, [across])
        }

    def compare(self, metric: Metric, *, is_cut: bool) -> MetricComparison:
        """One metric over all levels."""
        scores, controls = self._bias.estimates(metric), self._control.estimates(metric)
        pairs = self._pairs(metric, scores, controls, is_cut=is_cut)
        return MetricComparison(
            metric=metric.name,
            sign=metric.sign,
            n_templates=len(self._bias.templates),
            levels=tuple(self._level(metric, place, scores, controls) for place in range(len(self._levels))),
            overall=tuple(self._overall(metric, scores)),
            left_out=self._left_out(scores),
            pairs=tuple(pairs),
        )

    def agreements(self) -> Iterable[PairAgreement]:
        """How far the levels choose the same roles."""
        answers = choices(self._bias_frame)
        conditions: tuple[Condition, ...] = ("ambiguous", "disambiguated")
        for pair in combinations(self._levels, 2):
            for condition in conditions:
                yield pair_agreement(answers, self._column, pair, condition, self._sampling)

    # --- one level ---

    def _level(
        self, metric: Metric, place: int, scores: Sequence[Estimate], controls: Sequence[Estimate]
    ) -> LevelScore:
        return LevelScore(
            level=self._levels[place],
            n_items=sum(self._bias.tallies[place].outcomes.values()),
            detection_rate=self._plain("detection_rate", self._bias, place),
            accuracy=self._plain(f"accuracy_{metric.condition or 'ambiguous'}", self._bias, place),
            control_accuracy=self._plain("accuracy_disambiguated", self._control, place),
            score=scores[place].score(self._sampling),
            control=controls[place].score(self._sampling),
            adjusted=scores[place].minus(controls[place]).score(self._sampling),
            bounds=self._bounds(metric, place),
            tests=tuple(self._against_zero(metric, place, scores[place])),
            confidences=self._confidences.get(self._levels[place], {}),
            corrected=self._corrector.score(metric, place) if self._corrector else None,
            reading_error=self._corrector.errors[place] if self._corrector else None,
        )

    def _bounds(self, metric: Metric, place: int) -> UnreadBounds | None:
        ends = self._unread.ends(metric)
        return None if ends is None else unread_bounds(ends[0][place], ends[1][place], self._sampling)

    def _pair_bounds(self, metric: Metric, pair: tuple[int, int]) -> UnreadBounds | None:
        ends = self._unread.ends(metric)
        if ends is None:
            return None
        (low, high), (one, other) = ends, pair
        return unread_bounds(low[one].minus(high[other]), high[one].minus(low[other]), self._sampling)

    def _tipping_point(self, metric: Metric, pair: tuple[int, int], found: EstimateScore) -> TippingPoint | None:
        if not excludes_zero(found):
            return None
        return self._unread.tipping_point(metric, pair, first_is_higher=(found.value or 0.0) > 0)

    def _plain(self, name: str, panel: Panel, place: int) -> float | None:
        return number(float(METRICS[name].value(panel.total)[place]))

    def _against_zero(self, metric: Metric, place: int, score: Estimate) -> Iterable[TestResult]:
        if metric.low >= 0:
            return
        hypothesis = f"{metric.name} of {self._levels[place]} is 0"
        if self._is_crossed:
            yield crossed(score, hypothesis, seed=self._sampling.seed)
        else:
            yield sign_flip(contributions(score), hypothesis, seed=self._sampling.seed)
            yield wilcoxon(self._bias.template_scores(metric)[place], f"{hypothesis} in the middle of the templates")
        if self._margin is not None:
            what = f"{metric.name} of {self._levels[place]}"
            yield smaller_than(score, self._margin, what, self._sampling)

    # --- all levels ---

    def _left_out(self, scores: Sequence[Estimate]) -> tuple[str, ...]:
        """Levels without a score, where at least two have one."""
        found = [level for level, score in zip(self._levels, scores, strict=True) if math.isnan(score.value)]
        return tuple(found) if len(found) + 2 <= len(self._levels) else ()

    def _overall(self, metric: Metric, scores: Sequence[Estimate]) -> Iterable[TestResult]:
        left_out = self._left_out(scores)
        defined = [place for place, level in enumerate(self._levels) if level not in left_out]
        hypothesis = f"{metric.name} does not differ across {self._across}"
        if left_out:
            hypothesis += f", leaving out {', '.join(left_out)}"
        if self._is_crossed:
            yield crossed_groups([scores[place] for place in defined], hypothesis, seed=self._sampling.seed)
            return
        by_template = self._bias.template_scores(metric)[defined]
        yield sign_flip_groups(shares([scores[place] for place in defined]), hypothesis, seed=self._sampling.seed)
        yield friedman(by_template.T, hypothesis)
        yield kruskal_wallis(list(by_template), hypothesis, "template")
        if (nothing := too_few("kruskal_wallis", "template", hypothesis, by_template.shape[1])) is not None:
            yield nothing.model_copy(update={"unit": "item"})
        elif metric.is_mean:
            yield kruskal_wallis(self._items(metric, defined), hypothesis, "item")
        else:
            reason = "the metric is no mean over answers: a question has no score of it"
            yield untestable("kruskal_wallis", "item", hypothesis, 0, reason, "not_applicable")

    def _items(self, metric: Metric, places: Sequence[int]) -> list[Array]:
        items = item_scores(self._bias_frame, metric, self._sampling.undetected, [self._column])
        return [items.filter(items[self._column] == self._levels[place])["score"].to_numpy() for place in places]

    # --- pairs ---

    def _pairs(
        self, metric: Metric, scores: Sequence[Estimate], controls: Sequence[Estimate], *, is_cut: bool
    ) -> list[PairDifference]:
        found = [
            self._pair(metric, pair, scores, controls, is_cut=is_cut)
            for pair in combinations(range(len(self._levels)), 2)
        ]
        adjusted = [holm([pair.tests[number].p_value for pair in found]) for number in range(len(found[0].tests))]
        again = holm([pair.adjusted_test.p_value for pair in found])
        corrected = holm([pair.corrected.p_value if pair.corrected else None for pair in found])
        return [
            pair.model_copy(
                update={
                    "tests": tuple(_holmed(test, adjusted[number][row]) for number, test in enumerate(pair.tests)),
                    "adjusted_test": _holmed(pair.adjusted_test, again[row]),
                    "corrected": pair.corrected and pair.corrected.model_copy(update={"p_adjusted": corrected[row]}),
                }
            )
            for row, pair in enumerate(found)
        ]

    def _pair(
        self,
        metric: Metric,
        pair: tuple[int, int],
        scores: Sequence[Estimate],
        controls: Sequence[Estimate],
        *,
        is_cut: bool,
    ) -> PairDifference:
        one, other = pair
        difference = scores[one].minus(scores[other])
        controlled = controls[one].minus(controls[other])
        adjusted = difference.minus(controlled)
        parts = self._parts(metric, pair, difference)
        found = difference.score(self._wide)
        names = (self._levels[one], self._levels[other])
        return PairDifference(
            first=names[0],
            second=names[1],
            difference=found,
            bounds=self._pair_bounds(metric, pair),
            tipping_point=self._tipping_point(metric, pair, found),
            tests=tuple(self._pair_tests(metric, pair, scores, difference)),
            adjusted=adjusted.score(self._wide),
            adjusted_test=self._adjusted_test(metric, names, adjusted),
            matched=self._matched_difference(metric, pair),
            parts=parts,
            warnings=tuple(self._warnings(metric, pair, found, controlled, parts, is_cut=is_cut)),
            corrected=self._corrector.difference(metric, pair) if self._corrector else None,
        )

    def _pair_tests(
        self, metric: Metric, pair: tuple[int, int], scores: Sequence[Estimate], difference: Estimate
    ) -> Iterable[TestResult]:
        one, other = pair
        hypothesis = f"{metric.name} is equal in {self._levels[one]} and {self._levels[other]}"
        if self._is_crossed:
            yield crossed(difference, hypothesis, seed=self._sampling.seed)
        else:
            flipped = sign_flip_groups(shares([scores[one], scores[other]]), hypothesis, seed=self._sampling.seed)
            spread = difference.error * difference.effective**0.5
            effect = number(difference.value / spread) if spread > 0 else None
            yield flipped.model_copy(update={"effect": effect, "effect_name": "d_z"})
            by_template = self._bias.template_scores(metric)
            yield wilcoxon(by_template[one] - by_template[other], f"{hypothesis} in the middle of the templates")
        if self._margin is not None:
            what = f"the difference of {metric.name} of {self._levels[one]} and {self._levels[other]}"
            yield smaller_than(difference, self._margin, what, self._sampling)

    def _matched_difference(self, metric: Metric, pair: tuple[int, int]) -> EstimateScore:
        if self._matched is None:
            return no_score(self._why_unmatched)
        scores = self._matched.estimates(metric)
        return scores[pair[0]].minus(scores[pair[1]]).score(self._wide)

    def _adjusted_test(self, metric: Metric, names: tuple[str, str], adjusted: Estimate) -> TestResult:
        hypothesis = f"{metric.name} minus control is equal in {names[0]} and {names[1]}"
        if self._is_crossed:
            return crossed(adjusted, hypothesis, seed=self._sampling.seed)
        return sign_flip(contributions(adjusted), hypothesis, seed=self._sampling.seed)

    def _parts(self, metric: Metric, pair: tuple[int, int], difference: Estimate) -> Parts | None:
        """Kitagawa's parts of the difference, and what is left; None where the metric is no product."""
        if metric.name not in FACTORS:
            return None
        factors = FACTORS[metric.name]
        naming = [self._bias.estimates(factors.naming)[place] for place in pair]
        lean = [self._bias.estimates(factors.lean)[place] for place in pair]
        by_naming, by_lean = kitagawa(naming, lean)
        rest = difference.minus(by_naming).minus(by_lean)
        return Parts(
            naming=by_naming.score(self._sampling),
            lean=by_lean.score(self._sampling),
            unknown=None if factors is AMBIGUOUS_FACTORS else rest.score(self._sampling),
        )

    # --- warnings ---

    def _warnings(
        self,
        metric: Metric,
        pair: tuple[int, int],
        found: EstimateScore,
        controlled: Estimate,
        parts: Parts | None,
        *,
        is_cut: bool,
    ) -> Iterable[WarningCode]:
        if (share_read(self._bias, metric, pair) or 0.0) < LOW_DETECTION:
            yield "low_detection"
        rates = [self._plain("detection_rate", self._bias, place) for place in pair]
        if abs((rates[0] or 0.0) - (rates[1] or 0.0)) > DETECTION_GAP:
            yield "detection_differs"
        read_gap = gap(*rates) or 0.0
        yield from flags_of(found, read_gap, self._corrector.error_gap(pair) if self._corrector else None)
        is_found = excludes_zero(found)
        if is_found and self._undetected_could_explain(metric, pair, found):
            yield "undetected_could_explain"
        if is_found and parts is not None and not excludes_zero(parts.lean):
            yield "ability_could_explain"
        if is_found and self._position_could_explain(metric, pair):
            yield "position_could_explain"
        if excludes_zero(controlled.score(self._sampling)):
            yield "control_differs"
        if len(self._bias.templates) < MIN_TEMPLATES:
            yield "too_few_templates"
        elif len(self._bias.templates) < FEW_TEMPLATES:
            yield "few_templates"
        if is_cut:
            yield "templates_left_out"

    def _undetected_could_explain(self, metric: Metric, pair: tuple[int, int], found: EstimateScore) -> bool:
        """Whether the difference loses its sign if unread answers had been most against it."""
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
        import polars as pl

        halves = [
            self._bias_frame.filter(pl.col(self._column).cast(pl.String) == self._levels[place]) for place in pair
        ]
        p_values = [place_test(read_answers(half), seed=self._sampling.seed).p_value for half in halves]
        if all(p is not None and p >= 0.05 for p in p_values):
            return False
        balanced = [balanced_score(half, metric, self._sampling).balanced for half in halves]
        values = [score.value for score in balanced if score.value is not None]
        errors = [score.standard_error for score in balanced if score.standard_error is not None]
        if len(values) < 2 or len(errors) < 2:
            return True  # orders that can't be balanced: the design itself puts some role in some place
        return abs(values[0] - values[1]) < 1.96 * math.hypot(*errors)


def _why_unmatched(matched: TemplateSelection | None) -> str:
    if matched is None:
        return "no answers to disambiguated control questions"
    return f"{matched.n_kept} of {matched.n_templates} templates are above chance in all levels; two are needed"


def kitagawa(naming: Sequence[Estimate], lean: Sequence[Estimate]) -> tuple[Estimate, Estimate]:
    """How much of naming₁ · lean₁ − naming₂ · lean₂ is due to naming, and how much to lean."""
    four = [*naming, *lean]
    gap_naming, gap_lean = naming[0].value - naming[1].value, lean[0].value - lean[1].value
    mean_naming, mean_lean = (naming[0].value + naming[1].value) / 2, (lean[0].value + lean[1].value) / 2
    by_naming = smooth(
        four,
        lambda n1, n2, l1, l2: (n1 - n2) * (l1 + l2) / 2,
        (mean_lean, -mean_lean, gap_naming / 2, gap_naming / 2),
    )
    by_lean = smooth(
        four,
        lambda n1, n2, l1, l2: (n1 + n2) / 2 * (l1 - l2),
        (gap_lean / 2, gap_lean / 2, mean_naming, -mean_naming),
    )
    return by_naming, by_lean


def excludes_zero(score: EstimateScore) -> bool:
    """Whether the interval lies on one side of 0."""
    return score.low is not None and score.high is not None and (score.low > 0 or score.high < 0)


def _holmed(test: TestResult, p_adjusted: float | None) -> TestResult:
    return test.model_copy(update={"p_adjusted": p_adjusted, "adjustment": "holm"})
