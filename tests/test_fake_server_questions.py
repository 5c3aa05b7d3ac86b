"""The fake server knows which question it is asked: of a planned run, and of a benchmark in anybody's words."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli import run_command_line
from mbbq_gen.datasets.registry import load_benchmark
from mbbq_gen.errors import UnknownNameError
from mbbq_gen.fake_server.answering import Answerer
from mbbq_gen.fake_server.asked import Asked, FailureError, Turn, digest_of
from mbbq_gen.fake_server.questions import Questions, RunQuestions
from mbbq_gen.fake_server.recognition import BenchmarkQuestions
from mbbq_gen.fake_server.scenario import Answers
from mbbq_gen.languages import read_prompts
from mbbq_gen.presentation import LABEL_STYLES, Setting, present
from mbbq_gen.providers.oracles import ORACLES, OracleOptions, OracleProvider
from mbbq_gen.records import Instance, Request
from mbbq_gen.resources import Resources
from mbbq_gen.runs.folder import RunFolder

LANGUAGES = ("en", "nl", "es", "tr")
DATA = Path(__file__).parent / "data" / "fake_server" / "prompts.toml"
PROMPTS = tomllib.loads(DATA.read_text(encoding="utf-8"))["prompt"]


def asked(*turns: Turn, max_tokens: int | None = None) -> Asked:
    return Asked("m", turns, digest_of(turns), max_tokens, {})


def said(questions: Questions, answers: Answers, *turns: Turn, max_tokens: int | None = None) -> str:
    answerer = Answerer(answers, [questions], Resources())
    found, recognised = answerer.say(asked(*turns, max_tokens=max_tokens), None)
    assert recognised
    return found.text


@pytest.fixture(scope="module")
def instances(resources: Resources) -> list[Instance]:
    """Some of everything: every seventh question in four languages, both splits."""
    found = load_benchmark("starter", languages=LANGUAGES, resources=resources)
    return [instance for number, instance in enumerate(found) if number % 7 == 0]


@pytest.fixture(scope="module")
def starter(resources: Resources) -> BenchmarkQuestions:
    return BenchmarkQuestions(load_benchmark("starter", languages=LANGUAGES, resources=resources))


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 96 questions in three wordings, with a solved example before each."""
    path = tmp_path_factory.mktemp("fake") / "run"
    options = ["--languages", "en,tr", "--variants", "bare,polite,letters", "--sample", "24", "--shots", "1"]
    command = [
        "run",
        str(path),
        "--model",
        "oracle:random",
        "--benchmark",
        "starter",
        *options,
        "--system",
        "Be brief.",
    ]
    assert run_command_line([*command, *options]) == 0
    return path


def planned(path: Path) -> Iterator[Request]:
    with RunFolder(path).open_store(read_only=True) as store:
        last = store.last_planned()
        assert last is not None
        for number in range(1, last[0] + 1):
            yield store.planned_request(number)


@pytest.mark.parametrize("oracle", sorted(ORACLES))
def test_a_planned_run_is_answered_as_its_oracle_answers(run_path: Path, oracle: str) -> None:
    questions = RunQuestions(run_path)
    provider = OracleProvider(oracle, OracleOptions(seed=3))
    requests = list(planned(run_path))
    assert len(requests) == 288
    for request in requests:
        turns = [Turn(message.role, message.content) for message in request.messages]
        assert [turn.role for turn in turns] == ["system", "user", "assistant", "user"]
        assert said(questions, Answers(oracle=oracle, seed=3), *turns) == provider.answer(request)
    questions.close()


def test_a_run_may_be_planned_after_the_server_started(tmp_path: Path) -> None:
    path = tmp_path / "later"
    questions = RunQuestions(path)
    nobody = (Turn("user", "Who?"),)
    assert questions.find(nobody, digest_of(nobody)) is None
    options = ["--benchmark", "starter", "--languages", "nl", "--variants", "bare", "--sample", "6"]
    assert run_command_line(["run", str(path), "--model", "oracle:perfect", *options]) == 0
    request = next(planned(path))
    turns = tuple(Turn(message.role, message.content) for message in request.messages)
    assert questions.find(turns, digest_of(turns)) == request
    other = (*turns, Turn("assistant", "A"))
    assert questions.find(other, digest_of(other)) is None
    questions.close()


def test_our_own_wordings_are_recognised(starter: BenchmarkQuestions, instances: list[Instance]) -> None:
    """Every wording, label style and order: the same instance in the same order, with the label that is shown."""
    orders = list(permutations(range(3)))
    count = 0
    for number, instance in enumerate(instances):
        variants = read_prompts(Resources(), instance.language).variant
        setting = Setting(variants[number % len(variants)], list(LABEL_STYLES)[number % 4])
        shown = present(instance, setting, orders[number % 6])
        turns = tuple(Turn(message.role, message.content) for message in shown.messages)
        found = starter.find(turns, digest_of(turns))
        assert found is not None, shown.messages[-1].content
        assert found.instance == instance
        assert found.presentation.order == shown.order
        right = found.presentation.order.index(instance.answer_index or 0)
        assert found.presentation.labels[right] in (shown.labels[right], shown.labels[right].strip("()"))
        count += 1
    assert count > 900


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: str(prompt["name"]))
def test_wordings_of_others_are_recognised(
    starter: BenchmarkQuestions, instances: list[Instance], prompt: dict[str, Any]
) -> None:
    orders = list(permutations(range(3)))
    for number, instance in enumerate(islice(instances, 0, None, 5)):
        order = orders[number % 6]
        texts = [instance.options[index].text for index in order]
        values = dict(zip("abc", texts, strict=True))
        text = prompt["text"].format(context=instance.context, question=instance.question, **values)
        found = starter.find((Turn("user", text),), "0" * 32)
        assert found is not None, text
        assert found.instance == instance
        assert found.presentation.order == order
        labels = texts if prompt["labels"] == "options" else prompt["labels"]
        assert list(found.presentation.labels) == labels, text


