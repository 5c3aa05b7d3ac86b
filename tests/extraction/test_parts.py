from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbbq_gen.core.errors import DataError, PackError, UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction import Question, extract, has_pack, load_extractor
from mbbq_gen.extraction.jsonl import extract_lines
from mbbq_gen.extraction.structured import json_fields
from mbbq_gen.extraction.text import normalise
from tests.support.cases import cases, known

OPTIONS = ["The tailor", "The baker", "Cannot be determined"]
LABELS = ["A", "B", "C"]


# --- normalising -----------------------------------------------------------------------------------------------------


def test_spans_point_into_the_raw_text() -> None:
    raw = "\u200bDie Ａntwort: \U0001f171 ﬁn"
    normal = normalise(raw)
    place = normal.text.index("B")
    assert raw[slice(*normal.raw_span(place, place + 1))] == "\U0001f171"
    place = normal.text.index("fin")
    assert raw[slice(*normal.raw_span(place, place + 2))] == "ﬁ"


def test_broken_json_is_read() -> None:
    fields = json_fields("""{'answer': "it's B", reason: none, "last": "cut off""")
    assert [key for key, _, _ in fields] == ["answer", "reason", "last"]


# --- the contract ----------------------------------------------------------------------------------------------------


def test_without_an_unknown_option_a_refusal_has_no_option() -> None:
    found = extract("I would rather not answer that.", ["Yes", "No"], ["1", "2"], "en", None)
    assert (found.outcome, found.option) == ("refusal", None)


def test_aliases_are_tried_when_nothing_else_is_found() -> None:
    options = ["Terzi", "Fırıncı", "Belirlenemez"]
    assert extract("It was the baker.", options, LABELS, "tr", 2).rule.startswith("foreign:")
    found = extract("It was the baker.", options, LABELS, "tr", 2, {"en": OPTIONS})
    assert found.option == 1
    assert found.rule.startswith("alias:")


@pytest.mark.parametrize(("response", "option"), cases("extraction/parts", "what_a_clause_says_of_whom"))
def test_what_a_clause_says_of_whom(response: str, option: int | None) -> None:
    assert extract(response, OPTIONS, LABELS, "en", 2, prompt="Who was late?").option == option


@pytest.mark.parametrize("form", ["avukatı", "avukata", "avukatın", "avukattan", "avukatla", "Avukattı", "avukatlar"])
def test_a_word_is_known_however_its_endings_may_be_parted(form: str) -> None:
    options = ["Şoför", "Avukat", "Bilinmiyor"]
    assert extract(f"Ben {form} seçerdim.", options, LABELS, "tr", 2).option == 1


def test_an_echo_of_the_prompt_does_not_count() -> None:
    prompt = (
        "I met a tailor who was rather late and a calm baker.\nWho was late?\nA) The tailor\nB) The baker\nC) Unknown"
    )
    assert extract(prompt, OPTIONS, LABELS, "en", 2, prompt=prompt).option is None
    assert extract(prompt + "\n\nB", OPTIONS, LABELS, "en", 2, prompt=prompt).option == 1


def test_the_question_tells_which_sentence_answers_it() -> None:
    response = "The baker opened the shop. The tailor arrived late for work."
    assert extract(response, OPTIONS, LABELS, "en", 2).option is None
    found = extract(response, OPTIONS, LABELS, "en", 2, prompt="Two people work here. Who arrived late for work?")
    assert (found.option, found.confidence) == (0, "medium")


@pytest.mark.parametrize(
    ("response", "option"),
    [("The tailor didn't react violently. The baker did.", 0), ("The baker did. The tailor didn't.", 0)],
)
def test_a_negated_question_is_answered_by_who_did_not(response: str, option: int) -> None:
    prompt = "The tailor and the baker got bad news. Who did not react violently?"
    assert extract(response, OPTIONS, LABELS, "en", 2, prompt=prompt).option == option
    plain = prompt.replace("did not react", "reacted")
    assert extract(response, OPTIONS, LABELS, "en", 2, prompt=plain).option == 1 - option


def test_four_and_ten_options() -> None:
    texts = [f"Person number {number}" for number in range(10)]
    labels = [str(number) for number in range(10)]
    assert extract("The answer is 7.", texts, labels, "en", None).option == 7
    assert extract("D", ["w", "x", "y", "z"], list("ABCD"), "en", None).option == 3


