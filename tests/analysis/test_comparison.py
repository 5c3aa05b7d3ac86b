from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from scipy import stats

from mbbq_gen.analysis.ability import adjusted_scores, select_templates, template_ability
from mbbq_gen.analysis.comparison import Across, compare
from mbbq_gen.analysis.comparison_table import ComparisonTable, PairDifference
from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.cases import known
from tests.support.scoring import Row, observations_of
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

SAMPLING = InferenceSettings(n_resamples=500)
AMBIGUOUS, TOLD = METRICS["mbbq_bias_ambiguous"], METRICS["diff_bias_disambiguated"]
DESIGN = Design(templates=40, variants=2, fillings=4)


def run(design: Design = DESIGN, seed: int = 1, **languages: SimulatedLanguage) -> pl.DataFrame:
    return simulate(SimulatedModel(languages), design, seed)


def only_pair(
    frame: pl.DataFrame, metric: Any = AMBIGUOUS, across: Across = "language", **settings: Any
) -> PairDifference:
    table = compare(frame, across, [metric], sampling=SAMPLING, **settings)
    (comparison,) = table.comparisons
    (found,) = comparison.metrics
    (pair,) = found.pairs
    return pair


def p_of(pair: PairDifference) -> float:
    return known(pair.tests[0].p_value)


@pytest.mark.parametrize("metric", [AMBIGUOUS, TOLD], ids=["ambiguous", "told"])
def test_a_difference_in_bias_is_found(metric: Any) -> None:
    pair = only_pair(run(en=SimulatedLanguage(lean=0.1), tr=SimulatedLanguage(lean=0.7)), metric)
    assert (pair.first, pair.second) == ("en", "tr")
    assert pair.difference.value == pytest.approx(-0.42 * 0.6, abs=0.1)
    assert pair.difference.excludes_zero
    assert pair.adjusted.excludes_zero
    assert pair.matched.excludes_zero
    assert p_of(pair) < 0.01
    assert pair.decomposition is not None
    assert pair.decomposition.direction.excludes_zero
    assert not pair.decomposition.rate.excludes_zero
    assert "ability_could_explain" not in pair.warnings


@pytest.mark.parametrize("metric", [AMBIGUOUS, TOLD], ids=["ambiguous", "told"])
def test_a_difference_in_ability_alone_is_no_difference_in_bias(metric: Any) -> None:
    pair = only_pair(run(en=SimulatedLanguage(ability=0.8), tr=SimulatedLanguage(ability=0.2)), metric)
    assert not pair.difference.excludes_zero
    assert p_of(pair) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("metric", [AMBIGUOUS, TOLD], ids=["ambiguous", "told"])
def test_one_lean_with_different_ability_is_put_down_to_ability(metric: Any) -> None:
    """In six runs: an interval of 95 % misses the truth, that leans do not differ, in about one of twenty."""
    able, unable = SimulatedLanguage(lean=0.5, ability=0.75), SimulatedLanguage(lean=0.5, ability=0.1)
    pairs = [only_pair(run(seed=seed, en=able, tr=unable), metric) for seed in range(6)]
    assert all(pair.difference.excludes_zero for pair in pairs)  # the score does differ: less able, more bias shows
    assert all(pair.decomposition is not None and pair.decomposition.rate.excludes_zero for pair in pairs)
    assert sum(pair.warnings == ("ability_could_explain",) for pair in pairs) >= 5


def test_a_liking_for_the_first_label_in_unbalanced_orders_is_warned_of() -> None:
    """The target always stands first, and only negative questions were asked: the liking looks like a bias."""
    design = replace(DESIGN, is_balanced=False)
    frame = run(design, en=SimulatedLanguage(first_place=0.6), tr=SimulatedLanguage())
    frame = frame.filter(pl.col("polarity") == "negative")
    pair = only_pair(frame)
    assert pair.difference.excludes_zero
    assert "position_could_explain" in pair.warnings
    assert "control_differs" in pair.warnings
    assert not pair.adjusted.excludes_zero  # names in the same places get the same liking


def test_unread_answers_that_could_explain_a_difference_are_warned_of() -> None:
    pair = only_pair(run(en=SimulatedLanguage(lean=0.4, unparsed=0.5), tr=SimulatedLanguage(lean=0.9)))
    expected = {"low_parse_rate", "parse_rate_differs", "parse_rate_gap_exceeds_difference", "unparsed_could_explain"}
    assert set(pair.warnings) == expected | {"at_chance"}


@pytest.mark.parametrize("metric", [AMBIGUOUS, TOLD], ids=["ambiguous", "told"])
def test_the_parts_add_up_to_the_difference(metric: Any) -> None:
    pair = only_pair(
        run(en=SimulatedLanguage(lean=0.3, ability=0.3), tr=SimulatedLanguage(lean=0.6, unknown=0.1)), metric
    )
    found = known(pair.decomposition)
    parts = [found.rate, found.direction, *([found.unknown] if found.unknown else [])]
    assert sum(part.value or 0.0 for part in parts) == pytest.approx(pair.difference.value)
    assert (found.unknown is None) == (metric is AMBIGUOUS)


