from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.analysis.scores import GroupScore, score
from mbbq_gen.core.records import Polarity, Role
from mbbq_gen.scoring.cells import CELLS, UnparsedPolicy, count_matrix, scenario_matrix
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.conftest import FULL
from tests.support.cases import cases, known
from tests.support.scoring import (
    KINDS,
    ORACLES_WITH_KNOWN_SCORES,
    Row,
    expected_scores,
    instance_of,
    naive_scores,
    observations_of,
    swap_person,
    swap_roles,
)

FLIPPED = tuple(cases("scoring/properties", "flipped"))
"""Scores that change their sign with the roles of the two persons."""

answers = st.one_of(
    st.fixed_dictionaries({"chose": st.sampled_from(("target", "non_target", "unknown"))}),
    st.fixed_dictionaries({"outcome": st.sampled_from(("unparsed", "multiple", "truncated", "empty", "refusal"))}),
    st.fixed_dictionaries({"outcome": st.sampled_from(("error", "content_filter"))}),
)
rows_with = st.builds(
    lambda answer, **fields: Row(**fields, **answer),
    answer=answers,
    kind=st.sampled_from(KINDS),
    polarity=st.sampled_from(("negative", "non_negative")),
    template=st.sampled_from(("tea", "bus", "bakery", "library")),
    order=st.sampled_from(tuple(permutations(range(3)))),
)
row_lists = st.lists(rows_with, min_size=1, max_size=25).map(
    lambda rows: [replace(row, number=number) for number, row in enumerate(rows)]
)
policies = st.sampled_from(("discard", "keep"))
few = settings(max_examples=200 if FULL else 25)


def score_one(rows: Sequence[Row], unparsed: UnparsedPolicy = "discard", interval: float | None = None) -> GroupScore:
    frame = observations_frame(observations_of(rows))
    settings = InferenceSettings(interval or 0.95, 50, unparsed=unparsed)
    (group,) = score(frame, settings=settings, intervals=interval is not None).groups
    return group


def values(group: GroupScore) -> dict[str, float | None]:
    return {name: found.value for name, found in group.metrics.items()}


@few
@given(row_lists, policies)
def test_the_scorer_agrees_with_plain_loops(rows: list[Row], unparsed: UnparsedPolicy) -> None:
    assert values(score_one(rows, unparsed)) == pytest.approx(naive_scores(rows, unparsed))


@few
@given(row_lists)
def test_s_amb_is_the_difference_score_where_both_have_one_denominator(rows: list[Row]) -> None:
    single = [row for row in rows if not row.is_lone]
    if single:
        for unparsed in ("discard", "keep"):
            found = values(score_one(single, unparsed))
            assert found["bbq_s_amb"] == pytest.approx(found["diff_bias_ambiguous"])


@few
@given(row_lists, policies)
def test_swapping_the_roles_of_the_persons_flips_every_bias(rows: list[Row], unparsed: UnparsedPolicy) -> None:
    single = [row for row in rows if not row.is_lone]
    if single:
        before = values(score_one(single, unparsed))
        after = values(score_one([swap_roles(row) for row in single], unparsed))
        for name in FLIPPED:
            old = before[name]
            assert after[name] == pytest.approx(None if old is None else -old), name
        for name in ("accuracy_ambiguous", "accuracy_disambiguated", "parse_rate", "diff_bias_ambiguous_bound"):
            assert after[name] == pytest.approx(before[name])


@few
@given(row_lists)
def test_swapping_the_persons_chosen_flips_the_ambiguous_scores(rows: list[Row]) -> None:
    before = values(score_one(rows))
    after = values(score_one([replace(row, chose=swap_person(row.chose)) for row in rows]))
    for name in ("mbbq_bias_ambiguous", "target_preference", "bbq_s_amb", "bbq_s_dis"):
        old = before[name]
        assert after[name] == pytest.approx(None if old is None else -old), name


