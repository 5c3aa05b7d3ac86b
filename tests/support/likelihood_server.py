"""Servers that return log-probabilities of a prompt, in the shapes of vLLM, SGLang and echoing servers.

They compute with a tiny model of transformers, one sequence after another, and with a softmax of their own.
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
    "sglang": {"/server_info": {"model_path": "m", "version": "0.5"}},
    "echo": {},
    "llama-cpp-python": {"/openapi.json": {"info": {"title": "llama.cpp Python API", "version": "0.3"}}},
    "llama.cpp": {"/props": {"default_generation_settings": {"n_ctx": 512}}},
}
"""What servers reply at the paths by which they are recognised."""


class LikelihoodServer:
    """The replies of one server; `kind` is a key of `ROUTES`."""

    def __init__(self, kind: str, template: str = "with_default_system", changes: dict[str, Any] | None = None) -> None:
        """`changes`: fields that replace those of each reply to a scored request."""
        self.kind, self._changes = kind, changes or {}
        self._model, self._tokenizer = make_model(), make_tokenizer(template)

    def reply(self, heard: Heard) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        if heard.method == "GET":
            found = ROUTES[self.kind].get(heard.path)
            return (404, {}, b"{}") if found is None else (200, {}, json.dumps(found).encode())
        ways: dict[str, Callable[[dict[str, Any]], Any]] = {"/v1/completions": self._completion}
        if self.kind == "vllm":
            ways |= {"/tokenize": self._tokenize, "/detokenize": self._detokenize}
        if self.kind == "sglang":
            ways = {"/generate": self._generate}
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

    def _logprobs_of(self, tokens: Sequence[int]) -> list[float | None]:
        """The log-probability of each token; of llama-cpp-python, of the token after itself."""
        found = self._logprobs(tokens)
        shift = 0 if self.kind == "llama-cpp-python" else 1
        values = [float(found[place - shift, token]) for place, token in enumerate(tokens)]
        return [None, *values[1:]]

    def _written(self, tokens: Sequence[int]) -> tuple[int, float]:
        last = self._logprobs(tokens)[-1]
        return int(last.argmax()), float(last.max())

    def _completion(self, body: dict[str, Any]) -> Any:
        prompts = body["prompt"]
        choices = []
        for index, tokens in enumerate(prompts):
            token, logprob = self._written(tokens)
            name = f"token_id:{token}" if body.get("return_tokens_as_token_ids") else self._tokenizer.decode([token])
            choice: dict[str, Any] = {"index": index, "finish_reason": "length"}
            if body.get("echo"):
                choice["logprobs"] = {"token_logprobs": [*self._logprobs_of(tokens), logprob]}
            elif "prompt_logprobs" in body:
                pairs = zip(tokens, self._logprobs_of(tokens), strict=True)
                lines = [None if value is None else {str(one): {"logprob": value}} for one, value in pairs]
                choice["prompt_logprobs"] = lines
            else:
                choice["logprobs"] = {"tokens": [name], "token_logprobs": [logprob]}
            choices.append(choice | (self._changes if "echo" in body or "prompt_logprobs" in body else {}))
        usage = {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": len(prompts)}
        return {"object": "text_completion", "model": "m", "choices": choices[::-1], "usage": usage}

    def _generate(self, body: dict[str, Any]) -> Any:
        replies = []
        for tokens in body["input_ids"]:
            token, logprob = self._written(tokens)
            start = body.get("logprob_start_len", len(tokens))
            found = [[value, one, None] for value, one in zip(self._logprobs_of(tokens), tokens, strict=True)][start:]
            facts = {"prompt_tokens": len(tokens), "completion_tokens": 1, "input_token_logprobs": found}
            facts |= {"output_token_logprobs": [[logprob, token, None]]}
            replies.append({"text": "", "meta_info": facts | self._changes})
        return replies
