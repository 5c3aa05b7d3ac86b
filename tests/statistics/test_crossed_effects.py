from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.comparison import compare
from mbbq_gen.analysis.score_extras import group_tests
from mbbq_gen.analysis.scores import score
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import equality_test, tost, zero_test
from mbbq_gen.statistics.intervals import CrossedEffect, widen_for_prompts
from mbbq_gen.statistics.panel import make_panel
from tests.support.cases import known
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

BIAS = METRICS["mbbq_bias_ambiguous"]
FIXED = InferenceSettings(n_resamples=200)
RANDOM = replace(FIXED, prompt_effects="random")


def simulated(seed: int = 1, *, variants: int = 4, wording_sd: float = 0.4, unparsed: float = 0.0) -> Any:
    language = SimulatedLanguage(lean=0.2, unparsed=unparsed)
    model = SimulatedModel({"en": language, "tr": language}, wording_sd=wording_sd)
    return simulate(model, Design(templates=12, variants=variants), seed=seed)


def crossing_of(scores: Any) -> CrossedEffect:
    return CrossedEffect((scores - scores.mean()) / scores.size, np.full(scores.shape, 1 / scores.size))


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(3, 6), st.integers(5, 12))
def test_what_wordings_add_is_the_analysis_of_variance(seed: int, wordings: int, templates: int) -> None:
    """Of a balanced design: (mean square of wordings − that of the interaction) / number of cells, or 0."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(0, 1, (templates, wordings)) + generator.normal(0, 0.7, (1, wordings))
    of_template, of_wording = scores.mean(axis=1, keepdims=True), scores.mean(axis=0, keepdims=True)
    between = templates * of_wording.var(ddof=1)
    rest = ((scores - of_template - of_wording + scores.mean()) ** 2).sum() / ((templates - 1) * (wordings - 1))
    found = crossing_of(scores)
    assert found.variance == pytest.approx(max(between - rest, 0) / scores.size)
    assert found.count == wordings
    assert found.n_effective == pytest.approx(wordings)


def test_templates_and_wordings_that_are_alike_add_nothing() -> None:
    by_template = crossing_of(np.arange(8.0)[:, None] + np.zeros((8, 4)))
    assert by_template.variance == pytest.approx(0, abs=1e-12)
    by_wording = crossing_of(np.zeros((8, 1)) + np.array([[0.0, 1.0, 2.0]]))
    assert by_wording.variance == pytest.approx(1 / 3)  # the sample variance of 0, 1, 2 is 1, over three wordings
    assert by_wording.half_width(0.95) == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_ends_are_moved_out_but_not_beyond_what_there_can_be() -> None:
    assert widen_for_prompts(0.1, (0.06, 0.14), 0.03, (-1.0, 1.0)) == pytest.approx((0.05, 0.15))
    assert widen_for_prompts(0.9, (0.8, 0.95), 4.0, (-1.0, 1.0)) == (-1.0, 1.0)
    assert widen_for_prompts(0.0, (0.01, 0.02), 0.0, (-1.0, 1.0)) == (
        0.0,
        0.02,
    )  # a skewed interval that misses its value


@pytest.mark.parametrize("seed", range(4))
def test_over_wordings_nothing_is_surer_than_of_the_ones_asked(seed: int) -> None:
    frame = simulated(seed, unparsed=0.1)
    fixed, drawn = (
        score(frame, ["language", "split"], settings=InferenceSettings(0.95, 200, prompt_effects=how))
        for how in ("fixed", "random")
    )
    widened = 0
    for one, other in zip(fixed.groups, drawn.groups, strict=True):
        for name, found in one.metrics.items():
            before, after = found.model_dump(), other.metrics[name].model_dump()
            assert after["value"] == before["value"]
            assert (before["n_prompt_variants"], after["n_prompt_variants"]) == (None, 4)
            if before["ci_low"] is None:
                assert after["ci_low"] is None
                continue
            assert after["ci_low"] <= before["ci_low"]
            assert after["ci_high"] >= before["ci_high"]
            assert after["standard_error"] >= before["standard_error"] - 1e-12
            widened += after["ci_high"] - after["ci_low"] > before["ci_high"] - before["ci_low"] + 1e-9
            if before["equivalence_bound"] is not None:
                assert after["equivalence_bound"] >= before["equivalence_bound"]
            if before["bounds"] is not None and before["bounds"]["interval_low"] is not None:
                assert after["bounds"]["interval_low"] <= before["bounds"]["interval_low"]
                assert after["bounds"]["interval_high"] >= before["bounds"]["interval_high"]
    assert widened > 10


def test_two_wordings_tell_nothing_of_others() -> None:
    frame = simulated(variants=2)
    found = (
        score(frame, ["language"], [BIAS.name], InferenceSettings(0.95, 200, prompt_effects="random"))
        .groups[0]
        .metrics[BIAS.name]
    )
    assert found.value is not None
    assert (found.ci_low, found.standard_error, found.equivalence_bound) == (None, None, None)
    assert found.reason_code == "too_few_prompt_variants"
    assert "too_few_prompt_variants" in found.warnings
    (test,) = group_tests(frame, [], [BIAS], RANDOM, margin=0.5)[0].tests[:1]
    assert (test.test, test.p_value, test.reason_code) == ("interval", None, "too_few_prompt_variants")
    (estimate,) = make_panel(frame, [], RANDOM).estimates(BIAS)
    assert estimate.score(RANDOM).reason_code == "too_few_prompt_variants"
    assert tost(estimate, 0.5, "the score", RANDOM).reason_code == "too_few_prompt_variants"


def test_the_test_and_the_interval_agree() -> None:
    agreed = {True: 0, False: 0}
    for seed in range(12):
        (estimate,) = make_panel(simulated(seed), [], RANDOM).estimates(BIAS)
        found, shown = zero_test(estimate, "h", RANDOM), estimate.score(RANDOM)
        assert (known(found.p_value) < 0.05) == shown.excludes_zero
        assert found.n_prompt_variants == 4
        agreed[shown.excludes_zero] += 1
    assert min(agreed.values()) > 0


def test_what_wordings_share_leaves_a_difference_of_languages() -> None:
    """Effects of wordings are the same in both languages here: scores are unsure of them, their difference is not."""
    one, other = make_panel(simulated(wording_sd=0.8), ["language"], RANDOM).estimates(BIAS)
    gap = one.subtract(other)
    assert known(gap.crossed_effect).variance < known(one.crossed_effect).variance / 5


def test_what_can_not_be_asked_over_wordings_is_refused() -> None:
    with pytest.raises(UsageError, match="--across variant"):
        compare(simulated(), "variant", [BIAS], sampling=RANDOM)
    with pytest.raises(UnknownNameError, match="prompt effects"):
        score(simulated(), settings=InferenceSettings(prompt_effects="all"))  # type: ignore[arg-type]


def test_several_scores_differ_as_their_pairs_do() -> None:
    one, other = make_panel(simulated(), ["language"], RANDOM).estimates(BIAS)
    pair = zero_test(one.subtract(other), "h", RANDOM)
    assert equality_test([one, other], "h", RANDOM).p_value == pair.p_value
    assert equality_test([one, other, other], "h", RANDOM).p_value == pytest.approx(min(1.0, 3 * known(pair.p_value)))
    assert equality_test([one], "h", RANDOM).reason_code == "not_applicable"
