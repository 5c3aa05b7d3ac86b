"""Loglikelihoods from vLLM's server, which returns log-probabilities of a prompt's tokens (`prompt_logprobs`).

The tokens are the same as with `transformers:`: the chat rendered by the template, with the assistant's turn opened,
followed by an answer. The server renders and tokenizes chats (`/tokenize`, `/detokenize`). Token ids are sent to
`/v1/completions`, all answers to a question in one request. Reference: docs.vllm.ai, OpenAI-compatible server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Continuation, ContinuationScore, Message, Method, Prompt, Request, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.provider import ApiProvider, turns_of
from mbbq_gen.providers.http.errors import RejectedError, TransientError
from mbbq_gen.providers.http.servers import OwnServer, server_root
from mbbq_gen.providers.local.chat_format import PromptError, ScoringPrompt, plain_text, scored_texts, scoring_prompt

LOGLIKELIHOODS: Final[frozenset[Method]] = frozenset({"loglikelihood", "label-loglikelihood"})
SCORING_PATH: Final = "/v1/completions"
_PROBE_TEXT: Final = "The capital of France is Paris."
_SHAPE_ERRORS: Final = (KeyError, IndexError, TypeError, ValueError)

ScoredSequences = Mapping[tuple[int, ...], int]
"""Prompt and answer as one sequence of tokens → start of the answer."""


async def open_scorer(provider: ApiProvider, server: OwnServer) -> ServerScorer | None:
    """The scorer for a server, or None if it can't be reached; ProviderError without usable log-probabilities."""
    scorer, why = ServerScorer(provider, server.fields), None
    try:
        if server.entry.scores_prompts:
            await scorer.check()
        else:
            why = "only vLLM's server does"
    except _SHAPE_ERRORS:
        why = "its replies have none"
    except RejectedError as error:
        why = str(error)
    except TransientError:
        return None
    if why is not None:
        raise ProviderError(
            f"{provider.name}: {server.entry.name} at {provider.base_url} does not return"
            f" log-probabilities of prompts: {why}; use --method first-token-logprobs, vLLM's server, or the model"
            " itself with transformers:"
        )
    return scorer


class _Question(NamedTuple):
    prompt: Prompt
    conditional: ScoringPrompt
    unconditional: Mapping[str, ScoringPrompt]
    """Text of an answer → tokens for its unconditional likelihood, unless that is known already."""
    sequences: ScoredSequences
    """All distinct sequences to score."""


