from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from pydantic import ValidationError

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import (
    Continuation,
    ContinuationScore,
    FrozenModel,
    ImportSource,
    Instance,
    Message,
    Prompt,
    Response,
    Usage,
    decode,
)

SCORE = ContinuationScore.of(Continuation(option=1, text="B"), -0.5, 1)
RECORDS: list[FrozenModel] = [
    *islice(load_benchmark("starter", languages=["en"]), 3),
    Prompt(
        prompt_id="p",
        instance_key="k",
        language="en",
        variant="bare",
        label_style="A",
        option_order=(2, 0, 1),
        option_labels=("A", "B", "C"),
        messages=(Message(role="user", content="Wer? ✓"),),
        continuations=(Continuation(option=0, text="A"),),
    ),
    Response(request_key="r", text="A", usage=Usage(input_tokens=3), unmetered_usage=Usage(output_tokens=1)),
    Response(request_key="r", scores=(SCORE,), import_source=ImportSource(tool="table", file="f", id="1")),
    Response(request_key="r", finish_reason="content_filter", content_filter={"hate": [1, 2.5, None]}),
]
REFUSED: list[dict[str, Any]] = [
    {},
    {"text": "x", "error": "y"},
    {"text": "x", "finish_reason": "tired"},
    {"text": 1},
    {"text": "x", "other": "field"},
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_was_written_is_read_unchanged(record: FrozenModel) -> None:
    line = record.model_dump_json()
    found = decode(type(record), line)
    assert found == record == type(record).model_validate_json(line)
    assert found.model_dump_json() == line


@pytest.mark.parametrize("fields", REFUSED)
def test_what_validation_refuses_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Response(request_key="r", **fields)


def test_a_row_with_a_blank_text_is_refused() -> None:
    fields = dict(next(load_benchmark("starter", languages=["en"])))
    assert Instance.of_row(dict(fields)) == Instance(**fields)
    with pytest.raises(ValidationError):
        Instance.of_row({**fields, "context": " \n"})
