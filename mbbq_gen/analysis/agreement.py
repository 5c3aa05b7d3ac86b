"""Agreement of the answers to the same questions across prompt variants, orders, languages and methods.

Answers are compared by the chosen role, so that languages and orders are comparable. Unparsed answers are a category of
their own for Fleiss' kappa and flips, and are excluded from pairs of methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Literal, get_args

import numpy as np
import polars as pl

from mbbq_gen.core.records import FrozenModel, Method, Normalise, Split
from mbbq_gen.scoring.cells import Array, Choice, UnparsedPolicy, has_response, is_parsed, quotient
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import QUESTION, TEMPLATE, question_expression, template_expression
from mbbq_gen.statistics.estimate import Estimate, EstimateResult, InferenceSettings, number, ratio_of, widening
from mbbq_gen.statistics.panel import make_panel, resample_weights
from mbbq_gen.statistics.variance_components import AXES

CHOICES: tuple[Choice, ...] = ("target", "non_target", "unknown", "unparsed")
_ROLES = 3
"""The first choices, which are roles."""
_ALL_ALIKE = 1e-12
"""Kappa is undefined if the expected agreement is this near to 1."""


def choices(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows with a role or an unparsed response, with the columns `choice`, `question` and `cluster`."""
    choice = pl.when(is_parsed()).then(pl.col("chosen_role").cast(pl.String)).otherwise(pl.lit("unparsed"))
    rows = frame.filter(has_response())
    named = rows.with_columns(choice.alias("choice"), question_expression(), template_expression())
    return named.filter(pl.col("choice").is_not_null())


# --- two methods -----------------------------------------------------------------------------------------------------


def _pairs(answers: pl.DataFrame, methods: Sequence[str], keys: Sequence[str]) -> pl.DataFrame:
    """The choices by two methods, joined on the columns `keys`."""
    texts, method = [pl.col(name).cast(pl.String) for name in keys], pl.col("method").cast(pl.String)
    left, right = (answers.filter(method == side).select(*texts, "choice") for side in methods)
    return left.join(right, on=keys, suffix="_other", nulls_equal=True)


def _contingency(pairs: pl.DataFrame) -> tuple[tuple[str, ...], Array]:
    """The templates of pairs, and their contingency tables: templates × CHOICES × CHOICES."""
    templates, rows = np.unique(pairs[TEMPLATE].to_numpy(), return_inverse=True)
    tables = np.zeros((len(templates), len(CHOICES), len(CHOICES)))
    codes = pl.col("choice", "choice_other").replace_strict(CHOICES, range(len(CHOICES)), return_dtype=pl.Int64)
    np.add.at(tables, (rows, *pairs.select(codes).to_numpy().T), 1.0)
    return tuple(templates.tolist()), tables


def equality_and_kappa(
    templates: tuple[str, ...], tables: Array, sampling: InferenceSettings
) -> tuple[EstimateResult, EstimateResult]:
    """The share of equal choices and Cohen's kappa of contingency tables (templates × k × k)."""
    weights = resample_weights(templates, sampling.n_resamples, sampling.seed)
    equal = ratio_of(tables.trace(axis1=1, axis2=2), tables.sum(axis=(1, 2)), weights)
    return equal.score(sampling), jackknife(tables, cohen_kappa, weights).score(sampling)


_DISPLAY_COLUMNS = ("variant", "label_style", "option_order")
"""Columns to join on as well, except for methods with different prompt variants, such as likelihoods."""


def _shared_columns(answers: pl.DataFrame, methods: Sequence[str]) -> tuple[str, ...]:
    """The _DISPLAY_COLUMNS if both methods share values in all of them, else none."""
    texts = answers.select(pl.col("method", *_DISPLAY_COLUMNS).cast(pl.String))
    first, second = (texts.filter(pl.col("method") == method) for method in methods)
    is_shared = all(set(first[name].unique()) & set(second[name].unique()) for name in _DISPLAY_COLUMNS)
    return _DISPLAY_COLUMNS if is_shared else ()


