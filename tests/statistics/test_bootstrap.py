"""Intervals: repeatable, the same as resampling by hand, and about as wide as they must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mbbq_gen.analysis.score_table import GroupScore, ScoreTable
from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.intervals import expanded_tail, resample_weights, t_quantile
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
    return score(observations_frame(observations_of(rows)), **settings)


def only(table: ScoreTable) -> GroupScore:
    (group,) = table.groups
    return group


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    first, again, other = (only(score_rows(uneven_rows(), n_resamples=200, seed=seed)) for seed in (7, 7, 8))
    assert first == again
    assert first.metrics["mbbq_bias_ambiguous"].ci_low != other.metrics["mbbq_bias_ambiguous"].ci_low or (
        first.metrics["mbbq_bias_ambiguous"].ci_high != other.metrics["mbbq_bias_ambiguous"].ci_high
    )


@pytest.mark.parametrize("unparsed", ["discard", "keep"])
def test_intervals_are_those_of_resampling_by_hand(unparsed: str) -> None:
    resamples, confidence, rows = 60, 0.9, uneven_rows()
    names = tuple(f"invented / drinks / {template}" for template in TEMPLATES)
    drawn: list[dict[str, float | None]] = []
    for weights in resample_weights(names, resamples, seed=3):
        times = dict(zip(TEMPLATES, weights.astype(int), strict=True))
        drawn.append(naive_scores([row for row in rows for _ in range(times[row.template])], unparsed))
    group = only(score_rows(rows, confidence_level=confidence, n_resamples=resamples, seed=3, unparsed=unparsed))
    for name, found in group.metrics.items():
        defined = [value[name] for value in drawn if value[name] is not None]
        tail = float(expanded_tail(confidence, np.array(found.n_templates_effective)))
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


def sized_rows(leaning: int) -> list[Row]:
    """Fourteen templates of 2 to 28 questions; those from `leaning` on lean, the others do not."""
    return [
        Row("ambiguous", chose="target" if place >= leaning else "unknown", template=f"t{place:02d}", number=number)
        for place in range(14)
        for number in range(2 * place + 2)
    ]


def test_scores_that_depend_on_the_sizes_of_templates_say_so() -> None:
    found = only(score_rows(sized_rows(7), n_resamples=100)).metrics["mbbq_bias_ambiguous"]
    assert "template_size_effect" in found.warnings
    assert found.value == pytest.approx(sum(range(16, 30, 2)) / sum(range(2, 30, 2)))
    assert found.mean_over_templates == pytest.approx(0.5)
    alike = only(score_rows(sized_rows(0), n_resamples=100)).metrics["mbbq_bias_ambiguous"]
    assert "template_size_effect" not in alike.warnings
    assert (alike.value, alike.mean_over_templates) == (1, 1)
    few = only(score_rows([row for row in sized_rows(4) if row.template < "t08"], n_resamples=100))
    assert "template_size_effect" not in few.metrics["mbbq_bias_ambiguous"].warnings


def test_tails_are_hesterbergs() -> None:
    """Hesterberg 2015, §5.3: for 5, 10, 20, 40, 100 and many observations of a 95 % interval."""
    tails = expanded_tail(0.95, np.array([5, 10, 20, 40, 100, 1e9]))
    assert tails == pytest.approx([0.00096, 0.0086, 0.0159, 0.0203, 0.0230, 0.0250], abs=1e-4)
    assert np.isnan(expanded_tail(0.95, np.array([1.0, np.nan]))).all()
    assert t_quantile(0.95, np.array([11.0])) == pytest.approx([2.228], abs=1e-3)
