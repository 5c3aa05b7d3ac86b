"""Macro averages, group tests, baselines and subsets."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.score_extras import baseline_scores, macro_averages
from mbbq_gen.analysis.scores import score
from mbbq_gen.core.errors import UsageError
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.panel import InferenceSettings
from tests.support.expected_scores import expected_scores
from tests.support.scoring import KINDS, Row, instance_of, observations_of
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

SAMPLING = InferenceSettings(n_resamples=300)
AMBIGUOUS = METRICS["mbbq_bias_ambiguous"]


def test_a_macro_average_is_the_mean_of_the_groups() -> None:
    frame = simulate(SimulatedModel({"en": SimulatedLanguage(lean=0.3)}), Design(splits=("bias",), variants=2), seed=1)
    frame = frame.filter(~((pl.col("category") == "category_1") & (pl.col("language") == "tr")))
    table = score(frame, ["language", "category"], confidence_level=None)
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


def test_undefined_levels_are_named() -> None:
    rows = [Row("ambiguous", chose="target", template=name) for name in ("a", "b")]
    none = [Row("ambiguous", template=name) for name in ("a", "b")]
    frame = observations_frame(
        [*observations_of(rows), *(row._replace(category="meals") for row in observations_of(none))]
    )
    (average,) = macro_averages(frame, [], "category", [AMBIGUOUS], SAMPLING)
    assert (average.score.value, average.n_levels, average.undefined) == (1.0, 1, ("meals",))
    with pytest.raises(UsageError, match="--macro-average category: also in --group-by"):
        macro_averages(frame, ["category"], "category", [AMBIGUOUS], SAMPLING)


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
