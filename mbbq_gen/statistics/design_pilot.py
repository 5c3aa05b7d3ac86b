"""What a run tells about its components of variance, for the design of the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.statistics.components import variance_components
from mbbq_gen.statistics.design import QUESTION_SHARE, Components, pooled_share
from mbbq_gen.statistics.items import QUESTION, TEMPLATE, answer_scores
from mbbq_gen.statistics.panel import Sampling
from mbbq_gen.statistics.power import DEFAULTS, VarianceAssumptions, assumptions_of

if TYPE_CHECKING:
    import polars

LEAST_FREEDOM: Final = 20
"""Answers, beyond the first of each kind of question in each template, that chance is told from."""


def measured_components(frame: polars.DataFrame, metric: Metric, source: str) -> Components:
    """The components of the bias split of a run; what did not vary there keeps the assumed one.

    Raises:
        UsageError: where nothing varies, or the metric is no mean over answers.
    """
    import polars as pl

    bias = frame.filter(pl.col("split") == "bias")
    share = question_share(bias, metric)
    return Components(
        assumptions=measured_assumptions(bias, metric, source),
        question_share=QUESTION_SHARE if share is None else share,
        question_source="assumed: no question was asked twice there" if share is None else f"taken from {source}",
    )


def measured_assumptions(frame: polars.DataFrame, metric: Metric, source: str) -> VarianceAssumptions:
    """The standard deviations that the answers of one split tell; what they don't keeps the assumed one.

    Where hardly any wording was met twice by a template, as in the first rounds of a run, a full table of components
    tells nothing: chance can't be told from wordings there. Then it is taken within templates, languages and kinds of
    question, a little of the wordings with it, and templates from their means (two-way analysis of variance).

    Raises:
        UsageError: where nothing varies, or the metric is no mean over answers.
    """
    table = variance_components(frame, metric, Sampling())
    if table.chance is not None or table.is_balanced:
        return assumptions_of(table, f"taken from {source}")
    found = _of_few_answers(answer_scores(frame, metric, "discard"))
    if not found:
        said = f"{DEFAULTS.source.split(';')[0]}; {source} has too few answers to a template to tell"
        return DEFAULTS.model_copy(update={"source": said})
    said = f"taken from {source}: template, template × language, one answer; assumed: wordings, few met one twice"
    return DEFAULTS.model_copy(update={**found, "source": said})


_KIND = (TEMPLATE, "language", "condition", "polarity", "alignment")


def _of_few_answers(answers: polars.DataFrame) -> dict[str, float]:
    """Standard deviations of templates, template × language and one answer; nothing where answers are too few."""
    import numpy as np
    import polars as pl

    freedom = answers.height - answers.select(pl.struct(_KIND).n_unique()).item()
    cells = answers.group_by(TEMPLATE, "language").agg(pl.col("score").mean(), (1 / pl.len()).alias("part"))
    wide = cells.pivot(on="language", index=TEMPLATE, values="score").drop_nulls().drop(TEMPLATE)
    if freedom < LEAST_FREEDOM or wide.height < 2:
        return {}
    gaps = answers.select((pl.col("score") - pl.col("score").mean().over(_KIND)) ** 2)
    answer = float(gaps["score"].sum()) / freedom
    noise = answer * float(cells["part"].mean())  # type: ignore[arg-type]
    scores = wide.to_numpy() - wide.to_numpy().mean(axis=0)
    templates, languages = scores.shape
    means = scores.mean(axis=1)
    between = languages * float((means**2).sum()) / (templates - 1)
    crossed = noise
    if languages > 1:
        crossed = float(((scores - means[:, None]) ** 2).sum()) / (templates - 1) / (languages - 1)
    variances = {"template": (between - crossed) / languages, "template_language": crossed - noise, "answer": answer}
    return {name: float(np.sqrt(max(variance, 0.0))) for name, variance in variances.items()}


def question_share(frame: polars.DataFrame, metric: Metric) -> float | None:
    """How much of the variance of one answer its question makes; None where no question was asked twice."""
    import polars as pl

    answers = answer_scores(frame, metric, "discard").with_columns(
        gap=pl.col("score") - pl.col("score").mean().over(_KIND)
    )
    groups = answers.group_by(TEMPLATE, "language", QUESTION).agg(
        pl.len(), pl.col("gap").sum(), (pl.col("gap") ** 2).sum().alias("squares")
    )
    return pooled_share(groups.select("len", "gap", "squares").rows())
