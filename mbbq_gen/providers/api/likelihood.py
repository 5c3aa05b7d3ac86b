"""Loglikelihoods over servers that return log-probabilities of a prompt's tokens.

A prompt is the same tokens that `transformers:` reads: the chat as the template renders it, with the assistant's turn
opened, and each answer behind it. vLLM renders and tokenises chats itself (`/tokenize`, `/detokenize`); for all other
servers the tokenizer is loaded here (`--model-arg tokenizer=NAME`). Token ids are sent, all answers to a question in
one request. Three ways to get the log-probabilities, by the field `likelihood` in `servers.toml`:

* `prompt_logprobs`: `/v1/completions` of vLLM (docs.vllm.ai, OpenAI-compatible server, extra parameters);
* `generate`: `/generate` of SGLang with `return_logprob` (docs.sglang.io, native APIs);
* `echo`: `/v1/completions` with `echo` and `logprobs`, as lm-evaluation-harness uses it.

Before the first request, a probe compares three tokens that the server writes with the same tokens in a prompt. Servers
that assign log-probabilities to wrong tokens (llama-cpp-python: to the token before) are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import Continuation, ContinuationScore, Message, Method, Prompt, Request, Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.provider import turns_of
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.http.errors import RejectedError, TransientError
from mbbq_gen.providers.http.servers import OwnServer
from mbbq_gen.providers.local.chat_format import PromptError, ScoringPrompt, plain_text, scored_texts, scoring_prompt

LOGLIKELIHOODS: Final[frozenset[Method]] = frozenset({"loglikelihood", "label-loglikelihood"})
"""The methods that need log-probabilities of a prompt."""
_PROBE_TEXT: Final = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is Madrid."
_PARTS: Final = (0.5, 0.7, 0.9)
"""Parts of the probe's text after which a token is written."""
_TOLERANCE: Final = 0.25
"""Nats by which a token's log-probabilities may differ in the probe: number types are short, batches differ."""

Post = Callable[[str, JsonValue], Awaitable[Any]]
"""Posts a body to a path below the server's root; the JSON of the reply."""
Lines = Mapping[tuple[int, ...], int]
"""Prompt and answer as one sequence of tokens → where the answer begins."""


class ServerTokenizer:
    """The tokenizer and chat template of a vLLM server."""

    def __init__(self, model: str, post: Post) -> None:
        self._model, self._post = model, post

    async def tokens_of(
        self, messages: Sequence[Message], answers: Sequence[Continuation], *, verbatim: bool
    ) -> ScoringPrompt:
        """Prompt and answers, as the server renders chats; a model without a chat template gets the plain text.

        Raises:
            PromptError: where the template refuses the messages, its text does not give back its tokens, or a text has
                none.
        """
        chat: dict[str, JsonValue] = {"messages": turns_of(messages), "add_generation_prompt": True}
        rendered: list[int] | None = None
        try:
            rendered = await self._tokens(chat)
        except RejectedError as error:
            refusal = error.error.message
            if "chat template" not in refusal:
                raise PromptError(refusal) from error
        text = plain_text(messages)
        if rendered is not None:
            text = (await self._post("/detokenize", {"model": self._model, "tokens": [*rendered]}))["prompt"]
        texts = scored_texts(text, answers, uses_template=rendered is not None, verbatim=verbatim)
        read, *whole = await asyncio.gather(
            *(self._tokens({"prompt": text, "add_special_tokens": rendered is None}) for text in texts)
        )
        found = scoring_prompt(answers, read, whole)
        if rendered not in (None, read):
            raise PromptError("the server's tokenizer gives other tokens for the text of a chat than for the chat")
        return found

    async def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens."""
        return await self._tokens({"prompt": text, "add_special_tokens": False})

    async def _tokens(self, body: dict[str, JsonValue]) -> list[int]:
        found = (await self._post("/tokenize", {"model": self._model, **body}))["tokens"]
        return [int(token) for token in found]


class LocalTokenizer:
    """A tokenizer of transformers, with its chat template."""

    def __init__(self, name: str) -> None:
        """`name`: a hub id or a folder, as after `transformers:`. Raises MbbqGenError where it can't be loaded."""
        from mbbq_gen.core.files import PackPaths
        from mbbq_gen.providers.local.chat_format import ChatFormatter
        from mbbq_gen.providers.local.options import TransformersOptions
        from mbbq_gen.providers.local.provider import TransformersProvider
        from mbbq_gen.providers.local.scoring import LoglikelihoodScorer

        self._tokenizer = TransformersProvider.open(name, TransformersOptions(), PackPaths()).source.tokenizer()
        formatter = ChatFormatter(self._tokenizer, name)
        self._scorer = LoglikelihoodScorer(None, self._tokenizer, formatter, name, None, 0)

    async def tokens_of(
        self, messages: Sequence[Message], answers: Sequence[Continuation], *, verbatim: bool
    ) -> ScoringPrompt:
        """Prompt and answers, as `transformers:` reads them; raises PromptError where a text has no tokens."""
        return self._scorer.tokens_of(messages, answers, verbatim=verbatim)

    async def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


