from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.correction import confidence_shares
from mbbq_gen.analysis.score_extras import baseline_scores, group_tests, macro_averages
from mbbq_gen.analysis.scores import score
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import GoldLabels, observations_frame
from mbbq_gen.scoring.tally import added, answers_of, grouping_columns, sums
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.scoring.test_columns import answer_rows
from tests.support.scoring import Row, observations_of

TEMPLATES = ("tea", "bus", "queue", "shop", "park", "lift")


@st.composite
def answers(draw: st.DrawFn) -> list[Row]:
    rows = draw(st.lists(answer_rows(), min_size=1, max_size=40))
    names = draw(st.lists(st.sampled_from(TEMPLATES), min_size=len(rows), max_size=len(rows)))
    return [Row(**{**vars(row), "template": name}) for row, name in zip(rows, names, strict=True)]


def in_parts(frame: pl.DataFrame, number: int, groups: Sequence[str], beside: Sequence[str] = ()) -> pl.DataFrame:
    """The table added up from so many parts, each with all answers to its questions."""
    place = pl.struct("language", "instance_id").hash(seed=3) % number
    return added(sums(frame.filter(place == part), groups, beside) for part in range(number))


@pytest.mark.slow
@settings(max_examples=40)
@given(
    answers(),
    st.integers(1, 4),
    st.sampled_from([(), ("language",), ("language", "split"), ("variant", "option_order"), ("template",)]),
    st.sampled_from(["published", "corrected"]),
)
def test_scores_of_parts_are_the_scores(rows: list[Row], number: int, by: tuple[str, ...], labels: GoldLabels) -> None:
    frame = observations_frame(observations_of(rows))
    whole = in_parts(frame, number, list(grouping_columns(by).values()))
    assert answers_of(whole) == answers_of(frame) == len(rows)
    settings = InferenceSettings(n_resamples=50)
    wanted = score(frame, by, gold=labels, settings=settings)
    assert score(whole, by, gold=labels, settings=settings).model_dump_json() == wanted.model_dump_json()
    assert confidence_shares(whole, by) == confidence_shares(frame, by)


@pytest.mark.parametrize("over", ["category", "variant"])
def test_what_stands_beside_scores_is_the_same(over: str) -> None:
    rows = [
        Row(kind, polarity, chose, template=template, language=language)
        for number, template in enumerate(TEMPLATES * 2)
        for language in ("en", "tr")
        for kind in ("ambiguous", "biased", "counter_biased")
        for polarity in ("negative", "non_negative")
        for chose in (("target", "unknown", "non_target")[number % 3],)
    ]
    frame = observations_frame(observations_of(rows))
    whole = in_parts(frame, 3, ["language"], [*grouping_columns([over]).values()])
    metrics, sampling = list(METRICS.values()), InferenceSettings(0.95, 100, 0, "discard")
    for wanted, found in (
        [macro_averages(table, ["language"], over, metrics, sampling) for table in (frame, whole)],
        [group_tests(table, ["language"], metrics, sampling, margin=0.1) for table in (frame, whole)],
        [list(baseline_scores(table, ["language"], metrics, sampling)) for table in (frame, whole)],
    ):
        assert str(found) == str(wanted)
        assert len(wanted) > 0
