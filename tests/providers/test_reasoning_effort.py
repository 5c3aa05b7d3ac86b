from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.reasoning import reasoning_token_allowance
from mbbq_gen.core.records import Request, Response
from mbbq_gen.prompts.render import with_reasoning_effort
from mbbq_gen.providers.local.chat_format import template_reasoning
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import ask, provider
from tests.support.cases import cases
from tests.support.prices import write_prices
from tests.support.providers import answers, make_request, save_model
from tests.support.stores import column

pytestmark = pytest.mark.usefixtures("api_keys")

HERE = "http://127.0.0.1:1/v1"
THOUGHT = "Let me read the question again."
THINKING = {"answers": {"oracle": "perfect", "thoughts": "stereotyped", "fixed": "B"}}


def thinking_request(level: str) -> Request:
    request = make_request()
    return request.model_copy(update={"prompt": with_reasoning_effort(request.prompt, level)})


@pytest.mark.parametrize(("name", "options", "level", "sent", "missing"), cases("providers/reasoning_sent"))
def test_each_service_is_told_in_its_words(
    name: str, options: Mapping[str, Any], level: str, sent: Mapping[str, Any], missing: list[str]
) -> None:
    body = provider(name, max_tokens=100, **options).body_of(thinking_request(level))
    assert {key: body.get(key) for key in sent if key != "chat_template_kwargs"} == {
        key: value for key, value in sent.items() if key != "chat_template_kwargs"
    }
    assert sent.get("chat_template_kwargs", {}) == body.get("chat_template_kwargs", {}) or level == "high"
    assert not body.keys() & missing


def test_gemini_is_told_a_budget_or_a_level_and_asked_for_its_thoughts() -> None:
    for model, level, config in (
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "default", {"thinkingBudget": -1, "includeThoughts": True}),
        ("gemini-3-flash", "minimal", {"thinkingLevel": "minimal", "includeThoughts": True}),
    ):
        body = provider(f"gemini:{model}", max_tokens=10).body_of(thinking_request(level))
        settings = body["generationConfig"]
        assert isinstance(settings, dict)
        expected = (config, 10 + reasoning_token_allowance(level))
        assert (settings["thinkingConfig"], settings["maxOutputTokens"]) == expected


@pytest.mark.parametrize(("name", "options", "level", "words"), cases("providers/reasoning_refused"))
def test_what_a_model_cant_do_is_refused(name: str, options: Mapping[str, Any], level: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"--reasoning-effort.*{words}") as error:
        provider(name, **options).reasoning_settings(level)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("template", "level", "sent"),
    cases("providers/reasoning_effort", "a_chat_template_is_told_by_the_variables_that_it_has"),
)
def test_a_chat_template_is_told_by_the_variables_that_it_has(
    template: str, level: str, sent: Mapping[str, Any]
) -> None:
    assert template_reasoning("m", template, level).sent == sent