async def open_scorer(provider: Provider, server: OwnServer, tokenizer: str | None, post: Post) -> ServerScorer | None:
    """What computes loglikelihoods at a server; None if it can't be reached.

    `tokenizer`: hub id or folder of the model's tokenizer; None: the server's own.

    Raises:
        ProviderError: the server does not return usable log-probabilities of prompts.
        UsageError: a tokenizer is missing.
    """
    kind, name = (server.entry.likelihood, server.entry.name) if server.info else ("echo", "the server")
    where = f"{provider.name}: {name} at {provider.capabilities.base_url}"
    refusal = f"{where} does not return usable log-probabilities of prompts"
    instead = "use --method first-token-logprobs, or the model itself with transformers: or vllm:"
    if kind == "none":
        raise ProviderError(f"{refusal}; {instead}")
    if tokenizer is None and kind != "prompt_logprobs":
        raise UsageError(
            f"{where} does not return the tokens of a chat; give --model-arg tokenizer=NAME, the hub id or folder of"
            " the model"
        )
    used = ServerTokenizer(provider.model, post) if tokenizer is None else LocalTokenizer(tokenizer)
    scorer = ServerScorer(provider.model, kind, used, post, server.fields)
    try:
        why = await scorer.check()
    except RejectedError as error:
        why = str(error)
    except TransientError:
        return None
    if why is not None:
        raise ProviderError(f"{refusal}: {why}; {instead}")
    return scorer


@dataclass(frozen=True)
class _Question:
    """A request in tokens."""

    shown: Prompt
    whole: ScoringPrompt
    alone: Mapping[str, ScoringPrompt]
    """Text of an answer → prompt and answer of its unconditional likelihood, where that is not known yet."""

    @property
    def lines(self) -> dict[tuple[int, ...], int]:
        """The sequences to score; equal ones once."""
        found = {(*self.whole.prompt, *answer): len(self.whole.prompt) for answer in self.whole.answers}
        return found | {(*one.prompt, *one.answers[0]): len(one.prompt) for one in self.alone.values()}


