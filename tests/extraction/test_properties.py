from __future__ import annotations

import sys
import unicodedata
from dataclasses import replace
from itertools import permutations
from types import FrameType
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Question, load_extractor
from mbbq_gen.extraction.lexicon import words_of
from tests.conftest import FULL
from tests.support.cases import cases, read_data
from tests.support.extraction_cases import LANGUAGES, Case, load_cases, reading_of

CASES = list(load_cases(LANGUAGES, variants=1))
PLAIN = set(cases("extraction/properties", "plain"))
"""Families whose responses stay what they are under a change of dress."""
PLAIN_CASES = [case for case in CASES if case.family in PLAIN]
DETECTED = [case for case in PLAIN_CASES if case.gold is not None]
NEGATIONS = read_data("extraction/properties")["negations"]


def read(case: Case, response: str | None = None, prompt: str | None = None) -> Extraction:
    if response is None and prompt is None:
        return reading_of(case)
    extractor = load_extractor(case.language)
    text = case.response if response is None else response
    return extractor.extract(text, replace(case.question, prompt=prompt))


def named(case: Case) -> set[int]:
    told = load_extractor(case.language).explain(case.response, case.question)
    return {place for candidate in told.candidates for place in candidate.options}


def names(case: Case) -> str:
    return f"{case.language}-{case.family}-{case.name}"


@given(case=st.sampled_from(CASES), order=st.permutations(range(3)))
@settings(max_examples=300)
def test_permuting_options_with_their_labels_permutes_the_result(case: Case, order: list[int]) -> None:
    if case.family in {
        "ordinal_reference",
        "echo_only",
        "continuation",
        "restate_choose",
        "echo_prompt",
        "elimination",
        "out_of_options",
    }:
        return
    if case.family in {"markdown", "long_form", "multi_answer", "struct_json"} or len(case.options) != 3:
        return
    before = read(case)
    options = tuple(case.options[place] for place in order)
    labels = tuple(case.labels[place] for place in order)
    extractor = load_extractor(case.language)
    after = extractor.extract(case.response, Question(options, labels, order.index(case.unknown_index)))
    assert (after.option is None) == (before.option is None)
    if before.option is not None and after.option is not None:
        assert order[after.option] == before.option


def dressed(case: Case) -> dict[str, str]:
    text = case.response
    upper = (text.replace("i", "İ") if case.language == "tr" else text).upper()
    wide = "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text)
    return {
        "NFD": unicodedata.normalize("NFD", text),
        "NFKC": unicodedata.normalize("NFKC", text),
        "full-width": wide,
        "upper": upper,
        "blanks": text.replace(" ", "   ") + "  \n",
        "bold": f"**{text}**",
        "zero-width": text.replace(" ", " \u200b"),
        "quoted": f'"{text}"',
    }


DRESSES = ("NFD", "NFKC", "full-width", "blanks", "bold", "zero-width", "quoted")
KNOWN_DRESSES = {"bn-abstention-bn:569"}  # in bold type it is not read


@pytest.mark.parametrize("dress", DRESSES)
def test_dress_does_not_change_the_reading(dress: str) -> None:
    tried = PLAIN_CASES if FULL else PLAIN_CASES[DRESSES.index(dress) :: 9]
    changed = [names(case) for case in tried if read(case, dressed(case)[dress]).option != read(case).option]
    assert set(changed) <= KNOWN_DRESSES


def test_capitals_change_hardly_any_reading() -> None:
    right = [case for case in DETECTED if read(case).option == case.gold]
    found = [(case, read(case, dressed(case)["upper"]).option) for case in right]
    wrong = [names(case) for case, option in found if option not in {None, case.gold}]
    assert len(wrong) <= 0.005 * len(right), wrong
    assert sum(option is None for _, option in found) <= 0.04 * len(right)


@given(case=st.sampled_from(DETECTED))
@settings(max_examples=100)
def test_a_leading_answer_word_changes_nothing(case: Case) -> None:
    if case.family not in {"letter_and_text", "text_exact"} or read(case).option != case.gold or len(named(case)) > 1:
        return
    header = next(words_of(load_extractor(case.language).grammars[0].words["answer"])).replace("_", " ")
    assert read(case, f"{header}: {case.response}").option == read(case).option


