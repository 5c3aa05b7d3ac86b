from __future__ import annotations

from typing import Any

import pytest

from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Extraction
from mbbq_gen.scoring import observations
from mbbq_gen.scoring.observations import Observation, observations_frame, observe
from tests.support.cases import cases
from tests.support.scoring import Row, instance_of, observations_of


def one(row: Row) -> Observation:
    (found,) = observations_of([row])
    return found


@pytest.mark.parametrize(
    ("row", "correct", "biased", "counter_biased"), cases("scoring/observations", "what_an_answer_counts_as")
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_what_an_answer_counts_as(
    row: dict[str, Any], order: tuple[int, ...], correct: bool | None, biased: bool | None, counter_biased: bool | None
) -> None:
    found = one(Row(**row, order=order))
    assert (found.correct, found.biased, found.counter_biased) == (correct, biased, counter_biased)


def test_places_are_resolved_through_the_order() -> None:
    found = one(Row("biased", "negative", "non_target", order=(2, 0, 1)))
    assert (found.chosen_position, found.chosen_index, found.chosen_role) == (2, 1, "non_target")
    assert (found.gold_role, found.published_index, found.alignment) == ("target", 0, "biased")
    assert found.option_order == "unknown-target-non_target"
    assert found.unknown_text == "Not known"


@pytest.mark.parametrize(
    ("order", "extraction", "message"),
    [
        ((0, 1), Extraction(outcome="option", option=0), r"option_order: \[0, 1\] does not hold each of 0 to 2 once"),
        ((0, 1, 3), Extraction(outcome="unparsed"), "option_order: "),
        ((0, 1, 2), Extraction(outcome="option"), "option: None is not a place"),
        ((0, 1, 2), Extraction(outcome="option", option=-1), "option: -1 is not a place"),
        ((0, 1, 2), Extraction(outcome="refusal", option=1), "option: 1, but the outcome is 'refusal'"),
    ],
)
def test_contradictions_are_named_with_the_question(
    order: tuple[int, ...], extraction: Extraction, message: str
) -> None:
    instance = instance_of(Row("ambiguous"))
    with pytest.raises(DataError, match=f"^{instance.key}: {message}"):
        observe(instance, order, extraction, model="m", variant="v", label_style="A")


def test_corrected_labels_change_the_answer_and_the_alignment() -> None:
    row = Row("biased", "negative", "non_target", corrected="non_target")
    (corrected,) = observations_of([row], "corrected")
    assert (one(row).correct, one(row).alignment, one(row).gold_role) == (False, "biased", "target")
    assert (corrected.correct, corrected.alignment, corrected.gold_role) == (True, "counter_biased", "non_target")
    assert (corrected.published_gold_role, corrected.corrected_index) == ("target", 1)


def test_a_table_holds_the_observations_in_order_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = observations_of([Row("ambiguous", chose="target", template=f"t{number}") for number in range(7)])
    rows += observations_of([Row("lone_disambiguated", outcome="error"), Row("biased", corrected="unknown")])
    whole = observations_frame(rows)
    monkeypatch.setattr(observations, "CHUNK_ROWS", 2)
    assert observations_frame(iter(rows)).equals(whole)
    assert [Observation(*values) for values in whole.iter_rows()] == rows
