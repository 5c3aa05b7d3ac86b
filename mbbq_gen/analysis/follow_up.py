"""The effect of follow-ups: parse rates, scores with and without them, choices.

The table of first answers has, beside the observations, the columns `reason` (None: no follow-up), `reply` (how the
reply was parsed; `none`: it chooses no option; None: unparsed) and `counts` (whether it replaces the first extraction).
"""

from __future__ import annotations

import math
from typing import Final, Literal

import polars as pl

from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import has_response, is_parsed
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings, no_score
from mbbq_gen.statistics.intervals import Proportion, proportion
from mbbq_gen.statistics.panel import paired_estimates

FOLLOW_UP_METRICS: Final = (
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "diff_bias_disambiguated",
)
PRESSED: Final = "mbbq_bias_ambiguous"
"""The metric for the bias of replies to follow-ups."""


class FollowUpChange(FrozenModel):
    """A score of the first answers, and with follow-ups."""

    first: EstimateResult
    with_follow_up: EstimateResult
    difference: EstimateResult


class ChoiceShares(FrozenModel):
    """The shares of the biased, the counter-biased and the unknown option."""

    source: Literal["first", "follow-up"]
    """Parsed first answers, or replies that replace a first answer."""
    n: int
    biased: Proportion
    counter_biased: Proportion
    unknown: Proportion


class FollowUpGroup(FrozenModel):
    """The follow-ups of a language and split."""

    language: str
    split: str
    answers: int
    """First answers, without failures."""
    read: int
    followed_up: int
    replied: int
    """Parsed replies."""
    none: int
    """Replies that choose no option."""
    read_with_follow_up: int
    metrics: dict[str, FollowUpChange]
    choices: tuple[ChoiceShares, ...]
    """Over questions with a single target."""
    pressed: EstimateResult
    """Bias (ambiguous) of the replies minus that of parsed first answers; if there are none, of the replies alone."""


class FollowUpReport(FrozenModel):
    """The report on the follow-ups of a run."""

    schema_version: Literal["mbbq-gen.follow-up/1"] = "mbbq-gen.follow-up/1"
    model: str
    confidence_level: float
    groups: tuple[FollowUpGroup, ...]
    findings: tuple[str, ...]
    """A sentence for each language with stereotypical replies."""


def follow_up_report(
    first: pl.DataFrame, second: pl.DataFrame, model: str, sampling: InferenceSettings
) -> FollowUpReport:
    """The report from the first answers, and the same rows with the extractions of follow-ups."""
    texts = [pl.col(name).cast(pl.String) for name in ("language", "split")]
    second = second.with_columns(first[name] for name in ("reason", "reply", "counts"))
    is_answered = has_response() & (pl.col("method") == "generate")
    groups = []
    for language, split in first.select(texts).unique().sort("split", "language").rows():
        one, other = (side.filter(texts[0] == language, texts[1] == split, is_answered) for side in (first, second))
        if one.height:
            groups.append(_group(language, split, one, other, sampling))
    findings = []
    for group in groups:
        bias = group.pressed
        if group.split == "bias" and bias.excludes_zero and (bias.value or 0) > 0:
            more = " more often than where its answer could be read" if group.choices[0].n else ""
            interval = f"{bias.value:+.2f} [{bias.ci_low:+.2f}, {bias.ci_high:+.2f}]{' higher' if more else ''}"
            findings.append(
                f"{group.language}: in replies to follow-ups, the model chose the stereotype{more}: bias in ambiguous "
                f"contexts {interval}"
            )
    return FollowUpReport(
        model=model, confidence_level=sampling.confidence, groups=tuple(groups), findings=tuple(findings)
    )


def _group(
    language: str, split: str, first: pl.DataFrame, second: pl.DataFrame, sampling: InferenceSettings
) -> FollowUpGroup:
    read, replies = first.filter(is_parsed(), ~pl.col("counts")), second.filter(is_parsed(), pl.col("counts"))
    followed_up = first.filter(pl.col("reason").is_not_null())
    metrics = [METRICS[name] for name in FOLLOW_UP_METRICS]
    sides = paired_estimates({"first": first, "follow-up": second}, metrics, sampling)
    biases = paired_estimates({"first": read, "follow-up": replies}, [METRICS[PRESSED]], sampling)[PRESSED]
    of_replies, of_first = biases.get("follow-up"), biases.get("first")
    if of_replies is None:
        pressed = no_score("no reply names an option")
    elif of_first is None or math.isnan(of_first.value):
        pressed = of_replies.score(sampling)
    else:
        pressed = of_replies.subtract(of_first).score(sampling)
    return FollowUpGroup(
        language=language,
        split=split,
        answers=first.height,
        read=first.filter(is_parsed()).height,
        followed_up=followed_up.height,
        replied=followed_up["reply"].is_not_null().sum(),
        none=followed_up.filter(pl.col("reply") == "none").height,
        read_with_follow_up=second.filter(is_parsed()).height,
        metrics={
            name: FollowUpChange(
                first=one["first"].score(sampling),
                with_follow_up=one["follow-up"].score(sampling),
                difference=one["follow-up"].subtract(one["first"]).score(sampling),
            )
            for name, one in sides.items()
        },
        choices=(_shares("first", read, sampling), _shares("follow-up", replies, sampling)),
        pressed=pressed,
    )


def _shares(source: Literal["first", "follow-up"], rows: pl.DataFrame, sampling: InferenceSettings) -> ChoiceShares:
    rows = rows.filter(pl.col("has_single_target"))
    return ChoiceShares(
        source=source,
        n=rows.height,
        biased=_proportion(rows["biased"], sampling),
        counter_biased=_proportion(rows["counter_biased"], sampling),
        unknown=_proportion(rows["chosen_role"].cast(pl.String) == "unknown", sampling),
    )


def _proportion(holds: pl.Series, sampling: InferenceSettings) -> Proportion:
    return proportion(((bool(one), 1.0) for one in holds), sampling.confidence)
