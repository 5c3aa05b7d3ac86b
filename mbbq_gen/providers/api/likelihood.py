"""Loglikelihoods from servers that return log-probabilities of a prompt's tokens.

The tokens are the same as with `transformers:`: the chat rendered by the template, with the assistant's turn opened,
followed by an answer. vLLM renders and tokenizes chats itself (`/tokenize`, `/detokenize`); for all other servers the
tokenizer is loaded here (`--model-arg tokenizer=NAME`). Token ids are sent, all answers to a question in one request.
There are three ways to get the log-probabilities, by the field `likelihood` in `servers.toml`:

* `prompt_logprobs`: `/v1/completions` of vLLM (docs.vllm.ai, OpenAI-compatible server, extra parameters);
* `generate`: `/generate` of SGLang with `return_logprob` (docs.sglang.io, native APIs);
* `echo`: `/v1/completions` with `echo` and `logprobs`, as lm-evaluation-harness uses it.

Before the first request, a probe compares the log-probabilities of three generated tokens with those of the same tokens
in a prompt. Servers that assign them to wrong tokens (llama-cpp-python: to the previous token) are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Continuation, ContinuationScore, Message, Method, Prompt, Request, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.provider import turns_of
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.http.errors import RejectedError, TransientError
from mbbq_gen.providers.http.servers import OwnServer
from mbbq_gen.providers.local.chat_format import (
    ChatFormatter,
    PromptError,
    ScoringPrompt,
    plain_text,
    scored_texts,
    scoring_prompt,
)

LOGLIKELIHOODS: Final[frozenset[Method]] = frozenset({"loglikelihood", "label-loglikelihood"})
_PROBE_TEXT: Final = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is Madrid."
_PARTS: Final = (0.5, 0.7, 0.9)
"""Shares of the probe's text after which a token is generated."""
_TOLERANCE: Final = 0.25
"""Maximum difference in nats in the probe, since precision is low and batches differ."""
_SHAPE_ERRORS: Final = (KeyError, IndexError, TypeError, ValueError)

Post = Callable[[str, JsonValue], Awaitable[Any]]
"""Posts a body to a path below the server's root; returns the JSON of the reply."""
ScoredSequences = Mapping[tuple[int, ...], int]
"""Prompt and answer as one sequence of tokens → start of the answer."""


async def open_scorer(provider: Provider, server: OwnServer, tokenizer: str | None, post: Post) -> ServerScorer | None:
    """The scorer for a server, or None if it can't be reached; ProviderError without usable log-probabilities.

    `tokenizer`: hub id or folder of the model's tokenizer; None: the server's own.
    """
    kind, name = (server.entry.likelihood, server.entry.name) if server.is_known else ("echo", "the server")
    where = f"{provider.name}: {name} at {provider.capabilities.base_url}"
    refusal = f"{where} does not return usable log-probabilities of prompts"
    instead = "use --method first-token-logprobs, or the model itself with transformers:"
    if kind == "none":
        raise ProviderError(f"{refusal}; {instead}")
    if tokenizer is None and kind != "prompt_logprobs":
        raise UsageError(
            f"{where} does not return the tokens of a chat; give --model-arg tokenizer=NAME, the hub id or folder of"
            " the model"
        )
    formatter = None if tokenizer is None else _local_formatter(tokenizer)
    scorer = ServerScorer(provider.model, kind, formatter, post, server.fields)
    try:
        why = await scorer.check()
    except RejectedError as error:
        why = str(error)
    except TransientError:
        return None
    if why is not None:
        raise ProviderError(f"{refusal}: {why}; {instead}")
    return scorer


def _local_formatter(name: str) -> ChatFormatter:
    """The tokenizer with this hub id or folder, and its chat template; MbbqGenError if it can't be loaded."""
    from mbbq_gen.providers.local.options import TransformersOptions
    from mbbq_gen.providers.local.provider import TransformersProvider

    tokenizer = TransformersProvider.open(name, TransformersOptions(), PackPaths()).source.tokenizer()
    return ChatFormatter(tokenizer, name)


class _Question(NamedTuple):
    prompt: Prompt
    conditional: ScoringPrompt
    unconditional: Mapping[str, ScoringPrompt]
    """Text of an answer → tokens for its unconditional likelihood, unless that is known already."""
    sequences: ScoredSequences
    """All distinct sequences to score."""