def cohen_kappa(tables: Array) -> Array:
    """Cohen's kappa of contingency tables (…, k, k); NaN for empty tables, or if all choices are the same."""
    total = tables.sum(axis=(-2, -1))
    safe = np.where(total > 0, total, np.nan)
    observed = np.trace(tables, axis1=-2, axis2=-1) / safe
    expected = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1) / safe**2
    return quotient(observed - expected, np.where(expected < 1 - _ALL_ALIKE, 1 - expected, 0.0))


def jackknife(tables: Array, function: Callable[[Array], Array], weights: Array) -> Estimate:
    """A function of tables summed over templates (their first axis), with influences by the jackknife."""
    n, total, sizes = len(tables), tables.sum(axis=0), tables.sum(axis=tuple(range(1, tables.ndim)))
    influences = np.full(n, np.nan)
    if n > 1:
        without = np.asarray(function(total[None] - tables), dtype=float)
        if not np.isnan(without).all():
            influences = (n - 1) / n * (np.nanmean(without) - without)
    return Estimate(
        value=float(function(total)) if n else math.nan,
        influence_values=influences,
        adjusted_influence=influences * widening(n) if n > 1 else influences,
        template_weights=quotient(sizes, sizes.sum(), 0.0),
        bootstrap_values=function(np.tensordot(weights, tables, axes=(1, 0))),
        bounds=(-1.0, 1.0),
    )


# --- many groups -----------------------------------------------------------------------------------------------------


class Flips(FrozenModel):
    """The share of answers that change with a factor, such as prompt variant, order or language."""

    factor: str
    n_levels: int
    n_pairs: int
    flip_share: EstimateResult
    """Share of pairs of answers to one question, at different levels of the factor, with different choices."""
    flip_share_by_chance: float | None
    """The expected share for two random answers of the model."""
    kappa: EstimateResult
    """Fleiss' kappa."""
    n_questions: int
    confounded_with: tuple[str, ...]
    """Other factors that vary with this one in the run."""


def flips(answers: pl.DataFrame, factor: str, sampling: InferenceSettings) -> Flips | None:
    """The flips between the levels of a factor with other factors fixed; None for a single level.

    `answers` are the `choices` of one model and extractor. If the factor never varies alone, as balanced orders vary
    with the prompt variant, the confounded factors are not fixed.
    """
    levels = answers[factor].n_unique()
    if levels < 2:
        return None
    others = [name for name in AXES if name != factor]
    both = tuple(name for name in others if name in ("option_order", "variant"))
    named = [(pl.col("choice") == choice).sum().cast(pl.Float64).alias(choice) for choice in CHOICES]
    for confounded in ((), *((name,) for name in both[::-1]), both):
        keys = [TEMPLATE, QUESTION, *(name for name in others if name not in confounded)]
        texts = answers.with_columns(pl.col(name).cast(pl.String) for name in [*keys, factor])
        one_each = texts.unique([*keys, factor], keep="first", maintain_order=True)
        ratings = one_each.group_by(keys).agg(named).filter(pl.sum_horizontal(CHOICES) > 1)
        if ratings.height:
            break
    else:
        return None
    counts = ratings.select(CHOICES).to_numpy()
    raters, equal = counts.sum(axis=1), (counts * (counts - 1) / 2).sum(axis=1)
    pairs = raters * (raters - 1) / 2
    templates, rows = np.unique(ratings[TEMPLATE].to_numpy(), return_inverse=True)
    columns = [pairs - equal, pairs, np.ones_like(raters), equal / pairs, *(counts / raters[:, None]).T]
    sums = np.stack([np.bincount(rows, column, len(templates)) for column in columns], axis=1).astype(np.float64)
    weights = resample_weights(tuple(templates.tolist()), sampling.n_resamples, sampling.seed)
    shares = counts.sum(axis=0) / counts.sum()
    return Flips(
        factor=factor,
        n_levels=levels,
        n_pairs=int(pairs.sum()),
        flip_share=ratio_of(sums[:, 0], sums[:, 1], weights).score(sampling),
        flip_share_by_chance=number(float(1 - (shares**2).sum())),
        kappa=jackknife(sums[:, 2:], fleiss_kappa, weights).score(sampling),
        n_questions=ratings.height,
        confounded_with=confounded,
    )


