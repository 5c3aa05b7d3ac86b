from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.comparison import compare
from mbbq_gen.analysis.scores import MetricScore, score
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import Observation, observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.missing_data import imbens_manski_margin, missing_data_bounds
from mbbq_gen.statistics.panel import make_panel
from tests.support.cases import known
from tests.support.scoring import Row, observations_of

SAMPLING = InferenceSettings(n_resamples=200)
BIAS = METRICS["mbbq_bias_ambiguous"]


def test_the_interval_holds_the_truth_wherever_it_lies() -> None:
    """Imbens & Manski's promise, with 12 templates: at either end and between them, in 95 % of samples or more."""
    generator, templates, runs, gap = np.random.default_rng(2), 12, 4000, 0.1
    held = np.zeros(3)
    drawn = generator.normal(0, 1, (runs, templates))
    low, error = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / math.sqrt(templates)
    reach = error * [imbens_manski_margin(gap, float(one), templates, 0.95) for one in error]
    below, above = low - reach, low + gap + reach
    for place, truth in enumerate((0.0, gap / 2, gap)):
        held[place] = ((below <= truth) & (truth <= above)).mean()
    assert held.min() >= 0.94
    assert held[0] <= 0.965


def scored(unread: int, templates: int = 12) -> MetricScore:
    rows = [
        Row(
            "ambiguous",
            template=f"t{template:02d}",
            number=number,
            **({"outcome": "unparsed"} if number < unread else {"chose": _choice(template, number)}),  # type: ignore[arg-type]
        )
        for template in range(templates)
        for number in range(10)
    ]
    (group,) = score(observations_frame(observations_of(rows)), settings=InferenceSettings(n_resamples=300)).groups
    return group.metrics["mbbq_bias_ambiguous"]


def _choice(template: int, number: int) -> str:
    return ("target", "non_target", "unknown")[(template * number + number) % 3]


def test_where_all_is_read_the_interval_is_the_scores_own() -> None:
    found = scored(unread=0)
    assert found.bounds is not None
    assert (found.bounds.low, found.bounds.high) == (found.value, found.value)
    assert (found.bounds.interval_low, found.bounds.interval_high) == (found.ci_low, found.ci_high)
    assert found.parse_rate == 1
    assert "low_parse_rate" not in found.warnings


@settings(max_examples=30)
@given(st.integers(0, 9), st.integers(6, 15))
def test_the_panel_says_what_the_scorer_says(unread: int, templates: int) -> None:
    rows = [
        Row(
            "ambiguous",
            template=f"t{template:02d}",
            number=number,
            **({"outcome": "empty"} if number < unread else {"chose": _choice(template, number)}),  # type: ignore[arg-type]
        )
        for template in range(templates)
        for number in range(10)
    ]
    frame = observations_frame(observations_of(rows))
    (group,) = score(frame, metrics=["mbbq_bias_ambiguous"], settings=InferenceSettings(n_resamples=50)).groups
    panel = make_panel(frame, [], replace(SAMPLING, n_resamples=50))
    ends = known(panel.extremes(BIAS))
    found, expected = (
        missing_data_bounds(ends[0][0], ends[1][0], panel.estimates(BIAS)[0], panel.sampling),
        group.metrics[BIAS.name].bounds,
    )
    assert expected is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    if unread:
        assert found.interval_low == pytest.approx(expected.interval_low)
        assert found.interval_high == pytest.approx(expected.interval_high)


def answered(seed: int, templates: int, named: float, read: float) -> list[Observation]:
    """Ambiguous answers in two languages, near the end of the scale: who is named is nearly always the target."""
    generator = np.random.default_rng(seed)
    rows = []
    for language in ("en", "tr"):
        for template, number in product(range(templates), range(8)):
            chose = "target" if generator.random() < named else "non_target" if generator.random() < 0.5 else "unknown"
            said = {"chose": chose} if generator.random() < read else {"outcome": "unparsed"}
            rows.append(Row("ambiguous", template=f"t{template:02d}", number=number, language=language, **said))  # type: ignore[arg-type]
    return observations_of(rows)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([5, 6, 8, 12]),
    st.sampled_from([0.3, 0.9, 0.97, 1.0]),
    st.sampled_from([0.1, 0.6, 0.97, 1.0]),
    st.sampled_from([0.8, 0.95]),
)
def test_the_interval_with_unread_answers_holds_the_plain_one(
    seed: int, templates: int, named: float, read: float, confidence: float
) -> None:
    """Of scores and of their difference, where the room of their sides is needed too."""
    frame = observations_frame(answered(seed, templates, named, read))
    for group in score(
        frame, ["language"], [BIAS.name], settings=InferenceSettings(n_resamples=100, confidence=confidence)
    ).groups:
        found = group.metrics[BIAS.name]
        assert found.bounds is not None
        assert_holds((found.bounds.interval_low, found.bounds.interval_high), (found.ci_low, found.ci_high))
    for level in (confidence, (1 + confidence) / 2):
        sampling = replace(SAMPLING, n_resamples=100, confidence=level)
        table = compare(frame, "language", [BIAS, METRICS["target_preference"]], sampling=sampling)
        for metric in table.comparisons[0].metrics:
            told = [(one.bounds, one.score) for one in metric.levels]
            told += [(pair.bounds, pair.difference) for pair in metric.pairs]
            for bounds, plain in told:
                assert bounds is not None
                assert_holds((bounds.interval_low, bounds.interval_high), (plain.ci_low, plain.ci_high))


def assert_holds(wide: tuple[float | None, float | None], narrow: tuple[float | None, float | None]) -> None:
    """One interval holds the other; there is none of the one where there is none of the other."""
    if None in narrow:
        assert wide == (None, None)
        return
    assert known(wide[0]) <= narrow[0]  # type: ignore[operator]
    assert known(wide[1]) >= narrow[1]  # type: ignore[operator]
