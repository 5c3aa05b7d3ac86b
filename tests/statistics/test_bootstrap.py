from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mbbq_gen.analysis.scores import GroupScore, ScoreTable, score
from mbbq_gen.scoring.cells import CELLS, Cell, Counts, count_matrix
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, widening
from mbbq_gen.statistics.intervals import expanded_tail, percentile_interval, t_quantile
from mbbq_gen.statistics.panel import resample_weights
from tests.support.scoring import Row, naive_scores, observations_of

TEMPLATES = ("bakery", "bus", "library", "post", "tea")


def uneven_rows(language: str = "en") -> list[Row]:
    """Five templates of different size and bias; the counter-biased contexts stand in two of them only."""
    rows = []
    for place, template in enumerate(TEMPLATES):
        for number in range(4 + place):
            chose = ("target", "non_target", "unknown")[(number * (place + 2)) % 3]
            polarity = ("negative", "non_negative")[number % 2]
            kind = "counter_biased" if place < 2 and number % 3 == 0 else ("ambiguous", "biased")[number % 2]
            answer: dict[str, Any] = {"outcome": "unparsed"} if number == 3 else {"chose": chose}
            rows.append(Row(kind, polarity, template=template, language=language, number=number, **answer))  # type: ignore[arg-type]
    return rows


def score_rows(rows: list[Row], **settings: Any) -> ScoreTable:
    by = settings.pop("by", ())
    return score(observations_frame(observations_of(rows)), by, settings=InferenceSettings(**settings))


def single_tail(confidence: float, units: float) -> float:
    return expanded_tail(confidence, units, widening(units))


def only(table: ScoreTable) -> GroupScore:
    (group,) = table.groups
    return group


@pytest.mark.parametrize("unparsed", ["discard", "keep"])
def test_intervals_are_those_of_resampling_by_hand(unparsed: str) -> None:
    resamples, confidence, rows = 60, 0.9, uneven_rows()
    names = tuple(f"invented / drinks / {template}" for template in TEMPLATES)
    drawn: list[dict[str, float | None]] = []
    for weights in resample_weights(names, resamples, seed=3):
        times = dict(zip(TEMPLATES, weights.astype(int), strict=True))
        drawn.append(naive_scores([row for row in rows for _ in range(times[row.template])], unparsed))
    group = only(score_rows(rows, confidence=confidence, n_resamples=resamples, seed=3, unparsed=unparsed))
    for name, found in group.metrics.items():
        defined = [value[name] for value in drawn if value[name] is not None]
        tail = single_tail(confidence, found.n_templates_effective or math.nan)
        expected = np.quantile(np.array(defined, dtype=float), [tail, 1 - tail])
        if found.n_templates < MIN_TEMPLATES:
            assert (found.ci_low, found.ci_high) == (None, None)
            assert "too_few_templates" in found.warnings
            continue
        if found.method != "expanded_percentile":
            assert found.ci_low is not None
            assert found.ci_high is not None
            assert found.ci_low <= expected[0] + 1e-9
            assert found.ci_high >= expected[1] - 1e-9
        else:
            assert (found.ci_low, found.ci_high) == pytest.approx(tuple(expected)), name
        assert found.n_resamples_dropped == resamples - len(defined), name
        assert ("undefined_resamples" in found.warnings) == (found.n_resamples_dropped > 0), name


@pytest.mark.parametrize("templates", [1, 2, 4])
def test_fewer_than_five_templates_have_no_interval_and_say_so(templates: int) -> None:
    rows = [Row("ambiguous", chose="target", number=n, template=f"t{n % templates}") for n in range(12)]
    found = only(score_rows(rows)).metrics
    assert (found["mbbq_bias_ambiguous"].ci_low, found["mbbq_bias_ambiguous"].ci_high) == (None, None)
    assert found["mbbq_bias_ambiguous"].warnings == ("too_few_templates",)
    assert found["mbbq_bias_ambiguous"].value == 1
    assert found["mbbq_bias_ambiguous"].standard_error is None
    assert found["mbbq_bias_ambiguous"].reason_code == "too_few_templates"
    assert found["bbq_s_dis"].reason_code == "undefined"


