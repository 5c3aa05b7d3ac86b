"""A server that returns log-probabilities of a prompt as vLLM does.

It computes with a tiny model of transformers, one sequence after another, and with a softmax of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.support.api import Heard
from tests.support.providers import make_model, make_tokenizer

ROUTES: dict[str, dict[str, Any]] = {
    "vllm": {"/version": {"version": "0.32.0"}, "/v1/models": {"data": [{"id": "m", "max_model_len": 512}]}},
    "llama.cpp": {"/props": {"default_generation_settings": {"n_ctx": 512}}},
}
"""What servers reply at the paths by which they are recognised."""


class LikelihoodServer:
    """The replies of one server; `kind` is a key of `ROUTES`."""

    def __init__(
        self, kind: str = "vllm", template: str = "with_default_system", changes: dict[str, Any] | None = None
    ) -> None:
        """`changes`: fields that replace those of each reply to a scored request."""
        self.kind, self._changes = kind, changes or {}
        self._model, self._tokenizer = make_model(), make_tokenizer(template)

    def reply(self, heard: Heard) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        if heard.method == "GET":
            found = ROUTES[self.kind].get(heard.path)
            return (404, {}, b"{}") if found is None else (200, {}, json.dumps(found).encode())
        ways: dict[str, Callable[[dict[str, Any]], Any]] = {
            "/v1/completions": self._completion,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
        }
        if heard.path not in ways:
            return 404, {}, json.dumps({"error": {"message": "Not Found"}}).encode()
        try:
            return 200, {}, json.dumps(ways[heard.path](json.loads(heard.body))).encode()
        except ValueError as error:
            return 400, {}, json.dumps({"error": {"message": str(error), "code": 400}}).encode()

    def _tokenize(self, body: dict[str, Any]) -> Any:
        if "messages" not in body:
            tokens = self._tokenizer(body["prompt"], add_special_tokens=body["add_special_tokens"])["input_ids"]
        elif self._tokenizer.chat_template is None:
            raise ValueError("default chat template is no longer allowed, so you must provide a chat template")
        else:
            tokens = self._tokenizer.apply_chat_template(
                body["messages"], add_generation_prompt=body["add_generation_prompt"], return_dict=False
            )
        return {"count": len(tokens), "max_model_len": 512, "tokens": tokens}

    def _detokenize(self, body: dict[str, Any]) -> Any:
        return {"prompt": self._tokenizer.decode(body["tokens"])}

    @torch.inference_mode()
    def _logprobs(self, tokens: Sequence[int]) -> Any:
        """Log-probabilities of all tokens after each place."""
        return self._model(torch.tensor([list(tokens)])).logits[0].double().log_softmax(dim=-1)

    def _completion(self, body: dict[str, Any]) -> Any:
        prompts, choices = body["prompt"], []
        for index, tokens in enumerate(prompts):
            found = self._logprobs(tokens)
            lines = [{str(token): {"logprob": float(found[place, token])}} for place, token in enumerate(tokens[1:])]
            choices.append(
                {"index": index, "finish_reason": "length", "prompt_logprobs": [None, *lines]} | self._changes
            )
        usage = {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": len(prompts)}
        return {"object": "text_completion", "model": "m", "choices": choices[::-1], "usage": usage}