class ServerScorer:
    """Computes the loglikelihoods of requests at one server: `prepare`, then `body`, then `read`."""

    def __init__(self, provider: ApiProvider, sampling: Mapping[str, JsonValue]) -> None:
        """`sampling`: fields for neutral sampling."""
        self._provider, self._model, self._sampling = provider, provider.model, sampling
        self._questions: dict[str, _Question] = {}
        self._unconditional: dict[tuple[tuple[Message, ...], str], float] = {}

    def __contains__(self, request_key: str) -> bool:
        """Whether a request is prepared and its reply not read yet."""
        return request_key in self._questions

    async def check(self) -> None:
        """Scores a sentence; raises one of _SHAPE_ERRORS without log-probabilities."""
        tokens = await self._tokenize(prompt=_PROBE_TEXT, add_special_tokens=False)
        sequences = {tuple(tokens): 1}
        _scores(await self._post(SCORING_PATH, self._body(sequences)), sequences)

    async def prepare(self, request: Request) -> None:
        """Tokenizes a request; raises PromptError if that is not possible."""
        prompt, tokens_of = request.prompt, self._tokens_of
        if request.request_key in self._questions:
            return
        verbatim, prior = prompt.method != "loglikelihood", prompt.unconditional_prompt
        conditional = await tokens_of(prompt.messages, prompt.continuations, verbatim=verbatim)
        unconditional = {
            answer.text: await tokens_of(prior, [answer], verbatim=verbatim)
            for answer in (prompt.continuations if prior else ())
            if (prior, answer.text) not in self._unconditional
        }
        sequences = {(*conditional.prompt, *answer): len(conditional.prompt) for answer in conditional.answers}
        sequences |= {(*one.prompt, *one.answers[0]): len(one.prompt) for one in unconditional.values()}
        self._questions[request.request_key] = _Question(prompt, conditional, unconditional, sequences)

    async def _tokens_of(
        self, messages: Sequence[Message], answers: Sequence[Continuation], *, verbatim: bool
    ) -> ScoringPrompt:
        """Tokens of prompt and answers, by the chat template or, without one, of the plain text.

        Raises PromptError if the template refuses the messages, or a text has no tokens or not those of the chat.
        """
        text, rendered = plain_text(messages), None
        try:
            rendered = await self._tokenize(messages=turns_of(messages), add_generation_prompt=True)
        except RejectedError as error:
            if "chat template" not in error.error.message:
                raise PromptError(error.error.message) from error
        else:
            text = (await self._post("/detokenize", {"model": self._model, "tokens": [*rendered]}))["prompt"]
        texts = scored_texts(text, answers, uses_template=rendered is not None, verbatim=verbatim)
        read, *whole = await asyncio.gather(
            *(self._tokenize(prompt=text, add_special_tokens=rendered is None) for text in texts)
        )
        found = scoring_prompt(answers, read, whole)
        if rendered not in (None, read):
            raise PromptError("the server's tokenizer gives other tokens for the text of a chat than for the chat")
        return found

    async def _tokenize(self, **body: JsonValue) -> list[int]:
        return [int(token) for token in (await self._post("/tokenize", {"model": self._model, **body}))["tokens"]]

    async def _post(self, path: str, body: JsonValue) -> Any:
        """The JSON reply to a POST below the server's root; raises RejectedError if it is refused."""
        url = f"{server_root(self._provider.base_url)}{path}"
        return (await self._provider.call("POST", url, body=body, repeat=False)).json()

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The body of a request; if it is not prepared yet, a body of similar size."""
        question = self._questions.get(request.request_key)
        if question is not None:
            return self._body(question.sequences)
        texts = [f"{plain_text(request.messages)}{answer.text}" for answer in request.prompt.continuations]
        return {"model": self._model, "prompt": [*texts], "max_tokens": 1}

    def _body(self, sequences: ScoredSequences) -> dict[str, JsonValue]:
        """A body that requests one token after each sequence, and the log-probabilities of the sequence."""
        prompts: list[JsonValue] = [[*tokens] for tokens in sequences]
        fields: dict[str, JsonValue] = {"model": self._model, "prompt": prompts, "max_tokens": 1, "temperature": 0.0}
        return {**fields, **self._sampling, "prompt_logprobs": 1}

    def read(self, request_key: str, payload: Any) -> dict[str, Any]:
        """The fields of the response to a request; raises TransientError for a malformed reply."""
        prompt, conditional, unconditional, sequences = self._questions[request_key]
        try:
            sums, usage = _scores(payload, sequences), payload.get("usage") or {}
            # the server counts the prompt of every answer, and a generated token after it
            tokens_in, tokens_out = (count_or_none(usage.get(f"{name}_tokens")) for name in ("prompt", "completion"))
        except (*_SHAPE_ERRORS, AttributeError) as error:
            raise TransientError("malformed", "the reply has no log-probabilities of the prompt's tokens") from error
        del self._questions[request_key]
        prior = prompt.unconditional_prompt
        for text, one in unconditional.items():
            self._unconditional[prior, text] = sums[*one.prompt, *one.answers[0]]
        scores = tuple(
            ContinuationScore.of(
                answer,
                sums[*conditional.prompt, *tokens],
                len(tokens),
                self._unconditional[prior, answer.text] if prior else None,
            )
            for answer, tokens in zip(prompt.continuations, conditional.answers, strict=True)
        )
        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        return {"scores": scores, "finish_reason": "stop", "usage": usage}


def _scores(payload: Any, sequences: ScoredSequences) -> dict[tuple[int, ...], float]:
    """Sequence → sum of the log-probabilities of its answer; raises one of _SHAPE_ERRORS."""
    choices, found = sorted(payload["choices"], key=lambda choice: int(choice.get("index", 0))), {}
    for choice, (sequence, start) in zip(choices, sequences.items(), strict=True):
        entries = zip(choice["prompt_logprobs"][start:], sequence[start:], strict=True)
        found[sequence] = sum(float(named[str(token)]["logprob"]) for named, token in entries)  # infinity is text
    return found