class ServerScorer:
    """Computes the loglikelihoods of requests at one server: `prepare`, then `path` and `body`, then `read`."""

    def __init__(
        self,
        model: str,
        kind: str,
        tokenizer: ServerTokenizer | LocalTokenizer,
        post: Post,
        sampling: Mapping[str, JsonValue],
    ) -> None:
        """`sampling`: fields that make sampling neutral at the server."""
        self._model, self.kind, self._tokenizer, self._post, self._sampling = model, kind, tokenizer, post, sampling
        self.path = "/generate" if kind == "generate" else "/v1/completions"
        self._questions: dict[str, _Question] = {}
        self._unconditional: dict[tuple[tuple[Message, ...], str], float] = {}
        self.merged = 0
        """Questions whose answers begin within a token of the prompt."""

    def __contains__(self, request_key: str) -> bool:
        """Whether a request is prepared and not read yet."""
        return request_key in self._questions

    async def check(self) -> str | None:
        """Why the server's log-probabilities can't be used, in words; None if they are right.

        Raises:
            TransientError: the server can't be reached.
            RejectedError: it refuses such requests.
        """
        tokens = await self._tokenizer.encode(_PROBE_TEXT)
        starts = [tokens[: max(1, int(len(tokens) * part))] for part in _PARTS]
        lines: dict[tuple[int, ...], int] = {}
        expected: list[float] = []
        try:
            for start, (token, logprob) in zip(starts, await self._written(starts), strict=True):
                if token is not None:
                    lines[*start, token] = len(start)
                    expected.append(logprob)
            found = self._scores(await self._post(self.path, self._body(lines)), lines)
        except (KeyError, IndexError, TypeError, ValueError):
            return "its replies have no log-probabilities of the prompt"
        if not lines:
            return "its tokens are not those of the tokenizer"
        for value, right in zip(found.values(), expected, strict=True):
            if abs(value - right) > _TOLERANCE:
                return f"they do not belong to their tokens (a probe gives {value:.2f} where {right:.2f} is right)"
        return None

    async def _written(self, starts: Sequence[Sequence[int]]) -> list[tuple[int | None, float]]:
        """The token that the server writes after each prompt, and its log-probability; None: not known which."""
        prompts: list[JsonValue] = [[*start] for start in starts]
        if self.kind == "generate":
            replies = await self._post(self.path, self._native({"input_ids": prompts}))
            entries = [reply["meta_info"]["output_token_logprobs"][0] for reply in replies]
            return [(int(token), float(logprob)) for logprob, token, *_ in entries]
        body: dict[str, JsonValue] = {"model": self._model, "prompt": prompts, "max_tokens": 1, "temperature": 0.0}
        body |= {"logprobs": 1, **self._sampling}
        if self.kind == "prompt_logprobs":
            body["return_tokens_as_token_ids"] = True
        found: list[tuple[int | None, float]] = []
        for choice in _choices(await self._post(self.path, body), len(starts)):
            name, logprob = str(choice["logprobs"]["tokens"][0]), float(choice["logprobs"]["token_logprobs"][0])
            if self.kind == "prompt_logprobs":
                token: int | None = int(name.removeprefix("token_id:"))
            else:
                tokens = await self._tokenizer.encode(name)
                token = tokens[0] if len(tokens) == 1 else None
            found.append((token, logprob))
        return found

    async def prepare(self, request: Request) -> None:
        """Brings a request into tokens.

        Raises:
            PromptError: where it has none.
            TransientError: the server can't be reached.
        """
        shown, key = request.prompt, request.request_key
        if key in self._questions:
            return
        verbatim, prior = shown.method != "loglikelihood", shown.unconditional_prompt
        whole = await self._tokenizer.tokens_of(shown.messages, shown.continuations, verbatim=verbatim)
        alone = {
            answer.text: await self._tokenizer.tokens_of(prior, [answer], verbatim=verbatim)
            for answer in (shown.continuations if prior else ())
            if (prior, answer.text) not in self._unconditional
        }
        self._questions[key] = _Question(shown, whole, alone)

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The body for a request; before it is prepared, one of about the same size."""
        question = self._questions.get(request.request_key)
        if question is not None:
            return self._body(question.lines)
        texts = [f"{plain_text(request.messages)}{answer.text}" for answer in request.prompt.continuations]
        return {"model": self._model, "prompt": [*texts], "max_tokens": 1}

    def _body(self, lines: Lines) -> dict[str, JsonValue]:
        sequences: list[JsonValue] = [[*line] for line in lines]
        if self.kind == "generate":
            first = max(0, min(lines.values(), default=1) - 1)
            return self._native({"input_ids": sequences, "logprob_start_len": first})
        fields: dict[str, JsonValue] = {"model": self._model, "prompt": sequences, "max_tokens": 1, "temperature": 0.0}
        echo: dict[str, JsonValue] = {"echo": True, "logprobs": 1}
        return {**fields, **self._sampling, **({"prompt_logprobs": 1} if self.kind == "prompt_logprobs" else echo)}

    def _native(self, fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """A body for SGLang's own API."""
        return {
            **fields,
            "return_logprob": True,
            "sampling_params": {"temperature": 0.0, "max_new_tokens": 1, **self._sampling},
        }

    def _scores(self, payload: Any, lines: Lines) -> dict[tuple[int, ...], float]:
        """The sum of log-probabilities of each line's answer.

        Raises:
            KeyError, IndexError, TypeError, ValueError: where the reply is of another shape, or of other tokens.
        """
        replies = payload if self.kind == "generate" else _choices(payload, len(lines))
        found = {}
        for reply, (line, start) in zip(replies, lines.items(), strict=True):
            answer = line[start:]
            if self.kind == "prompt_logprobs":
                entries = reply["prompt_logprobs"][start:]
                values = [named[str(token)]["logprob"] for named, token in zip(entries, answer, strict=True)]
            elif self.kind == "generate":
                entries = reply["meta_info"]["input_token_logprobs"][-len(answer) :]
                values = [
                    logprob for (logprob, named, *_), token in zip(entries, answer, strict=True) if named == token
                ]
            else:
                entries = reply["logprobs"]["token_logprobs"]
                values = entries[start : len(line)] if len(line) <= len(entries) <= len(line) + 1 else []
            if len(values) != len(answer):
                raise ValueError("log-probabilities of other tokens")
            found[line] = float(sum(values))
        return found

    def read(self, request_key: str, payload: Any) -> dict[str, Any]:
        """The fields of the response to a request; raises TransientError where the reply is of another shape."""
        question = self._questions[request_key]
        shown, whole = question.shown, question.whole
        try:
            sums = self._scores(payload, question.lines)
            # tokens as the server counts them: every answer's prompt, and a token written after it
            replies = payload if isinstance(payload, list) else [payload]
            parts = [reply.get("meta_info" if self.kind == "generate" else "usage") or {} for reply in replies]
            read = [count_or_none(part.get("prompt_tokens")) for part in parts]
            written = [count_or_none(part.get("completion_tokens")) for part in parts]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise TransientError("malformed", "the reply has no log-probabilities of the prompt's tokens") from error
        del self._questions[request_key]
        self.merged += whole.merged
        prior = shown.unconditional_prompt
        for text, one in question.alone.items():
            self._unconditional[prior, text] = sums[*one.prompt, *one.answers[0]]
        scores = tuple(
            ContinuationScore.of(
                answer,
                sums[*whole.prompt, *tokens],
                len(tokens),
                self._unconditional[prior, answer.text] if prior else None,
            )
            for answer, tokens in zip(shown.continuations, whole.answers, strict=True)
        )
        sums_of = [sum(filter(None, counts)) if set(counts) != {None} else None for counts in (read, written)]
        usage = Usage(input_tokens=sums_of[0], output_tokens=sums_of[1])
        return {"scores": scores, "finish_reason": "stop", "usage": usage}


def _choices(payload: Any, count: int) -> list[Any]:
    """The choices of a completion in the order of their prompts; raises as `ServerScorer._scores`."""
    choices = sorted(payload["choices"], key=lambda choice: int(choice.get("index", 0)))
    if len(choices) != count:
        raise ValueError(f"{len(choices)} choices for {count} prompts")
    return choices
