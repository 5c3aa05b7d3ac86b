from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

from mbbq_gen.analysis.agreement import choices, cohen_kappa, fleiss_kappa, flips
from mbbq_gen.analysis.position import balanced_score, place_test, position_reports, read_answers
from mbbq_gen.analysis.power import DEFAULTS, power_table
from mbbq_gen.analysis.robustness import robustness_reports
from mbbq_gen.core.errors import UsageError
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.scoring.tally import weighted_by_design
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.variance_components import variance_components
from tests.support.cases import known
from tests.support.scoring import Row, observations_of
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

SAMPLING = InferenceSettings(n_resamples=300)
AMBIGUOUS = METRICS["mbbq_bias_ambiguous"]
DESIGN = Design(languages=("en", "tr"), templates=30, variants=3, fillings=4, splits=("bias",))


def test_cohens_kappa_by_hand() -> None:
    """Cohen 1960's own kind of table: 88 of 200 + … observed 0.70, expected 0.41."""
    table = np.array([[88.0, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert float(cohen_kappa(table)) == pytest.approx((140 / 200 - 0.41) / (1 - 0.41))
    assert np.isnan(cohen_kappa(np.diag([5.0, 0, 0])))


def test_fleiss_kappa_of_the_published_example() -> None:
    """The fourteen raters of ten subjects that textbooks print: kappa 0.210."""
    counts = np.array(
        [
            [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
        ],
        dtype=float,
    )  # fmt: skip
    equal = (counts * (counts - 1)).sum(axis=1) / (14 * 13)
    sums = np.array([10.0, equal.sum(), *(counts / 14).sum(axis=0)])
    assert float(fleiss_kappa(sums)) == pytest.approx(0.210, abs=5e-4)


def wordings_frame(answers: list[tuple[str, str, str]]) -> pl.DataFrame:
    rows = []
    for number, chosen in enumerate(answers):
        for wording, chose in enumerate(chosen):
            outcome: Any = {"outcome": "unparsed"} if chose == "none" else {"chose": chose}
            (observation,) = observations_of([Row("ambiguous", template=f"t{number // 2}", number=number, **outcome)])
            rows.append(observation._replace(variant=f"v{wording}"))
    return observations_frame(rows)


def test_flips_by_hand() -> None:
    """Pairs of wordings that differ: 0, 2, 3 and 2 of 3 each; 7 of 12."""
    answers = [("target", "target", "target"), ("target", "unknown", "target"), ("target", "unknown", "none")]
    frame = wordings_frame([*answers, ("unknown", "unknown", "target")])
    found = known(flips(choices(frame), "variant", SAMPLING))
    assert (found.n_pairs, found.n_levels, found.n_questions, found.confounded_with) == (12, 3, 4, ())
    assert found.flip_share.value == pytest.approx(7 / 12)
    habits = np.array([7, 4, 1]) / 12
    assert found.flip_share_by_chance == pytest.approx(1 - (habits**2).sum())
    observed = (1 + 1 / 3 + 0 + 1 / 3) / 4
    assert found.kappa.value == pytest.approx((observed - (habits**2).sum()) / (1 - (habits**2).sum()))
    assert flips(choices(frame), "option_order", SAMPLING) is None


def two_way_frame(scores: Any) -> pl.DataFrame:
    roles = {1: "target", 0: "unknown", -1: "non_target"}
    rows = []
    for template, wording in product(range(scores.shape[0]), range(scores.shape[1])):
        chose: Any = roles[int(scores[template, wording])]
        (observation,) = observations_of([Row("ambiguous", chose=chose, template=f"t{template:02d}")])
        rows.append(observation._replace(variant=f"v{wording}"))
    return observations_frame(rows)


def test_a_balanced_design_gives_the_analysis_of_variance() -> None:
    generator = np.random.default_rng(0)
    effects = generator.normal(0, 0.5, (12, 1)) + generator.normal(0, 0.7, 4) + generator.normal(0, 0.5, (12, 4))
    scores = np.clip(np.round(effects), -1, 1)
    table = variance_components(two_way_frame(scores), AMBIGUOUS, SAMPLING)
    found = {component.factor: component.variance for component in table.components}
    rows, columns = scores.shape
    grand, by_row, by_column = scores.mean(), scores.mean(axis=1), scores.mean(axis=0)
    rest = ((scores - by_row[:, None] - by_column[None] + grand) ** 2).sum() / ((rows - 1) * (columns - 1))
    between_rows = columns * ((by_row - grand) ** 2).sum() / (rows - 1)
    between_columns = rows * ((by_column - grand) ** 2).sum() / (columns - 1)
    assert min(between_rows, between_columns) > rest
    assert found["template"] == pytest.approx((between_rows - rest) / columns)
    assert found["variant"] == pytest.approx((between_columns - rest) / rows)
    assert found["template × variant"] == pytest.approx(rest)
    assert table.is_balanced
    assert table.chance is None  # one answer a cell: chance is in the combination of both
    assert (table.n_cells, table.answers_per_cell) == (48, 1)


def test_components_are_found_where_they_were_put() -> None:
    """A lean of sd s gives a score of sd 0.42 · s: (1 − ability) · (1 − unknown)."""
    model = SimulatedModel({"tr": SimulatedLanguage(lean=0.4)}, template_sd=0.4, interaction_sd=0.3, wording_sd=0.0,
                           template_wording_sd=0.0)  # fmt: skip
    frame = simulate(model, replace(DESIGN, templates=120, fillings=8), seed=2)
    table = variance_components(frame, AMBIGUOUS, SAMPLING)
    found = {component.factor: component for component in table.components}
    assert found["template"].sd == pytest.approx(0.42 * 0.4, abs=0.05)
    assert found["template × language"].sd == pytest.approx(0.42 * 0.3, abs=0.05)
    assert found["variant"].sd < 0.04
    assert found["template × variant"].sd < 0.06
    for factor, sd in (("template", 0.42 * 0.4), ("template × language", 0.42 * 0.3)):
        component = found[factor]
        assert known(component.sd_low) < sd < known(component.sd_high)
    assert 0 < known(table.chance).sd < 1


def test_nothing_to_take_apart_is_said() -> None:
    frame = two_way_frame(np.ones((1, 3)))
    with pytest.raises(UsageError, match="fewer than two of template, language, variant"):
        variance_components(frame, AMBIGUOUS, SAMPLING)
    with pytest.raises(UsageError, match="not a mean over answers"):
        variance_components(frame, METRICS["diff_bias_disambiguated"], SAMPLING)


def test_a_report_holds_spread_flips_and_components() -> None:
    model = SimulatedModel({"en": SimulatedLanguage(lean=0.5)}, wording_sd=0.6)
    frame = simulate(model, replace(DESIGN, languages=("en",)), seed=4)
    (report,) = robustness_reports(frame, ["model"], [AMBIGUOUS, METRICS["diff_bias_disambiguated"]], SAMPLING)
    by_wording = next(spread for spread in report.spreads if spread.factor == "variant")
    values = [level.score.value or 0.0 for level in by_wording.levels]
    assert by_wording.sd == pytest.approx(np.std(values, ddof=1))
    assert by_wording.mean.value == pytest.approx(np.mean(values))
    assert (by_wording.lowest, by_wording.highest) == (min(values), max(values))
    assert abs(by_wording.worst or 0) == max(abs(value) for value in values)
    assert known(by_wording.tests[0].p_value) < 0.05
    assert {flip.factor for flip in report.flips} == {"variant", "option_order"}
    assert [table.metric for table in report.components] == ["mbbq_bias_ambiguous"]
    assert "diff_bias_disambiguated" in report.notes[0]


def only_report(model: SimulatedModel, design: Design = DESIGN) -> Any:
    (report,) = position_reports(simulate(model, design, seed=1), [], [AMBIGUOUS], SAMPLING)
    return report


def test_a_liking_for_the_first_place_is_found() -> None:
    report = only_report(SimulatedModel({"en": SimulatedLanguage(first_place=0.2)}))
    assert [place.label for place in report.places] == ["A", "B", "C"]
    assert report.places[0].preference > 0.03
    assert sum(place.preference for place in report.places) == pytest.approx(0)
    assert sum(place.chosen for place in report.places) == report.n_answers
    assert report.test.p_value < 0.01


def answered(seed: int, times: int) -> pl.DataFrame:
    """60 questions in orders dealt by chance, each answered so many times with one and the same role."""
    generator = np.random.default_rng(seed)
    roles, orders = ("target", "non_target", "unknown"), ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    rows = [
        Row(
            "ambiguous",
            chose=roles[generator.integers(3)],  # type: ignore[arg-type]
            template=f"t{number % 6}",
            number=number,
            order=orders[generator.integers(3)],
        )
        for number in range(60)
    ]
    return observations_frame(observations_of([row for row in rows for _ in range(times)]))


def test_repeating_every_answer_adds_nothing_to_the_test_of_places() -> None:
    once, often = (place_test(read_answers(answered(1, times))) for times in (1, 5))
    assert (once.unit, once.n, often.unit, often.n) == ("answer", 60, "question", 60)
    assert often.p_value == pytest.approx(known(once.p_value), abs=0.04)
    assert often.effect == pytest.approx(once.effect)


def test_a_single_order_leaves_nothing_to_test() -> None:
    report = only_report(SimulatedModel({}), replace(DESIGN, is_balanced=False))
    assert report.test.reason == "every kind of question was shown in one order, or got one answer"
    (found,) = report.scores
    assert found.balanced.value is None
    assert "some order of roles is missing" in found.balanced.reason


def test_balancing_orders_by_hand() -> None:
    """A model that always takes the first, and the target first in three of five negative questions: (3 − 1) / 5.

    With the three orders weighing the same, the target is first as often as the other person.
    """
    orders = [(0, 1, 2), (0, 1, 2), (0, 1, 2), (1, 2, 0), (2, 0, 1)]
    roles = ("target", "non_target", "unknown")
    rows = [
        Row("ambiguous", chose=roles[order[0]], template=f"t{copy}", number=number, order=order)  # type: ignore[arg-type]
        for copy in range(3)
        for number, order in enumerate(orders)
    ]
    found = balanced_score(observations_frame(observations_of(rows)), AMBIGUOUS, SAMPLING)
    assert found.plain.value == pytest.approx((3 - 1) / 5)
    assert found.balanced.value == pytest.approx(0)
    assert found.difference.value == pytest.approx(2 / 5)


def test_balanced_orders_weigh_as_the_design_does() -> None:
    """A language asked half as often, every order alike in both: there is nothing to balance, so nothing changes."""
    model = SimulatedModel({"en": SimulatedLanguage(lean=0.8), "tr": SimulatedLanguage(lean=-0.4)})
    whole = simulate(model, Design(templates=12, variants=2, fillings=3, splits=("bias",)), seed=5)
    fewer = whole.filter((pl.col("language") == "en") | (pl.col("variant") == "wording 1"))
    found = balanced_score(weighted_by_design(fewer), AMBIGUOUS, SAMPLING)
    assert found.balanced.value == pytest.approx(found.plain.value)
    naive = balanced_score(fewer, AMBIGUOUS, SAMPLING)
    assert known(naive.plain.value) > known(found.plain.value) + 0.05


def test_power_by_hand() -> None:
    """98 templates of MBBQ count as 38.2; t(0.975) + t(0.8) at 37.2 degrees of freedom is 2.026 + 0.851."""
    table = power_table("mbbq", 98, 5)
    found = {entry.question: entry for entry in table.detectable}["two prompt variants"]
    error = (2 * (DEFAULTS.template_prompt_variant**2 / 38.22 + 0.5 * DEFAULTS.answer**2 / (98 * 51.4))) ** 0.5
    assert found.standard_error == pytest.approx(error)
    assert found.minimum_detectable_effect == pytest.approx(2.877 * error, rel=1e-3)


def test_power_is_that_of_the_simulation() -> None:
    """Of 400 simulated samples of 40 templates, a difference of 0.098 was found in 76 %.

    Persons were named in 0.7 · 0.7 of the answers, the direction's interaction had sd 0.15; 22.8 answers were parsed.
    """
    named = 0.7 * 0.7
    assumed = DEFAULTS.model_copy(
        update={"template_language": named * 0.15, "language_prompt_variant": 0.0, "answer": (named - 0.1**2) ** 0.5}
    )
    table = power_table("mine", 40, 1, questions=22.8, effective_share=1.0, power=0.762, assumptions=assumed)
    found = {entry.question: entry.minimum_detectable_effect for entry in table.detectable}
    assert found["two languages"] == pytest.approx(named * 0.2, rel=0.03)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="mbbq has 98"):
        power_table("mbbq", 200, 5)
    with pytest.raises(UsageError, match="--benchmark jbbq: its templates have not been counted"):
        power_table("jbbq", 20, 5)
    with pytest.raises(UsageError, match="fewer than 5 templates: no interval, no p value; give 5 or more"):
        power_table("starter", 4, 5)
    with pytest.raises(UsageError, match=r"--variants 2: fewer than 3 prompt variants: .* give 3 or more"):
        power_table("starter", 20, 2, prompt_effects="random")


def test_few_questions_and_many_are_dealt_by_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shuffled one by one, or drawn as tables: the same p value, but for the luck of the draw."""
    for seed in range(5):
        answers = read_answers(answered(seed, 3))
        monkeypatch.setattr("mbbq_gen.analysis.position._MAX_SHUFFLED", 1000)
        shuffled = place_test(answers).p_value
        monkeypatch.setattr("mbbq_gen.analysis.position._MAX_SHUFFLED", 0)
        assert place_test(answers).p_value == pytest.approx(shuffled, abs=0.04)
