"""What is read where no list of phrases announces an answer: brief answers, last sentences, denials that go on."""

from __future__ import annotations

from typing import Any

import pytest

from mbbq_gen.extraction import load_extractor
from mbbq_gen.extraction.tokens import tokenise
from tests.extraction_cases import load_readings, read_case

CASES = load_readings("extraction_remainder")


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{n}" for n, case in enumerate(CASES, 1)])
def test_case(case: dict[str, Any]) -> None:
    """`rule` is `*` where it does not matter which one decides."""
    found = read_case(case)
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
