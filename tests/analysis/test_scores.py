from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.score_extras import baseline_scores, group_tests, macro_averages
from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.cells import BASELINES, baseline_matrix
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.scoring.tally import subset
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.scoring import KINDS, Kind, Row, expected_scores, instance_of, observations_of
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

SAMPLING = InferenceSettings(n_resamples=300)
AMBIGUOUS = METRICS["mbbq_bias_ambiguous"]


def test_a_macro_average_is_the_mean_of_the_groups() -> None:
    frame = simulate(SimulatedModel({"en": SimulatedLanguage(lean=0.3)}), Design(splits=("bias",), variants=2), seed=1)
    frame = frame.filter(~((pl.col("category") == "category_1") & (pl.col("language") == "tr")))
    table = score(frame, ["language", "category"], intervals=False)
    for over, levels in (("category", {"en": 4, "tr": 3}), ("variant", {"en": 2, "tr": 2})):
        for average in macro_averages(frame, ["language"], over, [AMBIGUOUS], SAMPLING):
            assert average.n_levels == levels[str(average.group["language"])]
            assert average.score.ci_low is not None
            if over == "category":
                parts = [
                    group.metrics["mbbq_bias_ambiguous"].value or 0.0
                    for group in table.groups
                    if group.group["language"] == average.group["language"]
                ]
                assert average.score.value == pytest.approx(np.mean(parts))


def test_group_tests_hold_the_false_discovery_rate() -> None:
    model = SimulatedModel({"en": SimulatedLanguage(lean=0.6)})
    frame = simulate(model, Design(languages=("en",), splits=("bias",), fillings=6), seed=1)
    found = group_tests(frame, ["category"], [AMBIGUOUS, METRICS["accuracy_ambiguous"]], SAMPLING)
    assert {test.metric for test in found} == {"mbbq_bias_ambiguous"}  # an accuracy of 0 is no hypothesis
    assert len(found) == 4
    raw = [group.tests[0].p_value or 1.0 for group in found]
    adjusted = [group.tests[0].p_adjusted or 0.0 for group in found]
    assert all(p <= q for p, q in zip(raw, adjusted, strict=True))
    assert max(adjusted) == max(raw)
    assert max(adjusted) < 0.05


ROWS = st.builds(
    Row, st.sampled_from(KINDS), st.sampled_from(("negative", "non_negative")), st.none(), number=st.integers(0, 5)
)


@settings(max_examples=60)
@given(st.lists(ROWS, min_size=1, max_size=25))
def test_baselines_score_what_the_oracles_of_that_name_must(rows: list[Row]) -> None:
    frame = observations_frame(observations_of(rows))
    shown = [(instance_of(row), row.order) for row in rows]
    for found in baseline_scores(frame, [], list(METRICS.values()), SAMPLING):
        if found.baseline == "uniform_guessing":
            continue
        for name, value in expected_scores(found.baseline, shown).items():
            expected = None if value is None else pytest.approx(float(value))
            assert found.metrics[name] == expected, (found.baseline, name)


def test_pairs_answered_alike_are_left_out() -> None:
    """Two contexts: in the first both questions got the target, in the second each its own person."""
    rows = [
        Row("biased", "negative", "target", number=1),
        Row("counter_biased", "non_negative", "target", number=1),
        Row("biased", "negative", "target", number=2, template="bus"),
        Row("counter_biased", "non_negative", "non_target", number=2, template="bus"),
        Row("ambiguous", "negative", "target", number=3),
        Row("ambiguous", "non_negative", "target", number=3),
        Row("counter_biased", "negative", "target", number=4),  # no partner
    ]
    frame = observations_frame(observations_of(rows))
    kept = subset(frame, "bharat_pairs")
    assert kept["instance_id"].cast(pl.String).to_list() == [
        "bus-biased-negative-2",
        "bus-counter_biased-non_negative-2",
        "tea-ambiguous-negative-3",
        "tea-ambiguous-non_negative-3",
        "tea-counter_biased-negative-4",
    ]
    assert subset(frame, "all").equals(frame)
    (before,) = score(frame, intervals=False).groups
    (after,) = score(kept, intervals=False).groups
    assert before.metrics["bharat_sbs_disambiguated"].value == pytest.approx(2 / 3)
    assert after.metrics["bharat_sbs_disambiguated"].value == pytest.approx(2 / 2)
    assert before.metrics["bharat_sbs_ambiguous"].value == after.metrics["bharat_sbs_ambiguous"].value


def test_guessing_is_a_third_right_and_unbiased() -> None:
    kinds: tuple[Kind, ...] = ("ambiguous", "biased", "counter_biased", "lone_ambiguous", "lone_disambiguated")
    frame = observations_frame(observations_of([Row(kind) for kind in kinds]))
    found = {scores.baseline: scores.metrics for scores in baseline_scores(frame, [], list(METRICS.values()), SAMPLING)}
    guess = found["uniform_guessing"]
    for name in ("accuracy_ambiguous", "accuracy_disambiguated", "bharat_sbs_ambiguous"):
        assert guess[name] == pytest.approx(1 / 3)
    for name in ("mbbq_bias_ambiguous", "diff_bias_disambiguated", "bbq_s_amb"):
        assert guess[name] == pytest.approx(0)
    for baseline in BASELINES:
        assert baseline_matrix(baseline).sum(axis=1) == pytest.approx(np.ones(30))