class ServerScorer:
    """Computes the loglikelihoods of requests at one server: `prepare`, then `path` and `body`, then `read`."""

    def __init__(
        self, model: str, kind: str, formatter: ChatFormatter | None, post: Post, sampling: Mapping[str, JsonValue]
    ) -> None:
        """`formatter`: tokenizes prompts; None: the server does. `sampling`: fields for neutral sampling."""
        self._model, self.kind, self._formatter, self._post, self._sampling = model, kind, formatter, post, sampling
        self.path = "/generate" if kind == "generate" else "/v1/completions"
        self._questions: dict[str, _Question] = {}
        self._unconditional: dict[tuple[tuple[Message, ...], str], float] = {}
        self.merged = 0
        """Number of questions whose answers begin within a token of the prompt."""

    def __contains__(self, request_key: str) -> bool:
        """Whether a request is prepared and its reply not read yet."""
        return request_key in self._questions

    async def check(self) -> str | None:
        """A description of the fault of the server's log-probabilities; None if they are right."""
        tokens = await self._encode(_PROBE_TEXT)
        starts = [tokens[: max(1, int(len(tokens) * part))] for part in _PARTS]
        sequences: dict[tuple[int, ...], int] = {}
        expected: list[float] = []
        fields: dict[str, JsonValue] = {} if self.kind == "generate" else {"logprobs": 1}
        if self.kind == "prompt_logprobs":
            fields["return_tokens_as_token_ids"] = True
        try:
            written = await self._post(self.path, self._body(starts, fields))
            for start, reply in zip(starts, self._replies(written, len(starts)), strict=True):
                if self.kind == "generate":
                    logprob, name, *_ = reply["meta_info"]["output_token_logprobs"][0]
                else:
                    name, logprob = (reply["logprobs"][field][0] for field in ("tokens", "token_logprobs"))
                number = str(name).removeprefix("token_id:")
                token = await self._encode(name) if self.kind == "echo" else [int(number)]
                if len(token) == 1:
                    sequences[*start, token[0]] = len(start)
                    expected.append(float(logprob))
            found = self._scores(await self._post(self.path, self._scored_body(sequences)), sequences)
        except _SHAPE_ERRORS:
            return "its replies have no log-probabilities of the prompt"
        if not sequences:
            return "its tokens are not those of the tokenizer"
        for value, right in zip(found.values(), expected, strict=True):
            if abs(value - right) > _TOLERANCE:
                return f"they do not belong to their tokens (a probe gives {value:.2f} where {right:.2f} is right)"
        return None

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
        if self._formatter is not None:
            return self._formatter.scoring_prompt(messages, answers, verbatim=verbatim)
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

    async def _encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens."""
        if self._formatter is not None:
            return list(self._formatter.tokenizer(text, add_special_tokens=False)["input_ids"])
        return await self._tokenize(prompt=text, add_special_tokens=False)

    async def _tokenize(self, **body: JsonValue) -> list[int]:
        return [int(token) for token in (await self._post("/tokenize", {"model": self._model, **body}))["tokens"]]

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The body of a request; if it is not prepared yet, a body of similar size."""
        question = self._questions.get(request.request_key)
        if question is not None:
            return self._scored_body(question.sequences)
        texts = [f"{plain_text(request.messages)}{answer.text}" for answer in request.prompt.continuations]
        return {"model": self._model, "prompt": [*texts], "max_tokens": 1}

    def _scored_body(self, sequences: ScoredSequences) -> dict[str, JsonValue]:
        first = max(0, min(sequences.values(), default=1) - 1)
        fields = {"generate": {"logprob_start_len": first}, "prompt_logprobs": {"prompt_logprobs": 1}}
        return self._body(list(sequences), fields.get(self.kind, {"echo": True, "logprobs": 1}))

    def _body(self, prompts: Sequence[Sequence[int]], more: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """A body that requests one token after each prompt, with `more` fields."""
        sequences: list[JsonValue] = [[*tokens] for tokens in prompts]
        if self.kind == "generate":
            sampling: dict[str, JsonValue] = {"temperature": 0.0, "max_new_tokens": 1, **self._sampling}
            return {"input_ids": sequences, **more, "return_logprob": True, "sampling_params": sampling}
        fields: dict[str, JsonValue] = {"model": self._model, "prompt": sequences, "max_tokens": 1, "temperature": 0.0}
        return {**fields, **self._sampling, **more}

    def _replies(self, payload: Any, count: int) -> list[Any]:
        """The replies in the order of their prompts."""
        if self.kind == "generate":
            return list(payload)
        choices = sorted(payload["choices"], key=lambda choice: int(choice.get("index", 0)))
        if len(choices) != count:
            raise ValueError(f"{len(choices)} choices for {count} prompts")
        return choices

    def _scores(self, payload: Any, sequences: ScoredSequences) -> dict[tuple[int, ...], float]:
        """Sequence → sum of the log-probabilities of its answer; raises one of _SHAPE_ERRORS."""
        found = {}
        for reply, (sequence, start) in zip(self._replies(payload, len(sequences)), sequences.items(), strict=True):
            answer = sequence[start:]
            if self.kind == "prompt_logprobs":
                entries = reply["prompt_logprobs"][start:]
                values = [named[str(token)]["logprob"] for named, token in zip(entries, answer, strict=True)]
            elif self.kind == "generate":
                entries = reply["meta_info"]["input_token_logprobs"][-len(answer) :]
                pairs = zip(entries, answer, strict=True)
                values = [logprob for (logprob, named, *_), token in pairs if named == token]
            else:
                entries = reply["logprobs"]["token_logprobs"]
                values = entries[start : len(sequence)] if len(sequence) <= len(entries) <= len(sequence) + 1 else []
            if len(values) != len(answer):
                raise ValueError("log-probabilities of other tokens")
            found[sequence] = sum(map(float, values))  # infinity is sent as text
        return found

    def read(self, request_key: str, payload: Any) -> dict[str, Any]:
        """The fields of the response to a request; raises TransientError for a malformed reply."""
        prompt, conditional, unconditional, sequences = self._questions[request_key]
        try:
            sums = self._scores(payload, sequences)
            # the server counts the prompt of every answer, and a generated token after it
            usages = [reply["meta_info"] for reply in payload] if self.kind == "generate" else [payload.get("usage")]
            read, written = (
                [count_or_none((usage or {}).get(f"{name}_tokens")) for usage in usages]
                for name in ("prompt", "completion")
            )
        except _SHAPE_ERRORS as error:
            raise TransientError("malformed", "the reply has no log-probabilities of the prompt's tokens") from error
        del self._questions[request_key]
        self.merged += conditional.merged
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
        tokens_in, tokens_out = (None if set(n) == {None} else sum(filter(None, n)) for n in (read, written))
        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        return {"scores": scores, "finish_reason": "stop", "usage": usage}
