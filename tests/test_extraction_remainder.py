"""What is read where no list of phrases announces an answer: brief answers, last sentences, denials that go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.extraction import load_extractor
from mbbq_gen.extraction.tokens import tokenise

FILE = Path(__file__).parent / "data" / "extraction_remainder" / "cases.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{n}" for n, case in enumerate(CASES, 1)])
def test_case(case: dict[str, Any]) -> None:
    """`rule` is `*` where it does not matter which one decides."""
    found = load_extractor(case["language"]).extract(
        case["response"], case["options"], case["labels"], case["unknown_index"]
    )
    assert found.option == case["gold"]
    assert case["rule"] in {"*", found.rule}


@pytest.mark.parametrize("text", ["yes \u0610 no", "\u0610", "\u0483 B"])
def test_a_mark_without_a_letter_is_a_word_of_its_own(text: str) -> None:
    assert all(token.key for token in tokenise(text))
    load_extractor("en").extract(text, ["The tailor", "The baker", "Unknown"], ["A", "B", "C"], 2)


def test_a_reading_does_not_depend_on_what_was_read_before() -> None:
    reader = load_extractor("tr")
    options, labels = ["Terzi", "Fırıncı", "Bilinmiyor"], ["A", "B", "C"]
    first = reader.extract(" terzi geldi.", options, labels, 2)
    reader.extract("bir terzi geldi. terzi gitti.", options, labels, 2)
    assert reader.extract(" terzi geldi.", options, labels, 2) == first
