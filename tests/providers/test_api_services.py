from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.errors import DataError, ProviderError, UsageError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.http_endpoint import fill_in
from mbbq_gen.providers.api.provider import ApiProvider
from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import ask, fake, provider, requests, with_system
from tests.support.cases import DATA, cases, known

pytestmark = pytest.mark.usefixtures("api_keys")

__all__ = ["fake"]
KINDS = ("openai", "anthropic", "gemini", "http")
DESCRIPTION = (DATA / "providers" / "endpoint.toml.txt").read_text(encoding="utf-8")


def opened(kind: str, server: FakeServer, folder: Path, **options: Any) -> ApiProvider:
    if kind != "http":
        root = server.openai if kind == "openai" else server.root
        return provider(f"{kind}:fake", base_url=root, **options)
    path = folder / "endpoint.toml"
    text = DESCRIPTION.format(address=server.openai, key='key = "SOME_API_KEY"\nmodel = "fake"')
    path.write_text(text, encoding="utf-8")
    return provider(f"http:{path}", **options)


def one(kind: str, server: FakeServer, folder: Path, **options: Any) -> Response:
    (response,) = ask(opened(kind, server, folder, **options), requests(1))
    return response


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back(kind: str, fake: FakeServer, tmp_path: Path) -> None:
    wanted = requests(40)
    asked = opened(kind, fake, tmp_path)
    asked.check_access()
    responses = ask(asked, wanted)
    assert sorted(response.request_key for response in responses) == [request.request_key for request in wanted]
    assert {(response.text, response.finish_reason, response.error) for response in responses} == {("A", "stop", None)}
    assert all(response.usage.input_tokens and response.usage.output_tokens for response in responses)
    assert {response.model for response in responses} == {"fake"}
    assert fake.stats().paid_again == 0


@pytest.mark.usefixtures("first_alone")
@pytest.mark.parametrize(
    ("kind", "options", "refused"), cases("providers/api_services", "a_refused_setting_that_shapes_the_text")
)
def test_a_refused_setting_that_shapes_the_text_stops_the_run(
    kind: str, options: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    with fake_server({"access": {"refused_parameters": [refused]}}) as server:
        asked = opened(kind, server, tmp_path, **options)
        with pytest.raises(ProviderError, match=rf"does not take {refused} = .*this setting affects the text"):
            ask(asked, requests(20))
        assert server.stats().requests == 1
        assert server.stats().paid == 0
    assert "learned" not in asked.runtime_info()


@pytest.mark.parametrize(
    ("name", "is_sent"), cases("providers/api_services", "models_that_are_known_to_take_no_temperature_get_none")
)
def test_models_that_are_known_to_take_no_temperature_get_none(name: str, is_sent: bool) -> None:
    asked = provider(name)
    assert ("temperature" in asked.body_of(with_system("Who?", "Be brief."))) is is_sent
    assert ("temperature" in asked.settings) is is_sent
    assert provider(name, temperature=0.0).settings["temperature"] == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verdict", ["filtered_prompt", "filtered_answer"])
def test_filters(kind: str, verdict: str, tmp_path: Path) -> None:
    with fake_server({"content": {verdict: 1.0}}) as server:
        response = one(kind, server, tmp_path)
    assert (response.finish_reason, response.error) == ("content_filter", None)


def test_keys_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "SOME_API_KEY"):
        monkeypatch.delenv(name)
    path = tmp_path / "e.toml"
    path.write_text(DESCRIPTION.format(address="http://127.0.0.1:1", key='key = "SOME_API_KEY"'), encoding="utf-8")
    for name, variable in (
        ("anthropic:m", "ANTHROPIC_API_KEY"),
        ("gemini:m", "GEMINI_API_KEY"),
        (f"http:{path}", "SOME_API_KEY"),
    ):
        with pytest.raises(UsageError, match=f"no key; set {variable}"):
            provider(name).check_access()


def test_the_body_of_anthropic() -> None:
    asked = provider("anthropic:m", max_tokens=2000, top_p=0.5)
    assert asked.body_of(with_system("Who?", "Be brief.")) == {
        "model": "m",
        "max_tokens": 2000,
        "messages": [{"role": "user", "content": "Who?"}],
        "system": "Be brief.",
        "temperature": 0.0,
        "top_p": 0.5,
    }
    headers = {name.lower() for name in asked.headers}
    assert {"x-api-key", "anthropic-version"} <= headers


def test_thinking_is_kept_apart() -> None:
    message = {
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "B"}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 2,
            "output_tokens": 9,
        },
    }
    response = provider("anthropic:m").parse("k", message, {})
    assert (response.text, response.reasoning) == ("B", "Hm.")
    assert (response.usage.input_tokens, response.usage.cached_input_tokens) == (10, 3)
    answer = {
        "candidates": [
            {"content": {"parts": [{"text": "Hm.", "thought": True}, {"text": "B"}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 1, "thoughtsTokenCount": 7},
    }
    response = provider("gemini:m").parse("k", answer, {})
    assert (response.text, response.reasoning) == ("B", "Hm.")
    assert (response.usage.output_tokens, response.usage.reasoning_tokens) == (8, 7)


@pytest.mark.parametrize(("text", "words"), cases("providers/api_services", "a_wrong_description"))
def test_a_wrong_description(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        provider(f"http:{path}")
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_an_answer_without_text_is_said(fake: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(
        f'url = "{fake.openai}/chat/completions"\n[body]\nmodel = "m"\nmessages = "{{messages}}"\n'
        '[answer]\ntext = "outputs.0"',
        encoding="utf-8",
    )
    (response,) = ask(provider(f"http:{path}", attempts=1), requests(1))
    assert "nothing at outputs.0" in known(response.error)


def test_placeholders_keep_their_type() -> None:
    values = {"n": 5, "prompt": "Hi {n}", "messages": [{"role": "user"}]}
    template: Any = {"a": "{n}", "b": "n is {n}", "c": ["{messages}"], "d": 1, "e": "{prompt}"}
    assert fill_in(template, values) == {  # type: ignore[arg-type]
        "a": 5,
        "b": "n is 5",
        "c": [[{"role": "user"}]],
        "d": 1,
        "e": "Hi {n}",
    }
