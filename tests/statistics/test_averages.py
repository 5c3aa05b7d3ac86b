from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.cells import CELLS, Choice, Context
from mbbq_gen.scoring.codes import Average
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.panel import Panel
from mbbq_gen.statistics.sequential import ErrorSpending, Interval, median_unbiased
from tests.support.cases import cases
from tests.support.scoring import Row, observations_of

AVERAGES: tuple[Average, ...] = get_args(Average)
FILE = "statistics/averages.toml"
BIAS, ACCURACY = METRICS["mbbq_bias_ambiguous"], METRICS["accuracy_ambiguous"]
SIZES = (240, 168, 100, 64, 48, 36, 36, 24, 24, 16, 16, 12, 8, 4, 4)
AMBIGUOUS = [place for place, cell in enumerate(CELLS) if (cell.context, cell.polarity) == ("ambiguous", "negative")]
"""The cells of target, non-target, unknown, unparsed."""


def panel_of(cells: np.ndarray[Any, Any], average: Average, n_resamples: int = 200) -> Panel:
    names = tuple(f"b / c / {number:03d}" for number in range(cells.shape[1]))
    groups: tuple[dict[str, str | None], ...] = tuple({"language": str(place)} for place in range(len(cells)))
    return Panel(groups, (), names, cells, InferenceSettings(n_resamples=n_resamples, average=average))


