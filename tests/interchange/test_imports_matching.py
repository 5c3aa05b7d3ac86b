from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import LABEL_STYLES
from mbbq_gen.core.records import Instance, Message
from mbbq_gen.interchange.importers.base import ImportedAnswer, SkippedRow
from mbbq_gen.interchange.importers.matching import Match, Matcher
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import UNLABELLED, PromptSettings, render_prompt
from tests.conftest import Load


@pytest.fixture(scope="module")
def starter(resources: PackPaths) -> list[Instance]:
    return list(load_benchmark("starter", languages=["en", "tr"], resources=resources))


@pytest.fixture(scope="module")
def matcher(starter: list[Instance]) -> Matcher:
    return Matcher(starter)


@pytest.fixture(scope="module")
def instance(starter: list[Instance]) -> Instance:
    return next(found for found in starter if found.condition == "disambiguated")


def answer(prompt: str | None = None, **fields: Any) -> ImportedAnswer:
    messages = () if prompt is None else (Message(role="user", content=prompt),)
    return ImportedAnswer(id="1", messages=messages, **fields)


def found(matcher: Matcher, row: ImportedAnswer) -> Match:
    match = matcher.find(row)
    assert isinstance(match, Match), match
    return match


def reason(matcher: Matcher, row: ImportedAnswer) -> str:
    left_out = matcher.find(row)
    assert isinstance(left_out, SkippedRow), left_out
    return left_out.reason


def texts(instance: Instance, order: tuple[int, ...] = (0, 1, 2)) -> list[str]:
    return [instance.options[index].text for index in order]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_prompt_is_believed_before_the_log(matcher: Matcher, instance: Instance, order: tuple[int, ...]) -> None:
    first, second, third = texts(instance, order)
    prompt = f"{instance.context} {instance.question}\nA) {first}\nB) {second}\nC) {third}"
    row = answer(prompt, options=tuple(texts(instance)), labels=("X", "Y", "Z"))
    assert found(matcher, row).option_order == order
    assert found(matcher, row).labels == ("A", "B", "C")


def test_a_prompt_that_shows_no_options_has_no_labels(matcher: Matcher, instance: Instance) -> None:
    prompt = f"{instance.context}\n\nQ: {instance.question}\nA:"
    row = answer(prompt, context=instance.context, question=instance.question, options=tuple(texts(instance)))
    match = found(matcher, row)
    assert match.label_style == UNLABELLED
    assert match.labels == tuple(texts(instance))


def test_the_unknown_option_in_other_words(matcher: Matcher, instance: Instance) -> None:
    listed = texts(instance)
    listed[instance.unknown_index] = "Nobody can say"
    prompt = f"{instance.context}\n{instance.question}\nA. {listed[2]}\nB. {listed[0]}\nC. {listed[1]}"
    match = found(matcher, answer(prompt, options=tuple(listed)))
    assert (match.option_order, match.unknown_text, match.labels) == ((2, 0, 1), "Nobody can say", ("A", "B", "C"))


def test_one_word_changed_is_not_the_ambiguous_question(matcher: Matcher, starter: list[Instance]) -> None:
    ambiguous = next(entry for entry in starter if entry.condition == "ambiguous")
    first, second, third = texts(ambiguous)
    rest = f"{ambiguous.question}\nA. {first}\nB. {second}\nC. {third}"
    assert found(matcher, answer(f"{ambiguous.context} {rest}")).instance.key == ambiguous.key
    assert found(matcher, answer(f'"{ambiguous.context}"\nThink. {rest}')).instance.key == ambiguous.key
    told = f"{ambiguous.context} The grandson was at a loss with it, and the grandfather was not."
    assert reason(matcher, answer(f"{told} {rest}")) == "unmatched_question"
    assert reason(matcher, answer(f"{told}\n{rest}")) == "unmatched_question"


def test_reasons(matcher: Matcher, instance: Instance) -> None:
    asked: dict[str, Any] = {"context": instance.context, "question": instance.question}
    assert reason(matcher, answer(context="Another story.", question=instance.question)) == "unmatched_question"
    assert reason(matcher, answer("Hello!")) == "unmatched_question"
    assert reason(matcher, answer()) == "unmatched_question"
    assert reason(matcher, answer(**asked, options=("a", "b", "c"))) == "options_mismatch"
    assert reason(matcher, answer(**asked, options=(*texts(instance), "d"))) == "options_mismatch"
    assert reason(matcher, answer(**asked)) == "options_mismatch"
    assert reason(matcher, answer(f"{instance.context}\n{instance.question}\nA. x\nB. y\nC. z")) == "options_mismatch"


