"""The parts of the extractor: normalising, the pattern language, structures, the story, JSON Lines, packs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from mbbq_gen.errors import DataError, PackError, UnknownNameError, UsageError
from mbbq_gen.extraction import Explanation, extract, load_extractor
from mbbq_gen.extraction.automaton import Automaton
from mbbq_gen.extraction.engine import MAX_OPTION_SETS
from mbbq_gen.extraction.jsonl import extract_lines, extractor_names
from mbbq_gen.extraction.normalise import loose_key, normalise, strict_key
from mbbq_gen.extraction.optionset import edits
from mbbq_gen.extraction.patterns import Rule, parse
from mbbq_gen.extraction.structured import json_fields
from mbbq_gen.extraction.tokens import tokenise
from mbbq_gen.resources import Resources

OPTIONS = ["The tailor", "The baker", "Cannot be determined"]
LABELS = ["A", "B", "C"]


# --- normalising -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [("ISI", "ısı"), ("İŞÇİ", "işçi"), ("Ｂ", "b"), ("opción", "opcion"), ("STRASSE", "straße"), ("कर्म", "क\u200dर्म")],
)
def test_loose_keys_are_equal(one: str, other: str) -> None:
    assert loose_key(one) == loose_key(other)


def test_indic_marks_are_spelling() -> None:
    assert loose_key("कि") != loose_key("की")


def test_strict_keys_keep_accents_and_mind_turkish() -> None:
    assert strict_key("QUIÉN", turkish=False) == "quién" != strict_key("quien", turkish=False)
    assert strict_key("ISI", turkish=True) == "ısı"


def test_spans_point_into_the_raw_text() -> None:
    raw = "\u200bDie Ａntwort: \U0001f171 ﬁn"
    normal = normalise(raw)
    place = normal.text.index("B")
    assert raw[slice(*normal.raw_span(place, place + 1))] == "\U0001f171"
    place = normal.text.index("fin")
    assert raw[slice(*normal.raw_span(place, place + 2))] == "ﬁ"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("정답은 B입니다", ["정", "답", "은", "b", "입", "니", "다"]),
        ("Cevap B'dir.", ["cevap", "b", "dir"]),
        ("58-year-old", ["58", "year", "old"]),
        ("1,000.5 m", ["1,000.5", "m"]),
        ("उत्तर B है", ["उत्तर", "b", "है"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert [token.key for token in tokenise(text)] == words


# --- patterns --------------------------------------------------------------------------------------------------------


def matches(phrase: str, text: str) -> bool:
    return Automaton([Rule("test", phrase, "en", True)]).matches(tokenise(text))


@pytest.mark.parametrize(
    ("phrase", "text", "expected"),
    [
        ("the (best|right) answer", "So the RIGHT answer is", True),
        ("the (best|right) answer", "the answer", False),
        ("the (best|right)? answer", "the answer", True),
        ("not … say", "does not at all quite say", True),
        ("not …1 say", "does not at all say", False),
        ("not … say", "not now. They say", False),
        ("stereotyp* thinking", "Stereotypical thinking", True),
        ("kim *miyor", "kim bilinmiyor", True),
        ("=quién fue", "quién fue", True),
        ("=quién fue", "quien fue", False),
        ("quién fue", "quien fue", True),
        ("answer :", "Answer:\nB", True),
        ("answer :", "answer B", False),
        ("answer : b", "Answer:\nB", True),
        ("no answer", "no, answer", False),
        ("no , answer", "no, answer", True),
        ("^ wait", "Wait.", True),
        ("^ wait", "They wait.", False),
        ("unclear $", "It is unclear. So", True),
        ("unclear $", "It is unclear who", False),
        ("can t know", "We can't know", True),
    ],
)
def test_pattern_language(phrase: str, text: str, *, expected: bool) -> None:
    assert matches(phrase, text) is expected


@pytest.mark.parametrize("phrase", ["(a|b", "a)", "a?", "a+b", "[ab]", "(a)?", "…", "a\\d", "x* y*z*"])
def test_patterns_out_of_the_language_are_refused(phrase: str) -> None:
    with pytest.raises(PackError):
        parse(phrase)


def test_slots_are_reported() -> None:
    found = load_extractor("en").explain("Not the tailor but the baker.", OPTIONS, LABELS, 2)
    standings = {candidate.text: candidate.standing for candidate in found.candidates}
    assert standings == {"the tailor": "negated", "the baker": "live"}


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [("tailor", "tialor", 1), ("tailor", "tailr", 1), ("baker", "tailor", 2), ("a", "a", 0)],
)
def test_edits(left: str, right: str, distance: int) -> None:
    assert edits(left, right, 1) == distance


def test_broken_json_is_read() -> None:
    fields = json_fields("""{'answer': "it's B", reason: none, "last": "cut off""")
    assert [field.key for field in fields] == ["answer", "reason", "last"]