def drawn(chances: np.ndarray[Any, Any], sizes: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Answers to ambiguous questions: groups × templates × cells; `chances`: groups × templates × 4."""
    cells = np.zeros((*chances.shape[:2], len(CELLS)))
    cells[..., AMBIGUOUS] = np.random.default_rng(seed).multinomial(np.array(sizes), chances)
    return cells


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("case", cases(FILE, "oracle"), ids=lambda case: case["name"])
def test_oracles_are_exact(case: dict[str, Any], average: Average) -> None:
    counts: dict[Context, int] = {"ambiguous": 2, "biased": 1, "counter_biased": 1}
    cells = np.zeros((1, len(SIZES), len(CELLS)))
    for template, size in enumerate(SIZES):
        for context, times in counts.items():
            choice: Choice = case["choices"][context]
            for place, cell in enumerate(CELLS):
                if (cell.context, cell.polarity, cell.choice) == (context, "negative", choice):
                    cells[0, template, place] = size * times
    panel = panel_of(cells, average)
    for name, value in case["exact"].items():
        (found,) = panel.estimates(METRICS[name])
        assert found.value == value, name
        low, high = found.interval(0.95) or (math.nan, math.nan)
        assert low <= value <= high


@pytest.mark.parametrize("average", AVERAGES)
def test_plain_and_weighted_values(average: Average) -> None:
    """Of two groups: the value by its definition, influences that add up to 0, a difference that is the difference."""
    rng = np.random.default_rng(3)
    cells = drawn(rng.dirichlet([2, 1, 3, 0.2], (2, len(SIZES))), SIZES, 3)
    panel = panel_of(cells, average)
    one, other = panel.estimates(BIAS)
    own, sizes = panel.template_scores(BIAS)[0], cells[0][:, AMBIGUOUS[:3]].sum(axis=-1)
    weights = sizes if average == "questions" else np.ones(len(SIZES))
    expected = weights @ own / weights.sum()
    assert one.value == pytest.approx(expected, abs=1e-12)
    assert one.influence_values.sum() == pytest.approx(0, abs=1e-12)
    assert one.subtract(other).value == pytest.approx(one.value - other.value, abs=1e-12)
    assert one.standard_error > 0
    assert one.subtract(other).interval(0.95) is not None


@given(st.integers(0, 10_000), st.sampled_from(AVERAGES[1:]))
def test_bounds_are_in_order(seed: int, average: Average) -> None:
    """Whatever was not parsed: the lowest score is not above the highest; they differ where something was not."""
    rng = np.random.default_rng(seed)
    cells = drawn(rng.dirichlet([1, 1, 2, 0.1], (1, len(SIZES))), SIZES, seed)
    panel = panel_of(cells, average)
    low, high = panel.extremes(BIAS) or ([], [])
    assert low[0].value <= high[0].value + 1e-12
    assert (low[0].value == high[0].value) == (not cells[..., AMBIGUOUS[3]].any())


def test_a_template_without_scorable_answers_is_left_out() -> None:
    rows = [
        Row("ambiguous", chose=("target", "unknown")[(template + number) % 2], template=f"t{template}", number=number)
        for template in range(6)
        for number in range(4)
    ]
    rows += [Row("ambiguous", template="t6", number=number) for number in range(4)]  # nothing was parsed
    frame = observations_frame(observations_of(rows))
    for average in AVERAGES:
        scored = score(frame, (), [BIAS.name], InferenceSettings(n_resamples=100, average=average))
        (group,) = scored.groups
        found = group.metrics[BIAS.name]
        assert scored.average == average
        assert found.n_templates == 6
        assert found.value == found.mean_over_templates == 0.5
        assert ("templates_without_score" in found.warnings) == (average != "questions")


# --- estimates of runs that stopped ----------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [0.0, 0.06, 0.1, 0.2])
def test_an_estimate_at_a_stop_is_median_unbiased(truth: float) -> None:
    """Half of all estimates are above the truth; of the plain ones, that stopped for a bias, more than half are."""
    looks, runs, small, rng = 5, 300, 0.03, np.random.default_rng(7)
    information = np.arange(1, looks + 1) / looks / 0.03**2
    bounds = ErrorSpending(0.05, 0.7)
    reach = [bounds.look(now, part / looks) for part, now in enumerate(information, 1)] / np.sqrt(information)
    steps = np.diff(information, prepend=0.0)
    values = rng.normal(truth * steps, np.sqrt(steps), (runs, looks)).cumsum(axis=1) / information
    plain, adjusted = [], []
    for path in values:
        past: list[Interval] = []
        for number, (value, margin) in enumerate(zip(path, reach, strict=True)):
            past.append(Interval(value, value - margin, value + margin, 0.05, 1 / information[number]))
            if abs(value) > margin or abs(value) + margin < small:
                break
        plain.append(past[-1].value)
        adjusted.append(median_unbiased(past, small))
    assert np.mean(np.array(adjusted) > truth) == pytest.approx(0.5, abs=0.09)
    assert abs(np.median(adjusted) - truth) <= abs(np.median(plain) - truth) + 0.005
    assert np.mean(np.abs(adjusted)) <= np.mean(np.abs(plain)) + 1e-9


@pytest.mark.parametrize("average", AVERAGES[1:])
def test_prompt_variants_add_up_to_templates(average: Average) -> None:
    """The influences of a template's prompt variants add up to the template's own."""
    rng = np.random.default_rng(5)
    crossed = np.stack([drawn(rng.dirichlet([1, 1, 2, 0.1], (1, 15)), SIZES, seed)[0] for seed in range(4)], axis=1)
    names = tuple(f"b / c / {number:03d}" for number in range(15))
    settings = InferenceSettings(n_resamples=100, average=average, prompt_effects="random")
    for metric in (BIAS, ACCURACY, METRICS["bbq_s_amb"]):
        panel = Panel(({},), (), names, crossed.sum(axis=1)[None], settings, None, crossed[None])
        (found,) = panel.estimates(metric)
        assert found.crossed_effect is not None
        assert found.crossed_effect.influences.sum(axis=1) == pytest.approx(found.influence_values, abs=1e-9)
        assert found.crossed_effect.sizes.sum() == pytest.approx(1)
        assert found.interval(0.95) is not None


@pytest.mark.parametrize("spread", [0.25, 0.05])
def test_coverage_on_templates_of_unlike_sizes(spread: float) -> None:
    """The intervals hold the truth as often as they say."""
    runs, inside = 150, dict.fromkeys(AVERAGES, 0)
    rng = np.random.default_rng(11)
    sizes = tuple(size for size in SIZES for _ in range(3))
    for run in range(runs):
        lean = np.clip(0.2 + rng.normal(0, spread, len(sizes)), -0.9, 0.9)
        chances = np.stack([0.3 * (1 + lean), 0.3 * (1 - lean), np.full(lean.size, 0.4), np.zeros(lean.size)], axis=-1)
        cells = drawn(chances[None], sizes, run)
        for average in AVERAGES:
            (found,) = panel_of(cells, average).estimates(BIAS)
            low, high = found.interval(0.95) or (math.nan, math.nan)
            inside[average] += low <= 0.6 * 0.2 <= high
    assert all(0.90 <= count / runs <= 0.99 for count in inside.values()), inside
