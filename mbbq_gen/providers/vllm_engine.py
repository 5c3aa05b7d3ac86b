"""vLLM in this process: what its `LLM` class is given and what it gives back, in the terms of our own decoders.

Written against vLLM's documentation and source (docs.vllm.ai, `vllm/entrypoints/llm.py`, `vllm/sampling_params.py`,
`vllm/outputs.py`), of which this uses

    LLM(model=…, dtype=…, enable_prefix_caching=True, …)      get_tokenizer()
    LLM.generate([{"prompt_token_ids": […]}, …], [SamplingParams(…), …], use_tqdm=False)
        → RequestOutput.outputs[0].token_ids, .finish_reason; RequestOutput.prompt_logprobs

and nothing else. Prompts are handed over as tokens, made by our own rules (`chat_prompts`), so that a system prompt or
a chat template means the same for every kind of local model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from mbbq_gen.errors import ProviderError
from mbbq_gen.providers.decoding import NOT_NUMBERS, Completion, DecodingSettings, Prompt

Engine = Any
"""A `vllm.LLM`, which is not installed where this is checked."""
Tokens = Sequence[int]


class EngineDecoder:
    """Completes prompts with vLLM, which batches them itself: so many are handed over at a time."""

    name = "vllm"
    """As the manifest shows it."""

    def __init__(self, engine: Engine, settings: DecodingSettings) -> None:
        self._engine = engine
        self._settings = settings
        self.batch_size = settings.batch_size

    def decode(self, prompts: Sequence[Prompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, those that begin alike together; stops between two batches once cancelled."""
        waiting = iter(sorted(prompts, key=lambda prompt: prompt.tokens))
        while not is_cancelled() and (group := list(islice(waiting, self.batch_size))):
            started = time.perf_counter()
            outputs = self._engine.generate(
                [{"prompt_token_ids": list(prompt.tokens)} for prompt in group],
                [self._parameters(prompt) for prompt in group],
                use_tqdm=False,
            )
            elapsed = time.perf_counter() - started
            for prompt, output in zip(group, outputs, strict=True):
                yield self._complete(prompt, output.outputs[0], elapsed)

    def _parameters(self, prompt: Prompt) -> Any:
        from vllm import SamplingParams

        drawn = self._settings.temperature > 0
        return SamplingParams(
            temperature=self._settings.temperature,
            top_p=self._settings.top_p if drawn else 1.0,
            seed=prompt.seed % 2**31 if drawn else None,
            max_tokens=prompt.limit,
            stop_token_ids=sorted(self._settings.stop_tokens),
        )

    def _complete(self, prompt: Prompt, output: Any, elapsed: float) -> Completion:
        tokens = tuple(output.token_ids)
        written = len(tokens)
        if output.finish_reason not in ("stop", "length"):
            return Completion(prompt.number, (), None, 0, elapsed, f"vLLM ended the answer: {output.finish_reason}")
        if tokens and tokens[-1] in self._settings.stop_tokens:
            tokens = tokens[:-1]
        return Completion(prompt.number, tokens, output.finish_reason, written, elapsed)


def score_answers(
    engine: Engine, prompts: Sequence[Tokens], answers: Sequence[Sequence[Tokens]], *, batch_size: int = 512
) -> list[list[float]]:
    """For each prompt, the sums of natural-log probabilities of its answers' tokens, each given the prompt.

    The same contract as `packed_scoring.iterate_scores`. vLLM computes the prompts anew for this: it reads nothing from
    its cache of prefixes where the probabilities of a prompt's tokens are asked for.

    Args:
        engine: a `vllm.LLM`.
        prompts: token ids, at least one each.
        answers: token ids of each prompt's answers, at least one each.
        batch_size: answers that are handed over at a time.

    Raises:
        ValueError: where a prompt or an answer has no tokens, or the lists are of different lengths.
        ProviderError: where the engine tells no probability of a token, or one that is no number.
    """
    lines = [
        (number, prompt, answer)
        for number, (prompt, given) in enumerate(zip(prompts, answers, strict=True))
        for answer in given
    ]
    if any(not prompt or not answer for _, prompt, answer in lines):
        raise ValueError("a prompt or an answer has no tokens")
    found: list[list[float]] = [[] for _ in prompts]
    for start in range(0, len(lines), batch_size):
        group = lines[start : start + batch_size]
        for (number, prompt, answer), told in zip(group, _ask(engine, group), strict=True):
            found[number].append(_sum(told[len(prompt) :], answer))
    return found


def iterate_scores(
    model: Engine, prompts: list[list[int]], answers: list[list[list[int]]], *, max_tokens: int
) -> Iterator[tuple[int, list[float]]]:
    """The number of each prompt and its answers' sums, as `packed_scoring.iterate_scores` gives them.

    `max_tokens` is taken for the number of answers that are handed over at a time: vLLM makes up its own batches.
    """
    yield from enumerate(score_answers(model, prompts, answers, batch_size=max(1, max_tokens)))


def _ask(engine: Engine, lines: Sequence[tuple[int, Tokens, Tokens]]) -> list[Sequence[Any]]:
    """For each line, what is told of each of its tokens: token → an object with `logprob`; None for the first one."""
    from vllm import SamplingParams

    # one token has to be written; the token that stands in the prompt is always among those that are told
    parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1, detokenize=False)
    asked = [{"prompt_token_ids": [*prompt, *answer]} for _, prompt, answer in lines]
    return [output.prompt_logprobs for output in engine.generate(asked, parameters, use_tqdm=False)]


def _sum(told: Sequence[Any], answer: Tokens) -> float:
    try:
        total = sum(float(line[token].logprob) for line, token in zip(told, answer, strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise ProviderError("vLLM does not tell how likely each token of a prompt is") from error
    if math.isnan(total):
        raise ProviderError(NOT_NUMBERS)
    return total
