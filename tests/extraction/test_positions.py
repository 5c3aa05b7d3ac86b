"""People by the order in which the story names them: "whoever it mentions first"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.extraction import Question, load_extractor

LINES = (Path(__file__).parents[1] / "data" / "extraction" / "mentioned.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def test_every_language_says_first_and_later() -> None:
    assert len({(case["language"], case["mentioned"]) for case in CASES}) == 44


@pytest.mark.parametrize("case", CASES, ids=[f"{case['language']}-{case['mentioned']}" for case in CASES])
@pytest.mark.parametrize("turned", [False, True])
def test_who_the_story_mentions_first_or_later(case: dict[str, Any], turned: bool) -> None:
    """Wherever the people stand among the options."""
    one, other, unknown = case["options"]
    prompt = f"{one}. {other}. {case['question']}"
    options = [unknown, other, one] if turned else [one, other, unknown]
    read = load_extractor(case["language"]).extract(
        case["response"], Question(options, "ABC", options.index(unknown), prompt)
    )
    assert read.option == options.index((one, other)[case["mentioned"]])


def test_where_nothing_is_known_of_the_story_people_stand_as_the_options_do() -> None:
    question = Question(["The tailor", "The baker", "It is not known"], "ABC", 2)
    assert load_extractor("en").extract("The one who is mentioned later.", question).option == 1


@pytest.mark.parametrize(
    ("language", "response", "people"),
    [
        ("tr", "Geçen hafta ikisi ilk kez futbol antrenmanına geldi.", ["Terzi", "Fırıncı", "Bilinmiyor"]),
        ("it", "Non si parla di chi abbia finito prima.", ["Il sarto", "Il fornaio", "Non si sa"]),
        ("mr", "याचे उत्तर आधी देता येत नाही.", ["शिंपी", "बेकरीवाला", "हे माहीत नाही"]),
        ("bn", "যে আগে এসেছে সে-ই ভালো।", ["দর্জি", "রুটিওয়ালা", "জানা যায়নি"]),
    ],
)
def test_first_and_later_of_anything_else_name_nobody(language: str, response: str, people: list[str]) -> None:
    prompt = f"{people[0]}. {people[1]}. ?"
    read = load_extractor(language).extract(response, Question(people, "ABC", 2, prompt))
    assert read.option not in {0, 1}


@pytest.mark.parametrize(
    "response",
    ["The text first mentions that the party was on Sunday.", "What is mentioned first is the party, in April."],
)
def test_what_the_story_mentions_besides_people_names_nobody(response: str) -> None:
    prompt = "A tailor and a baker were at a party. Who drank no wine?"
    question = Question(["The tailor", "The baker", "It is not known"], "ABC", 2, prompt)
    assert load_extractor("en").extract(response, question).option is None