def test_three_languages_are_compared_in_pairs_with_holm_and_overall() -> None:
    languages = {name: SimulatedLanguage(lean=lean) for name, lean in (("en", 0.0), ("nl", 0.1), ("tr", 0.8))}
    frame = simulate(SimulatedModel(languages), replace(DESIGN, languages=("en", "nl", "tr")), seed=1)
    table = compare(frame, "language", [AMBIGUOUS, TOLD], sampling=SAMPLING)
    (comparison,) = table.comparisons
    assert comparison.levels == ("en", "nl", "tr")
    found = comparison.metrics[0]
    assert [(pair.first, pair.second) for pair in found.pairs] == [("en", "nl"), ("en", "tr"), ("nl", "tr")]
    smallest = min(known(pair.tests[0].p_value) for pair in found.pairs)
    assert min(known(pair.tests[0].p_adjusted) for pair in found.pairs) == pytest.approx(min(1.0, 3 * smallest))
    assert [(test.test, test.unit) for test in found.overall] == [("sign_flip", "template"), ("kruskal_wallis", "item")]
    assert all(test.p_value is not None and test.p_value < 0.05 for test in found.overall)
    assert comparison.metrics[1].overall[1].reason is not None  # accuracy differences have no item scores
    assert ComparisonTable.model_validate_json(table.model_dump_json()) == table


def test_kruskal_wallis_on_items_is_that_of_the_paper() -> None:
    """On one score a question and language: the mean over wordings of +1 biased, −1 counter-biased, 0 unknown."""
    frame = run(en=SimulatedLanguage(lean=0.1), tr=SimulatedLanguage(lean=0.5))
    table = compare(frame, "language", [AMBIGUOUS], sampling=SAMPLING)
    ambiguous = frame.filter((pl.col("split") == "bias") & (pl.col("condition") == "ambiguous"))
    scored = ambiguous.with_columns(score=pl.col("biased").cast(pl.Int8) - pl.col("counter_biased").cast(pl.Int8))
    items = scored.group_by(pl.col("language").cast(pl.String), pl.col("instance_id").cast(pl.String)).agg(
        pl.col("score").mean()
    )
    samples = [part["score"].to_numpy() for part in items.partition_by("language")]
    expected = stats.kruskal(*samples)
    found = table.comparisons[0].metrics[0].overall[1]
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.n == items.height


def test_a_level_without_a_score_is_left_out_of_the_joint_tests() -> None:
    """As where a reader reads nothing: the others can still be compared."""
    design = replace(DESIGN, languages=("en", "es", "tr"))
    unread, leaning = SimulatedLanguage(unparsed=1.0), SimulatedLanguage(lean=0.3)
    frame = run(design, en=SimulatedLanguage(), es=unread, tr=leaning)
    (comparison,) = compare(frame, "language", [AMBIGUOUS], sampling=SAMPLING).comparisons
    (found,) = comparison.metrics
    (without,) = compare(
        frame.filter(pl.col("language") != "es"), "language", [AMBIGUOUS], sampling=SAMPLING
    ).comparisons
    assert found.left_out == ("es",)
    assert [test.p_value for test in found.overall] == [test.p_value for test in without.metrics[0].overall]
    assert all(test.hypothesis.endswith(", leaving out es") for test in found.overall)
    assert without.metrics[0].left_out == ()


def control_rows(right: int, wrong: int, template: str, language: str = "en") -> list[Row]:
    rows = [Row("biased", chose="target", template=template, language=language, number=n) for n in range(right)]
    return rows + [
        Row("biased", chose="unknown", template=template, language=language, number=right + n) for n in range(wrong)
    ]


def control_frame(rows: list[Row]) -> pl.DataFrame:
    return observations_frame(observation._replace(split="control") for observation in observations_of(rows))


def test_ability_by_hand() -> None:
    frame = control_frame([*control_rows(6, 4, "tea"), *control_rows(9, 1, "bus"), *control_rows(3, 7, "inn")])
    found = {ability.template: ability for ability in template_ability(frame, ["language"])}
    tea = found["invented / drinks / tea"]
    assert (tea.accuracy, tea.n_questions, tea.above_chance) == (0.6, 10, True)
    assert not found["invented / drinks / inn"].above_chance


def test_selection_needs_all_languages() -> None:
    """MBBQ §5.2: a template stays if every language is above chance on it."""
    both = [*control_rows(6, 4, "tea"), *control_rows(6, 4, "tea", "tr")]
    either = [*control_rows(9, 1, "bus"), *control_rows(3, 7, "bus", "tr")]
    frame = control_frame([*both, *either, *control_rows(9, 1, "inn")])
    names = [f"invented / drinks / {name}" for name in ("tea", "bus", "inn")]
    plain = select_templates(template_ability(frame, ["language"]), names)
    assert plain.kept == (names[0],)
    assert (plain.n_templates, plain.n_kept, plain.without_control) == (2, 1, (names[2],))
    assert plain.above_chance == (("en", 2), ("tr", 1))


