"""The development set, the packs' own examples, and the simple readers for comparison."""

from __future__ import annotations

from collections import Counter

import pytest

from mbbq_gen.extraction import load_extractor
from mbbq_gen.extraction.lint import check_pack
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS
from mbbq_gen.records import DETECTED, Extraction
from mbbq_gen.resources import Resources
from tests.extraction_cases import LANGUAGES, Case, load_cases

MAX_WRONG = {"high": 0.005, "medium": 0.02, "low": 0.05}
"""Wrong readings that a level of confidence may have at most."""
MIN_PER_FAMILY = 25


def read(case: Case) -> Extraction:
    extractor = load_extractor(case.language)
    return extractor.extract(case.response, case.options, case.labels, case.unknown_index)


@pytest.fixture(scope="module")
def readings() -> list[tuple[Case, Extraction]]:
    return [(case, read(case)) for case in load_cases()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_overall_thresholds(language: str) -> None:
    own = [(case, read(case)) for case in load_cases((language,))]
    answered = [(case, found) for case, found in own if case.gold is not None]
    silent = [(case, found) for case, found in own if case.gold is None]
    right = sum(found.option == case.gold for case, found in own)
    wrong = sum(found.option not in {None, case.gold} for case, found in answered)
    false = sum(found.option is not None for _, found in silent)
    misread = [
        case.name
        for case, found in answered
        if case.gold == case.unknown_index and found.option not in {None, case.gold}
    ]
    assert right / len(own) >= 0.98
    assert wrong / len(answered) <= 0.01
    assert false / len(silent) <= 0.02
    assert not misread, "unknown read as a person"


def test_every_family_is_read_well(readings: list[tuple[Case, Extraction]]) -> None:
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for case, found in readings:
        total[case.family] += 1
        right[case.family] += found.option == case.gold
    assert min(total.values()) >= MIN_PER_FAMILY
    weak = {family: f"{right[family]} of {count}" for family, count in total.items() if right[family] < 0.95 * count}
    assert not weak


def test_confidence_is_honest(readings: list[tuple[Case, Extraction]]) -> None:
    levels: dict[str, list[bool]] = {"high": [], "medium": [], "low": []}
    for case, found in readings:
        if found.outcome in DETECTED:
            levels[found.confidence].append(found.option != case.gold)
    for level, errors in levels.items():
        assert sum(errors) <= MAX_WRONG[level] * len(errors), level


def test_simple_readers_are_much_worse(readings: list[tuple[Case, Extraction]]) -> None:
    """What the readers are for: a reader alone moves the scores."""
    cases = [case for case, _ in readings]
    for name, simple in SIMPLE_EXTRACTORS.items():
        right = sum(
            simple(case.response, case.options, case.labels, case.language, case.unknown_index).option == case.gold
            for case in cases
        )
        assert 0.1 < right / len(cases) < 0.75, name


@pytest.mark.parametrize("language", LANGUAGES)
def test_pack_passes_its_own_check(resources: Resources, language: str) -> None:
    assert [str(finding) for finding in check_pack(resources, language)] == []
