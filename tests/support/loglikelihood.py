"""What the tests of likelihoods share: requests for them, and an independent way of computing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mbbq_gen.core.records import Continuation, ContinuationScore, Instance, Message, Method, Request
from mbbq_gen.prompts.render import as_continuations
from tests.support.providers import make_request


def score_request(
    texts: Sequence[str] = ("anna", "berta", "nobody"),
    *,
    method: Method = "loglikelihood",
    prior: Sequence[Message] = (),
    options: Sequence[int] | None = None,
    instance: Instance | None = None,
    **changes: Any,
) -> Request:
    """A request for the likelihoods of texts; the first three stand for options 0, 1 and 2, all others for the last."""
    request = make_request(instance, **changes)
    numbers = options or [min(number, 2) for number in range(len(texts))]
    answers = [Continuation(option=option, text=text) for option, text in zip(numbers, texts, strict=True)]
    shown = as_continuations(request.prompt, method, answers, prior)
    return request.model_copy(update={"prompt": shown})


def naive_logprob(model: Any, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """Sum of log p(token | everything before it): one forward a token, and a softmax by hand in double precision."""
    import torch

    total, read = 0.0, list(prompt)
    for token in answer:
        with torch.no_grad():
            logits = model(torch.tensor([read])).logits[0, -1].double().numpy()
        shifted = logits - logits.max()
        total += float(shifted[token] - np.log(np.exp(shifted).sum()))
        read.append(token)
    return total


def answer_score(
    option: int, logprob: float | None, tokens: int = 1, text: str = "x", unconditional_logprob: float | None = None
) -> ContinuationScore:
    """A score with everything that is not of interest left at what it usually is."""
    return ContinuationScore.of(Continuation(option=option, text=text), logprob, tokens, unconditional_logprob)


def score_answers(
    model: Any, prompts: list[list[int]], answers: list[list[list[int]]], *, max_tokens: int = 512
) -> list[list[float]]:
    """Returns what `iterate_scores` finds, one list for each prompt."""
    from mbbq_gen.providers.local.decoding import supports_tree_attention
    from mbbq_gen.providers.local.prefix_cache import iterate_scores

    reads_trees = supports_tree_attention(model)
    found = dict(iterate_scores(model, prompts, answers, reads_trees=reads_trees, max_tokens=max_tokens))
    return [found.get(number, []) for number in range(len(prompts))]