def test_adjusted_scores_are_differences_on_the_templates_of_each_group() -> None:
    frame = run(en=SimulatedLanguage(lean=0.5, artefact=0.2), tr=SimulatedLanguage())
    english, turkish = adjusted_scores(frame, ["language"], [AMBIGUOUS], SAMPLING)
    assert english.adjusted.value == pytest.approx((english.bias.value or 0) - (english.control.value or 0))
    assert english.adjusted.value == pytest.approx(0.42 * 0.5, abs=0.1)
    assert (english.adjusted.excludes_zero, turkish.adjusted.excludes_zero) == (True, False)
    tea, bus = Row("ambiguous", chose="target"), Row("ambiguous", chose="target", language="tr", template="bus")
    control = control_frame([replace(tea, chose="non_target"), replace(bus, language="en")])
    frame = pl.concat([observations_frame(observations_of([tea, bus])), control])
    english, _ = adjusted_scores(frame, ["language"], [AMBIGUOUS], SAMPLING)
    assert (english.bias.value, english.control.value, english.adjusted.value) == (1.0, -1.0, 2.0)  # bus left out


def thin_frame(read: int) -> pl.DataFrame:
    """Three languages over eight templates; in Turkish answers could be read in so many of them."""
    languages = {name: SimulatedLanguage(lean=lean) for name, lean in (("en", 0.9), ("nl", 0.0), ("tr", -0.9))}
    design = Design(languages=("en", "nl", "tr"), templates=8, fillings=8)
    frame = simulate(SimulatedModel(languages), design, seed=4)
    template = pl.col("template_id").cast(pl.String)
    few = sorted(frame["template_id"].cast(pl.String).unique())[:read]
    unread = (pl.col("language").cast(pl.String) == "tr") & ~template.is_in(few)
    said = pl.when(unread).then(pl.lit("unparsed")).otherwise(pl.col("outcome").cast(pl.String))
    return frame.with_columns(outcome=said.cast(frame["outcome"].dtype))


@pytest.mark.parametrize("metric", [AMBIGUOUS, TOLD], ids=["ambiguous", "told"])
def test_a_difference_without_an_interval_has_no_p_value(metric: Any) -> None:
    """English has answers to eight templates, Turkish to four: nothing is said of their difference, but of English."""
    (comparison,) = compare(thin_frame(4), "language", [metric], sampling=SAMPLING, margin=0.5).comparisons
    (found,) = comparison.metrics
    known, thin, _ = found.pairs
    assert (known.second, thin.second) == ("nl", "tr")
    assert (thin.difference.ci_low, thin.difference.n_templates) == (None, 4)
    assert "too_few_templates" in thin.warnings
    tests = [*thin.tests, thin.adjusted_test, *found.levels[2].tests]
    assert {(test.p_value, test.p_adjusted, test.reason_code) for test in tests} == {(None, None, "too_few_templates")}
    assert thin.decomposition is not None
    assert {part.ci_low for part in (thin.decomposition.rate, thin.decomposition.direction)} == {None}
    assert thin.bounds is not None
    assert thin.bounds.low is not None
    assert (thin.bounds.interval_low, thin.bounds.interval_high) == (None, None)
    assert all(test.p_value is not None for test in (*known.tests, known.adjusted_test))
    assert found.left_out == ("tr",)  # tests over all levels are of those that have enough
    assert all(test.p_value is not None for test in found.overall if test.reason_code != "not_applicable")


def test_selection_that_leaves_no_template_says_so() -> None:
    frame = run(en=SimulatedLanguage(ability=0.0, unknown=1.0), tr=SimulatedLanguage(ability=0.0, unknown=1.0))
    with pytest.raises(
        MbbqGenError, match=r"--template-filter above-chance: \d of 40 templates pass in all of en, tr"
    ) as info:
        compare(frame, "language", [AMBIGUOUS], select="above-chance", sampling=SAMPLING)
    assert info.value.exit_code == 1


def test_nothing_but_failures_is_compared_as_nothing() -> None:
    """Control questions were asked, and none has an answer: there is nothing to select by, which nobody asked for."""
    frame = run(Design(templates=8))
    failed = frame.with_columns(outcome=pl.lit("error").cast(frame["outcome"].dtype))
    (comparison,) = compare(failed, "language", [AMBIGUOUS], sampling=SAMPLING).comparisons
    (pair,) = comparison.metrics[0].pairs
    assert (pair.difference.value, pair.difference.reason_code) == (None, "undefined")
    assert {test.p_value for test in (*pair.tests, pair.adjusted_test)} == {None}
    with pytest.raises(UsageError, match="no answers to disambiguated control questions"):
        compare(failed, "language", [AMBIGUOUS], sampling=SAMPLING, select="above-chance")
