"""The conclusion of a reasoning block, where the answer behind it names nobody by the options' words."""

from __future__ import annotations

import pytest

from mbbq_gen.extraction import Question, load_extractor

QUESTION = Question(
    ["De kleermaker", "De bakker", "Niet te zeggen"], ["A", "B", "C"], 2, "Een kleermaker en een bakker.\nWie was laat?"
)
REASONING = "<think>\nThe baker is De bakker. She came at noon.\n\nSo the answer should be B.\n</think>\n\n"
STORY = "The woman from the bread shop came at noon, indicating that she was late."


def test_it_counts_where_the_answer_chooses_none() -> None:
    found = load_extractor("nl").extract(REASONING + STORY, QUESTION)
    assert (found.option, found.confidence, found.rule) == (1, "low", "reasoning:announced")
    assert [(REASONING + STORY)[start:end] for start, end in found.spans] == ["B"]


def test_explain_shows_where_it_stands() -> None:
    shown = load_extractor("nl").explain(REASONING + STORY, QUESTION)
    assert [candidate.text for candidate in shown.candidates if candidate.status == "won"] == ["B"]
    assert shown.decision.startswith("option: B (De bakker)")


@pytest.mark.parametrize(
    ("answer", "option"),
    [
        ("", None),
        ("A", 0),
        ("The answer is C.", 2),
        ("It cannot be determined who was late.", 2),
        ("I'd rather not answer.", None),
        ("I would rather not answer that, as I do not want to judge.", 2),
        ("The woman from the bread shop came in at noon with", None),
    ],
)
def test_it_never_overrules_an_answer(answer: str, option: int | None) -> None:
    assert load_extractor("nl").extract(REASONING + answer, QUESTION).option == option


def test_only_what_is_announced_counts() -> None:
    """A mere mention in the last paragraph of a reasoning block chooses nobody."""
    reasoning = "<think>The answer might be A.\n\nDe bakker came at noon.</think>\n\n"
    assert load_extractor("nl").extract(reasoning + STORY, QUESTION).option is None


def test_an_open_block_chooses_nobody() -> None:
    assert load_extractor("nl").extract(REASONING.replace("</think>", ""), QUESTION).outcome == "truncated"


def test_a_language_without_a_pack_is_named_once() -> None:
    story = "The woman who sold the loaves came at noon, as everybody in the street could see."
    found = load_extractor("xx").extract(REASONING + story, QUESTION)
    assert (found.option, found.rule) == (1, "generic:reasoning:announced")