def fleiss_kappa(sums: Array) -> Array:
    """Fleiss' kappa (1971) of sums over questions: their number, shares of equal pairs, and shares of choices."""
    n = np.where(sums[..., 0] > 0, sums[..., 0], np.nan)
    expected = ((sums[..., 2:] / n[..., None]) ** 2).sum(axis=-1)
    return quotient(sums[..., 1] / n - expected, np.where(expected < 1 - _ALL_ALIKE, 1 - expected, 0.0))


ALL = "all"


class Flip(FrozenModel):
    """The number of questions with one choice by the first method and another by the second."""

    first: Choice
    second: Choice
    n: int


class MethodPair(FrozenModel):
    """The agreement of two methods on the same questions of a language."""

    language: str
    split: Split
    first: Method
    second: Method
    n_pairs: int
    n_read: int
    """Pairs with a role by both methods."""
    equal_share: EstimateResult
    kappa: EstimateResult
    flips: tuple[Flip, ...]
    """Sorted by frequency, descending."""


class MethodScore(FrozenModel):
    """A score by one method, and its difference from the first method."""

    language: str
    split: Split
    method: Method
    metric: str
    n_answers: int
    score: EstimateResult
    minus_first: EstimateResult | None
    """Paired by template; None for the first method."""


class MethodAgreement(FrozenModel):
    """The agreement of the methods of a run."""

    schema_version: Literal["mbbq-gen.agreement/1"] = "mbbq-gen.agreement/1"
    run: str
    model: str
    methods: tuple[Method, ...]
    normalization: Normalise
    confidence_level: float
    n_resamples: int
    seed: int
    unparsed: UnparsedPolicy
    pairs: tuple[MethodPair, ...]
    scores: tuple[MethodScore, ...]


def method_agreement(
    frame: pl.DataFrame, methods: Sequence[Method], sampling: InferenceSettings
) -> Iterator[MethodPair]:
    """The agreement of all pairs of methods, by split and language, and over all languages if there are several."""
    answers = choices(frame).with_columns(pl.col("split", "language").cast(pl.String))
    languages = sorted(answers["language"].unique())
    languages += [ALL] if len(languages) > 1 else []
    for split, (first, second) in product(get_args(Split), combinations(methods, 2)):
        part = answers.filter(pl.col("split") == split)
        keys = ["language", TEMPLATE, QUESTION, "instance_id", *_shared_columns(part, (first, second))]
        all_pairs = _pairs(part, (first, second), keys)
        for language in languages if part.height else ():
            pairs = all_pairs if language == ALL else all_pairs.filter(pl.col("language") == language)
            templates, tables = _contingency(pairs)
            read, total = tables[:, :_ROLES, :_ROLES], tables.sum(axis=0)
            equal_share, kappa = equality_and_kappa(templates, read, sampling)
            flips = [
                Flip(first=one, second=other, n=int(total[row, column]))
                for (row, one), (column, other) in product(enumerate(CHOICES), repeat=2)
                if row != column and total[row, column]
            ]
            yield MethodPair(
                language=language,
                split=split,
                first=first,
                second=second,
                n_pairs=pairs.height,
                n_read=int(read.sum()),
                equal_share=equal_share,
                kappa=kappa,
                flips=tuple(sorted(flips, key=lambda flip: -flip.n)),
            )


def method_scores(
    frame: pl.DataFrame, methods: Sequence[Method], metrics: Sequence[Metric], sampling: InferenceSettings
) -> Iterator[MethodScore]:
    """The scores by every method, language and split, with their differences from the first method."""
    panel = make_panel(frame, ["language", "split", "method"], sampling)
    keys = [tuple(group.values()) for group in panel.groups]
    answers = {key: sum(tally.outcomes.values()) for key, tally in zip(keys, panel.tallies, strict=True)}
    for metric in metrics:
        estimates = dict(zip(keys, panel.estimates(metric), strict=True))
        for (language, split), method in product(dict.fromkeys(key[:2] for key in keys), methods):
            own, first = estimates.get((language, split, method)), estimates.get((language, split, methods[0]))
            if own is not None:
                yield MethodScore(
                    language=str(language),
                    split="control" if split == "control" else "bias",
                    method=method,
                    metric=metric.name,
                    n_answers=answers[language, split, method],
                    score=own.score(sampling),
                    minus_first=None if first is None or own is first else own.subtract(first).score(sampling),
                )