def test_a_metric_that_only_one_template_bears_on_has_no_interval() -> None:
    rows = [Row("ambiguous", chose="target", template=template) for template in TEMPLATES]
    rows += [Row("biased", chose="target"), Row("counter_biased", chose="target")]
    group = only(score_rows(rows, n_resamples=50))
    assert group.n_templates == 5
    assert group.metrics["diff_bias_disambiguated"].n_templates == 1
    assert group.metrics["diff_bias_disambiguated"].reason_code == "too_few_templates"
    assert group.metrics["mbbq_bias_ambiguous"].warnings == ("few_templates", "near_boundary")


def test_an_interval_leaves_out_what_is_undefined() -> None:
    values = np.arange(101.0)
    assert percentile_interval(values, single_tail(0.9, 1e9)) == pytest.approx((5.0, 95.0))
    for nothing in (percentile_interval(values[:0], 0.05), percentile_interval(values, single_tail(0.9, 1.0))):
        assert np.isnan(nothing).all()
    one = Estimate(0.5, np.zeros(6), np.zeros(6), np.full(6, 1 / 6), np.array([np.nan, 0.25, np.nan, 0.75]))
    assert one.n_resamples_dropped == 2


def test_tails_are_hesterbergs() -> None:
    """Hesterberg 2015, §5.3: for 5, 10, 20, 40, 100 and many observations of a 95 % interval."""
    tails = [single_tail(0.95, units) for units in (5, 10, 20, 40, 100, 1e9)]
    assert tails == pytest.approx([0.00096, 0.0086, 0.0159, 0.0203, 0.0230, 0.0250], abs=1e-4)
    assert np.isnan([single_tail(0.95, units) for units in (1.0, math.nan)]).all()
    assert t_quantile(0.95, 11.0) == pytest.approx(2.228, abs=1e-3)


def simulated_cells(generator: np.random.Generator, templates: int, items: int) -> Any:
    """Answers to ambiguous questions whose templates differ: right with a probability of 0.2 to 0.8."""
    right = CELLS.index(Cell("ambiguous", "right", "ambiguous", "negative", "unknown"))
    wrong = CELLS.index(Cell("ambiguous", "wrong", "ambiguous", "negative", "target"))
    cells = np.zeros((templates, len(CELLS)))
    cells[:, right] = generator.binomial(items, generator.uniform(0.2, 0.8, templates))
    cells[:, wrong] = items - cells[:, right]
    return cells


@pytest.mark.parametrize("templates", [8, 40])
def test_intervals_cover_the_truth_about_as_often_as_they_say(templates: int) -> None:
    generator, metric, items, runs = np.random.default_rng(11), METRICS["accuracy_ambiguous"], 20, 400
    clustered = by_item = 0
    weights = resample_weights(tuple(str(number) for number in range(templates)), 400, seed=0)
    for _ in range(runs):
        cells = simulated_cells(generator, templates, items)
        values = metric.value(Counts(weights @ cells @ count_matrix(), "discard"))
        low, high = percentile_interval(np.sort(values), single_tail(0.95, templates))
        clustered += low <= 0.5 <= high
        share = float(metric.value(Counts(cells.sum(axis=0) @ count_matrix(), "discard")))
        by_item += abs(share - 0.5) <= 1.96 * (share * (1 - share) / (templates * items)) ** 0.5
    assert 0.92 <= clustered / runs <= 0.98
    assert by_item / runs < 0.80  # what an interval that forgets the templates would give


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    first, again, other = (only(score_rows(uneven_rows(), n_resamples=200, seed=seed)) for seed in (7, 7, 8))
    assert first == again
    assert first.metrics["mbbq_bias_ambiguous"].ci_low != other.metrics["mbbq_bias_ambiguous"].ci_low or (
        first.metrics["mbbq_bias_ambiguous"].ci_high != other.metrics["mbbq_bias_ambiguous"].ci_high
    )


def test_weights_draw_as_many_templates_as_there_are() -> None:
    weights = resample_weights(TEMPLATES, 4000, seed=1)
    assert weights.shape == (4000, 5)
    assert set(weights.sum(axis=1)) == {5.0}
    assert weights.mean(axis=0) == pytest.approx(np.ones(5), abs=0.06)
    assert weights.var(axis=0) == pytest.approx(np.full(5, 0.8), abs=0.08)  # multinomial: n · 1/n · (1 − 1/n)
