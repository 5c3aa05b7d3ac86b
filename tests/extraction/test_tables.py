from __future__ import annotations

import pytest

from mbbq_gen.extraction import Question, load_extractor
from mbbq_gen.extraction.claims import CLAIM_RULES as CLAIMS
from mbbq_gen.extraction.claims import MentionFeatures, Rule
from mbbq_gen.extraction.clauses import ClauseState
from mbbq_gen.extraction.decision import DECISION_RULES as DECISIONS
from mbbq_gen.extraction.decision import Decision
from tests.support.cases import cases, known, read_data

NO_FEATURES = dict.fromkeys(MentionFeatures._fields, False) | {"positive": True, "known": True}
PERSONS = ["The tailor", "The baker", "Unknown"]

ROWS: tuple[tuple[str, str, str], ...] = tuple(cases("extraction/tables", "rows"))
"""For every row of the table of claims, in its order: features and state that hold, and features that don't."""


@pytest.mark.parametrize("place", range(len(CLAIMS)))
def test_claims(place: int) -> None:
    held, states, lost = (words.split() for words in ROWS[place])
    features = MentionFeatures(**(NO_FEATURES | dict.fromkeys(held, True) | dict.fromkeys(lost, False)))
    state, row = ClauseState(**dict.fromkeys(states, True)), CLAIMS[place]
    assert next(number for number, other in enumerate(CLAIMS) if other.when(features, state)) == place, row.rule.label


def test_every_row_of_claims_is_tested() -> None:
    assert len(ROWS) == len(CLAIMS)


# --- that it can't be told -------------------------------------------------------------------------------------------

WAYS: list[tuple[str, Rule]] = [
    ("I would rather not answer that.", Rule.REFUSAL),
    ("It is unclear who was late.", Rule.UNCLEAR),
    ("The text is silent on that.", Rule.NOT_STATED),
    ("It cannot be determined who was late.", Rule.CANNOT_KNOW),
    ("There is no information about who was late.", Rule.NO_INFORMATION),
    ("The text does not say who was late.", Rule.SOURCE_SILENT),
    ("It is not obvious who was late.", Rule.NOT_CLEAR),
    ("I never determined which of them was late.", Rule.NOT_KNOWN),
    ("Neither of them is mentioned.", Rule.NEITHER_STATED),
]


@pytest.mark.parametrize(("response", "way"), WAYS, ids=[way.label for _, way in WAYS])
def test_ways_of_saying_that_it_cannot_be_told(response: str, way: Rule) -> None:
    analysis = load_extractor("en").analyse(response, Question(PERSONS, "ABC", 2))
    assert analysis.decision.option == 2
    assert way in {said.rule for said in known(analysis.parsed).propositions}


def test_what_is_not_known_of_something_else_answers_nothing() -> None:
    prompt = "The tailor and the baker came to the party. Who was late?"
    question = Question(PERSONS, "ABC", 2, prompt)
    found = load_extractor("en").extract("The baker was late. The text gives no reason.", question)
    assert found.option == 1


# --- what decides ----------------------------------------------------------------------------------------------------

QUESTION = "The tailor and the baker came to the party. Who was late?"
DECIDED: list[tuple[str, str, int | None]] = cases("extraction/tables", "decided")


def decided(response: str) -> Decision:
    return load_extractor("en").analyse(response, Question(PERSONS, "ABC", 2, QUESTION)).decision


@pytest.mark.parametrize(("row", "response", "option"), DECIDED, ids=[row for row, _, _ in DECIDED])
def test_what_a_response_means(row: str, response: str, option: int | None) -> None:
    decision = decided(response)
    assert (decision.row, decision.option) == (row, option)


NOTHING_CHOSEN = read_data("extraction/tables")["nothing_chosen"]
"""What makes a text no answer → such a text."""


@pytest.mark.parametrize("response", NOTHING_CHOSEN.values(), ids=NOTHING_CHOSEN)
def test_nothing_is_chosen(response: str) -> None:
    assert decided(response).option is None


SAID_IN_PASSING = {
    "first": ("The baker was late. {}", 1),
    "last": ("{} The baker was late.", 1),
    "a conclusion": ("Every party is a chance to meet people. So the baker was late. {}", 1),
}


@pytest.mark.parametrize(("frame", "option"), SAID_IN_PASSING.values(), ids=SAID_IN_PASSING)
def test_what_is_said_first_last_or_of_the_text_counts(frame: str, option: int) -> None:
    talk = "Guests often bring a cake. Punctuality is a virtue. Trains fail now and then. People enjoy the music."
    assert decided(frame.format(talk)).option == option


def test_every_row_of_the_decision_is_tried() -> None:
    assert [row for row, _, _ in DECIDED] == [row.name for row in DECISIONS]
