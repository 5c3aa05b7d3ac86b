from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.benchmarks.control.maker import ControlGenerator, people_of
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance
from mbbq_gen.languages.control_pack import read_control_set
from tests.support.cases import cases
from tests.support.questions import options
from tests.support.questions import question as any_question

MAKER = ControlGenerator(read_control_set(PackPaths(), "ko"))
PEOPLE = ["직장인", "학생"]


def kobbq(folder: Path) -> list[Instance]:
    return list(load_benchmark("kobbq", data=folder, splits=["bias"]))


def shown(question: Instance) -> list[tuple[str, str]]:
    places = question.metadata["person_spans"]["context"]
    return [(question.context[start:end], question.options[option].text) for start, end, option in places]


def test_the_slots_of_kobbqs_templates_are_found(data: Path) -> None:
    ambiguous, _, disambiguated, *_ = kobbq(data / "datasets" / "kobbq")
    assert shown(ambiguous) == [("직장인과", "직장인"), ("학생이", "학생")]
    assert shown(disambiguated) == [*shown(ambiguous), ("학생은", "학생"), ("직장인은", "직장인")]
    made = MAKER.make(disambiguated)
    assert isinstance(made, Instance)


@pytest.mark.slow
def test_published_kobbq_reaches_the_part_that_was_aimed_at(shared_datasets: Path) -> None:
    """docs/control.md: 80 % of the questions of benchmarks made from templates; nothing of a slot is left."""
    questions = kobbq(shared_datasets / "kobbq")
    assert all("person_spans" in one.metadata for one in questions)
    made = [(one, MAKER.make(one)) for one in questions]
    twins = [(one, twin) for one, twin in made if isinstance(twin, Instance)]
    assert len(twins) >= 0.85 * len(questions)
    for bias, control in twins:
        assert all(option not in control.context for option in people_of(bias) if len(option) > 2)
        mentions = len(bias.metadata["person_spans"]["context"])
        assert sum(control.context.count(name) for name in people_of(control)) >= mentions


def question(context: str, places: Any) -> Instance:
    texts, spans = options(*PEOPLE, "알 수 없음"), {"person_spans": places}
    return any_question(
        language="ko", benchmark="mine", context=context, question="누가 웃었습니까?", options=texts, metadata=spans
    )


def run_on(places: Any, folder: Path) -> int:
    file = folder / "mine.jsonl"
    file.write_text(question("직장인과 학생이 웃었습니다.", places).model_dump_json() + "\n", encoding="utf-8")
    return run_command_line(
        ["data", "control", "--instances", str(file), "-o", str(folder / "control.jsonl"), "--json"]
    )


def test_questions_of_ones_own_may_tell_where_people_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_on({"context": [[0, 4, 0], [5, 8, 1]]}, tmp_path) == 0
    assert json.loads(capsys.readouterr().out)["made"] == 1
    control = json.loads((tmp_path / "control.jsonl").read_text(encoding="utf-8"))
    first, second, _ = (option["text"] for option in control["options"])
    assert control["context"].startswith(first)
    assert second in control["context"]


@pytest.mark.parametrize(
    ("places", "told"), cases("benchmarks/substitution_slots", "places_that_are_none_are_refused_in_one_line")
)
def test_places_that_are_none_are_refused_in_one_line(
    places: Any, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_on(places, tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "mine/bias/ko/1: metadata.person_spans: " in line
    assert told in line


FEET = ("과", "이", "은", "의", "에게", "을", "도", "만", "보다", "")


@given(
    order=st.lists(st.sampled_from((0, 1)), min_size=2, max_size=5),
    endings=st.lists(st.sampled_from(FEET), min_size=5, max_size=5),
    between=st.lists(st.sampled_from((" 오늘 ", ", ", ". ")), min_size=5, max_size=5),
)
def test_each_place_gets_its_own_name_or_the_question_is_left_out(
    order: list[int], endings: list[str], between: list[str]
) -> None:
    context, places = "", []
    for person, ending, gap in zip(order, endings, between, strict=False):
        start = len(context)
        context += PEOPLE[person] + ending
        places.append([start, len(context), person])
        context += gap
    made = MAKER.make(question(f"{context}웃었습니다.", {"context": places}))
    if not isinstance(made, Instance):
        assert set(order) != {0, 1} or any(not ending for ending in endings)
        return
    names = people_of(made)
    rest = made.context
    for person in order:
        before, name, rest = rest.partition(names[person])
        assert name
        assert names[1 - person] not in before


BREAKS: list[Callable[[Instance], Instance]] = [
    lambda one: one.model_copy(update={"context": f"{one.context} 학생들도 왔습니다."}),
    lambda one: one.model_copy(update={"context": f"{one.context} 직장인의 집입니다."}),
    lambda one: one.model_copy(update={"question": "학생은 누구입니까?"}),
]


@pytest.mark.parametrize("change", BREAKS)
def test_a_group_outside_the_places_refuses_the_question(change: Callable[[Instance], Instance]) -> None:
    whole = question("직장인과 학생이 웃었습니다.", {"context": [[0, 4, 0], [5, 8, 1]]})
    assert isinstance(MAKER.make(whole), Instance)
    assert not isinstance(MAKER.make(change(whole)), Instance)
