from __future__ import annotations

import json
from typing import Any

import pytest

from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction import Question, load_extractor
from mbbq_gen.languages.extraction_pack import read_shared_pack
from tests.support.extraction_cases import FOLDER

CASES = [json.loads(line) for line in (FOLDER / "slots.jsonl").read_text(encoding="utf-8").splitlines()]
ASKED = Question(["The tailor", "The baker", "Cannot be determined"], "ABC", 2)
MARKERS = [(block.open, block.close) for block in read_shared_pack(PackPaths()).reasoning if not block.at_start]


@pytest.mark.parametrize("row", CASES, ids=[f"{row['topic']}-{place}" for place, row in enumerate(CASES)])
def test_slots(row: dict[str, Any]) -> None:
    question = Question(row["options"], row["labels"], row["unknown_index"], row.get("prompt"))
    assert load_extractor(row["language"]).extract(row["response"], question).option == row["gold"]


@pytest.mark.parametrize("marker", MARKERS, ids=[opener for opener, _ in MARKERS])
@pytest.mark.parametrize("thought", ["The answer is A.", "A", "**Final answer: A**", '{"answer": "A"}', "\\boxed{A}"])
def test_what_stands_in_a_closed_thought_never_decides(marker: tuple[str, str], thought: str) -> None:
    opener, closer = marker
    extract = load_extractor("en").extract
    assert extract(f"{opener}{thought}{closer}", ASKED).option is None
    assert extract(f"{opener}{thought}{closer}B", ASKED).option == 1
    assert extract(f"{opener}{opener}{thought}{closer}{thought}{closer}\nB", ASKED).option == 1
    assert extract(f"{opener}{thought}", ASKED).option is None


@pytest.mark.parametrize("place", range(0, 200, 3))
def test_long_answers_are_cut_between_sentences(place: int) -> None:
    denial = "It would be wrong to say that it was the tailor, who is never named in this part of the text. "
    filler = "".join(f"Point {number} is of no use. " for number in range(150))
    text = "x" * place + ". " + filler + denial * 200
    assert load_extractor("en").extract(text, ASKED).option is None


def test_the_explanation_shows_slots_and_the_one_that_decided() -> None:
    shown = load_extractor("en").explain("The baker.\n\nThe final answer is A.", ASKED).candidates
    slots = [(slot.standing, slot.status) for slot in shown if slot.kind == "slot"]
    assert slots == [("opening", "lost"), ("announced", "won")]