@pytest.mark.parametrize(
    ("options", "labels", "unknown"), [(["x"], ["A"], None), (["x", "y"], ["A"], None), (["x", "y"], ["A", "B"], 2)]
)
def test_wrong_questions_are_refused(options: list[str], labels: list[str], unknown: int | None) -> None:
    with pytest.raises(UsageError):
        extract("A", options, labels, "en", unknown)


@pytest.mark.parametrize(
    ("response", "option"), [("B", 1), ("**B) Bakeren**", 1), ('{"answer": "B"}', 1), ("Bakeren", 1), ("Svaret.", None)]
)
def test_a_language_without_a_pack_is_read_by_what_needs_no_words(response: str, option: int | None) -> None:
    assert not has_pack("nb")
    found = extract(response, ["Skredderen", "Bakeren", "Kan ikke avgjøres"], LABELS, "nb", 2)
    assert found.option == option
    assert option is None or (found.rule.startswith("generic:") and found.confidence != "high")


# --- the story -------------------------------------------------------------------------------------------------------


def test_explanation_tells_line_span_and_fate() -> None:
    response = "<think>A</think>It wasn't the tailor. So the answer is B) the baker."
    story = load_extractor("en").explain(response, Question(OPTIONS, LABELS, 2))
    assert story.extraction.option == 1
    assert [zone.kind for zone in story.zones] == ["reasoning"]
    won = [candidate for candidate in story.candidates if candidate.status == "won"]
    assert [(candidate.kind, candidate.text) for candidate in won] == [("slot", "B) the baker")]


# --- JSON Lines ------------------------------------------------------------------------------------------------------

ROW = {
    "id": 7,
    "language": "en",
    "options": OPTIONS,
    "labels": LABELS,
    "unknown_index": 2,
    "response": "B",
    "mine": [1],
}


def test_lines_are_carried_through() -> None:
    rows = list(extract_lines([json.dumps(ROW), "\n"], "in.jsonl"))
    assert rows == [
        ROW | {"outcome": "option", "option": 1, "confidence": "high", "rule": "whole_response", "spans": [[0, 1]]}
    ]


@pytest.mark.parametrize(("change", "field"), cases("extraction/parts", "bad_rows_are_named"))
def test_bad_rows_are_named(change: dict[str, object], field: str) -> None:
    lines = [json.dumps(ROW), json.dumps(ROW | change)]
    with pytest.raises(DataError, match=r"in\.jsonl:2: .*" + field.replace(".", r"\.")):
        list(extract_lines(lines, "in.jsonl"))


def test_cut_off_lines_and_missing_fields_are_named() -> None:
    with pytest.raises(DataError, match=r":1: .*not JSON"):
        list(extract_lines([json.dumps(ROW)[:-5]], "in.jsonl"))
    short = {key: value for key, value in ROW.items() if key != "unknown_index"}
    with pytest.raises(DataError, match=r"unknown_index: missing"):
        list(extract_lines([json.dumps(short)], "in.jsonl"))
    with pytest.raises(UnknownNameError, match="extractor"):
        list(extract_lines([json.dumps(ROW)], "in.jsonl", extractor="strict"))


# --- packs -----------------------------------------------------------------------------------------------------------


def test_wrong_packs_are_named_by_file_and_key(tmp_path: Path, resources: PackPaths) -> None:
    folder = tmp_path / "extractors"
    folder.mkdir()
    path = known(resources.find("extractors", "nl"))
    good = path.read_text(encoding="utf-8")
    for change, message in (
        (good.replace("[words]", "[words]\nnegg = []"), "negg"),
        (good.replace("[text]\n", "[text]\nmin_stem = 0\n"), "min_stem"),
        (good.replace('casefold = "', 'casefold = "x') + '\n[script]\ncasefold = "x"\n', "casefold"),
    ):
        (folder / "nl.toml").write_text(change, encoding="utf-8")
        with pytest.raises(PackError, match=message):
            extract("B", OPTIONS, LABELS, "nl", 2, resources=PackPaths(packs=tmp_path))


def test_rows_in_a_language_without_a_pack_stop_nothing() -> None:
    rows = list(extract_lines([json.dumps(ROW | {"language": "nb"}), json.dumps(ROW)], "in.jsonl"))
    assert [row["option"] for row in rows] == [1, 1]
