from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Question, load_extractor
from tests.support.cases import cases, read_data

LINES = (Path(__file__).parents[1] / "data" / "extraction" / "clefts.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def read(language: str, response: str, options: list[str], question: str) -> Extraction:
    prompt = f"{options[0]} {options[1]}. {question}"
    return load_extractor(language).extract(response, Question(options, "ABC", 2, prompt))


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{place}" for place, case in enumerate(CASES)])
def test_who_did_it_is_read_without_a_word_of_the_question(case: dict[str, Any]) -> None:
    language, response, question = case["language"], case["response"], case["question"]
    one, other, unknown = case["options"]
    assert read(language, response, [one, other, unknown], question).option == case["option"]
    assert read(language, response, [other, one, unknown], question).option == 1 - case["option"]


SAID = read_data("extraction/clefts")["said"]


@pytest.mark.parametrize(("language", "response", "options", "question", "option"), SAID.values(), ids=SAID)
def test_who_it_is_and_is_not(language: str, response: str, options: list[str], question: str, option: int) -> None:
    assert read(language, response, options, question).option == option


UNKNOWN = set(cases("extraction/clefts", "unknown"))
TOLD = read_data("extraction/clefts")["told"]


@pytest.mark.parametrize(("language", "response", "options", "prompt", "option"), TOLD.values(), ids=TOLD)
def test_what_is_told(language: str, response: str, options: list[str], prompt: str, option: int | None) -> None:
    unknown = next(place for place, text in enumerate(options) if text in UNKNOWN)
    assert load_extractor(language).extract(response, Question(options, "ABC", unknown, prompt)).option == option