# --- the contract ----------------------------------------------------------------------------------------------------


def test_outcomes() -> None:
    def outcome(response: str, **more: str) -> str:
        return extract(response, OPTIONS, LABELS, "en", 2, finish_reason=more.get("finish_reason")).outcome

    assert outcome(" \n") == "empty"
    assert outcome("B") == "option"
    assert outcome("The text does not say who it was.") == "unknown_statement"
    assert outcome("I would rather not speculate.") == "refusal"
    assert outcome("A and B") == "multiple"
    assert outcome("Lovely weather today.") == "no_answer"
    assert outcome("Lovely weather today", finish_reason="length") == "truncated"
    assert outcome("<think>It must be B") == "truncated"


def test_without_an_unknown_option_a_refusal_has_no_option() -> None:
    found = extract("I can't help with that.", ["Yes", "No"], ["1", "2"], "en", None)
    assert (found.outcome, found.option) == ("refusal", None)


def test_aliases_are_tried_when_nothing_else_is_found() -> None:
    options = ["Terzi", "Fırıncı", "Belirlenemez"]
    aliases = {"en": OPTIONS}
    assert extract("It was the baker.", options, LABELS, "tr", 2).rule.startswith("foreign:")
    found = extract("It was the baker.", options, LABELS, "tr", 2, aliases)
    assert found.option == 1
    assert found.rule.startswith("alias:")


@pytest.mark.parametrize("number", ["1.2.3", "1,000,000", "1..2.", "3.", "7" * 400, "1_0", "0x1", "²"])
def test_whatever_stands_before_a_percent_sign_is_read_without_a_fault(number: str) -> None:
    for response in (f"A: {number}%\nB: 4%\nC: 5%", f'{{"A": {number}, "B": 2}}'):
        extract(response, OPTIONS, LABELS, "en", 2)
    assert extract("A: 20%\nB: 70,5%\nC: 9.5%", OPTIONS, LABELS, "en", 2).option == 1


@pytest.mark.parametrize(
    "response",
    [
        "A: Terzi\nB: Fırıncı\nC: Belirlenemez",
        "A değil. The baker and the tailor.",
        "Ne terzi ne fırıncı: the other man.",
    ],
)
def test_aliases_do_not_help_a_response_that_speaks_of_its_own_options(response: str) -> None:
    options = ["Terzi", "Fırıncı", "Belirlenemez"]
    without = extract(response, options, LABELS, "tr", 2)
    assert (
        extract(response, options, LABELS, "tr", 2, {"en": OPTIONS, "nl": ["De bakker", "De man", "Weet niet"]})
        == without
    )


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
    assert (found.option, found.confidence) == (0, "low")


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


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(UnknownNameError, match="xx"):
        extract("A", OPTIONS, LABELS, "xx", 2)


def test_what_is_kept_does_not_grow_with_the_run() -> None:
    reader = load_extractor("en")
    for number in range(MAX_OPTION_SETS + 20):
        reader.extract("B", [f"The tailor {number}", "The baker", "Unknown"], LABELS, 2)
    assert reader._options.cache_info().currsize == MAX_OPTION_SETS


def test_an_automaton_that_forgets_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [Rule("test", phrase, "en", True) for phrase in ("the (best|right)? answer …3 is", "answer", "is …2 not")]
    texts = [tokenise(text) for text in ("The right answer, I think, is B", "the answer is it not", "answer")]
    lasting = [Automaton(rules).find(text) for text in texts]
    monkeypatch.setattr("mbbq_gen.extraction.automaton.MAX_STEPS", 0)
    forgetful = Automaton(rules)
    assert [forgetful.find(text) for text in texts] == lasting


