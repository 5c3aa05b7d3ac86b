from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.benchmarks.control.maker import REASONS, ControlGenerator
from mbbq_gen.benchmarks.control.mention_grammar import SubstitutionRefusedError
from mbbq_gen.benchmarks.control.substitution import apply_plan
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.control_pack import read_control_set

FOLDER = Path(__file__).parents[1] / "data" / "control_stories"
STORIES = [
    pytest.param(file.stem, story, condition, id=f"{file.stem}-{place}-{condition}")
    for file in sorted(FOLDER.glob("*.toml"))
    for place, story in enumerate(tomllib.loads(file.read_text(encoding="utf-8"))["story"])
    for condition in ("ambiguous", "disambiguated")
]
REFUSED = "refused: "


@pytest.fixture(scope="module")
def makers() -> dict[str, ControlGenerator]:
    return {file.stem: ControlGenerator(read_control_set(PackPaths(), file.stem)) for file in FOLDER.glob("*.toml")}


@pytest.mark.parametrize(("language", "story", "condition"), STORIES)
def test_control_questions_of_stories(
    language: str, story: dict[str, Any], condition: str, makers: dict[str, ControlGenerator]
) -> None:
    maker = makers[language]
    options, names, gender = tuple(story["options"]), tuple(story["names"]), story["gender"]
    listed = maker.control_set.names.female if gender == "f" else maker.control_set.names.male
    assert set(names) <= set(listed)
    context, wanted = story["ambiguous"], story["made"]
    if condition == "disambiguated":
        context, wanted = f"{context} {story['disambiguating']}", f"{wanted} {story['made_more']}"
        wanted = story["made_more"] if story["made_more"].startswith(REFUSED) else wanted
    assert len(story["questions"]) == 2
    for question in story["questions"]:
        if wanted.startswith(REFUSED):
            assert wanted.removeprefix(REFUSED) in REASONS
            with pytest.raises(SubstitutionRefusedError, match=wanted.removeprefix(REFUSED)):
                maker.plan(context, options)
            continue
        plans = (maker.plan(context, options), maker.question_plan(question, options))
        assert plans[0].people == {0, 1}
        assert all(gender in plan.genders for plan in plans)
        texts = [apply_plan(plan, names, gender, maker.control_set) for plan in plans]
        assert texts == [wanted, question]