def test_the_question_after_the_examples_counts(starter: BenchmarkQuestions, instances: list[Instance]) -> None:
    wanted = "{} {} A: {} B: {} C: {}"
    first, second = (
        wanted.format(instance.context, instance.question, *(option.text for option in instance.options))
        for instance in (instances[0], instances[40])
    )
    turns = (Turn("user", f"{first}\nAnswer: A\n\n{second}"),)
    found = starter.find(turns, digest_of(turns))
    assert found is not None
    assert found.instance == instances[40]


def test_a_context_in_another_message_is_found(starter: BenchmarkQuestions, instances: list[Instance]) -> None:
    instance = instances[3]
    options = [option.text for option in instance.options]
    turns = (Turn("system", instance.context), Turn("user", f"{instance.question} A: {options[0]} B: {options[1]}"))
    assert starter.find(turns, digest_of(turns)) is None
    turns = (turns[0], Turn("user", f"{turns[1].text} C: {options[2]}"))
    found = starter.find(turns, digest_of(turns))
    assert found is not None
    assert found.instance == instance


@pytest.mark.parametrize("text", ["", "Who was it?", "A: x B: y C: z", "\n\t "])
def test_other_texts_are_not_recognised(starter: BenchmarkQuestions, text: str) -> None:
    assert starter.find((Turn("user", text),), "0" * 32) is None


# --- answers ---------------------------------------------------------------------------------------------------------


def test_any_oracle_can_speak_in_sentences(run_path: Path) -> None:
    questions = RunQuestions(run_path)
    provider = OracleProvider("stereotyped", OracleOptions(speech="sentence"))
    for request in islice(planned(run_path), 12):
        turns = [Turn(message.role, message.content) for message in request.messages]
        text = said(questions, Answers(oracle="stereotyped", speech="sentence"), *turns)
        assert text == provider.answer(request)
        place = request.presentation.order.index(
            next(
                index
                for index, option in enumerate(request.instance.options)
                if option.role == request.instance.biased_role
            )
        )
        assert request.instance.options[request.presentation.order[place]].text in text
    questions.close()


def test_unknown_questions_get_what_the_settings_say() -> None:
    ask = asked(Turn("user", "Wie?"))
    for answers, text in ((Answers(fixed="B"), "B"), (Answers(unrecognised="echo"), "Wie?")):
        found, recognised = Answerer(answers, [], Resources()).say(ask, None)
        assert (found.text, recognised) == (text, False)
    with pytest.raises(FailureError, match="does not know this question"):
        Answerer(Answers(unrecognised="reject"), [], Resources()).say(ask, None)
    with pytest.raises(UnknownNameError, match="perfect"):
        Answerer(Answers(oracle="perfekt"), [], Resources())


def test_a_budget_cuts_and_reasoning_eats_it() -> None:
    fixed = "x" * 40  # ten tokens
    for reasoning, budget, text, finish, tokens in (
        (0, None, fixed, "stop", 10),
        (0, 10, fixed, "stop", 10),
        (0, 4, "x" * 16, "length", 4),
        (6, 10, "x" * 16, "length", 10),
        (50, 10, "", "length", 10),
        (50, None, fixed, "stop", 60),
    ):
        answers = Answers(fixed=fixed, reasoning_tokens=reasoning)
        found, _ = Answerer(answers, [], Resources()).say(asked(Turn("user", "?"), max_tokens=budget), None)
        assert (found.text, found.finish, found.output_tokens) == (text, finish, tokens)
        assert found.reasoning_tokens == min(reasoning, budget or reasoning)


def test_verdicts_make_of_an_answer_what_they_should() -> None:
    answerer = Answerer(Answers(fixed="The second one."), [], Resources())
    for verdict, text, finish in (
        (None, "The second one.", "stop"),
        ("filtered_answer", "", "content_filter"),
        ("empty", "", "length"),
        ("truncated", "The sec", "length"),
    ):
        found, _ = answerer.say(asked(Turn("user", "?"), max_tokens=64), verdict)
        assert (found.text, found.finish) == (text, finish)
    empty, _ = answerer.say(asked(Turn("user", "?"), max_tokens=64), "empty")
    assert (empty.reasoning_tokens, empty.output_tokens) == (64, 64)
    refused, _ = answerer.say(asked(Turn("user", "?"), max_tokens=1), "refused")
    assert refused.finish == "refusal"
    assert "can't" in refused.text


def test_thinking_stands_before_the_answer() -> None:
    found, _ = Answerer(Answers(fixed="B", think=True), [], Resources()).say(asked(Turn("user", "?")), None)
    assert found.text.startswith("<think>")
    assert found.text.endswith("</think>\n\nB")