@pytest.mark.parametrize(
    ("template", "level", "words"), cases("providers/reasoning_effort", "a_chat_template_without_the_variable_refuses")
)
def test_a_chat_template_without_the_variable_refuses(template: str | None, level: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        template_reasoning("m", template, level)


def answered(server: FakeServer, kind: str, level: str, **options: Any) -> Response:
    names = {"openai": "openai:m", "anthropic": "anthropic:claude-sonnet-4-5", "gemini": "gemini:gemini-2.5-flash"}
    address = server.openai if kind == "openai" else server.root
    (response,) = ask(provider(names[kind], base_url=address, **options), [thinking_request(level)])
    return response


@pytest.mark.parametrize("form", ["reasoning_content", "reasoning", "tags", "hidden"])
def test_every_form_of_a_thought_in_chat_completions(form: str) -> None:
    with fake_server({"answers": {**THINKING["answers"], "thought_form": form}}) as server:
        response = answered(server, "openai", "high")
    kept = {"tags": None, "hidden": None}.get(form, THOUGHT)
    assert response.reasoning == kept
    assert response.text == (f"<think>\n{THOUGHT}\n</think>\n\nB" if form == "tags" else "B")
    assert response.usage.reasoning_tokens == 8


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
def test_thoughts_of_the_other_apis(kind: str) -> None:
    with fake_server(THINKING) as server:
        thought, silent = (answered(server, kind, level) for level in ("high", "none"))
    assert (thought.text, thought.reasoning) == ("B", THOUGHT)
    assert thought.usage.output_tokens == 9
    assert (silent.text, silent.reasoning, silent.usage.output_tokens) == ("B", None, 1)


def test_a_count_beside_the_thought_is_put_together() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 17}
    usage |= {"completion_tokens_details": {"reasoning_tokens": 10}}  # type: ignore[dict-item]
    payload = {"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}], "usage": usage}
    told = provider("openai:m", base_url=HERE).parse("k", payload, {})
    assert (told.usage.output_tokens, told.usage.reasoning_tokens) == (12, 10)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_model(tmp_path_factory.mktemp("models") / "toy", "thinking")


def test_a_local_model_is_told_through_its_chat_template(local: Path) -> None:
    model = TransformersProvider(str(local), TransformersOptions(device="cpu", threads=1, max_tokens=4))
    assert model.reasoning_settings("none").sent == {"enable_thinking": False}
    requests = [
        thinking_request(level).model_copy(update={"request_key": f"{number:064d}"})
        for number, level in enumerate(("none", "default"))
    ]
    silent, thinking = answers(model, requests).values()
    read = (silent.usage.input_tokens or 0) - (thinking.usage.input_tokens or 0)
    assert read == len("<think></think>")
    assert (silent.usage.output_tokens or 0) <= 4
    assert silent.usage.reasoning_tokens == 0


def run_command(path: Path, server: FakeServer, *more: str) -> list[str]:
    asked = ["--model", "openai:fake", "--base-url", server.openai, "--benchmark", "starter", "--languages", "en,nl"]
    return ["run", str(path), *asked, "--variants", "polite", "--splits", "bias", "--sample", "4", *more, "--json"]


def records(path: Path, table: str) -> list[dict[str, Any]]:
    return [json.loads(record) for record in column(path, f"SELECT record FROM {table}")]


def test_several_levels_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, prices = tmp_path / "run", write_prices(tmp_path)
    with fake_server(THINKING, run=path) as server:
        more = ("--reasoning-effort", "none,high", "--prices", str(prices), "--max-cost", "10000000")
        assert run_command_line(run_command(path, server, *more)) == 0
        asked = server.stats()
    told = json.loads(capsys.readouterr().out)
    assert (told["requests"], told["prompts"], told["failed"]) == (16, 16, 0)
    levels = {shown["reasoning_effort"] for shown in records(path, "prompts")}
    assert levels == {"none", "high"}
    responses = records(path, "responses")
    assert sum(bool(response["reasoning"]) for response in responses) == 8
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["reasoning_effort"] == ["none", "high"]
    assert manifest["reasoning"]["high"]["sent"]["reasoning_effort"] == "high"
    spent = sum(response["usage"]["input_tokens"] + response["usage"]["output_tokens"] for response in responses)
    assert sum(line["cost"] for line in manifest["cost_report"]["lines"]) == pytest.approx(spent)
    assert (len(asked.asked), max(asked.asked.values())) == (8, 2)
    assert run_command_line(["run", str(path), "--json"]) == 0


@pytest.mark.parametrize("form", ["reasoning_content", "tags", "hidden"])
def test_a_run_whose_answers_are_eaten_up(form: str, run_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {**THINKING["answers"], "thought_form": form, "reasoning_tokens": 6000}
    with fake_server({"answers": answers}, run=run_path) as server:
        more = ("--reasoning-effort", "low", "--max-tokens", "16")
        assert run_command_line(run_command(run_path, server, *more)) == 0
    assert "8 of 8 answers are cut at 16 tokens" in capsys.readouterr().err
    assert column(run_path, "SELECT DISTINCT outcome FROM extractions") == ["truncated"]
    for response in records(run_path, "responses"):
        assert response["usage"]["reasoning_tokens"] == response["usage"]["output_tokens"] == 4096 + 16
    code = run_command_line(["reasoning", str(run_path), "--json"])
    told = capsys.readouterr()
    if form == "hidden":
        assert (code, "reasoning" in told.err) == (2, True)
    else:
        assert [group["n_cut"] for group in json.loads(told.out)["groups"]] == [4, 4]
