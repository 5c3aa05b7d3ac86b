from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.records import Message, Request, Response
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from tests.support.api import ask, provider, spoken
from tests.support.cases import cases
from tests.support.likelihood_server import LikelihoodServer
from tests.support.loglikelihood import score_request
from tests.support.providers import answers, base, folder

__all__ = ["base", "folder"]


def questions() -> list[Request]:
    """Requests of both methods, with and without unconditional likelihoods, some answers equal."""
    prior = (Message(role="user", content="answer:"),)
    solved = (
        Message(role="system", content="be kind"),
        Message(role="user", content="who? answer:"),
        Message(role="assistant", content="carl"),
        Message(role="user", content="who lost it? answer: "),
    )
    return [
        score_request(text="who lost it", prompt_id="a"),
        score_request(text="who lost the keys", prompt_id="b", prior=prior),
        score_request(("anna", "annabel", "berta", "anna"), options=(0, 0, 1, 2), prompt_id="c", prior=prior),
        score_request(messages=solved, prompt_id="d"),
        score_request(
            ("A", " A", "B", " B"), options=(0, 0, 1, 1), method="label-loglikelihood", text="A or B", prompt_id="e"
        ),
    ]


def values(responses: dict[str, Response]) -> dict[str, list[tuple[str, int | None, float | None, float | None]]]:
    assert all(response.error is None for response in responses.values()), responses
    return {
        key: [(score.text, score.tokens, score.logprob, score.unconditional_logprob) for score in response.scores or ()]
        for key, response in responses.items()
    }


def over_http(server: LikelihoodServer, wanted: list[Request]) -> tuple[dict[str, Response], Any]:
    with spoken(server.reply, probed=True) as at:
        asked = provider("openai:m", base_url=f"{at.root}/v1")
        return {response.request_key: response for response in ask(asked, wanted)}, asked.runtime_info()


@pytest.mark.parametrize("template", ["with_default_system", "none"])
def test_likelihoods_are_those_of_transformers(template: str, folder: Path, base: Path) -> None:
    local = folder if template != "none" else base
    expected = values(answers(TransformersProvider(str(local), TransformersOptions(device="cpu")), questions()))
    responses, facts = over_http(LikelihoodServer(template=template), questions())
    found = values(responses)
    assert found.keys() == expected.keys()
    for key, scores in expected.items():
        assert [score[:2] for score in found[key]] == [score[:2] for score in scores]
        for place in (2, 3):
            given = [score[place] for score in scores]
            assert [score[place] for score in found[key]] == (
                given if given[0] is None else pytest.approx(given, abs=1e-3)
            )
    assert facts["scoring_used"] == "prompt_logprobs"
    assert all((response.usage.input_tokens or 0) > 0 for response in responses.values())
    assert {response.finish_reason for response in responses.values()} == {"stop"}


def test_first_tokens_of_local_models_are_their_labels_likelihoods(folder: Path) -> None:
    labels: dict[str, Any] = {"options": (0, 1, 2, 2), "text": "A, B or C"}
    wanted = [
        score_request(("A", "B", "C", " C"), method="label-loglikelihood", prompt_id="l", **labels),
        score_request(("A", "B", "C", " C"), method="first-token-logprobs", prompt_id="f", **labels),
        score_request(("AB", "BC"), options=(0, 1), method="first-token-logprobs", prompt_id="n"),
    ]
    asked = TransformersProvider(str(folder), TransformersOptions(device="cpu"))
    assert "first-token-logprobs" in asked.capabilities.methods
    found = answers(asked, wanted)
    first, scores = found["key of f"].scores or (), found["key of l"].scores or ()
    assert [score.logprob for score in first[:3]] == [score.logprob for score in scores[:3]]
    assert first[3].logprob is None
    assert found["key of n"].error is not None


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    cases("providers/server_likelihood", "servers_without_right_values_are_refused_before_the_first_request"),
)
def test_servers_without_right_values_are_refused_before_the_first_request(
    kind: str, changes: dict[str, Any], message: str
) -> None:
    with spoken(LikelihoodServer(kind, changes=changes).reply, probed=True) as at:
        asked = provider("openai:m", base_url=f"{at.root}/v1")

        async def check() -> None:
            try:
                await asked.check_methods(("generate", "loglikelihood"))
            finally:
                await asked.aclose()

        with pytest.raises(MbbqGenError, match=message) as caught:
            asyncio.run(check())
        assert "\n" not in str(caught.value)
        assert all(heard.path != "/v1/chat/completions" for heard in at.heard)
        with pytest.raises(MbbqGenError, match=message):
            ask(provider("openai:m", base_url=f"{at.root}/v1"), questions())


def test_only_servers_of_ones_own_are_asked_for_likelihoods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "x" * 20)
    assert "loglikelihood" not in provider("openai:m", service="groq").capabilities.methods
    assert "loglikelihood" not in provider("openai:gpt-4o", api="responses").capabilities.methods
    assert "loglikelihood" in provider("openai:m", base_url="http://127.0.0.1:9/v1").capabilities.methods
