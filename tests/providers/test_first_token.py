from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Request, Response
from mbbq_gen.prompts.render import as_continuations, label_answers
from mbbq_gen.providers.api.openai import OpenAIProvider
from tests.fake_service.client import fake_server
from tests.support.api import answering, provider
from tests.support.api import ask as responses_of
from tests.support.cases import cases
from tests.support.extraction import Capture, json_of
from tests.support.providers import make_request
from tests.support.stores import rows


def completion(*entries: tuple[Any, Any], text: str = "A", finish: str = "length") -> dict[str, Any]:
    named = [{"token": token, "logprob": logprob, "bytes": None} for token, logprob in entries]
    logprobs = {"content": [{**named[0], "top_logprobs": named}]} if named else None
    choice = {"message": {"content": text}, "logprobs": logprobs, "finish_reason": finish}
    return {"object": "chat.completion", "model": "m-1", "choices": [choice], "usage": {"prompt_tokens": 9}}


def label_request(number: int = 0) -> Request:
    request = make_request(prompt_id=f"p{number}", text=f"Question {number}: A, B or C?")
    shown = as_continuations(request.prompt, "first-token-logprobs", label_answers(request.prompt))
    return request.model_copy(update={"prompt": shown, "request_key": f"{number:064d}"})


def score(asked: Any, wanted: Iterable[Request]) -> list[Response]:
    assert isinstance(asked, OpenAIProvider)
    return responses_of(asked, wanted)


def asked_of(*replies: Any, **options: Any) -> list[Response]:
    with answering(*((200, reply) for reply in replies)) as root:
        asked = provider("openai:m", base_url=f"{root}/v1", max_connections=1, **options)
        return score(asked, map(label_request, range(len(replies))))


def by_text(response: Response) -> dict[str, float | None]:
    return {found.text: found.logprob for found in response.scores or ()}


def test_labels_with_and_without_a_space_are_read() -> None:
    (response,) = asked_of(completion(("A", -0.25), (" A", -3.0), (" B", -2.0), ("The", -4), ("C", -9999.0)))
    assert by_text(response) == {"A": -0.25, " A": -3.0, "B": None, " B": -2.0, "C": -9999.0, " C": None}
    assert (response.text, response.finish_reason, response.provider_finish_reason) == (None, "stop", "length")
    assert (response.model, response.usage.input_tokens) == ("m-1", 9)
    assert {found.tokens for found in response.scores or ()} == {1}


@pytest.mark.parametrize(
    ("status", "error", "advice"), cases("providers/first_token", "a_refusal_ends_the_run_in_a_line")
)
def test_a_refusal_ends_the_run_in_a_line(status: int, error: dict[str, str], advice: str) -> None:
    with answering((status, {"error": error})) as root:
        asked = provider("openai:m", base_url=f"{root}/v1")
        with pytest.raises(ProviderError) as caught:
            score(asked, [label_request()])
    assert str(caught.value).startswith(f"openai:m: {root}/v1 does not return probabilities of first tokens: ")
    assert error["message"] in str(caught.value)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fewer_named_tokens_are_another_request() -> None:
    usual, fewer = (
        provider("openai:m", base_url="http://127.0.0.1:1/v1", top_logprobs=count, max_tokens=9) for count in (20, 5)
    )
    assert "top_logprobs" not in usual.settings
    assert fewer.settings["top_logprobs"] == 5
    body = fewer.body_of(label_request())
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 5, 1)
    words = fewer.body_of(make_request())
    assert ("logprobs" in words, words["max_tokens"]) == (False, 9)


def ask(folder: Path, server: Any, *arguments: str) -> int:
    selection = ("--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "12")
    model = ("--model", "openai:fake", "--base-url", server.openai, "--method", "generate,first-token-logprobs")
    return run_command_line(["run", str(folder), *model, *selection, *arguments])


@pytest.mark.parametrize("oracle", ["stereotyped", "perfect", "first_option"])
def test_an_oracle_behind_an_api_is_read_alike_both_ways(run_path: Path, capsys: Capture, oracle: str) -> None:
    with fake_server({"answers": {"oracle": oracle}}, run=run_path) as server:
        assert ask(run_path, server) == 0
    found = json_of(capsys, "agreement", run_path, "--n-resamples", "100")
    assert {row["equal_share"]["value"] for row in found["pairs"]} == {1.0}
    assert {row["n_read"] for row in found["pairs"]} == {12}
    assert rows(run_path, "SELECT count(*) FROM option_scores WHERE logprob IS NOT NULL") == [(24 * 3,)]
    assert rows(run_path, "SELECT count(*) FROM option_scores") == [(24 * 6,)]


def test_a_label_that_is_not_named_is_missing_in_the_store(run_path: Path, capsys: Capture) -> None:
    with fake_server({"answers": {"oracle": "stereotyped", "logprobs": "said"}}, run=run_path) as server:
        assert ask(run_path, server) == 0
    found = rows(run_path, "SELECT outcome, conflicts FROM extractions WHERE extractor LIKE 'loglikelihood:%'")
    assert found == [("option", '["label_missing"]')] * 24


def test_a_service_without_logprobs_is_told_in_a_line(run_path: Path, capsys: Capture) -> None:
    with fake_server({"answers": {"logprobs": "nothing"}}, run=run_path) as server:
        assert ask(run_path, server) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("its answers have no logprobs; in a new run folder, ask by --method generate")


def test_labels_that_begin_alike_are_refused(tmp_path: Path, capsys: Capture) -> None:
    with fake_server() as server:
        assert ask(tmp_path / "run", server, "--label-style", "(A)") == 2
    assert "--label-style (A): all labels begin with '('" in capsys.readouterr().err