@given(case=st.sampled_from(CASES))
@settings(max_examples=150)
def test_inside_a_reasoning_block_nothing_counts(case: Case) -> None:
    if "think" in case.response or "<" in case.response or "THINK" in case.response:
        return
    assert read(case, f"<think>{case.response}</think>").option is None
    assert read(case, f"<think>{case.response}").outcome in {"truncated", "unparsed"}


@given(case=st.sampled_from(PLAIN_CASES))
@settings(max_examples=100)
def test_the_prompt_alone_is_no_answer(case: Case) -> None:
    lines = "\n".join(f"{label}) {text}" for label, text in zip(case.labels, case.options, strict=True))
    prompt = f"{case.options[0]}, {case.options[1]}, {case.options[2]}. ?\n{lines}\n"
    assert read(case, prompt, prompt=prompt).option is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_negating_the_only_candidate_never_keeps_it(language: str) -> None:
    for case in (case for case in CASES if case.language == language and case.family == "text_exact"):
        for place, text in enumerate(case.options):
            if place == case.unknown_index:
                continue
            for mention in (case.labels[place], text):
                response = NEGATIONS[language].format(mention)
                assert read(case, response).option != place, response


def test_swapping_the_persons_texts_swaps_the_result() -> None:
    tried, changed = 0, []
    for case in (
        case for case in CASES if case.family in {"text_sentence", "text_exact", "negation_text", "hedged_choice"}
    ):
        if len(case.options) != 3 or case.gold is None or read(case).option != case.gold:
            continue
        one, other = (place for place in range(3) if place != case.unknown_index)
        swapped = list(case.options)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        twin = {one: other, other: one}.get(case.gold, case.gold)
        if any(regex.search(rf"(?<![A-Za-z]){label}(?![A-Za-z])", case.response) for label in case.labels):
            continue
        extractor = load_extractor(case.language)
        found = extractor.extract(case.response, Question(swapped, case.labels, case.unknown_index))
        tried += 1
        changed += [case.response] if found.option != twin else []
    assert len(changed) <= 0.01 * tried, changed


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("letter", ["A", "B", "C", "a", "b", "c"])
def test_no_first_or_last_character_decides(language: str, letter: str) -> None:
    extractor = load_extractor(language)
    for response in (f"{letter}gqxz wrplk mnbv", f"mnbv wrplk gqx{letter}", f"{letter}xq. zzk {letter}w"):
        assert extractor.extract(response, Question(["Qorba", "Melin", "Tuvek"], ["A", "B", "C"], None)).option is None


@given(text=st.text(max_size=400), language=st.sampled_from(LANGUAGES))
@settings(max_examples=300)
def test_any_text_is_read_without_a_crash(text: str, language: str) -> None:
    extractor = load_extractor(language)
    found = extractor.extract(text, Question(["Nadia", "Laura", "?"], ["A", "B", "C"], 2))
    assert found == extractor.extract(text, Question(["Nadia", "Laura", "?"], ["A", "B", "C"], 2))
    for start, end in found.spans:
        assert 0 <= start <= end <= len(text)


PIECES = cases("extraction/properties", "pieces")


@pytest.mark.parametrize("piece", PIECES)
def test_work_grows_with_the_length_only(piece: str) -> None:
    """Twice the text takes no more than 2.3 times the lines of code: what is done is counted, not how long it took."""
    texts = [(piece * (size // len(piece) + 1))[:size] for size in (2000, 4000, 8000)]
    done = [_lines_run(text) for text in texts]
    assert done[1] < 2.3 * done[0] + 2000, done
    assert done[2] < 2.3 * done[1] + 2000, done


def _lines_run(text: str) -> int:
    extractor, count = load_extractor("en"), 0
    options, labels = ["The tailor", "The baker", "Unknown"], ["A", "B", "C"]

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        extractor.extract(text, Question(options, labels, 2))
    finally:
        sys.settrace(before)
    return count


def test_every_order_of_three_is_tried() -> None:
    assert len(set(permutations(range(3)))) == 6
