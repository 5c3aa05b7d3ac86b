from __future__ import annotations

import random
from collections import defaultdict

import pytest

from mbbq_gen.benchmarks.registry import find_benchmark, load_benchmark
from mbbq_gen.core.records import Instance
from mbbq_gen.extraction import Question, load_extractor

KNOWN = {
    "ar": {f"disability_status_0{number}" for number in (1, 3, 4)}
    | {f"gender_identity_0{number}" for number in (1, 2, 3)}
    | {"physical_appearance_03"},
    "bn": {"disability_status_01"},
    "eu": {"disability_status_01", "disability_status_04"},
    "ko": {"age_02", "ses_03", "sexual_orientation_01"},
}
"""Templates some of whose stories are still taken for an answer, by language; to be taken out as they are mended."""


@pytest.fixture(scope="module")
def ambiguous() -> dict[str, list[Instance]]:
    contexts: defaultdict[tuple[str, str, str], dict[str, Instance]] = defaultdict(dict)
    for found in load_benchmark("starter"):
        contexts[found.language, found.template_id, found.condition].setdefault(found.context, found)
    rng = random.Random(5)
    drawn: defaultdict[str, list[Instance]] = defaultdict(list)
    for (language, _, condition), stories in sorted(contexts.items()):
        chosen = rng.sample(list(stories.values()), min(4, len(stories)))
        if condition == "ambiguous":
            drawn[language] += chosen
    return drawn


def is_taken_for_an_answer(story: Instance) -> bool:
    unknown = [option.role for option in story.options].index("unknown")
    question = Question([option.text for option in story.options], ["A", "B", "C"], unknown, story.question)
    return load_extractor(story.language).extract(story.context, question).option is not None


@pytest.mark.parametrize("language", find_benchmark("starter").languages)
def test_an_ambiguous_story_told_again_chooses_nobody(language: str, ambiguous: dict[str, list[Instance]]) -> None:
    told = ambiguous[language]
    assert len({story.template_id for story in told}) == 24
    taken = {story.template_id for story in told if is_taken_for_an_answer(story)}
    assert taken == KNOWN.get(language, set())
