"""Log-probabilities of answers, in the order of the prompts."""

from __future__ import annotations

from typing import Any

from mbbq_gen.providers.local.scoring import iterate_scores


def score_answers(
    model: Any, prompts: list[list[int]], answers: list[list[list[int]]], *, max_tokens: int = 512
) -> list[list[float]]:
    """Returns what `iterate_scores` finds, one list for each prompt."""
    found = dict(iterate_scores(model, prompts, answers, max_tokens=max_tokens))
    return [found.get(number, []) for number in range(len(prompts))]
