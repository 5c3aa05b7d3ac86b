"""Chooses the option with the greatest loglikelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import ContinuationScore, Extraction, Method, Normalise

LENGTHS: Final[tuple[Normalise, ...]] = "token", "char", "byte"
"""Normalisations by a length."""
PRIOR: Final[Normalise] = "pmi"
"""The normalisation by the answers' unconditional likelihoods."""
LIKELIHOOD_VERSION: Final = 1
LIKELIHOOD_PREFIX: Final = "loglikelihood:"
"""Prefix of the versions under which choices by loglikelihood are stored."""
TIE: Final = 1e-6
"""Largest difference of normalised scores in a tie; float32 rounds by about as much."""
LABEL_MISSING: Final = "label_missing"
"""Conflict of a choice: the service gave no probability for some option."""


def version_of(normalise: Normalise) -> str:
    """The version of a choice: `loglikelihood:sum+1`."""
    return f"{LIKELIHOOD_PREFIX}{normalise}+{LIKELIHOOD_VERSION}"


def normalised_score(score: ContinuationScore, normalise: Normalise) -> float | None:
    """The normalised loglikelihood of a continuation; None if the service gave none.

    Raises UsageError if the answers' unconditional likelihoods, or their tokens, are missing.
    """
    if score.logprob is None:
        return None
    if normalise == "pmi":
        if score.unconditional_logprob is None:
            raise UsageError(
                """pmi needs the answers' unconditional likelihoods, which this run did not request;"""
                """ make a run with --normalization pmi"""
            )
        return score.logprob - score.unconditional_logprob
    if normalise == "token" and score.tokens is None:
        raise UsageError("token needs the answers' tokens, which the imported log does not hold; use char")
    lengths = {"sum": 1, "token": score.tokens or 1, "char": score.characters, "byte": score.bytes}
    return score.logprob / lengths[normalise]


def option_scores(scores: Sequence[ContinuationScore], normalise: Normalise) -> dict[int, float | None]:
    """Option → the best normalised score of its texts; None if they have none."""
    found: dict[int, float | None] = {}
    for score in scores:
        value, best = normalised_score(score, normalise), found.get(score.option)
        found[score.option] = value if best is None else best if value is None else max(best, value)
    return found


def choose_by_loglikelihood(
    scores: Sequence[ContinuationScore], order: Sequence[int], method: Method, normalise: Normalise = "sum"
) -> Extraction:
    """The option with the greatest loglikelihood; raises as `normalised_score`.

    `scores`: of all texts of all options; `order`: index of the option shown at each position; `normalise`: of answers'
    texts, since the loglikelihoods of labels are not normalised.
    """
    how: Normalise = normalise if method == "loglikelihood" else "sum"
    values = {option: value for option, value in option_scores(scores, how).items() if value is not None}
    rule = f"{method}:{how}"
    if not values or any(math.isnan(value) for value in values.values()):
        return Extraction(outcome="unparsed", confidence="high", rule=rule, conflicts=(LABEL_MISSING,))
    conflicts = () if len(values) == len(order) else (LABEL_MISSING,)
    best = max(values.values())
    chosen = [option for option, value in values.items() if best - value <= TIE]
    if len(chosen) > 1:
        return Extraction(outcome="multiple", confidence="high", rule=f"{rule}:tie", conflicts=conflicts)
    shown = list(order).index(chosen[0])
    return Extraction(outcome="option", option=shown, confidence="high", rule=rule, conflicts=conflicts)