def twins(instance: Instance) -> list[Instance]:
    """The same texts three times: the last one's right answer is another person's."""
    other = next(role for role in ("target", "non_target") if role != instance.gold_role)
    changed = {"gold_role": other, "gold_index": None, "alignment": None}
    return [
        instance.model_copy(update={"instance_id": "one", "metadata": {"example_id": 17}}),
        instance.model_copy(update={"instance_id": "two", "metadata": {"example_id": 18}}),
        Instance.model_validate(
            instance.model_dump() | changed | {"instance_id": "three", "metadata": {"example_id": 19}}
        ),
    ]


def test_several_questions_of_the_same_texts(instance: Instance) -> None:
    matcher = Matcher(twins(instance))
    asked: dict[str, Any] = {
        "context": instance.context,
        "question": instance.question,
        "options": tuple(texts(instance)),
    }
    assert reason(matcher, answer(**asked)) == "ambiguous_match"
    assert found(matcher, answer(**asked, hints=frozenset({"19", "age"}))).instance.instance_id == "three"
    assert found(matcher, answer(**asked, hints=frozenset({"18"}))).instance.instance_id == "two"
    assert found(matcher, answer(**asked, instance="one")).instance.instance_id == "one"


def test_options_that_read_alike(starter: list[Instance]) -> None:
    for condition, expected in (("disambiguated", SkippedRow), ("ambiguous", Match)):
        instance = next(entry for entry in starter if entry.condition == condition)
        alike = tuple(
            option if option.role == "unknown" else option.model_copy(update={"text": "The neighbour"})
            for option in instance.options
        )
        matcher = Matcher([instance.model_copy(update={"options": alike})])
        row = answer(
            context=instance.context, question=instance.question, options=tuple(option.text for option in alike)
        )
        assert isinstance(matcher.find(row), expected)


def all_are_found(instances: list[Instance], part: int, resources: PackPaths) -> None:
    """Every question, in a random wording, order and label style, is found again: itself, or an equal one."""
    matcher, rng = Matcher(instances), Random(5)
    for instance in rng.sample(instances, min(part, len(instances))):
        order = rng.sample(range(3), 3)
        wording = rng.choice(read_prompts(resources, instance.language).variant)
        shown = render_prompt(instance, PromptSettings(wording, rng.choice(list(LABEL_STYLES))), order)
        for row in (
            answer(shown.messages[0].content),
            answer(
                context=instance.context,
                question=instance.question,
                options=tuple(texts(instance, tuple(order))),
                labels=shown.option_labels,
            ),
        ):
            match = found(matcher, row)
            roles = [match.instance.options[index].role for index in match.option_order]
            same = [instance.options[index].text for index in order]
            assert [match.instance.options[index].text for index in match.option_order] == same
            assert match.labels == shown.option_labels
            if match.instance.key != instance.key:  # an equal one: nothing that is scored may differ
                assert roles == [instance.options[index].role for index in order]
                assert match.instance.gold_role == instance.gold_role
                assert match.instance.template_id == instance.template_id


def test_all_of_starter(starter: list[Instance], resources: PackPaths) -> None:
    all_are_found(starter, 500, resources)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "language"), [("mbbq", "es"), ("bbq", "en"), ("esbbq", "es"), ("kobbq", "ko")])
@pytest.mark.filterwarnings("ignore")
def test_all_of_published_benchmarks(load_published: Load, resources: PackPaths, name: str, language: str) -> None:
    all_are_found(load_published(name, language, "bias"), 400, resources)


def test_labels_of_the_log_where_the_prompt_shows_none(matcher: Matcher, instance: Instance) -> None:
    lines = "\n".join(texts(instance, (1, 2, 0)))
    row = answer(
        f"{instance.context}\n{instance.question}\n{lines}", options=tuple(texts(instance)), labels=("x", "y", "z")
    )
    match = found(matcher, row)
    assert (match.option_order, match.labels) == ((1, 2, 0), ("y", "z", "x"))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_every_order_is_seen_in_the_prompt(matcher: Matcher, instance: Instance, order: tuple[int, ...]) -> None:
    first, second, third = texts(instance, order)
    prompt = f"{instance.context}\n\nQ: {instance.question}\n(a) {first}\n(b) {second}\n(c) {third}\nA:"
    match = found(matcher, answer(prompt))
    assert (match.instance.key, match.option_order, match.labels) == (instance.key, order, ("(a)", "(b)", "(c)"))
