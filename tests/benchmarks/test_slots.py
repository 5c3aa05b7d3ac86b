from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.benchmarks.templates.esbbq import check_slots, parse_lists, sentence_writer
from tests.support.cases import cases

WORD = st.text(alphabet="abcdé '-", min_size=1, max_size=8).map(str.strip).filter(bool)
SLOT_NAMES = ["NAME1", "NAME2", "WORD1", "WORD1-def", "WORD2-indef"]


@pytest.mark.parametrize("case", cases("engines/lists.toml", "case"), ids=lambda case: repr(case["cell"]))
def test_list_cells(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ValueError, match=r".") as error:
            parse_lists(case["cell"])
        assert case["error"] in str(error.value)
    else:
        assert {slot: list(words) for slot, words in parse_lists(case["cell"]).items()} == case["lists"]


@given(st.dictionaries(st.sampled_from(SLOT_NAMES), st.lists(WORD, min_size=1, max_size=4), min_size=1))
def test_what_is_listed_is_read(lists: dict[str, list[str]]) -> None:
    cell = "; ".join(f"{slot}: [{', '.join(words)}]" for slot, words in lists.items())
    assert {slot: list(words) for slot, words in parse_lists(cell).items()} == lists


@pytest.mark.parametrize(("text", "fault"), cases("benchmarks/slots", "torn_slots"))
def test_torn_slots(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        check_slots(text)
    assert fault in str(error.value)


@pytest.mark.parametrize("case", cases("engines/sentences.toml", "case"), ids=lambda case: str(case["filled"])[:30])
def test_sentences(case: dict[str, Any]) -> None:
    assert sentence_writer(case["language"])(case["filled"]) == case["sentence"]


def test_every_language_with_repairs_has_cases() -> None:
    grammar = (files("mbbq_gen.benchmarks") / "grammar.toml").read_text(encoding="utf-8")
    assert set(tomllib.loads(grammar)) <= {case["language"] for case in cases("engines/sentences.toml", "case")}
