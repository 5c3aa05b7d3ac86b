"""Lists of the options, verdicts beside them, strikes, tags, arrows and other speakers, in several languages."""

from __future__ import annotations

from typing import Any

import pytest

from mbbq_gen.extraction import load_extractor
from mbbq_gen.extraction.pack import read_extractor_pack
from mbbq_gen.resources import Resources
from tests.extraction_cases import LANGUAGES, load_readings, read_case

CASES = load_readings("extraction_lists")


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{n}" for n, case in enumerate(CASES, 1)])
def test_case(case: dict[str, Any]) -> None:
    assert read_case(case).option == case["gold"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_verdict_words_of_every_language(language: str) -> None:
    """Each word for right chooses the option beside it, each word for wrong rules it out."""
    words = read_extractor_pack(Resources(), language).verdicts
    options, labels = ("1111", "2222", "3333"), ("K", "L", "M")
    reader = load_extractor(language)
    for right in words.right:
        table = f"| K | {words.wrong[0]} |\n| L | {right} |\n| M | {words.wrong[0]} |"
        assert reader.extract(table, options, labels, 2).option == 1, right
    for wrong in words.wrong:
        table = f"| K | {wrong} |\n| L | {words.right[0]} |\n| M | {wrong} |"
        assert reader.extract(table, options, labels, 2).option == 1, wrong
