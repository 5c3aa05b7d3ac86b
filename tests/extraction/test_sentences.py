from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.extraction import Question, load_extractor

LINES = (Path(__file__).parents[1] / "data" / "extraction" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{case['shows']}" for case in CASES])
def test_what_a_sentence_says(case: dict[str, Any]) -> None:
    question = Question(case["options"], "ABC", case.get("unknown", 2), case["prompt"])
    assert load_extractor(case["language"]).extract(case["response"], question).option == case["option"]
