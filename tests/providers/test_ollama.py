from __future__ import annotations

import json
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError, UsageError
from tests.support.api import Heard, ask, provider, requests, spoken
from tests.support.cases import read_data

SHOWN = {
    "details": {"quantization_level": "Q4_K_M", "parameter_size": "3.2B", "family": "llama"},
    "model_info": {"general.architecture": "llama", "llama.context_length": 131072},
    "parameters": 'stop "<|eot_id|>"',
    "template": "{{ .Prompt }}",
}
ANSWER = read_data("providers/ollama")["answer"]


def ollama(*answers: tuple[int, Any]) -> Any:
    """What Ollama says, with these answers to questions in turn, the last one for ever after."""
    left = list(answers)

    def reply(heard: Heard) -> tuple[int, dict[str, str], bytes]:
        known = {"/api/version": {"version": "0.12.1"}, "/api/show": SHOWN, "/api/tags": {"models": [{"name": "qwen"}]}}
        status, body = (200, known[heard.path]) if heard.path in known else left.pop(0) if len(left) > 1 else left[0]
        return status, {}, json.dumps(body).encode()

    return reply


def test_sampling_is_neutral_and_the_server_is_recorded() -> None:
    with spoken(ollama((200, ANSWER)), probed=True) as server:
        asked = provider("ollama:llama3.2", base_url=server.root, max_tokens=100, seed=7)
        responses = ask(asked, requests(2), [])
        bodies = [json.loads(heard.body) for heard in server.heard if heard.path == "/api/chat"]
    assert {body["stream"] for body in bodies} == {False}
    assert bodies[0]["options"] == {
        "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "seed": 7, "num_predict": 100, "num_ctx": 4096,
    }  # fmt: skip
    first = responses[0]
    assert (first.text, first.reasoning, first.finish_reason) == ("B", "Hm.", "stop")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (26, 3)
    info: Any = asked.runtime_info()
    assert info["server"]["quantization"] == "Q4_K_M"
    assert info["server"]["context_length"] == 131072
    assert info["num_ctx"] == 4096


def test_loading_is_waited_for_and_a_missing_model_is_named() -> None:
    loading = ANSWER | {"message": {"role": "assistant", "content": ""}, "done_reason": "load"}
    with spoken(ollama((200, loading), (503, {"error": "server busy"}), (200, ANSWER)), probed=True) as server:
        assert [found.text for found in ask(provider("ollama:m", base_url=server.root), requests(1), [])] == ["B"]
    missing = {"error": 'model "m" not found, try pulling it first'}
    with (
        spoken(ollama((404, missing)), probed=True) as server,
        pytest.raises(ProviderError, match="try pulling it first"),
    ):
        ask(provider("ollama:m", base_url=server.root), requests(1), [])


@pytest.mark.parametrize(("level", "think"), [("none", False), ("default", True), ("high", "high")])
def test_reasoning(level: str, think: bool | str) -> None:
    asked = provider("ollama:m", max_tokens=10)
    prompt = requests(1)[0].prompt.model_copy(update={"reasoning_effort": level})
    body: Any = asked.body_of(requests(1)[0].model_copy(update={"prompt": prompt}))
    assert body["think"] == think
    assert body["options"]["num_predict"] == 10 + asked.reasoning_settings(level).room
    with pytest.raises(UsageError, match="512"):
        asked.reasoning_settings("512")