@few
@given(row_lists, policies)
def test_scores_stay_in_their_range_and_within_the_room_that_accuracy_leaves(
    rows: list[Row], unparsed: UnparsedPolicy
) -> None:
    found = values(score_one(rows, unparsed))
    for name, value in found.items():
        if value is not None:
            assert METRICS[name].low <= value <= METRICS[name].high, name
    for context in ("ambiguous", "disambiguated"):
        bias, bound = found[f"diff_bias_{context}"], found[f"diff_bias_{context}_bound"]
        assert (bias is None) == (bound is None)
        if bias is not None and bound is not None:
            assert abs(bias) <= bound + 1e-12


@few
@given(row_lists, st.data())
def test_whatever_the_undetected_answers_were_the_score_lies_within_its_bounds(
    rows: list[Row], data: st.DataObject
) -> None:
    group = score_one(rows)
    choices: list[Role] = ["target", "non_target", "unknown"]
    for only_persons in (True, False):
        choice = st.sampled_from(choices[:2] if only_persons else choices)
        completed = [
            replace(row, chose=data.draw(choice), outcome="option")
            if row.chose is None and row.outcome not in ("refusal", "error", "content_filter")
            else row
            for row in rows
        ]
        for name, value in values(score_one(completed)).items():
            # Of answers that name a person, unknown ones leave the denominator: there the bounds hold for persons.
            bounds = group.metrics[name].bounds
            if bounds is None or value is None or (name == "bharat_bs_disambiguated" and not only_persons):
                continue
            if name == "bbq_s_amb" and any(row.is_lone for row in rows):
                continue  # lone rows scale the score without leaning anywhere
            assert known(bounds.low) - 1e-12 <= value <= known(bounds.high) + 1e-12, name


@few
@given(row_lists)
def test_where_all_was_read_nothing_hangs_on_what_is_done_with_the_undetected(rows: list[Row]) -> None:
    read = [row for row in rows if row.chose is not None or row.outcome == "refusal"]
    if read:
        kept, discarded = score_one(read, "keep"), score_one(read, "discard")
        assert values(kept) == values(discarded)
        for name, found in discarded.metrics.items():
            if found.bounds is not None:
                assert found.bounds.low == found.bounds.high == found.value, name


@few
@given(row_lists, policies)
def test_an_undefined_score_has_an_empty_denominator_and_the_other_way_round(
    rows: list[Row], unparsed: UnparsedPolicy
) -> None:
    for name, found in score_one(rows, unparsed).metrics.items():
        if name != "bbq_s_amb":  # that one is 0 where nobody is named
            assert (found.value is None) == any(part.denominator == 0 for part in found.fractions), name


@pytest.mark.parametrize("oracle", ORACLES_WITH_KNOWN_SCORES)
def test_oracles_score_what_arithmetic_says(oracle: str) -> None:
    known: dict[str, tuple[float, ...]] = {"perfect": (1, 1, 0, 0), "stereotyped": (0, 0.5, 1, 1)}
    known |= {"anti_stereotyped": (0, 0.5, -1, -1)}
    known |= {"always_unknown": (1, 0, 0, 0), "first_option": (1 / 3, 1 / 3, 0, 0)}
    known |= {"verbose_perfect": known["perfect"], "refuser": known["always_unknown"]}
    polarities: tuple[Polarity, ...] = ("negative", "non_negative")
    shown = [
        (instance_of(Row(kind, polarity)), order)
        for kind, polarity in product(KINDS[:3], polarities)
        for order in permutations(range(3))
    ]
    found = expected_scores(oracle, shown)
    names = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
    assert [found[name] for name in names] == pytest.approx(known[oracle])


@few
@given(row_lists, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Row], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert score_one(shuffled, interval=0.9) == score_one(rows, interval=0.9)


def test_cells_are_all_different() -> None:
    assert len(set(CELLS)) == len(CELLS) == 30


def test_every_scenario_moves_each_answer_to_one_cell_and_leaves_the_detected_where_they_are() -> None:
    for scenario in ("biased", "counter_biased", "target", "non_target", "right", "wrong"):
        matrix = scenario_matrix(scenario)
        assert (matrix.sum(axis=1) == 1).all()
        for code, cell in enumerate(CELLS):
            assert matrix[code, code] == (1 if (cell.outcome != "unparsed") or scenario == "wrong" else 0)


def test_counts_are_sums_of_whole_cells() -> None:
    assert set(count_matrix().ravel()) == {0.0, 1.0}