def test_extractor_is_cached_and_versioned(resources: Resources) -> None:
    assert load_extractor("nl", resources) is load_extractor("nl", resources)
    assert load_extractor("nl").version != load_extractor("es").version
    assert pickle.loads(pickle.dumps(extract("B", OPTIONS, LABELS, "en", 2))).option == 1


# --- the story -------------------------------------------------------------------------------------------------------


def test_explanation_tells_line_span_and_fate() -> None:
    response = "<think>A</think>It wasn't the tailor. So the answer is B) the baker."
    story = load_extractor("en").explain(response, OPTIONS, LABELS, 2)
    assert story.extraction.option == 1
    assert [zone.kind for zone in story.zones] == ["reasoning"]
    won = [candidate for candidate in story.candidates if candidate.fate == "won"]
    assert [candidate.text for candidate in won] == ["B) the baker"]
    source = won[0].source
    assert source is not None
    assert source.key == "cues.before"
    assert source.line is not None
    lost = next(candidate for candidate in story.candidates if candidate.text == "the tailor")
    assert (lost.standing, lost.fate) == ("negated", "lost")
    assert Explanation.model_validate_json(story.model_dump_json()) == story


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
        ROW | {"outcome": "option", "option": 1, "confidence": "high", "rule": "whole_answer", "spans": [[0, 1]]}
    ]


@pytest.mark.parametrize("name", extractor_names())
def test_every_reader_reads_lines(name: str) -> None:
    (row,) = extract_lines([json.dumps(ROW)], "in.jsonl", extractor=name)
    assert row["option"] == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"options": "A"}, "options"),
        ({"options": ["x"]}, "options"),
        ({"labels": ["A", "B"]}, "labels"),
        ({"unknown_index": 3}, "unknown_index"),
        ({"unknown_index": True}, "unknown_index"),
        ({"response": None}, "response"),
        ({"language": "xx"}, "xx"),
        ({"aliases": {"en": ["x"]}}, "aliases.en"),
        ({"prompt": 3}, "prompt"),
        ({"finish_reason": 3}, "finish_reason"),
    ],
)
def test_bad_rows_are_named(change: dict[str, object], field: str) -> None:
    lines = [json.dumps(ROW), json.dumps(ROW | change)]
    with pytest.raises(DataError, match=r"in\.jsonl:2: .*" + field.replace(".", r"\.")):
        list(extract_lines(lines, "in.jsonl"))


def test_cut_off_lines_and_missing_fields_are_named() -> None:
    with pytest.raises(DataError, match=r":1: not JSON"):
        list(extract_lines([json.dumps(ROW)[:-5]], "in.jsonl"))
    short = {key: value for key, value in ROW.items() if key != "unknown_index"}
    with pytest.raises(DataError, match=r"unknown_index: missing"):
        list(extract_lines([json.dumps(short)], "in.jsonl"))
    with pytest.raises(UnknownNameError, match="extractor"):
        list(extract_lines([json.dumps(ROW)], "in.jsonl", extractor="strict"))


# --- packs -----------------------------------------------------------------------------------------------------------


def test_wrong_packs_are_named_by_file_and_key(tmp_path: Path, resources: Resources) -> None:
    folder = tmp_path / "extractors"
    folder.mkdir()
    path = resources.find("extractors", "nl")
    assert path is not None
    good = path.read_text(encoding="utf-8")
    for change, message in (
        (good.replace("[cues]", "[cues]\nbefor = []"), "befor"),
        (good.replace("[markers]\n", '[markers]\nadverbs = ["x"]\n'), "adverbs"),
        (good.replace("after = [\n", 'after = [\n  "{x} (is",\n', 1), "bracket"),
    ):
        (folder / "nl.toml").write_text(change, encoding="utf-8")
        with pytest.raises(PackError, match=message):
            extract("B", OPTIONS, LABELS, "nl", 2, resources=Resources(packs=tmp_path))
