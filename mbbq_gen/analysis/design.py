"""Decision studies: the cheapest design with a given interval width, or the narrowest interval for a given price.

Generalizability theory (Brennan 2001, "Generalizability Theory", ch. 4) predicts the variance of a score in another
design from its variance components. In every language and split, a design has

    N templates × n answers: m questions in k prompt variants and o orders each, n = m · k · o; a template with fewer
    questions gives its n answers in more prompt variants and orders, if there are any

and the questions alternate between K ≥ k prompt variants. The variance is that of `mbbq_gen.analysis.power`, with
min(K, m·k) prompt variants for each template and equal weights of templates. The width of a 95 % interval is
2 · t(N − 1) · √variance. Random prompt variants have t with K − 1 degrees of freedom, and the squares of both are
added.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from scipy import special

from mbbq_gen.analysis import power
from mbbq_gen.analysis.power import VarianceAssumptions
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.codes import MIN_TEMPLATES, TOO_FEW, PromptEffects
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import QUESTION, TEMPLATE, answer_scores
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.intervals import MIN_PROMPT_VARIANTS, TOO_FEW_PROMPT_VARIANTS
from mbbq_gen.statistics.variance_components import (
    Cells,
    Codes,
    Term,
    TooFewCellsError,
    estimate_components,
    variance_components,
)

DesignTarget = Literal["score", "difference between languages"]
_QUESTIONS: Final[dict[DesignTarget, power.Question]] = {
    "score": "one score against 0",
    "difference between languages": "two languages",
}
EVERY: Final = 48
"""All numbers of questions up to this are tried; above it, in steps of 5 %."""
ORDERS: Final = (1, 2, 3, 6)


class Components(FrozenModel):
    """The variance components that designs are evaluated with, as standard deviations."""

    assumptions: VarianceAssumptions
    question_share: float
    """Share of the variance of an answer due to its question, which repetition does not reduce."""
    question_source: str


_SHARES: Final = VarianceAssumptions(
    **{name: sd / 2 for name, sd in power.DEFAULTS.model_dump(exclude={"answer", "source"}).items()},
    answer=0.5,
    source="assumed, of a share near one half; give --pilot RUN to take those of a run",
)


def assumed_components(metric: Metric) -> Components:
    """The components without a pilot run, for biases from −1 to 1 or shares from 0 to 1."""
    return Components(
        assumptions=power.DEFAULTS if metric.low < 0 else _SHARES,
        question_share=power.QUESTION_SHARE,
        question_source="assumed; give --pilot RUN to measure it",
    )


@dataclass(frozen=True)
class DesignSpace:
    """The available questions, prompt variants and orders in each language and split."""

    stock: tuple[int, ...]
    """Number of questions of each template that count for the metric."""
    prompt_variants: int
    orders: int
    """Option orders of the policy: 1, 3 or 6."""
    cells: int
    """Languages × splits."""

    def check(self, speaks_of: PromptEffects) -> None:
        """Raises UsageError for too few templates, or too few prompt variants as random effects."""
        if len(self.stock) < MIN_TEMPLATES:
            raise UsageError(f"{len(self.stock)} template(s) have questions that count for the metric: {TOO_FEW}")
        if speaks_of == "random" and self.prompt_variants < MIN_PROMPT_VARIANTS:
            raise UsageError(
                f"{self.prompt_variants} prompt variant(s): {TOO_FEW_PROMPT_VARIANTS}; give more with --variants"
            )


_Shape = tuple[int, int, int]
"""Prompt variants in total, prompt variants of a question, orders of a question."""


class StudyDesign(FrozenModel):
    """A design, with its cost and interval width."""

    templates: int
    questions: int
    """Questions of each template, at most all."""
    prompt_variants: int
    """Prompt variants that the questions alternate between."""
    prompt_variants_each: int
    orders_each: int
    answers: int
    """Answers of a template in each language and split, at most all."""
    requests: int
    cost: float | None
    """US dollars; None without a price."""
    batch_cost: float | None
    width: float
    """Width of the 95 % interval that `score` shows, with the same `--prompt-effects`."""

    @property
    def shape(self) -> _Shape:
        """Prompt variants in total, prompt variants of a question, orders of a question."""
        return self.prompt_variants, self.prompt_variants_each, self.orders_each


class Price(FrozenModel):
    """The mean price of one request over languages and prompt variants."""

    online: float | None
    batch: float | None


def question_counts(most: int) -> tuple[int, ...]:
    """The numbers of questions to try, up to `most`."""
    counts = list(range(1, min(most, EVERY) + 1))
    while counts[-1] < most:
        counts.append(min(most, counts[-1] + max(1, counts[-1] // 20)))
    return tuple(counts)


@dataclass(frozen=True)
class DesignSearch:
    """A grid search over designs."""

    target: DesignTarget
    components: Components
    space: DesignSpace
    price: Price
    confidence: float = 0.95
    speaks_of: PromptEffects = "fixed"

    def ranked(self, *, width: float | None = None, requests: float | None = None) -> list[StudyDesign]:
        """The best design of each shape, best first.

        With a width, by requests among designs with at most this width; else by width among designs with at most so
        many requests. A design with all questions is either first or excluded.
        """
        most, everything = self.space.prompt_variants, self.everything()
        orders = [count for count in ORDERS if count <= self.space.orders]
        shapes = (
            (variants, each, n) for variants in range(1, most + 1) for each in range(1, variants + 1) for n in orders
        )
        designs = [design for shape in shapes if (design := self._best_of(shape, width=width, requests=requests))]
        designs.sort(key=lambda one: (one.width, one.requests) if width is None else (one.requests, one.width))
        if designs and designs[0].requests == everything.requests:
            designs[0] = everything
        others = (one for one in designs[1:] if one.requests < everything.requests)
        return designs[:1] + [one for one in others if one.shape != designs[0].shape]

    def as_run(self, *, width: float | None = None, requests: float | None = None) -> StudyDesign | None:
        """The best design of `run --answers-per-template`: all templates, alternating prompt variants, one order."""
        shape = (self.space.prompt_variants, 1, 1)
        return self._best_of(shape, width=width, requests=requests, fewest=len(self.space.stock))

    def everything(self) -> StudyDesign:
        """The design with all questions in all prompt variants and orders."""
        space = self.space
        return self.at(len(space.stock), max(space.stock), space.prompt_variants, space.prompt_variants, space.orders)

    def _best_of(
        self, shape: _Shape, *, width: float | None, requests: float | None, fewest: int = MIN_TEMPLATES
    ) -> StudyDesign | None:
        """The design of a shape with the fewest requests or the least width; None if there is none."""
        space = self.space
        templates = np.arange(fewest, len(space.stock) + 1, dtype=np.float64)[:, None]
        most = -(-max(space.stock) * space.prompt_variants * space.orders // (shape[1] * shape[2]))
        questions = np.array(question_counts(most), dtype=np.float64)[None, :]
        needed, widths = self._requests_and_widths(shape, templates, questions)
        values = np.where(needed <= (requests or 0.0), widths, np.inf)
        if width is not None:
            values = np.where(widths <= width, needed, np.inf)
        row, column = np.unravel_index(int(values.argmin()), values.shape)
        if not np.isfinite(values[row, column]):
            return None
        return self.at(int(templates[row, 0]), int(questions[0, column]), *shape)

    def at(self, templates: int, questions: int, variants: int, each: int, orders: int = 1) -> StudyDesign:
        """The design with these numbers; `each`: prompt variants of every question."""
        sizes = np.array([[float(templates)]]), np.array([[float(questions)]])
        needed, widths = self._requests_and_widths((variants, each, orders), *sizes)
        requests, price = round(float(needed[0, 0])), self.price
        return StudyDesign(
            templates=templates,
            questions=min(questions, max(self.space.stock)),
            prompt_variants=variants,
            prompt_variants_each=each,
            orders_each=orders,
            answers=questions * each * orders,
            requests=requests,
            cost=None if price.online is None else requests * price.online,
            batch_cost=None if price.batch is None else requests * price.batch,
            width=float(widths[0, 0]),
        )

    def _requests_and_widths(self, shape: _Shape, templates: Array, questions: Array) -> tuple[Array, Array]:
        """Requests and interval widths by templates × questions, for random templates."""
        (variants, each, orders), space, sd = shape, self.space, self.components.assumptions
        question, level = _QUESTIONS[self.target], 0.5 + self.confidence / 2
        stock = np.array(space.stock, dtype=np.float64)
        used = np.minimum(questions[..., None], stock)
        answers = np.minimum(questions[..., None] * each * orders, stock * space.prompt_variants * space.orders)
        answer = power.answer_variance(sd.answer, self.components.question_share, used, answers)
        variants_used = np.minimum(variants, questions * each)  # of each template
        variance = power.variance_of(question, sd, templates, variants_used, answer.mean(axis=-1) / templates)
        squares = special.stdtrit(templates - 1, level) ** 2 * variance
        if self.speaks_of == "random":
            t = special.stdtrit(variants - 1, level) if variants >= MIN_PROMPT_VARIANTS else float("inf")
            squares = squares + t**2 * power.variance_of_variants(question, sd, variants)
        return templates * answers.mean(axis=-1) * space.cells, 2 * squares**0.5


LEAST_FREEDOM: Final = 20
"""Least degrees of freedom to estimate the variance within templates: answers minus groups."""


def measured_components(frame: pl.DataFrame, metric: Metric, source: str) -> Components:
    """The components of the bias split of a run. Raises as `measured_assumptions`."""
    bias = frame.filter(pl.col("split") == "bias")
    share = question_share(bias, metric)
    return Components(
        assumptions=measured_assumptions(bias, metric, source),
        question_share=power.QUESTION_SHARE if share is None else share,
        question_source="assumed: no question has two answers there" if share is None else f"taken from {source}",
    )


def measured_assumptions(frame: pl.DataFrame, metric: Metric, source: str) -> VarianceAssumptions:
    """The standard deviations estimated from the answers of one split; others keep the assumed values.

    If templates rarely have a prompt variant twice, the residual variance is estimated within templates, languages and
    kinds of question, and the variance of templates from means by template and language.

    Raises:
        UsageError: if nothing varies, or the metric is not a mean over answers.
    """
    with suppress(TooFewCellsError):
        table = variance_components(frame, metric, InferenceSettings())
        if table.chance is not None or table.is_balanced:
            return power.assumptions_of(table, f"taken from {source}")
    answers = answer_scores(frame, metric, "discard")
    freedom = answers.height - answers.select(pl.struct(_KIND).n_unique()).item()
    cells = answers.group_by(TEMPLATE, "language").agg(pl.col("score").mean(), pl.len()).sort(TEMPLATE, "language")
    if freedom < LEAST_FREEDOM or cells[TEMPLATE].n_unique() < 2:
        reason = f"{power.DEFAULTS.source.split(';')[0]}; {source} has too few answers per template"
        return power.DEFAULTS.model_copy(update={"source": reason})
    squares = answers.select((pl.col("score") - pl.col("score").mean().over(_KIND)) ** 2)
    answer = float(squares["score"].sum()) / freedom
    codes: dict[Term, Codes] = {("template",): _codes(cells[TEMPLATE])}
    if cells["language"].n_unique() > 1:
        codes |= {("language",): _codes(cells["language"]), ("template", "language"): np.arange(cells.height)}
    sizes = cells["len"].to_numpy().astype(float)
    components = estimate_components(Cells(cells["score"].to_numpy(), codes, answer, sizes))
    update = {
        "template": components[("template",)][0] ** 0.5,
        "template_language": components.get(("template", "language"), (0.0,))[0] ** 0.5,
        "answer": answer**0.5,
        "source": f"taken from {source}: template, template × language, one answer; assumed: prompt variants",
    }
    return power.DEFAULTS.model_copy(update=update)


_KIND = (TEMPLATE, "language", "condition", "polarity", "alignment")


def _codes(column: pl.Series) -> Codes:
    return np.unique(column.cast(pl.String).to_numpy(), return_inverse=True)[1].reshape(-1).astype(np.int64)


def question_share(frame: pl.DataFrame, metric: Metric) -> float | None:
    """The share of the variance of an answer due to its question; None if no question has two answers."""
    gap = pl.col("score") - pl.col("score").mean().over(_KIND)
    answers = answer_scores(frame, metric, "discard").with_columns(gap=gap)
    return pooled_share(answers.select(pl.struct(TEMPLATE, "language", QUESTION).alias("question"), "gap"))


def pooled_share(answers: pl.DataFrame) -> float | None:
    """The intraclass correlation of `gap` within values of `question`, by unbalanced one-way analysis of variance."""
    groups = answers.group_by("question").agg(pl.len().cast(pl.Float64), pl.col("gap").sum())
    sizes, totals = groups["len"].to_numpy(), groups["gap"].to_numpy()
    n, k = float(answers.height), groups.height
    if n <= k or k < 2:
        return None
    between = float((totals**2 / sizes).sum())
    residual = (float((answers["gap"] ** 2).sum()) - between) / (n - k)
    question = max((between / (k - 1) - residual) / (n - float((sizes**2).sum()) / n) * (k - 1), 0.0)
    return question / (question + residual) if question + residual > 0 else None
