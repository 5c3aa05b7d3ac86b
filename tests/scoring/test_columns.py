from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Extraction, Instance
from mbbq_gen.scoring.observations import (
    ANSWER_COLUMNS,
    GoldLabels,
    observations_frame,
    observations_from_columns,
    observe,
)
from tests.support.scoring import KINDS, ROLES, Row, extraction_of, instance_of

CROSSABLE = ("ambiguous", "biased", "counter_biased")
"""Kinds of questions with a target, whose groups may be the wrong way round."""
ORDERS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))


@st.composite
def answer_rows(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(KINDS))
    chose = draw(st.sampled_from((*ROLES, None)))
    corrected = draw(st.sampled_from(("target", None))) if kind == "counter_biased" else None
    return Row(
        kind,
        draw(st.sampled_from(("negative", "non_negative"))),
        chose,
        draw(st.sampled_from(("error", "content_filter", "truncated", "multiple"))) if chose is None else None,
        template=draw(st.sampled_from(("tea", "bus"))),
        language=draw(st.sampled_from(("en", "tr"))),
        number=draw(st.integers(0, 2)),
        order=draw(st.sampled_from(ORDERS)),
        corrected=corrected,  # type: ignore[arg-type]
        crossed=kind in CROSSABLE and draw(st.booleans()),
    )


def table(rows: Sequence[Row]) -> tuple[list[Instance], pl.DataFrame]:
    found: dict[str, Instance] = {}
    columns: list[tuple[object, ...]] = []
    for row in rows:
        instance, extraction = instance_of(row), extraction_of(row)
        found.setdefault(instance.key, instance)
        columns.append(
            (
                instance.key,
                row.model,
                "v",
                "A",
                json.dumps(row.order),
                extraction.outcome,
                extraction.option,
                "high",
                "x1",
            )
        )
    return list(found.values()), pl.DataFrame(
        columns, schema=list(ANSWER_COLUMNS), orient="row", infer_schema_length=None
    )


def one_by_one(rows: Sequence[Row], instances: dict[str, Instance], labels: GoldLabels) -> pl.DataFrame:
    return observations_frame(
        observe(
            instances[instance_of(row).key],
            row.order,
            extraction_of(row),
            model=row.model,
            variant="v",
            label_style="A",
            gold=labels,
            extractor="x1",
        )
        for row in rows
    )


@settings(max_examples=60)
@given(st.lists(answer_rows(), min_size=1, max_size=30), st.sampled_from(("published", "corrected")))
def test_by_columns_is_as_row_by_row(rows: list[Row], labels: GoldLabels) -> None:
    instances, answers = table(rows)
    by_rows = one_by_one(rows, {instance.key: instance for instance in instances}, labels)
    by_columns = observations_from_columns(instances, answers, labels)
    assert by_columns.columns == by_rows.columns
    text = pl.selectors.categorical()
    assert_frame_equal(by_columns.with_columns(text.cast(pl.String)), by_rows.with_columns(text.cast(pl.String)))


def test_an_answer_to_an_unknown_question_is_named() -> None:
    instances, answers = table([Row("ambiguous", chose="target")])
    with pytest.raises(DataError, match="invented/bias/en/tea-ambiguous-negative-0: an answer to a question"):
        observations_from_columns([], answers)
    assert instances


def test_a_contradiction_is_named() -> None:
    instances, answers = table([Row("ambiguous", chose="target")])
    with pytest.raises(DataError, match="option: 7 is not a place"):
        observations_from_columns(instances, answers.with_columns(option=pl.lit(7)))


def test_people_and_groups_are_carried() -> None:
    base = instance_of(Row("ambiguous")).model_dump()
    options = [
        {**option, "group": group} for option, group in zip(base["options"], ("F-Red", "M-Red", "unknown"), strict=True)
    ]
    instance = Instance.model_validate(
        {**base, "category": "race_x_gender", "options": options, "metadata": {"proper_names": True}}
    )
    found = observe(
        instance, (0, 1, 2), Extraction(outcome="option", option=0), model="m", variant=None, label_style=None
    )
    assert (found.proper_names, found.intersectional_contrast) == (True, "other_differs")
    assert (found.target_group, found.non_target_group) == ("F-Red", "M-Red")
